"""What the tests of `terse train` and `terse compare` share: small trainings, their folders, signals,
launchers, and the checkpoint file read by other code."""
import array
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from support import Case, TERSE

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/decoder"))
from terse_decode import xxh64  # noqa: E402

SIDE, TRAIN, TEST = 12, 400, 100

METHODS = ("dense", "def:ratio=4", "qadam", "regtopk:keep=0.05", "dqsgd", "powersgd",
           "topk:keep=0.05,every=3", "signum")

OPEN_MPI = shutil.which("mpirun.openmpi")
MPICH = shutil.which("mpirun.mpich")


def launch(count):
    """The words that start `count` processes with Open MPI."""
    return (OPEN_MPI, "--oversubscribe", "--mca", "btl_vader_single_copy_mechanism", "none",
            "-n", str(count))


LAUNCH_ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
              "ASAN_OPTIONS": "detect_leaks=0"}  # the MPIs themselves leak


def read_checkpoint(path):
    """(step, settings, {(name, worker): bytes}), by the description in train/files/checkpoint.h."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"TERSECKP", data[:8]
    version, blobs, step, length = struct.unpack_from("<IIQQ", data, 8)
    assert version == 1
    settings = json.loads(data[32:32 + length])
    at = 32 + length + -length % 8
    found = {}
    for _ in range(blobs):
        _, worker, size, name_len, _ = struct.unpack_from("<IIQII", data, at)
        at += 24
        name = data[at:at + name_len].decode()
        at += name_len + -name_len % 8
        found[name, worker] = data[at:at + size]
        at += size + -size % 8
    assert at == len(data) - 8
    return step, settings, found


def with_settings(data, **values):
    """The bytes of a checkpoint with other settings, and a checksum that is right again."""
    length = struct.unpack_from("<Q", data, 24)[0]
    rest = data[32 + length + -length % 8:-8]
    text = json.dumps(dict(json.loads(data[32:32 + length]), **values)).encode()
    body = data[:24] + struct.pack("<Q", len(text)) + text + bytes(-len(text) % 8) + rest
    return body + struct.pack("<Q", xxh64(body))


def floats(data):
    return array.array("f", data)


def small_images(folder):
    """Writes images of ten classes in IDX files: a stripe and noise each, easily distinguished. The
    softmax regression of them has 1,450 weights, and a step takes a millisecond."""
    source = random.Random(7)
    os.makedirs(folder)
    for name, count in (("train", TRAIN), ("t10k", TEST)):
        labels = bytes(source.randrange(10) for _ in range(count))
        images = bytes(min(255, source.randrange(120) + 135 * (i % SIDE == label + 1))
                       for label in labels for i in range(SIDE * SIDE))
        with open("%s/%s-images-idx3-ubyte" % (folder, name), "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, SIDE, SIDE) + images)
        with open("%s/%s-labels-idx1-ubyte" % (folder, name), "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + labels)


class TrainCase(Case):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="terse-data-")
        cls.addClassCleanup(folder.cleanup)
        cls.images = "idx:" + folder.name + "/idx"
        small_images(folder.name + "/idx")
        cls.small = ("--data", cls.images, "--model", "logistic", "--batch", "8")

    def train(self, *words, **how):
        """The result of a small training, as the object of --json."""
        return self.json("train", *self.small, "--json", "-q", *words, **how)

    def begin(self, *words, launcher=(), env=None, **how):
        """Starts a training that the test will disturb."""
        process = subprocess.Popen(
            [*launcher, TERSE, "train", *self.small, "--json", *words], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=dict(os.environ, **(env or {})), **how)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def wait_for(self, seen, process, seconds=60):
        """Until seen() is true while the process runs."""
        limit = time.monotonic() + seconds
        while not seen():
            self.assertIsNone(process.poll(), "it ended too early")
            self.assertLess(time.monotonic(), limit, "nothing happened")
            time.sleep(0.002)

    def wait_for_checkpoint(self, folder, process, least=1):
        self.wait_for(lambda: self.checkpoints(folder)[-1:] >= [least], process)

    def stop(self, process, number=signal.SIGTERM):
        """The signal, then (stdout, stderr)."""
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        return out.decode(), err.decode()

    def checkpoints(self, folder):
        """Steps, ascending."""
        try:
            names = os.listdir(self.path(folder))
        except FileNotFoundError:
            return []
        return sorted(int(name[11:-6]) for name in names
                      if name.startswith("checkpoint-") and name.endswith(".terse"))

    def checkpoint(self, folder, step):
        return self.path("%s/checkpoint-%d.terse" % (folder, step))

    def lines(self, folder):
        return [json.loads(line) for line in self.read(folder + "/metrics.jsonl").splitlines()]

    def run_json(self, folder):
        return json.loads(self.read(folder + "/run.json"))

    def assert_report_has_no_notes(self, folder):
        done = self.terse("report", self.path(folder), "-o", self.path("page.html"))
        notes = [line for line in done.stderr.decode().splitlines() if "page.html" not in line]
        self.assertEqual(notes, [])

    def assert_monotone(self, folder):
        """Steps ascend within a kind, seconds never go back, one end, and it is last."""
        lines = self.lines(folder)
        for kind in ("step", "evaluation"):
            steps = [line["step"] for line in lines if line["kind"] == kind]
            self.assertEqual(steps, sorted(set(steps)), kind)
        seconds = [line["seconds"] for line in lines]
        self.assertEqual(seconds, sorted(seconds))
        self.assertEqual([line["kind"] for line in lines].index("end"), len(lines) - 1)
        self.assert_report_has_no_notes(folder)


def rank_processes(folder):
    """{rank: process id} of the training in a folder; a process of threads is rank 0."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as file:
                words = file.read().split(b"\0")
            with open("/proc/%s/environ" % name, "rb") as file:
                variables = dict(one.split(b"=", 1) for one in file.read().split(b"\0")
                                 if b"=" in one)
        except OSError:
            continue
        rank = next((variables[name] for name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK",
                                                  b"PMIX_RANK") if name in variables), b"0")
        if words[1:2] == [b"train"] and folder.encode() in words:
            found[int(rank)] = int(name)
    return found
