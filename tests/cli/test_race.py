"""bench/race: the tables and verdicts of rows that are known, bad input, and with `links` as the first
argument all of it on a few images: trainings to an accuracy, steps and trainings on links of network
namespaces."""
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

from support import TERSE

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
RACE = os.path.join(ROOT, "bench", "race")
ROWS = "dense,signum,torch-dense,torch-signum"
ABOUT = {"race": 1, "workers": 4, "batch": 32, "seed": 1}
SPECS = {"dense": "dense:lr=0.03", "auto": "auto:lr=0.03", "signum": "signum:lr=0.0005", "regtopk": "regtopk:keep=0.01,lr=0.05",
         "torch-dense": "dense@0.03", "torch-powersgd": "powersgd-one-bucket@0.03",
         "torch-signum": "terse-signum@0.0005"}


def race(*words, **more):
    return subprocess.run([sys.executable, RACE, "--program", TERSE, *map(str, words)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **more)


def trained(row, steps, best=0.9, rate=None):
    spec = SPECS[row] if rate is None else re.sub(r"[0-9.]+$", "%g" % rate, SPECS[row])
    return {**ABOUT, "kind": "train", "model": "cnn", "row": row, "spec": spec, "target": 0.87,
            "rate": float(re.search(r"[0-9.]+$", spec).group()), "every": 20, "steps": steps, "seconds": 1, "best": best,
            "curve": [[20, 0.5], [steps or 40, best]]}


def timed(row, link, times, sent=1e6):
    return {**ABOUT, "kind": "time", "model": "cnn", "row": row, "spec": SPECS[row], "link": link,
            "times": times, "bytes": sent, "computes": [], "congestion": "cubic"}


class Known(unittest.TestCase):
    """What is printed of known rows; nothing is measured."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="terse-race-")
        self.addCleanup(folder.cleanup)
        self.keep, self.page = folder.name + "/rows.jsonl", folder.name + "/page"
        self.data = folder.name  # a folder; its images are not read

    def tables(self, *rows, more=()):
        with open(self.keep, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        done = race("--keep", self.keep, "--models", "cnn", "--part", "tables", "--data", self.data,
                    *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_composed_is_steps_times_the_median(self):
        out = self.tables(trained("torch-dense", 100), timed("torch-dense", 10 ** 8, [1, 9, 2], 5e6),
                          trained("signum", 50), timed("signum", 10 ** 8, [0.1, 0.3, 0.2]))
        self.assertRegex(out, r"\| DDP dense \| `dense@0.03` \| 100 \| - \| - \| 200 \| - \| - \| 5.000 \|")
        self.assertRegex(out, r"\| signum \| `signum:lr=0.0005` \| 50 \| - \| - \| 10.0 \| - \| - \| 1.000 \|")
        self.assertIn("cnn, 100 Mbit/s: DDP dense takes 20.00 times as long as terse train with signum "
                      "(200 s and 10.0 s); aim 5: reached", out)

    def test_losing_cells_are_printed(self):
        out = self.tables(trained("torch-powersgd", 100), timed("torch-powersgd", 10 ** 8, [0.1]),
                          trained("torch-dense", 100), timed("torch-dense", 10 ** 8, [0.8]),
                          trained("torch-signum", 100), timed("torch-signum", 10 ** 8, [0.2]),
                          trained("regtopk", None, 0.8), timed("regtopk", 10 ** 8, [0.001]))
        self.assertIn("| not reached: 80.0 % |", out)
        self.assertIn("DDP PowerSGD, rank 1, one bucket takes 0.50 times as long as PyTorch with terse "
                      "with PyTorch, terse signum (10.0 s and 20.0 s); aim 1: MISSED", out)
        self.assertIn("DDP dense takes 4.00 times as long as PyTorch with terse with PyTorch, terse "
                      "signum (80.0 s and 20.0 s); aim 5: MISSED", out)
        self.assertNotIn("terse train with", out)  # its only row has not reached the target

    def test_a_row_has_the_rate_that_needs_the_fewest_steps(self):
        out = self.tables(trained("signum", 50), trained("signum", 30, rate=0.001),
                          trained("signum", None, 0.8, rate=0.002), timed("signum", 10 ** 8, [5]),
                          {**timed("signum", 10 ** 8, [0.2]), "spec": "signum:lr=0.001"})
        self.assertRegex(out, r"\| signum \| `signum:lr=0.001` \| 30 \| - \| - \| 6.0 \|")
        self.assertIn("| signum | 0.0005: 50, 0.001: 30, 0.002: not in 40 |", out)
        out = self.tables(trained("signum", 50), trained("signum", 30, rate=0.001))
        self.assertIn("| signum | 0.0005: 50, 0.001: 30 (best at an end) |", out)

    def test_rates_are_tried_until_the_best_is_inside(self):
        sys.path.insert(0, os.path.join(ROOT, "bench"))
        from race_tables import Race
        from torch_tables import Kept
        race_module = __import__("race_runs").load("race")
        options = type("Options", (), {"workers": 4, "batch": 32, "seed": 1, "every": 20,
                                       "targets": {"cnn": 0.87}})
        rows, kept = race_module.all_rows(options), Kept(None, {})
        known = Race(kept, rows, {})
        steps = {0.0005: 50, 0.00025: 80, 0.001: 40, 0.002: 30, 0.004: None}
        tried = []
        while rates := known.rates_to_try("cnn", "signum"):
            kept.add(trained("signum", steps[rates[0]], rate=rates[0]))
            tried.append(rates[0])
        self.assertEqual(tried, [0.0005, 0.00025, 0.001, 0.002, 0.004])
        self.assertEqual(known.rate("cnn", "signum"), 0.002)
        self.assertEqual(known.rate("cnn", "auto"), 0.03)  # that of dense

    def test_real_beside_composed(self):
        real = {**trained("signum", 60), "kind": "real", "link": 10 ** 8, "seconds": 12.3}
        out = self.tables(trained("signum", 50), timed("signum", 10 ** 8, [0.2]), real)
        self.assertIn("| 10.0 (real 12.3) |", out)

    def test_steps_of_a_training_over_unshaped_links(self):
        real = {**trained("signum", 50), "kind": "real", "link": 10 ** 11, "seconds": 4.5}
        out = self.tables(real, timed("signum", 10 ** 8, [0.2]))
        self.assertRegex(out, r"\| 50 \| - \| - \| 10.0 \| - \| real 4.5 \|")

    def test_auto_against_dense(self):
        real = {"kind": "real", "link": 10 ** 11}
        auto = {**trained("auto", 100), **real, "seconds": 10.4, "measuring": 2.0, "chosen": "topk:lr=0.03"}
        out = self.tables({**trained("dense", 50), **real, "seconds": 5.0}, auto)
        self.assertIn("cnn, unshaped: auto measured for 2.0 s and took topk:lr=0.03: 100 steps in 10.4 s", out)
        self.assertIn("a step of auto takes +4.0 % longer than one of dense; aim at most 3 %: MISSED", out)
        self.assertIn("| real 12.4 |", out)

    def test_rows_of_other_settings_do_not_count(self):
        out = self.tables(trained("signum", 50), {**timed("signum", 10 ** 8, [0.2]), "batch": 64})
        self.assertNotIn("10.0", out)

    def test_page(self):
        out = self.tables(trained("signum", 50), timed("signum", 10 ** 8, [0.2]),
                          more=("--page", self.page))
        path = os.path.join(self.page, "race-cnn-100mbit.html")
        self.assertIn("curves: " + path, out)
        self.assertEqual(os.listdir(self.page), [os.path.basename(path)])
        with open(path, encoding="utf-8") as file:
            self.assertIn("signum", file.read())

    def test_bad_input(self):
        for words, text in ((("--rows", "sgd"), "--rows sgd: one of dense, signum"),
                            (("--models", "vgg"), "--models vgg: one of cnn, mlp"),
                            (("--part", "all"), "--part all: one of train, links"),
                            (("--links", "10furlong"), "'10furlong' is not a rate"),
                            (("--target", "87"), "--target 87: between 0 and 1"),
                            (("--workers", "1"), "--workers 1: 2 to "),
                            (("--count", "0"), "--count 0: at least 1")):
            with self.subTest(words=words):
                done = race(*words)
                self.assertEqual(done.returncode, 2)
                self.assertIn(text, done.stderr)

    def test_what_is_missing_is_named(self):
        done = race("--data", "/nonexistent")
        self.assertEqual(done.returncode, 77)
        self.assertIn("skip race: there is no /nonexistent (package dataset-fashion-mnist)", done.stdout)
        done = race("--data", self.data, "--rows", "torch-dense", "--python", "/bin/false")
        self.assertEqual(done.returncode, 77)
        self.assertIn("skip race: torch or terse is missing for /bin/false", done.stdout)


def write_data(folder):
    """Images of Fashion-MNIST's format and size: a class is a bright square at its own place."""
    source = random.Random(3)
    for kind, count in (("train", 2000), ("t10k", 500)):
        labels = bytes(source.randrange(10) for _ in range(count))
        with open("%s/%s-labels-idx1-ubyte" % (folder, kind), "wb") as file:
            file.write(struct.pack(">BBBBI", 0, 0, 8, 1, count) + labels)
        with open("%s/%s-images-idx3-ubyte" % (folder, kind), "wb") as file:
            file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, count, 28, 28))
            for label in labels:
                image = bytearray(source.randbytes(784))
                for y in range(9):
                    at = 28 * (9 * (label // 4) + y) + 7 * (label % 4)
                    image[at:at + 7] = b"\xff" * 7
                file.write(image)


class OnLinks(unittest.TestCase):
    def test_from_training_to_page(self):
        with tempfile.TemporaryDirectory(prefix="terse-race-") as folder:
            write_data(folder)
            keep, page = folder + "/rows.jsonl", folder + "/page"
            words = ("--keep", keep, "--data", folder, "--models", "cnn", "--rows", ROWS, "--workers", 2,
                     "--links", "100mbit", "--target", 0.8, "--count", 4, "--page", page)
            done = race(*words)
            if done.returncode == 77:
                self.skipTest(done.stdout.strip().splitlines()[-1])
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            print(done.stdout)
            with open(keep, encoding="utf-8") as file:
                text = file.read()
            self.check_rows(list(map(json.loads, text.splitlines())), "skip torch-dense" in done.stdout)
            self.assertTrue(os.path.exists(page + "/race-cnn-100mbit.html"))
            self.assertRegex(done.stdout, r"\| signum \|[^\n]*\| \d+\.\d \(real \d+\.\d\) \|")
            self.again(words, keep, text)

    def check_rows(self, rows, without_torch):
        names = [name for name in ROWS.split(",") if not (without_torch and "torch" in name)]
        # Of a row's trainings that of the rate which was taken: the one that was timed.
        known = {("time", row["row"]): row for row in rows if row["kind"] == "time"}
        known.update({(row["kind"], row["row"]): row for row in rows if row["kind"] != "time"
                      and row["spec"] == known["time", row["row"]]["spec"]})
        line = 4 * 220000 * 8 / 1e8  # seconds: with two workers every gradient crosses a link once
        for name in names:
            self.assertIsNotNone(known["train", name]["steps"], name)
            self.assertEqual(len(known["time", name]["times"]), 4)
            if "dense" in name:
                self.assertGreater(sorted(known["time", name]["times"])[2], 0.9 * line)
                self.assertAlmostEqual(known["time", name]["bytes"] / 880000, 1.03, delta=0.3)
            else:
                self.assertLess(known["time", name]["bytes"], 880000 / 15)
            # Weights do not depend on links, but for the order in which gloo adds.
            if ("real", name) in known and not name.startswith("torch"):
                self.assertEqual(known["real", name]["curve"], known["train", name]["curve"])
        self.assertIn(("real", "signum"), known)

    def again(self, words, keep, text):
        """Nothing is measured twice; a row whose writer was killed is."""
        done = race(*words)
        self.assertEqual(re.findall(r"(\w+): (\d+) to do", done.stdout),
                         [("train", "0"), ("links", "0"), ("real", "0")])
        with open(keep, "w", encoding="utf-8") as file:
            file.write(text[:-20])
        done = race(*words)
        self.assertEqual(re.findall(r": (\d+) to do", done.stdout), ["0", "0", "1", "0"])
        left = subprocess.run(["ip", "netns", "list"], stdout=subprocess.PIPE, text=True, check=True)
        self.assertNotRegex(left.stdout, r"terse\d+n\d")

    def test_a_method_that_is_unknown_is_skipped(self):
        sys.path.insert(0, os.path.join(ROOT, "bench"))
        import race_runs
        with tempfile.TemporaryDirectory(prefix="terse-race-") as folder:
            write_data(folder)
            options = type("Options", (), {
                "program": TERSE, "data_name": "idx:" + folder, "batch": 8, "seed": 1, "every": 5,
                "most_steps": 5, "workers": 2, "timeout": 60})
            with self.assertRaisesRegex(race_runs.Refused, "no-such"):
                race_runs.training(options, None, "terse", "cnn", "no-such", 0.9, 5)

    def test_without_root(self):
        if os.geteuid() != 0:
            self.skipTest("it already runs without root")
        with tempfile.TemporaryDirectory(prefix="terse-race-") as folder:
            os.chmod(folder, 0o755)
            try:
                done = race("--data", folder, "--rows", "signum", "--part", "links", user=65534)
            except PermissionError as reason:
                self.skipTest("another user cannot start the interpreter: %s" % reason)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("skip race: network namespaces need root", done.stdout)


if __name__ == "__main__":
    wanted = "OnLinks" if "links" in sys.argv else "Known"
    unittest.main(argv=[sys.argv[0], "-v", wanted])
