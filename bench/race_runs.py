"""The runs of bench/race: trainings to an accuracy, and steps on links whose rate changes meanwhile."""

import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)


def load(name):
    """A command of this folder as a module."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(HERE, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


shaped, predict, torch_peer = load("shaped"), load("predict"), load("torch_peer")
# Each of them loads bench/shaped for itself.
Cannot = (shaped.Cannot, predict.shaped.Cannot, torch_peer.shaped.Cannot)
UNSHAPED = predict.UNSHAPED
MOST_STEPS = 1000  # the trainer writes a line about every step, not one about several


class Refused(Exception):
    """The command does not know a row's method."""


class Links(predict.Network):
    """The namespaces and links of bench/predict. They begin unshaped, and their rate can change
    while ranks use them."""

    address, interface = shaped.NETWORK + "1", "eth0"  # for torch_peer.start

    def __init__(self, workers, congestion=None):
        super().__init__(workers, UNSHAPED, congestion)
        self._pid = None

    def words(self, rank):
        return ["ip", "netns", "exec", self.namespace(rank + 1)]

    def set_rate(self, rate):
        ends = [(number, "eth0") for number in range(1, self.workers + 1)]
        ends += [(0, "port%d" % number) for number in range(1, self.workers + 1)]
        for number, interface in ends if self.rate != UNSHAPED else ():
            self.inside(number, "tc", "qdisc", "delete", "dev", interface, "root")
            self.inside(number, "ip", "link", "set", "dev", interface, "gso_max_size", "65536")
        self.rate = rate
        for number, interface in ends:
            self.shape(number, interface)

    def processes(self, number):
        return [int(word) for word in
                shaped.command("ip", "netns", "pids", self.namespace(number)).split()]

    def sent(self):
        """The bytes that the first worker has sent, by the counter of its interface. It is read
        through a process of the namespace, because starting one there takes as long as a step."""
        if self._pid is None:
            self._pid = self.processes(1)[0]
        with open("/proc/%d/net/dev" % self._pid, encoding="ascii") as file:
            return int(re.search(r"eth0:\s*(?:\d+\s+){8}(\d+)", file.read()).group(1))

    def end_ranks(self):
        """Ends what runs in these namespaces, which is what was started here."""
        self._pid = None
        for number in range(1, self.workers + 1):
            for pid in self.processes(number):
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass


# ---- terse train ----

def train_words(options, model, spec, *more):
    return [options.program, "train", "--json", "-q", "--data", options.data_name, "--model", model,
            "--batch", str(options.batch), "--seed", str(options.seed), "--method", spec,
            "--timeout", "600", *map(str, more)]


def start_mpi(options, links, folder, words, errors):
    names = {"here": folder, "prefix": links.prefix}
    enter = shaped.write_script(folder, "enter", shaped.ENTER % names)
    agent = shaped.write_script(folder, "agent", shaped.AGENT % names)
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", TMPDIR=folder,
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return subprocess.Popen([enter, "1", *shaped.mpirun_words(options, links, agent), *words],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                            env=environment, start_new_session=True)


def check_end(process, errors):
    """Raises what the command said unless it has done its work."""
    if process.returncode:
        errors.seek(0)
        said = [line for line in errors.read().decode(errors="replace").splitlines() if line]
        usage = [line for line in said if line.startswith("terse")]
        if usage and process.returncode == 2 or any("no method" in line for line in usage):
            raise Refused(usage[0])
        raise RuntimeError("terse train ended with %d\n%s" % (process.returncode,
                                                              "\n".join(said[-20:])))


def follow(path, process, patience):
    """The lines of metrics.jsonl as they are written, until the process ends."""
    done, rest, last = 0, "", time.monotonic()
    while True:
        ended = process.poll() is not None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                file.seek(done)
                text = file.read()
            done += len(text)  # the trainer writes ASCII
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                last = time.monotonic()
                yield json.loads(line)
        if ended:
            return
        if time.monotonic() - last > patience:
            raise RuntimeError("terse train wrote nothing for %d s" % patience)
        time.sleep(0.002)


def terse_lines(options, links, words):
    """Runs `terse train`, as threads without links and else under mpirun; yields its lines."""
    with tempfile.TemporaryDirectory(prefix="terse-race-") as folder, \
            tempfile.TemporaryFile() as errors:
        out = os.path.join(folder, "run")
        words = words + ["--out", out]
        if links:
            process = start_mpi(options, links, folder, words, errors)
        else:
            process = subprocess.Popen(words + ["--workers", str(options.workers)],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=errors)
        try:
            yield from follow(os.path.join(out, "metrics.jsonl"), process, options.timeout)
            check_end(process, errors)
            with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
                yield {"kind": "run", **json.load(file)}
        finally:
            if process.poll() is None:
                process.kill()
            if links:
                links.end_ranks()
            process.wait()


def terse_training(options, links, model, spec, target):
    words = train_words(options, model, spec, "--target", target, "--steps", options.most_steps,
                        "--evaluate-every", options.every)
    for line in terse_lines(options, links, words):
        if line["kind"] == "evaluation":
            yield {"step": line["step"], "accuracy": line["accuracy"], "seconds": line["seconds"]}
        elif line["kind"] == "run" and "auto" in line:
            choice = line["auto"]["choices"][0]
            yield {"chosen": choice["method"], "measuring": choice["seconds"]}


def terse_steps(options, links, model, spec):
    words = train_words(options, model, spec, "--steps", MOST_STEPS, "--evaluate-every", MOST_STEPS)
    late = float("inf")  # the least time from a step's end on the trainer's clock to its line here
    for line in terse_lines(options, links, words):
        if line["kind"] == "step":
            late = min(late, time.monotonic() - line["seconds"])
            yield {"step": line["step"], "at": line["seconds"] + late,
                   "compute": line["stages"]["compute"]}


# ---- PyTorch ----

def torch_training(options, links, model, case, target):
    words = ["train", model, case, str(options.batch), str(options.seed), options.data, str(target),
             str(options.every), str(options.most_steps)]
    yield from torch_peer.rows_of(links or torch_peer.Loopback(options.workers), options, words,
                                  options.timeout, "race_worker.py")


def torch_steps(options, links, model, case):
    words = ["steps", model, case, str(options.batch), str(options.seed), options.data]
    yield from torch_peer.rows_of(links, options, words, options.timeout, "race_worker.py")


# ---- both ----

def training(options, links, engine, model, spec, target, most):
    """Trains until an evaluation reaches the target, or is ended after `most` steps: it begins as one of
    --most-steps, which DQ-SGD's bits depend on. `steps` is None if the target was not reached. Of
    `auto` there is also what it has chosen, and the seconds before the first step that it took to
    measure."""
    run = (terse_training if engine == "terse" else torch_training)(options, links, model, spec,
                                                                    target)
    rows = []
    for row in run:
        rows.append(row)
        if row.get("step", 0) >= most < options.most_steps:
            run.close()
            break
    curve = [row for row in rows if "accuracy" in row]
    reached = [row for row in curve if row["accuracy"] >= target]
    return {"steps": reached[0]["step"] if reached else None,
            "seconds": reached[0]["seconds"] if reached else None,
            "best": max((row["accuracy"] for row in curve), default=0),
            "curve": [[row["step"], row["accuracy"]] for row in curve],
            **{key: row[key] for row in rows for key in ("chosen", "measuring") if key in row}}


class Stepping:
    """A training that goes on while its links change; a context manager."""

    def __init__(self, options, links, engine, model, spec):
        make = terse_steps if engine == "terse" else torch_steps
        self._options, self._links = options, links
        self._rows, self._last = make(options, links, model, spec), None

    def __enter__(self):
        # DDP rebuilds its buckets after the first step, terse adopts the order two steps later, and
        # PowerSGD's first steps are dense.
        for _ in range(5):
            self._next()
        return self

    def __exit__(self, *_):
        if self._links.rate != UNSHAPED:
            self._links.set_rate(UNSHAPED)
        self._rows.close()
        self._links.end_ranks()

    def _next(self):
        row = next(self._rows, None)
        if row is None:
            raise RuntimeError("the training ended before its steps were timed")
        self._last = row
        return row

    def timed(self, rate):
        """The seconds of --count steps on links of a rate, or of --few where one takes more than
        --long seconds. Steps that began on other links are left out, and where a step is short the
        next one too, for TCP to find the rate."""
        options = self._options
        self._links.set_rate(rate)
        changed = time.monotonic()
        while True:
            before, last = self._last, self._next()
            if before["at"] >= changed or last["at"] - before["at"] > options.long:
                break
        sent, rows = self._links.sent(), [last]
        while len(rows) <= (options.few if len(rows) > 1 and
                            rows[1]["at"] - last["at"] > options.long else options.count):
            rows.append(self._next())
        sent = self._links.sent() - sent
        if [row["step"] for row in rows] != list(range(last["step"], last["step"] + len(rows))):
            raise RuntimeError("steps %s: not one row for each" % [row["step"] for row in rows])
        return {"times": [row["at"] - before["at"] for before, row in zip(rows, rows[1:])],
                "computes": [row["compute"] for row in rows if "compute" in row],
                "bytes": sent / (len(rows) - 1), "congestion": self._links.congestion}
