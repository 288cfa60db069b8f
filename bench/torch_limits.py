"""One rank of `bench/torch_peer --limits`: one of PyTorch's hooks on a CPU with DDP's default
buckets (powersgd-one-bucket: a single bucket). Rank 0 prints the result."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, quantization_hooks

from torch_cases import POWERSGD_DEFAULT, ddp, made, network, start


def main():
    rank, workers = start()
    name = sys.argv[1]
    make = {"bf16-as-is": ddp(default_hooks.bf16_compress_hook),
            "quantized": ddp(quantization_hooks.quantization_pertensor_hook),
            "powersgd": POWERSGD_DEFAULT}.get(name)
    torch.manual_seed(rank)
    x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
    case = make(network(), 100, 0) if make else made(name, network(), 100)
    for _ in range(5):
        case.step(x, y)
    total = torch.cat([p.detach().reshape(-1) for p in case.model.parameters()])
    other = total.clone()
    dist.broadcast(other, 0)
    differs = torch.tensor([int(not torch.equal(total, other))])
    dist.all_reduce(differs)
    if rank == 0:
        print(json.dumps({"result": "works" if int(differs) == 0 else "ranks drift apart"}),
              flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
