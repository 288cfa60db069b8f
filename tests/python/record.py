"""Record: a PyTorch training in the files of a run, and in `terse report`."""

import csv
import io
import json
import os
import shutil
import subprocess
import tempfile

import torch
import torch.distributed as dist

import terse.torch
from crew import Skip
from support import batch, hooked, net, raises

TERSE = os.environ.get("TERSE", "")


def shared_folder(rank):
    """A folder that all ranks know."""
    name = [tempfile.mkdtemp(prefix="terse-record-") if rank == 0 else None]
    dist.broadcast_object_list(name, 0)
    return name[0]


def remove(folder, rank):
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)


def lines_of(folder):
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def run(folder, rank, spec, seed, steps=12, every=5, **more):
    """Trains and records; returns the state's report."""
    torch.manual_seed(seed)
    ddp, state = hooked(net(), spec)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    losses = []
    with terse.torch.Record(folder, state, every=every, seed=seed, model="net", lr=0.1,
                            **more) as record:
        for step in range(steps):
            optimizer.zero_grad()
            x, y = batch(rank, step)
            loss = torch.nn.functional.cross_entropy(ddp(x), y)
            loss.backward()
            optimizer.step()
            record.step(loss.detach())
            losses.append(float(loss))
            if step + 1 in (6, steps):
                record.evaluation(accuracy=step / 100, loss=0.5)
    report = state.report()
    state.close()
    return report, losses


def case_record_is_what_happened(rank, workers):
    folder = shared_folder(rank)
    report, losses = run(os.path.join(folder, "a"), rank, "topk:keep=0.05", 3)
    dist.barrier()
    if rank == 0:
        lines = lines_of(os.path.join(folder, "a"))
        assert [(line["kind"], line["step"]) for line in lines] == [
            ("step", 5), ("step", 6), ("evaluation", 6), ("step", 11), ("step", 12),
            ("evaluation", 12), ("end", 12)], lines
        steps = [line for line in lines if line["kind"] == "step"]
        sent = sum(line["bytes_sent"] * stride for line, stride in zip(steps, (5, 1, 5, 1)))
        assert abs(sent - report["bytes_sent"]) < 1, (sent, report["bytes_sent"])
        assert abs(lines[-2]["bytes_sent_total"] - report["bytes_sent"]) < 1
        assert workers == 1 or sent > 0
        assert abs(steps[0]["loss"] - sum(losses[:5]) / 5) < 1e-6
        assert abs(steps[3]["loss"] - losses[11]) < 1e-6
        for line, stride, before in zip(steps, (5, 1, 5, 1), [0] + [s["seconds"] for s in steps]):
            spent = (line["seconds"] - before) / stride
            assert sum(line["stages"].values()) >= spent * 0.999, line
        counted = lines[-1].pop("tensor_bytes")
        assert lines[-1] == {"kind": "end", "status": "finished", "step": 12, "loss": 0.5,
                             "accuracy": 0.11, "seconds": lines[-1]["seconds"]}, lines[-1]
        with open(os.path.join(folder, "a", "run.json"), encoding="utf-8") as file:
            about = json.load(file)
        assert about["method"].startswith("topk:keep=0.05") and about["workers"] == workers
        assert about["seed"] == 3 and about["model"] == "net" and about["lr"] == 0.1
        assert sum(tensor["count"] for tensor in about["tensors"]) == about["parameters"] == sum(
            parameter.numel() for parameter in net().parameters())
        assert len(counted) == len(about["tensors"]) and min(counted) > 0, counted
        assert sum(counted) < 12 * 4 * about["parameters"] / 2, counted
    remove(folder, rank)


def end_and_counts(folder):
    """The line of the end, and the elements of every tensor."""
    with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
        return lines_of(folder)[-1], [one["count"] for one in json.load(file)["tensors"]]


def case_bytes_of_tensors(rank, workers):
    """Every exchange is counted, also where DDP's order of the tensors changes; scope=model has none."""
    folder = shared_folder(rank)
    run(os.path.join(folder, "dense"), rank, "dense", 3)
    run(os.path.join(folder, "model"), rank, "topk:keep=0.05,scope=model", 3)
    dist.barrier()
    if rank == 0:
        end, counts = end_and_counts(os.path.join(folder, "dense"))
        assert end["tensor_bytes"] == [12 * 4 * count for count in counts], (end, counts)
        assert "tensor_bytes" not in end_and_counts(os.path.join(folder, "model"))[0]
    remove(folder, rank)


def case_report_reads_it(rank, workers):
    folder = shared_folder(rank)
    for spec, seed in (("dense", 1), ("topk:keep=0.05", 1), ("topk:keep=0.05", 2)):
        run(os.path.join(folder, "%s-%d" % (spec[:4], seed)), rank, spec, seed)
    dist.barrier()
    if rank == 0 and TERSE:
        runs = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        done = subprocess.run([TERSE, "report", *runs, "--csv", "-"], check=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.stderr == b"", done.stderr  # no note: nothing was left out
        rows = list(csv.DictReader(io.StringIO(done.stdout.decode())))
        assert [row["name"] for row in rows] == ["dense"] * 2 + ["topk"] * 4, rows
        assert [row["accuracy"] for row in rows] == ["0.05", "0.11"] * 3
    remove(folder, rank)
    if not TERSE:
        raise Skip("TERSE does not name the command")


def case_record_goes_on_after_a_checkpoint(rank, workers):
    folder = shared_folder(rank)
    path = os.path.join(folder, "a")
    run(path, rank, "topk:keep=0.05", 3)
    dist.barrier()
    if rank == 0:
        with open(os.path.join(path, "metrics.jsonl"), "ab") as file:
            file.write(b'{"kind":"st')  # killed in the middle of a line
    before = lines_of_first(path, 3) if rank == 0 else None
    dist.barrier()
    run(path, rank, "topk:keep=0.05", 3, steps=6, resume=6)
    dist.barrier()
    if rank == 0:
        lines = lines_of(path)
        assert lines[:3] == before
        assert [(line["kind"], line["step"]) for line in lines[3:]] == [
            ("step", 11), ("step", 12), ("evaluation", 12), ("end", 12)], lines
        assert "tensor_bytes" not in lines[-1]  # those before are not known
        seconds = [line["seconds"] for line in lines]
        assert seconds == sorted(seconds)
        total = lines[2]["bytes_sent_total"]
        more = sum(line["bytes_sent"] * stride for line, stride in zip(lines[3:5], (5, 1)))
        assert abs(lines[5]["bytes_sent_total"] - total - more) < 1
    remove(folder, rank)


def lines_of_first(folder, count):
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(next(file)) for _ in range(count)]


def case_record_refuses_on_every_rank(rank, workers):
    folder = shared_folder(rank)
    ddp, state = hooked(net(), "dense")
    record = terse.torch.Record(os.path.join(folder, "a"), state)
    record.end()
    dist.barrier()
    for options, text in (({}, "already holds a run"), ({"every": 0}, "every is 0"),
                          ({"method": "x"}, "itself"), ({"model": [1]}, "a setting is")):
        raises((FileExistsError, ValueError, terse.MismatchError),
               lambda: terse.torch.Record(os.path.join(folder, "a"), state, **options), text)
    raises(ValueError, lambda: record.evaluation(accuracy=91), "from 0 to 1")
    state.close()
    remove(folder, rank)


def case_record_of_an_optimizer_that_stops(rank, workers):
    folder = shared_folder(rank)
    model = net()
    optimizer = terse.torch.optim.Signum(model.parameters(), lr=1e-3)
    try:
        with terse.torch.Record(os.path.join(folder, "a"), optimizer) as record:
            for step in range(3):
                optimizer.zero_grad()
                x, y = batch(rank, step)
                loss = torch.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                record.step(loss if step != 1 else float("nan"))
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    dist.barrier()
    if rank == 0:
        lines = lines_of(os.path.join(folder, "a"))
        assert [line["kind"] for line in lines] == ["step"] * 3 + ["end"]
        assert lines[1]["loss"] is None and lines[3]["status"] == "stopped"
        end, counts = end_and_counts(os.path.join(folder, "a"))
        assert end["tensor_bytes"] == [3 * ((count + 7) // 8) for count in counts], (end, counts)
    remove(folder, rank)
