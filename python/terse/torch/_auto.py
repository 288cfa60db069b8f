"""State("auto"): the fastest of several methods, measured in the training itself.

Every candidate makes some steps of the training, which goes on meanwhile: all of them return the
mean gradient. A step lasts from its first bucket to the first bucket of the next one, so that what
overlaps counts only once. All ranks have the time of the slowest, and so choose alike."""

from statistics import median
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional

from .._method import describe
from ._checks import log
from ._spec import complete, shown
from ._state import Parts

# Measured within one point of dense, with these options: docs/results.md, plan/accuracy.c.
KNOWN = ("dense", "fp16", "bf16", "topk:keep=0.01", "regtopk:keep=0.01", "qsgd:bits=4",
         "dqsgd:target=4", "powersgd:rank=4")
_EXAMPLE = "for example auto:every=1000,methods=topk:keep=0.001;fp16"
_SETTLE = 4  # steps until DDP's order of buckets is the method's
_WARM, _TIMED = 2, 5  # steps of a visit that do not count, and those that do, at most
_VISIT = 1.0  # seconds after which a visit ends, with a step at least
_TURNS = 2  # of the method to beat and the fastest, after all were visited
_AS_FAST = 0.97  # what is not faster by this is not worth a change
_FAR_AHEAD = 0.5  # what is faster by this needs no further turns


class Words(NamedTuple):
    """What `auto` was told; the first spec is that of dense, the one to beat."""
    text: str  # the same for the same settings
    every: int  # steps between measurements; 0: only at the start
    specs: List[str]  # complete


class Step(NamedTuple):
    """How the next step is made."""
    spec: str
    stays: bool  # False: a candidate on trial
    timed: bool


def is_auto(text: Any) -> bool:
    return isinstance(text, str) and text.split(":", 1)[0] == "auto"


def _is_known(text: str, steps: int) -> bool:
    return steps > 0 or not describe(text).needs_steps


def _candidate(text: str, least: int, steps: int) -> str:
    full = complete(text, least, steps)
    if describe(full).votes:
        raise ValueError("auto: %s: its result is a vote, -1 or +1, which needs another learning "
                         "rate than a gradient; leave it out" % text)
    return full


def parse(text: str, least: int, steps: int) -> Words:
    """Reads auto[:every=N][,methods=SPEC;SPEC]. ValueError: what is wrong."""
    words, listed, methods = text.partition("methods=")
    every = 0
    for word in filter(None, words.partition(":")[2].split(",")):
        name, _, value = word.partition("=")
        if name != "every":
            raise ValueError("auto: %r is no option; these are every= and, last, methods=. "
                             "Learning rate and momentum are set in torch.optim; %s"
                             % (word, _EXAMPLE))
        if not value.isdigit():
            raise ValueError("auto: every=%s is not a number of steps; %s" % (value, _EXAMPLE))
        every = int(value)
    chosen = methods.split(";") if listed else [each for each in KNOWN if _is_known(each, steps)]
    if not all(chosen):
        raise ValueError("auto: methods= has nothing between two ';'; %s" % _EXAMPLE)
    specs = [_candidate(each, least, steps) for each in chosen]
    dense = next((spec for spec in specs if describe(spec).name == "dense"), None) or \
        complete("dense", least, steps)
    specs = [dense] + [spec for spec in specs if spec != dense]
    if len(set(specs)) != len(specs) or (listed and len(set(chosen)) != len(chosen)):
        raise ValueError("auto: methods= has a method twice: %s" % methods)
    return Words("auto:every=%d,methods=%s" % (every, ";".join(specs)), every, specs)


class Auto:
    """Which method makes the next step. Only the communication thread uses it."""

    def __init__(self, words: Words, choices: Optional[List[Dict[str, Any]]] = None) -> None:
        self.words = words
        self.choices = list(choices or [])  # what was chosen when, and what all took
        self.home = self.choices[-1]["spec"] if self.choices else words.specs[0]
        self._done = 0  # steps
        self._began = 0.0  # the last one
        self._now = Step(self.home, True, False)
        self._resting: Parts = {}  # the state of a method that stays, while others are tried,
        self._resting_spec = ""
        self._steps = self._schedule()
        next(self._steps)

    @property
    def on_trial(self) -> bool:
        return not self._now.stays

    def next(self, began: float, slowest: Callable[[float], float]) -> Step:
        """The step that begins now; `slowest` is the largest of all ranks' times, collective."""
        took, self._began = began - self._began, began
        self._now = self._steps.send(slowest(took) if self._now.timed else 0.0)
        self._done += 1
        return self._now

    # ---- the schedule: yields the next step, receives what the last one took ----

    def _visit(self, spec: str) -> Generator[Step, float, float]:
        took: List[float] = []
        while len(took) < _WARM + _TIMED and sum(took) < _VISIT:
            took.append((yield Step(spec, spec == self.home, True)))
        return median(took[_WARM:] or took[-1:])

    def _measure(self) -> Generator[Step, float, Dict[str, float]]:
        """The time of every candidate; home becomes another one if that is faster by more than
        3 % in every turn."""
        seconds = {}
        for spec in [self.home] + [each for each in self.words.specs if each != self.home]:
            seconds[spec] = yield from self._visit(spec)
        best = min(seconds, key=lambda spec: seconds[spec])
        turns = _TURNS if seconds[best] >= _FAR_AHEAD * seconds[self.home] else 0
        while turns > 0 and seconds[best] < _AS_FAST * seconds[self.home]:
            seconds[self.home] = yield from self._visit(self.home)
            seconds[best] = yield from self._visit(best)
            turns -= 1
        if seconds[best] < _AS_FAST * seconds[self.home]:
            self.home = best
        return seconds

    def _schedule(self) -> Generator[Step, float, None]:
        yield self._now
        wait = self.words.every if self.choices else _SETTLE
        while True:
            for _ in range(wait):
                yield Step(self.home, True, False)
            if wait == 0:
                while True:
                    yield Step(self.home, True, False)
            first = self._done
            seconds = yield from self._measure()
            self.choices.append({"step": self._done, "spec": self.home, "steps": self._done - first,
                                 "seconds": seconds})
            wait = self.words.every

    # ---- the state of the methods ----

    def hand_over(self, stayed: bool, step: Step, before: str, held: Parts) -> Parts:
        """The parts with which the method of `step` begins, where that of `before` ends with the
        parts `held`. Counters always go over. A method that stays gets its own back, and the
        residual of the one that stayed before it; what is left from a trial is dropped."""
        counters = {name: part for name, part in held.items() if part["kind"] == "shared"}
        if stayed:
            self._resting, self._resting_spec = held, before
        if not step.stays:
            return counters
        same = self._resting_spec == step.spec
        kept = {name: part for name, part in self._resting.items()
                if same or part["kind"] != "hint"}
        return {**kept, **counters}

    def saved_parts(self, held: Parts) -> Parts:
        """What to save: the state of the method that stays."""
        return self.hand_over(False, Step(self.home, True, False), "", held) \
            if self.on_trial else held

    def tell(self) -> None:
        choice = self.choices[-1]
        others = ", ".join("%s %.3g" % (describe(spec).name, 1e3 * took)
                           for spec, took in choice["seconds"].items() if spec != choice["spec"])
        # terse's dense checks every byte and adds in rank order, which gloo's does not
        advice = "; DDP without this hook saves its checks as well" \
            if choice["spec"] == self.words.specs[0] else ""
        log.info("auto: %s: %.3g ms per step (%s), measured in %d steps%s", shown(choice["spec"]),
                 1e3 * choice["seconds"][choice["spec"]], others, choice["steps"], advice)


__all__ = ["Auto", "KNOWN", "Step", "Words", "is_auto", "parse"]
