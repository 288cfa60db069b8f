"""`terse compare`: one table of several trainings, which continues where it stopped; and the live page."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import unittest

from support import OK, REFUSED, REQUEUE, TERSE, USAGE
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

    def start(self, words):
        process = subprocess.Popen([TERSE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    def test_killed_and_stopped(self):
        """kill -9 and SIGTERM in the middle of the second member: the result is that of a run that
        was left alone."""
        length = ("--steps", "800", "--evaluate-every", "800", "--json", "-q")
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
                self.assertLess(self.checkpoints(member)[-1], 800)
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
