"""Codecs of your own: a class whose `encode` and `decode` work on numpy arrays."""

import ctypes
import threading
import traceback
import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar

import numpy

from ._library import (BAD_ARGUMENT, BAD_FRAME, BOUND, DECODE_ADD, ENCODE, EXPLAIN, NOT_FINITE, OK,
                       Fault, Option, UserCodec, check, library, raised)

TRAITS = {"selecting": 1, "contractive": 2, "unbiased": 4, "random": 16, "fixed-length": 32}
FIRST_WIRE_ID, WIRE_IDS = 192, 64
HEADER = 4  # bytes before a section whose length varies: its length, little-endian
REAL, INTEGER, CHOICE = 0, 1, 2  # terse_option_kind


class Key(NamedTuple):
    """What the random numbers of a call depend on."""
    seed: int
    step: int
    worker: int
    tensor: int

    def shared(self) -> numpy.random.Generator:
        """A generator that gives all workers the same numbers in this step and tensor."""
        return self._generator(0)

    def own(self) -> numpy.random.Generator:
        """A generator whose numbers are those of this worker. A decoder gets the sender's."""
        return self._generator(self.worker + 1)

    def _generator(self, who: int) -> numpy.random.Generator:
        state = numpy.random.SeedSequence([self.seed, self.step, self.tensor, who])
        return numpy.random.Generator(numpy.random.Philox(state))


def _floats(address: int, count: int, writeable: bool) -> numpy.ndarray:
    """The library's buffer as an array, for the time of a call."""
    array = numpy.ctypeslib.as_array((ctypes.c_float * count).from_address(address))
    array.flags.writeable = writeable
    return array


def _bytes(address: Optional[int], count: int) -> numpy.ndarray:
    if not address or count == 0:
        return numpy.empty(0, numpy.uint8)
    array = numpy.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address))
    array.flags.writeable = False
    return array


def _option(name: str, value: Any) -> Tuple[Option, Callable[[float], Any]]:
    """An option, and what makes the class's value of its number."""
    text, help_text = name.encode(), b"of the codec's class"
    if all(isinstance(word, str) for word in value):
        words = tuple(value)
        option = Option(text, "|".join(words).encode(), words[0].encode(), help_text, CHOICE, 0,
                        len(words) - 1)
        return option, lambda number: words[int(number)]
    initial, low, high = value
    if all(isinstance(number, int) for number in value):
        if low < 0 or high > 255:
            raise ValueError("option %s: whole numbers are 0..255, not %d..%d; write %d.0 for a "
                             "real one" % (name, low, high, initial))
        return Option(text, b"%d..%d" % (low, high), b"%d" % initial, help_text, INTEGER, low,
                      high), int
    return Option(text, ("%r..%r" % (low, high)).encode(), repr(initial).encode(), help_text, REAL,
                  low, high), float


_texts: Dict[int, Any] = {}


def _why() -> Any:
    """The text of this thread's last failure; C reads it where it lies. A threading.local would be
    gone: a thread that Python did not start is a new one to it in every call."""
    return _texts.setdefault(threading.get_ident(), ctypes.create_string_buffer(200))


class _Adapter:
    """The functions of terse_user_codec over the methods of a class."""

    def __init__(self, cls: Type, name: str, traits: int, print_errors: bool) -> None:
        self.cls, self.name = cls, name
        self.fixed = bool(traits & TRAITS["fixed-length"])
        self.options: List[Tuple[str, Callable[[float], Any]]] = []
        self.instances: Dict[Tuple[float, ...], Any] = {}
        self.print_errors = print_errors  # in the command nobody raises them

    def instance(self, call: Any) -> Any:
        """One object for each set of options: its attributes are their values."""
        values = tuple(call.option[i] for i in range(len(self.options)))
        found = self.instances.get(values)
        if found is None:
            make: Any = self.cls.__new__
            found = make(self.cls)
            for (name, convert), value in zip(self.options, values):
                setattr(found, name, convert(value))
            if self.cls.__init__ is not object.__init__:
                found.__init__()
            self.instances[values] = found
        return found

    def failed(self, status: int, what: str, error: BaseException) -> int:
        """Keeps the exception for `check`, and its text for the fault."""
        if self.print_errors and what != "decode":  # which raises on damaged payloads, too
            traceback.print_exception(type(error), error, error.__traceback__)
            self.print_errors = False  # the first one tells
        raised.error = error
        text = "%s raised %s: %s" % (what, type(error).__name__, error)
        why = _why()
        why.value = text.replace("\n", " ").encode()[:len(why) - 1]
        return status

    def limit(self, codec: Any, count: int) -> int:
        """The bytes of the class's own part of a section."""
        most = codec.bound(count)
        if not isinstance(most, (int, numpy.integer)) or most < 0:
            raise TypeError("bound(%d) is %r, not a number of bytes" % (count, most))
        return int(most)

    def bound(self, call: Any) -> int:
        try:
            most = self.limit(self.instance(call.contents), call.contents.count)
            return most if self.fixed else most + HEADER
        except BaseException as error:  # no exception may pass through C
            self.failed(BAD_ARGUMENT, "bound", error)
            return 0

    def encode(self, call: Any, source: int, section: int, length: Any) -> int:
        try:
            here = call.contents
            codec, key = self.instance(here), here.key.contents
            x = _floats(source, here.count, writeable=False)
            if not numpy.isfinite(x).all():
                return NOT_FINITE
            made = codec.encode(x, Key(key.seed, key.step, key.worker, here.tensor))
            data = made if isinstance(made, bytes) else numpy.ascontiguousarray(made).tobytes()
            most = self.limit(codec, here.count)
            if len(data) > most or (self.fixed and len(data) != most):
                raise ValueError("encode returned %d bytes for %d elements; bound() is %s%d" % (
                    len(data), here.count, "exactly " if self.fixed else "", most))
            if not self.fixed:
                data = len(data).to_bytes(HEADER, "little") + data
            ctypes.memmove(section, data, len(data))
            length[0] = len(data)
            return OK
        except BaseException as error:
            return self.failed(BAD_ARGUMENT, "encode", error)

    def payload(self, codec: Any, count: int, section: int, length: int) -> Tuple[int, Any]:
        """The bytes of the section, and the class's own part of them. ValueError: cut short."""
        most = self.limit(codec, count)
        data = _bytes(section, length)
        if self.fixed:
            if length < most:
                raise ValueError("the section has %d bytes, not %d" % (length, most))
            return most, data[:most]
        size = int.from_bytes(data[:HEADER].tobytes(), "little")
        if length < HEADER or size > most or size > length - HEADER:
            raise ValueError("the section of %d bytes is said to have %d, of at most %d" % (
                max(0, length - HEADER), size, most))
        return HEADER + size, data[HEADER:HEADER + size]

    def decode_add(self, call: Any, section: int, length: int, used: Any, out: int) -> int:
        try:
            here = call.contents
            codec, key = self.instance(here), here.key.contents
            size, data = self.payload(codec, here.count, section, length)
            made = codec.decode(data, here.count, Key(key.seed, key.step, key.worker, here.tensor))
            values = numpy.asarray(made, dtype=numpy.float32).reshape(-1)
            if values.size != here.count:
                raise ValueError("decode returned %d values, not %d" % (values.size, here.count))
            if not numpy.isfinite(values).all():
                raise ValueError("decode returned values that are not finite")
            target = _floats(out, here.count, writeable=True)
            target += values
            used[0] = size
            return OK
        except BaseException as error:
            return self.failed(BAD_FRAME, "decode", error)

    def explain(self, _context: Any) -> int:
        return ctypes.addressof(_why())


def _traits(names: Sequence[str]) -> int:
    bits = 0
    for name in names:
        if name not in TRAITS:
            raise ValueError("no trait %r; there are %s" % (name, ", ".join(TRAITS)))
        bits |= TRAITS[name]
    return bits


_T = TypeVar("_T", bound=type)
_kept: List[Any] = []  # C holds pointers to these for as long as the process lives
_registered: Dict[str, Tuple[Any, _Adapter]] = {}  # by name: what C was told, and who answers
into: Optional[Callable[..., int]] = None  # terse_codec_register of the command that runs a plugin


def _promises(cls: Type, name: str) -> Tuple[Any, ...]:
    """What C is told of a class, and which class it is."""
    wire_id = getattr(cls, "wire_id", FIRST_WIRE_ID + zlib.crc32(name.encode()) % WIRE_IDS)
    return (wire_id, _traits(getattr(cls, "traits", ())), dict(getattr(cls, "options", {})),
            cls.__module__, cls.__qualname__)


def _register(cls: Type, name: str, promises: Tuple[Any, ...]) -> None:
    wire_id, traits, options = promises[:3]
    adapter = _Adapter(cls, name, traits, print_errors=into is not None)
    made = [_option(key, value) for key, value in options.items()]
    adapter.options = [(option.name.decode(), convert) for option, convert in made]
    table = (Option * max(1, len(made)))(*(option for option, _ in made))
    summary = (cls.__doc__ or "a codec in Python").strip().split("\n")[0].rstrip(".")
    codec = UserCodec(ctypes.sizeof(UserCodec), name.encode(), summary.encode(), wire_id, traits,
                      table, len(made), None, BOUND(adapter.bound), ENCODE(adapter.encode),
                      DECODE_ADD(adapter.decode_add), explain=EXPLAIN(adapter.explain))
    fault = Fault()
    register = into or library().codec_register
    check(register(ctypes.byref(codec), ctypes.byref(fault)), fault)
    _kept.append((made, table, codec))
    _registered[name] = promises, adapter


def register_codec(cls: _T) -> _T:
    """Registers a codec for as long as the process; also as a decorator. From then on every spec can
    name it: "mine:p=2", "codec=mine:p=2,feedback=residual". The class has

        name      in specs; default the class's name in lower case
        options   a dict of name: (default, low, high), or (default, other, ...) of words; their
                  values are attributes of the object
        traits    a set of "selecting", "contractive", "unbiased", "random", "fixed-length"
        wire_id   192..255, the same on all ranks; default a number made of the name
        bound(self, n)                 the most bytes for n elements; all of them with fixed-length
        encode(self, x, key)           x: n floats, read-only and only for the call; returns bytes
                                       or an array
        decode(self, payload, n, key)  returns n floats; payload: an array of uint8, untrusted

    `key` is a Key. One object serves all workers and tensors: it may not remember a call. An
    exception in `encode` ends the step; one in `decode` refuses the payload. The same class may be
    registered again, as a notebook does, while name, options and traits stay. ValueError: the name
    or wire id is taken, or a member is out of range."""
    name = getattr(cls, "name", cls.__name__.lower())
    for needed in ("bound", "encode", "decode"):
        if not callable(getattr(cls, needed, None)):
            raise TypeError("codec %s has no function %s" % (name, needed))
    promises = _promises(cls, name)
    known, adapter = _registered.get(name, (None, None))
    if adapter is not None and known == promises:
        adapter.cls, adapter.instances = cls, {}
    else:
        _register(cls, name, promises)
    return cls


__all__ = ["Key", "register_codec"]
