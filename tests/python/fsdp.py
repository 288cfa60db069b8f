"""FSDP2 on two nodes of two processes: shards inside a node, terse between them."""

import copy
import time

import torch
import torch.distributed as dist

from crew import Skip
from support import frees_everything, raises
from terse import _method
from terse.torch.fsdp import Replicas

OPTIONS = {"timeout": 20, "min": 64}


def mesh_of(workers):
    if torch.__version__.startswith("1."):
        raise Skip("PyTorch %s has no fully_shard" % torch.__version__)
    if workers != 4:
        raise Skip("two nodes of two processes are four")
    from torch.distributed.device_mesh import init_device_mesh
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("node", "shard"))


def sharded(mesh, seed=1):
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(32, 65), torch.nn.ReLU(), torch.nn.Linear(65, 64),
                                torch.nn.ReLU(), torch.nn.Linear(64, 10))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh["shard"])
    fully_shard(model, mesh=mesh["shard"])
    return model


def shards(model):
    return torch.cat([p.to_local().detach().reshape(-1) for p in model.parameters()])


def whole(model):
    return torch.cat([p.full_tensor().detach().reshape(-1) for p in model.parameters()])


def train(model, optimizer, rank, steps):
    for step in steps:
        source = torch.Generator().manual_seed(1000 * step + rank)
        x = torch.randn(16, 32, generator=source)
        y = (x[:, :10] + 0.1).argmax(1)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


class Reference:
    """The same hook in torch: Top-k of each module's shard with a residual, then a plain mean."""

    def __init__(self, model, group, keep):
        from torch.distributed.fsdp import FSDPModule
        self.group, self.keep = group, keep
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_all_reduce_hook(self.of({}))

    def of(self, kept):
        def hook(gradient):
            if self.keep < 1:
                full = gradient + kept.get("residual", torch.zeros_like(gradient))
                count = max(1, int(self.keep * full.numel()))
                sent = torch.zeros_like(full)
                chosen = full.abs().topk(count).indices
                sent[chosen] = full[chosen]
                kept["residual"] = full - sent
                gradient.copy_(sent)
            dist.all_reduce(gradient, group=self.group)
            gradient.div_(2)
        return hook


def case_it_is_the_mean_between_nodes(rank, workers):
    mesh = mesh_of(workers)
    between = mesh["node"].get_group()
    for spec, keep in (("dense", 1.0), ("topk:keep=0.1", 0.1)):
        model, other = sharded(mesh), sharded(mesh)
        replicas = Replicas(model, spec, process_group=between, **OPTIONS)
        Reference(other, between, keep)
        sgd, plain = (torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, other))
        for step in range(12):
            train(model, sgd, rank, [step])
            train(other, plain, rank, [step])
            assert torch.allclose(shards(model), shards(other), atol=1e-5), (spec, step)
        told = [torch.empty_like(whole(model)) for _ in range(workers)]
        dist.all_gather(told, whole(model))
        assert all(torch.equal(told[0], each) for each in told), spec
        report = replicas.report()
        assert report["steps"] == 36 and len(report["parameters"]) == 3
        assert keep == 1 or report["compression_ratio"] > 4, report["compression_ratio"]
        replicas.close()


def case_accumulation_and_resume(rank, workers):
    """Micro-batches without synchronisation call no hook; a saved residual goes on bit for bit."""
    mesh = mesh_of(workers)
    between = mesh["node"].get_group()
    model = sharded(mesh)
    replicas = Replicas(model, "topk:keep=0.1", process_group=between, **OPTIONS)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    model.set_requires_gradient_sync(False)
    model(torch.ones(2, 32)).sum().backward()
    assert replicas.steps_done == 0
    model.set_requires_gradient_sync(True)
    train(model, sgd, rank, range(4))
    assert replicas.steps_done == 4
    saved = (copy.deepcopy(replicas.state_dict()),
             [p.to_local().detach().clone() for p in model.parameters()])
    train(model, sgd, rank, range(4, 7))
    wanted = shards(model)
    replicas.close()
    again = sharded(mesh, seed=2)
    other = Replicas(again, "topk:keep=0.1", process_group=between, **OPTIONS)
    with torch.no_grad():
        for parameter, values in zip(again.parameters(), saved[1]):
            parameter.to_local().copy_(values)
    other.load_state_dict(saved[0])
    train(again, torch.optim.SGD(again.parameters(), lr=0.1), rank, range(4, 7))
    assert torch.equal(shards(again), wanted) and other.steps_done == 7
    one = [None] * 2
    dist.all_gather_object(one, other.state_dict(), group=between)
    regrouped = other._regrouped(one + one)["modules"]["0"]["residual"]["data"]
    mean = sum(each["modules"]["0"]["residual"]["data"] for each in one) / 2
    assert torch.allclose(regrouped, mean, atol=1e-7)
    other.close()


def case_refusals_and_skips(rank, workers):
    mesh = mesh_of(workers)
    between = mesh["node"].get_group()
    model = sharded(mesh)
    raises(ValueError, lambda: Replicas(model, "signum", process_group=between), "votes")
    raises(ValueError, lambda: Replicas(model, "powersgd", process_group=between), "PowerSGD")
    raises(ValueError, lambda: Replicas(torch.nn.Linear(3, 3), process_group=between),
           "fully_shard")
    for spec in ("topk:keep=0.1", "dense", "qsgd"):
        model = sharded(mesh)
        replicas = Replicas(model, spec, process_group=between, **OPTIONS)
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, sgd, rank, range(2))
        before = shards(model)
        x = torch.full((2, 32), float("nan") if rank < 2 else 1.0)  # on the first node
        sgd.zero_grad()
        model(x).sum().backward()
        sgd.step()
        assert torch.equal(shards(model), before), spec
        assert replicas.report()["skipped"] == 3
        replicas.close()


def case_a_node_that_leaves_ends_the_training(rank, workers):
    """The other learns of it at once. What may still be written to lives on when it closes: dense
    sums arrive in the mean itself."""
    mesh = mesh_of(workers)
    model = sharded(mesh)
    replicas = Replicas(model, "dense", process_group=mesh["node"].get_group(),
                        **{**OPTIONS, "timeout": 60})
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    with frees_everything():
        train(model, sgd, rank, range(2))
        dist.barrier()
        if rank < 2:
            replicas.close()
    if rank >= 2:
        started = time.monotonic()
        raises(Exception, lambda: train(model, sgd, rank, [2]), "rank")
        assert time.monotonic() - started < 20  # not after the timeout
        replicas._group._under_way[None] = ()  # whatever the failure has left
        replicas.close()
        kept = [buffer for each in _method._kept[-3:] for buffer in each[2]]
        assert all(m.aggregate is each for m, each in zip(replicas._modules.values(), kept))
    dist.barrier()
