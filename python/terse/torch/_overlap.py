"""Sends the gradients of an optimizer while backward continues.

The parameters, from the last to the first, are cut into buckets. A bucket is sent by a thread of
its own once backward has all of its gradients and those of the buckets before it: so all ranks send
the same buckets in the same order. The result is that of a step of the whole gradient, bit for bit,
since a method's buckets share its state (PowerSGD's do not)."""

import queue
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from .._library import MethodReport
from .._method import describe
from . import _thread
from ._param_groups import ParamGroup

BUCKET_BYTES = 4 << 20  # a bucket has at least so many, unless it is the last one


class Bucket(NamedTuple):
    """A run of tensors."""
    first: int
    tensors: int


class Sent(NamedTuple):
    """A gradient on its way: it must stay as it is."""
    gradient: Optional[torch.Tensor]
    version: int
    kept: torch.Tensor  # what is sent: the gradient, a copy of it, or zeros


def refuse(groups: List[ParamGroup]) -> None:
    """ValueError: gradients of these cannot be sent during backward."""
    if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        raise ValueError("overlap=True needs PyTorch 2.1 or later, this is %s" % torch.__version__)
    if len(groups) != 1:
        raise ValueError("overlap=True needs one parameter group, there are %d: what is sent of the "
                         "first cannot be taken back if a gradient of the second is not finite"
                         % len(groups))
    method = describe(groups[0].spec)
    if not method.has_buckets or method.passes > 1:
        raise ValueError("overlap=True is not available with %s: it needs the whole gradient before "
                         "it sends anything" % groups[0].spec)


def divided(sizes: List[int]) -> List[Bucket]:
    """The buckets of tensors of so many elements, in the order in which they are sent."""
    found, end, count = [], len(sizes), 0
    for index in range(len(sizes) - 1, -1, -1):
        count += sizes[index]
        if 4 * count >= BUCKET_BYTES or index == 0:
            found.append(Bucket(index, end - index))
            end, count = index, 0
    return found


class Overlap:
    """The buckets of a parameter group."""

    def __init__(self, group: ParamGroup) -> None:
        self._group = group
        self._buckets = divided([p.numel() for p in group.params])
        self._bucket_of = {first + i: number for number, (first, count) in enumerate(self._buckets)
                           for i in range(count)}
        self.paused = False  # gradients accumulate and are not sent
        self._sent: Dict[int, Sent] = {}
        self._missing: List[int] = []
        self._posted = 0
        self._failure: Optional[Exception] = None
        self._items: "queue.Queue[Any]" = queue.Queue()
        self._thread: Any = None
        self._end: Any = None
        myself = weakref.ref(self)
        hooks = [parameter.register_post_accumulate_grad_hook(_hook(myself, index))
                 for index, parameter in enumerate(group.params)]
        self._unhook = weakref.finalize(self, _remove, hooks)

    @property
    def under_way(self) -> bool:
        """Whether backward has sent something that no step has finished."""
        return bool(self._sent)

    # ---- called by backward ----

    def ready(self, index: int) -> None:
        """Backward has the gradient of parameter `index`."""
        if self.paused:
            return
        if index in self._sent:
            raise RuntimeError(
                "backward has a gradient of %s for the second time in this step; with overlap=True "
                "the first one has been sent. Take all but the last backward of a step inside `with "
                "optimizer.no_sync():`" % self._group.tensors[index][0])
        self._take(index)

    def _take(self, index: int) -> None:
        if not self._sent:
            self._group.begin()
            self._missing, self._posted = [bucket.tensors for bucket in self._buckets], 0
            if self._thread is None:
                self._thread, self._end = _thread.start(self, self._items)
        gradient = self._group.params[index].grad
        self._sent[index] = Sent(gradient, 0 if gradient is None else gradient._version,
                                 self._group.gradient(index))
        self._missing[self._bucket_of[index]] -= 1
        while self._posted < len(self._buckets) and self._missing[self._posted] == 0:
            first, count = self._buckets[self._posted]
            self._items.put((first, [self._sent[first + i].kept for i in range(count)]))
            self._posted += 1

    # ---- called by the thread ----

    def _serve(self, item: Tuple[int, List[torch.Tensor]]) -> None:
        """Posts a bucket."""
        first, gradients = item
        try:
            if self._failure is None:
                self._group.method.post_tensors([each.data_ptr() for each in gradients], first)
        except Exception as why:
            self._failure = why

    # ---- called by step ----

    def step(self) -> MethodReport:
        """Sends what backward has not, and finishes the step. After an exception the thread is idle:
        the group may be closed."""
        try:
            self._send_the_rest()
        finally:
            self._items.join()
            sent, self._sent = self._sent, {}
        self._check_gradients(sent)
        if self._failure is not None:
            raise self._failure
        report: MethodReport = self._group.method.finish(self._group.weights.data_ptr())
        return report

    def _send_the_rest(self) -> None:
        if self._sent:  # before the failure: where all ranks change an option, all are told so
            self._group.check_begun()
        if self._failure is not None:
            raise self._failure
        for index in range(len(self._group.params)):
            if index not in self._sent:
                self._take(index)

    def _check_gradients(self, sent: Dict[int, Sent]) -> None:
        for index, (gradient, version, _) in sent.items():
            now = self._group.params[index].grad
            if now is not gradient or (now is not None and now._version != version):
                raise RuntimeError(
                    "the gradient of %s has changed between backward and step; with overlap=True it "
                    "was sent during backward. Clip with the option clip of a spec and without "
                    "overlap, or change gradients in tensor hooks" % self._group.tensors[index][0])

    def close(self) -> bool:
        """Nothing is sent any more. False: the thread still uses the group (_thread.ended)."""
        self._failure = self._failure or RuntimeError(
            "this optimizer is closed, by close() or by a step that failed; create a new one")
        self._unhook()
        return _thread.ended(self._thread, self._end)


def _hook(overlap_of: Any, index: int) -> Any:
    """A hook that keeps no optimizer alive."""
    def call(_: torch.Tensor) -> None:
        overlap = overlap_of()
        if overlap is not None:
            overlap.ready(index)
    return call


def _remove(hooks: List[Any]) -> None:
    for each in hooks:
        each.remove()
