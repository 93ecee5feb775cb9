#!/bin/sh
# Builds every guest of the tests beside its source. Needs wabt, clang, lld,
# wasi-libc and libclang-rt-dev-wasm32.
set -eu
cd "$(dirname "$0")"
for w in *.wat; do
  case $w in
    eh.wat | extconst.wat | multimem.wat | memory64.wat | tailcall.wat | threads.wat) all=--enable-all ;;
    *) all= ;;
  esac
  wat2wasm $all -o "${w%.wat}.wasm" "$w"
done
clang --target=wasm32-wasi -O2 -mexec-model=reactor -Wl,--strip-all compute.c -o compute_c.wasm
clang --target=wasm32-wasi -O2 -Wl,--strip-all hello.c -o hello_c.wasm
