#!/usr/bin/env python3
"""terse report: what goes into the page, and what becomes of files that are not as they should be."""
import csv
import io
import json
import os
import re
import shutil
import statistics
import subprocess
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

    def test_tensors(self):
        """Names are written once for all runs of a network; bytes without them, or of others, are not."""
        other = [("only.weight", 1000)]
        folders = [*self.runs("dense", "signum", steps=20), make_runs.write_run(
            self.folder, ("topk:keep=0.5", *make_runs.METHODS[4][1:]), 20, tensors=other)]
        html, notes = self.page(*folders)
        self.assertEqual(notes, "")
        runs = data_of(html)["runs"]
        self.assertEqual(runs[0]["tensors"], [{"name": name, "count": count} for name, count in make_runs.TENSORS])
        self.assertEqual((runs[1]["tensors_of"], "tensors" in runs[1]), (0, False))
        self.assertEqual(runs[2]["tensors"], [{"name": "only.weight", "count": 1000}])
        for run, name in zip(runs, ("dense", "signum")):
            self.assertEqual(run["end"]["tensor_bytes"],
                             make_runs.tensor_bytes(next(row for row in make_runs.METHODS if row[0] == name), 20, 1, make_runs.TENSORS))

    def test_wrong_tensors(self):
        folder, = self.runs("dense", steps=20)
        path, about = os.path.join(folder, "metrics.jsonl"), make_runs.about("dense", 1)
        with open(path, encoding="utf-8") as file:
            *lines, end = map(json.loads, file)
        for wrong, words in (([1, 2], "another number of tensors"), (7, "not a list"), ([1] * 7 + [-1], "out of range"),
                             ([1] * 7 + ["8"], "another type")):
            with open(path, "w", encoding="utf-8") as file:
                file.write("".join(json.dumps(line) + "\n" for line in [*lines, {**end, "tensor_bytes": wrong}]))
            html, notes = self.page(folder)
            self.assertIn(words, notes)
            self.assertNotIn("end", data_of(html)["runs"][0])
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in [*lines, end]))
        for tensors, words in (([{"name": "a"}], "no name or no count"), ([1], "no name or no count"), ([], ""), (None, "")):
            with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
                json.dump({**about, "tensors": tensors}, file)
            html, notes = self.page(folder)
            self.assertIn(words, notes)
            self.assertNotIn("tensors", data_of(html)["runs"][0])
            self.assertEqual(data_of(html)["runs"][0]["end"]["status"], "finished")

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

    def seeds(self, *methods):
        """Three seeds of each; all but the name as in a sample."""
        return [make_runs.write_run(self.path(f"seed-{seed}"), (method, *make_runs.METHODS[1][1:]), 300, 10, seed)
                for method in methods for seed in (1, 2, 3)]

    def metrics(self, folder, kind):
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            return [line for line in map(json.loads, file) if line["kind"] == kind]

    def test_csv(self):
        folders = self.seeds("topk:keep=0.1,lr=0.5", "topk:keep=0.01,lr=0.5")
        out, _ = self.terse(*folders, "--csv", "-")
        rows = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual(list(rows[0]), ["run", "name", "method", "seed", "step", "seconds", "bytes", "loss", "accuracy"])
        lines = [line for folder in folders for line in self.metrics(folder, "evaluation")]
        for key, name in (("step", "step"), ("seconds", "seconds"), ("loss", "loss"), ("accuracy", "accuracy"),
                          ("bytes", "bytes_sent_total")):
            self.assertEqual([float(row[key]) for row in rows], [line[name] for line in lines])
        self.assertEqual({row["method"] for row in rows}, {"topk:keep=0.1,lr=0.5", "topk:keep=0.01,lr=0.5"})
        self.assertEqual({row["name"] for row in rows}, {"topk keep=0.1", "topk keep=0.01"})
        self.assertEqual({row["seed"] for row in rows}, {"1", "2", "3"})
        self.assertFalse(os.path.exists(self.path("report.html")))

    def test_latex(self):
        odd = "50%_of {it} & #1^2~\\x<y>|\"$"
        folders = self.seeds("topk:keep=0.1", odd)
        ends = [self.metrics(folder, "end")[0]["accuracy"] * 100 for folder in folders[:3]]
        self.terse(*folders, "--latex", self.path("table.tex"))
        with open(self.path("table.tex"), encoding="utf-8") as file:
            text = file.read()
        body = text[text.index("\\midrule\n") + 9:text.index("\\bottomrule")].splitlines()
        self.assertEqual(len(body), 2)
        self.assertIn("topk & 3 & $%.2f \\pm %.2f$" % (statistics.mean(ends), statistics.stdev(ends)), body[0])
        for line in body:  # six cells, and nothing in them that LaTeX takes for markup
            self.assertEqual(len(re.findall(r"(?<!\\)&", line)), 5)
            self.assertTrue(line.endswith(r" \\"))
        self.assertTrue(body[1].startswith(r"50\%\_of \{it\} \& \#1\textasciicircum{}2\textasciitilde{}\textbackslash{}x"
                                           r"\textless{}y\textgreater{}\textbar{}''\$ & 3 & "))
        if not shutil.which("pdflatex"):
            print("skip: there is no pdflatex; the table is not compiled")
            return
        with open(self.path("paper.tex"), "w", encoding="utf-8") as file:
            file.write("\\documentclass{article}\\usepackage{booktabs}\\begin{document}\\input{table.tex}\\end{document}\n")
        subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"],
                       cwd=self.folder, check=True, timeout=100, stdout=subprocess.DEVNULL)

    def test_tables_and_page_together(self):
        folders = self.seeds("dense")
        self.terse(*folders, "--csv", self.path("a.csv"), "--latex", self.path("a.tex"), "-o", self.path("a.html"))
        for name in ("a.csv", "a.tex", "a.html"):
            self.assertGreater(os.path.getsize(self.path(name)), 100)

    def test_seeds_share_a_chart(self):
        out, _ = self.terse(*self.seeds("topk:keep=0.1,lr=0.5", "topk:keep=0.01,lr=0.5"), "--chart", "--width", "80")
        self.assertEqual([line for line in out.splitlines() if "seeds" in line],
                         ["topk keep=0.1, 3 seeds", "topk keep=0.01, 3 seeds"])

    def test_names_have_the_settings_that_differ(self):
        folders = self.seeds("topk:keep=0.1")
        for folder, more in zip(folders, ({"epochs": 8, "steps": 300, "shard": "iid"}, {"epochs": 0, "steps": 60, "shard": "iid"},
                                          {"epochs": 8, "steps": 300, "shard": "range"})):
            with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
                about = json.load(file)
            with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
                json.dump({**about, **more}, file)
        out, _ = self.terse(*folders, "--csv", "-")
        names = [row["name"] for row in csv.DictReader(io.StringIO(out))]
        self.assertEqual(list(dict.fromkeys(names)), ["topk epochs=8 shard=iid", "topk steps=60 shard=iid", "topk epochs=8 shard=range"])

    def test_a_diverged_seed_leaves_no_mean(self):
        folders = self.seeds("dense")
        path = os.path.join(folders[1], "metrics.jsonl")
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()[:-1]
        lines.append('{"kind":"end","status":"diverged","step":300,"loss":null}')
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        out, _ = self.terse(*folders, "--latex", "-")
        self.assertIn("dense & 3 & diverged & --", out)

    def test_usage(self):
        self.terse("x", "--csv", "-", "--latex", "-", expect=2)
        self.terse("x", "--chart", "--csv", "y", expect=2)
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
