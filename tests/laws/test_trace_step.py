#!/usr/bin/env python3
"""tools/trace-step counts what a step runs through: its JSON, its list, its errors. Skips where the
tools that it needs are missing."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "trace-step")
folder = None  # one build for all tests


def run(*words, **more):
    return subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True, **more)


class TraceStep(unittest.TestCase):
    def rows(self, *methods):
        done = run("--json", "--build", folder, *methods)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return json.loads(done.stdout)["rows"]

    def test_json_is_plausible(self):
        rows = self.rows("dense", "def:ratio=8")
        self.assertEqual(["dense", "def:ratio=8"], [row["method"] for row in rows])
        for row in rows:
            self.assertEqual({"method", "calls", "functions", "files", "headers", "depth"}, set(row))
            self.assertTrue(4 <= row["files"] <= 60, row)
            self.assertTrue(4 <= row["depth"] <= 40, row)
            self.assertTrue(max(row["files"], row["depth"]) <= row["functions"] <= 400, row)
        self.assertLess(rows[0]["functions"], rows[1]["functions"])  # a codec beside the sum

    def test_list_tells_what_is_counted(self):
        done = run("--build", folder, "--list", "dense")
        lines = [line.split() for line in done.stdout.splitlines()[1:]]
        row = self.rows("dense")[0]
        self.assertEqual(row["functions"], len(lines))
        self.assertEqual(row["files"] + row["headers"], len({file for _, _, file in lines}))
        self.assertGreaterEqual(row["depth"], max(int(depth) for depth, _, _ in lines))
        self.assertEqual(["1"], [depth for depth, _, _ in lines if depth == "1"])
        self.assertTrue(lines[0][1].startswith("terse_"), lines[0])
        for _, _, file in lines:
            self.assertTrue(file.startswith("src/"), file)
            self.assertFalse(file.startswith("src/kernels/"), file)

    def test_no_such_method(self):
        done = run("--build", folder, "dense", "def:ratio=none")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("def:ratio=none: ", done.stderr)

    def test_missing_programs_are_named(self):
        done = run("dense", env={"PATH": ""})
        self.assertEqual((77, "skip trace-step: there is no cmake (package cmake)\n"),
                         (done.returncode, done.stdout))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="terse-trace-") as folder:
        first = run("--build", folder, "dense")
        if first.returncode == 77:
            print(first.stdout, end="")
            sys.exit(77)
        unittest.main()
