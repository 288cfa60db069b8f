"""What the tests of the report share: sample runs, the command, the live server as a program."""
import json
import os
import re
import subprocess
import tempfile
import unittest

import make_runs

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
TERSE = os.environ.get("TERSE", os.path.join(ROOT, "build", "terse"))
LIVE_SERVER = os.environ.get("LIVE_SERVER", os.path.join(ROOT, "build/tests/report/live_server"))
MARKUP = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"


def row(name):
    return next(row for row in make_runs.METHODS if row[0] == name)


def data_of(html):
    """What a page was given to draw."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    return json.loads(found.group(1))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="terse-report-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def runs(self, *names, **how):
        return [make_runs.write_run(self.folder, row(name), **how) for name in names]

    def terse(self, *words, expect=0):
        done = subprocess.run([TERSE, "report", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=100, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, expect, done.stderr.decode())
        return done.stdout.decode(), done.stderr.decode()

    def page(self, *words):
        """The page as text, and the text on standard error."""
        _, notes = self.terse(*words, "-o", self.path("report.html"))
        with open(self.path("report.html"), encoding="utf-8") as file:
            return file.read(), notes


class LiveServer:
    """The server's program; `push` sends lines."""

    def __init__(self, *words):
        self.process = subprocess.Popen([LIVE_SERVER, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        self.port = int(self.address.rsplit(":", 1)[1].strip("/")) if self.address else None

    def push(self, *lines):
        for line in lines:
            self.process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        self.process.stdin.flush()

    def stop(self):
        """Ends the server as a training does; its exit code."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        code = self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()
        return code
