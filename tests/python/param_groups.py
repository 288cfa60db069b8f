"""Several parameter groups in terse.torch.optim."""

import copy
import shutil
import tempfile

import torch
import torch.distributed as dist

import terse
import terse.torch
from support import Local, batch, flat, net, raises, same_everywhere, train
from terse.torch import optim

SHAPES = [(40, 50), (50,), (3000,), (7,)]
OPTIONS = {"seed": 3, "timeout": 20}


def parameters():
    source = torch.Generator().manual_seed(5)
    return [torch.nn.Parameter(torch.randn(shape, generator=source)) for shape in SHAPES]


def fill(params, rank, step):
    source = torch.Generator().manual_seed(31 * step + rank)
    for parameter in params:
        parameter.grad = torch.randn(parameter.shape, generator=source)


def joined(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def case_every_group_steps_as_if_alone(rank, workers):
    """Own rate, decay and spec per group, and a scheduler: bit for bit the methods of the library,
    one per group, seeded one after the other."""
    made = (
        lambda p: optim.Signum([{"params": p[:2], "lr": 0.02, "weight_decay": 0.1},
                                {"params": p[2:]}], 0.01, **OPTIONS),
        lambda p: optim.DEF([{"params": p[:2], "ratio": 8}, {"params": p[2:], "lr": 0.01}], 0.05,
                            ratio=16, **OPTIONS),
        lambda p: optim.QAdam([{"params": p[:2]}, {"params": p[2:], "betas": (0.8, 0.99)}], 0.01,
                              **OPTIONS),
        lambda p: optim.Spec([{"params": p[:2], "weight_decay": 0.1},
                              {"params": p[2:], "spec": "dense", "lr": 0.02}], "topk:keep=0.05",
                             lr=0.1, **OPTIONS))
    for make in made:
        params = parameters()
        starts = (joined(params[:2]), joined(params[2:]))
        mine = make(params)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(mine, 0.9)
        assert len(mine.param_groups) == 2
        halves, locals_ = (params[:2], params[2:]), []
        for index, half in enumerate(halves):
            tensors = [("p%d" % (2 * index + at), tuple(p.shape)) for at, p in enumerate(half)]
            spec = mine.spec.split("; ")[index]
            locals_.append(Local(spec, workers, tensors, starts[index], seed=3 + index))
        for step in range(5):
            fill(params, rank, step)
            for half, local, group in zip(halves, locals_, mine.param_groups):
                gradients = []
                for each in range(workers):
                    copies = [p.detach().clone() for p in params]
                    fill(copies, each, step)
                    held = copies[:2] if half is halves[0] else copies[2:]
                    gradients.append(joined(p.grad for p in held))
                for worker in range(workers):
                    local.method(worker).set_lr(group["lr"])
                local.step(gradients)
            mine.step()
            scheduler.step()
            wanted = torch.cat([local.weights[rank] for local in locals_])
            assert torch.equal(mine.weights, wanted), (mine.spec, step)
            at = torch.cat([local.point(rank) for local in locals_])
            assert torch.equal(joined(params), at), (mine.spec, step)
        with mine.eval_weights():
            assert torch.equal(joined(params), torch.cat([l.eval_weights() for l in locals_]))
        report = mine.report()
        assert report["steps"] == 5 and len(report["parameters"]) == 4
        mine.close()


def case_frozen_parameters_are_left_alone(rank, workers):
    torch.manual_seed(1 + rank)
    model = net()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    optimizer = optim.Signum([{"params": model[0].parameters()}, {"params": model[2].parameters()},
                              {"params": model[4].parameters()}], 0.002, timeout=20)
    before = flat(model[0])
    same_everywhere(before, "frozen weights")
    losses = torch.tensor([train(model, optimizer, rank, [0]),
                           train(model, optimizer, rank, [0] * 30)])
    dist.all_reduce(losses)  # of all ranks: one batch alone need not gain
    assert losses[1] < 0.9 * losses[0] and torch.equal(before, flat(model[0]))
    assert len(optimizer.report()["parameters"]) == 4
    same_everywhere(optimizer.weights, "weights")
    model[2].bias.requires_grad_(False)
    raises(ValueError, optimizer.step, "frozen or unfrozen")
    model[2].bias.requires_grad_(True)
    optimizer.step()
    optimizer.close()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    raises(ValueError, lambda: optim.Signum(model.parameters()), "frozen")


def case_groups_can_be_added(rank, workers):
    """Also after a mistake, which leaves the optimizer as it was."""
    params = parameters()
    optimizer = optim.Spec(params[:2], "dense:momentum=0", lr=0.1, **OPTIONS)
    fill(params, rank, 0)
    optimizer.step()
    raises(ValueError, lambda: optimizer.add_param_group({"params": params[:1]}))
    raises(ValueError, lambda: optimizer.add_param_group({"params": params[2:], "spec": "sigum"}),
           "signum")
    if workers > 1:
        raises(terse.MismatchError, lambda: optimizer.add_param_group(
            {"params": params[2:], "weight_decay": 0.1 * rank}), "different spec")
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": params[2:], "lr": 0.2})
    before = optimizer.weights.clone()
    fill(params, 0, 1)  # the same on every rank: the mean is the gradient
    optimizer.step()
    rates = torch.cat([torch.full((2050,), 0.1), torch.full((3007,), 0.2)])
    assert torch.allclose(optimizer.weights, before - rates * joined(p.grad for p in params),
                          atol=1e-6)
    optimizer.close()


def case_a_gradient_that_is_not_finite_skips_all_groups(rank, workers):
    params = parameters()
    optimizer = optim.Signum([{"params": params[:2]}, {"params": params[2:]}], 0.01, **OPTIONS)
    fill(params, rank, 0)
    before = optimizer.weights.clone()
    if rank == workers - 1:
        params[3].grad[2] = float("inf")
    optimizer.step()
    assert optimizer.last.exchange.skipped and optimizer.last.exchange.skipped_by == workers - 1
    assert torch.equal(before, optimizer.weights)
    assert optimizer.report()["skipped"] == 1 and optimizer.steps_done == 0
    fill(params, rank, 1)
    optimizer.step()
    assert not torch.equal(before[:2050], optimizer.weights[:2050])
    assert not torch.equal(before[2050:], optimizer.weights[2050:])
    optimizer.close()


def case_state_is_by_parameter(rank, workers):
    params = parameters()
    optimizer = optim.Signum([{"params": params[:2], "momentum": 0.5}, {"params": params[2:]}],
                             0.01, **OPTIONS)
    assert set(optimizer.state) == set(params)
    fill(params, rank, 0)
    optimizer.step()
    for index, parameter in enumerate(params):
        held = optimizer.state[parameter]["momentum"]
        share = 0.5 if index < 2 else 0.1  # of the first gradient in a momentum
        assert held.shape == parameter.shape
        assert torch.allclose(held, share * parameter.grad, atol=1e-6), index
    optimizer.state[params[0]]["momentum"].zero_()  # a view
    assert float(optimizer.state[params[0]]["momentum"].abs().max()) == 0
    optimizer.close()


def case_closures_and_zero_grad(rank, workers):
    torch.manual_seed(1)
    model = net()
    optimizer = optim.DEF(model.named_parameters(), 0.05, ratio=4, timeout=20)
    x, y = batch(rank, 0)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss
    losses = [optimizer.step(closure).item() for _ in range(20)]
    assert losses[-1] < 0.9 * losses[0], losses
    optimizer.zero_grad(set_to_none=False)
    assert all(float(p.grad.abs().max()) == 0 for p in model.parameters())
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    optimizer.close()


def case_only_the_rate_can_change(rank, workers):
    params = parameters()
    optimizer = optim.Signum(params, 0.01, **OPTIONS)
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=10)
    fill(params, rank, 0)
    raises(ValueError, optimizer.step, "momentum", "cycle_momentum=False")
    optimizer.close()
    raises(ValueError, lambda: optim.Spec(parameters(), "adam:wd=0.1,kg=3", lr=0.1))
    optimizer = optim.Signum(params, 0.01, **OPTIONS)
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=10, cycle_momentum=False)
    fill(params, rank, 0)
    optimizer.step()
    assert abs(optimizer.last.lr - 0.02 / 25) < 1e-9
    optimizer.close()


def case_groups_resume_bit_for_bit(rank, workers):
    """By state_dict, and by files."""
    folder = [tempfile.mkdtemp(prefix="terse-groups-") if rank == 0 else None]
    dist.broadcast_object_list(folder)

    def make(model):
        return optim.DEF([{"params": model[0].parameters()},
                          {"params": model[2].parameters(), "lr": 0.02},
                          {"params": model[4].parameters(), "ratio": 4}], 0.05, ratio=16,
                         timeout=20)
    model = net()
    optimizer = make(model)
    train(model, optimizer, rank, range(4))
    optimizer.param_groups[0]["lr"] = 0.03
    saved = copy.deepcopy(optimizer.state_dict())
    terse.torch.save_all(folder[0], optimizer)
    train(model, optimizer, rank, range(4, 7))
    wanted = optimizer.weights.clone()
    optimizer.close()
    for by_file in (False, True):
        model = net()
        again = make(model)
        if by_file:
            assert terse.torch.load_all(folder[0], again).step == 4
            again.param_groups[0]["lr"] = 0.03
        else:
            again.load_state_dict(saved)
            assert again.param_groups[0]["lr"] == 0.03
        train(model, again, rank, range(4, 7))
        assert torch.equal(again.weights, wanted), by_file
        assert again.steps_done == 7
        again.close()
    model = net()
    other = optim.DEF(model.parameters(), 0.05, ratio=16, timeout=20)
    raises(ValueError, lambda: other.load_state_dict(saved), "specs")
    other.close()
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder[0])
