#!/usr/bin/env bash
# Bash with curl and jq. usage: bash bash.sh [URL]
set -euo pipefail
url=${1:-${ATTENTIOND_URL:-http://127.0.0.1:8080}}

post() { # post BODY: prints the reply; the status is 1 if the service reports an error
    local reply status
    reply=$(curl -sS -w '\n%{http_code}' "$url/attention" -H 'Content-Type: application/json' -d "$1")
    status=${reply##*$'\n'}
    printf '%s\n' "${reply%$'\n'*}"
    [ "$status" -eq 200 ]
}

# The worked example: two queries, two keys and two values of three columns.
post '{"q": [[2,0,1],[0,2,1]], "k": [[1,1,0],[0,1,1]], "v": [[1,0,1],[0,1,0]]}' |
    jq -r '.output[] | @tsv' |
    while read -r a b c; do LC_ALL=C printf '%.6f %.6f %.6f\n' "$a" "$b" "$c"; done

# The query has two columns, but the key has three.
if ! problem=$(post '{"q": [[2,0]], "k": [[1,1,0]], "v": [[1,0,1]]}'); then
    jq -r '"\(.status) \(.code) at \(.pointer): \(.detail)"' <<<"$problem"
fi
