#!/usr/bin/env python3
"""The laws of the tree: who may include whom, how long things may get, and that ARCHITECTURE.md
tells the truth about the folders. One line "ok LAW" or "not ok LAW" each, the breaches below it."""

import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

# A folder of src/ may include from itself and from these.
MAY_INCLUDE = {
    "base": set(),
    "kernels": {"base"},
    "layout": {"base", "kernels"},
    "codec": {"base", "kernels", "layout"},
    "wire": {"base", "kernels", "layout"},
    "group": {"base", "kernels"},
    "direction": {"base"},
    "update": {"base", "kernels", "combine"},
    # The compositions stand on all stages.
    "combine": {"base", "kernels", "layout", "codec", "wire", "group"},
    "feedback": {"base", "codec", "combine"},
    "method": {"base", "kernels", "layout", "codec", "wire", "group", "combine",
               "direction", "feedback", "update"},
    "exchange": {"base", "method"},  # a facade of it
}
# The same within train/, which sees the library as its users do.
TRAIN_MAY_INCLUDE = {
    "files": {"common"},
    "data": {"common", "files"},
    "loop": {"common", "files", "data", "net"},
}
# These see the library as its users do.
OUTSIDE = ("common", "check", "cli", "plan", "report", "reproduce", "mpi", "bench", "examples",
           "tests/install", "train/net")
# A part of the command may be made of others: "report/run.h", "train/loop/train.h".
PARTS = {"common": ("common",), "check": ("check",), "plan": ("common",),
         "cli": ("common", "check", "plan", "report", "reproduce", "train"),
         "report": ("common",), "reproduce": ("common",), "train": ("common",)}
SEE_TRAIN = ("cli", "bench")  # and the nouns of train/ ("net/net.h")

# Headers of the C library, POSIX and the compiler; any other <header> is a third party's.
SYSTEM = re.compile(
    r"(assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdalign|stdarg|"
    r"stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|strings|time|dirent|dlfcn|fcntl|getopt|"
    r"fnmatch|libgen|malloc|netdb|omp|pthread|sched|semaphore|unistd|immintrin|x86intrin|cpuid|"
    r"arm_neon|"
    r"sys/[a-z0-9_]+)\.h$")
IN_TESTS_TOO = {"cmocka.h"}  # the tests' own third party: anywhere in tests/, nowhere else
IN_PUBLIC_HEADER = {"mpi.h": "include/terse/mpi.h"}  # whoever includes that one has MPI

MAX_FILE = 500
MAX_FUNCTION = 70
MAX_KERNEL = 100  # a kernel's loop is one thing and may be long
MAX_COLUMNS = 100
MAX_FIELDS = 24  # of a struct in src/, tables of functions left out

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
NOT_CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
UNFINISHED = re.compile(r"\b(" + "TO" + "DO|FIX" + r"ME)\b")
MACHINE_PATH = re.compile(r"/(wo" + r"rk|ro" + r"ot|ho" + r"me)/|/tm" + r"p/build")
# The version of the project, or what depends on it, typed by hand.
VERSION = re.compile(r"^project\(\w+ VERSION ([0-9.]+)", re.M)
TYPED_VERSION = (r"""(["'])\d+\.\d+\.\d+\1|libterse[\w-]*\.so\.\d|\bfind_package\(terse \d"""
                 r"""|\b(?:lib)?terse(?:-mpi)? v?\d+\.\d+|^version\s*=\s*["']\d""")
# Code that looks at the text of a spec, instead of asking terse_method_describe and its like.
READ_SPECS = ("src/base", "src/codec", "src/method", "tests")
SPEC = r"\b(?:\w*spec|complete|method)\b"
SPEC_IN_C = re.compile(
    r"\bstr(?:n?casecmp|ncmp|r?chr|(?:case)?str|c?spn|pbrk|tok|tok_r|sep)\s*\([^;{}]*?%s"
    r"|\bstrcmp\s*\((?:[^;,{}]*%s[^;,{}]*,\s*\"|\s*\"\"?,[^;,{}]*%s)"
    r"|%s\s*\[[^\]]*\]\s*[=!]=" % (SPEC, SPEC, SPEC, SPEC))
SPEC_IN_PYTHON = re.compile(
    r"""["']\s+(?:not\s+)?in\s+[\w.]*(?:spec|settings)\b"""
    r"""|\b(?:spec|settings)\.(?:startswith|endswith|r?split|r?partition|r?find|r?index|remove\w+)\("""
    r"""|\bre\.\w+\([^\n]*\b(?:spec|settings)\b|\bspec\[""")
CODE_ENDINGS = (".c", ".h", ".py", ".sh")


def walk():
    """Every file of the project, as a path from its root."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in (".git", "build", "__pycache__"))
        for file in sorted(set(files) - {".git"}):  # a file, in a worktree of git
            yield os.path.relpath(os.path.join(folder, file), ROOT)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="strict") as file:
        return file.read()


def read_text(path):
    """The text of a file, or None for files of bytes (frames, corpora)."""
    try:
        return read(path)
    except UnicodeDecodeError:
        return None


def is_c(path):
    return path.endswith((".c", ".h"))


def is_within(path, folders):
    return any(path.startswith(folder + "/") for folder in folders)


def includes(path):
    return INCLUDE.findall(read(path))


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def without_comments(text):
    """Comments and quoted text become blanks; lines keep their numbers."""
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def layers(files):
    for path in filter(is_c, files):
        parts = path.split("/")
        if parts[0] != "src":
            continue
        if parts[1] not in MAY_INCLUDE:
            yield "%s: the folder src/%s has no place among the layers" % (path, parts[1])
            continue
        for kind, header in includes(path):
            folder = header.split("/")[0]
            if kind == '"' and folder != parts[1] and folder not in MAY_INCLUDE[parts[1]]:
                yield '%s: must not include "%s"' % (path, header)


def outside_sees_public_headers(files):
    for path in filter(is_c, files):
        if not is_within(path, OUTSIDE):
            continue
        for kind, header in includes(path):
            if path.split("/")[0] in SEE_TRAIN and os.path.exists(os.path.join(ROOT, "train", header)):
                continue
            beside = os.path.join(os.path.dirname(path), header)
            top = "/".join(path.split("/")[:-1])
            if header.split("/")[0] in PARTS.get(path.split("/")[0], ()):
                beside = header
            if kind == '"' and (".." in header or not os.path.exists(os.path.join(ROOT, beside))):
                yield '%s: "%s" is not beside it in %s/' % (path, header, top)


def train_layers(files):
    for path in filter(is_c, files):
        parts = path.split("/")
        if parts[0] != "train" or is_within(path, OUTSIDE):
            continue
        if parts[1] not in TRAIN_MAY_INCLUDE:
            yield "%s: the folder train/%s has no place among the layers" % (path, parts[1])
            continue
        for kind, header in includes(path):
            folder = header.split("/")[0]
            if kind == '"' and folder != parts[1] and folder not in TRAIN_MAY_INCLUDE[parts[1]]:
                yield '%s: must not include "%s"' % (path, header)


def public_headers_include_public_headers(files):
    for path in filter(is_c, files):
        if is_within(path, ("include",)):
            for kind, header in includes(path):
                if IN_PUBLIC_HEADER.get(header) == path:
                    continue
                if kind == '"' or not (header.startswith("terse/") or SYSTEM.match(header)):
                    yield "%s: includes %s" % (path, header)


def third_party_headers_have_one_place(files):
    """One in each part of the project: what the programs share is in common/."""
    places = {}
    for path in filter(is_c, files):
        for kind, header in includes(path):
            if kind == '"' or header.startswith("terse/") or SYSTEM.match(header):
                continue
            if path.startswith("tests/") and header in IN_TESTS_TOO:
                continue
            places.setdefault((path.split("/")[0], header), []).append(path)
    for (_, header), paths in places.items():
        if header in IN_TESTS_TOO or len(paths) > 1:
            yield "<%s> is included by %s" % (header, ", ".join(paths))


def functions_are_short(files):
    for path in filter(is_c, files):
        limit = MAX_KERNEL if is_within(path, ("src/kernels",)) else MAX_FUNCTION
        start = 0
        for number, line in enumerate(read(path).split("\n"), 1):
            if line == "{":
                start = number
            elif line == "}" and start:
                if number - start - 1 > limit:
                    yield "%s:%d: a function of %d lines" % (path, start, number - start - 1)
                start = 0


def structs_are_small(files):
    for path in filter(is_c, files):
        if not path.startswith("src/") or path.startswith("src/kernels/"):
            continue
        text = without_comments(read(path))
        for found in re.finditer(r"^(?:struct (\w+)|typedef struct (\w+)) \{(.*?)^\}", text,
                                 re.M | re.S):
            fields = found.group(3).count(";")
            name = found.group(1) or found.group(2)
            if fields > MAX_FIELDS and not name.endswith("_ops"):
                yield "%s:%d: struct %s has %d fields" % (path, line_of(text, found.start()), name,
                                                          fields)


def files_are_short(files):
    for path in files:
        if path.endswith(CODE_ENDINGS) or path.startswith("tools/"):
            lines = read(path).count("\n")
            if lines > MAX_FILE:
                yield "%s: %d lines" % (path, lines)


def lines_are_short(files):
    for path in filter(is_c, files):
        for number, line in enumerate(read(path).split("\n"), 1):
            if len(line) > MAX_COLUMNS:
                yield "%s:%d: %d columns" % (path, number, len(line))


def comments_are_blocks(files):
    for path in filter(is_c, files):
        text = without_comments(read(path))
        for found in re.finditer("//", text):
            yield "%s:%d" % (path, line_of(text, found.start()))


def matches(files, pattern):
    for path in files:
        text = read_text(path)
        for found in pattern.finditer(text or ""):
            yield "%s:%d: %s" % (path, line_of(text, found.start()), found.group())


def nothing_is_unfinished(files):
    return matches(files, UNFINISHED)


def no_machine_paths(files):
    return matches(files, MACHINE_PATH)


def version_is_written_once(files):
    """In the first line of the build; whatever else tells it gets it from there. The records of
    trainings say with which version they were made."""
    found = VERSION.search(read("CMakeLists.txt")) if "CMakeLists.txt" in files else None
    if not found:
        yield "CMakeLists.txt: no project(NAME VERSION ...)"
        return
    typed = re.compile(r"%s|(?<![\d.])%s(?![\d.])" % (TYPED_VERSION, re.escape(found.group(1))), re.M)
    yield from matches([path for path in files if path != "CMakeLists.txt" and
                        not path.startswith("docs/evidence/")], typed)
    if len(typed.findall(read("CMakeLists.txt"))) > 1:
        yield "CMakeLists.txt: the version is there twice"


def specs_are_asked(files):
    """A program that compares the text of a spec is wrong about the next method or spelling."""
    for path in files:
        text = None if is_within(path, READ_SPECS) else read_text(path)
        if is_c(path) and text:
            # what is quoted is blank, the quotes stay
            text = NOT_CODE.sub(lambda found: '"' + re.sub(r"[^\n]", " ", found.group())[2:] + '"'
                                if found.group()[0] == '"' else
                                re.sub(r"[^\n]", " ", found.group()), text)
            pattern = SPEC_IN_C
        elif text and (path.endswith(".py") or "python3" in text.split("\n", 1)[0]):
            pattern = SPEC_IN_PYTHON
        else:
            continue
        for found in pattern.finditer(text):
            yield "%s:%d: %s" % (path, line_of(text, found.start()), found.group().strip())


def sources_are_listed(files):
    """In the CMakeLists.txt of its own folder, or of one above."""
    for path in files:
        if not path.endswith(".c") or path.split("/")[0] not in (
                "src", "common", "cli", "train", "report", "reproduce"):
            continue
        folder, name, found = os.path.dirname(path), os.path.basename(path), False
        while folder and not found:
            lists = folder + "/CMakeLists.txt"
            listed = read(lists) if lists in files else ""
            found = re.search(r"(^|\s)%s(\s|\))" % re.escape(name), listed)
            folder, name = os.path.dirname(folder), os.path.basename(folder) + "/" + name
        if not found:
            yield "no CMakeLists.txt lists %s" % path


def code_folders(files):
    """The folders a reader should find explained: the top ones, and all that hold code."""
    found = set()
    for path in files:
        folder = os.path.dirname(path)
        if folder:
            found.add(folder.split("/")[0])
        if folder and path.endswith(CODE_ENDINGS):
            found.add(folder)
    return sorted(found)


def architecture_tells_the_truth(files):
    if "ARCHITECTURE.md" not in files:
        yield "there is no ARCHITECTURE.md"
        return
    text = read("ARCHITECTURE.md")
    found = re.findall(r"(?<![\w/.<:-])((?:[\w.-]+/)+(?:[\w.-]*\w)?)(?!\w*\*)", text)
    named = {path.rstrip("/") for path in found}
    for path in sorted(set(found)):
        within = os.path.isdir(os.path.join(ROOT, path.split("/")[0]))
        if (path.endswith("/") or within) and not os.path.exists(os.path.join(ROOT, path)):
            yield "ARCHITECTURE.md names %s, which does not exist" % path
    for folder in code_folders(files):
        if folder not in named and not any(path.startswith(folder + "/") for path in named):
            yield "ARCHITECTURE.md does not name %s/" % folder


def architecture_knows_the_layers(files):
    """The last column of its table is MAY_INCLUDE."""
    text = read("ARCHITECTURE.md") if "ARCHITECTURE.md" in files else ""
    told = dict(re.findall(r"(?m)^\| `src/(\w+)/` \|.*\| ([^|]+) \|$", text))
    for folder, allowed in MAY_INCLUDE.items():
        named = set(re.findall(r"\w+", told.get(folder, "")))
        if named != allowed:
            yield "ARCHITECTURE.md: src/%s/ may include %s, not %s" % (
                folder, ", ".join(sorted(allowed)) or "-", ", ".join(sorted(named)) or "-")


LAWS = (
    ("base <- kernels <- layout <- codec, wire, group <- combine <- method <- exchange", layers),
    ("public headers include public headers", public_headers_include_public_headers),
    ("common, cli, report, reproduce, mpi, bench, examples, train/net see only <terse/...>",
     outside_sees_public_headers),
    ("train: files <- data, net <- loop, and <terse/...>", train_layers),
    ("each third-party header has one place in a part", third_party_headers_have_one_place),
    ("functions are at most %d lines, %d in kernels" % (MAX_FUNCTION, MAX_KERNEL),
     functions_are_short),
    ("structs of src/ have at most %d fields" % MAX_FIELDS, structs_are_small),
    ("files are at most %d lines" % MAX_FILE, files_are_short),
    ("lines are at most %d columns" % MAX_COLUMNS, lines_are_short),
    ("comments are /* blocks */", comments_are_blocks),
    ("nothing is left unfinished", nothing_is_unfinished),
    ("no path of one machine", no_machine_paths),
    ("the version is written in CMakeLists.txt alone", version_is_written_once),
    ("nobody outside src/method reads the text of a spec", specs_are_asked),
    ("every source file is in a CMakeLists.txt", sources_are_listed),
    ("ARCHITECTURE.md names the folders there are", architecture_tells_the_truth),
    ("ARCHITECTURE.md tells who may include whom", architecture_knows_the_layers),
)


def main():
    files = list(walk())
    bad = False
    for name, law in LAWS:
        breaches = list(law(files))
        print("%s %s" % ("not ok" if breaches else "ok", name))
        for breach in breaches:
            print("    " + breach)
        bad = bad or bool(breaches)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
