"""Runs cases in real gloo processes on loopback: crew.py WORKERS FILE...

A case is a function case_NAME(rank, workers) of one of the files. Each rank is one process, which
runs all cases in the same order (importing torch takes seconds). A case fails if it raises on any
rank. Prints "ok", "not ok" or "skip" for each case. A rank that fails or dies ends the run, since
the others may wait for it."""

import gc
import importlib.util
import os
import signal
import socket
import sys
import time
import traceback

TIMEOUT = 580  # seconds for a whole run
HERE = os.path.dirname(os.path.abspath(__file__))
# The package of this source tree is tested, unless PYTHONPATH names another one.
sys.path.insert(0, HERE)
if not os.environ.get("PYTHONPATH"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))


class Skip(Exception):
    """A case raises it on all ranks if it cannot run here; the text says why."""


def load(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(paths):
    for path in paths:
        module = load(path)
        for name in list(vars(module)):  # a warning adds a name to it
            if name.startswith("case_"):
                yield "%s/%s" % (module.__name__, name[5:]), getattr(module, name)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def work(rank, workers, port, paths, out):
    """Runs one rank; writes a line for each case, up to the first that fails."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=workers)
    for name, case in cases(paths):
        started = time.monotonic()
        try:
            dist.all_reduce(torch.zeros(1))  # then no rank needs what the others have dropped
            gc.collect()
            torch.manual_seed(1)
            case(rank, workers)
            line = "ok %s (%.1f s)" % (name, time.monotonic() - started)
        except Skip as why:
            line = "skip %s: %s" % (name, why)
        except BaseException:
            line = "not ok %s\n    rank %d: %s" % (
                name, rank, traceback.format_exc().replace("\n", "\n    "))
        os.write(out, ("%s\0" % line).encode())
        if line.startswith("not ok"):
            return 1
    return 0


def start(rank, workers, port, paths):
    """Starts a rank: (process id, reading end of its pipe)."""
    reads, writes = os.pipe()
    child = os.fork()
    if child:
        os.close(writes)
        return child, reads
    os.close(reads)
    status = 1
    try:
        status = work(rank, workers, port, paths, writes)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # without waiting for gloo's threads


def collect(children, end):
    """The lines of every rank. Ranks that run 3 s after a failure, or at time `end`, are killed."""
    output = [b""] * len(children)
    alive = dict(enumerate(children))
    while alive and time.monotonic() < end:
        for rank, (child, reads) in list(alive.items()):
            os.set_blocking(reads, False)
            try:
                output[rank] += os.read(reads, 1 << 16)
            except BlockingIOError:
                pass
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                while True:
                    more = os.read(reads, 1 << 16)
                    if not more:
                        break
                    output[rank] += more
                del alive[rank]
                if status:
                    end = min(end, time.monotonic() + 3)
        time.sleep(0.02)
    for child, _ in alive.values():
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return [text.decode().split("\0")[:-1] for text in output]


def main():
    workers, paths = int(sys.argv[1]), sys.argv[2:]
    try:
        import torch
        import torch.distributed
    except ImportError:
        print("skip torch: not installed (Debian: python3-torch; make test-torch installs it)")
        return 77
    print("torch %s, Python %s" % (torch.__version__, sys.version.split()[0]))
    if importlib.util.find_spec("torch._dynamo"):
        import torch._dynamo  # DDP imports it, which takes each rank seconds
    sys.modules["crew"] = sys.modules["__main__"]  # so that a case's Skip is this Skip
    port, failed = free_port(), False
    names = [name for name, _ in cases(paths)]
    gc.freeze()  # collecting between cases need not look at torch
    children = [start(rank, workers, port, paths) for rank in range(workers)]
    output = collect(children, time.monotonic() + TIMEOUT)
    for index, name in enumerate(names):
        lines = [lines[index] for lines in output if len(lines) > index]
        bad = [line for line in lines if line.startswith("not ok")]
        good = len(lines) == workers and not bad
        print("\n".join(bad) if bad else lines[0] if good else
              "not ok %s: %d of %d ranks finished it" % (name, len(lines), workers))
        failed = failed or not good
        if failed:
            break
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
