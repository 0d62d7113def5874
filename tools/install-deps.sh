#!/bin/sh
# Installs the packages that building (and, with `test`, testing, with `bench`, the benches) needs and that are missing.
# On Debian and its relatives through apt-get, by way of sudo when not root; elsewhere it names what is needed.
# usage: install-deps.sh [build|test|bench]
# The compiler is only asked for where the one named by CC (default: gcc) is not there.
set -eu
want=${1:-build}

missing=
debian=
need() { # need COMMAND-THAT-TELLS DEBIAN-PACKAGE WHAT-IT-IS
    if ! sh -c "$1" >/dev/null 2>&1; then
        missing="$missing
  $3"
        debian="$debian $2"
    fi
}
# a header, as the compiler sees it: pkg-config is not needed, and cross or odd prefixes work through CFLAGS
header() { # header NAME DEBIAN-PACKAGE WHAT-IT-IS
    need "echo '#include <$1>' | ${CC:-gcc} ${CFLAGS:-} -E - " "$2" "$3"
}

need "command -v ${CC:-gcc}" gcc "a C17 compiler (gcc 12 or clang 14, or newer)"
need "echo '#include <stdio.h>' | ${CC:-gcc} -E -" libc6-dev "the C library's headers"
need "command -v make" make "GNU make"
need "command -v ar" binutils "binutils (ar, nm)"
case " $debian " in
*" gcc "* | *" libc6-dev "*) # no compiler to ask: the package manager sorts it out
    debian="$debian libmicrohttpd-dev libjansson-dev zlib1g-dev libzstd-dev libopenblas-dev"
    missing="$missing
  libmicrohttpd, jansson, zlib, libzstd and OpenBLAS with their headers"
    ;;
*)
    header microhttpd.h libmicrohttpd-dev "libmicrohttpd 0.9.75 or newer, with headers"
    header jansson.h libjansson-dev "jansson 2.14 or newer, with headers"
    header zlib.h zlib1g-dev "zlib 1.2.13 or newer, with headers"
    header zstd.h libzstd-dev "libzstd 1.5.4 or newer, with headers"
    header cblas.h libopenblas-dev "OpenBLAS 0.3.21 or newer, with cblas.h"
    ;;
esac
if [ "$want" = test ]; then
    case " $debian " in
    *" gcc "* | *" libc6-dev "*) debian="$debian libcurl4-openssl-dev" ;;
    *) header curl/curl.h libcurl4-openssl-dev "libcurl, with headers" ;;
    esac
fi
if [ "$want" = bench ]; then
    need "command -v ${CXX:-g++}" g++ "a C++17 compiler"
    need "echo '#include <simdjson.h>' | ${CXX:-g++} -x c++ -E -" libsimdjson-dev "simdjson 3, with headers"
    [ "$(uname -m)" != x86_64 ] || header libxsmm.h libxsmm-dev "libxsmm, with headers"
    need "python3 -c 'import venv, ensurepip'" python3-venv "Python 3 with venv"
fi
[ -n "$debian" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    printf 'needed, and not found here:%s\n' "$missing" >&2
    printf 'On Debian these are:%s\n' "$debian" >&2
    exit 1
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        printf 'needed: as root, apt-get install%s\n' "$debian" >&2
        exit 1
    fi
    sudo=sudo
fi
printf 'installing%s\n' "$debian" >&2
# shellcheck disable=SC2086 # both are lists of words
{
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $debian
} >&2
