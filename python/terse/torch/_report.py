"""Bytes and times of a training so far, as a dict and as a table."""

from ctypes import byref, c_void_p
from typing import Any, Dict, List, Sequence

from .._library import CodecAbout, Fault, Layout, check, library
from .._method import describe
from . import _state


def _payloads(codec: str, tensors) -> List[int]:
    """The longest payload of each tensor, in bytes."""
    lib, handle, fault = library(), c_void_p(), Fault()
    layout = Layout(tensors)
    check(lib.codec_create(codec.encode(), layout.handle, None, byref(handle), byref(fault)), fault)
    lengths = [lib.codec_section_bound(handle, 0, index) for index in range(len(tensors))]
    lib.codec_destroy(handle)
    return lengths


class Report(Dict[str, Any]):
    """A dict: spec, settings, steps, skipped, capped (sections for which dqsgd asked for more than
    16 bits), bytes_sent, bytes_received, dense_bytes, compression_ratio, ms_per_step (by stage),
    parameters (a list of dicts; with scope=model their `bytes` are None: every step selects among
    all). str() is a table."""

    def __init__(self, spec: str, totals: Dict[str, Any], holders: Sequence[Any]) -> None:
        """A holder has a `method`, which may be None, and its `tensors`."""
        held = [(each.method, each.tensors) for each in holders if each.method is not None]
        settings = dict.fromkeys(method.settings for method, _ in held)
        super().__init__(spec=spec, settings="\n".join(settings), **totals)
        self["parameters"] = [row for method, tensors in held for row in _rows(method, tensors)]

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
            residual = "-" if row["residual_norm"] is None else "%.3g" % row["residual_norm"]
            length = "-" if row["bytes"] is None else format(row["bytes"], ",")
            lines.append("%-40s %12s %-12s %12s %12s" % (
                row["name"], format(row["elements"], ","), row["travels"], length, residual))
        return "\n".join(lines)


def _rows(method: Any, tensors) -> List[Dict[str, Any]]:
    chosen, about = describe(method.spec), CodecAbout()
    check(library().codec_check(chosen.codec.encode(), byref(about), None))
    residual = [part for part in method.parts() if part.name == "residual"]
    rows, offset, payloads = [], 0, _payloads(chosen.codec, tensors)
    for (name, shape), payload in zip(tensors, payloads):
        count = _state.count_of(shape)
        norm = None
        if residual:
            norm = float(_state.tensor_at(residual[0].address + 4 * offset, count).norm())
        plain = count < chosen.min
        length = None if chosen.scope == "model" else 4 * count if plain else payload
        rows.append({"name": name, "shape": tuple(shape), "elements": count,
                     "travels": "plain" if plain else about.name.decode(),
                     "bytes": length, "dense_bytes": 4 * count, "residual_norm": norm})
        offset += count
    return rows
