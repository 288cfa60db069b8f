#!/usr/bin/env python3
"""terse report: what goes into the page, and what becomes of files that are not as they should be."""
import json
import os
import time
import unittest

import make_runs
from support import MARKUP, Case, data_of


class Report(Case):
    def test_one_file_without_addresses(self):
        html, notes = self.page(*self.runs("dense", "def:ratio=64"))
        self.assertEqual(notes, "")
        self.assertNotRegex(html, r'(src|href)="(?!data:)')
        self.assertNotIn("@import", html)
        addresses = {word for word in html.split('"') if word.startswith(("http:", "https:"))}
        self.assertLessEqual(addresses, {"http://www.w3.org/2000/svg"})  # a name, not a place
        data = data_of(html)
        self.assertEqual([run["method"] for run in data["runs"]], ["dense", "def:ratio=64"])
        self.assertNotIn("residual_norm", data["runs"][0])
        self.assertIn("residual_norm", data["runs"][1])

    def test_sums(self):
        folder, = self.runs("dense", steps=300, every=10)
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        run = data_of(self.page(folder)[0])["runs"][0]
        steps = [line for line in lines if line["kind"] == "step"]
        self.assertEqual(run["clock"]["step"], [line["step"] for line in steps])
        self.assertAlmostEqual(run["clock"]["bytes"][-1], sum(10 * s["bytes_sent"] for s in steps))
        work = sum(10 * (sum(s["stages"].values()) - s["stages"]["group"]) for s in steps)
        self.assertAlmostEqual(run["clock"]["work"][-1], work, places=5)
        self.assertEqual(run["loss"]["value"], [line["loss"] for line in steps])
        self.assertEqual(run["evaluations"]["accuracy"],
                         [line["accuracy"] for line in lines if line["kind"] == "evaluation"])
        self.assertEqual(run["end"]["status"], "finished")

    def test_eight_long_runs_stay_small(self):
        folders = self.runs(*[row[0] for row in make_runs.METHODS], steps=10000, every=1)
        began = time.monotonic()
        html, _ = self.page(*folders)
        print("8 runs of 10,000 steps: %d bytes in %.2f s" % (len(html), time.monotonic() - began))
        self.assertLess(len(html), 2_000_000)
        for run in data_of(html)["runs"]:
            self.assertLessEqual(len(run["loss"]["step"]), 1000)
            self.assertEqual(run["clock"]["step"][-1], 10000)
            self.assertEqual(run["loss"]["step"][-1], 10000)

    def test_a_sweep_stays_small(self):
        folders = [make_runs.write_run(self.path(f"seed-{seed}"), (f"{one[0]},lr={lr}", *one[1:]), 4000, 2, seed)
                   for one in make_runs.METHODS[2:8] for lr in (1, 2, 3) for seed in (1, 2, 3)]
        html, _ = self.page(*folders)
        print("54 runs of 2,000 lines: %d bytes" % len(html))
        self.assertLess(len(html), 2_000_000)
        runs = data_of(html)["runs"]
        self.assertEqual(len(runs), 54)
        self.assertEqual(runs[0]["settings"], runs[53]["settings"])
        for run in runs:
            self.assertGreaterEqual(len(run["loss"]["step"]), 100)
            self.assertEqual(run["loss"]["step"][-1], 4000)

    def test_truncated(self):
        folder, = self.runs("dense", steps=300, every=10)
        path = os.path.join(folder, "metrics.jsonl")
        with open(path, "rb") as file:
            lines = file.read().splitlines(keepends=True)
        with open(path, "wb") as file:
            file.write(b"".join(lines[:20]) + lines[20][:37])
        html, notes = self.page(folder)
        self.assertIn("line 21 is not a complete JSON object", notes)
        run = data_of(html)["runs"][0]
        self.assertIn("line 21", run["notes"][0])
        self.assertNotIn("end", run)
        good = [json.loads(line) for line in lines[:20]]
        self.assertEqual(run["clock"]["lines"], sum(line["kind"] == "step" for line in good))

    def test_mixed(self):
        first, second = self.runs("dense", "signum", steps=300, every=10)
        with open(os.path.join(second, "metrics.jsonl"), "rb") as file:
            other = file.read()
        with open(os.path.join(first, "metrics.jsonl"), "ab") as file:
            file.write(other)
        _, notes = self.page(first)
        self.assertIn("follows the end of the run", notes)

    def test_not_utf8_and_binary(self):
        folder, = self.runs("dense", steps=30, every=10)
        with open(os.path.join(folder, "metrics.jsonl"), "ab") as file:
            file.write(bytes(range(256)) * 4)
        with open(os.path.join(folder, "run.json"), "wb") as file:
            file.write(b'{"format":1,"method":"\xff\xfe"}')
        html, _ = self.page(folder)
        self.assertEqual(data_of(html)["runs"][0]["method"], "\ufffd\ufffd")

    def test_markup_is_text(self):
        folder, = self.runs("dense", steps=30, every=10)
        about = make_runs.about(MARKUP, 1)
        about["command"] = MARKUP
        about["train"] = MARKUP
        with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
            json.dump(about, file)
        html, _ = self.page(folder)
        self.assertNotIn("<img", html)
        self.assertEqual(html.count("</script>"), 2)
        self.assertEqual(data_of(html)["runs"][0]["command"], MARKUP)

    def test_no_run_json(self):
        folder, = self.runs("dense", steps=30, every=10)
        os.unlink(os.path.join(folder, "run.json"))
        html, notes = self.page(folder)
        self.assertIn("run.json", notes)
        self.assertEqual(data_of(html)["runs"][0]["name"], "dense")

    def test_a_folder_that_is_no_run_is_left_out(self):
        good, = self.runs("dense", steps=30, every=10)
        html, notes = self.page(good, self.path("nothing"))
        self.assertIn("left out", notes)
        self.assertIn("left out", data_of(html)["notes"][0])
        _, notes = self.terse(self.path("nothing"), expect=1)
        self.assertIn("no run could be read", notes)

    def test_what_stood_there_stays(self):
        good, = self.runs("dense", steps=30, every=10)
        self.terse(good, "-o", self.path("no/such/folder.html"), expect=1)
        with open(self.path("report.html"), "w", encoding="utf-8") as file:
            file.write("mine")
        self.terse(self.path("nothing"), "-o", self.path("report.html"), expect=1)
        with open(self.path("report.html"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")

    def test_usage(self):
        self.terse(expect=2)
        self.terse("x", "--chart", "-o", "y", expect=2)
        self.terse("x", "--ascii", expect=2)
        self.terse("x", "--chart", "--width", "7", expect=2)
        self.terse("x", "--nonsense", expect=2)

    def test_charts(self):
        folders = self.runs("dense", "signum", steps=300, every=10)
        out, _ = self.terse(*folders, "--chart", "--width", "90")
        self.assertIn("\u2800" < max(out) and "accuracy against bytes per step", out)
        self.assertTrue(any("\u2800" < letter <= "\u28ff" for letter in out))
        self.assertLessEqual(max(map(len, out.splitlines())), 90)
        out, _ = self.terse(*folders, "--chart", "--ascii")
        self.assertTrue(out.isascii())
        self.assertIn("dense", out)


if __name__ == "__main__":
    unittest.main()
