"""The rows of bench/race as tables, verdicts and runs for `terse report`."""

import json
import math
import os
import statistics
import subprocess
import tempfile

UNSHAPED = 10 ** 11  # as in bench/predict
MOST_RATES = 6
AIMS = {"mlp": 8, "cnn": 5}  # times less time than DDP dense at 100 Mbit/s


class Race:
    """What is known of every cell, from the kept rows."""

    def __init__(self, kept, rows, names):
        self._kept, self._rows, self.names = kept, rows, names

    def _known(self, kind, model, row, rate, link=None):
        about = self._rows.about(kind, model, row, rate, link)
        found = [each for each in self._kept.rows if about.items() <= each.items()]
        return found[-1] if found else None

    def find(self, kind, model, row, link=None):
        """The kept row of a cell at its row's rate, or None. Of a kind "train", "time" or "real"."""
        return self._known(kind, model, row, self.rate(model, row), link)

    def trainings(self, model, row):
        """By rate the trainings whose steps are counted: without links, or else over unshaped ones."""
        rates = {each["rate"] for each in self._kept.rows
                 if each["row"] == row and each["model"] == model and "rate" in each}
        found = {rate: self._known("train", model, row, rate)
                 or self._known("real", model, row, rate, UNSHAPED) for rate in sorted(rates)}
        return {rate: each for rate, each in found.items() if each}

    def rate(self, model, row):
        """The one that needs the fewest steps of those that were tried; the first one before that."""
        if self._rows[row].like:
            return self.rate(model, self._rows[row].like)
        found = self.trainings(model, row)
        return min(found, key=lambda rate: (found[rate]["steps"] or math.inf, -found[rate]["best"]),
                   default=self._rows[row].specs[model][1])

    def rates_to_try(self, model, row):
        """Three, the first one in the middle; then one at a time until the best is not at an end."""
        first, found = self._rows[row].specs[model][1], self.trainings(model, row)
        near = lambda rate: any(math.isclose(rate, each) for each in found)
        missing = [rate for rate in (first, first / 2, first * 2) if not near(rate)]
        if missing or len(found) >= MOST_RATES:
            return missing
        best = self.rate(model, row)
        return [best / 2] if best == min(found) else [best * 2] if best == max(found) else []

    def training(self, model, row):
        """That of the row's rate, or None."""
        return self.trainings(model, row).get(self.rate(model, row))

    def fewest_steps(self, model, row):
        """Of all rates that were tried; None if none reached the target."""
        found = self.training(model, row)
        return found and found["steps"]

    def step(self, model, row, link):
        """The median of the timed steps in seconds, or None."""
        found = self.find("time", model, row, link)
        return statistics.median(found["times"]) if found else None

    def composed(self, model, row, link):
        training, step = self.training(model, row), self.step(model, row, link)
        return training["steps"] * step if training and training["steps"] and step else None

    def real(self, model, row, link):
        """What a training on the link took, the time included in which `auto` measured."""
        found = self.find("real", model, row, link)
        return found["seconds"] + found.get("measuring", 0) if found and found["seconds"] else None

    def choice(self, model, link):
        """What `auto` has chosen, with the seconds of a step and of measuring; or None."""
        found = self.find("real", model, "auto", link)
        return found if found and "chosen" in found and found["steps"] else None

    def seconds(self, model, row, link):
        """Composed where it can be: cells of one table are then comparable."""
        return self.composed(model, row, link) or self.real(model, row, link)

    def bytes(self, model, row):
        found = [self.find("time", model, row, link) for link in self.names]
        found = [each["bytes"] for each in found if each]
        return statistics.median(found) if found else None

    def compute(self, model, row):
        """Seconds of a step without communication, with as many ranks per core as in the run."""
        if self._rows[row].engine == "torch":
            return next((found for link in self.names
                         if (found := self.step(model, "torch-alone", link))), None)
        found = [self.find("time", model, row, link) for link in self.names]
        found = [value for each in found if each for value in each["computes"]]
        return statistics.median(found) if found else None


def text(seconds):
    if seconds is None:
        return "-"
    return "%.0f" % seconds if seconds >= 100 else "%.1f" % seconds


def cell(race, model, row, link):
    composed, real = race.composed(model, row, link), race.real(model, row, link)
    if composed and real:
        return "%s (real %s)" % (text(composed), text(real))
    return text(composed) if composed or not real else "real " + text(real)


def table(race, rows, model, links, target):
    """Seconds to the target: steps times the median step, and in brackets a training on the link."""
    names = [race.names[link] for link in links]
    lines = ["| %s, to %g %% | spec or case | steps | compute ms | %s | MB per step |" % (
        model, 100 * target, " | ".join("%s, s" % name for name in names)),
             "|---|---|---:|---:|%s---:|" % ("---:|" * len(links))]
    for name, row in rows.items():
        training = race.training(model, name)
        cells = [cell(race, model, name, link) for link in links]
        if row.alone or (training is None and set(cells) == {"-"}):
            continue
        steps = "-" if training is None else training["steps"] or "not reached: %.1f %%" % (
            100 * training["best"])
        sent, compute = race.bytes(model, name), race.compute(model, name)
        lines.append("| %s | `%s` | %s | %s | %s | %s |" % (
            row.label, rows.spec(model, name, race.rate(model, name)), steps, "%.1f" % (1e3 * compute) if compute else "-",
            " | ".join(cells), "%.3f" % (sent / 1e6) if sent else "-"))
    return "\n".join(lines)


def step_table(race, rows, model, links):
    """Milliseconds of a step: the median and the range."""
    lines = ["| %s, ms per step | %s |" % (model, " | ".join(race.names[link] for link in links)),
             "|---|%s" % ("---:|" * len(links))]
    for name, row in rows.items():
        found = [race.find("time", model, name, link) for link in links]
        if any(found):
            lines.append("| %s | %s |" % (row.label, " | ".join(
                "%.0f (%.0f - %.0f)" % tuple(1e3 * f(each["times"]) for f in (
                    statistics.median, min, max)) if each else "-" for each in found)))
    return "\n".join(lines)


def rate_table(race, rows, model):
    """The rates that were tried, with the steps they need."""
    lines = ["| %s | lr: steps to the target |" % model, "|---|---|"]
    for name, row in rows.items():
        found = race.trainings(model, name)
        if found and not row.like:
            ended = lambda each: each["steps"] or "not in %d" % each["curve"][-1][0]
            lines.append("| %s | %s%s |" % (
                row.label, ", ".join("%g: %s" % (rate, ended(each)) for rate, each in found.items()),
                "" if min(found) < race.rate(model, name) < max(found) else " (best at an end)"))
    return "\n".join(lines)


# ---- verdicts ----

def fastest(race, rows, model, link, wanted):
    found = [(seconds, name) for name, row in rows.items() if wanted(name, row)
             and (seconds := race.seconds(model, name, link))]
    return min(found) if found else None


def against(race, rows, model, link, rival, aim):
    """The fastest row of terse, in the trainer and in PyTorch, against a row without terse."""
    slow, lines = race.seconds(model, rival, link), []
    if slow is None:
        return lines
    for where, engine in (("terse train", "terse"), ("PyTorch with terse", "torch")):
        best = fastest(race, rows, model, link, lambda name, row: row.engine == engine
                       and row.terse and name != "dense")
        if best:
            ratio = slow / best[0]
            lines.append("%s, %s: %s takes %.2f times as long as %s with %s (%s s and %s s); "
                         "aim %g: %s" % (
                             model, race.names[link], rows[rival].label, ratio, where,
                             rows[best[1]].label, text(slow), text(best[0]), aim,
                             "reached" if ratio >= aim else "MISSED"))
    return lines


def verdicts(race, rows, model):
    lines = against(race, rows, model, 10 ** 7, "torch-dense", 1)
    lines += against(race, rows, model, 10 ** 8, "torch-dense", AIMS[model])
    lines += against(race, rows, model, 10 ** 8, "torch-powersgd", 1)
    lines += against(race, rows, model, 10 ** 9, "torch-dense", 1.5)
    for link, name in race.names.items():
        auto, dense = race.choice(model, link), race.find("real", model, "dense", link)
        if auto:
            lines.append("%s, %s: auto measured for %.1f s and took %s: %d steps in %s s" % (
                model, name, auto["measuring"], auto["chosen"], auto["steps"],
                text(auto["seconds"])))
        if auto and dense and dense["steps"] and name == "unshaped":
            longer = 100 * (auto["seconds"] / auto["steps"] * dense["steps"] / dense["seconds"] - 1)
            lines.append("%s, %s: a step of auto takes %+.1f %% longer than one of dense; aim at most "
                         "3 %%: %s" % (model, name, longer, "reached" if longer <= 3 else "MISSED"))
    return lines


# ---- curves ----

def write_run(folder, race, rows, model, name, link, options):
    """A run folder of docs/report.md with the accuracies of the training at composed times."""
    training, step = race.training(model, name), race.step(model, name, link)
    sent = race.bytes(model, name) or 0
    if not training or not step:
        return None
    os.makedirs(folder)
    about = {"format": 1, "command": "bench/race", "method": rows[name].label, "model": model,
             "data": "fashion", "workers": options.workers, "seed": options.seed,
             "batch": options.batch, "link": race.names[link], "spec": rows.spec(model, name, race.rate(model, name)),
             "target": options.targets[model], "seconds_are": "steps times the median step"}
    with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
        json.dump(about, file)
    lines = [{"kind": "evaluation", "step": at, "seconds": at * step, "accuracy": accuracy,
              "bytes_sent_total": at * sent} for at, accuracy in training["curve"]]
    lines.append({"kind": "end", "status": "target" if training["steps"] else "finished",
                  "step": lines[-1]["step"], "seconds": lines[-1]["seconds"],
                  "accuracy": lines[-1]["accuracy"]})
    with open(os.path.join(folder, "metrics.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


def page(race, rows, model, link, options):
    """Writes the page of a model and a link; its path, or None if nothing was measured."""
    path = os.path.join(options.page, "race-%s-%s.html" % (
        model, race.names[link].replace(" ", "").replace("/s", "").lower()))
    with tempfile.TemporaryDirectory(prefix="terse-race-") as folder:
        runs = [write_run(os.path.join(folder, name), race, rows, model, name, link, options)
                for name, row in rows.items() if not row.alone]
        runs = [run for run in runs if run]
        if not runs:
            return None
        os.makedirs(options.page, exist_ok=True)
        subprocess.run([options.program, "report", *runs, "-o", path], check=True,
                       stdout=subprocess.DEVNULL)
    return path
