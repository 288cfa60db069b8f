"""--method auto: whatever is chosen, the training is that of the chosen method, in threads and in
ranks; what was measured is in run.json; a resumed run measures nothing; and what makes no sense is
refused. (Which one is chosen from which times: tests/train/loop/auto_test.c.)"""
import os
import re
import subprocess
import unittest

from support import OK, REFUSED, TERSE, USAGE
from test_train_ranks import HERE, result_of, run
from training import launch, LAUNCH_ENV, OPEN_MPI, TrainCase

LIST = "auto:methods=topk:keep=0.05;fp16"
CANDIDATES = ["dense:lr=0.02", "topk:lr=0.02,momentum=0.9,keep=0.05,min=1024", "fp16:lr=0.02,min=1024"]


class Auto(TrainCase):
    def refused(self, code, words, *pieces):
        done = self.terse("train", *self.small, "--steps", "3", *words, expect=code)
        for piece in pieces:
            self.assertIn(piece, done.stderr.decode())
        self.assertEqual(done.stdout, b"")

    def test_the_training_is_that_of_the_chosen_method(self):
        done = self.terse("train", *self.small, "--json", "--steps", "9", "--workers", "2",
                          "--method", "auto", "--out", self.path("run"))
        found, described = result_of(done.stdout), self.run_json("run")
        told = re.search(r"auto: (\S+): [0-9.e+]+ ms per step \((.*)\), measured in [0-9.]+ s",
                         done.stderr.decode())
        self.assertIsNotNone(told, done.stderr)
        choice, = described["auto"]["choices"]
        for method in (found["method"], described["method"], choice["method"]):
            self.assertEqual(method, told[1])
        self.assertIn("--method " + told[1], described["train"])
        self.assertEqual(choice["step"], 0)
        names = [row["method"].split(":")[0] for row in choice["rows"]]
        self.assertEqual(names[0], "dense")
        self.assertLessEqual({"topk", "regtopk", "qsgd", "dqsgd"}, set(names))
        self.assertTrue(all(row["seconds"] > 0 for row in choice["rows"]))
        for name in names:
            self.assertIn(name, told[0])
        plain = self.train("--steps", "9", "--workers", "2", "--method", told[1])
        for key in ("weights_hash", "loss", "bytes_sent", "exchange", "spec"):
            self.assertEqual(found[key], plain[key], key)
        self.assert_report_has_no_notes("run")

    def test_a_resumed_run_measures_nothing(self):
        words = ("--workers", "2", "--steps", "6", "--method", LIST)
        first = self.train(*words, "--out", self.path("run"))
        described = self.run_json("run")
        self.assertEqual(described["auto"]["spec"], "auto:every=0,methods=" + ";".join(CANDIDATES))
        for more in ((), ("--method", LIST), ("--workers", "3")):
            done = self.terse("train", "--resume", self.path("run"), "--json", "--steps", "12",
                              "--out", self.path("more%d" % len(more)), *more)
            self.assertNotIn(b"auto:", done.stderr)
            self.assertEqual(result_of(done.stdout)["method"], first["method"])
            os.rename(self.path("more%d" % len(more)), self.path("done"))
            self.assertEqual(self.run_json("done")["auto"], described["auto"])
            subprocess.run(["rm", "-r", self.path("done")], check=True)
        whole = self.train("--workers", "2", "--steps", "12", "--method", first["method"])
        again = self.train("--resume", self.path("run"), "--steps", "12")
        self.assertEqual(again["weights_hash"], whole["weights_hash"])

    def test_it_measures_again(self):
        self.train("--workers", "2", "--steps", "10", "--method", "auto:every=4,methods=fp16",
                   "--out", self.path("run"))
        choices = self.run_json("run")["auto"]["choices"]
        self.assertEqual([choice["step"] for choice in choices], [0, 4, 8])
        self.assertEqual(choices[-1]["method"], self.run_json("run")["method"])
        done = self.terse("train", "--resume", self.path("run"), "--steps", "13", "-q")
        self.assertEqual(done.stderr.decode().count("measured in"), 1)  # at step 12
        choices = self.run_json("run")["auto"]["choices"]
        self.assertEqual([choice["step"] for choice in choices], [0, 4, 8, 12])

    def test_a_run_that_was_killed_early_begins_anew(self):
        words = ("--workers", "2", "--steps", "4", "--method", LIST, "--out", self.path("run"))
        self.train(*words)
        os.remove(self.checkpoint("run", 4))
        with open(self.path("run/metrics.jsonl"), "w", encoding="ascii"):
            pass
        self.train(*words)
        os.remove(self.checkpoint("run", 4))
        with open(self.path("run/metrics.jsonl"), "w", encoding="ascii"):
            pass
        done = self.terse("train", *self.small, "--workers", "2", "--steps", "4", "--method", "auto",
                          "--out", self.path("run"), expect=REFUSED)
        self.assertIn("already holds a run", done.stderr.decode())

    def test_options_reach_every_candidate(self):
        self.train("--workers", "2", "--steps", "2", "--out", self.path("run"), "--lr", "0.25",
                   "--method", "auto:momentum=0.5,wd=0.001,methods=fp16:lr=0.125;topk;dense:wd=0")
        self.assertEqual(self.run_json("run")["auto"]["spec"],
                         "auto:every=0,methods=dense:lr=0.25,momentum=0.5,wd=0;"
                         "fp16:lr=0.125,momentum=0.5,wd=0.001,min=1024;"
                         "topk:lr=0.25,momentum=0.5,wd=0.001,min=1024")

    def test_another_update_is_a_candidate_with_its_rate(self):
        self.train("--workers", "2", "--steps", "2", "--out", self.path("run"), "--method",
                   "auto:methods=signum:lr=0.0005;adam:lr=0.001")
        rows = self.run_json("run")["auto"]["choices"][0]["rows"]
        self.assertEqual([row["method"] for row in rows],
                         ["dense:lr=0.02", "signum:lr=0.0005", "adam:lr=0.001"])

    def test_what_makes_no_sense_is_refused(self):
        for method, *pieces in (
                ("auto:foo=1", "'foo' is no option for all candidates", "every="),
                ("auto:combine=shard", "'combine' is no option for all candidates"),
                ("auto:keep=0.1", "'keep' is no option for all candidates"),
                ("auto:lr=abc", "lr is a number"),
                ("auto:", "an option is empty"),
                ("auto:every=x", "every=x is not a number of steps"),
                ("auto:methods=", "nothing between two ';'"),
                ("auto:methods=fp16;;topk", "nothing between two ';'"),
                ("auto:methods=" + ";".join("topk:keep=0.%d" % n for n in range(11, 28)),
                 "more than 16 methods"),
                ("auto:methods=" + ";".join("topk:keep=0.%d" % n for n in range(11, 27)),
                 "more than 15 methods and dense"),
                ("auto:methods=fp16;fp16", "has fp16 twice"),
                ("auto:methods=nope", "no method 'nope'"),
                ("auto:methods=topk:kep=1", "no option 'kep'"),
                ("auto:methods=signum", "signum", "write its own, signum:lr="),
                ("auto:methods=topk:every=4", "one in 4 of its steps"),
                ("auto:every=9,methods=signum:lr=0.1", "leave out every=9"),
                ("automatic", "no method 'automatic'")):
            with self.subTest(method=method):
                self.refused(USAGE, ("--method", method), *pieces)

    def test_another_run_is_not_resumed_as_auto(self):
        self.train("--workers", "2", "--steps", "2", "--out", self.path("plain"))
        self.refused(REFUSED, ("--resume", self.path("plain"), "--method", "auto"),
                     "which auto did not choose; leave out --method auto")
        self.train("--workers", "2", "--steps", "2", "--out", self.path("run"), "--method", LIST)
        self.refused(REFUSED, ("--resume", self.path("run"), "--method", "auto"),
                     "other candidates or options", "leave out --method auto")
        self.refused(REFUSED, ("--resume", self.path("run"), "--method", "signum"), "not 'signum")

    def test_compare_refuses_it(self):
        done = self.terse("compare", *self.small, "--methods", "dense;auto", "--out",
                          self.path("all"), expect=USAGE)
        self.assertIn("compare: auto is no method to compare", done.stderr.decode())

    def test_the_list_of_methods_mentions_it(self):
        self.assertIn("--method auto", self.text("methods"))


@unittest.skipUnless(HERE and OPEN_MPI, "no libterse-mpi in this build, or no Open MPI")
class Ranks(TrainCase):
    def test_ranks_choose_alike(self):
        words = ("train", *self.small, "--json", "--steps", "7")
        done = run(launch(2), (*words, "--method", LIST))
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        there = result_of(done.stdout)
        self.assertIn(there["method"], CANDIDATES)
        self.assertEqual(done.stderr.decode().count("auto: "), 1)  # rank 0's line
        here = self.train("--steps", "7", "--workers", "2", "--method", there["method"])
        for key in ("weights_hash", "loss", "bytes_sent"):
            self.assertEqual(there[key], here[key], key)

    def test_nodes(self):
        done = run(launch(4), ("train", *self.small, "--json", "--steps", "4", "--node-size", "2",
                               "--method", LIST))
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        there = result_of(done.stdout)
        here = self.train("--steps", "4", "--workers", "4", "--node-size", "2", "--method",
                          there["method"])
        self.assertEqual(there["weights_hash"], here["weights_hash"])

    def test_ranks_with_other_candidates_are_named(self):
        words = [TERSE, "train", *self.small, "--steps", "3", "--method"]
        done = subprocess.run([*launch(1), *words, LIST, ":", "-n", "1", *words, "auto"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=110,
                              env=dict(os.environ, **LAUNCH_ENV), check=False)
        self.assertNotEqual(done.returncode, OK)
        self.assertIn("rank 1 differs: rank 0 has method 'auto:", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
