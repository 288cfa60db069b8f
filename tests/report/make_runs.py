#!/usr/bin/env python3
"""make_runs.py OUT [--steps N] [--every N] [--runs N] [--seed N]: writes sample runs, one folder per
method, in the format that docs/report.md specifies. The curves are made up, the format is real."""
import argparse
import json
import math
import os
import random

TENSORS = [("conv1.weight", 288), ("conv1.bias", 32), ("conv2.weight", 18432), ("conv2.bias", 64),
           ("fc1.weight", 204800), ("fc1.bias", 128), ("fc2.weight", 1280), ("fc2.bias", 10)]
PARAMETERS = sum(count for _, count in TENSORS)


def resnet20():
    """The 65 tensors of a ResNet-20 for CIFAR-10."""
    def norm(name, width):
        return [(f"{name}.weight", width), (f"{name}.bias", width)]
    tensors = [("conv1.weight", 432), *norm("bn1", 16)]
    for stage, width in enumerate((16, 32, 64)):
        for block in range(3):
            inputs = width // 2 if stage > 0 and block == 0 else width
            for i, before in ((1, inputs), (2, width)):
                name = f"layer{stage + 1}.{block}"
                tensors += [(f"{name}.conv{i}.weight", 9 * before * width), *norm(f"{name}.bn{i}", width)]
            if inputs != width:
                tensors += [(f"{name}.shortcut.0.weight", inputs * width), *norm(f"{name}.shortcut.1", width)]
    return [*tensors, ("fc.weight", 640), ("fc.bias", 10)]


# method, compression ratio, accuracy it ends at, has a residual, has bits
METHODS = [
    ("dense", 1.0, 0.9142, False, False),
    ("signum", 31.9, 0.9021, False, False),
    ("def:ratio=64", 63.8, 0.9113, True, False),
    ("qadam:k=2", 10.6, 0.9127, True, False),
    ("topk:keep=0.01", 78.2, 0.9088, True, False),
    ("regtopk:keep=0.01", 78.2, 0.9102, True, False),
    ("dqsgd:budget=4", 7.4, 0.9094, False, True),
    ("powersgd:rank=4", 142.0, 0.9051, True, False),
]


def about(method, seed, model="cnn", tensors=None):
    tensors = tensors or TENSORS
    command = f"terse train --data fashion --model cnn --method '{method}' --workers 4 --seed {seed}"
    return {
        "format": 1, "terse": "made up", "command": command, "train": command,
        "method": method, "model": model, "data": "fashion", "workers": 4, "seed": seed,
        "batch": 32, "parameters": sum(count for _, count in tensors), "kernels": "avx512",
        "tensors": [{"name": name, "count": count} for name, count in tensors],
    }


def pace(row):
    """How fast the made-up run learns: other methods, other curves."""
    return 4 + 8 * (row[2] - 0.90) / 0.0142


def stages(source, sent, has_residual):
    noise = lambda mean: mean * source.uniform(0.9, 1.1)
    return {
        "compute": noise(0.0105), "direction": noise(0.0004) if has_residual else 0.0,
        "encode": noise(0.0006), "wire": noise(0.00012), "group": noise(0.0008 + sent * 2e-9),
        "combine": noise(0.0003), "decode": noise(0.0004), "update": noise(0.0005),
    }


def step_line(source, step, every, steps, row, seconds):
    _, smaller, _, has_residual, has_bits = row
    part = step / steps
    sent = 4 * PARAMETERS * 1.5 / smaller
    bits = 2 + 3 * part + source.uniform(-0.2, 0.2) if has_bits else None
    times = stages(source, sent, has_residual)
    line = {
        "kind": "step", "step": step, "epoch": int(part * 10),
        "seconds": round(seconds + every * sum(times.values()), 5),
        "loss": round(0.24 + 2.06 * math.exp(-pace(row) * part) + source.gauss(0, 0.05), 5), "lr": 0.05,
        "bytes_sent": round(sent * (bits / 4 if has_bits else 1)), "dense_bytes": PARAMETERS * 6,
        "stages": {name: round(time, 7) for name, time in times.items()},
    }
    if has_residual:
        line["residual_norm"] = round(row[1] ** 0.3 * (1 - math.exp(-6 * part)) + source.gauss(0, 0.04), 5)
        line["compression_error"] = round(1 - 3 / (row[1] ** 0.5 + 4) + 0.1 * part + source.gauss(0, 0.015), 5)
    if has_bits:
        line["bits"] = round(bits, 3)
    return line


def evaluation_line(source, step, steps, row, seconds, total):
    part = step / steps
    return {
        "kind": "evaluation", "step": step, "epoch": int(part * 10), "seconds": round(seconds, 5),
        "loss": round(0.26 + 2.0 * math.exp(-pace(row) * part) + source.gauss(0, 0.004), 5),
        "accuracy": round(row[2] - (row[2] - 0.1) * math.exp(-pace(row) * part) + source.gauss(0, 0.002), 5),
        "bytes_sent_total": round(total),
    }


def tensor_bytes(row, steps, seed, tensors):
    """Bytes over the run: tensors of less than 100 elements travel as they are."""
    return [steps * (4 * count if count < 100 else round(4 * count / row[1]) + seed) for _, count in tensors]


def lines(row, steps, every, seed, tensors=None):
    source = random.Random(f"{seed}/{row[0]}")
    seconds = total = 0.0
    for step in range(every, steps + 1, every):
        line = step_line(source, step, every, steps, row, seconds)
        seconds = line["seconds"]
        total += every * line["bytes_sent"]
        yield line
        if step // every % max(1, steps // every // 12) == 0 or step == steps:
            last = evaluation_line(source, step, steps, row, seconds, total)
            yield last
    yield {"kind": "end", "status": "finished", "step": steps, "loss": last["loss"],
           "accuracy": last["accuracy"], "seconds": seconds,
           "tensor_bytes": tensor_bytes(row, steps, seed, tensors or TENSORS)}


def seeds():
    """(name, bytes) for the fuzz target of the reader: whole runs, cut ones, and mixtures."""
    for row in METHODS[:7:2]:
        metrics = "".join(json.dumps(line) + "\n" for line in lines(row, 60, 10, 1)).encode()
        head = json.dumps(about(row[0], 1)).encode() + b"\0"
        name = folder_name(row[0])
        yield name, head + metrics
        yield name + "-cut", head + metrics[:-100]
        yield name + "-twice", head + metrics + metrics
        yield name + "-no-metrics", head[:-9]


def folder_name(method):
    return method.replace(":", "-").replace("=", "-")


def write_run(out, row, steps=3000, every=10, seed=1, model="cnn", tensors=None):
    folder = os.path.join(out, folder_name(row[0]))
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
        json.dump(about(row[0], seed, model, tensors), file)
    with open(os.path.join(folder, "metrics.jsonl"), "w", encoding="utf-8") as file:
        for line in lines(row, steps, every, seed, tensors):
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--runs", type=int, default=len(METHODS))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for row in METHODS[:options.runs]:
        print(write_run(options.out, row, options.steps, options.every, options.seed))


if __name__ == "__main__":
    main()
