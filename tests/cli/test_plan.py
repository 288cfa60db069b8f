"""terse plan: the table, the recommendation, its inputs, a sweep, the page, and wrong input."""
import json
import os
import re
import struct
import subprocess
import tempfile
import unittest

from support import Case, REFUSED, TERSE, USAGE
from training import launch, LAUNCH_ENV, OPEN_MPI

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
KEYS = {"method", "seconds", "compute_seconds", "codec_seconds", "wire_seconds", "hidden_seconds",
        "bytes_sent", "over_dense", "break_even_bits_per_second"}
SMALL = ("plan", "--parameters", "20k", "--workers", "3", "--link")
PAYLOAD = 1448 / 1514


class Plan(Case):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="terse-plan-")
        cls.addClassCleanup(folder.cleanup)
        os.environ["XDG_CACHE_HOME"] = folder.name

    def test_json_has_every_method_the_fastest_first(self):
        plan = self.json(*SMALL, "10mbit", "--step", "1ms", "--json")
        self.assertEqual(set(plan), {"rows", "recommended", "reason"})
        rows = plan["rows"]
        for row in rows:
            self.assertEqual(set(row), KEYS)
            total = row["compute_seconds"] + row["codec_seconds"] + row["wire_seconds"] - row["hidden_seconds"]
            self.assertAlmostEqual(total, row["seconds"], delta=1e-9)
            self.assertEqual(row["compute_seconds"], 1e-3)
        self.assertEqual([r["seconds"] for r in rows], sorted(r["seconds"] for r in rows))
        names = {self.json("methods", row["method"], "--json")["name"] for row in rows}
        self.assertEqual(names, {m["name"] for m in self.json("methods", "--json")["methods"]})
        self.assertIn(plan["recommended"], {row["method"] for row in rows})
        self.assertTrue(plan["reason"].startswith(plan["recommended"]))

    def test_break_even_agrees_with_the_table(self):
        for link in ("10mbit", "10gbit"):
            rate = {"10mbit": 1e7, "10gbit": 1e10}[link] * PAYLOAD
            for row in self.json(*SMALL, link, "--json")["rows"]:
                even = row["break_even_bits_per_second"]
                if row["method"] == "dense":
                    self.assertEqual((even, row["over_dense"]), (0, 1))
                elif abs(even / rate - 1) > 1e-3 and even > 0:
                    self.assertEqual(row["over_dense"] < 1, rate < even, row)

    def test_says_no_where_no_is_right(self):
        plan = self.json(*SMALL, "10tbit", "--latency", "1us", "--step", "1s", "--json")
        self.assertEqual(plan["recommended"], "dense")
        self.assertTrue(plan["reason"].startswith("do not compress"), plan["reason"])
        self.assertIn("Recommended: do not compress", self.text(*SMALL, "10tbit", "--step", "1s"))

    def test_words_of_a_recommendation_are_measured(self):
        plan = self.json("plan", "--parameters", "1M", "--workers", "4", "--link", "1mbit", "--json",
                         "--method", "signum", "--method", "signsgd", "--method", "fp16")
        self.assertEqual(plan["recommended"], "signum")
        self.assertRegex(plan["reason"], r"it pays (below [\d.]+ [GT]bit/s|at every rate)")
        self.assertIn("Measured accuracy", plan["reason"])

    def test_accuracies_are_those_of_the_results(self):
        """Points against dense, of the tables of docs/results.md."""
        with open(os.path.join(ROOT, "docs", "results.md"), encoding="utf-8") as file:
            results = file.read()
        with open(os.path.join(ROOT, "plan", "accuracy.c"), encoding="utf-8") as file:
            claimed = re.findall(r'\{"([\w-]+)", "([^"]+)", ([-.\d]+), ([-.\dNA]+),', file.read())
        self.assertGreaterEqual(len(claimed), 10)
        fashion = results.split("## Every method on Fashion-MNIST")[1].split("![")[0]
        cifar = results.split("## CIFAR-10, ResNet-20, 8 workers")[1].split("\n\nAccuracy")[0]
        tables = (
            (2, {re.sub(":schedule=cosine$|schedule=cosine,", "", spec): float(mean) for spec, mean in
                 re.findall(r"^\| [^|]+ \| `([^`]+)` \|[^|]+\|[^|]+\| ([\d.]+) ±", fashion, re.M)}),
            (3, {spec: float(one) for spec, one in
                 re.findall(r"^\| `([^`]+)` \| [^|]+ \| ([\d.]+) \|", cifar, re.M)}))
        for column, found in tables:
            self.assertGreaterEqual(len(found), 6)
            for entry in claimed:
                spec = "qadam:ramp=0,kg=2,kx=8" if entry[0] == "qadam" and column == 3 else entry[1]
                if entry[column] == "NAN":
                    self.assertNotIn(spec, found)
                else:
                    self.assertAlmostEqual(found[spec] - found["dense"], float(entry[column]),
                                           delta=0.005, msg=entry[0])

    def test_bytes_are_those_that_methods_counts(self):
        """One tensor of 1000 x 1000, 2 workers: both run a real exchange."""
        for method in ("signum", "qsgd:bits=4", "topk:keep=0.01", "dense"):
            counted = self.json("methods", method, "--json")["measured"][0]["bytes_sent"]
            rows = self.json("plan", "--shapes", "1000x1000", "--workers", "2", "--link", "1gbit",
                             "--json", "--method", method)["rows"]
            planned = next(row for row in rows if row["method"] == method)
            self.assertEqual(planned["bytes_sent"], counted, method)

    def test_combines_are_rows(self):
        rows = self.json(*SMALL, "1gbit", "--json", "--combines", "--method", "topk")["rows"]
        self.assertTrue(any("sparse-allreduce" in row["method"] for row in rows), rows)

    def test_which_combine_is_faster(self):
        """Six workers on a slow link: the sums of a sparse all-reduce are shorter than all choices if
        most elements are chosen, and cost a round more if few are."""
        for keep, faster in (("0.9", "sparse-allreduce"), ("0.001", "allgather")):
            rows = self.json("plan", "--parameters", "100k", "--workers", "6", "--link", "100mbit",
                             "--json", "--no-cache", "--combines", "--method", "topk:keep=" + keep)["rows"]
            seconds = {row["method"]: row["seconds"] for row in rows}
            sparse = seconds["topk:combine=sparse-allreduce,keep=" + keep]
            gathered = seconds["topk:keep=" + keep]
            self.assertEqual(sparse < gathered, faster == "sparse-allreduce", seconds)

    def test_a_model_is_timed(self):
        rows = self.json("plan", "--model", "cnn", "--input", "1x28x28", "--batch", "4", "--workers",
                         "2", "--link", "1gbit", "--json", "--method", "dense")["rows"]
        self.assertGreater(rows[0]["compute_seconds"], 1e-5)

    def test_a_safetensors_file_is_read(self):
        header = json.dumps({"a": {"dtype": "F32", "shape": [30, 40], "data_offsets": [0, 4800]}}).encode()
        path = self.write("w.safetensors", struct.pack("<Q", len(header)) + header + bytes(4800))
        file = self.json("plan", "--weights", path, "--workers", "2", "--link", "1gbit", "--json",
                         "--method", "dense")
        shapes = self.json("plan", "--shapes", "30x40", "--workers", "2", "--link", "1gbit", "--json",
                           "--method", "dense")
        self.assertEqual(file["rows"][0]["bytes_sent"], shapes["rows"][0]["bytes_sent"])

    def test_overlap_hides(self):
        def hidden(*overlap):
            rows = self.json("plan", "--shapes", ",".join(["1024x1100"] * 4), "--workers", "2", "--link",
                             "1gbit", "--step", "200ms", "--json", "--method", "dense",
                             *overlap)["rows"]
            return rows[0]["hidden_seconds"]
        self.assertGreater(hidden("--overlap", "on"), hidden("--overlap", "off") + 0.01)
        self.assertGreater(hidden(), hidden("--overlap", "off") + 0.01)  # as terse train

    def test_nodes(self):
        """Bytes between nodes are those of as many workers; the time inside is added."""
        words = ("plan", "--parameters", "300k", "--link", "100mbit", "--json", "--method", "topk")
        flat = self.json(*words, "--workers", "2")["rows"]
        nodes = self.json(*words, "--workers", "4", "--node-size", "2")["rows"]
        slow = self.json(*words, "--workers", "4", "--node-size", "2", "--inside", "1mbit")["rows"]
        for mine, theirs, late in zip(flat, nodes, slow):
            self.assertEqual(mine["method"], theirs["method"])
            self.assertEqual(mine["bytes_sent"], theirs["bytes_sent"])
            self.assertGreater(theirs["wire_seconds"], mine["wire_seconds"])
            # an all-reduce of two ranks sends every float once: 32 bits of 300,000
            self.assertGreater(late["seconds"], 9.6)
        sweep = self.json(*words, "--workers", "2..256", "--node-size", "2")["sweep"]
        self.assertEqual([(p["workers"], p["nodes"]) for p in sweep][-2:], [(128, 64), (256, 128)])
        self.assertEqual([p["extrapolated"] for p in sweep][-2:], [False, True])
        text = self.text(*(w for w in words if w != "--json"), "--workers", "4", "--node-size", "2")
        self.assertIn("4 workers in 2 nodes", text)

    def test_a_sweep(self):
        sweep = self.json("plan", "--parameters", "20k", "--workers", "2..200", "--link", "1gbit",
                          "--json", "--method", "topk")["sweep"]
        self.assertEqual([p["workers"] for p in sweep], [2, 4, 8, 16, 32, 64, 128, 200])
        self.assertEqual([p["extrapolated"] for p in sweep], [False] * 6 + [True] * 2)
        sent = [next(r for r in p["rows"] if r["method"] == "topk")["bytes_sent"] for p in sweep]
        for workers, bytes_sent in zip((2, 4, 8, 16, 32, 64, 128, 200), sent):
            self.assertAlmostEqual(bytes_sent / sent[0], workers - 1, delta=0.02 * workers)
        text = self.text("plan", "--parameters", "20k", "--workers", "2..200", "--link", "1gbit",
                         "--method", "topk")
        self.assertIn("200*", text)
        self.assertIn("extrapolated", text)

    def bends(self, *words):
        bends = {}
        for bend in self.json("plan", "--parameters", "4M", "--latency", "1us", "--json", *words)["bends"]:
            bends.setdefault(bend["method"], []).append(bend)
        return bends

    def test_a_sweep_says_where_curves_bend(self):
        """On a link on which all is wire: payloads for each worker of an all-gather; (K - 1)/K of an
        all-reduce, which stays where it is; headers where slices of owners have become short."""
        methods = ("--method", "topk:keep=0.01", "--method", "signum")
        bends = self.bends("--workers", "2..4096", "--link", "10mbit", *methods)
        for method, lines in bends.items():
            workers = [line["nodes"] for line in lines]
            self.assertEqual(workers, sorted(set(workers)), method)
            self.assertEqual(workers[0], 2, method)
        topk = bends["topk:keep=0.01"]
        self.assertEqual({line["part"] for line in topk}, {"wire"})
        self.assertEqual(topk[-1]["shape"], "proportional")
        self.assertLessEqual(topk[-1]["nodes"], 8)
        self.assertRegex(topk[-1]["why"], r"^wire: a payload more, \d+ kB, for each worker more$")
        dense = bends["dense"]
        self.assertEqual([line["shape"] for line in dense][:2], ["rises", "flat"])
        self.assertIn("(K - 1)/K", dense[0]["why"])
        self.assertRegex(dense[1]["why"], r"^wire is (9\d|100) % of the step$")
        signum = bends["signum"]
        self.assertIn(signum[-1]["shape"], ("rises", "proportional"))
        self.assertGreaterEqual(signum[-1]["nodes"], 64)
        self.assertRegex(signum[-1]["why"], r"^wire: [\d.]+ (B|kB) more for each worker more, headers")

    def test_what_grows_is_the_reason_not_what_is_longest(self):
        """The gradient is most of these steps, and what makes them longer are payloads."""
        lines = self.bends("--workers", "2..16", "--link", "10mbit", "--step", "2s", "--overlap", "off",
                           "--method", "topk:keep=0.01")["topk:keep=0.01"]
        self.assertEqual([line["part"] for line in lines if line["shape"] != "flat"][:1], ["wire"])
        self.assertLess(lines[-1]["nodes"], 16)

    def test_a_gradient_hides_what_does_not_bend(self):
        bends = self.bends("--workers", "2..64", "--link", "100gbit", "--step", "10s", "--method", "signum")
        for lines in bends.values():
            self.assertEqual([(line["nodes"], line["shape"], line["part"]) for line in lines],
                             [(2, "flat", "gradient")])
            self.assertRegex(lines[0]["why"], r"^gradient is (9\d|100) % of the step")

    def test_a_far_link_bends_nothing(self):
        """Latency is the same for every number of workers."""
        bends = self.bends("--workers", "2..64", "--link", "10tbit", "--latency", "10s", "--method", "signum")
        for lines in bends.values():
            self.assertEqual([(line["shape"], line["part"]) for line in lines], [("flat", "latency")])

    def test_text_and_page_of_a_sweep(self):
        page = self.path("sweep.html")
        text = self.text("plan", "--parameters", "20k", "--workers", "2..16", "--link", "1mbit", "-o", page,
                         "--method", "topk")
        self.assertRegex(text, r"bends +from K +step +because")
        self.assertRegex(text, r"\ntopk +2 +proportional +wire: a payload more, 3\.3 kB, for each worker more")
        html = self.read("sweep.html").decode()
        for words in ("<svg", "step time against the number of workers", "<th>because</th>",
                      "for each worker more"):
            self.assertIn(words, html)

    def test_text_chart_and_page(self):
        page = self.path("plan.html")
        text = self.text(*SMALL, "1gbit", "-o", page)
        self.assertIn("step time against the rate of the link", text)
        html = self.read("plan.html").decode()
        self.assertIn("<svg", html)
        self.assertIn("Should I compress?", html)
        self.assertIn("Recommended: ", html)
        for heading in ("compute", "codec", "wire", "hidden", "step", "bytes", "x dense", "x no comm."):
            self.assertIn('<th class="number">%s</th>' % heading, html)
        self.assertEqual(html.count("<tr>"), 1 + len(self.json("methods", "--json")["methods"]))

    def test_the_second_plan_is_the_first(self):
        """Recordings have other CPU times every time; those that are kept have not."""
        plans = [self.json(*SMALL, "1gbit", "--json", "--method", "natural") for _ in range(3)]
        self.assertEqual(plans[1], plans[2])
        self.assertAlmostEqual(plans[0]["rows"][0]["seconds"], plans[1]["rows"][0]["seconds"], delta=1e-15)
        again = self.json(*SMALL, "1gbit", "--json", "--method", "natural", "--no-cache")
        self.assertNotEqual(again["rows"][0]["codec_seconds"], plans[0]["rows"][0]["codec_seconds"])

    def test_wrong_input(self):
        given = ("--parameters", "1M")
        table = (
            ((*given, "--workers", "0", "--link", "1gbit"), "--workers: '0'"),
            ((*given, "--workers", "4..2", "--link", "1gbit"), "--workers: '2'"),
            ((*given, "--workers", "4", "--link", "1gb"), "--link: '1gb' is not a rate"),
            ((*given, "--workers", "4", "--link", "0mbit"), "--link: '0mbit'"),
            ((*given, "--workers", "4", "--link", "1gbit", "--latency", "3"), "--latency: '3'"),
            ((*given, "--workers", "4", "--link", "1gbit", "--burst", "1"), "--burst: '1'"),
            ((*given, "--workers", "4", "--link", "1gbit", "--step", "-1ms"), "--step: '-1ms'"),
            ((*given, "--workers", "4", "--link", "1gbit", "--overlap", "x"), "--overlap: 'x'"),
            ((*given, "--workers", "4", "--link", "1gbit", "--inside", "x"), "--inside: 'x'"),
            ((*given, "--workers", "4", "--link", "1gbit", "--node-size", "0"), "--node-size: '0'"),
            ((*given, "--workers", "4..30", "--link", "1gbit", "--node-size", "4"),
             "--node-size 4: 30 workers are not divisible"),
            ((*given, "--measure", "--node-size", "4"), "--node-size: --measure sees ranks"),
            ((*given, "--workers", "4"), "no link"),
            ((*given, "--link", "1gbit"), "no number of workers"),
            (("--workers", "4", "--link", "1gbit"), "no parameters"),
            (("--parameters", "many", "--workers", "4", "--link", "1gbit"), "--parameters: 'many'"),
            (("--shapes", "4x", "--workers", "4", "--link", "1gbit"), "--shapes"),
            ((*given, "--model", "cnn", "--workers", "4", "--link", "1gbit"), "more than once"),
            ((*given, "x", "--workers", "4", "--link", "1gbit"), "there are only options"),
        )
        for words, expected in table:
            self.assertIn(expected, self.error("plan", *words, expect=USAGE))
        self.assertIn("did you mean 'resnet20'", self.error(
            "plan", "--model", "resnet21", "--workers", "2", "--link", "1gbit", expect=None))
        self.assertIn("did you mean 'topk'", self.error(*SMALL, "1gbit", "--method", "topkk", expect=None))
        self.assertIn("no launcher", self.error("plan", *given, "--measure", expect=REFUSED))

    def ranks(self, *words):
        if os.environ.get("TERSE_RANKS", "yes") != "yes" or not OPEN_MPI:
            self.skipTest("no libterse-mpi in this build, or no Open MPI")
        return subprocess.run([*launch(words[0]), *words[1:]], capture_output=True, text=True, timeout=100,
                              env=dict(os.environ, **LAUNCH_ENV))

    def test_ranks_measure_their_link(self):
        done = self.ranks(3, TERSE, "plan", "--measure", "--parameters", "20k", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"measured: latency .*, one way .*, both ways .*, all to all .*, burst ")
        self.assertEqual(set(json.loads(done.stdout)["rows"][0]), KEYS)

    def test_ranks_that_disagree(self):
        plan = (TERSE, "plan", "--measure", "--parameters")
        done = self.ranks(1, *plan, "20k", ":", "-n", "1", *plan, "30k")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1: its options differ from rank 0's", done.stderr)

    def test_one_rank_has_no_link(self):
        done = self.ranks(1, TERSE, "plan", "--measure", "--parameters", "20k")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("one rank has no link to measure", done.stderr)


if __name__ == "__main__":
    unittest.main()
