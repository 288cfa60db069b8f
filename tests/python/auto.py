"""State("auto"): every rank changes at the same step, the choice follows the times, what it saves is
resumed with the choice, and what makes no sense is refused. Times are pretended, steps are real."""

import copy
import json
import logging
import os
import pickle
import re
import shutil
import tempfile

import torch
import torch.distributed as dist

import terse.torch
from support import flat, hooked, net, raises, same_everywhere, state_of, train
from terse._method import describe
from terse.torch import _auto

LIST = "auto:methods=topk:keep=0.05;fp16;powersgd:rank=2"
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def name(spec):
    return describe(spec).name


def pretend(state, times):
    """Times of the methods by name, or by name and number of the choice. The list of methods that
    made the steps."""
    used, auto = [], state._auto
    before = auto.next

    def pretended(began, slowest):
        took = times.get((name(auto._now.spec), len(auto.choices)),
                         times.get(name(auto._now.spec), 1.0))
        step = before(began, lambda _: slowest(took))
        used.append(name(step.spec))
        return step

    auto.next = pretended
    return used


def trained(spec, rank, steps, times=None, **options):
    torch.manual_seed(1)
    ddp, state = hooked(net(), spec, options)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    used = pretend(state, times) if times is not None else []
    train(ddp, optimizer, rank, range(steps))
    return ddp, state, optimizer, used


def case_the_fastest_is_chosen(rank, workers):
    lines = Lines()
    log = logging.getLogger("terse")
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    for fast in ("topk", "fp16", "powersgd", "dense"):
        lines.lines.clear()
        times = {"dense": 0.1, fast: 0.01 if fast == "dense" else 0.01 + 0.001 * rank}
        ddp, state, _, used = trained(LIST, rank, 60, times)
        choice, = state.choices
        assert name(state.spec) == name(choice["spec"]) == fast, (fast, state.spec)
        slowest = 0.01 if fast == "dense" else 0.01 + 0.001 * (workers - 1)
        assert choice["seconds"][choice["spec"]] == slowest, choice
        assert sorted(map(name, choice["seconds"])) == ["dense", "fp16", "powersgd", "topk"]
        assert used[:4] == ["dense"] * 4 and set(used[-10:]) == {fast}
        assert state.steps_done == 60
        told = [line for line in lines.lines if line.startswith("auto: %s:" % fast)]
        assert len(told) == (1 if rank == 0 else 0), lines.lines
        assert all(("DDP without this hook" in line) == (fast == "dense") for line in told), told
        every = [None] * workers
        dist.all_gather_object(every, used)
        assert all(each == used for each in every), every
        same_everywhere(flat(ddp), fast)
        assert state.report()["steps"] == 60
        state.close()
    log.removeHandler(lines)
    log.setLevel(logging.NOTSET)


def case_dense_stays_unless_faster_by_three_percent(rank, workers):
    for other, chosen in ((0.96, "fp16"), (0.98, "dense"), (1.2, "dense")):
        _, state, _, _ = trained("auto:methods=fp16", rank, 60, {"fp16": 0.01 * other,
                                                                 "dense": 0.01})
        assert name(state.spec) == chosen, (other, state.spec)
        state.close()
    # faster at first, but not in the turns that follow
    words = _auto.parse("auto:methods=fp16", 1024, 0)
    auto, visits, step = _auto.Auto(words), 0, None
    for _ in range(60):
        if step is not None and name(step.spec) == "fp16":
            visits += 1
        took = 0.009 if visits <= _auto._WARM + _auto._TIMED else 0.011
        step = auto.next(0.0, lambda _: 0.01 if name(auto._now.spec) == "dense" else took)
    assert name(auto.home) == "dense" and len(auto.choices) == 1


def case_a_slow_candidate_gets_one_step(rank, workers):
    _, state, _, used = trained("auto:methods=fp16", rank, 10, {"dense": 60.0, "fp16": 20.0})
    assert used == ["dense"] * 5 + ["fp16"] * 5, used
    assert name(state.choices[0]["spec"]) == "fp16" and state.choices[0]["steps"] == 2
    state.close()


def case_measured_times_choose_something(rank, workers):
    ddp, state, _, _ = trained("auto", rank, 4 + 7 * 8 + 7 * 4 + 2)
    assert len(state.choices) == 1
    assert [name(spec) for spec in state.choices[0]["seconds"]] == [
        text.split(":")[0] for text in _auto.KNOWN]
    assert state.spec == state.choices[0]["spec"]
    same_everywhere(flat(ddp), "weights")
    state.close()


def case_it_measures_again_and_hands_the_residual_over(rank, workers):
    times = {("dense", 0): 0.1, ("topk", 0): 0.01, ("regtopk", 0): 0.1,
             ("dense", 1): 0.1, ("topk", 1): 0.1, ("regtopk", 1): 0.01}
    steps = _auto._SETTLE + 3 * 7 + 6 + 3 * 7
    ddp, state, optimizer, used = trained("auto:every=6,methods=topk:keep=0.05;regtopk:keep=0.05",
                                          rank, steps, times)
    assert used[-1] == "regtopk" and len(state.choices) == 1 and state._auto.on_trial
    resting = state._auto._resting["residual"]["data"].clone()
    assert float(resting.norm()) > 0 and name(state._auto._resting_spec) == "topk"
    given, use = {}, state._use

    def seen(spec, held):
        given.update(held["parts"])
        use(spec, held)

    state._use = seen
    train(ddp, optimizer, rank, range(steps, steps + 2))
    assert name(state.spec) == "regtopk" and len(state.choices) == 2 and not state._auto.on_trial
    assert torch.equal(given["residual"]["data"], resting)  # topk's, not that of the trial
    assert "sent count" not in given  # a hint of another method
    assert state.steps_done == steps + 2
    state.close()


def case_it_resumes_with_the_choice(rank, workers):
    times = {"topk": 0.01, "dense": 0.1}
    ddp, state, optimizer, _ = trained(LIST, rank, 50, times)
    saved = copy.deepcopy((state.state_dict(), ddp.module.state_dict(), optimizer.state_dict()))
    assert name(saved[0]["spec"]) == "topk" and len(saved[0]["auto"]["choices"]) == 1
    train(ddp, optimizer, rank, range(50, 54))
    wanted = flat(ddp)
    state.close()
    for spec in (LIST, "topk:keep=0.05"):
        again, other = hooked(net(), spec)
        other.load_state_dict(saved[0])
        again.module.load_state_dict(saved[1])
        optimizer = torch.optim.SGD(again.parameters(), lr=0.05, momentum=0.9)
        optimizer.load_state_dict(copy.deepcopy(saved[2]))
        train(again, optimizer, rank, range(50, 54))
        assert torch.equal(flat(again), wanted), spec
        assert other.steps_done == 54 and name(other.spec) == "topk"
        assert len(other.choices) == (1 if spec == LIST else 0)
        other.close()


def case_another_number_of_workers_resumes_with_the_choice(rank, workers):
    _, state, _, _ = trained(LIST, rank, 50, {"topk": 0.01, "dense": 0.1})
    saved = [None] * workers
    dist.all_gather_object(saved, state.state_dict())
    state.close()
    ddp, other = hooked(net(), LIST)
    other._load(other._regrouped(saved + saved[:1]))  # as if one more rank had saved
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    train(ddp, optimizer, rank, range(2))
    assert name(other.spec) == "topk" and len(other.choices) == 1 and other.steps_done == 52
    other.close()


def case_what_is_saved_during_a_trial_is_the_method_that_stays(rank, workers):
    _, state, _, used = trained(LIST, rank, 14, {"topk": 0.01, "dense": 0.1})
    assert used[-1] == "topk" and state.choices == []
    saved = state.state_dict()
    assert name(saved["spec"]) == "dense" and "residual" not in saved["parts"]
    _, other = hooked(net(), LIST)
    other.load_state_dict(saved)
    assert name(other.spec) == "dense" and other.choices == []
    other.close()
    state.close()


def case_a_record_has_the_choice(rank, workers):
    folder = [tempfile.mkdtemp(prefix="terse-auto-") if rank == 0 else None]
    dist.broadcast_object_list(folder)
    ddp, state = hooked(net(), LIST)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    pretend(state, {"topk": 0.01, "dense": 0.1})
    with terse.torch.Record(folder[0] + "/run", state) as record:
        for step in range(45):
            train(ddp, optimizer, rank, range(step, step + 1))
            record.step(1.0)
    if rank == 0:
        with open(folder[0] + "/run/run.json", encoding="utf-8") as file:
            about = json.load(file)
        assert about["method"].startswith("topk:"), about["method"]
        assert about["auto"]["choices"] == state.choices
    state.close()
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder[0])


def case_states_that_do_not_fit_are_refused(rank, workers):
    ddp, state, _, _ = trained("fp16", rank, 2)
    saved = state.state_dict()
    state.close()
    _, other = hooked(net(), LIST)
    raises(ValueError, lambda: other.load_state_dict(saved), "by no State of the same auto")
    other.close()


def case_candidates(rank, workers):
    with open(os.path.join(ROOT, "plan", "accuracy.c"), encoding="utf-8") as file:
        rows = re.findall(r'\{"(\S+)", "(\S+)", (\S+),', file.read())
    near = {spec for _, spec, points in rows if float(points) >= -1}
    assert set(_auto.KNOWN) <= near, set(_auto.KNOWN) - near
    names = lambda **how: [name(spec) for spec in state_of("auto", **how)._words.specs]
    assert names(steps=9) == [text.split(":")[0] for text in _auto.KNOWN]
    assert "dqsgd" not in names(steps=0) and len(names(steps=0)) == len(_auto.KNOWN) - 1
    listed = state_of("auto:methods=fp16;dense:min=7;topk")._words
    assert [name(spec) for spec in listed.specs] == ["dense", "fp16", "topk"]
    assert describe(listed.specs[0]).min == 7 and listed.every == 0


def case_what_makes_no_sense_is_refused(rank, workers):
    for text, piece in (("auto:lr=0.1", "'lr=0.1' is no option"),
                        ("auto:every=x", "every=x is not a number"),
                        ("auto:methods=", "nothing between two"),
                        ("auto:methods=fp16;;topk", "nothing between two"),
                        ("auto:methods=fp16;fp16", "a method twice"),
                        ("auto:methods=nope", "no method 'nope'"),
                        ("auto:methods=signum", "its result is a vote"),
                        ("auto:methods=topk:lr=0.1", "lr is an option of the optimizer"),
                        ("auto:methods=dqsgd", "steps")):
        raises(ValueError, lambda: state_of(text, steps=0), piece)  # pylint: disable=W0640


def case_it_is_pickled_before_it_joins(rank, workers):
    state = state_of(LIST)
    words = state._words
    group, state._group = state._group, None  # as before init_process_group
    again = pickle.loads(pickle.dumps(state))
    state._group = group
    state.close()
    assert again._words == words and again._auto.home == words.specs[0]
