"""Passes the version to setuptools and writes it into the built package. The version is read from
the project's CMakeLists.txt, or from PKG-INFO in a source distribution. All other settings are in
pyproject.toml."""

import os
import re

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = ((os.path.join(HERE, "PKG-INFO"), r"^Version: ([0-9.]+)$"),
          (os.path.join(HERE, "..", "CMakeLists.txt"), r"^project\(terse VERSION ([0-9.]+)"))


def read_version():
    for path, pattern in PLACES:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found = re.search(pattern, file.read(), re.M)
            if found:
                return found.group(1)
    raise SystemExit("terse: no version found in %s; install from a whole source tree"
                     % " or ".join(os.path.normpath(path) for path, _ in PLACES))


class Build(build_py):
    def run(self):
        super().run()
        if not getattr(self, "editable_mode", False):  # an editable install reads CMakeLists.txt
            path = os.path.join(self.build_lib, "terse", "_installed.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write('VERSION = "%s"\n' % read_version())


setup(version=read_version(), cmdclass={"build_py": Build})
