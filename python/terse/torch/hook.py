"""The communication hook of DistributedDataParallel."""

import atexit
import queue
import threading
import weakref
from typing import Any, Dict, List, Optional

import torch
import torch.distributed as dist

from .._library import TerseError
from .._method import Method, Totals
from . import _report, _state
from ._buckets import Buckets, Item, Names
from ._spec import agree, complete, shown
from .group import Group, members, own_group

DEFAULT_MIN = 1024


class State:
    """What the hook remembers: made once on every rank, in the same order, after
    init_process_group.

        state = terse.torch.State("regtopk:keep=0.01")
        ddp.register_comm_hook(state, terse.torch.hook)

    spec            a method that hands back a gradient: dense, fp16, bf16, topk, regtopk, qsgd,
                    terngrad, natural, dqsgd, powersgd, ef, ef-sign, signsgd, signum, or stages
                    ("codec=log:k=2,feedback=residual"). lr, decay and momentum are the optimizer's.
    module          gives parameters their names (for `plain=` patterns and the report)
    min             tensors with fewer elements travel plain, as float32
    seed, steps     of every draw; the number of steps, which DQ-SGD's budget needs
    threads         of the codecs
    timeout         seconds until a worker counts as late
    process_group   the ranks of the DDP model; all by default
    uneven          lets ranks abstain (`join`), for one small message more per step
    verbose         rank 0 prints what was chosen

    A State serves one DDP model. Raises ValueError for a bad spec, MismatchError on every rank,
    naming the rank, where ranks differ."""

    def __init__(self, spec: str = "regtopk:keep=0.01", *,
                 module: Optional[torch.nn.Module] = None, min: int = DEFAULT_MIN, seed: int = 0,
                 steps: int = 0, threads: int = 1, timeout: float = 60.0,
                 process_group: Optional[Any] = None, uneven: bool = False,
                 verbose: bool = True) -> None:
        self._carrier = own_group(process_group, timeout)
        self.spec, failure = str(spec), None
        try:
            self.spec = complete(spec, min, steps)
        except (ValueError, TerseError) as why:
            failure = why
        agree(self._carrier, {"spec": self.spec, "seed": seed, "number of steps": steps,
                              "uneven": uneven}, failure, "State")
        self.rank, self.workers = dist.get_rank(self._carrier), dist.get_world_size(self._carrier)
        self._seed, self._steps, self._threads = seed, steps, threads
        self._uneven, self._abstains = uneven, False
        self._scale, self._scaled = 1.0, False
        self._totals = Totals()
        self._failure: Optional[Exception] = None
        self._next_index = 0
        self._lock = threading.Lock()
        self._queue: "queue.Queue[Optional[Item]]" = queue.Queue()
        self._thread: Optional[threading.Thread] = None
        self._group = Group(self._carrier, members(process_group), timeout)
        self._votes = "combine=vote" in self.spec or self.spec.startswith("sign")
        two_passes = self.spec.startswith("powersgd") or "codec=low-rank" in self.spec
        self._buckets = Buckets(self._make, Names(module), self._whole_of, self._mask_of,
                                at_once=two_passes)
        if verbose and self.rank == 0:
            print("terse: %d workers, %s" % (self.workers, shown(self.spec)), flush=True)

    # ---- what the model's buckets need ----

    def _make(self, tensors, answer: torch.Tensor) -> Method:
        return Method(self.spec, self._group, tensors, answer.data_ptr(), seed=self._seed,
                      steps=self._steps, threads=self._threads, aggregate_out=True,
                      private_output=True)

    def _whole_of(self, data: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(data, group=self._carrier)
        return data

    def _mask_of(self, tensors) -> torch.Tensor:
        return _state.owned(tensors, self.rank, self.workers,
                            "combine=parameter-server" in self.spec)

    # ---- the hook's side: any thread, in DDP's order ----

    def _take(self, bucket: Any) -> "torch.futures.Future[torch.Tensor]":
        buffer = bucket.buffer()
        if buffer.device.type != "cpu":
            raise RuntimeError("terse works on CPU tensors; this bucket is on %s. Train on the "
                               "CPU, or use one of PyTorch's hooks for NCCL" % buffer.device)
        future: Any = torch.futures.Future()
        with self._lock:
            self.check()
            if bucket.index() != self._next_index:
                raise RuntimeError(
                    "bucket %d came where %d was expected: a State serves one DDP model and one "
                    "backward at a time" % (bucket.index(), self._next_index))
            last = bucket.is_last()
            self._next_index = 0 if last else bucket.index() + 1
            if self._thread is None:
                self._start()
            self._queue.put(Item(buffer, bucket.parameters(), last, future))
        return future.then(_value)

    def _start(self) -> None:
        self._thread = threading.Thread(target=_communicate, args=(weakref.ref(self), self._queue),
                                        name="terse", daemon=True)
        self._thread.start()
        atexit.register(_stop, self._queue, self._thread)

    def check(self) -> None:
        """Raises what has ended the communication, if anything has."""
        if self._failure is not None:
            raise self._failure

    # ---- the communication thread's side ----

    def _serve(self, item: Item) -> None:
        buckets = self._buckets
        try:
            if self._failure is not None:
                raise self._failure
            report = buckets.take(item, self._scale)
            if report is None:
                return
            self._totals.add(report)
            skipped = report.exchange.skipped != 0
            factor = self._scale if self._votes else self._scale * self._share()
            # Whoever scales the loss looks for infinities to skip the step and lower the scale.
            instead = None if not skipped else float("inf") if self._scaled else 0.0
            done = buckets.answers(factor, instead)
            buckets.after()
            for future, answer in done:
                future.set_result(answer)
        except Exception as why:
            self._failure = why
            self._group.close()  # the others learn at once
            for future in buckets.drop() or [item.future]:
                future.set_result(why)

    def _share(self) -> float:
        """Of all workers to those that take part; collective where ranks may abstain."""
        if not self._uneven:
            return 1.0
        absent = torch.tensor([int(self._abstains)])
        dist.all_reduce(absent, group=self._carrier)
        return self.workers / max(1, self.workers - int(absent))

    # ---- between steps ----

    def _settle(self) -> None:
        """Until every bucket handed in has been answered."""
        self._queue.join()
        self.check()

    def set_scale(self, scale: float) -> None:
        """The loss is multiplied by `scale` from the next backward on (GradScaler.get_scale()).
        Memory is kept in unscaled units, so a change needs nothing else; a step that overflows is
        skipped on all ranks and comes back as infinities, which GradScaler looks for."""
        if not (scale > 0 and scale < float("inf")):
            raise ValueError("a loss scale is positive and finite, not %r" % scale)
        self._settle()
        self._scale, self._scaled = float(scale), True

    def join(self, abstain: bool = True) -> None:
        """Under `ddp.join()` a rank that has run out of inputs hands in zeros, which count in the
        mean. After `state.join()` it abstains: the mean is that of the others. Its memory is still
        said. `join(False)` takes part again. Needs State(..., uneven=True)."""
        if not self._uneven:
            raise ValueError("abstaining needs State(..., uneven=True) on every rank")
        self._settle()
        self._abstains = abstain

    @property
    def steps_done(self) -> int:
        """Steps that were agreed on, without those that were skipped."""
        self._settle()
        return 0 if self._buckets.method is None else self._buckets.method.steps_done

    def report(self) -> "_report.Report":
        """Bytes sent, dense bytes, compression ratio, milliseconds per stage and a row for each
        parameter; printing it makes a table."""
        self._settle()
        return _report.Report(shown(self.spec), self._totals.as_dict(), self._buckets)

    def state_dict(self) -> Dict[str, Any]:
        """This rank's own state; every rank saves its own (or use terse.torch.save_all)."""
        self._settle()
        if self._buckets.pending is not None:
            return self._buckets.pending
        method = self._buckets.method
        return {"terse": 1, "spec": self.spec, "seed": self._seed, "rank": self.rank,
                "workers": self.workers, "tensors": list(self._buckets.tensors),
                "parts": {} if method is None else _state.read_parts(method)}

    def load_state_dict(self, saved: Dict[str, Any]) -> None:
        """On every rank, between the same steps. ValueError: saved by another spec, seed, rank or
        number of workers (for the last use terse.torch.load_all)."""
        self._settle()
        for name, mine in (("spec", self.spec), ("seed", self._seed), ("workers", self.workers),
                           ("rank", self.rank)):
            if saved.get(name) != mine:
                raise ValueError("the state was saved with %s %r, this one has %r"
                                 % (name, saved.get(name), mine))
        self._buckets.pending = dict(saved) if saved["tensors"] else None

    _load = load_state_dict

    def close(self) -> None:
        """Ends the communication thread; the hook cannot be used afterwards."""
        if self._thread is not None:
            _stop(self._queue, self._thread)
        self._failure = self._failure or RuntimeError("this State was closed")
        if self._buckets.method is not None:
            self._buckets.method.close()
            self._buckets.method = None
        self._group.close()


def _value(future: Any) -> torch.Tensor:
    """Turns a failure into the error that backward raises."""
    held = future.value()
    if isinstance(held, Exception):
        raise held
    return held


def _communicate(state_of: Any, items: "queue.Queue[Optional[Item]]") -> None:
    """The one communication thread of a rank: buckets in the order in which they came."""
    while True:
        item = items.get()
        state = state_of() if item is not None else None
        if state is not None:
            state._serve(item)
        del state
        items.task_done()
        if item is None:
            return


def _stop(items: "queue.Queue[Optional[Item]]", thread: threading.Thread) -> None:
    items.put(None)
    thread.join(5)


def hook(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For ddp.register_comm_hook(state, terse.torch.hook)."""
    return state._take(bucket)


__all__: List[str] = ["State", "hook"]
