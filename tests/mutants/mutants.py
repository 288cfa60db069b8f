"""Mutants: small mistakes made on purpose, one at a time. The named ones are written down in
named.txt, others are drawn over lines that tests execute."""
import hashlib
import os
import random
import re

NAMED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "named.txt")
ACCEPTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "accepted.txt")
CLAIMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "claims.txt")

# Where mutants are drawn: folders, and files of checkpoints.
DRAWN = ("src/method", "src/codec", "src/combine", "src/update", "src/direction", "src/feedback",
         "src/point", "src/wire", "train/files/checkpoint", "train/loop/checkpoint")


class Mutant:
    """One text of one file replaced. `old` occurs exactly once from `line` on, or once at all."""

    def __init__(self, name, path, old, new, line=None):
        self.name, self.path, self.old, self.new, self.line = name, path, old, new, line

    def apply(self, text):
        """The text of the file with the mistake in it."""
        if self.line is None:
            return text.replace(self.old, self.new)
        lines = text.splitlines(keepends=True)
        lines[self.line - 1] = self.new + "\n"
        return "".join(lines)

    def key(self):
        """Says which mistake it is, whatever line it is in."""
        return "%s | %s | %s" % (self.path, flat(self.old), flat(self.new))

    def digest(self, text):
        """Of the file with the mistake: what was found out about it stays true."""
        return hashlib.sha256((self.path + "\0" + self.apply(text)).encode()).hexdigest()[:20]


def flat(text):
    return " ".join(text.split())


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as source:
        return source.read()


def blocks(path):
    """The blocks of a text file: lists of lines, separated by blank lines; # begins a comment."""
    block = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if line.startswith("#"):
                continue
            if line.strip():
                block.append((number, line))
            elif block:
                yield block
                block = []
    if block:
        yield block


def named(root, path=NAMED):
    """(mutants, errors): a mutant whose text does not occur exactly once is an error. A block is

        NAME FILE
        - a line of the text (several are joined by newlines; leading blanks count after "- ")
        + a line of its replacement
    """
    found, errors = [], []
    for block in blocks(path):
        number, first = block[0]
        words = first.split()
        old = "\n".join(line[2:] for _, line in block[1:] if line.startswith("- "))
        new = "\n".join(line[2:] for _, line in block[1:] if line.startswith("+"))
        if len(words) != 2 or not old or any(line[:1] not in "-+" for _, line in block[1:]):
            errors.append("named.txt:%d: not a mutant: %s" % (number, first))
            continue
        mutant = Mutant(words[0], words[1], old, new)
        try:
            count = read(root, mutant.path).count(old)
        except OSError:
            count = 0
        if count != 1:
            errors.append("named.txt:%d: %s: its text occurs %d times in %s: %s" % (
                number, mutant.name, count, mutant.path, flat(old)))
        else:
            found.append(mutant)
    names = [mutant.name for mutant in found]
    errors += ["named.txt: two mutants are called %s" % name for name in sorted(set(names))
               if names.count(name) > 1]
    return found, errors


def accepted(path=ACCEPTED):
    """Reasons by key. A block is: FILE, "- old line", "+ new line", and the reason."""
    reasons = {}
    for block in blocks(path):
        lines = [line for _, line in block]
        old = "\n".join(line[2:] for line in lines[1:] if line.startswith("- "))
        new = "\n".join(line[2:] for line in lines[1:] if line.startswith("+"))
        reason = " ".join(line.strip() for line in lines[1:] if line[:1] not in "-+")
        reasons[Mutant("", lines[0].strip(), old, new).key()] = reason
    return reasons


def claim_table(path=CLAIMS):
    """paper/claim -> names of mutants that fail it."""
    table = {}
    for block in blocks(path):
        for _, line in block:
            claim, *names = line.split()
            table[claim] = names
    return table


# ---- drawing ----

SWAPS = [(r"<=", "<"), (r">=", ">"), (r"(?<![<>-])<(?![<=])", "<="), (r"(?<![<>-])>(?![>=])", ">="),
         (r"==", "!="), (r"!=", "=="), (r"&&", "||"), (r"\|\|", "&&"), (r"(?<= )\+(?= )", "-"),
         (r"(?<= )-(?= )", "+"), (r"(?<= )\*(?= )", "/"), (r"(?<= )/(?= )", "*"),
         (r"\+=", "-="), (r"-=", "+="), (r"\*=", "/="), (r"(?<= )%(?= )", "/"),
         (r"(?<= )<<(?= )", ">>"), (r"(?<= )>>(?= )", "<<"), (r"(?<= )&(?= )", "|"),
         (r"(?<= )\|(?= )", "&"), (r"\|=", "&="), (r"&=", "|=")]
NUMBER = re.compile(r"(?<![\w.\"])(\d+(?:\.\d+)?)([uUfF]?)(?![\w.])")
CONDITION = re.compile(r"^(\s*(?:\} else )?if )\((.*)\)( \{)?$")
STATEMENT = re.compile(r"^(\s*)(?!return|break|continue|goto|case|static|const|struct|enum|double|float"
                       r"|int|unsigned|size_t|uint|char|void|terse_|typedef|#)[\w\[\]().>*&-]+.*;$")


def code_of(line):
    """The line with texts and comments blanked out, so that places stay."""
    line = re.sub(r'"(?:[^"\\]|\\.)*"', lambda m: '"' + " " * (len(m.group()) - 2) + '"', line)
    line = re.sub(r"'(?:[^'\\]|\\.)*'", lambda m: "'" + " " * (len(m.group()) - 2) + "'", line)
    line = re.sub(r"/\*.*?\*/", lambda m: " " * len(m.group()), line)
    return re.sub(r"/\*.*|//.*", lambda m: " " * len(m.group()), line)


def variants(line):
    """The mistakes that can be made in a line of C."""
    code = code_of(line)
    if not code.strip() or code.lstrip().startswith("#"):
        return []
    found = []
    for pattern, other in SWAPS:
        found += [line[:m.start()] + other + line[m.end():] for m in re.finditer(pattern, code)]
    for match in NUMBER.finditer(code):
        digits, suffix = match.groups()
        value = {"0": "1", "1": "0"}.get(digits) or (
            repr(float(digits) * 2) if "." in digits else str(int(digits) + 1))
        found.append(line[:match.start()] + value + suffix + line[match.end():])
    condition = CONDITION.match(code.rstrip())
    if condition and code.count("(") == code.count(")"):
        start, end = condition.span(2)
        found.append(line[:start] + "!(" + line[start:end] + ")" + line[end:])
    statement = STATEMENT.match(code.rstrip())
    if statement and code.count("(") == code.count(")") and "{" not in code:
        found.append(statement.group(1) + ";")
    return sorted(set(found) - {line})


def draw(root, executed, seed, count):
    """Mutants in an order that depends on the seed alone; `executed` is {path: lines}. Files are
    drawn by their number of executed lines, and a line gives one mutant."""
    rng = random.Random(seed)
    places = [(path, line) for path in sorted(executed) for line in sorted(executed[path])]
    rng.shuffle(places)
    found = []
    texts = {}
    for path, number in places:
        if len(found) == count:
            break
        if path not in texts:
            texts[path] = read(root, path).splitlines()
        lines = texts[path]
        line = lines[number - 1] if number <= len(lines) else ""
        choices = variants(line)
        if choices:
            new = rng.choice(choices)
            found.append(Mutant("%s:%d" % (path, number), path, line, new, number))
    return found
