"""Where mutants are tried: a scratch copy of the tree with a build folder of its own."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

import mutants

# Tests that may catch a mutant, nearest first: those of the folder, then all of TESTS. Within a
# group the quick ones come first. Long tests, other languages and processes are left out.
TESTS = re.compile(r"^(codec/|wire/frame|conform$|exchange|group/|golden/(frames|refuse)$|method/"
                   r"|threads$|train/files/|train/loop/|layout$|cli/(train_resume|train_same)$)")
NEAR = [("src/method", r"method/"), ("src/codec", r"codec/|golden/|conform|method/codes"),
        ("src/combine", r"exchange|method/(conform|sign|codes|aggregate|buckets)"),
        ("src/update", r"method/(reference|aggregate|conform)"),
        ("src/direction", r"method/(reference|def|qadam|conform)"),
        ("src/feedback", r"method/(regtopk|conform|resume)"), ("src/point", r"method/def"),
        ("src/wire", r"wire/|golden/|exchange"), ("train/", r"train/|cli/train_resume")]
NO_COVERAGE = ("method/pinned",)  # slow without optimisation, and others run its lines
SKIPPED = 77    # the exit code of a test that cannot run here
LONGEST = 1800  # seconds of a test without a mutant; with one it may take ten times its own


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Bench:
    """How a mutant is judged; what building and testing are is left to others."""

    folder = ""

    def compile(self, path):
        """Builds the object of a source file; its digest, or None if it does not compile."""
        raise NotImplementedError

    def build(self, names):
        """Builds what these tests need; whether it could."""
        raise NotImplementedError

    def tests(self, path):
        """Groups of names of tests, nearest to the file first."""
        raise NotImplementedError

    def run(self, name):
        """Whether the test passes."""
        raise NotImplementedError

    def write(self, path, text):
        with open(os.path.join(self.folder, path), "w", encoding="utf-8") as out:
            out.write(text)

    def judge(self, mutant, text):
        """("caught", by) or ("survived", "") or ("does not compile", "") or ("same code", "")."""
        plain = self.compile(mutant.path)
        self.write(mutant.path, mutant.apply(text))
        try:
            made = self.compile(mutant.path)
            if made is None:
                return "does not compile", ""
            if made == plain:
                return "same code", ""
            for group in self.tests(mutant.path):
                if not self.build(group):
                    return "does not compile", ""
                for name in group:
                    if not self.run(name):
                        return "caught", name
            return "survived", ""
        finally:
            self.write(mutant.path, text)


class Tree(Bench):
    """A copy of the repository, built by CMake. `flags` are for the C compiler."""

    def __init__(self, root, folder, flags="", build_type="Release"):
        self.root, self.folder, self.flags, self.build_type = root, folder, flags, build_type
        self.out = os.path.join(folder, "build")
        self.seconds = {}
        self.objects = {}
        self.programs = {}

    def files(self):
        done = subprocess.run(["git", "-C", self.root, "ls-files", "-co", "--exclude-standard"],
                              stdout=subprocess.PIPE, check=True)
        return done.stdout.decode().split("\n")[:-1]

    def sync(self):
        """Copies what differs, so that ninja builds only that."""
        for path in self.files():
            source, target = os.path.join(self.root, path), os.path.join(self.folder, path)
            if not os.path.isfile(source):
                continue
            with open(source, "rb") as file:
                data = file.read()
            if os.path.isfile(target):
                with open(target, "rb") as file:
                    if file.read() == data:
                        continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(data)
            shutil.copymode(source, target)

    def prepare(self):
        self.sync()
        if not os.path.exists(os.path.join(self.out, "build.ninja")):
            launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
            self.call(["cmake", "-S", self.folder, "-B", self.out, "-G", "Ninja",
                       "-DTERSE_TESTS=ON", "-DTERSE_WERROR=OFF", "-DCMAKE_C_FLAGS=" + self.flags,
                       "-DCMAKE_BUILD_TYPE=" + self.build_type, *launcher], check=True)
        self.programs = self.list_programs()
        with open(os.path.join(self.out, "compile_commands.json"), encoding="utf-8") as file:
            for entry in json.load(file):
                output = entry.get("output") or re.search(r" -o (\S+)", entry["command"]).group(1)
                path = os.path.relpath(os.path.realpath(entry["file"]),
                                       os.path.realpath(self.folder))
                self.objects.setdefault(path, output)

    def list_programs(self):
        """{test: (what ninja builds for it, its command, its environment)}. ctest names no command
        that is not built yet, so they are read where it reads them; and it would stop a test after
        a time that a busy machine may need."""
        listed = json.loads(subprocess.run(
            ["ctest", "--test-dir", self.out, "--show-only=json-v1"], stdout=subprocess.PIPE,
            check=True).stdout)["tests"]
        properties = {test["name"]: {prop["name"]: prop["value"]
                                     for prop in test.get("properties", [])} for test in listed}
        programs = {}
        for where, _, names in os.walk(os.path.join(self.out, "tests")):
            if "CTestTestfile.cmake" not in names:
                continue
            text = mutants.read(where, "CTestTestfile.cmake")
            for name, words in re.findall(r"add_test\(\[=\[(.+?)\]=\] (.*)\)", text):
                about = properties.get(name, {})
                if TESTS.match(name) and "long" not in about.get("LABELS", []):
                    command = re.findall(r'"([^"]*)"', words)
                    made = [word for word in command if word.startswith(self.out + "/tests/")]
                    target = os.path.relpath(made[0], self.out) if made else "terse"
                    environment = dict(one.split("=", 1) for one in about.get("ENVIRONMENT", []))
                    programs[name] = (target, command, environment, where)
        return programs

    def call(self, command, check=False, seconds=LONGEST, env=None, cwd=None, fine=(0,)):
        """Whether the command ends well. What it started ends with it."""
        env = dict(os.environ, CCACHE_BASEDIR=self.folder, CCACHE_NOHASHDIR="1", **(env or {}))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=env, cwd=cwd, start_new_session=True) as process:
            try:
                code = process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = -1
        if check and code not in fine:
            raise RuntimeError("failed: " + " ".join(command))
        return code in fine

    def ninja(self, targets):
        return self.call(["ninja", "-C", self.out, "-j", "2", *sorted(set(targets))])

    def compile(self, path):
        target = self.objects.get(path)
        if not target or not self.ninja([target]):
            return None
        with open(os.path.join(self.out, target), "rb") as file:
            return sha(file.read())

    def build(self, names):
        return self.ninja([self.programs[name][0] for name in names])

    def tests(self, path):
        near = [pattern for folder, pattern in NEAR if path.startswith(folder)]
        first = [name for name in self.programs
                 if any(re.match(pattern, name) for pattern in near)]
        rest = [name for name in self.programs if name not in first]
        by_time = lambda name: self.seconds.get(name, 0)
        return [sorted(first, key=by_time), sorted(rest, key=by_time)]

    def run(self, name):
        _, command, environment, where = self.programs[name]
        own = self.seconds.get(name)
        return self.call(command, seconds=max(60, 10 * own) if own else LONGEST, env=environment,
                         cwd=where, fine=(0, SKIPPED))

    def baseline(self, store, digest):
        """Builds and runs every test once without a mutant; the names of those that fail. What was
        run for the same sources is not run again."""
        if not self.build(list(self.programs)):
            raise RuntimeError("the tree does not build in " + self.folder)
        failed = []
        for name in self.programs:
            key = "baseline %s %s" % (digest, name)
            if not store.get(key):
                start = time.monotonic()
                passed = self.run(name)
                if not passed:
                    failed.append(name)
                    continue
                store.put(key, round(time.monotonic() - start, 2) + 0.01)
            self.seconds[name] = store.get(key)
        return failed

    # ---- which lines run ----

    def executed(self, folders):
        """{path: lines that the tests execute}, from gcov. The copy has --coverage."""
        names = [name for name in sorted(self.programs) if name not in NO_COVERAGE]
        self.build(names)
        for name in names:
            self.run(name)
        counts = [os.path.join(where, name) for where, _, names in os.walk(self.out)
                  for name in names if name.endswith(".gcda")]
        lines = {}
        for first in range(0, len(counts), 50):
            done = subprocess.run(["gcov", "--json-format", "--stdout", *counts[first:first + 50]],
                                  cwd=self.out, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  check=True)
            for line in done.stdout.decode().splitlines():
                if line.startswith("{"):
                    self.add_lines(json.loads(line), folders, lines)
        return {path: sorted(found) for path, found in lines.items()}

    def add_lines(self, report, folders, lines):
        for file in report["files"]:
            path = os.path.join(report["current_working_directory"], file["file"])
            path = os.path.relpath(os.path.realpath(path), os.path.realpath(self.folder))
            if path.endswith(".c") and path.startswith(folders):
                lines.setdefault(path, set()).update(
                    line["line_number"] for line in file["lines"] if line["count"] > 0)
