"""Optimizers that do their own communication, for methods whose aggregate is not a gradient.

Use them with a plain model on every rank (no DistributedDataParallel, or its no_sync):

    optimizer = terse.torch.optim.Signum(model.parameters(), lr=1e-4)
    loss.backward()
    optimizer.step()          # sends, receives, aggregates, updates: equal weights on every rank

The parameters become views of one flat buffer, which the library updates in place. Every step
equals the step of the C method of the same name, bit for bit. Buffers of the model (batch norm) are
not synchronised."""

import threading
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import torch
import torch.distributed as dist

from .._library import MethodReport, TerseError
from .._method import Method, Totals, describe, try_spec
from . import _report, _state
from ._spec import agree
from .group import Group, members, own_group


def _parameters(given: Any) -> Tuple[List[str], List[torch.Tensor]]:
    """Names and parameters, from parameters or from (name, parameter) pairs."""
    names, found = [], []
    for index, entry in enumerate(given):
        if isinstance(entry, dict):
            raise ValueError("terse.torch.optim takes one group of parameters, not dicts; pass "
                             "model.parameters() or model.named_parameters()")
        name, parameter = entry if isinstance(entry, tuple) else ("p%d" % index, entry)
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
            raise ValueError("parameter %s is %s on %s; terse.torch.optim needs float32 on the CPU"
                             % (name, parameter.dtype, parameter.device))
        names.append(name)
        found.append(parameter)
    if not found:
        raise ValueError("there are no parameters; pass model.parameters() of a model that has any")
    return names, found


class Spec(torch.optim.Optimizer):
    """Any method of the library by its spec: Spec(model.parameters(), "def:ratio=64", lr=0.05).

    params          parameters, or model.named_parameters()
    lr              learning rate; schedulers of torch.optim.lr_scheduler may change it
    seed            seed of the random keys
    steps           number of steps of the training; DQ-SGD's budget needs it
    threads         threads of the library
    timeout         seconds to wait for a worker before the step fails
    process_group   the ranks that train together; default: all
    worker_weight   weight of this rank in the mean, for example the number of its examples; on
                    every rank or on none (0)

    Create it on every rank, in the same order. It broadcasts the weights of rank 0."""

    def __init__(self, params: Any, spec: str, *, lr: float, seed: int = 0, steps: int = 0,
                 threads: int = 1, timeout: float = 60.0,
                 process_group: Optional[Any] = None, worker_weight: float = 0.0) -> None:
        self._carrier = own_group(process_group, timeout)
        failure: Optional[Exception] = None
        names: List[str] = []
        found: List[torch.Tensor] = []
        self.spec = str(spec)
        try:
            self.spec = try_spec(spec, steps=steps)
            names, found = _parameters(params)
        except (ValueError, TerseError) as why:
            failure = why
        self.tensors = [(name, tuple(p.shape)) for name, p in zip(names, found)]
        agree(self._carrier, {"spec": self.spec, "seed": seed, "number of steps": steps,
                              "parameters": self.tensors}, failure, "optimizer")
        super().__init__(found, {"lr": lr})
        self._seed = seed
        ranks = members(self._carrier)
        self.rank, self.workers = dist.get_rank(self._carrier), len(ranks)
        self.weights = torch.cat([p.detach().reshape(-1) for p in found])
        dist.broadcast(self.weights, ranks[0], group=self._carrier)
        self._zeros: Optional[torch.Tensor] = None
        self._group = Group(self._carrier, ranks, timeout)
        self.method = Method(self.spec, self._group, self.tensors, self.weights.data_ptr(),
                             seed=seed, steps=steps, threads=threads,
                             worker_weight=worker_weight)
        self._lr: Optional[float] = None
        self._totals = Totals()
        self._lock = threading.Lock()
        self.last: Optional[MethodReport] = None
        point = self.method.point
        self._point = self.weights if point == self.weights.data_ptr() else \
            _state.tensor_at(point, self.weights.numel())
        self._attach(self._point)

    # ---- the flat buffers ----

    def _all(self) -> Iterator[Tuple[torch.Tensor, slice]]:
        at = 0
        for parameter in self.param_groups[0]["params"]:
            yield parameter, slice(at, at + parameter.numel())
            at += parameter.numel()

    def _attach(self, flat: torch.Tensor) -> None:
        """Makes the model's parameters views of a flat buffer."""
        for parameter, where in self._all():
            parameter.data = flat[where].view(parameter.shape)

    def _gradients(self) -> List[torch.Tensor]:
        """The gradient of every parameter, without a copy if contiguous; zeros if it has none."""
        found = []
        for (name, _), parameter in zip(self.tensors, self.param_groups[0]["params"]):
            gradient = parameter.grad
            if gradient is None:
                gradient = self._zeros_like(parameter)
            elif gradient.is_sparse or gradient.dtype != torch.float32:
                raise ValueError("the gradient of %s is %s; terse.torch.optim needs dense float32"
                                 % (name, "sparse" if gradient.is_sparse else gradient.dtype))
            found.append(gradient.contiguous())
        return found

    def _zeros_like(self, parameter: torch.Tensor) -> torch.Tensor:
        if self._zeros is None:
            self._zeros = torch.zeros(max(p.numel() for p in self.param_groups[0]["params"]))
        return self._zeros[:parameter.numel()]

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
            lr = float(self.param_groups[0]["lr"])
            if lr != self._lr:
                self.method.set_lr(lr)
                self._lr = lr
            gradients = self._gradients()
            self.last = self.method.step_tensors([g.data_ptr() for g in gradients])
            self._totals.add(self.last)
        except TerseError:
            self._group.close()  # the other ranks fail at once, not after the timeout
            raise
        finally:
            self._lock.release()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops gradients instead of filling them with zeros: the next backward need not add."""
        super().zero_grad(set_to_none=set_to_none)

    # ---- evaluation and report ----

    @contextmanager
    def eval_weights(self) -> Iterator[None]:
        """Inside, the model holds the weights to evaluate and to save (DEF: x; DEFA: x - mean e)
        instead of the point at which gradients are taken. Collective: every rank enters it."""
        out = torch.empty_like(self.weights)
        self.method.eval_weights(out.data_ptr())
        self._attach(out)
        try:
            yield
        finally:
            self._attach(self._point)

    def report(self) -> "_report.Report":
        """Bytes sent, dense bytes, compression ratio, milliseconds per stage, and parameters."""
        return _report.Report(self.spec, self._totals.as_dict(), self)

    # ---- state ----

    def _mask_of(self, tensors: Any) -> torch.Tensor:
        return _state.owned(tensors, self.rank, self.workers,
                            describe(self.spec).combine == "parameter-server")

    def state_dict(self) -> Dict[str, Any]:
        """The state of this rank, with the weights: the model's state_dict holds the point at which
        gradients are taken, which may differ from the weights."""
        saved = super().state_dict()
        saved["terse_state"] = {
            "terse": 1, "spec": self.spec, "seed": self._seed, "rank": self.rank,
            "workers": self.workers, "tensors": self.tensors, "weights": self.weights.clone(),
            "parts": _state.read_parts(self.method)}
        return saved

    def load_state_dict(self, saved: Dict[str, Any]) -> None:
        """Loads the state of this rank; call it on every rank, between the same steps."""
        self._load(saved["terse_state"])
        super().load_state_dict({name: saved[name] for name in ("state", "param_groups")})
        self._lr = None

    def _load(self, saved: Dict[str, Any]) -> None:
        for name, mine in (("spec", self.spec), ("seed", self._seed), ("rank", self.rank),
                           ("workers", self.workers), ("tensors", self.tensors)):
            if saved.get(name) != mine:
                raise ValueError("load_state_dict: the state was saved with %s %r, this optimizer "
                                 "has %r; terse.torch.load_all accepts another number of workers, "
                                 "but no other spec, seed or model" % (name, saved.get(name), mine))
        self.weights.copy_(saved["weights"])
        _state.write_parts(self.method, saved["parts"])

    def close(self) -> None:
        """Leaves the group. The model then holds the weights."""
        self._attach(self.weights)
        self.method.close()
        self._group.close()


class Signum(Spec):
    """Signum with majority vote: the sign of the majority of the workers' momenta (Bernstein et
    al., 2018 and 2019). One bit per element in each direction. momentum=0 is signSGD."""

    def __init__(self, params: Any, lr: float = 1e-4, momentum: float = 0.9,
                 weight_decay: float = 0.0, *, tie: str = "coin", zero: str = "coin",
                 **others: Any) -> None:
        super().__init__(params, "signum:lr=%r,beta=%r,wd=%r,tie=%s,zero=%s"
                         % (lr, momentum, weight_decay, tie, zero), lr=lr, **others)


class DEF(Spec):
    """Detached error feedback over random blocks (Xu and Huang, 2022): `ratio` times fewer bytes.
    The model's parameters are the detached point w = x - lam * e, which differs between ranks;
    evaluate and save inside `with optimizer.eval_weights():`, at the weights x."""

    _name = "def"

    def __init__(self, params: Any, lr: float = 0.05, momentum: float = 0.9, lam: float = 0.3,
                 ratio: float = 64, weight_decay: float = 0.0, *, min: int = 0,
                 **others: Any) -> None:
        super().__init__(params, "%s:lr=%r,momentum=%r,lambda=%r,ratio=%r,wd=%r,min=%d"
                         % (self._name, lr, momentum, lam, ratio, weight_decay, min), lr=lr,
                         **others)


class DEFA(DEF):
    """DEF-A: trains as DEF does, bit for bit, and is evaluated at x_A = x - mean e, which
    `with optimizer.eval_weights():` gathers in a dense all-reduce."""

    _name = "def-a"


class QAdam(Spec):
    """Quantized Adam with error feedback (Chen, Shen, Huang, Liu, 2021): workers send steps of
    2 kg + 3 levels to the owners and receive weights of 2^(kx+1) + 1 levels. Every rank owns a
    slice of the weights in full precision; the model holds the quantized ones. kx=0 leaves weights
    unquantized, kg="off" the steps. bias=True corrects both moments as Adam does, None is the
    library's default."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999),
                 kg: Union[int, str] = 2, kx: int = 8, *, v0: float = 1e-8,
                 bias: Optional[bool] = None, weight_decay: float = 0.0, min: int = 0,
                 **others: Any) -> None:
        corrects = {None: "", False: ",bias=no", True: ",bias=yes"}[bias]
        super().__init__(params, "qadam:lr=%r,beta1=%r,beta2=%r,kg=%s,kx=%d,v0=%r,wd=%r,min=%d%s"
                         % (lr, betas[0], betas[1], kg, kx, v0, weight_decay, min, corrects), lr=lr,
                         **others)


__all__ = ["Spec", "Signum", "DEF", "DEFA", "QAdam"]
