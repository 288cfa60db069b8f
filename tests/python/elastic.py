"""torchrun starts the ranks of examples/torch_ddp.py again after each death: the training goes on from
the newest whole set by itself, and ends as one that was never disturbed.

    elastic.py SOURCE_FOLDER [DEATHS]       3 deaths by default"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RANKS, SPEC = 3, "topk:keep=0.05"
TIMEOUT = 280  # seconds for one training
# From PyTorch 2.5 on the launcher's store would keep the addresses of the dead ranks, and gloo would
# try to connect to them.
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def children(parent):
    """The processes that torchrun has started, by rank."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) != parent:
                    continue
            with open("/proc/%s/environ" % pid, "rb") as file:
                rank = re.search(rb"(?:^|\0)RANK=(\d+)", file.read())
        except OSError:
            continue
        if rank:
            found[int(rank.group(1))] = int(pid)
    return found


def newest(folder):
    """The step of the newest set file, or 0."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return max((int(name[6:-5]) for name in names if re.fullmatch(r"terse-\d+\.json", name)),
               default=0)


def train(source, folder, deaths):
    """(losses by step, weights file of the last set, deaths that happened)"""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "-r", "1", "-t", "1",
             "--nproc_per_node=%d" % RANKS, "--max_restarts=%d" % (deaths + 1),
             "--monitor_interval=0.2", "--standalone",
             source + "/examples/torch_ddp.py", SPEC, folder], stdout=output,
            stderr=subprocess.DEVNULL)
        end, killed, seen = time.monotonic() + TIMEOUT, 0, 0
        while process.poll() is None:
            if time.monotonic() > end:
                process.kill()
                raise AssertionError("the training did not end in %d s" % TIMEOUT)
            step = newest(folder)
            if killed < deaths and step > seen and step < 200:
                victims = children(process.pid)
                if len(victims) == RANKS:
                    os.kill(victims[killed % RANKS], signal.SIGKILL)
                    killed, seen = killed + 1, step
            time.sleep(0.01)
        output.seek(0)
        text = output.read()
    assert process.returncode == 0, text
    losses = {int(step): float(loss) for step, loss in re.findall(r"step +(\d+) +loss (\S+)", text)}
    with open(folder + "/terse-200.json", encoding="ascii") as file:
        extra = json.load(file)["extra"]
    return losses, os.path.join(folder, extra[0]), killed


def main():
    try:
        import torch
        import torch.distributed
    except ImportError:
        print("skip torch: not installed (Debian: python3-torch; make test-torch installs it)")
        return 77
    print("torch %s" % torch.__version__)
    source, deaths = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    os.environ.update(PYTHONPATH=source + "/python", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo",
                      **OWN_STORE)
    base = tempfile.mkdtemp(prefix="terse-elastic-")
    try:
        wanted, quiet, _ = train(source, base + "/quiet", 0)
        losses, disturbed, killed = train(source, base + "/disturbed", deaths)
        assert killed == deaths, "only %d deaths" % killed
        assert losses[200] == wanted[200], (losses, wanted)
        first, second = (torch.load(path) for path in (quiet, disturbed))
        for name in first:
            assert torch.equal(first[name], second[name]), name
        assert wanted[200] < 0.7 * wanted[40], wanted
        print("ok %d deaths of %d ranks: the weights of a quiet training, loss %.3f"
              % (killed, RANKS, losses[200]))
    finally:
        shutil.rmtree(base)
    return 0


if __name__ == "__main__":
    sys.exit(main())
