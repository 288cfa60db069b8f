"""terse.torch.plan: the module's tensors, units, and what the command refuses."""

import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
if not os.environ.get("PYTHONPATH"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))

try:
    import torch
except ImportError:
    print("skip plan: there is no torch")
    sys.exit(77)
import terse.torch  # noqa: E402


def raises(kind, call, text):
    try:
        call()
    except kind as why:
        assert text in str(why), why
        return
    raise AssertionError("%s was not raised" % kind.__name__)


def counts_the_parameters_that_have_a_gradient():
    net = torch.nn.Sequential(torch.nn.Linear(50, 40), torch.nn.Linear(40, 30))
    for parameter in net[1].parameters():
        parameter.requires_grad = False
    rows = terse.torch.plan(net, 2, "1gbit", methods=["dense"], overlap=False)["rows"]
    least = 4 * (50 * 40 + 40)  # an all-reduce of 2 workers sends every float once
    assert least <= rows[0]["bytes_sent"] < least + 400, rows


def numbers_are_bits_and_seconds():
    net = torch.nn.Linear(100, 100)
    options = dict(methods=["natural"], overlap=False)
    words = terse.torch.plan(net, 2, "100mbit", latency="0.5ms", step="20ms", **options)
    numbers = terse.torch.plan(net, 2, 100e6, latency=5e-4, step=0.02, **options)
    for a, b in zip(words["rows"], numbers["rows"]):
        assert a["method"] == b["method"] and abs(a["wire_seconds"] - b["wire_seconds"]) < 1e-9
        assert a["compute_seconds"] == b["compute_seconds"] == 0.02


def overlap_hides():
    net = torch.nn.Sequential(*(torch.nn.Linear(1100, 1000, bias=False) for _ in range(3)))
    hidden = [terse.torch.plan(net, 2, "1gbit", step=0.3, methods=["dense"], overlap=overlap)
              ["rows"][0]["hidden_seconds"] for overlap in (False, True)]
    assert hidden[1] > hidden[0] + 0.005, hidden


def refuses():
    net = torch.nn.Linear(10, 10)
    raises(ValueError, lambda: terse.torch.plan(net, 0, "1gbit"), "--workers: '0'")
    raises(ValueError, lambda: terse.torch.plan(net, 2, "1gb"), "--link: '1gb' is not a rate")
    raises(ValueError, lambda: terse.torch.plan(net, 2, -1.0), "link=-1.0")
    raises(ValueError, lambda: terse.torch.plan(net, 2, "1gbit", methods=["topkk"]), "topk")
    raises(ValueError, lambda: terse.torch.plan(torch.nn.ReLU(), 2, "1gbit"), "nothing to plan")
    command = os.environ.pop("TERSE")
    path, os.environ["PATH"] = os.environ["PATH"], ""
    raises(FileNotFoundError, lambda: terse.torch.plan(net, 2, "1gbit"), "TERSE")
    os.environ.update(TERSE=command, PATH=path)


with tempfile.TemporaryDirectory() as cache:
    os.environ["XDG_CACHE_HOME"] = cache
    for case in (counts_the_parameters_that_have_a_gradient, numbers_are_bits_and_seconds,
                 overlap_hides, refuses):
        case()
        print("ok", case.__name__, flush=True)
