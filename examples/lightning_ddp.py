"""Trains a small network with Lightning in two processes, with terse for the gradients.

    python3 examples/lightning_ddp.py [SPEC]

Needs the package (pip install ./python) and `pip install lightning`."""

import sys

import lightning
import torch

from terse.torch.lightning import TerseStrategy


class Net(lightning.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.layers = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(),
                                          torch.nn.Linear(512, 10))

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.layers(x), y)
        if index % 40 == 39 and self.global_rank == 0:
            print("step %3d  loss %.3f" % (index + 1, loss.item()), flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    teacher = torch.nn.Linear(784, 10)
    x = torch.randn(2 * 64 * 200, 784)  # the trainer gives every process its share
    data = torch.utils.data.TensorDataset(x, teacher(x).argmax(1))
    strategy = TerseStrategy(sys.argv[1] if len(sys.argv) > 1 else "regtopk:keep=0.01")
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy=strategy, max_epochs=1,
                                logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Net(lr=0.0005 if strategy.terse_state.votes else 0.1),
                torch.utils.data.DataLoader(data, batch_size=64))
    if trainer.global_rank == 0:
        print(strategy.terse_state.report())


if __name__ == "__main__":
    main()
