"""What bench/torch_peer compares: ways to train the same network with PyTorch. A case is made by a
function(model, steps) and has step(x, y), which takes one step and returns the loss."""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))
import terse.torch
from terse.torch import optim

RATE, MOMENTUM = 0.05, 0.9


def network(hidden=(4096, 2048)):
    """784-4096-2048-10: 11.6 million parameters."""
    torch.manual_seed(1)
    sizes = (784,) + tuple(hidden) + (10,)
    layers = []
    for rows, cols in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(rows, cols), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


class Case:
    """One step: gradients, communication, update."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def evaluated(self):
        """A context in which the model holds the weights to evaluate."""
        deployed = getattr(self.optimizer, "deployed", None)
        return deployed() if deployed else torch.no_grad()


def sgd(model, rate=RATE):
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)


def no_sync(model, steps):
    return Case(model, sgd(model))


def ddp(hook=None, state=None, rate=RATE, **options):
    def make(model, steps):
        wrapped = DistributedDataParallel(model, **options)
        if hook is not None:
            wrapped.register_comm_hook(state(steps) if state else None, hook)
        return Case(wrapped, sgd(model, rate))
    return make


def does_nothing(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def one_bucket(make):
    """DDP's first bucket has a limit of its own."""
    def made(model, steps):
        before = dist._DEFAULT_FIRST_BUCKET_BYTES
        dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 30
        try:
            return make(model, steps)
        finally:
            dist._DEFAULT_FIRST_BUCKET_BYTES = before
    return made


def powersgd_state(steps):
    return powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=1,
                                       start_powerSGD_iter=2)


def terse_hook(spec, rate=RATE):
    return ddp(terse.torch.hook,
               lambda steps: terse.torch.State(spec, steps=steps, verbose=False), rate)


def owns(kind, **options):
    return lambda model, steps: Case(model, kind(model.parameters(), **options))


CASES = {
    "no-sync": no_sync,
    "noop": ddp(does_nothing),
    "dense": ddp(),
    "fp16": ddp(default_hooks.fp16_compress_hook),
    "powersgd-one-bucket": one_bucket(ddp(powerSGD_hook.powerSGD_hook, powersgd_state,
                                          bucket_cap_mb=1000)),
    "terse-signum": owns(optim.Signum, lr=1e-4),
    "terse-def": owns(optim.DEF, lr=RATE, ratio=64),
    "terse-qadam": owns(optim.QAdam, lr=3e-4),
    "terse-regtopk": terse_hook("regtopk:keep=0.01"),
    "terse-dqsgd": terse_hook("dqsgd"),
}
# Not among them: it ends the process. `bench/torch_peer --limits` shows how.
POWERSGD_DEFAULT = ddp(powerSGD_hook.powerSGD_hook, powersgd_state)


def start():
    """One thread, one gloo process; rank and addresses come from the environment."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()
