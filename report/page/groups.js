/* Groups of runs that differ by their seed alone: one curve, one entry of the legend, one row. */

const DASHES = ["", "7 3", "2.5 2.5", "10 3 2 3", "14 4", "5 5", "9 3 2 3 2 3", "1.5 4"];
const COLOURS = 8;

/* Keys of run.json that do not say what was trained. The build takes the list for report/parse.c from here. */
const NO_SETTINGS = new Set(["format", "kind", "terse", "command", "train", "name", "method", "seed", "target", "evaluate_every",
  "threads", "codec_threads", "timeout", "checkpoint_every", "parameters", "seconds", "bytes_sent", "dense_bytes", "capped",
  "kernels", "libraries", "spec", "exchange", "data_notes"]);

function settingsOf(about) {
  if (about.settings) return about.settings;
  return Object.fromEntries(Object.entries(about).filter(([key, value]) => !NO_SETTINGS.has(key) && typeof value !== "object")
    .map(([key, value]) => [key, String(value)]));
}

const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/* The standard deviation of a sample. */
function deviationOf(values) {
  const mean = meanOf(values);
  return values.length > 1 ? Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1)) : 0;
}

class Group {
  constructor(first) {
    this.runs = [first];
    this.shown = true;
    this.open = false; /* Its seeds are drawn and listed too. */
    this.settings = first.settings;
    this.method = first.about.method || first.about.name || "run";
  }

  /* The runs that means are made of: a run that was cut short, or has not ended, is not mixed with whole ones. */
  get counted() {
    const whole = this.runs.filter((run) => run.complete);
    return whole.length > 0 ? whole : this.runs;
  }

  get first() { return this.runs[0]; }

  /* Mean and deviation of a value; the mean is NaN if a run lacks it. `lacking` is the number of these. */
  value(get) {
    const all = this.counted.map(get);
    const lacking = all.filter((value) => !isNumber(value)).length;
    return lacking > 0 ? { mean: NaN, deviation: NaN, lacking, of: all.length }
      : { mean: meanOf(all), deviation: deviationOf(all), lacking, of: all.length };
  }

  /* Full spec and settings, for tooltips. */
  get title() {
    const seeds = this.runs.length > 1 ? `\n${this.runs.map((run) => run.seedText).join(", ")}` : "";
    return `${this.method}\n${Object.entries(this.settings).map(([key, value]) => `${key} ${value}`).join(", ")}${seeds}`;
  }

  /* The mean of the counted runs' points, with the lowest and the highest; [] if a run has none. */
  points(get) {
    const lists = this.counted.map(get);
    if (lists.some((points) => points.length === 0)) return [];
    return lists.length > 1 ? meanPoints(lists) : lists[0];
  }
}

/* Steps that all lists cover; those of the longest where lists were thinned differently. */
function commonSteps(lists) {
  const longest = lists.reduce((best, points) => (points.length > best.length ? points : best));
  const first = Math.max(...lists.map((points) => points[0].step));
  const last = Math.min(...lists.map((points) => points[points.length - 1].step));
  return longest.map((point) => point.step).filter((step) => step >= first && step <= last);
}

/* A function of ascending steps: the list's point there, between two recorded ones if there is none. */
function follow(points) {
  let at = 0;
  return (step) => {
    while (at + 1 < points.length && points[at + 1].step <= step) at += 1;
    const from = points[at];
    const to = points[at + 1];
    if (from.step >= step || !to) return from;
    const part = (step - from.step) / (to.step - from.step);
    const gap = !isNumber(from.y) || !isNumber(to.y);
    return { x: from.x + (to.x - from.x) * part, y: gap ? null : from.y + (to.y - from.y) * part };
  };
}

function meanPoints(lists) {
  const one = lists.every((points) => points.length === 1); /* Final values: steps may differ. */
  const steps = one ? [lists[0][0].step] : commonSteps(lists);
  const followers = lists.map((points) => (one ? () => points[0] : follow(points)));
  return steps.map((step) => {
    const found = followers.map((at) => at(step));
    const values = found.map((point) => point.y);
    const x = meanOf(found.map((point) => point.x));
    if (!values.every(isNumber)) return { step, x, y: null };
    return { step, x, y: meanOf(values), low: Math.min(...values), high: Math.max(...values), of: values.length };
  });
}

/* Puts runs into groups; groups that exist already keep what the reader chose for them. A seed that a
 * group has already begins another group. */
function groupRuns(runs, before) {
  const kept = new Map(before.map((group) => [group.key, group]));
  const groups = new Map();
  for (const run of runs) {
    const about = run.about;
    const what = about.method && isNumber(about.seed) ? JSON.stringify([about.method, run.settings]) : `run ${run.index}`;
    let times = 0;
    const key = () => `${times} ${what}`;
    while (groups.has(key()) && groups.get(key()).runs.some((other) => other.about.seed === about.seed)) times += 1;
    if (groups.has(key())) {
      groups.get(key()).runs.push(run);
      continue;
    }
    const group = new Group(run);
    const old = kept.get(key());
    if (old) Object.assign(group, { shown: old.shown, open: old.open });
    group.key = key();
    groups.set(group.key, group);
  }
  const list = [...groups.values()];
  list.forEach((group, index) => { group.index = index; });
  nameGroups(list);
  return list;
}

/* "topk:keep=0.01,lr=0.02": the name and its options. A composed spec has the name of its codec. */
function specParts(method) {
  const colon = method.indexOf(":");
  const equals = method.indexOf("=");
  const named = equals < 0 || (colon >= 0 && colon < equals);
  const rest = named ? (colon < 0 ? "" : method.slice(colon + 1)) : method;
  const options = new Map(rest.split(",").filter(Boolean).map((word) => {
    const at = word.indexOf("=");
    return at < 0 ? [word, ""] : [word.slice(0, at), word.slice(at + 1)];
  }));
  const codec = options.has("codec") ? `codec=${options.get("codec").split(":")[0]}` : "composed";
  return { name: !named ? codec : colon < 0 ? method : method.slice(0, colon), options };
}

/* Short names, by the rule of report/group.c (tests/report/names.json has its cases): the method, the options in which groups of this method differ, and the settings in which
 * any groups differ. Where that is not unique, the full spec and the folder. */
function nameGroups(groups) {
  const parts = groups.map((group) => specParts(group.method));
  const differs = (key) => new Set(groups.map((group) => group.settings[key]).filter((value) => value !== undefined)).size > 1;
  const settings = [...new Set(groups.flatMap((group) => Object.keys(group.settings)))].filter(differs);
  /* The length of a run is its epochs, or its steps if it was not counted in epochs. */
  const unsaid = (group) => (group.settings.epochs > 0 ? settings.includes("epochs") && "steps" : "epochs");
  const names = [...new Set(parts.map((part) => part.name))];
  const variants = new Map();
  groups.forEach((group, i) => {
    const { name, options } = parts[i];
    const peers = parts.filter((part) => part.name === name);
    const words = [...options].filter(([key, value]) => peers.some((peer) => peer.options.get(key) !== value))
      .map(([key, value]) => (value === "" ? key : `${key}=${value}`));
    const more = settings.filter((key) => group.settings[key] !== undefined && key !== unsaid(group)).map((key) => `${key}=${group.settings[key]}`);
    const codec = words.findIndex((word) => word === name || word.startsWith(`${name}:`)); /* then it is the name */
    const first = codec < 0 ? name : words.splice(codec, 1)[0];
    group.short = [first, ...words, ...more].join(" ");
    group.name = name;
    const method = names.indexOf(name);
    const variant = variants.get(name) || 0;
    variants.set(name, variant + 1);
    group.colour = `var(--c${method % COLOURS})`;
    group.dash = DASHES[(method + 3 * Math.floor(method / COLOURS) + variant) % DASHES.length];
  });
  const ways = [(group) => group.short, (group) => group.method, (group) => `${group.short} (${group.first.about.name || group.index + 1})`];
  const counts = ways.map((way) => {
    const times = new Map();
    for (const group of groups) times.set(way(group), (times.get(way(group)) || 0) + 1);
    return times;
  });
  for (const group of groups) {
    const way = ways.findIndex((name, i) => counts[i].get(name(group)) === 1);
    group.label = way >= 0 ? ways[way](group) : `${ways[2](group)} #${group.index + 1}`;
  }
}
