#!/usr/bin/env bash
# Runs every example whose language is installed against a daemon on a free port, and compares what it prints with
# expected.txt. Prints PASS, FAIL or SKIP for each, then the totals. Exit status 1 if an example failed.
#
# usage: run.sh [NAME ...]    examples by file name; default all. ATTENTIOND is the program, default build/attentiond;
#                             PYTHON the interpreter, default that of build/venv if it is there, else python3.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
examples=$root/examples
python=${PYTHON:-$root/build/venv/bin/python}
command -v "$python" >/dev/null || python=python3
work=$(mktemp -d)
wanted=" $* "
passed=0 failed=0 skipped=0
export PYTHONPATH=$root/clients/python/src PYTHONDONTWRITEBYTECODE=1
export GOCACHE=$work/go GO111MODULE=off R_LIBS_USER=${R_LIBS_USER-}

"${ATTENTIOND:-$root/build/attentiond}" --port 0 >"$work/ready" 2>"$work/daemon" &
daemon=$!
stop() {
    kill "$daemon" 2>/dev/null
    wait "$daemon" 2>/dev/null
    rm -rf "$work"
}
trap stop EXIT
until grep -qs '^listening on ' "$work/ready"; do
    if ! kill -0 "$daemon" 2>/dev/null; then
        cat "$work/daemon"
        echo "FAIL the daemon does not start"
        exit 1
    fi
    sleep 0.1
done
ATTENTIOND_URL=$(sed -n 's|^listening on \(.*[^/]\)/*$|\1|p' "$work/ready")

compare() { # compare HOW FILE COMMAND...: HOW the address was given
    local how=$1 file=$2 expected=expected.txt
    shift 2
    [ "$file" != curl.sh ] || expected=expected_curl.txt
    # the last digits of full decimals differ between CPUs
    if timeout 120 "$@" >"$work/out" 2>"$work/err" &&
        sed -E 's/(\.[0-9]{6})[0-9]+/\1/g' "$work/out" | diff "$here/$expected" - >"$work/diff"; then
        return 0
    fi
    failed=$((failed + 1))
    echo "FAIL $file ($how)"
    cat "$work/err" "$work/diff" 2>/dev/null | head -n 20
    return 1
}

# Every example takes the address from the environment and, before that, from its argument.
example() { # example FILE 'PROBE' 'BUILD' COMMAND...: the probe succeeds if the language is here
    local file=$1 probe=$2 build=$3
    shift 3
    if [ "$wanted" != "  " ] && [[ $wanted != *" $file "* ]]; then return; fi
    if ! reason=$(bash -c "$probe" 2>&1 >/dev/null); then
        skipped=$((skipped + 1))
        echo "SKIP $file: ${reason##*$'\n'}"
        return
    fi
    if ! (cd "$work" && eval "$build") >"$work/build" 2>&1; then
        failed=$((failed + 1))
        echo "FAIL $file (build)"
        tail -n 20 "$work/build"
        return
    fi
    ATTENTIOND_URL=$ATTENTIOND_URL compare environment "$file" "$@" &&
        ATTENTIOND_URL=http://127.0.0.1:1 compare argument "$file" "$@" "$ATTENTIOND_URL" || return
    passed=$((passed + 1))
    echo "PASS $file"
}

has() { # has PROGRAM...: a probe
    printf 'command -v %s >/dev/null || { echo %s is not installed >&2; exit 1; }\n' $(for p; do echo "$p" "$p"; done)
}

cd "$examples" || exit 1
example curl.sh "$(has curl)" : sh curl.sh
example bash.sh "$(has curl jq)" : bash bash.sh
example stdlib.py "$(has "$python")" : "$python" stdlib.py
example numpy_base64.py "$python -c 'import numpy'" : "$python" numpy_base64.py
example safetensors_numpy.py "$python -c 'import numpy, safetensors'" : "$python" safetensors_numpy.py
example client.py "$python -c 'import numpy'" : "$python" client.py
example fetch.mjs "$(has node)" : node fetch.mjs
example attention.ts "$(has node tsc)" \
    "tsc --strict --target es2022 --module commonjs --outDir $work $examples/attention.ts" node "$work/attention.js"
example main.go "$(has go)" "go build -o $work/main_go $examples/main.go" "$work/main_go"
example Attention.java "$(has javac java)" "javac -d $work $examples/Attention.java" \
    java -cp "$work" Attention
example attention.rs "$(has rustc)" "rustc -D warnings -o $work/attention_rs $examples/attention.rs" "$work/attention_rs"
example attention.c "$(has gcc)
echo '#include <curl/curl.h>
#include <jansson.h>' | gcc -E -x c -o /dev/null -" \
    "gcc -Wall -Wextra -Werror $examples/attention.c -lcurl -ljansson -o $work/attention_c" "$work/attention_c"
example Attention.cs "$(has mcs mono)" \
    "mcs -warnaserror -r:System.Net.Http -r:System.Runtime.Serialization -out:$work/cs.exe $examples/Attention.cs" \
    mono "$work/cs.exe"
example attention.rb "$(has ruby)" : ruby -w attention.rb
example attention.php "$(has php)" : php attention.php
example attention.R "$(has Rscript)
Rscript -e 'library(curl); library(jsonlite)'" : Rscript attention.R
example attention.jl "$(has julia)
julia -e 'import JSON'" : julia attention.jl
example attention.pl "$(has perl)
perl -MHTTP::Tiny -MJSON::PP -e 1" : perl attention.pl

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
