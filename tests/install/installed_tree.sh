#!/usr/bin/env bash
# Installs a build into a folder of its own and uses what lies there: tests/install/installed_tree.sh BUILD
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix" >/dev/null
cd / # nothing of the source tree may be needed

version=$("$prefix/bin/ullage" --version)
[[ $version =~ ^ullage\ [0-9]+\.[0-9]+\.[0-9]+ ]] || { echo "--version said: $version" && exit 1; }
"$prefix/bin/ullage" --help | grep serve >/dev/null
"$prefix/bin/ullage" inspect "$prefix/share/ullage/stories260K.gguf" | grep -i llama >/dev/null
text=$("$prefix/bin/ullage" generate "$prefix/share/ullage/stories260K.gguf" "Once upon a time" 2>/dev/null)
((${#text} > 20)) || { echo "generate said: $text" && exit 1; }
ls "$prefix/share/doc/ullage/LICENSE" >/dev/null
echo "installed: $version"
