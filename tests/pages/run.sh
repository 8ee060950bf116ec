#!/usr/bin/env bash
# Uses the pages like a visitor, in headless Chromium, against servers on loopback.
#   [BIN=target/release/island-metrics] tests/pages/run.sh
# Screenshots are in target/pages/shots. If a tool is missing, everything is skipped with a message that names it;
# with CI=true, this is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=${BIN:-target/release/island-metrics}
[ -x "$bin" ] || { echo "pages: $bin is not there; build it or set BIN" >&2; exit 1; }
tools=$PWD/target/pages
mkdir -p "$tools/shots"
rm -f "$tools"/shots/*.png
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
missing() {
    echo "pages: skipped: $1"
    [ "${CI:-}" != true ] || exit 1
    exit 0
}
[ -n "$chromium" ] || missing "apt-get install chromium"
command -v npm >/dev/null || missing "apt-get install nodejs npm"
work=$(mktemp -d "$tools/run.XXXXXX")
source tests/servers.sh
modules "$PWD/target" || missing "npm could not install playwright-core and axe-core"

"$bin" synth --islands 1200 --creators 300 --days 20 --until 2026-11-20 --to "$work/dataset" >/dev/null
"$bin" publish --dataset "$work/dataset" --to "$work/published" >/dev/null 2>&1
mkdir "$work/mail"
# Each visitor has an address of its own, see browser.mjs.
visitors=(--trusted-proxy 127.0.0.0/8)
serve ip --listen 127.0.0.1:0 --published "$work/published" --state "$work/ip" --signup ip "${visitors[@]}" \
    --access-log "$work/ip.access"
export BY_IP=$base
# The base URL of mailed links needs the port before the server starts.
port=$(port)
serve mail --listen "127.0.0.1:$port" "${visitors[@]}" --base-url "http://127.0.0.1:$port" --state "$work/mailed" --signup email \
    --mailer "$PWD/tests/pages/mailer.sh $work/mail" --access-log "$work/mail.access"
export BY_MAIL=$base
serve closed --listen 127.0.0.1:0
export CLOSED=$base
export CHROMIUM=$chromium MODULES=$PWD/target/npm MAIL=$work/mail SHOTS=$tools/shots WORK=$work

attend node tests/pages/check.mjs
# Ends the servers, so that the last lines are written.
for server in "${!started[@]}"; do stop "$server"; done
logs=("$work"/*.log "$work"/*.out "$work"/*.access)
for log in "$work"/ip.access "$work"/mail.access; do
    grep -q 'POST.*/keys' "$log" || { echo "pages: $log has no line of a form" >&2; exit 1; }
done
# No log may contain a form token, a key or a mailed link. An exit code other than 1 is a match or an unreadable file.
found=0
grep -E '_live_[0-9a-zA-Z]+_|pass=' "${logs[@]}" || found=$?
[ "$found" -eq 1 ] || { echo "pages: a log contains a secret" >&2; exit 1; }
