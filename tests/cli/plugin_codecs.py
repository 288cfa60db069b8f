"""A plugin of one right codec and wrong ones: "every" sends every p-th element."""

import numpy

import terse


class Every:
    """every p-th element"""
    options = {"p": (2, 1, 100)}
    traits = {"selecting", "contractive", "random"}

    def first(self, n, key):
        return (key.step + key.tensor) % min(self.p, n)

    def bound(self, n):
        return 4 * (n // self.p + 1)

    def encode(self, x, key):
        return x[self.first(x.size, key)::self.p]

    def decode(self, payload, n, key):
        out = numpy.zeros(n, numpy.float32)
        out[self.first(n, key)::self.p] = payload.view("<f4")
        return out


class Biased(Every):
    traits = Every.traits | {"unbiased"}


class Loses(Every):
    """draws again when it decodes, and not from the key"""
    def first(self, n, key):
        return numpy.random.randint(min(self.p, n))

    def decode(self, payload, n, key):
        out = numpy.zeros(n, numpy.float32)
        places = out[self.first(n, key)::self.p]
        places[:] = payload.view("<f4")[:places.size].sum() / max(1, places.size)
        return out


class Short(Every):
    traits = Every.traits | {"fixed-length"}


class Raises(Every):
    def encode(self, x, key):
        if key.step == 2 and key.worker == 1:
            raise ZeroDivisionError("on purpose")
        return super().encode(x, key)


for number, cls in enumerate((Every, Biased, Loses, Short, Raises)):
    cls.wire_id = 200 + number
    terse.register_codec(cls)
