#!/bin/sh
# Runs test programs, several at a time, and adds their closing lines up. The output of a program stays together. The
# last line says "N passed, N failed" (", N skipped") and nothing else. Exit status 1 if a test failed, or if a program
# crashed or ran no test.
# usage: run.sh [-j JOBS] PROGRAM ...
# CHECK_UNDER="valgrind -q ..." runs each under that command.
jobs=1
if [ "$1" = -j ]; then
    jobs=$2
    shift 2
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT INT TERM

count() { # count PROGRAM STATUS OUTPUT: shows the output and adds to the totals
    cat "$3"
    counts=$(sed -n "s/^${1##*/}: \([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)*\$/\1 \2 \4/p" "$3" | tail -n 1)
    # shellcheck disable=SC2086 # two or three numbers
    set -- "$1" "$2" $counts
    if [ $((${3:-0} + ${4:-0} + ${5:-0})) -eq 0 ]; then
        echo "$1: ended with status $2 and ran no test"
        failed=$((failed + 1))
        return
    fi
    if [ "$2" -ne 0 ] && [ "$4" -eq 0 ]; then
        echo "$1: ended with status $2"
        failed=$((failed + 1))
    fi
    passed=$((passed + $3)) failed=$((failed + $4)) skipped=$((skipped + ${5:-0}))
}

# A worker writes one short line when its program has ended, which a pipe takes whole.
printf '%s\n' "$@" | WORK=$work xargs -P "$jobs" -I PROGRAM sh -c '
    output=$WORK/$$
    $CHECK_UNDER "$1" >"$output" 2>&1
    echo "$1 $? $output"' worker PROGRAM | {
    passed=0 failed=0 skipped=0 ended=0
    while read -r program status output; do
        count "$program" "$status" "$output"
        ended=$((ended + 1))
    done
    if [ "$ended" -ne $# ]; then
        echo "run.sh: $# programs were to run, $ended ended"
        failed=$((failed + 1))
    fi
    echo
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
}
