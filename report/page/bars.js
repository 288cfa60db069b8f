/* Bars: the time of a step by stage. */

const STAGE_COLOURS = { compute: 0, direction: 7, encode: 1, wire: 4, group: 3, combine: 5, decode: 2, update: 6 };

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
    const button = element("button", { type: "button", class: "quiet save", "aria-label": "Time per step: save as CSV", title: "save as CSV" }, "CSV");
    button.addEventListener("click", () => this.save());
    this.card = element("article", { class: "card wide", id: "stages", "aria-labelledby": "stages-title" },
      element("div", { class: "card-head" }, this.heading, element("div", { class: "tools" }, this.about, button)), this.rows, this.keys,
      element("details", {}, element("summary", {}, "as a table"), this.body));
  }

  /* Seconds of each stage, the mean over the seeds; on a chosen link the stage `group` is the time that the
   * bytes take there. */
  timesOf(group) {
    const onLink = this.state.axis === "link";
    return STAGES.map((name) => meanOf(group.counted.map((run) => (name === "group" && onLink
      ? (8 * run.about.bytes_per_step) / this.state.link : run.stages[name] || 0))));
  }

  get groups() {
    return this.state.groups.filter((group) => group.shown && group.counted.every((run) => run.stages));
  }

  draw() {
    const { groups } = this;
    this.card.hidden = !this.state.runs.some((run) => run.stages);
    const onLink = this.state.axis === "link";
    this.about.textContent = onLink
      ? `group: the bytes of a step on a link of ${speedText(this.state.link)}` : "as measured";
    const times = groups.map((group) => this.timesOf(group));
    const sums = times.map((list) => list.reduce((sum, time) => sum + time, 0));
    const most = Math.max(...sums, 1e-12);
    this.rows.replaceChildren(...groups.flatMap((group, i) => this.row(group, times[i], sums[i], most)));
    this.body.replaceChildren(table("Seconds per step", ["run", ...STAGES, "sum"],
      groups.map((group, i) => [group.label, ...times[i].map((time) => secondsText(time)), secondsText(sums[i])])));
  }

  save() {
    save("terse-stages.csv", "text/csv", csvText([["name", "method", ...STAGES],
      ...this.groups.map((group) => [group.label, group.method, ...this.timesOf(group)])]));
  }

  row(group, times, sum, most) {
    const track = element("div", { class: "track", role: "listitem" });
    const words = STAGES.map((name, i) => `${name} ${secondsText(times[i])}`);
    track.setAttribute("aria-label", `${group.label}: ${secondsText(sum)} per step; ${words.join(", ")}`);
    let left = 0;
    STAGES.forEach((name, i) => {
      const share = (100 * times[i]) / most;
      if (share <= 0) return;
      track.append(element("div", {
        class: "segment", title: `${group.label}: ${words[i]} (${(100 * times[i] / sum).toFixed(1)} %)`, "data-stage": name,
        style: `left:${left.toFixed(3)}%;width:${share.toFixed(3)}%;background:${colourOf(name)}`,
      }));
      left += share;
    });
    const figure = element("div", { class: "figure" }, element("b", {}, secondsText(sum)));
    return [element("div", { class: "name", title: group.title }, group.label), track, figure];
  }
}
