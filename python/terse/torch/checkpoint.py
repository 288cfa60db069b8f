"""The states of all ranks in one folder, to load with any number of ranks."""

import os
import re
from typing import Any, Dict, List

import torch
import torch.distributed as dist

from . import _state

_FILE = "terse-%d-of-%d.pt"
_PATTERN = re.compile(r"terse-(\d+)-of-(\d+)\.pt$")


def save_all(folder: str, state: Any) -> None:
    """Writes one file per rank into `folder` (shared by all ranks, or collected before loading);
    collective. `state` is a State or an optimizer of terse.torch.optim. Each file is written
    atomically; files of another number of workers are removed after all ranks have written."""
    saved = state.state_dict()
    saved = saved.get("terse_state", saved)
    rank, workers = saved["rank"], saved["workers"]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, _FILE % (rank, workers))
    with open(path + ".new", "wb") as file:
        torch.save(saved, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
    dist.barrier(group=state._carrier)
    if rank == 0:
        for name in os.listdir(folder):
            found = _PATTERN.match(name)
            if found and int(found.group(2)) != workers:
                os.unlink(os.path.join(folder, name))
    dist.barrier(group=state._carrier)


def _read_all(folder: str) -> List[Dict[str, Any]]:
    names = {int(found.group(1)): (found.group(0), int(found.group(2)))
             for found in map(_PATTERN.match, sorted(os.listdir(folder))) if found}
    workers = {count for _, count in names.values()}
    if len(workers) != 1 or sorted(names) != list(range(next(iter(workers)))):
        raise ValueError("%s: expected one file of every rank, terse-RANK-of-WORKERS.pt; found %s"
                         % (folder, ", ".join(name for name, _ in names.values()) or "none"))
    return [torch.load(os.path.join(folder, names[rank][0])) for rank in sorted(names)]


def load_all(folder: str, state: Any) -> None:
    """Loads the files of save_all with any number of workers. With the same number the training
    resumes bit for bit. With another number every rank gets the mean of the residuals, so that what
    is outstanding does not change, and the means of the moments; hints (RegTop-k's last aggregate,
    DQ-SGD's budget) start anew. ValueError: files are missing, or spec or seed differ."""
    saved = _read_all(folder)
    if len(saved) == state.workers:
        state._load(saved[state.rank])
        return
    mine = dict(saved[0])
    mine.update(rank=state.rank, workers=state.workers)
    mine["parts"] = _state.regroup([each["parts"] for each in saved],
                                   state._mask_of(mine["tensors"]))
    state._load(mine)


__all__ = ["save_all", "load_all"]
