"""The manual page and docs/train.md have the same options, defaults, models and data as --help, which is
made of the rows that the command reads."""
import os
import re
import unittest

from support import Case, USAGE

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def man_section(command):
    return read("docs", "man", "terse.1").split(".Ss terse %s\n" % command)[1].split("\n.S")[0]


def man_options(command):
    """{name: (has an argument, text)} of a command's list; several names may share an entry."""
    found = {}
    for item in man_section(command).split("\n.It ")[1:]:
        head, _, text = item.partition("\n")
        for name, argument in re.findall(r"Fl \\-([a-z-]+)((?: Ar \S+)?)", head):
            found[name] = (bool(argument), text.split("\n.El")[0])
    return found


class Options(Case):
    def options(self, command):
        """{name: (has an argument, text)} of --help."""
        text = self.text(command, "--help").split("\nOptions\n")[1].split("\n\n")[0]
        text = re.sub(r"\n {20,}", " ", text)
        found = {}
        for line in text.split("\n"):
            match = re.match(r"  (?:-\w, )?-(?:-([a-z-]+)|\w)( [A-Z]+)? +(.*)", line)
            self.assertIsNotNone(match, line)
            if match.group(1):
                found[match.group(1)] = (bool(match.group(2)), match.group(3))
        return found

    def assert_same(self, name, ours, theirs):
        """An option takes an argument in both, and both have the same default."""
        self.assertEqual(ours[0], theirs[0], "--%s: an argument" % name)
        usual = re.search(r"default ([0-9]+|[a-z]+(?=$|[.;]))", ours[1])
        if usual:
            plain = re.sub(r"\n\.[A-Z][a-z] ", " ", theirs[1])
            self.assertRegex(plain, r"[Dd]efault %s\b" % usual.group(1), "--%s" % name)

    def test_the_manual_lists_the_options_of_train(self):
        ours, theirs = self.options("train"), man_options("train")
        self.assertEqual(set(ours), set(theirs))
        for name in ours:
            self.assert_same(name, ours[name], theirs[name])

    def test_the_manual_lists_the_options_of_compare(self):
        """Those of train but the ones it names, and its own."""
        ours, theirs = self.options("compare"), man_options("compare")
        without = man_section("compare").split("except\n")[1].split(".Bl")[0]
        but = set(re.findall(r"Fl \\-([a-z-]+)", without))
        self.assertEqual(set(ours), (set(man_options("train")) - but) | set(theirs))
        for name in theirs:
            self.assertEqual(ours[name][0], theirs[name][0], name)
        for name in but:
            self.error("compare", "--methods", "dense", "--%s" % name,
                       *(("x",) if man_options("train")[name][0] else ()), expect=USAGE)

    def test_the_manual_lists_the_options_of_launch(self):
        ours, theirs = self.options("launch"), man_options("launch")
        self.assertEqual(set(ours), set(theirs))
        for name in ours:
            self.assert_same(name, ours[name], theirs[name])

    def test_the_manual_lists_the_options_of_plan(self):
        ours, theirs = self.options("plan"), man_options("plan")
        self.assertEqual(set(ours), set(theirs))
        for name in ours:
            self.assert_same(name, ours[name], theirs[name])

    def names(self, option):
        return re.split(r", ", self.options("train")[option][1].split(";")[0])

    def test_models_are_listed_everywhere(self):
        models = self.names("model")
        table = read("docs", "train.md").split("| `--model` |")[1].split("\n\n")[0]
        cells = "".join(row.split("|")[1] for row in table.split("\n")[2:])
        self.assertEqual(re.findall(r"`(\w+)`", cells), models)
        manual = re.findall(r"\b[a-z]+[0-9]*\b", man_options("train")["model"][1].split("default")[0])
        self.assertEqual([word for word in manual if word != "or"], models)

    def test_data_are_listed_everywhere(self):
        data = self.names("data")
        table = read("docs", "train.md").split("| `--data` |")[1].split("\n\n")[0]
        cells = "".join(row.split("|")[1] for row in table.split("\n")[2:])
        self.assertEqual(re.findall(r"`([\w:]+)`", cells), data)
        manual = man_options("train")["data"][1].split("default")[0]
        for name in data:
            self.assertRegex(manual, r"\b%s\b" % name.split(":")[0])

    def test_every_model_and_every_data_can_be_asked_for(self):
        """A name of the help is never an unknown one."""
        for model in self.names("model"):
            done = self.terse("train", "--model", model, "--data", "idx:" + self.path("absent"),
                              expect=None)
            self.assertNotIn(b"no model", done.stderr)
        for data in self.names("data"):
            where = re.sub("DIR|FILE", self.path("absent"), data)
            done = self.terse("train", "--model", "x", "--data", where, "--steps", "1", expect=None)
            self.assertNotIn(b"no data named", done.stderr)


if __name__ == "__main__":
    unittest.main()
