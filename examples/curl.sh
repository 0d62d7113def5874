#!/bin/sh
# curl alone; the replies are printed as they are. usage: sh curl.sh [URL]
url=${1:-${ATTENTIOND_URL:-http://127.0.0.1:8080}}

post() { # post BODY: prints the reply, then the status
    curl -sS --retry 3 -w '%{http_code}\n' "$url/attention" -H 'Content-Type: application/json' -d "$1"
}

# The worked example: two queries, two keys and two values of three columns.
post '{"q": [[2,0,1],[0,2,1]], "k": [[1,1,0],[0,1,1]], "v": [[1,0,1],[0,1,0]]}'

# The query has two columns, but the key has three. With --fail-with-body instead of -w,
# curl prints the problem document and exits with status 22.
post '{"q": [[2,0]], "k": [[1,1,0]], "v": [[1,0,1]]}'
