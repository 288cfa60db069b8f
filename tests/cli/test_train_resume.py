"""Resuming: by another number of workers, with other settings, from files that are damaged."""
import fcntl
import json
import os
import signal
import unittest

from support import REFUSED, REQUEUE
from training import floats, read_checkpoint, TrainCase


class Workers(TrainCase):
    def residuals(self, path):
        """The sum of all workers' residuals, and how many there are."""
        _, _, blobs = read_checkpoint(path)
        found = [floats(data) for (name, _), data in blobs.items() if name == "residual"]
        return [sum(column) for column in zip(*found)], len(found)

    def test_another_number_of_workers_keeps_the_sum(self):
        words = ("--method", "topk:keep=0.01", "--steps", "9", "--checkpoint-every", "8")
        self.train(*words, "--workers", "4", "--out", self.path("run"))
        os.remove(self.checkpoint("run", 9))
        before, count = self.residuals(self.checkpoint("run", 8))
        self.assertEqual(count, 4)
        for workers in ("2", "3", "6"):
            with self.subTest(workers=workers):
                folder = self.path("by" + workers)
                done = self.terse("train", *self.small, *words, "--json", "--workers", workers,
                                  "--resume", self.path("run"), "--out", folder)
                note = "resumed with %s workers instead of 4" % workers
                self.assertIn(note, done.stderr.decode())
                noted = float(done.stderr.decode().split("their sum stays ")[1].split()[0])
                self.assertAlmostEqual(noted, sum(before), delta=1e-6 * sum(map(abs, before)))
                self.assertIn(b'"steps":\t9', done.stdout)
                _, count = self.residuals(os.path.join(folder, "checkpoint-9.terse"))
                self.assertEqual(count, int(workers))

    def test_the_sum_is_in_the_new_checkpoint(self):
        """Resumed at its last step, a run writes at once what it has got."""
        words = ("--method", "topk:keep=0.01", "--steps", "5")
        self.train(*words, "--workers", "4", "--out", self.path("run"))
        before, _ = self.residuals(self.checkpoint("run", 5))
        self.train(*words, "--workers", "3", "--resume", self.path("run"), "--out",
                   self.path("new"))
        after, count = self.residuals(self.checkpoint("new", 5))
        self.assertEqual(count, 3)
        scale = max(map(abs, before))
        self.assertGreater(scale, 0)
        for a, b in zip(before, after):
            self.assertAlmostEqual(a, b, delta=1e-5 * scale)

    def test_a_finished_run_stays_as_it_is(self):
        first = self.train("--steps", "4", "--workers", "2", "--out", self.path("run"))
        again = self.train("--resume", self.path("run"))
        self.assertEqual((again["weights_hash"], again["steps"]), (first["weights_hash"], 4))
        self.assert_monotone("run")


class Settings(TrainCase):
    def setUp(self):
        super().setUp()
        self.train("--steps", "4", "--workers", "2", "--method", "def:ratio=4", "--out",
                   self.path("run"))
        self.files = sorted(os.listdir(self.path("run")))

    def refused(self, *words, folder="run", expect=REFUSED):
        text = self.error("train", "-q", "--resume", self.path(folder), *words, expect=expect)
        self.assertEqual(sorted(os.listdir(self.path("run"))), self.files)
        return text

    def test_other_settings_are_named(self):
        for words, name in ((("--model", "cnn"), "model 'logistic', not 'cnn'"),
                            (("--data", "digits"), "the checkpoint has data"),
                            (("--method", "signum"), "the checkpoint has method"),
                            (("--method", "def:ratio=8"), "the checkpoint has method"),
                            (("--shard", "range"), "shard 'iid', not 'range'"),
                            (("--seed", "2"), "seed 1, not 2"),
                            (("--batch", "4"), "batch 8, not 4"),
                            (("--accumulate", "2"), "accumulate 1, not 2"),
                            (("--threads", "2"), "threads 1, not 2"),
                            (("--augment",), "without augment")):
            with self.subTest(words=words):
                self.assertIn(name, self.refused(*words))

    def test_settings_need_not_be_given_again(self):
        rest = self.json("train", "--json", "-q", "--resume", self.path("run"), "--steps", "6")
        self.assertEqual((rest["steps"], rest["workers"], rest["model"]), (6, 2, "logistic"))
        self.assertRegex(rest["method"], "^def:.*ratio=4,")

    def test_another_folder_takes_the_rest(self):
        before = self.read("run/metrics.jsonl")
        rest = self.json("train", "--json", "-q", "--resume", self.path("run"), "--steps", "6",
                         "--out", self.path("new"))
        self.assertEqual(rest["checkpoint"], self.checkpoint("new", 6))
        self.assertEqual(self.read("run/metrics.jsonl"), before)

    def test_another_run_is_not_written_over(self):
        self.train("--steps", "3", "--out", self.path("other"))
        before = self.read("other/metrics.jsonl")
        for words in (("--resume", self.path("run"), "--steps", "6"), ("--steps", "3"),):
            text = self.error("train", *self.small, "-q", *words, "--out", self.path("other"),
                              *(("--workers", "2", "--method", "def:ratio=4")))
            self.assertIn("already holds a run", text)
        self.assertEqual(self.read("other/metrics.jsonl"), before)
        self.assertEqual(self.checkpoints("other"), [3])

    def test_nothing_to_resume(self):
        os.mkdir(self.path("empty"))
        self.assertIn("no checkpoint in", self.refused(folder="empty"))
        self.assertIn("No such file", self.refused(folder="absent"))


class InUse(TrainCase):
    def test_a_folder_has_one_writer(self):
        """Another run in the same folder, new or resumed, is refused and does no harm."""
        words = ("--workers", "2", "--steps", "20000", "--evaluate-every", "20000")
        process = self.begin(*words, "--checkpoint-every", "5", "--out", self.path("run"))
        self.wait_for_checkpoint("run", process, 10)
        for more in (("--resume", self.path("run")), ("--out", self.path("run"))):
            text = self.error("train", *self.small, *words, "-q", *more)
            self.assertIn("'%s' is in use: process %d on " % (self.path("run"), process.pid), text)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, REQUEUE, err)
        last = json.loads(out)["steps"]
        rest = self.train("--resume", self.path("run"), "--steps", str(last + 1))
        self.assertEqual(rest["steps"], last + 1)
        self.assertFalse([n for n in os.listdir(self.path("run")) if n.startswith(".")])

    def test_the_folder_of_a_killed_run_is_free(self):
        process = self.begin("--workers", "2", "--steps", "20000", "--checkpoint-every", "5",
                             "--out", self.path("run"))
        self.wait_for_checkpoint("run", process, 10)
        self.stop(process, signal.SIGKILL)
        last = self.checkpoints("run")[-1]
        self.train("--resume", self.path("run"), "--steps", str(last + 1))
        self.assertFalse([n for n in os.listdir(self.path("run")) if n.startswith(".")])

    def test_reading_needs_no_lock(self):
        """The rest of a run goes to another folder while somebody else has the first."""
        self.train("--steps", "3", "--workers", "2", "--out", self.path("run"))
        with open(self.path("run/.lock"), "w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.train("--resume", self.path("run"), "--steps", "5", "--out", self.path("new"))
            text = self.error("train", "-q", "--resume", self.path("run"), "--steps", "5")
            self.assertIn("is in use: another process writes", text)


class Damaged(TrainCase):
    def setUp(self):
        super().setUp()
        self.whole = self.train("--steps", "9", "--checkpoint-every", "5", "--workers", "2",
                                "--out", self.path("run"))
        self.assertEqual(self.checkpoints("run"), [5, 9])

    def damage(self, step, change):
        path = "run/checkpoint-%d.terse" % step
        self.write(path, change(self.read(path)))

    DAMAGES = (("truncated", lambda data: data[:-5]),
               ("empty", lambda data: b""),
               ("flipped", lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]),
               ("foreign", lambda data: b"PK\x03\x04" + data[4:]),
               ("version", lambda data: data[:8] + b"\x63" + data[9:]))

    def test_the_older_one_is_used_with_a_note(self):
        good = self.read("run/checkpoint-9.terse")
        for name, change in self.DAMAGES:
            with self.subTest(damage=name):
                self.write("run/checkpoint-9.terse", change(good))
                done = self.terse("train", "--json", "--resume", self.path("run"))
                self.assertIn("skipped ", done.stderr.decode())
                self.assertIn("checkpoint-9.terse", done.stderr.decode())
                self.assertIn(self.whole["weights_hash"].encode(), done.stdout)
                self.assertEqual(read_checkpoint(self.checkpoint("run", 9))[0], 9)

    def test_refused_when_none_is_sound(self):
        for step in (5, 9):
            self.damage(step, lambda data: data[:200])
        before = {name: self.read("run/" + name) for name in os.listdir(self.path("run"))}
        text = self.error("train", "-q", "--resume", self.path("run"))
        self.assertIn("checkpoint-9.terse: byte ", text)
        self.assertEqual({name: self.read("run/" + name)
                          for name in os.listdir(self.path("run"))}, before)

    def test_damaged_ones_do_not_displace_sound_ones(self):
        """Two damaged files of larger steps, and checkpoints that are written below them."""
        for step in (80, 90):
            self.write("run/checkpoint-%d.terse" % step, self.read("run/checkpoint-9.terse")[:500])
        rest = self.train("--resume", self.path("run"), "--steps", "20", "--checkpoint-every", "3")
        self.assertEqual(rest["checkpoint"], self.checkpoint("run", 20))
        self.assertEqual(self.checkpoints("run"), [18, 20, 80, 90])
        more = self.train("--resume", self.path("run"), "--steps", "25")
        whole = self.train("--steps", "25", "--workers", "2")
        self.assertEqual(more["weights_hash"], whole["weights_hash"])

    def test_what_a_killed_writer_left_is_no_checkpoint(self):
        self.write("run/.checkpoint-12.terse.abcdef", self.read("run/checkpoint-9.terse")[:300])
        self.write("run/.run.json.abcdef", b"{")
        rest = self.json("train", "--json", "-q", "--resume", self.path("run"), "--steps", "11")
        self.assertEqual(rest["steps"], 11)
        self.assertFalse([n for n in os.listdir(self.path("run")) if n.startswith(".")])


if __name__ == "__main__":
    unittest.main()
