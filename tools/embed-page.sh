#!/bin/sh
# Prints a C source with the files of the page and their list, api_page_files: embed-page.sh FILE ...
set -eu
here=$(dirname "$0")
printf '#include "api/page/page.h"\n\n'
list=
for file; do
    name=${file##*/}
    symbol=api_page_$(printf '%s' "$name" | tr -c 'a-z0-9' '_')
    tag=$(sha256sum "$file" | cut -c1-16)
    sh "$here/embed.sh" "$symbol" "$file"
    list="$list    {\"$name\", $symbol, &${symbol}_length, \"W/\\\\\"$tag\\\\\"\"},
"
done
printf 'const api_page_file api_page_files[] = {\n'
printf '%b' "$list"
printf '    {NULL, NULL, NULL, NULL},\n};\n'
