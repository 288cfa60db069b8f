"""reproduce/claims: counts failing claims over seeds, says how far bounds are, goes on from a file.
The command is a stand-in whose claims are functions of the seed."""
import os
import stat
import subprocess
import sys
import tempfile
import unittest

CLAIMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "reproduce", "claims")

STAND_IN = """#!%s
import json, sys
paper, seed = sys.argv[2], int(sys.argv[sys.argv.index("--seed") + 1])
open(%%r, "a").write("run\\n")
value = [0.0, 1.0, -1.0, 0.5, -0.5][seed %%%% 5]
claims = [{"id": "near", "measured": value, "bound": 0.75, "side": "at most"},
          {"id": "far", "measured": value, "bound": -40, "upper": 40, "side": "within"},
          {"id": "fixed", "measured": 3, "bound": 3, "side": "at least"},
          {"id": "lost", "measured": None if seed == 3 else 1, "bound": 0, "side": "at least"}]
print(json.dumps({"papers": [{"paper": paper, "claims": claims}]}))
sys.exit(4)
""" % sys.executable


class Seeds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = os.path.join(folder.name, "log")
        self.kept = os.path.join(folder.name, "kept.jsonl")
        self.terse = os.path.join(folder.name, "terse")
        with open(self.terse, "w", encoding="utf-8") as out:
            out.write(STAND_IN % self.log)
        os.chmod(self.terse, stat.S_IRWXU)

    def run_claims(self, *words):
        return subprocess.run([sys.executable, CLAIMS, "--terse", self.terse, *words],
                              stdout=subprocess.PIPE, check=False, text=True)

    def runs(self):
        with open(self.log, encoding="utf-8") as lines:
            return len(lines.readlines())

    def test_counts(self):
        done = self.run_claims("def", "--seeds", "5", "--first", "0")
        rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
        self.assertEqual(done.returncode, 4)
        self.assertIn("FAILS for 1 of 5", rows["near"])
        self.assertIn(" *", rows["near"])
        self.assertNotIn("FAILS", rows["far"])
        self.assertIn(">= -40 (50.6), <= 40 (50.6)", rows["far"])
        self.assertNotIn("*", rows["far"])
        self.assertIn("(inf)", rows["fixed"])
        self.assertIn("FAILS for 1 of 5", rows["lost"])  # what could not be measured
        self.assertIn("2 failing claims over 5 seeds", done.stdout)

    def test_all_hold(self):
        done = self.run_claims("def", "qadam", "--seeds", "1", "--first", "5")
        self.assertEqual(done.returncode, 0)
        self.assertIn("0 failing claims over 1 seeds", done.stdout)

    def test_goes_on(self):
        self.run_claims("def", "--seeds", "3", "--first", "0", "--keep", self.kept)
        self.assertEqual(self.runs(), 3)
        done = self.run_claims("def", "--seeds", "5", "--first", "0", "--keep", self.kept)
        self.assertEqual(self.runs(), 5)
        self.assertIn("def, 5 seeds", done.stdout)


if __name__ == "__main__":
    unittest.main()
