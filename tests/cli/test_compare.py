"""`terse compare`: one table of several trainings, which continues where it stopped; and the live page."""
import http.client
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import time
import unittest

from support import OK, REQUEUE, TERSE, USAGE
from training import TrainCase


class CompareCase(TrainCase):
    def words(self, *more, methods="dense;signum;def:ratio=4", out="cmp"):
        return ("compare", *self.small, "--workers", "2", "--methods", methods, "--out",
                self.path(out), *more)

    def times(self, out="cmp"):
        """Of everything in the folders of members: a member that is run again changes some."""
        found = {}
        for folder, _, files in os.walk(self.path(out)):
            for name in files:
                path = os.path.join(folder, name)
                if name != "report.html":
                    found[path] = os.stat(path).st_mtime_ns
        return found

    def start(self, words):
        process = subprocess.Popen([TERSE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process


class Compare(CompareCase):
    def test_table_and_page(self):
        done = self.terse(*self.words("--steps", "8", "--target", "0.1", "--evaluate-every", "2"))
        text = done.stdout.decode()
        for word in ("method", "accuracy %", "loss", "bytes/step", "compression ratio", "seconds",
                     "s to 10.0 %", "bytes to it", "dense", "signum", "def:ratio=4"):
            self.assertIn(word, text)
        self.assertIn("page: " + self.path("cmp/report.html"), done.stderr.decode())
        page = self.read("cmp/report.html")
        for word in (b"<html", b"signum", b"def:ratio=4"):
            self.assertIn(word, page)

    def test_ascii(self):
        text = self.text(*self.words("--steps", "2", "--ascii", "-q"))
        text.encode("ascii")

    def test_json(self):
        result = self.json(*self.words("--steps", "6", "--json", "-q"))
        self.assertEqual((result["model"], result["data"]), ("logistic", self.images))
        dense, signum, ef = result["members"]
        self.assertEqual((dense["method"], signum["method"], ef["method"]),
                         ("dense", "signum", "def:ratio=4"))
        # an embedded vote frame weighs something in 1,450 weights; the ratio is still large
        self.assertGreater(signum["compression_ratio"], 5)
        self.assertAlmostEqual(dense["compression_ratio"], 1, delta=0.1)
        self.assertIsNone(dense["seconds_to_target"])
        # the same numbers as a training alone
        alone = self.train("--workers", "2", "--steps", "6", "--method", "signum")
        self.assertEqual((signum["loss"], signum["accuracy"]), (alone["loss"], alone["accuracy"]))
        self.assertEqual(signum["bytes_per_step"] * 6, alone["bytes_sent"])

    def test_seeds_have_a_spread(self):
        words = self.words("--steps", "4", "--seeds", "3", "-q", methods="dense;signum")
        text = self.text(*words)
        self.assertEqual(len(re.findall(r"\d+\.\d\d \+- \d+\.\d\d", text)), 2)
        members = self.json(*words, "--json")["members"]
        self.assertEqual([m["seed"] for m in members], [1, 2, 3] * 2)
        mean = 100 * sum(m["accuracy"] for m in members[:3]) / 3
        self.assertIn("%.2f +- " % mean, text)
        self.assertEqual(len({m["loss"] for m in members}), 6)

    def test_numbers_have_no_accuracy(self):
        text = self.text("compare", "--data", "regression", "--methods", "dense;signum", "--steps",
                         "3", "-q", "--out", self.path("cmp"))
        self.assertNotIn("nan", text)

    def test_a_target_that_nobody_reached(self):
        result = self.json(*self.words("--steps", "2", "--json", "-q", "--target", "1"))
        self.assertEqual([m["bytes_to_target"] for m in result["members"]], [None] * 3)


class Sweeps(CompareCase):
    """Grids of learning rates, chosen on held-out examples; two methods judged seed by seed."""
    METHODS = "dense:lr={0.01,0.1,10};topk:keep={0.5,0.1},lr={0.01,0.05};signum:lr=0.001"

    def sweep(self, *more, **keys):
        return self.json(*self.words("--steps", "30", "--seeds", "3", "--json", "-q", *more,
                                     methods=self.METHODS, **keys))

    def test_the_best_rate_of_held_out_examples(self):
        found = self.sweep()
        self.assertEqual([len(one["rates"]) for one in found["tuned"]], [3, 2, 2])
        for one in found["tuned"]:
            best = max(one["rates"], key=lambda rate: rate["accuracy"])
            self.assertEqual(one["lr"], best["lr"])
            self.assertIn("lr=%g" % one["lr"], one["method"])
            ends = (min(r["lr"] for r in one["rates"]), max(r["lr"] for r in one["rates"]))
            self.assertEqual(one["at_grid_end"], one["lr"] in ends)
        chosen = [one["method"] for one in found["tuned"]] + ["signum:lr=0.001"]
        self.assertEqual([one["method"] for one in found["methods"]], chosen)
        self.assertEqual([one["method"] for one in found["members"]],
                         [method for method in chosen for _ in range(3)])
        # The accuracy of the grid is that of a training alone with --validation, the seed the first.
        rate = found["tuned"][0]["rates"][1]
        alone = self.train("--workers", "2", "--steps", "30", "--validation", "0.1", "--method",
                           "dense:lr=0.1")
        self.assertEqual(rate["accuracy"], alone["accuracy"])
        # ... and of the table that of one without.
        member = found["members"][4]
        alone = self.train("--workers", "2", "--steps", "30", "--seed", "2", "--method",
                           member["method"])
        self.assertEqual((member["seed"], member["accuracy"]), (2, alone["accuracy"]))

    def test_killed_in_the_grid_and_finished(self):
        whole = self.sweep(out="whole")
        words = self.words("--steps", "30", "--seeds", "3", "--json", "-q", methods=self.METHODS)
        for folder in ("cmp/tune/dense-lr-10-seed1", "cmp/tune/topk-keep-0.1-lr-0.01-seed1"):
            process = self.start(words)
            deadline = time.monotonic() + 60
            while not os.path.exists(self.path(folder)) and time.monotonic() < deadline:
                time.sleep(0.005)
            self.stop(process, signal.SIGKILL)
        rest = self.json(*words)
        keys = ("method", "seed", "accuracy", "loss")
        self.assertEqual([[m[key] for key in keys] for m in rest["members"]],
                         [[m[key] for key in keys] for m in whole["members"]])
        self.assertEqual(rest["tuned"], whole["tuned"])

    def test_a_table_for_people(self):
        done = self.terse(*self.words("--steps", "10", "--seeds", "2", "--tune-epochs", "1",
                                      methods="dense:lr={0.01,0.1};signum"))
        text, notes = done.stdout.decode(), done.stderr.decode()
        self.assertIn("learning rates, on held-out examples", text)
        self.assertRegex(text, r"dense:lr=0\.01? +\d+\.\d\d  yes")
        self.assertRegex(text, r"signum against dense:lr=0\.\d+, 2 seeds: accuracy [+-]\d+\.\d\d "
                               r"points \(95 % interval [+-]\d.*\), paired t-test p = ")
        self.assertRegex(notes, r"the best rate, 0\.\d+, is at an end of its grid")
        self.assertIn("6 of 6, about", notes)
        self.assertIn("seed 2, signum: ", notes)
        self.assertIn("validation loss", notes)
        self.assertFalse([line for line in text.splitlines() if line.endswith(" ")])

    def test_aggregates(self):
        found = self.sweep()
        for i, one in enumerate(found["methods"]):
            values = [m["accuracy"] for m in found["members"][3 * i:3 * i + 3]]
            self.assertAlmostEqual(one["accuracy_mean"], statistics.mean(values))
            self.assertAlmostEqual(one["accuracy_deviation"], statistics.stdev(values))
        self.assertNotIn("paired", found["methods"][0])
        pair = found["methods"][3]["paired"]
        a, b = ([m["accuracy"] for m in found["members"][k:k + 3]] for k in (9, 0))
        differences = [x - y for x, y in zip(a, b)]
        error = statistics.stdev(differences) / 3 ** 0.5
        mean = statistics.mean(differences)
        self.assertAlmostEqual(pair["difference"], mean)
        self.assertAlmostEqual(pair["high"], mean + 4.302653 * error, places=6)  # t of 2 degrees
        t = abs(mean) / error
        self.assertAlmostEqual(pair["p"], 1 - t / (2 + t * t) ** 0.5)  # closed form of 2 degrees

    def test_braces_that_are_wrong(self):
        for methods, reason in (("dense:lr={0.1", "not closed"), ("dense:lr={0.1,}", "is empty"),
                                ("dense:{lr=1}", "braces hold"), ("dense:lr=0.1}", "braces hold"),
                                ("dense:lr={{1}}", "braces hold"), ("dense:lr={}", "is empty"),
                                ("dense:lr={0.1,-3}", "lr"),
                                (";".join(["dense:lr={%s}" % ",".join(["1"] * 99)] * 11), "1024")):
            with self.subTest(methods=methods[:40]):
                text = self.error(*self.words("--steps", "3", methods=methods), expect=USAGE)
                self.assertIn(reason, text)
                self.assertFalse(os.path.exists(self.path("cmp")))


class GoesOn(CompareCase):
    def test_finished_members_are_not_run_again(self):
        words = self.words("--steps", "5", "--json", "-q")
        first = self.json(*words)
        before = self.times()
        self.assertEqual(self.json(*words), first)
        self.assertEqual(self.times(), before)
        more = self.json(*self.words("--steps", "5", "--json", "-q",
                                     methods="dense;signum;def:ratio=4;qadam"))
        self.assertEqual(more["members"][:3], first["members"])
        self.assertEqual({path: time for path, time in self.times().items() if path in before},
                         before)

    def test_a_member_that_diverges_does_not_end_the_others(self):
        words = ("compare", "--data", "regression", "--workers", "2", "--steps", "300", "--out",
                 self.path("cmp"), "--methods", "dense:lr=20;dense:lr=0.01", "-q")
        done = self.terse(*words)
        self.assertRegex(done.stderr.decode(), r"dense:lr=20.*: step \d+: .* not finite")
        wild, calm = [line for line in done.stdout.decode().splitlines() if "dense:lr" in line][:2]
        self.assertIn("diverged", wild)
        self.assertNotIn("diverged", calm)
        self.assertNotIn("nan", done.stdout.decode())
        before = self.times()
        members = self.json(*words, "--json")["members"]
        self.assertEqual([m["status"] for m in members], ["diverged", "finished"])
        self.assertIsNone(members[0]["loss"])
        self.assertEqual(self.times(), before)  # neither is run again
        self.assertIn(b'"diverged"', self.read("cmp/report.html"))

    def test_killed_and_stopped(self):
        """kill -9 and SIGTERM in the middle of the second member: the result is that of a run that
        was left alone."""
        length = ("--steps", "4000", "--evaluate-every", "4000", "--json", "-q")
        methods = "dense;def:ratio=4"
        whole = self.json(*self.words(*length, methods=methods, out="alone"))["members"]
        for number in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(signal=number):
                out = "cmp%d" % number
                words = self.words(*length, "--checkpoint-every", "20", methods=methods, out=out)
                process = self.start(words)
                member = out + "/def-ratio-4-seed1"
                self.wait_for_checkpoint(member, process)
                _, err = self.stop(process, number)
                self.assertLess(self.checkpoints(member)[-1], 4000)
                first = self.times(out + "/dense-seed1")
                if number == signal.SIGTERM:
                    self.assertEqual(process.returncode, REQUEUE)
                    self.assertIn("the same command continues", err)
                rest = self.json(*words)["members"]
                for a, b in zip(rest, whole):
                    self.assertEqual((a["loss"], a["accuracy"], a["bytes_per_step"]),
                                     (b["loss"], b["accuracy"], b["bytes_per_step"]))
                self.assertEqual(self.times(out + "/dense-seed1"), first)
                self.assert_monotone(member)

    def test_a_member_killed_before_its_first_checkpoint_begins_again(self):
        self.json(*self.words("--steps", "5", "--json", "-q", methods="dense"))
        os.remove(self.checkpoint("cmp/dense-seed1", 5))
        lines = self.read("cmp/dense-seed1/metrics.jsonl").splitlines(True)
        self.write("cmp/dense-seed1/metrics.jsonl", b"".join(lines[:3]))
        self.json(*self.words("--steps", "5", "--json", "-q", methods="dense"))
        self.assert_monotone("cmp/dense-seed1")

    def test_another_comparison_is_refused(self):
        """The same folder with other settings: their results would be taken for these."""
        self.json(*self.words("--steps", "5", "--json", "-q"))
        before = self.times()
        for more, name in ((("--steps", "6"), "steps"), (("--batch", "4", "--steps", "5"), "batch"),
                           (("--augment", "--steps", "5"), "augment"),
                           (("--lr", "0.3", "--steps", "5"), "method")):
            with self.subTest(more=more):
                text = self.error(*self.words("-q", *more))
                self.assertIn("holds a run with another %s" % name, text)
        self.assertEqual(self.times(), before)


class Refused(CompareCase):
    def test_a_bad_member_before_anything_is_trained(self):
        for methods, reason in (("dense;topkk", "topkk"), ("dense;topk:keep=7", "keep"),
                                ("dense;;signum", "empty"), ("", "empty"), ("dense;", "empty")):
            with self.subTest(methods=methods):
                text = self.error(*self.words("--steps", "3", methods=methods), expect=USAGE)
                self.assertIn(reason, text)
                self.assertFalse(os.path.exists(self.path("cmp")))

    def test_usage(self):
        for words, reason in (((), "--methods"), (("--methods", "dense", "--resume", "x"), "it continues"),
                              (("--methods", "dense", "--method", "dense"), "--methods"),
                              (("--methods", "dense", "-v"), "for terse train"),
                              (("--methods", "dense", "--seeds", "0"), "--seeds")):
            with self.subTest(words=words):
                self.assertIn(reason, self.error("compare", *words, expect=USAGE))

    def test_input(self):
        text = self.error("compare", "--methods", "dense;signum", "--data", "regression", "--model",
                          "cnn", "--steps", "1", "--out", self.path("cmp"))
        self.assertIn("reads images", text)


class Live(CompareCase):
    def test_an_occupied_port_is_refused_before_training(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            for words in (("train", *self.small, "--out", self.path("run")), self.words()):
                text = self.error(*words, "--steps", "3", "--live", port, "-q")
                self.assertIn(port, text)
        self.assertEqual(os.listdir(self.folder), [])

    def watch(self, words, runs):
        """Reads the page and its events while it trains; closes after `runs` runs have begun."""
        process = subprocess.Popen([TERSE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        port = None
        while port is None:
            line = process.stderr.readline().decode()
            self.assertTrue(line, "it ended without a page")
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            port = int(found.group(1)) if found else None
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        link.request("GET", "/")
        self.assertIn(b"<html", link.getresponse().read())
        link.request("GET", "/events")
        answer = link.getresponse()
        seen = []
        while sum(line["kind"] == "run" for line in seen) < runs or seen[-1]["kind"] != "step":
            text = answer.readline()
            self.assertTrue(text, "the events ended")
            if text.startswith(b'data: {"'):  # hello and bye have none
                seen.append(json.loads(text[6:]))
        link.close()  # the reader is gone, training continues
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, OK, err.decode())
        return json.loads(out), seen

    def test_train(self):
        words = ("--workers", "2", "--steps", "600", "--evaluate-every", "600")
        result, seen = self.watch(("train", *self.small, *words, "--live", "0", "--json"), 1)
        self.assertEqual(seen[0]["kind"], "run")
        self.assertEqual(seen[-1]["kind"], "step")
        self.assertEqual(result["weights_hash"], self.train(*words)["weights_hash"])

    def test_compare_has_one_page_for_all_members(self):
        words = self.words("--steps", "400", "--evaluate-every", "400", "--live", "0", "--json")
        result, seen = self.watch(words, 2)
        methods = [line["method"] for line in seen if line["kind"] == "run"]
        self.assertEqual(methods[1].split(":")[0], "signum")
        self.assertEqual(len(result["members"]), 3)


if __name__ == "__main__":
    unittest.main()
