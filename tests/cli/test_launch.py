"""`terse launch`: a training of real ranks that goes on by itself when ranks die. TERSE_DEATHS is how
many die, 4 by default; from 20 on (cli/launch_long) the accuracies of several seeds are compared, too."""
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
import unittest

from support import INTERRUPTED, MACHINE, OK, REFUSED, REQUEUE, TERSE, USAGE
from training import LAUNCH_ENV, MPICH, OPEN_MPI, TrainCase, rank_processes

DEATHS = int(os.environ.get("TERSE_DEATHS", "4"))
SEED = int(os.environ.get("TERSE_SEED", str(int.from_bytes(os.urandom(4), "little"))))
RANKS = os.environ.get("TERSE_RANKS") == "yes"
MPICH_LIBRARY = os.environ.get("TERSE_MPICH_LIBRARY")

LAUNCHERS = []
if RANKS and OPEN_MPI:
    LAUNCHERS.append(("Open MPI", OPEN_MPI + " --oversubscribe --mca "
                      "btl_vader_single_copy_mechanism none", LAUNCH_ENV))
if RANKS and MPICH and MPICH_LIBRARY:
    LAUNCHERS.append(("MPICH", MPICH, {"TERSE_MPI_LIBRARY": MPICH_LIBRARY}))

STEPS = 2000 if DEATHS < 20 else 8000  # each death is behind a new checkpoint
WORDS = ("--method", "topk:keep=0.05", "--steps", str(STEPS), "--timeout", "20")


class Launch(TrainCase):
    def words(self, launcher, *words, count=4, options=()):
        return ("launch", "-n", str(count), "--launcher", launcher, *options, "--", "train",
                *self.small, "--json", "-q", *WORDS, "--out", self.path("run"),
                "--checkpoint-every", "10", *words)

    def start(self, launcher, env, *words, **how):
        process = subprocess.Popen([TERSE, *self.words(launcher, *words, **how)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=dict(os.environ, **env))
        self.addCleanup(self.end, process)
        return process

    def finish(self, process):
        """(the JSON of standard output, where MPICH also tells of deaths; standard error)"""
        out, err = process.communicate(timeout=200)
        return out.decode()[out.find(b"{"):], err.decode()

    def whole(self, workers=4):
        """The same training by threads, undisturbed."""
        return self.train(*WORDS, "--workers", str(workers))

    def kill_rank(self, process, rank, behind):
        """Once there is a checkpoint beyond step `behind` and the rank is there."""
        self.wait_for(lambda: self.checkpoints("run")[-1:] > [behind]
                      and rank in rank_processes(self.path("run")), process, 100)
        os.kill(rank_processes(self.path("run"))[rank], signal.SIGKILL)

    def incidents(self, err):
        return [line for line in err.splitlines() if line.startswith("terse launch: incident")]

    def each(self):
        if not LAUNCHERS:
            print("skip ranks: libterse-mpi or mpirun is not there")
        for name, launcher, env in LAUNCHERS:
            print(name)
            yield name, launcher, env
            subprocess.run(["rm", "-rf", self.path("run")], check=True)

    def test_it_goes_on_when_ranks_die(self):
        source, whole = random.Random(SEED), self.whole()
        print("seed %d" % SEED)
        for name, launcher, env in self.each():
            process, behind = self.start(launcher, env), 0
            for _ in range(DEATHS):
                self.kill_rank(process, source.randrange(4), behind)
                time.sleep(0.3)  # until the launcher has ended the others
                behind = self.checkpoints("run")[-1]
            out, err = self.finish(process)
            self.assertEqual(process.returncode, OK, err)
            rest = json.loads(out)
            for key in ("weights_hash", "loss", "bytes_sent", "steps"):
                self.assertEqual(rest[key], whole[key], key)
            lines = self.incidents(err)
            self.assertEqual(len(lines), DEATHS, lines)
            for line in lines:
                self.assertIn("with 4 workers, retry 1 of 5", line)
                if name == "Open MPI":
                    self.assertRegex(line, "rank [0-3] was ended by signal 9; going on from step ")
            self.assertNotIn("terse launch: here", err)
            self.assertEqual([n for n in os.listdir(self.path("run")) if n[0] == "."], [])

    def slot_that_fails(self):
        """A launcher whose last of four slots does not start once the file `broken` is there."""
        slot = self.path("slot.sh")
        with open(slot, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\n[ ! -e %s ] || [ "$OMPI_COMM_WORLD_RANK" != 3 ] || exit 1\n'
                       'exec "$@"\n' % self.path("broken"))
        launcher = self.path("launcher.sh")
        with open(launcher, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nshift\ncount=$1\nshift\nexec %s -n $count %s \"$@\"\n"
                       % (LAUNCHERS[0][1], slot))
        for path in (slot, launcher):
            os.chmod(path, 0o755)
        return launcher

    @unittest.skipUnless(RANKS and OPEN_MPI, "libterse-mpi or Open MPI is not there")
    def test_fewer_ranks_when_a_slot_fails_twice(self):
        whole = self.whole()
        for least, code in ((2, OK), (4, MACHINE)):
            process = self.start(self.slot_that_fails(), LAUNCH_ENV,
                                 options=("--min-workers", str(least)))
            self.wait_for(lambda: self.checkpoints("run")[-1:] >= [10], process)
            self.write("broken", b"")
            self.kill_rank(process, 1, 0)
            out, err = self.finish(process)
            self.assertEqual(process.returncode, code, err)
            lines = self.incidents(err)
            self.assertIn("slot 3 of 4 did not start", lines[1])
            if code == OK:
                self.assertIn("slot 3 of 4 did not start twice; going on with 3 workers", lines[2])
                rest = json.loads(out)
                self.assertEqual((rest["workers"], rest["steps"], len(lines)), (3, STEPS, 3))
                self.assertAlmostEqual(rest["accuracy"], whole["accuracy"], delta=0.1)
            else:
                self.assertIn("slot 3 of 4 failed to start twice; --min-workers allows", err)
            subprocess.run(["rm", "-rf", self.path("run"), self.path("broken")], check=True)

    @unittest.skipUnless(RANKS and OPEN_MPI and DEATHS >= 20, "TERSE_DEATHS is less than 20")
    def test_accuracy_with_fewer_ranks(self):
        """4 workers, and 3 from some step on, against 4 to the end: the same to the noise of seeds."""
        fewer, whole = [], []
        for seed in range(1, 9):
            more = ("--data", "digits", "--seed", str(seed), "--steps", "1500")
            whole.append(self.train(*WORDS, *more, "--workers", "4")["accuracy"])
            process = self.start(self.slot_that_fails(), LAUNCH_ENV, *more,
                                 options=("--min-workers", "2"))
            self.wait_for(lambda: self.checkpoints("run")[-1:] >= [10], process)
            self.write("broken", b"")
            self.kill_rank(process, 1, 0)
            out, err = self.finish(process)
            self.assertEqual(process.returncode, OK, err)
            self.assertEqual(json.loads(out)["workers"], 3)
            fewer.append(json.loads(out)["accuracy"])
            subprocess.run(["rm", "-rf", self.path("run"), self.path("broken")], check=True)
        print("accuracy of 8 seeds, 4 workers: %s; 4, then 3: %s" % (
            " ".join("%.4f" % one for one in whole), " ".join("%.4f" % one for one in fewer)))
        differences = [one - other for one, other in zip(fewer, whole)]
        error = statistics.stdev(differences) / len(differences) ** 0.5
        print("mean difference %.4f, its standard error %.4f" % (statistics.mean(differences), error))
        self.assertLess(abs(statistics.mean(differences)), 3 * max(error, 0.005))

    def test_signals_end_it_after_a_checkpoint(self):
        long = ("--steps", "6000")  # two signals, each behind a checkpoint that a disk may delay
        whole = self.train(*WORDS, *long, "--workers", "4")
        for _, launcher, env in self.each():
            for number, code in ((signal.SIGTERM, REQUEUE), (signal.SIGINT, INTERRUPTED)):
                process = self.start(launcher, env, *long)
                before = self.checkpoints("run")[-1:] or [0]
                self.wait_for_checkpoint("run", process, before[0] + 10)
                process.send_signal(number)
                _, err = self.finish(process)
                self.assertEqual(process.returncode, code, err)
                self.assertEqual(self.incidents(err), [])
            process = self.start(launcher, env, *long)  # the same command, as a batch system would
            out, err = self.finish(process)
            self.assertEqual(process.returncode, OK, err)
            self.assertEqual(json.loads(out)["weights_hash"], whole["weights_hash"])

    @unittest.skipUnless(RANKS and OPEN_MPI, "libterse-mpi or Open MPI is not there")
    def test_it_gives_up(self):
        launcher, env = LAUNCHERS[0][1:]
        process = self.start(launcher, env, options=("--retries", "0"))
        self.kill_rank(process, 2, 0)
        # A rank that is killed behind a new checkpoint counts as the first death.
        _, err = self.finish(process)
        self.assertEqual(process.returncode, MACHINE, err)
        self.assertIn("1 deaths without a new checkpoint, --retries is 0", err)
        subprocess.run(["rm", "-rf", self.path("run")], check=True)
        err = self.error(*self.words(launcher, "--data", "regression", "--model", "linear",
                                     "--method", "dense:lr=20"), env=env, expect=REFUSED)
        self.assertIn("finite", err)
        self.assertEqual(self.incidents(err), [])

    def test_a_launcher_that_ends_with_0_is_no_success(self):
        """MPICH's does, where a rank exits in the middle."""
        launcher = self.path("launcher.sh")
        for text, reason in (("", "slot 0 of 1 failed to start twice"),
                             ("echo 'terse launch: here, rank 0' >&2",
                              "the launcher ended with exit code 0 before rank 0; 1 deaths")):
            with open(launcher, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n%s\nexit 0\n" % text)
            os.chmod(launcher, 0o755)
            err = self.error(*self.words(launcher, count=1, options=("--retries", "0")),
                             expect=MACHINE)
            self.assertIn(reason, err)

    def test_a_launcher_that_hangs_after_its_ranks_is_ended(self):
        """Open MPI's may, where a rank dies while MPI starts."""
        launcher = self.path("launcher.sh")
        with open(launcher, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n(echo 'terse launch: here, rank 0' >&2; sleep 1.5)\n"
                       "exec %s -c 'import signal; signal.pause()'\n" % sys.executable)
        os.chmod(launcher, 0o755)
        start = time.monotonic()
        err = self.error(*self.words(launcher, count=1, options=("--retries", "0")), expect=MACHINE)
        self.assertIn("the launcher hung after its ranks had ended; 1 deaths", err)
        self.assertGreater(time.monotonic() - start, 9)  # a launcher that only takes its time is left

    def test_bad_requests(self):
        folder = self.path("run")
        need = ("--", "train", "--out", folder, "--checkpoint-every", "5")
        for words, code, text in (
                (("-n", "4"), USAGE, "'train' and its options are missing"),
                (need, USAGE, "-n N, the number of ranks, is missing"),
                (("-n", "0", *need), USAGE, "-n: '0' is not a number from 1 to 4096"),
                (("-n", "2", "--retries", "x", *need), USAGE, "--retries: 'x' is not a number"),
                (("-n", "2", "--min-workers", "3", *need), USAGE,
                 "--min-workers 3 is more than -n 2"),
                (("-n", "2", "--launcher", " ", *need), USAGE, "--launcher: empty"),
                (("-n", "2", *need, "--workers", "3"), USAGE, "-n gives the number of workers"),
                (("-n", "2", *need, "--nonsense"), USAGE, "nonsense"),
                (("-n", "2", "--", "compare", "--methods", "dense"), USAGE, "'train' and its"),
                (("-n", "2", "--", "train", "--out", folder), USAGE, "add --checkpoint-every K"),
                (("-n", "2", "--", "train"), USAGE, "add --out DIR"),
                (("-n", "2", "--launcher", "no-such-launcher", *need), REFUSED,
                 "cannot run 'no-such-launcher'")):
            self.assertIn(text, self.error("launch", *words, expect=code), words)
        self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    sys.exit(unittest.main())
