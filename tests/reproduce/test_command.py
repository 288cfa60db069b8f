"""terse reproduce: the command line, the shape of its JSON, the page, and that nothing but the seed
changes a number."""
import json
import os
import re
import unittest

from support import Case, REFUSED, USAGE

PAPERS = ["signsgd", "def", "qadam", "regtopk", "dqsgd"]


class Shape(Case):
    """One paper, the quickest, in every form."""

    def check(self, papers, names):
        self.assertEqual([paper["paper"] for paper in papers], names)
        for paper in papers:
            self.assertGreater(len(paper["claims"]), 4)
            ids = [claim["id"] for claim in paper["claims"]]
            self.assertEqual(len(ids), len(set(ids)))
            for claim in paper["claims"]:
                self.assertLessEqual({"id", "text", "measured", "bound", "holds"}, set(claim))
                measured, bound = claim["measured"], claim["bound"]
                right = {"at most": measured <= bound, "at least": measured >= bound,
                         "within": bound <= measured <= claim.get("upper", bound)}[claim["side"]]
                self.assertEqual(claim["holds"], right, claim)
            drawn = [name for chart in paper["charts"] for name in chart["series"]]
            self.assertEqual(sorted(drawn), sorted(paper["series"]))
            self.assertEqual(len(drawn), len(set(drawn)))
            for chart in paper["charts"]:
                for name in chart["series"]:
                    self.assertEqual(len(paper["series"][name]), len(chart["x"]), name)

    def test_json_and_what_does_not_change_it(self):
        words = ("reproduce", "qadam", "--json", "--seed", "5")
        one = self.text(*words, "--threads", "1")
        self.check(json.loads(one)["papers"], ["qadam"])
        self.assertEqual(one, self.text(*words, "--threads", "3"))
        self.assertEqual(one, self.text(*words, env={"TERSE_KERNELS": "ref"}))
        other = self.json("reproduce", "qadam", "--json", "--seed", "6")
        self.assertNotEqual(json.loads(one)["papers"][0]["series"], other["papers"][0]["series"])
        self.assertEqual(os.listdir(self.folder), [])

    def test_seeds_have_a_spread(self):
        page = self.path("page.html")
        papers = self.json("reproduce", "qadam", "--json", "--seeds", "2", "-o", page)["papers"]
        self.check(papers, ["qadam"])
        (paper,) = papers
        self.assertEqual((paper["seed"], paper["seeds"]), (1, 2))
        self.assertEqual(set(paper["spread"]), set(paper["series"]))
        for claim in paper["claims"]:
            self.assertLessEqual(claim["low"], claim["measured"])
            self.assertLessEqual(claim["measured"], claim["high"])
        self.assertTrue(any(claim["deviation"] > 0 for claim in paper["claims"]))
        text = self.read("page.html").decode()
        self.assertEqual(text.count("<figure>"), len(paper["charts"]))
        self.assertEqual(text.count('class="yes"') + text.count('class="no"'),
                         len(paper["claims"]))
        self.assertNotRegex(text, r"https?://(?!www\.w3\.org)|<script|nan|src=")

    def test_text(self):
        page = self.path("p.html")
        text = self.text("reproduce", "qadam", "--out", page,
                         env={"LC_ALL": "C", "NO_COLOR": "1"})
        self.assertTrue(text.isascii())
        marks = re.findall(r"(?m)^  (ok|NO) (\S+): \S+ (?:[<>]= \S+|in \S+ \.\. \S+)$", text)
        self.assertGreater(len(marks), 4)
        self.assertIn("%d of %d claims hold" % (len(marks), len(marks)), text)
        self.assertIn(page, text)
        self.assertEqual(os.listdir(self.folder), ["p.html"])


class Wrong(Case):
    def test_usage(self):
        for words, reason in (
                (("sgd",), "no paper 'sgd'"),
                (("signsdg",), "did you mean 'signsgd'?"),
                (("--seed", "x"), "--seed: 'x'"),
                (("--seeds", "0"), "--seeds: '0'"),
                (("--threads", "65"), "--threads: '65'"),
                (("--frob",), "unrecognized option '--frob'")):
            with self.subTest(words=words):
                self.assertIn(reason, self.error("reproduce", *words, expect=USAGE))

    def test_page_that_cannot_be_written(self):
        text = self.error("reproduce", "--out", self.path("no/such/folder.html"), expect=REFUSED)
        self.assertIn("no/such/folder.html", text)

    def test_help_names_every_paper(self):
        text = self.text("help", "reproduce")
        for paper in PAPERS:
            self.assertIn(paper, text)


if __name__ == "__main__":
    unittest.main()
