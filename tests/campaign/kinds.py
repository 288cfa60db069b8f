"""The faults of the campaign. Each function draws a case, disturbs it, and returns "right" (the
result of an undisturbed run) or "named" (an error that names its cause, and the right result after
going on), or raises Breach."""

import os
import signal
import subprocess
import time

from jobs import Breach, Case, LIMIT


def wait_for(seen, process, seconds=60):
    """Until seen() is true; 0 if the process has ended before."""
    limit = time.monotonic() + seconds
    while not seen():
        if process.poll() is not None or time.monotonic() > limit:
            return 0
        time.sleep(0.002)
    return 1


def send(case, process, number, rank=None):
    """A signal to a random rank, or to the given one; 0 if there is none."""
    ranks = case.rank_processes()
    if process.poll() is not None or not ranks:
        return 0
    rank = case.source.choice(sorted(ranks)) if rank is None else rank
    try:
        os.kill(ranks[rank], number)
    except (KeyError, ProcessLookupError):
        return 0
    return 1


def ended_or_killed(case, process):
    code, out, err = case.end(process)
    if code == 0:
        case.check_result(out)
    elif not case.mpi and code != -signal.SIGKILL:
        raise Breach("ended with %d: %s: %s" % (code, case, err))
    return code


def kill_at_any_time(place, source):
    case = Case(place, source)
    seconds = case.whole()[1] * (4 if case.mpi else 1.2)
    for _ in range(source.randint(1, 3)):
        process = case.begin(*case.how())
        time.sleep(source.uniform(0, seconds))
        send(case, process, signal.SIGKILL)
        ended_or_killed(case, process)
    case.finish(mpi=source.choice((case.mpi, None)))
    return "right"


def kill_at_a_call(place, source):
    case = Case(place, source)
    event = "%s:%d%s" % (source.choice(("write", "fsync", "rename", "unlink")),
                         source.randint(1, 6), source.choice(("", ":after")))
    process = case.begin(*case.how(), env={"LD_PRELOAD": place.preload, "KILL_AT": event})
    ended_or_killed(case, process)
    case.finish()
    return "right"


def stopped_rank(place, source):
    """The others name it after the timeout."""
    case = Case(place, source, ranks=True)
    if not case.mpi:
        return "skipped"
    case.steps = 2000
    process = case.begin(*case.how(), "--timeout", "4")
    wait_for(lambda: len(case.checkpoints()) > 0, process)
    rank = source.randrange(case.workers)
    stopped = send(case, process, signal.SIGSTOP, rank)
    code, out, err = case.end(process)
    if code == 0 and not stopped:
        case.check_result(out)
        return "right"
    case.check_error(code, err, r"rank %d: no message within the timeout of 4 s|MPI did not end"
                     % rank)
    case.finish(mpi=None)
    return "named"


def stopped_and_continued(place, source):
    """For less than the timeout."""
    case = Case(place, source)
    process = case.begin(*case.how(), "--timeout", "30")
    wait_for(lambda: case.rank_processes(), process)
    for _ in range(3):
        time.sleep(source.uniform(0, case.whole()[1]))
        rank = source.randrange(case.workers) if case.mpi else 0
        if send(case, process, signal.SIGSTOP, rank):
            time.sleep(source.uniform(0, 0.5))
            send(case, process, signal.SIGCONT, rank)
    code, out, err = case.end(process)
    case.check_right(code, out, err)
    return "right"


def file_limit(place, source):
    """No file may grow beyond a limit (ulimit -f), like a full quota. MPIs need files themselves."""
    case = Case(place, source, ranks=False)
    limit = int(10 ** source.uniform(1.5, 6))
    code, out, err = case.end(case.begin(*case.how(), limit=limit))
    case.check_right_or_error(code, out, err, r"[Ff]ile too large|rank \d+")
    case.finish()
    return "named" if code else "right"


def small_disk(place, size):
    """Mounts a disk of `size` kB in memory; returns its path, or None without the right to."""
    disk = os.path.join(place.folder, "disk")
    os.makedirs(disk, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk" % size, "terse-campaign", disk],
                          stderr=subprocess.DEVNULL, check=False)
    return disk if done.returncode == 0 else None


def full_disk(place, source):
    case = Case(place, source)
    disk = small_disk(place, source.randint(32, 500))
    if not disk:
        return "skipped"
    try:
        case.run = os.path.join(disk, "run")
        code, out, err = case.end(case.begin(*case.how()))
        case.check_right_or_error(code, out, err, r"[Nn]o space left|rank \d+")
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        case.finish()
    finally:
        subprocess.run(["umount", "-l", disk], check=False)
    return "named" if code else "right"


def slow_disk(place, source):
    """fsync takes longer than the timeout."""
    case = Case(place, source)
    case.every = source.choice((15, 40))
    code, out, err = case.end(case.begin(*case.how(), "--timeout", "1", env={
        "LD_PRELOAD": place.slow_fsync, "SLOW_FSYNC": "%.1f" % source.uniform(0.1, 2.5)}))
    case.check_right(code, out, err)
    return "right"


def lying_ranks(place, source):
    """One bit of one message is flipped: the sender is named, or the message had no consequence."""
    case = Case(place, source, ranks=True)
    if not case.mpi:
        return "skipped"
    rank = source.randrange(case.workers)
    lie = "%d:%d:%d" % (rank, int(10 ** source.uniform(0, 3)), source.randrange(1 << 20))
    code, out, err = case.end(case.begin(*case.how(), "--timeout", "5", env={
        "LD_PRELOAD": place.preload, "LIE_AT": lie}))
    if code == 0:
        if "preload: rank" in err:
            raise Breach("a flipped bit was not noticed: %s, %s" % (case, lie))
        case.check_result(out)
        return "right"
    case.check_error(code, err, r"terse: .*rank %d\b" % rank)
    case.finish(mpi=None)
    return "named"


def lying_threads(place, source):
    """Every method over an engine that lies, in steps without a trainer. A failure must repeat: lies
    are drawn from the seed, but the program's timeout of 2 s is short for a busy machine."""
    seed, first = source.randrange(1 << 31), source.randrange(100000)
    for _ in range(2):
        done = subprocess.run([place.lie_test, "--runs", "20", "--from", str(first)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
                              env=dict(os.environ, TERSE_TEST_SEED=str(seed)), check=False)
        if done.returncode == 0:
            return "named"
    raise Breach("TERSE_TEST_SEED=%d test-method-lie --from %d --runs 20: %s"
                 % (seed, first, done.stdout.decode()[-2000:]))


def damage(source, path):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    how = source.choice(("flip", "zero", "cut", "grow", "empty"))
    at = source.randrange(len(data) or 1)
    if how == "flip" and data:
        data[at] ^= 1 << source.randrange(8)
    elif how == "zero":
        data[at:at + 64] = bytes(len(data[at:at + 64]))
    elif how == "cut":
        del data[at:]
    elif how == "grow":
        data += bytes(source.randrange(256) for _ in range(source.randint(1, 100)))
    elif how == "empty":
        data.clear()
    with open(path, "wb") as file:
        file.write(data)


def damaged_files(place, source):
    """One checkpoint or other files are damaged: the run goes on from a sound checkpoint. With no
    sound one it is refused."""
    case = Case(place, source)
    process = case.begin(*case.how())
    wait_for(lambda: len(case.checkpoints()) > 0, process)
    send(case, process, signal.SIGUSR1)
    case.end(process)
    kept = case.checkpoints()
    names = os.listdir(case.run)
    hurt = source.sample(names, source.randint(1, min(3, len(names))))
    for name in hurt:
        damage(source, os.path.join(case.run, name))
    process = case.begin("--resume", case.run, "--checkpoint-every", str(case.every))
    code, out, err = case.end(process)
    if code == 0:
        case.check_result(out)
        return "right"
    case.check_error(code, err, r"terse: ")
    if not {"checkpoint-%d.terse" % step for step in kept} <= set(hurt) and "run.json" not in hurt:
        raise Breach("a sound checkpoint of %s is not used, damaged %s: %s: %s"
                     % (kept, hurt, case, err))
    return "named"


def clock_jumps(place, source):
    case = Case(place, source)
    code, out, err = case.end(case.begin(*case.how(), env={
        "LD_PRELOAD": place.preload, "CLOCK_JUMP": str(source.randrange(1 << 30))}))
    case.check_right(code, out, err)
    return "right"


def signals(place, source):
    """A signal ends the run after a checkpoint, with its exit code."""
    case = Case(place, source, ranks=False)
    number, wanted = source.choice(((signal.SIGTERM, 75), (signal.SIGINT, 130),
                                    (signal.SIGUSR1, 75), (signal.SIGHUP, 75)))
    process = case.begin(*case.how())
    wait_for(lambda: len(case.checkpoints()) > 0, process)
    time.sleep(source.uniform(0, case.whole()[1] / 2))
    send(case, process, number)
    code, out, err = case.end(process)
    if code not in (0, wanted):
        raise Breach("ended with %d, not %d: %s: %s" % (code, wanted, case, err))
    if code == 0:
        case.check_result(out)
    case.finish()
    return "right"


def launched(place, source):
    """`terse launch` goes on by itself. Ranks die behind a new checkpoint, or while MPI starts."""
    case = Case(place, source, ranks=True)
    if not case.mpi:
        return "skipped"
    case.every = source.choice((3, 7))
    case.steps = 400
    process = case.begin("--out", case.run, "--checkpoint-every", str(case.every), launch=(
        "--retries", "5"))
    for _ in range(source.randint(1, 3)):
        before = (case.checkpoints() or [0])[-1]
        if source.random() < 0.4 and wait_for(case.rank_processes, process):
            time.sleep(source.uniform(0, 0.4))
            send(case, process, signal.SIGKILL)
        elif wait_for(lambda least=before: case.checkpoints()[-1:] > [least], process):
            send(case, process, signal.SIGKILL)
        time.sleep(0.5)
    code, out, err = case.end(process)
    case.check_right(code, out, err)
    return "right"


KINDS = (kill_at_any_time, kill_at_a_call, stopped_rank, stopped_and_continued, file_limit,
         full_disk, slow_disk, lying_ranks, lying_threads, damaged_files, clock_jumps, signals,
         launched)
