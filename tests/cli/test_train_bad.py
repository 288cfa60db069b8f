"""Failures print one line, with the exit code that the manual promises, and leave nothing
half-written."""
import os
import resource
import signal
import subprocess
import unittest

from support import MACHINE, OK, REFUSED, TERSE, USAGE
from training import TrainCase


class Words(TrainCase):
    def test_names(self):
        """Unknown names are wrong usage; the error lists the names, or the nearest."""
        for words, reason in ((("--model", "resnet"), "did you mean 'resnet20'?"),
                              (("--model", "frobnicate"), "there are linear, logistic, mlp"),
                              (("--data", "digit"), "did you mean 'digits'?"),
                              (("--data", "frobnicate"), "there are fashion, digits"),
                              (("--data", "idx"), "write idx:DIR"),
                              (("--data", "digits:x"), "'digits' takes no path"),
                              (("--method", "topkk"), "topk"),
                              (("--method", "topk:kep=1"), "keep"),
                              (("--method", "topk:keep=2"), "keep"),
                              (("--shard", "classes"), "there are iid, class"),
                              (("--worker-weights", "half"), "is equal or shard, not 'half'"),
                              (("--overlap", "yes"), "--overlap is on or off, not 'yes'")):
            with self.subTest(words=words):
                text = self.error("train", "--model", "logistic", "--data", "digits", "--steps",
                                  "1", "--out", self.path("run"), *words, expect=USAGE)
                self.assertIn(reason, text)
                self.assertFalse(os.path.exists(self.path("run")))

    def test_more_workers_than_threads(self):
        """As many as processes could be is a number, but threads are fewer."""
        text = self.error("train", *self.small, "--steps", "1", "--workers", "65")
        self.assertIn("--workers 65: at most 64 threads are possible", text)
        self.assertIn("mpirun", text)

    def test_nodes(self):
        for words, reason in ((("--workers", "3"), "3 workers are not divisible"),
                              (("--worker-weights", "shard"), "leave out --worker-weights"),
                              (("--adversaries", "1:zero"), "leave out --worker-weights and --adv")):
            with self.subTest(words=words):
                text = self.error("train", *self.small, "--steps", "1", "--node-size", "2", *words)
                self.assertIn(reason, text)

    def test_numbers(self):
        for name, values in (("workers", ("0", "4097", "-1", "x", "")), ("steps", ("0", "1e3x")),
                             ("epochs", ("0",)), ("batch", ("0", "65537")), ("accumulate", ("0",)),
                             ("batches", ("0", "65537", "two")),
                             ("lr", ("-1", "nan", "1e9")), ("seed", ("-1", "9007199254740993")),
                             ("target", ("-0.1", "1.5")), ("checkpoint-every", ("0",)),
                             ("evaluate-every", ("0",)), ("threads", ("0", "257")),
                             ("codec-threads", ("0",)), ("timeout", ("0",)),
                             ("live", ("65536", "-1"))):
            for value in values:
                with self.subTest(name=name, value=value):
                    text = self.error("train", "--%s=%s" % (name, value), expect=USAGE)
                    self.assertIn("--%s: '%s' is not a" % (name, value), text)

    def test_usage(self):
        for words, reason in ((("--frob",), "unrecognized option"), (("x",), "unexpected 'x'"),
                              (("--steps", "1", "--epochs", "1"), "not both"),
                              (("--methods", "a;b"), "for terse compare"),
                              (("--checkpoint-every", "5"), "add --out DIR"),
                              (("--model",), "requires an argument")):
            with self.subTest(words=words):
                self.assertIn(reason, self.error("train", *words, expect=USAGE))


class Input(TrainCase):
    def refused(self, *words):
        text = self.error("train", "--steps", "1", "--workers", "2", "--out", self.path("run"),
                          *words)
        self.assertFalse(os.path.exists(self.path("run")))
        return text

    def test_pairings(self):
        for words, reason in ((("--data", "regression", "--model", "cnn"), "reads images"),
                              (("--data", "regression", "--model", "logistic"), "use linear"),
                              (("--data", "digits", "--model", "linear"), "use logistic"),
                              (("--data", "digits", "--model", "bilstm"), "reads text"),
                              (("--data", "digits", "--model", "vgg11"), "at least 32 x 32"),
                              (("--data", "regression", "--shard", "class"), "no classes")):
            with self.subTest(words=words):
                self.assertIn(reason, self.refused(*words))

    def test_missing_and_malformed_files(self):
        self.assertIn("No such file", self.refused("--data", "libsvm:" + self.path("absent")))
        self.assertIn("no train-images", self.refused("--data", "idx:" + self.path("absent")))
        broken = self.write("broken.libsvm", b"1 1:2 2:x\n")
        self.assertIn("broken.libsvm: byte 8", self.refused(
            "--data", "libsvm:%s,test=%s" % (broken, broken)))

    def test_more_batches_than_an_epoch_has(self):
        self.assertIn("--batches 1 --accumulate 999: an epoch has only 25 batches",
                      self.refused(*self.small, "--accumulate", "999"))
        self.assertIn("--batches 13 --accumulate 2: an epoch has only 25 batches",
                      self.refused(*self.small, "--batches", "13", "--accumulate", "2"))


class Folder(TrainCase):
    def test_unwritable(self):
        self.write("file", b"x")
        for where, reason in ((self.path("file"), "Not a directory"),
                              (self.path("file/below"), "Not a directory"),
                              ("/proc/terse", "cannot make the folder")):
            with self.subTest(where=where):
                text = self.error("train", *self.small, "-q", "--steps", "1", "--out", where)
                self.assertIn(reason, text)
        self.assertEqual(self.read("file"), b"x")

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_without_permission(self):
        os.mkdir(self.path("closed"), 0o500)
        self.assertIn("Permission denied", self.error(
            "train", *self.small, "-q", "--steps", "1", "--out", self.path("closed/run")))

    def limited(self, limit, *words):
        def set_limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # as a shell starts a command
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return subprocess.run([TERSE, "train", "-q", *words], preexec_fn=set_limit, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)

    def test_full_disk(self):
        """No file may grow beyond 4,000 bytes; a checkpoint has 12,000."""
        done = self.limited(4000, *self.small, "--steps", "3", "--workers", "2", "--evaluate-every",
                            "3", "--out", self.path("run"))
        text = done.stderr.decode()
        self.assertEqual(done.returncode, MACHINE, text)
        self.assertIn("checkpoint-3.terse': File too large", text)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(self.checkpoints("run"), [])
        self.assertFalse([n for n in os.listdir(self.path("run")) if n.startswith(".")])

    def test_full_disk_keeps_the_last_checkpoint(self):
        """Metrics outgrow the limit while checkpoints still fit."""
        done = self.limited(14000, *self.small, "--steps", "400", "--workers", "1",
                            "--checkpoint-every", "5", "--out", self.path("run"))
        text = done.stderr.decode()
        self.assertEqual(done.returncode, MACHINE, text)
        self.assertIn("metrics.jsonl': File too large", text)
        self.assertIn("--resume %s continues" % self.path("run"), text)
        for line in self.lines("run"):
            self.assertIn("kind", line)
        last = self.checkpoints("run")[-1]
        rest = self.json("train", "--json", "-q", "--resume", self.path("run"), "--steps",
                         str(last + 2))
        self.assertEqual(rest["steps"], last + 2)


class NotFinite(TrainCase):
    def test_names_step_rank_and_tensor_and_keeps_the_checkpoint(self):
        words = ("--data", "regression", "--model", "linear", "--workers", "2", "--steps", "500",
                 "--lr", "20", "--checkpoint-every", "1", "--evaluate-every", "500")
        done = self.terse("train", *words, "-q", "--out", self.path("run"), expect=REFUSED)
        text = done.stderr.decode()
        self.assertRegex(text, r"rank [01]: step \d+: the loss is not finite, first in \S+;")
        self.assertIn("--resume %s continues" % self.path("run"), text)
        self.assertEqual(done.stdout, b"")
        last = self.checkpoints("run")[-1]
        self.assertIn("checkpoint-%d.terse" % last, text)
        self.terse("train", "-q", "--resume", self.path("run"), "--out", self.path("new"),
                   expect=REFUSED)

    def test_a_result_that_is_not_finite_is_none(self):
        """The last step breaks the weights: neither checkpoint nor result."""
        words = ("--data", "regression", "--model", "linear", "--workers", "2", "-q", "--lr", "20")
        text = self.error("train", *words, "--steps", "500", "--evaluate-every", "500")
        first = int(text.split("step ")[1].split(":")[0])
        for steps in (first, first - 1):
            done = self.terse("train", *words, "--steps", str(steps), "--evaluate-every", "500",
                              "--out", self.path("run%d" % steps), expect=None)
            if done.returncode == OK:
                self.assertNotIn(b"nan", done.stdout)
                self.assertNotIn(b"inf", done.stdout)
            else:
                self.assertEqual(done.returncode, REFUSED)
                self.assertIn("not finite", done.stderr.decode())

    def test_a_gradient_that_overflows_the_codec(self):
        """Half floats end at 65,504: steps are skipped, then the training gives up."""
        text = self.error("train", "--data", "regression", "--model", "linear", "--workers", "2",
                          "-q", "--steps", "500", "--method", "codec=f16,lr=3,min=0")
        self.assertIn("in 10 consecutive steps", text)


if __name__ == "__main__":
    unittest.main()
