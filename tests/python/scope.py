"""The hook where the selection is over all parameters, and where ranks have weights."""

import torch
import torch.distributed as dist

import terse
import terse.torch
from support import batch, hooked, net, raises, state_of


def case_scope_model_selects_among_all_parameters(rank, workers):
    """Compares with a plain Top-k of all parameters together; DDP rebuilds its buckets."""
    for combine in ("allgather", "sparse-allreduce"):
        ddp, state = hooked(net(), "topk:keep=0.02,scope=model,combine=" + combine)
        plain = net()
        plain.load_state_dict(ddp.module.state_dict())
        count = sum(p.numel() for p in plain.parameters())
        residual = [torch.zeros(count) for _ in range(workers)]
        for step in range(5):
            wanted = torch.zeros(count)
            for other in range(workers):
                plain.zero_grad()
                x, y = batch(other, step)
                torch.nn.functional.cross_entropy(plain(x), y).backward()
                residual[other] += torch.cat([p.grad.reshape(-1) for p in plain.parameters()])
                chosen = residual[other].abs().topk(int(0.02 * count)).indices
                wanted[chosen] += residual[other][chosen]
                residual[other][chosen] = 0
            ddp.zero_grad()
            x, y = batch(rank, step)
            torch.nn.functional.cross_entropy(ddp(x), y).backward()
            got = torch.cat([p.grad.reshape(-1) for p in ddp.parameters()])
            assert torch.equal(got, wanted / workers), "%s, step %d" % (combine, step)
        assert state._buckets.count > 2, "the model must have several buckets"
        assert "scope=model" in state.report()["settings"]
        assert state.report()["parameters"][0]["bytes"] is None
        state.close()
    raises(ValueError, lambda: state_of("topk:scope=model,min=9"), "leave out min and plain")


def case_worker_weights(rank, workers):
    """The mean is sum w g / sum w in the hook and in an optimizer; a rank without a weight is
    named."""
    weights = [1.0 + 2 * other for other in range(workers)]
    ddp, state = hooked(net(), "dense", {"worker_weight": weights[rank]})
    plain = net()
    plain.load_state_dict(ddp.module.state_dict())
    optimizer = terse.torch.optim.Spec([torch.nn.Parameter(torch.zeros(9))], "topk:keep=1", lr=1.0,
                                       timeout=20, worker_weight=weights[rank])
    for step in range(3):
        wanted = 0
        for other in range(workers):
            plain.zero_grad()
            x, y = batch(other, step)
            torch.nn.functional.cross_entropy(plain(x), y).backward()
            wanted = wanted + weights[other] / sum(weights) * torch.cat(
                [p.grad.reshape(-1) for p in plain.parameters()])
        ddp.zero_grad()
        x, y = batch(rank, step)
        torch.nn.functional.cross_entropy(ddp(x), y).backward()
        got = torch.cat([p.grad.reshape(-1) for p in ddp.parameters()])
        assert torch.allclose(got, wanted, atol=1e-6), "step %d" % step
    optimizer.param_groups[0]["params"][0].grad = torch.full((9,), float(rank))
    optimizer.step()
    mean = sum(w * other for other, w in enumerate(weights)) / sum(weights)
    assert torch.allclose(optimizer.weights, torch.full((9,), -mean))
    optimizer.close()
    state.close()
    raises(terse.MismatchError if rank < workers - 1 else ValueError,
           lambda: terse.torch.optim.Spec([torch.nn.Parameter(torch.zeros(9))], "dense", lr=1.0,
                                          timeout=20,
                                          worker_weight=-1.0 if rank == workers - 1 else 1.0))
    raises(ValueError if rank == 0 else terse.MismatchError,
           lambda: state_of("dense", uneven=True, worker_weight=float(rank == 0)),
           "uneven=True is not available with worker_weight=1")


def case_weighted_means_for_another_number_of_workers(rank, workers):
    """What is outstanding is sum w e / sum w; one rank alone goes on with it, in the hook and in an
    optimizer."""
    alone = [dist.new_group([other]) for other in range(workers)][rank]
    weight = {"worker_weight": 1.0 + 2 * rank}
    ddp, state = hooked(net(), "topk:keep=0.05", weight)
    for step in range(3):
        ddp.zero_grad()
        x, y = batch(rank, step)
        torch.nn.functional.cross_entropy(ddp(x), y).backward()
    optimizer = terse.torch.optim.Spec([torch.nn.Parameter(torch.zeros(9))], "topk:keep=0.2",
                                       lr=1.0, timeout=20, **weight)
    optimizer.param_groups[0]["params"][0].grad = torch.arange(9.0) + 10 * rank
    optimizer.step()
    again = terse.torch.optim.Spec([torch.nn.Parameter(torch.zeros(9))], "topk:keep=0.2", lr=1.0,
                                   timeout=20, process_group=alone)
    lone = terse.torch.State("topk:keep=0.05", min=0, process_group=alone)
    for saved, other in ((state.state_dict(), lone),
                         (optimizer.state_dict()["terse_state"], again)):
        held = [None] * workers
        dist.all_gather_object(held, saved)
        assert [each["worker_weight"] for each in held] == [1.0 + 2 * r for r in range(workers)]
        got, parts = other._regrouped(held), held
        if "groups" in got:
            got, parts = got["groups"][0], [each["groups"][0] for each in held]
        wanted = sum((1.0 + 2 * r) * each["parts"]["residual"]["data"].double()
                     for r, each in enumerate(parts)) / sum(1.0 + 2 * r for r in range(workers))
        assert wanted.abs().max() > 0
        assert torch.allclose(got["parts"]["residual"]["data"].double(), wanted, rtol=1e-6)
    for each in (state, optimizer, again, lone):
        each.close()
