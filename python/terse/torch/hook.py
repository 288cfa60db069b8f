"""The communication hook of DistributedDataParallel."""

import queue
import threading
import time
from typing import Any, Dict, List, Optional, Union

import torch
import torch.distributed as dist

from .._library import TerseError
from .._method import Method, Totals, describe, keep
from . import _report, _state, _thread, nodes as _nodes
from ._auto import Auto, Step, is_auto, parse
from ._buckets import Buckets, Item, Names
from ._staging import Staging
from ._checks import (ddp_of, log, on_device, refuse, refuse_bucket, refuse_parameters,
                      warn_of_rates)
from ._spec import complete, rewritten, shown
from .group import agreed_group

DEFAULT_MIN = 1024


class State:
    """The state of the hook. Create it once on every rank, in the same order.

        state = terse.torch.State("regtopk:keep=0.01")
        ddp.register_comm_hook(state, terse.torch.hook)     # or state.attach(ddp)

    spec            a method whose aggregate is a gradient: dense, fp16, bf16, topk, regtopk, qsgd,
                    terngrad, natural, dqsgd, powersgd, median, ef, ef-sign, signsgd, signum, or
                    stages ("codec=log:k=2,feedback=residual"). Learning rate, decay and momentum
                    are set in the optimizer. "auto": the fastest here, docs/auto.md
    module          the source of parameter names, for `plain=` patterns and the report
    min             tensors with fewer elements are sent as float32
    seed            seed of the random keys
    steps           number of steps of the training; DQ-SGD's budget needs it
    threads         threads of the codecs
    timeout         seconds to wait for a worker before the step fails
    process_group   the ranks of the DDP model; default: all
    worker_weight   weight of this rank in the mean, for example the number of its examples; on
                    every rank or on none (0). Votes are not weighted
    uneven          True: ranks may abstain (`join`), at the cost of a small all-reduce per step;
                    not with worker_weight
    nodes           "auto": the ranks of a host are one worker, a node; a number: so many consecutive
                    ranks are. They average exactly, and one of them sends for all, with one
                    residual. Not with worker_weight

    Created after init_process_group, it joins a group of its own at once. Created before, it joins
    at the first bucket (or in `connect`), and can be pickled until then. Rank 0 logs the complete
    spec (logger "terse", level INFO).

    A State serves one DDP model. ValueError: the spec is invalid. MismatchError, on every rank: the
    ranks differ, or one of them failed; `rank` is that rank."""

    def __init__(self, spec: str = "regtopk:keep=0.01", *,
                 module: Optional[torch.nn.Module] = None, min: int = DEFAULT_MIN, seed: int = 0,
                 steps: int = 0, threads: int = 1, timeout: float = 60.0,
                 process_group: Optional[Any] = None, uneven: bool = False,
                 worker_weight: float = 0.0, nodes: _nodes.Setting = None) -> None:
        self._nodes = nodes
        self._worker_weight = float(worker_weight)
        self._seed, self._steps, self._threads, self._uneven = seed, steps, threads, uneven
        self._timeout, self._process_group, self._module = timeout, process_group, module
        self._words: Any = None  # of auto
        self._auto: Optional[Auto] = None
        self._prepare()
        failure: Optional[Exception] = None
        self.spec = str(spec)
        try:
            if uneven and self._worker_weight:
                raise ValueError("State: uneven=True is not available with worker_weight=%g: the "
                                 "mean over the ranks that do not abstain would need the sum of "
                                 "their weights. Leave out one of the two" % self._worker_weight)
            _nodes.refuse(nodes, self._worker_weight)
            if is_auto(spec):
                self._words = parse(spec, min, steps)
                self._auto = Auto(self._words)
            self.spec = self._words.specs[0] if self._words else complete(spec, min, steps)
            self._chosen = describe(self.spec)
        except (ValueError, TerseError) as why:
            failure = why
        if dist.is_available() and dist.is_initialized():
            self._join_group(failure)
        elif failure is not None:
            raise failure

    def _prepare(self) -> None:
        """What a State has before it joins its group, and what is not pickled."""
        self._carrier: Any = None
        self._group: Any = None  # a Group or Nodes, once it has joined
        self._rank = self._workers = 0
        self._abstains, self._scale, self._scaled = False, 1.0, False
        self._totals = Totals()
        self._failure: Optional[Exception] = None
        self._attached = False
        self._next_index = 0
        self._lock = threading.Lock()
        self._queue: "queue.Queue[Union[Item, Exception, None]]" = queue.Queue()
        self._thread: Optional[threading.Thread] = None
        self._end: Any = None
        self._staging = Staging()
        self._names = Names(None)
        self._buckets = Buckets(self._make, self._whole_of, self._mask_of)
        self._left = self._buckets  # those of the method before: DDP may still read their result

    def _join_group(self, failure: Optional[Exception]) -> None:
        """Creates the group and compares the ranks' settings; collective over all global ranks."""
        self._carrier = agreed_group(self._process_group, self._timeout, {
            "spec": self._words.text if self._words else self.spec, "seed": self._seed,
            "number of steps": self._steps, "uneven": self._uneven, "nodes": self._nodes}, failure,
            "State")
        self._group = _nodes.join(self._carrier, self._nodes, self._timeout,
                                  weighted=not self._uneven)
        self._rank, self._workers = (dist.get_rank(self._carrier),
                                     dist.get_world_size(self._carrier))
        self._worker_weight = self._worker_weight or self._group.weight
        self._begin_buckets()
        if self._rank == 0:
            log.info("%s, %s%s", self._group.describe(), "auto, at first " if self._words else "",
                     shown(self.spec))

    def _begin_buckets(self) -> None:
        self._names = Names(self._module)
        self._buckets.begin(self._names, at_once=self._chosen.passes > 1)

    def _use(self, spec: str, state: Optional[Dict[str, Any]]) -> None:
        """Another method from the next step on, with this state; between steps."""
        self._left, self.spec, self._chosen = self._buckets, spec, describe(spec)
        if self._left.method is not None:
            self._left.method.close()
        self._buckets = Buckets(self._make, self._whole_of, self._mask_of)
        self._buckets.begin(self._names, at_once=self._chosen.passes > 1)
        self._buckets.pending = state

    def connect(self) -> None:
        """Joins the group, if this State was created before init_process_group; collective over
        all global ranks. Without it the first bucket does."""
        self.check()
        if self._group is None:
            self._join_group(None)

    def attach(self, ddp: Any) -> "State":
        """ddp.register_comm_hook(self, terse.torch.hook), after a check of the model's settings:
        ValueError names one that does not work with the hook. Takes parameter names and process
        group from the model unless this State was given them. Returns this State."""
        refuse(ddp, self)
        if self._module is None:
            self._module = ddp.module
        if self._group is not None:
            self._begin_buckets()
        elif self._process_group is None:
            self._process_group = ddp.process_group
        ddp.register_comm_hook(self, hook)
        self._attached = True
        return self

    @property
    def rank(self) -> int:
        """The rank in the State's group; collective if it has not joined yet, as `connect`."""
        self._joined()
        return self._rank

    @property
    def workers(self) -> int:
        """The number of ranks of the State's group; collective as `rank`."""
        self._joined()
        return self._workers

    @property
    def node(self) -> int:
        """The number of this rank's node, or its rank if every rank is a worker; as `rank`."""
        self._joined()
        return int(self._group.rank)

    @property
    def nodes(self) -> int:
        """The number of nodes, or of ranks if every rank is a worker; as `rank`."""
        self._joined()
        return int(self._group.workers)

    @property
    def votes(self) -> bool:
        """True: the aggregate is the sign of the majority, -1 or +1 for every element."""
        return bool(self._chosen.votes)

    def _joined(self) -> None:
        if self._group is None and self._failure is None:
            self.connect()

    def __getstate__(self) -> Dict[str, Any]:
        if self._group is not None or self._failure is not None:
            raise TypeError("this State has joined its group and cannot be pickled; pickle one "
                            "that was created before init_process_group")
        kept = ("spec", "_seed", "_steps", "_threads", "_uneven", "_timeout", "_module",
                "_worker_weight", "_nodes", "_words")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, kept: Dict[str, Any]) -> None:
        self.__dict__.update(kept)
        self._process_group = None
        self._prepare()
        self._chosen = describe(self.spec)
        self._auto = Auto(self._words) if self._words else None

    # ---- callbacks of the buckets ----

    def _make(self, tensors, aggregate: torch.Tensor) -> Method:
        return self._group.method(self.spec, tensors, aggregate.data_ptr(), seed=self._seed,
                                  steps=self._steps, threads=self._threads, aggregate_out=True,
                                  private_output=True, worker_weight=self._worker_weight)

    def _whole_of(self, data: torch.Tensor) -> torch.Tensor:
        if not self._group.leads:  # the leader of its node has the same
            data = torch.zeros_like(data)
        dist.all_reduce(data, group=self._carrier)
        return data

    def _mask_of(self, tensors) -> torch.Tensor:
        return _state.owned(tensors, self._group.rank, self._group.workers,
                            self._chosen.combine == "parameter-server")

    # ---- called by the hook: any thread, in DDP's order ----

    def _enqueue(self, bucket: Any) -> "torch.futures.Future[torch.Tensor]":
        with self._lock:
            self.check()
            try:
                return self._accept(bucket)
            except Exception as why:
                self._give_up(why)
                raise

    def _give_up(self, why: Exception) -> None:
        """This rank has no bucket for the others: they fail at once, not after the timeout. While
        the communication thread runs, only it may use the group."""
        self._failure = self._failure or why
        if self._thread is not None:
            self._queue.put(why)
        elif self._group is not None:
            self._carrier = None
            self._group.close()

    def _accept(self, bucket: Any) -> "torch.futures.Future[torch.Tensor]":
        buffer = refuse_bucket(bucket)
        parameters, last = bucket.parameters(), bucket.is_last()
        if self._thread is None:
            self._begin(parameters)
        if bucket.index() != self._next_index:
            raise RuntimeError(
                "bucket %d, expected %d: a State serves one DDP model and one backward at a "
                "time; create a State for each model" % (bucket.index(), self._next_index))
        refuse_parameters(buffer, parameters)
        self._next_index = 0 if last else bucket.index() + 1
        item = self._item_of(bucket.index(), buffer, parameters, last)
        self._queue.put(item)
        return item.future.then(_value)

    def _item_of(self, index: int, buffer: torch.Tensor, parameters: List[torch.Tensor],
                 last: bool) -> Item:
        began = time.perf_counter() if index == 0 else None
        if not on_device(buffer):
            return Item(buffer, parameters, last, torch.futures.Future(), None, began)
        staged = self._staging.fetch(index, buffer)
        return Item(staged.host, parameters, last, self._staging.future_of(buffer), staged, began)

    def _begin(self, parameters: List[torch.Tensor]) -> None:
        """At the first bucket; collective if this State has not joined its group."""
        ddp = None if self._attached else ddp_of(self)
        if ddp is not None:
            refuse(ddp, self)
        self.connect()
        if self.votes and self._rank == 0 and parameters:
            warn_of_rates(parameters[0], shown(self.spec))
        self._start()

    def _start(self) -> None:
        self._thread, self._end = _thread.start(self, self._queue)

    def check(self) -> None:
        """Raises the error that ended the communication, if there was one."""
        if self._failure is not None:
            raise self._failure

    # ---- called by the communication thread ----

    def _serve(self, item: Union[Item, Exception]) -> None:
        """Adds a bucket to the step; an exception is the end of the communication."""
        buckets = self._buckets
        futures = [item.future] if isinstance(item, Item) else []
        try:
            if isinstance(item, Exception):
                raise item
            if self._failure is not None:
                raise self._failure
            if item.began is not None and self._auto is not None:
                self._follow(self._auto, item.began)
                buckets = self._buckets
            if item.staged is not None:
                item.staged.wait()
            report = buckets.add(item, self._scale)
            if report is None:
                return
            self._totals.add(report, [buckets])
            skipped = report.exchange.skipped != 0
            factor = self._scale if self._chosen.votes else self._scale * self._share()
            # A GradScaler skips the step and lowers the scale when it finds infinities.
            instead = None if not skipped else float("inf") if self._scaled else 0.0
            results = buckets.results(factor, instead)
            buckets.after()
            for each, value in results:
                each.deliver(value)
        except Exception as why:
            self._failure = why
            self._carrier = None
            self._group.close()  # the other ranks fail at once, not after the timeout
            for future in buckets.drop() or futures:
                future.set_result(why)

    def _follow(self, auto: Auto, began: float) -> None:
        """A step begins: the method of auto's next step makes it."""
        chosen, stayed = len(auto.choices), not auto.on_trial
        step = auto.next(began, self._slowest)
        if len(auto.choices) > chosen and self._rank == 0:
            auto.tell()
        if (step.spec != self.spec or step.stays != stayed) and self._buckets.method is not None:
            parts = auto.hand_over(stayed, step, self.spec,
                                   _state.read_parts(self._buckets.method))
            self._use(step.spec, {"tensors": list(self._buckets.tensors), "parts": parts})

    def _slowest(self, seconds: float) -> float:
        """The largest of all ranks; collective."""
        largest = torch.tensor([seconds], dtype=torch.float64)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self._carrier)
        return float(largest)

    def _share(self) -> float:
        """The ratio of all workers to those that take part; collective if ranks may abstain."""
        if not self._uneven:
            return 1.0
        absent = torch.tensor([int(self._abstains)])
        dist.all_reduce(absent, group=self._carrier)
        return self.workers / max(1, self.workers - int(absent))

    # ---- between steps ----

    def _settle(self) -> None:
        """Waits until every bucket has its result."""
        self._queue.join()
        self.check()

    def set_scale(self, scale: float) -> None:
        """Sets the loss scale from the next backward on (GradScaler.get_scale()). The residual is
        stored unscaled, so it stays valid when the scale changes. A step that overflows is skipped
        on all ranks and returns infinities, which GradScaler detects."""
        if not (scale > 0 and scale < float("inf")):
            raise ValueError("set_scale: %r; a loss scale must be positive and finite" % scale)
        self._settle()
        self._scale, self._scaled = float(scale), True

    def join(self, abstain: bool = True) -> None:
        """Under `ddp.join()` an exhausted rank contributes zero gradients, which enter the mean.
        After `state.join()` it abstains: the mean is over the other ranks. Its residual is still
        flushed. `join(False)` takes part again. Needs State(..., uneven=True)."""
        if not self._uneven:
            raise ValueError("join: this State has uneven=False; create it with uneven=True on "
                             "every rank")
        self._settle()
        self._abstains = abstain

    @property
    def steps_done(self) -> int:
        """The number of steps done, without skipped ones."""
        self._settle()
        return 0 if self._buckets.method is None else self._buckets.method.steps_done

    def report(self) -> "_report.Report":
        """Bytes sent, dense bytes, compression ratio, milliseconds per stage and a row for each
        parameter. print() shows it as a table."""
        self._settle()
        return _report.Report(shown(self.spec), self._totals.as_dict(), [self._buckets])

    def state_dict(self) -> Dict[str, Any]:
        """The state of this rank, equal on the ranks of a node. Every rank saves its own, or use
        terse.torch.save_all, which saves one per node."""
        self._settle()
        if self._buckets.pending is not None:
            return self._buckets.pending
        method, auto = self._buckets.method, self._auto
        parts = {} if method is None else _state.read_parts(method)
        saved = {"terse": 1, "spec": self.spec, "seed": self._seed, "rank": self.node,
                 "workers": self.nodes, "worker_weight": self._worker_weight,
                 "tensors": list(self._buckets.tensors), "parts": parts}
        if auto is None:
            return saved
        return {**saved, "spec": auto.home, "parts": auto.saved_parts(parts),
                "auto": {"spec": auto.words.text, "choices": list(auto.choices)}}

    @property
    def choices(self) -> List[Dict[str, Any]]:
        """What auto has chosen so far: a dict each, with `step`, `spec`, `steps` (of measuring) and
        `seconds` per step of every candidate. [] without auto, and until the first choice."""
        self._settle()
        return [] if self._auto is None else list(self._auto.choices)

    def load_state_dict(self, saved: Dict[str, Any]) -> None:
        """Loads the state of this rank; call it on every rank, between the same steps. ValueError:
        it was saved with another spec, seed, rank or number of workers, which are those of nodes
        where there are any. terse.torch.load_all accepts another number of workers."""
        self._settle()
        saved = {**saved, "spec": rewritten(saved.get("spec"))}
        for name, mine in (("spec", self._loadable(saved)), ("seed", self._seed),
                           ("workers", self.nodes), ("rank", self.node)):
            if saved.get(name) != mine:
                raise ValueError("load_state_dict: the state was saved with %s %r, this State has "
                                 "%r; terse.torch.load_all accepts another number of workers, but "
                                 "no other spec or seed" % (name, saved.get(name), mine))
        state = dict(saved) if saved["tensors"] else None
        if self._auto is None:
            self._buckets.pending = state
            return
        self._auto = Auto(self._words, saved["auto"]["choices"])
        self._use(saved["spec"], state)

    def _loadable(self, saved: Dict[str, Any]) -> str:
        """The spec that a saved state must have: with auto, the one that was chosen then."""
        if self._words is None:
            return self.spec
        if (saved.get("auto") or {}).get("spec") != self._words.text:
            raise ValueError("load_state_dict: the state was saved with spec %r, by no State of "
                             "the same auto; create this State with that spec" % saved["spec"])
        return str(saved["spec"]) if saved["spec"] in self._words.specs else self.spec

    _load = load_state_dict

    def _regrouped(self, saved: List[Dict[str, Any]]) -> Dict[str, Any]:
        """The state of this rank, from those of another number of ranks."""
        mask = self._mask_of(saved[0]["tensors"])
        return {**saved[0], "rank": self.node, "workers": self.nodes,
                "parts": _state.regroup([each["parts"] for each in saved], mask,
                                        _state.weights_of(saved))}

    def close(self) -> None:
        """Ends the communication thread; the hook cannot be used afterwards."""
        ended = _thread.ended(self._thread, self._end)
        self._failure = self._failure or RuntimeError("this State is closed; create a new one")
        if not ended:
            keep(self)  # the thread uses it; the other ranks wait until the timeout
            return
        self._staging.close()
        if self._buckets.method is not None:
            self._buckets.method.close(self._buckets)
            self._buckets.method = None
        self._carrier = None  # gloo's connections end with the last reference
        if self._group is not None:
            self._group.close()


def _value(future: Any) -> torch.Tensor:
    """The value of a future; raises a failure, so that backward raises it."""
    value = future.value()
    if isinstance(value, Exception):
        raise value
    return value


def hook(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For ddp.register_comm_hook(state, terse.torch.hook)."""
    return state._enqueue(bucket)


__all__: List[str] = ["State", "hook"]
