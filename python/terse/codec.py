"""numpy arrays to frames and back."""

import os
from ctypes import byref, c_char_p, c_size_t, c_void_p, cast
from typing import Any, Dict, List, Optional, Tuple

import numpy

from ._library import CodecAbout, Fault, Frame, FrameError, Layout, RngKey, Tensor, check, library

_TWO_PASSES = ("%s takes two passes, and the second needs the payloads of all workers: one array "
               "cannot be encoded with it; use another codec")


class _Codec:
    """A terse_codec, destroyed with this object."""

    def __init__(self) -> None:
        self.handle = c_void_p()

    def __del__(self) -> None:
        library().codec_destroy(self.handle)


def encode(x: Any, spec: str = "f32", *, seed: int = 0, step: int = 0, worker: int = 0,
           name: str = "") -> bytes:
    """Encodes `x` (anything that numpy converts to an array, as float32) with the codec `spec`, for
    example "topk:keep=0.01" or "log:k=2". The frame holds the shape, so decode needs nothing else.

    `seed`, `step` and `worker` are the random key of codecs that round at random.
    ValueError: the spec is invalid. NotFiniteError: the array holds NaN, infinity, or a number
    outside the range of the codec."""
    lib = library()
    array = numpy.ascontiguousarray(x, dtype=numpy.float32).reshape(numpy.shape(x))
    layout, codec, fault = Layout([(name, array.shape)]), _Codec(), Fault()
    check(lib.codec_create(spec.encode(), layout.handle, None, byref(codec.handle), byref(fault)),
          fault)
    about = CodecAbout()
    lib.codec_describe(codec.handle, byref(about))
    if about.passes > 1:
        raise ValueError(_TWO_PASSES % about.name.decode())
    bound = lib.codec_payload_bound(codec.handle, 0)
    buffer = numpy.empty(lib.frame_len(codec.handle, bound, 1), dtype=numpy.uint8)
    payload = buffer.ctypes.data + lib.frame_payload_at(codec.handle, 1)
    key, used = RngKey(seed, step, worker), c_size_t()
    status = lib.codec_encode(codec.handle, 0, byref(key), array.ctypes.data, payload, bound,
                              byref(used))
    fault.text = lib.codec_failure(codec.handle)
    check(status, fault)
    length = c_size_t()
    check(lib.frame_seal(codec.handle, 0, byref(key), payload, used.value, 1, buffer.ctypes.data,
                         buffer.nbytes, byref(length)))
    return buffer[:length.value].tobytes()


def _half_of_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") // 2


def _layout_of(view: Frame, max_bytes: Optional[int]) -> Layout:
    """The layout in a frame. FrameError: there is none, or its vector is larger than the limit."""
    lib, fault = library(), Fault()
    if not view.layout:
        raise FrameError("the frame holds no layout, as frames between workers do not; decode a "
                         "frame that terse.encode or `terse encode` wrote")
    limit = _half_of_memory() if max_bytes is None else max_bytes
    if 4 * view.count > limit:
        raise FrameError("the frame is of %d elements, %d bytes as float32; the limit is %d bytes "
                         "(max_bytes)" % (view.count, 4 * view.count, limit))
    layout = Layout([])
    lib.layout_destroy(layout.handle)
    layout.handle = c_void_p()
    check(lib.frame_layout(byref(view), byref(layout.handle), byref(fault)), fault)
    return layout


def _frames(data: bytes) -> List[Tuple[int, Frame]]:
    """The frames of `data`, one after the other, with their offsets."""
    found: List[Tuple[int, Frame]] = []
    lib, start = library(), 0
    address = cast(c_char_p(data), c_void_p).value or 0
    while start < len(data) or not found:
        view, used, fault = Frame(), c_size_t(), Fault()
        status = lib.frame_open(address + start, len(data) - start, byref(view), byref(used),
                                byref(fault))
        fault.offset += start
        check(status, fault)
        found.append((start, view))
        start += used.value
    return found


def _vector(view: Frame) -> Tuple[Any, ...]:
    """What the frames of one vector have in common."""
    return (view.codec, view.worker, view.step, view.seed, view.layout_hash, view.first, view.count,
            bytes(view.option_bytes))


def _opened(data: bytes, max_bytes: Optional[int] = None):
    """The checked frames of one vector, one for each pass, their layout and their codec."""
    lib = library()
    frames = _frames(data)
    first = frames[0][1]
    layout, codec, fault = _layout_of(first, max_bytes), _Codec(), Fault()
    check(lib.frame_codec(byref(first), layout.handle, None, byref(codec.handle), byref(fault)),
          fault)
    for number, (start, view) in enumerate(frames):
        if view.pass_number != number or _vector(view) != _vector(first):
            raise FrameError("offset %d: pass %d of step %d by worker %d, where pass %d of step %d "
                             "by worker %d is due; one vector is decoded at a time"
                             % (start, view.pass_number, view.step, view.worker, number,
                                first.step, first.worker))
        check(lib.frame_match(byref(view), codec.handle, byref(fault)), fault)
    return [view for _, view in frames], layout, codec


def _tensors(layout: Layout):
    lib = library()
    for index in range(lib.layout_tensors(layout.handle)):
        tensor = Tensor()
        check(lib.layout_tensor(layout.handle, index, byref(tensor)))
        yield tensor


def decode(frame: bytes, *, max_bytes: Optional[int] = None) -> numpy.ndarray:
    """The values of a frame as float32: in the tensor's shape, or flat if it holds several tensors.
    A codec of two passes has two frames, one after the other, as `terse encode` writes them.

    FrameError: the bytes are damaged, not a frame, or lack a pass; the message names the offset and
    the rule. A short frame may announce a long vector: one of more than `max_bytes` bytes is
    refused, by default half of the machine's memory."""
    lib = library()
    frame = bytes(frame)
    views, layout, codec = _opened(frame, max_bytes)
    about = CodecAbout()
    lib.codec_describe(codec.handle, byref(about))
    if len(views) < about.passes:
        raise FrameError("the bytes end after pass %d of %d of %s; decode the frames of all passes, "
                         "one after the other" % (len(views) - 1, about.passes,
                                                  about.name.decode()))
    fault = Fault()
    out = numpy.zeros(lib.layout_count(layout.handle), dtype=numpy.float32)
    for view in views:
        key = RngKey(view.seed, view.step, view.worker)
        check(lib.codec_decode_add(codec.handle, view.pass_number, byref(key), view.payload,
                                   view.payload_len, out.ctypes.data, byref(fault)), fault)
    tensors = list(_tensors(layout))
    if len(tensors) == 1:
        return out.reshape([tensors[0].dims[i] for i in range(tensors[0].ndim)])
    return out


def inspect(frame: bytes) -> Dict[str, Any]:
    """The header of a frame as a dict: codec, tensors, step, worker, seed, pass, lengths. Bytes of a
    name that are not UTF-8 become \\xNN. Of the frames of several passes, the header is that of the
    first, and the lengths are those of all."""
    lib = library()
    frame = bytes(frame)
    views, layout, codec = _opened(frame)
    tensors = [{"name": t.name.decode(errors="backslashreplace"),
                "shape": tuple(t.dims[i] for i in range(t.ndim))} for t in _tensors(layout)]
    return {"codec": lib.codec_spec(codec.handle).decode(), "tensors": tensors,
            "step": views[0].step, "worker": views[0].worker, "seed": views[0].seed,
            "pass": views[0].pass_number, "payload_len": sum(view.payload_len for view in views),
            "frame_len": len(frame)}


def codecs() -> Dict[str, str]:
    """Every codec of the library with its one-line summary."""
    found: Dict[str, str] = {}
    lib, about = library(), CodecAbout()
    while lib.codec_list(len(found), byref(about)) == 0:
        found[about.name.decode()] = about.summary.decode()
    return found


__all__ = ["encode", "decode", "inspect", "codecs"]
