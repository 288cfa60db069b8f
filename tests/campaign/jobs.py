"""Small trainings for the campaign: settings drawn at random, threads or ranks of an MPI, run with
faults, and what an undisturbed run of the same settings gives."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "cli"))
from training import LAUNCH_ENV, MPICH, OPEN_MPI, rank_processes, small_images  # noqa: E402

METHODS = (
    "signsgd", "signum", "def:ratio=4", "def-a:ratio=4", "qadam", "regtopk:keep=0.05", "dqsgd",
    "ef:ratio=4", "saef:ratio=4", "ef-sign", "topk:keep=0.05", "qsgd", "terngrad", "natural",
    "powersgd", "adam", "dense", "median", "fp16", "bf16", "topk:keep=0.05,every=3",
    "topk:keep=0.1,combine=shard", "regtopk:keep=0.05,combine=sparse-allreduce",
    "qadam:combine=parameter-server", "codec=log:k=2,feedback=residual")
LIMIT = 120  # seconds: whatever takes longer hangs
ALONE = 20  # seconds that a launcher has to end after its ranks


class Breach(Exception):
    """A promise that does not hold."""


class Place:
    """Where the command and the libraries for LD_PRELOAD are, and a folder of its own."""

    def __init__(self, build, without_mpi):
        self.terse = os.path.join(build, "terse")
        self.preload = os.path.join(build, "tests/campaign/libcampaign_preload.so")
        self.slow_fsync = os.path.join(build, "tests/cli/libslow_fsync.so")
        self.lie_test = os.path.join(build, "tests/method/test-method-lie")
        mpich_library = os.path.join(build, "tests/cli/libterse_mpi_for_mpich.so")
        self.launchers = {}
        if not without_mpi and OPEN_MPI and os.path.exists(os.path.join(build, "libterse-mpi.so")):
            self.launchers["Open MPI"] = (
                (OPEN_MPI, "--oversubscribe", "--mca", "btl_vader_single_copy_mechanism", "none"),
                LAUNCH_ENV)
        if not without_mpi and MPICH and os.path.exists(mpich_library):
            self.launchers["MPICH"] = ((MPICH,), {"TERSE_MPI_LIBRARY": mpich_library})
        for needed in (self.terse, self.preload, self.slow_fsync, self.lie_test):
            if not os.path.exists(needed):
                sys.exit("campaign: %s is missing: build first" % needed)
        known = json.loads(subprocess.check_output([self.terse, "methods", "--json"]))["methods"]
        missing = {row["name"] for row in known} - {spec.split(":")[0] for spec in METHODS}
        if missing:
            sys.exit("campaign: METHODS of tests/campaign/jobs.py lacks %s" % ", ".join(missing))
        self.folder = tempfile.mkdtemp(prefix="terse-campaign-")
        small_images(os.path.join(self.folder, "idx"))
        self.wholes = {}
        self.launcher_hangs = 0

    def clean(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Case:
    """One training in a folder of its own, with settings drawn from `source`."""

    def __init__(self, place, source, ranks=None, method=None):
        self.place, self.source = place, source
        self.seen = 0  # the newest checkpoint so far
        self.launched = False  # by `terse launch`
        self.run = os.path.join(place.folder, "run")
        shutil.rmtree(self.run, ignore_errors=True)
        use_ranks = source.random() < 0.3 if ranks is None else ranks
        self.mpi = source.choice(sorted(place.launchers)) if use_ranks and place.launchers else None
        self.workers = source.randint(2, 4) if self.mpi else source.randint(1, 4)
        self.steps = source.choice((40, 80, 120))
        self.every = source.choice((1, 2, 3, 7, 15))
        data = ("--data", "idx:%s/idx" % place.folder, "--model", "logistic")
        specs = (method,) if method else METHODS
        if not method and source.random() < 0.5:
            data = ("--data", "regression", "--model", "linear", "--lr", "0.01")
            specs = ("topk:keep=0.1,min=1", "dense", "qsgd:min=1")
        self.words = (*data, "--method", source.choice(specs), "--batch",
                      str(source.choice((2, 8))), "--seed", str(source.randint(1, 4)))

    def __str__(self):
        return "%s, %d of %s, %d steps, every %d" % (
            " ".join(self.words).replace(self.place.folder + "/", ""), self.workers,
            self.mpi or "threads", self.steps, self.every)

    # ---- running ----

    def command(self, *more, mpi="own", launch=()):
        mpi = self.mpi if mpi == "own" else mpi
        words = [self.place.terse, "train", *self.words, "--steps", str(self.steps), "--json", "-q",
                 *more]
        self.launched = bool(launch)
        if launch:
            words = [self.place.terse, "launch", "-n", str(self.workers), "--launcher",
                     " ".join(self.place.launchers[mpi][0]), *launch, "--", *words[1:]]
        elif mpi:
            words = [*self.place.launchers[mpi][0], "-n", str(self.workers), *words]
        else:
            words += ["--workers", str(self.workers)]
        env = dict(os.environ, OMP_NUM_THREADS="1", **(self.place.launchers[mpi][1] if mpi else {}))
        return words, env

    def begin(self, *more, env=None, limit=None, **how):
        """Starts the training; `limit` is the largest file in bytes. Rank processes get `env` from
        the launcher."""
        words, variables = self.command(*more, **how)
        variables.update(env or {})

        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        # pylint: disable-next=consider-using-with,subprocess-popen-preexec-fn
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=variables, start_new_session=True,
                                preexec_fn=limit_files if limit else None)

    def end(self, process):
        """(exit code, standard output, standard error); a hang is a breach. A launcher that has not
        ended long after its last rank hangs by itself, which is counted apart."""
        start = alive = time.monotonic()
        while True:
            try:
                out, err = process.communicate(timeout=2)
                return process.returncode, out.decode(), err.decode(errors="replace")
            except subprocess.TimeoutExpired:
                alive = time.monotonic() if self.rank_processes() else alive
            if self.mpi and not self.launched and time.monotonic() > alive + ALONE:
                self.place.launcher_hangs += 1
                os.killpg(process.pid, signal.SIGKILL)
                alive = time.monotonic()
            if time.monotonic() > start + LIMIT:
                self.kill_all(process)
                raise Breach("hangs: %s" % self)

    def kill_all(self, process):
        for pid in self.rank_processes().values():
            os.kill(pid, signal.SIGKILL)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def rank_processes(self):
        return rank_processes(self.run)

    # ---- what must be ----

    def whole(self):
        """The result of an undisturbed run, by threads, and its seconds."""
        key = (self.words, self.workers, self.steps)
        if key not in self.place.wholes:
            words, env = self.command(mpi=None)
            start = time.monotonic()
            code, out, err = self.end(subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                start_new_session=True))
            if code != 0:
                raise Breach("undisturbed: %s: %s" % (self, err))
            self.place.wholes[key] = (json.loads(out), time.monotonic() - start)
        return self.place.wholes[key]

    def checkpoints(self):
        try:
            names = os.listdir(self.run)
        except FileNotFoundError:
            return []
        return sorted(int(name[11:-6]) for name in names
                      if name.startswith("checkpoint-") and name.endswith(".terse"))

    def how(self):
        """The options that begin the training or go on with it. A checkpoint that was seen is still
        there, or a newer one."""
        newest = (self.checkpoints() or [0])[-1]
        if newest < self.seen:
            raise Breach("checkpoint %d was lost, %d is the newest: %s" % (self.seen, newest, self))
        self.seen = newest
        return (("--resume" if newest else "--out"), self.run,
                "--checkpoint-every", str(self.every))

    def check_result(self, out):
        whole = self.whole()[0]
        result = json.JSONDecoder().raw_decode(out[out.index("{"):])[0]
        for key in ("weights_hash", "loss", "bytes_sent", "steps"):
            if result[key] != whole[key]:
                raise Breach("%s is %s, undisturbed %s: %s" % (key, result[key], whole[key], self))
        return result

    def check_folder(self):
        left = [name for name in os.listdir(self.run) if name.startswith(".")]
        if left:
            raise Breach("left behind: %s: %s" % (left, self))
        if self.checkpoints()[-1:] != [self.steps]:
            raise Breach("checkpoints %s of %d steps: %s" % (self.checkpoints(), self.steps, self))

    def finish(self, **how):
        """Goes on without faults; the result must be that of an undisturbed run."""
        result = self.check_right(*self.end(self.begin(*self.how(), **how)))
        if result["resumed_from"] < self.seen:
            raise Breach("steps %d to %d were done again: %s" % (
                result["resumed_from"] + 1, self.seen, self))

    def check_right(self, code, out, err):
        """It ended well, with the result of an undisturbed run and nothing left behind."""
        if code != 0:
            raise Breach("ended with %d: %s: %s" % (code, self, err))
        result = self.check_result(out)
        self.check_folder()
        return result

    def check_right_or_error(self, code, out, err, pattern):
        """It ended with the result of an undisturbed run, or with a text like the pattern."""
        if code == 0:
            self.check_result(out)
        else:
            self.check_error(code, err, pattern)

    def check_error(self, code, err, pattern):
        """A failure has an exit code of its own and a text that names the cause."""
        if code in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, 139, 134, 135):
            raise Breach("crashed with %d: %s: %s" % (code, self, err))
        if not re.search(pattern, err):
            raise Breach("ended with %d and no text like '%s': %s: %s" % (code, pattern, self, err))
