#!/bin/sh
# Builds ../quickjs.wasm again: QuickJS-ng as the npm package quickjs-wasi has it, and
# tool.wat around it. Needs npm and its registry, sha256sum and wabt.
set -eu
cd "$(dirname "$0")"
here=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --ignore-scripts --no-audit --no-fund quickjs-wasi@3.7.0 binaryen@130.0.0
quickjs=node_modules/quickjs-wasi/quickjs.wasm
echo "c0bd8f296e18cf074969f6401b9ecb72609a1323818ec2b9bf7a8f8d740d1363  $quickjs" | sha256sum -c --quiet
wat2wasm -o tool.wasm "$here/tool.wat"
cat > kept.json <<'JSON'
[
  {"name": "memory", "root": true, "export": "memory"},
  {"name": "initialize", "root": true, "export": "_initialize"},
  {"name": "call", "root": true, "export": "callgate_call"}
]
JSON
# Ours is the one to be exported under this name.
LC_ALL=C sed 's/_initialize/quickjs_new/' "$quickjs" > quickjs.wasm
bin=node_modules/.bin
features="--enable-bulk-memory --enable-nontrapping-float-to-int --enable-sign-ext --enable-mutable-globals"
"$bin/wasm-merge" $features -o merged.wasm tool.wasm env quickjs.wasm quickjs
"$bin/wasm-metadce" $features -f kept.json -o bare.wasm merged.wasm > unused.txt
"$bin/wasm-opt" $features --strip-debug --strip-producers --strip-target-features -o "$here/../quickjs.wasm" bare.wasm
