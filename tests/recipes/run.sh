#!/usr/bin/env bash
# Runs every recipe of src/site/recipes as printed, against servers on loopback, and checks the results.
#   [BIN=target/release/island-metrics] tests/recipes/run.sh [RECIPE...]
# A recipe whose tools are missing is skipped with a message that names them; with CI=true, this is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=${BIN:-target/release/island-metrics}
[ -x "$bin" ] || { echo "recipes: $bin is not there; build it or set BIN" >&2; exit 1; }
tools=$PWD/target/recipes
mkdir -p "$tools"
work=$(mktemp -d "$tools/run.XXXXXX")
source tests/servers.sh

# Installed once for each set of pinned versions. Tools that cannot be installed are reported as missing below.
packages() {
    local pinned=tests/recipes/requirements.txt
    cmp -s "$pinned" "$tools/venv.installed" && return
    rm -f "$tools/venv.installed"
    python3 -m venv --clear "$tools/venv" \
        && "$tools/venv/bin/pip" install --quiet --disable-pip-version-check -r "$pinned" \
        && cp "$pinned" "$tools/venv.installed"
}
packages || true
if command -v npm >/dev/null; then modules "$PWD/target" || true; fi

# Enough islands for several pages of every filter in a recipe. No recipe may spend the quota by itself.
"$bin" synth --islands 1600 --creators 500 --days 20 --until 2026-11-20 --to "$work/dataset" >/dev/null
# An island whose title CSV readers easily interpret as null, without creator, tool, tags and peaks.
echo '9999-9999-9999,NA,,,' >>"$work/dataset/islands.csv"
"$bin" publish --dataset "$work/dataset" --to "$work/published" >/dev/null 2>&1
mkdir -m 700 "$work/state"
KEY=$("$bin" keys issue --state "$work/state" --address ann@example.com 2>/dev/null)
serve published --listen 127.0.0.1:0 --published "$work/published" --limit-anonymous 65535 --state "$work/state" --access-log "$work/access.log"
PUBLISHED=$base
serve sample --listen 127.0.0.1:0 --limit-anonymous 65535
SAMPLE=$base
serve small --listen 127.0.0.1:0 --limit-anonymous 3
SMALL=$base
CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
export KEY PUBLISHED SAMPLE SMALL CHROMIUM BIN="$bin" TOOLS="$tools" NPM="$PWD/target/npm" WORK="$work"

attend python3 tests/recipes/check.py "$@"
