"""encode, decode, inspect: round trips of every codec, and files that are refused."""
import os
import resource
import struct
import sys
import unittest

from support import Case, norm, normals, npy, read_npy, REFUSED, SPECS, USAGE

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/decoder"))
from terse_decode import xxh64  # noqa: E402  # pylint: disable=wrong-import-position

SHAPE = (40, 75)
COUNT = 3000


class RoundTrip(Case):
    def setUp(self):
        super().setUp()
        self.values = normals(COUNT)
        self.input = self.write("in.npy", npy(self.values, SHAPE))

    def encode(self, spec, *more):
        self.terse("encode", self.input, "-o", self.path("f"), "--codec", spec, *more)
        return self.read("f")

    def decode(self):
        self.terse("decode", self.path("f"), "-o", self.path("out.npy"))
        return read_npy(self.read("out.npy"))

    def specs(self):
        """SPECS, and the name of each codec that is not among them, without a bound."""
        names = [codec["name"] for codec in self.json("codecs", "--json")["codecs"]]
        listed = {spec.split(":")[0] for spec in SPECS}
        self.assertLessEqual(listed, set(names))
        return {**SPECS, **{name: None for name in names if name not in listed}}

    def test_every_codec(self):
        for spec, bound in self.specs().items():
            with self.subTest(spec):
                self.encode(spec)
                shape, decoded = self.decode()
                self.assertEqual(shape, SHAPE)
                error = norm(a - b for a, b in zip(self.values, decoded)) / norm(self.values)
                if spec == "sign":
                    self.assertEqual(set(decoded), {1.0, -1.0})
                    self.assertTrue(all(a * b > 0 for a, b in zip(self.values, decoded)))
                elif bound is not None:
                    self.assertLessEqual(error, bound)

    def test_decoded_plus_residual_is_the_input(self):
        for spec in self.specs():
            with self.subTest(spec):
                self.encode(spec, "--take", self.path("left.npy"))
                _, decoded = self.decode()
                shape, kept = read_npy(self.read("left.npy"))
                self.assertEqual(shape, SHAPE)
                for given, s, k in zip(self.values, decoded, kept):
                    self.assertAlmostEqual(given, s + k, delta=2e-6 * max(1, abs(s), abs(k)))

    def test_residual_is_added(self):
        self.encode("topk:keep=0.1", "--take", self.path("left.npy"))
        self.encode("topk:keep=0.1", "--residual", self.path("left.npy"),
                    "--take", self.path("left.npy"), "--step", "1")
        _, second = self.decode()
        _, left = read_npy(self.read("left.npy"))
        self.encode("topk:keep=0.1")
        _, first = self.decode()
        for x, a, b, k in zip(self.values, first, second, left):
            self.assertAlmostEqual(2 * x, a + b + k, delta=1e-5)

    def test_residual_of_another_size(self):
        other = self.write("other.npy", npy([1.0]))
        self.assertIn("1 elements, the input 3,000",
                      self.error("encode", self.input, "-o", self.path("f"), "-c", "f32",
                                 "--residual", other))

    def test_seed_step_worker(self):
        plain = self.encode("uniform:bits=4")
        self.assertEqual(plain, self.encode("uniform:bits=4"))
        for option in ("--seed", "--step", "--worker"):
            self.assertNotEqual(plain[80:], self.encode("uniform:bits=4", option, "3")[80:])
        self.encode("uniform:bits=4", "--seed", "18446744073709551615", "--step", "5",
                    "--worker", "16777214")
        frame = self.json("inspect", self.path("f"), "--json")["frames"][0]
        self.assertEqual((frame["seed"], frame["step"], frame["worker"]),
                         (2**64 - 1, 5, 2**24 - 2))

    def test_threads_and_kernel_sets_change_nothing(self):
        for spec in self.specs():
            plain = self.encode(spec)
            self.assertEqual(plain, self.encode(spec, "--threads", "2"), spec)
            self.terse("encode", self.input, "-o", self.path("f"), "-c", spec,
                       env={"TERSE_KERNELS": "ref"})
            self.assertEqual(plain, self.read("f"), spec)

    def test_prints_the_compression_ratio(self):
        done = self.terse("encode", self.input, "-o", self.path("f"), "-c", "sign")
        self.assertRegex(done.stderr.decode(),
                         r"^sign.*: 3,000 elements in \d+ bytes \(375 of payload\), "
                         r"1 bits per element, compression ratio [\d.]+\n$")

    def test_pipes(self):
        for spec in ("topk:keep=0.1", "low-rank:rank=2"):
            decoded = self.terse("encode", "-", "-o", "-", "-c", spec,
                              stdin=npy(self.values, SHAPE)).stdout
            self.assertEqual(decoded, self.encode(spec))
            back = self.terse("decode", "-", "-o", "-", stdin=decoded).stdout
            self.assertEqual(read_npy(back), self.decode())
            self.assertIn(b"sound", self.terse("inspect", "-", stdin=decoded).stdout)

    def test_tensors(self):
        self.encode("scaled-sign", "--tensor", "first=10x100", "--tensor", "second=2000")
        shape, decoded = self.decode()
        self.assertEqual(shape, (COUNT,))
        for part in (slice(0, 1000), slice(1000, COUNT)):
            mean = sum(abs(v) for v in self.values[part]) / len(self.values[part])
            for value in decoded[part]:
                self.assertAlmostEqual(abs(value), mean, delta=1e-5)
        tensors = self.json("inspect", self.path("f"), "--json")["frames"][0]["tensors"]
        self.assertEqual([(t["name"], t["shape"], t["offset"]) for t in tensors],
                         [("first", [10, 100], 0), ("second", [2000], 1000)])
        self.assertEqual([t["payload_bytes"] for t in tensors], [4 + 125, 4 + 250])

    def test_tensors_of_another_size(self):
        self.assertIn("the tensors hold 10 elements, the input 3,000",
                      self.error("encode", self.input, "-o", self.path("f"), "-c", "f32",
                                 "--tensor", "a=10"))

    def test_out_of_range(self):
        big = self.write("big.npy", npy([1e6]))
        self.assertIn("cannot encode", self.error("encode", big, "-o", self.path("f"), "-c", "f16"))


class Inspect(Case):
    def setUp(self):
        super().setUp()
        self.input = self.write("in.npy", npy(normals(COUNT), SHAPE))

    def make(self, spec, name="f", *more):
        self.terse("encode", self.input, "-o", self.path(name), "-c", spec, *more)
        return self.path(name)

    def test_fields(self):
        path = self.make("topk:keep=0.01", "f", "--name", "conv1.weight", "--step", "7")
        found = self.json("inspect", path, "--json")
        self.assertTrue(found["sound"])
        (frame,) = found["frames"]
        self.assertEqual(frame["codec"], "topk")
        self.assertEqual((frame["step"], frame["count"], frame["first"]), (7, COUNT, 0))
        self.assertEqual(frame["payload"], "sound")
        self.assertEqual(frame["bytes"], len(self.read("f")))
        self.assertEqual(frame["tensors"][0]["name"], "conv1.weight")
        self.assertEqual(frame["tensors"][0]["payload_bytes"], frame["payload_bytes"])
        text = self.text("inspect", path)
        for word in ("conv1.weight", "40x75", frame["spec"], "checksum sound", "payload sound"):
            self.assertIn(word, text)

    def test_a_short_frame_of_a_long_vector_is_not_decoded(self):
        """A frame of 24 elements is made into one of 2^30, with the payload that it had."""
        frame = self.read_of("topk:keep=0.01")
        length = struct.unpack_from("<I", frame, 60)[0]
        layout = bytearray(frame[80:80 + length])
        at = layout.index(struct.pack("<QQ", 4, 6))
        struct.pack_into("<QQ", layout, at, 1 << 20, 1 << 10)
        head = bytearray(frame[:80])
        struct.pack_into("<Q", head, 8, xxh64(bytes(layout)))
        struct.pack_into("<Q", head, 40, 1 << 30)
        body = bytes(head + layout) + frame[80 + length:-8]
        path = self.write("long", body + struct.pack("<Q", xxh64(body)))
        start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        (found,) = self.json("inspect", path, "--json")["frames"]
        self.assertEqual(found["count"], 1 << 30)
        self.assertEqual(found["payload"], "not checked: the vector is longer than --limit")
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
                        max(start, 1 << 18))  # KiB
        small = self.make("sign")
        (found,) = self.json("inspect", small, "--limit", "23", "--json")["frames"]
        self.assertIn("--limit", found["payload"])
        (found,) = self.json("inspect", small, "--limit", "24", "--json")["frames"]
        self.assertEqual(found["payload"], "sound")
        self.assertIn("--limit", self.error("inspect", small, "--limit", "x", expect=USAGE))

    def test_two_passes_are_two_frames(self):
        frames = self.json("inspect", self.make("low-rank:rank=2"), "--json")["frames"]
        self.assertEqual([frame["pass"] for frame in frames], [0, 1])
        self.assertEqual({frame["payload"] for frame in frames}, {"sound"})

    def test_every_flipped_byte_is_refused(self):
        data = bytearray(self.read_of("sign"))
        for at in range(len(data)):
            data[at] ^= 0x10
            path = self.write("bad", data)
            text = self.terse("inspect", path, expect=REFUSED).stderr.decode()
            self.assertRegex(text, r"^terse: '.*' is refused: offset \d+: \S")
            data[at] ^= 0x10

    def read_of(self, spec):
        self.input = self.write("small.npy", npy(normals(24), (4, 6)))
        self.make(spec)
        return self.read("f")

    def test_every_truncation_is_refused(self):
        for spec in ("topk:keep=0.2", "low-rank:rank=1"):
            data = self.read_of(spec)
            for length in range(len(data)):
                path = self.write("bad", data[:length])
                # the first of two frames alone is sound, but no vector
                for command in ("decode",) if spec[0] == "l" else ("decode", "inspect"):
                    more = ("-o", self.path("out")) if command == "decode" else ()
                    self.terse(command, path, *more, expect=REFUSED)

    def test_json_names_the_fault(self):
        data = self.read_of("f32")
        path = self.write("bad", data[:-9])
        done = self.terse("inspect", path, "--json", expect=REFUSED)
        import json
        found = json.loads(done.stdout)
        self.assertFalse(found["sound"])
        self.assertIn("rule", found["frames"][0])

    def test_second_frame_is_named_by_its_offset(self):
        data = self.read_of("sign")
        path = self.write("bad", data + data[:-1] + bytes([data[-1] ^ 1]))
        text = self.terse("inspect", path, expect=REFUSED).stderr.decode()
        offset = int(text.split("offset ")[1].split(":")[0])
        self.assertGreaterEqual(offset, len(data))

    def test_nothing_to_see(self):
        self.assertIn("is empty", self.error("inspect", self.write("none", b"")))
        self.assertIn("No such file", self.error("inspect", self.path("absent")))
        self.assertIn("offset 0: ", self.error("inspect", self.write("text", b"hello" * 50)))


class OneVector(Case):
    """decode takes one vector: what else a file may hold is refused by name."""

    def setUp(self):
        super().setUp()
        self.input = self.write("in.npy", npy(normals(600), (20, 30)))

    def make(self, *more):
        self.terse("encode", self.input, "-o", self.path("f"), *more)
        return self.read("f")

    def refuse(self, data):
        return self.error("decode", self.write("bad", data), "-o", self.path("out.npy"))

    def test_two_vectors(self):
        one = self.make("-c", "sign")
        text = self.refuse(one + self.make("-c", "sign", "--step", "1"))
        self.assertIn("offset %d: " % len(one), text)
        self.assertIn("one vector", text)

    def test_trailing_byte(self):
        one = self.make("-c", "sign")
        self.assertIn("offset %d: " % len(one), self.refuse(one + b"\0"))

    def test_passes_of_two_steps(self):
        both = self.make("-c", "low-rank:rank=2")
        other = self.make("-c", "low-rank:rank=2", "--step", "1")
        frames = self.json("inspect", self.path("f"), "--json")["frames"]
        cut = frames[1]["offset"]
        self.assertIn("step 1", self.refuse(both[:cut] + other[cut:]))
        self.assertIn("pass 1", self.refuse(both[cut:]))
        self.assertIn("ends after pass 0", self.refuse(both[:cut]))
        self.assertIn("pass 0", self.refuse(both[:cut] + both[:cut]))


if __name__ == "__main__":
    unittest.main()
