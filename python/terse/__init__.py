"""terse: gradient compression for data-parallel training.

    frame = terse.encode(x, "topk:keep=0.01")       # a numpy array to a frame ...
    x = terse.decode(frame)                         # ... and back

    import terse.torch                              # DistributedDataParallel: one line
    ddp.register_comm_hook(terse.torch.State("regtopk:keep=0.01"), terse.torch.hook)

    terse.register_codec(Mine)                      # a codec of your own, for every spec
    team = terse.simulate("codec=mine,feedback=residual", workers=16, weights=x)

`python -m terse.info` prints the library in use, its kernel sets, codecs and methods."""

import importlib
from typing import TYPE_CHECKING

from ._library import (FrameError, GroupError, LibraryMissing, MismatchError, NotFiniteError,
                       TerseError, library)

if TYPE_CHECKING:
    from .codec import codecs, decode, encode, inspect
    from .simulation import Simulation, simulate
    from .user_codec import Key, register_codec

__all__ = ["encode", "decode", "inspect", "codecs", "register_codec", "Key", "simulate",
           "Simulation", "version", "TerseError", "FrameError", "GroupError", "MismatchError",
           "NotFiniteError", "LibraryMissing"]

_MODULES = {"encode": "codec", "decode": "codec", "inspect": "codec", "codecs": "codec",
            "register_codec": "user_codec", "Key": "user_codec",
            "simulate": "simulation", "Simulation": "simulation"}


def version() -> str:
    """The version of the library in use. Major and minor version equal those of this package."""
    return library().version().decode()


def __getattr__(name: str):
    """Imports what needs numpy at first use: the rest does not."""
    if name in _MODULES:
        return getattr(importlib.import_module("." + _MODULES[name], __name__), name)
    raise AttributeError("module 'terse' has no attribute %r" % name)
