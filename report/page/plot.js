/* One plot: axes, curves with bands, marks and names. pointer.js answers the pointer and the keyboard,
 * export.js saves it. Of a group it uses label, colour and dash; its points come from the spec.
 *
 *   spec.points(run, state)  [{ x, y, step }] of one run, y null where nothing was measured
 *   spec.x(state)            { kind, title, log }
 *   spec.kind, spec.title, spec.what     the vertical axis; `what` names one value
 *   spec.least               the number of groups from which on it is drawn; 1 by default
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

  /* The value at a pixel. */
  back(pixel) {
    const part = (pixel - this.from) / (this.to - this.from);
    return this.log ? this.low * (this.high / this.low) ** part : this.low + (this.high - this.low) * part;
  }

  has(value) { return isNumber(value) && (!this.log || value > 0); }
}

class Plot {
  constructor(spec, state) {
    this.spec = spec;
    this.state = state;
    this.logY = false;
    this.logChosen = false; /* Until the reader chooses, the range of values decides. */
    this.zoom = null; /* { x, y, axis }: pairs of values on that axis; y null: what the curves need */
    this.build();
    this.pointer = new Pointer(this);
  }

  build() {
    const { spec } = this;
    const button = (text, words, act) => {
      const made = element("button", { type: "button", class: "quiet", "aria-label": `${spec.title}: ${words}`, title: words }, text);
      made.addEventListener("click", act);
      return made;
    };
    this.logButton = button("log", "logarithmic vertical axis", () => {
      this.logY = !this.logY;
      this.logChosen = true;
      this.setZoom(null);
    });
    this.logButton.classList.add("log");
    this.resetButton = button("reset zoom", "show everything again", () => this.setZoom(null));
    this.resetButton.classList.add("reset");
    const saves = [button("SVG", "save as SVG", () => saveSvg(this)), button("PNG", "save as PNG", () => savePng(this)),
      button("CSV", "save the recorded points as CSV", () => saveSeries(this))];
    for (const save of saves) save.classList.add("save");
    this.chart = element("div", { class: "chart", tabindex: "0", role: "group", "aria-roledescription": "chart" });
    this.tip = element("div", { class: "tip", hidden: "" });
    this.body = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${spec.title}: table` });
    this.details = element("details", {}, element("summary", {}, "as a table"), this.body);
    this.details.addEventListener("toggle", () => this.fillTable());
    this.card = element("article", { class: "card", id: spec.id, "aria-labelledby": `${spec.id}-title` },
      element("div", { class: "card-head" }, element("h2", { id: `${spec.id}-title` }, spec.title),
        element("div", { class: "tools" }, this.resetButton, this.logButton, ...saves)), this.chart, this.details);
  }

  setZoom(zoom) {
    this.zoom = zoom;
    this.draw();
  }

  /* ---- what is drawn */

  /* The curve of a group; beside it those of single seeds, if they are unfolded or not part of the mean. */
  linesOf(group) {
    const pointsOf = (run) => this.spec.points(run, this.state);
    const noisy = (points) => this.spec.noisy && this.state.smooth && points.length > 60;
    const soft = (run) => smoothed(pointsOf(run), this.logY);
    const { counted } = group;
    const mean = { group, run: counted.length > 1 ? null : counted[0], label: group.label, points: group.points(pointsOf) };
    mean.draw = () => (noisy(mean.points) ? group.points(soft) : mean.points);
    const single = group.runs.filter((run) => run !== mean.run && (group.open || !counted.includes(run))).map((run) => {
      const points = pointsOf(run);
      return { group, run, thin: true, label: `${group.label}, ${run.seedText}`, points, draw: () => (noisy(points) ? soft(run) : points) };
    });
    return [mean, ...single].filter((line) => line.points.length > 0);
  }

  collect() {
    const all = this.state.groups.map((group) => this.linesOf(group));
    this.any = all.filter((lines) => lines.length > 0).length >= (this.spec.least || 1);
    this.lines = all.flat().filter(({ group }) => group.shown);
  }

  range(get, log, within = null) {
    let low = Infinity;
    let high = -Infinity;
    const include = (value) => {
      if (!isNumber(value) || (log && value <= 0)) return;
      if (value < low) low = value;
      if (value > high) high = value;
    };
    for (const { points } of this.lines) {
      for (const point of points) {
        if (isNumber(point.y) && (!within || (point.x >= within[0] && point.x <= within[1]))) get(point).forEach(include);
      }
    }
    return low <= high ? [low, high] : [log ? 1 : 0, log ? 10 : 1];
  }

  rangeX(log) { return this.range((point) => [point.x], log); }
  rangeY(log, within) { return this.range((point) => [point.y, point.low, point.high], log, within); }

  /* On a linear axis a run that diverged would flatten all others. */
  chooseLog() {
    if (!this.logChosen && this.spec.kind === "number") {
      const [low, high] = this.rangeY(true);
      this.logY = high / low > 1e4;
    }
    this.logButton.setAttribute("aria-pressed", this.logY);
  }

  /* The whole range of x: curves begin at 0, names need room on both sides. */
  wholeX(about) {
    const [left, right] = this.rangeX(about.log);
    if (this.spec.labels) return [left / 1.5, right * 1.5];
    return [about.log ? left : Math.min(0, left), right];
  }

  wholeY(within) {
    let [bottom, top] = this.rangeY(this.logY, within);
    if (!this.logY) {
      const pad = (top - bottom) * 0.05;
      bottom = bottom >= 0 && bottom - pad < 0 ? 0 : bottom - pad;
      top += pad;
    } else if (top > bottom) {
      const pad = (top / bottom) ** 0.04;
      bottom /= pad;
      top *= pad;
    }
    return [bottom, top];
  }

  makeAxes(width, height) {
    this.chooseLog();
    const about = this.spec.x(this.state);
    if (this.zoom && this.zoom.axis !== about.title) this.zoom = null;
    const [left, right] = this.zoom ? this.zoom.x : this.wholeX(about);
    const [bottom, top] = this.zoom && this.zoom.y ? this.zoom.y : this.wholeY(this.zoom && this.zoom.x);
    const box = { top: this.spec.labels ? 20 : 8, bottom: height - 40, right: width - 14 };
    this.y = new Axis(this.spec.kind, bottom, top, this.logY, box.bottom, box.top, Math.floor(height / 52));
    box.left = 30 + Math.max(...this.y.ticks.map((tick) => textWidth(tick.text)), 20);
    this.x = new Axis(about.kind, left, right, about.log, box.left, box.right, Math.floor((box.right - box.left) / 78));
    this.box = box;
    this.xTitle = about.title;
    this.resetButton.hidden = !this.zoom;
  }

  /* ---- drawing */

  draw() {
    this.collect();
    this.card.hidden = !this.any;
    if (!this.any) return;
    this.pointer.choose(null);
    const width = Math.max(260, this.chart.clientWidth || 600);
    const height = this.spec.labels ? 300 : 260;
    this.makeAxes(width, height);
    for (const line of this.lines) line.drawn = line.draw(); /* smoothed on this axis */
    this.svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-hidden": "true" });
    this.drawGrid();
    this.drawLines();
    if (this.spec.labels) this.drawLabels();
    this.cross = shape("g", { class: "focus" });
    this.svg.append(this.cross);
    this.chart.replaceChildren(this.svg, this.tip);
    if (this.lines.length === 0) this.chart.append(element("p", { class: "empty" }, "No run is shown."));
    this.chart.setAttribute("aria-label", this.words());
    if (this.details.open) this.fillTable();
  }

  drawGrid() {
    const { box, svg } = this;
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
    const middle = (box.top + box.bottom) / 2;
    svg.append(shape("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom + 0.5, y2: box.bottom + 0.5 }),
      shape("text", { class: "x-title", x: (box.left + box.right) / 2, y: box.bottom + 35, "text-anchor": "middle" }, this.xTitle + this.x.suffix),
      shape("text", { class: "y-title", x: 0, y: 0, transform: `translate(11 ${middle}) rotate(-90)`, "text-anchor": "middle" },
        this.spec.axis + this.y.suffix));
  }

  /* Curves end at the axes where a part of them is shown; marks at the edge stay whole. */
  drawLines() {
    const { box } = this;
    const clip = shape("clipPath", { id: `clip-${this.spec.id}` });
    clip.append(shape("rect", { x: box.left - 6, y: box.top - 6, width: box.right - box.left + 12, height: box.bottom - box.top + 8 }));
    const layer = shape("g", { "clip-path": `url(#clip-${this.spec.id})` });
    this.svg.append(clip, layer);
    for (const line of this.lines) this.drawBand(layer, line);
    for (const line of this.lines) this.drawLine(layer, line);
  }

  path(points) {
    let line = "";
    let pen = "M";
    for (const point of points) {
      if (!this.has(point)) {
        pen = "M";
        continue;
      }
      line += `${pen}${this.x.at(point.x).toFixed(1)} ${this.y.at(point.y).toFixed(1)}`;
      pen = "L";
    }
    return line;
  }

  has(point) { return this.x.has(point.x) && this.y.has(point.y); }

  /* From the lowest to the highest seed; at a single point a bar. */
  drawBand(layer, { group, drawn }) {
    const inside = drawn.filter((point) => this.has(point) && isNumber(point.low));
    const at = (point, key) => `${this.x.at(point.x).toFixed(1)} ${this.y.at(Math.max(point[key], this.y.log ? this.y.low / 10 : -Infinity)).toFixed(1)}`;
    if (inside.length === 0) return;
    const attributes = { class: "band", style: `fill:${group.colour}`, "data-band": group.index };
    if (inside.length === 1) {
      Object.assign(attributes, { class: "range", style: `stroke:${group.colour}`, d: `M${at(inside[0], "low")}L${at(inside[0], "high")}` });
    } else {
      const upper = inside.map((point) => at(point, "high"));
      const lower = inside.map((point) => at(point, "low")).reverse();
      attributes.d = `M${[...upper, ...lower].join("L")}Z`;
    }
    layer.append(shape("path", attributes));
  }

  drawLine(layer, line) {
    const { group, run, points, drawn, thin } = line;
    const style = `stroke:${group.colour}`;
    const owner = thin ? { "data-run": run.index } : { "data-group": group.index };
    if (!this.spec.labels) {
      if (drawn !== points && run && !thin) layer.append(shape("path", { class: "series raw", d: this.path(points), style }));
      layer.append(shape("path", {
        class: `series${thin ? " thin" : ""}`, d: this.path(drawn), style, "stroke-dasharray": thin ? "" : group.dash, ...owner,
      }));
    }
    const marked = this.spec.marks && points.length <= 40;
    const radius = thin ? 1.8 : this.spec.labels ? 5 : 2.4;
    drawn.forEach((point, i) => {
      const alone = !(i > 0 && this.has(drawn[i - 1])) && !(i + 1 < drawn.length && this.has(drawn[i + 1]));
      if (!this.has(point) || !(marked || alone)) return;
      layer.append(shape("circle", {
        cx: this.x.at(point.x).toFixed(1), cy: this.y.at(point.y).toFixed(1), r: thin && this.spec.labels ? 3 : radius,
        style: `fill:${group.colour}`, class: thin ? "thin" : "mark", ...owner,
      }));
    });
  }

  /* A group is named where its name covers no mark and no other name. Where no position is free, hover,
   * legend and table have the name. */
  drawLabels() {
    const { box } = this;
    const taken = [];
    const marks = [];
    for (const { group, points: [point], thin } of this.lines) {
      if (!this.has(point)) continue;
      const x = this.x.at(point.x);
      const y = this.y.at(point.y);
      if (x < box.left || x > box.right || y < box.top || y > box.bottom) continue;
      if (!thin) marks.push({ group, x, y });
      taken.push([x - 6, y - 6, x + 6, y + 6]);
    }
    const clash = (a) => taken.some((b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]);
    for (const { group, x, y } of marks) {
      const width = textWidth(group.label) + 2;
      const places = [[x + 10, y - 7], [x - 10 - width, y - 7], [x - width / 2, y - 22], [x - width / 2, y + 9],
        [x + 8, y - 20], [x + 8, y + 6], [x - 8 - width, y - 20], [x - 8 - width, y + 6]];
      const place = places.map(([left, top]) => [left, top, left + width, top + 14]).find((area) =>
        area[0] >= box.left + 2 && area[2] <= box.right + 10 && area[1] >= 0 && area[3] <= box.bottom && !clash(area));
      if (!place) continue;
      taken.push(place);
      this.svg.append(shape("text", { class: "mark-label", x: place[0], y: place[1] + 11 }, group.label));
    }
  }

  /* ---- text version */

  valueText(point) { return KINDS[this.spec.kind].text(point.y); }

  rangeText(point) {
    const { text } = KINDS[this.spec.kind];
    return isNumber(point.low) ? `${text(point.low)} to ${text(point.high)}` : "";
  }

  placeText(point) {
    const about = this.spec.x(this.state);
    return `${KINDS[about.kind].text(point.x)}${about.kind === "count" ? " steps" : ""}`;
  }

  words() {
    const ends = this.lines.filter((line) => !line.thin).map(({ label, points }) => {
      const measured = points.filter((point) => isNumber(point.y));
      return measured.length > 0 ? `${label} ends at ${this.valueText(measured[measured.length - 1])}` : label;
    });
    return `${this.spec.title}, against ${this.xTitle}. ${ends.join("; ")}. Arrow keys move along the points, plus and minus zoom.`;
  }

  fillTable() {
    if (!this.details.open || !this.any) return;
    const parts = this.spec.labels ? [["value", 1]] : [["first", 0], ["at 25 %", 0.25], ["at 50 %", 0.5], ["at 75 %", 0.75], ["last", 1]];
    const headings = ["run", ...parts.map(([name]) => name), ...(this.spec.labels ? [] : ["minimum", "maximum"])];
    const cell = (point) => (point ? `${this.valueText(point)} at ${this.placeText(point)}` : "–");
    const rows = this.lines.map(({ label, points }) => {
      const measured = points.filter((point) => isNumber(point.y));
      const pick = (better) => measured.reduce((best, point) => (!best || better(point.y, best.y) ? point : best), null);
      return [label, ...parts.map(([, part]) => cell(measured[Math.round(part * (measured.length - 1))])),
        ...(this.spec.labels ? [] : [cell(pick((a, b) => a < b)), cell(pick((a, b) => a > b))])];
    });
    this.body.replaceChildren(table(`${this.spec.title}, against ${this.xTitle}`, headings, rows));
  }
}
