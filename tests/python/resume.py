"""What is saved is what goes on: bit for bit, and with another number of workers."""

import copy
import os
import shutil
import tempfile

import torch
import torch.distributed as dist

import terse.torch
from support import METHODS, flat, hooked, net, raises, same_everywhere, state_of, train
from terse.torch import optim


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


def sum_of_memory(parts, group):
    total = parts["residual"]["data"].double()
    dist.all_reduce(total, group=group)
    return total


def case_fewer_workers_keep_the_sum_of_memories(rank, workers):
    if workers == 1:
        return
    folder = shared_folder(rank)
    ddp, state = hooked(net(), "topk:keep=0.05")
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.05), rank, range(5))
    saved = state.state_dict()
    before = sum_of_memory(saved["parts"], None)
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
        after = sum_of_memory(loaded["parts"], group)
        assert torch.allclose(before, after, atol=1e-6)
        train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.05), rank, range(5, 8))
        assert state.steps_done == 8
        terse.torch.save_all(folder, state)
        assert len(os.listdir(folder)) == workers - 1
        state.close()
    else:
        dist.new_group(fewer)  # the group that every State makes for itself, for its members
    dist.barrier()
    more = state_of("topk:keep=0.05", min=64)
    terse.torch.load_all(folder, more)
    sum_of_memory(more.state_dict()["parts"], None)
    more.close()
    remove(folder, rank)


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
