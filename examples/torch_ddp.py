"""Trains a small network on the CPU with DistributedDataParallel and one line of terse.

    python3 -m torch.distributed.run -r 1 -t 1 --nproc_per_node=2 examples/torch_ddp.py [SPEC [FOLDER]]

With a FOLDER it saves a checkpoint every 20 steps, and goes on from the newest whole one: a rank that
dies costs at most 20 steps if it is started with --standalone --max_restarts=5 (and, from PyTorch
2.5 on, with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the environment, see docs/pytorch.md).

(-r 1 -t 1 shows what the workers print. PyTorch 1.13 with Python 3.11 fails without it.) Without an
installed package, set PYTHONPATH=python (the library is found in build/)."""

import logging
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import terse.torch

logging.basicConfig(format="%(name)s: %(message)s")
logging.getLogger("terse").setLevel(logging.INFO)
dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(1)
teacher = torch.nn.Linear(784, 10)
model = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
ddp = DistributedDataParallel(model)

state = terse.torch.State(sys.argv[1] if len(sys.argv) > 1 else "regtopk:keep=0.01", module=model)
ddp.register_comm_hook(state, terse.torch.hook)  # the one line

# The result of a vote is -1 or +1, whatever the size of the gradient: the steps must be small.
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.0005 if state.votes else 0.2)
folder = sys.argv[2] if len(sys.argv) > 2 else None
saved = terse.torch.load_all(folder, state, missing_ok=True) if folder else None
if saved:
    model.load_state_dict(saved.extra)
for step in range(saved.step if saved else 0, 200):
    torch.manual_seed(1000 * step + dist.get_rank())  # every rank and step has other inputs
    x = torch.randn(64, 784)
    y = teacher(x).argmax(1)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(ddp(x), y)
    loss.backward()
    optimizer.step()
    if folder and step % 20 == 19:
        terse.torch.save_all(folder, state, extra=model.state_dict(), step=step + 1)
    if step % 40 == 39 and dist.get_rank() == 0:
        print("step %3d  loss %.3f" % (step + 1, loss.item()), flush=True)

if dist.get_rank() == 0:
    print(state.report())
dist.barrier()
state.close()
dist.destroy_process_group()
