"""One rank of bench/torch_peer; rank 0 prints JSON.

    torch_worker.py speed CASE,... REPEATS SECONDS HIDDEN
    torch_worker.py accuracy CASE,... EPOCHS HIDDEN FOLDER SEED
    torch_worker.py together CASE,... STEPS HIDDEN"""

import gzip
import itertools
import json
import os
import resource
import struct
import sys
import time

import torch
import torch.distributed as dist

from torch_cases import made, network, start

BATCH = 64
POOL = 64  # batches
WARM_STEPS = 5  # DDP rebuilds its buckets after the first; terse adopts the order two steps later


def sent_bytes():
    """The bytes sent by the counter of the interface, headers included."""
    name = os.environ["GLOO_SOCKET_IFNAME"]
    with open("/sys/class/net/%s/statistics/tx_bytes" % name, encoding="ascii") as file:
        return int(file.read())


def largest(value):
    tensor = torch.tensor([float(value)], dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor)


def batches(rank):
    """Cycles through random inputs and labels. There are so many that no case fits them exactly:
    vanishing gradients become denormal, and denormals are slow."""
    torch.manual_seed(100 + rank)
    pool = [(torch.randn(BATCH, 784), torch.randint(0, 10, (BATCH,))) for _ in range(POOL)]
    return itertools.cycle(pool)


def mean(value):
    tensor = torch.tensor([float(value)], dtype=torch.float64)
    dist.all_reduce(tensor)
    return float(tensor) / dist.get_world_size()


def processor_seconds():
    """Of all threads of this rank, and of the kernel for them."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(case, pool, steps):
    """What a step takes: seconds of the slowest rank, processor seconds, bytes sent by this one."""
    dist.barrier()
    before, used, began = sent_bytes(), processor_seconds(), time.monotonic()
    for _ in range(steps):
        case.step(*next(pool))
    spent, used = time.monotonic() - began, processor_seconds() - used
    sent = sent_bytes() - before
    return {"seconds": largest(spent) / steps, "cpu": mean(used) / steps, "bytes": sent / steps,
            "steps": steps}


def speed(names, turns, seconds, hidden):
    rank, _ = start()
    pool = batches(rank)
    ready, steps = {}, {}
    for name in names:
        ready[name] = made(name, network(hidden), 10000)
        timed(ready[name], pool, WARM_STEPS)
        while not ready[name].settled():  # the same on all ranks
            ready[name].step(*next(pool))
        steps[name] = max(1, min(10, int(seconds / timed(ready[name], pool, 1)["seconds"])))
    for _ in range(turns):  # cases alternate, so that other programs disturb all alike
        for name in names:
            row = timed(ready[name], pool, steps[name])
            if rank == 0:
                print(json.dumps({"case": name, **row}), flush=True)


# ---- accuracy ----

def idx(path):
    """An IDX file of bytes as a tensor."""
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        data = file.read()
    dims = struct.unpack(">%dI" % data[3], data[4:4 + 4 * data[3]])
    return torch.frombuffer(bytearray(data[4 + 4 * data[3]:]), dtype=torch.uint8).view(*dims)


def fashion(folder, kind):
    names = ["%s-%s" % (kind, part) for part in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    found = []
    for name in names:
        path = os.path.join(folder, name)
        found.append(idx(path if os.path.exists(path) else path + ".gz"))
    return (found[0].reshape(len(found[0]), -1).float() / 255 - 0.2860) / 0.3530, found[1].long()


def accuracy(names, epochs, hidden, folder, seed):
    rank, workers = start()
    x, y = fashion(folder, "train")
    tests, labels = fashion(folder, "t10k")
    per_epoch = len(x) // (BATCH * workers)
    for name in names:
        case = made(name, network(hidden, seed), epochs * per_epoch, seed)
        rate = case.optimizer.param_groups[0]["lr"]
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(case.optimizer, epochs * per_epoch)
        shuffle = torch.Generator().manual_seed(seed + 2)
        began = time.monotonic()
        for _ in range(epochs):
            order = torch.randperm(len(x), generator=shuffle)[rank::workers]
            for step in range(per_epoch):
                chosen = order[step * BATCH:(step + 1) * BATCH]
                case.step(x[chosen], y[chosen])
                schedule.step()
        with case.evaluated(), torch.no_grad():
            right = sum(int((case.model(tests[at:at + 1000]).argmax(1) == labels[at:at + 1000])
                            .sum()) for at in range(0, len(tests), 1000))
        if rank == 0:
            print(json.dumps({"case": name, "lr": rate, "accuracy": right / len(tests),
                              "spent": time.monotonic() - began}), flush=True)


# ---- reliability ----

def together(names, steps, hidden):
    """Trains on one batch with every case: reports whether the loss rose and whether ranks
    differ."""
    rank, workers = start()
    torch.manual_seed(100 + rank)
    x, y = torch.randn(BATCH, 784), torch.randint(0, 10, (BATCH,))
    for name in names:
        case = made(name, network(hidden), steps)
        losses = [float(case.step(x, y)) for _ in range(steps)]
        with case.evaluated(), torch.no_grad():
            mine = torch.cat([p.detach().reshape(-1) for p in case.model.parameters()])
        first = mine.clone()
        dist.broadcast(first, 0)
        apart = largest(0 if torch.equal(mine, first) else 1)
        risen = largest(0 if losses[-1] < losses[0] else 1)  # a NaN counts as risen
        if rank == 0:
            print(json.dumps({"case": name, "workers": workers, "steps": steps,
                              "losses": [losses[0], losses[-1]], "risen": bool(risen),
                              "apart": bool(apart)}), flush=True)


def main():
    what, names = sys.argv[1], sys.argv[2].split(",")
    if what == "speed":
        speed(names, int(sys.argv[3]), float(sys.argv[4]), sizes_of(sys.argv[5]))
    elif what == "together":
        together(names, int(sys.argv[3]), sizes_of(sys.argv[4]))
    else:
        accuracy(names, int(sys.argv[3]), sizes_of(sys.argv[4]), sys.argv[5],
                 int(sys.argv[6]))


def sizes_of(text):
    return tuple(int(word) for word in text.split("-"))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # without waiting for gloo's threads
