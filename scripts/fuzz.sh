#!/bin/sh
# Builds the fuzzers and runs each for some seconds (60 unless told), two at a time:
#   scripts/fuzz.sh [seconds] [name...]        names: gguf safetensors config tokenizer request plan log
# Ends non-zero when an input made one crash, hang or take too much memory; the input stays in build/fuzz/artifacts.
set -eu
cd "$(dirname "$0")/.."
seconds="${1:-60}"
case $seconds in *[!0-9]*) sed -n '2,4s/^# //p' "$0" >&2 && exit 2 ;; esac
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- gguf safetensors config tokenizer request plan log
build="${ULLAGE_FUZZ_BUILD:-build/fuzz}"

cmake --preset fuzz -B "$build" >/dev/null
cmake --build "$build" --target fuzzers
mkdir -p "$build/artifacts" "$build/logs"

# New inputs go to the build folder; the corpus in git is read only.
export seconds build
printf '%s\n' "$@" | xargs -P 2 -I NAME sh -c '
  mkdir -p "$build/corpus/NAME"
  if "$build/fuzz/fuzz_NAME" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=2048 \
      -dict=fuzz/dict/NAME.dict -artifact_prefix="$build/artifacts/NAME-" -print_final_stats=1 \
      "$build/corpus/NAME" fuzz/corpus/NAME >"$build/logs/NAME.log" 2>&1; then
    echo "fuzz NAME: $(sed -n "s/^stat::number_of_executed_units: *//p" "$build/logs/NAME.log") inputs, no crash"
  else
    echo "fuzz NAME: FAILED; see $build/logs/NAME.log"
    tail -n 40 "$build/logs/NAME.log"
    exit 1
  fi'
