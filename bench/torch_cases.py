"""The cases of bench/torch_peer: ways to train the same network with PyTorch. A function(model,
steps, seed) creates a case; its step(x, y) takes one step and returns the loss."""

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


def network(hidden=(4096, 2048), seed=1):
    """784-4096-2048-10: 11.6 million parameters."""
    torch.manual_seed(seed)
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

    def settled(self):
        """False as long as a step is not yet one of many alike."""
        return True

    def evaluated(self):
        """A context in which the model holds the weights to evaluate."""
        eval_weights = getattr(self.optimizer, "eval_weights", None)
        return eval_weights() if eval_weights else torch.no_grad()


def sgd(model, rate=RATE):
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)


def no_sync(model, steps, seed):
    return Case(model, sgd(model))


class InStep(Case):
    """No communication except a barrier after each step: the cost of synchronisation alone."""

    def step(self, x, y):
        loss = super().step(x, y)
        dist.barrier()
        return loss


class Auto(Case):
    """State("auto"): it tries methods at first."""

    def __init__(self, model, optimizer, state):
        super().__init__(model, optimizer)
        self.state = state

    def settled(self):
        return bool(self.state.choices)


def terse_auto(rate):
    def make(model, steps, seed):
        wrapped = DistributedDataParallel(model)
        state = terse.torch.State("auto", steps=steps, seed=seed).attach(wrapped)
        return Auto(wrapped, sgd(model, rate), state)
    return make


def ddp(hook=None, state=None, rate=RATE, **options):
    def make(model, steps, seed):
        wrapped = DistributedDataParallel(model, **options)
        if hook is not None:
            wrapped.register_comm_hook(state(steps, seed) if state else None, hook)
        return Case(wrapped, sgd(model, rate))
    return make


def does_nothing(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def bf16(state, bucket):
    """PyTorch's hook under another name: DDP refuses that one where there is no GPU."""
    return default_hooks.bf16_compress_hook(state, bucket)


def one_bucket(make):
    """Puts all parameters into one bucket: DDP's first bucket has a separate limit."""
    def made(model, steps, seed):
        before = dist._DEFAULT_FIRST_BUCKET_BYTES
        dist._DEFAULT_FIRST_BUCKET_BYTES = 1 << 30
        try:
            return make(model, steps, seed)
        finally:
            dist._DEFAULT_FIRST_BUCKET_BYTES = before
    return made


def powersgd_state(steps, seed):
    return powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=1,
                                       start_powerSGD_iter=2, random_seed=seed)


def terse_hook(spec, rate):
    return ddp(terse.torch.hook,
               lambda steps, seed: terse.torch.State(spec, steps=steps, seed=seed), rate)


def terse_optimizer(kind, rate, **options):
    return lambda model, steps, seed: Case(model, kind(model.parameters(), lr=rate, seed=seed,
                                                       **options))


def powersgd(rate):
    return one_bucket(ddp(powerSGD_hook.powerSGD_hook, powersgd_state, rate, bucket_cap_mb=1000))


# Name: a function(rate) that returns the function that creates the case, and the default rate.
CASES = {
    "no-sync": (lambda rate: no_sync, RATE),
    "no-sync-in-step": (lambda rate: lambda model, steps, seed: InStep(model, sgd(model, rate)),
                        RATE),
    "noop": (lambda rate: ddp(does_nothing, rate=rate), RATE),
    "dense": (lambda rate: ddp(rate=rate), RATE),
    "fp16": (lambda rate: ddp(default_hooks.fp16_compress_hook, rate=rate), RATE),
    "bf16": (lambda rate: ddp(bf16, rate=rate), RATE),
    "powersgd-one-bucket": (powersgd, RATE),
    "terse-signum": (lambda rate: terse_optimizer(optim.Signum, rate), 2e-4),
    "terse-def": (lambda rate: terse_optimizer(optim.DEF, rate, ratio=64), 0.06),
    "terse-def-a": (lambda rate: terse_optimizer(optim.DEFA, rate, ratio=64), 0.06),
    "terse-qadam": (lambda rate: terse_optimizer(optim.QAdam, rate), 1e-3),
    # the same, sending during backward; PyTorch 2.1
    "terse-signum-overlap": (lambda rate: terse_optimizer(optim.Signum, rate, overlap=True), 2e-4),
    "terse-def-overlap": (lambda rate: terse_optimizer(optim.DEF, rate, ratio=64, overlap=True),
                          0.06),
    "terse-qadam-overlap": (lambda rate: terse_optimizer(optim.QAdam, rate, overlap=True), 1e-3),
    "terse-regtopk": (lambda rate: terse_hook("regtopk:keep=0.01", rate), RATE),
    "terse-auto": (terse_auto, RATE),
    "terse-dense": (lambda rate: terse_hook("dense", rate), RATE),
    "terse-dqsgd": (lambda rate: terse_hook("dqsgd", rate), RATE),
}


def made(name, model, steps, seed=0):
    """The case NAME, or NAME@RATE."""
    name, _, rate = name.partition("@")
    if name not in CASES:
        sys.exit("bench/torch_peer: no case '%s'; there are: %s" % (name, ", ".join(CASES)))
    make, default = CASES[name]
    return make(float(rate) if rate else default)(model, steps, seed)


# Not one of CASES, since it ends the process; `bench/torch_peer --limits` runs it.
POWERSGD_DEFAULT = ddp(powerSGD_hook.powerSGD_hook, powersgd_state)


def start():
    """Joins the gloo group with one thread; rank and addresses come from the environment."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()
