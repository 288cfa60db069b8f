"""Help texts, the table of commands, exit codes of wrong command lines."""
import re
import unittest

from support import Case, USAGE

COMMANDS = ("demo", "plan", "train", "launch", "compare", "report", "reproduce", "methods",
            "codecs", "encode", "decode", "inspect", "check", "bench", "info", "help")


class Help(Case):
    def test_lists_every_command(self):
        text = self.text("help")
        listed = re.findall(r"^  ([a-z]+)  +\S", text.split("Commands")[1], re.MULTILINE)
        self.assertEqual(set(listed), set(COMMANDS))

    def test_lists_every_exit_code(self):
        text = self.text("help").split("Exit codes")[1]
        self.assertEqual(re.findall(r"^  (\d)  ", text, re.MULTILINE), list("01234"))

    def test_three_ways_to_ask(self):
        for command in COMMANDS:
            text = self.text("help", command)
            self.assertTrue(text.startswith("terse %s: " % command), text)
            self.assertIn("Usage\n  terse %s" % command, text)
            self.assertEqual(text, self.text(command, "--help"))
            self.assertEqual(text, self.text(command, "-h"))

    def test_overview_is_the_same_for_help_options(self):
        self.assertEqual(self.text("help"), self.text("--help"))
        self.assertEqual(self.text("help"), self.text("-h"))

    def test_lines_fit_a_page(self):
        for words in ((), *((command,) for command in COMMANDS)):
            for line in self.text("help", *words).splitlines():
                self.assertLessEqual(len(line), 100, line)

    def test_no_colour_into_a_pipe(self):
        self.assertNotIn("\033", self.text("help"))

    def test_version(self):
        self.assertRegex(self.text("--version"), r"^terse \d+\.\d+\.\d+\n$")

    def test_nothing_is_wrong_usage_but_helps(self):
        done = self.terse(expect=USAGE)
        self.assertIn(b"Commands", done.stdout)


class Wrong(Case):
    def test_near_command_is_suggested(self):
        for wrong, near in (("encod", "encode"), ("inspekt", "inspect"), ("dec", "decode"),
                            ("codec", "codecs"), ("benhc", "bench")):
            self.assertIn("Did you mean 'terse %s'?" % near, self.error(wrong, expect=USAGE))

    def test_far_command_is_not(self):
        text = self.error("frobnicate", expect=USAGE)
        self.assertIn("no command 'frobnicate'", text)
        self.assertNotIn("Did you mean", text)

    def test_usage_errors(self):
        table = (
            (("--frob",), "unknown option '--frob'"),
            (("help", "a", "b"), "one command"),
            (("help", "nonsense"), "no command 'nonsense'"),
            (("codecs", "--frob"), "unrecognized option '--frob'"),
            (("codecs", "a", "b"), "one codec"),
            (("methods", "--frob"), "unrecognized option '--frob'"),
            (("methods", "a", "b"), "one method"),
            (("info", "x"), "too many"),
            (("demo", "x"), "too many"),
            (("encode",), "NPY file is missing"),
            (("encode", "x.npy"), "-o OUT.terse is missing"),
            (("encode", "x.npy", "-o", "y"), "--codec SPEC is missing"),
            (("encode", "x.npy", "y.npy", "-o", "z"), "one NPY file"),
            (("encode", "x.npy", "-o"), "requires an argument"),
            (("encode", "--threads", "0"), "--threads: '0'"),
            (("encode", "--seed", "-1"), "--seed: '-1'"),
            (("encode", "--seed", "18446744073709551616"), "--seed:"),
            (("encode", "--worker", "16777215"), "--worker:"),
            (("encode", "--step", "1x"), "--step: '1x'"),
            (("encode", "--tensor", "a"), "--tensor: 'a'"),
            (("encode", "--tensor", "a=2x"), "--tensor: 'a=2x'"),
            (("decode", "x"), "-o OUT.npy is missing"),
            (("decode",), "missing"),
            (("inspect",), "a file is missing"),
            (("inspect", "a", "b"), "one file"),
            (("bench",), "missing: codecs"),
            (("bench", "frob"), "codecs"),
            (("bench", "codecs", "frob"), "'frob' belongs to no option"),
            (("bench", "codecs", "--count", "3x"), "--count: '3x'"),
            (("bench", "codecs", "--threads", "0"), "--threads: '0'"),
            (("bench", "codecs", "--seconds", "-1"), "--seconds: '-1'"),
            (("bench", "codecs", "--kernels", "sse9", "--count", "1k"), "sse9"),
            (("bench", "codecs", "--codec", "topk:kep=1", "--count", "1k"), "offset"),
        )
        for words, reason in table:
            with self.subTest(words=words):
                self.assertIn(reason, self.terse(*words, expect=USAGE).stderr.decode())


if __name__ == "__main__":
    unittest.main()
