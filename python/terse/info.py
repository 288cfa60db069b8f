"""Prints the library, kernel set and packages in use: `python -m terse.info`."""

import ctypes
import sys
from typing import List

from ._library import CodecAbout, Fault, KernelSetAbout, MethodAbout, TerseError, check, library


def _torch_line() -> str:
    try:
        import torch
    except ImportError:
        return "not installed (Debian: python3-torch); terse.torch needs it"
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        return "%s, without gloo: terse.torch needs it" % torch.__version__
    return "%s, gloo" % torch.__version__


def _numpy_line() -> str:
    try:
        import numpy
    except ImportError:
        return "not installed; terse.encode and terse.decode need it"
    return numpy.__version__


def _names(list_function, about) -> str:
    names: List[str] = []
    while list_function(len(names), ctypes.byref(about)) == 0:
        names.append(about.name.decode())
    return ", ".join(names)


def lines() -> List[str]:
    """The report, line by line."""
    lib = library()
    name, fault, about = ctypes.c_char_p(), Fault(), KernelSetAbout()
    check(lib.kernel_set_name(ctypes.byref(name), ctypes.byref(fault)), fault)
    sets: List[str] = []
    while lib.kernel_set_list(len(sets), ctypes.byref(about)) == 0:
        sets.append("%s%s" % (about.name.decode(), "" if about.supported else " (not on this CPU)"))
    return ["library   %s" % lib.path,
            "version   %s (%s)" % (lib.version().decode(), lib.build_options().decode()),
            "kernels   %s, of %s" % ((name.value or b"").decode(), ", ".join(sets)),
            "codecs    %s" % _names(lib.codec_list, CodecAbout()),
            "methods   %s" % _names(lib.method_list, MethodAbout()),
            "python    %s" % sys.version.split()[0],
            "numpy     %s" % _numpy_line(),
            "torch     %s" % _torch_line()]


def main() -> int:
    try:
        print("\n".join(lines()))
    except TerseError as why:
        print("terse: %s" % why, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
