"""A terse_method over buffers that the caller owns and passes by address."""

import ctypes
from ctypes import byref, c_void_p
from types import SimpleNamespace
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ._library import (BAD_ARGUMENT, STAGES, UNSUPPORTED, Fault, Layout, MethodDescription, MethodEntry,
                       MethodOptions, MethodReport, StatePart, check, library)

KINDS = ("shared", "residual", "own", "slices", "hint")  # terse_state_kind
Shape = Tuple[int, ...]


class Part(NamedTuple):
    """One part of a method's state; `address` and `length` are those of the library's buffer."""
    name: str
    kind: str
    floats: bool
    address: int
    length: int


# What messages of a group that has ended may still be written to, and what a thread still uses.
_kept: List[Any] = []


def keep(*what: Any) -> None:
    """Keeps these for the life of the process."""
    _kept.append(what)


class Method:
    """A terse_method; `close` destroys it. The group must outlive it, unless the group failed."""

    def __init__(self, spec: str, group: Any, tensors: Sequence[Tuple[str, Shape]], weights: int,
                 *, seed: int = 0, steps: int = 0, threads: int = 1, aggregate_out: bool = False,
                 private_output: bool = False, worker_weight: float = 0.0) -> None:
        self._lib = library()
        self._handle = c_void_p()
        self._group = group  # this reference keeps the group alive
        layout, fault = Layout(tensors), Fault()
        options = MethodOptions(size=ctypes.sizeof(MethodOptions), seed=seed, steps=steps,
                                threads=threads, aggregate_out=int(aggregate_out),
                                private_output=int(private_output),
                                worker_weight=worker_weight)
        check(self._lib.method_create(spec.encode(), group.handle, layout.handle, weights,
                                      byref(options), byref(self._handle), byref(fault)), fault)

    def close(self, *buffers: Any) -> None:
        """Destroys the method. If messages of its group are under way, after a failure or in the
        middle of a step, they may still be written: then its memory, and `buffers` of the caller,
        stay for the life of the process."""
        handle, self._handle = self._handle, c_void_p()
        if handle and self._group.under_way:
            keep(self, self._group, buffers)
        elif handle:
            self._lib.method_destroy(handle)

    def _open(self) -> c_void_p:
        """The handle. RuntimeError: there is none any more."""
        if not self._handle:
            raise RuntimeError("this method is closed; create a new one")
        return self._handle

    def _joined(self) -> c_void_p:
        """The handle, for a call that uses the group. RuntimeError: one of the two is closed."""
        if not self._handle or not self._group.handle:
            raise RuntimeError("this method has left its group, by close() or after a failure; "
                               "create a new one")
        return self._handle

    @property
    def spec(self) -> str:
        """The spec with every option written out."""
        return self._lib.method_spec(self._open()).decode()

    @property
    def settings(self) -> str:
        """The codec, combine and feedback that the exchange chose."""
        return self._lib.method_settings(self._open()).decode()

    @property
    def steps_done(self) -> int:
        return self._lib.method_steps_done(self._open())

    @property
    def point(self) -> int:
        """The address of the point: the weights at which the next gradient is taken."""
        return self._lib.method_point(self._open())

    def set_lr(self, lr: float) -> None:
        check(self._lib.method_set_lr(self._open(), lr))

    def step(self, gradient: int) -> MethodReport:
        report, fault = MethodReport(), Fault()
        check(self._lib.method_step(self._joined(), gradient, byref(report), byref(fault)), fault)
        return report

    def step_tensors(self, gradients: Sequence[int]) -> MethodReport:
        """A step whose gradients lie in one buffer per tensor."""
        report, fault = MethodReport(), Fault()
        table = (c_void_p * len(gradients))(*gradients)
        check(self._lib.method_step_tensors(self._joined(), table, byref(report), byref(fault)),
              fault)
        return report

    def post(self, gradient: int, first: int, count: int) -> None:
        """Posts tensors first .. first+count-1 of the flat buffer at `gradient`."""
        fault = Fault()
        check(self._lib.method_post(self._joined(), gradient, first, count, byref(fault)), fault)

    def post_tensors(self, gradients: Sequence[int], first: int) -> None:
        """Posts tensors first .. first+len(gradients)-1, each with a buffer of its own."""
        fault = Fault()
        table = (c_void_p * len(gradients))(*gradients)
        check(self._lib.method_post_tensors(self._joined(), table, first, len(gradients),
                                            byref(fault)), fault)

    def finish(self, gradient: int) -> MethodReport:
        report, fault = MethodReport(), Fault()
        check(self._lib.method_finish(self._joined(), gradient, byref(report), byref(fault)), fault)
        return report

    def tensor_bytes(self, tensors: int) -> Optional[List[int]]:
        """Bytes of this worker's payload in the last exchange, for each of so many tensors; None
        with scope=model, where one section holds all of them."""
        found = (ctypes.c_uint64 * tensors)()
        status = self._lib.method_tensor_bytes(self._open(), found)
        if status == UNSUPPORTED:
            return None
        check(status)
        return list(found)

    def eval_weights(self, out: int) -> None:
        """Writes the evaluation weights to `out`; collective."""
        fault = Fault()
        check(self._lib.method_eval_weights(self._joined(), out, byref(fault)), fault)

    def parts(self) -> List[Part]:
        """The state, to read or write between steps. After writing, call `restored`. GroupError: a
        failed step has left none."""
        found: List[Part] = []
        part = StatePart()
        status = self._lib.method_state(self._open(), 0, byref(part))
        while status == 0:
            found.append(Part(part.name.decode(), KINDS[part.kind], bool(part.floats), part.bytes,
                              part.len))
            status = self._lib.method_state(self._open(), len(found), byref(part))
        if status != BAD_ARGUMENT:  # past the last
            check(status)
        return found

    def restored(self) -> None:
        fault = Fault()
        check(self._lib.method_restored(self._open(), byref(fault)), fault)


class LocalGroup:
    """A group of one worker, to check a spec without communication."""

    under_way = False  # messages

    def __init__(self) -> None:
        self.handle = c_void_p()
        check(library().group_local(1, byref(self.handle)))

    def close(self) -> None:
        library().group_destroy(self.handle)


def try_spec(spec: str, *, steps: int = 0, aggregate_out: bool = False) -> str:
    """The spec with every option written out; ValueError with the library's message if invalid."""
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


class Entry(NamedTuple):
    """One entry of a complete spec; `given`: the spec sets it, `stage`: it is no option."""
    name: str
    value: str
    given: bool
    stage: bool


def describe(spec: str) -> SimpleNamespace:
    """What a spec chooses at each stage, and what follows from it: the fields of
    terse_method_description, texts as str. ValueError with the library's message if invalid."""
    found, fault = MethodDescription(size=ctypes.sizeof(MethodDescription)), Fault()
    check(library().method_describe(spec.encode(), byref(found), byref(fault)), fault)
    values = {name: getattr(found, name) for name, *_ in MethodDescription._fields_[1:]}
    return SimpleNamespace(**{name: value.decode() if isinstance(value, bytes) else value
                              for name, value in values.items()})


def entries(spec: str) -> List[Entry]:
    """The entries of the complete spec, in its order."""
    found: List[Entry] = []
    lib, entry, fault = library(), MethodEntry(), Fault()
    check(lib.method_check(spec.encode(), byref(fault)), fault)
    while lib.method_entry_at(spec.encode(), len(found), byref(entry), None) == 0:
        found.append(Entry(entry.name.decode(), entry.value.decode(), bool(entry.is_given),
                           bool(entry.is_stage)))
    return found


def spec_with(spec: str, options: str, *, replace: bool = False) -> str:
    """The spec with those of the options that its method has; one that it sets already stays as it
    is, unless `replace`."""
    fault = Fault()
    out = ctypes.create_string_buffer(MethodDescription.spec.size)
    check(library().method_spec_with(spec.encode(), options.encode(), int(replace), out, len(out),
                                     byref(fault)), fault)
    return out.value.decode()


class Totals:
    """Sums over the reports of many steps."""

    def __init__(self) -> None:
        self.steps = self.skipped = self.capped = 0
        self.bytes_sent = self.bytes_received = self.dense_bytes = 0
        self.nanoseconds = [0] * len(STAGES)
        # Bytes of this worker's payloads, by the name of the tensor; None: they are not counted.
        self.tensor_bytes: Optional[Dict[str, int]] = None

    def add(self, report: MethodReport, parts: Sequence[Any] = ()) -> None:
        """`parts`: what made the step, each with a method and the tensors of it."""
        done = report.exchange
        if self.tensor_bytes is not None and report.exchanged and not done.skipped:
            self._add_tensors(parts)
        self.steps += 1
        self.skipped += done.skipped != 0
        self.capped += report.capped
        self.bytes_sent += done.bytes_sent
        self.bytes_received += done.bytes_received
        self.dense_bytes += done.dense_bytes
        for index, spent in enumerate(done.nanoseconds):
            self.nanoseconds[index] += spent

    def _add_tensors(self, parts: Sequence[Any]) -> None:
        for part in parts:
            found = part.method.tensor_bytes(len(part.tensors))
            if found is None or self.tensor_bytes is None:
                self.tensor_bytes = None
                return
            for (name, _), count in zip(part.tensors, found):
                self.tensor_bytes[name] = self.tensor_bytes.get(name, 0) + count

    def as_dict(self) -> Dict[str, Any]:
        steps = max(1, self.steps)
        return {"steps": self.steps, "skipped": self.skipped, "capped": self.capped,
                "bytes_sent": self.bytes_sent, "bytes_received": self.bytes_received,
                "dense_bytes": self.dense_bytes,
                "compression_ratio":
                self.dense_bytes / self.bytes_sent if self.bytes_sent else 0.0,
                "ms_per_step": {name: spent / steps / 1e6
                                for name, spent in zip(STAGES, self.nanoseconds)}}
