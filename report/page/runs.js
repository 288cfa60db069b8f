/* Runs as the curves need them. A report contains columns that were computed in C; a live page
 * computes the same columns from the lines it receives. */

const STAGES = ["compute", "direction", "encode", "wire", "group", "combine", "decode", "update"];
const SERIES = ["loss", "residual_norm", "compression_error", "bits"];
const EVALUATIONS = ["step", "seconds", "bytes", "loss", "accuracy"];
const MOST_LIVE_POINTS = 4000;

class Run {
  constructor(about, index) {
    this.about = about;
    this.index = index;
    this.settings = settingsOf(about);
    this.clock = about.clock || { step: [], bytes: [], seconds: [], work: [] };
    this.series = {};
    for (const key of SERIES) this.series[key] = about[key] || null;
    this.evaluations = about.evaluations || { step: [], seconds: [], bytes: [], loss: [], accuracy: [] };
    this.stages = about.stages || null;
    this.tensors = about.tensors || [];
    this.end = about.end || null;
    this.notes = about.notes || [];
  }

  get diverged() { return this.end !== null && this.end.status === "diverged"; }
  /* It was not cut short: its last values are its result. */
  get complete() { return this.end !== null && this.end.status !== "stopped"; }
  get seedText() { return isNumber(this.about.seed) ? `seed ${this.about.seed}` : this.about.name || `run ${this.index + 1}`; }

  /* Bytes, seconds and seconds of work until `step`; between two lines they grow evenly. */
  at(step) {
    const { clock } = this;
    const count = clock.step.length;
    if (count === 0) return { bytes: 0, seconds: 0, work: 0 };
    let low = 0;
    let high = count - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (clock.step[middle] < step) low = middle + 1; else high = middle;
    }
    const from = low > 0 ? low - 1 : -1;
    const before = from < 0 ? 0 : clock.step[from];
    const span = clock.step[low] - before;
    const part = span > 0 ? Math.min(1, Math.max(0, (step - before) / span)) : 1;
    const mix = (column) => {
      const start = from < 0 ? 0 : column[from];
      return start + (column[low] - start) * part;
    };
    return { bytes: mix(clock.bytes), seconds: mix(clock.seconds), work: mix(clock.work) };
  }

  /* The position of a moment of the run on the axis. `given` holds what was measured at that moment. */
  place(axis, link, step, given) {
    if (axis === "step") return step;
    const known = this.at(step);
    const bytes = given && isNumber(given.bytes) ? given.bytes : known.bytes;
    if (axis === "bytes") return bytes;
    if (axis === "link") return known.work + (8 * bytes) / link;
    return given && isNumber(given.seconds) ? given.seconds : known.seconds;
  }

  stepPoints(key, axis, link) {
    const series = this.series[key];
    if (!series) return [];
    const all = series.step.map((step, i) => ({ step, x: this.place(axis, link, step), y: series.value[i] }));
    /* A non-finite loss is a gap; the other series are measured in some steps only. */
    return key === "loss" ? all : all.filter((point) => isNumber(point.y));
  }

  evaluationPoints(key, axis, link) {
    const all = this.evaluations;
    if (!all[key] || !all[key].some(isNumber)) return [];
    return all.step.map((step, i) => ({
      step, y: all[key][i],
      x: this.place(axis, link, step, { bytes: all.bytes[i], seconds: all.seconds[i] }),
    }));
  }

  last(column) {
    for (let i = column.length; i-- > 0;) if (isNumber(column[i])) return column[i];
    return NaN;
  }

  get lastStep() { return this.end && isNumber(this.end.step) ? this.end.step : this.last(this.clock.step); }
  get accuracy() {
    if (this.diverged) return NaN;
    return this.end && isNumber(this.end.accuracy) ? this.end.accuracy : this.last(this.evaluations.accuracy);
  }
  get loss() {
    if (this.diverged) return NaN;
    const measured = this.last(this.evaluations.loss);
    if (this.end && isNumber(this.end.loss)) return this.end.loss;
    return isNumber(measured) ? measured : this.series.loss ? this.last(this.series.loss.value) : NaN;
  }
  get seconds() { return this.end && isNumber(this.end.seconds) ? this.end.seconds : this.last(this.clock.seconds); }
  /* Bytes per step by tensor, or null. */
  get tensorBytes() {
    const sums = this.end && this.end.tensor_bytes;
    if (!sums || sums.length !== this.tensors.length || !(this.lastStep > 0)) return null;
    return sums.map((sum) => sum / this.lastStep);
  }
  get ratio() { return this.about.dense_per_step / this.about.bytes_per_step; }
  get bestAccuracy() { return Math.max(...this.evaluations.accuracy.filter(isNumber)); }
  linkSeconds(link) { return this.clock.step.length > 0 ? this.place("link", link, this.last(this.clock.step)) : NaN; }

  /* The first evaluation that reached the accuracy: { step, seconds, bytes }, or null. */
  reach(target) {
    const all = this.evaluations;
    const i = all.accuracy.findIndex((accuracy) => isNumber(accuracy) && accuracy >= target - 1e-9);
    if (i < 0) return null;
    const moment = { bytes: all.bytes[i], seconds: all.seconds[i] };
    return {
      step: all.step[i],
      bytes: this.place("bytes", 1, all.step[i], moment),
      seconds: this.place("seconds", 1, all.step[i], moment),
    };
  }

  /* ---- live: one line of metrics */

  push(line) {
    if (line.kind === "step") this.pushStep(line);
    else if (line.kind === "evaluation") this.pushEvaluation(line);
    else if (line.kind === "end") this.end = line;
  }

  pushStep(line) {
    const { clock } = this;
    const count = clock.step.length;
    const before = count > 0 ? count - 1 : -1;
    const was = (column) => (before < 0 ? 0 : column[before]);
    if (!isNumber(line.step) || (before >= 0 && line.step <= clock.step[before])) return;
    const stride = line.step - was(clock.step) || 1;
    const stages = line.stages;
    const work = stages
      ? STAGES.reduce((sum, name) => sum + (name === "group" ? 0 : stages[name] || 0), 0) * stride
      : line.seconds - was(clock.seconds);
    clock.bytes.push(was(clock.bytes) + line.bytes_sent * stride);
    clock.work.push(was(clock.work) + work);
    clock.seconds.push(line.seconds);
    clock.step.push(line.step);
    for (const key of SERIES) this.pushValue(key, line.step, line[key]);
    this.pushMeans(line, stride);
    thinColumns(clock, "bytes");
  }

  pushValue(key, step, value) {
    if (value === undefined) return;
    const series = this.series[key] || (this.series[key] = { step: [], value: [] });
    series.step.push(step);
    series.value.push(value);
    thinColumns(series, "value");
  }

  pushMeans(line, stride) {
    const about = this.about;
    const steps = (this.meanSteps || 0) + stride;
    const mix = (mean, value) => (mean || 0) + ((value || 0) - (mean || 0)) * (stride / steps);
    about.bytes_per_step = mix(about.bytes_per_step, line.bytes_sent);
    about.dense_per_step = mix(about.dense_per_step, line.dense_bytes);
    if (line.stages) {
      this.stages = this.stages || {};
      for (const name of STAGES) this.stages[name] = mix(this.stages[name], line.stages[name]);
    }
    this.meanSteps = steps;
  }

  pushEvaluation(line) {
    const values = { ...line, bytes: line.bytes_sent_total };
    for (const key of EVALUATIONS) this.evaluations[key].push(isNumber(values[key]) ? values[key] : null);
  }
}

/* Halves columns that are too long: of four rows the minimum and the maximum stay. */
function thinColumns(columns, key) {
  const values = columns[key];
  if (values.length <= MOST_LIVE_POINTS) return;
  const keep = [];
  const inner = values.length - 1;
  for (let from = 0; from < inner; from += 4) {
    const rows = [from, from + 1, from + 2, from + 3].filter((row) => row < inner);
    const sorted = [...rows].sort((a, b) => values[a] - values[b]);
    keep.push(...new Set([sorted[0], sorted[sorted.length - 1]].sort((a, b) => a - b)));
  }
  keep.push(inner);
  for (const name of Object.keys(columns)) {
    if (Array.isArray(columns[name])) columns[name] = keep.map((row) => columns[name][row]);
  }
}

/* The mean over a window around each point, of logarithms where the axis is logarithmic. At the start,
 * where curves are steep, the window narrows on both sides, so that the smoothed curve begins where
 * the data begins. */
function smoothed(points, log) {
  const into = log ? Math.log : (value) => value;
  const back = log ? Math.exp : (value) => value;
  const usable = (value) => isNumber(value) && (!log || value > 0);
  const sums = [0];
  const counts = [0];
  for (const { y } of points) {
    sums.push(sums[sums.length - 1] + (usable(y) ? into(y) : 0));
    counts.push(counts[counts.length - 1] + (usable(y) ? 1 : 0));
  }
  const widest = Math.max(2, Math.round(points.length / 40));
  return points.map((point, i) => {
    if (!usable(point.y)) return point;
    const left = Math.min(widest, i);
    const right = Math.min(i < points.length / 2 ? left : widest, points.length - 1 - i);
    const count = counts[i + right + 1] - counts[i - left];
    return { ...point, y: back((sums[i + right + 1] - sums[i - left]) / count) };
  });
}
