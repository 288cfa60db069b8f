"""Buckets of a device, with a stand-in for the device: its copies wait in a queue, as on a stream,
until somebody waits for them. No GPU is needed, and none is tested."""

import sys
import threading

import torch

import terse
import terse.torch
from crew import Skip
from support import METHODS, flat, hooked, net, raises, same_everywhere, train
from terse.torch import _staging

hook = sys.modules["terse.torch.hook"]  # terse.torch.hook itself is the function


class Stream:
    """A device whose memory is the host's. Copies are made in order, and only when waited for: who
    does not wait, reads NaN."""

    def __init__(self, device):
        self.queue, self.done, self.hosts, self.finished, self.waits = [], 0, 0, 0, 0
        self.fail_at, self.lazy = None, False
        self._lock = threading.Lock()  # backward and the communication thread use it

    def _add(self, copy):
        with self._lock:
            self.queue.append(copy)
            return len(self.queue)

    def _run(self, until):
        with self._lock:
            while self.done < until:
                self.queue[self.done]()
                self.done += 1

    def host(self, count, dtype):
        self.hosts += 1
        return torch.full((count,), float("nan"), dtype=dtype)

    def future(self):
        return torch.futures.Future()

    def fetch(self, host, buffer):
        if self.fail_at == "fetch":
            raise RuntimeError("the device is lost")
        return self._add(lambda: host.copy_(buffer))

    def wait(self, fetched):
        if self.fail_at == "wait":
            raise RuntimeError("the device is lost")
        self.waits += 1
        self._run(fetched)

    def put(self, buffer, host, future):
        last = self._add(lambda: buffer.copy_(host))
        if not self.lazy:  # who waits for a device's future waits for the copy
            self._run(last)
        future.set_result(buffer)

    def finish(self):
        self.finished += 1
        self._run(len(self.queue))


class staged:
    """Inside, the hook takes every bucket for one of a device. `made` has the devices."""

    def __enter__(self):
        self.made = []

        def make(device):
            self.made.append(Stream(device))
            return self.made[-1]
        self._before = (hook.on_device, hook.Staging)
        hook.on_device = lambda buffer: True
        hook.Staging = lambda: _staging.Staging(make)
        return self.made

    def __exit__(self, *_):
        hook.on_device, hook.Staging = self._before


def run(spec, rank, steps=5, dtype=torch.float32):
    torch.manual_seed(1)
    model = net().to(dtype)
    ddp, state = hooked(model, spec)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.001 if state.votes else 0.05)
    for step in range(steps):
        source = torch.Generator().manual_seed(100 * step + rank)
        x = torch.randn(8, 32, generator=source).to(dtype)
        optimizer.zero_grad()
        (ddp(x).float() ** 2).sum().backward()
        optimizer.step()
    count = state._buckets.count
    state.close()
    return flat(model), count


def case_every_method_gives_the_same_bits(rank, workers):
    for spec in METHODS:
        wanted, buckets = run(spec, rank)
        with staged() as made:
            found, _ = run(spec, rank)
        assert buckets > 1 and len(made) == 1 and made[0].waits >= 4 * buckets, spec
        assert torch.equal(found, wanted), spec
        same_everywhere(found, spec)


def case_half_precision_is_fetched_as_it_is(rank, workers):
    """bfloat16 too, where DDP takes it."""
    types = [torch.float16]
    if not torch.__version__.startswith("1."):
        types.append(torch.bfloat16)
    probe = torch.nn.Linear(4, 4).to(torch.float16)
    try:
        probe(torch.zeros(1, 4, dtype=torch.float16)).sum().backward()
    except RuntimeError:
        types.remove(torch.float16)  # PyTorch 1.13 has no float16 products on the CPU
    if not types:
        raise Skip("PyTorch %s trains neither float16 nor bfloat16 here" % torch.__version__)
    for dtype in types:
        wanted, _ = run("topk:keep=0.1", rank, dtype=dtype)
        with staged() as made:
            found, _ = run("topk:keep=0.1", rank, dtype=dtype)
        assert torch.equal(found, wanted) and made, dtype


def case_host_buffers_are_used_again(rank, workers):
    """One per bucket; new ones only when DDP has reordered its buckets, after its first step."""
    with staged() as made:
        ddp, state = hooked(net(), "dense")
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
        train(ddp, optimizer, rank, range(2))
        device, buckets = made[0], state._buckets.count
        before = device.hosts
        assert before <= 2 * buckets
        train(ddp, optimizer, rank, range(2, 7))
        assert device.hosts == before
        before = device.finished
        state.close()
        assert device.finished == before + 1 and not state._staging._hosts


def case_a_buffer_is_not_overwritten_before_it_is_copied(rank, workers):
    """Nobody waits for the copies back, except the stream itself: each step still gets its own."""
    made = []

    def make(device):
        made.append(Stream(device))
        made[-1].lazy = True
        return made[-1]
    staging = _staging.Staging(make)
    bucket, results = torch.zeros(4), []
    for step in range(3):
        bucket = torch.full((4,), float(step))  # a bucket of its own
        item = staging.fetch(0, bucket)
        item.wait()
        assert torch.equal(item.host, bucket), step
        item.deliver(item.host + 10, staging.future_of(bucket))
        results.append(bucket)
    staging.close()
    assert [float(each[0]) for each in results] == [10, 11, 12] and made[0].hosts == 1
    item = staging.fetch(0, torch.zeros(4, dtype=torch.float16))
    assert len(made) == 2 and item.host.dtype == torch.float16


def case_a_lost_device_ends_the_step(rank, workers):
    """On the rank that has it the error is the device's, on the others a GroupError."""
    for where in ("fetch", "wait"):
        with staged() as made:
            ddp, state = hooked(net(), "dense", {"timeout": 3})
            optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
            train(ddp, optimizer, rank, range(3))
            if rank == workers - 1:
                made[0].fail_at = where
                raises(RuntimeError, lambda: train(ddp, optimizer, rank, [3]), "device is lost")
                state.close()
            elif workers > 1:
                raises(RuntimeError, lambda: train(ddp, optimizer, rank, [3]))
                raises(terse.GroupError, state.check)
                state.close()


def case_a_device_joins_and_skips(rank, workers):
    """A gradient that is not finite: zeros come back on all ranks, through the same buffers."""
    with staged() as made:
        ddp, state = hooked(net(), "topk:keep=0.1")
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
        train(ddp, optimizer, rank, range(3))
        before = flat(ddp)
        x = torch.full((2, 32), float("nan") if rank == 0 else 1.0)
        optimizer.zero_grad()
        ddp(x).sum().backward()
        optimizer.step()
        assert torch.equal(flat(ddp), before) and state.report()["skipped"] == 1
        assert made[0].done == len(made[0].queue)
        state.close()
