"""Saving and resuming: bit for bit, and with another number of workers."""

import copy
import os
import shutil
import tempfile

import torch
import torch.distributed as dist

import terse.torch
from support import METHODS, Local, flat, hooked, net, raises, same_everywhere, state_of, train
from terse._method import describe
from terse.torch import _state, optim


def shared_folder(rank):
    folder = [tempfile.mkdtemp(prefix="terse-resume-") if rank == 0 else None]
    dist.broadcast_object_list(folder)
    return folder[0]


def remove(folder, rank):
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)


def case_hooks_resume_bit_for_bit(rank, workers):
    for spec in METHODS:
        torch.manual_seed(1)
        ddp, state = hooked(net(), spec)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
        train(ddp, optimizer, rank, range(5))
        saved = copy.deepcopy((state.state_dict(), ddp.module.state_dict(),
                               optimizer.state_dict()))
        train(ddp, optimizer, rank, range(5, 9))
        wanted = flat(ddp)
        state.close()
        again, other = hooked(net(), spec)
        optimizer = torch.optim.SGD(again.parameters(), lr=0.05, momentum=0.9)
        other.load_state_dict(saved[0])
        again.module.load_state_dict(saved[1])
        optimizer.load_state_dict(saved[2])
        train(again, optimizer, rank, range(5, 9))
        assert torch.equal(flat(again), wanted), spec
        assert other.steps_done == 9
        other.close()


MADE = (lambda p: optim.Signum(p, 0.01), lambda p: optim.DEF(p, 0.05, ratio=16),
        lambda p: optim.DEFA(p, 0.05, ratio=16),
        lambda p: optim.QAdam(p, 0.01), lambda p: optim.Spec(p, "dqsgd", lr=0.1, steps=50))


def case_optimizers_resume_bit_for_bit(rank, workers):
    for make in MADE:
        model = net()
        optimizer = make(model.parameters())
        train(model, optimizer, rank, range(4))
        saved = copy.deepcopy(optimizer.state_dict())
        train(model, optimizer, rank, range(4, 7))
        wanted = optimizer.weights.clone()
        optimizer.close()
        model = net()
        again = make(model.parameters())
        again.load_state_dict(saved)
        train(model, again, rank, range(4, 7))
        assert torch.equal(again.weights, wanted), again.spec
        again.close()


def case_files_of_all_ranks(rank, workers):
    folder = shared_folder(rank)
    torch.manual_seed(1)
    ddp, state = hooked(net(), "regtopk:keep=0.05")
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    train(ddp, optimizer, rank, range(5))
    terse.torch.save_all(folder, state)
    assert len(os.listdir(folder)) == workers
    weights = copy.deepcopy(ddp.module.state_dict())
    train(ddp, optimizer, rank, range(5, 8))
    wanted = flat(ddp)
    again, other = hooked(net(), "regtopk:keep=0.05")
    again.module.load_state_dict(weights)
    terse.torch.load_all(folder, other)
    train(again, torch.optim.SGD(again.parameters(), lr=0.05), rank, range(5, 8))
    assert torch.equal(flat(again), wanted)
    for each in (state, other):
        each.close()
    remove(folder, rank)


def mean_of_residuals(parts, group):
    total = parts["residual"]["data"].double()
    dist.all_reduce(total, group=group)
    return total / dist.get_world_size(group)


def case_other_numbers_of_workers_keep_the_mean_residual(rank, workers):
    if workers == 1:
        return
    folder = shared_folder(rank)
    ddp, state = hooked(net(), "topk:keep=0.05")
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.05), rank, range(5))
    saved = state.state_dict()
    before = mean_of_residuals(saved["parts"], None)
    assert float(before.abs().max()) > 0
    terse.torch.save_all(folder, state)
    state.close()
    fewer = list(range(workers - 1))
    group = dist.new_group(fewer)
    if rank < workers - 1:
        model = net()
        ddp, state = hooked(model, "topk:keep=0.05", {"process_group": group},
                            process_group=group)
        terse.torch.load_all(folder, state)
        loaded = state.state_dict()
        assert loaded["workers"] == workers - 1 and loaded["tensors"] == saved["tensors"]
        after = mean_of_residuals(loaded["parts"], group)
        assert torch.allclose(before, after, rtol=1e-6, atol=1e-9)
        train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.05), rank, range(5, 8))
        assert state.steps_done == 8
        before = mean_of_residuals(state.state_dict()["parts"], group)
        terse.torch.save_all(folder, state)
        assert len(os.listdir(folder)) == workers - 1
        state.close()
    else:
        dist.new_group(fewer)  # takes part when the others' State creates its own group
    dist.broadcast(before, 0)
    more = state_of("topk:keep=0.05", min=64)
    terse.torch.load_all(folder, more)
    after = mean_of_residuals(more.state_dict()["parts"], None)
    assert torch.allclose(before, after, rtol=1e-6, atol=1e-9)
    more.close()
    remove(folder, rank)


TENSORS = [("a", (70, 90)), ("b", (33,)), ("c", (5000,)), ("d", (1,))]
COUNT = 70 * 90 + 33 + 5000 + 1
FEEDBACK = ("ef:ratio=8", "saef:ratio=8", "def:ratio=8", "def-a:ratio=8", "topk:keep=0.05",
            "regtopk:keep=0.05", "ef-sign", "qadam", "powersgd", "def:ratio=8,every=3")


def regrouped(old, before, spec, after, combine):
    """`after` workers with the state of those of `old`, as load_all gives it to them."""
    fresh = Local(spec, after, TENSORS, torch.zeros(COUNT), seed=3, steps=60)
    saved = [_state.read_parts(old.method(r)) for r in range(before)]
    for r in range(after):
        mask = _state.owned(TENSORS, r, after, combine == "parameter-server")
        fresh.weights[r].copy_(old.weights[0])
        _state.write_parts(fresh.method(r), _state.regroup(saved, mask))
    return fresh


def mean_of(local, workers, name):
    parts = [_state.read_parts(local.method(r)).get(name) for r in range(workers)]
    return torch.stack([part["data"].double() for part in parts]).mean(0)


def case_what_is_outstanding_stays(rank, workers):
    """2 to 1, 2 to 16 and 8 to 3 workers, all of them in this process: means, what owners have, the
    evaluation weights, and for the codecs that add up the weights after zero gradients."""
    if rank > 0:
        return
    for spec in FEEDBACK:
        for before, after in ((2, 1), (2, 16), (8, 3)):
            combine = describe(spec).combine
            old = Local(spec, before, TENSORS, torch.zeros(COUNT), seed=3, steps=60)
            source = torch.Generator().manual_seed(5)
            for _ in range(4):
                old.step([torch.randn(COUNT, generator=source) for _ in range(before)])
            new = regrouped(old, before, spec, after, combine)
            parts = _state.read_parts(old.method(0))
            for name, part in parts.items():
                if part["kind"] in ("residual", "own"):
                    assert torch.allclose(mean_of(old, before, name), mean_of(new, after, name),
                                          rtol=1e-6, atol=1e-9), (spec, before, after, name)
                if part["kind"] == "slices":
                    held = [[_state.read_parts(local.method(r))[name]["data"] for r in range(count)]
                            for local, count in ((old, before), (new, after))]
                    assert torch.equal(*[_state._join(each).view(torch.int32) for each in held])
            assert torch.allclose(old.eval_weights(), new.eval_weights(), rtol=1e-5, atol=1e-7)
            if combine == "allreduce":
                for local, count in ((old, before), (new, after)):
                    local.step([torch.zeros(COUNT)] * count)
                assert torch.allclose(old.weights[0], new.weights[0], rtol=1e-5, atol=1e-6), (
                    spec, before, after)


def case_hints_of_a_used_method_are_dropped(rank, workers):
    """RegTop-k's list of what it sent is that of other workers: it starts anew."""
    if rank > 0:
        return
    spec = "regtopk:keep=0.05"
    old = Local(spec, 2, TENSORS, torch.zeros(COUNT), seed=3, steps=60)
    used = Local(spec, 3, TENSORS, torch.zeros(COUNT), seed=3, steps=60)
    for local, count in ((old, 2), (used, 3)):
        local.step([torch.randn(COUNT) for _ in range(count)])
    saved = [_state.read_parts(old.method(r)) for r in range(2)]
    assert int(_state.read_parts(used.method(0))["sent count"]["data"].view(torch.int64)) > 0
    _state.write_parts(used.method(0), _state.regroup(saved, torch.ones(COUNT)))
    assert int(_state.read_parts(used.method(0))["sent count"]["data"].view(torch.int64)) == 0


def case_owners_of_qadam_with_other_workers(rank, workers):
    if workers == 1:
        return
    folder = shared_folder(rank)
    model = net()
    optimizer = optim.QAdam(model.parameters(), 0.01)
    train(model, optimizer, rank, range(3))
    terse.torch.save_all(folder, optimizer)
    whole = optimizer.state_dict()["terse_state"]["parts"]["owner weights"]["data"]
    dist.all_reduce(whole)
    optimizer.close()
    fewer = list(range(workers - 1))
    group = dist.new_group(fewer)
    if rank < workers - 1:
        model = net()
        again = optim.QAdam(model.parameters(), 0.01, process_group=group)
        terse.torch.load_all(folder, again)
        held = again.state_dict()["terse_state"]["parts"]["owner weights"]["data"]
        dist.all_reduce(held, group=group)
        assert torch.equal(held, whole)
        train(model, again, rank, range(3, 5))
        again.close()
    else:
        dist.new_group(fewer)
    remove(folder, rank)


def case_other_settings_are_refused(rank, workers):
    ddp, state = hooked(net(), "topk:keep=0.05")
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.05), rank, range(2))
    saved = state.state_dict()
    other = state_of("topk:keep=0.1")
    raises(ValueError, lambda: other.load_state_dict(saved), "spec")
    raises(ValueError, lambda: state.load_state_dict(dict(saved, workers=99)), "workers")
    folder = shared_folder(rank)
    raises(ValueError, lambda: terse.torch.load_all(folder, other), "every rank")
    remove(folder, rank)
    same_everywhere(flat(ddp), "weights")
    for each in (state, other):
        each.close()
