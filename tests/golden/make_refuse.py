#!/usr/bin/env python3
"""make_refuse.py FRAMES OUT: writes frames that must be refused, each named for its one defect.

They are golden frames with one change. Checksum and layout hash are recomputed (unless they are the
defect), so that only the intended rule is broken. refuse/RULES.tsv records the expected faults
(taken from a run, then checked against the names): file, status, offset and rule of the library,
then offset and rule of the second decoder where they differ.
"""

import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "docs" / "decoder"))
from terse_decode import xxh64  # noqa: E402

NAN, INFINITY = struct.pack("<f", float("nan")), struct.pack("<f", float("inf"))


def u64(value):
    return struct.pack("<Q", value)


def f64(value):
    return struct.pack("<d", value)


class Draft:
    """The parts of a golden frame: header, layout, payload."""

    def __init__(self, data):
        layout_len = struct.unpack_from("<I", data, 60)[0]
        self.header = bytearray(data[:80])
        self.layout = bytearray(data[80 : 80 + layout_len])
        self.payload = bytearray(data[80 + layout_len : -8])

    def set_header(self, at, value):
        self.header[at : at + len(value)] = value
        return self

    def set_layout(self, layout):
        self.layout = bytearray(layout)
        return self.set_header(60, struct.pack("<I", len(layout))).set_header(8, u64(xxh64(layout)))

    def set_payload(self, at, value):
        self.payload[at : at + len(value)] = value
        return self

    def resize_payload(self, length):
        self.payload = (self.payload + bytes(length))[:length]
        return self.set_header(48, u64(length))

    def flip_payload(self, at, mask):
        self.payload[at] ^= mask
        return self

    def seal(self):
        body = bytes(self.header + self.layout + self.payload)
        return body + u64(xxh64(body))


def bits(string):
    """'1101' with the first bit lowest."""
    value = int(string[::-1], 2)
    return value.to_bytes((len(string) + 7) // 8, "little")


def index_stream(entries, extra_ones=(), padding=""):
    """An index stream of the tensor conv.weight (n = 108, k = 10): 23 bits, then 3 for each index.

    `entries` are (upper part, lower part) in the order written.
    """
    low = "".join(f"{lower:03b}"[::-1] for _, lower in entries)
    ones = {upper + i for i, (upper, _) in enumerate(entries)} | set(extra_ones)
    high = "".join("1" if i in ones else "0" for i in range(23))
    return bits(high + low + padding)


SOUND = [(0, 1), (0, 4), (2, 2), (4, 0), (5, 5), (6, 6), (8, 7), (10, 1), (12, 3), (13, 3)]


def replaced(entries, number, entry):
    return entries[:number] + [entry] + entries[number + 1 :]


def tensor(name, *dims):
    return bytes([len(name)]) + name + bytes([len(dims)]) + b"".join(u64(d) for d in dims)


def layout(*tensors, count=None):
    return struct.pack("<I", len(tensors) if count is None else count) + b"".join(tensors)


def defects(golden):
    """Yields (name, bytes). `golden` gives a fresh draft of a golden frame."""
    whole = golden("f32").seal()
    yield "empty-file", b""
    yield "truncated-header", whole[:60]
    yield "truncated-payload", whole[:-100]
    yield "truncated-checksum", whole[:-1]
    yield "trailing-bytes", whole + b"\0"
    yield "bit-flip", whole[:300] + bytes([whole[300] ^ 1]) + whole[301:]
    yield "checksum-flip", whole[:-1] + bytes([whole[-1] ^ 0x80])

    yield "wrong-magic", golden("f32").set_header(0, b"TRSF").seal()
    yield "version-2", golden("f32").set_header(4, b"\2").seal()
    yield "version-0", golden("f32").set_header(4, b"\0").seal()
    yield "unknown-flag", golden("f32").set_header(7, b"\3").seal()
    yield "layout-without-flag", golden("f32").set_header(7, b"\0").seal()
    yield "flag-without-layout", golden("without-layout").set_header(7, b"\1").seal()
    yield "oversized-payload-len", golden("f32").set_header(48, u64(2**64 - 100)).seal()
    yield "payload-len-past-end", golden("f32").set_header(48, u64(905)).seal()
    yield "oversized-layout-len", golden("f32").set_header(60, b"\xff\xff\xff\xff").seal()
    yield "codec-0", golden("f32").set_header(5, b"\0").seal()
    yield "unknown-codec", golden("f32").set_header(5, b"\x7f").seal()
    yield "private-codec", golden("f32").set_header(5, b"\xff").seal()
    yield "unknown-pass", golden("f32").set_header(6, b"\1").seal()
    yield "worker-too-large", golden("f32").set_header(56, b"\xff\xff\xff\0").seal()
    yield "first-too-large", golden("f32").set_header(32, u64(2**40 + 1)).seal()
    yield "count-too-large", golden("f32").set_header(40, u64(2**64 - 1)).seal()
    yield "count-past-layout", golden("f32").set_header(40, u64(227)).seal()
    yield "range-of-a-part", golden("f32").set_header(40, u64(225)).seal()
    yield "first-without-layout", golden("without-layout").set_header(32, u64(5)).seal()

    yield "layout-hash-mismatch", golden("f32").set_header(8, b"\0\0").seal()
    yield "too-many-tensors", golden("f32").set_layout(layout(count=2**20 + 1)).seal()
    yield "tensors-missing", golden("f32").set_layout(layout(tensor(b"w", 2), count=2)).seal()
    yield "layout-truncated", golden("f32").set_layout(layout(tensor(b"w", 226))[:-1]).seal()
    yield "layout-truncated-name", golden("f32").set_layout(layout(b"\5abc")).seal()
    yield "layout-truncated-count", golden("f32").set_layout(b"\0\0\0").seal()
    yield "layout-trailing-bytes", golden("f32").set_layout(
        layout(tensor(b"w", 226)) + b"\0").seal()
    yield "dims-overflow", golden("f32").set_layout(layout(tensor(b"w", 2**33, 2**33))).seal()
    yield "dims-overflow-hidden", golden("f32").set_layout(layout(tensor(b"w", 2**40, 0))).seal()
    yield "tensor-too-large", golden("f32").set_layout(layout(tensor(b"w", 2**32))).seal()
    yield "elements-too-many", golden("f32").set_layout(
        layout(*[tensor(b"", 2**31)] * 512, tensor(b"", 1))).seal()
    yield "dims-9", golden("f32").set_layout(layout(tensor(b"w", *[1] * 9))).seal()
    yield "name-control-character", golden("f32").set_layout(layout(tensor(b"a\tb", 226))).seal()
    yield "name-delete-character", golden("f32").set_layout(layout(tensor(b"\x7f", 226))).seal()

    yield "option-out-of-range", golden("block").set_header(64, f64(0.5)).seal()
    yield "option-nan", golden("topk").set_header(64, f64(float("nan"))).seal()
    yield "option-minus-zero", golden("nearest").set_header(65, f64(-0.0)).seal()
    yield "option-no-such-choice", golden("sign").set_header(64, b"\3").seal()
    yield "options-nonzero-padding", golden("block").set_header(72, b"\1").seal()
    yield "options-of-none", golden("f32").set_header(79, b"\1").seal()
    yield "payload-too-short", golden("f32").resize_payload(900).seal()
    yield "payload-too-long", golden("f32").resize_payload(908).seal()

    yield "value-infinite", golden("f32").set_payload(0, INFINITY).seal()
    yield "value-nan", golden("f32").set_payload(108 * 4, NAN).seal()
    yield "f16-value-infinite", golden("f16").set_payload(2, b"\x00\xfc").seal()
    yield "bf16-value-nan", golden("bf16").set_payload(214, b"\xc1\x7f").seal()
    yield "padding-bits", golden("sign").flip_payload(13, 0x80).seal()
    yield "sign-keep-padding", golden("sign-keep").flip_payload(27, 0x80).seal()
    yield "sign-keep-minus-zero", golden("sign-keep").set_payload(0, b"\x02").seal()
    yield "scale-nan", golden("scaled-sign").set_payload(0, NAN).seal()
    yield "scale-infinite", golden("scaled-sign").set_payload(0, INFINITY).seal()
    yield "scale-negative", golden("scaled-sign").set_payload(0, struct.pack("<f", -1)).seal()
    yield "scale-minus-zero", golden("scaled-sign").set_payload(0, struct.pack("<f", -0.0)).seal()
    yield "scaled-sign-padding", golden("scaled-sign").flip_payload(17, 0x10).seal()

    def topk(*args, **kwargs):
        return golden("topk").set_payload(0, index_stream(*args, **kwargs)).seal()

    yield "topk-unsorted", topk(replaced(SOUND, 0, (0, 6)))
    yield "topk-repeated-index", topk(replaced(SOUND, 1, (0, 1)))
    yield "topk-index-past-end", topk(replaced(SOUND, 9, (13, 4)))
    yield "topk-too-many-ones", topk(SOUND, extra_ones=[2])
    yield "topk-too-few-ones", topk(replaced(SOUND, 9, (11, 3)))
    yield "topk-padding", topk(SOUND, padding="01")
    yield "topk-value-nan", golden("topk").set_payload(7, NAN).seal()
    yield "topk-f16-value-infinite", golden("topk-f16").set_payload(25, b"\x00\x7c").seal()
    yield "block-value-nan", golden("block").set_payload(4, NAN).seal()

    # log with k = 2 uses every code; with k = 1 a magnitude of 3 is invalid
    yield "code-out-of-grid", golden("log").set_header(64, b"\1").seal()
    yield "negative-zero-code", golden("log").set_payload(4, b"\4").seal()
    yield "log-padding", golden("log").flip_payload(44, 0x80).seal()
    yield "log-scale-nan", golden("log").set_payload(0, NAN).seal()
    yield "bits-17", golden("uniform").set_payload(0, b"\x11").seal()
    yield "bits-1", golden("uniform").set_payload(0, b"\1").seal()
    yield "norm-overflows", golden("uniform-16-bits").set_payload(1, b"\xff\xff\x7f\x7f").seal()
    yield "norm-nan", golden("uniform").set_payload(1, NAN).seal()
    yield "uniform-negative-zero", golden("uniform").set_payload(5, b"\x08").seal()
    yield "uniform-codes-missing", golden("uniform").resize_payload(100).seal()
    yield "uniform-header-missing", golden("uniform").resize_payload(3).seal()
    yield "uniform-too-long", golden("uniform").resize_payload(999).seal()
    yield "uniform-bytes-left", golden("uniform-zeros").resize_payload(31).seal()
    yield "uniform-padding", golden("uniform-ternary").flip_payload(37, 0xC0).seal()
    yield "nearest-out-of-grid", golden("nearest").set_payload(4, b"\x41").seal()
    yield "nearest-scale-negative", golden("nearest").set_payload(3, b"\xbf").seal()
    yield "natural-exponent-255", golden("natural").set_payload(0, b"\xff").seal()
    yield "natural-negative-zero", golden("natural").set_payload(0, b"\0\1").seal()
    yield "low-rank-value-infinite", golden("low-rank-0").set_payload(8, INFINITY).seal()


def main():
    frames, out = (pathlib.Path(path) for path in sys.argv[1:3])
    names = set()
    for name, data in defects(lambda name: Draft((frames / f"{name}.terse").read_bytes())):
        assert name not in names, name
        names.add(name)
        (out / f"{name}.terse").write_bytes(data)
    print(f"{len(names)} frames")


if __name__ == "__main__":
    main()
