#!/usr/bin/env python3
"""The second decoder reads every golden frame to the golden floats, bit for bit, and refuses every
frame that must be refused, with offset and rule."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
DECODER = HERE.parents[1] / "docs" / "decoder" / "terse_decode.py"


def decoder(*arguments, cwd):
    command = [sys.executable, "-B", str(DECODER), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


class Golden(unittest.TestCase):
    def test_frames_are_read_bit_for_bit(self):
        expected = sorted((HERE / "frames").glob("*.f32"))
        self.assertTrue(expected)
        read = set()
        for floats in expected:
            files = [floats.with_suffix(".terse")]
            if not files[0].exists():
                files = [floats.with_name(f"{floats.stem}-{i}.terse") for i in (0, 1)]
            read.update(files)
            with self.subTest(floats.stem), tempfile.TemporaryDirectory() as folder:
                run = decoder(*files, "--npy", "out.npy", cwd=folder)
                self.assertEqual(run.returncode, 0, run.stderr)
                npy = (pathlib.Path(folder) / "out.npy").read_bytes()
                start = 10 + int.from_bytes(npy[8:10], "little")
                self.assertEqual(npy[start:], floats.read_bytes())
        self.assertEqual(read, set((HERE / "frames").glob("*.terse")))

    def test_a_second_pass_alone_is_refused(self):
        run = decoder("low-rank-1.terse", cwd=HERE / "frames")
        self.assertEqual(run.returncode, 1)
        self.assertIn("pass 1 before pass 0", run.stderr)

    def test_frames_of_different_layouts_are_refused(self):
        run = decoder("sign.terse", "without-layout.terse", cwd=HERE / "frames")
        self.assertEqual(run.returncode, 1)
        self.assertIn("layout: not that of the file before", run.stderr)


class Refuse(unittest.TestCase):
    def test_every_defect_is_named(self):
        lines = (HERE / "refuse" / "RULES.tsv").read_text(encoding="utf-8").splitlines()
        rules = [line.split("\t") for line in lines if not line.startswith("#")]
        self.assertEqual({rule[0] for rule in rules},
                         {path.name for path in (HERE / "refuse").glob("*.terse")})
        for file, _, *said in rules:
            offset, text = said[-2:]  # the decoder's own, if they differ
            with self.subTest(file):
                run = decoder(file, cwd=HERE / "refuse")
                self.assertEqual(run.returncode, 1)
                self.assertEqual(run.stderr, f"{file}: offset {offset}: {text}\n")
                self.assertEqual(run.stdout, "")


if __name__ == "__main__":
    unittest.main()
