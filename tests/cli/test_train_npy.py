"""Own data as NumPy arrays: what is read is what was written, and what cannot be is refused."""
import json
import os
import random
import struct
import unittest

from support import npy_header, npy_text, USAGE
from training import SIDE, TEST, TRAIN, TrainCase

SIZES = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8, "f": 4}
DESCR = {"b": "|i1", "B": "|u1", "h": "<i2", "H": "<u2", "i": "<i4", "I": "<u4", "q": "<i8",
         "Q": "<u8", "f": "<f4"}


def array(shape, code, values):
    """An NPY file; `values` may be bytes already."""
    data = values if isinstance(values, bytes) else struct.pack("<%d%s" % (len(values), code), *values)
    text = npy_text(shape)
    return npy_header(text.replace("<f4", DESCR[code])) + data


class Arrays(TrainCase):
    def setUp(self):
        super().setUp()
        folder = self.images.split(":")[1]
        self.x, self.y = {}, {}
        for name, idx in (("train", "train"), ("test", "t10k")):
            with open("%s/%s-images-idx3-ubyte" % (folder, idx), "rb") as file:
                self.x[name] = file.read()[16:]
            with open("%s/%s-labels-idx1-ubyte" % (folder, idx), "rb") as file:
                self.y[name] = file.read()[8:]

    def arrays(self, name, x, y):
        """A folder with four arrays; x(split, count) and y(split) give the files."""
        os.makedirs(self.path(name))
        for split, count in (("train", TRAIN), ("test", TEST)):
            self.write("%s/x_%s.npy" % (name, split), x(split, count))
            self.write("%s/y_%s.npy" % (name, split), y(split))
        return "npy:" + self.path(name)

    def labels(self, code="B"):
        return lambda split: array((len(self.y[split]),), code, list(self.y[split]))

    def grey(self, split, count):
        return array((count, SIDE, SIDE), "B", self.x[split])

    def hash_of(self, data, *words):
        return self.json("train", "--data", data, "--model", "logistic", "--batch", "8", "--workers",
                         "2", "--steps", "9", "--json", "-q", *words)["weights_hash"]

    def test_images_train_as_the_same_images_in_idx_files(self):
        expected = self.hash_of(self.images)
        moved = self.hash_of(self.images, "--augment")
        self.assertNotEqual(expected, moved)
        for code in SIZES:
            if code != "f":
                data = self.arrays("u8-" + code, self.grey, self.labels(code))
                self.assertEqual(self.hash_of(data), expected, code)
        self.assertEqual(self.hash_of(data, "--augment"), moved)
        column = self.arrays("column", lambda split, count: array((count, 1, SIDE, SIDE), "B",
                                                                  self.x[split]),
                             lambda split: array((len(self.y[split]), 1), "i", list(self.y[split])))
        self.assertEqual(self.hash_of(column), expected)
        files = [self.path("column/%s.npy" % name) for name in ("x_train", "y_train", "x_test",
                                                                "y_test")]
        self.assertEqual(self.hash_of("npy:" + ",".join(files)), expected)

    def colour(self, first):
        """Two channels, the second one inverted; `first`: the channels come before the sides."""
        def make(split, count):
            plane, out = SIDE * SIDE, bytearray()
            for i in range(count):
                image = self.x[split][i * plane:(i + 1) * plane]
                other = bytes(255 - p for p in image)
                out += image + other if first else bytes(b for pair in zip(image, other)
                                                         for b in pair)
            shape = (count, 2, SIDE, SIDE) if first else (count, SIDE, SIDE, 2)
            return array(shape, "B", bytes(out))
        return make

    def test_channels_first_and_last(self):
        first = self.arrays("first", self.colour(True), self.labels())
        last = self.arrays("last", self.colour(False), self.labels())
        self.assertEqual(self.hash_of(first, "--model", "cnn"), self.hash_of(last, "--model", "cnn"))

    def test_floats_are_taken_as_they_are(self):
        """Bytes divided by 255: as vectors of floats, as vectors of uint8, as images of floats."""
        def values(split):
            return [struct.unpack("<f", struct.pack("<f", p / 255))[0] for p in self.x[split]]
        plane = SIDE * SIDE
        floats = self.arrays("f", lambda split, count: array((count, plane), "f", values(split)),
                             self.labels())
        pixels = self.arrays("u", lambda split, count: array((count, plane), "B", self.x[split]),
                             self.labels())
        images = self.arrays("i", lambda split, count: array((count, SIDE, SIDE), "f", values(split)),
                             self.labels())
        expected = self.hash_of(floats)
        self.assertEqual(self.hash_of(pixels), expected)
        self.assertEqual(self.hash_of(images), expected)
        self.assertNotEqual(self.hash_of(images, "--augment"), expected)

    def test_numbers_and_a_pair_without_a_test_set(self):
        source = random.Random(5)
        rows = [[source.gauss(0, 1) for _ in range(3)] for _ in range(200)]
        x = self.write("x.npy", array((200, 3), "f", [v for row in rows for v in row]))
        y = self.write("y.npy", array((200,), "f", [2 * a - b for a, b, _ in rows]))
        result = self.json("train", "--data", "npy:%s,%s" % (x, y), "--model", "linear", "--lr",
                           "0.1", "--workers", "2", "--batch", "5", "--epochs", "10", "--json", "-q",
                           "--out", self.path("run"))
        self.assertLess(result["loss"], 1e-3)
        run = json.loads(self.read("run/run.json"))
        self.assertIn("a tenth of the examples", run["data_notes"])

    def test_refusals(self):
        labels = self.labels()
        good = self.arrays("good", self.grey, labels)
        for what, file, data, reason in (
                ("shape", "x_train", array((TRAIN * SIDE * SIDE,), "B", self.x["train"]),
                 "examples have the shape (n, features)"),
                ("type", "x_train", array((2, 3), "q", [0] * 6), "type '<i8' (int64); only float32, "
                                                                 "uint8 is read"),
                ("labels", "y_train", array((TRAIN - 1,), "B", self.y["train"][1:]),
                 "for %d examples the shape is (%d,)" % (TRAIN, TRAIN)),
                ("negative", "y_train", array((TRAIN,), "b", [-1] * TRAIN), "label 0 is negative"),
                ("large", "y_train", array((TRAIN,), "q", [1 << 40] * TRAIN), "above 65535"),
                ("unknown", "y_test", array((TEST,), "B", [200] * TEST), "the largest in training"),
                ("nan", "y_train", array((TRAIN,), "f", [float("nan")] * TRAIN), "is not finite"),
                ("test", "x_test", array((TEST, SIDE, SIDE - 1), "B", bytes(TEST * SIDE * (SIDE - 1))),
                 "another shape or type"),
                ("cut", "x_train", self.grey("train", TRAIN)[:-1], "ends inside the data"),
                ("deep", "x_train", array((TRAIN, 5, 5, 5), "B", bytes(TRAIN * 125)),
                 "images of 5 channels")):
            with self.subTest(what=what):
                path = self.path("good/%s.npy" % file)
                kept = self.read("good/%s.npy" % file)
                self.write("good/%s.npy" % file, data)
                text = self.error("train", "--data", good, "--model", "logistic", "--steps", "1")
                self.assertIn(reason, text)
                self.assertTrue(what in ("unknown", "test") or file in text, text)
                with open(path, "wb") as back:
                    back.write(kept)
        for where in ("a,b,c", "a,b,c,d,e"):
            text = self.error("train", "--data", "npy:" + where, "--steps", "1", expect=USAGE)
            self.assertIn("npy:X,Y or npy:X,Y,XTEST,YTEST", text)
        self.assertIn("cannot open", self.error("train", "--data", "npy:" + self.path("absent")))


if __name__ == "__main__":
    unittest.main()
