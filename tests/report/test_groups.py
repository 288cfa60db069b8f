#!/usr/bin/env python3
"""Groups of seeds, zoom, export and narrow screens: the report in a real browser."""
import csv
import io
import json
import os
import statistics
import sys
import time
import unittest
import xml.etree.ElementTree

import make_runs
from browser import why_absent
from pages import OVERLAPS, ReportPage, choose_axis
from support import row


class Seeds(ReportPage):
    """Two methods, one of them with two values of an option, three seeds each."""

    def setUp(self):
        super().setUp()
        self.rows = [row("dense"), row("topk:keep=0.01"), ("topk:keep=0.001", 600.0, *row("topk:keep=0.01")[2:])]
        self.folders = [make_runs.write_run(self.path(f"seed-{seed}"), one, 600, 10, seed)
                        for one in self.rows for seed in (1, 2, 3)]
        self.show(self.folders)

    def accuracies(self, group):
        return [self.lines(3 * group + i, "end")[0]["accuracy"] for i in range(3)]

    def cells(self, row_index):
        return self.browser.run("""return [...document.querySelectorAll("#summary tbody tr")[arguments[0]].children]
            .map((cell) => cell.textContent.trim())""", row_index)

    def test_seeds_are_one_group(self):
        names = "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)"
        expected = ["dense", "topk keep=0.01", "topk keep=0.001"]
        self.assertEqual(self.browser.run(names, "#legend button"), expected)
        self.assertEqual(self.browser.run(names, "#summary tbody .label"), expected)
        self.assertEqual(sorted(self.browser.run(names, ".mark-label")), sorted(expected))
        self.assertEqual(self.browser.text("#subtitle"), "9 runs of 3 groups · cnn on fashion · 4 workers")
        self.assertEqual(set(self.paths("loss")), {"0", "1", "2"})
        for plot in ("accuracy", "loss", "tradeoff"):
            self.assertEqual(self.browser.run("return document.querySelectorAll(`#${arguments[0]} path[data-band]`).length", plot), 3)
        strokes = self.browser.run("""return [...document.querySelectorAll("#loss path[data-group]")]
            .map((path) => [path.style.stroke, path.getAttribute("stroke-dasharray")])""")
        self.assertEqual(strokes[1][0], strokes[2][0])  # one method, one colour
        self.assertNotEqual(strokes[1][1], strokes[2][1])
        self.assertNotEqual(strokes[0][0], strokes[1][0])

    def test_mean_and_deviation(self):
        values = self.accuracies(1)
        mean, deviation = statistics.mean(values), statistics.stdev(values)
        self.assertEqual(self.cells(1)[1], "%.2f %% ± %.2f" % (100 * mean, 100 * deviation))
        losses = [self.lines(3 + i, "end")[0]["loss"] for i in range(3)]
        self.assertEqual(self.cells(1)[2], "%.4f ± %.4f" % (statistics.mean(losses), statistics.stdev(losses)))
        shown = self.hover("test-loss", 1, 2)
        at = [self.lines(3 + i, "evaluation")[2]["loss"] for i in range(3)]
        self.assertIn("topk keep=0.01%.4f%.4f to %.4f" % (statistics.mean(at), min(at), max(at)), shown)

    def test_best_is_by_the_mean(self):
        """The luckiest seed of the method that is worse on average is not the best."""
        for index, losses in enumerate([(0.3, 0.3, 0.3), (0.1, 0.6, 0.6), (0.5, 0.5, 0.5)]):
            for seed, loss in enumerate(losses):
                path = os.path.join(self.folders[3 * index + seed], "metrics.jsonl")
                with open(path, encoding="utf-8") as file:
                    lines = [json.loads(line) for line in file]
                lines[-1]["loss"] = loss
                with open(path, "w", encoding="utf-8") as file:
                    file.write("".join(json.dumps(line) + "\n" for line in lines))
        self.show(self.folders)
        best = self.browser.run("""return [...document.querySelectorAll("#summary tbody tr")]
            .map((row) => row.children[2].classList.contains("best"))""")
        self.assertEqual(best, [True, False, False])
        self.browser.click("#summary th[data-key=loss] button")
        self.assertEqual([self.cells(i)[2].split()[0] for i in range(3)], ["0.3000", "0.4333", "0.5000"])
        self.assertEqual(self.browser.run("return document.querySelector('#summary th[data-key=loss]').ariaSort"), "ascending")
        self.browser.click("#summary th[data-key=loss] button")
        self.assertEqual([self.cells(i)[2].split()[0] for i in range(3)], ["0.5000", "0.4333", "0.3000"])

    def test_seeds_unfold(self):
        self.browser.click("#summary button.unfold[data-group='1']")
        rows = "return [...document.querySelectorAll('#summary tr.seed .label')].map((node) => node.textContent)"
        self.assertEqual(self.browser.run(rows), ["seed 1", "seed 2", "seed 3"])
        thin = "return document.querySelectorAll('#loss path.thin').length"
        self.assertEqual(self.browser.run(thin), 3)
        self.browser.click("#seeds")
        self.assertEqual(self.browser.run(thin), 9)
        self.assertEqual(self.browser.run(OVERLAPS), [])
        self.browser.click("#seeds")
        self.assertEqual((self.browser.run(thin), self.browser.run(rows)), (0, []))

    def test_a_seed_that_diverged_is_not_left_out(self):
        path = os.path.join(self.folders[4], "metrics.jsonl")
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file][:30]
        lines.append({"kind": "end", "status": "diverged", "step": 250, "loss": None})
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
        self.show(self.folders)
        self.assertEqual(self.cells(1)[1], "– 2 of 3")
        self.assertIn("seed 2 diverged", self.cells(1)[0])

    def test_drag_zooms(self):
        before = self.paths("loss")
        self.browser.run("document.querySelector('#loss').scrollIntoView({block: 'center'})")
        box = self.browser.box("#loss .chart")
        ticks = "return [...document.querySelectorAll('#loss text')].map((node) => node.textContent)"
        self.assertIn("200", self.browser.run(ticks))
        left, top = box["x"] + box["width"] * 0.5, box["y"] + 60
        self.browser.drag((left, top), (left + box["width"] * 0.25, top + 5))
        self.assertNotEqual(self.paths("loss"), before)
        self.assertNotIn("200", self.browser.run(ticks))
        self.assertEqual(self.browser.run("return document.querySelector('#loss .reset').hidden"), False)
        self.assertEqual(self.browser.run(OVERLAPS), [])
        self.browser.pointer(left, top, 2)
        self.assertEqual(self.paths("loss"), before)
        self.browser.drag((left, top), (left - box["width"] * 0.25, top + 80))  # both axes
        self.assertNotEqual(self.paths("loss"), before)
        self.browser.click("#loss .reset")
        self.assertEqual(self.paths("loss"), before)
        self.browser.drag((left, top), (left + box["width"] * 0.25, top))
        choose_axis(self.browser, "bytes")  # another axis: the place has no meaning there
        self.assertEqual(self.browser.run("return document.querySelector('#loss .reset').hidden"), True)

    def saved(self, selector, name):
        path = self.path(name)
        self.browser.save_to(self.folder)
        self.browser.click(selector)
        end = time.monotonic() + 20
        while not (os.path.exists(path) and os.path.getsize(path) > 0) and time.monotonic() < end:
            time.sleep(0.1)
        with open(path, "rb") as file:
            return file.read()

    def test_export(self):
        self.allowed += ("blob:",)
        self.browser.prefer("dark")
        svg = self.saved("#accuracy .save:nth-of-type(3)", "terse-accuracy.svg").decode()
        root = xml.etree.ElementTree.fromstring(svg)
        texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
        for text in ("accuracy (%)", "steps", "dense", "topk keep=0.01"):
            self.assertIn(text, texts)
        self.assertNotRegex(svg, r'var\(|class=|style=|href')
        self.assertIn("rgb(0, 119, 187)", svg)  # the colour of the light page
        self.assertEqual(self.saved("#accuracy .save:nth-of-type(4)", "terse-accuracy.png")[:8], b"\x89PNG\r\n\x1a\n")
        text = self.saved("#accuracy .save:nth-of-type(5)", "terse-accuracy.csv").decode()
        points = list(csv.DictReader(io.StringIO(text)))
        evaluations = [line for i in range(9) for line in self.lines(i, "evaluation")]
        self.assertEqual([float(point["accuracy"]) for point in points], [line["accuracy"] for line in evaluations])
        self.assertEqual(points[0]["name"], "dense")
        self.assertEqual({point["seed"] for point in points}, {"1", "2", "3"})
        groups = list(csv.DictReader(io.StringIO(self.saved("#save-summary", "terse-summary.csv").decode())))
        self.assertEqual([group["seeds"] for group in groups], ["3", "3", "3"])
        self.assertAlmostEqual(float(groups[1]["accuracy"]), statistics.mean(self.accuracies(1)), places=6)
        self.assertGreater(float(groups[1]["loss_deviation"]), 0)

    def test_narrow(self):
        self.browser.resize(390, 844)
        time.sleep(0.3)
        for index in (1, 2, 8):
            box = self.browser.box(f"#summary tbody tr:first-child > :nth-child({index + 1})")
            self.assertGreaterEqual(box["x"], 0)
            self.assertLessEqual(box["x"] + box["width"], 390)
            self.assertGreater(box["width"], 40)
        self.assertEqual(self.browser.run(OVERLAPS), [])
        self.browser.run("""const sort = document.querySelector("#sort");
            sort.value = "loss up"; sort.dispatchEvent(new Event("change"))""")
        losses = [float(self.cells(i)[2].split()[0]) for i in range(3)]
        self.assertEqual(losses, sorted(losses))
        self.assertTrue(self.browser.run("return document.querySelector('#sort').offsetWidth > 0"))
        self.shot("report-390")

    def test_the_target_is_the_one_asked_for(self):
        for folder in self.folders:
            with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
                about = json.load(file)
            about.update(command="terse compare --methods 'dense;topk' --target 0.75", target=0)
            with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
                json.dump(about, file)
        self.show(self.folders)
        self.assertEqual(self.browser.run("return document.querySelector('#target').value"), "75")
        self.assertIn("time to 75 %", self.browser.text("#summary thead"))
        # what they share is listed once, each run has its own command
        shared = self.browser.run("return [...document.querySelectorAll('#commands .shared pre')].map((node) => node.textContent)")
        self.assertEqual(shared, [about["command"]])
        self.assertIn("--seed 1", self.browser.text("#commands .command:nth-child(2) pre"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('#commands pre').length"), 10)


class Names(ReportPage):
    """The page and the tables call a run the same: one table of cases for both rules."""

    def write(self, index, run):
        run = dict(run)
        name = run.pop("folder", f"run-{index}")
        folder = make_runs.write_run(self.path(str(index)), row("dense"), 20, 10, 1)
        with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
            json.dump({"format": 1, "seed": 1, **run}, file)
        os.rename(folder, os.path.join(os.path.dirname(folder), name))
        return os.path.join(os.path.dirname(folder), name)

    def test_the_page_and_the_tables_have_one_rule(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "names.json"), encoding="utf-8") as file:
            cases = json.load(file)
        self.assertGreater(len(cases), 10)
        top = self.folder
        for number, case in enumerate(cases):
            with self.subTest(case["about"]):
                self.folder = os.path.join(top, f"case-{number}")
                folders = [self.write(i, run) for i, run in enumerate(case["runs"])]
                text, _ = self.terse(*folders, "--csv", "-")
                rows = list(csv.DictReader(io.StringIO(text)))
                self.assertEqual(sorted({(one["run"], one["name"]) for one in rows}),
                                 sorted({(os.path.basename(f), name) for f, name in zip(folders, case["names"])}))
                self.show(folders)
                shown = "return [...document.querySelectorAll('#legend button')].map((node) => node.textContent)"
                self.assertEqual(self.browser.run(shown), list(dict.fromkeys(case["names"])))
        self.allowed = ("file://" + top,)


class Composed(ReportPage):
    """Composed specs go by their codec, also by one of a plugin, which the page does not load."""

    def test_names(self):
        base = row("topk:keep=0.01")
        specs = ("codec=topk:keep=0.01,feedback=residual", "codec=mine:p=2,feedback=residual",
                 "codec=mine:p=3,feedback=residual", "codec=log:k=1,feedback=residual",
                 "codec=log:k=2,feedback=residual")
        self.folders = [make_runs.write_run(self.path(f"run-{i}"), (spec, 600.0 + i, *base[2:]), 100, 10, 1)
                        for i, spec in enumerate(specs)]
        self.show(self.folders)
        names = "return [...document.querySelectorAll('#legend button')].map((node) => node.textContent)"
        self.assertEqual(self.browser.run(names), ["codec=topk", "codec=mine:p=2", "codec=mine:p=3",
                                                   "codec=log:k=1", "codec=log:k=2"])
        latex, _ = self.terse(*self.folders, "--latex", "-")
        for label in ("codec=topk", "codec=mine:p=3", "codec=log:k=1"):
            self.assertIn(label, latex)


if __name__ == "__main__":
    if why_absent():
        print("skip report/groups: " + why_absent())
        sys.exit(77)
    unittest.main()
