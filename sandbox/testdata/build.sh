#!/bin/sh
# Builds every guest of the tests beside its source. Needs what
# ../guests/src/build.sh needs, and what quickjs/build.sh does.
set -eu
cd "$(dirname "$0")"
for c in *.c; do
  clang --target=wasm32-wasi --sysroot="${WASI_SYSROOT:-/usr}" -I../guests/src -Oz -s -Wall -Wextra -Werror -o "${c%.c}.wasm" "$c"
done
for w in *.wat; do
  wat2wasm -o "${w%.wat}.wasm" "$w"
done
quickjs/build.sh
