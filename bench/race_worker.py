"""One rank of bench/race; rank 0 prints JSON.

    race_worker.py train MODEL CASE BATCH SEED FOLDER TARGET EVERY STEPS
    race_worker.py steps MODEL CASE BATCH SEED FOLDER          steps until it is ended

The networks are those of `terse train` (train_peer_models.py), the cases those of torch_cases.py."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

from torch_cases import made, start
from torch_worker import fashion
from train_peer_models import CNN, MLP


def network(model, seed):
    """In PyTorch's faster layout, channels_last."""
    torch.manual_seed(seed)
    if model == "cnn":
        return CNN((1, 28, 28), 10).to(memory_format=torch.channels_last)
    return MLP(784, 10)


def images(folder, kind):
    pixels, labels = fashion(folder, kind)
    return pixels.view(-1, 1, 28, 28), labels


def batches(x, y, batch, rank, workers, seed):
    """Epoch after epoch, every rank its own examples in an order that all ranks draw alike."""
    shuffle = torch.Generator().manual_seed(seed + 2)
    while True:
        order = torch.randperm(len(x), generator=shuffle)[rank::workers]
        for step in range(len(x) // (batch * workers)):
            chosen = order[step * batch:(step + 1) * batch]
            yield x[chosen], y[chosen]


def accuracy(case, x, y, rank, workers):
    """Of the whole test set; every rank evaluates its share."""
    right = torch.zeros(1, dtype=torch.float64)
    with case.evaluated(), torch.no_grad():
        for at in range(rank * 500, len(x), workers * 500):
            right += (case.model(x[at:at + 500]).argmax(1) == y[at:at + 500]).sum()
    dist.all_reduce(right)
    return float(right) / len(x)


def train(case, pool, test, target, every, steps):
    rank, workers = dist.get_rank(), dist.get_world_size()
    seconds = 0.0
    for first in range(0, steps, every):
        began = time.monotonic()
        for _ in range(every):
            case.step(*next(pool))
        seconds += time.monotonic() - began
        found = accuracy(case, *test, rank, workers)
        if rank == 0:
            print(json.dumps({"step": first + every, "accuracy": found, "seconds": seconds}),
                  flush=True)
        if found >= target:
            return


def step_on(case, pool):
    step = 0
    while True:
        case.step(*next(pool))
        step += 1
        if dist.get_rank() == 0:
            print(json.dumps({"step": step, "at": time.monotonic()}), flush=True)


def main():
    what, model, name, batch, seed, folder = sys.argv[1:7]
    rank, workers = start()
    seed = int(seed)
    pool = batches(*images(folder, "train"), int(batch), rank, workers, seed)
    steps = int(sys.argv[9]) if what == "train" else 2000
    case = made(name, network(model, seed), steps, seed)
    if what == "train":
        train(case, pool, images(folder, "t10k"), float(sys.argv[7]), int(sys.argv[8]), steps)
    else:
        step_on(case, pool)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # without waiting for gloo's threads
