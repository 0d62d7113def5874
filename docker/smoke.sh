#!/bin/sh
# Checks a running daemon from outside, and shows what it does: the worked example of the README, every endpoint and
# option that a client starts with, the body formats, compression, and one of each error that a client can cause.
# Needs curl; gzip for compressed bodies. Prints a line per check. Exit status 1 if one failed.
# usage: smoke.sh [URL]        default http://127.0.0.1:8080        (make smoke URL=...)
url=${1:-http://127.0.0.1:8080}
url=${url%/}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

result() { # result STATUS-OF-CHECK NAME DETAIL
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok    $2"
    else
        failed=$((failed + 1))
        echo "FAIL  $2: $3"
    fi
}

ask() { # ask CURL-ARGUMENTS...: the reply into files head and body, its status into $status
    : >"$work/body"
    : >"$work/head"
    status=$(curl -s -S -m 30 -o "$work/body" -D "$work/head" -w '%{http_code}' "$@" 2>"$work/curl")
    reply=$(tr -d '\0\n\r' <"$work/body")
}

says() { # says STATUS TEXT...: whether the last reply had the status and each text
    [ "$status" = "$1" ] || return 1
    shift
    for text in "$@"; do
        case $reply in *"$text"*) ;; *) return 1 ;; esac
    done
}

check() { # check NAME STATUS TEXT...
    name=$1
    shift
    says "$@"
    result $? "$name" "status $status $(head -c 300 "$work/body") $(cat "$work/curl")"
}

has_header() { # has_header NAME BEGINNING-OF-HEADER
    grep -qi "^$2" "$work/head"
    result $? "$1" "headers: $(tr '\r\n' '  ' <"$work/head")"
}

post() { # post PATH BODY CURL-ARGUMENTS...
    path=$1
    printf '%s' "$2" >"$work/sent"
    shift 2
    ask -H 'Content-Type: application/json' --data-binary "@$work/sent" "$@" "$url$path"
}

skip() { # skip NAME REASON
    skipped=$((skipped + 1))
    echo "skip  $1: $2"
}

error() { # error NAME STATUS CODE: a problem document
    check "$1" "$2" "\"$3\"" '"title"' '"detail"'
    has_header "$1 is application/problem+json" 'content-type: *application/problem+json'
}

# wait for it, at most 15 seconds
tries=0
until curl -s -o /dev/null -m 2 "$url/readyz" || [ "$tries" -ge 30 ]; do
    tries=$((tries + 1))
    sleep 0.5
done

ask "$url/healthz"
check 'alive' 200 '"ok"'
ask "$url/readyz"
check 'ready' 200 '"ok"'
ask "$url/version"
check 'version' 200 '"version"' '"kernel"' '"libraries"'
ask "$url/metrics"
check 'metrics' 200 'http_server_request_duration_seconds_bucket' 'attentiond_build_info'
ask "$url/openapi.json"
check 'openapi.json' 200 '"/attention"' '"/mha"' '"3.1'
ask -I "$url/healthz"
check 'HEAD' 200
ask -X OPTIONS "$url/attention"
has_header 'OPTIONS answers with Allow' 'allow:.*POST'

# The worked example: scores [[2,1],[2,3]], scaled by 1/sqrt(3); weights 0.6405 and 0.3595.
post /attention '{"q":[[2,0,1],[0,2,1]],"k":[[1,1,0],[0,1,1]],"v":[[1,0,1],[0,1,0]],"trace":true}'
check 'worked example: scores' 200 '"scores":[[2,1],[2,3]]'
check 'worked example: scaled' 200 '"scaled":[[1.154700' '0.577350' '1.73205'
check 'worked example: weights and output' 200 '"weights":[[0.64045' '0.35954' '"output":[[0.64045'
check 'worked example: lse' 200 '"lse":[1.60027'
has_header 'Server-Timing' 'server-timing:.*decode;dur=.*queue;dur=.*compute;dur=.*encode;dur='
post /mha '{"x":[[1,0],[0,1]],"w_q":[[1,0],[0,1]],"w_k":[[1,0],[0,1]],"w_v":[[1,0],[0,1]],"w_o":[[1,0],[0,1]],"num_heads":2}'
check 'mha' 200 '"output":[[0.73105' ',0.5]'

# Options. Equal scores give every key that is left the same weight.
equal='"q":[[0],[0]],"k":[[0],[0]],"v":[[1],[2]]'
post /attention "{$equal,\"causal\":true}"
check 'causal: the first query sees the first key alone' 200 '"output":[[1],[1.5]]'
post '/attention?causal=true' "{$equal}"
check 'the same option in the query string' 200 '"output":[[1],[1.5]]'
post /attention "{$equal,\"mask\":[[true,false],[false,true]]}"
check 'mask' 200 '"output":[[1],[2]]'
post /attention "{$equal,\"bias\":[[0,-Infinity],[0,0]]}"
check 'bias' 200 '"output":[[1],[1.5]]'
post /attention '{"q":[[[0,0]],[[0,0]]],"k":[[[0,0],[0,0]],[[0,0],[0,0]]],"v":[[[1],[3]],[[5],[7]]],"kv_lengths":[1,2]}'
check 'kv_lengths: the second key of the first sample is padding' 200 '"output":[[[1]],[[6]]]'
post /attention '{"q":[[[[0]],[[0]],[[0]],[[0]]]],"k":[[[[0]],[[0]]]],"v":[[[[10]],[[20]]]]}'
check 'heads: four of queries share two of keys' 200 '"output":[[[[10]],[[10]],[[20]],[[20]]]]'
post /attention '{"q":[[0]],"k":[[0]],"v":[[2]],"past_k":[[0]],"past_v":[[1]],"return":["output","present_v"]}'
check 'a cache of keys and values' 200 '"output":[[1.5]]' '"present_v":[[1],[2]]'
post /attention '{"q":[[1,0]],"k":[[1,0],[0,1]],"v":{"shape":[2,2],"dtype":"F32","base64":"AACAPwAAAEAAAEBAAACAQA=="},"format":"base64"}'
check 'base64 both ways' 200 '"shape":[1, 2]' '"base64"'

# The Open Inference Protocol, as clients of Triton and KServe speak it.
ask "$url/v2/health/ready"
check '/v2/health/ready' 200
ask "$url/v2/models/attention"
check '/v2/models/attention' 200 '"inputs"' '"outputs"'
tensors='{"name":"q","shape":[1,2],"datatype":"FP32","data":[1,0]},{"name":"k","shape":[2,2],"datatype":"FP32","data":[1,0,0,1]}'
tensors="$tensors,{\"name\":\"v\",\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":[1,2,3,4]}"
post /v2/models/attention/infer "{\"id\":\"7\",\"inputs\":[$tensors]}"
check '/v2/models/attention/infer' 200 '"model_name":"attention"' '"id":"7"' '"shape":[1, 2]' '1.66047' '2.66047'
post /v2/models/attention/infer '{"inputs":[]}'
check 'an error under /v2 has the member error' 422 '"error"' '"missing_field"'

# A safetensors file: the length of its header in 8 bytes, the header, and the numbers: q (1, 2), k and v (2, 2), float32.
header='{"q":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"k":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]}'
header="$header,\"v\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[24,40]}}"
zero='\000\000\000\000' one='\000\000\200\077'
{
    printf "\\$(printf %03o $((${#header} % 256)))\\$(printf %03o $((${#header} / 256)))$zero\\000\\000"
    printf '%s' "$header"
    printf "$one$zero$one$zero$zero$one$one\\000\\000\\000\\100\\000\\000\\100\\100\\000\\000\\200\\100"
} >"$work/qkv.safetensors"
ask -H 'Content-Type: application/vnd.safetensors' -H 'Accept: application/json' --data-binary "@$work/qkv.safetensors" \
    "$url/attention"
check 'a safetensors body, the reply in JSON' 200 '"output":[[1.66047' '2.66047'
ask -H 'Content-Type: application/vnd.safetensors' --data-binary "@$work/qkv.safetensors" "$url/attention"
check 'a safetensors body, the reply likewise' 200 '"output":{' '"F32"' '"data_offsets":'
has_header 'safetensors reply has its Content-Type' 'content-type: *application/vnd.safetensors'

# Compression, both ways. Replies of fewer than 256 bytes stay as they are.
if command -v gzip >/dev/null; then
    row=$(awk 'BEGIN { for (i = 0; i < 200; i++) printf "%s0.5", i ? "," : "" }')
    printf '{"q":[[0]],"k":[[0]],"v":[[%s]]}' "$row" | gzip -c >"$work/sent"
    ask -H 'Content-Type: application/json' -H 'Content-Encoding: gzip' -H 'Accept-Encoding: gzip' \
        --data-binary "@$work/sent" "$url/attention"
    has_header 'a reply compressed with gzip' 'content-encoding: *gzip'
    [ "$(gzip -dc <"$work/body" 2>/dev/null)" = "{\"output\":[[$row]]}" ]
    result $? 'a body compressed with gzip, and its reply' "status $status"
else
    skip 'compression' 'gzip is not here'
fi

# Errors.
post /attention '{"q":[[1,2]'
error 'invalid_json' 400 invalid_json
check 'invalid_json names the place' 400 'line' 'column' 'byte'
ask "$url/nope"
error 'not_found' 404 not_found
ask "$url/attention"
error 'method_not_allowed' 405 method_not_allowed
has_header 'method_not_allowed has Allow' 'allow:.*POST'
post /attention '{"q":[[0]],"k":[[0]],"v":[[1]]}' -H 'Accept: text/html'
error 'not_acceptable' 406 not_acceptable
ask -H 'Content-Type: text/plain' -d '{}' "$url/attention"
error 'unsupported_media_type' 415 unsupported_media_type
post /attention '{"q":[[0]],"k":[[0]]}'
error 'missing_field' 422 missing_field
post /attention '{"q":[[0]],"k":[[0]],"v":[[1]],"casual":true}'
error 'unknown_field' 422 unknown_field
check 'unknown_field names the nearest' 422 'causal' '"/casual"'
post /attention '{"q":[["a"]],"k":[[0]],"v":[[1]]}'
error 'wrong_type' 422 wrong_type
post /attention '{"q":[[1,2],[3]],"k":[[0,0]],"v":[[1]]}'
error 'ragged' 422 ragged
post /attention '{"q":[[1,2]],"k":[[0]],"v":[[1]]}'
error 'shape_mismatch' 422 shape_mismatch
post /attention '{"q":[[[[[[[[[[[[1]]]]]]]]]]]],"k":[[0]],"v":[[1]]}'
error 'too_deep' 422 too_deep
post /attention '{"q":[[0]],"k":[[0]],"v":[[1]],"softcap":-1}'
error 'out_of_range' 422 out_of_range
post /attention '{"q":[[NaN]],"k":[[0]],"v":[[1]]}'
error 'not_finite' 422 not_finite
post /attention '{"q":[[3e38]],"k":[[3e38]],"v":[[1]]}'
error 'overflow' 422 overflow
check 'overflow suggests float64' 422 'float64'
post /attention '{"q":[[0]],"k":[[0]],"v":[[1]]}' -H 'Content-Length: 999999999999999'
[ "$status" = 413 ] || [ "$status" = 400 ]
result $? 'body_too_large' "status $status"

ask "$url/healthz"
check 'alive afterwards' 200 '"ok"'
if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ]
