#!/bin/sh
# Starts the daemon in the foreground, after a request to paste into another terminal.
# usage: run.sh PROGRAM
set -eu
host=${ATTENTIOND_HOST:-127.0.0.1}
case $host in 0.0.0.0 | ::) host=127.0.0.1 ;; esac
cat >&2 <<END
Once it listens, try in another terminal:

    curl -s http://$host:${ATTENTIOND_PORT:-8080}/attention -d '{"q": [[2,0,1],[0,2,1]], "k": [[1,1,0],[0,1,1]], "v": [[1,0,1],[0,1,0]], "trace": true}'

END
exec "$1"
