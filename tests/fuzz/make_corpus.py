#!/usr/bin/env python3
"""make_corpus.py OUT: writes the seed inputs of the fuzz targets into OUT/TARGET/.

The frames are the golden ones. The others follow tests/fuzz/subject.h: every codec, with
parameters, on tensors of several shapes.
"""

import pathlib
import struct
import sys

import corpus_train
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))
import make_runs  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"

# number in the registry, name, parameter bytes as in a frame
CODECS = [
    (0, "f32", b""),
    (1, "f16", b""),
    (2, "bf16", b""),
    (3, "sign", b"\1"),
    (4, "scaled-sign", b""),
    (5, "topk", struct.pack("<dB", 0.05, 0)),
    (5, "topk-f16", struct.pack("<dB", 0.3, 1)),
    (6, "block", struct.pack("<d", 7.5)),
    (7, "log", b"\2"),
    (7, "log-k0", b"\0"),
    (8, "uniform", b"\4\0"),
    (8, "uniform-norm-2", b"\x09\1"),
    (9, "nearest", struct.pack("<Bd", 6, 0)),
    (9, "nearest-range", struct.pack("<Bd", 3, 0.5)),
    (10, "natural", b""),
    (11, "low-rank", b"\2"),
]

SHAPES = [(17, 19), (1, 1)]


def head(number, options, rows, cols, raw):
    return (bytes([number, rows, cols, 4 | raw]) + struct.pack("<II", 0x5EED, 3)
            + options.ljust(16, b"\0"))


def floats(count):
    values = [((i * 2654435761 >> 7) % 2001 - 1000) / 512 for i in range(count)]
    values[::11] = [0.0] * len(values[::11])
    return struct.pack(f"<{count}f", *values)


def subjects():
    for number, name, options in CODECS:
        for rows, cols in SHAPES:
            yield f"{name}-{rows}x{cols}", head(number, options, rows, cols, 0) + floats(37)
        yield f"{name}-not-finite", (head(number, options, 5, 3, 1) + floats(9)
                                     + struct.pack("<f", float("nan")))


METHODS = ["def:ratio=64,lambda=0.3", "qadam:kg=2,kx=0,every=1", "regtopk:form=cur,mu=2,values=f16",
           "dqsgd:bits=rms,plain=*b|c", "signum:tie=plus,zero=plus",
           "direction=adam,feedback=residual,codec=topk:keep=0.01,combine=allgather"]
SPECS = [
    "f32", "topk", "topk:keep=0.01,values=f16", "topk:keep=1e-3", "block:ratio=64", "log:k=14",
    "uniform:bits=4,norm=2", "nearest:range=0.5,k=3", "low-rank:rank=32", "sign:zero=coin",
    "scaled-sign:zero=plus", "topk:", "topk:keep", "topk:keep=", "topk:keep=2", "topk:keep=nan",
    "topk:kepe=1", "tpok", "", ":", "log:k=2.5", "log:k=2,k=2", "uniform:bits=4,", "natural:x=1",
]


def main():
    out = pathlib.Path(sys.argv[1])
    corpus = {"frame_open": [(path.name, path.read_bytes())
                             for folder in ("frames", "refuse")
                             for path in sorted((GOLDEN / folder).glob("*.terse"))],
              "metrics": list(make_runs.seeds()),
              "spec": [(f"spec-{i:02}", spec.encode()) for i, spec in enumerate(SPECS + METHODS)]}
    corpus.update(corpus_train.corpus())
    for target in ("decode", "round_trip", "sets"):
        corpus[target] = list(subjects())
    for target, inputs in corpus.items():
        folder = out / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in inputs:
            (folder / name).write_bytes(data)
        print(f"{target}: {len(inputs)} inputs")


if __name__ == "__main__":
    main()
