"""Kills a rank at every point of a save and loads what is left, in real gloo processes.

The set of step 6 is whole; the save at step 10 is cut off. What is loaded must be of one step, go on
as an undisturbed training does, and load with another number of ranks too."""

import os
import shutil
import signal
import sys
import tempfile
import time
import warnings

import crew

SPEC = "topk:keep=0.05"
TIMEOUT = 60  # seconds for one group of processes


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_in(module, name, half=False):
    """The next call of a function ends this process; `half`: after a part of a file."""
    original = getattr(module, name)

    def call(value, file, *_more):
        if half:
            file.write(b"PK\x03\x04 and no more")
            file.flush()
        kill()

    setattr(module, name, call if half else lambda *_words: kill())
    return original


def points(torch):
    """(name, rank that dies, what arms the death, the step that must be there afterwards)"""
    return (("before its file", 1, lambda: kill_in(torch, "save"), 6),
            ("within its file", 1, lambda: kill_in(torch, "save", half=True), 6),
            ("before its file", 0, lambda: kill_in(torch, "save"), 6),
            ("before the switch", 0, lambda: kill_in(os, "replace"), 6),
            ("before the old set goes", 0, lambda: kill_in(os, "unlink"), 10))


def train(torch, terse, rank, model, state, first, last):
    from torch.nn.parallel import DistributedDataParallel
    del terse
    ddp = DistributedDataParallel(model)
    from terse.torch import hook
    ddp.register_comm_hook(state, hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(first, last):
        torch.manual_seed(1000 * step + rank)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(ddp(torch.randn(8, 16)),
                                                 torch.randint(0, 4, (8,)))
        loss.backward()
        optimizer.step()


def begin(rank, workers, port):
    import torch
    import torch.distributed as dist
    import terse.torch
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=workers)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return torch, terse, model, terse.torch.State(SPEC, module=model, timeout=5, min=1)


def save_and_die(rank, workers, port, folder, point):
    torch, terse, model, state = begin(rank, workers, port)
    train(torch, terse, rank, model, state, 0, 6)
    terse.torch.save_all(folder, state, model.state_dict(), keep=1)
    train(torch, terse, rank, model, state, 6, 10)
    _, victim, arm, _ = points(torch)[point]
    if rank == victim:
        arm()
    terse.torch.save_all(folder, state, model.state_dict(), keep=1)


def load(rank, workers, port, folder, step, wanted):
    """Goes on to step 14; `wanted` are the weights there, or None with other ranks."""
    torch, terse, model, state = begin(rank, workers, port)
    assert terse.torch.latest_step(folder) == step, terse.torch.latest_step(folder)
    loaded = terse.torch.load_all(folder, state)
    assert loaded.step == step, loaded.step
    model.load_state_dict(loaded.extra)
    train(torch, terse, rank, model, state, step, 14)
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert state.steps_done == 14
    if wanted:
        assert weights.numpy().tobytes().hex() == wanted, "other weights than undisturbed"
    terse.torch.save_all(folder, state, keep=1)
    names = sorted(os.listdir(folder))
    assert len(names) == workers + 1 and "terse-14.json" in names, names


def undisturbed(rank, workers, port, path):
    torch, terse, model, state = begin(rank, workers, port)
    train(torch, terse, rank, model, state, 0, 14)
    if rank == 0:
        with open(path, "w", encoding="ascii") as file:
            file.write(torch.cat([p.detach().flatten() for p in model.parameters()])
                       .numpy().tobytes().hex())


def group(workers, function, *words, dies=None):
    """Runs a function in every rank; all must end well, or `dies` by SIGKILL and the others then
    too."""
    port = crew.free_port()
    children = {}
    for rank in range(workers):
        child = os.fork()
        if not child:
            status = 1
            try:
                warnings.simplefilter("error")
                function(rank, workers, port, *words)
                status = 0
            except BaseException:
                if dies is None:
                    import traceback
                    traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        children[child] = rank
    end, bad, killed = time.monotonic() + TIMEOUT, [], False
    while children:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if not ended:
            time.sleep(0.02)
            if time.monotonic() > end:
                for child in children:
                    os.kill(child, signal.SIGKILL)
                raise SystemExit("not ok: nothing happened for %d s" % TIMEOUT)
            continue
        rank = children.pop(ended)
        if rank == dies:
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            for child in children:
                os.kill(child, signal.SIGKILL)
        elif status and dies is None:
            bad.append(rank)
            end = min(end, time.monotonic() + 3)
    assert not bad, "ranks %s failed" % bad
    assert dies is None or killed, "rank %d did not die" % dies


def main():
    try:
        import torch
        import torch.distributed
        from torch.nn.parallel import DistributedDataParallel  # imported once, before the forks
        del DistributedDataParallel
    except ImportError:
        print("skip torch: not installed (Debian: python3-torch; make test-torch installs it)")
        return 77
    base = tempfile.mkdtemp(prefix="terse-torn-")
    try:
        group(2, undisturbed, base + "/wanted")
        with open(base + "/wanted", encoding="ascii") as file:
            wanted = file.read()
        for point, (name, victim, _, step) in enumerate(points(torch)):
            folder = base + "/set%d" % point
            group(2, save_and_die, folder, point, dies=victim)
            left = sorted(os.listdir(folder))
            shutil.copytree(folder, folder + "b")
            group(2, load, folder, step, wanted)
            group(3, load, folder + "b", step, None)
            print("ok rank %d killed %s: step %d of %s" % (victim, name, step, left))
    finally:
        shutil.rmtree(base)
    return 0


if __name__ == "__main__":
    sys.exit(main())
