"""A method's state as tensors: read, write, reorder, and convert to another number of workers."""

import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .._method import Method, Shape

Tensors = Sequence[Tuple[str, Shape]]
Parts = Dict[str, Dict[str, Any]]
_CUT = 2048  # slices of a tensor start at multiples of it


def tensor_at(address: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor over `count` elements at an address; it does not own them."""
    size = count * torch.empty((), dtype=dtype).element_size()
    if size == 0:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=dtype)


def count_of(shape: Shape) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def read_parts(method: Method) -> Parts:
    """Copies of all parts."""
    out: Parts = {}
    for part in method.parts():
        dtype = torch.float32 if part.floats else torch.uint8
        count = part.length // 4 if part.floats else part.length
        out[part.name] = {"kind": part.kind, "data": tensor_at(part.address, count, dtype).clone()}
    return out


def write_parts(method: Method, parts: Parts) -> None:
    """Restores the given parts. Hints that are not given are cleared, the other parts stay
    unchanged. ValueError: a part has another size."""
    for part in method.parts():
        if part.name not in parts:
            if part.kind == "hint":
                tensor_at(part.address, part.length, torch.uint8).zero_()
            continue
        data = parts[part.name]["data"]
        if data.numel() * data.element_size() != part.length:
            raise ValueError("state: %s has %d bytes, expected %d for this model and spec"
                             % (part.name, data.numel() * data.element_size(), part.length))
        tensor_at(part.address, data.numel(), data.dtype).copy_(data)
    method.restored()


# ---- another order of tensors ----

def _places(tensors: Tensors) -> Dict[str, Tuple[int, int]]:
    """(offset, count) of each tensor in the flat buffer."""
    places, offset = {}, 0
    for name, shape in tensors:
        places[name] = (offset, count_of(shape))
        offset += count_of(shape)
    return places


def owned(tensors: Tensors, rank: int, workers: int, server: bool) -> torch.Tensor:
    """1 for each element that this rank owns, else 0, as the library cuts: slice j of tensor t
    belongs to rank (j + t) % workers; with a parameter server everything belongs to rank 0."""
    total = sum(count_of(shape) for _, shape in tensors)
    if server:
        return torch.full((total,), float(rank == 0))
    mask, offset = torch.zeros(total), 0
    for index, (_, shape) in enumerate(tensors):
        count = count_of(shape)
        j = (rank - index) % workers
        start = count // workers * j // _CUT * _CUT
        end = count if j + 1 == workers else count // workers * (j + 1) // _CUT * _CUT
        mask[offset + start:offset + end] = 1
        offset += count
    return mask


def _move_floats(data: torch.Tensor, old: Tensors, new: Tensors) -> torch.Tensor:
    places = _places(old)
    runs = [data[places[name][0]:places[name][0] + places[name][1]] for name, _ in new]
    return torch.cat(runs) if runs else data


def _move_posterior(parts: Parts, old: Tensors, new: Tensors) -> None:
    """Reorders RegTop-k's list of the elements sent in the last step, ascending by their index in
    the flat buffer."""
    count = int(parts["sent count"]["data"].view(torch.int64)[0])
    index = parts["sent index"]["data"].view(torch.int64)
    before, after = _places(old), _places(new)
    moved = torch.empty_like(index[:count])
    for name, (start, length) in before.items():
        here = (index[:count] >= start) & (index[:count] < start + length)
        moved[here] = index[:count][here] - start + after[name][0]
    order = torch.argsort(moved)
    index[:count] = moved[order]
    for name in ("sent before", "sent sum"):
        values = parts[name]["data"].view(torch.float32)
        values[:count] = values[:count][order]


def _move_bits(data: torch.Tensor, old: Tensors, new: Tensors) -> torch.Tensor:
    """Reorders DQ-SGD's records, which are by role, tensor and worker."""
    names = [name for name, _ in old]
    order = [names.index(name) for name, _ in new]
    return data.view(2, len(names), -1)[:, order].reshape(-1)


def rearrange(parts: Parts, old: Tensors, new: Tensors, whole_of: Any, mask: torch.Tensor) -> Parts:
    """The same state for the same tensors in another order. `whole_of` sums a tensor over all
    workers (collective); `mask` is what this rank owns in the new order."""
    out: Parts = {}
    total = sum(count_of(shape) for _, shape in old)
    for name, part in parts.items():
        data = part["data"].clone()
        if data.dtype == torch.float32 and data.numel() == total:
            if part["kind"] == "slices":
                data = whole_of(data)
            data = _move_floats(data, old, new)
            if part["kind"] == "slices":
                data = data * mask
        elif name == "bits":
            data = _move_bits(data, old, new)
        elif name == "factors":
            continue  # a hint: the next step starts from new factors
        out[name] = {"kind": part["kind"], "data": data}
    if "sent count" in out:
        _move_posterior(out, old, new)
    return out


# ---- another number of workers ----

def _mean(held: List[torch.Tensor], weights: List[float]) -> torch.Tensor:
    """Rounded once; the mean of equal tensors is their value."""
    whole = torch.zeros_like(held[0], dtype=torch.float64)
    for each, weight in zip(held, weights):
        whole += weight * each.double()
    return (whole / sum(weights)).float()


def weights_of(saved: List[Dict[str, Any]]) -> List[float]:
    """The weights of the workers that saved these states: all have one, or none has."""
    return [float(each.get("worker_weight", 0.0)) or 1.0 for each in saved]


def _join(held: List[torch.Tensor]) -> torch.Tensor:
    """Slices as a whole, bit for bit: an element is one worker's, and 0 on the others."""
    whole = held[0].clone()
    bits = whole.view(torch.int32)
    for other in held[1:]:
        bits |= other.view(torch.int32)
    return whole


def regroup(saved: List[Parts], mask: torch.Tensor, weights: Optional[List[float]] = None) -> Parts:
    """The parts of any one of the new workers, from those of the old. Aggregates are means, so what
    is outstanding is the mean of the residuals: every new worker gets it, and the means of the
    moments, with the `weights` of the old workers (None: equal). What owners have is cut anew;
    `mask` is 1 where this rank owns. Hints are dropped."""
    out: Parts = {}
    for name, part in saved[0].items():
        kind = part["kind"]
        held = [parts[name]["data"] for parts in saved]
        if kind == "hint":
            continue
        if kind == "shared":
            data = held[0].clone()
        elif kind == "slices":
            data = torch.where(mask > 0, _join(held), torch.zeros(()))
        else:
            data = _mean(held, weights or [1.0] * len(held))
        out[name] = {"kind": kind, "data": data}
    return out
