"""terse for PyTorch: a communication hook for DistributedDataParallel, and optimizers that do
their own communication.

    state = terse.torch.State("regtopk:keep=0.01")
    ddp.register_comm_hook(state, terse.torch.hook)

    optimizer = terse.torch.optim.Signum(model.parameters(), lr=1e-4)      # a plain model

docs/pytorch.md is the guide."""

from . import optim
from .checkpoint import Loaded, latest_step, load_all, save_all
from .hook import State, hook
from .record import Record

__all__ = ["State", "hook", "optim", "Loaded", "Record", "latest_step", "load_all", "save_all"]
