"""The communication hook under DistributedDataParallel."""

import contextlib
import io
import logging
import threading

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import terse
import terse.torch
from support import (METHODS, batch, flat, hooked, net, raises, same_everywhere, state_of,
                     train)
from terse._method import Method
from terse.torch import _state


def case_every_method_trains_and_ranks_agree(rank, workers):
    for spec in METHODS:
        torch.manual_seed(1)
        ddp, state = hooked(net(), spec)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01 if "sign" in spec else 0.1)
        first = train(ddp, optimizer, rank, [0])
        last = train(ddp, optimizer, rank, [0] * 9)
        same_everywhere(flat(ddp), spec)
        assert last < first, "%s: the loss went from %g to %g" % (spec, first, last)
        report = state.report()
        assert report["steps"] == 10 and report["skipped"] == 0 and state.steps_done == 10
        assert workers == 1 or report["bytes_sent"] > 0
        assert len(report["parameters"]) == 6 and spec.split(":")[0].split("=")[0] in str(report)
        state.close()


def case_dense_is_the_mean_in_rank_order(rank, workers):
    ddp, state = hooked(net(), "dense")
    plain = net()
    plain.load_state_dict(ddp.module.state_dict())
    for step in range(5):  # DDP rebuilds its buckets after the first
        wanted = None
        for other in range(workers):
            plain.zero_grad()
            x, y = batch(other, step)
            torch.nn.functional.cross_entropy(plain(x), y).backward()
            grads = torch.cat([p.grad.reshape(-1) for p in plain.parameters()])
            wanted = grads if wanted is None else wanted + grads
        ddp.zero_grad()
        x, y = batch(rank, step)
        torch.nn.functional.cross_entropy(ddp(x), y).backward()
        got = torch.cat([p.grad.reshape(-1) for p in ddp.parameters()])
        assert torch.equal(got, wanted / workers), "step %d" % step
    assert state._buckets.count > 2, "the model must have several buckets"
    state.close()


def case_the_aggregate_is_the_update_of_the_method(rank, workers):
    """Compares options.aggregate_out with the update of the same method at lr=1, momentum=0."""
    from terse.torch.group import Group, members, own_group
    shape, source = (50, 60), torch.Generator().manual_seed(7 + rank)
    for spec in ("topk:keep=0.1", "regtopk:keep=0.1", "qsgd", "dense:momentum=0", "ef-sign",
                 "powersgd:momentum=0", "signum"):
        spec = spec + ("," if ":" in spec else ":") + "lr=1"
        made = []
        for aggregate_out in (False, True):
            weights = torch.zeros(3000)
            group = Group(own_group(None, 20), members(None), 20)
            made.append((Method(spec, group, [("w", shape)], weights.data_ptr(),
                                aggregate_out=aggregate_out),
                         weights, group))
        (updating, x, _), (returning, aggregate, _) = made
        for _ in range(4):
            gradient = torch.randn(3000, generator=source)
            x.zero_()
            updating.step(gradient.data_ptr())
            returning.step(gradient.data_ptr())
            assert torch.equal(-x, aggregate), spec
        for method, _, group in made:
            method.close()
            group.close()


def case_aggregates_and_residuals_add_up_to_the_gradients(rank, workers):
    """Over all ranks and steps, sum of gradients = sum of aggregates + residuals."""
    for spec in ("topk:keep=0.05", "regtopk:keep=0.05", "codec=log:k=2,feedback=residual"):
        ddp, state = hooked(net(), spec)
        gradients, aggregates = 0, 0
        own = net()
        own.load_state_dict(ddp.module.state_dict())
        for step in range(6):
            x, y = batch(rank, step)
            own.zero_grad()
            torch.nn.functional.cross_entropy(own(x), y).backward()
            gradients = gradients + torch.cat([p.grad.reshape(-1)
                                               for p in own.parameters()]).double()
            ddp.zero_grad()
            torch.nn.functional.cross_entropy(ddp(x), y).backward()
            aggregates = aggregates + torch.cat([p.grad.reshape(-1)
                                                 for p in ddp.parameters()]).double()
        saved = state.state_dict()
        names = [name for name, _ in ddp.module.named_parameters()]
        order = [(name, tuple(p.shape)) for name, p in ddp.module.named_parameters()]
        assert sorted(names) == sorted(name for name, _ in saved["tensors"])
        residual = _state._move_floats(saved["parts"]["residual"]["data"], saved["tensors"], order)
        residual = residual.double()
        if "owner residual" in saved["parts"]:
            owner = _state._move_floats(saved["parts"]["owner residual"]["data"], saved["tensors"],
                                        order).double()
            residual = residual + owner * workers  # an owner's residual is a part of the mean
        for total in (gradients, residual):
            dist.all_reduce(total)
        assert torch.allclose(gradients, aggregates * workers + residual, atol=1e-5), spec
        state.close()


def case_accumulation_without_sync(rank, workers):
    ddp, state = hooked(net(), "topk:keep=0.05")
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        with ddp.no_sync():
            x, y = batch(rank, 2 * step)
            torch.nn.functional.cross_entropy(ddp(x), y).backward()
        x, y = batch(rank, 2 * step + 1)
        torch.nn.functional.cross_entropy(ddp(x), y).backward()
        optimizer.step()
    same_everywhere(flat(ddp), "weights")
    assert state.steps_done == 4
    state.close()


class Branches(torch.nn.Module):
    """Uses one of two layers, and a third never."""

    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(32, 10), torch.nn.Linear(32, 10)
        self.never = torch.nn.Linear(32, 10)

    def forward(self, x, first):
        return self.one(x) if first else self.two(x)


def case_unused_parameters(rank, workers):
    ddp, state = hooked(Branches(), "regtopk:keep=0.1", find_unused_parameters=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(5):
        x, y = batch(rank, step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(x, (step + rank) % 2 == 0), y).backward()
        optimizer.step()
    same_everywhere(flat(ddp), "weights")
    state.close()


def case_static_graph(rank, workers):
    ddp, state = hooked(net(), "topk:keep=0.05", static_graph=True)
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(5))
    same_everywhere(flat(ddp), "weights")
    state.close()


def case_gradients_as_views_of_buckets(rank, workers):
    results = []
    for views in (False, True):
        torch.manual_seed(1)
        ddp, state = hooked(net(), "regtopk:keep=0.05", gradient_as_bucket_view=views)
        train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(6))
        results.append(flat(ddp))
        state.close()
    assert torch.equal(*results)


def case_the_number_of_buckets_does_not_change_the_weights(rank, workers):
    """One bucket and many give the same weights, with a method that uses no random numbers."""
    results = []
    for cap in (25, 0.005):
        torch.manual_seed(1)
        ddp, state = hooked(net(), "regtopk:keep=0.05", bucket_cap_mb=cap)
        train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(6))
        results.append(flat(ddp))
        state.close()
    assert torch.equal(*results)


def uneven(rank, workers, abstain):
    model = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    ddp, state = hooked(model, "dense", {"uneven": True})
    grads = []
    with ddp.join():
        for _ in range(3 if rank == 0 else 1):
            ddp.zero_grad()
            ddp(torch.ones(1, 4)).sum().backward()
            grads.append(float(model.weight.grad[0, 0]))
        if abstain:
            state.join()
    state.close()
    return grads


def case_uneven_inputs(rank, workers):
    grads = uneven(rank, workers, False)
    wanted = [1.0, 1.0 / workers, 1.0 / workers] if rank == 0 else [1.0]
    assert torch.allclose(torch.tensor(grads), torch.tensor(wanted)), grads
    grads = uneven(rank, workers, True)
    assert len(grads) == (3 if rank == 0 else 1) and grads[0] == 1.0
    if rank == 0:
        assert abs(grads[-1] - 1.0) < 1e-6, grads  # the mean over the only rank left


def case_a_vote_has_no_mean_over_the_others(rank, workers):
    """The signs of a vote stay +1 and -1 when a rank abstains, whichever spec chooses it."""
    for spec in ("codec=sign", "signum", "codec=sign,combine=vote"):
        model = torch.nn.Linear(4, 1, bias=False)
        ddp, state = hooked(model, spec, {"uneven": True})
        assert state._chosen.votes and state._chosen.min == 0, spec
        with ddp.join():
            for _ in range(3 if rank == 0 else 1):
                ddp.zero_grad()
                ddp(torch.ones(1, 4)).sum().backward()
                assert bool((model.weight.grad.abs() == 1).all()), (spec, model.weight.grad)
            state.join()
        state.close()


def case_combines_without_plain_tensors(rank, workers):
    state = state_of("signum")
    assert state._chosen.min == 0 and state._chosen.combine == "vote"
    state.close()
    state = state_of("topk", min=5)
    assert state._chosen.min == 5
    state.close()
    state = state_of("topk:min=3", min=5)
    assert state._chosen.min == 3
    state.close()


def case_tiny_and_empty_tensors(rank, workers):
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.empty = torch.nn.Parameter(torch.zeros(0))  # DDP 1.13 fails with (0, 3)
            self.scalar = torch.nn.Parameter(torch.tensor(1.0))
            self.vector = torch.nn.Parameter(torch.ones(5000))

        def forward(self, x):
            return (self.vector * x).sum() * self.scalar + self.empty.sum()

    for spec in METHODS:
        ddp, state = hooked(Odd(), spec)
        for step in range(4):
            ddp.zero_grad()
            ddp(torch.full((5000,), float(rank + step + 1))).backward()
        for parameter in ddp.parameters():
            same_everywhere(parameter.grad, spec)
        state.close()


def case_other_types(rank, workers):
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            kinds = (torch.float16, torch.float32, torch.float64)
            self.parts = torch.nn.ParameterList(
                [torch.nn.Parameter(torch.ones(3000, dtype=kind)) for kind in kinds])

        def forward(self, x):
            return sum((part.float() * x).sum() for part in self.parts)

    for spec in ("dense", "topk:keep=0.1"):
        ddp, state = hooked(Mixed(), spec)
        for step in range(4):
            ddp.zero_grad()
            ddp(torch.full((3000,), float(rank))).backward()
        for parameter in ddp.parameters():
            assert parameter.grad.dtype == parameter.dtype
            same_everywhere(parameter.grad, spec)
            if spec == "dense":
                wanted = torch.tensor((workers - 1) / 2).to(parameter.dtype)
                assert bool((parameter.grad == wanted).all()), parameter.grad[:3]
        state.close()


def case_bfloat16_buckets(rank, workers):
    """Calls the hook directly: DDP 1.13 does not accept bfloat16 parameters over gloo."""
    class Bucket:
        held = torch.nn.Parameter(torch.zeros(2000, dtype=torch.bfloat16))
        index, is_last = staticmethod(lambda: 0), staticmethod(lambda: True)
        buffer = staticmethod(lambda: torch.full((2000,), float(rank), dtype=torch.bfloat16))
        parameters = classmethod(lambda cls: [cls.held])

    state = state_of("dense")
    aggregate = terse.torch.hook(state, Bucket()).wait()
    assert aggregate.dtype == torch.bfloat16 and bool((aggregate == (workers - 1) / 2).all())
    state.close()


def residual_of(state):
    return state.state_dict()["parts"]["residual"]["data"]


def case_a_step_that_is_not_finite_is_skipped_by_all(rank, workers):
    ddp, state = hooked(net(), "regtopk:keep=0.05")
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    train(ddp, optimizer, rank, range(4))
    before, weights = residual_of(state), flat(ddp)
    x, y = batch(rank, 4)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(ddp(x), y)
    if rank == workers - 1:
        # Only the first layer's gradient becomes infinite: the buckets sent before it are finite.
        ddp.module[0].bias.register_hook(lambda grad: grad * float("inf"))
    loss.backward()
    optimizer.step()
    assert all(float(p.grad.abs().max()) == 0 for p in ddp.parameters())
    assert torch.equal(flat(ddp), weights) and torch.equal(residual_of(state), before)
    report = state.report()
    assert report["skipped"] == 1 and state.steps_done == 4
    state.close()


def case_a_changing_loss_scale(rank, workers):
    results = []
    for scales in ([1] * 6, [1024, 1024, 4096, 2, 8, 8]):
        torch.manual_seed(1)
        ddp, state = hooked(net(), "regtopk:keep=0.05")
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for step, scale in enumerate(scales):
            x, y = batch(rank, step)
            optimizer.zero_grad()
            state.set_scale(scale)
            (torch.nn.functional.cross_entropy(ddp(x), y) * scale).backward()
            for parameter in ddp.parameters():
                parameter.grad.div_(scale)
            optimizer.step()
        results.append(flat(ddp))
        before = residual_of(state)
        ddp.zero_grad()
        (torch.nn.functional.cross_entropy(ddp(x), y) * float("inf")).backward()
        assert all(not bool(torch.isfinite(p.grad).any()) for p in ddp.parameters())
        assert torch.equal(residual_of(state), before)
        raises(ValueError, lambda: state.set_scale(0), "positive")
        state.close()
    assert torch.equal(*results)


def case_bad_specs(rank, workers):
    last = workers - 1
    raises(ValueError, lambda: state_of("regtopk:keeep=1"), "did you mean 'keep'")
    raises(ValueError, lambda: state_of("regtopk:keep=0.01,lr=0.1"), "optimizer")
    raises(ValueError, lambda: state_of("dense:momentum=0.9"), "optimizer")
    raises(ValueError, lambda: state_of("codec=f16,momentum=0.9"), "momentum", "optimizer")
    raises(ValueError, lambda: state_of("codec=f16,update=sgd"), "update", "optimizer")
    state_of("direction=momentum,momentum=0.5,codec=bf16").close()
    raises(ValueError, lambda: state_of("topk:clip=1"), "clip")
    raises(ValueError, lambda: state_of("qadam"), "qadam", "gradient")
    raises(ValueError, lambda: state_of("dqsgd", steps=0), "number of steps")
    kind = ValueError if rank == last else terse.MismatchError
    why = raises(kind, lambda: state_of("topk" if rank < last else "topq"))
    if rank < last:
        assert why.rank == last and "rank %d" % last in str(why)
    if workers > 1:
        why = raises(terse.MismatchError, lambda: state_of("topk:keep=0.0%d" % (1 + rank // last)),
                     "rank %d: different spec" % last)
        assert why.rank == last
        why = raises(terse.MismatchError, lambda: state_of("qsgd", seed=rank // last),
                     "rank %d: different seed" % last)


class Logged(logging.Handler):
    """Inside, collects what the logger "terse" is told."""

    def __init__(self, level=logging.INFO):
        super().__init__(level)
        self.lines, self.log = [], logging.getLogger("terse")

    def emit(self, record):
        self.lines.append(record.getMessage())

    def __enter__(self):
        self.before = self.log.level
        self.log.setLevel(self.level)
        self.log.addHandler(self)
        return self.lines

    def __exit__(self, *_):
        self.log.removeHandler(self)
        self.log.setLevel(self.before)


def case_rank_0_logs_the_spec(rank, workers):
    with Logged() as lines, contextlib.redirect_stdout(io.StringIO()) as printed:
        state_of("topk").close()
    assert any("min=1024" in line for line in lines) == (rank == 0), lines
    with Logged() as lines:
        state_of("signsgd").close()
    assert not any("min=" in line for line in lines) and len(lines) == (rank == 0), lines
    with Logged(logging.WARNING) as lines, contextlib.redirect_stdout(printed):
        state_of("topk").close()
    assert not lines and printed.getvalue() == ""


def case_a_vote_with_a_rate_for_gradients_is_warned_of(rank, workers):
    for spec, kind, lr, wanted in (("signum", torch.optim.SGD, 0.1, True),
                                   ("codec=sign", torch.optim.SGD, 0.02, True),
                                   ("signum", torch.optim.SGD, 0.001, False),
                                   ("signum", torch.optim.Adam, 0.1, False),
                                   ("topk", torch.optim.SGD, 0.1, False)):
        ddp, state = hooked(net(), spec)
        optimizer = kind(ddp.parameters(), lr=lr)
        with Logged(logging.WARNING) as lines:
            train(ddp, optimizer, rank, range(2))
            state.report()
        assert len(lines) == (wanted and rank == 0), (spec, kind, lr, lines)
        assert not lines or "lr=%g" % lr in lines[0] and "1e-4" in lines[0], lines
        state.close()


def case_only_cpu_tensors(rank, workers):
    class Elsewhere:
        """A bucket on the device "meta", which exists on a machine without CUDA too."""
        @staticmethod
        def buffer():
            return torch.empty(4, device="meta")

    state = state_of("topk")
    raises(RuntimeError, lambda: terse.torch.hook(state, Elsewhere()), "CPU", "meta")
    state.close()


def case_one_model_one_backward_at_a_time(rank, workers):
    first, state = hooked(net(), "topk:keep=0.05")
    second = DistributedDataParallel(net(), bucket_cap_mb=0.01)
    second.register_comm_hook(state, terse.torch.hook)
    x, y = batch(rank, 0)
    torch.nn.functional.cross_entropy(first(x), y).backward()
    loss = torch.nn.functional.cross_entropy(second(x), y)
    raises(RuntimeError, loss.backward, "one DDP model")
    raises(ValueError, state.check, "one DDP model")
    state.close()


def case_buckets_out_of_order_are_refused(rank, workers):
    """Two threads in backward at once pass buckets in an order that differs from other ranks'."""
    class Bucket:
        def __init__(self, index):
            self.index = lambda: index
            self.is_last = lambda: False
            self.buffer = lambda: torch.zeros(4)
            self.parameters = lambda: [torch.zeros(4)]

    state, failures = state_of("topk"), []
    terse.torch.hook(state, Bucket(0))

    def other():
        try:
            terse.torch.hook(state, Bucket(0))
        except RuntimeError as why:
            failures.append(str(why))
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert failures and "one backward at a time" in failures[0]
