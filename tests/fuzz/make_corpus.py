#!/usr/bin/env python3
"""make_corpus.py OUT: writes the seed inputs of the fuzz targets into OUT/TARGET/.

The frames are the golden ones. The others follow tests/fuzz/subject.h: every codec, with
options, on tensors of several shapes.
"""

import pathlib
import struct
import sys

import corpus_train
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "report"))
import make_runs  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"

CODEC_AT, OPTIONS_AT, HEADER_LEN = 5, 64, 80  # docs/wire-format.md, section 1


def codecs():
    """(number in the registry, name, option bytes) of every codec and options that a golden frame
    has; the registry is in wire order."""
    frames = [(path.stem, path.read_bytes()) for path in sorted((GOLDEN / "frames").glob("*.terse"))]
    ids = sorted({frame[CODEC_AT] for _, frame in frames})
    found = {}
    for name, frame in frames:
        options = frame[OPTIONS_AT:HEADER_LEN].rstrip(b"\0")
        found.setdefault((ids.index(frame[CODEC_AT]), options), name)
    return [(number, name, options) for (number, options), name in found.items()]


SHAPES = [(17, 19), (1, 1)]


def head(number, options, rows, cols, raw):
    return (bytes([number, rows, cols, 4 | raw]) + struct.pack("<II", 0x5EED, 3)
            + options.ljust(16, b"\0"))


def floats(count):
    values = [((i * 2654435761 >> 7) % 2001 - 1000) / 512 for i in range(count)]
    values[::11] = [0.0] * len(values[::11])
    return struct.pack(f"<{count}f", *values)


def subjects():
    for number, name, options in codecs():
        for rows, cols in SHAPES:
            yield f"{name}-{rows}x{cols}", head(number, options, rows, cols, 0) + floats(37)
        yield f"{name}-not-finite", (head(number, options, 5, 3, 1) + floats(9)
                                     + struct.pack("<f", float("nan")))


METHODS = ["def:ratio=64,lambda=0.3", "qadam:kg=2,kx=0,every=1", "regtopk:form=cur,mu=2,values=f16",
           "dqsgd:bits=rms,plain=*b|c", "signum:tie=plus,zero=plus", "signsgd:zero=keep",
           "direction=adam,feedback=residual,codec=topk:keep=0.01,combine=allgather"]
SPECS = [
    "f32", "topk", "topk:keep=0.01,values=f16", "topk:keep=1e-3", "block:ratio=64", "log:k=14",
    "uniform:bits=4,norm=2", "nearest:range=0.5,k=3", "low-rank:rank=32", "sign:zero=coin", "sign:zero=keep",
    "scaled-sign:zero=plus", "topk:", "topk:keep", "topk:keep=", "topk:keep=2", "topk:keep=nan",
    "topk:kepe=1", "tpok", "", ":", "log:k=2.5", "log:k=2,k=2", "uniform:bits=4,", "natural:x=1",
]

RANK_LINES = [
    "terse launch: here, rank 3", "terse launch: end, rank 0, code 75",
    "terse launch: end, rank 4096, code 1", "terse launch: here, rank 99999999999",
    "mpirun noticed that process rank 1 with PID 77 on node a exited on signal 9 (Killed).",
    "=   RANK 1 PID 77 RUNNING AT a", "srun: error: node4: task 3: Killed",
    "terse: rank 2: train: rank 1: no message within the timeout of 60 s", "step 3", ""]
# The spec, then for each record which of its numbers are changed and by what (step_records.c).
STEP_RECORDS = [bytes([spec]) + bytes(before) + bytes([which]) + change
                for spec in range(4) for before in (0, 2, 4)
                for which, change in ((1, b"\1"), (2, b"\0\0\0\0\0\0\0\x80"), (3, bytes(range(24))),
                                      (0xff, b"\xff" * 64))]


def main():
    out = pathlib.Path(sys.argv[1])
    corpus = {"frame_open": [(path.name, path.read_bytes())
                             for folder in ("frames", "refuse")
                             for path in sorted((GOLDEN / folder).glob("*.terse"))],
              "metrics": list(make_runs.seeds()),
              "launch_message": [(f"line-{i:02}", line.encode())
                                 for i, line in enumerate(RANK_LINES)],
              "step_records": [(f"step-{i:02}", record) for i, record in enumerate(STEP_RECORDS)],
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
