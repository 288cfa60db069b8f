/* Bars: where the time of a step goes, and which tensor takes the bytes. */

const STAGE_COLOURS = { compute: 0, direction: 7, encode: 1, wire: 4, group: 3, combine: 5, decode: 2, update: 6 };
const MOST_TENSOR_ROWS = 24;

const colourOf = (stage) => `var(--c${STAGE_COLOURS[stage]})`;

function table(caption, headings, rows) {
  const line = (cells, tag) => element("tr", {}, ...cells.map((cell, i) =>
    (i === 0 || tag === "th" ? element("th", { scope: tag === "th" ? "col" : "row" }, cell) : element("td", {}, cell))));
  return element("table", {}, element("caption", { class: "hidden" }, caption),
    element("thead", {}, line(headings, "th")), element("tbody", {}, ...rows.map((row) => line(row, "td"))));
}

class Stages {
  constructor(state) {
    this.state = state;
    this.heading = element("h2", { id: "stages-title" }, "Time per step, by stage");
    this.about = element("p", { class: "muted" });
    this.rows = element("div", { class: "rows", role: "list" });
    this.keys = element("div", { class: "keys", "aria-hidden": "true" }, ...STAGES.map((name) =>
      element("span", {}, element("i", { style: `background:${colourOf(name)}` }), name)));
    this.body = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Time per step: table" });
    this.card = element("article", { class: "card wide", id: "stages", "aria-labelledby": "stages-title" },
      element("div", { class: "card-head" }, this.heading, this.about), this.rows, this.keys,
      element("details", {}, element("summary", {}, "as a table"), this.body));
  }

  /* Seconds of each stage; on a chosen link the group's are what the bytes take there. */
  timesOf(run) {
    const onLink = this.state.axis === "link";
    return STAGES.map((name) => (name === "group" && onLink
      ? (8 * run.about.bytes_per_step) / this.state.link : run.stages[name] || 0));
  }

  draw() {
    const runs = this.state.runs.filter((run) => run.shown && run.stages);
    this.card.hidden = !this.state.runs.some((run) => run.stages);
    const onLink = this.state.axis === "link";
    this.about.textContent = onLink
      ? `group: the bytes of a step on a link of ${speedText(this.state.link)}` : "as measured";
    const times = runs.map((run) => this.timesOf(run));
    const sums = times.map((list) => list.reduce((sum, time) => sum + time, 0));
    const most = Math.max(...sums, 1e-12);
    const cells = runs.flatMap((run, i) => this.row(run, times[i], sums[i], most));
    this.rows.replaceChildren(...cells);
    this.body.replaceChildren(table("Seconds per step", ["run", ...STAGES, "sum"],
      runs.map((run, i) => [run.label, ...times[i].map((time) => secondsText(time)), secondsText(sums[i])])));
  }

  row(run, times, sum, most) {
    const track = element("div", { class: "track", role: "listitem" });
    const words = STAGES.map((name, i) => `${name} ${secondsText(times[i])}`);
    track.setAttribute("aria-label", `${run.label}: ${secondsText(sum)} per step; ${words.join(", ")}`);
    let left = 0;
    STAGES.forEach((name, i) => {
      const share = (100 * times[i]) / most;
      if (share <= 0) return;
      track.append(element("div", {
        class: "segment", title: `${run.label}: ${words[i]} (${(100 * times[i] / sum).toFixed(1)} %)`, "data-stage": name,
        style: `left:${left.toFixed(3)}%;width:${share.toFixed(3)}%;background:${colourOf(name)}`,
      }));
      left += share;
    });
    const figure = element("div", { class: "figure" }, element("b", {}, secondsText(sum)));
    return [element("div", { class: "name", title: run.label }, run.label), track, figure];
  }
}

/* What a tensor takes in a dense step: its part of all elements. */
function denseOf(run) {
  const elements = run.tensors.reduce((sum, tensor) => sum + (tensor.count || 0), 0);
  return (tensor) => (run.about.dense_per_step * tensor.count) / elements;
}

class Tensors {
  constructor(state) {
    this.state = state;
    this.choice = element("select", { "aria-label": "Run whose tensors are shown" });
    this.choice.addEventListener("change", () => this.draw());
    this.rows = element("div", { class: "rows", role: "list" });
    this.rest = element("p", { class: "muted" });
    this.body = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Bytes per tensor: table" });
    this.card = element("article", { class: "card wide", id: "tensors", "aria-labelledby": "tensors-title" },
      element("div", { class: "card-head" }, element("h2", { id: "tensors-title" }, "Bytes per step, by tensor"), this.choice),
      this.rows, this.rest, element("details", {}, element("summary", {}, "as a table"), this.body));
  }

  offer(runs) {
    const labels = runs.map((run) => run.label).join("\n");
    if (labels === this.offered) return;
    const before = this.choice.value;
    this.choice.replaceChildren(...runs.map((run) => element("option", { value: run.index }, run.label)));
    if (runs.some((run) => String(run.index) === before)) this.choice.value = before;
    else this.choice.value = String((runs.find((run) => run.smaller > 1.01) || runs[0]).index);
    this.offered = labels;
  }

  draw() {
    const runs = this.state.runs.filter((run) => run.tensors.some((tensor) => isNumber(tensor.bytes)));
    this.card.hidden = runs.length === 0;
    if (runs.length === 0) return;
    this.offer(runs);
    const run = this.state.runs[Number(this.choice.value)] || runs[0];
    const all = run.tensors.filter((tensor) => isNumber(tensor.bytes));
    const sorted = [...all].sort((a, b) => b.bytes - a.bytes);
    const shown = sorted.slice(0, MOST_TENSOR_ROWS);
    const most = Math.max(shown[0].bytes, 1e-9);
    const total = all.reduce((sum, tensor) => sum + tensor.bytes, 0);
    this.rows.replaceChildren(...shown.flatMap((tensor) => this.row(run, tensor, most)));
    const dense = denseOf(run);
    const left = sorted.slice(MOST_TENSOR_ROWS).reduce((sum, tensor) => sum + tensor.bytes, 0);
    this.rest.textContent = sorted.length > shown.length
      ? `and ${sorted.length - shown.length} smaller ones, ${bytesText(left)} together; the table has all` : "";
    this.body.replaceChildren(table("Bytes per step", ["tensor", "elements", "dense", "sent", "compression ratio", "share"],
      all.map((tensor) => [tensor.name, countText(tensor.count), bytesText(dense(tensor)), bytesText(tensor.bytes),
        timesText(dense(tensor) / tensor.bytes), `${(100 * tensor.bytes / total).toFixed(1)} %`])));
  }

  row(run, tensor, most) {
    const dense = denseOf(run)(tensor);
    const bar = element("div", { class: "track", role: "listitem", "aria-label": `${tensor.name}: ${bytesText(tensor.bytes)}` },
      element("div", { class: "segment", style: `left:0;width:${(100 * tensor.bytes / most).toFixed(3)}%;background:${run.colour}` }));
    const figure = element("div", { class: "figure" }, element("b", {}, bytesText(tensor.bytes)),
      isNumber(dense) ? ` of ${bytesText(dense)}, ${timesText(dense / tensor.bytes)}` : "");
    return [element("div", { class: "name", title: tensor.name }, tensor.name), bar, figure];
  }
}
