"""What a training has said so far, in numbers and as a table."""

import re
from ctypes import byref, c_void_p
from typing import Any, Dict, List

from .._library import Fault, Layout, check, library
from . import _state


def _payload(codec: str, name: str, shape) -> int:
    """No payload of this tensor is longer."""
    lib, handle, fault = library(), c_void_p(), Fault()
    layout = Layout([(name, shape)])
    check(lib.codec_create(codec.encode(), layout.handle, None, byref(handle), byref(fault)), fault)
    length = lib.codec_payload_bound(handle, 0)
    lib.codec_destroy(handle)
    return length


class Report(Dict[str, Any]):
    """A dict: spec, settings, steps, skipped, bytes_sent, bytes_received, dense_bytes,
    compression_ratio, ms_per_step (by stage), parameters (a list of dicts). str() is a table."""

    def __init__(self, spec: str, totals: Dict[str, Any], holder: Any) -> None:
        method = holder.method
        super().__init__(spec=spec, settings="" if method is None else method.settings, **totals)
        self["parameters"] = [] if method is None else _rows(spec, method, holder.tensors)

    def __str__(self) -> str:
        spent = ", ".join("%s %.1f" % pair for pair in self["ms_per_step"].items())
        lines = ["%s" % self["spec"], self["settings"],
                 "%d steps, %d skipped: sent %s bytes, dense %s, compression ratio %.1f" % (
                     self["steps"], self["skipped"], format(self["bytes_sent"], ","),
                     format(self["dense_bytes"], ","), self["compression_ratio"]),
                 "ms per step: " + spent,
                 "%-40s %12s %-12s %12s %12s" % ("parameter", "elements", "travels", "bytes",
                                                  "residual")]
        for row in self["parameters"]:
            memory = "-" if row["residual_norm"] is None else "%.3g" % row["residual_norm"]
            lines.append("%-40s %12s %-12s %12s %12s" % (
                row["name"], format(row["elements"], ","), row["travels"],
                format(row["bytes"], ","), memory))
        return "\n".join(lines)


def _rows(spec: str, method: Any, tensors) -> List[Dict[str, Any]]:
    codec = re.search(r"codec=(\S+)", method.settings).group(1)
    found = re.search(r"[:,]min=(\d+)", spec)
    least = int(found.group(1)) if found else 0
    memory = [part for part in method.parts() if part.name == "residual"]
    rows, offset = [], 0
    for name, shape in tensors:
        count = _state.count_of(shape)
        norm = None
        if memory:
            norm = float(_state.tensor_at(memory[0].address + 4 * offset, count).norm())
        plain = count < least
        rows.append({"name": name, "shape": tuple(shape), "elements": count,
                     "travels": "plain" if plain else codec.split(":")[0],
                     "bytes": _payload("f32" if plain else codec, name, shape),
                     "dense_bytes": 4 * count, "residual_norm": norm})
        offset += count
    return rows
