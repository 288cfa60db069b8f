/* What the pointer and the keyboard do in a plot: the values of all curves at one place, and zooming. */

const MOST_TIP_ROWS = 24;
const LEAST_DRAG = 6; /* pixels; less is a click */
const THIN_DRAG = 24; /* a drag lower than this chooses x alone, and y follows the curves */

class Pointer {
  constructor(plot) {
    this.plot = plot;
    this.focused = null; /* { line, index } */
    this.drag = null; /* where a drag began, in pixels of the chart */
    const { chart } = plot;
    chart.addEventListener("pointerdown", (event) => this.down(event));
    chart.addEventListener("pointermove", (event) => this.move(event));
    chart.addEventListener("pointerup", (event) => this.up(event));
    chart.addEventListener("pointercancel", () => this.end());
    chart.addEventListener("pointerleave", () => this.drag || this.choose(null));
    chart.addEventListener("dblclick", () => plot.zoom && plot.setZoom(null));
    chart.addEventListener("blur", () => this.choose(null));
    chart.addEventListener("focus", () => this.start());
    chart.addEventListener("keydown", (event) => this.key(event));
  }

  place(event) {
    const frame = this.plot.chart.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  }

  /* ---- zoom: a drag with a mouse or a pen; a finger inspects and scrolls */

  down(event) {
    const at = this.place(event);
    const { box } = this.plot;
    if (event.pointerType === "touch" || event.button !== 0 || !box || at.y > box.bottom || at.x < box.left) {
      this.point(at);
      return;
    }
    this.drag = at;
    this.plot.chart.setPointerCapture(event.pointerId);
  }

  area(at) {
    const { box } = this.plot;
    const inX = (x) => Math.min(box.right, Math.max(box.left, x));
    const inY = (y) => Math.min(box.bottom, Math.max(box.top, y));
    const thin = Math.abs(at.y - this.drag.y) < THIN_DRAG;
    const ends = (a, b) => (a < b ? [a, b] : [b, a]);
    return { x: ends(inX(this.drag.x), inX(at.x)), y: thin ? [box.top, box.bottom] : ends(inY(this.drag.y), inY(at.y)), thin };
  }

  move(event) {
    const at = this.place(event);
    if (!this.drag || Math.abs(at.x - this.drag.x) < LEAST_DRAG) {
      this.point(at);
      return;
    }
    this.choose(null);
    const { x, y } = this.area(at);
    this.plot.cross.replaceChildren(shape("rect", { class: "brush", x: x[0], y: y[0], width: x[1] - x[0], height: y[1] - y[0] }));
  }

  up(event) {
    const at = this.place(event);
    const drag = this.drag && Math.abs(at.x - this.drag.x) >= LEAST_DRAG ? this.area(at) : null;
    this.end();
    if (!drag || drag.x[1] - drag.x[0] < LEAST_DRAG) return;
    const { plot } = this;
    plot.setZoom({
      x: drag.x.map((pixel) => plot.x.back(pixel)),
      y: drag.thin ? null : [plot.y.back(drag.y[1]), plot.y.back(drag.y[0])],
      axis: plot.xTitle,
    });
  }

  end() {
    this.drag = null;
    this.plot.cross.replaceChildren();
  }

  /* By the keyboard: half or twice the width around the chosen point. */
  scale(factor) {
    const { plot } = this;
    const { box } = plot;
    const kept = this.focused;
    const point = kept && kept.line.drawn[kept.index];
    const centre = point ? plot.x.at(point.x) : (box.left + box.right) / 2;
    const pixels = [box.left, box.right].map((edge) => centre + (edge - centre) * factor);
    const [left, right] = pixels.map((pixel) => plot.x.back(pixel));
    const whole = plot.wholeX(plot.spec.x(plot.state));
    const x = [Math.max(left, whole[0]), Math.min(right, whole[1])];
    plot.setZoom(x[0] <= whole[0] && x[1] >= whole[1] ? null : { x, y: null, axis: plot.xTitle });
    const line = kept && plot.lines.find((other) => other.label === kept.line.label);
    if (line) this.choose({ line, index: kept.index });
  }

  /* ---- values at one place */

  inside(point) {
    const { x, y } = this.plot;
    return this.plot.has(point) && point.x >= x.low && point.x <= x.high && point.y >= y.low && point.y <= y.high;
  }

  point(at) {
    const { plot } = this;
    let best = null;
    let least = Infinity;
    for (const line of plot.lines || []) {
      line.drawn.forEach((point, index) => {
        if (!this.inside(point)) return;
        const away = (plot.x.at(point.x) - at.x) ** 2 + (plot.y.at(point.y) - at.y) ** 2;
        if (away < least) {
          least = away;
          best = { line, index };
        }
      });
    }
    this.choose(best);
  }

  /* The measured point of a line that is nearest to x; none beyond its ends. */
  nearest(line, x) {
    const { points } = line;
    const slack = (this.plot.x.high - this.plot.x.low) / 100;
    if (this.plot.spec.labels || x < points[0].x - slack || x > points[points.length - 1].x + slack) return -1;
    let best = -1;
    points.forEach((point, i) => {
      if (this.plot.has(point) && (best < 0 || Math.abs(point.x - x) < Math.abs(points[best].x - x))) best = i;
    });
    return best;
  }

  rows({ line, index }) {
    const chosen = line.points[index];
    const all = this.plot.lines.map((other) => ({ line: other, index: other === line ? index : this.nearest(other, chosen.x) }))
      .filter((row) => row.index >= 0).map((row) => ({ ...row, point: row.line.points[row.index], drawn: row.line.drawn[row.index] }));
    return all.sort((a, b) => b.point.y - a.point.y);
  }

  choose(focused) {
    const { plot } = this;
    this.focused = focused;
    if (plot.cross) plot.cross.replaceChildren();
    plot.tip.hidden = !focused;
    if (!focused) return;
    const { line, index } = focused;
    const point = line.points[index];
    const at = line.drawn[index];
    const x = plot.x.at(at.x);
    const y = plot.y.at(at.y);
    plot.cross.append(shape("line", { class: "cross", x1: x, x2: x, y1: plot.box.top, y2: plot.box.bottom }));
    const rows = this.rows(focused);
    for (const row of rows) {
      plot.cross.append(shape("circle", {
        cx: plot.x.at(row.drawn.x), cy: plot.y.at(row.drawn.y), r: row.line === line ? 4.5 : 3,
        style: `fill:${row.line.group.colour};stroke:var(--card);stroke-width:${row.line === line ? 2 : 1}`,
      }));
    }
    this.fillTip(point, rows, line);
    this.placeTip(x, y);
  }

  fillTip(point, rows, chosen) {
    const { plot } = this;
    const head = element("b", {}, `at ${plot.placeText(point)}`);
    if (plot.spec.x(plot.state).kind !== "count" && isNumber(point.step)) head.append(element("i", {}, ` · step ${countText(point.step)}`));
    const lines = rows.slice(0, MOST_TIP_ROWS).map((row) => {
      const smooth = row.line.drawn !== row.line.points && row.line.drawn[row.index];
      const range = plot.rangeText(row.point);
      const more = [range, smooth && `smooth ${plot.valueText(row.drawn)}`].filter(Boolean).join(" · ");
      return element("tr", row.line === chosen ? { class: "chosen" } : {},
        element("td", {}, element("span", { class: "dot", style: `background:${row.line.group.colour}` })),
        element("td", { class: "who" }, row.line.label), element("td", {}, plot.valueText(row.point)),
        element("td", {}, element("i", {}, more)));
    });
    const left = rows.length - lines.length;
    plot.tip.replaceChildren(head, element("i", {}, plot.spec.what), element("table", {}, element("tbody", {}, ...lines)),
      left > 0 ? element("i", {}, `and ${left} more`) : "");
  }

  /* Beside the point, inside the chart; a long list may reach below it. */
  placeTip(x, y) {
    const { tip, chart, box } = this.plot;
    const width = chart.clientWidth;
    const wide = tip.offsetWidth;
    const left = x + 14 + wide > width ? x - 14 - wide : x + 14;
    tip.style.left = `${Math.max(0, Math.min(left, width - wide))}px`;
    tip.style.top = `${Math.max(0, Math.min(y - tip.offsetHeight - 10, box.bottom - tip.offsetHeight))}px`;
  }

  /* ---- keyboard: left and right along the points, up and down between the curves */

  start() {
    const { lines, chart } = this.plot;
    if (!this.focused && lines.length > 0 && chart.matches(":focus-visible")) this.step(lines[0], lines[0].points.length - 1, -1);
  }

  /* Selects the first drawn point from `index` on, in direction `way`. */
  step(line, index, way) {
    const { points } = line;
    while (index >= 0 && index < points.length && !this.inside(points[index])) index += way;
    if (index < 0 || index >= points.length) return;
    this.choose({ line, index });
    const { plot } = this;
    document.getElementById("announce").textContent =
      `${line.label}: ${plot.spec.what} ${plot.valueText(points[index])} at ${plot.placeText(points[index])}`;
  }

  key(event) {
    const { lines } = this.plot;
    if (lines.length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const now = this.focused || { line: lines[0], index: 0 };
    const at = lines.indexOf(now.line);
    const far = event.shiftKey ? 10 : 1;
    const last = now.line.points.length - 1;
    const moves = {
      ArrowRight: () => this.step(now.line, Math.min(last, now.index + far), 1),
      ArrowLeft: () => this.step(now.line, Math.max(0, now.index - far), -1),
      Home: () => this.step(now.line, 0, 1),
      End: () => this.step(now.line, last, -1),
      ArrowUp: () => this.change(at - 1, now),
      ArrowDown: () => this.change(at + 1, now),
      "+": () => this.scale(0.5),
      "-": () => this.scale(2),
      "0": () => this.plot.setZoom(null),
      Escape: () => this.choose(null),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }

  /* Selects another curve, at the point nearest to the same x. */
  change(to, now) {
    const { lines } = this.plot;
    const line = lines[(to + lines.length) % lines.length];
    const { x } = now.line.points[now.index];
    let best = 0;
    line.points.forEach((point, i) => {
      if (Math.abs(point.x - x) < Math.abs(line.points[best].x - x)) best = i;
    });
    this.step(line, best, 1);
  }
}
