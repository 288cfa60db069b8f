"""Every claim of every paper holds, for seeds drawn anew. TERSE_TEST_SEED chooses the first."""
import json
import os
import random
import subprocess
import unittest

from support import TERSE

SEED = int(os.environ.get("TERSE_TEST_SEED", random.randrange(2**63)))


class Claims(unittest.TestCase):
    def check(self, paper, seeds):
        print("%s: seed %d and on" % (paper, SEED), flush=True)
        done = subprocess.run([TERSE, "reproduce", paper, "--json", "--seed", str(SEED), "--seeds",
                               str(seeds)], stdout=subprocess.PIPE, check=False)
        (result,) = json.loads(done.stdout)["papers"]
        failed = [claim for claim in result["claims"] if not claim["holds"]]
        self.assertEqual(failed, [], "seed %d" % SEED)
        self.assertEqual(done.returncode, 0)

    def test_signsgd(self):
        self.check("signsgd", 3)

    def test_def(self):
        self.check("def", 3)

    def test_qadam(self):
        self.check("qadam", 3)

    def test_regtopk(self):
        self.check("regtopk", 2)

    def test_dqsgd(self):
        self.check("dqsgd", 3)


if __name__ == "__main__":
    unittest.main()
