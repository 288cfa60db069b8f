"""The build backend of the Python package: scikit-build-core, with the C sources at hand.

The sources of libterse lie above the folder that pip builds, where a source distribution cannot
reach. So wheels and source distributions are built in a copy of this folder, with the C sources in
library/. In an unpacked source distribution library/ is there already. Nothing is written into the
source tree."""

import os
import shutil
import tempfile
from contextlib import contextmanager

from scikit_build_core import build as core

SOURCES = ("CMakeLists.txt", "cmake", "include", "src", "mpi")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc", "build", "dist", "*.egg-info")

get_requires_for_build_sdist = core.get_requires_for_build_sdist
get_requires_for_build_wheel = core.get_requires_for_build_wheel


def copy(source, target):
    if os.path.isdir(source):
        shutil.copytree(source, target, ignore=NOT_COPIED)
    else:
        shutil.copy2(source, target)


@contextmanager
def sources_at_hand():
    """Inside, the current folder is the package with library/ and LICENSE."""
    if os.path.isdir("library"):
        yield
        return
    here, root = os.getcwd(), os.path.dirname(os.getcwd())
    missing = [name for name in SOURCES if not os.path.exists(os.path.join(root, name))]
    if missing:
        raise SystemExit("terse: %s has no %s: build the package in its whole source tree, or from "
                         "a source distribution" % (root, ", ".join(missing)))
    with tempfile.TemporaryDirectory(prefix="terse-") as folder:
        staged = os.path.join(folder, "python")
        copy(here, staged)
        os.mkdir(os.path.join(staged, "library"))
        for name in SOURCES:
            copy(os.path.join(root, name), os.path.join(staged, "library", name))
        copy(os.path.join(root, "LICENSE"), os.path.join(staged, "LICENSE"))
        os.chdir(staged)
        try:
            yield
        finally:
            os.chdir(here)


def build_sdist(sdist_directory, config_settings=None):
    sdist_directory = os.path.abspath(sdist_directory)
    with sources_at_hand():
        return core.build_sdist(sdist_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel_directory = os.path.abspath(wheel_directory)
    with sources_at_hand():
        return core.build_wheel(wheel_directory, config_settings, metadata_directory)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    metadata_directory = os.path.abspath(metadata_directory)
    with sources_at_hand():
        return core.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
