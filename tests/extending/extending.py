#!/usr/bin/env python3
"""Follows docs/extending.md in a copy of the tree: every step of the page is applied as written.

    extending.py apply          applies the edits; nothing is built
    extending.py build [DIR]    also builds the copy, checks each "until then" and runs the commands;
                                DIR is where the copy is made and stays, else a folder that is removed

A step is a heading "### N. `path`, a new file", "### N. `path`, after `text`" (before, in place of), or
"### N. run", and the first fenced block below it. "Until then the test `NAME` fails" and "Until then the
compiler refuses `FILE`" are checked before the step is taken. One line "ok STEP" or "not ok STEP: why" each;
the first that fails ends the run, since later steps stand on it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/extending.md"
PINNED = "tests/method/pinned.tsv"
SECTIONS = ("A codec", "A method of existing stages", "A direction")

SECTION = re.compile(r"(?m)^## (.+)$")
STEP = re.compile(r"(?m)^### (\d+)\. (.+)$")
EDIT = re.compile(r"`([^`]+)`, (?:(a new file)|(after|before|in place of) `([^`]+)`)$")
FENCE = re.compile(r"(?ms)^(`{3,})\w+\n(.*?)^\1$")
TEST_FAILS = re.compile(r"Until then the test `([^`]+)` fails")
REFUSED = re.compile(r"Until then the compiler refuses `([^`]+)`")
RUN_TESTS = re.compile(r"tools/run-tests build -R '([^']+)'(.*)")


class Wrong(Exception):
    """A step that cannot be done as the page says."""


def split(pattern, text):
    """(groups of a heading, text below it) for each heading that is not within a fenced block."""
    outside = FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence.group()), text)
    found = list(pattern.finditer(outside))
    ends = [heading.start() for heading in found[1:]] + [len(text)]
    return [(heading.groups(), text[heading.end():end]) for heading, end in zip(found, ends)]


def steps():
    """(section, number, what to do, text, block) of every step of the page."""
    sections = dict((groups[0], text) for groups, text in
                    split(SECTION, (ROOT / PAGE).read_text(encoding="utf-8")))
    for name in SECTIONS:
        if name not in sections:
            raise Wrong("%s: no section '%s'" % (PAGE, name))
        below = split(STEP, sections[name])
        if [int(groups[0]) for groups, _ in below] != list(range(1, len(below) + 1)) or not below:
            raise Wrong("%s: the steps of '%s' are not numbered 1, 2, ..." % (PAGE, name))
        for (number, what), text in below:
            block = FENCE.search(text)
            if not block:
                raise Wrong("%s, step %s: no fenced block" % (name, number))
            yield name, number, what, text[:block.start()], block.group(2)


def edit(tree, path, how, text, block):
    """Applies one edit. `how` is None for a new file."""
    file = tree / path
    if how is None:
        if file.exists():
            raise Wrong("%s exists" % path)
        file.write_text(block, encoding="utf-8")
        return
    if not file.exists():
        raise Wrong("there is no %s" % path)
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    found = [i for i, line in enumerate(lines) if text in line]
    if len(found) != 1:
        raise Wrong("%d lines of %s contain '%s'" % (len(found), path, text))
    at = found[0]
    lines[at:at + 1] = {"after": [lines[at], block], "before": [block, lines[at]],
                        "in place of": [block]}[how]
    file.write_text("".join(lines), encoding="utf-8")


def copy_tree(to):
    skip = shutil.ignore_patterns(".git", "build", "__pycache__")
    shutil.copytree(ROOT, to, ignore=skip, symlinks=True)


class Copy:
    """The copy of the tree, and what is done in it."""

    def __init__(self, tree):
        self.tree = tree

    def call(self, command, **more):
        environment = dict(os.environ, CMAKE_BUILD_PARALLEL_LEVEL=str(os.cpu_count() or 1))
        return subprocess.run(command, cwd=self.tree, env=environment, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)

    def must(self, what, command, **more):
        done = self.call(command, **more)
        if done.returncode != 0:
            raise Wrong("%s ended with %d:\n%s" % (what, done.returncode, done.stdout[-4000:]))
        return done.stdout

    def configure(self):
        self.must("cmake", ["cmake", "--preset", "release"])

    def targets(self, tests):
        """What has to be built for these tests: test-NAME where there is one, else a replay of a fuzz
        target, else the command."""
        for test in tests:
            name = test.replace("/", "-")
            if test.startswith("fuzz/"):
                yield "replay-" + test[5:]
            elif test.startswith(("cli/", "laws")) or test in ("golden/decoder", "golden/refuse-made"):
                yield "terse_command"
            else:
                yield "test-" + name

    def build(self, tests):
        return self.call(["cmake", "--build", "build", "--target", *sorted(set(self.targets(tests)))])

    def names(self, pattern, more):
        """The tests that ctest would run."""
        listed = self.must("ctest -N", "ctest --test-dir build -N -R '%s' %s" % (pattern, more),
                           shell=True)
        return re.findall(r"(?m)^ *Test +#\d+: (\S+)", listed)

    def built(self, tests):
        done = self.build(tests)
        if done.returncode != 0:
            raise Wrong("the build failed:\n%s" % done.stdout[-4000:])

    def must_fail(self, text):
        """Checks what the page says of the time before a step."""
        for test in TEST_FAILS.findall(text):
            pattern = "^%s$" % test
            if self.names(pattern, "") != [test]:
                raise Wrong("there is no test %s" % test)
            self.built([test])
            if self.call(["ctest", "--test-dir", "build", "-R", pattern]).returncode == 0:
                raise Wrong("the test %s passes before the step" % test)
            print("    before: the test %s fails" % test)
        for file in REFUSED.findall(text):
            done = self.call(["cmake", "--build", "build", "--target", "terse_objects"])
            if done.returncode == 0 or file not in done.stdout:
                raise Wrong("the compiler takes %s before the step" % file)
            print("    before: the compiler refuses %s" % file)

    def run(self, commands):
        """Runs the lines of a block. What they need is built first."""
        for command in commands.splitlines():
            found = RUN_TESTS.match(command)
            if found:
                self.built(self.names(found.group(1), found.group(2)))
            elif "test-method-pinned" in command:
                self.built(["method/pinned"])
            print("    $ %s" % command, flush=True)
            before = (self.tree / PINNED).read_text(encoding="utf-8").splitlines()
            output = self.must(command, command, shell=True)
            rows = (self.tree / PINNED).read_text(encoding="utf-8").splitlines()
            if not set(before) <= set(rows):
                raise Wrong("it has changed rows of %s:\n%s" % (
                    PINNED, "\n".join(sorted(set(before) - set(rows))[:10])))
            if found:
                print("    %s" % output.rstrip().splitlines()[-1])
            elif len(rows) > len(before):
                print("    %d new rows in %s" % (len(rows) - len(before), PINNED))


def follow(tree, building):
    copy_tree(tree)
    copy = Copy(tree)
    if building:
        copy.configure()
    for section, number, what, text, block in steps():
        name = "%s %s: %s" % (section, number, what)
        try:
            found = EDIT.match(what)
            if not found and what != "run":
                raise Wrong("not a step: see the head of the page")
            if building:
                copy.must_fail(text)
            if found:
                path, _, how, line = found.groups()
                edit(tree, path, how, line, block)
            elif building:
                copy.run(block)
            else:
                print("skip %s: nothing is built" % name)
                continue
        except Wrong as wrong:
            print("not ok %s: %s" % (name, wrong))
            return 1
        print("ok %s" % name, flush=True)
    return 0


def main():
    words = sys.argv[1:]
    if words[:1] == ["apply"] and len(words) == 1 or words[:1] == ["build"] and len(words) <= 2:
        building = words[0] == "build"
        try:
            if len(words) == 2:
                return follow(pathlib.Path(words[1]).resolve() / "terse", building)
            with tempfile.TemporaryDirectory() as folder:
                return follow(pathlib.Path(folder) / "terse", building)
        except Wrong as wrong:
            print("not ok %s: %s" % (PAGE, wrong))
            return 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
