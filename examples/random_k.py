"""Random-k: k elements that all workers draw from the same numbers, so that no index is sent
(Stich, Cordonnier, Jaggi: Sparsified SGD with Memory, NeurIPS 2018).

    terse check codec random-k:keep=0.05 --plugin examples/random_k.py
    terse compare --plugin examples/random_k.py \\
        --methods "topk:keep=0.01;codec=random-k:keep=0.01,feedback=residual" --out runs/random-k"""

import numpy

import terse


@terse.register_codec
class RandomK:
    """random elements, the same on all workers"""
    name = "random-k"
    options = {"keep": (0.01, 1e-6, 1.0)}
    traits = {"selecting", "contractive", "random", "fixed-length"}

    def chosen(self, n, key):
        return key.shared().choice(n, max(1, int(n * self.keep)), replace=False, shuffle=False)

    def bound(self, n):
        return 4 * max(1, int(n * self.keep))

    def encode(self, x, key):
        return x[self.chosen(x.size, key)]

    def decode(self, payload, n, key):
        out = numpy.zeros(n, numpy.float32)
        out[self.chosen(n, key)] = payload.view("<f4")
        return out
