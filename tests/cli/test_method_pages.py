"""docs/methods: a page for every method and no other, the same headings on each, and tables that
agree with the command."""
import os
import re
import unittest

from support import Case

PAGES = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "methods")
HEADINGS = ["Problem", "Formula", "State", "Bytes", "Options", "When it wins", "When it loses",
            "What of the paper we could check and what not"]


def read(name):
    with open(os.path.join(PAGES, name), encoding="utf-8") as file:
        return file.read()


def sections(text):
    """The headings in order, and the text below each."""
    parts = re.split(r"(?m)^## (.*)$", text)
    return parts[1::2], dict(zip(parts[1::2], (part.strip() for part in parts[2::2])))


def table(text):
    """The rows below the rule of a table, as cells; \\| is a bar within a cell."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in lines[2:]]


class Pages(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls("test_a_page_for_each")
        case.setUp()
        cls.methods = {m["name"]: m for m in case.json("methods", "--json")["methods"]}
        case.doCleanups()

    def test_a_page_for_each(self):
        pages = {name[:-3] for name in os.listdir(PAGES)}
        self.assertEqual(pages - {"README"}, set(self.methods))

    def test_headings(self):
        for name in self.methods:
            text = read(name + ".md")
            self.assertTrue(text.startswith("# %s\n" % name), name)
            order, below = sections(text)
            self.assertEqual(order, HEADINGS, name)
            for heading in HEADINGS:
                self.assertTrue(below[heading], (name, heading))

    def test_options(self):
        for name, method in self.methods.items():
            rows = table(sections(read(name + ".md"))[1]["Options"])
            self.assertEqual(
                rows, [["`%s`" % p["name"], p["default"], p["range"], p["help"]]
                       for p in method["options"]], name)

    def test_bytes_are_the_row_s(self):
        for name, method in self.methods.items():
            self.assertIn(method["bytes"].split(", about")[0],
                          sections(read(name + ".md"))[1]["Bytes"], name)

    def test_unit_of_the_residual(self):
        for name, method in self.methods.items():
            state = " ".join(sections(read(name + ".md"))[1]["State"].split())
            stages = method["stages"]
            for unit in ("weights", "gradients"):
                told = stages["feedback"] == "residual" and stages["unit"] == unit
                self.assertEqual(told, "units of " + unit in state, (name, unit))

    def test_citations_are_the_row_s(self):
        for name, method in self.methods.items():
            formula = sections(read(name + ".md"))[1]["Formula"]
            for year in re.findall(r"\b(?:19|20)\d\d\b", method["citation"]):
                self.assertIn(year, formula, name)

    def test_overview(self):
        rows = [row for row in table(read("README.md")) if len(row) == 8]
        self.assertEqual([row[0] for row in rows],
                         ["[%s](%s.md)" % (name, name) for name in self.methods])
        for row, method in zip(rows, self.methods.values()):
            stages = method["stages"]
            codec, back = (stages[key].split(":")[0] for key in ("codec", "back"))
            self.assertEqual([row[1], row[2], row[3].split(" ")[0], row[4], row[5], row[7]],
                             [stages["point"], stages["direction"], stages["feedback"],
                              "%s up, %s down" % (codec, back) if back else codec,
                              stages["combine"], stages["update"]])
            self.assertEqual("(%s)" % stages["unit"] in row[3], stages["feedback"] == "residual")

    def test_links(self):
        for name in os.listdir(PAGES):
            for target in re.findall(r"\]\(([^)#]+)\)", read(name)):
                self.assertTrue(os.path.exists(os.path.join(PAGES, target)), (name, target))


if __name__ == "__main__":
    unittest.main()
