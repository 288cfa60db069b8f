"""Decodes the payloads of terse frames: sections 5 to 7 of docs/wire-format.md.

Every decode_* function decodes the section of one tensor and adds its values to `out`.
"""

import math
import struct

MASK32 = (1 << 32) - 1


class Refused(Exception):
    """A broken rule and where: `offset` counts from the frame's first byte."""

    def __init__(self, offset, rule):
        super().__init__(f"offset {offset}: {rule}")
        self.offset = offset
        self.rule = rule


# ---- random numbers: Philox4x32-10 ---------------------------------------------------------------

SHARED = 0  # "who" of a stream that all workers share
PURPOSE_BLOCK = 1


def philox(key, counter):
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK32, (p0 >> 32) ^ c3 ^ k1, p0 & MASK32
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return c0, c1, c2, c3


def draw(frame, who, purpose, tensor, number):
    """Number `number` of the stream of a tensor at a step, 32 bits."""
    key = (frame.seed & MASK32, (frame.seed >> 32) ^ (frame.step >> 32))
    block = (number // 64 * 16 + number % 16) & MASK32
    counter = (block, tensor, frame.step & MASK32, who << 8 | purpose)
    return philox(key, counter)[number // 16 % 4]


# ---- float32 arithmetic --------------------------------------------------------------------------
# One operation on two float32 in double, then rounded, is the float32 operation: 53 >= 2 * 24 + 2.


def f32(x):
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def add_to(out, at, value):
    out[at] = f32(out[at] + value)


# ---- payload -------------------------------------------------------------------------------------


class Section:
    """The unread rest of a payload."""

    def __init__(self, frame):
        self.data = frame.payload
        self.base = frame.payload_at
        self.at = 0

    def refuse(self, at, rule):
        raise Refused(self.base + at, rule)

    def need(self, length):
        left = len(self.data) - self.at
        if left < length:
            self.refuse(len(self.data), f"section needs {length} bytes, {left} are left")

    def take(self, length):
        self.need(length)
        self.at += length
        return self.data[self.at - length : self.at]

    def floats(self, count, code="f"):
        """`count` finite numbers: f (float32) or e (IEEE half)."""
        start, size = self.at, struct.calcsize("<" + code)
        values = struct.unpack(f"<{count}{code}", self.take(count * size))
        for i, value in enumerate(values):
            if not math.isfinite(value):
                self.refuse(start + i * size, "a value is not finite")
        return values

    def scale(self):
        start = self.at
        (value,) = struct.unpack("<f", self.take(4))
        if not math.isfinite(value) or math.copysign(1, value) < 0:
            self.refuse(start, "scale is not finite or negative")
        return value

    def bits(self, count):
        """A string of `count` bits as one integer, first bit lowest; padding must be zero."""
        string = int.from_bytes(self.take((count + 7) // 8), "little")
        if string >> count:
            self.refuse(self.at - 1, "padding bits are not zero")
        return string

    def codes(self, count, mag_bits, most):
        """(sign, magnitude) pairs; a code is sign << mag_bits | magnitude."""
        start, width = self.at, mag_bits + 1
        string, pairs = self.bits(count * width), []
        for i in range(count):
            code = string >> (i * width) & ((1 << width) - 1)
            sign, magnitude = code >> mag_bits, code & ((1 << mag_bits) - 1)
            if magnitude > most:
                self.refuse(start + i * width // 8, "a code is not on the grid")
            if sign and magnitude == 0:
                self.refuse(start + i * width // 8, "a code is minus zero")
            pairs.append((sign, magnitude))
        return pairs


def add_codes(out, tensor, pairs, value_of):
    for i, (sign, magnitude) in enumerate(pairs):
        if magnitude:
            value = value_of(magnitude)
            add_to(out, tensor.first + i, -value if sign else value)


def decode_f32(frame, tensor, section, out, state):
    for i, value in enumerate(section.floats(tensor.count)):
        add_to(out, tensor.first + i, value)


def decode_f16(frame, tensor, section, out, state):
    for i, value in enumerate(section.floats(tensor.count, "e")):
        add_to(out, tensor.first + i, value)


def decode_bf16(frame, tensor, section, out, state):
    start = section.at
    halves = struct.unpack(f"<{tensor.count}H", section.take(2 * tensor.count))
    for i, half in enumerate(halves):
        (value,) = struct.unpack("<f", struct.pack("<I", half << 16))
        if not math.isfinite(value):
            section.refuse(start + 2 * i, "a value is not finite")
        add_to(out, tensor.first + i, value)


def sign_bits(frame):
    """One, or with zero=keep two."""
    return 2 if frame.option[0] == 2 else 1


def add_signs(tensor, section, out, scale):
    negative = section.bits(tensor.count)
    for i in range(tensor.count):
        add_to(out, tensor.first + i, -scale if negative >> i & 1 else scale)


def decode_sign(frame, tensor, section, out, state):
    if sign_bits(frame) == 1:
        add_signs(tensor, section, out, 1.0)
    else:
        add_codes(out, tensor, section.codes(tensor.count, 1, 1), lambda m: 1.0)


def decode_scaled_sign(frame, tensor, section, out, state):
    add_signs(tensor, section, out, section.scale())


class IndexShape:
    """How k indices below n are written: upper bits in unary, then lower bits, packed."""

    def __init__(self, n, keep):
        self.k = max(1, min(n, math.floor(keep * n + 2.0**-20)))
        # min takes the first, so the smallest width, of those that are equally short
        self.width = min(range(32), key=lambda w: self.k * w + ((n - 1) >> w))
        self.high_bits = self.k + ((n - 1) >> self.width)
        self.bits = self.high_bits + self.k * self.width


def decode_topk(frame, tensor, section, out, state):
    keep, values = frame.option
    shape = IndexShape(tensor.count, keep)
    start = section.at
    stream = section.bits(shape.bits)
    ones = [i for i in range(shape.high_bits) if stream >> i & 1]
    if len(ones) != shape.k:
        section.refuse(start, f"index stream: {len(ones)} ones, {shape.k} expected")
    indices, last = [], -1
    for i, one in enumerate(ones):
        low_at = shape.high_bits + i * shape.width
        index = (one - i) << shape.width | (stream >> low_at & ((1 << shape.width) - 1))
        if not last < index < tensor.count:
            section.refuse(start + low_at // 8, f"index stream: entry {i} does not ascend or "
                                                 f"is not below {tensor.count}")
        indices.append(index)
        last = index
    for index, value in zip(indices, section.floats(shape.k, "f" if values == 0 else "e")):
        add_to(out, tensor.first + index, value)


def block_count(frame, tensor):
    (ratio,) = frame.option
    return max(1, math.floor(tensor.count / ratio))


def decode_block(frame, tensor, section, out, state):
    word = 0
    for number in (0, 1):
        word = word << 32 | draw(frame, SHARED, PURPOSE_BLOCK, tensor.number, number)
    start = word * tensor.count >> 64
    for j, value in enumerate(section.floats(block_count(frame, tensor))):
        add_to(out, tensor.first + (start + j) % tensor.count, value)


def log_mag_bits(k):
    """Bits of a magnitude 0 .. k+1."""
    return (k + 1).bit_length()


def decode_log(frame, tensor, section, out, state):
    (k,) = frame.option
    levels = k + 1
    scale = section.scale()
    pairs = section.codes(tensor.count, log_mag_bits(k), levels)
    add_codes(out, tensor, pairs, lambda m: f32(scale * 2.0 ** (m - levels)))


def decode_uniform(frame, tensor, section, out, state):
    start = section.at
    section.need(5)
    bits = section.take(1)[0]  # the tensor's own, not the option's
    norm = section.scale()
    if not 2 <= bits <= 16:
        section.refuse(start, f"{bits} bits, not 2..16")
    if norm == 0:
        return
    levels = (1 << (bits - 1)) - 1
    unit = f32(norm / levels)
    if math.isinf(f32(levels * unit)):
        section.refuse(start + 1, "the largest level is not finite")
    pairs = section.codes(tensor.count, bits - 1, levels)
    add_codes(out, tensor, pairs, lambda m: f32(m * unit))


def decode_nearest(frame, tensor, section, out, state):
    k, _ = frame.option
    unit = f32(section.scale() * 2.0**-k)
    pairs = section.codes(tensor.count, k + 1, 1 << k)
    add_codes(out, tensor, pairs, lambda m: f32(m * unit))


def decode_natural(frame, tensor, section, out, state):
    pairs = section.codes(tensor.count, 8, 254)
    add_codes(out, tensor, pairs, lambda m: 2.0 ** (m - 127))


def column_dot(p, rows, rank, a, b):
    total = 0.0
    for i in range(rows):
        total += p[i * rank + a] * p[i * rank + b]
    return total


def orthonormalise(p, rows, rank):
    """Modified Gram-Schmidt in double, rows ascending; a dependent column becomes zero."""
    p = list(p)
    for c in range(rank):
        before = math.sqrt(column_dot(p, rows, rank, c, c))
        for b in range(c):
            along = column_dot(p, rows, rank, b, c)
            for i in range(rows):
                p[i * rank + c] -= along * p[i * rank + b]
        length = math.sqrt(column_dot(p, rows, rank, c, c))
        factor = 1 / length if length > 1e-6 * before else 0.0
        for i in range(rows):
            p[i * rank + c] *= factor
    return [f32(x) for x in p]


def is_low(frame, tensor):
    (rank,) = frame.option
    return tensor.cols > 1 and rank * (tensor.rows + tensor.cols) < tensor.count


def decode_low_rank(frame, tensor, section, out, state):
    (rank,) = frame.option
    rows, cols = tensor.rows, tensor.cols
    if not is_low(frame, tensor):
        if frame.pass_number == 1:
            decode_f32(frame, tensor, section, out, state)
    elif frame.pass_number == 0:
        state[tensor.number] = orthonormalise(section.floats(rows * rank), rows, rank)
    elif tensor.number not in state:
        section.refuse(section.at, "pass 1 before pass 0")
    else:
        add_product(out, tensor, state[tensor.number], section.floats(rank * cols), rank)


def add_product(out, tensor, p, q, rank):
    cols = tensor.cols
    for i in range(tensor.rows):
        for j in range(cols):
            total = f32(p[i * rank] * q[j])
            for c in range(1, rank):
                total = f32(total + f32(p[i * rank + c] * q[c * cols + j]))
            add_to(out, tensor.first + i * cols + j, total)


# ---- how long a section is -----------------------------------------------------------------------


def packed(count, bits):
    return (count * bits + 7) // 8


def topk_len(frame, tensor):
    keep, values = frame.option
    shape = IndexShape(tensor.count, keep)
    value_len = 4 if values == 0 else 2
    return packed(shape.bits, 1) + shape.k * value_len


def log_len(frame, tensor):
    return 4 + packed(tensor.count, 1 + log_mag_bits(frame.option[0]))


def low_rank_len(frame, tensor):
    (rank,) = frame.option
    if is_low(frame, tensor):
        return 4 * rank * (tensor.cols if frame.pass_number else tensor.rows)
    return 4 * tensor.count if frame.pass_number else 0


# ---- codecs --------------------------------------------------------------------------------------


class Real:
    """An option of eight bytes, low <= value <= high."""

    size = 8

    def __init__(self, name, low, high):
        self.name, self.low, self.high = name, low, high

    def read(self, data, at):
        (value,) = struct.unpack_from("<d", data, at)
        return value


class Whole(Real):
    """An option of one byte: a number, or the number of a choice."""

    size = 1

    def read(self, data, at):
        return data[at]


class Codec:
    def __init__(self, name, section_len, decode, *options, passes=1, is_fixed=True):
        self.name = name
        self.section_len = section_len  # of a tensor with elements; the longest if not is_fixed
        self.decode = decode
        self.options = options
        self.passes = passes
        self.is_fixed = is_fixed

    def read_options(self, data):
        at, values = 0, []
        for option in self.options:
            value = option.read(data, at)
            if not option.low <= value <= option.high or math.copysign(1, value) < 0:
                raise Refused(64 + at, f"option {option.name} is not in its range")
            values.append(value)
            at += option.size
        for i in range(at, len(data)):
            if data[i]:
                raise Refused(64 + i, "option padding is not zero")
        return values


CODECS = {
    1: Codec("f32", lambda f, t: 4 * t.count, decode_f32),
    2: Codec("f16", lambda f, t: 2 * t.count, decode_f16),
    3: Codec("bf16", lambda f, t: 2 * t.count, decode_bf16),
    4: Codec("sign", lambda f, t: packed(t.count, sign_bits(f)), decode_sign,
             Whole("zero", 0, 2)),
    5: Codec("scaled-sign", lambda f, t: 4 + packed(t.count, 1), decode_scaled_sign,
             Whole("zero", 0, 1)),
    6: Codec("topk", topk_len, decode_topk, Real("keep", 1e-9, 1), Whole("values", 0, 1)),
    7: Codec("block", lambda f, t: 4 * block_count(f, t), decode_block, Real("ratio", 1, 1e9)),
    8: Codec("log", log_len, decode_log, Whole("k", 0, 14)),
    9: Codec("uniform", lambda f, t: 5 + packed(t.count, f.option[0]), decode_uniform,
             Whole("bits", 2, 16), Whole("norm", 0, 1), is_fixed=False),
    10: Codec("nearest", lambda f, t: 4 + packed(t.count, f.option[0] + 2), decode_nearest,
              Whole("k", 1, 14), Real("range", 0, 1e30)),
    11: Codec("natural", lambda f, t: packed(t.count, 9), decode_natural),
    12: Codec("low-rank", low_rank_len, decode_low_rank, Whole("rank", 1, 32), passes=2),
}


def decode(frame, out, state):
    """Adds the values of a frame to `out`. `state` is kept between the passes of a step."""
    codec = CODECS.get(frame.codec_id)
    if codec is None:
        raise Refused(5, f"codec {frame.codec_id} is not known here")
    frame.option = codec.read_options(frame.option_bytes)
    if frame.pass_number >= codec.passes:
        raise Refused(6, f"pass: {frame.pass_number}, not in this codec")
    tensors = [tensor for tensor in frame.tensors if tensor.count]
    longest = sum(codec.section_len(frame, tensor) for tensor in tensors)
    given = len(frame.payload)
    if given > longest or (codec.is_fixed and given < longest):
        raise Refused(48, f"payload length: {given}, this codec and layout make {longest}")
    section = Section(frame)
    for tensor in tensors:
        codec.decode(frame, tensor, section, out, state)
    if section.at < given:
        section.refuse(section.at, f"{given - section.at} bytes after the last section")
