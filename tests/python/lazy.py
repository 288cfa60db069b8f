"""A State that is created before init_process_group, and sent to the ranks by pickle: lazy.py WORKERS

Trainers hold such a State while they start their processes. Each rank is a new process."""

import copy
import multiprocessing
import os
import pickle
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
if not os.environ.get("PYTHONPATH"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))

SPEC = "regtopk:keep=0.05"


def weights_with(state, rank, register):
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from support import flat, net, same_everywhere, train
    torch.manual_seed(1)
    ddp = DistributedDataParallel(net(), bucket_cap_mb=0.005)
    register(ddp, state)
    train(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), rank, range(5))
    same_everywhere(flat(ddp), "weights")
    return flat(ddp)


def joins_at_the_first_bucket(rank, states):
    import torch
    import terse.torch
    from support import raises
    first, second, third = states[0], states[1], terse.torch.State(SPEC, min=64, timeout=20)
    assert first._group is None and second._group is None and third._group is not None
    wanted = weights_with(third, rank, lambda ddp, state: state.attach(ddp))
    got = weights_with(first, rank,
                       lambda ddp, state: ddp.register_comm_hook(state, terse.torch.hook))
    assert torch.equal(got, wanted)
    assert torch.equal(weights_with(second, rank, lambda ddp, state: state.attach(ddp)), wanted)
    assert first.rank == rank and first.steps_done == 5
    raises(TypeError, lambda: pickle.dumps(first), "joined")
    names = {row["name"] for row in second.report()["parameters"]}
    assert "0.weight" in names, names
    for state in (first, second, third):
        state.close()


def joins_to_load(rank, states):
    """A state is loaded before the first step."""
    import terse.torch
    eager = terse.torch.State(SPEC, min=64, timeout=20)
    weights_with(eager, rank, lambda ddp, state: state.attach(ddp))
    saved = copy.deepcopy(eager.state_dict())
    states[2].load_state_dict(saved)
    assert states[2].state_dict()["tensors"] == saved["tensors"]
    for state in (eager, states[2]):
        state.close()


def names_the_rank_that_differs(rank, states, workers):
    import terse
    from support import raises
    state = states[3 + (rank == workers - 1)]
    raises(Exception, lambda: weights_with(state, rank, lambda ddp, each: each.attach(ddp)),
           "rank %d: different spec" % (workers - 1))
    why = raises(terse.MismatchError, state.check)
    assert why.rank == workers - 1
    state.close()


def work(rank, workers, port, states):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=workers)
    joins_at_the_first_bucket(rank, states)
    joins_to_load(rank, states)
    names_the_rank_that_differs(rank, states, workers)
    dist.barrier()
    dist.destroy_process_group()


def main():
    workers = int(sys.argv[1])
    try:
        import torch
        import torch.multiprocessing
    except ImportError:
        print("skip torch: not installed (Debian: python3-torch; make test-torch installs it)")
        return 77
    import terse.torch
    from crew import free_port
    from support import raises
    print("torch %s, Python %s" % (torch.__version__, sys.version.split()[0]))
    raises(ValueError, lambda: terse.torch.State("regtopk:keeep=1"), "did you mean 'keep'")
    print("ok a spec is checked before init_process_group")
    specs = [SPEC] * 3 + ["topk:keep=0.01", "topk:keep=0.02"]
    states = [terse.torch.State(spec, min=64, timeout=20) for spec in specs]
    raises(RuntimeError, lambda: states[0].rank, "init_process_group")
    assert states[0].report()["steps"] == 0 and states[0].steps_done == 0 and not states[0].votes
    copied = pickle.loads(pickle.dumps(states[0]))
    assert copied.spec == states[0].spec and copied is not states[0]
    print("ok it can be asked and pickled before")
    # A server that has imported torch forks the ranks: each would take seconds to do so.
    multiprocessing.set_forkserver_preload(["torch.distributed", "torch._dynamo"])
    torch.multiprocessing.start_processes(work, (workers, free_port(), states), nprocs=workers,
                                          start_method="forkserver")
    print("ok it joins at the first bucket, with the weights of one that joined at once")
    print("ok it joins when a state is loaded")
    print("ok a rank that differs is named in the first backward")
    return 0


if __name__ == "__main__":
    sys.exit(main())
