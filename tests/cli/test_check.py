"""`terse check codec`, and plugins in every command that takes them."""
import json
import os
import subprocess
import sys
import unittest

from support import Case, OK, REFUSED, TERSE, USAGE
from training import LAUNCH_ENV, OPEN_MPI, TrainCase, launch

BROKEN = 4
HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON_PLUGIN = os.path.join(HERE, "plugin_codecs.py")
EXAMPLE = os.path.join(HERE, "..", "..", "examples", "random_k.py")
C_PLUGIN = os.environ.get("TERSE_PLUGIN", "")


def python_reason():
    """Why plugins in Python cannot be tried here, or ""."""
    done = subprocess.run([TERSE, "check", "codec", "every", "--plugin", PYTHON_PLUGIN,
                           "--count", "10"], capture_output=True, text=True, timeout=100)
    return "" if done.returncode == OK else done.stderr.strip().split("\n")[-1]


NO_PYTHON = python_reason() if TERSE else ""
PLUGINS = [path for path in (C_PLUGIN, "" if NO_PYTHON else PYTHON_PLUGIN) if path]


def promises(text):
    return {line[2:15].strip(): line[16:28].strip() for line in text.split("\n")
            if line.startswith("  ") and line[2] != " "}


class Check(Case):
    def test_what_was_tried(self):
        """A machine without libpython tests the C plugin alone, and says why."""
        if NO_PYTHON:
            self.skipTest("plugins in Python: " + NO_PYTHON)
        self.assertEqual(len(PLUGINS), 2)

    def test_a_built_in_codec_holds_its_promises(self):
        text = self.text("check", "codec", "uniform:bits=4", "--seed", "7")
        found = promises(text)
        self.assertEqual(found["conservation"], "holds")
        self.assertEqual(found["unbiasedness"], "holds")
        self.assertEqual(found["contraction"], "not claimed")
        self.assertIn("uniform:bits=4, seed 7\n", text)
        self.assertNotIn("broken", found.values())

    def test_a_right_codec_of_a_user(self):
        for plugin in PLUGINS:
            for spec in ("every", "every:p=1", "every:p=7"):
                found = promises(self.text("check", "codec", spec, "--plugin", plugin, "--count",
                                           "3000"))
                self.assertEqual(set(found.values()), {"holds", "not claimed"}, (plugin, spec))
                self.assertEqual(len(found), 13)

    def test_wrong_codecs_are_refused_with_the_promise(self):
        for plugin in PLUGINS:
            for spec, promise in (("biased", "unbiasedness"), ("loses", "conservation"),
                                  ("short", "length")):
                done = self.terse("check", "codec", spec, "--plugin", plugin, "--seed", "3",
                                  "--count", "3000", expect=BROKEN)
                text = done.stdout.decode()
                self.assertEqual(promises(text)[promise], "broken", (plugin, text))
                self.assertIn("seed 3, ", text)
                self.assertIn("codec %s breaks" % spec, done.stderr.decode())

    def test_json(self):
        for plugin in PLUGINS[:1]:
            result = self.json("check", "codec", "biased", "--plugin", plugin, "--json",
                               expect=BROKEN)
            broken = [one for one in result["promises"] if one["verdict"] == "broken"]
            self.assertEqual((result["codec"], result["broken"]), ("biased", len(broken)))
            self.assertIn("unbiasedness", [one["promise"] for one in broken])
            self.assertTrue(all("seed 1" in one["input"] for one in broken))

    def test_the_example(self):
        if NO_PYTHON:
            self.skipTest(NO_PYTHON)
        text = self.text("check", "codec", "random-k:keep=0.05", "--plugin", EXAMPLE)
        self.assertIn("every promise that it claims holds", text)

    def test_what_is_no_plugin(self):
        empty = self.write("empty.py", b"x = 1\n")
        wrong = self.write("wrong.py", b"raise KeyError('here')\n")
        text = self.write("text.txt", b"")
        broken = self.write("broken.so", b"not ELF")
        for path, reason in ((text, "neither in .so nor in .py"), (broken, "file too short"),
                             (self.path("gone.so"), "No such file"),
                             (C_PLUGIN + ",,x", "is empty" if C_PLUGIN else "a name is empty")):
            done = self.terse("check", "codec", "every", "--plugin", path, expect=None)
            self.assertIn(done.returncode, (REFUSED, USAGE))
            self.assertIn(reason, done.stderr.decode())
        if not NO_PYTHON:
            self.assertIn("it registers no codec", self.error("check", "codec", "x", "--plugin",
                                                              empty))
            self.assertIn("wrong.py: KeyError: 'here'", self.error("check", "codec", "x",
                                                                   "--plugin", wrong))
        self.assertIn("name the interpreter in TERSE_PYTHON",
                      self.error("check", "codec", "x", "--plugin", empty,
                                 env={"TERSE_PYTHON": self.path("none")}))

    def test_wrong_usage(self):
        for words in ((), ("codec",), ("codec", "f32", "f16"), ("method", "dense"),
                      ("codec", "f32", "--seed", "x"), ("codec", "f32", "--count", "0")):
            self.terse("check", *words, expect=USAGE)
        self.assertIn("no codec 'every'", self.error("check", "codec", "every", expect=USAGE))


@unittest.skipUnless(PLUGINS, "no plugin can be loaded")
class Plugins(TrainCase):
    SPEC = "codec=every:p=3,feedback=residual,momentum=0"

    def test_train_resume_and_ranks(self):
        for plugin in PLUGINS:
            whole = self.train("--plugin", plugin, "--method", self.SPEC, "--workers", "3",
                               "--steps", "12")
            folder = self.path("run-" + os.path.basename(plugin))
            relative = os.path.relpath(plugin)
            self.train("--plugin", relative, "--method", self.SPEC, "--workers", "3", "--steps",
                       "6", "--out", folder)
            with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["plugin"], os.path.realpath(plugin))
            text = self.error("train", "--resume", folder, "--steps", "12", "-q", expect=USAGE)
            self.assertIn("add it to the command", text)
            again = self.json("train", "--resume", folder, "--steps", "12", "--plugin", plugin,
                              "--json", "-q")
            self.assertEqual(again["weights_hash"], whole["weights_hash"])
            if os.environ.get("TERSE_RANKS") == "yes" and OPEN_MPI:
                self.mpirun_is_the_same(plugin, whole)

    def mpirun_is_the_same(self, plugin, whole):
        done = subprocess.run(
            [*launch(3), TERSE, "train", *self.small, "--plugin", plugin, "--method", self.SPEC,
             "--steps", "12", "--json", "-q"], capture_output=True, timeout=110, check=False,
            env=dict(os.environ, **LAUNCH_ENV))
        self.assertEqual(done.returncode, OK, done.stderr.decode())
        self.assertEqual(json.loads(done.stdout)["weights_hash"], whole["weights_hash"])

    def test_compare_shows_it(self):
        for plugin in PLUGINS:
            out = self.path("cmp-" + os.path.basename(plugin))
            text = self.text("compare", *self.small, "--workers", "2", "--steps", "6", "--methods",
                             "topk:keep=0.1;" + self.SPEC, "--plugin", plugin, "--out", out, "-q")
            self.assertIn("codec=every:p=3", text)
            with open(os.path.join(out, "report.html"), "rb") as file:
                self.assertIn(b"codec=every:p=3", file.read())

    def test_bench_measures_it(self):
        for plugin in PLUGINS:
            rows = self.json("bench", "codecs", "--plugin", plugin, "--codec", "every:p=3", "f32",
                             "--count", "4096", "--seconds", "0.02", "--json")["rows"]
            self.assertEqual([row["codec"] for row in rows], ["every:p=3", "f32"])

    def test_an_exception_ends_the_training(self):
        if NO_PYTHON:
            self.skipTest(NO_PYTHON)
        done = self.terse("train", *self.small, "--plugin", PYTHON_PLUGIN, "--method",
                          "codec=raises,feedback=residual", "--workers", "3", "--steps", "6", "-q",
                          expect=None)
        text = done.stderr.decode()
        self.assertNotEqual(done.returncode, OK)
        self.assertIn("codec raises cannot encode: encode raised ZeroDivisionError: on purpose",
                      text)
        self.assertIn("Traceback", text)


if __name__ == "__main__":
    print("python %s" % sys.version.split()[0])
    unittest.main()
