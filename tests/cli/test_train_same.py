"""The same settings give the same weights: whatever the threads, and after any kind of stop."""
import os
import signal
import time
import unittest

from support import INTERRUPTED, OK, REQUEUE
from training import floats, METHODS, read_checkpoint, TrainCase

LONG = ("--steps", "2000", "--evaluate-every", "2000")
STOPS = ((signal.SIGTERM, REQUEUE), (signal.SIGINT, INTERRUPTED), (signal.SIGUSR1, REQUEUE),
         (signal.SIGHUP, REQUEUE))
STOPPED = ("dqsgd", "topk:keep=0.05,every=3", "signum", "def:ratio=4")


class Same(TrainCase):
    def test_a_node_of_all_workers_has_their_mean(self):
        """Both add in rank order, and a quarter is exact: the bits of plain dense."""
        for overlap in ("on", "off"):
            words = ("--method", "dense", "--steps", "5", "--workers", "4", "--overlap", overlap)
            with self.subTest(overlap=overlap):
                self.assertEqual(self.train(*words, "--node-size", "4")["weights_hash"],
                                 self.train(*words)["weights_hash"])

    def test_threads_never_matter(self):
        for method in ("def:ratio=4", "regtopk:keep=0.05"):
            words = ("--method", method, "--workers", "3", "--steps", "6")
            plain = self.train(*words)["weights_hash"]
            for more, env in ((("--codec-threads", "2"), {}), ((), {"OMP_NUM_THREADS": "1"}),
                              ((), {"OMP_NUM_THREADS": "5", "OPENBLAS_NUM_THREADS": "3"})):
                with self.subTest(method=method, more=more, env=env):
                    self.assertEqual(self.train(*words, *more, env=env)["weights_hash"], plain)

    def test_overlap_never_matters(self):
        """Nor does it to a checkpoint: a run with overlap is resumed without it."""
        for method in ("dense", "def:ratio=4", "regtopk:keep=0.05"):
            words = ("--model", "mlp", "--method", method, "--workers", "2", "--batch", "4")
            with self.subTest(method=method):
                whole = self.train(*words, "--steps", "2", "--accumulate", "2", "--overlap", "off")
                done = self.train(*words, "--steps", "2", "--accumulate", "2")
                self.assertEqual(done["weights_hash"], whole["weights_hash"])
        self.train(*words, "--steps", "1", "--out", self.path("run"))
        more = ("--resume", self.path("run"), "--steps", "2")
        done = self.train(*words, *more, "--overlap", "off", "--out", self.path("without"))
        self.assertEqual(self.train(*words, *more)["weights_hash"], done["weights_hash"])

    def test_settings_do_matter(self):
        seen = set()
        words = ("--workers", "2", "--steps", "3")
        for more in ((), ("--seed", "2"), ("--lr", "0.01"), ("--shard", "range"),
                     ("--shard", "class:alpha=0.1"), ("--shard", "unequal"),
                     ("--method", "signum"), ("--batch", "9"),
                     ("--accumulate", "2"), ("--batches", "2"), ("--augment",), ("--workers", "3"),
                     ("--steps", "4")):
            seen.add(self.train(*words, *more)["weights_hash"])
        self.assertEqual(len(seen), 13)

    def weights(self, *words):
        """The weights after a step of dense SGD, x - lr g."""
        name = "one%d" % len(os.listdir(self.folder))
        self.train("--method", "dense:momentum=0,lr=0.5", "--workers", "2", "--steps", "1", "--out",
                   self.path(name), *words)
        return floats(read_checkpoint(self.checkpoint(name, 1))[2]["weights", 0])

    def test_batches_count_the_last_and_accumulate_the_mean(self):
        """With batches 0, 1, 2, 3 at the same weights: --batches 2 takes g1, --accumulate 2 the
        mean of g0 and g1, both together the mean of g2 and g3."""
        one, last, mean = (self.weights(*words) for words in (
            (), ("--batches", "2"), ("--accumulate", "2")))
        both, four = (self.weights(*words) for words in (
            ("--batches", "2", "--accumulate", "2"), ("--accumulate", "4")))
        self.assertGreater(max(abs(a - b) for a, b in zip(one, last)), 1e-3)
        for a, b, c in zip(one, last, mean):
            self.assertAlmostEqual((a + b) / 2, c, delta=1e-6)
        for a, b, c in zip(mean, both, four):
            self.assertAlmostEqual((a + b) / 2, c, delta=1e-6)

    def test_batches_use_up_the_epoch(self):
        """25 batches per epoch and worker: 12 steps of two, and the loss is of both."""
        done = self.train("--workers", "2", "--batches", "2", "--epochs", "2", "--out",
                          self.path("run"))
        self.assertEqual(done["steps"], 24)
        self.assertEqual(self.run_json("run")["batches"], 2)
        still = ("--workers", "2", "--lr", "0")  # the weights do not change
        one = self.losses("one", *still, "--steps", "4")
        two = self.losses("two", *still, "--steps", "2", "--batches", "2")
        self.assertEqual((len(one), len(two)), (4, 2))
        for i in range(2):
            self.assertAlmostEqual(two[i], (one[2 * i] + one[2 * i + 1]) / 2, places=9)

    def losses(self, name, *words):
        """The training losses, by step."""
        self.train(*words, "--out", self.path(name))
        return [line["loss"] for line in self.lines(name) if line["kind"] == "step"]

    def test_checkpoints_and_evaluations_change_nothing(self):
        for method in ("qadam", "def:ratio=4"):
            words = ("--method", method, "--workers", "2", "--steps", "8")
            plain = self.train(*words, "--evaluate-every", "8")["weights_hash"]
            busy = self.train(*words, "--evaluate-every", "1", "--checkpoint-every", "1", "--out",
                              self.path("run-" + method[:3]))
            self.assertEqual(busy["weights_hash"], plain)

    def test_half_and_half(self):
        """For every method: 11 steps, and the last 5 of them again from the checkpoint of step 6."""
        for i, method in enumerate(METHODS):
            with self.subTest(method=method):
                words = ("--method", method, "--workers", "3")
                name = "run%d" % i
                words += ("--batches", str(1 + i % 2))
                whole = self.train(*words, "--steps", "11", "--checkpoint-every", "6", "--out",
                                   self.path(name))
                self.assertEqual(self.checkpoints(name), [6, 11])
                os.remove(self.checkpoint(name, 11))
                rest = self.train("--resume", self.path(name))
                self.assert_monotone(name)
                for key in ("weights_hash", "steps", "loss", "accuracy", "bytes_sent",
                            "dense_bytes"):
                    self.assertEqual(rest[key], whole[key], key)

    def test_batch_norm_is_kept_too(self):
        """Running statistics are a worker's own; the net with them comes back whole."""
        words = ("--model", "resnet20", "--batch", "4", "--workers", "2", "--shard", "range")
        whole = self.train(*words, "--steps", "3", "--checkpoint-every", "2", "--out",
                           self.path("run"))
        os.remove(self.checkpoint("run", 3))
        rest = self.json("train", "--json", "-q", "--resume", self.path("run"))
        self.assertEqual((rest["weights_hash"], rest["loss"]),
                         (whole["weights_hash"], whole["loss"]))


class Stopped(TrainCase):
    def wait_for_lines(self, name, process):
        """Until the run has begun."""
        self.wait_for(lambda: os.path.exists(self.path(name + "/metrics.jsonl")) and
                      len(self.read(name + "/metrics.jsonl")) > 0, process)

    def check_rest(self, folder, *words):
        """A stopped and resumed run has the weights of one that was never stopped."""
        self.assertLess(self.checkpoints(folder)[-1], 2000)
        rest = self.train(*words, *LONG, "--resume", self.path(folder))
        whole = self.train(*words, *LONG)
        self.assertEqual(rest["weights_hash"], whole["weights_hash"])
        self.assertEqual(rest["steps"], 2000)
        self.assert_monotone(folder)

    def test_kill_9(self):
        words = ("--method", "regtopk:keep=0.05", "--workers", "3")
        process = self.begin(*words, *LONG, "--checkpoint-every", "5", "--out", self.path("run"))
        self.wait_for_checkpoint("run", process, 10)
        self.stop(process, signal.SIGKILL)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.assertIn(len(self.checkpoints("run")), (2, 3))  # a third while old ones are removed
        self.check_rest("run", *words)
        self.assertFalse([name for name in os.listdir(self.path("run")) if name[0] == "."])

    def test_a_signal_writes_a_checkpoint(self):
        for i, (number, code) in enumerate(STOPS):
            with self.subTest(signal=number):
                name = "run%d" % i
                words = ("--method", STOPPED[i], "--workers", "2")
                process = self.begin(*words, *LONG, "--out", self.path(name))
                self.wait_for_lines(name, process)
                out, err = self.stop(process, number)
                self.assertEqual(process.returncode, code, err)
                self.assertIn("Stopped by %s after step" % signal.Signals(number).name, err)
                self.assertIn('"status":\t"stopped"', out)
                self.assertIn("terse train --resume %s continues" % self.path(name), err)
                self.assertEqual(self.lines(name)[-1]["status"], "stopped")
                self.check_rest(name, *words)

    def test_a_signal_without_a_folder(self):
        process = self.begin("--workers", "2", *LONG, "--evaluate-every", "1")
        process.stderr.readline()
        _, err = self.stop(process)
        self.assertEqual(process.returncode, REQUEUE, err)
        self.assertIn("without --out nothing was saved", err)

    def test_the_warning_of_a_batch_system_and_then_its_end(self):
        """SIGTERM after SIGUSR1 does not end the checkpoint that is being made; nor do more
        warnings."""
        process = self.begin("--workers", "2", *LONG, "--out", self.path("run"))
        self.wait_for_lines("run", process)
        for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGHUP):
            process.send_signal(number)
        _, err = self.stop(process, signal.SIGTERM)
        self.assertEqual(process.returncode, REQUEUE, err)
        self.check_rest("run", "--workers", "2")

    def test_nohup(self):
        """A command that was started to survive its terminal does."""
        process = self.begin("--workers", "2", "--steps", "400", "--out", self.path("run"),
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for_lines("run", process)
        out, err = self.stop(process, signal.SIGHUP)
        self.assertEqual(process.returncode, OK, err)
        self.assertIn('"status":\t"finished"', out)

    def test_a_signal_in_the_last_step_changes_nothing(self):
        """A training that has reached its end is finished, whatever arrived on the way."""
        process = self.begin("--workers", "2", "--data", "digits", "--model", "resnet20", "--batch",
                             "128", "--steps", "1", "--out", self.path("run"))
        self.wait_for(lambda: os.path.exists(self.path("run/run.json")), process)
        out, err = self.stop(process, signal.SIGTERM)
        self.assertEqual(process.returncode, OK, err)
        self.assertIn('"status":\t"finished"', out)

    def test_a_second_signal_ends_at_once(self):
        """The evaluation that follows a first one takes longer than the second one waits."""
        process = self.begin("--workers", "2", "--data", "digits", "--model", "resnet20",
                             "--batch", "128")
        time.sleep(1.0)  # a step of ResNet-20 on 256 digits takes longer than that
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        start = time.monotonic()
        self.stop(process, signal.SIGTERM)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertLess(time.monotonic() - start, 2)


if __name__ == "__main__":
    unittest.main()
