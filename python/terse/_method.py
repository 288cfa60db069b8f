"""A terse_method over buffers that the caller owns and names by address."""

import ctypes
from ctypes import byref, c_void_p
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ._library import (STAGES, Fault, Layout, MethodAbout, MethodOptions, MethodReport,
                       StatePart, check, library)

KINDS = ("shared", "residual", "own", "slices", "hint")  # terse_state_kind
Shape = Tuple[int, ...]


class Part(NamedTuple):
    """One part of a method's state, where it lies."""
    name: str
    kind: str
    floats: bool
    address: int
    length: int


class Method:
    """Destroys itself with `close`; the group must outlive it unless it broke."""

    def __init__(self, spec: str, group: Any, tensors: Sequence[Tuple[str, Shape]], weights: int,
                 *, seed: int = 0, steps: int = 0, threads: int = 1, aggregate_out: bool = False,
                 private_output: bool = False) -> None:
        self._lib = library()
        self._handle = c_void_p()
        self._group = group  # kept alive
        layout, fault = Layout(tensors), Fault()
        options = MethodOptions(size=ctypes.sizeof(MethodOptions), seed=seed, steps=steps,
                                threads=threads, aggregate_out=int(aggregate_out),
                                private_output=int(private_output))
        check(self._lib.method_create(spec.encode(), group.handle, layout.handle, weights,
                                      byref(options), byref(self._handle), byref(fault)), fault)

    def close(self) -> None:
        if self._handle:
            self._lib.method_destroy(self._handle)
            self._handle = c_void_p()

    @property
    def spec(self) -> str:
        """Every option written out."""
        return self._lib.method_spec(self._handle).decode()

    @property
    def settings(self) -> str:
        """What its exchange chose: codec, combine, memory."""
        return self._lib.method_settings(self._handle).decode()

    @property
    def steps_done(self) -> int:
        return self._lib.method_steps_done(self._handle)

    @property
    def point(self) -> int:
        """The address of the weights at which the next gradient is to be taken."""
        return self._lib.method_point(self._handle)

    def set_lr(self, lr: float) -> None:
        check(self._lib.method_set_lr(self._handle, lr))

    def step(self, gradient: int) -> MethodReport:
        report, fault = MethodReport(), Fault()
        check(self._lib.method_step(self._handle, gradient, byref(report), byref(fault)), fault)
        return report

    def step_tensors(self, gradients: Sequence[int]) -> MethodReport:
        """The gradient of each tensor at an address of its own."""
        report, fault = MethodReport(), Fault()
        table = (c_void_p * len(gradients))(*gradients)
        check(self._lib.method_step_tensors(self._handle, table, byref(report), byref(fault)),
              fault)
        return report

    def post(self, gradient: int, first: int, count: int) -> None:
        """Tensors first .. first+count-1, at their place in the flat buffer at `gradient`."""
        fault = Fault()
        check(self._lib.method_post(self._handle, gradient, first, count, byref(fault)), fault)

    def finish(self, gradient: int) -> MethodReport:
        report, fault = MethodReport(), Fault()
        check(self._lib.method_finish(self._handle, gradient, byref(report), byref(fault)), fault)
        return report

    def eval_weights(self, out: int) -> None:
        """Writes the point to evaluate: collective."""
        fault = Fault()
        check(self._lib.method_eval_weights(self._handle, out, byref(fault)), fault)

    def parts(self) -> List[Part]:
        """The state, to read and to write between steps; then call `restored`."""
        found: List[Part] = []
        part = StatePart()
        while self._lib.method_state(self._handle, len(found), byref(part)) == 0:
            found.append(Part(part.name.decode(), KINDS[part.kind], bool(part.floats), part.bytes,
                              part.len))
        return found

    def restored(self) -> None:
        fault = Fault()
        check(self._lib.method_restored(self._handle, byref(fault)), fault)


class LocalGroup:
    """A group of one, to try a spec without anybody else."""

    def __init__(self) -> None:
        self.handle = c_void_p()
        check(library().group_local(1, byref(self.handle)))

    def close(self) -> None:
        library().group_destroy(self.handle)


def try_spec(spec: str, *, steps: int = 0, aggregate_out: bool = False) -> str:
    """The complete spec; ValueError with the library's message where it cannot be."""
    group = LocalGroup()
    weights = (ctypes.c_float * 16)()
    try:
        method = Method(spec, group, [("x", (4, 4))], ctypes.addressof(weights), steps=steps,
                        aggregate_out=aggregate_out)
        complete = method.spec
        method.close()
        return complete
    finally:
        group.close()


def methods() -> Dict[str, Dict[str, str]]:
    """Every method of the table: its stages and what is known of it."""
    lib, found, about = library(), {}, MethodAbout()
    while lib.method_list(len(found), byref(about)) == 0:
        found[about.name.decode()] = {
            name: getattr(about, name).decode() for name, _ in MethodAbout._fields_[1:-1]
            if getattr(about, name)}
    return found


class Totals:
    """What the reports of many steps add up to."""

    def __init__(self) -> None:
        self.steps = self.skipped = self.said = self.heard = self.dense = 0
        self.nanoseconds = [0] * len(STAGES)

    def add(self, report: MethodReport) -> None:
        done = report.exchange
        self.steps += 1
        self.skipped += done.skipped != 0
        self.said += done.bytes_sent
        self.heard += done.bytes_received
        self.dense += done.dense_bytes
        for index, spent in enumerate(done.nanoseconds):
            self.nanoseconds[index] += spent

    def as_dict(self) -> Dict[str, Any]:
        steps = max(1, self.steps)
        return {"steps": self.steps, "skipped": self.skipped, "bytes_sent": self.said,
                "bytes_received": self.heard, "dense_bytes": self.dense,
                "compression_ratio": self.dense / self.said if self.said else 0.0,
                "ms_per_step": {name: spent / steps / 1e6
                                for name, spent in zip(STAGES, self.nanoseconds)}}
