#!/bin/sh
# Prints the commit of the sources, 12 digits, or "unknown". Without git, as in the image's build, it reads git's files.
cd "$(dirname "$0")/.." || exit 1
git rev-parse --short=12 HEAD 2>/dev/null && exit
head=$(cat .git/HEAD 2>/dev/null)
case $head in
ref:*)
    name=${head#ref: }
    head=$(cat ".git/$name" 2>/dev/null || sed -n "s|^\([0-9a-f]*\) $name\$|\1|p" .git/packed-refs 2>/dev/null)
    ;;
esac
if [ -n "$head" ]; then printf '%.12s\n' "$head"; else echo unknown; fi
