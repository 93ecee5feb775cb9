#!/bin/sh
# Builds the tools that `callgate tools new` writes, and records what they were built
# from: cmd/callgate's tests run these modules where no compiler is. Needs Go, clang,
# lld and wasi-libc, rustc with wasm32-wasip1 or wasm32-wasi, and npm.
set -eu
cd "$(dirname "$0")"
here=$PWD
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
(cd ../.. && go build -o "$tmp/callgate" .)
LC_ALL=C
export LC_ALL
for lang in as c rust; do
  (cd "$tmp" && ./callgate tools new "$lang-tool" --lang "$lang" >/dev/null && sh "$lang-tool/build.sh" >/dev/null)
  install -m 644 "$tmp/$lang-tool/$lang-tool.wasm" "$here/$lang.wasm"
done
for lang in as c rust; do
  source=$(cat ../../templates/"$lang"/*.tmpl | sha256sum)
  module=$(sha256sum <"$lang.wasm")
  echo "$lang ${source%% *} ${module%% *}"
done >digests.txt
