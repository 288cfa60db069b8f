"""The NPY reader: what NumPy writes is read, everything else is refused with offset and reason."""
import unittest

from support import Case, npy, npy_header, npy_text, read_npy, REFUSED

FOUR = bytes(4)

# name: (bytes, where, what)
REFUSALS = {
    "empty": (b"", 0, "empty"),
    "wrong magic": (b"\x93NUMPX\x01\x00" + bytes(100), 0, "magic"),
    "part of the magic": (b"\x93NUM", 4, "ends before"),
    "no length": (b"\x93NUMPY\x01\x00", 8, "ends before"),
    "half a length": (b"\x93NUMPY\x02\x00\x10\x00", 10, "ends before"),
    "version 0": (npy_header(npy_text((1,)), (0, 0)) + FOUR, 6, "version 0.0"),
    "version 4": (npy_header(npy_text((1,)), (4, 0)) + FOUR, 6, "version 4.0"),
    "version 1.1": (npy_header(npy_text((1,)), (1, 1)) + FOUR, 6, "version 1.1"),
    "truncated header": (npy([1.0])[:40], 40, "inside the header"),
    "huge header": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100), 8, "4294967295 bytes"),
    "fortran": (npy_header(npy_text((1, 1), order="True")) + FOUR, None, "C order"),
    "float64": (npy_header(npy_text((1,), "'<f8'")) + bytes(8), None, "float64"),
    "float16": (npy_header(npy_text((1,), "'<f2'")) + bytes(2), None, "float16"),
    "big-endian": (npy_header(npy_text((1,), "'>f4'")) + FOUR, None, "big-endian"),
    "integers": (npy_header(npy_text((1,), "'<i4'")) + FOUR, None, "'<i4'"),
    "structured": (npy_header(npy_text((1,), "[('a', '<f4')]")) + FOUR, None, "structured"),
    "no dictionary": (npy_header("hello\n"), 10, "'{' expected"),
    "no newline": (npy_header(npy_text((1,)).rstrip("\n")) + FOUR, None, "newline"),
    "two newlines": (npy_header(npy_text((1,)) + "\n") + FOUR, None, "newline"),
    "text after": (npy_header(npy_text((1,)).rstrip() + "x\n") + FOUR, None, "newline"),
    "key twice": (npy_header("{'descr': '<f4', 'descr': '<f4'}\n"), 27, "twice"),
    "unknown key": (npy_header("{'size': 3}\n"), 11, "unknown key 'size'"),
    "missing shape": (npy_header("{'descr': '<f4', 'fortran_order': False}\n"), 10, "'shape'"),
    "missing descr": (npy_header("{'shape': (), 'fortran_order': False}\n"), 10, "'descr'"),
    "missing order": (npy_header("{'descr': '<f4', 'shape': ()}\n"), 10, "'fortran_order'"),
    "not a bool": (npy_header("{'fortran_order': 0}\n"), 28, "True or False"),
    "no colon": (npy_header("{'shape' ()}\n"), 19, "':' expected"),
    "no comma": (npy_header("{'shape': () 'descr': '<f4'}\n"), 23, "',' or '}'"),
    "open quote": (npy_header("{'shape\n"), 11, "not closed"),
    "long word": (npy_header("{'%s': 1}\n" % ("a" * 300)), 11, "too long"),
    "escape": (npy_header("{'sha\\x70e': ()}\n"), 15, "0x5c"),
    "zero byte": (npy_header("{'sh\0pe': ()}\n"), 14, "0x00"),
    "not a tuple": (npy_header("{'shape': (3)}\n"), 20, "tuple"),
    "negative": (npy_header("{'shape': (-3,)}\n"), 21, "dimension expected"),
    "float shape": (npy_header("{'shape': (3.0,)}\n"), 22, "',' or ')'"),
    "nine dimensions": (npy_header("{'shape': (1,1,1,1,1,1,1,1,1)}\n"), 20, "more than 8"),
    "dimension overflow": (npy_header("{'shape': (99999999999999999999999,)}\n"), 21, "2^40"),
    "product overflow": (npy_header(npy_text((2**32, 2**32, 2))), None, "2^40"),
    "product overflow with zero": (npy_header(npy_text((2**30, 2**30, 0))), None, "2^40"),
    "shape over data": (npy_header(npy_text((2**39,))) + FOUR, None, "4 bytes of"),
    "truncated data": (npy([1.0, 2.0])[:-1], 135, "7 bytes of 8"),
    "trailing byte": (npy([1.0, 2.0]) + b"\0", 136, "1 bytes after"),
}


class Refused(Case):
    def test_table(self):
        for name, (data, where, what) in REFUSALS.items():
            with self.subTest(name):
                path = self.write("in.npy", data)
                text = self.error("encode", path, "-o", self.path("out"), "-c", "f32")
                self.assertTrue(text.startswith("terse: cannot read '%s'" % path), text)
                self.assertIn(what, text)
                self.assertIn("offset " if where is None else "offset %d: " % where, text)
                with self.assertRaises(FileNotFoundError):
                    self.read("out")

    def test_every_truncation(self):
        data = npy([1.0, 2.0, 3.0], (3, 1), (2, 0))
        for length in range(len(data)):
            path = self.write("in.npy", data[:length])
            self.assertIn("offset", self.error("encode", path, "-o", "-", "-c", "f32"))

    def test_the_same_from_a_pipe(self):
        text = self.error("encode", "-", "-o", "-", "-c", "f32", stdin=b"\x93NUMPX\x01\x00")
        self.assertIn("'standard input'", text)


class Read(Case):
    def roundtrip(self, data):
        path = self.write("in.npy", data)
        self.terse("encode", path, "-o", self.path("f"), "-c", "f32")
        self.terse("decode", self.path("f"), "-o", self.path("out.npy"))
        return read_npy(self.read("out.npy"))

    def test_shapes(self):
        for shape in ((), (1,), (7,), (2, 3), (1, 2, 3), (2, 1, 1, 1, 1, 1, 1, 3), (0,), (3, 0)):
            count = 1
            for dim in shape:
                count *= dim
            with self.subTest(shape):
                values = [float(i) - 1.5 for i in range(count)]
                self.assertEqual(self.roundtrip(npy(values, shape)), (shape, _floats(values)))

    def test_versions(self):
        for version in ((1, 0), (2, 0), (3, 0)):
            self.assertEqual(self.roundtrip(npy([1.5, -2.0], (2,), version))[1],
                             _floats([1.5, -2.0]))

    def test_other_spellings(self):
        for text in ('{"shape":(2,),"fortran_order":False,"descr":"<f4"}\n',
                     "{'shape' : ( 2 , ) , 'descr' : '<f4' , 'fortran_order' : False , }   \n",
                     "{'shape': (2, 1, ), 'descr': '<f4', 'fortran_order': False}\n"):
            data = npy_header(text) + npy([3.0, 4.0])[-8:]
            self.assertEqual(self.roundtrip(data)[1], _floats([3.0, 4.0]))

    def test_not_finite_is_refused(self):
        for bad in (float("nan"), float("inf"), float("-inf")):
            path = self.write("in.npy", npy([1.0, bad]))
            self.assertIn("finite", self.error("encode", path, "-o", self.path("o"), "-c", "f32",
                                               expect=REFUSED))


def _floats(values):
    import array
    return array.array("f", values)


if __name__ == "__main__":
    unittest.main()
