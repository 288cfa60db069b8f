"""What a training prints and writes."""
import json
import os
import pty
import re
import select
import struct
import subprocess
import unittest

from support import TERSE
from training import TrainCase, with_settings

KEYS = {"method", "model", "data", "workers", "steps", "loss", "accuracy", "bytes_sent",
        "dense_bytes", "weights_hash", "seconds", "examples_per_second"}


def read_terminal(words, env=None):
    """Everything the command writes to a terminal of 70 columns on standard error, and its
    standard output."""
    try:
        master, slave = pty.openpty()
    except OSError as reason:
        raise unittest.SkipTest("no terminal can be made here: %s" % reason) from reason
    settings = dict(os.environ, TERM="xterm", **(env or {}))
    process = subprocess.Popen([TERSE, "train", *words], stdout=subprocess.PIPE, stderr=slave,
                               env=settings)
    os.close(slave)
    seen = b""
    while True:
        ready, _, _ = select.select([master], [], [], 60)
        try:
            part = os.read(master, 65536) if ready else b""
        except OSError:  # the other side is closed
            part = b""
        if not part:
            break
        seen += part
    os.close(master)
    out, _ = process.communicate(timeout=60)
    return process.returncode, out.decode(), seen.decode()


class Printed(TrainCase):
    def test_json(self):
        done = self.terse("train", *self.small, "--steps", "5", "--workers", "3", "--method",
                          "def:ratio=4", "--json")
        result = json.loads(done.stdout)
        self.assertLessEqual(KEYS, set(result))
        self.assertEqual((result["workers"], result["steps"], result["model"], result["data"]),
                         (3, 5, "logistic", self.images))
        self.assertRegex(result["method"], "^def:.*ratio=4,")
        self.assertRegex(result["weights_hash"], r"^0x[0-9a-f]{16}$")
        self.assertTrue(0 <= result["accuracy"] <= 1)
        self.assertGreater(result["dense_bytes"], 2 * result["bytes_sent"])
        self.assertGreater(result["examples_per_second"], 0)
        # 2(K-1)/K times four bytes an element
        self.assertAlmostEqual(result["dense_bytes"], 5 * 4 * result["parameters"] * 4 / 3, delta=5)

    def test_what_training_adds_to_a_method(self):
        """Its own rates and min=1024, where the method has them and the spec does not."""
        def method(spec, *more):
            done = self.terse("train", *self.small, "--steps", "1", "--workers", "2", "--method",
                              spec, "--json", *more)
            return json.loads(done.stdout)["method"].split(":", 1)

        for spec, more, wanted in (
                ("topk", (), "lr=0.02,momentum=0.9,min=1024"),
                ("topk", ("--lr", "0.3"), "lr=0.3,momentum=0.9,min=1024"),
                ("topk:momentum=0.5,lr=0.1,min=7", ("--lr", "0.3"), "lr=0.1,momentum=0.5,min=7"),
                ("topk:combine=sparse-allreduce", (),
                 "combine=sparse-allreduce,lr=0.02,momentum=0.9,min=1024"),
                ("signum", (), "lr=0.0005"), ("dense", (), "lr=0.02"), ("def-a", (), "lr=0.02,min=1024")):
            self.assertEqual(method(spec, *more), [spec.split(":")[0], wanted], (spec, more))
        self.assertEqual(method("codec=sign", "--lr", "0.01"), ["codec=sign,lr=0.01"])
        self.assertEqual(method("codec=topk:keep=0.1"), ["codec=topk", "keep=0.1,min=1024"])

    def test_numbers_have_no_accuracy(self):
        result = self.json("train", "--data", "regression", "--steps", "3", "--json", "-q")
        self.assertIsNone(result["accuracy"])

    def test_table(self):
        done = self.terse("train", *self.small, "--steps", "3", "--workers", "2", "-q")
        self.assertEqual(done.stderr, b"")
        text = done.stdout.decode()
        for word in ("logistic on idx:", "finished", "test accuracy", "compression ratio",
                     "examples/s", "weights hash"):
            self.assertIn(word, text)

    def test_more_bits_than_there_are(self):
        """Told once, and counted: weights and bias of rank 0 in each step."""
        folder = os.path.join(self.folder, "capped")
        words = (*self.small, "--workers", "2", "--json", "--out", folder)
        spec = "dqsgd:bits=kappa,kappa=%s,min=0,combine=allgather"
        done = self.terse("train", *words, "--steps", "3", "--method", spec % "1e12")
        self.assertEqual(done.stderr.count(b"more than 16 bits"), 1)
        self.assertIn(b"warning: step 1: ", done.stderr)
        self.assertEqual(json.loads(done.stdout)["capped"], 6)
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["capped"] for line in lines if line["kind"] == "step"], [2, 2, 2])
        self.assertEqual([line["capped"] for line in lines if line["kind"] == "end"], [6])
        done = self.terse("train", *self.small, "--workers", "2", "--steps", "3", "--json",
                          "--method", spec % "1")
        self.assertNotIn(b"16 bits", done.stderr)
        self.assertEqual(json.loads(done.stdout)["capped"], 0)

    def test_rejected_steps(self):
        """The first step of so large a rate is too long; the number is kept over a resume."""
        folder = os.path.join(self.folder, "rejected")
        words = (*self.small, "--workers", "2", "--out", folder)
        spec = "topk:keep=0.5,lr=%s,reject=yes"
        done = self.terse("train", *words, "--steps", "3", "--json", "--method", spec % "1000",
                          "--checkpoint-every", "2")
        self.assertEqual(json.loads(done.stdout)["rejected"], 3)
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["rejected"] for line in lines if line["kind"] == "end"], [3])
        done = self.terse("train", "--resume", folder, "--steps", "5", "-q")
        self.assertRegex(done.stdout.decode(), r"steps rejected +5\n")
        done = self.terse("train", *self.small, "--workers", "2", "--steps", "3", "--json",
                          "--method", spec % "0.01")
        self.assertEqual(json.loads(done.stdout)["rejected"], 0)

    def tensor_bytes(self, folder):
        """Of the end, and the sum of the payloads by the lines of steps."""
        with open(os.path.join(self.folder, folder, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        with open(os.path.join(self.folder, folder, "run.json"), encoding="utf-8") as file:
            about = json.load(file)
        self.assertNotIn("tensor_bytes", about)
        self.assertEqual(len(about["tensors"]), 2)
        bits = sum(line["bits"] for line in lines if line["kind"] == "step")
        return lines[-1].get("tensor_bytes"), round(bits * about["parameters"] / 8)

    def test_bytes_of_tensors(self):
        """The sum over the run, also of one that was resumed in its middle."""
        words = (*self.small, "--workers", "2", "-q", "--method", "topk:keep=0.05,min=100,every=2")
        whole, half = (os.path.join(self.folder, name) for name in ("whole", "half"))
        self.terse("train", *words, "--steps", "8", "--out", whole)
        counted, payload = self.tensor_bytes(whole)
        self.assertEqual((sum(counted), len(counted)), (payload, 2))
        self.assertEqual(counted[1], 4 * 4 * 10)  # the bias travels as it is, in 4 exchanges
        self.terse("train", *words, "--steps", "4", "--out", half)
        self.assertEqual(self.tensor_bytes(half)[0][1], 2 * 4 * 10)
        self.terse("train", "--resume", half, "--steps", "8", "-q")
        self.assertEqual(self.tensor_bytes(half), (counted, payload))

    def test_bytes_of_tensors_that_are_not_known(self):
        """Of one piece of the whole model, and where a checkpoint has not counted those before it."""
        words = (*self.small, "--workers", "2", "-q", "--steps", "3")
        folder = os.path.join(self.folder, "model")
        self.terse("train", *words, "--method", "topk:keep=0.05,scope=model", "--out", folder)
        self.assertEqual(self.tensor_bytes(folder)[0], None)
        folder = os.path.join(self.folder, "older")
        self.terse("train", *words, "--method", "dense", "--out", folder)
        path = os.path.join(folder, "checkpoint-3.terse")
        with open(path, "rb") as file:
            checkpoint = file.read()
        with open(path, "wb") as file:
            file.write(with_settings(checkpoint, tensor_bytes=None))
        self.terse("train", "--resume", folder, "--steps", "5", "-q")
        self.assertEqual(self.tensor_bytes(folder)[0], None)

    def test_plain_lines_into_a_pipe(self):
        done = self.terse("train", *self.small, "--steps", "4", "--workers", "2",
                          "--evaluate-every", "2", "--json")
        json.loads(done.stdout)
        lines = [line for line in done.stderr.decode().splitlines() if line.startswith("step ")]
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"^step 2  epoch 0  test loss \S+  accuracy \S+ %  \S+ s$")
        self.assertNotIn(b"\r", done.stderr)
        self.assertNotIn(b"\033", done.stderr)

    def test_verbose_prints_codec_combine_and_feedback(self):
        done = self.terse("train", *self.small, "--steps", "2", "--workers", "2", "-v", "--method",
                          "def:ratio=4")
        self.assertIn(b"combine=", done.stderr)

    def test_a_line_that_changes_on_a_terminal(self):
        words = (*self.small, "--workers", "2", "--steps", "20000", "--evaluate-every", "10000",
                 "--method", "signum")
        code, out, seen = read_terminal(words, {"NO_COLOR": "1"})
        self.assertEqual(code, 0, seen)
        drawn = re.findall(r"\r\033\[K(step \d+ of [^\r\n]*)", seen)
        self.assertGreater(len(drawn), 1, seen)
        self.assertRegex(drawn[0], r"^step \d+ of 20000  loss \S+.*examples/s.*per step, ")
        for line in drawn[1:]:
            self.assertRegex(line, r"  about \d+ s left")
        self.assertNotRegex(seen, r"\033\[[0-9;]*m")  # NO_COLOR
        self.assertNotIn("\r", out)
        self.assertIn("weights hash", out)

    def test_quiet_on_a_terminal(self):
        code, out, seen = read_terminal((*self.small, "--workers", "2", "--steps", "20", "-q"))
        self.assertEqual((code, seen), (0, ""))
        self.assertIn("weights hash", out)

    def test_full_standard_output(self):
        with open("/dev/full", "wb") as full:
            self.terse("train", *self.small, "--steps", "1", "-q", "--json", expect=3, stdout=full)


class Folder(TrainCase):
    def setUp(self):
        super().setUp()
        self.result = self.train("--steps", "12", "--workers", "2", "--evaluate-every", "4",
                                 "--method", "topk:keep=0.05", "--seed", "5", "--checkpoint-every",
                                 "5", "--out", self.path("a/run"))

    def test_run_json(self):
        about = self.run_json("a/run")
        for key, value in (("model", "logistic"), ("data", self.images), ("workers", 2),
                           ("batch", 8), ("accumulate", 1), ("seed", 5), ("steps", 12),
                           ("epochs", 0), ("threads", 1), ("codec_threads", 1), ("shard", "iid"),
                           ("worker_weights", "equal"),
                           ("augment", False), ("checkpoint_every", 5), ("evaluate_every", 4),
                           ("parameters", 1450)):
            self.assertEqual(about[key], value, key)
        self.assertIn("keep=0.05", about["spec"])
        self.assertRegex(about["terse"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(about["libraries"], r"^oneDNN 2\.\d+\.\d+, OpenBLAS \d")
        self.assertIn(about["kernels"], ("ref", "avx2", "avx512", "neon"))
        self.assertTrue(about["command"].startswith("terse train --data idx:"))
        self.assertEqual([t["count"] for t in about["tensors"]], [1440, 10])

    def test_metrics(self):
        lines = self.lines("a/run")
        self.assertEqual([line["step"] for line in lines if line["kind"] == "step"],
                         list(range(1, 13)))
        evaluations = [line for line in lines if line["kind"] == "evaluation"]
        self.assertEqual([line["step"] for line in evaluations], [4, 8, 12])
        for line in evaluations:
            self.assertTrue(0 < line["phi_gradient"] <= 1)
            self.assertTrue(0 < line["phi_noise"] <= 1)
        self.assertEqual(evaluations[-1]["loss"], self.result["loss"])
        self.assertEqual(evaluations[-1]["bytes_sent_total"], self.result["bytes_sent"])
        self.assertEqual(lines[-1]["weights_hash"], self.result["weights_hash"])
        self.assert_monotone("a/run")

    def test_weights(self):
        data = self.read("a/run/weights.safetensors")
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        self.assertEqual(sorted(sum(t["shape"]) for t in header.values()), [10, 154])
        for tensor in header.values():
            begin, end = tensor["data_offsets"]
            values = struct.unpack("<%df" % ((end - begin) // 4),
                                   data[8 + length + begin:8 + length + end])
            self.assertEqual(tensor["dtype"], "F32")
            self.assertTrue(any(values))
            self.assertTrue(all(abs(v) < 100 for v in values))

    def test_files(self):
        names = set(os.listdir(self.path("a/run")))
        events = {name for name in names if name.startswith("events.out.tfevents.")}
        self.assertEqual(len(events), 1)
        # due at 5, 10 and the end; at 10 it is skipped if that of 5 is still being written
        skipped = self.result["checkpoints_skipped"]
        self.assertIn(skipped, (0, 1))
        self.assertEqual(self.result["checkpoints"] + skipped, 3)
        self.assertEqual(names - events, {"run.json", "metrics.jsonl", "weights.safetensors",
                                          "checkpoint-%d.terse" % (5 if skipped else 10),
                                          "checkpoint-12.terse"})
        data = self.read("a/run/" + events.pop())
        for tag in (b"train/loss", b"test/loss", b"test/accuracy", b"bytes/sent"):
            self.assertIn(tag, data)

    def test_two_checkpoints_are_kept(self):
        """The newest, in whichever run they were written; the last of a run is never skipped."""
        self.assertEqual(self.checkpoints("a/run")[-1], 12)
        for steps, kept in ((15, [12, 15]), (16, [15, 16]), (22, [20, 22])):
            self.train("--resume", self.path("a/run"), "--steps", str(steps))
            self.assertEqual(self.checkpoints("a/run"), kept)


class Options(TrainCase):
    def test_target_stops_early(self):
        words = ("--workers", "2", "--steps", "300", "--evaluate-every", "5", "--lr", "0.05")
        result = self.train(*words, "--target", "0.6", "--out", self.path("run"))
        self.assertEqual(result["status"], "target")
        self.assertLess(result["steps"], 300)
        self.assertEqual(result["steps"] % 5, 0)
        self.assertGreaterEqual(result["accuracy"], 0.6)
        self.assertEqual(self.lines("run")[-1]["status"], "target")
        self.assertEqual(self.checkpoints("run"), [result["steps"]])

    def test_accumulate(self):
        """Two batches of 8 are one of 16, but for the order of additions."""
        words = ("--workers", "2", "--steps", "6", "--shard", "range")
        whole = self.train(*words, "--batch", "16")
        halves = self.train(*words, "--batch", "8", "--accumulate", "2")
        self.assertAlmostEqual(whole["loss"], halves["loss"], delta=1e-4 * whole["loss"])
        self.assertAlmostEqual(whole["train_loss"], halves["train_loss"],
                               delta=1e-4 * whole["train_loss"])
        self.assertNotEqual(whole["loss"], self.train(*words, "--batch", "8")["loss"])

    def test_epochs_are_steps(self):
        """400 images, 2 workers, batch 8: 25 steps an epoch."""
        epochs = self.train("--workers", "2", "--epochs", "2", "--out", self.path("run"))
        steps = self.train("--workers", "2", "--steps", "50")
        self.assertEqual((epochs["steps"], epochs["epochs"]), (50, 2))
        self.assertEqual(epochs["weights_hash"], steps["weights_hash"])
        evaluations = [line["step"] for line in self.lines("run") if line["kind"] == "evaluation"]
        self.assertEqual(evaluations, [25, 50])

    def test_sharding_is_seen_in_the_noise(self):
        noise = {}
        for shard in ("iid", "class:alpha=0.01"):
            name = shard[:3]
            self.train("--workers", "4", "--steps", "4", "--shard", shard, "--out", self.path(name))
            first = next(line for line in self.lines(name) if line["kind"] == "evaluation")
            noise[shard] = first["phi_noise"]
        self.assertNotEqual(noise["iid"], noise["class:alpha=0.01"])

    def test_built_in_data(self):
        for data, model in (("digits", "logistic"), ("regression", "linear"),
                            ("quadratic", "linear")):
            with self.subTest(data=data):
                result = self.json("train", "--data", data, "--model", model, "--steps", "60",
                                   "--workers", "2", "--json", "-q", "--evaluate-every", "60")
                first = self.json("train", "--data", data, "--model", model, "--steps", "1",
                                  "--workers", "2", "--json", "-q")
                self.assertLess(result["loss"], first["loss"])


if __name__ == "__main__":
    unittest.main()
