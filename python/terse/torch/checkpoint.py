"""The states of all ranks as sets of files in one folder, to load with any number of ranks.

A set is one file per worker (a rank, or a node of ranks) and a set file that names them with their
lengths and checksums:

    terse-STEP-RANK-of-WORKERS.ID.pt    written by every worker; ID is new in every save
    terse-STEP-extra.ID.pt              what the caller adds; written by rank 0
    terse-STEP.json                     the set file; rank 0 writes it last, atomically

New files are written beside the old ones, and nothing refers to them until the set file appears. A
save that is interrupted at any point therefore leaves the previous sets as they were."""

import json
import os
import pickle
import re
import uuid
import warnings
import zlib
from types import SimpleNamespace
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

import torch
import torch.distributed as dist

_SET = re.compile(r"terse-(\d+)\.json$")
_FILE = re.compile(r"terse-\d+-(?:(\d+)-of-\d+|extra)\.([0-9a-f]{8})\.pt$")
_NEW = ".new"  # ends the name of a set file until it is whole
_PIECE = 1 << 20  # bytes that are read at a time


class Loaded(NamedTuple):
    """What load_all has loaded."""
    step: int
    extra: Any  # what save_all was given on rank 0


class _File(NamedTuple):
    name: str
    size: int
    crc32: int


class _Saved(NamedTuple):
    """The contents of a set file."""
    step: int
    id: str
    files: List[_File]  # by worker
    extra: Optional[_File]


# ---- files ----

class _Summed:
    """A file being written, with the length and checksum of what was written. torch.save aborts the
    process if a write raises (a full disk), so the first failure is kept until `close`."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=0)
        self._problem: Optional[OSError] = None
        self.size, self.crc32 = 0, 0

    def write(self, data: Any) -> int:
        self.size += len(data)
        self.crc32 = zlib.crc32(data, self.crc32)
        rest = memoryview(data)
        try:
            while self._problem is None and len(rest) > 0:
                rest = rest[self._file.write(rest):]
        except OSError as error:
            self._problem = error
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        """Everything is on the disk, or OSError."""
        with self._file:
            if self._problem is not None:
                raise self._problem
            os.fsync(self._file.fileno())


def _sync_folder(folder: str) -> None:
    """New names are on the disk only once their folder is synced."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(folder: str, name: str, value: Any) -> _File:
    file: Any = _Summed(os.path.join(folder, name))
    try:
        torch.save(value, file)
    finally:
        file.close()
    _sync_folder(folder)
    return _File(name, file.size, file.crc32)


def _write_set(folder: str, saved: _Saved) -> None:
    path = os.path.join(folder, "terse-%d.json" % saved.step)
    with open(path + _NEW, "w", encoding="ascii") as file:
        json.dump({"terse": 1, **saved._asdict()}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + _NEW, path)
    _sync_folder(folder)


def _read_set(folder: str, name: str) -> Optional[_Saved]:
    """None: not a set file."""
    try:
        with open(os.path.join(folder, name), encoding="ascii") as file:
            found = json.load(file)
        files = [_File(*each) for each in found["files"]]
        extra = _File(*found["extra"]) if found["extra"] else None
        names = [each.name for each in files + ([extra] if extra else [])]
        if found["terse"] != 1 or not files or not all(_FILE.match(name) for name in names):
            return None
        return _Saved(int(found["step"]), str(found["id"]), files, extra)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sets(folder: str) -> List[_Saved]:
    """The sets of a folder, the largest step first; none if there is no folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = (_read_set(folder, name) for name in names if _SET.match(name))
    return sorted((each for each in found if each is not None), reverse=True)


def _all_files(saved: _Saved) -> List[_File]:
    return saved.files + ([saved.extra] if saved.extra else [])


def _lacks(folder: str, file: _File, contents: bool) -> Optional[str]:
    """What is wrong with a file of a set; None: nothing. Without `contents` only its length is
    compared."""
    path = os.path.join(folder, file.name)
    try:
        size = os.path.getsize(path)
        if size != file.size:
            return "%s has %d bytes, not %d" % (file.name, size, file.size)
        crc32 = file.crc32
        if contents:
            with open(path, "rb") as opened:
                crc32 = 0
                for piece in iter(lambda: opened.read(_PIECE), b""):
                    crc32 = zlib.crc32(piece, crc32)
        return None if crc32 == file.crc32 else "%s is damaged" % file.name
    except OSError as error:
        return "%s: %s" % (file.name, error.strerror)


def _is_whole(folder: str, saved: _Saved) -> bool:
    return not any(_lacks(folder, file, contents=False) for file in _all_files(saved))


def _remove(folder: str, name: str) -> None:
    """A file that cannot be removed stays; the next save tries again."""
    try:
        os.unlink(os.path.join(folder, name))
    except OSError:
        pass


def _drop_sets(folder: str, written: _Saved, keep: int) -> Set[str]:
    """Removes the set files of sets that are older than the newest `keep` whole ones up to the one
    just written. The IDs of the sets that remain."""
    kept, whole = {written.id}, 1
    for saved in _sets(folder):
        if saved.step < written.step and whole >= keep:
            _remove(folder, "terse-%d.json" % saved.step)
            continue
        kept.add(saved.id)
        whole += saved.step < written.step and _is_whole(folder, saved)
    return kept


def _drop_files(folder: str, worker: int, kept: Set[str]) -> None:
    """Removes files that no set names: this worker's, and on worker 0 all, since the folder may be
    shared and the number of ranks may have changed. Set files that were cut off go too."""
    for name in os.listdir(folder):
        found = _FILE.match(name)
        if found and worker in (0, int(found.group(1) or 0)):
            if found.group(2) not in kept:
                _remove(folder, name)
        elif worker == 0 and name.endswith(_NEW) and _SET.match(name[:-len(_NEW)]):
            _remove(folder, name)


# ---- saving ----

def _gather(state: Any, value: Any) -> List[Any]:
    """The values of all ranks."""
    out: List[Any] = [None] * state.workers
    if state._carrier is None:  # torch.distributed would take all ranks
        raise RuntimeError("save_all and load_all need the group that this rank has left, by close() "
                           "or after a failure")
    dist.all_gather_object(out, value, group=state._carrier)
    return out


def _agree(state: Any, problem: Optional[str], undo: List[Tuple[str, str]]) -> None:
    """Raises OSError on all ranks if one has a problem; this rank's new files are removed then."""
    problems = _gather(state, problem)
    for rank, text in enumerate(problems):
        if text is not None:
            for folder, name in undo:
                _remove(folder, name)
            raise OSError("save_all: rank %d: %s; the sets saved before are unchanged"
                          % (rank, text))


def _same_step(state: Any, step: int) -> str:
    """The ID of this save, the same on all ranks. ValueError: ranks are at different steps."""
    told = _gather(state, (step, uuid.uuid4().hex[:8]))
    for rank, (other, _) in enumerate(told):
        if other != told[0][0]:
            raise ValueError("save_all: rank %d is at step %d, rank 0 at step %d; save between "
                             "the same steps on all ranks" % (rank, other, told[0][0]))
    return str(told[0][1])


def _step_of(state: Any, saved: Dict[str, Any]) -> int:
    if "step" in saved:  # loaded, and no step since
        return int(saved["step"])
    return int(state.steps_done)


def save_all(folder: str, state: Any, extra: Any = None, *, step: Optional[int] = None,
             keep: int = 2) -> None:
    """Saves the state of every rank as one set of files in `folder` (shared by all ranks, or
    collected before loading); collective. `state` is a State, an optimizer of terse.torch.optim or
    LocalSteps. `extra` of rank 0 is saved in the set: tensors, numbers, texts, and dicts and lists
    of them, such as the state_dict of a model. `step` names the set; by default it is the number of
    steps done. The newest `keep` whole sets up to this step remain.

    The set appears as a whole once all ranks have written; until then the older ones are
    untouched. OSError on all ranks: a rank could not write."""
    if keep < 1:
        raise ValueError("save_all: keep=%d; at least one set is kept" % keep)
    saved = state.state_dict()
    saved = dict(saved.get("terse_state", saved))
    worker, workers = saved["rank"], saved["workers"]
    leads = state._group.leads  # all ranks of a node have the same state: one of them writes it
    saved["step"] = _step_of(state, saved) if step is None else int(step)
    new = _same_step(state, saved["step"])
    names = ["terse-%d-%d-of-%d.%s.pt" % (saved["step"], worker, workers, new)] if leads else []
    if state.rank == 0 and extra is not None:
        names.append("terse-%d-extra.%s.pt" % (saved["step"], new))
    undo = [(folder, name) for name in names]
    files, problem = [], None
    try:
        os.makedirs(folder, exist_ok=True)
        files = [_write(folder, name, value) for name, value in zip(names, (saved, extra))]
    except OSError as error:
        problem = str(error)
    _agree(state, problem, undo)
    written = _gather(state, files)
    kept: Set[str] = set()
    if state.rank == 0:
        try:
            whole = _Saved(saved["step"], new, [_File(*each[0]) for each in written if each],
                           files[1] if len(files) > 1 else None)
            _write_set(folder, whole)
            kept = _drop_sets(folder, whole, keep)
        except OSError as error:
            problem = str(error)
    _agree(state, problem, undo)
    kept = _gather(state, kept)[0]
    if leads:
        _drop_files(folder, worker, kept)
    dist.barrier(group=state._carrier)


# ---- loading ----

def latest_step(folder: str) -> Optional[int]:
    """The step of the newest whole set of `folder`, by the lengths of its files; None: there is
    none, or no folder. Not collective."""
    return next((saved.step for saved in _sets(folder) if _is_whole(folder, saved)), None)


def _choose(folder: str, state: Any, step: Optional[int]) -> Tuple[Optional[_Saved], str]:
    """The newest set whose files are all sound, the same on all ranks, or None; and what is wrong
    with those that were passed over. Every rank reads its share of the files."""
    problems: List[str] = []
    for saved in _gather(state, [s for s in _sets(folder) if step in (None, s.step)])[0]:
        mine = (_lacks(folder, file, contents=True)
                for file in _all_files(saved)[state.rank::state.workers])
        found = [text for text in _gather(state, next(filter(None, mine), None)) if text]
        if not found:
            return saved, "; ".join(problems)
        problems.append("step %d: %s" % (saved.step, found[0]))
    return None, "; ".join(problems)


class _PlainValues(pickle.Unpickler):
    """Tensors and plain values only, for PyTorch 1.13: its weights_only does not know floats."""

    def find_class(self, module: str, name: str) -> Any:
        allowed: Dict[str, Any] = torch._weights_only_unpickler._get_allowed_globals()
        if "%s.%s" % (module, name) not in allowed:
            raise pickle.UnpicklingError("%s.%s is neither a tensor nor a plain value"
                                         % (module, name))
        return allowed["%s.%s" % (module, name)]


def _read(folder: str, file: _File) -> Any:
    """Tensors and plain values only: a file cannot make the reader run code."""
    path = os.path.join(folder, file.name)
    if not torch.__version__.startswith("1."):
        return torch.load(path, map_location="cpu", weights_only=True)
    inside: Any = torch.serialization  # torch.load of 1.13 ignores its pickle_module
    with open(path, "rb") as opened, inside._open_zipfile_reader(opened) as reader:
        return inside._load(reader, "cpu", SimpleNamespace(Unpickler=_PlainValues),
                            encoding="utf-8")


def load_all(folder: str, state: Any, *, step: Optional[int] = None,
             missing_ok: bool = False) -> Optional[Loaded]:
    """Loads the newest whole set of save_all (or that of `step`) with any number of workers;
    collective. Sets that are incomplete or damaged are passed over with a warning. Returns the
    step and the extra of the set; with missing_ok=True, None if there is no whole set: a script
    that is started again by its launcher needs no other test.

    With the same number of workers the training resumes bit for bit. With another number every
    rank gets the mean of the residuals, so that what is outstanding does not change, and the means
    of the moments, weighted where the ranks that saved had a worker_weight; hints (RegTop-k's last
    aggregate, DQ-SGD's budget) start anew. ValueError: there is no whole set, or spec or seed
    differ."""
    chosen, problems = _choose(folder, state, step)
    if problems and state.rank == 0:
        warnings.warn("load_all: %s: passed over %s" % (folder, problems), stacklevel=2)
    if chosen is None and missing_ok:
        return None
    if chosen is None:
        raise ValueError("load_all: %s has no whole set%s (terse-STEP.json and a file of every "
                         "rank): %s" % (folder, "" if step is None else " of step %d" % step,
                                        problems or "no set was saved"))
    loaded = Loaded(chosen.step, _read(folder, chosen.extra) if chosen.extra else None)
    if len(chosen.files) == state._group.workers:
        state._load(_read(folder, chosen.files[state._group.rank]))
        return loaded
    state._load(state._regrouped([_read(folder, file) for file in chosen.files]))
    return loaded


__all__ = ["Loaded", "latest_step", "load_all", "save_all"]
