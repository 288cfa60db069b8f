"""What the hook works with in some versions of PyTorch, and what it refuses with a reason."""

import gc
import os
import shutil
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import terse.torch
from crew import Skip
from support import batch, flat, hooked, net, raises, same_everywhere, state_of, train
from terse._library import check, library
from terse._method import Method


def ddp_with(needed, model=None, **options):
    """A DDP model with options that PyTorch has since the version `needed`."""
    try:
        return DistributedDataParallel(net() if model is None else model, **options)
    except TypeError as why:
        assert "unexpected keyword" in str(why), why
        raise Skip("PyTorch %s; %s is new in %s" % (torch.__version__, next(iter(options)), needed))


def refused_in_backward(ddp, rank, *words):
    """Registered without State.attach, the first backward raises."""
    state = state_of("topk")
    ddp.register_comm_hook(state, terse.torch.hook)
    x, y = batch(rank, 0)
    loss = torch.nn.functional.cross_entropy(ddp(x), y)
    raises((ValueError, RuntimeError), loss.backward, *words)
    raises(ValueError, state.check, *words)
    state.close()


def case_bits_that_are_missing_are_counted(rank, workers):
    for kappa, capped in (("1", 0), ("1e12", 6)):
        ddp, state = hooked(net(), "dqsgd:bits=kappa,kappa=%s,min=0,combine=allgather" % kappa)
        train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, [0, 1])
        assert state.report()["capped"] == 2 * capped, state.report()["capped"]
        state.close()


def case_skipped_buckets(rank, workers):
    def make():
        return ddp_with("2.8", skip_all_reduce_unused_params=True, find_unused_parameters=True)

    state = state_of("topk")
    raises(ValueError, lambda: state.attach(make()), "skip_all_reduce_unused_params")
    state.close()
    refused_in_backward(make(), rank, "skip_all_reduce_unused_params")


def case_mixed_precision_of_ddp(rank, workers):
    try:
        from torch.nn.parallel.distributed import _MixedPrecision
    except ImportError:
        raise Skip("PyTorch %s; mixed_precision= is new in 2.1" % torch.__version__)
    state = state_of("topk")
    ddp = ddp_with("2.1", mixed_precision=_MixedPrecision(param_dtype=torch.bfloat16))
    raises(ValueError, lambda: state.attach(ddp), "mixed_precision", "autocast")
    raises(RuntimeError, lambda: ddp.register_comm_hook(state, terse.torch.hook))
    state.close()


def case_a_plain_model(rank, workers):
    state = state_of("topk")
    raises(ValueError, lambda: state.attach(net()), "Sequential", "DistributedDataParallel")
    state.close()


def case_a_second_hook(rank, workers):
    ddp = DistributedDataParallel(net())
    if not hasattr(ddp, "_comm_hooks"):
        raise Skip("PyTorch %s does not keep hooks" % torch.__version__)
    first, second = state_of("topk"), state_of("topk")
    assert first.attach(ddp) is first
    raises(ValueError, lambda: second.attach(ddp), "hook already", "only one")
    for state in (first, second):
        state.close()


def case_the_python_reducer(rank, workers):
    state = state_of("topk")
    parameter = torch.nn.Parameter(torch.zeros(4))
    raises(ValueError, lambda: terse.torch.hook(state, (torch.zeros(4), parameter)),
           "python_reducer", "optimize_ddp")
    config = getattr(getattr(torch, "_dynamo", None), "config", None)
    if not hasattr(DistributedDataParallel, "_register_accum_grad_hook"):
        state.close()
        raise Skip("PyTorch %s; python_reducer is new in 2.3" % torch.__version__)
    before, config.optimize_ddp = config.optimize_ddp, "python_reducer"
    try:
        raises(ValueError, lambda: state.attach(DistributedDataParallel(net())), "python_reducer")
    finally:
        config.optimize_ddp = before
    state.close()


class Bucket:
    """A bucket of DDP with a given buffer and parameters."""

    def __init__(self, buffer, *parameters):
        self.buffer, self.parameters = (lambda: buffer), (lambda: list(parameters))
        self.index, self.is_last = (lambda: 0), (lambda: True)


def case_complex_parameters(rank, workers):
    class Complex(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))

        def forward(self, x):
            return torch.view_as_real(self.w * x).sum()

    parameter = Complex().w
    for buffer, words in ((parameter.detach(), ("complex64", "view_as_real")),
                          (torch.ones(6), ("6 elements, its parameters 3", "complex"))):
        state = state_of("topk")  # a State that has refused a bucket stays failed
        raises(ValueError, lambda: terse.torch.hook(state, Bucket(buffer, parameter)), *words)
        state.close()
    try:
        ddp = DistributedDataParallel(Complex())
    except RuntimeError as why:
        raise Skip("PyTorch %s; DDP takes no complex parameters over gloo: %s"
                   % (torch.__version__, str(why).split("\n", maxsplit=1)[0]))
    state = state_of("topk")
    raises(ValueError, lambda: state.attach(ddp), "complex64")
    state.close()


def case_ranks_in_another_order(rank, workers):
    order = list(reversed(range(workers)))
    try:
        group = dist.new_group(order, sort_ranks=False)
    except TypeError:
        raise Skip("PyTorch %s; sort_ranks= is new in 2.12" % torch.__version__)
    ddp, state = hooked(net(), "topk:keep=0.05", {"process_group": group}, process_group=group)
    assert state.rank == dist.get_rank(group) == order.index(rank) and state.workers == workers
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(4))
    same_everywhere(flat(ddp), "weights")
    state.close()
    torch.manual_seed(rank)
    model = net()
    wanted = flat(model)
    dist.broadcast(wanted, order[0])
    optimizer = terse.torch.optim.Signum(model.parameters(), process_group=group, timeout=20)
    assert optimizer.rank == order.index(rank) and torch.equal(flat(model), wanted)
    train(model, optimizer, rank, range(3))
    same_everywhere(flat(model), "weights")
    optimizer.close()


def case_a_group_is_no_barrier(rank, workers):
    """Ranks reach the State, its first step and its end at different times."""
    for late in range(workers):
        time.sleep(0.3 * (rank == late))
        ddp, state = hooked(net(), "topk:keep=0.05")
        time.sleep(0.3 * (rank != late))
        train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(3))
        time.sleep(0.3 * (rank == late))
        same_everywhere(flat(ddp), "weights")
        state.close()


def case_attach_takes_the_names_of_the_model(rank, workers):
    for spec in ("topk:keep=0.05", "topk:keep=0.05,plain=*.bias"):
        ddp = DistributedDataParallel(net())
        state = state_of(spec).attach(ddp)
        train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(2))
        names = sorted(row["name"] for row in state.report()["parameters"])
        assert names == sorted(name for name, _ in ddp.module.named_parameters()), names
        state.close()


def compiled(rank, spec, how):
    torch.manual_seed(1)
    ddp = DistributedDataParallel(net(600), bucket_cap_mb=1)  # PyTorch compiles none below 1 MB
    state = state_of(spec).attach(ddp)
    model = how(ddp)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    train(model, optimizer, rank, range(6))
    same_everywhere(flat(ddp), spec)
    assert state.steps_done == 6 and state._buckets.count > 1
    state.close()
    return flat(ddp)


def case_a_compiled_model(rank, workers):
    """torch.compile(ddp): the hook runs as usual, and the weights are those without it."""
    if not hasattr(torch, "compile"):
        raise Skip("PyTorch %s; torch.compile is new in 2.0" % torch.__version__)
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        raise Skip("torch.compile needs a C++ compiler (Debian: g++)")
    torch._dynamo.reset()
    torch._inductor.config.compile_threads = 1  # no pool of processes in a forked rank
    for spec in ("dense", "regtopk:keep=0.05"):
        plain = compiled(rank, spec, lambda ddp: ddp)
        fast = compiled(rank, spec, torch.compile)
        assert torch.allclose(plain, fast, atol=1e-4), (spec, float((plain - fast).abs().max()))
    torch._dynamo.reset()


def case_a_state_takes_its_threads_with_it(rank, workers):
    """A process that makes one State after the other keeps neither threads nor connections."""
    def held():
        gc.collect()
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    before = held()
    for index in range(12):
        ddp, state = hooked(net(), "topk")
        train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, [index])
        dist.barrier()
        if index % 2:
            state.close()
        del ddp, state
    after = held()
    # a thread of autograd may be new; those of a State are three, with 2 K or more connections
    assert after[0] <= before[0] + 3 and after[1] <= before[1] + 2 * workers, (before, after)


def case_the_threads_of_a_state_do_not_preempt(rank, workers):
    """gloo's threads of a State are batch threads; those of the user's groups stay as they are."""
    def policies():
        return {thread: os.sched_getscheduler(int(thread))
                for thread in os.listdir("/proc/self/task")}

    before = policies()
    state = terse.torch.State("topk:keep=0.1")
    after = policies()
    made = [policy for thread, policy in after.items() if thread not in before]
    assert made and set(made) == {os.SCHED_BATCH}, made
    assert all(after[thread] == policy for thread, policy in before.items() if thread in after)
    state.close()


def case_a_slow_transfer_is_no_timeout(rank, workers):
    """Messages go in pieces, and the timeout counts from the last piece. Of two ranks, rank 1 takes
    longer to send them than the timeout."""
    from terse.torch import group as module
    from terse.torch.group import Group, members, own_group
    piece, isend, sent = module._PIECE, dist.isend, []

    def slowly(*words, **how):
        if workers == 2 and rank == 1:
            time.sleep(0.2)
        sent.append(time.monotonic())
        return isend(*words, **how)

    try:
        module._PIECE = 1000
        group, weights = Group(own_group(None, 20), members(None), 20), torch.zeros(3000)
        method = Method("dense:momentum=0,lr=1", group, [("w", (50, 60))], weights.data_ptr())
        gradient = torch.full((3000,), float(rank + 1))
        method.step(gradient.data_ptr())
        assert torch.equal(weights, torch.full((3000,), -(workers + 1) / 2)), weights
        check(library().group_set_timeout(group.handle, 0.7))
        dist.isend = slowly
        method.step(gradient.data_ptr())
        assert torch.equal(weights, torch.full((3000,), -(workers + 1.0))), weights
        assert sent[6] - sent[0] > 0.7 or workers != 2 or rank == 0, sent  # 6000 bytes: 6 pieces
        method.close()
        group.close()
    finally:
        module._PIECE, dist.isend = piece, isend
