"""Codecs in Python, and K workers in one process."""

import os
import sys
import threading
import unittest

import numpy

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.environ.get("PYTHONPATH") or os.path.join(ROOT, "python"))
sys.path.insert(0, os.path.join(ROOT, "examples"))
import random_k  # registers random-k

import terse


@terse.register_codec
class Largest:
    """the elements of largest magnitude, with their indices."""
    options = {"keep": (0.1, 0.001, 1.0)}
    traits = {"selecting", "contractive", "fixed-length"}

    def bound(self, n):
        return 8 * max(1, int(n * self.keep))

    def encode(self, x, key):
        index = numpy.sort(numpy.argsort(-abs(x), kind="stable")[:self.bound(x.size) // 8])
        return index.astype("<u4").tobytes() + x[index].tobytes()

    def decode(self, payload, n, key):
        index, values = payload[:payload.size // 2].view("<u4"), payload[payload.size // 2:]
        out = numpy.zeros(n, numpy.float32)
        out[index] = values.view("<f4")
        return out


@terse.register_codec
class Odd:
    """whatever its options ask for"""
    options = {"fail": ("never", "encode", "decode", "long", "short", "nan", "type"),
               "p": (2, 1, 9)}
    traits = ("selecting", "contractive")

    def bound(self, n):
        return 4 * n

    def encode(self, x, key):
        if self.fail == "encode":
            raise KeyError("no such thing")
        kept = x[key.step % self.p::self.p]  # lengths vary
        return numpy.zeros(x.size + 1, numpy.float32) if self.fail == "long" else kept

    def decode(self, payload, n, key):
        if self.fail == "decode":
            raise RuntimeError("two\nlines")
        out = numpy.zeros(n - (self.fail == "short"), numpy.float32)
        out[key.step % self.p::self.p] = payload.view("<f4") if self.fail != "short" else 0
        if self.fail == "nan":
            out[0] = numpy.nan
        return "text" if self.fail == "type" else out


X = numpy.random.RandomState(5).randn(30, 40).astype(numpy.float32)


def gradient(worker, point, step):
    noise = numpy.random.RandomState(1000 * step + worker).randn(*point.shape)
    return (point + noise).astype(numpy.float32)


def trained(spec, workers=4, steps=12):
    return terse.simulate(spec, workers, X, seed=3).run(gradient, steps)


class Codecs(unittest.TestCase):
    def test_it_is_a_codec_like_the_others(self):
        self.assertEqual(terse.codecs()["random-k"], "random elements, the same on all workers")
        frame = terse.encode(X, "random-k:keep=0.25", seed=1, step=2)
        back = terse.decode(frame)
        self.assertEqual(numpy.count_nonzero(back), 300)
        self.assertTrue(((back == X) | (back == 0)).all())
        self.assertEqual(terse.inspect(frame)["codec"], "random-k:keep=0.25")
        other = terse.decode(terse.encode(X, "random-k:keep=0.25", seed=1, step=2, worker=9))
        self.assertTrue((other == back).all(), "all workers draw the same")
        later = terse.decode(terse.encode(X, "random-k:keep=0.25", seed=1, step=3))
        self.assertFalse((later == back).all())
        self.assertRaisesRegex(ValueError, "keep is a number in 1e-06..1.0, not '2'; for example keep=0.01",
                               terse.encode, X, "random-k:keep=2")

    def test_it_trains_like_the_built_in_codec(self):
        for combine in ("allgather", "shard", "parameter-server", "sparse-allreduce"):
            rest = ",feedback=residual,lr=0.1,combine=" + combine
            self.assertTrue((trained("codec=largest:keep=0.05" + rest) ==
                             trained("codec=topk:keep=0.05" + rest)).all(), combine)

    def test_words_whole_numbers_and_lengths_that_vary(self):
        for p in (1, 2, 9):
            for step in range(3):
                back = terse.decode(terse.encode(X, "odd:p=%d" % p, step=step)).reshape(-1)
                wanted = numpy.zeros(X.size, numpy.float32)
                wanted[step % p::p] = X.reshape(-1)[step % p::p]
                self.assertTrue((back == wanted).all())
        self.assertRaisesRegex(ValueError, "whole number in 1..9", terse.encode, X, "odd:p=10")
        self.assertRaisesRegex(ValueError, "never.encode", terse.encode, X, "odd:fail=x")
        for combine in ("allgather", "shard"):
            trained("codec=odd:p=3,feedback=residual,lr=0.01,combine=" + combine)

    def fails(self, kind, text, cause, function, *arguments):
        with self.assertRaisesRegex(kind, text) as caught:
            function(*arguments)
        self.assertIsInstance(caught.exception.__cause__, cause)

    def test_exceptions_arrive(self):
        self.fails(ValueError, "codec odd cannot encode: encode raised KeyError: 'no such thing'",
                   KeyError, terse.encode, X, "odd:fail=encode")
        self.fails(ValueError, "encode returned 4804 bytes for 1200 elements; bound.. is 4800",
                   ValueError, terse.encode, X, "odd:fail=long")
        for word, text, cause in (("decode", "RuntimeError: two lines", RuntimeError),
                                  ("short", "decode returned 1199 values, not 1200", ValueError),
                                  ("nan", "not finite", ValueError),
                                  ("type", "could not convert", ValueError)):
            frame = terse.encode(X, "odd:fail=" + word)
            self.fails(terse.FrameError, "codec odd refuses the section: .*" + text, cause,
                       terse.decode, frame)
        self.fails(ValueError, "rank 0: codec odd cannot encode", KeyError, trained,
                   "codec=odd:fail=encode,lr=0.1")
        self.fails(terse.FrameError, "codec odd refuses", RuntimeError, trained,
                   "codec=odd:fail=decode,lr=0.1")
        self.assertIsNone(self.cause_of_a_bad_spec(), "an older exception is no cause")

    def cause_of_a_bad_spec(self):
        try:
            terse.encode(X, "no-such-codec")
        except ValueError as error:
            return error.__cause__
        raise AssertionError("a bad spec was accepted")

    def test_input_that_is_not_finite_skips_the_step(self):
        bad = X.copy()
        bad[3, 3] = numpy.inf
        self.assertRaises(terse.NotFiniteError, terse.encode, bad, "random-k")
        team = terse.simulate("codec=random-k,feedback=residual,lr=0.1", 2, X)
        reports = team.step([X, bad])
        self.assertTrue(all(report["skipped"] for report in reports))
        self.assertTrue((team.weights == X).all())

    def test_what_cannot_be_registered(self):
        def made(**members):
            base = {"name": "fresh", "bound": lambda s, n: n, "encode": len, "decode": len}
            return type("Fresh", (), dict(base, **members))

        for members, kind, text in (({"name": "topk"}, ValueError, "codec of this name"),
                                    ({"name": "Mine"}, ValueError, "lower-case"),
                                    ({"wire_id": 3}, ValueError, "192..255"),
                                    ({"traits": {"additive"}}, ValueError, "no trait 'additive'"),
                                    ({"encode": None}, TypeError, "no function encode"),
                                    ({"options": {"a": (1, 0, 256)}}, ValueError, "0..255"),
                                    ({"options": {"a": (5.0, 0.0, 1.0)}}, ValueError, "a")):
            self.assertRaisesRegex(kind, text, terse.register_codec, made(**members))
        self.assertRaisesRegex(ValueError, "codec of this name", terse.register_codec,
                               made(name="odd"))

    def test_a_notebook_registers_again(self):
        cell = ("import terse\n@terse.register_codec\nclass Cell:\n"
                "    def bound(self, n): return 4 * n\n"
                "    def encode(self, x, key): return x * %d\n"
                "    def decode(self, payload, n, key): return payload.view('<f4')\n")
        for factor in (2, 3):
            exec(cell % factor, {"__name__": "notebook"})
            self.assertEqual(terse.decode(terse.encode([1.0], "cell"))[0], factor)

    def test_threads_share_a_codec(self):
        wanted, found = trained("codec=random-k:keep=0.1,feedback=residual,lr=0.02"), []

        def one():
            found.append(trained("codec=random-k:keep=0.1,feedback=residual,lr=0.02"))

        threads = [threading.Thread(target=one) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 4)
        for weights in found:
            self.assertTrue((weights == wanted).all())


class Simulation(unittest.TestCase):
    def test_sgd_by_hand(self):
        team = terse.simulate("dense:lr=0.5,momentum=0", workers=2, weights=[[1, 2], [[3.0]]])
        reports = team.step([([1, 0], [[2]]), ([3, 4], [[0]])])
        self.assertEqual([one.tolist() for one in team.weights], [[0, 1], [[2.5]]])
        self.assertEqual([one.tolist() for one in team.point(1)], [[0, 1], [[2.5]]])
        self.assertEqual((len(reports), reports[1]["lr"], reports[0]["skipped"]), (2, 0.5, False))
        self.assertEqual(team.bytes_sent, sum(report["bytes_sent"] for report in reports))
        team.step(numpy.ones((2, 3)))
        self.assertEqual([one.tolist() for one in team.weights], [[-0.5, 0.5], [[2]]])
        self.assertEqual(team.report()["steps"], 4)

    def test_points_and_evaluation_weights(self):
        team = terse.simulate("def-a:ratio=4,lr=0.1", workers=3, weights=X, steps=9)
        team.run(gradient, 5)
        self.assertTrue((team.point(0) != team.weights).any(), "it differs by the residual")
        self.assertTrue((team.eval_weights != team.weights).any())

    def test_sixteen_workers_reach_the_minimum(self):
        team = terse.simulate("codec=random-k:keep=0.5,feedback=residual,lr=0.1,momentum=0",
                              16, X)
        end = team.run(lambda worker, point, step: point, 50)
        self.assertLess(abs(end).max(), 0.05 * abs(X).max())

    def test_bytes_of_tensors(self):
        start = [numpy.zeros((30, 40)), numpy.zeros(50)]
        team = terse.simulate("topk:keep=0.1,min=100", workers=2, weights=start)
        self.assertEqual(team.tensor_bytes(1), [0, 0])
        reports = team.step([[numpy.ones((30, 40)), numpy.ones(50)]] * 2)
        self.assertEqual(team.tensor_bytes(1)[1], 200)
        self.assertEqual(8 * sum(team.tensor_bytes(1)), round(reports[1]["bits"] * 1250))
        self.assertRaisesRegex(ValueError, "worker 2: there are 2", team.tensor_bytes, 2)
        team = terse.simulate("topk:keep=0.1,scope=model", workers=2, weights=start)
        self.assertRaisesRegex(ValueError, "scope=model: one section", team.tensor_bytes, 0)

    def test_what_is_refused(self):
        self.assertRaisesRegex(ValueError, "no codec 'nope'", terse.simulate, "codec=nope", 2, X)
        self.assertRaisesRegex(ValueError, "workers is 0", terse.simulate, "dense", 0, X)
        team = terse.simulate("dense:lr=0.5", workers=2, weights=X)
        self.assertRaisesRegex(ValueError, "3 gradients for 2 workers", team.step, [X, X, X])
        self.assertRaisesRegex(ValueError, "worker 1 has 40 elements", team.step, [X, X[0]])
        self.assertRaisesRegex(ValueError, "worker 2: there are 2", team.point, 2)
        self.assertTrue((team.weights == X).all())

    def test_tensors_of_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        model = torch.nn.Linear(3, 2)
        team = terse.simulate("dense:lr=1", 2, model.parameters())
        team.step([[torch.ones(2, 3), torch.zeros(2)]] * 2)
        self.assertTrue((team.weights[0] == model.weight.detach().numpy() - 1).all())


if __name__ == "__main__":
    unittest.main()
