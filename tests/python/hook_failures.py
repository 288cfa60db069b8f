"""What the ranks of a hook are told when one of them fails, waits or is lost."""

import threading
import time

import torch
import torch.distributed as dist

import terse
import terse.torch
from support import batch, hooked, net, raises, state_of, train
from terse import _method
from terse.torch import _thread


def fails_without(rank, workers, missing, timeout):
    """Trains, then runs backward without the rank `missing`; returns the exception of the
    others."""
    ddp, state = hooked(net(), "topk:keep=0.05", {"timeout": timeout})
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(3))
    if rank == missing:
        return None
    x, y = batch(rank, 3)
    loss = torch.nn.functional.cross_entropy(ddp(x), y)
    raises(RuntimeError, loss.backward)
    why = raises(terse.GroupError, state.check)
    raises(RuntimeError, lambda: ddp(x).sum().backward(), str(why))  # and in every later one
    return why


def case_a_timeout_names_the_rank(rank, workers):
    started = time.monotonic()
    why = fails_without(rank, workers, workers - 1, 2)
    assert time.monotonic() - started < 15
    if why is not None and workers == 2:
        assert why.rank == 1 and "rank 1" in str(why), why
    dist.barrier()


def case_a_refused_bucket_does_not_keep_others_waiting(rank, workers):
    """The last rank's hook raises before anything is sent; its process lives on."""
    ddp, state = hooked(net(), "topk:keep=0.05", {"timeout": 60})
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(2))
    started = time.monotonic()
    if rank == workers - 1:
        raises(ValueError, lambda: terse.torch.hook(state, (None,)), "torch.compile")
        raises(ValueError, state.check, "torch.compile")
    else:
        x, y = batch(rank, 3)
        raises(RuntimeError, torch.nn.functional.cross_entropy(ddp(x), y).backward)
        raises(terse.GroupError, state.check)
        assert time.monotonic() - started < 20
    state.close()


def case_closing_while_the_thread_is_inside_a_message(rank, workers):
    """Nothing that the thread uses ends before the thread."""
    ddp, state = hooked(net(), "topk:keep=0.05")
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(2))
    method, inside, goes_on = state._buckets.method, threading.Event(), threading.Event()

    def add(*_):
        inside.set()
        goes_on.wait(60)
        raise RuntimeError("the bucket comes too late")
    state._buckets.add = add
    x, y = batch(rank, 3)
    backward = threading.Thread(
        target=lambda: raises(RuntimeError, torch.nn.functional.cross_entropy(ddp(x), y).backward))
    backward.start()
    assert inside.wait(20)
    patience, _thread._PATIENCE = _thread._PATIENCE, 0.1
    try:
        state.close()
    finally:
        _thread._PATIENCE = patience
    assert method._handle and state._group.handle and _method._kept[-1] == (state,)
    goes_on.set()
    state._thread.join(20)
    backward.join(20)
    assert not backward.is_alive()
    state.close()
    assert not method._handle and not state._group.handle


def process_groups():
    module = dist.distributed_c10d
    return len(module._world.pg_names if hasattr(module, "_world") else module._pg_names)


def case_settings_that_differ_leave_no_group_behind(rank, workers):
    before = process_groups()
    if workers > 1:
        raises(terse.MismatchError, lambda: state_of("qsgd", seed=rank // (workers - 1)), "seed")
    assert process_groups() == before
    state = state_of("qsgd")
    assert process_groups() == before + 1
    state.close()
    assert process_groups() == before


def case_z_a_lost_worker_is_named(rank, workers):
    """Must be the last case: rank K-1 ends here."""
    started = time.monotonic()
    why = fails_without(rank, workers, workers - 1, 20)
    if why is not None:
        assert time.monotonic() - started < 15  # at once, not after the timeout
        assert why.rank >= 0 and "rank %d" % why.rank in str(why), why
