#!/usr/bin/env python3
"""The report and the live page in a real browser. TERSE_SCREENSHOTS=folder keeps pictures of them."""
import json
import os
import sys
import time
import unittest

import make_runs
from browser import why_absent
from pages import OVERLAPS, Page, ReportPage, choose_axis
from support import MARKUP, LiveServer, row

METHODS = ["dense", "def:ratio=64", "dqsgd:budget=4"]
PLOTS = ["accuracy", "loss", "tradeoff", "test-loss", "residual", "error", "bits"]


class Report(ReportPage):
    def setUp(self):
        super().setUp()
        self.folders = self.runs(*METHODS, steps=600, every=10)
        self.show(self.folders)

    def seconds_on_link(self, index, bits):
        steps = self.lines(index, "step")
        work = sum(10 * (sum(s["stages"].values()) - s["stages"]["group"]) for s in steps)
        return work + 8 * sum(10 * s["bytes_sent"] for s in steps) / bits

    def test_hover_shows_the_recorded_value(self):
        evaluation = self.lines(1, "evaluation")[2]
        shown = self.hover("accuracy", 1, 2)
        self.assertIn(f"at {evaluation['step']} steps", shown)
        for index, name in enumerate(("dense", "def", "dqsgd")):  # all runs at that step
            self.assertIn(name + "%.2f %%" % (100 * self.lines(index, "evaluation")[2]["accuracy"]), shown)
        self.assertEqual(self.browser.text("#accuracy .tip tr.chosen .who"), "def")
        choose_axis(self.browser, "bytes")
        shown = self.hover("accuracy", 1, 2)
        self.assertIn("at %.2f MB" % (evaluation["bytes_sent_total"] / 1e6), shown)
        choose_axis(self.browser, "seconds")
        shown = self.hover("accuracy", 1, 2)
        self.assertIn("at %.2f s" % evaluation["seconds"], shown)
        self.browser.pointer(3, 3)
        self.assertTrue(self.browser.run("return document.querySelector('#accuracy .tip').hidden"))

    def test_double_click_shows_one_alone(self):
        self.browser.click('#legend button[data-group="1"]', 2)
        self.assertEqual(set(self.paths("loss")), {"1"})
        time.sleep(0.7)  # the next click is a first one
        self.browser.click('#legend button[data-group="1"]', 2)
        self.assertEqual(set(self.paths("loss")), {"0", "1", "2"})
        self.browser.run("document.querySelector('#legend button[data-group=\"2\"]').focus()")
        self.browser.press("o")
        self.assertEqual(set(self.paths("loss")), {"2"})

    def test_legend_toggles_a_run_everywhere(self):
        self.assertEqual(set(self.paths("loss")), {"0", "1", "2"})
        self.browser.click('#legend button[data-group="1"]')
        for plot in ("loss", "accuracy", "test-loss"):
            self.assertEqual(set(self.paths(plot)), {"0", "2"})
        self.assertEqual(self.browser.run("return document.querySelectorAll('#summary tr.off').length"), 1)
        self.assertEqual(self.browser.run("return document.activeElement.dataset.group"), "1")
        self.browser.press("space")
        self.assertEqual(set(self.paths("loss")), {"0", "1", "2"})
        for run in "012":
            self.browser.click(f'#legend button[data-group="{run}"]')
        self.assertEqual(self.paths("loss"), {})
        self.assertIn("No run is shown", self.browser.text("#loss"))

    def test_slider_recomputes(self):
        choose_axis(self.browser, "seconds")
        before = self.paths("loss")
        self.browser.run("document.querySelector('#link').focus()")
        self.browser.press("home")
        self.assertEqual(self.browser.text("#link-speed"), "1 Mbit/s")
        self.assertTrue(self.browser.run("return document.querySelector('#axis input[value=link]').checked"))
        self.assertNotEqual(self.paths("loss"), before)
        for index in (0, 1):
            expected = self.seconds_on_link(index, 1e6)
            text = "%.2f min" % (expected / 60) if expected >= 120 else "%.1f s" % expected
            cells = self.browser.run("""return [...document.querySelectorAll("#summary tbody tr")]
                .map((row) => row.children[6].textContent)""")
            self.assertEqual(cells[index].split(" ")[-1], text.split(" ")[-1])
            self.assertAlmostEqual(float(cells[index].split()[0]) / float(text.split()[0]), 1, delta=0.01)
            last = len(self.lines(index, "evaluation")) - 1
            self.assertIn(f"at {cells[index]}", self.hover("accuracy", index, last))
        group = "return document.querySelector('#stages [data-stage=group]').title"
        slow = self.browser.run(group)
        self.browser.run("document.querySelector('#link').focus()")
        self.browser.press("end")
        self.assertEqual(self.browser.text("#link-speed"), "100 Gbit/s")
        self.assertIn("time at 100 Gbit/s", self.browser.text("#summary"))
        self.assertNotEqual(self.browser.run(group), slow)

    def test_keyboard_walks_along_the_points(self):
        self.browser.run("document.querySelector('#accuracy .save:last-child').focus()")
        self.browser.press("tab")
        self.assertTrue(self.browser.run("return document.activeElement === document.querySelector('#accuracy .chart')"))
        evaluations = self.lines(0, "evaluation")
        self.browser.press("home")
        self.assertIn("%.2f %%" % (100 * evaluations[0]["accuracy"]), self.browser.text("#accuracy .tip"))
        self.browser.press("right", "right")
        self.assertIn("%.2f %%" % (100 * evaluations[2]["accuracy"]), self.browser.text("#accuracy .tip"))
        self.browser.press("left")
        self.assertIn(f"at {evaluations[1]['step']} steps", self.browser.text("#accuracy .tip"))
        self.browser.press("down")
        shown = self.browser.text("#announce")
        self.assertIn("def: accuracy %.2f %%" % (100 * self.lines(1, "evaluation")[1]["accuracy"]), shown)
        self.browser.press("end", "up")
        self.assertIn("dense", self.browser.text("#accuracy .tip"))
        self.browser.press("escape")
        self.assertTrue(self.browser.run("return document.querySelector('#accuracy .tip').hidden"))

    def test_every_control_is_reached_by_tab(self):
        self.browser.run("document.body.focus()")
        seen = []
        for _ in range(80):
            self.browser.press("tab")
            seen.append(self.browser.run("""const at = document.activeElement;
                return at.id || at.name || at.className || at.tagName"""))
        for name in ("theme", "target", "save-summary", "axis", "link", "log-x", "smooth", "chart", "quiet log", "quiet save"):
            self.assertIn(name, seen)

    def test_log_axes(self):
        self.browser.click("#log-x")
        choose_axis(self.browser, "bytes")
        ticks = self.browser.run("return [...document.querySelectorAll('#loss svg text')].map((text) => text.textContent)")
        self.assertIn("10 MB", ticks)
        self.assertIn("100 MB", ticks)
        before = self.paths("loss")
        self.browser.click("#loss .log")
        self.assertEqual(self.browser.run("return document.querySelector('#loss .log').getAttribute('aria-pressed')"), "true")
        self.assertNotEqual(self.paths("loss"), before)
        self.assertNotIn("NaN", json.dumps(self.paths("loss")))

    def test_smoothing_can_be_switched_off(self):
        raw = "return document.querySelectorAll('#loss path.raw').length"
        self.show(self.runs("dense", steps=3000, every=10))
        self.assertEqual(self.browser.run(raw), 1)
        self.browser.click("#smooth")
        self.assertEqual(self.browser.run(raw), 0)

    def test_light_and_dark(self):
        ground = "return getComputedStyle(document.body).backgroundColor"
        light = self.browser.run(ground)
        self.browser.prefer("dark")
        dark = self.browser.run(ground)
        self.assertNotEqual(light, dark)
        self.browser.click("#theme")
        self.assertEqual((self.browser.text("#theme"), self.browser.run(ground)), ("light", light))
        self.browser.click("#theme")
        self.browser.prefer("light")
        self.assertEqual((self.browser.text("#theme"), self.browser.run(ground)), ("dark", dark))
        self.browser.click("#theme")

    def test_summary(self):
        end = self.lines(1, "end")[0]
        cells = self.browser.run("return [...document.querySelectorAll('#summary tbody tr')[1].children].map((cell) => cell.textContent.trim())")
        self.assertEqual(cells[0], "def")
        self.assertIn("def:ratio=64", self.browser.run("return document.querySelectorAll('#summary tbody th')[1].title"))
        self.assertEqual(cells[1], "%.2f %%" % (100 * end["accuracy"]))
        self.assertEqual(cells[2], "%.4f" % end["loss"])
        self.assertEqual(cells[4], "%.1f×" % 63.8)
        target = self.lines(1, "evaluation")[3]
        self.browser.run("""const input = document.querySelector("#target");
            input.value = arguments[0]; input.dispatchEvent(new Event("input"))""", 100 * target["accuracy"])
        cells = self.browser.run("return [...document.querySelectorAll('#summary tbody tr')[1].children].map((cell) => cell.textContent)")
        self.assertEqual(cells[7], "%.2f s" % target["seconds"])
        self.assertEqual(cells[8], "%.2f MB" % (target["bytes_sent_total"] / 1e6))

    def test_numbers_have_three_digits(self):
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "report", "page")
        with open(os.path.join(page, "format.js"), encoding="utf-8") as file:
            script = file.read() + "\nreturn three(arguments[0])"
        for value, text in ((0.9972, "0.997"), (0.9996, "1.00"), (0.123, "0.123"), (0.05, "0.0500"),
                            (99.97, "100"), (1234.5, "1235"), (41, "41.0"), (2, "2"), (0.001, "0.00100"),
                            (-0.5, "-0.500"), (0, "0"), (1e-5, "1.00e-5"), (2.5e7, "2.50e7")):
            self.assertEqual(self.browser.run(script, value), text)

    def test_commands_can_be_copied(self):
        command = make_runs.about("dense", 1)["command"]
        self.assertEqual(self.browser.text("#commands pre"), command)
        self.browser.run("""document.addEventListener("copy", () => { window.copied = String(getSelection()) || document.activeElement.value; });
            navigator.clipboard && Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { window.copied = text; } } });""")
        self.browser.click("#commands .line button")
        self.browser.until("return document.querySelector('#commands .line button').textContent === 'copied'")
        self.assertEqual(self.browser.run("return window.copied"), command)

    def test_every_plot_has_words(self):
        for plot in PLOTS:
            label = self.browser.run("return document.querySelector(`#${arguments[0]} .chart`).getAttribute('aria-label')", plot)
            self.assertRegex(label, r"against .* ends at ")
            self.browser.run("document.querySelector(`#${arguments[0]} details`).open = true", plot)
            rows = self.browser.until("return document.querySelectorAll('#%s tbody tr').length" % plot)
            self.assertGreater(rows, 0)
        self.assertIn("accuracy", self.browser.run("return document.querySelector('#accuracy .chart').getAttribute('aria-label')").lower())

    def test_nothing_overlaps(self):
        self.show(self.runs(*[r[0] for r in make_runs.METHODS], steps=3000, every=10))
        for width in (1600, 1280, 900, 420):
            self.browser.resize(width, 900)
            time.sleep(0.3)
            for axis in ("step", "bytes", "seconds", "link"):
                for log in (False, True):
                    choose_axis(self.browser, axis)
                    self.browser.run("const box = document.querySelector('#log-x'); if (box.checked !== arguments[0]) box.click()", log)
                    self.assertEqual(self.browser.run(OVERLAPS), [], (width, axis, log))
        self.browser.resize(1280, 900)
        time.sleep(0.3)
        self.browser.run("document.querySelectorAll('article .log').forEach((button) => button.click())")
        self.assertEqual(self.browser.run(OVERLAPS), [], "log")

    def test_markup_is_text(self):
        folder, = self.runs("dense", steps=30, every=10)
        about = make_runs.about(MARKUP, 1)
        about.update(command=MARKUP, model=MARKUP, data=MARKUP, kernels=MARKUP)
        about.update(train=MARKUP)
        with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
            json.dump(about, file)
        self.show([folder])
        self.assertEqual(self.browser.run("return [document.title, document.querySelectorAll('img').length]"),
                         ["terse report", 0])
        self.assertEqual(self.browser.text("#commands pre"), MARKUP)
        self.assertEqual(self.browser.run(OVERLAPS), [])

    def test_odd_runs_are_drawn(self):
        """Nothing but one line, no line at all, a loss that overflowed, a cut file: no error."""
        one, none, broken = self.runs("dense", "signum", "qadam:k=2", steps=100, every=10)
        with open(os.path.join(one, "metrics.jsonl"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        for folder, kept in ((one, lines[:1]), (none, []), (broken, [
                line.replace('"loss":', '"loss":null,"was":') for line in lines[:8]] + ["{"])):
            with open(os.path.join(folder, "metrics.jsonl"), "w", encoding="utf-8") as file:
                file.write("".join(line + "\n" for line in kept))
        alone, = self.runs("topk:keep=0.01", steps=100, every=10)  # one worker sends nothing
        with open(os.path.join(alone, "metrics.jsonl"), encoding="utf-8") as file:
            silent = [json.loads(line) for line in file]
        for line in silent:
            line.update({key: 0 for key in line if key.startswith("bytes")})
        with open(os.path.join(alone, "metrics.jsonl"), "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in silent))
        self.show([one, none, broken, alone])
        self.assertIn("not a complete JSON object", self.browser.text("#notes"))
        for axis in ("step", "bytes", "seconds", "link"):
            choose_axis(self.browser, axis)
            self.browser.run("document.querySelector('#log-x').click()")
        self.assertFalse("NaN" in self.browser.run("return document.querySelector('main').innerHTML"))
        self.assertFalse("Infinity" in self.browser.text("main"))
        self.show([none])
        self.assertEqual(self.browser.run(OVERLAPS), [])

    def test_a_run_that_diverges_leaves_the_others_readable(self):
        good, bad = self.runs("dense", "signum", steps=600, every=10)
        path = os.path.join(bad, "metrics.jsonl")
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        for line in lines:
            if line["kind"] == "step" and line["step"] > 300:
                line["loss"] = 2.0 ** (line["step"] - 300) if line["step"] < 500 else None
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
        self.show([good, bad])
        pressed = "return document.querySelector('#loss .log').getAttribute('aria-pressed')"
        self.assertEqual(self.browser.run(pressed), "true")
        self.assertEqual(self.browser.run(OVERLAPS), [])
        self.browser.click("#loss .log")
        self.assertEqual(self.browser.run(pressed), "false")
        self.assertEqual(self.browser.run(OVERLAPS), [])

    def test_eight_long_runs_draw_in_a_second(self):
        self.show(self.runs(*[r[0] for r in make_runs.METHODS], steps=10000, every=1))
        took = self.browser.run("return performance.getEntriesByType('navigation')[0].domComplete")
        print("8 runs of 10,000 steps: drawn after %.0f ms" % took)
        self.assertLess(took, 1000)
        self.assertEqual(len(self.paths("loss")), 8)

    def test_a_single_point_is_visible(self):
        folder, = self.runs("dense", steps=600, every=10)
        path = os.path.join(folder, "metrics.jsonl")
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file][:8]
        lines[0]["residual_norm"] = 1.5
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
        self.show([folder])
        self.assertEqual(self.browser.run("return document.querySelectorAll('#residual circle.mark').length"), 1)

    def test_pictures(self):
        self.show(self.runs(*[r[0] for r in make_runs.METHODS], steps=3000, every=10))
        self.shot("report-light")
        self.browser.prefer("dark")
        choose_axis(self.browser, "link")
        self.shot("report-dark-link")
        self.browser.resize(420, 900)
        time.sleep(0.3)
        self.shot("report-narrow")


class Live(Page):
    def setUp(self):
        super().setUp()
        self.server = LiveServer()
        self.addCleanup(self.server.stop)
        self.allowed = (self.server.address,)

    def points(self):
        return self.browser.run("""const path = [...document.querySelectorAll("#loss path.series[data-group]")].pop();
            return path ? path.getAttribute("d").split(/[ML]/).length - 1 : 0""")

    def until_points(self, count, seconds=10):
        end = time.monotonic() + seconds
        while self.points() != count and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.points(), count)

    def test_points_arrive(self):
        sample = row("def:ratio=64")
        lines = list(make_runs.lines(sample, 600, 10, 1))
        self.server.push({"kind": "run", **make_runs.about(sample[0], 1)}, *lines[:20])
        self.browser.open(self.server.address)
        self.until_points(sum(line["kind"] == "step" for line in lines[:20]))
        self.assertEqual(self.browser.text("#live-state"), "live")
        self.server.push(*lines[20:40])
        self.until_points(sum(line["kind"] == "step" for line in lines[:40]))
        self.shot("live")
        self.server.push(*lines[40:])
        self.until_points(60)
        self.browser.until("return document.querySelector('#summary td').textContent === '%.2f %%'"
                           % (100 * lines[-1]["accuracy"]))
        live = self.browser.run("return document.querySelector('#summary tbody').textContent")
        folder, = self.runs(sample[0], steps=600, every=10)
        self.page(folder)
        self.server.stop()
        self.browser.until("return document.querySelector('#live-state').textContent === 'training ended'")
        # the report over the same lines is the same
        self.allowed += ("file://",)
        self.browser.open("file://" + self.path("report.html"))
        self.assertEqual(self.browser.run("return document.querySelector('#summary tbody').textContent"), live)

    def test_two_runs_one_after_the_other(self):
        self.browser.open(self.server.address)
        for name in ("dense", "signum"):
            self.server.push({"kind": "run", **make_runs.about(name, 1)},
                             *make_runs.lines(row(name), 100, 10, 1))
        self.browser.until("return document.querySelectorAll('#loss path.series[data-group]').length === 2")
        self.assertEqual(self.browser.text("#subtitle"), "2 runs · cnn on fashion · 4 workers")

    def test_seeds_become_a_group(self):
        self.browser.open(self.server.address)
        for seed in (1, 2):
            self.server.push({"kind": "run", **make_runs.about("dense", seed)}, *make_runs.lines(row("dense"), 100, 10, seed))
        self.browser.until("return document.querySelectorAll('#loss path[data-band]').length === 1")
        half = list(make_runs.lines(row("dense"), 100, 10, 3))[:6]
        self.server.push({"kind": "run", **make_runs.about("dense", 3)}, *half)
        # the running seed is drawn beside the mean of those that have ended
        self.browser.until("return document.querySelectorAll('#loss path.thin').length === 1")
        self.assertEqual(self.browser.run("return document.querySelectorAll('#legend button').length"), 1)
        self.assertIn("seed 3 at step", self.browser.text("#summary tbody th"))

    def test_markup_is_text(self):
        self.browser.open(self.server.address)
        about = make_runs.about(MARKUP, 1)
        about["train"] = MARKUP
        self.server.push({"kind": "run", **about}, *make_runs.lines(row("dense"), 100, 10, 1), "no json")
        self.until_points(10)
        self.assertEqual(self.browser.text("#commands pre"), MARKUP)
        self.assertEqual(self.browser.run("return [document.title, document.querySelectorAll('img').length]"),
                         ["terse live", 0])

    def test_a_long_run_stays_fluent(self):
        lines = [json.dumps(line) for line in make_runs.lines(row("dense"), 20000, 1, 1)]
        self.browser.open(self.server.address)
        self.server.push({"kind": "run", **make_runs.about("dense", 1)}, *lines)
        self.browser.until("return /100%|finished|91/.test(document.querySelector('#summary td')?.textContent)", 30)
        self.assertLessEqual(self.points(), 4000)
        took = self.browser.run("""const began = performance.now();
            document.querySelector("#smooth").click(); return performance.now() - began""")
        self.assertLess(took, 500)


if __name__ == "__main__":
    if why_absent():
        print("skip report/browser: " + why_absent())
        sys.exit(77)
    unittest.main()
