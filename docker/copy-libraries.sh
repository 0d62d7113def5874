#!/bin/sh
# Copies the shared libraries that a program names, and its loader, to the same places under another root, with the
# copyright files of their Debian packages and of those named besides.
# usage: copy-libraries.sh PROGRAM ROOT [PACKAGE ...]
set -eu
program=$1 root=$2
shift 2

licence() {
    if [ -e "/usr/share/doc/$1/copyright" ]; then
        install -D -m 644 "/usr/share/doc/$1/copyright" "$root/usr/local/share/licenses/$1"
    fi
}

ldd "$program" >/tmp/libraries
cat /tmp/libraries
if grep -q 'not found' /tmp/libraries; then exit 1; fi
grep -o '/[^ ]*' /tmp/libraries | while read -r library; do
    file=$(readlink -f "$library")
    install -D -m 755 "$file" "$root$library"
    licence "$(dpkg-query -S "$file" | cut -d: -f1)"
done
for package in "$@"; do licence "$package"; done
