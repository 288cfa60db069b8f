"""terse for PyTorch: a communication hook for DistributedDataParallel, optimizers that do their own
communication, and local steps around any optimizer.

    state = terse.torch.State("regtopk:keep=0.01")
    ddp.register_comm_hook(state, terse.torch.hook)

    optimizer = terse.torch.optim.Signum(model.parameters(), lr=1e-4)      # a plain model

    optimizer = terse.torch.LocalSteps(model, torch.optim.AdamW(model.parameters()),
                                       "codec=topk:keep=0.05,feedback=residual,every=20")

docs/pytorch.md is the guide."""

from . import optim
from ._plan import plan
from .checkpoint import Loaded, latest_step, load_all, save_all
from .hook import State, hook
from .local_steps import LocalSteps
from .record import Record

__all__ = ["State", "hook", "optim", "LocalSteps", "Loaded", "Record", "latest_step", "load_all",
           "plan", "save_all"]
