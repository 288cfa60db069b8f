"""What cannot work with the hook is refused, and what probably does not is warned of.

A hook sees buckets, not the DDP model that calls it nor the optimizer. Both are found once, at the
first bucket, as objects that refer to what the hook has. gc.get_referrers makes references to these
alone, gc.get_objects would make one to every tensor, also to those that another thread is freeing;
PyTorch 1.13 does not survive that."""

import gc
import logging
from typing import Any, List, Optional

import torch
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("terse")

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_VOTE_RATE = 0.01  # SGD with a larger learning rate on -1 and +1 diverges


def _hooks(ddp: Any) -> List[Any]:
    """(hook, state) of every registered hook; PyTorch 1.13 does not keep them."""
    return list(getattr(ddp, "_comm_hooks", ()))


def ddp_of(state: Any) -> Optional[Any]:
    """The DDP model that calls the hook with this state, or None if it cannot be found."""
    entries = [each for each in gc.get_referrers(state)
               if type(each) is tuple and len(each) == 2 and each[1] is state]
    lists = [each for each in gc.get_referrers(*entries) if type(each) is list] if entries else []
    holders = gc.get_referrers(*lists) if lists else []
    names = [each for each in holders if type(each) is dict and "_comm_hooks" in each]
    for found in holders + (gc.get_referrers(*names) if names else []):
        # isinstance would ask proxies of other packages for their class.
        if issubclass(type(found), DistributedDataParallel):
            return found
    return None


def refuse(ddp: Any, state: Any) -> None:
    """ValueError: not a DDP model, or one with a setting that does not work with the hook."""
    if not isinstance(ddp, DistributedDataParallel):
        raise ValueError("attach: the model is a %s; expected a DistributedDataParallel (a trainer "
                         "makes one if it runs in several processes)" % type(ddp).__name__)
    for name, is_set, text in (
            ("skip_all_reduce_unused_params=True", getattr(ddp, "skip_all_reduce_unused_params",
                                                           False),
             "it leaves out buckets, on one rank other ones than on another. Use "
             "find_unused_parameters=True alone"),
            ("the python_reducer", getattr(ddp, "_use_python_reducer", False),
             "it passes single gradients, not buckets. Set torch._dynamo.config.optimize_ddp = "
             "True before DistributedDataParallel is made"),
            ("mixed_precision=", getattr(ddp, "mixed_precision", None) is not None,
             "it takes the only communication hook for itself. Use torch.autocast, or a model of "
             "that type")):
        if is_set:
            raise ValueError("terse.torch.hook does not work with %s of "
                             "DistributedDataParallel: %s" % (name, text))
    for hook, other in _hooks(ddp):
        if other is not state:
            raise ValueError("this DDP model has a communication hook already, %s; it calls only "
                             "one" % getattr(hook, "__qualname__", hook))
    for name, parameter in ddp.named_parameters():
        if parameter.requires_grad and parameter.dtype not in FLOATS:
            raise ValueError("parameter %s is %s; %s" % (name, parameter.dtype, NOT_REAL))


NOT_REAL = ("terse.torch.hook takes gradients of real numbers (float16, bfloat16, float32, "
            "float64). Keep complex parameters as pairs of real ones (torch.view_as_real)")


def on_device(buffer: torch.Tensor) -> bool:
    """Whether the buffer must pass through host memory."""
    return buffer.device.type == "cuda"


def refuse_bucket(bucket: Any) -> torch.Tensor:
    """The buffer of a bucket. An exception: it is no bucket, or not one of real CPU or CUDA
    tensors."""
    if isinstance(bucket, tuple):
        raise ValueError("terse.torch.hook was called with one gradient instead of a bucket, as "
                         "the python_reducer of torch.compile does. Set "
                         "torch._dynamo.config.optimize_ddp = True before "
                         "DistributedDataParallel is made")
    buffer = bucket.buffer()
    if buffer.device.type != "cpu" and not on_device(buffer):
        raise RuntimeError("the bucket is on %s; terse.torch.hook takes CPU and CUDA tensors"
                           % buffer.device)
    if buffer.dtype not in FLOATS:
        raise ValueError("the bucket is %s; %s" % (buffer.dtype, NOT_REAL))
    return buffer


def refuse_parameters(buffer: torch.Tensor, parameters: List[torch.Tensor]) -> None:
    """ValueError: the elements of the bucket are not those of its parameters. (A complex parameter
    has two elements in the bucket for each of its own, since PyTorch 2.10.)"""
    wanted = sum(parameter.numel() for parameter in parameters)
    if buffer.numel() != wanted:
        raise ValueError("the bucket has %d elements, its parameters %d; %s"
                         % (buffer.numel(), wanted, NOT_REAL))


def _sgd_rates(parameter: torch.Tensor) -> List[float]:
    """The learning rates of the groups of torch.optim.SGD that hold the parameter."""
    lists = [each for each in gc.get_referrers(parameter) if type(each) is list]
    groups = gc.get_referrers(*lists) if lists else []
    return [float(each["lr"]) for each in groups if type(each) is dict and "dampening" in each
            and any(each.get("params") is held for held in lists)]


def warn_of_rates(parameter: torch.Tensor, method: str) -> None:
    """Warns if SGD will apply the -1 and +1 of a vote to the parameter with a rate for
    gradients."""
    for rate in _sgd_rates(parameter):
        if rate > _VOTE_RATE:
            log.warning("terse.torch.State(%r): the result of this vote is -1 or +1 for every "
                        "element, whatever the size of the gradient: SGD with lr=%g moves every "
                        "weight by that much in each step and will probably diverge. Use a "
                        "learning rate near 1e-4, at most %g", method, rate, _VOTE_RATE)
            return


__all__ = ["ddp_of", "log", "on_device", "refuse", "refuse_bucket", "refuse_parameters", "warn_of_rates"]
