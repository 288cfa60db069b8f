"""A plugin of the command: a file whose codecs are registered with the library of the command."""

import ctypes
import importlib.util
import os
import sys
import traceback

from . import user_codec
from ._library import Fault, UserCodec


def _run(path: str, register: int) -> None:
    user_codec.into = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(UserCodec),
                                       ctypes.POINTER(Fault))(register)
    before = len(user_codec._registered)
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if len(user_codec._registered) == before:
        raise ValueError("it registers no codec; terse.register_codec does")


def load(path: bytes, register: int, text: int, cap: int) -> None:
    """Runs the file; what it raises is printed, and its last line written to `text`."""
    sys.dont_write_bytecode = True
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # nobody flushes it at the end
    try:
        _run(os.fsdecode(path), register)
    except BaseException as error:  # SystemExit, too: the command ends itself
        traceback.print_exc()
        line = "%s: %s" % (type(error).__name__, str(error).replace("\n", " "))
        ctypes.memmove(text, line.encode()[:cap - 1] + b"\0", min(len(line.encode()), cap - 1) + 1)
