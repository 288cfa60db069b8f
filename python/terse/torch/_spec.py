"""Specs of the hook: options of the optimizer are refused, small tensors are sent as float32."""

from typing import Any, List, Optional, Tuple

import torch.distributed as dist

from .._library import MismatchError
from .._method import describe, entries, spec_with, try_spec

# Options that have no effect where torch.optim updates the weights.
_OPTIMIZERS = ("lr", "schedule", "ramp", "wd", "every", "outer_lr", "outer_momentum", "nesterov",
               "update", "lambda")


def _optimizers(spec: str) -> Tuple[str, ...]:
    """The options that have no effect where torch.optim updates the weights."""
    chosen = describe(spec)
    rate = any(entry.name == "bits" and entry.value == "error" for entry in entries(spec))
    updates = chosen.update == "sgd" and chosen.direction != "momentum"
    return tuple(name for name in _OPTIMIZERS if not (name == "lr" and rate)) + (
        ("momentum",) if updates else ())


def _refuse(spec: str) -> None:
    optimizers = _optimizers(spec)
    for entry in entries(spec):
        if entry.given and entry.name in optimizers:
            raise ValueError("%s: %s is an option of the optimizer; the hook only returns a "
                             "gradient. Remove it from the spec and set it in torch.optim"
                             % (spec, entry.name))
        if entry.given and entry.name == "clip":
            raise ValueError("%s: clip is not available in the hook, which sends buckets before "
                             "the norm of the gradient is known. Remove it from the spec and call "
                             "torch.nn.utils.clip_grad_norm_ after backward" % spec)


def shown(spec: str) -> str:
    """A complete spec without the options of the optimizer."""
    hidden, name = _optimizers(spec) + ("clip", "warmup"), describe(spec).name
    listed = ",".join("%s=%s" % (entry.name, entry.value) for entry in entries(spec)
                      if entry.name not in hidden)
    return listed if name == "composed" else name + ":" * bool(listed) + listed


def complete(spec: str, least: int, steps: int) -> str:
    """The spec with every option written out. Tensors with fewer than `least` elements are sent as
    float32 if the combine allows it (a majority vote does not) and the spec does not set `min`."""
    if not isinstance(spec, str):
        raise ValueError("the spec is %r; expected a string such as 'regtopk:keep=0.01'" % (spec,))
    full = try_spec(spec, steps=steps, aggregate_out=True)
    _refuse(spec)
    if not describe(spec).has_plain:
        return full
    return try_spec(spec_with(spec, "min=%d" % least), steps=steps, aggregate_out=True)


def rewritten(saved: Any) -> Any:
    """A saved spec as this library writes it: an earlier one wrote 300 as 3e+02. What is no spec
    stays as it is."""
    try:
        return spec_with(str(saved), "")
    except ValueError:
        return saved


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
