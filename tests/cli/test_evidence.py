"""Every row of every plan of bench/evidence runs to its end, on a few images and texts of the published
formats; what was trained is not trained again."""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import random
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
        given = argparse.Namespace(out=self.folder, which="x", data="", rows=None, dry=False, terse="false")
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
