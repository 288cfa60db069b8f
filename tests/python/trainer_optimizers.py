"""The optimizers of terse.torch under Lightning and Accelerate.

    python3 trainer_optimizers.py lightning
    python3 -m torch.distributed.run -r 1 -t 1 --nproc_per_node=2 trainer_optimizers.py accelerate

Prints "ok TRAINER OPTIMIZER" for each whose loss falls and whose ranks end with equal weights."""

import sys

import torch
import torch.distributed as dist

import terse.torch
from terse.torch import optim

LOCAL = "codec=topk:keep=0.1,feedback=residual,every=5,outer_lr=0.7,outer_momentum=0.5"


def groups(model):
    """Matrices with decay, the rest without, as trainers make them."""
    return [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 1e-4},
            {"params": [p for p in model.parameters() if p.dim() < 2]}]


MADE = {"signum": lambda model: optim.Signum(groups(model), lr=0.001),
        "def": lambda model: optim.DEF(groups(model), lr=0.05, ratio=2),
        "qadam": lambda model: optim.QAdam(groups(model), lr=0.002),
        "local": lambda model: terse.torch.LocalSteps(
            model, torch.optim.SGD(model.parameters(), lr=0.1), LOCAL, steps=100)}


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def loader():
    torch.manual_seed(1)
    teacher = torch.nn.Linear(784, 10)
    x = torch.randn(2 * 32 * 100, 784)
    data = torch.utils.data.TensorDataset(x, teacher(x).argmax(1))
    return torch.utils.data.DataLoader(data, batch_size=32)


def judge(trainer, name, optimizer, losses):
    weights = optimizer.weights.clone()
    dist.broadcast(weights, 0)
    assert torch.equal(weights, optimizer.weights), "%s: ranks differ" % name
    first, last = sum(losses[:10]), sum(losses[-10:])
    assert len(losses) == 100 and last < 0.85 * first, (name, len(losses), first, last)
    if dist.get_rank() == 0:
        print("ok %s %s: loss %.3f, then %.3f" % (trainer, name, first / 10, last / 10), flush=True)


def with_accelerate():
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    for name, make in MADE.items():
        model, losses = net(), []
        mine = make(model)
        optimizer, batches = accelerator.prepare(mine, loader())
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer.optimizer, 0.999)
        for inputs, labels in batches:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
        judge("accelerate", name, mine, losses)
        mine.close()
    accelerator.end_training()


def with_lightning():
    import lightning
    from terse.torch.lightning import PlainStrategy

    class Net(lightning.LightningModule):
        def __init__(self, name):
            super().__init__()
            self.layers, self.name, self.losses, self.mine = net(), name, [], None

        def training_step(self, batch, index):
            loss = torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            self.mine = MADE[self.name](self.layers)
            return {"optimizer": self.mine, "lr_scheduler": {
                "scheduler": torch.optim.lr_scheduler.ExponentialLR(self.mine, 0.999),
                "interval": "step"}}

        def on_train_end(self):  # the process group ends with fit
            judge("lightning", self.name, self.mine, self.losses)
            self.mine.close()

    for name in MADE:
        lightning.Trainer(accelerator="cpu", devices=2, strategy=PlainStrategy(), max_epochs=1,
                          logger=False, enable_checkpointing=False, enable_progress_bar=False,
                          enable_model_summary=False).fit(Net(name), loader())


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"lightning": with_lightning, "accelerate": with_accelerate}[sys.argv[1]]()
