/* One plot: axes, curves, the nearest point to the pointer or the keyboard's, and a text version.
 * It draws the points of its spec; of a run it uses label, colour and dash only.
 *
 *   spec.points(run, state)  [{ x, y, step }], y null where nothing was measured
 *   spec.x(state)            { kind, title, log }
 *   spec.kind, spec.title, spec.what     the vertical axis; `what` names one value
 *   spec.least               the number of runs from which on it is drawn; 1 by default
 *   spec.noisy               it may be smoothed
 *   spec.marks               points have marks
 *   spec.labels              marks have names */

const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(tag, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text) {
  ruler.font = `11.5px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

/* A linear or logarithmic axis over pixels from..to. */
class Axis {
  constructor(kind, low, high, log, from, to, wanted) {
    this.kind = kind;
    this.log = log && low > 0;
    this.from = from;
    this.to = to;
    if (!(high > low)) {
      const about = this.log ? 0 : Math.abs(low) * 0.05 || 1;
      low = this.log ? low / 2 : low - about;
      high = this.log ? high * 2 : high + about;
    }
    this.low = low;
    this.high = high;
    this.unit = unitOf(kind, Math.max(Math.abs(low), Math.abs(high)));
    if (this.log) {
      this.ticks = logTicks(low, high, wanted).map((value) => ({ value, text: this.logText(value) }));
    } else {
      const { ticks, decimals } = roundTicks(low / this.unit[0], high / this.unit[0], wanted);
      const odd = Math.max(...ticks.map(Math.abs)) >= 1e7 || decimals > 4;
      this.ticks = ticks.map((tick) => ({
        value: tick * this.unit[0],
        text: odd ? short(tick)
          : tick.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }),
      }));
    }
  }

  logText(value) {
    if (this.kind === "percent") return `${short(value * 100)} %`;
    if (this.kind === "number") return short(value);
    return KINDS[this.kind].text(value, short);
  }

  /* The suffix of the title: a linear axis names its unit once. */
  get suffix() { return !this.log && this.unit[1] ? ` (${this.unit[1]})` : ""; }

  at(value) {
    const part = this.log
      ? Math.log(value / this.low) / Math.log(this.high / this.low)
      : (value - this.low) / (this.high - this.low);
    return this.from + (this.to - this.from) * part;
  }

  has(value) { return isNumber(value) && (!this.log || value > 0); }
}

class Plot {
  constructor(spec, state) {
    this.spec = spec;
    this.state = state;
    this.logY = false;
    this.logChosen = false; /* Until the reader chooses, the range of values decides. */
    this.focused = null; /* { series, point } */
    this.build();
  }

  build() {
    const { spec } = this;
    this.heading = element("h2", { id: `${spec.id}-title` });
    this.logButton = element("button", { type: "button", class: "quiet", "aria-pressed": this.logY }, "log");
    this.logButton.setAttribute("aria-label", `${spec.title}: logarithmic vertical axis`);
    this.logButton.addEventListener("click", () => {
      this.logY = !this.logY;
      this.logChosen = true;
      this.draw();
    });
    this.chart = element("div", { class: "chart", tabindex: "0", role: "group", "aria-roledescription": "chart" });
    this.tip = element("div", { class: "tip", hidden: "" });
    this.body = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${spec.title}: table` });
    this.details = element("details", {}, element("summary", {}, "as a table"), this.body);
    this.card = element("article", { class: "card", id: spec.id, "aria-labelledby": `${spec.id}-title` },
      element("div", { class: "card-head" }, this.heading, this.logButton), this.chart, this.details);
    this.chart.addEventListener("pointermove", (event) => this.point(event));
    this.chart.addEventListener("pointerdown", (event) => this.point(event));
    this.chart.addEventListener("pointerleave", () => this.choose(null));
    this.chart.addEventListener("blur", () => this.choose(null));
    this.chart.addEventListener("focus", () => this.start());
    this.chart.addEventListener("keydown", (event) => this.key(event));
    this.details.addEventListener("toggle", () => this.fillTable());
  }

  /* ---- drawing */

  collect() {
    const all = [];
    for (const run of this.state.runs) {
      const points = this.spec.points(run, this.state);
      if (points.length > 0) all.push({ run, points });
    }
    this.any = all.length >= (this.spec.least || 1);
    this.series = all.filter(({ run }) => run.shown);
  }

  range(get, log) {
    let low = Infinity;
    let high = -Infinity;
    for (const { points } of this.series) {
      for (const point of points) {
        const value = get(point);
        if (!isNumber(value) || (log && value <= 0) || !isNumber(point.y)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    return low <= high ? [low, high] : [log ? 1 : 0, log ? 10 : 1];
  }

  /* On a linear axis a run that diverged would flatten all others. */
  chooseLog() {
    if (!this.logChosen && this.spec.kind === "number") {
      const [low, high] = this.range((point) => point.y, true);
      this.logY = high / low > 1e4;
    }
    this.logButton.setAttribute("aria-pressed", this.logY);
  }

  makeAxes(width, height) {
    this.chooseLog();
    const about = this.spec.x(this.state);
    const [left, right] = this.range((point) => point.x, about.log);
    let [bottom, top] = this.range((point) => point.y, this.logY);
    if (!this.logY) {
      const pad = (top - bottom) * 0.05;
      bottom = bottom >= 0 && bottom - pad < 0 ? 0 : bottom - pad;
      top += pad;
    } else if (top > bottom) {
      const pad = (top / bottom) ** 0.04;
      bottom /= pad;
      top *= pad;
    }
    const box = { top: this.spec.labels ? 20 : 8, bottom: height - 40, right: width - 14 };
    this.y = new Axis(this.spec.kind, bottom, top, this.logY, box.bottom, box.top, Math.floor(height / 52));
    box.left = 12 + Math.max(...this.y.ticks.map((tick) => textWidth(tick.text)), 20);
    const low = about.log ? left : this.spec.labels ? left : Math.min(0, left);
    this.x = new Axis(about.kind, this.spec.labels ? low / 1.5 : low, this.spec.labels ? right * 1.5 : right,
      about.log, box.left, box.right, Math.floor((box.right - box.left) / 78));
    this.box = box;
    this.xTitle = about.title;
  }

  draw() {
    this.collect();
    this.card.hidden = !this.any;
    if (!this.any) return;
    this.choose(null);
    const width = Math.max(260, this.chart.clientWidth || 600);
    const height = this.spec.labels ? 300 : 260;
    this.makeAxes(width, height);
    this.heading.textContent = this.spec.title + this.y.suffix;
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-hidden": "true" });
    this.drawGrid(svg);
    for (const series of this.series) this.drawSeries(svg, series);
    if (this.spec.labels) this.drawLabels(svg);
    this.cross = shape("g", { class: "focus" });
    svg.append(this.cross);
    this.chart.replaceChildren(svg, this.tip);
    if (this.series.length === 0) this.chart.append(element("p", { class: "empty" }, "No run is shown."));
    this.chart.setAttribute("aria-label", this.words());
    if (this.details.open) this.fillTable();
  }

  drawGrid(svg) {
    const { box } = this;
    for (const tick of this.y.ticks) {
      const y = Math.round(this.y.at(tick.value)) + 0.5;
      svg.append(shape("line", { class: "gridline", x1: box.left, x2: box.right, y1: y, y2: y }),
        shape("text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, tick.text));
    }
    let free = -Infinity;
    for (const tick of this.x.ticks) {
      const x = this.x.at(tick.value);
      const half = textWidth(tick.text) / 2;
      const at = Math.min(x, box.right + 12 - half);
      svg.append(shape("line", { class: "axis", x1: x, x2: x, y1: box.bottom, y2: box.bottom + 4 }));
      if (at - half < free) continue;
      svg.append(shape("text", { x: at, y: box.bottom + 17, "text-anchor": "middle" }, tick.text));
      free = at + half + 8;
    }
    svg.append(shape("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom + 0.5, y2: box.bottom + 0.5 }),
      shape("text", { class: "x-title", x: (box.left + box.right) / 2, y: box.bottom + 35, "text-anchor": "middle" },
        this.xTitle + this.x.suffix));
  }

  path(points) {
    let line = "";
    let pen = "M";
    for (const point of points) {
      if (!this.x.has(point.x) || !this.y.has(point.y)) {
        pen = "M";
        continue;
      }
      line += `${pen}${this.x.at(point.x).toFixed(1)} ${this.y.at(point.y).toFixed(1)}`;
      pen = "L";
    }
    return line;
  }

  drawSeries(svg, series) {
    const { run, points } = series;
    const style = `stroke:${run.colour}`;
    const smooth = this.spec.noisy && this.state.smooth && points.length > 60;
    series.drawn = smooth ? smoothed(points, this.logY) : points;
    if (!this.spec.labels) {
      if (smooth) svg.append(shape("path", { class: "series raw", d: this.path(points), style }));
      svg.append(shape("path", {
        class: "series", d: this.path(series.drawn), style, "stroke-dasharray": run.dash, "data-run": run.index,
      }));
    }
    if (!this.spec.marks || points.length > 40) return;
    for (const point of points) {
      if (!this.x.has(point.x) || !this.y.has(point.y)) continue;
      svg.append(shape("circle", {
        cx: this.x.at(point.x).toFixed(1), cy: this.y.at(point.y).toFixed(1), r: this.spec.labels ? 5 : 2.4,
        style: `fill:${run.colour}`, "data-run": run.index,
      }));
    }
  }

  /* A method is named once, where its name covers no mark and no other name. Where no position is
   * free, hover, legend and table have the name. */
  drawLabels(svg) {
    const { box } = this;
    const taken = [];
    const marks = [];
    for (const { run, points } of this.series) {
      const [point] = points;
      if (!this.x.has(point.x) || !this.y.has(point.y)) continue;
      const x = this.x.at(point.x);
      const y = this.y.at(point.y);
      if (run.sibling === 0 || !marks.some((mark) => mark.run.name === run.name)) marks.push({ run, x, y });
      taken.push([x - 6, y - 6, x + 6, y + 6]);
    }
    const clash = (a) => taken.some((b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]);
    for (const { run, x, y } of marks) {
      const width = textWidth(run.name) + 2;
      const places = [[x + 10, y - 7], [x - 10 - width, y - 7], [x - width / 2, y - 22], [x - width / 2, y + 9],
        [x + 8, y - 20], [x + 8, y + 6], [x - 8 - width, y - 20], [x - 8 - width, y + 6]];
      const place = places.map(([left, top]) => [left, top, left + width, top + 14]).find((area) =>
        area[0] >= box.left + 2 && area[2] <= box.right + 10 && area[1] >= 0 && area[3] <= box.bottom && !clash(area));
      if (!place) continue;
      taken.push(place);
      svg.append(shape("text", { class: "mark-label", x: place[0], y: place[1] + 11 }, run.name));
    }
  }

  /* ---- nearest point */

  point(event) {
    const frame = this.chart.getBoundingClientRect();
    const x = event.clientX - frame.left;
    const y = event.clientY - frame.top;
    let best = null;
    let least = Infinity;
    for (const series of this.series) {
      series.points.forEach((point, index) => {
        if (!this.x.has(point.x) || !this.y.has(point.y)) return;
        const away = (this.x.at(point.x) - x) ** 2 + (this.y.at(point.y) - y) ** 2;
        if (away < least) {
          least = away;
          best = { series, index };
        }
      });
    }
    this.choose(best);
  }

  valueText(point) {
    return KINDS[this.spec.kind].text(point.y);
  }

  placeText(point) {
    const about = this.spec.x(this.state);
    return `${KINDS[about.kind].text(point.x)}${about.kind === "count" ? " steps" : ""}`;
  }

  choose(focused) {
    this.focused = focused;
    if (this.cross) this.cross.replaceChildren();
    this.tip.hidden = !focused;
    if (!focused) return;
    const { run, points, drawn } = focused.series;
    const point = points[focused.index];
    const x = this.x.at(point.x);
    const y = this.y.at(point.y);
    this.cross.append(
      shape("line", { class: "cross", x1: x, x2: x, y1: this.box.top, y2: this.box.bottom }),
      shape("circle", { cx: x, cy: y, r: 4.5, style: `fill:${run.colour};stroke:var(--card);stroke-width:2` }));
    const muted = (words) => element("i", {}, words);
    const lines = [element("b", { style: `color:${run.colour}` }, run.label),
      `${this.spec.what} ${this.valueText(point)}`];
    if (drawn !== points && drawn) lines.push(muted(` · smooth ${this.valueText(drawn[focused.index])}`));
    lines.push(element("br"), muted(`at ${this.placeText(point)}`));
    if (this.spec.x(this.state).kind !== "count" && isNumber(point.step)) lines.push(muted(` · step ${countText(point.step)}`));
    this.tip.replaceChildren(...lines);
    const width = this.chart.clientWidth;
    const wide = this.tip.offsetWidth;
    const left = x + 14 + wide > width ? x - 14 - wide : x + 14;
    this.tip.style.left = `${Math.max(0, Math.min(left, width - wide))}px`;
    this.tip.style.top = `${Math.max(0, Math.min(y - this.tip.offsetHeight - 10, this.box.bottom - this.tip.offsetHeight))}px`;
  }

  /* ---- keyboard: left and right along the points, up and down between the runs */

  start() {
    if (!this.focused && this.series.length > 0 && this.chart.matches(":focus-visible")) {
      this.move(this.series[0], this.series[0].points.length - 1, -1);
    }
  }

  /* Selects the first drawn point from `index` on, in direction `way`. */
  move(series, index, way) {
    const { points } = series;
    while (index >= 0 && index < points.length && !(this.x.has(points[index].x) && this.y.has(points[index].y))) index += way;
    if (index < 0 || index >= points.length) return;
    this.choose({ series, index });
    document.getElementById("announce").textContent =
      `${series.run.label}: ${this.spec.what} ${this.valueText(points[index])} at ${this.placeText(points[index])}`;
  }

  key(event) {
    if (this.series.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const now = this.focused || { series: this.series[0], index: 0 };
    const at = this.series.indexOf(now.series);
    const far = event.shiftKey ? 10 : 1;
    const last = now.series.points.length - 1;
    const moves = {
      ArrowRight: () => this.move(now.series, Math.min(last, now.index + far), 1),
      ArrowLeft: () => this.move(now.series, Math.max(0, now.index - far), -1),
      Home: () => this.move(now.series, 0, 1),
      End: () => this.move(now.series, last, -1),
      ArrowUp: () => this.change(at - 1, now),
      ArrowDown: () => this.change(at + 1, now),
      Escape: () => this.choose(null),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }

  /* Selects another run, at the point nearest to the same x. */
  change(to, now) {
    const series = this.series[(to + this.series.length) % this.series.length];
    const { x } = now.series.points[now.index];
    let best = 0;
    series.points.forEach((point, i) => {
      if (Math.abs(point.x - x) < Math.abs(series.points[best].x - x)) best = i;
    });
    this.move(series, best, 1);
  }

  /* ---- text version */

  words() {
    const ends = this.series.map(({ run, points }) => {
      const measured = points.filter((point) => isNumber(point.y));
      return measured.length > 0 ? `${run.label} ends at ${this.valueText(measured[measured.length - 1])}` : run.label;
    });
    return `${this.spec.title}, against ${this.xTitle}. ${ends.join("; ")}. Arrow keys move along the points.`;
  }

  fillTable() {
    if (!this.details.open || !this.any) return;
    const parts = this.spec.labels ? [["value", 1]] : [["first", 0], ["at 25 %", 0.25], ["at 50 %", 0.5], ["at 75 %", 0.75], ["last", 1]];
    const head = element("tr", {}, element("th", { scope: "col" }, "run"), ...parts.map(([name]) => element("th", { scope: "col" }, name)));
    if (!this.spec.labels) head.append(element("th", { scope: "col" }, "minimum"), element("th", { scope: "col" }, "maximum"));
    const rows = this.series.map(({ run, points }) => {
      const measured = points.filter((point) => isNumber(point.y));
      const cell = (point) => element("td", {}, point ? `${this.valueText(point)} at ${this.placeText(point)}` : "–");
      const row = element("tr", {}, element("th", { scope: "row" }, run.label),
        ...parts.map(([, part]) => cell(measured[Math.round(part * (measured.length - 1))])));
      if (this.spec.labels) return row;
      const pick = (better) => measured.reduce((best, point) => (!best || better(point.y, best.y) ? point : best), null);
      row.append(cell(pick((a, b) => a < b)), cell(pick((a, b) => a > b)));
      return row;
    });
    this.body.replaceChildren(element("table", {}, element("caption", { class: "hidden" }, `${this.spec.title}, against ${this.xTitle}`),
      element("thead", {}, head), element("tbody", {}, ...rows)));
  }
}
