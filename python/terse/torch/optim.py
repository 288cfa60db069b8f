"""Optimizers that do their own communication, for methods whose aggregate is not a gradient.

Use them with a plain model on every rank (no DistributedDataParallel, or its no_sync):

    optimizer = terse.torch.optim.Signum(model.parameters(), lr=1e-4)
    loss.backward()
    optimizer.step()          # sends, receives, aggregates, updates: equal weights on every rank

The parameters become views of one flat buffer per group, which the library updates in place. Every
step equals the step of the C method of the same name, bit for bit. Buffers of the model (batch
norm) are not synchronised."""

import threading
from collections import defaultdict
from contextlib import contextmanager
from typing import Any, Callable, DefaultDict, Dict, Iterator, List, Optional, Tuple, Union

import torch
import torch.distributed as dist

from .._library import MethodReport, TerseError
from .._method import Totals, describe, entries, keep, spec_with, try_spec
from . import _overlap, _report, _state, nodes as _nodes
from ._param_groups import ParamGroup, all_finite, as_groups, take_names, together
from ._spec import agree, rewritten
from .group import members, own_group


class Optimizer(torch.optim.Optimizer):
    """What the optimizers below have in common. They take parameters, model.named_parameters(), or
    dicts with such "params" and options of their own, as torch.optim does:

        [{"params": weights, "weight_decay": 0.01}, {"params": biases, "lr": 0.001}]

    Each group is a method of its own, with its own messages. Parameters with requires_grad=False
    are neither sent nor updated. Schedulers may change lr; other options are fixed at creation.

    seed            seed of the random keys
    steps           number of steps of the training; DQ-SGD's budget needs it
    threads         threads of the library
    timeout         seconds to wait for a worker before the step fails
    process_group   the ranks that train together; default: all
    worker_weight   weight of this rank in the mean, for example the number of its examples; on
                    every rank or on none (0)
    nodes           "auto" or a number: ranks of a node are one worker, as of terse.torch.State
    overlap         True: gradients are sent while backward continues, with the same result bit for
                    bit. A step then has one backward (others inside `no_sync`), and nothing
                    changes gradients or options between backward and step. PyTorch 2.1, one group

    Create it on every rank, in the same order. It broadcasts the weights of rank 0."""

    def __init__(self, params: Any, defaults: Dict[str, Any], *, seed: int = 0, steps: int = 0,
                 threads: int = 1, timeout: float = 60.0,
                 process_group: Optional[Any] = None, worker_weight: float = 0.0,
                 nodes: _nodes.Setting = None, overlap: bool = False) -> None:
        self._carrier: Any = own_group(process_group, timeout)
        self._seed = seed
        self._options: Dict[str, Any] = {"seed": seed, "steps": steps, "threads": threads,
                         "worker_weight": worker_weight}
        self._groups: List[ParamGroup] = []
        self._nodes = nodes
        self._overlaps = overlap
        self._overlap: Optional[_overlap.Overlap] = None
        self._group: Any = None  # a Group or Nodes; before it, add_param_group only collects
        self._names: List[List[str]] = []
        self._totals = Totals()
        self._lock = threading.Lock()
        self.last: Optional[MethodReport] = None
        ranks = members(self._carrier)
        self.rank, self.workers = dist.get_rank(self._carrier), len(ranks)
        self._root = ranks[0]
        failure: Optional[Exception] = None
        try:
            _nodes.refuse(nodes, worker_weight)
            super().__init__(as_groups(params), defaults)
            if not any(p.requires_grad for group in self.param_groups for p in group["params"]):
                raise ValueError("all parameters are frozen (requires_grad=False): there is "
                                 "nothing to train")
        except (ValueError, TypeError, TerseError) as why:
            failure = why
        made = self._agreed([] if failure else self.param_groups, failure)
        self._group = _nodes.join(self._carrier, nodes, timeout)
        self._options["worker_weight"] = worker_weight or self._group.weight
        self._begin(made)

    # ---- groups ----

    def _spec_of(self, group: Dict[str, Any]) -> str:
        """The spec of the method for a parameter group."""
        raise NotImplementedError

    def _agreed(self, groups: List[Dict[str, Any]],
                failure: Optional[Exception]) -> List[ParamGroup]:
        """Groups with complete specs, the same on every rank; collective. Raises on every rank if
        one has failed or differs."""
        made: List[ParamGroup] = []
        steps = self._options["steps"]
        try:
            for group, names in zip(groups, self._names[len(self._names) - len(groups):]):
                made.append(ParamGroup(group, names, try_spec(self._spec_of(group), steps=steps)))
            if self._overlaps and failure is None:
                _overlap.refuse(self._groups + made)
        except (ValueError, TypeError, TerseError) as why:
            failure = why
        agree(self._carrier, {"spec": [each.spec for each in made], "seed": self._seed,
                              "number of steps": steps, "nodes": self._nodes,
                              "overlap": self._overlaps,
                              "parameters": [each.tensors for each in made]}, failure, "optimizer")
        return made

    def _begin(self, made: List[ParamGroup]) -> None:
        for each in made:
            options = {**self._options, "seed": self._seed + len(self._groups)}
            each.start(self._group, self._root, **options)
            self._groups.append(each)
        if self._overlaps:
            self._overlap = _overlap.Overlap(self._groups[0])

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Adds a group between two steps, for example of layers that were frozen so far;
        collective."""
        group, count = dict(param_group), len(self.param_groups)
        failure: Optional[Exception] = None
        try:
            names = take_names(group, sum(len(each) for each in self._names))
            super().add_param_group(group)
            self._names.append(names)
        except (ValueError, TypeError) as why:
            failure = why
        if self._group is None:  # the constructor's call
            if failure is not None:
                raise failure
            return
        try:
            self._begin(self._agreed(self.param_groups[count:], failure))
        except Exception:
            del self.param_groups[count:], self._names[count:]
            raise

    @property
    def spec(self) -> str:
        """The complete spec; with several groups that differ, all of them."""
        return "; ".join(dict.fromkeys(group.spec for group in self._groups))

    @property
    def tensors(self) -> List[Tuple[str, Tuple[int, ...]]]:
        """Name and shape of every parameter that is trained, by group."""
        return [pair for group in self._groups for pair in group.tensors]

    @property
    def weights(self) -> torch.Tensor:
        """The weights of all groups, flat: the buffer itself if there is one group, else a copy.
        The model's parameters are the point at which gradients are taken, which may differ."""
        held = [group.weights for group in self._groups]
        return held[0] if len(held) == 1 else torch.cat(held)

    @property
    def steps_done(self) -> int:
        """The number of steps done, without skipped ones."""
        return max(int(group.method.steps_done) for group in self._live())

    def _live(self) -> List[ParamGroup]:
        """The groups that have a parameter to train."""
        return [group for group in self._groups if group.method is not None]

    # ---- torch.optim.Optimizer ----

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step on all ranks; collective. A non-finite gradient on one rank skips the step on
        all (`last.exchange.skipped`). After GroupError or MismatchError no further step works."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("another thread is inside step(); call it from one thread at a "
                               "time, so that all ranks take their steps in the same order")
        try:
            self.last = self._step()
            self._totals.add(self.last, self._live())
        except Exception as why:
            if (self._overlap is not None or isinstance(why, TerseError)) and self._ended():
                self._leave()  # the other ranks fail at once, not after the timeout
            raise
        finally:
            self._lock.release()
        return loss

    def _step(self) -> MethodReport:
        if self._overlap is not None:
            return self._overlap.step()
        groups = self._live()
        for group in groups:
            group.begin()
        gradients = [group.gradients() for group in groups]
        if len(groups) > 1 and not all_finite(gradients):
            # The library then skips the step of every group, on every rank.
            for each in gradients:
                each[0] = torch.full_like(each[0], float("nan"))
        return together([group.step(each) for group, each in zip(groups, gradients)])

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """With overlap=True: a backward inside accumulates gradients and sends none."""
        if self._overlap is not None:
            self._between_steps("enter no_sync")
            self._overlap.paused = True
        try:
            yield
        finally:
            if self._overlap is not None:
                self._overlap.paused = False

    def _between_steps(self, what: str) -> None:
        if self._overlap is not None and self._overlap.under_way:
            raise RuntimeError("cannot %s between backward and step: with overlap=True the step has "
                               "begun" % what)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops gradients instead of filling them with zeros: the next backward need not add."""
        super().zero_grad(set_to_none=set_to_none)

    @property
    def state(self) -> "DefaultDict[torch.Tensor, Any]":  # type: ignore[override]
        """The state of every parameter by name (momentum, second moment, residual, ...): views of
        the library's buffers, until the next step."""
        self._between_steps("read the state")
        return defaultdict(dict, (pair for group in self._live() for pair in group.state_of()))

    @state.setter
    def state(self, _: Any) -> None:
        """torch.optim.Optimizer sets an empty one; trainers put back what they have read."""

    # ---- evaluation and report ----

    @contextmanager
    def eval_weights(self) -> Iterator[None]:
        """Inside, the model holds the weights to evaluate and to save (DEF: x; DEFA: x - mean e)
        instead of the point at which gradients are taken. Collective: every rank enters it."""
        self._between_steps("evaluate")
        for group in self._live():
            out = torch.empty_like(group.weights)
            group.method.eval_weights(out.data_ptr())
            group.attach(out)
        try:
            yield
        finally:
            for group in self._live():
                group.attach(group.point)

    def report(self) -> "_report.Report":
        """Bytes sent, dense bytes, compression ratio, milliseconds per stage, and parameters."""
        return _report.Report(self.spec, self._totals.as_dict(), self._live())

    # ---- state ----

    def state_dict(self) -> Dict[str, Any]:
        """The state of this rank, with the weights: the model's state_dict holds the point at which
        gradients are taken, which may differ from the weights."""
        self._between_steps("save")
        saved = super().state_dict()
        saved["state"] = {}  # the groups below have it
        saved["terse_state"] = {
            "terse": 2, "seed": self._seed, "rank": self._group.rank,
            "workers": self._group.workers,
            "worker_weight": self._options["worker_weight"],
            "groups": [group.saved() for group in self._live()]}
        return saved

    def load_state_dict(self, saved: Dict[str, Any]) -> None:
        """Loads the state of this rank; call it on every rank, between the same steps."""
        self._load(saved["terse_state"])
        super().load_state_dict({name: saved[name] for name in ("state", "param_groups")})
        for group, options in zip(self._groups, self.param_groups):  # new dicts
            group.options = options

    def _load(self, saved: Dict[str, Any]) -> None:
        self._between_steps("load a state")
        theirs, groups = saved.get("groups", ()), self._live()
        for name, that, mine in (
                ("seed", saved.get("seed"), self._seed),
                ("rank", saved.get("rank"), self._group.rank),
                ("workers", saved.get("workers"), self._group.workers),
                ("specs", [rewritten(each["spec"]) for each in theirs],
                 [group.spec for group in groups]),
                ("tensors", [each["tensors"] for each in theirs],
                 [group.tensors for group in groups])):
            if that != mine:
                raise ValueError("load_state_dict: the state was saved with %s %r, this optimizer "
                                 "has %r; terse.torch.load_all accepts another number of workers, "
                                 "but no other spec, seed or model" % (name, that, mine))
        for group, each in zip(groups, theirs):
            group.restore(each)

    def _regrouped(self, saved: List[Dict[str, Any]]) -> Dict[str, Any]:
        """The state of this rank, from those of another number of ranks."""
        groups = []
        for index, first in enumerate(saved[0]["groups"]):
            mask = _state.owned(first["tensors"], self._group.rank, self._group.workers,
                                describe(first["spec"]).combine == "parameter-server")
            parts = _state.regroup([each["groups"][index]["parts"] for each in saved], mask,
                                   _state.weights_of(saved))
            groups.append({**first, "parts": parts})
        return {**saved[0], "rank": self._group.rank, "workers": self._group.workers,
                "groups": groups}

    def close(self) -> None:
        """Leaves the group. The model then holds the weights."""
        if not self._ended():
            for group in self._live():
                group.attach(group.weights)
            return
        for group in self._live():
            group.close()
        self._leave()

    def _ended(self) -> bool:
        """Whether the communication thread has ended. If not, what it uses stays for the life of the
        process, and the other ranks wait until the timeout."""
        if self._overlap is None or self._overlap.close():
            return True
        keep(self._overlap, self._groups, self._group)
        return False

    def _leave(self) -> None:
        self._carrier = None  # gloo's connections end with the last reference
        self._group.close()


class Spec(Optimizer):
    """Any method of the library by its spec: Spec(model.parameters(), "def:ratio=64", lr=0.05).

    lr              learning rate
    weight_decay    decay; default: that of the spec
    others          as of Optimizer

    A group may have a "spec" of its own."""

    def __init__(self, params: Any, spec: str, *, lr: float, weight_decay: Optional[float] = None,
                 **others: Any) -> None:
        super().__init__(params, {"lr": lr, "spec": spec, "weight_decay": weight_decay}, **others)

    def _spec_of(self, group: Dict[str, Any]) -> str:
        spec, decay = group["spec"], group["weight_decay"]
        if decay is None:
            return str(spec)
        if not any(entry.name == "wd" for entry in entries(spec)):
            raise ValueError("%s has no weight decay; leave out weight_decay=%r" % (spec, decay))
        return spec_with(spec, "wd=%r" % float(decay), replace=True)


class Signum(Optimizer):
    """Signum with majority vote: the sign of the majority of the workers' momenta (Bernstein et
    al., 2018 and 2019). One bit per element in each direction. momentum=0 is signSGD."""

    def __init__(self, params: Any, lr: float = 1e-4, momentum: float = 0.9,
                 weight_decay: float = 0.0, *, tie: str = "coin", zero: str = "coin",
                 **others: Any) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay,
                                  "tie": tie, "zero": zero}, **others)

    def _spec_of(self, group: Dict[str, Any]) -> str:
        return "signum:lr=%r,beta=%r,wd=%r,tie=%s,zero=%s" % (
            float(group["lr"]), group["momentum"], group["weight_decay"], group["tie"],
            group["zero"])


class DEF(Optimizer):
    """Detached error feedback over random blocks (Xu and Huang, 2022): `ratio` times fewer bytes.
    The model's parameters are the detached point w = x - lam * e, which differs between ranks;
    evaluate and save inside `with optimizer.eval_weights():`, at the weights x."""

    _name = "def"

    def __init__(self, params: Any, lr: float = 0.05, momentum: float = 0.9, lam: float = 0.3,
                 ratio: float = 64, weight_decay: float = 0.0, *, min: int = 0,
                 **others: Any) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "lam": lam, "ratio": ratio,
                                  "weight_decay": weight_decay, "min": min}, **others)

    def _spec_of(self, group: Dict[str, Any]) -> str:
        return "%s:lr=%r,momentum=%r,lambda=%r,ratio=%r,wd=%r,min=%d" % (
            self._name, float(group["lr"]), group["momentum"], group["lam"], group["ratio"],
            group["weight_decay"], group["min"])


class DEFA(DEF):
    """DEF-A: trains as DEF does, bit for bit, and is evaluated at x_A = x - mean e, which
    `with optimizer.eval_weights():` gathers in a dense all-reduce."""

    _name = "def-a"


class QAdam(Optimizer):
    """Quantized Adam with error feedback (Chen, Shen, Huang, Liu, 2021): workers send steps of
    2 kg + 3 levels to the owners and receive weights of 2^(kx+1) + 1 levels. Every rank owns a
    slice of the weights in full precision; the model holds the quantized ones. kx=0 leaves weights
    unquantized, kg="off" the steps. bias=True corrects both moments as Adam does: the paper's form,
    bias=False, starts up to 6.5 times too fast and wants a rate that climbs
    (docs/methods/qadam.md). None is the library's default."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 kg: Union[int, str] = 2, kx: int = 8, *, v0: float = 1e-8,
                 bias: Optional[bool] = True, weight_decay: float = 0.0, min: int = 0,
                 **others: Any) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "kg": kg, "kx": kx, "v0": v0,
                                  "bias": bias, "weight_decay": weight_decay, "min": min},
                         **others)

    def _spec_of(self, group: Dict[str, Any]) -> str:
        corrects = {None: "", False: ",bias=no", True: ",bias=yes"}[group["bias"]]
        return "qadam:lr=%r,beta1=%r,beta2=%r,kg=%s,kx=%d,v0=%r,wd=%r,min=%d%s" % (
            float(group["lr"]), group["betas"][0], group["betas"][1], group["kg"], group["kx"],
            group["v0"], group["weight_decay"], group["min"], corrects)


__all__ = ["Optimizer", "Spec", "Signum", "DEF", "DEFA", "QAdam"]
