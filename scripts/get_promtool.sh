#!/usr/bin/env bash
# Prints the path of promtool. When there is none, it is taken out of Debian's package prometheus into build/tools/ (the
# package itself is not installed: it would start a server).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if command -v promtool; then exit 0; fi
tool=$PWD/build/tools/usr/bin/promtool
if [[ ! -x $tool ]]; then
  mkdir -p build/tools
  temp=$(mktemp -d build/tools/.download.XXXXXX)
  trap 'rm -rf "$temp"' EXIT
  chmod 755 "$temp"
  (cd "$temp" && apt-get -qq download prometheus 2>&1) >&2
  dpkg-deb -x "$temp"/prometheus_*.deb "$temp/tree"
  mkdir -p "${tool%/*}"
  mv -f "$temp/tree/usr/bin/promtool" "$tool"
fi
"$tool" --version >/dev/null 2>&1
echo "$tool"
