"""Nodes: two nodes of two ranks are two workers with the mean gradients of the nodes, bit for bit."""

import contextlib
import os
import shutil
import tempfile
import time

import torch
import torch.distributed as dist

import terse.torch
from support import (METHODS, Local, batch, flat, frees_everything, hooked, net, raises,
                     same_everywhere, state_of, train)
from terse.torch import nodes, optim

STEPS = 6  # DDP rebuilds its buckets after the first, the hook follows in the third


class Given(torch.nn.Module):
    """A model whose gradients are given: that of the sum of p * g is g, bit for bit."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.layers = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.zeros(*shape, dtype=dtype))
             for shape in ((40, 50), (30,), (60, 20), (9, 9, 3))])

    def forward(self, gradients):
        return sum((p * g).sum() for p, g in zip(self.layers, gradients))


def gradients_of(rank, step, dtype=torch.float32):
    source = torch.Generator().manual_seed(100 * step + rank)
    return [torch.randn(p.shape, generator=source).to(dtype) for p in Given().layers]


def mean_of(ranks, step, dtype=torch.float32):
    """The mean gradient of a node: a sum in rank order, and one division."""
    held = [gradients_of(rank, step, dtype) for rank in ranks]
    return [sum(each[1:], each[0]) / len(ranks) for each in zip(*held)]


def aggregates(ddp, gradients):
    """What the hook returns in a step with these gradients."""
    ddp.zero_grad()
    ddp(gradients).backward()
    return torch.cat([p.grad.detach().reshape(-1).clone() for p in ddp.parameters()])


@contextlib.contextmanager
def hosts(names, rank):
    """Ranks on hosts of these names."""
    before, nodes.host = nodes.host, lambda: names[rank]
    try:
        yield
    finally:
        nodes.host = before


def parts_of(state):
    parts = state.state_dict()["parts"]
    return {name: part["data"] for name, part in parts.items() if name != "run"}


def two_workers(rank, spec, divided):
    """The aggregates and the states of two processes that get the nodes' mean gradients."""
    pair = dist.new_group([0, 1])
    held = None
    if rank < 2:
        ddp, state = hooked(Given(), spec, {"process_group": pair}, process_group=pair)
        found = [aggregates(ddp, mean_of(divided[rank], step)) for step in range(STEPS)]
        held = (found, parts_of(state), state.report()["bytes_sent"])
        state.close()
    else:
        dist.new_group([0, 1])  # State's: every rank of the world takes part in making a group
    told = [None] * dist.get_world_size()
    dist.all_gather_object(told, held)
    return told[:2]


def compare(rank, spec, divided, setting):
    """Both runs; `divided` are the ranks of the two nodes."""
    wanted = two_workers(rank, spec, divided)
    ddp, state = hooked(Given(), spec, {"nodes": setting})
    mine = 0 if rank in divided[0] else 1
    assert (state.node, state.nodes, state.rank, state.workers) == (mine, 2, rank, 4)
    for step in range(STEPS):
        got = aggregates(ddp, gradients_of(rank, step))
        assert torch.equal(got, wanted[mine][0][step]), "%s, step %d" % (spec, step)
    parts = parts_of(state)
    assert sorted(parts) == sorted(wanted[mine][1])
    for name, data in parts.items():
        assert torch.equal(data, wanted[mine][1][name]), "%s: %s" % (spec, name)
    assert state.report()["bytes_sent"] == wanted[mine][2] > 0, spec
    state.close()


def case_nodes_are_workers_with_mean_gradients(rank, workers):
    for spec in METHODS:
        compare(rank, spec, [[0, 1], [2, 3]], 2)


def case_ranks_of_a_host_need_not_be_adjacent(rank, workers):
    with hosts("abab", rank):
        for spec in ("regtopk:keep=0.05", "ef-sign"):
            compare(rank, spec, [[0, 2], [1, 3]], "auto")


def case_ranks_of_this_machine_are_one_node(rank, workers):
    ddp, state = hooked(Given(), "dense", {"nodes": "auto"})
    assert (state.node, state.nodes) == (0, 1)
    got = aggregates(ddp, gradients_of(rank, 0))
    wanted = torch.cat([g.reshape(-1) for g in mean_of(range(workers), 0)])
    assert torch.equal(got, wanted) and state.report()["bytes_sent"] == 0
    state.close()


def case_nodes_of_unequal_size_give_the_mean_over_ranks(rank, workers):
    """The lone rank has a third of the weight of the node of three."""
    with hosts("aaab", rank):
        ddp, state = hooked(Given(), "dense", {"nodes": "auto"})
        raises(ValueError, lambda: state_of("dense", nodes="auto", uneven=True), "3, 1", "uneven")
    assert state.nodes == 2 and state.state_dict()["worker_weight"] == (1 if rank == 3 else 3)
    for step in range(3):
        got = aggregates(ddp, gradients_of(rank, step))
        same_everywhere(got, "aggregate")
        wanted = torch.cat([g.reshape(-1) for g in mean_of(range(workers), step)])
        assert torch.allclose(got, wanted, atol=1e-6), "step %d" % step
    state.close()


def case_half_gradients_are_averaged_as_float32(rank, workers):
    half = torch.float16
    ddp, state = hooked(Given(half), "dense", {"nodes": 2})
    got = aggregates(ddp, gradients_of(rank, 0, half))
    means = [[g.float() for g in gradients_of(r, 0, half)] for r in range(workers)]
    nodes_of = [[(a + b) / 2 for a, b in zip(means[r], means[r + 1])] for r in (0, 2)]
    wanted = torch.cat([((a + b) / 2).reshape(-1) for a, b in zip(*nodes_of)])
    assert got.dtype == half and torch.equal(got, wanted.to(half))
    state.close()


def case_ranks_that_abstain_do_not_count(rank, workers):
    ddp, state = hooked(Given(), "dense", {"nodes": 2, "uneven": True})
    if rank == 3:
        state.join()
    zeros = [torch.zeros_like(g) for g in gradients_of(rank, 0)]
    got = aggregates(ddp, zeros if rank == 3 else gradients_of(rank, 0))
    wanted = torch.cat([g.reshape(-1) for g in mean_of(range(3), 0)])
    assert torch.allclose(got, wanted, atol=1e-6)
    state.close()


def case_a_gradient_that_is_not_finite_skips_the_step_everywhere(rank, workers):
    ddp, state = hooked(Given(), "topk:keep=0.05", {"nodes": 2})
    aggregates(ddp, gradients_of(rank, 0))
    before = parts_of(state)
    bad = gradients_of(rank, 1)
    if rank == 3:
        bad[2][0, 0] = float("nan")
    assert not aggregates(ddp, bad).any()
    assert state.report()["skipped"] == 1
    assert all(torch.equal(data, before[name]) for name, data in parts_of(state).items())
    state.close()


def case_optimizers(rank, workers):
    """Equal to two workers of the C method with the nodes' mean gradients."""
    makers = (lambda p: optim.Signum(p, 0.01, nodes=2), lambda p: optim.QAdam(p, 0.01, nodes=2),
              lambda p: optim.DEF(p, 0.05, ratio=16, nodes=2),
              lambda p: optim.Spec(p, "dense:lr=0.1,every=2,momentum=0.5", lr=0.1, nodes=2))
    for make in makers:
        model = Given()
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.linspace(-1, 1, p.numel()).view(p.shape))
        start = flat(model)
        optimizer = make(model.named_parameters())
        reference = Local(optimizer.spec, 2, optimizer.tensors, start)
        for step in range(4):
            for p, g in zip(model.layers, gradients_of(rank, step)):
                p.grad = g
            if step == 1 and rank == 1:
                model.layers[1].grad = None  # the rank has zeros, which the node's mean leaves so
            held = [gradients_of(r, step) for r in range(workers)]
            if step == 1:
                held[1][1].zero_()
            optimizer.step()
            reference.step([torch.cat([((a + b) / 2).reshape(-1) for a, b in
                                       zip(held[r], held[r + 1])]) for r in (0, 2)])
            node = 0 if rank < 2 else 1
            assert torch.equal(optimizer.weights, reference.weights[node]), optimizer.spec
            assert torch.equal(flat(model), reference.point(node)), optimizer.spec
        optimizer.close()


def folder_of(rank):
    folder = [tempfile.mkdtemp(prefix="terse-nodes-") if rank == 0 else None]
    dist.broadcast_object_list(folder)
    return folder[0]


def case_one_state_per_node_is_saved(rank, workers):
    """And loaded by nodes bit for bit, by four workers as a regrouped one."""
    for spec in ("regtopk:keep=0.05", "ef-sign", "powersgd"):
        folder = folder_of(rank)
        torch.manual_seed(1)
        ddp, state = hooked(net(), spec, {"nodes": 2})
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
        train(ddp, optimizer, rank, range(5))
        for _ in range(2):  # the second save removes the files of the first
            terse.torch.save_all(folder, state, extra=ddp.module.state_dict(), keep=1)
        names = os.listdir(folder)
        assert sorted(name.split(".")[0] for name in names) == [
            "terse-5", "terse-5-0-of-2", "terse-5-1-of-2", "terse-5-extra"], names
        train(ddp, optimizer, rank, range(5, 8))
        wanted, residual = flat(ddp), state.state_dict()["parts"]["residual"]["data"]
        state.close()
        again, other = hooked(net(), spec, {"nodes": 2})
        loaded = terse.torch.load_all(folder, other)
        again.module.load_state_dict(loaded.extra)
        train(again, torch.optim.SGD(again.parameters(), lr=0.05), rank, range(5, 8))
        assert torch.equal(flat(again), wanted), spec
        assert torch.equal(other.state_dict()["parts"]["residual"]["data"], residual), spec
        other.close()
        again, other = hooked(net(), spec)
        terse.torch.load_all(folder, other)
        train(again, torch.optim.SGD(again.parameters(), lr=0.05), rank, range(5, 8))
        same_everywhere(flat(again), spec)
        terse.torch.save_all(folder, other)  # by four workers
        other.close()
        again, other = hooked(net(), spec, {"nodes": 2})
        assert terse.torch.load_all(folder, other).step == 8
        train(again, torch.optim.SGD(again.parameters(), lr=0.05), rank, range(8, 9))
        same_everywhere(flat(again), spec)
        other.close()
        dist.barrier()
        if rank == 0:
            shutil.rmtree(folder)


def case_what_is_closed_between_steps_is_freed(rank, workers):
    """By a leader too, whose last message to its node may be on its way."""
    with frees_everything():
        ddp, state = hooked(Given(), "regtopk:keep=0.05", {"nodes": 2})
        for step in range(STEPS):  # the hook creates the method again in DDP's order
            aggregates(ddp, gradients_of(rank, step))
        state.load_state_dict(state.state_dict())
        aggregates(ddp, gradients_of(rank, STEPS))  # and again for the state
        state.close()
        model = Given()
        optimizer = optim.DEF(model.parameters(), 0.05, ratio=16, nodes=2)
        for p, g in zip(model.layers, gradients_of(rank, 0)):
            p.grad = g
        optimizer.step()
        optimizer.close()
        raises(RuntimeError, optimizer.step, "has left its group")
        optimizer.close()


def case_auto_frees_the_methods_it_leaves(rank, workers):
    with frees_everything():
        ddp, state = hooked(Given(), "auto:every=8,methods=dense;fp16;topk:keep=0.05", {"nodes": 2})
        for step in range(24):
            aggregates(ddp, gradients_of(rank, step))
        state.close()


def case_bad_settings(rank, workers):
    raises(ValueError, lambda: state_of("dense", nodes=3), "nodes=3", "4 ranks")
    raises(ValueError, lambda: optim.Signum(Given().parameters(), nodes=3), "nodes=3", "4 ranks")
    for bad in (0, -1, "all", 2.5, True):
        raises(ValueError, lambda: state_of("dense", nodes=bad), "nodes=%r" % (bad,), "auto")
    raises(ValueError, lambda: state_of("dense", nodes=2, worker_weight=3), "worker_weight=3")
    why = raises(terse.MismatchError,
                 lambda: state_of("dense", nodes=2 if rank == 1 else None), "nodes", "rank 1")
    assert why.rank == 1
    state = state_of("dense", nodes=1)  # every rank is a worker
    assert (state.node, state.nodes) == (rank, workers)
    state.close()


def case_z_a_lost_rank_ends_all_nodes(rank, workers):
    """Must be the last case: rank 3 ends here."""
    ddp, state = hooked(net(), "topk:keep=0.05", {"nodes": 2, "timeout": 20})
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(3))
    started = time.monotonic()
    if rank == 3:
        return
    x, y = batch(rank, 3)
    raises(RuntimeError, torch.nn.functional.cross_entropy(ddp(x), y).backward)
    why = raises(terse.GroupError, state.check, "rank 3" if rank == 2 else "node 1 (ranks 2, 3)")
    assert why.rank == (3 if rank == 2 else 2), why
    assert time.monotonic() - started < 15  # at once, not after the timeout
