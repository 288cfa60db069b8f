"""`terse train` and `terse launch` under Slurm: a controller, a node and munge of their own, on the
loopback interface, for root where the packages slurm-wlm and munge are there."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from support import OK, REFUSED, REQUEUE, TERSE
from training import TrainCase, rank_processes

DEATHS = 3
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "scancel")
STEPS = ("--method", "topk:keep=0.05", "--steps", "3000", "--timeout", "4")

CONF = """ClusterName=terse
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def reason_to_skip():
    path = "/usr/sbin:" + os.environ["PATH"]
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing:
        return "%s: not there; the packages are slurm-wlm and munge" % ", ".join(missing)
    if os.geteuid() != 0:
        return "a Slurm of its own needs root"
    return None if os.environ.get("TERSE_RANKS") == "yes" else "libterse-mpi is not there"


@unittest.skipIf(reason_to_skip(), reason_to_skip() or "")
class Slurm(TrainCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.mkdtemp(prefix="terse-slurm-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        os.chmod(cls.folder, 0o755)
        os.environ["PATH"] = "/usr/sbin:" + os.environ["PATH"]
        os.environ["SLURM_CONF"] = cls.folder + "/slurm.conf"
        for name in ("state", "spool"):
            os.mkdir(os.path.join(cls.folder, name))
        with open(cls.folder + "/munge.key", "wb", opener=lambda path, flags: os.open(
                path, flags, 0o400)) as file:
            file.write(os.urandom(1024))
        controller, node = free_ports(2)
        with open(os.environ["SLURM_CONF"], "w", encoding="ascii") as file:
            file.write(CONF.format(host=socket.gethostname().split(".")[0], folder=cls.folder,
                                   controller=controller, node=node))
        cls.serve("munged", "-F", "-f", *("--%s=%s/munge.%s" % (option, cls.folder, end)
                                          for option, end in (("key-file", "key"),
                                                              ("socket", "socket"),
                                                              ("pid-file", "pid"),
                                                              ("log-file", "log"),
                                                              ("seed-file", "seed"))))
        cls.until(lambda: os.path.exists(cls.folder + "/munge.socket"))
        cls.serve("slurmctld", "-D")
        cls.serve("slurmd", "-D")
        cls.until(lambda: b"idle" in subprocess.run(
            ["sinfo", "-h", "-o", "%T"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            check=False).stdout)

    @classmethod
    def serve(cls, *words):
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def stop():
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

        cls.addClassCleanup(stop)

    @staticmethod
    def until(seen, seconds=60):
        limit = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < limit, "Slurm does not start"
            time.sleep(0.2)

    def run_words(self, *words, expect=OK):
        """(standard output, standard error)"""
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                              check=False)
        self.assertEqual(done.returncode, expect, done.stderr.decode())
        return done.stdout.decode(), done.stderr.decode()

    def launch_words(self):
        return (TERSE, "launch", "-n", "4", "--launcher", "srun --mpi=pmix --kill-on-bad-exit=1",
                "--", "train", *self.small, "--json", "-q", *STEPS, "--out", self.path("run"),
                "--checkpoint-every", "10")

    def test_ranks_of_srun_are_workers(self):
        whole = self.train(*STEPS, "--workers", "2")
        out, _ = self.run_words("srun", "--mpi=pmix", "-n", "2", TERSE, "train", *self.small, *STEPS,
                                "--json", "-q")
        self.assertEqual(json.loads(out)["weights_hash"], whole["weights_hash"])

    def test_tasks_without_mpi_are_refused(self):
        out, err = self.run_words("srun", "--mpi=none", "-n", "2", TERSE, "train", *self.small,
                                  *STEPS, "--json", "-q", expect=REFUSED)
        self.assertEqual(out, "")
        self.assertIn("one of 2 tasks of srun, which has no MPI for them (--mpi=none)", err)

    def test_it_goes_on_when_ranks_die(self):
        whole, behind = self.train(*STEPS, "--workers", "4"), 0
        process = subprocess.Popen(["salloc", "-Q", "-n", "4", *self.launch_words()],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        for i in range(DEATHS):
            self.wait_for(lambda least=behind: self.checkpoints("run")[-1:] > [least]
                          and len(rank_processes(self.path("run"))) == 4, process, 100)
            os.kill(rank_processes(self.path("run"))[i % 4], signal.SIGKILL)
            time.sleep(0.5)
            behind = self.checkpoints("run")[-1]
        out, err = (text.decode() for text in process.communicate(timeout=200))
        self.assertEqual(process.returncode, OK, err)
        self.assertEqual(json.loads(out)["weights_hash"], whole["weights_hash"])
        lines = [line for line in err.splitlines() if line.startswith("terse launch: incident")]
        self.assertEqual(len(lines), DEATHS, err)
        for i, line in enumerate(lines):
            self.assertIn("rank %d was ended by signal 9; going on from step" % (i % 4), line)

    def test_a_batch_job_is_requeued(self):
        """The script of docs/train.md; its warning is sent by hand, twice."""
        whole, script = self.train(*STEPS, "--workers", "4"), self.path("job.sh")
        with open(script, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n#SBATCH -n 4 --requeue\n%s\ncode=$?\necho code $code\n"
                       "[ $code -ne %d ] || scontrol requeue $SLURM_JOB_ID\nexit $code\n"
                       % (" ".join("'%s'" % word for word in self.launch_words()), REQUEUE))
        out, _ = self.run_words("sbatch", "--parsable", "--open-mode=append", "-o",
                                self.path("out"), script)
        job, behind = out.strip(), 0
        for _ in range(2):
            self.until(lambda least=behind: self.checkpoints("run")[-1:] > [least]
                       and len(rank_processes(self.path("run"))) == 4, 150)
            self.run_words("scancel", "--signal=USR1", job)
            self.until(lambda: "PENDING" in self.run_words("squeue", "-h", "-j", job, "-o", "%T")[0])
            behind = self.checkpoints("run")[-1]
            time.sleep(5)  # Slurm itself waits two minutes, until the last start is forgotten
            self.run_words("scontrol", "update", "job=" + job, "StartTime=now")
        self.until(lambda: "code 0" in self.read("out").decode(), 150)
        text = self.read("out").decode()
        self.assertEqual(text.count("\ncode 75"), 2, text)
        self.assertIn(whole["weights_hash"], text)


if __name__ == "__main__":
    sys.exit(unittest.main())
