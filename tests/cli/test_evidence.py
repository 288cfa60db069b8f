"""Every row of every plan of bench/evidence runs to its end, on a few images and texts of the published
formats; what was trained is not trained again."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

from support import TERSE

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "bench"))
from evidence_plans import PLANS, Part, Plan, Row  # noqa: E402

sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("evidence", os.path.join(ROOT, "bench", "evidence"))
evidence = importlib.util.module_from_spec(importlib.util.spec_from_loader("evidence", LOADER))
LOADER.exec_module(evidence)

TRAIN, TEST = 1200, 40


def write_data(folder):
    source = random.Random(3)
    os.makedirs(folder + "/cifar10")
    for name, count in (("data_batch_1", TRAIN), ("test_batch", TEST)):
        with open("%s/cifar10/%s.bin" % (folder, name), "wb") as file:
            for i in range(count):
                file.write(bytes([i % 10]) + source.randbytes(3072))
    os.makedirs(folder + "/ag_news")
    for name, count in (("train", TRAIN), ("test", TEST)):
        with open("%s/ag_news/%s.csv" % (folder, name), "w", encoding="utf-8") as file:
            for i in range(count):
                words = " ".join("word%d" % source.randrange(50) for _ in range(8))
                file.write('"%d","title","%s"\n' % (1 + i % 4, words))


class Left(unittest.TestCase):
    """The minutes that are left: long trainings count for more than short ones."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="terse-evidence-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # A training of the grid has 9,000 examples, one of the table 100,000.
        self.part = Part("part", "cifar10:%s/cifar10", "--workers 2 --batch 50", "--steps 90", "--steps 1000",
                         [Row("a", "dense", 0.1), Row("b", "dense", like="a")], name="part")
        given = argparse.Namespace(out=self.folder, which="x", data="", rows=None, dry=False,
                                   tables=False, records=None, terse="false")
        self.trainer = evidence.Trainer(given, Plan("plan", [self.part]))
        self.trainer.speed["part"] = 100.0
        self.trainer.expect(self.part, False, 4)
        self.trainer.expect(self.part, True, 6)

    def done(self, last, step, seconds, begun=0):
        """A training that ends after so many seconds, by a command that writes its last line."""
        folder = os.path.join(self.folder, "run-%d" % self.trainer.done)
        os.makedirs(folder)
        end = json.dumps({"kind": "end", "step": step, "status": "finished", "accuracy": 0.5},
                         separators=(",", ":"))
        command = os.path.join(self.folder, "terse")
        with open(command, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho '%s' > '%s/metrics.jsonl'\n" % (end, folder))
        os.chmod(command, 0o755)
        if begun:
            for name in ("run.json", "checkpoint-%d.terse" % begun):
                open(os.path.join(folder, name), "w", encoding="utf-8").close()
        self.trainer.given.terse = command
        clock = iter((0.0, seconds))
        evidence.time.time, now = lambda: next(clock), evidence.time.time
        try:
            self.trainer.train(folder, [], self.trainer.seconds(self.part, last))
        finally:
            evidence.time.time = now

    def test_by_examples(self):
        self.assertAlmostEqual(self.trainer.seconds(self.part, False), 90)
        self.assertAlmostEqual(self.trainer.seconds(self.part, True), 1000)
        for _ in range(4):
            self.done(False, 90, 180)  # twice as long as planned
        self.assertAlmostEqual(self.trainer.minutes_left(), 6 * 2000 / 60)
        self.done(True, 1000, 2000)
        self.assertAlmostEqual(self.trainer.minutes_left(), 5 * 2000 / 60)

    def test_what_was_begun_before_counts_from_there(self):
        self.done(True, 1000, 500, begun=750)
        self.assertAlmostEqual(self.trainer.minutes_left(), (4 * 90 + 5 * 1000) * 2 / 60)

    def test_more_rates_are_more_work(self):
        self.done(False, 90, 90)
        self.trainer.expect(self.part, False, 2)
        self.assertAlmostEqual(self.trainer.minutes_left(), (5 * 90 + 6 * 1000) / 60)
        self.assertEqual(self.trainer.planned, 12)


class Records(unittest.TestCase):
    """Trainings that have ended, a line each: another machine takes them as done."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="terse-records-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.records = os.path.join(self.folder, "records.jsonl")

    def trainer(self, out, data="/data", tables=False, terse=TERSE):
        given = argparse.Namespace(out=os.path.join(self.folder, out), which="x", data=data, rows=None,
                                   dry=False, tables=tables, records=self.records, terse=terse)
        return evidence.Trainer(given, Plan("plan", []))

    @staticmethod
    def train(trainer, steps=4):
        return trainer.train("a/run", ["--data", "digits", "--method", "dense:lr=0.1", "--workers", "2",
                                       "--steps", str(steps), "--evaluate-every", "2"], 0.0)

    def lines(self):
        with open(self.records, encoding="utf-8") as file:
            return file.read()

    def test_another_machine_goes_on(self):
        first = self.train(self.trainer("here"))
        end = self.train(self.trainer("there", data="/elsewhere", terse="false"))
        for key in ("accuracy", "step", "status", "bytes_sent_total", "weights_hash"):
            self.assertEqual(end[key], first[key], key)
        curve = lambda out: evidence.by_evaluation([os.path.join(self.folder, out, "a/run")], "accuracy")
        self.assertEqual(sorted(curve("there")), [2, 4])
        self.assertEqual(curve("there"), curve("here"))
        self.assertEqual(self.lines().count("\n"), 1)  # what was known is not added again
        page = subprocess.run([TERSE, "report", os.path.join(self.folder, "there/a/run"), "-o",
                               os.path.join(self.folder, "page.html")], capture_output=True, text=True,
                              check=False)
        self.assertEqual(page.returncode, 0, page.stderr)

    def test_records_name_no_folder_of_a_machine(self):
        self.train(self.trainer("here"))
        self.assertNotIn(self.folder, self.lines())

    def test_folders_may_be_called_like_options(self):
        words = ["--data", "cifar10:%s/cifar10", "--init", "{out}/prepare", "--model", "cnn"]
        for data, out in (("data", "o"), (".", "."), ("/data", "n")):
            trainer = self.trainer(out, data=data)
            trainer.base = out
            with self.assertRaisesRegex(SystemExit, "ended with 1"):
                trainer.given.terse = "false"
                trainer.train("a", words, 0.0)
            self.assertEqual(trainer.named(words, "DIR", "OUT"), [
                "--data", "cifar10:DIR/cifar10", "--init", "OUT/prepare", "--model", "cnn"])
            self.assertEqual(trainer.here(words)[1:4:2], ["cifar10:%s/cifar10" % data, out + "/prepare"])

    def test_a_longer_training_is_another(self):
        self.train(self.trainer("here"))
        with self.assertRaisesRegex(SystemExit, "--steps 6"):
            self.train(self.trainer("there", terse="false"), steps=6)

    def test_tables_train_nothing(self):
        with self.assertRaisesRegex(SystemExit, "not trained yet: terse train --data digits"):
            self.train(self.trainer("here", tables=True))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "here")))

    def test_what_others_start_from_is_not_taken_from_records(self):
        words = ["--data", "digits", "--method", "dense:lr=0.1", "--workers", "2", "--steps", "2"]
        self.train(self.trainer("here"))
        before = self.lines()
        self.trainer("here").train("prepare", words, 0.0, record=False)
        self.assertEqual(self.lines(), before)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "here/prepare/weights.safetensors")))

    def test_published_records_give_their_tables(self):
        """A plan that is not complete: the page says so."""
        folder = os.path.join(ROOT, "docs", "evidence")
        for name in sorted(filter(lambda name: name.endswith(".jsonl"), os.listdir(folder))):
            which = name[:-len(".jsonl")]
            if which not in PLANS:
                continue  # of another command, see below
            with self.subTest(which=which):
                done = subprocess.run(
                    [sys.executable, os.path.join(ROOT, "bench", "evidence"), which, "--tables", "--records",
                     os.path.join(folder, name), "--terse", TERSE, "--out",
                     os.path.join(self.folder, which)], capture_output=True, text=True, check=False)
                with open(os.path.join(ROOT, "docs", "results.md"), encoding="utf-8") as file:
                    page = file.read()
                if "not trained yet" in done.stderr:
                    headline = [line for line in page.splitlines() if line.startswith("| `%s" % which)]
                    self.assertIn("not run to its end", headline[0])
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)
                rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
                self.assertGreater(len(rows), 3)
                for line in rows:
                    self.assertIn(line + "\n", page)

    def test_published_predictions_give_their_table(self):
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "bench", "predict"), "--tables", "--keep",
             os.path.join(ROOT, "docs", "evidence", "predict.jsonl")], capture_output=True, text=True,
            check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(ROOT, "docs", "plan.md"), encoding="utf-8") as file:
            page = file.read()
        rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
        self.assertEqual(len(rows), 1 + 24)
        for line in rows:
            self.assertIn(line + "\n", page)
        said = re.search(r"(\d+) predictions: median error ([\d.]+ %), worst ([\d.]+ %)", done.stdout)
        self.assertIn("%s predictions: **median error %s, worst %s**" % said.groups(), page)
        self.assertIn("in **%s" % re.search(r"right in (\d+ of \d+ cells)", done.stdout)[1], page)

    def test_predictions_that_nobody_made_are_an_error(self):
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "bench", "predict"), "--tables", "--keep", self.records],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not measured yet: cnn, 2 workers, 10 Mbit/s", done.stderr)


class Evidence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="terse-evidence-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        write_data(cls.folder)

    def dry(self, which):
        out = os.path.join(self.folder, which)
        return subprocess.run(
            [sys.executable, os.path.join(ROOT, "bench", "evidence"), which, "--dry", "--terse", TERSE,
             "--data", self.folder, "--out", out], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, check=False)

    def test_every_plan(self):
        for which, plan in PLANS.items():
            if any(part.data == "fashion" for part in plan.parts):
                continue  # sixty thousand images for two steps
            with self.subTest(plan=which):
                done = self.dry(which)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, r"about \d+ trainings, about \d+\.\d h from the start")
                for part in plan.parts:
                    for row in part.rows:
                        self.assertIn("| %s | `%s` | " % (row.name, row.spec), done.stdout)
                    page = os.path.join(self.folder, which, (part.name or "table") + ".html")
                    self.assertTrue(os.path.getsize(page) > 1000)

    def test_what_is_done_is_not_done_again(self):
        first = self.dry("def")
        self.assertEqual(first.returncode, 0, first.stderr)
        again = self.dry("def")
        self.assertEqual(again.stdout, first.stdout)
        self.assertNotIn("min left", again.stderr)


if __name__ == "__main__":
    unittest.main()
