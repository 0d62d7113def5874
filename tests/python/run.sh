#!/bin/sh
# Runs the tests of this folder with the packages of requirements.txt, in the virtual environment $1. TORCH=1 adds PyTorch
# (3 GB), which some comparisons need. Exit status 77: the packages are not available, so the tests are skipped.
set -e
here=$(dirname "$0")
[ -x "$1/bin/python" ] || python3 -m venv "$1"
if ! cmp -s "$here/requirements.txt" "$1/tests"; then
    if ! "$1/bin/pip" install --quiet --disable-pip-version-check --retries 1 -r "$here/requirements.txt"; then
        echo "SKIP test-python: the packages of tests/python/requirements.txt are not available from PyPI"
        exit 77
    fi
    cp "$here/requirements.txt" "$1/tests"
fi
if [ -n "$TORCH" ] && ! "$1/bin/python" -c 'import torch' 2>/dev/null; then
    "$1/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements-torch.txt"
fi
exec "$1/bin/python" -W ignore -m unittest discover -s "$here"
