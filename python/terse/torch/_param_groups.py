"""The parameter groups of an optimizer: one method of the library for each.

A learning rate acts before the encoding in some methods (DEF, QAdam) and after it in others, and
decay, momentum and codec may differ between groups as well. A method per group gives each its own
without a special case: every group steps as if it were alone."""

from typing import Any, Dict, Iterator, List, Tuple

import torch
import torch.distributed as dist

from .._library import MethodReport
from .._method import Shape
from . import _state


def _pairs(given: Any, first: int) -> Iterator[Tuple[str, torch.Tensor]]:
    """Names and parameters, from parameters or from (name, parameter) pairs. Unnamed ones are
    numbered from `first`."""
    for index, entry in enumerate([given] if isinstance(given, torch.Tensor) else given):
        name, parameter = entry if isinstance(entry, tuple) else ("p%d" % (first + index), entry)
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
            raise ValueError("parameter %s is %s on %s; terse.torch.optim needs float32 on the CPU"
                             % (name, parameter.dtype, parameter.device))
        yield name, parameter


def as_groups(params: Any) -> List[Dict[str, Any]]:
    """The groups as dicts, from parameters, (name, parameter) pairs or dicts with one of them as
    "params"."""
    given = list(params)
    dicts = bool(given) and isinstance(given[0], dict)
    return [dict(each) for each in given] if dicts else [{"params": given}]


def take_names(group: Dict[str, Any], first: int) -> List[str]:
    """Replaces the pairs of a group by parameters, and returns their names."""
    pairs = list(_pairs(group["params"], first))
    if not pairs:
        raise ValueError("there are no parameters; pass model.parameters() of a model that has any")
    group["params"] = [parameter for _, parameter in pairs]
    return [name for name, _ in pairs]


class ParamGroup:
    """The parameters of one group that are not frozen, their weights, and the method that updates
    them. Frozen parameters (requires_grad=False) are not sent and stay as they are."""

    def __init__(self, group: Dict[str, Any], names: List[str], spec: str) -> None:
        self.options = group  # an entry of the optimizer's param_groups
        self.spec = spec
        live = [(name, p) for name, p in zip(names, group["params"]) if p.requires_grad]
        self.params = [p for _, p in live]
        self.tensors: List[Tuple[str, Shape]] = [(name, tuple(p.shape)) for name, p in live]
        self.fixed: Dict[str, Any] = {}  # the options that cannot change any more
        self.method: Any = None  # a Method, after `start`
        self.weights = self.point = torch.empty(0)
        self._lr = float("nan")
        self._zeros = torch.empty(0)

    def start(self, group: Any, root: int, **options: Any) -> None:
        """Broadcasts the weights of the global rank `root` and creates the method; collective. A
        group whose parameters are all frozen has none."""
        self.fixed = {name: value for name, value in self.options.items()
                      if name not in ("params", "lr", "initial_lr")}
        self._broadcast(root, group.carrier)
        if not self.params:
            return
        self.weights = torch.cat([p.detach().reshape(-1) for p in self.params])
        self.method = group.method(self.spec, self.tensors, self.weights.data_ptr(), **options)
        at = self.method.point
        self.point = self.weights if at == self.weights.data_ptr() else \
            _state.tensor_at(at, self.weights.numel())
        self.attach(self.point)

    def _broadcast(self, root: int, carrier: Any) -> None:
        """Gives all parameters, the frozen ones too, the values of the global rank `root`."""
        everything = self.options["params"]
        flat = torch.cat([p.detach().reshape(-1) for p in everything])
        dist.broadcast(flat, root, group=carrier)
        for parameter, values in zip(everything, flat.split([p.numel() for p in everything])):
            parameter.data.copy_(values.view(parameter.shape))

    def _places(self) -> Iterator[Tuple[torch.Tensor, slice]]:
        at = 0
        for parameter in self.params:
            yield parameter, slice(at, at + parameter.numel())
            at += parameter.numel()

    def attach(self, flat: torch.Tensor) -> None:
        """Makes the parameters views of a flat buffer."""
        for parameter, where in self._places():
            parameter.data = flat[where].view(parameter.shape)

    def gradient(self, index: int) -> torch.Tensor:
        """The gradient of a parameter, without a copy if contiguous; zeros if it has none.
        ValueError: it is not what it must be."""
        gradient = self.params[index].grad
        if gradient is None:
            return self._zeros_like(self.params[index])
        if gradient.is_sparse or gradient.dtype != torch.float32:
            raise ValueError("the gradient of %s is %s; terse.torch.optim needs dense float32" % (
                self.tensors[index][0], "sparse" if gradient.is_sparse else gradient.dtype))
        return gradient.contiguous()

    def gradients(self) -> List[torch.Tensor]:
        """The gradient of every parameter."""
        return [self.gradient(index) for index in range(len(self.params))]

    def _zeros_like(self, parameter: torch.Tensor) -> torch.Tensor:
        if self._zeros.numel() == 0:
            self._zeros = torch.zeros(max(p.numel() for p in self.params))
        return self._zeros[:parameter.numel()]

    def _check_options(self) -> None:
        for name, value in self.fixed.items():
            if self.options.get(name) != value:
                raise ValueError("%s was %r when the group was created and is %r now; only lr can "
                                 "change (with OneCycleLR or CyclicLR: cycle_momentum=False)"
                                 % (name, value, self.options.get(name)))
        live = [p for p in self.options["params"] if p.requires_grad]
        if len(live) != len(self.params) or any(a is not b for a, b in zip(live, self.params)):
            raise ValueError("parameters were frozen or unfrozen (requires_grad) after the "
                             "optimizer was created; create it again, on all ranks")

    def begin(self) -> None:
        """Before the gradients of a step. ValueError: an option is not what it must be."""
        self._check_options()
        lr = float(self.options["lr"])
        if lr != self._lr:
            self.method.set_lr(lr)
            self._lr = lr

    def check_begun(self) -> None:
        """After gradients of a step were sent. RuntimeError: the step has begun with another rate,
        with which DEF and QAdam have encoded what was sent."""
        self._check_options()
        if float(self.options["lr"]) != self._lr:
            raise RuntimeError("lr was %r when backward sent the first gradient and is %r now; with "
                               "overlap=True, set it before backward or after step"
                               % (self._lr, float(self.options["lr"])))

    def step(self, gradients: List[torch.Tensor]) -> MethodReport:
        """One step; collective."""
        report: MethodReport = self.method.step_tensors([g.data_ptr() for g in gradients])
        return report

    def state_of(self) -> Iterator[Tuple[torch.Tensor, Dict[str, torch.Tensor]]]:
        """The parts of the state that have an element per weight, by parameter; views."""
        parts = [(part.name, _state.tensor_at(part.address, self.weights.numel()))
                 for part in self.method.parts()
                 if part.floats and part.length == 4 * self.weights.numel()]
        for parameter, where in self._places():
            yield parameter, {name: data[where].view(parameter.shape) for name, data in parts}

    def saved(self) -> Dict[str, Any]:
        return {"spec": self.spec, "tensors": self.tensors, "weights": self.weights.clone(),
                "parts": _state.read_parts(self.method)}

    def restore(self, saved: Dict[str, Any]) -> None:
        self.weights.copy_(saved["weights"])
        _state.write_parts(self.method, saved["parts"])
        self._lr = float("nan")

    def close(self) -> None:
        """The model then holds the weights."""
        self.attach(self.weights)
        self.method.close(self.weights)


def all_finite(gradients: List[List[torch.Tensor]]) -> bool:
    """Whether every element is finite; one pass over each gradient."""
    ends = [end for each in gradients for gradient in each if gradient.numel() > 0
            for end in torch.aminmax(gradient)]
    return not ends or bool(torch.isfinite(torch.stack(ends)).all())


def together(reports: List[MethodReport]) -> MethodReport:
    """The report of a step of several groups: sums; skipped if one was."""
    whole = reports[0]
    for other in reports[1:]:
        for name in ("bytes_sent", "bytes_received", "dense_bytes"):
            setattr(whole.exchange, name, getattr(whole.exchange, name)
                    + getattr(other.exchange, name))
        for index, spent in enumerate(other.exchange.nanoseconds):
            whole.exchange.nanoseconds[index] += spent
        if whole.exchange.skipped == 0 and other.exchange.skipped != 0:
            whole.exchange.skipped = other.exchange.skipped
            whole.exchange.skipped_by = other.exchange.skipped_by
        whole.capped += other.capped
    return whole
