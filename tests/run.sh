#!/bin/sh
# Runs test programs one after the other and adds their closing lines up. The last line is alone, and says
# "N passed, N failed" (", N skipped"). Exit status 1 where one failed, crashed, or ran no test.
# CHECK_UNDER="valgrind -q ..." runs each under that command.
passed=0 failed=0 skipped=0
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
for program in "$@"; do
    $CHECK_UNDER "$program" >"$output" 2>&1
    status=$?
    cat "$output"
    line=$(grep "^${program##*/}: [0-9]* passed, [0-9]* failed" "$output" | tail -n 1)
    counts=$(printf '%s\n' "$line" | sed 's/.*: \([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)*$/\1 \2 \4/')
    set -- $counts
    if [ $# -lt 2 ] || [ $(($1 + $2 + ${3:-0})) -eq 0 ]; then
        echo "$program: ended with status $status and ran no test"
        failed=$((failed + 1))
        continue
    fi
    if [ "$status" -ne 0 ] && [ "$2" -eq 0 ]; then
        echo "$program: ended with status $status"
        failed=$((failed + 1))
    fi
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + ${3:-0}))
done
echo
if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
