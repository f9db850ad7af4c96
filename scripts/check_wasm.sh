#!/usr/bin/env bash
# Runs the native and the WebAssembly build of the same program and compares what they print:
# scripts/check_wasm.sh NATIVE WASM. Node 18 or later runs WebAssembly here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
lessons=$here/../tests/data/lessons/lesson-cases.json
"$1" <"$lessons" >"$temp/native"
# The switch is needed before Node 20 and accepted since.
node --no-warnings --experimental-wasi-unstable-preview1 "$here/run_wasm.mjs" "$2" <"$lessons" >"$temp/wasm"
diff "$temp/native" "$temp/wasm" | head -n 40
cmp "$temp/native" "$temp/wasm"
echo "$(wc -l <"$temp/native") lines are the same"
