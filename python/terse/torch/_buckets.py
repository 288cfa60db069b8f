"""Passes the buckets of DistributedDataParallel to one method, in the order in which DDP calls.

The flat buffer of the method holds the tensors in the order of DDP's buckets, so that each bucket
is a contiguous run of it and is posted without a copy while backward runs. The aggregate of all
buckets is complete after the last one. DDP reorders its buckets after the first step. While DDP's
order differs from the method's, tensors are copied to their places; after two steps in the same new
order the method is created again in that order, with its state."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from .._library import MethodReport
from .._method import Method, Shape
from . import _state
from ._staging import Staged


class Item(NamedTuple):
    """A bucket of the current step, and the future of its aggregate."""
    buffer: torch.Tensor  # in host memory
    parameters: List[torch.Tensor]
    last: bool
    future: Any
    staged: Optional[Staged] = None  # where the bucket is on a device
    began: Optional[float] = None  # the first bucket of a step: when, in seconds

    def deliver(self, value: torch.Tensor) -> None:
        """Completes the future with a value in host memory."""
        if self.staged is None:
            self.future.set_result(value)
        else:
            self.staged.deliver(value, self.future)


class Names:
    """A name for every parameter: the module's, else "p" and the order of appearance."""

    def __init__(self, module: Optional[torch.nn.Module]) -> None:
        self._known: Dict[int, str] = {}
        self._alive: List[torch.Tensor] = []  # an id is unique only while its tensor lives
        for name, parameter in module.named_parameters() if module is not None else ():
            self._add(parameter, name[len("module."):] if name.startswith("module.") else name)

    def _add(self, parameter: torch.Tensor, name: str) -> str:
        self._alive.append(parameter)
        self._known[id(parameter)] = name
        return name

    def of(self, parameter: torch.Tensor) -> str:
        name = self._known.get(id(parameter))
        return self._add(parameter, "p%d" % len(self._known)) if name is None else name


class Buckets:
    """The method of one DDP model. Only the communication thread uses it."""

    def __init__(self, make: Callable[[List[Tuple[str, Shape]], torch.Tensor], Method],
                 whole_of: Callable[[torch.Tensor], torch.Tensor],
                 mask_of: Callable[[List[Tuple[str, Shape]]], torch.Tensor]) -> None:
        self._make, self._whole_of, self._mask_of = make, whole_of, mask_of
        self._names = Names(None)
        self._at_once = False  # True: the step runs as a whole after the last bucket
        self.method: Any = None  # a Method, from the first step on
        self.tensors: List[Tuple[str, Shape]] = []
        self.aggregate = torch.empty(0)
        self._aggregate_before = self.aggregate  # DDP may still be reading it
        self._flat = torch.empty(0)  # copies of gradients that cannot be posted in place
        self._place: Dict[str, Tuple[int, int, int]] = {}  # index, offset, count
        self._items: List[Item] = []
        self.count = 0  # buckets of the last step
        self._order: List[Tuple[str, Shape]] = []
        self._order_before: List[Tuple[str, Shape]] = []
        self.pending: Optional[Dict[str, Any]] = None  # a loaded state, for the next step

    def begin(self, names: Names, at_once: bool) -> None:
        """Before the first bucket."""
        self._names, self._at_once = names, at_once

    # ---- creating the method ----

    def _arrange(self, tensors: List[Tuple[str, Shape]]) -> None:
        """Creates the method for tensors in this order; collective."""
        self.tensors, self._place = tensors, {}
        offset = 0
        for index, (name, shape) in enumerate(tensors):
            self._place[name] = (index, offset, _state.count_of(shape))
            offset += _state.count_of(shape)
        self._aggregate_before, self.aggregate = self.aggregate, torch.zeros(max(1, offset))
        self._flat = torch.empty(0)
        self.method = self._make(tensors, self.aggregate)

    def _begin(self) -> None:
        """Creates the method in the first step, and in the first step after a state was loaded."""
        saved, self.pending = self.pending, None
        if self.method is not None:
            self.method.close()
        if saved is None:
            self._arrange(list(self._order))
            return
        tensors = [(name, tuple(shape)) for name, shape in saved["tensors"]]
        if sorted(tensors) != sorted(self._order):
            differ = ["%s %s" % pair for pair in sorted(set(tensors) ^ set(self._order))]
            raise ValueError("load_state_dict: the state was saved for other parameters than this "
                             "model has (the first is %s); load a state of the same model"
                             % "".join(differ[:1]))
        self._arrange(tensors)
        _state.write_parts(self.method, saved["parts"])

    def _follow(self) -> None:
        """Adopts DDP's new order after two steps in that order; collective."""
        if self._order == self.tensors or self._order != self._order_before or self._at_once:
            return
        old, new = self.tensors, list(self._order)
        parts = _state.rearrange(_state.read_parts(self.method), old, new, self._whole_of,
                                 self._mask_of(new))
        self.method.close()
        self._arrange(new)
        _state.write_parts(self.method, parts)

    # ---- a bucket ----

    def _named(self, item: Item) -> List[Tuple[str, Shape]]:
        return [(self._names.of(p), tuple(p.shape)) for p in item.parameters]

    def _run(self, item: Item) -> Optional[Tuple[int, int, int]]:
        """(first tensor, offset, number of tensors) if the bucket is a run of the flat buffer."""
        named = self._named(item)
        first, offset, _ = self._place[named[0][0]]
        return (first, offset, len(named)) if self.tensors[first:first + len(named)] == named \
            else None

    def _copies(self) -> torch.Tensor:
        if self._flat.numel() == 0:
            self._flat = torch.zeros(self.aggregate.numel())
        return self._flat

    def _scatter(self, item: Item, scale: float) -> None:
        """Copies every tensor of a bucket to its place in the flat buffer."""
        flat, at = self._copies(), 0
        for name, _ in self._named(item):
            _, offset, count = self._place[name]
            flat[offset:offset + count].copy_(item.buffer[at:at + count])
            if scale != 1:
                flat[offset:offset + count].mul_(1 / scale)
            at += count

    def _post(self, item: Item, scale: float) -> None:
        run = self._run(item)
        if run is None:
            self._scatter(item, scale)
            for first, count in self._runs(item):
                self.method.post(self._flat.data_ptr(), first, count)
            return
        first, offset, count = run
        if item.buffer.dtype == torch.float32 and scale == 1 and item.buffer.numel() > 0:
            # The library reads only this run of the buffer, until finish returns at the latest.
            self.method.post(item.buffer.data_ptr() - 4 * offset, first, count)
            return
        self._scatter(item, scale)
        self.method.post(self._flat.data_ptr(), first, count)

    def _runs(self, item: Item) -> List[Tuple[int, int]]:
        """The tensors of a bucket as runs (first, count) of the method's order."""
        runs: List[Tuple[int, int]] = []
        for index in sorted(self._place[name][0] for name, _ in self._named(item)):
            if runs and sum(runs[-1]) == index:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((index, 1))
        return runs

    def add(self, item: Item, scale: float) -> Optional[MethodReport]:
        """Adds a bucket to the step. After the last one it returns the report, before it None."""
        self._items.append(item)
        named = self._named(item)
        new = [name for name, _ in named if name not in self._place]
        if self.method is not None and new:
            raise ValueError("parameter %s is not one of the first step: a State serves one DDP "
                             "model; create a State for each model" % new[0])
        self._order += named
        whole = self.method is None or self.pending is not None or self._at_once
        if not whole:
            self._post(item, scale)
        if not item.last:
            return None
        if self.method is None or self.pending is not None:
            self._begin()
        if self._at_once:
            for each in self._items:
                self._scatter(each, scale)
            return self.method.step(self._copies().data_ptr())
        if whole:
            for each in self._items:
                self._post(each, scale)
        return self.method.finish(self.aggregate.data_ptr())

    # ---- the aggregate ----

    def _aggregate_of(self, item: Item, factor: float) -> torch.Tensor:
        """The aggregate of a bucket, without a copy where the bucket is a run of the flat buffer:
        DDP copies it into the gradients. It is not a view of the flat tensor, since DDP reads from
        the beginning of the storage."""
        run = self._run(item)
        if run is not None:
            out = _state.tensor_at(self.aggregate.data_ptr() + 4 * run[1], item.buffer.numel())
        else:
            out = torch.cat([self.aggregate[self._place[name][1]:][:self._place[name][2]]
                             for name, _ in self._named(item)])
        if factor != 1:
            out = out * factor
        return out.to(item.buffer.dtype)

    def results(self, factor: float, instead: Optional[float]) -> List[Tuple[Item, torch.Tensor]]:
        """Each bucket and its value: the aggregate times `factor`, or `instead` if
        the step was skipped. Ends the step."""
        out = []
        for item in self._items:
            value = self._aggregate_of(item, factor) if instead is None else \
                torch.full_like(item.buffer, instead)
            out.append((item, value))
        self.count, self._items = len(self._items), []
        return out

    def after(self) -> None:
        """Prepares the next step; collective if DDP's order has changed."""
        self._follow()
        self._order_before, self._order = self._order, []

    def drop(self) -> List[Any]:
        """Drops the buckets of a failed step and returns their futures."""
        futures, self._items = [item.future for item in self._items], []
        return futures
