"""Should this module's gradients be compressed? The command `terse plan`, for a module."""

import json
import os
import shutil
import subprocess
from typing import Any, Dict, Iterable, List, Optional, Union


def _command() -> str:
    found = os.environ.get("TERSE") or shutil.which("terse")
    if not found:
        raise FileNotFoundError("terse.torch.plan needs the command terse: build it with `make`, and put it into "
                                "PATH or name it in the environment variable TERSE")
    return found


def _shapes(module: Any) -> str:
    """The tensors that have a gradient, in the order of the module."""
    shapes = [tuple(p.shape) for p in module.parameters() if p.requires_grad and p.numel() > 0]
    if not shapes:
        raise ValueError("the module has no parameters that require a gradient: there is nothing to plan")
    return ",".join("x".join(str(n) for n in shape or (1,)) for shape in shapes)


def _with_unit(name: str, value: Union[str, float], unit: str) -> str:
    """Numbers are bits per second or seconds; strings have their own unit."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise ValueError("%s=%r: expected a number, or a string with a unit such as '1gbit' or '0.2ms'"
                         % (name, value))
    return "%.12g%s" % (value, unit) if value else "0"


def plan(module: Any, workers: int, link: Union[str, float], latency: Union[str, float] = 1e-4,
         step: Union[str, float] = 0, methods: Iterable[str] = (), overlap: bool = True,
         ranks_per_core: Optional[float] = None, timeout: Optional[float] = None) -> Dict[str, Any]:
    """Step time and bytes of every method for the parameters of `module`, before training.

    `link` is the rate of a worker's link ("1gbit", or bits per second), `latency` the time of the
    smallest message, `step` that of a forward and backward pass ("120ms", or seconds). With
    `overlap`, buckets travel during the backward pass, as the hook's do. Workers that share this
    machine are `ranks_per_core` of a core; by default each has a machine of its own. Returns {"rows": [...],
    "recommended": spec, "reason": text}; the rows are sorted by seconds, docs/plan.md has their keys.
    Raises ValueError with the command's text where it refuses."""
    words: List[str] = [_command(), "plan", "--json", "--shapes", _shapes(module),
                        "--workers", str(workers), "--link", _with_unit("link", link, "bit"),
                        "--latency", _with_unit("latency", latency, "s"),
                        "--step", _with_unit("step", step, "s"),
                        "--overlap", "on" if overlap else "off"]
    if ranks_per_core is not None:
        words += ["--ranks-per-core", "%g" % ranks_per_core]
    for method in methods:
        words += ["--method", method]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=timeout, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.decode(errors="replace").strip())
    result: Dict[str, Any] = json.loads(done.stdout)
    return result
