"""The experiments of bench/evidence, as data: what is trained, and which rows the tables have."""

from dataclasses import dataclass, field


@dataclass
class Row:
    """A line of a table: a method with its rate tuned, or with the rate of another row."""
    name: str
    spec: str                 # without lr
    start: float = 0.0        # first rate of the grid; 0: the rate of the row `like`
    like: str = ""            # a row before it, of this part or of an earlier one
    options: tuple = ()       # of terse train, after the part's: they override these
    factor: float = 1.0       # of the rate of `like`
    grid: str = ""            # rows of one grid have the same rates, those that any of them needed


@dataclass
class Part:
    """A table: rows that are trained alike."""
    about: str
    data: str                 # %s: the folder given with --data
    options: str              # of terse train; {out}: the folder of the plan
    tune: str                 # how long a training of the grid is
    last: str                 # how long one of the table is
    rows: list = field(default_factory=list)
    seeds: int = 3
    name: str = ""            # of its folder
    curve: bool = False       # the table has the accuracy at every evaluation
    pairs: tuple = ()         # (row, row): the difference, seed by seed
    densities: bool = False   # and phi of gradient and noise


@dataclass
class Plan:
    about: str
    parts: list
    prepare: dict = field(default_factory=dict)  # name: (data, options) of a training that comes first


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


def methods():
    """Every paper's method beside its baseline, for the table of README and of `terse plan`."""
    return [Row(name, spec(method, *options), start) for name, method, options, start in (
        ("dense", "dense", (), 0.04), ("Adam", "adam", ("ramp=300",), 0.016),
        ("Signum", "signum", (), 0.0005), ("EF", "ef", ("ratio=16",), 0.004),
        ("DEF", "def", ("ratio=16",), 0.02), ("QAdam", "qadam", ("ramp=300",), 0.008),
        ("Top-k", "topk", ("keep=0.01",), 0.04), ("RegTop-k", "regtopk", ("keep=0.01",), 0.04),
        ("RegTop-k, 0.1 %", "regtopk", ("keep=0.001",), 0.04), ("QSGD", "qsgd", ("bits=4",), 0.04),
        ("DQ-SGD", "dqsgd", ("target=4",), 0.04), ("Top-k, 0.1 %", "topk", ("keep=0.001",), 0.04),
        ("fp16", "fp16", (), 0.04), ("bf16", "bf16", (), 0.04),
        ("PowerSGD", "powersgd", ("rank=4",), 0.04))]


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


def signsgd():
    """Signum beside Adam and SGD on a residual network, and with 3 inverters of 7 workers."""
    compared = [Row("SGD", spec("dense"), 0.1), Row("Adam", spec("adam"), 0.002),
                Row("Signum", spec("signum"), 0.0005)]
    attacked = []
    for name, method in (("Signum", "signum"), ("SGD", "dense")):
        for attack in ("none", "invert"):
            who = "none" if attack == "none" else "3:" + attack
            attacked.append(Row("%s, %s" % (name, attack), spec(method), like=name,
                                options=("--adversaries", who)))
    return [Part("CIFAR-10, ResNet-20, 4 workers", CIFAR10, RESNET + " --workers 4 --batch 32",
                 "--epochs 1", "--epochs 5", compared, densities=True,
                 pairs=(("Signum", "SGD"), ("Signum", "Adam"))),
            Part("CIFAR-10, ResNet-20, 7 workers, 3 of which attack", CIFAR10,
                 RESNET + " --workers 7 --batch 18", "--epochs 1", "--epochs 1", attacked,
                 name="inverters")]


def detached():
    """EF, SAEF and DEF at one ratio have one grid."""
    rows = [Row("dense", spec("dense"), 0.04)]
    for ratio in (16, 64):
        rows += [Row("%s, %d" % (name, ratio), spec(method, "ratio=%d" % ratio), 0.02,
                     grid="ratio %d" % ratio)
                 for name, method in (("EF", "ef"), ("SAEF", "saef"), ("DEF", "def"))]
    early = [Row("%s, lambda %s, lr %s" % (at, decay, "of DEF" if factor == 1 else "a quarter"),
                 spec(method, "ratio=16", "lambda=%s" % decay), like="DEF, 16", factor=factor)
             for decay in ("0.3", "1") for factor in (1, 0.25)
             for at, method in (("x", "def"), ("x_A", "def-a"))]
    return [Part("CIFAR-10, the CNN, 4 workers", CIFAR10, SMALL + " --workers 4", "--epochs 2",
                 "--epochs 8", rows, pairs=tuple(
                     ("DEF, %d" % ratio, other) for ratio in (16, 64)
                     for other in ("EF, %d" % ratio, "SAEF, %d" % ratio, "dense"))),
            Part("DEF at x and DEF-A at x_A in the first 200 steps", CIFAR10,
                 SMALL + " --workers 4 --evaluate-every 40", "--steps 200", "--steps 200", early,
                 name="early", curve=True, pairs=tuple(
                     (row.name, row.name.replace("x_A", "x")) for row in early[1::2]))]


def regtopk():
    """The authors' set-up, then one ingredient of it changed at a time."""
    rows = [Row("dense", spec("dense", "momentum=0"), 0.1)]

    def pair(name, keep, options, *words):
        for method, more in (("topk", ()), ("regtopk", ("mu=5",))):
            given = [word for word in more if not any(o.startswith("mu=") for o in words)]
            rows.append(Row("%s, %s" % ("Top-k" if method == "topk" else "RegTop-k", name),
                            spec(method, "keep=" + keep, *given,
                                 *(w for w in words if method == "regtopk" or "mu=" not in w)),
                            0.1, options=options))

    model = ("scope=model", "momentum=0")
    pair("0.1 %", "0.001", (), *model)
    pair("0.01 %", "0.0001", (), *model)
    pair("0.1 %, k per tensor", "0.001", (), "scope=tensor", "momentum=0")
    pair("0.1 %, momentum 0.9", "0.001", (), "scope=model", "momentum=0.9")
    pair("0.1 %, equal shards", "0.001", ("--shard", "iid"), *model)
    pair("0.1 %, one batch a step", "0.001", ("--batches", "1"), *model)
    pair("0.1 %, from scratch", "0.001", ("--init", "", "--reinit", ""), *model)
    rows.append(Row("RegTop-k, 0.1 %, mu=1", spec("regtopk", "keep=0.001", "mu=1", *model), 0.1))
    options = (SMALL.replace("32", "16") + " --classes 5-9 --workers 8 --shard unequal --batches 4 "
               "--init {out}/prepare/weights.safetensors --reinit fc2.*")
    return [Part("CIFAR-10, classes 5 to 9, the CNN from weights of classes 0 to 4, 8 unequal shards",
                 CIFAR10, options, "--epochs 4", "--epochs 8", rows, pairs=tuple(
                     (row.name, row.name.replace("RegTop-k", "Top-k").replace(", mu=1", ""))
                     for row in rows if row.name.startswith("RegTop-k")))]


def dynamic():
    """Two to four bits."""
    def rows(start):
        found = [Row("dense", spec("dense", "momentum=0.9"), start),
                 Row("TernGrad", spec("terngrad", "momentum=0.9"), start / 4),
                 Row("signSGD", spec("signsgd"), 0.0005)]
        for bits in (2, 3, 4):
            found.append(Row("QSGD, %d bits" % bits, spec("qsgd", "momentum=0.9", "bits=%d" % bits),
                             start / 2))
        for rule in ("average", "rms", "meanstd"):
            for target in ("2.5", "3", "4") if rule == "average" else ("3",):
                name = "DQ-SGD" if rule == "average" else rule
                found.append(Row("%s, %s bits" % (name, target), spec(
                    "dqsgd", "momentum=0.9", "bits=" + rule, "target=" + target), start / 2))
        return found

    pairs = tuple([("DQ-SGD, %d bits" % bits, "QSGD, %d bits" % bits) for bits in (3, 4)] +
                  [("DQ-SGD, 3 bits", "%s, 3 bits" % rule) for rule in ("rms", "meanstd")] +
                  [("DQ-SGD, 2.5 bits", "QSGD, 2 bits"), ("DQ-SGD, 2.5 bits", "TernGrad"),
                   ("DQ-SGD, 4 bits", "dense")])
    return [Part("AG-News, bidirectional LSTM, 4 workers", "agnews:%s/ag_news",
                 "--model bilstm --workers 4 --batch 32", "--epochs 1", "--epochs 3", rows(0.3),
                 name="agnews", pairs=pairs),
            Part("CIFAR-10, the CNN, 4 workers", CIFAR10, SMALL + " --workers 4", "--epochs 1",
                 "--epochs 4", rows(0.04), name="cifar10", pairs=pairs)]


FASHION = "--model cnn --batch 32"
CIFAR10 = "cifar10:%s/cifar10"
SMALL = "--model cnn --batch 32"
RESNET = "--model resnet20 --augment"
PLANS = {
    "methods": Plan("every paper's method beside its baseline", [
        Part("Fashion-MNIST, the CNN, 4 workers", "fashion", FASHION + " --workers 4",
             "--epochs 1", "--epochs 3", methods(), pairs=(
                 ("Signum", "dense"), ("DEF", "EF"), ("QAdam", "Adam"), ("RegTop-k", "Top-k"),
                 ("RegTop-k, 0.1 %", "Top-k, 0.1 %"), ("DQ-SGD", "QSGD")))]),
    "qadam": Plan("QAdam beside Adam", [
        Part("Fashion-MNIST, the CNN, 4 workers", "fashion", FASHION + " --workers 4",
             "--epochs 1", "--epochs 3", qadam())]),
    "adversaries": Plan("three adversaries of seven workers", [
        Part("Fashion-MNIST, the CNN", "fashion", FASHION + " --workers 7", "--epochs 1",
             "--epochs 1", adversaries())]),
    "signsgd": Plan("signSGD: Signum, Adam and SGD", signsgd()),
    "def": Plan("DEF: error feedback at another point", detached()),
    "regtopk": Plan("RegTop-k and Top-k, fine-tuning", regtopk(), {
        "prepare": (CIFAR10, SMALL + " --classes 0-4 --workers 4 --epochs 4 --method "
                    + spec("dense", "lr=0.04"))}),
    "dqsgd": Plan("DQ-SGD: bits that follow the norm", dynamic()),
}
