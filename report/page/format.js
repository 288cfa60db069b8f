/* Numbers as text, and the ticks of an axis. */

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/* Three significant digits: 41.0, 0.123, 1.35; no exponent where it can be avoided. */
function three(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size === 0 || Number.isInteger(value) && size < 10) return String(value);
  if (size < 1e-3 || size >= 1e6) return value.toExponential(2).replace("e+", "e");
  const rounded = Number(size.toPrecision(3)); /* 0.9996 has the digits of 1.00 */
  return value.toFixed(Math.max(0, 2 - Math.floor(Math.log10(rounded))));
}

/* The same without trailing zeros, for ticks and settings: 41, 0.5. */
function short(value) {
  const text = three(value);
  if (!isNumber(value)) return text;
  return text.includes("e") ? Number(text).toExponential().replace("e+", "e") : String(Number(text));
}

function scaled(value, units, steps, form) {
  let unit = 0;
  while (unit + 1 < units.length && Math.abs(value) >= steps[unit] * 0.9995) {
    value /= steps[unit];
    unit += 1;
  }
  return `${unit === 0 && Number.isInteger(value) ? value : form(value)} ${units[unit]}`;
}

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const bytesText = (value, form = three) =>
  isNumber(value) ? scaled(value, BYTE_UNITS, [1e3, 1e3, 1e3, 1e3, 1e3], form) : "–";

function secondsText(value, form = three) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size >= 172800) return `${form(value / 86400)} days`;
  if (size >= 7200) return `${form(value / 3600)} h`;
  if (size >= 120) return `${form(value / 60)} min`;
  if (size >= 1 || size === 0) return `${form(value)} s`;
  return size >= 1e-3 ? `${form(value * 1e3)} ms` : `${form(value * 1e6)} µs`;
}

const percentText = (value) => (isNumber(value) ? `${(value * 100).toFixed(2)} %` : "–");
const countText = (value) => (isNumber(value) ? Math.round(value).toLocaleString("en-US") : "–");
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const lossText = (value) => (isNumber(value) && Math.abs(value) < 100 ? value.toFixed(4) : three(value));
const timesText = (value) => (isNumber(value) ? `${three(value)}×` : "–");

/* Bits per second: "1 Gbit/s", "3.16 Mbit/s". */
const speedText = (bits) => scaled(bits, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"], [1e3, 1e3, 1e3], short);

/* The quantities of an axis. `text` formats a single value; `units` are those of a linear axis: the
 * largest unit of which the axis contains at least `from` is named once, in its title. */
const KINDS = {
  count: { text: countText, units: [[1, ""], [1e6, "million"]], from: 2 },
  bytes: { text: bytesText, units: BYTE_UNITS.map((name, i) => [1000 ** i, name]), from: 1.5 },
  seconds: { text: secondsText, units: [[1e-6, "µs"], [1e-3, "ms"], [1, "s"], [60, "min"], [3600, "h"]], from: 2 },
  percent: { text: percentText, units: [[0.01, "%"]], from: 0 },
  times: { text: timesText, units: [[1, ""]], from: 0 },
  number: { text: lossText, units: [[1, ""]], from: 0 },
};

function unitOf(kind, most) {
  let best = KINDS[kind].units[0];
  for (const unit of KINDS[kind].units) if (most >= unit[0] * KINDS[kind].from) best = unit;
  return best;
}

/* About `wanted` round numbers inside low..high. */
function roundTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) ticks.push(i * step + 0);
  return { ticks, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

/* Powers of ten; with 2 and 5 between where there are few, and round numbers within one decade. */
function logTicks(low, high, wanted) {
  const decades = Math.log10(high / low);
  if (decades < 0.8) return roundTicks(low, high, wanted).ticks.filter((tick) => tick > 0);
  const factors = decades <= wanted / 3 ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil(decades / wanted));
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    if (power % stride !== 0) continue;
    for (const factor of factors) {
      const tick = factor * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}
