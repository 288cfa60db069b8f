"""Nobody is taken for lost while a disk is slow, or while the whole training is stopped."""
import os
import signal
import time
import unittest

from training import launch, LAUNCH_ENV, OPEN_MPI, rank_processes, TrainCase

SLOW = os.environ.get("TERSE_SLOW_FSYNC", "")
HERE = os.environ.get("TERSE_RANKS", "yes") == "yes"


@unittest.skipUnless(SLOW, "a sanitizer does not go with LD_PRELOAD")
class Slow(TrainCase):
    def slow(self, seconds):
        return {"LD_PRELOAD": SLOW, "SLOW_FSYNC": str(seconds)}

    def test_a_disk_slower_than_the_timeout(self):
        """3 s for a checkpoint, 1 s to wait for a worker."""
        words = ("--steps", "20", "--workers", "3", "--method", "topk:keep=0.05", "--timeout", "1")
        done = self.train(*words, "--checkpoint-every", "10", "--out", self.path("run"),
                          env=self.slow(3))
        self.assertEqual(self.checkpoints("run"), [10, 20])
        self.assertEqual((done["checkpoints"], done["checkpoints_skipped"]), (2, 0))
        self.assertGreater(done["checkpoint_write_seconds"], 6)
        self.assertLess(done["checkpoint_seconds"], 3)
        self.assertEqual(done["weights_hash"], self.train(*words)["weights_hash"])

    @unittest.skipUnless(HERE and OPEN_MPI, "no libterse-mpi in this build, or no Open MPI")
    def test_the_same_under_mpirun(self):
        process = self.begin("--steps", "20", "--timeout", "1", "-q", "--checkpoint-every", "10",
                             "--out", self.path("run"), launcher=launch(3),
                             env={**LAUNCH_ENV, **self.slow(2)})
        _, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, err.decode())
        self.assertEqual(self.checkpoints("run"), [10, 20])

    def test_what_comes_due_meanwhile_is_skipped_and_counted(self):
        """The training is not held: 300 steps with a checkpoint each, and 0.5 s for one."""
        words = ("--steps", "300", "--workers", "2", "--evaluate-every", "300")
        start = time.monotonic()
        done = self.train(*words, "--checkpoint-every", "1", "--out", self.path("run"),
                          env=self.slow(0.5))
        self.assertEqual(self.checkpoints("run")[-1], 300)
        self.assertEqual(done["checkpoint"], self.checkpoint("run", 300))
        self.assertGreater(done["checkpoints_skipped"], 0)
        self.assertEqual(done["checkpoints"] + done["checkpoints_skipped"], 300)
        self.assertLess(done["checkpoints"], 150)
        self.assertLess(time.monotonic() - start, 20)
        plain = self.train(*words)
        self.assertEqual(done["weights_hash"], plain["weights_hash"])
        self.assertEqual(plain["checkpoints"], 0)


class Stopped(TrainCase):
    """As with Ctrl-Z and fg: stopped for longer than the timeout, at some point of a step."""
    words = ("--steps", "300000", "--evaluate-every", "300000", "--checkpoint-every", "100",
             "--method", "def:ratio=4", "--timeout", "1", "--out")

    def stop_and_continue(self, process, which):
        for _ in range(3):
            self.assertIsNone(process.poll(), "it ended before it could be stopped")
            for pid in which:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(2.5)
            for pid in which:
                os.kill(pid, signal.SIGCONT)
            time.sleep(0.2)
        os.kill(which[0], signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertIn("Stopped by SIGINT", err.decode())

    def test_threads(self):
        process = self.begin(*self.words, self.path("run"), "--workers", "3")
        self.wait_for_checkpoint("run", process)
        self.stop_and_continue(process, [process.pid])

    @unittest.skipUnless(HERE and OPEN_MPI, "no libterse-mpi in this build, or no Open MPI")
    def test_ranks(self):
        process = self.begin(*self.words, self.path("run"), launcher=launch(3), env=LAUNCH_ENV)
        self.wait_for_checkpoint("run", process)
        self.stop_and_continue(process, list(rank_processes(self.path("run")).values()))


if __name__ == "__main__":
    unittest.main()
