"""The rows and tables of bench/torch_peer: a call goes on where one that was killed has ended."""

import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from torch_tables import Kept, accuracy_table, speed_table

ABOUT = {"versions": "PyTorch 2.13.0, terse 9", "kind": "speed"}


def turn(case, rate, milliseconds, sent=0):
    return {"case": case, "rate": rate, "workers": 2, "seconds": milliseconds / 1e3, "cpu": 0.01,
            "bytes": sent}


def test_kept(folder):
    path = os.path.join(folder, "rows")
    kept = Kept(path, ABOUT)
    kept.add(turn("noop", 0, 100))
    Kept(path, {**ABOUT, "versions": "PyTorch 1.13.0, terse 9"}).add(turn("noop", 0, 500))
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"case": "noo')  # a writer that was killed
    kept = Kept(path, ABOUT)
    assert [row["seconds"] for row in kept.rows] == [0.1], kept.rows
    kept.add(turn("noop", 0, 120))
    kept = Kept(path, ABOUT)
    assert [row["seconds"] for row in kept.rows] == [0.1, 0.12], kept.rows
    assert kept.count(case="noop", rate=0) == 2 and kept.count(case="noop", rate=1) == 0
    assert Kept(None, ABOUT).rows == []


def test_speed_table():
    rows = [{**turn(*given), **ABOUT} for given in (
        ("no-sync", 0, 50), ("no-sync", 0, 70), ("no-sync", 0, 60), ("noop", 0, 80),
        ("dense", 0, 200, 46.6e6), ("terse-signum", 0, 66, 1.5e6), ("terse-regtopk", 0, 100, 6e5),
        ("dense", 10 ** 9, 400, 46.6e6))]
    lines = speed_table(rows, [(10 ** 9, "1 Gbit/s"), (0, "unshaped")]).split("\n")
    assert lines[0] == "| case | 1 Gbit/s | unshaped | MB per step |", lines
    assert "| no-sync + SGD | - | 60 | 0.00 |" in lines, lines  # the median
    assert "| DDP dense | 400 | 200 | 46.60 |" in lines, lines
    ratios = [line for line in lines if line.startswith("unshaped: ")][0]
    for expected in ("terse-signum / no-sync 1.10", "terse-regtopk / noop 1.25",
                     "dense / terse-signum 3.03", "dense / terse-regtopk 2.00"):
        assert expected in ratios, ratios
    assert lines[-1].startswith("PyTorch 2.13.0, terse 9; ") and "of 0 to 3 turns" in lines[-1]


def test_accuracy_table():
    rows = [{"case": case, "seed": seed, "lr": 0.05, "accuracy": right, "hidden": "8", "epochs": 1,
             **ABOUT} for case, seed, right in (("dense", 1, 0.90), ("dense", 2, 0.92),
                                                ("terse-def", 1, 0.90), ("terse-def", 2, 0.90))]
    lines = accuracy_table(rows).split("\n")
    assert "| DDP dense | 0.05 | 91.00 +- 1.41 | +0.00 |" in lines, lines
    assert "| terse def, ratio 64 | 0.05 | 90.00 +- 0.00 | -1.00 |" in lines, lines


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_kept(folder)
    print("ok rows are kept, those of other versions apart, a torn one is dropped")
    test_speed_table()
    print("ok medians, bytes and ratios of the table of docs/pytorch.md")
    test_accuracy_table()
    print("ok mean, deviation and distance from dense over seeds")


if __name__ == "__main__":
    main()
