"""terse methods: the list, one method, its bytes, and the errors of a wrong spec."""
import unittest

from support import Case, USAGE

STAGES = {"point", "direction", "feedback", "unit", "codec", "scope", "combine", "owner", "back", "update"}
FACTS = {"passes", "dynamic_bits", "votes", "has_gradient", "has_eval_weights", "has_plain",
         "has_buckets", "needs_steps", "local_steps"}
COUNT = 1000 * 1000

# Payload bits of an element, and how many payloads K workers send; headers come on top.
BITS = {"signsgd": 1, "signum": 1, "ef-sign": 1, "dense": 32, "adam": 32, "median": 32, "fp16": 16, "bf16": 16,
        "def": 0.5, "def-a": 0.5, "ef": 0.5, "saef": 0.5, "qsgd": 4, "terngrad": 2, "natural": 9,
        "qadam": (3 + 10) / 2, "powersgd": 32 * 4 * 2000 / COUNT}


class Methods(Case):
    def test_list(self):
        text = self.text("methods")
        listed = {m["name"]: m for m in self.json("methods", "--json")["methods"]}
        self.assertGreaterEqual(len(listed), 20)
        for name, method in listed.items():
            self.assertRegex(text, r"(?m)^%s " % name)
            self.assertIn(method["summary"], text)
            self.assertEqual(set(method["stages"]), STAGES)
            self.assertEqual(set(method["facts"]), FACTS)
            for key in ("formula", "bytes", "citation", "verified"):
                self.assertTrue(method[key], (name, key))
            for option in method["options"]:
                self.assertIn("%s=" % option["name"], method["spec"])
        for name, bits in BITS.items():
            self.check_bytes(name, bits, listed[name]["measured"])

    def check_bytes(self, name, bits, measured):
        """The bytes of the formula, with frames, headers, padding on top."""
        self.assertEqual([at["workers"] for at in measured], [2, 8])
        for at in measured:
            expected = 2 * (at["workers"] - 1) / at["workers"] * COUNT * bits / 8
            self.assertGreaterEqual(at["bytes_sent"], 0.999 * expected, (name, at))
            self.assertLessEqual(at["bytes_sent"], 1.01 * expected + 2000 * at["workers"],
                                 (name, at))
            self.assertAlmostEqual(at["compression_ratio"] * at["bytes_sent"], at["dense_bytes"],
                                   delta=1)

    def test_one_shows_everything(self):
        one = self.json("methods", "regtopk", "--json")
        text = self.text("methods", "regtopk")
        for line in (*one["formula"].splitlines(), one["bytes"], one["spec"],
                     one["stages"]["codec"]):
            self.assertIn(line, text)
        for option in one["options"]:
            self.assertRegex(text, r"(?m)^  %s +%s " % (option["name"], option["default"]))
        for at in one["measured"]:
            self.assertRegex(text, r"(?m)^ +%d +[\d,]+ +[\d,]+ +[\d.]+$" % at["workers"])

    def test_gather_grows_with_workers(self):
        measured = self.json("methods", "topk", "--json")["measured"]
        sent = {at["workers"]: at["bytes_sent"] for at in measured}
        self.assertEqual(sorted(sent), [2, 4, 8, 16])
        for workers in (4, 8, 16):
            self.assertAlmostEqual(sent[workers] / sent[2], workers - 1, delta=0.01 * workers)

    def test_values_of_a_spec_count(self):
        def sent(spec):
            return self.json("methods", spec, "--json")["measured"][0]["bytes_sent"]
        self.assertAlmostEqual(sent("def:ratio=256") / sent("def:ratio=64"), 0.25, delta=0.02)
        self.assertLess(sent("qsgd:bits=2"), sent("qsgd:bits=8") / 3.9)
        # what is counted is an exchange: local steps and dense ones are left out
        self.assertEqual(sent("def:every=8,warmup=100"), sent("def"))
        self.assertIn("every 8 steps", self.text("methods", "def:every=8"))

    def test_composed(self):
        spec = "direction=momentum,feedback=residual,codec=topk:keep=0.01,values=f16"
        one = self.json("methods", spec, "--json")
        self.assertEqual(one["name"], "composed")
        self.assertEqual(one["stages"]["codec"], "topk:keep=0.01,values=f16")
        self.assertEqual(one["stages"]["combine"], "allgather")
        again = self.json("methods", one["spec"], "--json")
        self.assertEqual(again, one)
        text = self.text("methods", spec)
        self.assertIn("composed", text)
        self.assertRegex(text, r"(?m)^  direction +momentum$")

    def test_stages_are_those_of_the_spec(self):
        """Options of a spec change what is shown, not its name alone."""
        def stages(spec):
            return self.json("methods", spec, "--json")["stages"]
        self.assertEqual((stages("qadam")["owner"], stages("qadam:kx=0")["owner"]),
                         ("weights", "none"))
        self.assertEqual((stages("ef-sign")["direction"], stages("ef-sign:momentum=0.9")["direction"]),
                         ("gradient", "momentum"))
        self.assertEqual(
            [stages("ef-sign:momentum=0.9,nesterov=yes" + more)["direction"] for more in ("", ",every=2")],
            ["nesterov", "momentum"])
        self.assertEqual((stages("topk")["owner"], stages("topk:combine=shard")["owner"]),
                         ("none", "residual"))
        self.assertEqual(stages("codec=sign")["combine"], "vote")
        self.assertEqual((stages("signsgd:zero=keep")["combine"], stages("signsgd")["combine"]),
                         ("shard", "vote"))
        self.assertEqual((stages("topk")["scope"], stages("topk:scope=model")["scope"]),
                         ("tensor", "model"))
        self.assertRegex(self.text("methods", "regtopk:scope=model"),
                         r"(?m)^  codec +topk:\S+; over all parameters together$")
        text = self.text("methods", "qadam")
        for wanted in (r"point +Q_x\(x\)", "feedback +residual, in units of weights:.*",
                       "codec +log:k=2 up, nearest:k=8,range=0 down",
                       "combine +shard; owners update the weights and send them back",
                       "update +replace"):
            self.assertRegex(text, r"(?m)^  %s$" % wanted)


class Wrong(Case):
    def wrong(self, spec):
        return self.error("methods", spec, expect=USAGE)

    def test_near_names(self):
        for wrong, near in (("regtopp", "regtopk"), ("signumm", "signum"), ("qadm", "qadam")):
            text = self.wrong(wrong)
            self.assertIn("no method '%s'" % wrong, text)
            self.assertIn("did you mean '%s'?" % near, text)
        self.assertIn("did you mean 'lambda'?", self.wrong("def:lamda=1"))

    def test_ranges_with_their_place(self):
        text = self.wrong("def:ratio=64,lambda=7")
        self.assertIn("lambda is a number in 0..1, not '7'; for example lambda=0.3", text)
        lines = text.splitlines()
        self.assertEqual(lines[1], "  def:ratio=64,lambda=7")
        self.assertEqual(lines[2].index("^"), lines[1].index("7"))
        self.assertIn("coin|plus", self.wrong("signum:tie=heads"))
        self.assertIn("a whole number in 0..1e9, not '-1'; for example sign_warmup=0", self.wrong("signum:sign_warmup=-1"))
        self.assertIn("nesterov is no|yes", self.wrong("ef-sign:nesterov=1"))
        self.assertIn("decoupled|momentum", self.wrong("signum:decay=inside"))
        lines = self.wrong("lr=0.1,codec=topk:keep=7").splitlines()
        self.assertEqual(lines[2].index("^"), lines[1].index("7"))

    def test_refusals_have_a_reason(self):
        for spec, why in (("signum:every=4", "cannot replace several steps"),
                          ("qadam:every=2", "moments"),
                          ("regtopk:combine=shard", "needs an exact combine"),
                          ("feedback=residual,codec=uniform:bits=4", "grow without bound"),
                          ("topk:scope=model,combine=shard", "use allgather or sparse-allreduce"),
                          ("regtopk:scope=model,min=9", "leave out min and plain"),
                          ("topk:scope=layer", "tensor|model"),
                          ("topk:combine=allreduce", "not for codec topk"),
                          ("signum:plain=bias", "no plain tensors"),
                          ("signum:zero=keep,plain=bias", "no plain tensors"),
                          ("signsgd:zero=keep,combine=vote", "zero=keep a third"),
                          ("topk:combine=median", "medians are taken of exact values"),
                          ("median:feedback=residual", "median has feedback=none"),
                          ("direction=momentum", "needs codec=SPEC")):
            self.assertIn(why, self.wrong(spec), spec)


if __name__ == "__main__":
    unittest.main()
