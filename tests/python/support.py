"""Functions that the cases share."""

import contextlib
import ctypes

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import terse.torch
from terse import _method
from terse._library import Fault, Layout, MethodOptions, library
from terse._method import Method

METHODS = ("dense", "fp16", "bf16", "median", "topk:keep=0.05", "regtopk:keep=0.05",
           "regtopk:keep=0.05,scope=model", "qsgd", "terngrad", "natural", "dqsgd", "powersgd",
           "ef", "ef-sign", "signsgd", "signum",
           "codec=log:k=2,feedback=residual")


def same_everywhere(tensor, what):
    """Asserts that all ranks hold the same bits."""
    mine = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    theirs = mine.clone()
    dist.broadcast(theirs, 0)
    assert torch.equal(mine, theirs), "%s differs from rank 0" % what


def flat(model):
    return torch.cat([p.detach().reshape(-1).float() for p in model.parameters()])


def net(hidden=64):
    return torch.nn.Sequential(torch.nn.Linear(32, hidden), torch.nn.ReLU(),
                               torch.nn.Linear(hidden, hidden), torch.nn.ReLU(),
                               torch.nn.Linear(hidden, 10))


def state_of(spec, **options):
    options.setdefault("timeout", 20)
    options.setdefault("steps", 100)
    return terse.torch.State(spec, **options)


def hooked(model, spec, options=None, **ddp_options):
    """(ddp, state) with several small buckets, which DDP rebuilds after the first step. DDP's limit
    for the first bucket, 1 MB, is lowered: it would put a small model into one bucket."""
    ddp_options.setdefault("bucket_cap_mb", 0.001)
    before = dist._DEFAULT_FIRST_BUCKET_BYTES
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1024
    try:
        ddp = DistributedDataParallel(model, **ddp_options)
    finally:
        dist._DEFAULT_FIRST_BUCKET_BYTES = before
    state = state_of(spec, module=model, min=64, **(options or {}))
    ddp.register_comm_hook(state, terse.torch.hook)
    return ddp, state


def batch(rank, step, count=16):
    """The inputs and labels of a rank in a step."""
    source = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(count, 32, generator=source), torch.randint(0, 10, (count,),
                                                                    generator=source)


def train(ddp, optimizer, rank, steps):
    """Takes steps of the optimizer; returns the loss of the last one."""
    loss = None
    for step in steps:
        x, y = batch(rank, step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(ddp(x), y)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def raises(kind, call, *words):
    """The exception of a call, which must be of this kind and contain these words."""
    try:
        call()
    except kind as why:
        for word in words:
            assert word in str(why), "%r does not contain %r" % (str(why), word)
        return why
    raise AssertionError("%s was not raised" % (kind,))


@contextlib.contextmanager
def frees_everything():
    """What is closed inside leaves no memory behind for the life of the process."""
    before = len(_method._kept)
    yield
    assert len(_method._kept) == before, _method._kept[before:]


class Local:
    """All workers of a method in this process, through the C functions: the reference."""

    def __init__(self, spec, workers, tensors, weights, seed=0, steps=0):
        lib = ctypes.CDLL(library().path)
        self._step = lib.terse_method_step_all
        self._eval_weights = lib.terse_method_eval_weights_all
        self.weights = [weights.clone() for _ in range(workers)]
        at = (ctypes.c_void_p * workers)(*[w.data_ptr() for w in self.weights])
        self._methods = (ctypes.c_void_p * workers)()
        options = MethodOptions(size=ctypes.sizeof(MethodOptions), seed=seed, steps=steps)
        fault, layout = Fault(), Layout(tensors)
        status = lib.terse_method_create_all(
            spec.encode(), ctypes.c_uint32(workers), layout.handle, at, ctypes.byref(options),
            self._methods, ctypes.byref(fault))
        assert status == 0, fault.text

    def step(self, gradients):
        at = (ctypes.c_void_p * len(gradients))(*[g.data_ptr() for g in gradients])
        fault = Fault()
        assert self._step(self._methods, at, None, ctypes.byref(fault)) == 0, fault.text

    def method(self, rank):
        """One of them, to read and write its state."""
        one = Method.__new__(Method)
        one._lib, one._handle = library(), ctypes.c_void_p(self._methods[rank])
        return one

    def point(self, rank):
        address = library().method_point(self._methods[rank])
        return terse.torch._state.tensor_at(address, self.weights[0].numel()).clone()

    def eval_weights(self):
        out = torch.empty_like(self.weights[0])
        assert self._eval_weights(self._methods, ctypes.c_void_p(out.data_ptr()), None) == 0
        return out
