"""Saving and resuming: bit for bit, and with another number of workers."""

import copy
import os
import pickle
import resource
import shutil
import tempfile
import warnings

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
    dist.barrier()
    assert len(os.listdir(folder)) == workers + 1
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


def first_file(folder, step):
    return next(os.path.join(folder, name) for name in sorted(os.listdir(folder))
                if name.startswith("terse-%d-%d-" % (step, 0)))


def flip(path, rank):
    """Damages one bit in the middle of a file."""
    dist.barrier()
    if rank == 0:
        with open(path, "r+b") as file:
            middle = os.path.getsize(path) // 2
            file.seek(middle)
            byte = file.read(1)[0]
            file.seek(middle)
            file.write(bytes([byte ^ 1]))
    dist.barrier()


def case_the_newest_whole_set_is_loaded(rank, workers):
    folder = shared_folder(rank)
    assert terse.torch.latest_step(folder) is None
    assert terse.torch.latest_step(folder + "/absent") is None
    model = net()
    optimizer = optim.DEF(model.parameters(), 0.05, ratio=16)
    assert terse.torch.load_all(folder, optimizer, missing_ok=True) is None
    for step in range(3):
        train(model, optimizer, rank, range(step, step + 1))
        terse.torch.save_all(folder, optimizer, {"epoch": step} if rank == 0 else None)
    assert sorted(n for n in os.listdir(folder) if n.endswith("json")) == [
        "terse-2.json", "terse-3.json"]
    assert len(os.listdir(folder)) == 2 * (workers + 2)
    loaded = terse.torch.load_all(folder, optimizer)
    assert loaded == (3, {"epoch": 2}), loaded
    assert terse.torch.load_all(folder, optimizer, step=2).extra == {"epoch": 1}
    raises(ValueError, lambda: terse.torch.load_all(folder, optimizer, step=1), "of step 1")
    flip(first_file(folder, 3), rank)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert terse.torch.load_all(folder, optimizer).step == 2
    assert (rank != 0) == (not caught), caught
    assert rank or "step 3: terse-3-0-of-" in str(caught[0].message), caught
    train(model, optimizer, rank, range(2, 3))
    terse.torch.save_all(folder, optimizer)  # step 3 again: replaces the damaged set
    assert terse.torch.load_all(folder, optimizer).step == 3
    optimizer.close()
    remove(folder, rank)


def case_damaged_sets_of_larger_steps_do_not_count(rank, workers):
    folder = shared_folder(rank)
    model = net()
    optimizer = optim.Signum(model.parameters(), 0.01)
    for step in (80, 90, 2, 3, 4):
        terse.torch.save_all(folder, optimizer, step=step)
        if step > 10:
            flip(first_file(folder, step), rank)
    assert terse.torch.latest_step(folder) == 90  # by its length
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert terse.torch.load_all(folder, optimizer).step == 4
    assert terse.torch.load_all(folder, optimizer, step=3).step == 3
    optimizer.close()
    remove(folder, rank)


def case_a_rank_that_cannot_write_changes_nothing(rank, workers):
    folder = shared_folder(rank)
    model = net()
    optimizer = optim.Signum(model.parameters(), 0.01)
    train(model, optimizer, rank, range(1))
    terse.torch.save_all(folder, optimizer)
    dist.barrier()
    before = sorted(os.listdir(folder))
    train(model, optimizer, rank, range(1, 2))
    bad = "/dev/null/x" if rank == workers - 1 else folder
    raises(OSError, lambda: terse.torch.save_all(bad, optimizer), "rank %d: " % (workers - 1))
    dist.barrier()
    assert sorted(os.listdir(folder)) == before
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    if rank == workers - 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, old[1]))
    raises(OSError, lambda: terse.torch.save_all(folder, optimizer), "rank %d: " % (workers - 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, old)
    dist.barrier()
    assert sorted(os.listdir(folder)) == before
    raises(ValueError, lambda: terse.torch.save_all(folder, optimizer, step=5 + (rank > 0)),
           "rank 1 is at step 6, rank 0 at step 5")
    assert sorted(os.listdir(folder)) == before
    assert terse.torch.load_all(folder, optimizer).step == 1
    optimizer.close()
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
        terse.torch.save_all(folder, state, keep=1)
        assert len(os.listdir(folder)) == workers - 1 + 1
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
    whole = optimizer.state_dict()["terse_state"]["groups"][0]["parts"]["owner weights"]["data"]
    dist.all_reduce(whole)
    optimizer.close()
    fewer = list(range(workers - 1))
    group = dist.new_group(fewer)
    if rank < workers - 1:
        model = net()
        again = optim.QAdam(model.parameters(), 0.01, process_group=group)
        terse.torch.load_all(folder, again)
        held = again.state_dict()["terse_state"]["groups"][0]["parts"]["owner weights"]["data"]
        dist.all_reduce(held, group=group)
        assert torch.equal(held, whole)
        train(model, again, rank, range(3, 5))
        again.close()
    else:
        dist.new_group(fewer)
    remove(folder, rank)


def case_a_spec_is_the_same_in_other_digits(rank, workers):
    """Earlier libraries wrote 300 as 3e+02."""
    ddp, state = hooked(net(), "topk:keep=0.05,min=300")
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.05), rank, range(2))
    saved = state.state_dict()
    assert ",min=300" in saved["spec"], saved["spec"]
    older = saved["spec"].replace("min=300", "min=3e+02")
    state.load_state_dict(dict(saved, spec=older))
    other = older.replace("3e+02", "3e+03")
    raises(ValueError, lambda: state.load_state_dict(dict(saved, spec=other)), "spec")
    optimizer = optim.Spec(net().parameters(), "topk:keep=0.05,min=300", lr=0.05)
    whole = optimizer.state_dict()
    group = whole["terse_state"]["groups"][0]
    group["spec"] = group["spec"].replace("min=300", "min=3e+02")
    assert "3e+02" in group["spec"], group["spec"]
    optimizer.load_state_dict(whole)
    for each in (state, optimizer):
        each.close()


def case_other_settings_are_refused(rank, workers):
    ddp, state = hooked(net(), "topk:keep=0.05")
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.05), rank, range(2))
    saved = state.state_dict()
    other = state_of("topk:keep=0.1")
    raises(ValueError, lambda: other.load_state_dict(saved), "spec")
    raises(ValueError, lambda: state.load_state_dict(dict(saved, workers=99)), "workers")
    folder = shared_folder(rank)
    raises(ValueError, lambda: terse.torch.load_all(folder, other), "no set was saved")
    remove(folder, rank)
    same_everywhere(flat(ddp), "weights")
    for each in (state, other):
        each.close()


class Code:
    """Would run a function when it is read."""

    def __reduce__(self):
        return os.mkdir, ("/nonexistent/terse",)


def case_files_hold_plain_values(rank, workers):
    """Numbers, texts, lists and tensors come back; a file with code in it is not read."""
    folder = shared_folder(rank)
    ddp, state = hooked(net(), "dense")
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.05), rank, range(2))
    extra = {"rate": 0.1, "names": ["a", "b"], "betas": (0.9, 0.99), "on": True, "none": None,
             "step": 7, "weights": torch.arange(3.0)}
    terse.torch.save_all(folder, state, extra=extra)
    found = terse.torch.load_all(folder, state).extra
    assert torch.equal(found.pop("weights"), extra.pop("weights")) and found == extra
    terse.torch.save_all(folder, state, extra=Code())
    raises(pickle.UnpicklingError, lambda: terse.torch.load_all(folder, state), "mkdir")
    state.close()
    remove(folder, rank)
