"""Resuming: by another number of workers, with other settings, from files that are damaged."""
import fcntl
import json
import math
import os
import signal
import unittest

from support import REFUSED, REQUEUE
from training import floats, read_checkpoint, TRAIN, TrainCase, with_settings


FEEDBACK = ("ef:ratio=4", "saef:ratio=4", "def:ratio=4", "def-a:ratio=4", "topk:keep=0.01",
            "regtopk:keep=0.01", "ef-sign", "qadam", "powersgd", "topk:keep=0.05,every=3")
CHANGES = ((2, 1), (2, 16), (8, 3))


def shard_sizes(workers):
    """Examples of every worker with --shard unequal: as 1 : 2 : ... : workers."""
    ends = [TRAIN * r * (r + 1) // (workers * (workers + 1)) for r in range(workers + 1)]
    return [b - a for a, b in zip(ends, ends[1:])]


class Workers(TrainCase):
    def parts(self, path, name):
        """The floats of a part, by worker; [] if there is none."""
        _, _, blobs = read_checkpoint(path)
        return [floats(blobs[key]) for key in sorted(blobs) if key[0] == name]

    def assert_same_means(self, old, new, name, weights=None):
        """Means over the workers, element by element, to rounding; weighted ones where the old
        workers have weights. The new ones are all equal then."""
        weights = weights or [1] * len(old)
        before = [sum(w * x for w, x in zip(weights, column)) / sum(weights)
                  for column in zip(*old)]
        after = [sum(column) / len(column) for column in zip(*new)]
        scale = max(map(abs, before))
        self.assertGreater(scale, 0, name)
        for a, b in zip(before, after):
            self.assertAlmostEqual(a, b, delta=2e-7 * scale, msg=name)

    def test_the_note_has_the_norm_of_the_mean_residual(self):
        words = ("--method", "topk:keep=0.01", "--steps", "9", "--checkpoint-every", "8")
        self.train(*words, "--workers", "4", "--out", self.path("run"))
        os.remove(self.checkpoint("run", 9))
        held = self.parts(self.checkpoint("run", 8), "residual")
        self.assertEqual(len(held), 4)
        norm = math.sqrt(sum((sum(column) / 4) ** 2 for column in zip(*held)))
        for workers in ("1", "3", "6"):
            with self.subTest(workers=workers):
                folder = self.path("by" + workers)
                done = self.terse("train", *self.small, *words, "--json", "--workers", workers,
                                  "--resume", self.path("run"), "--out", folder)
                text = done.stderr.decode()
                self.assertRegex(text, "resumed with %s workers? instead of 4: " % workers)
                noted = float(text.split("whose norm is ")[1].split(",")[0])
                self.assertAlmostEqual(noted, norm, delta=1e-6 * norm)
                self.assertIn(b'"steps":\t9', done.stdout)
                held_now = self.parts(os.path.join(folder, "checkpoint-9.terse"), "residual")
                self.assertEqual(len(held_now), int(workers))

    def test_what_is_outstanding_stays(self):
        """Resumed at its last step, a run writes at once what it has got. Residuals and moments are
        the means of the old ones, weights and what owners have the same bits, and the loss before
        the next step is that of the old workers."""
        for i, method in enumerate(FEEDBACK):
            for old, new in CHANGES:
                with self.subTest(method=method, old=old, new=new):
                    words = ("--method", method, "--steps", "5")
                    a, b = "run%d-%d" % (i, old), "new%d-%d" % (i, new)
                    if not self.checkpoints(a):
                        self.loss = self.train(*words, "--workers", str(old), "--out",
                                               self.path(a))["loss"]
                    loss = self.train(*words, "--workers", str(new), "--resume", self.path(a),
                                      "--out", self.path(b))["loss"]
                    self.assertAlmostEqual(loss, self.loss, delta=1e-6 * self.loss)
                    self.assert_same_state(self.checkpoint(a, 5), self.checkpoint(b, 5), new)

    def test_what_weighted_workers_have_outstanding_stays(self):
        """Workers count as their shards: the state is the weighted mean of the old, and with it the
        evaluation weights x - sum w_k e_k. Then the new workers go on."""
        for method in ("def-a:ratio=4", "topk:keep=0.01", "ef-sign", "qadam"):
            for old, new in CHANGES:
                with self.subTest(method=method, old=old, new=new):
                    words = ("--method", method, "--shard", "unequal", "--worker-weights", "shard")
                    a, b = self.path("%s-%d" % (method, old)), self.path("%s-to%d" % (method, new))
                    if not self.checkpoints(a):
                        self.loss = self.train(*words, "--steps", "5", "--workers", str(old),
                                               "--out", a)["loss"]
                    resumed = (*words, "--workers", str(new), "--resume", a, "--out", b)
                    loss = self.train(*resumed, "--steps", "5")["loss"]
                    self.assertAlmostEqual(loss, self.loss, delta=1e-6 * self.loss)
                    self.assert_same_state(self.checkpoint(a, 5), self.checkpoint(b, 5), new,
                                           shard_sizes(old))
                    further = self.train("--resume", b, "--steps", "40")
                    self.assertLess(further["loss"], loss)

    def assert_same_state(self, old, new, workers, weights=None):
        for name in ("residual", "momentum", "second moment", "local weights"):
            before, after = self.parts(old, name), self.parts(new, name)
            self.assertEqual(len(after), workers if before else 0)
            if before:
                self.assert_same_means(before, after, name, weights)
                self.assertTrue(all(part == after[0] for part in after), name)
        self.assertEqual(self.parts(old, "weights"), self.parts(new, "weights"))
        for name in ("owner residual", "owner weights"):
            whole = [[math.fsum(column) for column in zip(*self.parts(path, name))]
                     for path in (old, new)]  # all but one of a column are zero
            self.assertEqual(*whole, name)

    def test_batch_norm_statistics_are_means_too(self):
        words = ("--model", "resnet20", "--batch", "4", "--shard", "range", "--steps", "2")
        first = self.train(*words, "--workers", "2", "--out", self.path("run"))
        again = self.train(*words, "--workers", "3", "--resume", self.path("run"), "--out",
                           self.path("new"))
        name = "running statistics"
        self.assert_same_means(self.parts(self.checkpoint("run", 2), name),
                               self.parts(self.checkpoint("new", 2), name), name)
        self.assertAlmostEqual(first["loss"], again["loss"], delta=1e-5 * first["loss"])

    def test_a_crafted_number_of_workers_is_refused(self):
        """A sound checksum says nothing about the settings."""
        self.train("--steps", "3", "--workers", "2", "--out", self.path("run"))
        whole = self.read("run/checkpoint-3.terse")
        for workers in (0, 4294967296, 4294967298, 4097):
            self.write("run/checkpoint-3.terse", with_settings(whole, workers=workers))
            text = self.error("train", "-q", "--resume", self.path("run"), "--workers", "2")
            self.assertIn("no number of workers from 1 to", text)

    def test_a_finished_run_stays_as_it_is(self):
        first = self.train("--steps", "4", "--workers", "2", "--out", self.path("run"))
        again = self.train("--resume", self.path("run"))
        self.assertEqual((again["weights_hash"], again["steps"]), (first["weights_hash"], 4))
        self.assertEqual((first["resumed_from"], again["resumed_from"]), (0, 4))
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
                            (("--worker-weights", "shard"), "worker_weights 'equal'"),
                            (("--seed", "2"), "seed 1, not 2"),
                            (("--batch", "4"), "batch 8, not 4"),
                            (("--accumulate", "2"), "accumulate 1, not 2"),
                            (("--batches", "2"), "batches 1, not 2"),
                            (("--threads", "2"), "threads 1, not 2"),
                            (("--augment",), "without augment")):
            with self.subTest(words=words):
                self.assertIn(name, self.refused(*words))

    def test_a_method_is_the_same_in_other_digits(self):
        """A checkpoint may have 300 as 3e+02; another value is another method."""
        first = self.train("--steps", "4", "--method", "topk:keep=0.05,ramp=300", "--out",
                           self.path("ramp"))
        self.assertIn("ramp=300,", first["method"])
        whole = self.read("ramp/checkpoint-4.terse")
        for text, expect in (("3e+02", 0), ("3e+03", REFUSED)):
            other = first["method"].replace("300", text)
            self.write("ramp/checkpoint-4.terse", with_settings(whole, method=other))
            self.terse("train", "-q", "--resume", self.path("ramp"), "--steps", "5", "--method",
                       "topk:keep=0.05,ramp=300", "--out", self.path("to" + text), expect=expect)
        self.assertEqual(self.checkpoints("to3e+02"), [5])

    def test_settings_need_not_be_given_again(self):
        rest = self.json("train", "--json", "-q", "--resume", self.path("run"), "--steps", "6")
        self.assertEqual((rest["steps"], rest["workers"], rest["model"]), (6, 2, "logistic"))
        self.assertEqual(rest["resumed_from"], 4)
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
        text = self.refused(folder="empty")
        self.assertIn("no checkpoint in", text)
        self.assertIn("begins anew when its command is repeated", text)
        self.assertIn("No such file", self.refused(folder="absent"))


class KilledEarly(TrainCase):
    """A run that was killed before its first checkpoint."""
    WORDS = ("--workers", "2", "--steps", "100000", "--evaluate-every", "100000")

    def setUp(self):
        super().setUp()
        process = self.begin(*self.WORDS, "-q", "--out", self.path("run"))
        self.wait_for(lambda: os.path.exists(self.path("run/metrics.jsonl")) and
                      len(self.lines("run")) > 5, process)
        self.stop(process, signal.SIGKILL)
        self.assertEqual(self.checkpoints("run"), [])
        self.before = self.read("run/metrics.jsonl")

    def lines(self, folder):
        """The last line may be torn."""
        return self.read(folder + "/metrics.jsonl").splitlines()[:-1]

    def is_new(self):
        """Lines have the seconds, which differ from those of the killed run."""
        try:
            text = self.read("run/metrics.jsonl")
        except FileNotFoundError:
            return False
        return text.count(b"\n") > 3 and text[:300] != self.before[:300]

    def test_the_same_command_begins_anew(self):
        process = self.begin(*self.WORDS, "--out", self.path("run"))
        self.wait_for(self.is_new, process)
        _, err = self.stop(process)
        self.assertEqual(process.returncode, REQUEUE, err)
        note = "%s holds a run that ended before its first checkpoint: it begins anew"
        self.assertEqual(err.count(note % self.path("run")), 1, err)
        self.assertEqual(len([name for name in os.listdir(self.path("run"))
                              if name.startswith("events.out")]), 1)
        steps = [json.loads(line)["step"] for line in self.lines("run")]
        self.assertEqual(steps[:2], [51, 102])
        self.assertEqual(len(self.checkpoints("run")), 1)
        whole = self.train("--workers", "2", "--steps", "100000", "--resume", self.path("run"),
                           "--steps", str(self.checkpoints("run")[0] + 1))
        self.assertEqual(whole["status"], "finished")

    def test_another_command_is_refused(self):
        text = self.error("train", *self.small, "-q", *self.WORDS, "--seed", "2", "--out",
                          self.path("run"))
        self.assertIn("already holds a run, which has seed 1, not 2; choose another --out", text)
        self.assertEqual(self.read("run/metrics.jsonl"), self.before)

    def test_an_end_or_a_checkpoint_is_never_written_over(self):
        """Also a damaged checkpoint, and a run that diverged, are kept."""
        self.write("run/checkpoint-7.terse", b"damaged")
        for _ in range(2):
            text = self.error("train", *self.small, "-q", *self.WORDS, "--out", self.path("run"))
            self.assertIn("already holds a run: continue it with --resume", text)
            if os.path.exists(self.path("run/checkpoint-7.terse")):
                os.remove(self.path("run/checkpoint-7.terse"))
                whole = self.before[:self.before.rindex(b"\n") + 1]
                self.before = whole + b'{"kind":"end","step":9,"status":"diverged"}\n'
                self.write("run/metrics.jsonl", self.before)
        self.assertEqual(self.read("run/metrics.jsonl"), self.before)


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
        """Two damaged files of larger steps, and two checkpoints that are written below them: one
        that comes due, and the last. A third could be skipped on a slow disk."""
        for step in (80, 90):
            self.write("run/checkpoint-%d.terse" % step, self.read("run/checkpoint-9.terse")[:500])
        rest = self.train("--resume", self.path("run"), "--steps", "20", "--checkpoint-every", "18")
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
