"""Seed inputs for the readers of train/: one good file each, and a few that are nearly good."""

import gzip
import json
import struct


def idx(dims, data):
    return bytes([0, 0, 8, len(dims)]) + b"".join(struct.pack(">I", n) for n in dims) + data


def safetensors(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def padded(data):
    return data + bytes(-len(data) % 8)


def checkpoint(settings, blobs):
    out = struct.pack("<8sIIQQ", b"TERSECKP", 1, len(blobs), 7, len(settings)) + padded(settings)
    for name, kind, worker, data in blobs:
        out += struct.pack("<IIQII", kind, worker, len(data), len(name), 0)
        out += padded(name) + padded(data)
    return out + bytes(8)


def npy(descr, shape, data):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n" % (descr, shape)
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + data


def npy_pair(x, y):
    return struct.pack("<H", len(x)) + x + y


TENSORS = {
    "__metadata__": {"format": "pt"},
    "w": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
    "none": {"dtype": "F32", "shape": [0], "data_offsets": [8, 8]},
    "b": {"dtype": "U8", "shape": [3], "data_offsets": [8, 11]},
}

CSV = [b'"4","A title","and, a ""text"""\r\n1,bare,\n', b"1,a,b", b'"2","x\ny","z"\n2,,\n']
LIBSVM = [b"-1 3:1 11:0.5 \n+1 1:-2e-1 # remark\n", b"2.5\n", b"1 1:1\n\n0 2:0\n"]
LINES = [b'{"step":1,"loss":0.5}\n{"step":2,"list":[1,{"a":null}]}\n', b'{"a":"\\u00e9"}\n{"st']


def corpus():
    found = {
        "read_idx": [idx((2, 1, 3), b"abcdef"), idx((3,), b"\0\1\2"), idx((2, 2, 2), b"short")],
        "read_gzip": [gzip.compress(b"terse" * 100, mtime=0),
                      gzip.compress(b"a", mtime=0) + gzip.compress(b"b", mtime=0)],
        "read_cifar": [b"\3" + bytes(3072), b"\3\4" + bytes(3072), b"\12" + bytes(3072)],
        "read_csv": CSV,
        "read_libsvm": LIBSVM,
        "read_npy": [npy_pair(npy("|u1", "(2, 2, 3)", bytes(12)), npy("<i8", "(2,)", bytes(16))),
                     npy_pair(npy("<f4", "(3, 2)", bytes(24)), npy("<f4", "(3, 1)", bytes(12))),
                     npy_pair(npy("<f4", "(2, 5, 6, 3)", bytes(720)), npy("|u1", "(2,)", b"12"))],
        "read_lines": LINES,
        "read_safetensors": [safetensors(TENSORS, bytes(11)), safetensors(b"{}", b""),
                             safetensors(TENSORS, bytes(12))],
        "read_checkpoint": [checkpoint(b"{}", []),
                            checkpoint(b'{"seed":"0x1"}', [(b"memory", 1, 0, b"12345678"),
                                                           (b"memory", 1, 1, b"123"),
                                                           (b"weights", 2, 0, b"")])],
    }
    return {target: [("seed-%02d" % i, data) for i, data in enumerate(inputs)]
            for target, inputs in found.items()}
