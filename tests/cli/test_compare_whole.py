"""What a paper needs, in one command: six methods, three rates each, three seeds. It is killed twice and
goes on; the page is small, the LaTeX table compiles, the CSV can be read."""
import csv
import glob
import json
import os
import shutil
import signal
import subprocess
import unittest

from support import TERSE
from training import TrainCase

RATES = "lr={0.01,0.02,0.04}"
METHODS = ("dense:" + RATES, "signum:lr={0.001,0.002,0.004}", "def:ratio=16," + RATES,
           "topk:keep=0.05," + RATES, "regtopk:keep=0.05," + RATES, "qsgd:bits=4," + RATES)
RUNS = 6 * 3 + 6 * 3
DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\begin{document}
\input{table.tex}
\end{document}
"""


class Whole(TrainCase):
    def command(self, folder):
        return [TERSE, "compare", *self.small, "--workers", "2", "--epochs", "3", "--methods",
                ";".join(METHODS), "--seeds", "3", "--checkpoint-every", "10", "--evaluate-every",
                "15", "--json", "-q", "--out", self.path(folder)]

    def hashes(self, folder):
        """{training: hash of its weights} of those of the folder that have ended."""
        found = {}
        for path in glob.glob(self.path(folder) + "/**/metrics.jsonl", recursive=True):
            with open(path, encoding="utf-8") as lines:
                ends = [json.loads(line) for line in lines if '"kind":"end"' in line]
            if ends:
                found[os.path.relpath(path, self.path(folder))] = ends[-1]["weights_hash"]
        return found

    def killed(self, folder, after):
        """Started, and killed when so many trainings have ended."""
        with subprocess.Popen(self.command(folder), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            self.wait_for(lambda: len(self.hashes(folder)) >= after, process)
            process.send_signal(signal.SIGKILL)
            out, err = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), (b"", -signal.SIGKILL), err)
        self.assertLess(len(self.hashes(folder)), RUNS)

    def finish(self, folder):
        """The comparison, to its end."""
        done = subprocess.run(self.command(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["members"]), 18)
        self.assertEqual(len(self.hashes(folder)), RUNS)

    def test_whole(self):
        self.killed("run", 5)
        self.killed("run", 20)
        self.finish("run")
        self.finish("quiet")
        self.assertEqual(self.hashes("run"), self.hashes("quiet"), "two kills have changed a result")
        page = self.path("run/report.html")
        self.assertLess(os.path.getsize(page), 2 << 20)
        folders = [os.path.dirname(file) for file in sorted(glob.glob(self.path("run/*/run.json")))]
        self.assertEqual(len(folders), 18)
        self.terse("report", *folders, "--csv", self.path("all.csv"), "--latex",
                   self.path("table.tex"))
        self.check_csv()
        self.check_latex()

    def check_csv(self):
        with open(self.path("all.csv"), newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        groups = {row["name"] for row in rows}
        self.assertEqual(len(groups), 6, groups)
        self.assertEqual({row["seed"] for row in rows}, {"1", "2", "3"})
        for row in rows:
            self.assertTrue(0 <= float(row["accuracy"]) <= 1, row)

    def check_latex(self):
        table = self.read("table.tex").decode()
        self.assertEqual(table.count(r"\pm"), 12, table)
        if not shutil.which("pdflatex"):
            print("skip latex: pdflatex is not there (texlive-latex-base, texlive-latex-recommended)")
            return
        self.write("paper.tex", DOCUMENT.encode())
        done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"],
                              cwd=self.path(""), stdout=subprocess.PIPE, check=False, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))
        self.assertGreater(os.path.getsize(self.path("paper.pdf")), 5000)


if __name__ == "__main__":
    unittest.main()
