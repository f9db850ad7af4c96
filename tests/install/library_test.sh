#!/usr/bin/env bash
# Builds examples/plan against an installed tree, with CMake and with pkg-config: tests/install/library_test.sh BUILD
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
fail() { echo "FAILED: $*" && exit 1; }

# Given an installed tree that was moved, and the example alone.
cmake --install "$1" --prefix "$temp/first" >/dev/null
mv "$temp/first" "$temp/prefix"
cp -r "$temp/prefix/share/doc/ullage/examples/plan" "$temp/example"
cd "$temp" # nothing of the source tree may be needed

# When it is built with CMake, then it answers.
cmake -S example -B by-cmake -DCMAKE_PREFIX_PATH="$temp/prefix" >log 2>&1 || fail "CMake: $(<log)"
cmake --build by-cmake >log 2>&1 || fail "CMake: $(<log)"
first=$(by-cmake/plan_example)
[[ $first =~ ^[0-9,]+\ users?\ fits?\;\ the\ [0-9]+(st|nd|rd|th)\ waits\ for\ memory\.$ ]] || fail "it said: $first"

# When it is built with pkg-config, then it gives the same answer.
PKG_CONFIG_PATH=$(dirname "$(find prefix -name ullage-plan.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # flags are words
c++ example/plan.cc $(pkg-config --cflags --libs ullage-plan) -o by-pkg-config >log 2>&1 || fail "pkg-config: $(<log)"
second=$(./by-pkg-config)
[[ $second == "$first" ]] || fail "CMake's said: $first; pkg-config's: $second"
echo "library: $first"
