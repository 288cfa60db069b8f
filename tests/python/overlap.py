"""Optimizers that send during backward (overlap=True): the bits of a step of the whole gradient."""

import contextlib
import gc
import os
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

import terse
import terse.torch
from crew import Skip
from support import batch, flat, frees_everything, net, raises, same_everywhere
from terse import _method
from terse.torch import _overlap, _thread, optim

OPTIONS = {"seed": 3, "timeout": 20}
HAS_HOOKS = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")
MADE = {
    "signum": lambda p, **more: optim.Signum(p, 0.002, 0.9, 0.001, **{**OPTIONS, **more}),
    "def": lambda p, **more: optim.DEF(p, 0.05, ratio=8, **{**OPTIONS, **more}),
    "def-a": lambda p, **more: optim.DEFA(p, 0.05, ratio=8, **{**OPTIONS, **more}),
    "qadam": lambda p, **more: optim.QAdam(p, 0.01, **{**OPTIONS, **more}),
}
for SPEC in ("dense", "topk:keep=0.05", "regtopk:keep=0.05", "regtopk:keep=0.05,scope=model",
             "dqsgd", "terngrad:sigma=2.5", "ef-sign", "signsgd"):
    MADE[SPEC] = lambda p, spec=SPEC, **more: optim.Spec(p, spec, lr=0.05, steps=50,
                                                         **{**OPTIONS, **more})


@contextlib.contextmanager
def small_buckets(size=4000):
    """The test network has several buckets."""
    before, _overlap.BUCKET_BYTES = _overlap.BUCKET_BYTES, size
    try:
        yield
    finally:
        _overlap.BUCKET_BYTES = before


def needs_hooks():
    if not HAS_HOOKS:
        raise Skip("PyTorch %s; gradients can be taken during backward from 2.1 on"
                   % torch.__version__)


def start(kind, model=None, **more):
    """(model, optimizer) of that kind."""
    torch.manual_seed(1)
    model = model or net()
    with small_buckets():
        return model, MADE[kind](model.parameters(), **more)


def loss_of(model, rank, step):
    x, y = batch(rank, step)
    return cross_entropy(model(x), y)


def take(model, optimizer, rank, step):
    optimizer.zero_grad()
    loss_of(model, rank, step).backward()
    optimizer.step()


def same_with_and_without(kind, train):
    """Weights after train(model, optimizer), which a whole step and overlap must make alike."""
    results = []
    for overlap in (False, True):
        model, optimizer = start(kind, overlap=overlap)
        train(model, optimizer)
        results.append(optimizer.weights.clone())
        optimizer.close()
    assert torch.equal(*results), kind


def case_the_bits_are_those_of_a_whole_step(rank, workers):
    needs_hooks()
    for kind in MADE:
        results = []
        for overlap in (False, True):
            model, optimizer = start(kind, overlap=overlap)
            for step in range(6):
                take(model, optimizer, rank, step)
            state = {name: part.clone() for held in optimizer.state.values()
                     for name, part in held.items()}
            with optimizer.eval_weights():
                evaluated = flat(model)
            results.append((optimizer.weights.clone(), evaluated, state,
                            optimizer.report()["bytes_sent"] if kind == "signum" else 0))
            optimizer.close()
        same_everywhere(results[1][0], kind)
        for whole, parts in zip(results[0][:2], results[1][:2]):
            assert torch.equal(whole, parts), kind
        assert results[0][2].keys() == results[1][2].keys()
        for name, part in results[0][2].items():
            assert torch.equal(part, results[1][2][name]), (kind, name)


def case_buckets_are_sent_during_backward(rank, workers):
    """All but the first layer's, whose gradient is the last one, when its gradient is ready."""
    needs_hooks()
    model, optimizer = start("signum", overlap=True)
    take(model, optimizer, rank, 0)
    sent, order, items = [], [], optimizer._overlap._items
    post = items.put
    items.put = lambda item: (sent.append((item[0], list(order))), post(item))
    for index, parameter in enumerate(model.parameters()):
        parameter.register_hook(lambda gradient, index=index: order.append(index))
    loss_of(model, rank, 1).backward()
    items.put = post
    assert [first for first, _ in sent] == [2, 0], sent
    assert 0 not in sent[0][1] and optimizer._overlap.under_way, sent
    optimizer.step()
    assert not optimizer._overlap.under_way and optimizer.steps_done == 2
    optimizer.close()


def case_one_run_of_tensors_is_a_bucket(rank, workers):
    with small_buckets(400):
        assert _overlap.divided([100, 5, 50, 60, 99]) == [(3, 2), (0, 3)]
        assert _overlap.divided([7]) == [(0, 1)]
        assert _overlap.divided([1, 1000, 1000]) == [(2, 1), (1, 1), (0, 1)]


def case_gradients_accumulate_in_no_sync(rank, workers):
    needs_hooks()

    def train(model, optimizer):
        for step in range(4):
            optimizer.zero_grad()
            with optimizer.no_sync():
                loss_of(model, rank, 10 + step).backward()
            loss_of(model, rank, step).backward()
            optimizer.step()
    same_with_and_without("def", train)


def case_a_parameter_without_a_gradient(rank, workers):
    """It is sent as zeros in step; and with a gradient of an earlier backward, as that."""
    needs_hooks()
    results = []
    for overlap in (False, True):
        torch.manual_seed(1)
        model = torch.nn.ModuleDict({"used": net(), "unused": torch.nn.Linear(40, 40)})
        _, optimizer = start("topk:keep=0.05", model, overlap=overlap)
        for step in range(3):
            optimizer.zero_grad()
            with optimizer.no_sync():
                if step == 1:
                    model["unused"](torch.ones(1, 40)).sum().backward()
            loss_of(model["used"], rank, step).backward()
            optimizer.step()
        results.append(optimizer.weights.clone())
        optimizer.close()
    assert torch.equal(*results)


def case_a_step_with_a_closure(rank, workers):
    needs_hooks()

    def train(model, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(model, rank, 5)
            loss.backward()
            return loss
        before = optimizer.weights.clone()
        assert float(optimizer.step(closure).detach()) > 0
        assert not torch.equal(optimizer.weights, before)
    same_with_and_without("signum", train)


def case_a_gradient_that_is_not_finite_skips_the_step(rank, workers):
    needs_hooks()
    model, optimizer = start("def", overlap=True)
    take(model, optimizer, rank, 0)
    before = optimizer.weights.clone()
    optimizer.zero_grad()
    (loss_of(model, rank, 1) * (float("nan") if rank == workers - 1 else 1)).backward()
    optimizer.step()
    assert optimizer.last.exchange.skipped and optimizer.last.exchange.skipped_by == workers - 1
    assert torch.equal(optimizer.weights, before)
    take(model, optimizer, rank, 2)
    assert not optimizer.last.exchange.skipped and not torch.equal(optimizer.weights, before)
    optimizer.close()


def case_rates_of_a_schedule(rank, workers):
    """A rate that acts before the encoding (DEF) is that of the step."""
    needs_hooks()

    def train(model, optimizer):
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
        for step in range(4):
            take(model, optimizer, rank, step)
            schedule.step()
    same_with_and_without("def", train)


def case_the_state_goes_on(rank, workers):
    needs_hooks()
    model, optimizer = start("def", overlap=True)
    for step in range(3):
        take(model, optimizer, rank, step)
    saved = optimizer.state_dict()
    for step in range(3, 5):
        take(model, optimizer, rank, step)
    whole = optimizer.weights.clone()
    optimizer.close()
    model, optimizer = start("def", overlap=True)
    optimizer.load_state_dict(saved)
    for step in range(3, 5):
        take(model, optimizer, rank, step)
    assert torch.equal(whole, optimizer.weights)
    optimizer.close()


def case_nodes(rank, workers):
    needs_hooks()
    if workers % 2:
        raise Skip("%d ranks are no nodes of two" % workers)
    results = []
    with frees_everything():
        for overlap in (False, True):
            model, optimizer = start("qadam", overlap=overlap, nodes=2)
            for step in range(4):
                take(model, optimizer, rank, step)
            results.append(optimizer.weights.clone())
            optimizer.close()
    same_everywhere(results[1], "weights")
    assert torch.equal(*results)


# ---- what is refused ----

def case_what_cannot_overlap(rank, workers):
    def make(make, *words):
        raises(ValueError, make, *words)

    if not HAS_HOOKS:
        return make(lambda: start("signum", overlap=True), "overlap=True needs PyTorch 2.1")
    model = net()
    pairs = list(model.parameters())
    make(lambda: optim.Signum([{"params": pairs[:2]}, {"params": pairs[2:], "lr": 0.1}],
                              overlap=True), "one parameter group, there are 2")
    for spec in ("powersgd", "dense:clip=1", "dense:every=2"):
        make(lambda: optim.Spec(net().parameters(), spec, lr=0.1, overlap=True),
             "overlap=True is not available with", "whole gradient")
    _, optimizer = start("signum", overlap=True)
    make(lambda: optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))]}),
         "one parameter group")
    take(_, optimizer, rank, 0)  # and it still works
    optimizer.close()
    return None


def case_ranks_that_differ(rank, workers):
    needs_hooks()
    if workers > 1:
        raises(terse.MismatchError, lambda: start("signum", overlap=rank == 0), "overlap")


def case_a_second_backward(rank, workers):
    needs_hooks()
    model, optimizer = start("signum", overlap=True)
    loss_of(model, rank, 0).backward()
    raises(RuntimeError, loss_of(model, rank, 1).backward, "second time", "no_sync")
    optimizer.close()


def case_messages_under_way_keep_their_buffers(rank, workers):
    """Rank 0 leaves in the middle of a step; what the others send it later must not be written into
    memory that was freed."""
    needs_hooks()
    if workers == 1:
        raise Skip("1 rank sends nothing")
    model, optimizer = start("def", overlap=True)
    loss_of(model, rank, 0).backward()
    optimizer._overlap._items.join()
    if rank == 0:
        assert optimizer._group.under_way
        before = len(_method._kept)
        optimizer.close()
        assert len(_method._kept) == before + 1
        optimizer.close()
        assert len(_method._kept) == before + 1
    else:
        raises(terse.GroupError, optimizer.step, "rank 0" if workers == 2 else "rank")
        optimizer.close()


def case_between_backward_and_step(rank, workers):
    needs_hooks()
    model, optimizer = start("def", overlap=True)
    loss_of(model, rank, 0).backward()
    for call in (optimizer.state_dict, lambda: optimizer.state, optimizer.eval_weights().__enter__,
                 optimizer.no_sync().__enter__):
        raises(RuntimeError, call, "between backward and step")
    optimizer.step()
    optimizer.state_dict()
    optimizer.close()


def fails_on_rank_0(rank, change, *words):
    """Rank 0 does what it must not between backward and step, while messages are under way: its
    step fails with these words, and the others learn of it at once."""
    for kind in ("signum", "def"):
        model, optimizer = start(kind, overlap=True, timeout=60)
        loss_of(model, rank, 0).backward()
        optimizer._overlap._items.join()
        dist.barrier()
        started = time.monotonic()
        if rank == 0:
            change(model, optimizer)
            raises(RuntimeError, optimizer.step, *words)
        else:
            raises(terse.GroupError, optimizer.step, "rank")
            assert time.monotonic() - started < 20  # not after the timeout
        raises(Exception, optimizer.step)  # no later step works
        loss_of(model, rank, 1).backward()  # and backward sends nothing
        optimizer.close()


def case_a_gradient_that_changes_after_it_was_sent(rank, workers):
    needs_hooks()
    fails_on_rank_0(rank, lambda model, _: torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3),
                    "has changed between backward and step")


def case_a_rate_that_changes_after_the_step_has_begun(rank, workers):
    needs_hooks()

    def change(_, optimizer):
        optimizer.param_groups[0]["lr"] *= 0.5
    fails_on_rank_0(rank, change, "lr was", "before backward")
    model, optimizer = start("def", overlap=True)
    loss_of(model, rank, 0).backward()
    change(model, optimizer)  # on all ranks: all are told why
    raises(RuntimeError, optimizer.step, "lr was 0.05", "is 0.025 now")
    optimizer.close()


def case_an_option_that_changes_after_the_step_has_begun(rank, workers):
    needs_hooks()
    model, optimizer = start("def", overlap=True)
    loss_of(model, rank, 0).backward()
    optimizer.param_groups[0]["momentum"] = 0.1
    raises(ValueError, optimizer.step, "momentum was 0.9")
    optimizer.close()


def case_a_closed_optimizer_takes_no_step(rank, workers):
    for overlap in (False, True) if HAS_HOOKS else (False,):
        model, optimizer = start("def", overlap=overlap)
        take(model, optimizer, rank, 0)
        optimizer.close()
        before = flat(model)
        loss_of(model, rank, 1).backward()
        raises(RuntimeError, optimizer.step, "close")
        assert torch.equal(flat(model), before)
        optimizer.close()


def case_a_step_that_fails_waits_for_the_thread(rank, workers):
    """The thread posts a bucket while step finds a gradient that it must refuse: the group may be
    closed only after that."""
    needs_hooks()
    model = torch.nn.ModuleDict({"unused": torch.nn.Linear(3, 3), "used": net()})
    _, optimizer = start("def", model, overlap=True)
    overlap, group = optimizer._overlap, optimizer._group
    post, close, left = overlap._group.method.post_tensors, group.close, []

    def post_late(*words):
        time.sleep(0.3)
        post(*words)
    overlap._group.method.post_tensors = post_late
    group.close = lambda: (left.append(overlap._items.unfinished_tasks), close())
    loss_of(model["used"], rank, 0).backward()
    model["unused"].weight.grad = torch.zeros(3, 3).to_sparse()
    why = raises((ValueError, terse.GroupError), optimizer.step)  # or another rank was faster
    assert "sparse" in str(why) or workers > 1
    assert left == [0], left
    optimizer.close()


def case_closing_while_the_thread_is_inside_a_message(rank, workers):
    """Nothing that the thread uses ends before the thread."""
    needs_hooks()
    model, optimizer = start("def", overlap=True)
    method, inside, goes_on = optimizer._groups[0].method, threading.Event(), threading.Event()
    method.post_tensors = lambda *_: (inside.set(), goes_on.wait(60))
    loss_of(model, rank, 0).backward()
    assert inside.wait(20)
    patience, _thread._PATIENCE = _thread._PATIENCE, 0.1
    try:
        optimizer.close()
    finally:
        _thread._PATIENCE = patience
    assert method._handle and optimizer._group.handle
    assert optimizer._overlap in _method._kept[-1]
    goes_on.set()
    optimizer._overlap._thread.join(20)
    optimizer.close()
    assert not method._handle and not optimizer._group.handle


def case_an_optimizer_takes_its_thread_with_it(rank, workers):
    needs_hooks()

    def held():
        gc.collect()
        return len(os.listdir("/proc/self/task"))

    before, model = held(), net()
    for index in range(6):
        _, optimizer = start("signum", model, overlap=True)
        take(model, optimizer, rank, index)
        dist.barrier()
        if index % 2:
            optimizer.close()
        del optimizer
    loss_of(model, rank, 9).backward()  # no hook is left that would send
    assert held() <= before + 3, (before, held())
