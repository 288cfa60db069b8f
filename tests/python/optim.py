"""The optimizers of terse.torch.optim."""

import threading
import time

import torch
import torch.distributed as dist

import terse
import terse.torch
from crew import Skip
from support import Local, flat, net, raises, same_everywhere, train
from terse._method import describe
from terse.torch import optim
from terse.torch._state import owned

SHAPES = [(70, 90), (33,), (5000,), (1,)]
OPTIONS = {"seed": 3, "timeout": 20}


def gradient(rank, step):
    source = torch.Generator().manual_seed(31 * step + rank)
    return [torch.randn(shape, generator=source) for shape in SHAPES]


def parameters():
    source = torch.Generator().manual_seed(5)
    return [torch.nn.Parameter(torch.randn(shape, generator=source)) for shape in SHAPES]


MADE = (("signum", lambda p: optim.Signum(p, 0.01, 0.9, 0.001, **OPTIONS)),
        ("def", lambda p: optim.DEF(p, 0.05, ratio=16, **OPTIONS)),
        ("def-a", lambda p: optim.DEFA(p, 0.05, ratio=16, **OPTIONS)),
        ("qadam", lambda p: optim.QAdam(p, 0.01, **OPTIONS)),
        ("qadam, the paper's form", lambda p: optim.QAdam(p, 0.01, bias=False, **OPTIONS)),
        ("qadam, weights alone", lambda p: optim.QAdam(p, 0.01, kg="off", kx=4, bias=True,
                                                       **OPTIONS)),
        ("spec", lambda p: optim.Spec(p, "regtopk:keep=0.05", lr=0.1, **OPTIONS)))


def case_every_step_is_that_of_the_library(rank, workers):
    """Compares weights and points, bit for bit, with all workers in one process."""
    for name, make in MADE:
        params = parameters()
        start = torch.cat([p.detach().reshape(-1) for p in params])
        mine = make(params)
        local = Local(mine.spec, workers, mine.tensors, start, seed=3)
        for step in range(6):
            for parameter, grad in zip(params, gradient(rank, step)):
                parameter.grad = grad
            mine.step()
            local.step([torch.cat([g.reshape(-1) for g in gradient(r, step)])
                        for r in range(workers)])
            assert torch.equal(mine.weights, local.weights[rank]), (name, step)
            at = torch.cat([p.detach().reshape(-1) for p in params])
            assert torch.equal(at, local.point(rank)), (name, step)
        with mine.eval_weights():
            assert torch.equal(torch.cat([p.detach().reshape(-1) for p in params]),
                               local.eval_weights()), name
        assert torch.equal(torch.cat([p.detach().reshape(-1) for p in params]), at)
        mine.close()


def case_they_train(rank, workers):
    made = (lambda p: optim.Signum(p, 0.002), lambda p: optim.DEF(p, 0.05, ratio=8),
            lambda p: optim.DEFA(p, 0.05, ratio=8), lambda p: optim.QAdam(p, 0.002))
    for make in made:
        torch.manual_seed(1 + rank)  # the optimizer broadcasts the weights of rank 0
        model = net()
        optimizer = make(model.named_parameters())
        same_everywhere(optimizer.weights, "initial weights")
        first = train(model, optimizer, rank, [0])
        last = train(model, optimizer, rank, [0] * 30)
        same_everywhere(optimizer.weights, optimizer.spec)
        assert last < 0.9 * first, (optimizer.spec, first, last)
        report = optimizer.report()
        assert report["steps"] == 31 and report["parameters"][0]["name"] == "0.weight"
        assert workers == 1 or report["compression_ratio"] > 2, report["compression_ratio"]
        optimizer.close()
        same_everywhere(flat(model), "weights after close")


def case_def_and_def_a_differ_in_what_is_evaluated(rank, workers):
    """They train alike; the weights to evaluate are x in DEF, x_A = x - mean e in DEFA."""
    weights, evaluated, means = [], [], []
    for make, name in ((optim.DEF, "def"), (optim.DEFA, "def-a")):
        params = parameters()
        optimizer = make(params, 0.05, ratio=16, **OPTIONS)
        assert describe(optimizer.spec).name == name
        for step in range(4):
            for parameter, grad in zip(params, gradient(rank, step)):
                parameter.grad = grad
            optimizer.step()
        residual = optimizer.state_dict()["terse_state"]["groups"][0]["parts"]["residual"]["data"]
        point = torch.cat([p.detach().reshape(-1) for p in params])
        assert torch.allclose(point, optimizer.weights - 0.3 * residual, atol=1e-6)
        dist.all_reduce(residual)
        with optimizer.eval_weights():
            evaluated.append(torch.cat([p.detach().reshape(-1) for p in params]))
        weights.append(optimizer.weights.clone())
        means.append(residual / workers)
        optimizer.close()
    assert torch.equal(*weights) and float(means[0].abs().max()) > 0.01
    assert torch.equal(evaluated[0], weights[0])
    same_everywhere(evaluated[1], "x_A")
    assert torch.allclose(evaluated[1], weights[1] - means[1], atol=1e-5)


def case_schedulers_change_the_rate(rank, workers):
    params = parameters()
    optimizer = optim.Signum(params, 0.01, zero="plus", tie="plus", **OPTIONS)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for rate in (0.01, 0.005, 0.0025):
        before = optimizer.weights.clone()
        for parameter, grad in zip(params, gradient(0, 0)):
            parameter.grad = grad
        optimizer.step()
        scheduler.step()
        moved = (optimizer.weights - before).abs()
        assert torch.allclose(moved, torch.full_like(moved, rate), atol=1e-6), rate
    optimizer.close()


def case_gradients_may_be_missing_or_not_finite(rank, workers):
    params = parameters()
    optimizer = optim.Signum(params, 0.01, **OPTIONS)
    params[0].grad = torch.ones(SHAPES[0])
    optimizer.step()  # the other parameters have no gradient: zeros
    before = optimizer.weights.clone()
    params[0].grad = torch.full(SHAPES[0], float("nan") if rank == workers - 1 else 1.0)
    optimizer.step()
    assert optimizer.last.exchange.skipped != 0
    assert optimizer.last.exchange.skipped_by == workers - 1
    assert torch.equal(before, optimizer.weights)
    optimizer.zero_grad()
    assert all(p.grad is None for p in params)
    optimizer.close()


def case_gradients_may_be_transposed_but_not_sparse(rank, workers):
    """A transposed gradient gives the same step; a sparse one is refused."""
    weights = []
    for transposed in (False, True):
        param = torch.nn.Parameter(torch.zeros(5, 7))
        optimizer = optim.Signum([param], 0.01, **OPTIONS)
        torch.manual_seed(rank)
        gradient = torch.randn(5, 7)
        param.grad = gradient.t().contiguous().t() if transposed else gradient
        assert param.grad.is_contiguous() != transposed
        optimizer.step()
        weights.append(optimizer.weights.clone())
        if transposed:
            param.grad = torch.eye(5, 7).to_sparse()
            raises(ValueError, optimizer.step, "sparse")
        optimizer.close()
    assert torch.equal(*weights)


def case_bad_input(rank, workers):
    last = workers - 1
    raises(ValueError, lambda: optim.Spec(parameters(), "sigum", lr=0.1), "signum")
    raises(ValueError, lambda: optim.Signum([]), "no parameters")
    raises(ValueError, lambda: optim.Signum(
        [torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))]), "float32")
    if workers > 1:
        why = raises(terse.MismatchError, lambda: optim.Signum(
            parameters(), momentum=0.9 if rank < last else 0.8), "rank %d" % last)
        assert why.rank == last
        raises(terse.MismatchError, lambda: optim.Signum(parameters()[rank // last:]),
               "rank %d: different parameters" % last)


def case_two_threads_are_refused(rank, workers):
    params = parameters()
    optimizer = optim.Signum(params, **OPTIONS)
    inside, go, failures = threading.Event(), threading.Event(), []
    def other():
        inside.wait(10)
        try:
            optimizer.step()
        except RuntimeError as why:
            failures.append(str(why))
        go.set()
    thread = threading.Thread(target=other)
    thread.start()
    take = optimizer._step
    def slow():
        inside.set()
        go.wait(10)
        return take()
    optimizer._step = slow
    optimizer.step()
    thread.join()
    assert failures and "another thread" in failures[0], failures
    optimizer.close()


def case_a_rank_that_leaves_ends_the_training(rank, workers):
    """The others learn of it at once, though it holds its optimizer."""
    if workers == 1:
        raise Skip("1 rank sends nothing")
    model = net()
    optimizer = optim.DEF(model.parameters(), 0.05, ratio=16, timeout=60)
    train(model, optimizer, rank, range(2))
    dist.barrier()
    started = time.monotonic()
    if rank == 0:
        optimizer.close()
    else:
        raises(terse.GroupError, lambda: train(model, optimizer, rank, [2]), "rank")
        assert time.monotonic() - started < 20  # not after the timeout
        raises(RuntimeError, optimizer.step, "has left its group")
        raises(RuntimeError, optimizer.eval_weights().__enter__, "has left its group")
    dist.barrier()
    raises(RuntimeError, lambda: terse.torch.save_all("nowhere", optimizer))
    optimizer.close()


def case_slices_are_cut_as_the_library_cuts(rank, workers):
    """QAdam's owners hold the weights of their slices and zeros elsewhere."""
    params = parameters()
    start = torch.cat([p.detach().reshape(-1) for p in params])
    optimizer = optim.QAdam(params, **OPTIONS)
    held = optimizer.state_dict()["terse_state"]["groups"][0]["parts"]["owner weights"]["data"]
    mask = owned(optimizer.tensors, rank, workers, False)
    assert torch.equal(held, start * mask)
    dist.all_reduce(mask)
    assert bool((mask == 1).all())
    optimizer.close()


def case_amsgrad_is_torch_s(rank, workers):
    """adam:amsgrad=yes against torch.optim.Adam on the mean of all gradients."""
    params, theirs = parameters(), parameters()
    mine = optim.Spec(params, "adam:beta1=0.8,beta2=0.9,amsgrad=yes", lr=0.01, **OPTIONS)
    other = torch.optim.Adam(theirs, lr=0.01, betas=(0.8, 0.9), amsgrad=True)
    for step in range(12):
        shrinks = 0.5 ** step  # so that the largest second moment is not the last
        every = [gradient(r, step) for r in range(workers)]
        for i, (parameter, reference) in enumerate(zip(params, theirs)):
            parameter.grad = shrinks * every[rank][i]
            reference.grad = shrinks * sum(grads[i] for grads in every) / workers
        mine.step()
        other.step()
        for parameter, reference in zip(params, theirs):
            torch.testing.assert_close(parameter, reference, rtol=1e-5, atol=1e-6)
    mine.close()
