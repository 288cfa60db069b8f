"""numpy functions, the report, and what is said where something is missing."""

import ctypes
import os
import subprocess
import sys
import unittest

import numpy

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PACKAGE = os.environ.get("PYTHONPATH") or os.path.join(ROOT, "python")
sys.path.insert(0, PACKAGE)
import terse
from terse import _library, _method


def run(*words, **environment):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, PYTHONPATH=PACKAGE, **environment))


class Codecs(unittest.TestCase):
    x = numpy.random.RandomState(5).randn(40, 30).astype(numpy.float32)

    def test_every_codec_says_and_hears(self):
        for name in terse.codecs():
            if name == "low-rank":
                self.assertRaisesRegex(ValueError, "two passes", terse.encode, self.x, name)
                continue
            frame = terse.encode(self.x, name, seed=1, step=2, worker=3)
            back = terse.decode(frame)
            self.assertEqual((back.dtype, back.shape), (self.x.dtype, self.x.shape))
            self.assertEqual(frame, terse.encode(self.x, name, seed=1, step=2, worker=3))
            about = terse.inspect(frame)
            self.assertEqual(about["codec"].split(":")[0], name)
            self.assertEqual((about["step"], about["worker"]), (2, 3))

    def test_values(self):
        self.assertTrue(numpy.array_equal(terse.decode(terse.encode(self.x)), self.x))
        kept = terse.decode(terse.encode(self.x, "topk:keep=0.01"))
        largest = numpy.sort(numpy.abs(self.x).ravel())[-12:]
        self.assertTrue(numpy.array_equal(numpy.sort(numpy.abs(kept[kept != 0])), largest))
        signs = terse.decode(terse.encode(self.x, "sign"))
        self.assertTrue(numpy.array_equal(signs, numpy.sign(self.x)))

    def test_shapes_and_types(self):
        for given in (3.5, [1, 2, 3], numpy.zeros((0, 4)), numpy.arange(6.0).reshape(2, 3).T):
            back = terse.decode(terse.encode(given))
            self.assertEqual(back.shape, numpy.shape(given))
            self.assertTrue(numpy.array_equal(back, numpy.asarray(given, numpy.float32)))

    def test_refused(self):
        self.assertRaisesRegex(ValueError, "did you mean 'keep'", terse.encode, self.x,
                               "topk:keeep=1")
        self.assertRaises(terse.NotFiniteError, terse.encode, [float("nan")])
        frame = terse.encode(self.x, "log")
        self.assertRaisesRegex(terse.FrameError, "ends after", terse.decode, frame[:-1])
        damaged = bytearray(frame)
        damaged[100] ^= 1
        self.assertRaises(terse.FrameError, terse.decode, damaged)

    def test_as_the_second_decoder_reads_it(self):
        sys.path.insert(0, os.path.join(ROOT, "docs", "decoder"))
        import terse_decode
        frame = terse.encode(self.x, "topk:keep=0.05")
        said = [0.0] * self.x.size
        terse_decode.decode(terse_decode.Frame(frame), said, {})
        said = numpy.asarray(said, dtype=numpy.float32)
        self.assertTrue(numpy.array_equal(said, terse.decode(frame).ravel()))


class Library(unittest.TestCase):
    def test_info(self):
        done = run("-m", "terse.info")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("libterse", "kernels", "topk", "regtopk", "numpy"):
            self.assertIn(word, done.stdout)

    def test_a_missing_library_says_how_to_build_it(self):
        done = run("-m", "terse.info", TERSE_LIBRARY="nowhere/libterse.so")
        self.assertEqual(done.returncode, 1)
        self.assertIn("`make`", done.stderr)
        self.assertIn("nowhere/libterse.so", done.stderr)

    def test_another_library_is_refused(self):
        libc = ctypes.CDLL(None)._name or "libc.so.6"
        done = run("-m", "terse.info", TERSE_LIBRARY=libc)
        self.assertEqual(done.returncode, 1)
        self.assertIn("older than this package", done.stderr)

    def test_statuses_are_exceptions(self):
        wanted = {-1: ValueError, -2: ValueError, -4: terse.NotFiniteError, -20: terse.FrameError,
                  -23: terse.MismatchError, -40: MemoryError, -41: terse.GroupError,
                  -42: terse.GroupError, -60: terse.TerseError}
        for status, kind in wanted.items():
            self.assertIs(type(_library.error_of(status)), kind, status)

    def test_methods(self):
        self.assertEqual(_method.methods()["regtopk"]["codec"], "topk")
        self.assertIn("keep=0.5", _method.try_spec("topk:keep=0.5"))
        self.assertRaisesRegex(ValueError, "signum", _method.try_spec, "sigum")
        self.assertRaisesRegex(ValueError, "own", _method.try_spec, "qadam", aggregate_out=True)
        self.assertRaisesRegex(ValueError, "wd", _method.try_spec, "topk:wd=0.1",
                               aggregate_out=True)


if __name__ == "__main__":
    unittest.main()
