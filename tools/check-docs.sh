#!/bin/sh
# Checks the documents: line length, links, the tables of settings against the program, and each example:
#   ```console   "$ command" (a trailing backslash, quotes and heredocs may span lines), then the output
#   ```python    runs with python3 alone; a line "print(...)  # TEXT" prints TEXT
# Numbers are compared to five decimals, because the last digits differ between CPUs. Port 8080 stands for the port of
# the daemon started here. The examples of a document run in order, in one directory. Blocks marked ```py need packages
# from PyPI: tests/python/test_examples.py runs them.
# usage: check-docs.sh PROGRAM       needs: curl, awk, and python3 for the Python examples
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

start_daemon() { # sets url
    : >"$work/ready"
    "$program" --port 0 >>"$work/ready" 2>"$work/log" &
    daemon=$!
    tries=0
    until grep -q '^listening on ' "$work/ready"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ]; then
            cat "$work/log"
            exit 1
        fi
        sleep 0.1
    done
    url=$(sed -n 's/^listening on //p' "$work/ready")
}

# split DOCUMENT FOLDER: N.console or N.python and N.expected for each example, numbered in the order of the document
split() {
    mkdir -p "$2"
    awk -v to="$2/" -v quote="'" '
        function open_example(kind) { name = to (++n); command = name "." kind; printf "" > (name ".expected") }
        function quotes(line) { return gsub(quote, "", line) }
        /^```console$/ { console = 1; next }
        /^```python$/ { python = 1; open_example("python"); next }
        /^```$/ { console = python = unfinished = continued = heredoc = 0; next }
        python {
            print > command
            if (match($0, /print\(.*\)  # /)) print substr($0, RSTART + RLENGTH) > (name ".expected")
            next
        }
        console && !continued && !unfinished && !heredoc && /^\$ / { open_example("console"); sub(/^\$ /, ""); first = 1 }
        console && (first || continued || unfinished || heredoc) {
            print > command
            if (heredoc) { if ($0 == "END") heredoc = 0; next }
            first = 0
            if (quotes($0) % 2) unfinished = !unfinished
            if (!unfinished && /<<.END.$/) heredoc = 1
            continued = /\\$/
            next
        }
        console { print > (name ".expected") }
    ' "$1"
}

plain() { # the last digits of numbers and the blank lines are left out
    sed -E 's/([0-9]\.[0-9]{5})[0-9]+/\1/g; $a\' | sed '/^$/d'
}

examples() { # examples DOCUMENT LEAST-NUMBER
    folder=$work/$(basename "$1" .md)
    split "$1" "$folder"
    mkdir -p "$folder/build"
    ln -s "$program" "$folder/build/attentiond"
    n=0 ran=0
    while n=$((n + 1)) && [ -e "$folder/$n.expected" ]; do
        if [ -e "$folder/$n.python" ]; then
            command -v python3 >/dev/null || continue
            command=$folder/$n.python with=python3
        else
            command=$folder/$n.console with=sh
        fi
        sed -i "s|http://127.0.0.1:8080|$url|g" "$command"
        (cd "$folder" && "$with" "$command") 2>&1 | sed "s|$url|http://127.0.0.1:8080|g" | plain >"$folder/got"
        plain <"$folder/$n.expected" >"$folder/want"
        if ! cmp -s "$folder/got" "$folder/want"; then
            echo "check-docs: example $n of $1:"
            cat "$command"
            diff "$folder/want" "$folder/got" || bad=1
        fi
        ran=$((ran + 1))
    done
    echo "$ran examples of $1"
    if [ "$ran" -lt "$2" ]; then
        echo "check-docs: at least $2 examples of $1 were expected"
        bad=1
    fi
}

long_lines() { # long_lines DOCUMENT: prose wraps at 100 columns; tables, code and pictures need not
    awk '/^```/ { code = !code } { print code || /^\|/ || /^    / || /^!/ ? "" : $0 }' "$1" |
        LC_ALL=C.UTF-8 grep -nE '^.{101,}' | sed "s|^|check-docs: over 100 columns: $1:|" | grep . && bad=1
    return 0
}

anchors() { # the anchors of a document's headings
    sed -n 's/^##* //p' "$1" | tr 'A-Z ' 'a-z-' | sed 's/[^a-z0-9_-]//g'
}

links() { # links DOCUMENT: each file and heading that it links to exists
    grep -oE '\]\([^)]*\)' "$1" | sed 's/^](//; s/)$//' | grep -v '^http' >"$work/links" || true
    while IFS= read -r link; do
        case $link in
        '#'*) file=$1 ;;
        *) file=$(dirname "$1")/${link%%#*} ;;
        esac
        case $link in *'#'*) anchor=${link#*#} ;; *) anchor= ;; esac
        if [ ! -e "$file" ] || { [ -n "$anchor" ] && ! anchors "$file" | grep -qx -e "$anchor"; }; then
            echo "check-docs: $1 links to $link, which is missing"
            bad=1
        fi
    done <"$work/links"
}

for document in README.md CONTRIBUTING.md CHANGELOG.md docs/*.md; do
    long_lines "$document"
    links "$document"
done
contains docs/operating.md markdown
contains docs/attentiond.1 man
start_daemon
examples README.md 6
examples docs/api.md 18
examples docs/cookbook.md 0
exit "$bad"
