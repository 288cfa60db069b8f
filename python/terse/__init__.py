"""terse: gradient compression for data-parallel training.

    frame = terse.encode(x, "topk:keep=0.01")       # a numpy array to a frame ...
    x = terse.decode(frame)                         # ... and back

    import terse.torch                              # DistributedDataParallel: one line
    ddp.register_comm_hook(terse.torch.State("regtopk:keep=0.01"), terse.torch.hook)

`python -m terse.info` prints the library in use, its kernel sets, codecs and methods."""

from typing import TYPE_CHECKING

from ._library import (FrameError, GroupError, LibraryMissing, MismatchError, NotFiniteError,
                       TerseError, library)

if TYPE_CHECKING:
    from .codec import codecs, decode, encode, inspect

__all__ = ["encode", "decode", "inspect", "codecs", "version", "TerseError", "FrameError",
           "GroupError", "MismatchError", "NotFiniteError", "LibraryMissing"]


def version() -> str:
    """The version of the library in use. Major and minor version equal those of this package."""
    return library().version().decode()


def __getattr__(name: str):
    """Imports the codec functions at first use: they need numpy, the rest does not."""
    if name in ("encode", "decode", "inspect", "codecs"):
        from . import codec
        return getattr(codec, name)
    raise AttributeError("module 'terse' has no attribute %r" % name)
