#!/bin/sh
# Walks through the page in chromium: run.sh [PATTERN]. Needs build/attentiond (or ATTENTIOND), Debian's chromium and chromium-driver,
# and the packages of requirements.txt in the virtual environment build/venv-browser (or VENV). Exit status 77: something of these is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${VENV:-$root/build/venv-browser}
ATTENTIOND=${ATTENTIOND:-$root/build/attentiond}
export ATTENTIOND
for program in chromium chromedriver; do
    if ! command -v "$program" > /dev/null; then
        echo "SKIP browser: $program is not installed (apt-get install chromium chromium-driver)"
        exit 77
    fi
done
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
if ! cmp -s "$here/requirements.txt" "$venv/browser"; then
    if ! "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 -r "$here/requirements.txt"; then
        echo "SKIP browser: the packages of tests/browser/requirements.txt cannot be installed from PyPI"
        exit 77
    fi
    cp "$here/requirements.txt" "$venv/browser"
fi
cd "$here"
exec "$venv/bin/python" -B main.py "$root/build/browser" "$@"
