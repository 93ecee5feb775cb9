#!/bin/sh
# Builds every guest from its source here. Needs clang and lld with wasm32-wasi
# (Debian: clang lld wasi-libc libclang-rt-14-dev-wasm32) and wabt.
set -eu
cd "$(dirname "$0")"
flags="--target=wasm32-wasi --sysroot=${WASI_SYSROOT:-/usr} -std=c17 -Oz -flto -Wall -Wextra -Werror -Wno-unused-function -s -Wl,--strip-all -Wl,-z,stack-size=65536"
for c in *.c; do
  name=${c%.c}
  case $name in
  echo) clang $flags -mexec-model=reactor -o "../$name.wasm" "$c" ;;
  *) clang $flags -o "../$name.wasm" "$c" ;;
  esac
done
for w in *.wat; do
  wat2wasm -o "../${w%.wat}.wasm" "$w"
done
