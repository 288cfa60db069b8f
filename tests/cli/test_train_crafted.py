"""Checkpoints and run.json that somebody made up, with a checksum that fits: every one is resumed or
refused with a reason; none crashes the command or makes it hang."""
import json
import os
import struct
import sys
import unittest

from support import OK, REFUSED
from training import TrainCase

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/decoder"))
from terse_decode import xxh64  # noqa: E402  # pylint: disable=wrong-import-position


def crafted(data, edit=None, step=None, blobs=None):
    """A checkpoint with other settings, step or blobs."""
    head, (length,) = bytearray(data[:32]), struct.unpack_from("<Q", data, 24)
    settings = data[32:32 + length]
    rest = bytearray(data[32 + length + -length % 8:-8])
    if edit:
        settings = edit(settings)
    if blobs:
        rest = blobs(rest)
    struct.pack_into("<Q", head, 24, len(settings))
    if step is not None:
        struct.pack_into("<Q", head, 16, step)
    out = bytes(head) + settings + bytes(-len(settings) % 8) + bytes(rest)
    return out + struct.pack("<Q", xxh64(out))


def change(**values):
    """An edit that sets keys, or removes those that are Ellipsis."""
    def edit(text):
        settings = json.loads(text)
        settings.update(values)
        return json.dumps({k: v for k, v in settings.items() if v is not ...}).encode()
    return edit


class Crafted(TrainCase):
    def setUp(self):
        super().setUp()
        self.train("--steps", "4", "--workers", "2", "--method", "def:ratio=4", "--out",
                   self.path("run"))
        self.sound = self.read("run/checkpoint-4.terse")
        self.run_text = self.read("run/run.json")

    def resume(self, expect=REFUSED):
        """The text on standard error of a run that goes on from what was crafted."""
        done = self.terse("train", "-q", "--json", "--resume", self.path("run"), "--steps", "6",
                          expect=None)
        self.assertIn(done.returncode, (OK, REFUSED), done)
        if expect is not None:
            self.assertEqual(done.returncode, expect, done)
        if done.returncode == REFUSED:
            self.assertIn("terse: ", done.stderr.decode())
        return done.stderr.decode()

    def craft(self, *words, **how):
        for name in os.listdir(self.path("run")):
            if name.startswith("checkpoint-"):
                os.remove(self.path("run/" + name))
        self.write("run/run.json", self.run_text)
        self.write("run/checkpoint-4.terse", crafted(self.sound, *words, **how))

    def test_what_is_not_changed_is_resumed(self):
        self.craft(lambda text: text)
        self.resume(OK)

    def test_workers(self):
        for value in (0, -1, 4097, 2**32, 2**32 + 2, 2**53, 1e300, "2", None, 1.5, ...):
            with self.subTest(workers=value):
                self.craft(change(workers=value))
                self.assertIn("no number of workers from 1 to 4096", self.resume())

    def test_settings(self):
        """Those that decide results are refused, whatever their kind; the others are taken or
        ignored."""
        for key in ("method", "model", "data", "seed", "batch", "accumulate", "threads", "shard"):
            for value in (0, -1, 2**32 + 32, 1e300, "x" * 10000, None, [1], {"a": 1}, ...):
                with self.subTest(key=key, value=str(value)[:20]):
                    self.craft(change(**{key: value}))
                    self.assertIn("the checkpoint has " + key, self.resume())
        for key in ("seconds", "bytes_sent", "dense_bytes", "steps", "epochs", "timeout"):
            for value in (-5, 1e300, "x", None, ...):
                with self.subTest(key=key, value=value):
                    self.craft(change(**{key: value}))
                    self.resume(OK)

    def test_the_same_lie_in_run_json(self):
        """Settings of the folder and of the checkpoint agree, and no command could have them."""
        for key in ("batch", "accumulate", "threads", "codec_threads", "workers", "timeout"):
            for value in (0, 2**32, 1e300, -1):
                with self.subTest(key=key, value=value):
                    self.craft(change(**{key: value}))
                    self.write("run/run.json", change(**{key: value})(self.run_text))
                    self.resume(None)
                    lines = self.read("run/metrics.jsonl").splitlines()
                    self.assertTrue(all(json.loads(line) for line in lines))

    def test_steps(self):
        for step in (2**53 + 1, 2**62, 2**64 - 1):
            with self.subTest(step=step):
                self.craft(step=step)
                self.assertIn("the checkpoint is of step %d" % step, self.resume())

    def test_texts_that_are_no_settings(self):
        for text in (b"[]", b"", b"[" * 50000, b"nul", b'{"workers":2,"workers":3}'):
            with self.subTest(text=text[:20]):
                self.craft(lambda _, text=text: text)
                self.assertIn("checkpoint-4.terse: byte ", self.resume())

    def test_weights_that_are_not_finite(self):
        self.craft(blobs=lambda rest: rest[:-64] + b"\0\0\xc0\x7f" * 16)
        self.assertIn("not finite", self.resume())


if __name__ == "__main__":
    unittest.main()
