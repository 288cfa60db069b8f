"""terse bench codecs and terse demo: what they promise to print. No test of speed: those are
printed, and judged on a quiet machine."""
import unittest

from support import Case

PROMISED = {"codec", "level", "threads", "count", "encode_seconds", "decode_seconds",
            "encode_over_limit", "decode_over_limit", "payload_bytes", "read_gbps"}


class Bench(Case):
    def test_every_codec_has_a_row(self):
        report = self.json("bench", "codecs", "--json", "--count", "4096", "--seconds", "0")
        names = {c["name"] for c in self.json("codecs", "--json")["codecs"]}
        self.assertEqual({row["name"] for row in report["rows"]}, names)
        self.assertEqual({limit["codec"] for limit in report["limits"]}, names)
        for row in report["rows"]:
            self.assertLessEqual(PROMISED, set(row))
            self.assertEqual(row["count"], 4096)
            for key in ("encode_seconds", "decode_seconds", "encode_over_limit",
                        "decode_over_limit", "read_gbps"):
                self.assertGreater(row[key], 0, (row["codec"], key))
            self.assertAlmostEqual(row["encode_over_limit"],
                                   row["encode_seconds"] / row["encode_limit_seconds"], places=6)

    def test_lists_multiply(self):
        for words in (("--count", "1k", "2k", "--threads", "1", "2"),
                      ("--count", "1k,2k", "--threads", "1,2"),
                      ("--count=1k", "--count=2k", "--threads=1", "--threads=2")):
            rows = self.json("bench", "codecs", "--json", "--seconds", "0", "--codec", "sign",
                             "topk:keep=0.01,values=f16", *words)["rows"]
            self.assertEqual(len(rows), 8)
            self.assertEqual({(r["codec"], r["count"], r["threads"]) for r in rows},
                             {(c, n, t) for c in ("sign", "topk:keep=0.01,values=f16")
                              for n in (1000, 2000) for t in (1, 2)})

    def test_levels(self):
        levels = [level["name"] for level in self.json("info", "--json")["levels"]
                  if level["supported"]]
        rows = self.json("bench", "codecs", "--json", "--seconds", "0", "--codec", "sign",
                         "--count", "1k", "--level", "all")["rows"]
        self.assertEqual([row["level"] for row in rows], levels)
        rows = self.json("bench", "codecs", "--json", "--seconds", "0", "--codec", "sign",
                         "--count", "1k", env={"TERSE_KERNELS": "ref"})["rows"]
        self.assertEqual([row["level"] for row in rows], ["ref"])

    def test_text(self):
        text = self.text("bench", "codecs", "--seconds", "0", "--count", "1k", "--threads", "1",
                         "2", "--codec", "sign", "block")
        for word in ("x limit", "block moved", "RW + payload", "reading alone", "frame"):
            self.assertIn(word, text)
        self.assertEqual(len([line for line in text.splitlines() if line.startswith("sign ")]), 3)

    def test_sizes_that_do_not_fit_are_named(self):
        if self.json("info", "--json")["memory_bytes"] > 60e9:
            self.skipTest("this machine may have room for 4 billion floats")
        done = self.terse("bench", "codecs", "--seconds", "0", "--codec", "sign", "--count",
                          "1k", "4G", "--json")
        self.assertIn(b"4,000,000,000 floats are left out", done.stderr)


class Demo(Case):
    def test_prints_a_row_for_every_codec(self):
        text = self.text("demo")
        for codec in self.json("codecs", "--json")["codecs"]:
            self.assertRegex(text, r"(?m)^%s[: ]" % codec["name"])
        rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
        self.assertAlmostEqual(float(rows["sign"][2]), 32, delta=0.1)
        self.assertAlmostEqual(float(rows["f32"][2]), 1, delta=0.01)


if __name__ == "__main__":
    unittest.main()
