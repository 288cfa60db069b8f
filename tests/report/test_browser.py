#!/usr/bin/env python3
"""The report and the live page in a real browser. TERSE_SCREENSHOTS=folder keeps pictures of them."""
import json
import os
import sys
import tempfile
import time
import unittest

import make_runs
from browser import Browser, why_absent
from support import MARKUP, Case, LiveServer, row

METHODS = ["dense", "def:ratio=64", "dqsgd:budget=4"]
PLOTS = ["accuracy", "loss", "tradeoff", "test-loss", "residual", "error", "bits"]
SCREENSHOTS = os.environ.get("TERSE_SCREENSHOTS")

# Pairs of words in one picture that cover each other, and words that leave their card.
OVERLAPS = """
const found = [];
for (const card of document.querySelectorAll("article.card:not([hidden])")) {
  const frame = card.getBoundingClientRect();
  const boxes = [...card.querySelectorAll("svg text, h2, button, .rows > div:not(.track), .keys span, select")]
    .map((node) => ({ text: node.textContent.slice(0, 40), box: node.getBoundingClientRect() }))
    .filter(({ box }) => box.width > 0);
  boxes.forEach(({ text, box }, i) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1) found.push(`${card.id}: ${text} leaves`);
    for (const other of boxes.slice(i + 1)) {
      const b = other.box;
      if (box.left < b.right - 1 && b.left < box.right - 1 && box.top < b.bottom - 2 && b.top < box.bottom - 2) {
        found.push(`${card.id}: ${text} / ${other.text}`);
      }
    }
  });
}
if (document.documentElement.scrollWidth > window.innerWidth) found.push("the page is too wide");
return found;
"""


def choose_axis(browser, name):
    browser.run("document.querySelector(`#axis input[value=${arguments[0]}]`).click()", name)


class Page(Case):
    """One browser for all tests of a class; each begins with a fresh page."""

    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        folder = tempfile.TemporaryDirectory(prefix="terse-shots-")
        cls.addClassCleanup(folder.cleanup)
        cls.shots = SCREENSHOTS or folder.name
        os.makedirs(cls.shots, exist_ok=True)

    def setUp(self):
        super().setUp()
        self.browser.resize(1280, 900)
        self.browser.prefer("light")
        self.browser.open("about:blank")
        self.browser.complaints()
        self.browser.requests()
        self.allowed = ()

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])
        for address in self.browser.requests():
            self.assertTrue(address.startswith(("data:", "about:", *self.allowed)), address)
        super().tearDown()

    def shot(self, name):
        path = os.path.join(self.shots, name + ".png")
        self.browser.screenshot(path)
        self.assertGreater(os.path.getsize(path), 10000)


class Report(Page):
    def show(self, folders):
        self.page(*folders)
        self.allowed = ("file://" + self.path("report.html"),)
        self.browser.open("file://" + self.path("report.html"))

    def setUp(self):
        super().setUp()
        self.folders = self.runs(*METHODS, steps=600, every=10)
        self.show(self.folders)

    def lines(self, index, kind):
        with open(os.path.join(self.folders[index], "metrics.jsonl"), encoding="utf-8") as file:
            return [line for line in map(json.loads, file) if line["kind"] == kind]

    def seconds_on_link(self, index, bits):
        steps = self.lines(index, "step")
        work = sum(10 * (sum(s["stages"].values()) - s["stages"]["group"]) for s in steps)
        return work + 8 * sum(10 * s["bytes_sent"] for s in steps) / bits

    def paths(self, plot):
        return self.browser.run("""return Object.fromEntries([...document.querySelectorAll(
            `#${arguments[0]} path.series[data-run]`)].map((path) => [path.dataset.run, path.getAttribute("d")]))""", plot)

    def hover(self, plot, run, index):
        """Puts the pointer on the mark of a point and returns the text of the page."""
        selector = f'#{plot} circle[data-run="{run}"]'
        self.browser.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", f"#{plot}")
        box = self.browser.run("return document.querySelectorAll(arguments[0])[arguments[1]].getBoundingClientRect().toJSON()",
                               selector, index)
        self.browser.pointer(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        return self.browser.text(f"#{plot} .tip")

    def test_hover_shows_the_recorded_value(self):
        evaluation = self.lines(1, "evaluation")[2]
        shown = self.hover("accuracy", 1, 2)
        self.assertIn("def:ratio=64", shown)
        self.assertIn("%.2f %%" % (100 * evaluation["accuracy"]), shown)
        self.assertIn(f"at {evaluation['step']} steps", shown)
        choose_axis(self.browser, "bytes")
        shown = self.hover("accuracy", 1, 2)
        self.assertIn("at %.2f MB" % (evaluation["bytes_sent_total"] / 1e6), shown)
        choose_axis(self.browser, "seconds")
        shown = self.hover("accuracy", 1, 2)
        self.assertIn("at %.2f s" % evaluation["seconds"], shown)
        self.browser.pointer(3, 3)
        self.assertTrue(self.browser.run("return document.querySelector('#accuracy .tip').hidden"))

    def test_legend_toggles_a_run_everywhere(self):
        self.assertEqual(set(self.paths("loss")), {"0", "1", "2"})
        self.browser.click('#legend button[data-run="1"]')
        for plot in ("loss", "accuracy", "test-loss"):
            self.assertEqual(set(self.paths(plot)), {"0", "2"})
        self.assertEqual(self.browser.run("return document.querySelectorAll('#summary tr.off').length"), 1)
        self.assertEqual(self.browser.run("return document.activeElement.dataset.run"), "1")
        self.browser.press("space")
        self.assertEqual(set(self.paths("loss")), {"0", "1", "2"})
        for run in "012":
            self.browser.click(f'#legend button[data-run="{run}"]')
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
        self.browser.run("document.querySelector('#accuracy .quiet').focus()")
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
        self.assertIn("def:ratio=64: accuracy %.2f %%" % (100 * self.lines(1, "evaluation")[1]["accuracy"]), shown)
        self.browser.press("end", "up")
        self.assertIn("dense", self.browser.text("#accuracy .tip"))
        self.browser.press("escape")
        self.assertTrue(self.browser.run("return document.querySelector('#accuracy .tip').hidden"))

    def test_every_control_is_reached_by_tab(self):
        self.browser.run("document.body.focus()")
        seen = []
        for _ in range(60):
            self.browser.press("tab")
            seen.append(self.browser.run("""const at = document.activeElement;
                return at.id || at.name || at.className || at.tagName"""))
        for name in ("theme", "target", "axis", "link", "log-x", "smooth", "chart"):
            self.assertIn(name, seen)

    def test_log_axes(self):
        self.browser.click("#log-x")
        choose_axis(self.browser, "bytes")
        ticks = self.browser.run("return [...document.querySelectorAll('#loss svg text')].map((text) => text.textContent)")
        self.assertIn("10 MB", ticks)
        self.assertIn("100 MB", ticks)
        before = self.paths("loss")
        self.browser.click("#loss .quiet")
        self.assertEqual(self.browser.run("return document.querySelector('#loss .quiet').getAttribute('aria-pressed')"), "true")
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
        self.assertEqual(cells[0], "def:ratio=64")
        self.assertEqual(cells[1], "%.2f %%" % (100 * end["accuracy"]))
        self.assertEqual(cells[2], "%.4f" % end["loss"])
        self.assertEqual(cells[4], "%.1f×" % 63.8)
        target = self.lines(1, "evaluation")[3]
        self.browser.run("""const input = document.querySelector("#target");
            input.value = arguments[0]; input.dispatchEvent(new Event("input"))""", 100 * target["accuracy"])
        cells = self.browser.run("return [...document.querySelectorAll('#summary tbody tr')[1].children].map((cell) => cell.textContent)")
        self.assertEqual(cells[7], "%.2f s" % target["seconds"])
        self.assertEqual(cells[8], "%.2f MB" % (target["bytes_sent_total"] / 1e6))

    def test_commands_can_be_copied(self):
        command = make_runs.about("dense", 1)["command"]
        self.assertEqual(self.browser.text("#commands pre"), command)
        self.browser.run("""document.addEventListener("copy", () => { window.copied = String(getSelection()) || document.activeElement.value; });
            navigator.clipboard && Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { window.copied = text; } } });""")
        self.browser.click("#commands button")
        self.browser.until("return document.querySelector('#commands button').textContent === 'copied'")
        self.assertEqual(self.browser.run("return window.copied"), command)

    def test_tensors(self):
        self.browser.run("""const choice = document.querySelector("#tensors select");
            choice.value = "0"; choice.dispatchEvent(new Event("change"))""")
        self.assertIn("fc1.weight", self.browser.text("#tensors .name"))
        self.assertIn("1.23 MB of 1.23 MB, 1×", self.browser.text("#tensors .figure"))

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
        self.browser.run("document.querySelectorAll('article .quiet').forEach((button) => button.click())")
        self.assertEqual(self.browser.run(OVERLAPS), [], "log")

    def test_markup_is_text(self):
        folder, = self.runs("dense", steps=30, every=10)
        about = make_runs.about(MARKUP, 1)
        about.update(command=MARKUP, model=MARKUP, data=MARKUP, kernels=MARKUP)
        about["tensors"][0]["name"] = MARKUP
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

    def test_seeds_of_a_method_share_its_colour(self):
        folders = []
        for seed in (1, 2, 3):
            for name in ("dense", "signum"):
                folders.append(make_runs.write_run(self.path(f"seed-{seed}"), row(name), 600, 10, seed))
        self.show(folders)
        styles = self.browser.run("""return [...document.querySelectorAll("#loss path[data-run]")]
            .map((path) => [path.style.stroke, path.getAttribute("stroke-dasharray")])""")
        self.assertEqual(len(set(stroke for stroke, _ in styles)), 2)
        self.assertEqual(len(set(map(tuple, styles))), 6)
        self.assertEqual(self.browser.text("#legend button"), "dense, seed 1")
        names = self.browser.run("return [...document.querySelectorAll('.mark-label')].map((label) => label.textContent)")
        self.assertEqual(sorted(names), ["dense", "signum"])

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
        pressed = "return document.querySelector('#loss .quiet').getAttribute('aria-pressed')"
        self.assertEqual(self.browser.run(pressed), "true")
        self.assertEqual(self.browser.run(OVERLAPS), [])
        self.browser.click("#loss .quiet")
        self.assertEqual(self.browser.run(pressed), "false")
        self.assertEqual(self.browser.run(OVERLAPS), [])

    def test_eight_long_runs_draw_in_a_second(self):
        self.show(self.runs(*[r[0] for r in make_runs.METHODS], steps=10000, every=1))
        took = self.browser.run("return performance.getEntriesByType('navigation')[0].domComplete")
        print("8 runs of 10,000 steps: drawn after %.0f ms" % took)
        self.assertLess(took, 1000)
        self.assertEqual(len(self.paths("loss")), 8)

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
        return self.browser.run("""const path = [...document.querySelectorAll("#loss path.series[data-run]")].pop();
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
        self.browser.until("return document.querySelectorAll('#loss path.series[data-run]').length === 2")
        self.assertEqual(self.browser.text("#subtitle"), "2 runs · cnn on fashion · 4 workers")

    def test_markup_is_text(self):
        self.browser.open(self.server.address)
        about = make_runs.about(MARKUP, 1)
        about["command"] = MARKUP
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
