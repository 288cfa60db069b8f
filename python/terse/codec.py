"""numpy arrays to frames and back."""

from ctypes import byref, c_size_t, c_void_p
from typing import Any, Dict

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
    check(lib.codec_encode(codec.handle, 0, byref(key), array.ctypes.data, payload, bound,
                           byref(used)))
    length = c_size_t()
    check(lib.frame_seal(codec.handle, 0, byref(key), payload, used.value, 1, buffer.ctypes.data,
                         buffer.nbytes, byref(length)))
    return buffer[:length.value].tobytes()


def _opened(frame: bytes):
    """The checked view of a frame, its layout and its codec."""
    lib = library()
    view, fault = Frame(), Fault()
    check(lib.frame_open(frame, len(frame), byref(view), None, byref(fault)), fault)
    if not view.layout:
        raise FrameError("the frame holds no layout, as frames between workers do not; decode a "
                         "frame that terse.encode or `terse encode` wrote")
    layout, codec = Layout([]), _Codec()
    lib.layout_destroy(layout.handle)
    layout.handle = c_void_p()
    check(lib.frame_layout(byref(view), byref(layout.handle), byref(fault)), fault)
    check(lib.frame_codec(byref(view), layout.handle, None, byref(codec.handle), byref(fault)),
          fault)
    return view, layout, codec


def _tensors(layout: Layout):
    lib = library()
    for index in range(lib.layout_tensors(layout.handle)):
        tensor = Tensor()
        check(lib.layout_tensor(layout.handle, index, byref(tensor)))
        yield tensor


def decode(frame: bytes) -> numpy.ndarray:
    """The values of a frame as float32: in the tensor's shape, or flat if it holds several tensors.
    FrameError: the bytes are damaged or not a frame; the message names the offset and the rule."""
    lib = library()
    frame = bytes(frame)
    view, layout, codec = _opened(frame)
    fault = Fault()
    out = numpy.zeros(lib.layout_count(layout.handle), dtype=numpy.float32)
    key = RngKey(view.seed, view.step, view.worker)
    check(lib.codec_decode_add(codec.handle, view.pass_number, byref(key), view.payload,
                               view.payload_len, out.ctypes.data, byref(fault)), fault)
    tensors = list(_tensors(layout))
    if len(tensors) == 1:
        return out.reshape([tensors[0].dims[i] for i in range(tensors[0].ndim)])
    return out


def inspect(frame: bytes) -> Dict[str, Any]:
    """The header of a frame as a dict: codec, tensors, step, worker, seed, pass, lengths."""
    lib = library()
    frame = bytes(frame)
    view, layout, codec = _opened(frame)
    tensors = [{"name": t.name.decode(), "shape": tuple(t.dims[i] for i in range(t.ndim))}
               for t in _tensors(layout)]
    return {"codec": lib.codec_spec(codec.handle).decode(), "tensors": tensors, "step": view.step,
            "worker": view.worker, "seed": view.seed, "pass": view.pass_number,
            "payload_len": view.payload_len, "frame_len": len(frame)}


def codecs() -> Dict[str, str]:
    """Every codec of the library with its one-line summary."""
    found: Dict[str, str] = {}
    lib, about = library(), CodecAbout()
    while lib.codec_list(len(found), byref(about)) == 0:
        found[about.name.decode()] = about.summary.decode()
    return found


__all__ = ["encode", "decode", "inspect", "codecs"]
