"""kill -9 at random moments: whatever was on the way, the run resumes and ends with the weights of one
that was never disturbed, and nothing is left behind. TERSE_KILLS is how many; the seed is printed."""
import os
import random
import shutil
import signal
import time
import unittest

from training import METHODS, TrainCase

KILLS = int(os.environ.get("TERSE_KILLS", "8"))
SEED = int(os.environ.get("TERSE_SEED", str(int.from_bytes(os.urandom(4), "little"))))
STEPS = 120


class Kills(TrainCase):
    def leftovers(self):
        return [name for name in os.listdir(self.path("run")) if name.startswith(".")]

    def disturb(self, source, words, every, longest):
        """Kills the run once; 1, or 0 if it had ended before."""
        resume = bool(self.checkpoints("run"))
        if not resume and os.path.exists(self.path("run")):
            shutil.rmtree(self.path("run"))  # killed before its first checkpoint
        process = self.begin(*words, "-q", "--steps", str(STEPS), "--checkpoint-every", str(every),
                             *(("--resume", self.path("run")) if resume else
                               ("--out", self.path("run"))))
        time.sleep(source.uniform(0, longest))
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertIn(process.returncode, (0, -signal.SIGKILL), err.decode())
        return process.returncode != 0

    def test_kill_9_at_any_moment(self):
        source, killed, behind, runs = random.Random(SEED), 0, 0, 0
        print("seed %d" % SEED)
        while killed < KILLS:
            method, workers = source.choice(METHODS), source.randint(1, 4)
            every = source.choice((1, 1, 2, 3, 7, 30))
            words = ("--method", method, "--workers", str(workers))
            start = time.monotonic()
            whole = self.train(*words, "--steps", str(STEPS))
            longest = 1.2 * (time.monotonic() - start)
            for _ in range(source.randint(1, 4)):
                one = self.disturb(source, words, every, longest)
                killed += one
                behind += one and bool(self.checkpoints("run"))
            how = (("--resume", self.path("run")) if self.checkpoints("run") else
                   ("--out", self.path("run")))
            if how[0] == "--out":
                shutil.rmtree(self.path("run"), ignore_errors=True)
            rest = self.train(*words, "--steps", str(STEPS), *how)
            about = (SEED, method, workers, every)
            for key in ("weights_hash", "loss", "bytes_sent", "steps"):
                self.assertEqual(rest[key], whole[key], (key, about))
            self.assertEqual(self.leftovers(), [], about)
            self.assertEqual(self.checkpoints("run")[-1], STEPS)
            self.assertLessEqual(len(self.checkpoints("run")), 2)
            shutil.rmtree(self.path("run"))
            runs += 1
        print("%d kills in %d runs, %d of them behind a checkpoint" % (killed, runs, behind))


if __name__ == "__main__":
    unittest.main()
