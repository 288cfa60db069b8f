"""libterse through ctypes: search paths, structures, functions, and statuses as exceptions."""

import ctypes
import ctypes.util
import os
import threading
from ctypes import c_char, c_char_p, c_double, c_int, c_int32, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional

from ._version import compatible, package_version, soname

STAGES = ("direction", "encode", "wire", "group", "combine", "decode", "update")


class TerseError(Exception):
    """libterse returned an error; the message is the library's."""


class FrameError(TerseError, ValueError):
    """The bytes are not a valid frame: damaged, cut off, or of an unknown version."""


class GroupError(TerseError, RuntimeError):
    """The group has failed: a worker timed out or left. `rank` is the rank at fault, or -1."""

    def __init__(self, message: str, rank: int = -1):
        super().__init__(message)
        self.rank = rank


class MismatchError(GroupError):
    """A rank differs from the others in settings, model or step. `rank` is that rank, or -1."""


class NotFiniteError(TerseError, ValueError):
    """The input holds NaN, infinity, or a number outside the range of the codec."""


class LibraryMissing(TerseError, ImportError):
    """libterse cannot be loaded, or has another version than this package. The message lists the
    files that were tried, or the version that was found."""


OK, BAD_ARGUMENT, BAD_SPEC, TOO_SMALL, NOT_FINITE, OUT_OF_RANGE = 0, -1, -2, -3, -4, -5
BAD_FRAME, BAD_VERSION, BAD_CHECKSUM, MISMATCH = -20, -21, -22, -23
NO_MEMORY, TIMEOUT, PEER_LOST, UNSUPPORTED = -40, -41, -42, -60


class Fault(ctypes.Structure):
    """terse_fault"""
    _fields_ = [("offset", c_uint64), ("rank", c_int32), ("text", c_char * 228)]

    def __init__(self) -> None:
        super().__init__(rank=-1)  # no rank is at fault unless the library sets one


class RngKey(ctypes.Structure):
    """terse_rng_key"""
    _fields_ = [("seed", c_uint64), ("step", c_uint64), ("worker", c_uint32)]


class Frame(ctypes.Structure):
    """terse_frame"""
    _fields_ = [("codec", ctypes.c_uint8), ("pass_number", ctypes.c_uint8), ("worker", c_uint32),
                ("step", c_uint64), ("seed", c_uint64), ("layout_hash", c_uint64),
                ("first", c_uint64), ("count", c_uint64), ("option_bytes", ctypes.c_uint8 * 16),
                ("layout", c_void_p), ("layout_len", c_size_t), ("payload", c_void_p),
                ("payload_len", c_size_t)]


class Tensor(ctypes.Structure):
    """terse_tensor"""
    _fields_ = [("name", c_char_p), ("dims", ctypes.POINTER(c_uint64)), ("ndim", c_uint32),
                ("count", c_uint64), ("offset", c_uint64)]


class KernelSetAbout(ctypes.Structure):
    """terse_kernel_set_about"""
    _fields_ = [("name", c_char_p), ("needs", c_char_p), ("supported", c_uint32),
                ("kernels", c_uint32)]


class CodecAbout(ctypes.Structure):
    """terse_codec_about"""
    _fields_ = [("name", c_char_p), ("summary", c_char_p), ("options", c_void_p),
                ("option_count", c_uint32), ("traits", c_uint32), ("passes", c_uint32),
                ("wire_id", ctypes.c_uint8)]


class Option(ctypes.Structure):
    """terse_option"""
    _fields_ = [("name", c_char_p), ("range", c_char_p), ("initial", c_char_p), ("help", c_char_p),
                ("kind", c_int), ("low", c_double), ("high", c_double)]


class UserCall(ctypes.Structure):
    """terse_user_call"""
    _fields_ = [("context", c_void_p), ("option", ctypes.POINTER(c_double)),
                ("key", ctypes.POINTER(RngKey)), ("count", c_uint64), ("tensor", c_uint32),
                ("reserved", c_uint32 * 5)]


_CALL = ctypes.POINTER(UserCall)
BOUND = ctypes.CFUNCTYPE(c_size_t, _CALL)
ENCODE = ctypes.CFUNCTYPE(c_int, _CALL, c_void_p, c_void_p, ctypes.POINTER(c_size_t))
DECODE_ADD = ctypes.CFUNCTYPE(c_int, _CALL, c_void_p, c_size_t, ctypes.POINTER(c_size_t), c_void_p)
TAKE = ctypes.CFUNCTYPE(c_int, _CALL, c_void_p, c_size_t, c_void_p)
EXPLAIN = ctypes.CFUNCTYPE(c_void_p, c_void_p)


class UserCodec(ctypes.Structure):
    """terse_user_codec"""
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("summary", c_char_p),
                ("wire_id", ctypes.c_uint8), ("traits", c_uint32),
                ("options", ctypes.POINTER(Option)), ("option_count", c_uint32),
                ("context", c_void_p), ("bound", BOUND), ("encode", ENCODE),
                ("decode_add", DECODE_ADD), ("take", TAKE), ("explain", EXPLAIN)]


class MethodAbout(ctypes.Structure):
    """terse_method_about"""
    _fields_ = [(name, c_char_p) for name in (
        "name", "summary", "formula", "bytes", "citation", "verified")] + [
            ("option_count", c_uint32)]


class MethodDescription(ctypes.Structure):
    """terse_method_description"""
    _fields_ = [("size", c_size_t)] + [(name, c_char_p) for name in (  # type: ignore[assignment]
        "name", "point", "direction", "feedback", "unit", "scope", "combine", "update")] + [
            ("owner", c_int)] + [(name, c_uint32) for name in (
                "passes", "dynamic_bits", "votes", "has_gradient", "has_eval_weights", "has_plain",
                "has_buckets", "needs_steps", "local_steps")] + [
                    ("min", c_uint64), ("lr", c_double), ("codec", c_char * 256),
                    ("back", c_char * 256), ("spec", c_char * 2048)]


class MethodEntry(ctypes.Structure):
    """terse_method_entry"""
    _fields_ = [("name", c_char_p), ("value", c_char * 256), ("number", c_double),
                ("is_given", c_uint32), ("is_stage", c_uint32)]


class MethodOptions(ctypes.Structure):
    """terse_method_options"""
    _fields_ = [("size", c_size_t), ("seed", c_uint64), ("steps", c_uint64),
                ("threads", c_uint32), ("compare_every", c_uint32), ("measure_every", c_uint32),
                ("skip_finite_check", c_uint32), ("aggregate_out", c_uint32),
                ("private_output", c_uint32), ("worker_weight", c_double)]


class ExchangeReport(ctypes.Structure):
    """terse_exchange_report"""
    _fields_ = [("step", c_uint64), ("bytes_sent", c_uint64), ("bytes_received", c_uint64),
                ("dense_bytes", c_uint64), ("nanoseconds", c_uint64 * len(STAGES)),
                ("skipped", c_int32), ("skipped_by", c_int32)]


class MethodReport(ctypes.Structure):
    """terse_method_report"""
    _fields_ = [("exchange", ExchangeReport), ("step", c_uint64), ("lr", c_double),
                ("bits", c_double), ("residual_norm", c_double), ("compression_error", c_double),
                ("exchanged", c_uint32), ("capped", c_uint32)]


class StatePart(ctypes.Structure):
    """terse_state"""
    _fields_ = [("name", c_char_p), ("bytes", c_void_p), ("len", c_size_t), ("kind", c_int32),
                ("floats", c_uint32)]


class Alltoallv(ctypes.Structure):
    """terse_alltoallv"""
    _fields_ = [("send_at", ctypes.POINTER(c_void_p)), ("send_len", ctypes.POINTER(c_size_t)),
                ("recv_at", ctypes.POINTER(c_void_p)), ("recv_len", ctypes.POINTER(c_size_t))]


POST = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint32, ctypes.POINTER(Alltoallv),
                        ctypes.POINTER(c_int32))
TEST = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint32, ctypes.POINTER(c_int), ctypes.POINTER(c_int32))
WAIT = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint32, c_uint64, ctypes.POINTER(c_int32))
LEAVE = ctypes.CFUNCTYPE(None, c_void_p)


class GroupOps(ctypes.Structure):
    """terse_group_ops"""
    _fields_ = [("size", c_size_t), ("post", POST), ("test", TEST), ("wait", WAIT),
                ("abandon", LEAVE), ("destroy", LEAVE), ("explain", EXPLAIN)]


_P = ctypes.POINTER(c_void_p)
_FAULT = ctypes.POINTER(Fault)
_METHOD = (c_char_p, c_void_p, c_void_p, c_void_p, ctypes.POINTER(MethodOptions), _P, _FAULT)
# name: (result, arguments)
_FUNCTIONS = {
    "version": (c_char_p, ()),
    "build_options": (c_char_p, ()),
    "status_text": (c_char_p, (c_int,)),
    "kernel_set_name": (c_int, (ctypes.POINTER(c_char_p), _FAULT)),
    "kernel_set_list": (c_int, (c_uint32, ctypes.POINTER(KernelSetAbout))),
    "layout_create": (c_int, (_P,)),
    "layout_add": (c_int, (c_void_p, c_char_p, c_uint32, ctypes.POINTER(c_uint64))),
    "layout_destroy": (None, (c_void_p,)),
    "layout_count": (c_uint64, (c_void_p,)),
    "layout_tensors": (c_uint32, (c_void_p,)),
    "layout_tensor": (c_int, (c_void_p, c_uint32, ctypes.POINTER(Tensor))),
    "codec_list": (c_int, (c_uint32, ctypes.POINTER(CodecAbout))),
    "codec_create": (c_int, (c_char_p, c_void_p, c_void_p, _P, _FAULT)),
    "codec_destroy": (None, (c_void_p,)),
    "codec_check": (c_int, (c_char_p, ctypes.POINTER(CodecAbout), _FAULT)),
    "codec_describe": (None, (c_void_p, ctypes.POINTER(CodecAbout))),
    "codec_spec": (c_char_p, (c_void_p,)),
    "codec_payload_bound": (c_size_t, (c_void_p, c_uint32)),
    "codec_section_bound": (c_size_t, (c_void_p, c_uint32, c_uint32)),
    "codec_register": (c_int, (ctypes.POINTER(UserCodec), _FAULT)),
    "codec_failure": (c_char_p, (c_void_p,)),
    "codec_encode": (c_int, (c_void_p, c_uint32, ctypes.POINTER(RngKey), c_void_p, c_void_p,
                             c_size_t, ctypes.POINTER(c_size_t))),
    "codec_decode_add": (c_int, (c_void_p, c_uint32, ctypes.POINTER(RngKey), c_void_p, c_size_t,
                                 c_void_p, _FAULT)),
    "frame_len": (c_size_t, (c_void_p, c_size_t, c_int)),
    "frame_payload_at": (c_size_t, (c_void_p, c_int)),
    "frame_seal": (c_int, (c_void_p, c_uint32, ctypes.POINTER(RngKey), c_void_p, c_size_t, c_int,
                           c_void_p, c_size_t, ctypes.POINTER(c_size_t))),
    "frame_open": (c_int, (c_void_p, c_size_t, ctypes.POINTER(Frame), ctypes.POINTER(c_size_t),
                           _FAULT)),
    "frame_layout": (c_int, (ctypes.POINTER(Frame), _P, _FAULT)),
    "frame_codec": (c_int, (ctypes.POINTER(Frame), c_void_p, c_void_p, _P, _FAULT)),
    "frame_match": (c_int, (ctypes.POINTER(Frame), c_void_p, _FAULT)),
    "group_local": (c_int, (c_uint32, _P)),
    "group_callbacks": (c_int, (ctypes.POINTER(GroupOps), c_void_p, c_uint32, c_uint32, _P)),
    "group_nodes": (c_int, (c_void_p, c_void_p, _P, _FAULT)),
    "group_allreduce_scratch": (c_size_t, (c_void_p, c_size_t)),
    "group_allreduce": (c_int, (c_void_p, c_void_p, c_size_t, c_void_p, _FAULT)),
    "group_set_timeout": (c_int, (c_void_p, c_double)),
    "group_destroy": (None, (c_void_p,)),
    "method_list": (c_int, (c_uint32, ctypes.POINTER(MethodAbout))),
    "method_check": (c_int, (c_char_p, _FAULT)),
    "method_describe": (c_int, (c_char_p, ctypes.POINTER(MethodDescription), _FAULT)),
    "method_entry_at": (c_int, (c_char_p, c_uint32, ctypes.POINTER(MethodEntry), _FAULT)),
    "method_spec_with": (c_int, (c_char_p, c_char_p, c_int, c_char_p, c_size_t, _FAULT)),
    "method_create": (c_int, _METHOD),
    "method_create_all": (c_int, (c_char_p, c_uint32, c_void_p, _P,
                                  ctypes.POINTER(MethodOptions), _P, _FAULT)),
    "method_destroy": (None, (c_void_p,)),
    "method_point": (c_void_p, (c_void_p,)),
    "method_step": (c_int, (c_void_p, c_void_p, ctypes.POINTER(MethodReport), _FAULT)),
    "method_step_all": (c_int, (_P, _P, ctypes.POINTER(MethodReport), _FAULT)),
    "method_step_tensors": (c_int, (c_void_p, ctypes.POINTER(c_void_p),
                                    ctypes.POINTER(MethodReport), _FAULT)),
    "method_post": (c_int, (c_void_p, c_void_p, c_uint32, c_uint32, _FAULT)),
    "method_post_tensors": (c_int, (c_void_p, ctypes.POINTER(c_void_p), c_uint32, c_uint32,
                                    _FAULT)),
    "method_finish": (c_int, (c_void_p, c_void_p, ctypes.POINTER(MethodReport), _FAULT)),
    "method_eval_weights": (c_int, (c_void_p, c_void_p, _FAULT)),
    "method_eval_weights_all": (c_int, (_P, c_void_p, _FAULT)),
    "method_spec": (c_char_p, (c_void_p,)),
    "method_settings": (c_char_p, (c_void_p,)),
    "method_set_lr": (c_int, (c_void_p, c_double)),
    "method_steps_done": (c_uint64, (c_void_p,)),
    "method_tensor_bytes": (c_int, (c_void_p, ctypes.POINTER(c_uint64))),
    "method_state": (c_int, (c_void_p, c_uint32, ctypes.POINTER(StatePart))),
    "method_restored": (c_int, (c_void_p, _FAULT)),
}


def candidates() -> Iterator[str]:
    """Files to try, in order: TERSE_LIBRARY alone if it is set; else beside this package, the build
    folder of a source tree, the lib folder that the package was installed into, and the name that
    the system's loader searches for."""
    named = os.environ.get("TERSE_LIBRARY")
    if named:
        yield named
        return
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(here, "libterse.so")
    yield os.path.join(here, "..", "..", "build", "libterse.so")
    above = here
    for _ in range(4):  # PREFIX/lib/python3/dist-packages/terse -> PREFIX/lib, PREFIX/lib/<arch>
        above = os.path.dirname(above)
        for name in sorted(os.listdir(above)) if os.path.isdir(above) else []:
            if name == soname() or name.endswith("-linux-gnu"):
                path = os.path.join(above, name)
                yield path if name.startswith("lib") else os.path.join(path, soname())
    yield soname()


def _open() -> ctypes.CDLL:
    tried: List[str] = []
    for path in candidates():
        if os.sep in path and not os.path.exists(path):
            tried.append(os.path.normpath(path))
            continue
        try:
            return ctypes.CDLL(path)
        except OSError as why:
            tried.append("%s (%s)" % (path, why))
    raise LibraryMissing(
        "cannot load libterse. Build it with `make` in the source tree, install it with "
        "`make install` or with the package (`pip install ./python`), or name the file in "
        "TERSE_LIBRARY. Tried:\n  " + "\n  ".join(tried))


def _check_version(opened: ctypes.CDLL) -> None:
    """Refuses a library of another version than this package's, before any other call."""
    try:
        function = opened.terse_version
    except AttributeError:
        raise LibraryMissing("%s is not libterse: it has no terse_version; name libterse.so in "
                             "TERSE_LIBRARY" % opened._name) from None
    function.restype, function.argtypes = c_char_p, ()
    found, wanted = function().decode("utf-8", "replace"), package_version()
    if compatible(found) != compatible(wanted):
        raise LibraryMissing(
            "%s is libterse %s, but the Python package in %s is terse %s: they must have the same "
            "major and minor version. Build and install both from one source tree (`make "
            "install`), or name a libterse %s in TERSE_LIBRARY." % (
                os.path.normpath(opened._name), found, os.path.dirname(os.path.abspath(__file__)),
                wanted, compatible(wanted)))


class Library:
    """The functions of libterse, without their prefix: lib.method_step is terse_method_step."""

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def __init__(self) -> None:
        opened = _open()
        self.path: str = opened._name
        _check_version(opened)
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = getattr(opened, "terse_" + name)
            except AttributeError:
                raise LibraryMissing("%s has no function terse_%s: it is older than this package; "
                                     "rebuild it with `make`" % (opened._name, name)) from None
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


_library: Optional[Library] = None


def library() -> Library:
    """The library, loaded at the first call."""
    global _library
    if _library is None:
        _library = Library()
    return _library


def error_of(status: int, fault: Optional[Fault] = None) -> Exception:
    """The exception for a status other than OK, with the text of the fault, else of the status."""
    text = fault.text.decode("utf-8", "replace") if fault is not None else ""
    text = text or library().status_text(status).decode()
    rank = fault.rank if fault is not None else -1
    if status in (BAD_ARGUMENT, BAD_SPEC, TOO_SMALL):
        return ValueError(text)
    if status in (NOT_FINITE, OUT_OF_RANGE):
        return NotFiniteError(text)
    if status in (BAD_FRAME, BAD_VERSION, BAD_CHECKSUM):
        return FrameError(text)
    if status == MISMATCH:
        return MismatchError(text, rank)
    if status in (TIMEOUT, PEER_LOST):
        if rank >= 0 and "rank %d" % rank not in text:
            text = "rank %d: %s" % (rank, text)
        return GroupError(text, rank)
    if status == NO_MEMORY:
        return MemoryError(text)
    return TerseError(text)


class _Raised(threading.local):
    """What a codec in Python raised in the call of the library that this thread is in."""
    error: Optional[BaseException] = None


raised = _Raised()


def check(status: int, fault: Optional[Fault] = None) -> None:
    """Raises the exception for a status other than OK. Its cause is what a codec in Python raised."""
    cause, raised.error = raised.error, None
    if status != OK:
        raise error_of(status, fault) from cause


class Layout:
    """A terse_layout of (name, shape) pairs, destroyed with this object."""

    def __init__(self, tensors) -> None:
        self.handle = c_void_p()
        lib = library()
        check(lib.layout_create(ctypes.byref(self.handle)))
        for name, shape in tensors:
            dims = (c_uint64 * max(1, len(shape)))(*shape)
            check(lib.layout_add(self.handle, name.encode(), len(shape), dims))

    def __del__(self) -> None:
        if getattr(self, "handle", None) and _library is not None:
            _library.layout_destroy(self.handle)
            self.handle = c_void_p()
