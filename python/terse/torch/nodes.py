"""Ranks of one machine as one worker of a method, a node.

The ranks of a node average their gradients exactly: in rank order, as float32. All of them then run
the method with that mean. The first one, the leader, alone exchanges messages with other nodes and
passes on what it receives (terse_group_nodes). So the residual and all other state are equal on the
ranks of a node, and the results are those of as many workers as there are nodes."""

import itertools
import re
import socket
import weakref
from contextlib import contextmanager
from ctypes import byref, c_void_p
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

import torch
import torch.distributed as dist

from .._library import Fault, GroupError, MethodReport, check, library
from .._method import Method
from . import _state
from .group import TAG, Group, members, release

_MEANS, _INNER, _OUTER = TAG + 1, TAG + 2, TAG + 3  # of the three groups of a rank

Setting = Union[None, int, str]  # None: every rank is a worker; ranks of a node; "auto": by host


def refuse(nodes: Setting, worker_weight: float = 0.0) -> None:
    """ValueError: not a setting of `nodes`, or not together with a weight of each rank."""
    if nodes is None:
        return
    if nodes != "auto" and (not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1):
        raise ValueError("nodes=%r: expected \"auto\" (the ranks of a host are a node), the number "
                         "of consecutive ranks of a node, or None" % (nodes,))
    if worker_weight:
        raise ValueError("nodes=%r is not available with worker_weight=%g: the gradient of a node "
                         "is the plain mean of its ranks. Leave out one of the two"
                         % (nodes, worker_weight))


def host() -> str:
    """Equal on two ranks if they share a host: its name, and on Linux the ID of its last start,
    since names of hosts need not differ."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            started = file.read().strip()
    except OSError:
        started = ""
    return "%s %s" % (socket.gethostname(), started)


def _divide(carrier: Any, nodes: Setting) -> List[List[int]]:
    """The ranks of every node, in the order of their first ranks; collective. ValueError on all
    ranks: they cannot be divided so."""
    count = dist.get_world_size(carrier)
    if nodes == "auto":
        hosts: List[Any] = [None] * count
        dist.all_gather_object(hosts, host(), group=carrier)
        found: Dict[str, List[int]] = {}
        for rank, name in enumerate(hosts):
            found.setdefault(name, []).append(rank)
        return list(found.values())
    size = 1 if nodes is None else int(nodes)
    if count % size:
        raise ValueError("nodes=%d: %d ranks are not divisible into nodes of %d; start a multiple, "
                         "or pass nodes=\"auto\"" % (size, count, size))
    return [list(range(first, first + size)) for first in range(0, count, size)]


def join(carrier: Any, nodes: Setting, seconds: float, *, weighted: bool = True) -> Any:
    """The group of a method over the ranks of a gloo group made by own_group, which ends with it:
    a Nodes, or a Group if every rank is a worker; collective. ValueError on all ranks: they cannot
    be divided into such nodes, or nodes of unequal size would need weights and `weighted` is False.
    The gloo group is gone then."""
    try:
        divided = _divide(carrier, nodes)
        sizes = [len(ranks) for ranks in divided]
        if len(set(sizes)) > 1 and not weighted:
            raise ValueError("nodes=%r: nodes of %s ranks: a mean over nodes of unequal size needs "
                             "weights, which are not available with uneven=True. Leave out one of "
                             "the two" % (nodes, ", ".join(map(str, sizes))))
    except Exception:
        release(carrier, {})
        raise
    if max(sizes) == 1:
        return Group(carrier, members(carrier), seconds)
    return Nodes(carrier, divided, seconds)


class NodeMethod(Method):
    """A method whose worker is a node: it replaces this rank's gradient by the mean of the node,
    in place, before the step takes it."""

    def __init__(self, spec: str, group: "Nodes", tensors: Any, weights: int,
                 **options: Any) -> None:
        counts = [_state.count_of(shape) for _, shape in tensors]
        self._starts = [0, *itertools.accumulate(counts)]
        self._flat = torch.empty(0)
        with group.naming_nodes():
            super().__init__(spec, group, tensors, weights, **options)

    def step(self, gradient: int) -> MethodReport:
        self._joined()
        self._group.mean(gradient, self._starts[-1])
        with self._group.naming_nodes():
            return super().step(gradient)

    def _flattened(self, gradients: Sequence[int], first: int) -> int:
        """A copy of these tensors, and the address where the whole gradient would begin. It leaves
        the gradients as they are: one buffer of zeros may stand for several."""
        if self._flat.numel() == 0:
            self._flat = torch.empty(self._starts[-1])
        for address, start, end in zip(gradients, self._starts[first:], self._starts[first + 1:]):
            self._flat[start:end] = _state.tensor_at(address, end - start)
        return self._flat.data_ptr()

    def step_tensors(self, gradients: Sequence[int]) -> MethodReport:
        return self.step(self._flattened(gradients, 0))

    def post_tensors(self, gradients: Sequence[int], first: int) -> None:
        self.post(self._flattened(gradients, first), first, len(gradients))

    def post(self, gradient: int, first: int, count: int) -> None:
        self._joined()
        start, end = self._starts[first], self._starts[first + count]
        self._group.mean(gradient + 4 * start, end - start)
        with self._group.naming_nodes():
            super().post(gradient, first, count)

    def finish(self, gradient: int) -> MethodReport:
        with self._group.naming_nodes():
            return super().finish(gradient)


class Nodes:
    """A group handle whose workers are nodes; otherwise as Group. `rank` is the number of this
    rank's node, `workers` the number of nodes."""

    def __init__(self, carrier: Any, divided: List[List[int]], seconds: float) -> None:
        ranks, rank = members(carrier), dist.get_rank(carrier)
        self.carrier = carrier
        self._divided = divided
        self._mine = next(node for node in divided if rank in node)
        self.rank, self.workers = divided.index(self._mine), len(divided)
        self.leads = rank == self._mine[0]
        # The mean over ranks, where nodes differ in size.
        self.weight = float(len(self._mine)) if len(set(map(len, divided))) > 1 else 0.0
        self._scratch = torch.empty(0)
        self._under_way: Dict[Any, Any] = {}
        # Three groups of the same connections, which a tag keeps apart. What the leader passes on
        # is posted in an order of its own, so means have another group.
        node, leaders = [ranks[r] for r in self._mine], [ranks[each[0]] for each in divided]
        made: Any = (
            Group(carrier, each, seconds, tag, self._under_way) if dist.get_rank() in each else None
            for tag, each in ((_MEANS, node), (_INNER, node), (_OUTER, leaders)))
        self._means, self._inner, self._outer = made
        self._end = weakref.finalize(self, release, carrier, self._under_way)
        self._end.atexit = False
        self.handle, fault = c_void_p(), Fault()
        check(library().group_nodes(self._inner.handle, None if self._outer is None else
                                    self._outer.handle, byref(self.handle), byref(fault)), fault)
        for group in (self._inner, self._outer):  # now the handle's
            if group is not None:
                group.handle = c_void_p()
        check(library().group_set_timeout(self.handle, seconds))

    def method(self, spec: str, tensors: Any, weights: int, **options: Any) -> NodeMethod:
        """A method of this group, for the gradients of single ranks; collective."""
        return NodeMethod(spec, self, tensors, weights, **options)

    @property
    def under_way(self) -> bool:
        """Whether there are messages whose buffers gloo may still read or write. What a leader passes
        on to its node does not count: the last of a step is still on its way when the step is done,
        and lies in memory of the handle, which waits for it."""
        return any(tag != _INNER for tag, _ in self._under_way)

    def describe(self) -> str:
        return "%d nodes of %s ranks" % (self.workers, " or ".join(
            map(str, sorted({len(node) for node in self._divided}))))

    def mean(self, address: int, count: int) -> None:
        """Replaces `count` floats by their mean over the ranks of this node, added in rank order;
        collective over the node."""
        if len(self._mine) == 1 or count == 0:
            return
        lib, fault = library(), Fault()
        needed = lib.group_allreduce_scratch(self._means.handle, count)
        if self._scratch.numel() < needed:
            self._scratch = torch.empty(needed)
        status = lib.group_allreduce(self._means.handle, address, count, self._scratch.data_ptr(),
                                     byref(fault))
        try:
            check(status, fault)
        except GroupError as why:
            rank = self._mine[why.rank] if why.rank >= 0 else -1
            raise type(why)("rank %d, in node %d: %s" % (rank, self.rank, _without_rank(why)),
                            rank) from None
        _state.tensor_at(address, count).div_(len(self._mine))

    @contextmanager
    def naming_nodes(self) -> Iterator[None]:
        """The library's ranks are nodes: an error that names one names its ranks instead."""
        try:
            yield
        except GroupError as why:
            if why.rank < 0:
                raise
            ranks = self._divided[why.rank]
            raise type(why)("node %d (ranks %s): %s" % (
                why.rank, ", ".join(map(str, ranks)), _without_rank(why)), ranks[0]) from None

    def close(self) -> None:
        """Leaves the group; ranks that wait for this one fail with GroupError."""
        if self.handle:
            library().group_destroy(self.handle)
            self.handle = c_void_p()
            self._means.close()
            self._end()
            for each in (self, self._inner, self._outer):
                if each is not None:
                    each.carrier = None  # gloo's connections end with the last reference


def _without_rank(why: Exception) -> str:
    """The text of a library's error without the rank at its beginning, which is a number of another
    group."""
    return re.sub(r"^rank \d+: ", "", str(why))
