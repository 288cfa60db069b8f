"""Lightning: strategies that train with terse: DistributedDataParallel with its hook, or the plain
model with its optimizers.

    trainer = lightning.Trainer(accelerator="cpu", devices=2,
                                strategy=terse.torch.lightning.TerseStrategy("regtopk:keep=0.01"))

Import it after lightning or pytorch_lightning, whichever the Trainer is from. DDPStrategy itself
takes a state and a hook (ddp_comm_state, ddp_comm_hook), but registers them on CUDA devices only."""

import sys
from typing import TYPE_CHECKING, Any

# Lightning is published twice, as lightning and as pytorch_lightning, with classes of their own:
# a strategy must be of the same package as its Trainer.
if TYPE_CHECKING or "lightning" in sys.modules or "pytorch_lightning" not in sys.modules:
    from lightning.pytorch.strategies import DDPStrategy
else:
    from pytorch_lightning.strategies import DDPStrategy

from .hook import DEFAULT_MIN, State


class TerseStrategy(DDPStrategy):
    """DDPStrategy over gloo whose gradients terse aggregates.

    spec, min, seed, steps, threads, timeout    as of terse.torch.State
    others                                      as of DDPStrategy (find_unused_parameters, ...)

    `terse_state` is the State: its report(), and what terse.torch.save_all saves."""

    def __init__(self, spec: str = "regtopk:keep=0.01", *, min: int = DEFAULT_MIN, seed: int = 0,
                 steps: int = 0, threads: int = 1, timeout: float = 60.0, **others: Any) -> None:
        others.setdefault("process_group_backend", "gloo")
        super().__init__(**others)
        self.terse_state = State(spec, min=min, seed=seed, steps=steps, threads=threads,
                                 timeout=timeout)

    def _register_ddp_hooks(self) -> None:
        """Called by configure_ddp, on every device type."""
        self.terse_state.attach(self.model)


class PlainStrategy(DDPStrategy):
    """Processes over gloo with the plain model in each, for the optimizers that do their own
    communication: configure_optimizers returns one of terse.torch.optim, or LocalSteps.

    others    as of DDPStrategy"""

    def __init__(self, **others: Any) -> None:
        others.setdefault("process_group_backend", "gloo")
        super().__init__(**others)

    def _setup_model(self, model: Any) -> Any:
        """Called by configure_ddp: no DistributedDataParallel."""
        return model

    def _register_ddp_hooks(self) -> None:
        """There is nothing to register them on."""


__all__ = ["TerseStrategy", "PlainStrategy"]
