#!/usr/bin/env python3
"""A second decoder of terse frames, version 1, as docs/wire-format.md specifies them.

It shares no code with the library and needs only Python's standard library. It is slow and meant
to be read: where the two disagree about a frame, one of them or the document is wrong.

    terse_decode.py FILE...              print the fields of the frames
    terse_decode.py FILE... --json       the same and the decoded numbers, as JSON
    terse_decode.py FILE... --npy OUT    the decoded numbers as an NPY vector of float32

This file reads frames and layouts; terse_payload.py reads the payloads of the codecs.

One frame for each FILE. The frames are decoded in the order given and their numbers added, so the
two passes of low-rank are given as two files. A frame that breaks a rule is refused: exit code 1,
and one line with the file, the byte offset and the rule.
"""

import argparse
import json
import math
import struct
import sys

from terse_payload import CODECS, Refused, decode

VERSION = 1
HEADER = struct.Struct("<4sBBBBQQQQQQII16s")  # 80 bytes
CHECKSUM_LEN = 8
FLAG_LAYOUT = 1

MAX_TENSORS = 1 << 20
MAX_DIMS = 8
MAX_TENSOR_COUNT = (1 << 32) - 1
MAX_COUNT = 1 << 40
MAX_PAYLOAD_LEN = 1 << 43
MAX_WORKER = (1 << 24) - 2
OWN_LIMIT = 1 << 24  # elements that this program allocates at most

MASK64 = (1 << 64) - 1


# ---- XXH64 with seed 0 ---------------------------------------------------------------------------

P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotate64(x, by):
    return ((x << by) | (x >> (64 - by))) & MASK64


def xxh64_lane(lane, word):
    return rotate64((lane + word * P2) & MASK64, 31) * P1 & MASK64


def xxh64(data):
    at = 0
    if len(data) >= 32:
        lanes = [(P1 + P2) & MASK64, P2, 0, -P1 & MASK64]
        while at + 32 <= len(data):
            for i, word in enumerate(struct.unpack_from("<4Q", data, at)):
                lanes[i] = xxh64_lane(lanes[i], word)
            at += 32
        h = sum(rotate64(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & MASK64
        for lane in lanes:
            h = ((h ^ xxh64_lane(0, lane)) * P1 + P4) & MASK64
    else:
        h = P5
    h = (h + len(data)) & MASK64
    while at + 8 <= len(data):
        h ^= xxh64_lane(0, struct.unpack_from("<Q", data, at)[0])
        h = (rotate64(h, 27) * P1 + P4) & MASK64
        at += 8
    if at + 4 <= len(data):
        h ^= struct.unpack_from("<I", data, at)[0] * P1 & MASK64
        h = (rotate64(h, 23) * P2 + P3) & MASK64
        at += 4
    for byte in data[at:]:
        h ^= byte * P5 & MASK64
        h = rotate64(h, 11) * P1 & MASK64
    h = (h ^ (h >> 33)) * P2 & MASK64
    h = (h ^ (h >> 29)) * P3 & MASK64
    return h ^ (h >> 32)


# ---- layout --------------------------------------------------------------------------------------


class Tensor:
    def __init__(self, number, name, dims, first):
        self.number = number
        self.name = name
        self.dims = dims
        self.first = first  # element of the flat vector
        self.count = math.prod(dims)
        self.rows = dims[0] if len(dims) >= 2 else self.count
        self.cols = self.count // self.rows if len(dims) >= 2 and self.rows else 1


def describe_vector(count):
    """The description of a layout of one nameless vector."""
    return struct.pack("<IBBQ", 1, 0, 1, count)


def read_layout(data, base):
    """The tensors of a description; `base` is its offset in the frame."""
    if len(data) < 4:
        raise Refused(base + len(data), "layout: ends inside the tensor count")
    (total,) = struct.unpack_from("<I", data)
    if total > MAX_TENSORS:
        raise Refused(base, "layout: more than 2^20 tensors")
    at, first, tensors = 4, 0, []
    for number in range(total):
        name, at = read_name(data, at, base)
        dims, at = read_dims(data, at, base, first)
        tensors.append(Tensor(number, name, dims, first))
        first += tensors[-1].count
    if at < len(data):
        raise Refused(base + at, "layout: bytes after the last tensor")
    return tensors


def read_name(data, at, base):
    if at >= len(data):
        raise Refused(base + at, "layout: ends inside a name")
    end = at + 1 + data[at]
    if end > len(data):
        raise Refused(base + at + 1, "layout: ends inside a name")
    for i in range(at + 1, end):
        if data[i] < 0x20 or data[i] == 0x7F:
            raise Refused(base + i, "layout: control character in a name")
    return data[at + 1 : end].decode("utf-8", "backslashreplace"), end


def read_dims(data, at, base, elements_before):
    if at >= len(data):
        raise Refused(base + at, "layout: ends inside the dimensions")
    ndim = data[at]
    if ndim > MAX_DIMS:
        raise Refused(base + at, "layout: more than 8 dimensions")
    at += 1
    end = at + 8 * ndim
    if end > len(data):
        raise Refused(base + at, "layout: ends inside the dimensions")
    dims = struct.unpack_from(f"<{ndim}Q", data, at)
    if math.prod(d for d in dims if d) > MAX_TENSOR_COUNT:
        raise Refused(base + at, "layout: more than 2^32-1 elements in a tensor")
    if elements_before + math.prod(dims) > MAX_COUNT:
        raise Refused(base + at, "layout: more than 2^40 elements")
    return dims, end


# ---- frame ---------------------------------------------------------------------------------------


class Frame:
    """A frame whose own rules have been checked; the payload's have not."""

    def __init__(self, data):
        self.check_kind(data)
        (_, _, self.codec_id, self.pass_number, flags, self.layout_hash, self.step, self.seed,
         self.first, self.count, payload_len, self.worker, layout_len,
         self.option_bytes) = HEADER.unpack_from(data)
        self.payload_at = HEADER.size + layout_len
        self.check_lens(data, flags, layout_len, payload_len)
        body, checksum = data[:-CHECKSUM_LEN], data[-CHECKSUM_LEN:]
        if struct.unpack("<Q", checksum)[0] != xxh64(body):
            raise Refused(len(body), "checksum: the frame was damaged")
        self.payload = body[self.payload_at :]
        self.check_fields()
        self.has_layout = layout_len > 0
        self.tensors = self.find_layout(body[HEADER.size : self.payload_at])

    @staticmethod
    def check_kind(data):
        if len(data) < HEADER.size + CHECKSUM_LEN:
            raise Refused(len(data), f"header: {len(data)} bytes, no frame is under 88")
        if data[:4] != b"TRSE":
            raise Refused(0, "magic: not TRSE")
        if data[4] != VERSION:
            raise Refused(4, f"version: {data[4]}, this decoder reads 1")
        if data[7] & ~FLAG_LAYOUT:
            raise Refused(7, f"flags: 0x{data[7]:02x}, only bit 0 has a meaning")

    @staticmethod
    def check_lens(data, flags, layout_len, payload_len):
        if (flags & FLAG_LAYOUT) != (layout_len > 0):
            raise Refused(60, f"layout length: {layout_len} bytes, flag bit 0 is {flags & 1}")
        if payload_len > MAX_PAYLOAD_LEN:
            raise Refused(48, "payload length: above 2^43")
        whole = HEADER.size + layout_len + payload_len + CHECKSUM_LEN
        if whole > len(data):
            raise Refused(len(data), f"frame: ends after {len(data)} of {whole} bytes")
        if whole < len(data):
            raise Refused(whole, f"frame: {len(data) - whole} bytes after its end")

    def check_fields(self):
        if self.codec_id == 0:
            raise Refused(5, "codec: 0 is not a codec")
        if self.worker > MAX_WORKER:
            raise Refused(56, "worker: above 2^24-2")
        if self.first > MAX_COUNT:
            raise Refused(32, "first: above 2^40")
        if self.first + self.count > MAX_COUNT:
            raise Refused(40, "count: range ends above 2^40")

    def find_layout(self, description):
        """The included layout; without one, only a nameless vector can be recognised by its hash."""
        if not description:
            vector = describe_vector(self.count)
            if self.count > MAX_TENSOR_COUNT or xxh64(vector) != self.layout_hash:
                raise Refused(7, "layout: not included in this frame")
            tensors = read_layout(vector, 0)
        else:
            if xxh64(description) != self.layout_hash:
                raise Refused(8, "layout hash: not that of the included layout")
            tensors = read_layout(description, HEADER.size)
        total = sum(tensor.count for tensor in tensors)
        if description and self.first + self.count > total:
            raise Refused(40, "count: range ends behind the included layout")
        if self.first != 0 or self.count != total:
            raise Refused(32, f"range: {self.count} elements from {self.first}, "
                              f"expected {total} from 0")
        return tensors


# ---- command -------------------------------------------------------------------------------------


def about(frame):
    return {
        "codec": CODECS[frame.codec_id].name,
        "options": {p.name: v for p, v in zip(CODECS[frame.codec_id].options, frame.option)},
        "pass": frame.pass_number,
        "worker": frame.worker,
        "step": frame.step,
        "seed": frame.seed,
        "layout_hash": f"{frame.layout_hash:016x}",
        "count": frame.count,
        "payload_len": len(frame.payload),
        "tensors": [{"name": t.name, "dims": list(t.dims)} for t in frame.tensors],
    }


def write_npy(path, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}f", *values))


def main():
    parser = argparse.ArgumentParser(description="decode terse frames, slowly and strictly")
    parser.add_argument("files", nargs="+", metavar="FILE")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--npy", metavar="OUT", help="write the numbers as an NPY vector")
    how.add_argument("--json", action="store_true", help="print header and numbers as JSON")
    options = parser.parse_args()

    out, state, hashes, frames = None, {}, set(), []
    for path in options.files:
        with open(path, "rb") as file:
            data = file.read()
        try:
            frame = Frame(data)
            hashes.add(frame.layout_hash)
            if len(hashes) > 1:
                raise Refused(8, "layout: not that of the file before")
            if frame.count > OWN_LIMIT:
                raise Refused(40, "count: more than the 2^24 elements of this decoder")
            if out is None:
                out = [0.0] * frame.count
            decode(frame, out, state)
        except Refused as refusal:
            print(f"{path}: {refusal}", file=sys.stderr)
            return 1
        frames.append(about(frame))
    if options.npy:
        write_npy(options.npy, out)
    elif options.json:
        print(json.dumps({"frames": frames, "values": out}))
    else:
        for frame in frames:
            print(json.dumps(frame, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
