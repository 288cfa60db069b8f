"""FSDP2 inside a node, compressed gradients between nodes (PyTorch 2.7 or later).

    mesh = init_device_mesh("cpu", (nodes, local), mesh_dim_names=("node", "shard"))
    fully_shard(model, mesh=mesh["shard"])
    replicas = terse.torch.fsdp.Replicas(model, "topk:keep=0.05",
                                         process_group=mesh["node"].get_group())

fully_shard averages gradients over the ranks of a node and leaves every rank its shard. Its
all-reduce hook then takes the mean with the same shard of the other nodes, module by module, while
backward runs. (On a mesh of two dimensions FSDP2 would do that itself, uncompressed, before it calls
the hook.)"""

from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from .._library import TerseError
from .._method import Method, Shape, Totals, describe
from . import _report, _state
from ._checks import FLOATS, log
from ._spec import agree, complete, rewritten, shown
from .group import Group, members
from .hook import DEFAULT_MIN


def _own_group_of_all(process_group: Any, seconds: float) -> Any:
    """A gloo group of these ranks, where every rank of the world is in one such group; collective
    over all of them."""
    mine = tuple(members(process_group))
    told: List[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, mine)
    made = {ranks: dist.new_group(list(ranks), timeout=timedelta(seconds=seconds), backend="gloo")
            for ranks in sorted(set(told))}
    return made[mine]


class _Module:
    """The method of one module; its gradient is this rank's shard, one flat tensor."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.method: Any = None  # a Method, from the first gradient on
        self.tensors: List[Tuple[str, Shape]] = []
        self.aggregate = torch.empty(0)
        self.pending: Optional[Dict[str, Any]] = None  # a loaded state, for the next gradient

    def begin(self, count: int, make: Callable[..., Method]) -> None:
        """Creates the method and restores a loaded state; collective over the replicas."""
        if self.method is None:
            self.tensors = [(self.name, (count,))]
            self.aggregate = torch.zeros(count)
            self.method = make(self.tensors, self.aggregate)
        if self.pending is not None:
            _state.write_parts(self.method, self.pending)
            self.pending = None

    def saved(self) -> Optional[Dict[str, Any]]:
        """The parts of the state; None before the first gradient."""
        if self.pending is not None or self.method is None:
            return self.pending
        return _state.read_parts(self.method)


class Replicas:
    """The mean between nodes for a model that fully_shard has sharded inside each node.

    model           the model, after fully_shard; every FSDPModule in it gets the hook
    spec            as of terse.torch.State, but no vote and no PowerSGD: what is encoded is a flat
                    piece of a module
    process_group   the ranks that hold the same shard, one of each node
    min             modules of which a rank holds fewer elements are sent as float32
    seed, steps, threads, timeout    as of terse.torch.State

    Create it on every rank of the world, in the same order. A module whose gradient is not finite
    on one node gets zeros on all (`report()["skipped"]` counts modules)."""

    def __init__(self, model: torch.nn.Module, spec: str = "topk:keep=0.01", *, process_group: Any,
                 min: int = DEFAULT_MIN, seed: int = 0, steps: int = 0, threads: int = 1,
                 timeout: float = 60.0) -> None:
        self._carrier: Any = _own_group_of_all(process_group, timeout)
        self._seed = seed
        self._options = {"seed": seed, "steps": steps, "threads": threads}
        failure: Optional[Exception] = None
        self.spec, found = str(spec), []
        try:
            self.spec = complete(spec, min, steps)
            found = _sharded(model, self.spec)
        except (ValueError, TerseError) as why:
            failure = why
        agree(self._carrier, {"spec": self.spec, "seed": seed, "number of steps": steps,
                              "modules": [name for name, _ in found]}, failure, "Replicas")
        ranks = members(self._carrier)
        self.rank, self.workers = dist.get_rank(self._carrier), len(ranks)
        self._group = Group(self._carrier, ranks, timeout)
        self._totals = Totals()
        self._modules = {name: _Module(name) for name, _ in found}
        for name, module in found:
            module.set_all_reduce_hook(self._hook_of(self._modules[name]))
        if dist.get_rank() == 0:
            log.info("%d nodes, %s", self.workers, shown(self.spec))

    def _make(self, tensors: Any, aggregate: torch.Tensor) -> Method:
        return Method(self.spec, self._group, tensors, aggregate.data_ptr(), aggregate_out=True,
                      private_output=True, **self._options)

    def _hook_of(self, module: _Module) -> Callable[[torch.Tensor], None]:
        return lambda gradient: self._mean(module, gradient)

    @torch.no_grad()
    def _mean(self, module: _Module, gradient: torch.Tensor) -> None:
        """Replaces a gradient by its mean over the nodes; called by FSDP2 in backward."""
        if gradient.dtype not in FLOATS:
            raise ValueError("the gradient of %s is %s; expected real numbers"
                             % (module.name, gradient.dtype))
        try:
            module.begin(gradient.numel(), self._make)
            mine = gradient.detach().to("cpu", torch.float32).contiguous()
            report = module.method.step(mine.data_ptr())
        except TerseError:
            self._leave()  # the other ranks fail at once, not after the timeout
            raise
        self._totals.add(report)
        if report.exchange.skipped:
            gradient.zero_()
        else:
            gradient.copy_(module.aggregate.view(gradient.shape))

    @property
    def steps_done(self) -> int:
        """The number of steps done, without skipped ones."""
        done = [m.method.steps_done for m in self._modules.values() if m.method is not None]
        return max(done, default=0)

    def report(self) -> "_report.Report":
        """As of terse.torch.State; its steps are gradients of modules, its parameters modules."""
        return _report.Report(shown(self.spec), self._totals.as_dict(),
                              list(self._modules.values()))

    def state_dict(self) -> Dict[str, Any]:
        """The state of this rank, by module: the residual of its shard."""
        parts = {name: m.saved() for name, m in self._modules.items()}
        return {"terse": 1, "spec": self.spec, "seed": self._seed, "rank": self.rank,
                "workers": self.workers, "modules": parts}

    def load_state_dict(self, saved: Dict[str, Any]) -> None:
        """Loads the state of this rank; call it on every rank, between the same steps."""
        saved = {**saved, "spec": rewritten(saved.get("spec"))}
        for name, mine in (("spec", self.spec), ("seed", self._seed), ("rank", self.rank),
                           ("workers", self.workers)):
            if saved.get(name) != mine:
                raise ValueError("load_state_dict: the state was saved with %s %r, this one has %r"
                                 % (name, saved.get(name), mine))
        if sorted(saved["modules"]) != sorted(self._modules):
            raise ValueError("load_state_dict: the state was saved for other modules")
        for name, module in self._modules.items():
            module.pending = saved["modules"][name]

    _load = load_state_dict

    def _regrouped(self, saved: List[Dict[str, Any]]) -> Dict[str, Any]:
        """The state of this rank, from those of another number of nodes."""
        server = describe(self.spec).combine == "parameter-server"
        modules: Dict[str, Any] = {}
        for name, first in saved[0]["modules"].items():
            if first is None:
                modules[name] = None
                continue
            count = max([part["data"].numel() for part in first.values()
                         if part["data"].dtype == torch.float32], default=0)
            mask = _state.owned([(name, (count,))], self.rank, self.workers, server)
            modules[name] = _state.regroup([each["modules"][name] for each in saved], mask)
        return {**saved[0], "rank": self.rank, "workers": self.workers, "modules": modules}

    def close(self) -> None:
        """Leaves the group; backward cannot be used afterwards."""
        for module in self._modules.values():
            if module.method is not None:
                module.method.close(module.aggregate)
        self._leave()

    def _leave(self) -> None:
        self._carrier = None  # gloo's connections end with the last reference
        self._group.close()


def _sharded(model: torch.nn.Module, spec: str) -> List[Tuple[str, Any]]:
    """The modules that fully_shard has sharded, by name. ValueError: there is none, or the spec
    does not suit them."""
    try:
        from torch.distributed.fsdp import FSDPModule
    except ImportError:
        raise ValueError("PyTorch %s has no fully_shard; terse.torch.fsdp needs 2.7 or later"
                         % torch.__version__) from None
    chosen = describe(spec)
    if chosen.votes or chosen.passes > 1:
        raise ValueError("%s: votes and PowerSGD do not work between FSDP2 nodes: what is encoded "
                         "is a flat piece of a module, which FSDP2 may scale afterwards" % spec)
    found = [(name or "model", module) for name, module in model.named_modules()
             if isinstance(module, FSDPModule)]
    if not found:
        raise ValueError("no module of the model was sharded; call fully_shard(model, mesh=...) "
                         "first")
    return found


__all__ = ["Replicas"]
