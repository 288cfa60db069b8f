"""The rows of bench/torch_peer: kept in a file, and as the tables of docs/pytorch.md."""

import json
import os
import statistics

LABELS = {
    "no-sync": "no-sync + SGD", "no-sync-in-step": "no-sync + SGD, in step",
    "noop": "DDP, noop hook", "dense": "DDP dense", "fp16": "DDP fp16 hook",
    "bf16": "DDP bf16 hook", "powersgd-one-bucket": "DDP PowerSGD rank 1, one bucket",
    "terse-signum": "terse signum", "terse-def": "terse def, ratio 64",
    "terse-def-a": "terse def-a, ratio 64", "terse-qadam": "terse qadam",
    "terse-signum-overlap": "terse signum, overlap", "terse-def-overlap": "terse def, overlap",
    "terse-qadam-overlap": "terse qadam, overlap",
    "terse-auto": "terse auto (hook)",
    "terse-regtopk": "terse regtopk, 1 % (hook)", "terse-dense": "terse dense (hook)",
    "terse-dqsgd": "terse dqsgd, 4 bits (hook)",
}


class Kept:
    """The rows of these versions and this kind: those of a file, if one is given, and new ones,
    which are added to it. Rows of other versions stay in the file and are not counted."""

    def __init__(self, path, about):
        self._path, self._about, self._begin = path, about, ""
        self.rows = []
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            whole, _, torn = text.rpartition("\n")
            self._begin = "\n" if torn else ""  # of a row whose writer was killed
            found = map(json.loads, filter(lambda line: line.endswith("}"), whole.split("\n")))
            self.rows = [row for row in found if about.items() <= row.items()]

    def add(self, row):
        row = {**row, **self._about}
        self.rows.append(row)
        if self._path:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(self._begin + json.dumps(row) + "\n")
            self._begin = ""

    def count(self, **about):
        """How many rows have these fields."""
        return sum(about.items() <= row.items() for row in self.rows)


def label(case):
    name, _, rate = case.partition("@")
    return LABELS.get(name, name) + (" at rate " + rate if rate else "")


def cases_of(rows):
    return list(dict.fromkeys(row["case"] for row in rows))


def median_of(rows, case, field, rate=None):
    """The median over the turns of a case, or None."""
    found = [row[field] for row in rows if row["case"] == case and rate in (None, row.get("rate"))]
    return statistics.median(found) if found else None


def link_table(rows, name):
    """What was measured over one link, with ranges and processor time."""
    lines = ["%s, %d workers, TCP with %s" % (name, rows[0]["workers"], rows[0]["congestion"]),
             "%-20s %6s %10s %16s %10s %12s %10s" % ("case", "turns", "ms/step", "(range)",
                                                     "CPU ms", "MB/step", "than dense")]
    dense = median_of(rows, "dense", "seconds")
    for case in cases_of(rows):
        seconds = [row["seconds"] for row in rows if row["case"] == case]
        middle = statistics.median(seconds)
        lines.append("%-20s %6d %10.1f %16s %10.1f %12.3f %10s" % (
            case, len(seconds), middle * 1e3,
            "(%.0f - %.0f)" % (min(seconds) * 1e3, max(seconds) * 1e3),
            median_of(rows, case, "cpu") * 1e3, median_of(rows, case, "bytes") / 1e6,
            "%.2f" % (dense / middle) if dense else "-"))
    return "\n".join(lines) + "\n"


def ratio(rows, rate, over, under):
    """How many times as long one case takes as the other, or None."""
    times = [median_of(rows, case, "seconds", rate) for case in (over, under)]
    return times[0] / times[1] if all(times) else None


def ratios(rows, rate, name):
    """The ratios that docs/pytorch.md speaks of."""
    pairs = [("terse-signum", "no-sync"), ("terse-def", "no-sync"), ("terse-regtopk", "noop"),
             ("terse-auto", "dense")]
    pairs += [("dense", case) for case in cases_of(rows) if case.startswith("terse-")]
    found = [(over, under, ratio(rows, rate, over, under)) for over, under in pairs]
    return "%s: %s" % (name, ", ".join("%s / %s %.2f" % each for each in found if each[2]))


def speed_table(rows, rates):
    """The table of docs/pytorch.md, the ratios below it, and what it is of."""
    lines = ["| case | %s | MB per step |" % " | ".join(name for _, name in rates),
             "|---|%s---:|" % ("---:|" * len(rates))]
    for case in cases_of(rows):
        times = [median_of(rows, case, "seconds", rate) for rate, _ in rates]
        lines.append("| %s | %s | %.2f |" % (
            label(case), " | ".join("%.0f" % (1e3 * each) if each else "-" for each in times),
            median_of(rows, case, "bytes") / 1e6))
    turns = [sum(row["case"] == case and row["rate"] == rate for row in rows)
             for case in cases_of(rows) for rate, _ in rates]
    lines += [""] + [ratios(rows, rate, name) for rate, name in rates]
    lines += ["", "%s; milliseconds per step, medians of %d to %d turns" % (
        rows[0]["versions"], min(turns), max(turns))]
    return "\n".join(lines)


def accuracy_table(rows):
    """Mean and standard deviation over the seeds, and the distance from dense."""
    lines = ["| case | learning rate | test accuracy, % | from dense |", "|---|---:|---:|---:|"]
    means = {case: statistics.mean(100 * row["accuracy"] for row in rows if row["case"] == case)
             for case in cases_of(rows)}
    for case in cases_of(rows):
        found = [100 * row["accuracy"] for row in rows if row["case"] == case]
        lr = next(row["lr"] for row in rows if row["case"] == case)
        spread = " +- %.2f" % statistics.stdev(found) if len(found) > 1 else ""
        lines.append("| %s | %g | %.2f%s | %s |" % (
            label(case), lr, means[case], spread,
            "%+.2f" % (means[case] - means["dense"]) if "dense" in means else "-"))
    seeds = [sum(row["case"] == case for row in rows) for case in cases_of(rows)]
    lines += ["", "%s; %s hidden, %d epochs, %d to %d seeds" % (
        rows[0]["versions"], rows[0]["hidden"], rows[0]["epochs"], min(seeds), max(seeds))]
    return "\n".join(lines)
