"""Local steps with an outer optimizer (local SGD, DiLoCo) around any optimizer of torch.

    optimizer = terse.torch.LocalSteps(
        model, torch.optim.AdamW(model.parameters(), lr=1e-3),
        "codec=topk:keep=0.05,feedback=residual,every=20,outer_lr=0.7,outer_momentum=0.9,"
        "nesterov=yes")
    loss.backward()           # a plain model on every rank
    optimizer.step()          # the inner step; in every 20th the ranks meet

Every rank trains on its own for `every` steps. Then it sends how far it has come, x - x_local,
through the codec; the mean over the ranks is the gradient of an outer SGD, and all ranks go on from
its weights x. `outer_lr`, `outer_momentum` and `nesterov` are those of torch.optim.SGD."""

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .._library import MethodReport, TerseError
from .._method import Method, Shape, Totals, describe, entries
from . import _report, _state
from ._checks import FLOATS, log
from ._spec import agree, complete, shown
from .group import Group, members, own_group
from .hook import DEFAULT_MIN

_OUTER = ("every", "outer_lr", "outer_momentum", "nesterov")


def _split(spec: str) -> Tuple[str, Dict[str, str]]:
    """The spec of the exchange, and the options of the outer optimizer."""
    found = entries(spec)
    if not any(entry.name == "every" and entry.given for entry in found):
        raise ValueError("%s: every is missing; LocalSteps needs the number of steps between two "
                         "exchanges, for example every=20" % spec)
    name = describe(spec).name
    rest = ",".join("%s=%s" % (entry.name, entry.value) for entry in found
                    if entry.given and entry.name not in _OUTER)
    outer = {entry.name: entry.value for entry in found if entry.name in _OUTER}
    return (rest if name == "composed" else name + ":" * bool(rest) + rest), outer


def _mean_of(values: List[Any]) -> Any:
    """The mean of the floats in equal structures of tensors, dicts and lists; of all else, the
    first."""
    first = values[0]
    if isinstance(first, torch.Tensor) and first.is_floating_point():
        return (torch.stack(values).double().sum(0) / len(values)).to(first.dtype)
    if isinstance(first, dict):
        return type(first)((key, _mean_of([each[key] for each in values])) for key in first)
    if isinstance(first, (list, tuple)):
        return type(first)(_mean_of(list(each)) for each in zip(*values))
    return first


class LocalSteps(torch.optim.Optimizer):
    """An optimizer whose step is that of `optimizer` and, in every `every`-th, an exchange.

    model           the plain model (no DistributedDataParallel), the same on every rank. Parameters
                    with requires_grad=False are not sent; buffers (batch norm) stay each rank's own
    optimizer       any torch.optim.Optimizer over its parameters; the inner one
    spec            a method whose aggregate is a gradient, with `every` and, if wanted, `outer_lr`
                    (1), `outer_momentum` (0) and `nesterov` (no)
    min             tensors with fewer elements are sent as float32
    seed, threads, timeout, process_group    as of terse.torch.State
    steps           number of steps of the training; DQ-SGD's budget needs it

    Create it on every rank, in the same order. It broadcasts the weights of rank 0. Schedulers may
    be given it or the inner optimizer: they share their parameter groups and their state.

    If a rank's weights are not finite at an exchange, the exchange is skipped on all ranks
    (`last.exchange.skipped`), and all go back to the weights of the one before."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, spec: str, *,
                 min: int = DEFAULT_MIN, seed: int = 0, steps: int = 0, threads: int = 1,
                 timeout: float = 60.0, process_group: Optional[Any] = None) -> None:
        self._carrier: Any = own_group(process_group, timeout)
        self._model, self.inner, self._seed, self.spec = model, optimizer, seed, str(spec)
        failure: Optional[Exception] = None
        self.every, exchanges = 1, 0
        self.tensors: List[Tuple[str, Shape]] = []
        try:
            rest, outer = _split(self.spec)
            self.every = int(float(outer["every"]))
            self._lr, self._momentum = float(outer["outer_lr"]), float(outer["outer_momentum"])
            self._nesterov = outer["nesterov"] == "yes"
            exchanges = -(-steps // self.every)
            self._exchanged = complete(rest, min, exchanges)
            self._refuse()
            self._params = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
            self.tensors = [(name, tuple(p.shape)) for name, p in self._params]
        except (ValueError, TerseError) as why:
            failure = why
        agree(self._carrier, {"spec": self.spec, "seed": seed, "number of steps": steps,
                              "parameters": self.tensors}, failure, "LocalSteps")
        self._begun = False
        super().__init__(optimizer.param_groups, dict(optimizer.defaults))
        self._follow()
        self._begun = True
        ranks = members(self._carrier)
        self.rank, self.workers = dist.get_rank(self._carrier), len(ranks)
        for tensor in model.parameters():
            host = tensor.detach().cpu().clone().reshape(-1)
            # As bytes: gloo does not know bfloat16 before PyTorch 2.2.
            dist.broadcast(host.view(torch.uint8), ranks[0], group=self._carrier)
            tensor.data.copy_(host.view(tensor.shape))
        self.weights = self._flat()  # the outer ones, x
        self.momentum = torch.zeros_like(self.weights)
        self._mean = torch.zeros_like(self.weights)
        self._group = Group(self._carrier, ranks, timeout)
        self.method = Method(self._exchanged, self._group, self.tensors, self._mean.data_ptr(),
                             seed=seed, steps=exchanges, threads=threads, aggregate_out=True,
                             private_output=True)
        self.steps_done = 0
        self.last: Optional[MethodReport] = None
        self._totals = Totals()

    def _refuse(self) -> None:
        if isinstance(self._model, DistributedDataParallel):
            raise ValueError("LocalSteps needs the plain model: DistributedDataParallel exchanges "
                             "gradients in every step")
        live = {id(p): name for name, p in self._model.named_parameters() if p.requires_grad}
        for name, parameter in self._model.named_parameters():
            if parameter.requires_grad and parameter.dtype not in FLOATS:
                raise ValueError("parameter %s is %s; LocalSteps takes real numbers (float16, "
                                 "bfloat16, float32, float64)" % (name, parameter.dtype))
        if not live:
            raise ValueError("the model has no parameters with requires_grad=True")
        for group in self.inner.param_groups:
            if any(p.requires_grad and id(p) not in live for p in group["params"]):
                raise ValueError("the optimizer has parameters that are not the model's")

    def _follow(self) -> None:
        """Shares parameter groups and state with the inner optimizer, which may have new ones."""
        self.param_groups, self.state = self.inner.param_groups, self.inner.state

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """ValueError: what is exchanged is fixed at creation."""
        if self._begun:
            raise ValueError("LocalSteps has the parameters of its creation; create it again, on "
                             "all ranks")
        super().add_param_group(param_group)

    # ---- steps ----

    @torch.no_grad()
    def _flat(self) -> torch.Tensor:
        """The model's parameters as float32 in host memory."""
        return torch.cat([p.detach().reshape(-1).to("cpu", torch.float32)
                          for _, p in self._params])

    @torch.no_grad()
    def _put(self, flat: torch.Tensor) -> None:
        counts = [p.numel() for _, p in self._params]
        for (_, parameter), values in zip(self._params, flat.split(counts)):
            parameter.copy_(values.view(parameter.shape))

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """The step of the inner optimizer; collective in every `every`-th."""
        loss = self.inner.step(closure) if closure is not None else self.inner.step()
        self.steps_done += 1
        if self.steps_done % self.every == 0:
            self._exchange()
        return loss

    def _exchange(self) -> None:
        live = [p for p in self._model.parameters() if p.requires_grad]
        if len(live) != len(self._params) or any(
                p is not mine for p, (_, mine) in zip(live, self._params)):
            raise ValueError("parameters were frozen or unfrozen (requires_grad) after LocalSteps "
                             "was created; create it again, on all ranks")
        change = self.weights - self._flat()
        try:
            self.last = self.method.step(change.data_ptr())
        except TerseError:
            self._leave()  # the other ranks fail at once, not after the timeout
            raise
        self._totals.add(self.last)
        if self.last.exchange.skipped:
            log.warning("rank %d: the weights of rank %d are not finite after step %d; all ranks "
                        "go back to those of step %d", self.rank, self.last.exchange.skipped_by,
                        self.steps_done, self.steps_done - self.every)
        else:
            self.momentum.mul_(self._momentum).add_(self._mean)
            along = self._mean.add(self.momentum, alpha=self._momentum) if self._nesterov \
                else self.momentum
            self.weights.sub_(along, alpha=self._lr)
        self._put(self.weights)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner.zero_grad(set_to_none=set_to_none)

    @contextmanager
    def eval_weights(self) -> Iterator[None]:
        """Inside, the model holds the weights of the last exchange, equal on all ranks, instead of
        this rank's own. Not collective."""
        mine = [p.detach().clone() for _, p in self._params]
        self._put(self.weights)
        try:
            yield
        finally:
            with torch.no_grad():
                for (_, parameter), values in zip(self._params, mine):
                    parameter.copy_(values)

    def report(self) -> "_report.Report":
        """Bytes and times of the exchanges so far; its steps are exchanges."""
        return _report.Report(shown(self._exchanged), self._totals.as_dict(), [self])

    # ---- state ----

    def state_dict(self) -> Dict[str, Any]:
        """Everything of this rank: model, inner optimizer, outer optimizer and residual. Every rank
        saves its own, or use terse.torch.save_all."""
        return {"terse": 1, "spec": self.spec, "seed": self._seed, "rank": self.rank,
                "workers": self.workers, "tensors": self.tensors, "steps_done": self.steps_done,
                "weights": self.weights.clone(), "momentum": self.momentum.clone(),
                "parts": _state.read_parts(self.method), "model": self._model.state_dict(),
                "inner": self.inner.state_dict()}

    def load_state_dict(self, saved: Dict[str, Any]) -> None:
        """Loads the state of this rank, the model's too; call it on every rank, between the same
        steps. With the same number of ranks the training goes on bit for bit."""
        for name, mine in (("spec", self.spec), ("seed", self._seed), ("rank", self.rank),
                           ("workers", self.workers), ("tensors", self.tensors)):
            if saved.get(name) != mine:
                raise ValueError("load_state_dict: the state was saved with %s %r, this LocalSteps "
                                 "has %r; terse.torch.load_all accepts another number of workers, "
                                 "but no other spec, seed or model" % (name, saved.get(name), mine))
        self._model.load_state_dict(saved["model"])
        self.inner.load_state_dict(saved["inner"])
        self._follow()
        self.steps_done = int(saved["steps_done"])
        self.weights.copy_(saved["weights"])
        self.momentum.copy_(saved["momentum"])
        _state.write_parts(self.method, saved["parts"])

    _load = load_state_dict

    def _regrouped(self, saved: List[Dict[str, Any]]) -> Dict[str, Any]:
        """The state of this rank, from those of another number of ranks: between two exchanges, all
        start from the mean of what the ranks had."""
        mask = _state.owned(self.tensors, self.rank, self.workers,
                            describe(self._exchanged).combine == "parameter-server")
        parts = _state.regroup([each["parts"] for each in saved], mask)
        return {**saved[0], "rank": self.rank, "workers": self.workers, "parts": parts,
                "model": _mean_of([each["model"] for each in saved]),
                "inner": _mean_of([each["inner"] for each in saved])}

    def close(self) -> None:
        """Leaves the group. The model keeps this rank's weights."""
        self.method.close(self._mean)
        self._leave()

    def _leave(self) -> None:
        self._carrier = None  # gloo's connections end with the last reference
        self._group.close()


__all__ = ["LocalSteps"]
