"""Under mpirun: the weights of threads, stops, and a rank that is killed."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from support import INTERRUPTED, MACHINE, npy, REFUSED, REQUEUE, TERSE
from training import launch, LAUNCH_ENV, METHODS, MPICH, OPEN_MPI, read_checkpoint, TrainCase

MPICH_LIBRARY = os.environ.get("TERSE_MPICH_LIBRARY", "")
HERE = os.environ.get("TERSE_RANKS", "yes") == "yes"  # no: this build has no libterse-mpi


def run(launcher, words, env=None):
    return subprocess.run([*launcher, TERSE, *words], stdout=subprocess.PIPE, timeout=110,
                          stderr=subprocess.PIPE, env=dict(os.environ, **LAUNCH_ENV, **(env or {})),
                          check=False)


def result_of(output):
    """The JSON object, whatever an MPI prints beside it."""
    text = output.decode() if isinstance(output, bytes) else output
    return json.JSONDecoder().raw_decode(text[text.index("{"):])[0]


@unittest.skipUnless(HERE and OPEN_MPI, "no libterse-mpi in this build, or no Open MPI")
class OpenMpi(TrainCase):
    def ranks(self, count, *words, env=None):
        done = run(launch(count), ("train", *self.small, "--json", "-q", *words), env)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return result_of(done.stdout)

    def test_the_weights_of_threads(self):
        for method in METHODS:
            with self.subTest(method=method):
                words = ("--method", method, "--steps", "7")
                here = self.train(*words, "--workers", "3")
                there = self.ranks(3, *words)
                for key in ("weights_hash", "loss", "accuracy", "bytes_sent", "workers"):
                    self.assertEqual(there[key], here[key], key)

    def test_the_combine_is_chosen_by_cost(self):
        """The one that is predicted to be faster on the link as it was measured. Of six workers that
        choose most elements, the sums of a sparse all-reduce are shorter than all choices. Weights do
        not depend on it, and what the user chose stays."""
        words = ("--method", "topk:keep=0.9", "--steps", "3", "--model", "cnn")
        here = self.train(*words, "--workers", "6")
        done = run(launch(6), ("train", *self.small, "--json", "-v", *words))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        there = result_of(done.stdout)
        told = re.search(r"combine ([\w-]+): an exchange is predicted to take ([\d.]+) (\w+), with "
                         r"([\w-]+) ([\d.]+) (\w+) ", done.stderr.decode())
        self.assertIsNotNone(told, done.stderr.decode())
        unit = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
        self.assertLessEqual(float(told[2]) * unit[told[3]], float(told[5]) * unit[told[6]])
        self.assertEqual({told[1], told[4]}, {"allgather", "sparse-allreduce"})
        self.assertIn("combine=" + told[1], there["exchange"])
        self.assertEqual(there["weights_hash"], here["weights_hash"])
        sparse = there if told[1] == "sparse-allreduce" else self.ranks(
            6, "--method", "topk:keep=0.9,combine=sparse-allreduce", "--steps", "3", "--model", "cnn")
        self.assertEqual(sparse["weights_hash"], here["weights_hash"])
        self.assertLess(sparse["bytes_sent"], here["bytes_sent"] / 2)
        given = self.ranks(6, "--method", "topk:keep=0.9,combine=allgather", "--steps", "3", "--model", "cnn")
        self.assertIn("combine=allgather", given["exchange"])
        self.assertEqual(given["weights_hash"], here["weights_hash"])

    def test_threads_never_matter(self):
        words = ("--method", "def:ratio=4", "--steps", "5")
        here = self.train(*words, "--workers", "2")["weights_hash"]
        there = self.ranks(2, *words, "--codec-threads", "2", env={"OMP_NUM_THREADS": "3"})
        self.assertEqual(there["weights_hash"], here)

    def test_nodes_of_threads_and_ranks(self):
        """The weights of threads, the bytes of two workers, and a resume."""
        for method in ("def:ratio=4", "signum", "dqsgd"):
            with self.subTest(method=method):
                words = ("--method", method, "--steps", "4")
                here = self.train(*words, "--workers", "4", "--node-size", "2")
                there = self.ranks(4, *words, "--node-size", "2")
                for key in ("weights_hash", "loss", "bytes_sent"):
                    self.assertEqual(there[key], here[key], key)
                if method != "dqsgd":  # whose lengths vary with the gradients
                    pair = self.train(*words, "--workers", "2")
                    self.assertEqual(pair["bytes_sent"], here["bytes_sent"])
                flat = self.train(*words, "--workers", "4")
                self.assertNotEqual(flat["weights_hash"], here["weights_hash"])
        words = ("--method", "def:ratio=4", "--node-size", "2", "--steps", "6")
        whole = self.ranks(4, *words, "--checkpoint-every", "3", "--out", self.path("nodes"))
        os.remove(self.checkpoint("nodes", 6))
        done = self.train("--resume", self.path("nodes"))
        self.assertEqual(done["weights_hash"], whole["weights_hash"])
        held = sorted(read_checkpoint(self.checkpoint("nodes", 3))[2])
        self.assertEqual([worker for name, worker in held if name == "residual"], [0, 1])
        for workers, note in (("8", "4 nodes instead of 2"), ("2", "1 node instead of 2")):
            os.remove(self.checkpoint("nodes", 6))
            done = run((), ("train", *self.small, "--resume", self.path("nodes"), "--workers", workers))
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            self.assertIn("resumed with %s: each has the mean of the residuals" % note,
                          done.stderr.decode())

    def test_a_rank_of_a_node_that_is_not_finite_is_named(self):
        """The examples of rank 2, in node 1, are so large that its loss alone overflows."""
        part = [[1.0 if rank != 2 else 3e38] * 4 for rank in range(4) for _ in range(16)]
        os.mkdir(self.path("large"))
        for name, values, shape in (
                ("x_train", sum(part, []), (64, 4)), ("y_train", [0.5] * 64, (64,)),
                ("x_test", [1.0] * 32, (8, 4)), ("y_test", [0.5] * 8, (8,))):
            self.write("large/%s.npy" % name, npy(values, shape))
        words = ("train", "--data", "npy:" + self.path("large"), "--model", "linear", "--batch", "4",
                 "--shard", "range", "--node-size", "2", "--steps", "3", "-q")
        for launcher, more in (((), ("--workers", "4")), (launch(4), ())):
            done = run(launcher, (*words, *more))
            self.assertEqual(done.returncode, REFUSED, done.stderr.decode())
            self.assertIn("rank 2: step 0: the loss is not finite", done.stderr.decode())

    def test_nodes_with_overlap(self):
        """Buckets are averaged inside the node before they are sent, with the same bits."""
        for method in ("dense", "def:ratio=4", "signum"):
            with self.subTest(method=method):
                words = ("--model", "mlp", "--method", method, "--steps", "2", "--batch", "4",
                         "--node-size", "2")
                whole = self.train(*words, "--workers", "4", "--overlap", "off")["weights_hash"]
                self.assertEqual(self.train(*words, "--workers", "4")["weights_hash"], whole)
                self.assertEqual(self.ranks(4, *words)["weights_hash"], whole)

    def test_ranks_of_this_machine_are_one_node(self):
        """All processes here share memory, and threads do."""
        words = ("--method", "topk:keep=0.05", "--steps", "3")
        done = self.ranks(4, *words, "--node-size", "auto", "--out", self.path("auto"))
        here = self.train(*words, "--workers", "4", "--node-size", "4")
        for other in (here, self.train(*words, "--workers", "4", "--node-size", "auto")):
            self.assertEqual(other["weights_hash"], done["weights_hash"])
        self.assertEqual(done["bytes_sent"], 0)
        about = self.run_json("auto")
        self.assertEqual((about["node_size"], about["nodes"], about["workers"]), ("auto", 1, 4))
        text = self.error("train", *self.small, "--resume", self.path("auto"), "--node-size", "2",
                          "--steps", "5")
        self.assertIn("has node_size auto, not 2", text)
        longer = self.train("--resume", self.path("auto"), "--steps", "5")
        self.assertEqual(longer["weights_hash"], self.train(
            "--method", "topk:keep=0.05", "--steps", "5", "--workers", "4", "--node-size",
            "4")["weights_hash"])

    def test_overlap_never_matters(self):
        for method in ("dense", "qadam", "signum"):
            with self.subTest(method=method):
                words = ("--model", "mlp", "--method", method, "--steps", "2", "--batch", "4")
                here = self.train(*words, "--workers", "2", "--overlap", "off")
                there = self.ranks(2, *words)
                self.assertEqual(there["weights_hash"], here["weights_hash"])

    def test_ranks_and_threads_resume_each_other(self):
        words = ("--method", "regtopk:keep=0.05", "--steps", "11", "--checkpoint-every", "6")
        whole = self.ranks(3, *words, "--out", self.path("run"))["weights_hash"]
        os.remove(self.checkpoint("run", 11))
        self.assertEqual(self.train("--resume", self.path("run"))["weights_hash"], whole)
        os.remove(self.checkpoint("run", 11))
        self.assertEqual(self.ranks(3, "--resume", self.path("run"))["weights_hash"], whole)
        self.assert_monotone("run")

    def test_refusals(self):
        """The reason is rank 0's, and the exit code is that of a single process."""
        os.mkdir(self.path("empty"))
        for words, code, reason in (
                (("--resume", self.path("empty")), REFUSED, "no checkpoint in"),
                (("--model", "cnn", "--data", "regression"), REFUSED, "reads images"),
                (("--out", "/proc/terse"), REFUSED, "cannot make the folder"),
                (("--lr", "20", "--data", "regression", "--model", "linear", "--steps", "500"),
                 REFUSED, "is not finite")):
            with self.subTest(words=words):
                done = run(launch(2), ("train", *self.small, "-q", *words))
                self.assertEqual(done.returncode, code, done.stderr.decode())
                self.assertIn(reason, done.stderr.decode())
                self.assertEqual(done.stdout.strip(), b"")

    def test_a_rank_stopped_during_the_start(self):
        """MPI_Init has no timeout of its own. Rank 2 is stopped before it."""
        slot = self.path("slot.sh")
        with open(slot, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\n[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 2 ] || kill -STOP $$\n'
                       'exec "$@"\n')
        os.chmod(slot, 0o755)
        start, words = time.monotonic(), ("--steps", "5", "--timeout", "3")
        begun = [(self.begin(*words, launcher=(*launch(4), slot), env=LAUNCH_ENV), (MACHINE,))]
        if MPICH_LIBRARY:
            begun.append((self.begin(*words, launcher=(MPICH, "-n", "4", slot),
                                     env={"TERSE_MPI_LIBRARY": MPICH_LIBRARY}),
                          (MACHINE, 9)))  # 9: of those that MPICH killed
        for process, codes in begun:
            _, err = process.communicate(timeout=100)
            self.assertIn(process.returncode, codes, err.decode())
            self.assertRegex(err.decode(),
                             "rank [013]: MPI did not start within 20 s: a rank is stopped")
        self.assertLess(time.monotonic() - start, 60)

    def test_ranks_that_differ_are_named(self):
        """Rank 2 has one other option; the data also other contents under the same name."""
        for mine, theirs, reason in (
                ((), ("--batch", "4"), "rank 0 has batch 8, not 4"),
                ((), ("--shard", "range"), "rank 0 has shard 'iid', not 'range'"),
                ((), ("--accumulate", "2"), "rank 0 has accumulate 1, not 2"),
                ((), ("--batches", "2"), "rank 0 has batches 1, not 2"),
                ((), ("--data", "digits"), "rank 0 has data '%s', not 'digits'" % self.images),
                ((), ("--model", "mlp"), "rank 0 has model 'logistic', not 'mlp'"),
                ((), ("--augment",), "rank 0 is without augment"),
                ((), ("--adversaries", "1:zero"), "rank 0 has adversaries 'none', not '1:zero'"),
                ((), ("--target", "0.5"), "rank 0 has target 0, not 0.5"),
                ((), ("--evaluate-every", "2"), "rank 0 has evaluate_every 0, not 2"),
                ((), ("--out", self.path("run")), "rank 0 has out '', not '%s'" % self.path("run")),
                (("--out", self.path("run")), (), "rank 0 has out '%s', not ''" % self.path("run")),
                ((), ("--resume", self.path("x")), "rank 0 has out ''"),
                (("--resume", self.path("x")), (), "rank 0 has out '%s'" % self.path("x"))):
            with self.subTest(mine=mine, theirs=theirs):
                words = ("train", *self.small, "--steps", "3", "-q")
                done = run(launch(2), (*words, *mine, ":", "-n", "1", TERSE, *words, *theirs))
                text = done.stderr.decode()
                self.assertEqual(done.returncode, REFUSED, text)
                self.assertIn("rank 2 differs: " + reason[:90], text)
                self.assertFalse(os.path.exists(self.path("run")))

    def test_other_contents_under_one_name_are_named(self):
        """Each rank has a folder of its own, in which the same path has other examples."""
        words = ("train", "--data", "idx:set", "--model", "logistic", "--steps", "2", "-q")
        for name in ("here", "there"):
            shutil.copytree(self.images[4:], self.path(name + "/set"))
        with open(self.path("there/set/train-images-idx3-ubyte"), "r+b") as file:
            file.seek(1000)
            byte = file.read(1)
            file.seek(1000)
            file.write(bytes([byte[0] ^ 1]))
        terse = os.path.abspath(TERSE)
        done = subprocess.run(
            [*launch(1), "-wdir", self.path("here"), terse, *words, ":", "-n", "1", "-wdir",
             self.path("there"), terse, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, **LAUNCH_ENV), timeout=60, check=False)
        self.assertEqual(done.returncode, REFUSED, done.stderr.decode())
        self.assertIn("rank 1 differs: rank 0 has other contents of the data 'idx:set'",
                      done.stderr.decode())

    def test_a_signal_to_one_rank_stops_all(self):
        """Every rank ends after the same checkpoint, and the launcher has the code of rank 0."""
        words = ("--method", "def:ratio=4", "--steps", "20000", "--evaluate-every", "20000")
        for number, code in ((signal.SIGUSR1, REQUEUE), (signal.SIGINT, INTERRUPTED)):
            with self.subTest(signal=number):
                folder = "run%d" % number
                process = self.begin(*words, "--checkpoint-every", "20", "--out",
                                     self.path(folder), launcher=launch(3), env=LAUNCH_ENV)
                self.wait_for_checkpoint(folder, process)
                os.kill(self.rank_process(process.pid, 1), number)
                out, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, code, err.decode())
                result = result_of(out)
                self.assertEqual(result["status"], "stopped")
                self.assertEqual(self.checkpoints(folder)[-1], result["steps"])
                self.assertIn("Stopped by %s after" % signal.Signals(number).name, err.decode())
                more = ("--resume", self.path(folder), "--steps", str(result["steps"] + 2))
                self.assertEqual(self.ranks(3, *more)["steps"], result["steps"] + 2)

    def test_a_killed_rank(self):
        """The job ends soon, the output names the rank and --resume, which continues."""
        words = ("--method", "def:ratio=4", "--steps", "20000", "--evaluate-every", "20000")
        process = self.begin(*words, "-q", "--checkpoint-every", "20", "--out", self.path("run"),
                             launcher=launch(3), env=LAUNCH_ENV)
        self.wait_for_checkpoint("run", process)
        victim = self.rank_process(process.pid, 1)
        os.kill(victim, signal.SIGKILL)
        start = time.monotonic()
        _, err = process.communicate(timeout=60)
        err = err.decode()
        self.assertLess(time.monotonic() - start, 30)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, r"rank 1\b")
        self.assertIn("--resume %s continues" % self.path("run"), err)
        last = self.checkpoints("run")[-1]
        more = ("--resume", self.path("run"), "--steps", str(last + 3))
        self.assertEqual(self.ranks(3, *more)["steps"], last + 3)

    def rank_process(self, launcher, rank):
        """The process of a rank, found among the launcher's children by its environment."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
                with open("/proc/%s/environ" % pid, "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if parent == launcher and b"OMPI_COMM_WORLD_RANK=%d" % rank in words:
                return int(pid)
        self.fail("no process of rank %d" % rank)

    def test_a_signal_to_the_job(self):
        """mpirun forwards it; there is a checkpoint, and the job resumes from it."""
        words = ("--method", "signum", "--steps", "20000", "--evaluate-every", "20000")
        process = self.begin(*words, "-q", "--checkpoint-every", "50", "--out", self.path("run"),
                             launcher=launch(2), env=LAUNCH_ENV)
        self.wait_for_checkpoint("run", process)
        _, err = self.stop(process)
        self.assertIn("--resume %s continues" % self.path("run"), err)
        last = self.checkpoints("run")[-1]
        rest = self.ranks(2, "--resume", self.path("run"), "--steps", str(last + 3))
        self.assertEqual(rest["steps"], last + 3)

    def test_compare(self):
        words = ("compare", *self.small, "--methods", "dense;signum", "--steps", "6", "--json",
                 "-q", "--out", self.path("cmp"))
        done = run(launch(2), words)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        members = result_of(done.stdout)["members"]
        self.assertEqual([m["method"] for m in members], ["dense", "signum"])
        self.assertTrue(os.path.exists(self.path("cmp/report.html")))
        here = self.json(*words[:-1], self.path("here"), "--workers", "2")["members"]
        self.assertEqual([m["loss"] for m in here], [m["loss"] for m in members])

    def test_live_is_rank_0s(self):
        done = run(launch(2), ("train", *self.small, "--steps", "3", "--live", "0"))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(len(re.findall(r"live page: http://127.0.0.1:\d+/",
                                        done.stderr.decode())), 1)


@unittest.skipUnless(HERE and MPICH and MPICH_LIBRARY, "no MPICH, or no libterse-mpi built for it")
class Mpich(TrainCase):
    def test_the_weights_of_threads(self):
        for method in ("def:ratio=4", "qadam"):
            words = ("--method", method, "--steps", "7")
            here = self.train(*words, "--workers", "3")["weights_hash"]
            done = run((MPICH, "-n", "3"), ("train", *self.small, "--json", "-q", *words),
                       {"TERSE_MPI_LIBRARY": MPICH_LIBRARY})
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            self.assertEqual(result_of(done.stdout)["weights_hash"], here)

    def test_nodes(self):
        for size in ("2", "auto"):
            words = ("--method", "def:ratio=4", "--steps", "4", "--node-size", size)
            here = self.train(*words, "--workers", "4")
            done = run((MPICH, "-n", "4"), ("train", *self.small, "--json", "-q", *words),
                       {"TERSE_MPI_LIBRARY": MPICH_LIBRARY})
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            for key in ("weights_hash", "bytes_sent"):
                self.assertEqual(result_of(done.stdout)[key], here[key], size)

    @unittest.skipUnless(OPEN_MPI, "no Open MPI")
    def test_the_other_launcher_is_seen(self):
        """Each would train alone: it is refused instead."""
        done = run((MPICH, "-n", "2"), ("train", *self.small, "--steps", "1", "-q"))
        self.assertIn(done.returncode, (REFUSED, MACHINE))
        self.assertIn("launcher of another MPI", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
