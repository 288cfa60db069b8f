"""Every row of every plan of bench/evidence runs to its end, on a few images and texts of the published
formats; what was trained is not trained again."""
import os
import random
import subprocess
import sys
import tempfile
import unittest

from support import TERSE

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "bench"))
from evidence_plans import PLANS  # noqa: E402

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
