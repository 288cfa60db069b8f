"""Adversaries in `terse train` and `terse compare`: what they contribute, with every method, with
threads and processes, after a stop, and what is refused."""
import os
import unittest

from support import REFUSED, USAGE
from training import floats, launch, LAUNCH_ENV, METHODS, OPEN_MPI, read_checkpoint, TrainCase

RANKS = os.environ.get("TERSE_RANKS", "yes") == "yes"  # no: this build has no libterse-mpi
ATTACKS = ("invert", "invert*10", "random", "zero", "blind")


class Adversaries(TrainCase):
    def weights(self, *words):
        """The weights after one step of dense SGD."""
        folder = "run%d" % len(os.listdir(self.folder))
        self.train("--method", "dense:momentum=0,lr=0.5", "--steps", "1", "--out",
                   self.path(folder), *words)
        return floats(read_checkpoint(self.checkpoint(folder, 1))[2]["weights", 0])

    def test_one_step(self):
        """Honest: x - lr mean g. With an inverter its g counts negative; zeros count as nothing."""
        lone = ("--workers", "1")
        start = self.weights(*lone, "--adversaries", "1:zero")
        honest, inverted, tenfold = (self.weights(*lone, *words) for words in (
            (), ("--adversaries", "1:invert"), ("--adversaries", "1:invert*10")))
        moved = max(abs(a - b) for a, b in zip(honest, start))
        self.assertGreater(moved, 0.01)
        for x, a, b, c in zip(start, honest, inverted, tenfold):
            self.assertAlmostEqual(b - x, x - a, delta=1e-6 * moved)
            self.assertAlmostEqual(c - x, 10 * (x - a), delta=1e-5 * moved)

    def test_the_last_ranks_attack(self):
        """Of three: the mean of two honest gradients and a zero is two thirds of the honest mean of
        those two. The shards of the three are fixed, so which rank attacks matters."""
        three = ("--workers", "3", "--shard", "range")
        start = self.weights(*three, "--adversaries", "3:zero")
        all_of, last, two = (self.weights(*three, *words) for words in (
            (), ("--adversaries", "1:zero"), ("--adversaries", "2:zero")))
        inverted = self.weights(*three, "--adversaries", "1:invert")
        for x, a, b, c, d in zip(start, all_of, last, two, inverted):
            of_last = b - a  # lr / 3 times the last worker's gradient
            self.assertAlmostEqual(d, a + 2 * of_last, delta=1e-6)
            self.assertAlmostEqual(x - c, (x - a) - of_last - (c - b), delta=1e-6)
        self.assertNotEqual(last, two)

    def test_every_method_and_every_attack(self):
        """Reproducible, other weights than without, and the same after a resume."""
        for i, method in enumerate(METHODS):
            attack = "1:" + ATTACKS[i % len(ATTACKS)]
            with self.subTest(method=method, attack=attack):
                words = ("--method", method, "--workers", "3", "--steps", "9")
                honest = self.train(*words)["weights_hash"]
                name = "run%d" % i
                whole = self.train(*words, "--adversaries", attack, "--checkpoint-every", "8",
                                   "--out", self.path(name))
                self.assertNotEqual(whole["weights_hash"], honest)
                self.assertEqual(whole["adversaries"], attack)
                os.remove(self.checkpoint(name, 9))
                self.assertEqual(self.checkpoints(name), [8])
                rest = self.train("--resume", self.path(name))
                self.assertEqual(rest["weights_hash"], whole["weights_hash"])

    def test_each_attack_resumes_and_seeds_matter(self):
        for attack in ATTACKS:
            with self.subTest(attack=attack):
                name = "run-" + attack.replace("*", "-")
                words = ("--workers", "2", "--steps", "6", "--adversaries", "1:" + attack)
                whole = self.train(*words, "--checkpoint-every", "3", "--out", self.path(name))
                self.assertEqual(self.train(*words)["weights_hash"], whole["weights_hash"])
                os.remove(self.checkpoint(name, 6))
                rest = self.train("--resume", self.path(name))
                self.assertEqual(rest["weights_hash"], whole["weights_hash"])
                other = self.train(*words, "--seed", "2")["weights_hash"]
                self.assertNotEqual(other, whole["weights_hash"])

    @unittest.skipUnless(RANKS and OPEN_MPI, "no libterse-mpi in this build, or no Open MPI")
    def test_processes_attack_as_threads_do(self):
        for attack in ("2:random", "1:blind"):
            words = ("--method", "signum", "--steps", "5", "--adversaries", attack)
            here = self.train(*words, "--workers", "3")["weights_hash"]
            process = self.begin(*words, "-q", launcher=launch(3), env=LAUNCH_ENV)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err.decode())
            self.assertIn(here.encode(), out)

    def test_they_are_recorded_and_compared(self):
        self.train("--steps", "3", "--workers", "3", "--adversaries", "2:invert*10", "--out",
                   self.path("run"))
        self.assertEqual(self.run_json("run")["adversaries"], "2:invert*10")
        for words, reason in ((("--adversaries", "2:invert"),
                               "has adversaries '2:invert*10', not '2:invert'"),
                              (("--adversaries", "none"), "has adversaries '2:invert*10'"),
                              (("--workers", "1"), "there are only 1 workers")):
            text = self.error("train", "-q", "--resume", self.path("run"), "--steps", "4", *words)
            self.assertIn(reason, text)
        rest = self.train("--resume", self.path("run"), "--steps", "4", "--workers", "2")
        self.assertEqual(rest["adversaries"], "2:invert*10")

    def test_refusals(self):
        for text, code, reason in (("4:invert", REFUSED, "there are only 3 workers"),
                                   ("3:inverted", USAGE, "did you mean 'invert'?"),
                                   ("3:krum", USAGE, "there are invert, random, zero, blind"),
                                   ("invert", USAGE, "write 3:invert, or none"),
                                   ("1:zero*3", USAGE, "zero takes no factor"),
                                   ("1:invert*x", USAGE, "write 3:invert*10")):
            with self.subTest(text=text):
                told = self.error("train", *self.small, "-q", "--steps", "1", "--workers", "3",
                                  "--adversaries", text, "--out", self.path("run"), expect=code)
                self.assertIn("--adversaries", told)
                self.assertIn(reason, told)
                self.assertFalse(os.path.exists(self.path("run")))

    def test_compare(self):
        words = ("compare", *self.small, "--methods", "dense;signum", "--steps", "4", "--workers",
                 "3", "--json", "-q", "--out", self.path("cmp"))
        members = self.json(*words, "--adversaries", "1:invert")["members"]
        alone = [self.train("--method", method, "--steps", "4", "--workers", "3", "--adversaries",
                            "1:invert")["loss"] for method in ("dense", "signum")]
        self.assertEqual([member["loss"] for member in members], alone)
        told = self.error(*words, "--adversaries", "1:zero")
        self.assertIn("another adversaries: it has adversaries '1:invert', not '1:zero'", told)


if __name__ == "__main__":
    unittest.main()
