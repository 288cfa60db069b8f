"""Specs of the hook: what belongs to the optimizer is refused, small tensors travel plain."""

import re
from typing import Any, List, Optional

import torch.distributed as dist

from .._library import MismatchError
from .._method import methods, try_spec

# Words of a method that mean nothing where the optimizer is elsewhere.
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
            raise ValueError("%s: %s belongs to the optimizer, which works on what the hook hands "
                             "back; give it there" % (spec, key))
        if key == "clip":
            raise ValueError("%s: buckets leave before the norm of the gradient is known; clip "
                             "what the hook hands back (torch.nn.utils.clip_grad_norm_)" % spec)


def shown(spec: str) -> str:
    """A complete spec without what the optimizer does."""
    name = re.match(r"[\w-]*", spec).group()
    composed = spec[len(name):len(name) + 1] == "="
    hidden = _OPTIMIZERS + ("clip", "warmup") + (
        ("momentum",) if methods().get(name, {}).get("update") == "sgd" else ())
    entries = [entry for entry in (spec if composed else spec[len(name) + 1:]).split(",")
               if entry.split("=")[0] not in hidden]
    return ",".join(entries) if composed else name + ":" * bool(entries) + ",".join(entries)


def complete(spec: str, least: int, steps: int) -> str:
    """Every option written out. `least`: tensors with fewer elements travel plain, where the
    method has such a policy (signs are voted on everywhere) and the spec names no other."""
    if not isinstance(spec, str):
        raise ValueError("a spec is a text like 'regtopk:keep=0.01', not %r" % (spec,))
    full = try_spec(spec, steps=steps, aggregate_out=True)
    _refuse(spec)
    if "min" in _keys(spec) or "min" not in _keys(full):
        return full
    return try_spec("%s,min=%d" % (spec, least) if "=" in spec else "%s:min=%d" % (spec, least),
                    steps=steps, aggregate_out=True)


def agree(group: Any, mine: Any, failure: Optional[Exception], what: str) -> None:
    """Raises on every rank if any has failed or has other settings than rank 0; collective."""
    told: List[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, (None if failure is None else str(failure), mine), group=group)
    if failure is not None:
        raise failure
    for rank, (failed, _) in enumerate(told):
        if failed is not None:
            raise MismatchError("rank %d could not make its %s: %s" % (rank, what, failed), rank)
    for rank, (_, theirs) in enumerate(told):
        for name, value in theirs.items():
            if value != told[0][1][name]:
                raise MismatchError("rank %d has another %s than rank 0: %r, not %r"
                                    % (rank, name, value, told[0][1][name]), rank)
