/* The summary: one row per group with mean and deviation, below it the seeds if they are unfolded. Any
 * column sorts it. On narrow screens each row is a card, and a choice above it sorts. */

/* `better` is the extreme that is best. */
function summaryColumns(state, target) {
  const reach = (key) => (run) => {
    const found = run.reach(target);
    return found ? found[key] : NaN;
  };
  const goal = isNumber(target) ? `${short(target * 100)} %` : "target";
  return [
    { key: "accuracy", title: "accuracy", value: (run) => run.accuracy, kind: "percent", better: Math.max },
    { key: "loss", title: "loss", value: (run) => run.loss, kind: "number", better: Math.min },
    { key: "bytes_per_step", title: "bytes per step", value: (run) => run.about.bytes_per_step, kind: "bytes", better: Math.min },
    { key: "compression_ratio", title: "compression ratio", value: (run) => run.ratio, kind: "times", better: Math.max },
    { key: "seconds", title: "time", value: (run) => run.seconds, kind: "seconds", better: Math.min },
    { key: "link_seconds", title: `time at ${speedText(state.link)}`, value: (run) => run.linkSeconds(state.link), kind: "seconds", better: Math.min },
    { key: "seconds_to_target", title: `time to ${goal}`, value: reach("seconds"), kind: "seconds", better: Math.min },
    { key: "bytes_to_target", title: `bytes to ${goal}`, value: reach("bytes"), kind: "bytes", better: Math.min },
  ];
}

/* "± 0.31": in the unit of the mean where it is always the same one. */
function deviationText(kind, mean, deviation) {
  if (!isNumber(mean) || !isNumber(deviation) || deviation <= Math.abs(mean) * 1e-6) return "";
  return ` ± ${kind === "percent" ? (deviation * 100).toFixed(2) : KINDS[kind].text(deviation)}`;
}

class Summary {
  constructor(state, redraw) {
    this.state = state;
    this.redraw = redraw;
    this.sort = null; /* { key, down } */
    this.table = find("summary");
    this.choice = find("sort");
    this.choice.addEventListener("change", () => {
      const [key, way] = this.choice.value.split(" ");
      this.sort = key ? { key, down: way === "down" } : null;
      this.draw();
    });
    find("save-summary").addEventListener("click", () => saveSummary(this.sorted(), this.columns));
  }

  sorted() {
    const groups = [...this.state.groups];
    if (!this.sort) return groups;
    const { key, down } = this.sort;
    const column = this.columns.find((one) => one.key === key);
    const rank = (group) => (column ? group.value(column.value).mean : group.label);
    const order = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    const missing = (value) => typeof value === "number" && !isNumber(value);
    return groups.sort((one, other) => {
      const [a, b] = [rank(one), rank(other)];
      if (missing(a) || missing(b)) return missing(a) - missing(b); /* last, whichever way */
      return down ? order(b, a) : order(a, b);
    });
  }

  /* The first click puts the best first, the second the worst, the third restores the order given. */
  sortBy(key) {
    const column = this.columns.find((one) => one.key === key);
    const first = column ? column.better === Math.max : false;
    if (!this.sort || this.sort.key !== key) this.sort = { key, down: first };
    else this.sort = this.sort.down === first ? { key, down: !first } : null;
    this.draw();
    find("summary").querySelector(`th[data-key="${key}"] button`).focus();
  }

  heading(key, title) {
    const sorted = this.sort && this.sort.key === key ? (this.sort.down ? "descending" : "ascending") : "none";
    const arrow = { ascending: " ↑", descending: " ↓", none: "" }[sorted];
    const button = element("button", { type: "button", title: "sort by this column" }, title + arrow);
    button.addEventListener("click", () => this.sortBy(key));
    return element("th", { scope: "col", "data-key": key, "aria-sort": sorted }, button);
  }

  offer() {
    const ways = [["", "as given"], ...this.columns.flatMap(({ key, title, better }) => {
      const way = better === Math.max ? "down" : "up";
      return [[`${key} ${way}`, title]];
    })];
    const now = this.sort ? `${this.sort.key} ${this.sort.down ? "down" : "up"}` : "";
    this.choice.replaceChildren(...ways.map(([value, title]) => element("option", { value }, title)));
    this.choice.value = ways.some(([value]) => value === now) ? now : "";
  }

  stateOf(run) {
    if (run.end) return run.end.status === "finished" ? "" : run.end.status;
    return this.state.live ? `at step ${countText(run.lastStep)}` : "no end recorded";
  }

  /* What is to be said of a group: how many seeds, and those that did not end as they should. */
  notes(group) {
    if (group.runs.length === 1) return this.stateOf(group.first);
    return group.runs.filter((run) => this.stateOf(run)).map((run) => `${run.seedText} ${this.stateOf(run)}`).join(", ");
  }

  cell(column, { mean, deviation, lacking, of }, best) {
    const cell = element("td", { "data-title": column.title }, KINDS[column.kind].text(mean));
    if (best) cell.className = "best";
    const more = lacking > 0 && lacking < of ? ` ${of - lacking} of ${of}` : deviationText(column.kind, mean, deviation);
    if (more) cell.append(element("span", { class: "deviation" }, more));
    return cell;
  }

  unfold(group) {
    const button = element("button", { type: "button", class: "unfold", "aria-expanded": group.open, "data-group": group.index,
      "aria-label": `${group.label}: show ${group.runs.length} seeds` }, plural(group.runs.length, "seed"));
    button.addEventListener("click", () => {
      group.open = !group.open;
      this.redraw();
      this.table.querySelector(`button.unfold[data-group="${group.index}"]`).focus();
    });
    return button;
  }

  rows(group, best) {
    const name = element("th", { scope: "row", title: group.title }, swatch(group), element("span", { class: "label" }, group.label));
    if (group.runs.length > 1) name.append(this.unfold(group));
    const note = this.notes(group);
    if (note) name.append(element("span", { class: "state" }, note));
    const cells = this.columns.map((column, i) => {
      const found = group.value(column.value);
      return this.cell(column, found, group.shown && isNumber(best[i]) && found.mean === best[i]);
    });
    const rows = [element("tr", { class: group.shown ? "group" : "group off" }, name, ...cells)];
    if (group.open && group.runs.length > 1) rows.push(...group.runs.map((run) => this.seedRow(group, run)));
    return rows;
  }

  seedRow(group, run) {
    const note = this.stateOf(run);
    const name = element("th", { scope: "row", title: group.title }, element("span", { class: "label" }, run.seedText));
    if (note) name.append(element("span", { class: "state" }, note));
    return element("tr", { class: group.shown ? "seed" : "seed off" }, name,
      ...this.columns.map((column) => this.cell(column, { mean: column.value(run), deviation: 0, lacking: 0, of: 1 }, false)));
  }

  draw() {
    this.columns = summaryColumns(this.state, this.state.targetNow());
    const shown = this.state.groups.filter((group) => group.shown);
    const best = this.columns.map(({ value, better }) => {
      const means = shown.map((group) => group.value(value).mean).filter(isNumber);
      return means.length > 1 && Math.min(...means) !== Math.max(...means) ? better(...means) : NaN;
    });
    this.offer();
    this.table.replaceChildren(
      element("thead", {}, element("tr", {}, this.heading("name", "method"), ...this.columns.map(({ key, title }) => this.heading(key, title)))),
      element("tbody", {}, ...this.sorted().flatMap((group) => this.rows(group, best))));
  }
}
