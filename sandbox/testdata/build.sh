#!/bin/sh
# Builds every guest of the tests beside its source. Needs wabt.
set -eu
cd "$(dirname "$0")"
for w in *.wat; do
  wat2wasm -o "${w%.wat}.wasm" "$w"
done
