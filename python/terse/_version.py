"""The version of this package. It is written once, in the project's CMakeLists.txt: an installed
package has a copy in _installed.py, the package in a source tree reads CMakeLists.txt."""

import functools
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))


@functools.lru_cache(maxsize=None)
def package_version() -> str:
    """ "MAJOR.MINOR.PATCH" """
    try:
        from ._installed import VERSION  # type: ignore[import]
        return VERSION
    except ImportError:
        pass
    lists = os.path.normpath(os.path.join(HERE, "..", "..", "CMakeLists.txt"))
    try:
        with open(lists, encoding="utf-8") as file:
            found = re.search(r"^project\(terse VERSION ([0-9.]+)", file.read(), re.M)
    except OSError:
        found = None
    if not found:
        raise ImportError("the Python package terse in %s has no version: it holds no "
                          "_installed.py, and %s has none. Install it with `make install` or pip, "
                          "or use it inside its source tree." % (HERE, lists))
    return found.group(1)


def compatible(version: str) -> str:
    """The part that must be equal in package and library: "MAJOR.MINOR"."""
    return ".".join(version.split(".")[:2])


def soname() -> str:
    """The name of the shared library of this version (TERSE_SOVERSION in CMakeLists.txt)."""
    version = package_version()
    return "libterse.so." + (compatible(version) if version.startswith("0.") else
                             version.split(".")[0])
