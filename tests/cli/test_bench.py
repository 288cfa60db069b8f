"""terse bench and terse demo: what they promise to print. No test of speed: those are
printed, and judged on a quiet machine."""
import unittest

from support import Case, USAGE

PROMISED = {"codec", "kernels", "threads", "count", "encode_seconds", "decode_seconds",
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

    def test_kernel_sets(self):
        sets = [one["name"] for one in self.json("info", "--json")["kernel_sets"]
                if one["supported"]]
        rows = self.json("bench", "codecs", "--json", "--seconds", "0", "--codec", "sign",
                         "--count", "1k", "--kernels", "all")["rows"]
        self.assertEqual([row["kernels"] for row in rows], sets)
        rows = self.json("bench", "codecs", "--json", "--seconds", "0", "--codec", "sign",
                         "--count", "1k", env={"TERSE_KERNELS": "ref"})["rows"]
        self.assertEqual([row["kernels"] for row in rows], ["ref"])

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


class Methods(Case):
    def test_every_method_has_a_row(self):
        rows = self.json("bench", "methods", "--json", "--count", "4096", "--seconds", "0")["rows"]
        names = {m["name"] for m in self.json("methods", "--json")["methods"]}
        self.assertEqual({row["name"] for row in rows}, names)
        self.assertIn("qadam:kx=0", {row["method"] for row in rows})
        for row in rows:
            self.assertLessEqual({"method", "count", "threads", "step_seconds", "step_over_limit",
                                  "limit", "stage_seconds", "spec"}, set(row))
            self.assertEqual((row["count"], row["threads"]), (4096, 1))
            for key in ("step_seconds", "step_over_limit", "limit_seconds", "payload_bits"):
                self.assertGreater(row[key], 0, (row["method"], key))
            self.assertAlmostEqual(row["step_over_limit"],
                                   row["step_seconds"] / row["limit_seconds"], places=6)
        beside = {row["method"]: row for row in rows}
        self.assertAlmostEqual(beside["regtopk"]["step_over_topk"],
                               beside["regtopk"]["step_seconds"] / beside["topk"]["step_seconds"],
                               places=6)

    def test_limits_name_as_many_passes_as_they_count(self):
        """The limit is made of the passes that its text names."""
        rows = self.json("bench", "methods", "--json", "--count", "1k", "--seconds", "0")["rows"]
        for row in rows:
            partial = ("codes", "halves", "payload", "Q_x", "touched", "block")
            passes = [p.strip() for part in row["limit"].replace("owner:", "").replace("vote:", "")
                      .split("|") for piece in part.split(";") for p in piece.split(",")]
            whole = [p.split(" ")[0] for p in passes
                     if not any(word in p for word in partial)]
            whole = {kind: whole.count(kind) for kind in ("R", "W", "RW")}
            least = (whole["R"] * row["read_seconds"] + whole["W"] * row["write_seconds"] +
                     whole["RW"] * row["update_seconds"])
            self.assertLessEqual(least, row["limit_seconds"] * (1 + 1e-9), row["limit"])
            payload = max(row["payload_bits"], 10) / 32 + 1 / 64
            vector = row["read_seconds"] + row["write_seconds"] + row["update_seconds"]
            if "touched" not in row["limit"] and "moved" not in row["limit"]:
                self.assertLessEqual(row["limit_seconds"], least + 3 * payload * vector, row)

    def test_text_and_lists(self):
        text = self.text("bench", "methods", "--seconds", "0", "--count", "1k", "--threads", "1",
                         "2", "--method", "topk", "regtopk", "def:ratio=256,lambda=0.5")
        for word in ("x limit", "block moved", "R g, RW e", "regtopk takes", "finite check"):
            self.assertIn(word, text)
        self.assertEqual(len([x for x in text.splitlines() if x.startswith("def:ratio")]), 2)

    def test_other_passes_are_refused(self):
        for spec, why in (("topk:momentum=0.9", "with momentum it makes other passes"),
                          ("def:momentum=0", "with momentum it makes other passes"),
                          ("def:every=4", "with every it makes other passes"),
                          ("qsgd:combine=allgather", "with another stage it makes other passes"),
                          ("codec=topk", "has no row for this method")):
            text = self.error("bench", "methods", "--json", "--seconds", "0", "--count", "1k",
                              "--method", spec, expect=USAGE)
            self.assertIn(why, text)


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
