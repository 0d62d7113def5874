#!/bin/sh
# Builds the image and checks what an operator relies on. usage: docker/check-image.sh     needs: docker, curl
set -eu
cd "$(dirname "$0")/.."
image=attentiond:check
name=attentiond-check-$$
port=${PORT:-18080}
trap 'docker rm -f "$name" >/dev/null 2>&1 || true' EXIT INT TERM
fail() { echo "check-image: $*" >&2; exit 1; }
await() { # until the health check in the container says so, at most 10 s
    i=0
    until docker exec "$name" /usr/local/bin/attentiond health >/dev/null 2>&1; do
        i=$((i + 1))
        [ "$i" -lt 100 ] || { docker logs "$name" >&2; fail "not ready within 10 s"; }
        sleep 0.1
    done
}

# the host's network, where the engine can give it, as some engines have none of their own to build with
docker build --network host --build-arg VERSION="$(cat VERSION)" -t "$image" .

size=$(docker image inspect -f '{{.Size}}' "$image")
echo "image: $((size / 1000000)) MB"
[ "$size" -lt 60000000 ] || fail "the image has grown past 60 MB"
docker image inspect -f '{{.Config.User}}' "$image" | grep -Eq '^[1-9][0-9]*(:[0-9]+)?$' || fail "the user is not a number"
for label in title description source version revision created licenses base.name; do
    docker image inspect -f '{{json .Config.Labels}}' "$image" | grep -q "\"org.opencontainers.image.$label\":" ||
        fail "no label $label"
done
if docker run --rm --entrypoint /bin/sh "$image" -c true >/dev/null 2>&1; then fail "there is a shell"; fi

# locked down: nothing writable, no capability, another user, no network, another port; the health check follows the
# port, even if only the command line of the daemon has it
locked_down() { # locked_down [FLAGS-OF-DOCKER...] IMAGE [FLAGS...]
    docker run -d --name "$name" --read-only --cap-drop ALL --security-opt no-new-privileges --user 12345 \
        --network none "$@" >/dev/null
    await
    docker rm -f "$name" >/dev/null
}
locked_down -e ATTENTIOND_PORT=9000 "$image"
locked_down "$image" --port 9000
locked_down "$image" --port 0

# CPU quota and memory limit are seen
docker run -d --name "$name" --cpus 1.5 --memory 512m --network host -e ATTENTIOND_PORT="$port" "$image" >/dev/null
await
sh docker/smoke.sh "http://127.0.0.1:$port"

start=$(date +%s%N)
docker stop "$name" >/dev/null
took=$((($(date +%s%N) - start) / 1000000))
status=$(docker inspect -f '{{.State.ExitCode}}' "$name")
[ "$status" -eq 0 ] || { docker logs "$name" >&2; fail "ended with status $status"; }
[ "$took" -lt 2000 ] || fail "took $took ms to stop"
echo "stopped in $took ms with status 0"
