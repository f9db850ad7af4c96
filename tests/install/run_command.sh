#!/usr/bin/env bash
# ./run as a person uses it, once build/release is there: what it would do, a second run within 2 seconds, Ctrl-C.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
temp=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$temp"' EXIT
fail() { echo "FAILED: $*" && sed 's/^/  | /' "$temp/log" && exit 1; }
: >"$temp/log"

# --dry-run tells and does nothing.
XDG_CACHE_HOME=$temp/cache ./run --dry-run >"$temp/log"
grep '^install: ' "$temp/log" >/dev/null && grep '^build: ' "$temp/log" >/dev/null || fail "--dry-run told too little"
grep '^download: the PyPI package' "$temp/log" >/dev/null || fail "--dry-run does not tell of the download"
[[ ! -e $temp/cache ]] || fail "--dry-run wrote something"

# --build-only stops after the build and prints nothing to stdout.
[[ -z $(./run --build-only 2>"$temp/log") ]] || fail "--build-only wrote to stdout"
grep 'built build/release/ullage' "$temp/log" >/dev/null || fail "--build-only"

# A run with everything there serves within 2 seconds. The port is the system's choice; the boot lines name it.
for try in 1 2 3; do # three tries: other work on this machine may steal a second
  started=${EPOCHREALTIME/[.,]/}
  ./run data/stories260K.gguf --port 0 >"$temp/log" 2>&1 &
  server=$!
  address=
  while [[ -z $address ]]; do
    kill -0 "$server" 2>/dev/null || fail "the server ended"
    address=$(grep -o 'http://127\.0\.0\.1:[0-9]*' "$temp/log" | head -n 1 || true)
    (((${EPOCHREALTIME/[.,]/} - started) < 60000000)) || fail "no address within a minute"
    sleep 0.02
  done
  curl -sf --retry 20 --retry-connrefused --retry-delay 0 -o /dev/null "$address/health" || fail "/health"
  millis=$(((${EPOCHREALTIME/[.,]/} - started) / 1000))
  curl -sf "$address/v1/completions" -H 'Content-Type: application/json' \
    -d '{"model": "", "prompt": "Once upon a time", "max_tokens": 8}' >"$temp/answer" ||
    curl -sf "$address/v1/models" >"$temp/answer" || fail "no answer"
  kill -INT "$server"
  wait "$server" && code=0 || code=$?
  server=
  ((code == 0 || code == 130)) || fail "Ctrl-C ended with $code"
  ((millis <= 2000)) && break
done
((millis <= 2000)) || fail "served after $millis ms, expected at most 2000"
echo "served after $millis ms"
