"""torch.distributed as an engine of libterse: all-to-all with per-rank lengths (alltoallv) over
gloo's send and receive.

Sends and receives start at once; gloo's own thread moves the bytes directly from and into the
library's buffers. (all_to_all_single takes uneven lengths as well, but needs one packed tensor and
is three times slower for large ones.)"""

import ctypes
import os
import weakref
from ctypes import byref, c_char, c_void_p
from datetime import timedelta
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
import torch.distributed as dist

from .._library import (EXPLAIN, LEAVE, OK, PEER_LOST, POST, TEST, TIMEOUT, WAIT, GroupOps, check,
                        library)
from .._method import Method
from ._spec import agree

TAG = 0x7E45  # of every message; gloo keeps messages of one tag between two ranks in order
_MAX_VIEWS = 4096
# A timeout counts from the last piece that arrived: gloo does not tell of parts of a message.
_PIECE = 4 << 20  # bytes


def members(process_group: Optional[Any]) -> List[int]:
    """The global ranks of a process group."""
    if process_group is None:
        return list(range(dist.get_world_size()))
    return [dist.distributed_c10d.get_global_rank(process_group, rank)
            for rank in range(dist.get_world_size(process_group))]


def _threads() -> Set[str]:
    """The threads of this process; none where the system has no such list."""
    return set(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else set()


def _never_preempt(threads: Set[str]) -> None:
    """Makes them batch threads, which get their share of a core but do not take it from the thread
    that wakes them. gloo's thread spins while another one holds the lock of a connection; where it
    interrupts the very thread that is sending, it spins until that one gets a core again."""
    for thread in threads:
        try:
            if os.sched_getscheduler(int(thread)) == os.SCHED_OTHER:
                os.sched_setscheduler(int(thread), os.SCHED_BATCH, os.sched_param(0))
        except OSError:  # it has ended, or the system forbids it: then as the scheduler likes
            pass


def own_group(process_group: Optional[Any], seconds: float) -> Any:
    """A new gloo group of the same ranks in the same order, for terse alone. Collective over all
    global ranks, but no barrier: a rank may return while others are still inside."""
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError("torch.distributed is not initialised: call init_process_group first")
    ranks = members(process_group)
    order: Dict[str, Any] = {} if ranks == sorted(ranks) else {"sort_ranks": False}
    before = _threads()
    group = dist.new_group(ranks, timeout=timedelta(seconds=seconds), backend="gloo", **order)
    _never_preempt(_threads() - before)
    return group


def agreed_group(process_group: Optional[Any], seconds: float, mine: Any,
                 failure: Optional[Exception], what: str) -> Any:
    """own_group, in which the ranks have compared their settings (_spec.agree). If they differ, or
    one has failed, the group is gone when the exception is there."""
    carrier = own_group(process_group, seconds)
    try:
        agree(carrier, mine, failure, what)
    except Exception:
        release(carrier, {})
        raise
    return carrier


def drop(under_way: Dict[Any, Any]) -> None:
    """Lets go of messages that nobody will wait for: each of them holds the connections. The keys
    stay, since gloo may have begun to write into the buffers."""
    for key in under_way:
        under_way[key] = ()


def release(carrier: Any, under_way: Dict[Any, Any]) -> None:
    """Ends gloo's threads and connections of a group made by own_group, so that ranks that wait for
    this one fail at once. They end with the last reference to the group."""
    drop(under_way)
    if dist.is_initialized():
        dist.destroy_process_group(carrier)


class Group:
    """A group handle (terse_group) over a gloo process group made by own_group, used by one thread
    at a time. `ranks` are global; every one is a worker.

    The process group ends with the handle, unless `under_way` is given: it is shared by all groups
    of one process group, whose tags differ, and holds what is under way of each."""

    # Of a worker that is several ranks (nodes.Nodes): whether this one speaks for them, and the
    # weight of their mean.
    leads, weight = True, 0.0

    def __init__(self, process_group: Any, ranks: Sequence[int], seconds: float = 60.0,
                 tag: int = TAG, under_way: Optional[Dict[Any, Any]] = None) -> None:
        self.carrier = process_group
        self._ranks = list(ranks)
        self.rank = self._ranks.index(dist.get_rank())
        self.workers = len(self._ranks)
        self._tag = tag
        self._under_way: Dict[Any, Any] = {} if under_way is None else under_way  # by tag and slot
        self._views: Dict[Tuple[int, int], torch.Tensor] = {}
        self._why = ctypes.create_string_buffer(200)
        self._seconds = seconds
        # C holds pointers to these callbacks, which ctypes does not count as references.
        self._ops = GroupOps(ctypes.sizeof(GroupOps), POST(self._post), TEST(self._test),
                             WAIT(self._wait), LEAVE(), LEAVE(self._drop),
                             EXPLAIN(self._explain))
        self.handle = c_void_p()
        check(library().group_callbacks(byref(self._ops), None, self.rank, self.workers,
                                        byref(self.handle)))
        check(library().group_set_timeout(self.handle, seconds))
        self._end: Any = None
        if under_way is None:
            self._end = weakref.finalize(self, release, process_group, self._under_way)
            self._end.atexit = False

    def method(self, spec: str, tensors: Any, weights: int, **options: Any) -> Method:
        """A method of this group; collective."""
        return Method(spec, self, tensors, weights, **options)

    def describe(self) -> str:
        return "%d workers" % self.workers

    @property
    def under_way(self) -> bool:
        """Whether there are messages whose buffers gloo may still read or write."""
        return bool(self._under_way)

    def close(self) -> None:
        """Leaves the group; ranks that wait for this one fail with GroupError."""
        if self.handle:
            library().group_destroy(self.handle)
            self.handle = c_void_p()
            if self._end is not None:
                self._end()
            self.carrier = None  # gloo's connections end with the last reference

    def _view(self, address: int, length: int) -> torch.Tensor:
        """The bytes at an address as a tensor. The library uses the same buffers in every step."""
        view = self._views.get((address, length))
        if view is None:
            if len(self._views) >= _MAX_VIEWS:
                self._views.clear()
            view = torch.frombuffer((c_char * length).from_address(address), dtype=torch.uint8)
            self._views[(address, length)] = view
        return view

    def _pieces(self, rank: int, address: int, length: int) -> Iterator[torch.Tensor]:
        """The messages from or to one rank."""
        for first in range(0, length if rank != self.rank else 0, _PIECE):
            yield self._view(address + first, min(_PIECE, length - first))

    def _failed(self, why: Exception, rank: int, blamed: Any) -> int:
        text = str(why).replace("\n", " ")
        blamed[0] = rank
        self._why.value = text.encode("ascii", "replace")[:190]
        return TIMEOUT if "imed out" in text or "imeout" in text else PEER_LOST

    def _post(self, _context: Any, slot: int, alltoallv: Any, blamed: Any) -> int:
        rank = -1
        try:
            sides, works = alltoallv.contents, []
            for rank, peer in enumerate(self._ranks):
                for into in self._pieces(rank, sides.recv_at[rank], sides.recv_len[rank]):
                    works.append((dist.irecv(into, peer, group=self.carrier, tag=self._tag), rank))
            for rank, peer in enumerate(self._ranks):
                for what in self._pieces(rank, sides.send_at[rank], sides.send_len[rank]):
                    works.append((dist.isend(what, peer, group=self.carrier, tag=self._tag), rank))
            self._under_way[self._tag, slot] = works
            return OK
        except Exception as why:  # an exception cannot pass through C
            return self._failed(why, rank, blamed)

    def _finish(self, slot: int, limit: timedelta, blamed: Any) -> int:
        rank = -1
        try:
            for work, rank in self._under_way.get((self._tag, slot), ()):
                work.wait(limit)
            self._under_way.pop((self._tag, slot), None)
            return OK
        except Exception as why:
            return self._failed(why, rank, blamed)

    def _wait(self, _context: Any, slot: int, nanoseconds: int, blamed: Any) -> int:
        return self._finish(slot, timedelta(microseconds=max(1000, nanoseconds // 1000)), blamed)

    def _test(self, _context: Any, slot: int, done: Any, blamed: Any) -> int:
        """Waits, since gloo cannot be tested without waiting."""
        status = self._finish(slot, timedelta(seconds=self._seconds), blamed)
        done[0] = int(status == OK)
        return status

    def _drop(self, _context: Any) -> None:
        """The handle ends, and what a group of nodes receives into ends with it."""
        drop(self._under_way)

    def _explain(self, _context: Any) -> int:
        return ctypes.addressof(self._why)
