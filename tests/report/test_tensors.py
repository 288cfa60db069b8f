#!/usr/bin/env python3
"""Bytes per tensor: the report in a real browser."""
import csv
import io
import os
import sys
import time
import unittest

import make_runs
from browser import why_absent
from pages import OVERLAPS, Page, ReportPage
from support import LiveServer, row

RESNET = make_runs.resnet20()
STEPS = 40

# Of one table: the texts of all rows of its body and foot.
ROWS = """return [...document.querySelectorAll("#tensors .layout")[arguments[0]].querySelectorAll("tbody tr, tfoot tr")]
    .map((row) => [row.firstChild.title, ...[...row.children].slice(1).map((cell) => cell.textContent)])"""
SORTED = """return [...document.querySelectorAll("#tensors th[data-key]")].filter((cell) => cell.ariaSort !== "none")
    .map((cell) => [cell.textContent.trim(), cell.ariaSort])"""


def per_step(name, seeds, tensors):
    """Bytes per step of each tensor: the mean over the seeds."""
    runs = [make_runs.tensor_bytes(row(name), STEPS, seed, tensors) for seed in seeds]
    return [sum(run[t] for run in runs) / len(runs) / STEPS for t in range(len(tensors))]


class OneNetwork(ReportPage):
    """Three methods on ResNet-20, one of them with two seeds."""

    METHODS = (("dense", (1,)), ("topk:keep=0.01", (1, 4)), ("signum", (1,)))

    def setUp(self):
        super().setUp()
        self.folders = [make_runs.write_run(self.path(f"seed-{seed}"), row(name), STEPS, 10, seed, "resnet20", RESNET)
                        for name, seeds in self.METHODS for seed in seeds]
        self.show(self.folders)

    def rows(self, table=0):
        return self.browser.run(ROWS, table)

    def names(self):
        return [one[0] for one in self.rows()]

    def press(self, key):
        """Clicks on a heading: "name", "count", or ("bytes" | "bits", index of the group)."""
        index = key[1] if isinstance(key, tuple) else 0
        self.browser.run("""const [kind, index] = arguments;
            [...document.querySelectorAll("#tensors th[data-key]")].filter((cell) => cell.dataset.key.split(" ")[0] === kind)[index]
            .querySelector("button").click()""", key[0] if isinstance(key, tuple) else key, index)

    def test_what_the_files_say(self):
        self.browser.click("#tensors .fold")
        rows = self.rows()
        self.assertEqual(len(rows), 66)
        bytes_of = [per_step(name, seeds, RESNET) for name, seeds in self.METHODS]
        shown = {one[0]: one[1:] for one in rows}
        for t, (name, count) in enumerate(RESNET):
            cells = shown[name]
            self.assertEqual(cells[0], f"{count:,}")
            for g, of in enumerate(bytes_of):
                number, unit = cells[1 + 2 * g].split()
                exact = of[t] / {"B": 1, "kB": 1e3, "MB": 1e6}[unit]
                self.assertAlmostEqual(float(number), exact, delta=exact * 0.005 + 1e-9)
                bits = 8 * of[t] / count
                self.assertAlmostEqual(float(cells[2 + 2 * g]), bits, delta=0.005 + bits * 1e-6)
        total = sum(bytes_of[1])
        self.assertEqual(rows[-1][0], "all tensors")
        self.assertAlmostEqual(float(rows[-1][4].split()[0]), total / 1e3, delta=total / 1e3 * 0.005)

    def test_a_long_table_is_folded(self):
        rows = self.rows()
        self.assertEqual([one[0] for one in rows[12:]], ["53 others", "all tensors"])
        largest = sorted(RESNET, key=lambda tensor: -tensor[1])
        self.assertEqual([one[1] for one in rows[:12]], [f"{count:,}" for _, count in largest[:12]])
        others = sum(count for _, count in largest[12:])
        self.assertEqual(rows[12][1], f"{others:,}")
        self.assertEqual(rows[12][2], "%.3g kB" % (others * 4 / 1e3 + sum(count >= 100 for _, count in largest[12:]) / 1e3))
        self.browser.click("#tensors .fold")
        self.assertEqual(len(self.rows()), 66)
        self.assertEqual(self.browser.text("#tensors .fold"), "only 12")
        self.browser.click("#tensors .fold")
        self.assertEqual(len(self.rows()), 14)

    def test_headings_sort(self):
        self.assertEqual(self.browser.run(SORTED), [["bytes ↓", "descending"]])
        self.press("name")
        self.assertEqual(self.browser.run(SORTED), [["tensor ↑", "ascending"]])
        self.assertEqual(self.names()[:3], ["bn1.bias", "bn1.weight", "conv1.weight"])
        self.press("name")
        self.assertEqual(self.names()[0], "layer3.2.conv2.weight")
        self.press("name")  # the order of the network
        self.assertEqual(self.browser.run(SORTED), [])
        self.assertEqual(self.names()[:4], [name for name, _ in RESNET[:4]])
        self.press(("bits", 1))  # what travels as it is has 32 bits, the largest tensors the fewest
        self.assertEqual({one[5] for one in self.rows()[:10]}, {"32.00"})
        self.press(("bits", 1))
        self.assertEqual(self.rows()[0][1], "36,864")
        self.assertEqual(self.browser.run("return document.activeElement.closest('th').ariaSort"), "ascending")

    def test_hidden_groups(self):
        heads = "return [...document.querySelectorAll('#tensors th.whose')].map((cell) => cell.textContent.trim())"
        self.assertEqual(self.browser.run(heads), ["dense", "topk", "signum"])
        self.browser.click("#legend button[data-group='0']")
        self.assertEqual(self.browser.run(heads), ["topk", "signum"])
        self.assertEqual(self.browser.run(SORTED), [["bytes ↓", "descending"]])

    def test_csv(self):
        self.allowed += ("blob:",)
        self.browser.save_to(self.folder)
        self.browser.click("#tensors .save")
        path, end = self.path("terse-tensors.csv"), time.monotonic() + 20
        while not (os.path.exists(path) and os.path.getsize(path) > 0) and time.monotonic() < end:
            time.sleep(0.1)
        with open(path, encoding="utf-8") as file:
            rows = list(csv.DictReader(io.StringIO(file.read())))
        self.assertEqual(len(rows), 65 * 3)
        of = {(one["tensor"], one["method"]): one for one in rows}
        for t, exact in enumerate(per_step("topk:keep=0.01", (1, 4), RESNET)):
            one = of[RESNET[t][0], "topk:keep=0.01"]
            self.assertEqual((one["model"], one["name"], one["seeds"], int(one["elements"])), ("resnet20", "topk", "2", RESNET[t][1]))
            self.assertAlmostEqual(float(one["bytes_per_step"]), exact)
            self.assertAlmostEqual(float(one["bits_per_element"]), 8 * exact / RESNET[t][1])

    def test_narrow(self):
        self.show([*self.folders, *(make_runs.write_run(self.path("long"), (f"topk:keep=0.001,lr={lr}", *row("topk:keep=0.01")[1:]),
                                                        STEPS, 10, 1, "resnet20", RESNET) for lr in (0.0125, 0.025))])
        self.browser.click("#tensors .fold")
        for scheme in ("light", "dark"):
            self.browser.prefer(scheme)
            for width in (1280, 390):
                self.browser.resize(width, 844)
                time.sleep(0.2)
                self.assertEqual(self.browser.run(OVERLAPS), [])
                self.browser.run("document.querySelector('#tensors').scrollIntoView()")
                self.shot(f"tensors-{scheme}-{width}")
                # Neither headings nor names lie over each other, and a name is one line where there is room.
                heads = self.browser.run("""return [...document.querySelectorAll("#tensors th.whose")].map((cell) => {
                    const range = document.createRange();
                    range.selectNodeContents(cell);
                    const box = range.getBoundingClientRect();
                    return [box.left, box.right]; })""")
                for (_, right), (left, _) in zip(heads, heads[1:]):
                    self.assertLessEqual(right, left)
                height = self.browser.box("#tensors tbody th")["height"]
                self.assertLess(height, 40 if width > 400 else 75)
        # Scrolled aside, the name of the tensor stays, is not cut off and covers no number.
        self.browser.run("document.querySelector('#tensors .scroll').scrollLeft = 1000")
        found = self.browser.run("""return [...document.querySelectorAll("#tensors tbody tr")].map((row) => {
            const name = row.firstChild.getBoundingClientRect();
            const last = row.lastChild.getBoundingClientRect();
            return [name.left, name.right, row.firstChild.scrollWidth - row.firstChild.clientWidth, last.left, last.right]; })""")
        for left, right, cut, number, end in found:
            self.assertTrue(0 <= left < right <= 170 and cut <= 0, (left, right, cut))
            self.assertTrue(right <= number < end <= 390, (right, number, end))


class Others(ReportPage):
    def test_networks_have_tables_of_their_own(self):
        self.folders = [make_runs.write_run(self.path(name), row(method), STEPS, 10, 1, name, tensors)
                        for name, tensors in (("cnn", None), ("resnet20", RESNET)) for method in ("dense", "signum")]
        self.show(self.folders)
        titles = "return [...document.querySelectorAll('#tensors h3')].map((node) => node.textContent)"
        self.assertEqual(self.browser.run(titles), ["cnn", "resnet20"])
        self.assertEqual([len(self.browser.run(ROWS, table)) for table in (0, 1)], [9, 14])
        self.assertEqual(self.browser.run(ROWS, 0)[0][0], "fc1.weight")
        self.assertEqual(self.browser.run(OVERLAPS), [])

    def test_runs_without_bytes_are_named(self):
        self.folders = [*self.runs("dense", "signum", steps=STEPS)]
        path = os.path.join(self.folders[1], "metrics.jsonl")
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines[:-1])
        self.show(self.folders)
        self.assertIn("No bytes per tensor: signum.", self.browser.text("#tensors"))
        self.assertEqual(len(self.browser.run(ROWS, 0)[0]), 4)
        self.show(self.folders[1:])
        self.assertTrue(self.browser.run("return document.querySelector('#tensors').hidden"))

    def test_markup_is_text(self):
        name = "<img src=x onerror=alert(1)>"
        self.show([make_runs.write_run(self.folder, row("dense"), STEPS, tensors=[(name, 10)])])
        self.assertEqual(self.browser.run(ROWS, 0)[0][0], name)


class Live(Page):
    def test_bytes_come_with_the_end(self):
        server = LiveServer()
        self.addCleanup(server.stop)
        self.allowed = (server.address, "blob:")
        self.browser.open(server.address)
        lines = list(make_runs.lines(row("signum"), STEPS, 10, 1))
        server.push({**make_runs.about("signum", 1), "kind": "run"}, *lines[:-1])
        self.browser.until("return document.querySelectorAll('#loss path[data-group]').length > 0")
        self.assertTrue(self.browser.run("return document.querySelector('#tensors').hidden"))
        server.push(lines[-1])
        self.browser.until("return !document.querySelector('#tensors').hidden")
        rows = self.browser.run(ROWS, 0)
        self.assertEqual((rows[0][0], rows[0][1], len(rows)), ("fc1.weight", "204,800", 9))


if __name__ == "__main__":
    if why_absent():
        print("skip report/tensors: " + why_absent())
        sys.exit(77)
    unittest.main()
