"""Trains a small network with Accelerate, with terse for the gradients.

    python3 -m torch.distributed.run -r 1 -t 1 --nproc_per_node=2 examples/accelerate_ddp.py [SPEC]

Needs the package (pip install ./python) and `pip install accelerate`."""

import sys

import torch
from accelerate import Accelerator

import terse.torch

accelerator = Accelerator(cpu=True)
torch.set_num_threads(1)
torch.manual_seed(1)
teacher = torch.nn.Linear(784, 10)
model = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
x = torch.randn(2 * 64 * 200, 784)  # prepare gives every process its share
data = torch.utils.data.TensorDataset(x, teacher(x).argmax(1))

state = terse.torch.State(sys.argv[1] if len(sys.argv) > 1 else "regtopk:keep=0.01")
optimizer = torch.optim.SGD(model.parameters(), lr=0.0005 if state.votes else 0.1)
model, optimizer, loader = accelerator.prepare(
    model, optimizer, torch.utils.data.DataLoader(data, batch_size=64))
state.attach(model)  # the one line: prepare has made it a DistributedDataParallel

for step, (inputs, labels) in enumerate(loader):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    accelerator.backward(loss)
    optimizer.step()
    if step % 40 == 39:
        accelerator.print("step %3d  loss %.3f" % (step + 1, loss.item()), flush=True)

accelerator.print(state.report())
accelerator.wait_for_everyone()
state.close()
accelerator.end_training()
