"""A PyTorch training in the files that `terse train` writes, for `terse report`."""

import json
import math
import os
import shlex
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from .. import version
from ._spec import agree
from ._state import count_of

# Keys of run.json that Record writes itself; a setting may not have such a name.
_OWN = ("format", "kind", "terse", "command", "train", "name", "method", "workers", "parameters",
        "tensors", "spec", "exchange", "every", "resume", "folder", "state")


def _number(value: Any) -> Optional[float]:
    """A number or a tensor of one element; None if it is not finite."""
    number = float(value)
    return number if math.isfinite(number) else None


class Record:
    """Records a training in a folder, in the format of docs/report.md.

        state = terse.torch.State("regtopk:keep=0.01")
        with terse.torch.Record("runs/regtopk", state, model="resnet18", data="cifar10") as record:
            for ...:
                ...
                optimizer.step()
                record.step(loss)
            record.evaluation(accuracy=accuracy, loss=test_loss)

    folder      is created; FileExistsError if it already holds a run
    state       a State, or an optimizer of terse.torch.optim
    every       optimizer steps per line of metrics.jsonl
    resume      the step after which a run in the folder goes on: later lines are dropped
    settings    texts, numbers and flags for run.json: model, data, batch, lr, ... Runs that differ
                by `seed` alone (default: that of the state) are one group in the report

    Create it on every rank and call it on every rank; rank 0 writes. Creation is collective: if
    rank 0 cannot write, every rank raises. Lines are appended whole and at once, so that the
    report can be made, and a run be killed, at any time. A `with` block ends the run: "finished",
    or "stopped" after an exception."""

    def __init__(self, folder: str, state: Any, *, every: int = 1, resume: Optional[int] = None,
                 **settings: Any) -> None:
        self._folder, self._state, self._every = str(folder), state, every
        self._settings = settings
        self._rank = state.rank  # collective if the state has not joined its group
        self._file: Optional[int] = None
        self._ended = False
        self._step = self._written = resume or 0
        self._loss, self._seconds, self._bytes = 0.0, 0.0, 0.0
        self._line_seconds = 0.0  # of the last line of kind step
        self._last: Dict[str, Any] = {}  # loss and accuracy of the last evaluation
        failure: Optional[Exception] = None
        try:
            self._check()
            if self._rank == 0:
                self._open(resume)
        except (OSError, ValueError) as why:
            failure = why
        agree(state._carrier, {"every": every, "step to resume at": resume}, failure, "Record")
        self._before = self._totals()
        if self._rank == 0 and not resume:  # else those before are not known
            state._totals.tensor_bytes = {}
        self._mark = time.monotonic()

    def _check(self) -> None:
        if not isinstance(self._every, int) or self._every < 1:
            raise ValueError("every is %r; expected a whole number of steps, at least 1"
                             % (self._every,))
        for name, value in self._settings.items():
            if name in _OWN:
                raise ValueError("%s: Record writes this key of run.json itself" % name)
            if not isinstance(value, (str, int, float, bool)):
                raise ValueError("%s=%r: a setting is a text, a number or a flag" % (name, value))

    # ---- files, on rank 0 ----

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _replace(self, name: str, text: str) -> None:
        """Writes a whole file or none."""
        with open(self._path(name + ".new"), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._path(name + ".new"), self._path(name))

    def _open(self, resume: Optional[int]) -> None:
        os.makedirs(self._folder, exist_ok=True)
        metrics = self._path("metrics.jsonl")
        if os.path.exists(metrics):
            if resume is None:
                raise FileExistsError("%s already holds a run: choose another folder, or pass "
                                      "resume=STEP to continue it" % self._folder)
            self._keep_until(resume)
        elif resume:
            raise FileNotFoundError("resume=%d: %s holds no run" % (resume, self._folder))
        self._describe()
        self._file = os.open(metrics, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def _keep_until(self, step: int) -> None:
        """Drops what follows `step`, the end, and a line that was cut."""
        kept: List[str] = []
        counted = 0
        with open(self._path("metrics.jsonl"), encoding="utf-8") as file:
            for text in file:
                try:
                    line = json.loads(text)
                except ValueError:
                    break
                if line["kind"] == "end" or line["step"] > step:
                    break
                kept.append(text)
                self._seconds = self._line_seconds = line["seconds"]
                if line["kind"] == "step":
                    self._bytes += line["bytes_sent"] * (line["step"] - counted)
                    counted = line["step"]
        self._replace("metrics.jsonl", "".join(kept))

    def _describe(self) -> None:
        """Writes run.json; tensors are known from the first step on, and the method of auto when it
        has chosen."""
        state, choices = self._state, list(getattr(self._state, "choices", ()))
        tensors = list(getattr(state, "tensors", None) or state._buckets.tensors or ())
        method = state.report()
        about = {"format": 1, "terse": version(), "command": shlex.join(["python3", *sys.argv]),
                 "method": method["spec"], "workers": state.workers, "seed": state._seed,
                 **self._settings, "exchange": method["settings"]}
        if tensors:
            counts = [(name, count_of(shape)) for name, shape in tensors]
            about["parameters"] = sum(count for _, count in counts)
            about["tensors"] = [{"name": name, "count": count} for name, count in counts]
        self._names = [name for name, _ in tensors]
        if choices:
            about["auto"] = {"choices": choices}
        self._described = self._known()
        self._replace("run.json", json.dumps(about, indent=1) + "\n")

    def _known(self) -> Tuple[bool, int]:
        """What run.json depends on: whether there was a step, and how often auto has chosen."""
        state = self._state
        return (bool(getattr(state, "tensors", None) or state._buckets.tensors),
                len(getattr(state, "choices", ())))

    def _append(self, line: Dict[str, Any]) -> None:
        if self._file is None:
            raise ValueError("%s: the run has ended" % self._folder)
        text = json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n"
        os.write(self._file, text.encode())

    # ---- lines ----

    def _totals(self) -> Dict[str, Any]:
        if hasattr(self._state, "_settle"):
            self._state._settle()
        totals: Dict[str, Any] = self._state._totals.as_dict()
        return totals

    def step(self, loss: Any) -> None:
        """After optimizer.step(): `loss` of this rank, a number or a tensor."""
        self._step += 1
        if self._rank != 0:
            return
        now = time.monotonic()
        self._seconds, self._mark = self._seconds + now - self._mark, now
        self._loss += float(loss)
        if self._step - self._written >= self._every:
            self._write_step()

    def _write_step(self) -> None:
        totals, before, steps = self._totals(), self._before, self._step - self._written
        if self._described != self._known():
            self._describe()
        sent = totals["bytes_sent"] - before["bytes_sent"]
        line = {"kind": "step", "step": self._step, "seconds": self._seconds,
                "loss": _number(self._loss / steps), "bytes_sent": sent / steps,
                "dense_bytes": (totals["dense_bytes"] - before["dense_bytes"]) / steps}
        stages = {name: max(0.0, (spent * totals["steps"]
                                  - before["ms_per_step"][name] * before["steps"]) / 1e3 / steps)
                  for name, spent in totals["ms_per_step"].items()}
        # What no stage of the method took; 0 where all of it overlapped.
        spent = (self._seconds - self._line_seconds) / steps
        line["stages"] = {"compute": max(0.0, spent - sum(stages.values())), **stages}
        self._append(line)
        self._line_seconds = self._seconds
        self._bytes += sent
        self._before, self._written, self._loss = totals, self._step, 0.0

    def evaluation(self, *, accuracy: Any = None, loss: Any = None) -> None:
        """The result of an evaluation after the last step, `accuracy` from 0 to 1. The time since
        that step is not counted."""
        if accuracy is not None and not 0 <= float(accuracy) <= 1:
            raise ValueError("accuracy is %r; expected a number from 0 to 1" % (accuracy,))
        if self._rank != 0:
            return
        if self._step > self._written:
            self._write_step()
        line: Dict[str, Any] = {"kind": "evaluation", "step": self._step, "seconds": self._seconds,
                                "bytes_sent_total": self._bytes}
        for name, value in (("accuracy", accuracy), ("loss", loss)):
            if value is not None:
                line[name] = self._last[name] = _number(value)
        self._append(line)
        self._mark = time.monotonic()

    def end(self, status: str = "finished") -> None:
        """Ends the run, once: "finished", "stopped" or "diverged"."""
        if self._ended:
            return
        self._ended = True
        if self._rank != 0:
            return
        if self._step > self._written:
            self._write_step()
        line = {"kind": "end", "status": status, "step": self._step, "seconds": self._seconds}
        line.update({name: self._last[name] for name in ("loss", "accuracy") if name in self._last})
        counted = self._state._totals.tensor_bytes
        if counted and set(counted) == set(self._names):
            line["tensor_bytes"] = [counted[name] for name in self._names]
        self._append(line)
        assert self._file is not None
        os.close(self._file)
        self._file = None

    def __enter__(self) -> "Record":
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            self.end()
            return
        try:
            self.end("stopped")
        except Exception:  # the state has failed too: what it raised is the reason
            if self._file is not None:
                os.close(self._file)
                self._file = None


__all__ = ["Record"]
