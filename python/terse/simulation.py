"""K workers in one process and one thread: a notebook tries 16 of them without a launcher."""

import ctypes
from ctypes import byref, c_void_p
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy

from ._library import (UNSUPPORTED, Fault, Layout, MethodOptions, MethodReport, check,
                       library)
from ._method import Totals

Gradient = Callable[[int, Any, int], Any]


def _array(values: Any) -> numpy.ndarray:
    """float32 of anything that numpy converts; of a tensor of torch that has a gradient, too."""
    values = values.detach() if hasattr(values, "detach") else values
    return numpy.asarray(values, dtype=numpy.float32)


class Simulation:
    """`terse.simulate` makes it. The result of a step has the bits of the same workers in processes
    of their own.

        spec         the spec with every option written out
        workers      how many
        weights      what all workers hold now, in the form that `simulate` was given
        bytes_sent   by all workers, so far
        report()     the sums over steps and workers, as State.report() has them"""

    def __init__(self, spec: str, workers: int, weights: Any, seed: int, steps: int,
                 threads: int) -> None:
        many = isinstance(weights, (list, tuple)) or (
            not hasattr(weights, "__array__") and hasattr(weights, "__iter__"))
        start = [_array(one) for one in weights] if many else [_array(weights)]
        self._many = many
        self._shapes = [one.shape for one in start]
        flat = numpy.concatenate([one.reshape(-1) for one in start])
        self._weights = [flat.copy() for _ in range(workers)]
        self._handles = (c_void_p * workers)()
        self._lib, self._totals, self.workers = library(), Totals(), workers
        layout, fault = Layout([("%d" % i, s) for i, s in enumerate(self._shapes)]), Fault()
        options = MethodOptions(size=ctypes.sizeof(MethodOptions), seed=seed, steps=steps,
                                threads=threads)
        pointers = (c_void_p * workers)(*(one.ctypes.data for one in self._weights))
        check(self._lib.method_create_all(spec.encode(), workers, layout.handle, pointers,
                                          byref(options), self._handles, byref(fault)), fault)
        self.spec = self._lib.method_spec(self._handles[0]).decode()

    def _form(self, flat: numpy.ndarray) -> Any:
        """A flat buffer in the form of the weights that were given; views of it."""
        parts: List[numpy.ndarray] = []
        at = 0
        for shape in self._shapes:
            count = int(numpy.prod(shape, dtype=numpy.int64))
            parts.append(flat[at:at + count].reshape(shape))
            at += count
        return parts if self._many else parts[0]

    def _flat(self, worker: int, gradient: Any) -> numpy.ndarray:
        parts = [_array(one) for one in gradient] if self._many and not hasattr(
            gradient, "__array__") else [_array(gradient)]
        flat = numpy.concatenate([one.reshape(-1) for one in parts])
        if flat.size != self._weights[0].size:
            raise ValueError("the gradient of worker %d has %d elements; the weights have %d"
                             % (worker, flat.size, self._weights[0].size))
        return flat

    @property
    def weights(self) -> Any:
        return self._form(self._weights[0].copy())

    @property
    def eval_weights(self) -> Any:
        """The weights to evaluate with: others than `weights` for some methods (def-a, qadam)."""
        out, fault = numpy.empty_like(self._weights[0]), Fault()
        check(self._lib.method_eval_weights_all(self._handles, out.ctypes.data, byref(fault)),
              fault)
        return self._form(out)

    @property
    def bytes_sent(self) -> int:
        return self._totals.bytes_sent

    def _check_worker(self, worker: int) -> None:
        if not 0 <= worker < self.workers:
            raise ValueError("worker %d: there are %d, from 0" % (worker, self.workers))

    def point(self, worker: int) -> Any:
        """Where this worker takes its next gradient: a copy, in the form of the weights."""
        self._check_worker(worker)
        address = self._lib.method_point(self._handles[worker])
        count = self._weights[0].size
        seen = numpy.ctypeslib.as_array((ctypes.c_float * count).from_address(address))
        return self._form(seen.copy())

    def set_lr(self, lr: float) -> None:
        """The learning rate from the next step on."""
        for handle in self._handles:
            check(self._lib.method_set_lr(handle, lr))

    def step(self, gradients: Sequence[Any]) -> List[Dict[str, Any]]:
        """One step. `gradients` has one entry per worker, in the form of the weights or flat; a
        K x n array is such a sequence. Returns a report per worker: step, lr, bytes_sent,
        bytes_received, dense_bytes, skipped, bits, residual_norm, compression_error."""
        if len(gradients) != self.workers:
            raise ValueError("%d gradients for %d workers" % (len(gradients), self.workers))
        held = [self._flat(k, one) for k, one in enumerate(gradients)]
        pointers = (c_void_p * self.workers)(*(one.ctypes.data for one in held))
        reports, fault = (MethodReport * self.workers)(), Fault()
        check(self._lib.method_step_all(self._handles, pointers, reports, byref(fault)), fault)
        for report in reports:
            self._totals.add(report)
        return [_as_dict(report) for report in reports]

    def tensor_bytes(self, worker: int) -> List[int]:
        """Bytes of this worker's payload in the last exchange, for each tensor of the weights. Their
        sum is bits * elements / 8 of its report. ValueError with scope=model."""
        self._check_worker(worker)
        found = (ctypes.c_uint64 * len(self._shapes))()
        status = self._lib.method_tensor_bytes(self._handles[worker], found)
        if status == UNSUPPORTED:
            raise ValueError("scope=model: one section holds all tensors, and none has bytes of "
                             "its own; use scope=tensor")
        check(status)
        return list(found)

    def run(self, gradient: Gradient, steps: int) -> Any:
        """Steps with gradient(worker, point, step), the step counted from 0. Returns the weights."""
        for step in range(steps):
            self.step([gradient(k, self.point(k), step) for k in range(self.workers)])
        return self.weights

    def report(self) -> Dict[str, Any]:
        return self._totals.as_dict()

    def close(self) -> None:
        """Destroys the workers; `weights` stays."""
        for worker in range(self.workers):
            self._lib.method_destroy(self._handles[worker])
            self._handles[worker] = None

    def __del__(self) -> None:
        if hasattr(self, "spec"):
            self.close()


def _as_dict(report: MethodReport) -> Dict[str, Any]:
    done = report.exchange
    return {"step": report.step, "lr": report.lr, "bytes_sent": done.bytes_sent,
            "bytes_received": done.bytes_received, "dense_bytes": done.dense_bytes,
            "skipped": bool(done.skipped), "bits": report.bits,
            "residual_norm": report.residual_norm, "compression_error": report.compression_error}


def simulate(spec: str, workers: int, weights: Any, *, seed: int = 0, steps: int = 0,
             threads: int = 1) -> Simulation:
    """Workers that train together in this process, by the method `spec`:

        team = terse.simulate("topk:keep=0.01,lr=0.1", workers=16, weights=numpy.zeros(1000))
        for step in range(100):
            team.step([gradient(k, team.point(k)) for k in range(16)])
        print(team.weights, team.bytes_sent)

    `weights` is where all begin: an array, or a list of arrays (or of tensors of torch on the CPU:
    model.parameters()), one per tensor of the layout; it is copied. `steps`: how many there will
    be, for schedules and methods that ask for it. ValueError: the spec is invalid."""
    if workers < 1:
        raise ValueError("workers is %d, not at least 1" % workers)
    return Simulation(spec, workers, weights, seed, steps, threads)


__all__ = ["Simulation", "simulate"]
