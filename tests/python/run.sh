#!/bin/sh
# Runs the tests of this folder with the packages of requirements.txt, in the virtual environment $1, and those of
# mlserver_client in one below it: MLServer and KServe need different versions of the same packages. TORCH=1 adds
# PyTorch (3 GB), which some comparisons need. Exit status 77: packages are not available, so their tests are skipped.
set -e
here=$(dirname "$0")

prepare() { # prepare VENV REQUIREMENTS: 0 if the packages are there
    [ -x "$1/bin/python" ] || python3 -m venv "$1"
    if ! cmp -s "$here/$2" "$1/tests"; then
        if ! "$1/bin/pip" install --quiet --disable-pip-version-check --retries 1 -r "$here/$2"; then
            echo "SKIP test-python: the packages of tests/python/$2 are not available from PyPI"
            return 1
        fi
        cp "$here/$2" "$1/tests"
    fi
}

status=0
if prepare "$1" requirements.txt; then
    if [ -n "$TORCH" ] && ! "$1/bin/python" -c 'import torch' 2>/dev/null; then
        "$1/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements-torch.txt"
    fi
    "$1/bin/python" -W ignore -m unittest discover -s "$here"
else
    status=77
fi
if prepare "$1/mlserver" requirements-mlserver.txt; then
    "$1/mlserver/bin/python" -W ignore -m unittest discover -s "$here/mlserver_client"
else
    status=77
fi
exit $status
