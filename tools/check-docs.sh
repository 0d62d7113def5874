#!/bin/sh
# Checks the documents against the program: the tables of settings, and every example of the README that shows a prompt
# ("$ command" in a console block, its output below; the daemon's port and the last digits of numbers aside).
# usage: check-docs.sh PROGRAM       needs: curl, awk
set -eu
cd "$(dirname "$0")/.."
program=$(realpath "$1")
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; rm -rf "$work"' EXIT INT TERM
bad=0

contains() { # contains DOCUMENT FORM
    "$program" --help="$2" >"$work/table"
    while IFS= read -r line; do
        if ! grep -qxF -e "$line" "$1"; then
            echo "check-docs: $1 lacks: $line"
            bad=1
        fi
    done <"$work/table"
}
contains docs/operating.md markdown
contains docs/attentiond.1 man

: >"$work/ready"
"$program" --port 0 >>"$work/ready" 2>"$work/log" &
daemon=$!
i=0
until grep -q '^listening on ' "$work/ready"; do
    i=$((i + 1))
    if [ "$i" -gt 100 ]; then
        cat "$work/log"
        exit 1
    fi
    sleep 0.1
done
url=$(sed 's/^listening on //' "$work/ready")

# "N.command" and "N.expected" for each example, and "python" for the block of that language
awk -v work="$work" '
    /^```console$/ { inside = 1; next }
    /^```python$/ { python = 1; next }
    /^```$/ { inside = python = here = 0; next }
    python { print > (work "/python") }
    inside && /^\$ / && !here { n++; print substr($0, 3) > (work "/" n ".command"); printf "" > (work "/" n ".expected")
                                if ($0 ~ /<<.END.$/) here = 1; next }
    inside && here { print > (work "/" n ".command"); if ($0 == "END") here = 0; next }
    inside { print > (work "/" n ".expected") }
' README.md

plain() { sed -E 's/([0-9]\.[0-9]{5})[0-9]+/\1/g'; echo; } # five decimals: the last digits differ between CPUs
ln -s "$program" "$work/attentiond"
n=0
while n=$((n + 1)) && [ -e "$work/$n.command" ]; do
    sed -i "s|http://127.0.0.1:8080|$url|g; s|build/attentiond|./attentiond|g" "$work/$n.command"
    (cd "$work" && sh "./$n.command") 2>&1 | plain | sed '/^$/d' >"$work/got"
    plain <"$work/$n.expected" | sed '/^$/d' >"$work/want"
    if ! cmp -s "$work/got" "$work/want"; then
        echo "check-docs: README example $n:"
        cat "$work/$n.command"
        diff "$work/want" "$work/got" || bad=1
    fi
done
echo "$((n - 1)) examples of README.md"
[ "$n" -gt 5 ] || bad=1
if command -v python3 >/dev/null; then
    sed "s|http://127.0.0.1:8080|$url|g" "$work/python" >"$work/python.here"
    python3 "$work/python.here" | grep -q '^\[\[0\.6404' || { echo "check-docs: the Python example"; bad=1; }
fi
exit "$bad"
