"""A codec in Python in the hook and in an optimizer, over gloo."""

import os
import sys

import torch

import terse
import terse.torch
from support import batch, hooked, net, raises, same_everywhere

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                                "examples"))
import random_k  # registers random-k


@terse.register_codec
class Stumbles:
    """fails on rank 1 in its third step"""
    def bound(self, n):
        return 4 * n

    def encode(self, x, key):
        if key.worker == 1 and key.step >= 2:
            raise ZeroDivisionError("on purpose")
        return x

    def decode(self, payload, n, key):
        return payload.view("<f4")


def case_the_hook_returns_the_mean_of_what_was_chosen(rank, workers):
    """Compares with residuals kept by hand; all ranks have chosen the same elements."""
    ddp, state = hooked(net(), "codec=random-k:keep=0.25,feedback=residual")
    plain = net()
    plain.load_state_dict(ddp.module.state_dict())
    residual = [[torch.zeros(p.numel()) for p in plain.parameters()] for _ in range(workers)]
    for step in range(4):
        for other in range(workers):
            plain.zero_grad()
            x, y = batch(other, step)
            torch.nn.functional.cross_entropy(plain(x), y).backward()
            for held, parameter in zip(residual[other], plain.parameters()):
                held += parameter.grad.reshape(-1)
        ddp.zero_grad()
        x, y = batch(rank, step)
        torch.nn.functional.cross_entropy(ddp(x), y).backward()
        for i, parameter in enumerate(ddp.parameters()):
            got = parameter.grad.reshape(-1)
            same_everywhere(got, "step %d, parameter %d" % (step, i))
            chosen = got.nonzero().reshape(-1)
            most = got.numel() // 4 if got.numel() >= 64 else got.numel()  # small ones go whole
            assert 0 < len(chosen) <= most, (step, i)
            wanted = sum(residual[other][i][chosen] for other in range(workers)) / workers
            assert torch.equal(got[chosen], wanted), (step, i)
            for other in range(workers):
                residual[other][i][chosen] = 0
    assert state.report()["bytes_sent"] > 0
    state.close()


def case_an_optimizer_takes_the_steps_of_the_simulation(rank, workers):
    """Bit for bit, for a codec in Python and for methods of the library."""
    shapes = [(30, 20), (7,), (500,)]

    def gradient(worker, step):
        source = torch.Generator().manual_seed(31 * step + worker)
        return [torch.randn(shape, generator=source) for shape in shapes]

    for spec in ("codec=random-k:keep=0.1,feedback=residual", "regtopk:keep=0.05", "signum", "def"):
        params = [torch.nn.Parameter(0.1 * one) for one in gradient(99, 0)]
        optimizer = terse.torch.optim.Spec(params, spec, lr=0.01, seed=3, timeout=20)
        team = terse.simulate(optimizer.spec, workers, params, seed=3)
        team.set_lr(0.01)
        for step in range(4):
            for parameter, grad in zip(params, gradient(rank, step)):
                parameter.grad = grad
            optimizer.step()
            reports = team.step([gradient(worker, step) for worker in range(workers)])
            assert not reports[rank]["skipped"]
            flat = torch.cat([torch.from_numpy(one).reshape(-1) for one in team.weights])
            assert torch.equal(optimizer.weights, flat), (spec, step)
        optimizer.close()


def case_an_exception_ends_the_step_on_all_ranks(rank, workers):
    params = [torch.nn.Parameter(torch.zeros(100))]
    optimizer = terse.torch.optim.Spec(params, "codec=stumbles", lr=0.1, timeout=20)
    for _ in range(2):
        params[0].grad = torch.ones(100)
        optimizer.step()
    before = optimizer.weights.clone()
    params[0].grad = torch.ones(100)
    if rank == 1:
        error = raises(ValueError, optimizer.step, "encode raised ZeroDivisionError: on purpose")
        assert isinstance(error.__cause__, ZeroDivisionError)
    else:
        raises(Exception, optimizer.step, "rank 1")
    assert torch.equal(optimizer.weights, before)
    optimizer.close()
