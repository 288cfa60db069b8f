/* The page: its settings, what is redrawn when one changes, and the live stream. */

const DATA = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);

const state = {
  runs: [],
  groups: [], /* of runs that differ by seed */
  live: DATA.mode === "live",
  axis: "step",
  link: 1e9, /* bit/s */
  logX: false,
  smooth: true,
  target: NaN, /* typed by the reader; NaN: not */
  targetNow,
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
  { id: "accuracy", title: "Accuracy", what: "accuracy", kind: "percent", axis: "accuracy", points: overEvaluations("accuracy"), marks: true },
  { id: "loss", title: "Training loss", what: "loss", kind: "number", axis: "training loss", points: overSteps("loss"), noisy: true },
  {
    id: "tradeoff", title: "Accuracy against bytes", what: "accuracy", kind: "percent", axis: "accuracy",
    marks: true, labels: true, least: 2,
    x: () => ({ kind: "bytes", title: "bytes per worker per step", log: true }),
    points: (run) => (isNumber(run.accuracy) && run.about.bytes_per_step > 0
      ? [{ x: run.about.bytes_per_step, y: run.accuracy, step: run.lastStep }] : []),
  },
  { id: "test-loss", title: "Evaluation loss", what: "loss", kind: "number", axis: "evaluation loss", points: overEvaluations("loss"), marks: true },
  { id: "residual", title: "Norm of the residual", what: "norm", kind: "number", axis: "norm of the residual", points: overSteps("residual_norm"), noisy: true },
  { id: "error", title: "Compression error", what: "error", kind: "number", axis: "compression error", points: overSteps("compression_error"), noisy: true },
  { id: "bits", title: "Bits per element", what: "bits", kind: "number", axis: "bits per element", points: overSteps("bits"), noisy: true },
];

const plots = SPECS.map((spec) => new Plot({ x: axisNow, ...spec }, state));
const stages = new Stages(state);
const tensors = new Tensors(state);
const summary = new Summary(state, () => {
  showSeeds();
  summary.draw();
  drawCurves();
});
find("plots").append(...plots.map((plot) => plot.card));
find("bars").append(stages.card, tensors.card);

/* ---- groups: legend, target, commands */

function swatch(group) {
  const svg = shape("svg", { class: "swatch", width: 30, height: 10, "aria-hidden": "true" });
  svg.append(shape("line", { x1: 1, x2: 29, y1: 5, y2: 5, style: `stroke:${group.colour}`, "stroke-width": 2.4, "stroke-dasharray": group.dash }));
  return svg;
}

function show(groups) {
  for (const group of state.groups) group.shown = groups.includes(group);
  for (const button of find("legend").children) button.setAttribute("aria-pressed", state.groups[button.dataset.group].shown);
  summary.draw();
  drawCurves();
}

function toggle(group) {
  show(state.groups.filter((other) => other.shown !== (other === group)));
}

/* Only this group; if it is alone already, all of them. */
function solo(group) {
  const alone = state.groups.every((other) => other.shown === (other === group));
  show(alone ? state.groups : [group]);
}

function drawLegend() {
  const had = document.activeElement && document.activeElement.closest("#legend") ? document.activeElement.dataset.group : undefined;
  find("legend").replaceChildren(...state.groups.map((group) => {
    const button = element("button", {
      type: "button", "aria-pressed": group.shown, "data-group": group.index,
      title: `${group.title}\n\nclick: hide or show; double click, or the key o: only this one`,
    }, swatch(group), element("span", {}, group.label));
    button.addEventListener("click", () => toggle(group));
    button.addEventListener("dblclick", () => solo(group));
    button.addEventListener("keydown", (event) => event.key === "o" && solo(group));
    return button;
  }));
  const again = had !== undefined && find("legend").querySelector(`button[data-group="${had}"]`);
  if (again) again.focus();
}

/* The target of `--target`, if all runs were started with the same one. */
function askedTarget() {
  const asked = state.runs.map(({ about }) => {
    const typed = /--target[ =]([0-9.]+)/.exec(about.command || "");
    return about.target > 0 ? about.target : typed ? Number(typed[1]) : NaN;
  });
  return asked.length > 0 && asked.every((target) => target === asked[0]) ? asked[0] : NaN;
}

/* What the reader typed, else what was asked for, else the highest accuracy that all runs reached. */
function targetNow() {
  if (isNumber(state.target)) return state.target;
  const reached = state.groups.filter((group) => group.shown).flatMap((group) => group.counted)
    .map((run) => run.bestAccuracy).filter(isNumber);
  const asked = askedTarget();
  if (reached.length === 0 && !isNumber(asked)) return NaN;
  const target = isNumber(asked) ? asked : Math.floor(Math.min(...reached) * 1000) / 1000;
  if (document.activeElement !== find("target")) find("target").value = Number((target * 100).toFixed(3));
  return target;
}

function showSeeds() {
  const several = state.groups.filter((group) => group.runs.length > 1);
  find("seeds-label").hidden = find("band-note").hidden = several.length === 0;
  find("seeds").checked = several.length > 0 && several.every((group) => group.open);
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (refused) { /* Pages opened from files may not use the clipboard API. */
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
    about.kernels, about.terse && `terse ${about.terse}`];
  return facts.filter(Boolean).join(", ");
}

/* A command to copy. */
function commandLine(command, whose) {
  const button = element("button", { type: "button", class: "quiet", "aria-label": `Copy the command of ${whose}` }, "copy");
  button.addEventListener("click", () => copy(command, button));
  return element("div", { class: "line" }, element("pre", {}, command), button);
}

/* What one command started is listed once; below it each run alone. */
function commandsOf(group) {
  const block = element("div", { class: "command" },
    element("div", { class: "who" }, swatch(group), group.label), element("p", { class: "muted" }, group.method, element("br"), describe(group.first)));
  const lines = group.runs.map((run) => [run.about.train || run.about.command, `${group.label}, ${run.seedText}`])
    .filter(([command]) => command && !sharedCommands().includes(command)).map(([command, whose]) => commandLine(command, whose));
  block.append(...lines.slice(0, 1));
  if (lines.length > 1) block.append(element("details", {}, element("summary", {}, `${plural(lines.length - 1, "other seed")}`), ...lines.slice(1)));
  return block;
}

/* Commands that started several runs. */
function sharedCommands() {
  const times = new Map();
  for (const { about } of state.runs) times.set(about.command, (times.get(about.command) || 0) + 1);
  return [...times].filter(([command, count]) => command && count > 1).map(([command]) => command);
}

function drawCommands() {
  const shared = sharedCommands().map((command) => element("div", { class: "command shared" },
    element("div", { class: "who" }, plural(state.runs.filter(({ about }) => about.command === command).length, "run")), commandLine(command, "all")));
  find("commands").replaceChildren(...shared, ...state.groups.map(commandsOf));
}

function drawNotes() {
  const lines = [...(DATA.notes || []), ...state.runs.flatMap((run) => run.notes.map((note) => `${run.about.method || run.about.name || "run"}, ${run.seedText}: ${note}`))];
  find("notes").hidden = lines.length === 0;
  find("notes").replaceChildren(...lines.map((line) => element("p", {}, line)));
}

function drawHead() {
  const [first] = state.runs;
  const same = (key) => first && first.about[key] && state.runs.every((run) => run.about[key] === first.about[key]);
  const parts = [plural(state.runs.length, "run")];
  if (state.groups.length < state.runs.length) parts[0] = `${parts[0]} of ${plural(state.groups.length, "group")}`;
  if (same("model")) parts.push(same("data") ? `${first.about.model} on ${first.about.data}` : first.about.model);
  if (same("workers")) parts.push(plural(first.about.workers, "worker"));
  find("subtitle").textContent = first ? parts.join(" · ") : "waiting for the first run";
  for (const id of ["summary-card", "bar", "commands-card"]) find(id).hidden = !first;
  find("footer").textContent = `Generated by terse ${DATA.made_by}. Time on a link is work + 8 × bytes / speed: `
    + "latency is not included, and nothing is subtracted for work that overlaps communication.";
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
  state.groups = groupRuns(state.runs, state.groups);
  drawHead();
  drawNotes();
  drawLegend();
  showSeeds();
  summary.draw();
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
  state.axis = "link"; /* Moving the slider selects the axis that it affects. */
  find("axis").querySelector("input[value=link]").checked = true;
  summary.draw();
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
find("seeds").addEventListener("change", (event) => {
  for (const group of state.groups) group.open = event.target.checked;
  summary.draw();
  drawCurves();
});
find("target").addEventListener("input", (event) => {
  state.target = event.target.value === "" ? NaN : Number(event.target.value) / 100;
  summary.draw();
});

const THEMES = { auto: "as the system", light: "light", dark: "dark" };
function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  find("theme").textContent = name;
  find("theme").setAttribute("aria-label", `Colours: ${THEMES[name]}`);
  try { localStorage.setItem("terse-theme", name); } catch (refused) { /* Pages opened from files may have no storage. */ }
}
find("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(find("theme").textContent) + 1) % names.length]);
});
try {
  const stored = localStorage.getItem("terse-theme");
  if (Object.hasOwn(THEMES, stored || "")) setTheme(stored);
} catch (refused) { /* The same. */ }

let lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === lastWidth) return;
  lastWidth = window.innerWidth;
  later(drawCurves);
});

/* Draws at most once every `wait` milliseconds, however often it is called. */
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

function receive(line) {
  if (line.kind === "run") {
    state.runs.push(new Run(line, state.runs.length));
    later(drawAll, 200);
    return;
  }
  if (state.runs.length === 0) state.runs.push(new Run({}, 0));
  state.runs[state.runs.length - 1].push(line);
  later(drawLive, 200);
}

/* Redraws, and selects again the point that the reader had selected. */
function drawLive() {
  const kept = plots.map(({ pointer }) => pointer.focused);
  if (state.groups.reduce((sum, group) => sum + group.runs.length, 0) !== state.runs.length) drawAll();
  summary.draw();
  drawCurves();
  plots.forEach((plot, i) => {
    const line = kept[i] && plot.lines.find(({ label }) => label === kept[i].line.label);
    if (line && line.points[kept[i].index]) plot.pointer.choose({ line, index: kept[i].index });
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
      receive(JSON.parse(event.data));
    } catch (broken) { /* A line that is not JSON is ignored. */ }
  });
  source.addEventListener("bye", () => {
    done = true;
    source.close();
    showLive("training ended", false);
  });
  source.addEventListener("error", () => {
    if (!done) showLive("connection lost, reconnecting", false);
  });
}

/* ---- start */

showLink();
if (DATA.mode === "live") {
  find("title").textContent = "terse live";
  document.title = "terse live";
  drawAll();
  listen();
} else {
  for (const about of DATA.runs) if (isNumber(about.tensors_of)) about.tensors = DATA.runs[about.tensors_of].tensors;
  state.runs = DATA.runs.map((about, index) => new Run(about, index));
  drawAll();
}
