"""Trainings that begin with the weights of a file (--init), and with some classes (--classes)."""
import json
import os
import struct
import unittest

from support import USAGE
from training import LAUNCH_ENV, launch, OPEN_MPI, TrainCase


def read_tensors(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length:]
    return {name: (tensor["dtype"], tensor["shape"], body[slice(*tensor["data_offsets"])])
            for name, tensor in header.items()}


def write_tensors(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


class Init(TrainCase):
    def setUp(self):
        super().setUp()
        self.train("--steps", "20", "--workers", "2", "--out", self.path("before"))
        self.weights = self.path("before/weights.safetensors")

    def begin_with(self, file, *words, **how):
        """One step at a rate of 0: the weights that are written are those it began with."""
        return self.train("--steps", "1", "--workers", "2", "--method", "dense:lr=0", "--init", file,
                          *words, **how)

    def test_the_weights_of_a_run_begin_another(self):
        result = self.begin_with(self.weights, "--out", self.path("run"), "--seed", "7")
        before = read_tensors(self.weights)
        self.assertEqual(read_tensors(self.path("run/weights.safetensors")), before)
        run = json.loads(self.read("run/run.json"))
        self.assertEqual((run["init"], run["reinit"]), (self.weights, ""))
        self.assertRegex(run["init_hash"], "^0x[0-9a-f]{16}$")
        self.assertIn("--init " + self.weights, run["train"])
        self.assertNotEqual(result["weights_hash"],
                            self.train("--steps", "1", "--workers", "2", "--method", "dense:lr=0",
                                       "--seed", "7")["weights_hash"])

    def test_running_statistics_are_weights_too(self):
        """Batch norm: means and variances come from the file; PyTorch's counters are passed over."""
        words = ("--model", "resnet20", "--workers", "1", "--batch", "4")
        self.train(*words, "--steps", "2", "--out", self.path("norm"))
        tensors = read_tensors(self.path("norm/weights.safetensors"))
        name = next(name for name in tensors if name.endswith("running_mean"))
        value = struct.pack("<f", 7) * (len(tensors[name][2]) // 4)
        tensors[name] = (*tensors[name][:2], value)
        tensors["bn1.num_batches_tracked"] = ("I64", [], bytes(8))
        write_tensors(self.path("w"), tensors)
        self.begin_with(self.path("w"), *words, "--out", self.path("run"))
        now = read_tensors(self.path("run/weights.safetensors"))[name][2]
        moved = struct.unpack("<%df" % (len(now) // 4), now)
        # one batch has moved them by a tenth towards its own mean
        for mean in moved:
            self.assertTrue(5 < mean < 8, moved)

    def test_patterns_begin_from_the_seed(self):
        self.begin_with(self.weights, "--reinit", "*.bias", "--out", self.path("run"))
        self.train("--steps", "1", "--workers", "2", "--method", "dense:lr=0", "--out",
                   self.path("plain"))
        now, before, plain = (read_tensors(self.path(folder + "/weights.safetensors"))
                              for folder in ("run", "before", "plain"))
        for name in now:
            expected = plain if name.endswith(".bias") else before
            self.assertEqual(now[name], expected[name], name)
            self.assertNotEqual(before[name], plain[name], name)

    def test_another_number_of_classes(self):
        """The last layer has another shape: refused with both, and possible where it is left out."""
        text = self.error("train", *self.small, "--classes", "0-3,9", "--init", self.weights)
        self.assertRegex(text, r"tensor '\S+' has the shape 10 x 144 in the file, 5 x 144 in the "
                               r"network; --reinit leaves tensors out")
        result = self.train("--classes", "0-3,9", "--init", self.weights, "--reinit", "*", "--steps",
                            "3", "--workers", "2")
        self.assertEqual(result["parameters"], 5 * 145)

    def test_what_does_not_fit_is_named(self):
        tensors = read_tensors(self.weights)
        bias = next(name for name in tensors if name.endswith("bias"))
        missing = {name: tensors[name] for name in tensors if name != bias}
        for name, file, reason in (
                ("missing", missing, "the file has no tensor '%s', which the network has with the "
                 "shape 10" % bias),
                ("extra", dict(tensors, more=("F32", [2], bytes(8))),
                 "the file has a tensor 'more' of the shape 2, which logistic does not have"),
                ("dtype", dict(tensors, **{bias: ("F16", [10], bytes(20))}), "is not F32"),
                ("nan", dict(tensors, **{bias: ("F32", [10], struct.pack("<10f", *([1] * 9), 1e999))}),
                 "'%s' in the file is not finite" % bias)):
            with self.subTest(name=name):
                write_tensors(self.path(name), file)
                text = self.error("train", *self.small, "--init", self.path(name), "--out",
                                  self.path("run"))
                self.assertIn("--init: ", text)
                self.assertIn(reason, text)
                self.assertFalse(os.path.exists(self.path("run")))
        for words, reason in (((self.path("absent"),), "cannot open"),
                              ((self.weights, "--reinit", "fd.*"),
                               "'fd.*' matches no tensor of logistic, whose last is '%s'" % bias)):
            self.assertIn(reason, self.error("train", *self.small, "--init", *words))
        self.assertIn("without --init FILE",
                      self.error("train", *self.small, "--reinit", "x", expect=USAGE))

    def test_a_resumed_run_does_not_need_the_file(self):
        words = ("--method", "topk:keep=0.05", "--workers", "2", "--init", self.weights)
        whole = self.train(*words, "--steps", "12")
        self.train(*words, "--steps", "5", "--out", self.path("run"))
        first = json.loads(self.read("run/run.json"))["init_hash"]
        os.rename(self.weights, self.path("moved"))
        resumed = self.json("train", "--resume", self.path("run"), "--steps", "12", "--json", "-q")
        self.assertEqual(resumed["weights_hash"], whole["weights_hash"])
        self.assertEqual(json.loads(self.read("run/run.json"))["init_hash"], first)
        text = self.error("train", "--resume", self.path("run"), "--init", self.path("moved"))
        self.assertIn("has init '", text)

    def test_a_comparison_begins_with_it(self):
        self.json("compare", *self.small, "--methods", "dense;signum", "--steps", "2", "--workers",
                  "2", "--init", self.weights, "--json", "-q", "--out", self.path("compared"))
        for folder in os.listdir(self.path("compared")):
            if os.path.isdir(self.path("compared/" + folder)):
                run = json.loads(self.read("compared/%s/run.json" % folder))
                self.assertEqual(run["init"], self.weights)

    def test_ranks(self):
        """Rank 0 reads the file, and all begin with it; if it cannot, all end."""
        if os.environ.get("TERSE_RANKS") != "yes" or not OPEN_MPI:
            self.skipTest("no libterse-mpi or no Open MPI")
        words = ("--steps", "4", "--init", self.weights)
        threads = self.train(*words, "--workers", "2")
        out, err = self.begin(*words, "-q", launcher=launch(2), env=LAUNCH_ENV).communicate()
        self.assertEqual(json.loads(out)["weights_hash"], threads["weights_hash"], err)
        out, err = self.begin("--steps", "4", "--init", self.path("absent"), "-q", launcher=launch(2),
                              env=LAUNCH_ENV).communicate()
        self.assertEqual(out, b"")
        self.assertIn(b"cannot open '" + self.path("absent").encode(), err)


if __name__ == "__main__":
    unittest.main()
