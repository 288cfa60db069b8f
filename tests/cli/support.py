"""What the tests of the command share: running it, and NPY files without NumPy."""
import array
import json
import math
import os
import random
import struct
import subprocess
import tempfile
import unittest

TERSE = os.environ.get("TERSE", "build/terse")

OK, REFUSED, USAGE, MACHINE = 0, 1, 2, 3
REQUEUE, INTERRUPTED = 75, 130

# Specs with the error of one step that each must stay under (|x - C(x)| / |x| for normal numbers);
# None where the output is not near the input by design.
SPECS = {
    "f32": 0.0,
    "f16": 1e-3,
    "bf16": 1e-2,
    "sign": None,
    "scaled-sign": 0.7,
    "topk:keep=0.1": 0.8,
    "topk:keep=0.01,values=f16": 0.99,
    "block:ratio=4": 1.0,
    "log:k=2": 0.7,
    "uniform:bits=8": 0.05,
    "uniform:bits=2,norm=inf": 3.0,
    "uniform:bits=4,norm=2": None,
    "nearest:k=6": 0.05,
    "natural": 0.4,
    "low-rank:rank=4": 1.0,
}


def npy_header(text, version=(1, 0)):
    """The bytes before the data, for any text: what NumPy would not write included."""
    width = "<H" if version[0] == 1 else "<I"
    body = text.encode("latin-1")
    return b"\x93NUMPY" + bytes(version) + struct.pack(width, len(body)) + body


def npy_text(shape, descr="'<f4'", order="False"):
    dims = ", ".join(str(d) for d in shape) + ("," if len(shape) == 1 else "")
    text = "{'descr': %s, 'fortran_order': %s, 'shape': (%s), }" % (descr, order, dims)
    return text + " " * (-(len(text) + 11) % 64) + "\n"


def npy(values, shape=None, version=(1, 0)):
    shape = (len(values),) if shape is None else shape
    return npy_header(npy_text(shape), version) + array.array("f", values).tobytes()


def read_npy(data):
    """(shape, values); insists on the form that NumPy itself writes."""
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack("<H", data[8:10])
    assert (10 + length) % 64 == 0
    text = data[10 : 10 + length].decode("ascii")
    assert text.endswith("\n")
    header = eval(text, {"__builtins__": {}})  # pylint: disable=eval-used
    assert header["descr"] == "<f4" and header["fortran_order"] is False
    values = array.array("f", data[10 + length :])
    assert len(values) == math.prod(header["shape"]), header
    return header["shape"], values


def normals(count, seed=1):
    source = random.Random(seed)
    return array.array("f", (source.gauss(0, 1) for _ in range(count)))


def norm(values):
    return math.sqrt(sum(float(v) * float(v) for v in values))


class Case(unittest.TestCase):
    """A test in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="terse-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def terse(self, *words, expect=OK, stdin=b"", stdout=None, env=None):
        """Runs the command; insists on the exit code, unless it is None."""
        settings = dict(os.environ, **(env or {}))
        done = subprocess.run(
            [TERSE, *words], input=stdin, stdout=stdout or subprocess.PIPE,
            stderr=subprocess.PIPE, env=settings, timeout=110, check=False)
        if expect is not None:
            self.assertEqual(done.returncode, expect, (words, done.stderr.decode()))
        return done

    def text(self, *words, **how):
        return self.terse(*words, **how).stdout.decode()

    def error(self, *words, expect=REFUSED, **how):
        """The text on standard error; standard output must be empty."""
        done = self.terse(*words, expect=expect, **how)
        self.assertIn(done.stdout, (b"", None), words)
        return done.stderr.decode()

    def json(self, *words, **how):
        return json.loads(self.text(*words, **how))
