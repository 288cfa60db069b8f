"""Reads what write-samples wrote with code of its own: TensorBoard events, safetensors, JSON lines
and checkpoints."""

import glob
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs" / "decoder"))
from terse_decode import xxh64  # noqa: E402  (the second decoder's own hash)

PROGRAM = sys.argv.pop(1)


def crc_table():
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = crc_table()


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def masked(data):
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        assert length_crc == masked(data[at:at + 8]), "length's checksum"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, "cut off"
        (body_crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert body_crc == masked(body), "record's checksum"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Protobuf fields as (number, value); fixed ones as bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            length = {1: 8, 5: 4}.get(wire)
            if length is None:
                assert wire == 2, "wire type %d" % wire
                length, at = varint(data, at)
            value = data[at:at + length]
            assert len(value) == length
            at += length
        yield key >> 3, value


def read_events(path):
    for body in records(pathlib.Path(path).read_bytes()):
        event = dict(fields(body))
        scalars = {}
        for number, value in fields(event.get(5, b"")):
            assert number == 1
            entry = dict(fields(value))
            scalars[entry[1].decode()] = struct.unpack("<f", entry[2])[0]
        yield event, scalars


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temp.name)
        subprocess.run([PROGRAM, cls.folder], check=True, timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def test_checksum_of_this_test(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def events_from(self, resumed):
        paths = sorted(glob.glob(os.path.join(self.folder, "events.out.tfevents.*")),
                       key=lambda path: [int(path.split(".")[i]) for i in (-4, -1)])
        self.assertEqual(len(paths), 2)
        return list(read_events(paths[resumed]))

    def check_scalars(self, events, steps):
        for (event, scalars), step in zip(events, steps):
            self.assertEqual(event[2], step)
            self.assertEqual(list(scalars), ["train/loss", "train/accuracy", "nan"])
            self.assertAlmostEqual(scalars["train/loss"], 1 / (step + 1), places=6)
            self.assertEqual(scalars["train/accuracy"], 0.5)
            self.assertTrue(math.isnan(scalars["nan"]))
            self.assertGreater(struct.unpack("<d", event[1])[0], 1.6e9)

    def test_events(self):
        events = self.events_from(0)
        self.assertEqual(len(events), 5)
        self.assertEqual(events[0][0][3], b"brain.Event:2")
        self.check_scalars(events[1:4], [0, 100, 200])
        self.assertEqual(events[4][0][2], 1 << 40)

    def test_events_of_a_resumed_run(self):
        events = self.events_from(1)
        self.assertEqual(len(events), 6)
        self.assertEqual(events[1][0][2], 200)
        self.assertEqual(dict(fields(events[1][0][7])), {1: 1})  # a session starts
        self.check_scalars(events[2:5], [200, 300, 400])

    def test_weights(self):
        data = (self.folder / "weights.safetensors").read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        self.assertEqual((8 + length) % 8, 0)
        header = json.loads(data[8:8 + length])
        body = data[8 + length:]
        self.assertEqual(header["__metadata__"]["note"], "a note")
        self.assertEqual(header["fc.weight"]["dtype"], "F32")
        self.assertEqual(header["fc.weight"]["shape"], [2, 3])
        begin, end = header["fc.weight"]["data_offsets"]
        self.assertEqual(struct.unpack("<6f", body[begin:end]), (0, 1, 2, 3, -4, 2.0 ** -130))
        self.assertEqual(header["scalar"]["shape"], [])
        begin, end = header["blob"]["data_offsets"]
        self.assertEqual(body[begin:end], b"abc")
        self.assertEqual(end, len(body))

    def test_metrics(self):
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line) for line in lines],
                         [{"step": i, "loss": 0.1, "bad": None} for i in range(3)])

    def test_checkpoint(self):
        data = (self.folder / "checkpoint-1234.terse").read_bytes()
        magic, version, count, step, length = struct.unpack_from("<8sIIQQ", data)
        self.assertEqual((magic, version, count, step), (b"TERSECKP", 1, 2, 1234))
        self.assertEqual(struct.unpack("<Q", data[-8:])[0], xxh64(data[:-8]))
        self.assertEqual(json.loads(data[32:32 + length]), {"model": "cnn"})
        at = 32 + (length + 7) // 8 * 8
        found = []
        for _ in range(count):
            kind, worker, blob_len, name_len, zero = struct.unpack_from("<IIQII", data, at)
            at += 24
            name = data[at:at + name_len].decode()
            at += (name_len + 7) // 8 * 8
            found.append((name, kind, worker, data[at:at + blob_len]))
            at += (blob_len + 7) // 8 * 8
            self.assertEqual(zero, 0)
        self.assertEqual(found, [("memory", 2, 3, b"01234567"), ("weights", 1, 0, b"0123456789")])
        self.assertEqual(at, len(data) - 8)


if __name__ == "__main__":
    unittest.main()
