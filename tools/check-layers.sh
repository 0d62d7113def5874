#!/bin/sh
# Dependencies point one way: server -> api -> core between the rooms, and inside a room along the lines below. Looks at
# includes and at the symbols of the objects. Fails if
#   a room or a folder includes or calls what is above it, or beside it on the same level,
#   files of one room include or call each other in a circle,
#   a global symbol has not the prefix of its room, or a room uses what it must not know.
# usage: check-layers.sh BUILD-FOLDER OBJECT ...       (the objects of core, api and server below the build folder)
set -eu

# Folders of a room, the lowest level first. "a,b" are on one level; "." is the room itself.
core_order='engine positions softmax linear kinds scan .'
api_order='base numbers tensors json formats fields endpoints http oip,safetensors,info,page .'
server_order='.'
# headers that every folder of their room may include: its public one, and what a calculation implements
contracts='core/attention.h core/calculation.h api/api.h'

build=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
bad=0
complain() { # complain TEXT FILE-OF-LINES: if there are lines
    [ -s "$2" ] || return 0
    echo "check-layers: $1:" >&2
    sort -u "$2" | sed 's/^/  /' >&2
    bad=1
}

# ---- who uses whom: lines "FILE USED-FILE SYMBOL", of calls and other uses of symbols, and of includes ----------------

nm -A -P "$@" | awk -v build="$build/" '
    { file = $1; sub(/:$/, "", file); sub("^" build, "", file); sub(/(_f32|_f64)?\.o$/, ".c", file); kind = $3 }
    kind ~ /^[A-TV-Z]$/ { print file, $2 >defined; next }
    kind ~ /^[Uvw]$/ { print file, $2 >used }
' defined="$work/defined" used="$work/used"
awk 'NR == FNR { where[$2] = $1; next } ($2 in where) && where[$2] != $1 { print $1, where[$2], $2 }' \
    "$work/defined" "$work/used" | sort -u >"$work/calls"

find core api server -name '*.[ch]' | while read -r file; do
    sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\(.*\)".*/\1/p' "$file" | while read -r name; do
        realpath -m --relative-to=. "${file%/*}/$name"
    done | sed "s|^|$file |; s|\$| include|"
done | sort -u >"$work/includes"
cat "$work/calls" "$work/includes" >"$work/arrows"

# ---- between folders -------------------------------------------------------------------------------------------------

awk -v contracts=" $contracts " -v core="$core_order" -v api="$api_order" -v server="$server_order" '
    function levels(room, order, level, n, i, j, m, names) {
        n = split(order, level, " ")
        for (i = 1; i <= n; i++) {
            m = split(level[i], names, ",")
            for (j = 1; j <= m; j++) height[room, names[j]] = i
        }
    }
    function folder(file, room, rest) {
        rest = substr(file, length(room) + 2)
        return rest ~ /\// ? substr(rest, 1, index(rest, "/") - 1) : "."
    }
    BEGIN { levels("core", core); levels("api", api); levels("server", server) }
    {
        room = substr($1, 1, index($1, "/") - 1)
        if (index($2, room "/") != 1 || index(contracts, " " $2 " ")) next
        from = folder($1, room); to = folder($2, room)
        if (!((room, from) in height)) print room "/" from " is in no line of tools/check-layers.sh"
        else if ((room, to) in height && from != to && height[room, from] <= height[room, to])
            print $1 " -> " $2 " (" $3 ")"
    }' "$work/arrows" >"$work/upward"
complain "a folder must use only what is below it" "$work/upward"

# ---- circles of calls between the files of a room, and of includes ---------------------------------------------------

circles() { # circles FILE-OF-ARROWS: each file of each circle
    tsort "$1" 2>&1 >/dev/null | sed -n 's/^tsort: \(.*\.[ch]\)$/\1/p; s/^.*input contains a loop:$/circle:/p'
}
awk '{ print $1, $2 }' "$work/calls" >"$work/pairs"
circles "$work/pairs" | awk '/^circle:/ { printf "%s", n++ ? "\n" : ""; next } { printf "%s ", $0 } END { if (n) print "" }' \
    >"$work/circles"
awk '{ print $1, $2 }' "$work/includes" >"$work/pairs"
circles "$work/pairs" | awk '/^circle:/ { printf "%s", n++ ? "\n" : ""; next } { printf "%s ", $0 } END { if (n) print "" }' \
    >>"$work/circles"
complain "files in a circle" "$work/circles"

# ---- names of global symbols; epoll_ctl stands in for that of libc ---------------------------------------------------

awk '($1 ~ /^core\// && $2 !~ /^attn_/) || ($1 ~ /^api\// && $2 !~ /^api_/) ||
     ($1 ~ /^server\// && $2 !~ /^srv_/ && $2 != "main" && $2 != "epoll_ctl") { print $1 ": " $2 }' "$work/defined" >"$work/names"
complain "global symbols without the prefix of their room (attn_, api_, srv_)" "$work/names"

# ---- what a room must not know ---------------------------------------------------------------------------------------

unknown() { # unknown ROOM INCLUDES SYMBOLS WHAT: two patterns, "-" for none
    : >"$work/unknown"
    [ "$2" = - ] || grep -rnE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]([^>\"]*/)?$2" "$1" \
        --include='*.c' --include='*.h' >>"$work/unknown" || true
    [ "$3" = - ] || grep -E "^$1/.* $3" "$work/used" >>"$work/unknown" || true
    complain "$1/ must not use $4" "$work/unknown"
}
unknown core 'jansson' '(json_|jansson_)' jansson
unknown core 'microhttpd' 'MHD_' libmicrohttpd
unknown core '(api|server)/' '(api|srv)_' 'api/ or server/'
unknown core - '(getenv|secure_getenv|fopen|open|printf|puts)$' 'files, the environment or standard output'
unknown api 'microhttpd' 'MHD_' libmicrohttpd
unknown api 'server/' 'srv_' server/
unknown api 'core/([^a"]|a[^t])' - 'core/, except core/attention.h'
unknown api - '(sigaction|signal|pthread_create)$' 'signals or threads of its own'
unknown server 'core/([^a"]|a[^t])' - 'core/, except core/attention.h'
unknown server 'api/([^a"]|a[^p])' - 'api/, except api/api.h'

[ "$bad" -eq 0 ] && echo "check-layers: server -> api -> core holds, and the order inside them"
exit "$bad"
