#!/usr/bin/env python3
"""tools/run-tests counts right: what passes, fails, crashes and is skipped."""

import importlib.machinery
import importlib.util
import os
import unittest
import xml.etree.ElementTree as ElementTree

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "run-tests")


def load(path):
    loader = importlib.machinery.SourceFileLoader("run_tests", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
    loader.exec_module(module)
    return module


run_tests = load(TOOL)


class Counting(unittest.TestCase):
    def count(self, output, status="run", skipped=None):
        case = ElementTree.Element("testcase", status=status)
        if skipped:
            ElementTree.SubElement(case, "skipped", message=skipped)
        ElementTree.SubElement(case, "system-out").text = output
        return run_tests.count_program(case)

    def test_cmocka(self):
        output = ("[==========] Running 3 test(s).\n[ RUN      ] a\n[       OK ] a\n"
                  "[ RUN      ] b\n[  SKIPPED ] b\n[ RUN      ] c\n[  FAILED  ] c\n"
                  "[==========] 3 test(s) run.\n[  PASSED  ] 1 test(s).\n"
                  "[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] b\n"
                  "\n 1 SKIPPED TEST(S)\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] c\n")
        self.assertEqual((1, 1, 1), self.count(output, "fail"))

    def test_cmocka_crash(self):
        output = "[==========] Running 3 test(s).\n[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n"
        self.assertEqual((1, 2, 0), self.count(output, "fail"))

    def test_cmocka_sanitizer_after_all_passed(self):
        output = "[==========] Running 1 test(s).\n[       OK ] a\n==1==ERROR: LeakSanitizer\n"
        self.assertEqual((1, 1, 0), self.count(output, "fail"))

    def test_unittest(self):
        output = "...F\nRan 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=3)\n"
        self.assertEqual((3, 3, 3), self.count(output, "fail"))
        self.assertEqual((2, 0, 0), self.count("Ran 2 tests in 0.1s\n\nOK\n"))

    def test_lines(self):
        self.assertEqual((2, 1, 1), self.count("ok a\nok b\nnot ok c\nskip d: why\n", "fail"))

    def test_plain_program(self):
        self.assertEqual((1, 0, 0), self.count("all is well\n"))
        self.assertEqual((0, 1, 0), self.count("", "fail"))

    def test_program_that_is_not_there(self):
        self.assertEqual((0, 1, 0), self.count("", "notrun"))

    def test_skipped_program(self):
        self.assertEqual((0, 0, 1), self.count("no torch", "notrun", "SKIP_RETURN_CODE=77"))


if __name__ == "__main__":
    unittest.main()
