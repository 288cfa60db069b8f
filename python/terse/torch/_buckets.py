"""Buckets of DistributedDataParallel through one method, in the order in which they come.

The flat buffer of the method holds the tensors in the order of DDP's buckets, so that each bucket
is a run of it: it is posted as it lies, while backward goes on, and the answer of the last bucket
is the answer of all. DDP puts its buckets into another order after the first step; while the order
is not the method's, tensors are copied to their places, and once the new order has come twice the
method is made anew with the state it had."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from .._library import MethodReport
from .._method import Method, Shape
from . import _state


class Item(NamedTuple):
    """A bucket on its way."""
    buffer: torch.Tensor
    parameters: List[torch.Tensor]
    last: bool
    future: Any


class Names:
    """A name for every parameter: the module's, or its number of appearance."""

    def __init__(self, module: Optional[torch.nn.Module]) -> None:
        self._known: Dict[int, str] = {}
        self._kept: List[torch.Tensor] = []  # an id means something while its tensor lives
        for name, parameter in module.named_parameters() if module is not None else ():
            self._know(parameter, name[len("module."):] if name.startswith("module.") else name)

    def _know(self, parameter: torch.Tensor, name: str) -> str:
        self._kept.append(parameter)
        self._known[id(parameter)] = name
        return name

    def of(self, parameter: torch.Tensor) -> str:
        name = self._known.get(id(parameter))
        return self._know(parameter, "p%d" % len(self._known)) if name is None else name


class Buckets:
    """The method of one DDP model; used by the communication thread alone."""

    def __init__(self, make: Callable[[List[Tuple[str, Shape]], torch.Tensor], Method],
                 names: Names, whole_of: Callable[[torch.Tensor], torch.Tensor],
                 mask_of: Callable[[List[Tuple[str, Shape]]], torch.Tensor],
                 at_once: bool) -> None:
        self._make, self._names = make, names
        self._whole_of, self._mask_of = whole_of, mask_of
        self._at_once = at_once  # a whole step after the last bucket
        self.method: Optional[Method] = None
        self.tensors: List[Tuple[str, Shape]] = []
        self.answer = torch.empty(0)
        self._answer_before = self.answer  # DDP may still be reading it
        self._flat = torch.empty(0)  # gradients that cannot be used where they lie
        self._place: Dict[str, Tuple[int, int, int]] = {}  # index, offset, count
        self._items: List[Item] = []
        self.count = 0  # buckets of the last step
        self._order: List[Tuple[str, Shape]] = []
        self._order_before: List[Tuple[str, Shape]] = []
        self.pending: Optional[Dict[str, Any]] = None  # a state to begin with

    # ---- making ----

    def _arrange(self, tensors: List[Tuple[str, Shape]]) -> None:
        """Makes the method for tensors in this order; collective."""
        self.tensors, self._place = tensors, {}
        offset = 0
        for index, (name, shape) in enumerate(tensors):
            self._place[name] = (index, offset, _state.count_of(shape))
            offset += _state.count_of(shape)
        self._answer_before, self.answer = self.answer, torch.zeros(max(1, offset))
        self._flat = torch.empty(0)
        self.method = self._make(tensors, self.answer)

    def _begin(self) -> None:
        """The first step, or the first after a state was loaded."""
        saved, self.pending = self.pending, None
        if self.method is not None:
            self.method.close()
        if saved is None:
            self._arrange(list(self._order))
            return
        tensors = [(name, tuple(shape)) for name, shape in saved["tensors"]]
        if sorted(tensors) != sorted(self._order):
            raise ValueError("the state was saved for other parameters than this model has")
        self._arrange(tensors)
        _state.write_parts(self.method, saved["parts"])

    def _follow(self) -> None:
        """Takes over DDP's new order, once it has come twice."""
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
        """(first tensor, offset, tensors) if the bucket is a run of the flat buffer as it lies."""
        named = self._named(item)
        first, offset, _ = self._place[named[0][0]]
        return (first, offset, len(named)) if self.tensors[first:first + len(named)] == named \
            else None

    def _room(self) -> torch.Tensor:
        if self._flat.numel() == 0:
            self._flat = torch.zeros(self.answer.numel())
        return self._flat

    def _scatter(self, item: Item, scale: float) -> None:
        """Copies every tensor of a bucket to its place."""
        flat, at = self._room(), 0
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
            # Only this run of the buffer is looked at, and only before post returns.
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

    def take(self, item: Item, scale: float) -> Optional[MethodReport]:
        """One bucket; the report of the step after its last."""
        self._items.append(item)
        named = self._named(item)
        if self.method is not None and any(name not in self._place for name, _ in named):
            raise ValueError("a parameter that was not there before: a State serves one DDP model")
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
            return self.method.step(self._room().data_ptr())
        if whole:
            for each in self._items:
                self._post(each, scale)
        return self.method.finish(self.answer.data_ptr())

    # ---- the answer ----

    def _answer_of(self, item: Item, factor: float) -> torch.Tensor:
        """The place itself where nothing stands against it: DDP copies it into the gradients. Not a
        view: DDP takes what it is given for the beginning of a storage."""
        run = self._run(item)
        if run is not None:
            out = _state.tensor_at(self.answer.data_ptr() + 4 * run[1], item.buffer.numel())
        else:
            out = torch.cat([self.answer[self._place[name][1]:][:self._place[name][2]]
                             for name, _ in self._named(item)])
        if factor != 1:
            out = out * factor
        return out.to(item.buffer.dtype)

    def answers(self, factor: float, instead: Optional[float]) -> List[Tuple[Any, torch.Tensor]]:
        """The future of each bucket and what it is to hold: the answer times `factor`, or
        `instead` where the step was skipped. Ends the step."""
        out = []
        for item in self._items:
            held = self._answer_of(item, factor) if instead is None else \
                torch.full_like(item.buffer, instead)
            out.append((item.future, held))
        self.count, self._items = len(self._items), []
        return out

    def after(self) -> None:
        """Between steps, while nobody waits for it."""
        self._follow()
        self._order_before, self._order = self._order, []

    def drop(self) -> List[Any]:
        """The futures of a step that failed."""
        futures, self._items = [item.future for item in self._items], []
        return futures
