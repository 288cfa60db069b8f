/* Bytes per tensor: a row for each tensor, for each group its bytes per step and bits per element. Runs whose
 * networks have other tensors get a table of their own. Any column sorts; a long table is folded. */

const FOLDED_ROWS = 12;

/* A name may break after its dots. */
const breakable = (name) => name.split(/(?<=[._/])/).flatMap((part, i) => (i > 0 ? [element("wbr"), part] : [part]));

class Tensors {
  constructor(state) {
    this.state = state;
    this.sort = null; /* { key, down }; null: the bytes of the first group */
    this.unfolded = new Set(); /* tables of which all rows are shown */
    this.note = element("p", { class: "muted" });
    this.tables = element("div");
    const button = element("button", { type: "button", class: "quiet save", "aria-label": "Bytes per tensor: save as CSV", title: "save as CSV" }, "CSV");
    button.addEventListener("click", () => this.save());
    this.card = element("article", { class: "card wide", id: "tensors", "aria-labelledby": "tensors-title" },
      element("div", { class: "card-head" }, element("h2", { id: "tensors-title" }, "Bytes per tensor"),
        element("div", { class: "tools" }, element("p", { class: "muted" }, "one worker's payload: bytes per step, bits per element"), button)),
      this.tables, this.note);
  }

  /* Groups that have bytes, by the tensors of their networks: { key, tensors, groups }. */
  layouts() {
    const found = new Map();
    for (const group of this.state.groups.filter(({ shown }) => shown)) {
      if (!group.counted.every((run) => run.tensorBytes)) continue;
      const { tensors } = group.first;
      const key = JSON.stringify(tensors);
      if (!found.has(key)) found.set(key, { key, tensors, groups: [] });
      found.get(key).groups.push(group);
    }
    return [...found.values()];
  }

  /* The rows of a table: { name, count, bytes }, where `bytes` has a number for each group, the mean over its seeds. */
  rowsOf({ tensors, groups }) {
    return tensors.map(({ name, count }, t) => ({
      name, count, bytes: groups.map((group) => meanOf(group.counted.map((run) => run.tensorBytes[t]))),
    }));
  }

  columnsOf({ groups }) {
    return [
      { key: "name", value: (row) => row.name },
      { key: "count", value: (row) => row.count },
      ...groups.flatMap((group, g) => [
        { key: `bytes ${group.key}`, value: (row) => row.bytes[g] },
        { key: `bits ${group.key}`, value: (row) => bitsOf(row, g) },
      ]),
    ];
  }

  sorted(layout) {
    const rows = this.rowsOf(layout);
    if (this.sort && this.sort.key === "order") return rows;
    const columns = this.columnsOf(layout);
    const known = this.sort && columns.find(({ key }) => key === this.sort.key);
    const { value } = known || columns[2];
    const down = known ? this.sort.down : true;
    const order = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : (b < a) - (a < b));
    return rows.sort((one, other) => (down ? order(value(other), value(one)) : order(value(one), value(other))));
  }

  /* The first click puts the largest first, of names the first one; the second turns round, the third restores the
   * order of the network. */
  sortBy(key, layout) {
    const first = key !== "name";
    const now = this.sort || { key: this.columnsOf(layout)[2].key, down: true };
    if (now.key !== key) this.sort = { key, down: first };
    else this.sort = now.down === first ? { key, down: !first } : { key: "order" };
    this.draw();
    const again = [...this.tables.querySelectorAll("th[data-key]")].find((cell) => cell.dataset.key === key);
    if (again) again.querySelector("button").focus();
  }

  heading(key, title, layout, more = {}) {
    const now = this.sort || { key: this.columnsOf(layout)[2].key, down: true };
    const sorted = now.key === key ? (now.down ? "descending" : "ascending") : "none";
    const arrow = { ascending: " ↑", descending: " ↓", none: "" }[sorted];
    const button = element("button", { type: "button", title: "sort by this column" }, title + arrow);
    button.addEventListener("click", () => this.sortBy(key, layout));
    return element("th", { scope: "col", "data-key": key, "aria-sort": sorted, ...more }, button);
  }

  head(layout) {
    const names = layout.groups.map((group) =>
      element("th", { scope: "colgroup", colspan: 2, class: "whose", title: group.title }, swatch(group), " ", group.label));
    return element("thead", {},
      element("tr", {}, this.heading("name", "tensor", layout, { rowspan: 2, class: "tensor" }),
        this.heading("count", "elements", layout, { rowspan: 2, class: "count" }), ...names),
      element("tr", {}, ...layout.groups.flatMap((group) => [
        this.heading(`bytes ${group.key}`, "bytes", layout, { class: "bytes" }), this.heading(`bits ${group.key}`, "bits", layout)])));
  }

  /* `most`: the largest bytes of each group, which have a whole bar; null: no bars. */
  row(layout, { name, count, bytes }, most) {
    const cells = layout.groups.flatMap((group, g) => {
      const cell = element("td", { class: "bytes" }, bytesText(bytes[g]));
      if (most && most[g] > 0) {
        cell.style.setProperty("--bar", group.colour);
        cell.style.setProperty("--long", `${((100 * bytes[g]) / most[g]).toFixed(2)}%`);
      }
      return [cell, element("td", { class: "bits" }, bitsText(bitsOf({ count, bytes }, g)))];
    });
    return element("tr", {}, element("th", { scope: "row", class: "tensor", title: name }, ...breakable(name),
      element("span", { class: "count" }, ` ${countText(count)}`)), element("td", { class: "count" }, countText(count)), ...cells);
  }

  fold(layout, count) {
    const open = this.unfolded.has(layout.key);
    const button = element("button", { type: "button", class: "quiet fold", "aria-expanded": open }, open ? `only ${FOLDED_ROWS}` : `all ${count} tensors`);
    button.addEventListener("click", () => {
      if (open) this.unfolded.delete(layout.key); else this.unfolded.add(layout.key);
      this.draw();
      const again = this.tables.children[this.layouts().findIndex(({ key }) => key === layout.key)];
      again.querySelector("button.fold").focus();
    });
    return button;
  }

  table(layout, title) {
    const rows = this.sorted(layout);
    const folds = rows.length > FOLDED_ROWS + 2;
    const all = !folds || this.unfolded.has(layout.key);
    const top = all ? rows : rows.slice(0, FOLDED_ROWS);
    const most = layout.groups.map((group, g) => Math.max(...rows.map(({ bytes }) => bytes[g])));
    const sum = (name, list) => ({
      name, count: list.reduce((all, { count }) => all + count, 0),
      bytes: layout.groups.map((group, g) => list.reduce((all, { bytes }) => all + bytes[g], 0)),
    });
    const body = top.map((row) => this.row(layout, row, most));
    if (!all) body.push(this.row(layout, sum(`${rows.length - FOLDED_ROWS} others`, rows.slice(FOLDED_ROWS)), null));
    const region = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Bytes per tensor${title && ` of ${title}`}` },
      element("table", {}, element("caption", { class: "hidden" }, "Bytes per step and bits per element of each tensor"), this.head(layout),
        element("tbody", {}, ...body), element("tfoot", {}, this.row(layout, sum("all tensors", rows), null))));
    return element("div", { class: "layout" }, ...(title ? [element("h3", {}, title)] : []), region, ...(folds ? [this.fold(layout, rows.length)] : []));
  }

  draw() {
    const layouts = this.layouts();
    const shown = this.state.groups.filter((group) => group.shown);
    const lacking = shown.filter((group) => !layouts.some(({ groups }) => groups.includes(group)));
    this.card.hidden = !this.state.runs.some((run) => run.tensorBytes);
    this.note.textContent = lacking.length > 0 && !this.card.hidden
      ? `No bytes per tensor: ${lacking.map(({ label }) => label).join("; ")}. Runs that have not ended have none, nor have those that select over the whole model.` : "";
    const titleOf = ({ groups, tensors }) => groups[0].first.about.model || plural(tensors.length, "tensor");
    this.tables.replaceChildren(...layouts.map((layout) => this.table(layout, layouts.length > 1 ? titleOf(layout) : "")));
  }

  save() {
    const rows = [["model", "tensor", "elements", "name", "method", "seeds", "bytes_per_step", "bits_per_element"]];
    for (const layout of this.layouts()) {
      for (const row of this.sorted(layout)) {
        layout.groups.forEach((group, g) => rows.push([group.first.about.model, row.name, row.count, group.label, group.method,
          group.counted.length, row.bytes[g], bitsOf(row, g)]));
      }
    }
    save("terse-tensors.csv", "text/csv", csvText(rows));
  }
}

/* Bits per element of a row in the column of a group; NaN for a tensor without elements. */
const bitsOf = ({ count, bytes }, g) => (count > 0 ? (8 * bytes[g]) / count : NaN);
const bitsText = (value) => (isNumber(value) ? (value >= 0.1 ? value.toFixed(2) : three(value)) : "–");
