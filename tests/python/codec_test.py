"""The numpy functions, terse.info, and the errors for a missing or unsuitable library."""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PACKAGE = os.environ.get("PYTHONPATH") or os.path.join(ROOT, "python")
sys.path.insert(0, PACKAGE)
import terse
from terse import _library, _method, _version


def run(*words, **environment):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, PYTHONPATH=PACKAGE, **environment))


class Codecs(unittest.TestCase):
    x = numpy.random.RandomState(5).randn(40, 30).astype(numpy.float32)

    def test_every_codec_encodes_and_decodes(self):
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
        decoded = terse.decode(terse.encode(self.x, "topk:keep=0.01"))
        largest = numpy.sort(numpy.abs(self.x).ravel())[-12:]
        self.assertTrue(numpy.array_equal(numpy.sort(numpy.abs(decoded[decoded != 0])),
                                          largest))
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

    def test_two_passes_are_two_frames(self):
        """As `terse encode` writes them: one after the other."""
        frames = os.path.join(ROOT, "tests", "golden", "frames")
        first, second = (numpy.fromfile(os.path.join(frames, "low-rank-%d.terse" % i),
                                        dtype=numpy.uint8).tobytes() for i in (0, 1))
        wanted = numpy.fromfile(os.path.join(frames, "low-rank.f32"), dtype=numpy.float32)
        self.assertTrue(numpy.any(wanted))
        self.assertTrue(numpy.array_equal(terse.decode(first + second).ravel(), wanted))
        about = terse.inspect(first + second)
        self.assertEqual((about["pass"], about["frame_len"]), (0, len(first) + len(second)))
        self.assertEqual(about["payload_len"], sum(struct.unpack_from("<Q", each, 48)[0]
                                                   for each in (first, second)))
        self.assertRaisesRegex(terse.FrameError, "end after pass 0 of 2", terse.decode, first)
        self.assertRaisesRegex(terse.FrameError, "pass 1 of step", terse.decode, second)
        self.assertRaisesRegex(terse.FrameError, "offset %d: pass 0" % len(first), terse.decode,
                               first + first)
        one = terse.encode(self.x)
        self.assertRaisesRegex(terse.FrameError, "offset %d: pass 0" % len(one), terse.decode,
                               one + one)
        self.assertRaisesRegex(terse.FrameError, "ends after", terse.decode, first + second[:-1])

    def test_names_of_any_bytes(self):
        """The format allows names that are not UTF-8."""
        sys.path.insert(0, os.path.join(ROOT, "docs", "decoder"))
        import terse_decode
        frame = bytearray(terse.encode(self.x, name="ab"))
        (length,) = struct.unpack_from("<I", frame, 60)
        at = frame.index(b"\x02ab") + 1
        frame[at:at + 2] = b"\xffb"
        layout = bytes(frame[80:80 + length])
        struct.pack_into("<Q", frame, 8, terse_decode.xxh64(layout))
        struct.pack_into("<Q", frame, len(frame) - 8, terse_decode.xxh64(bytes(frame[:-8])))
        self.assertEqual(terse.inspect(frame)["tensors"][0]["name"], "\\xffb")
        self.assertTrue(numpy.array_equal(terse.decode(frame), self.x))

    def test_a_short_frame_of_a_long_vector_is_refused(self):
        frame = terse.encode(numpy.zeros(10**6), "topk:keep=0.000001")
        self.assertLess(len(frame), 200)
        self.assertEqual(terse.decode(frame, max_bytes=4 * 10**6).size, 10**6)
        self.assertRaisesRegex(terse.FrameError, "1000000 elements.*limit is 3999999",
                               terse.decode, frame, max_bytes=4 * 10**6 - 1)

    def test_the_second_decoder_agrees(self):
        sys.path.insert(0, os.path.join(ROOT, "docs", "decoder"))
        import terse_decode
        frame = terse.encode(self.x, "topk:keep=0.05")
        decoded = [0.0] * self.x.size
        terse_decode.decode(terse_decode.Frame(frame), decoded, {})
        decoded = numpy.asarray(decoded, dtype=numpy.float32)
        self.assertTrue(numpy.array_equal(decoded, terse.decode(frame).ravel()))


class Library(unittest.TestCase):
    def test_info(self):
        done = run("-m", "terse.info")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("libterse", "kernels", "topk", "regtopk", "numpy"):
            self.assertIn(word, done.stdout)

    def test_the_error_for_a_missing_library_names_make(self):
        done = run("-m", "terse.info", TERSE_LIBRARY="nowhere/libterse.so")
        self.assertEqual(done.returncode, 1)
        self.assertIn("`make`", done.stderr)
        self.assertIn("nowhere/libterse.so", done.stderr)

    def test_another_library_is_refused(self):
        libc = ctypes.CDLL(None)._name or "libc.so.6"
        done = run("-m", "terse.info", TERSE_LIBRARY=libc)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not libterse", done.stderr)

    def info_of_package(self, version):
        """The result of `python -m terse.info` in a copy of the package with this version."""
        with tempfile.TemporaryDirectory() as folder:
            package = os.path.join(folder, "terse")
            shutil.copytree(os.path.dirname(terse.__file__), package)
            with open(os.path.join(package, "_installed.py"), "w", encoding="utf-8") as file:
                file.write("VERSION = %r\n" % version)
            done = subprocess.run([sys.executable, "-m", "terse.info"], capture_output=True,
                                  text=True, timeout=60, cwd=folder, env=dict(
                                      os.environ, PYTHONPATH=folder,
                                      TERSE_LIBRARY=os.path.abspath(_library.library().path)))
        return package, done

    def test_another_version_is_refused(self):
        found = terse.version()
        major, minor, patch = map(int, found.split("."))
        for wanted in ((major, minor + 1, patch), (major, minor - 1, patch), (major + 1, minor, 0)):
            text = "%d.%d.%d" % wanted
            package, done = self.info_of_package(text)
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertEqual(
                "terse: %s is libterse %s, but the Python package in %s is terse %s: they must "
                "have the same major and minor version. Build and install both from one source "
                "tree (`make install`), or name a libterse %d.%d in TERSE_LIBRARY.\n" % (
                    os.path.abspath(_library.library().path), found, package, text, *wanted[:2]),
                done.stderr)
        done = self.info_of_package("%d.%d.%d" % (major, minor, patch + 1))[1]
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_the_library_has_the_version_of_the_project(self):
        self.assertEqual(_version.package_version(), terse.version())

    def test_statuses_are_exceptions(self):
        wanted = {-1: ValueError, -2: ValueError, -4: terse.NotFiniteError, -20: terse.FrameError,
                  -23: terse.MismatchError, -40: MemoryError, -41: terse.GroupError,
                  -42: terse.GroupError, -60: terse.TerseError}
        for status, kind in wanted.items():
            self.assertIs(type(_library.error_of(status)), kind, status)

    def test_methods(self):
        self.assertIn("keep=0.5", _method.try_spec("topk:keep=0.5"))
        self.assertRaisesRegex(ValueError, "signum", _method.try_spec, "sigum")
        self.assertRaisesRegex(ValueError, "qadam.*gradient", _method.try_spec, "qadam",
                               aggregate_out=True)
        self.assertRaisesRegex(ValueError, "wd", _method.try_spec, "topk:wd=0.1",
                               aggregate_out=True)

    def test_specs_are_described(self):
        chosen = _method.describe("codec=sign")
        self.assertEqual((chosen.name, chosen.combine, chosen.votes, chosen.has_plain),
                         ("composed", "vote", 1, 0))
        chosen = _method.describe("qadam:min=7,lr=0.25,every=1")
        self.assertEqual((chosen.owner, chosen.min, chosen.lr, chosen.local_steps, chosen.codec,
                          chosen.back), (2, 7, 0.25, 1, "log:k=2", "nearest:k=8,range=0"))
        self.assertEqual((chosen.has_gradient, _method.describe("powersgd").passes), (0, 2))
        self.assertEqual(chosen.spec, _method.try_spec("qadam:min=7,lr=0.25"))
        self.assertRaisesRegex(ValueError, "signum", _method.describe, "sigum")

    def test_entries_of_a_spec(self):
        found = _method.entries("topk:keep=0.5,combine=shard")
        self.assertEqual(found[0], ("combine", "shard", True, True))
        self.assertIn(("keep", "0.5", True, False), found)
        self.assertIn(("momentum", "0", False, False), found)
        self.assertEqual("topk:" + ",".join("%s=%s" % entry[:2] for entry in found),
                         _method.describe("topk:keep=0.5,combine=shard").spec)
        self.assertRaisesRegex(ValueError, "keep", _method.entries, "topk:kepe=0.5")
        self.assertEqual(_method.spec_with("topk:keep=0.5", "keep=0.1,min=9,beta=0"),
                         "topk:keep=0.5,min=9")
        self.assertRaisesRegex(ValueError, "min", _method.spec_with, "topk", "min=-1")


if __name__ == "__main__":
    unittest.main()
