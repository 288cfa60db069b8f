"""The experiments of bench/evidence, as data: what is trained, and which rows the table has."""

from dataclasses import dataclass, field


@dataclass
class Row:
    """A line of a table: a method with its rate tuned, or with the rate of another row."""
    name: str
    spec: str                 # without lr
    start: float = 0.0        # first rate of the grid; 0: the rate of the row `like`
    like: str = ""
    options: tuple = ()       # beside the plan's, in the last trainings alone


@dataclass
class Plan:
    about: str
    data: str                 # %s: the folder given with --data
    options: str              # of terse train
    tune: str                 # how long a training of the grid is
    last: str                 # how long one of the table is
    rows: list = field(default_factory=list)
    seeds: int = 3


def spec(method, *options):
    """All rates follow half a cosine down to 0."""
    return method + ":" + ",".join(("schedule=cosine",) + options)


def qadam():
    rows = [
        Row("Adam", spec("adam"), 0.001),
        Row("Adam, ramp=300", spec("adam", "ramp=300"), 0.002),
        Row("AMSGrad", spec("adam", "amsgrad=yes"), 0.001),
        Row("QAdam", spec("qadam", "ramp=300", "kg=2", "kx=8"), 0.002),
        Row("QAdam, bias=yes", spec("qadam", "ramp=0", "bias=yes", "kg=2", "kx=8"), 0.002),
        Row("QAdam, ramp=0", spec("qadam", "ramp=0", "kg=2", "kx=8"), 0.001),
        Row("QAdam, no feedback", spec("qadam", "ramp=300", "kg=2", "kx=8", "feedback=none"),
            0.002),
        Row("gradients alone", spec("qadam", "ramp=300", "kg=2", "kx=0"), like="QAdam"),
        Row("weights alone", spec("qadam", "ramp=300", "kg=off", "kx=8"), like="QAdam"),
    ]
    for kg in (0, 1, 3):
        for feedback in ((), ("feedback=none",)):
            rows.append(Row("kg=%d%s" % (kg, ", no feedback" if feedback else ""),
                            spec("qadam", "ramp=300", "kg=%d" % kg, "kx=8", *feedback), like="QAdam"))
    rows += [Row("kx=%d" % kx, spec("qadam", "ramp=300", "kg=2", "kx=%d" % kx), like="QAdam")
             for kx in (1, 2, 3, 4, 5, 6, 7, 10)]
    return rows


def adversaries():
    """Three of seven attack; every method keeps the rate that is best without them."""
    rows = []
    for name, method, start in (("vote", "signum", 0.0005), ("median", "median", 0.04),
                                ("mean", "dense", 0.04)):
        rows.append(Row(name, spec(method), start))
        for attack in ("invert", "invert*10", "random", "random*10"):
            rows.append(Row("%s, %s" % (name, attack), spec(method), like=name,
                            options=("--adversaries", "3:" + attack)))
    return rows


FASHION = "--model cnn --batch 32"
PLANS = {
    "qadam": Plan("QAdam beside Adam: Fashion-MNIST, CNN, 4 workers", "fashion",
                  FASHION + " --workers 4", "--epochs 1", "--epochs 3", qadam()),
    "adversaries": Plan("three adversaries of seven workers: Fashion-MNIST, CNN", "fashion",
                        FASHION + " --workers 7", "--epochs 1", "--epochs 1", adversaries()),
}
