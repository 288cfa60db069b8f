/* The page: what is chosen, what is drawn again when a choice changes, and the live stream. */

const DATA = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);

const state = {
  runs: [],
  axis: "step",
  link: 1e9, /* bit/s */
  logX: false,
  smooth: true,
  target: NaN,
  targetChosen: false,
};

const AXES = {
  step: { kind: "count", title: "steps" },
  bytes: { kind: "bytes", title: "bytes sent by one worker" },
  seconds: { kind: "seconds", title: "time, without evaluation" },
};

function axisNow() {
  if (state.axis === "link") return { kind: "seconds", title: `time on a link of ${speedText(state.link)}`, log: state.logX };
  return { ...AXES[state.axis], log: state.logX };
}

const overSteps = (key) => (run, now) => run.stepPoints(key, now.axis, now.link);
const overEvaluations = (key) => (run, now) => run.evaluationPoints(key, now.axis, now.link);

const SPECS = [
  { id: "accuracy", title: "Accuracy", what: "accuracy", kind: "percent", points: overEvaluations("accuracy"), marks: true },
  { id: "loss", title: "Training loss", what: "loss", kind: "number", points: overSteps("loss"), noisy: true },
  {
    id: "tradeoff", title: "Accuracy against bytes", what: "accuracy", kind: "percent", marks: true, labels: true, least: 2,
    x: () => ({ kind: "bytes", title: "bytes per step and worker", log: true }),
    points: (run) => (isNumber(run.accuracy) && run.about.bytes_per_step > 0
      ? [{ x: run.about.bytes_per_step, y: run.accuracy, step: run.lastStep }] : []),
  },
  { id: "test-loss", title: "Evaluation loss", what: "loss", kind: "number", points: overEvaluations("loss"), marks: true },
  { id: "residual", title: "Norm of the residual", what: "norm", kind: "number", points: overSteps("residual_norm"), noisy: true },
  { id: "error", title: "Compression error", what: "error", kind: "number", points: overSteps("compression_error"), noisy: true },
  { id: "bits", title: "Bits per element", what: "bits", kind: "number", points: overSteps("bits"), noisy: true },
];

const plots = SPECS.map((spec) => new Plot({ x: axisNow, ...spec }, state));
const stages = new Stages(state);
const tensors = new Tensors(state);
find("plots").append(...plots.map((plot) => plot.card));
find("bars").append(stages.card, tensors.card);

/* ---- runs: legend, summary, commands */

function swatch(run) {
  const svg = shape("svg", { class: "swatch", width: 30, height: 10, "aria-hidden": "true" });
  svg.append(shape("line", { x1: 1, x2: 29, y1: 5, y2: 5, style: `stroke:${run.colour}`, "stroke-width": 2.4, "stroke-dasharray": run.dash }));
  return svg;
}

function toggle(run) {
  run.shown = !run.shown;
  drawAll();
}

function drawLegend() {
  const had = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.run : undefined;
  find("legend").replaceChildren(...state.runs.map((run) => {
    const button = element("button", { type: "button", "aria-pressed": run.shown, "data-run": run.index, title: run.label },
      swatch(run), element("span", {}, run.label));
    button.addEventListener("click", () => toggle(run));
    return button;
  }));
  const again = had !== undefined && find("legend").querySelector(`button[data-run="${had}"]`);
  if (again) again.focus();
}

function targetNow() {
  if (state.targetChosen) return state.target;
  const reached = state.runs.filter((run) => run.shown && isNumber(run.bestAccuracy)).map((run) => run.bestAccuracy);
  if (reached.length === 0) return NaN;
  const target = Math.floor(Math.min(...reached) * 1000) / 1000;
  if (document.activeElement !== find("target")) find("target").value = (target * 100).toFixed(1);
  return target;
}

/* heading, value, text, and which end of the values is best */
function columns(target) {
  const reach = (key) => (run) => {
    const found = run.reach(target);
    return found ? found[key] : NaN;
  };
  const goal = isNumber(target) ? `${short(target * 100)} %` : "target";
  return [
    ["accuracy", (run) => run.accuracy, percentText, Math.max],
    ["loss", (run) => run.loss, lossText, Math.min],
    ["bytes per step", (run) => run.about.bytes_per_step, bytesText, Math.min],
    ["compression ratio", (run) => run.smaller, timesText, Math.max],
    ["time", (run) => run.seconds, secondsText, Math.min],
    [`time at ${speedText(state.link)}`, (run) => run.linkSeconds(state.link), secondsText, Math.min],
    [`time to ${goal}`, reach("seconds"), secondsText, Math.min],
    [`bytes to ${goal}`, reach("bytes"), bytesText, Math.min],
  ];
}

function stateOf(run) {
  if (run.end) return run.end.status === "finished" ? "" : run.end.status;
  return DATA.mode === "live" ? `at step ${countText(run.lastStep)}` : "no end recorded";
}

function drawSummary() {
  const all = columns(targetNow());
  const shown = state.runs.filter((run) => run.shown);
  const best = all.map(([, value, , better]) => {
    const values = shown.map(value).filter(isNumber);
    return values.length > 1 && Math.min(...values) !== Math.max(...values) ? better(...values) : NaN;
  });
  const rows = state.runs.map((run) => {
    const note = stateOf(run);
    const name = element("th", { scope: "row", title: run.label }, swatch(run), ` ${run.label}`);
    if (note) name.append(element("span", { class: "state" }, note));
    const cells = all.map(([, value, text], i) => {
      const number = value(run);
      return element("td", run.shown && number === best[i] ? { class: "best" } : {}, text(number));
    });
    return element("tr", run.shown ? {} : { class: "off" }, name, ...cells);
  });
  find("summary").replaceChildren(element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "method"),
    ...all.map(([heading]) => element("th", { scope: "col" }, heading)))), element("tbody", {}, ...rows));
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (refused) { /* pages from files may not use the clipboard directly */
    const area = element("textarea", { class: "hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy"; }, 1500);
}

function describe(run) {
  const { about } = run;
  const facts = [[about.model, about.data && `on ${about.data}`].filter(Boolean).join(" "), isNumber(about.parameters) && `${countText(about.parameters)} parameters`,
    isNumber(about.workers) && plural(about.workers, "worker"), isNumber(about.batch) && `batch ${about.batch}`,
    isNumber(about.seed) && `seed ${about.seed}`, about.kernels, about.terse && `terse ${about.terse}`];
  return facts.filter(Boolean).join(", ");
}

function drawCommands() {
  find("commands").replaceChildren(...state.runs.map((run) => {
    const who = element("div", { class: "who" }, swatch(run), run.label);
    const head = element("div", { class: "command-head" }, who);
    const block = element("div", { class: "command" }, head);
    if (run.about.command) {
      const button = element("button", { type: "button", class: "quiet", "aria-label": `Copy the command of ${run.label}` }, "copy");
      button.addEventListener("click", () => copy(run.about.command, button));
      head.append(button);
      block.append(element("pre", {}, run.about.command));
    }
    block.append(element("p", { class: "muted" }, describe(run)));
    return block;
  }));
}

function drawNotes() {
  const lines = [...(DATA.notes || []), ...state.runs.flatMap((run) => run.notes.map((note) => `${run.label}: ${note}`))];
  find("notes").hidden = lines.length === 0;
  find("notes").replaceChildren(...lines.map((line) => element("p", {}, line)));
}

function drawHead() {
  const [first] = state.runs;
  const same = (key) => first && first.about[key] && state.runs.every((run) => run.about[key] === first.about[key]);
  const parts = [plural(state.runs.length, "run")];
  if (same("model")) parts.push(same("data") ? `${first.about.model} on ${first.about.data}` : first.about.model);
  if (same("workers")) parts.push(plural(first.about.workers, "worker"));
  find("subtitle").textContent = first ? parts.join(" · ") : "waiting for the first run";
  for (const id of ["summary-card", "bar", "commands-card"]) find(id).hidden = !first;
  find("footer").textContent = `Made by terse ${DATA.made_by}. Time on a link is work + 8 × bytes / speed: `
    + "latency, and work that overlaps sending, are left out.";
}

function drawCurves() {
  for (const plot of plots) plot.draw();
  const visible = plots.filter((plot) => !plot.card.hidden);
  visible.forEach((plot, i) => {
    const alone = visible.length % 2 === 1 && i === visible.length - 1;
    if (plot.card.classList.toggle("wide", alone) !== plot.wide) plot.draw();
    plot.wide = alone;
  });
  stages.draw();
  tensors.draw();
}

function drawAll() {
  nameRuns(state.runs);
  drawHead();
  drawNotes();
  drawLegend();
  drawSummary();
  drawCommands();
  drawCurves();
}

/* ---- controls */

function showLink() {
  state.link = 10 ** (6 + Number(find("link").value) / 20);
  find("link-speed").textContent = speedText(state.link);
  find("link").setAttribute("aria-valuetext", speedText(state.link));
}

for (const radio of find("axis").querySelectorAll("input")) {
  radio.addEventListener("change", () => {
    state.axis = radio.value;
    drawCurves();
  });
}
find("link").addEventListener("input", () => {
  showLink();
  state.axis = "link"; /* who moves the slider wants to see what it does */
  find("axis").querySelector("input[value=link]").checked = true;
  drawSummary();
  drawCurves();
});
find("log-x").addEventListener("change", (event) => {
  state.logX = event.target.checked;
  drawCurves();
});
find("smooth").addEventListener("change", (event) => {
  state.smooth = event.target.checked;
  drawCurves();
});
find("target").addEventListener("input", (event) => {
  state.targetChosen = event.target.value !== "";
  state.target = Number(event.target.value) / 100;
  drawSummary();
});

const THEMES = { auto: "as the system", light: "light", dark: "dark" };
function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  find("theme").textContent = name;
  find("theme").setAttribute("aria-label", `Colours: ${THEMES[name]}`);
  try { localStorage.setItem("terse-theme", name); } catch (refused) { /* files may have no storage */ }
}
find("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(find("theme").textContent) + 1) % names.length]);
});
try {
  const stored = localStorage.getItem("terse-theme");
  if (Object.hasOwn(THEMES, stored || "")) setTheme(stored);
} catch (refused) { /* as above */ }

let lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === lastWidth) return;
  lastWidth = window.innerWidth;
  later(drawCurves);
});

/* Many causes, one drawing: at most every `wait` milliseconds. */
const waiting = new Set();
function later(draw, wait = 100) {
  if (waiting.has(draw)) return;
  waiting.add(draw);
  setTimeout(() => {
    waiting.delete(draw);
    draw();
  }, wait);
}

/* ---- live */

function showLive(text, on) {
  find("live-state").hidden = false;
  find("live-state").className = `badge ${on ? "on" : "off"}`;
  if (find("live-state").textContent !== text) find("live-state").textContent = text;
}

function hear(line) {
  if (line.kind === "run") {
    state.runs.push(new Run(line, state.runs.length));
    later(drawAll, 200);
    return;
  }
  if (state.runs.length === 0) state.runs.push(new Run({}, 0));
  state.runs[state.runs.length - 1].push(line);
  later(drawLive, 200);
}

/* Under the reader's hand nothing is drawn away: the point that was shown is shown again. */
function drawLive() {
  const kept = plots.map((plot) => plot.focused && { run: plot.focused.series.run, index: plot.focused.index });
  if (find("legend").children.length !== state.runs.length) drawAll();
  drawSummary();
  drawCurves();
  plots.forEach((plot, i) => {
    const series = kept[i] && plot.series.find(({ run }) => run === kept[i].run);
    if (series && series.points[kept[i].index]) plot.choose({ series, index: kept[i].index });
  });
}

function listen() {
  const source = new EventSource("events");
  let done = false;
  showLive("connecting", false);
  source.addEventListener("hello", () => {
    state.runs.length = 0;
    showLive("live", true);
    later(drawAll, 200);
  });
  source.addEventListener("open", () => showLive("live", true));
  source.addEventListener("message", (event) => {
    try {
      hear(JSON.parse(event.data));
    } catch (broken) { /* a line that is no JSON is not shown */ }
  });
  source.addEventListener("bye", () => {
    done = true;
    source.close();
    showLive("training ended", false);
  });
  source.addEventListener("error", () => {
    if (!done) showLive("connection lost, trying again", false);
  });
}

/* ---- begin */

showLink();
if (DATA.mode === "live") {
  find("title").textContent = "terse live";
  document.title = "terse live";
  drawAll();
  listen();
} else {
  state.runs = DATA.runs.map((about, index) => new Run(about, index));
  drawAll();
}
