"""The campaign itself: on a toy it tells a caught mutant from one that survives."""
import hashlib
import importlib.machinery
import importlib.util
import os
import subprocess
import tempfile
import unittest

import claims
import mutants
from bench import Bench

HERE = os.path.dirname(os.path.abspath(__file__))
CC = os.environ.get("CC", "cc")

TOY = """int larger(int a, int b);
int twice(int a);
int larger(int a, int b)
{
    return a > b ? a : b;
}
int twice(int a)
{
    int unused = 7;
    unused += 1;
    if (a == 0)
        return 0;
    return 2 * a;
}
"""
CHECK = """int larger(int a, int b);
int twice(int a);
int main(void) { return !(larger(3, 5) == 5 && larger(5, 3) == 5 && twice(4) == 8); }
"""


def load_campaign():
    """The script has no .py: it is a command."""
    path = os.path.join(HERE, "campaign")
    loader = importlib.machinery.SourceFileLoader("campaign", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("campaign", loader))
    loader.exec_module(module)
    return module


campaign = load_campaign()


class Toy(Bench):
    """Two files, one test, one compiler."""

    def __init__(self, folder):
        self.folder = folder
        self.judged = 0

    def judge(self, mutant, text):
        self.judged += 1
        return super().judge(mutant, text)

    def call(self, *command):
        return subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode == 0

    def compile(self, path):
        if not self.call(CC, "-O1", "-c", path, "-o", "toy.o"):
            return None
        with open(os.path.join(self.folder, "toy.o"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def build(self, names):
        return self.call(CC, "toy.o", "check.c", "-o", "check")

    def tests(self, path):
        return [["check"]]

    def run(self, name):
        return self.call("./check")


class Judging(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in (("toy.c", TOY), ("check.c", CHECK)):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as out:
                out.write(text)
        self.said = []

    def mutant(self, name, old, new):
        return mutants.Mutant(name, "toy.c", old, new)

    def run_campaign(self, candidates, wanted=None, tests="tests-1"):
        toy = Toy(self.folder)
        store = campaign.Store(os.path.join(self.folder, "results.json"))
        runs = campaign.Campaign(self.folder, [toy], store, tests, self.said.append)
        return runs.run(candidates, wanted), toy

    def test_every_outcome(self):
        candidates = [self.mutant("caught", "a > b", "a < b"),
                      self.mutant("survivor", "if (a == 0)", "if (a == 1)"),
                      self.mutant("same", "unused += 1;", "unused += 2;"),
                      self.mutant("nonsense", "return 2 * a;", "return 2 ** ;")]
        results, _ = self.run_campaign(candidates)
        self.assertEqual([(mutant.name, outcome, by) for mutant, outcome, by in results],
                         [("caught", "caught", "check"), ("survivor", "survived", ""),
                          ("same", "same code", ""), ("nonsense", "does not compile", "")])
        self.assertEqual(mutants.read(self.folder, "toy.c"), TOY)
        kept, _ = self.run_campaign(candidates[::-1], wanted=2)
        self.assertEqual([mutant.name for mutant, _, _ in kept], ["survivor", "caught"])

    def test_survivors_need_a_reason(self):
        survivor = self.mutant("survivor", "if (a == 0)", "if (a == 1)")
        results, _ = self.run_campaign([self.mutant("caught", "a > b", "a < b"), survivor])
        self.assertFalse(campaign.verdict(results, {}, self.said.append))
        self.assertIn("SURVIVES survivor", "\n".join(self.said))
        self.assertIn("2 mutants, 1 caught, 0 legal survivors, 1 survive", self.said[-1])
        self.assertTrue(campaign.verdict(results, {survivor.key(): "it is"}, self.said.append))
        self.assertIn("1 legal survivors, 0 survive", self.said[-1])
        self.assertTrue(campaign.verdict(results[:1], {}, self.said.append))

    def test_goes_on_where_it_was(self):
        candidates = [self.mutant("caught", "a > b", "a < b"),
                      self.mutant("survivor", "if (a == 0)", "if (a == 1)")]
        first, toy = self.run_campaign(candidates)
        self.assertEqual(toy.judged, 2)
        again, toy = self.run_campaign(candidates)
        self.assertEqual(toy.judged, 0)
        self.assertEqual([one[1:] for one in first], [one[1:] for one in again])
        _, toy = self.run_campaign(candidates, tests="tests-2")
        self.assertEqual(toy.judged, 1)  # the survivor, now that tests are others

    def test_drawn(self):
        lines = {"toy.c": [5, 11, 13]}
        drawn = mutants.draw(self.folder, lines, 7, 3)
        self.assertEqual([one.key() for one in drawn],
                         [one.key() for one in mutants.draw(self.folder, lines, 7, 3)])
        self.assertEqual(sorted(one.line for one in drawn), [5, 11, 13])
        for one in drawn:
            before, after = TOY.splitlines(), one.apply(TOY).splitlines()
            self.assertEqual([i + 1 for i in range(len(before)) if before[i] != after[i]],
                             [one.line])


class Texts(unittest.TestCase):
    def test_variants(self):
        self.assertEqual(mutants.variants("    if (a < 2)"),
                         ["    if (!(a < 2))", "    if (a < 3)", "    if (a <= 2)"])
        self.assertEqual(mutants.variants("    x += y * 2.5f;"),
                         ["    ;", "    x += y * 5.0f;", "    x += y / 2.5f;", "    x -= y * 2.5f;"])
        self.assertEqual(mutants.variants('    say("a < b"); /* a < b */'), ["    ;"])
        self.assertEqual(mutants.variants("    return p->x;"), [])

    def test_a_text_that_is_not_there_once_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "a.c"), "w", encoding="utf-8") as out:
                out.write("one two two\n")
            listing = os.path.join(folder, "list")
            with open(listing, "w", encoding="utf-8") as out:
                out.write("first a.c\n- one\n+ 1\n\nsecond a.c\n- two\n+ 2\n\nthird a.c\n- three\n"
                          "+ 3\n\nfourth b.c\n- one\n+ 1\n")
            found, errors = mutants.named(folder, listing)
        self.assertEqual([one.name for one in found], ["first"])
        self.assertEqual([error.split(": ")[1] for error in errors], ["second", "third", "fourth"])

    def test_those_of_this_tree(self):
        found, errors = mutants.named(campaign.ROOT)
        self.assertEqual(errors, [])
        names = {one.name for one in found}
        for claim, by in mutants.claim_table().items():
            self.assertTrue(by, claim)
            self.assertLessEqual(set(by), names, claim)
        for key, reason in mutants.accepted().items():
            self.assertTrue(reason, key)

    def test_claims_need_a_mutant(self):
        plain = {"p/a": True, "p/b": True, "p/c": False}
        outcome = {"m": {"p/a": False, "p/b": True}}
        errors = claims.errors_of({"p/a": ["m"], "p/b": ["m"], "p/c": ["n"], "p/d": []}, plain,
                                  lambda name, paper: outcome[name], {"m": None})
        self.assertEqual(errors, ["claims.txt: there is no claim p/d", "p/b holds with the mutant m",
                                  "claims.txt: p/c: there is no mutant n",
                                  "p/c fails without any mutant",
                                  "claims.txt: no mutant for p/d"])
        self.assertEqual(claims.errors_of({}, {"p/a": True}, None, {}),
                         ["p/a is not in claims.txt"])


if __name__ == "__main__":
    unittest.main()
