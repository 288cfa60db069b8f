"""terse.torch.LocalSteps against a plain DiLoCo in torch."""

import copy
import shutil
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import terse
import terse.torch
from crew import Skip
from support import batch, flat, frees_everything, net, raises, same_everywhere, train
from terse import _method

OUTER = "every=4,outer_lr=0.7,outer_momentum=0.9,nesterov=yes"
TOPK = "codec=topk:keep=0.1,feedback=residual," + OUTER
OPTIONS = {"timeout": 20, "min": 64}


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


class Reference:
    """DiLoCo as in the paper, with torch's own SGD as the outer optimizer and, with `keep`, Top-k
    of every tensor with at least 64 elements and a residual."""

    def __init__(self, model, keep=1.0):
        self.model, self.inner, self.keep, self.steps = model, adam(model), keep, 0
        self.outer = [torch.nn.Parameter(p.detach().clone()) for p in model.parameters()]
        self.sgd = torch.optim.SGD(self.outer, lr=0.7, momentum=0.9, nesterov=True)
        self.residual = [torch.zeros_like(p) for p in self.outer]

    def zero_grad(self):
        self.inner.zero_grad()

    def _sent(self, index, change):
        if self.keep == 1 or change.numel() < 64:
            return change
        whole = change + self.residual[index]
        count = max(1, int(self.keep * change.numel()))
        chosen = torch.zeros(change.numel())
        chosen[whole.reshape(-1).abs().topk(count).indices] = 1
        sent = whole * chosen.view(change.shape)
        self.residual[index] = whole - sent
        return sent

    def step(self):
        self.inner.step()
        self.steps += 1
        if self.steps % 4:
            return
        for index, (x, local) in enumerate(zip(self.outer, self.model.parameters())):
            mean = self._sent(index, (x - local).detach())
            dist.all_reduce(mean)
            x.grad = mean / dist.get_world_size()
        self.sgd.step()
        with torch.no_grad():
            for x, local in zip(self.outer, self.model.parameters()):
                local.copy_(x)


def case_it_is_diloco(rank, workers):
    """The same weights as the reference after five exchanges, dense and with Top-k."""
    for spec, keep in (("dense:" + OUTER, 1.0), (TOPK, 0.1)):
        torch.manual_seed(1)
        model, other = net(), net()
        other.load_state_dict(model.state_dict())
        mine, reference = terse.torch.LocalSteps(model, adam(model), spec, **OPTIONS), \
            Reference(other, keep)
        for step in range(20):
            train(model, mine, rank, [step])
            train(other, reference, rank, [step])
            assert torch.allclose(flat(model), flat(other), atol=1e-5), (spec, step)
            if step % 4 == 3:
                same_everywhere(flat(model), "weights after an exchange")
                assert torch.equal(flat(model), mine.weights)
        report = mine.report()
        assert report["steps"] == 5 and mine.steps_done == 20
        assert workers == 1 or keep == 1 or report["compression_ratio"] > 3
        mine.close()


def case_ranks_differ_between_exchanges(rank, workers):
    """And start from rank 0's weights; eval_weights are those of the last exchange."""
    torch.manual_seed(1 + rank)
    model = net()
    optimizer = terse.torch.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.1), TOPK,
                                       **OPTIONS)
    same_everywhere(flat(model), "initial weights")
    train(model, optimizer, rank, range(6))
    own = flat(model)
    told = [torch.empty_like(own) for _ in range(workers)]
    dist.all_gather(told, own)
    assert all(not torch.equal(told[0], each) for each in told[1:])
    with optimizer.eval_weights():
        same_everywhere(flat(model), "evaluation weights")
        assert torch.equal(flat(model), optimizer.weights)
    assert torch.equal(flat(model), own)
    optimizer.close()


def shared_folder(rank):
    folder = [tempfile.mkdtemp(prefix="terse-local-") if rank == 0 else None]
    dist.broadcast_object_list(folder)
    return folder[0]


def case_it_resumes_between_exchanges(rank, workers):
    """Model, inner, outer and residual, bit for bit, by state_dict and by files; the scheduler's
    rate goes with the inner optimizer."""
    folder = shared_folder(rank)

    def make(seed):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(net(), torch.nn.BatchNorm1d(10))
        return model, terse.torch.LocalSteps(model, adam(model), TOPK, **OPTIONS)
    model, optimizer = make(1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    for step in range(10):
        train(model, optimizer, rank, [step])
        scheduler.step()
    saved = copy.deepcopy(optimizer.state_dict())
    terse.torch.save_all(folder, optimizer, extra={"scheduler": scheduler.state_dict()["_last_lr"]})
    train(model, optimizer, rank, range(10, 17))
    wanted, buffers = flat(model), model[1].running_mean.clone()
    optimizer.close()
    for by_file in (False, True):
        model, again = make(2)
        if by_file:
            assert terse.torch.load_all(folder, again).step == 10
        else:
            again.load_state_dict(saved)
        assert abs(again.param_groups[0]["lr"] - 0.01 * 0.9 ** 10) < 1e-9
        assert again.param_groups is again.inner.param_groups
        train(model, again, rank, range(10, 17))
        assert torch.equal(flat(model), wanted) and again.steps_done == 17, by_file
        assert torch.equal(model[1].running_mean, buffers)
        again.close()
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)


def case_another_number_of_ranks_starts_from_the_means(rank, workers):
    model = net()
    optimizer = terse.torch.LocalSteps(model, adam(model), TOPK, **OPTIONS)
    train(model, optimizer, rank, range(6))
    saved = [None] * workers
    dist.all_gather_object(saved, optimizer.state_dict())
    mine = optimizer._regrouped(saved + saved)  # as if there had been twice as many
    optimizer.load_state_dict(mine)
    same_everywhere(flat(model), "weights")
    told = [torch.cat([each["model"][name].reshape(-1) for name in saved[0]["model"]])
            for each in saved]
    assert torch.allclose(flat(model), torch.stack(told).mean(0), atol=1e-6)
    assert optimizer.steps_done == 6
    train(model, optimizer, rank, range(6, 9))
    same_everywhere(optimizer.weights, "outer weights")
    optimizer.close()


def case_weights_that_are_not_finite_cost_one_round(rank, workers):
    model = net()
    optimizer = terse.torch.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.1), TOPK,
                                       **OPTIONS)
    train(model, optimizer, rank, range(4))
    before = optimizer.weights.clone()
    train(model, optimizer, rank, range(4, 7))
    if rank == workers - 1:
        with torch.no_grad():
            model[0].weight[0, 0] = float("inf")
    optimizer.zero_grad()
    optimizer.step()
    assert optimizer.last.exchange.skipped_by == workers - 1
    assert torch.equal(flat(model), before) and torch.equal(optimizer.weights, before)
    train(model, optimizer, rank, range(8, 12))
    assert not torch.equal(flat(model), before)
    same_everywhere(flat(model), "weights")
    optimizer.close()


def case_frozen_half_and_other_types(rank, workers):
    """Frozen parameters are not sent; bfloat16 parameters get the rounded outer weights."""
    model = net()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    model[4].to(torch.bfloat16)
    optimizer = terse.torch.LocalSteps(
        model, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1),
        "dense:every=1", **OPTIONS)
    before = flat(model[0])
    assert [name for name, _ in optimizer.tensors] == ["2.weight", "2.bias", "4.weight", "4.bias"]
    x, y = batch(rank, 0)
    loss = torch.nn.functional.cross_entropy(
        model[4](model[:4](x).to(torch.bfloat16)).float(), y)
    loss.backward()
    optimizer.step()
    same_everywhere(flat(model), "weights")
    assert torch.equal(before, flat(model[0])) and model[4].weight.dtype == torch.bfloat16
    assert torch.equal(flat(model)[before.numel():],
                       torch.cat([optimizer.weights[:-650],
                                  optimizer.weights[-650:].to(torch.bfloat16).float()]))
    model[0].bias.requires_grad_(True)
    raises(ValueError, optimizer.step, "frozen or unfrozen")
    optimizer.close()


def case_a_rank_that_leaves_ends_the_training(rank, workers):
    """The others learn of it at once. What may still be written to lives on when they close: dense
    sums arrive in the mean itself."""
    if workers == 1:
        raise Skip("1 rank sends nothing")
    torch.manual_seed(1)
    model = net()
    optimizer = terse.torch.LocalSteps(model, adam(model), "dense:every=2",
                                       **{**OPTIONS, "timeout": 60})
    with frees_everything():
        train(model, optimizer, rank, range(3))
        dist.barrier()
        if rank == 0:
            optimizer.close()
    if rank > 0:
        started = time.monotonic()
        raises(terse.GroupError, lambda: train(model, optimizer, rank, [3]), "rank")
        assert time.monotonic() - started < 20  # not after the timeout
        raises(RuntimeError, lambda: [optimizer.step() for _ in range(2)], "has left its group")
        optimizer._group._under_way[None] = ()  # whatever the failure has left
        optimizer.close()
        assert any(each is optimizer._mean for each in _method._kept[-1][2])
    dist.barrier()


def case_bad_input(rank, workers):
    model = net()
    make = terse.torch.LocalSteps
    raises(ValueError, lambda: make(model, adam(model), "topk:keep=0.1"), "every", "every=20")
    raises(ValueError, lambda: make(model, adam(model), "topk:keep=0.1,every=4,lr=0.1"), "lr")
    raises(ValueError, lambda: make(model, adam(model), "def:every=4"))
    raises(ValueError, lambda: make(model, adam(net()), TOPK), "not the model's")
    raises(ValueError, lambda: make(DistributedDataParallel(model), adam(model), TOPK), "plain")
    optimizer = make(model, adam(model), TOPK, **OPTIONS)
    raises(ValueError, lambda: optimizer.add_param_group({"params": [torch.zeros(1)]}), "create")
    raises(ValueError, lambda: optimizer.load_state_dict({"spec": "dense"}), "spec")
    optimizer.close()
