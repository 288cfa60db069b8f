#!/bin/sh
# Runs a test with the Python that TERSE_TEST_PYTHON names, else with the one given.
#   with_python.sh PYTHON argument...
python="$1"
shift
exec "${TERSE_TEST_PYTHON:-$python}" "$@"
