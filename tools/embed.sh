#!/bin/sh
# Prints a C source that holds a file as a constant: embed.sh NAME FILE
set -eu
printf '/* made from %s */\n#include <stddef.h>\n' "$2"
printf 'extern const unsigned char %s[];\nextern const size_t %s_length;\n' "$1" "$1"
printf 'const unsigned char %s[] = {\n' "$1"
od -An -v -tu1 "$2" | sed 's/^ *//; s/  */,/g; s/$/,/'
printf '0};\nconst size_t %s_length = sizeof %s - 1;\n' "$1" "$1"
