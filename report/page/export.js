/* Saving: a plot as SVG or PNG, with a legend and in light colours on white whatever the page shows; its
 * recorded points and the summary as CSV. */

const INLINED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-size", "font-family"];
const PNG_SCALE = 2;

function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const csvCell = (value) => {
  const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text;
};
const csvText = (rows) => rows.map((row) => `${row.map(csvCell).join(",")}\n`).join("");

/* ---- figures */

/* Runs `act` while the page has light colours; nothing is painted meanwhile. */
function inLight(act) {
  const root = document.documentElement;
  const theme = root.dataset.theme;
  root.dataset.theme = "light";
  try {
    return act();
  } finally {
    if (theme === undefined) delete root.dataset.theme; else root.dataset.theme = theme;
  }
}

/* What the style sheet says becomes attributes. */
function inlineStyles(from, to) {
  if (!(from instanceof SVGElement)) return;
  const style = getComputedStyle(from);
  to.removeAttribute("style");
  to.removeAttribute("class");
  if (!["svg", "g", "clipPath"].includes(from.tagName)) {
    for (const key of INLINED) {
      const value = style.getPropertyValue(key);
      if (value && value !== "none" || key === "fill" || key === "stroke") to.setAttribute(key, value);
    }
  }
  [...from.children].forEach((child, i) => inlineStyles(child, to.children[i]));
}

/* The legend below the picture, in as many rows as the width needs; appended to `svg`, its height is returned. */
function appendLegend(svg, lines, width, top) {
  const layer = shape("g");
  let x = 0;
  let y = top + 14;
  for (const { group, label } of lines.filter((line) => !line.thin)) {
    const wide = 30 + textWidth(label) + 18;
    if (x > 0 && x + wide > width) {
      x = 0;
      y += 18;
    }
    layer.append(shape("line", { x1: x, x2: x + 24, y1: y - 4, y2: y - 4, style: `stroke:${group.colour}`, "stroke-width": 2, "stroke-dasharray": group.dash }),
      shape("text", { class: "mark-label", x: x + 30, y }, label));
    x += wide;
  }
  svg.append(layer);
  return y + 8 - top;
}

/* { text, width, height } of the picture as a file of its own. */
function figureOf(plot) {
  const [, , width, height] = plot.svg.getAttribute("viewBox").split(" ").map(Number);
  return inLight(() => {
    const drawn = plot.svg.cloneNode(true);
    drawn.querySelector(".focus").remove();
    const more = plot.spec.labels ? 0 : appendLegend(drawn, plot.lines, width, height);
    plot.chart.append(drawn); /* Styles are computed for what is in the page. */
    const made = drawn.cloneNode(true);
    inlineStyles(drawn, made);
    drawn.remove();
    for (const key of ["role", "aria-hidden"]) made.removeAttribute(key);
    made.setAttribute("xmlns", SVG);
    made.setAttribute("viewBox", `0 0 ${width} ${height + more}`);
    made.setAttribute("width", width);
    made.setAttribute("height", height + more);
    made.prepend(shape("title", {}, plot.spec.title), shape("rect", { width, height: height + more, fill: "#ffffff" }));
    return { text: new XMLSerializer().serializeToString(made), width, height: height + more };
  });
}

const fileName = (plot, ending) => `terse-${plot.spec.id}.${ending}`;

function saveSvg(plot) {
  save(fileName(plot, "svg"), "image/svg+xml", figureOf(plot).text);
}

function savePng(plot) {
  const { text, width, height } = figureOf(plot);
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = element("canvas", { width: width * PNG_SCALE, height: height * PNG_SCALE });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(fileName(plot, "png"), "image/png", blob), "image/png");
  });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

/* ---- tables */

/* One row per recorded point of the runs that are shown. */
function saveSeries(plot) {
  const rows = [["name", "method", "seed", "step", "seconds", "bytes", plot.spec.what]];
  for (const group of plot.state.groups.filter(({ shown }) => shown)) {
    for (const run of group.runs) {
      for (const { step, y } of plot.spec.points(run, plot.state)) {
        const known = run.at(step);
        rows.push([group.label, group.method, run.about.seed, step, known.seconds, known.bytes, y]);
      }
    }
  }
  save(fileName(plot, "csv"), "text/csv", csvText(rows));
}

/* One row per group: the mean and the deviation of every column of the summary. */
function saveSummary(groups, columns) {
  const rows = [["name", "method", "seeds", ...columns.flatMap(({ key }) => [key, `${key}_deviation`])]];
  for (const group of groups) {
    rows.push([group.label, group.method, group.counted.length, ...columns.flatMap(({ value }) => {
      const { mean, deviation } = group.value(value);
      return [mean, group.counted.length > 1 ? deviation : null];
    })]);
  }
  save("terse-summary.csv", "text/csv", csvText(rows));
}
