#!/bin/sh
# Dependencies point one way: server -> api -> core. Fails where a room includes or links what it must not know.
# usage: check-layers.sh BUILD-FOLDER       (holding core.a and api.a)
set -eu
build=${1:-build}
bad=0

includes() { # includes ROOM PATTERN WHY
    if grep -rnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]([^>\"]*/)?$2" "$1" --include='*.c' --include='*.h' --include='*.cc'; then
        echo "check-layers: $1/ must not include $3" >&2
        bad=1
    fi
}
symbols() { # symbols ARCHIVE PATTERN WHY
    if nm -u "$build/$1" | grep -E "^[[:space:]]+[Uw] $2"; then
        echo "check-layers: $1 must not use $3" >&2
        bad=1
    fi
}

includes core 'jansson' "jansson"
includes core 'microhttpd' "libmicrohttpd"
includes core '(api|server)/' "api/ or server/"
includes api 'microhttpd' "libmicrohttpd"
includes api 'server/' "server/"
includes api 'core/([^a"]|a[^t])' "core/ but through core/attention.h"
includes server 'core/([^a"]|a[^t])' "core/ but through core/attention.h"
includes server 'api/([^a"]|a[^p])' "api/ but through api/api.h"
symbols core.a '(json_|jansson_)' "jansson"
symbols core.a 'MHD_' "libmicrohttpd"
symbols core.a '(api|srv)_' "api/ or server/"
symbols core.a '(getenv|secure_getenv|fopen|open|printf|puts)$' "files, the environment or standard output"
symbols api.a 'MHD_' "libmicrohttpd"
symbols api.a 'srv_' "server/"
symbols api.a '(sigaction|signal|pthread_create)$' "signals or threads of its own"
[ "$bad" -eq 0 ] && echo "check-layers: server -> api -> core holds"
exit "$bad"
