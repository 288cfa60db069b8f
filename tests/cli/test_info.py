"""terse info and terse codecs."""
import os
import re
import unittest

from support import Case, REFUSED, USAGE

FORMAT = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "wire-format.md")


class Info(Case):
    def test_kernel_set_in_use_is_a_supported_one(self):
        info = self.json("info", "--json")
        sets = {one["name"]: one for one in info["kernel_sets"]}
        self.assertTrue(sets[info["kernels"]]["supported"])
        self.assertTrue(sets["ref"]["supported"])
        self.assertEqual(set(info["kernel_origins"].values()) - set(sets), set())
        self.assertEqual(len(info["cache_bytes"]), 3)

    def test_forced_kernel_set(self):
        info = self.json("info", "--json", env={"TERSE_KERNELS": "ref"})
        self.assertEqual(info["kernels"], "ref")
        self.assertEqual(set(info["kernel_origins"].values()), {"ref"})
        self.assertEqual(info["environment"]["TERSE_KERNELS"], "ref")

    def test_unknown_kernel_set_is_an_error(self):
        for words in (("info",), ("demo",), ("codecs",), ("bench", "codecs"), ("inspect", "x")):
            text = self.error(*words, expect=REFUSED, env={"TERSE_KERNELS": "sse9"})
            self.assertRegex(text, "^terse: TERSE_KERNELS: .*sse9")
        self.text("help", env={"TERSE_KERNELS": "sse9"})

    def test_text_names_what_the_json_holds(self):
        info = self.json("info", "--json")
        text = self.text("info")
        for word in (info["version"], info["build"], info["cpu"], *info["kernel_origins"]):
            self.assertIn(word, text)


def documented():
    """The codecs of docs/wire-format.md, from its headings: ### f16 (2), bf16 (3)."""
    with open(FORMAT, encoding="utf-8") as file:
        headings = re.findall(r"(?m)^### (.*\(\d+\))$", file.read())
    found = re.findall(r"([\w-]+) \((\d+)\)", ", ".join(headings))
    return {name: int(number) for name, number in found}


class Codecs(Case):
    def test_registry(self):
        codecs = self.json("codecs", "--json")["codecs"]
        self.assertGreaterEqual(len(codecs), 12)
        self.assertEqual({codec["name"]: codec["wire_id"] for codec in codecs}, documented())
        for codec in codecs:
            self.assertEqual(codec["passes"], 2 if codec["name"] == "low-rank" else 1)
            contradiction = {"contractive", "unbiased"} <= set(codec["traits"])
            self.assertFalse(contradiction and codec["name"] != "f32", codec)

    def test_bits_per_element(self):
        bits = {c["name"]: c["bits_per_element"] for c in self.json("codecs", "--json")["codecs"]}
        for name, exact in (("f32", 32), ("f16", 16), ("bf16", 16), ("sign", 1), ("natural", 9)):
            self.assertAlmostEqual(bits[name], exact, places=3)
        self.assertLess(bits["topk"], 0.01 * 41)
        self.assertAlmostEqual(bits["low-rank"], 32 * 4 * 2000 / 1e6, places=3)

    def test_text_lists_all(self):
        text = self.text("codecs")
        for name in documented():
            self.assertRegex(text, r"(?m)^%s +\d" % name)

    def test_one_shows_options(self):
        for codec in self.json("codecs", "--json")["codecs"]:
            text = self.text("codecs", codec["name"])
            self.assertIn(codec["summary"], text)
            for option in codec["options"]:
                for key in ("name", "default", "range", "help"):
                    self.assertIn(option[key], text)

    def test_one_takes_a_spec(self):
        codec = self.json("codecs", "topk:keep=0.001", "--json")
        self.assertIn("keep=0.001", codec["spec"])

    def test_bad_specs(self):
        for spec, reason in (("tokp", "topk"), ("topk:keep=2", "keep"), ("topk:kep=1", "kep"),
                             ("uniform:bits=17", "bits"), ("f32:x=1", "x"), ("", "")):
            with self.subTest(spec=spec):
                self.assertIn(reason, self.error("codecs", spec, expect=USAGE))


if __name__ == "__main__":
    unittest.main()
