"""Specs of the hook: options of the optimizer are refused, small tensors are sent as float32."""

import re
from typing import Any, List, Optional

import torch.distributed as dist

from .._library import MismatchError
from .._method import methods, try_spec

# Options that have no effect where torch.optim updates the weights.
_OPTIMIZERS = ("lr", "schedule", "ramp", "wd", "every", "outer_lr", "outer_momentum", "nesterov",
               "update", "lambda")


def _keys(spec: str) -> List[str]:
    name = re.match(r"[\w-]*", spec).group()
    rest = spec if spec[len(name):len(name) + 1] == "=" else spec[len(name) + 1:]
    return [entry.split("=", 1)[0] for entry in rest.split(",") if "=" in entry]


def _refuse(spec: str) -> None:
    name = re.match(r"[\w-]*", spec).group()
    about = methods().get(name, {})
    for key in _keys(spec):
        belongs = key in _OPTIMIZERS or (key == "momentum" and about.get("update") == "sgd")
        if belongs and not (key == "lr" and "bits=error" in spec):
            raise ValueError("%s: %s is an option of the optimizer; the hook only returns a "
                             "gradient. Remove it from the spec and set it in torch.optim"
                             % (spec, key))
        if key == "clip":
            raise ValueError("%s: clip is not available in the hook, which sends buckets before "
                             "the norm of the gradient is known. Remove it from the spec and call "
                             "torch.nn.utils.clip_grad_norm_ after backward" % spec)


def shown(spec: str) -> str:
    """A complete spec without the options of the optimizer."""
    name = re.match(r"[\w-]*", spec).group()
    composed = spec[len(name):len(name) + 1] == "="
    hidden = _OPTIMIZERS + ("clip", "warmup") + (
        ("momentum",) if methods().get(name, {}).get("update") == "sgd" else ())
    entries = [entry for entry in (spec if composed else spec[len(name) + 1:]).split(",")
               if entry.split("=")[0] not in hidden]
    return ",".join(entries) if composed else name + ":" * bool(entries) + ",".join(entries)


def complete(spec: str, least: int, steps: int) -> str:
    """The spec with every option written out. Tensors with fewer than `least` elements are sent as
    float32 if the method has the option `min` (a majority vote has not) and the spec does not set
    it."""
    if not isinstance(spec, str):
        raise ValueError("the spec is %r; expected a string such as 'regtopk:keep=0.01'" % (spec,))
    full = try_spec(spec, steps=steps, aggregate_out=True)
    _refuse(spec)
    if "min" in _keys(spec) or "min" not in _keys(full):
        return full
    return try_spec("%s,min=%d" % (spec, least) if "=" in spec else "%s:min=%d" % (spec, least),
                    steps=steps, aggregate_out=True)


def agree(group: Any, mine: Any, failure: Optional[Exception], what: str) -> None:
    """Raises on every rank if one has failed or has other settings than rank 0; collective."""
    gathered: List[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(gathered, (None if failure is None else str(failure), mine),
                           group=group)
    if failure is not None:
        raise failure
    for rank, (failed, _) in enumerate(gathered):
        if failed is not None:
            raise MismatchError("rank %d could not create its %s: %s" % (rank, what, failed), rank)
    for rank, (_, theirs) in enumerate(gathered):
        for name, value in theirs.items():
            if value != gathered[0][1][name]:
                raise MismatchError("rank %d: different %s: %r, on rank 0 %r; pass the same on "
                                    "every rank" % (rank, name, value, gathered[0][1][name]), rank)
