#!/usr/bin/env python3
"""Gradients, running statistics and a few SGD steps of every model, against PyTorch: the same
weights and batches through `probe` and through the modules of bench/train_peer_models.py.

At a kink (a relu's input near 0, two near equal candidates of a maximum) rounding decides which way
the gradient jumps, so gradients are compared on batches that stay away from every kink; to find one
for a large model, its batch norms shift their channels by 3 deviations up and down in turn.

    parity.py PROBE [MODEL...]

A line "ok MODEL ..." each; "not ok" with what differs. Exits with 77 where PyTorch is missing."""

import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "bench"))

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
    import train_peer_models
except ImportError as why:
    print("skip parity: %s" % why)
    sys.exit(77)

VECTOR, IMAGE, TEXT = 0, 1, 2
LABELS, NUMBERS = 0, 1
TOLERANCE = 1e-4

MARGIN = 2e-5  # of a kink; rounding moves what reaches it by less

# name: kind, target, shape of an example, vocabulary, outputs, and then
#   batch for the gradient; batch, examples (the last batch is short), steps and rate for the losses
CASES = {
    "linear": (VECTOR, NUMBERS, (20,), 0, 3, 16, (16, 40, 20, 0.02)),
    "logistic": (VECTOR, LABELS, (50,), 0, 5, 16, (16, 40, 20, 0.1)),
    "mlp": (IMAGE, LABELS, (1, 28, 28), 0, 10, 16, (16, 40, 20, 0.002)),
    "cnn": (IMAGE, LABELS, (1, 28, 28), 0, 10, 4, (16, 40, 20, 0.02)),
    "vgg11": (IMAGE, LABELS, (3, 32, 32), 0, 10, 3, (8, 12, 20, 0.005)),
    "vgg16": (IMAGE, LABELS, (3, 32, 32), 0, 10, 2, None),
    "resnet20": (IMAGE, LABELS, (3, 16, 20), 0, 10, 2, (8, 20, 20, 0.005)),
    "resnet18": (IMAGE, LABELS, (3, 16, 16), 0, 10, 2, None),
    "textbag": (TEXT, LABELS, (30,), 500, 4, 16, (16, 40, 20, 0.5)),
    "bilstm": (TEXT, LABELS, (25,), 300, 4, 16, (16, 40, 20, 0.5)),
}
SHIFTED = ("vgg11", "vgg16", "resnet18")


class Case:
    def __init__(self, name, losses):
        (self.kind, self.target, self.shape, self.vocabulary, self.outputs, batch,
         self.losses) = CASES[name]
        self.name = name
        self.batch, self.count, self.steps, self.rate = \
            self.losses if losses else (batch, batch, 1, 0.01)

    def model(self):
        return train_peer_models.build(self.name, self.shape, self.outputs, self.vocabulary)


class Kinks:
    """While it is open, remembers how near the relus and maxima of a model come to a kink."""

    def __enter__(self):
        self.nearest = np.inf
        self.relu, self.pool = F.relu, F.max_pool2d
        F.relu, F.max_pool2d = self.watch_relu, self.watch_pool
        return self

    def __exit__(self, *_):
        F.relu, F.max_pool2d = self.relu, self.pool

    def watch_relu(self, x, inplace=False):
        self.nearest = min(self.nearest, x.abs()[x != 0].min().item())
        return self.relu(x, inplace)

    def watch_pool(self, x, *args, **options):
        windows = x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4)
        first, second = windows.topk(2, dim=4).values.unbind(4)
        gaps = (first - second)[first > 0]
        self.nearest = min(self.nearest, gaps.min().item())
        return self.pool(x, *args, **options)


def examples(case, seed):
    rng = np.random.default_rng(seed)
    data = {}
    if case.kind == TEXT:
        shape = (case.count,) + case.shape
        data["tokens.i32"] = rng.integers(0, case.vocabulary, shape).astype(np.int32)
        data["lengths.u32"] = rng.integers(1, case.shape[0] + 1, case.count).astype(np.uint32)
    else:
        shape = (case.count,) + case.shape
        data["values.f32"] = rng.standard_normal(shape).astype(np.float32)
    if case.target == LABELS:
        data["labels.u32"] = rng.integers(0, case.outputs, case.count).astype(np.uint32)
    else:
        shape = (case.count, case.outputs)
        data["targets.f32"] = rng.standard_normal(shape).astype(np.float32)
    return data


def probe(program, folder, case, data):
    for file, values in data.items():
        values.tofile(os.path.join(folder, file))
    image = case.shape if case.kind == IMAGE else (0, 0, 0)
    length = case.shape[0] if case.kind != IMAGE else 0
    words = [case.kind, case.target, *image, length, case.vocabulary, case.outputs, case.batch,
             case.count, case.steps, case.rate]
    subprocess.run([program, folder, case.name] + [str(word) for word in words], check=True)


def tensors(folder, layout, data):
    """name -> array, in the order of the layout."""
    flat = np.fromfile(os.path.join(folder, data), dtype=np.float32)
    found, at = {}, 0
    with open(os.path.join(folder, layout), encoding="utf-8") as file:
        for line in file:
            name, *dims = line.split()
            dims = [int(d) for d in dims]
            count = int(np.prod(dims))
            found[name] = flat[at:at + count].reshape(dims)
            at += count
    assert at == flat.size, (at, flat.size)
    return found


def batch_of(case, data, step):
    first = step % ((case.count + case.batch - 1) // case.batch) * case.batch
    part = {key: torch.from_numpy(value[first:first + case.batch].astype(
        np.int64 if value.dtype != np.float32 else np.float32)) for key, value in data.items()}
    source = part["values.f32"] if case.kind != TEXT else (part["tokens.i32"], part["lengths.u32"])
    return source, part["labels.u32"] if case.target == LABELS else part["targets.f32"]


def loss_of(case, outputs, target):
    return (F.cross_entropy if case.target == LABELS else F.mse_loss)(outputs, target)


def peer(model, case, data):
    """The first gradient by name, and the loss of each step and of a last evaluation."""
    optimizer = torch.optim.SGD(model.parameters(), lr=case.rate)
    losses, gradient = [], {}
    for step in range(case.steps):
        source, target = batch_of(case, data, step)
        optimizer.zero_grad()
        loss = loss_of(case, model(source), target)
        loss.backward()
        if step == 0:
            gradient = {n: p.grad.numpy().copy() for n, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    source, target = batch_of(case, data, 0)
    with torch.no_grad():
        losses.append(loss_of(case, model(source), target).item())
    return gradient, losses


def relative(ours, theirs):
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    return np.linalg.norm(ours - theirs) / max(np.linalg.norm(theirs), 1e-30)


def away_from_kinks(case, weights):
    """Examples whose way through the model (in double precision) meets no kink, and their seed."""
    model = case.model().double()
    state = {n: torch.from_numpy(w) for n, w in weights.items()}
    model.load_state_dict(state, strict=False)
    for seed in range(200):
        data = examples(case, seed)
        source, _ = batch_of(case, data, 0)
        with torch.no_grad(), Kinks() as kinks:
            model(source if case.kind == TEXT else source.double())
        if kinks.nearest > MARGIN:
            return data, seed
    raise RuntimeError("no batch of %d stays away from the kinks" % case.batch)


def shift_norms(folder, weights, statistics):
    """The shifts of the batch norms become 3, -3, 3, ...; `probe` reads the result."""
    for name in statistics:
        shift = weights[name.rsplit(".", 1)[0] + ".bias"]
        shift[0::2], shift[1::2] = 3, -3
    np.concatenate([w.ravel() for w in weights.values()]).tofile(os.path.join(folder, "given.f32"))


def load(case, weights):
    model = case.model()
    named = [(n, tuple(p.shape)) for n, p in model.named_parameters()]
    if named != [(n, w.shape) for n, w in weights.items()]:
        raise RuntimeError("names, shapes or order are not PyTorch's: %s" % list(weights))
    model.load_state_dict({n: torch.from_numpy(w) for n, w in weights.items()}, strict=False)
    return model


def check_gradient(program, folder, name):
    case = Case(name, False)
    probe(program, folder, case, examples(case, 0))  # for the weights
    weights = tensors(folder, "layout.txt", "weights.f32")
    if name in SHIFTED:
        shift_norms(folder, weights, tensors(folder, "statistics.txt", "statistics.f32"))
    data, seed = away_from_kinks(case, weights)
    probe(program, folder, case, data)
    ours = tensors(folder, "layout.txt", "gradient.f32")
    model = load(case, weights)
    theirs, _ = peer(model, case, data)
    errors = {tensor: relative(ours[tensor], theirs[tensor]) for tensor in theirs}
    state = model.state_dict()
    for tensor, value in tensors(folder, "statistics.txt", "statistics.f32").items():
        errors[tensor] = relative(value, state[tensor].numpy())
    wrong = ["%s: relative error %.2e" % pair for pair in errors.items() if not pair[1] < TOLERANCE]
    return wrong, "%d tensors within %.1e (seed %d)" % (len(errors), max(errors.values()), seed)


def check_losses(program, folder, name):
    case = Case(name, True)
    data = examples(case, 1)
    probe(program, folder, case, data)
    _, theirs = peer(load(case, tensors(folder, "layout.txt", "weights.f32")), case, data)
    ours = np.fromfile(os.path.join(folder, "losses.f64"))
    ours[-1] /= case.batch  # an evaluation's is a sum
    apart = np.abs(ours - theirs)
    drift = float(np.max(apart[:-1])) / theirs[0]
    close = drift < 1e-2 and apart[-1] < 5e-2 * theirs[-1]
    wrong = [] if close else ["losses %s, PyTorch %s" % (ours, theirs)]
    return wrong, "%d losses, %.3f to %.3f, within %.1e of the first" % (
        len(ours), ours[0], ours[-2], drift)


def main():
    torch.set_num_threads(1)
    program, names = sys.argv[1], sys.argv[2:] or list(CASES)
    bad = False
    for name in names:
        checks = [("gradient", check_gradient)]
        if CASES[name][-1]:
            checks.append(("losses", check_losses))
        for what, check in checks:
            with tempfile.TemporaryDirectory() as folder:
                wrong, text = check(program, folder, name)
            print("%s %s-%s: %s" % ("not ok" if wrong else "ok", name, what, text), flush=True)
            for line in wrong:
                print("    " + line)
            bad = bad or bool(wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
