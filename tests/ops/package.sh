#!/usr/bin/env bash
# Builds the static binary and the Debian package, installs it here, uses it, and takes it away again.
# Wants to be root on Debian, in a container or on a machine where island-metrics is not installed.
#   tests/ops/package.sh [--build-only]
# leaves target/package/island-metrics_VERSION_amd64.deb
set -euo pipefail
cd "$(dirname "$0")/../.."

target=x86_64-unknown-linux-gnu
bin=target/static/$target/release/island-metrics
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
deb=target/package/island-metrics_${version}_amd64.deb
work=$(mktemp -d "${TMPDIR:-/tmp}/island-metrics-package.XXXXXX")
chmod 755 "$work"
server= installed=
by_hand=
finish() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    if [ -n "$installed" ]; then dpkg --purge island-metrics >/dev/null || true; fi
    if [ -n "$by_hand" ]; then rm -f /usr/bin/island-metrics "${by_hand[@]}"; fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
fail() { echo "package: $*" >&2; exit 1; }

# Base URL of a server started in the background, whose words go to $work/stderr.
address_of_server() {
    local base
    for _ in $(seq 100); do
        base=$(sed -n 's|.*listening on \(http://127\.0\.0\.1:[0-9]*\).*|\1|p' "$work/stderr" | head -n 1)
        if [ -n "$base" ] && curl -fsS -o /dev/null "$base/v1/health" 2>/dev/null; then
            echo "$base"
            return
        fi
        kill -0 "$server" 2>/dev/null || fail "the server ended: $(cat "$work/stderr")"
        sleep 0.1
    done
    fail "the server did not answer in 10 seconds"
}
stop_server() {
    kill "$server"
    wait "$server" || fail "the server ended with $?"
    server=
}

RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target "$target" --target-dir target/static
# No interpreter: nothing of the machine's is loaded into it.
if readelf -l "$bin" | grep -q INTERP || ldd "$bin" 2>&1 | grep -q '=>'; then
    fail "the binary is not static: $(ldd "$bin")"
fi
"$bin" serve --listen 127.0.0.1:0 2>"$work/stderr" &
server=$!
base=$(address_of_server)
curl -fsS "$base/v1/islands?limit=1" | grep -q '"total":300' || fail "the static binary does not serve the sample"
stop_server
echo "static: $(stat -c %s "$bin") bytes, symbols included"

# What the binary prints about itself, where it does.
tree=target/package/tree
rm -rf target/package
mkdir -p "$tree"
printed() {
    local path=$tree/$1
    shift
    if "$bin" "$@" >"$work/printed" 2>/dev/null && [ -s "$work/printed" ]; then
        install -D -m 644 "$work/printed" "$path"
        case $path in *.1) gzip -9n "$path" ;; esac
    else
        echo "package: island-metrics $* prints nothing; left out"
    fi
}
printed man/man1/island-metrics.1 man
printed bash-completion/completions/island-metrics completions bash
printed zsh/vendor-completions/_island-metrics completions zsh
printed fish/vendor_completions.d/island-metrics.fish completions fish
printed doc/island-metrics/openapi.json openapi

tool=target/tools/bin/cargo-deb
if [ "$($tool --version 2>/dev/null || true)" != "cargo-deb 3.8.0" ]; then
    cargo install --locked cargo-deb --version 3.8.0 --no-default-features --root target/tools --target-dir target/tools-build
fi
CARGO_TARGET_DIR=target/static $tool --no-build --locked --target "$target" --output "$deb" --strip --quiet
dpkg-deb --info "$deb" | sed -n 's/^ \(Package\|Version\|Depends\|Installed-Size\): /\1 /p'
units=$(dpkg-deb --fsys-tarfile "$deb" | tar -t | sed -n 's|.*/systemd/system/\(..*\)|\1|p' | sort | xargs)
[ "$units" = "island-metrics-publish.service island-metrics-publish.timer island-metrics.service island-metrics.socket" ] \
    || fail "the units are $units"
echo "package: $deb, $(stat -c %s "$deb") bytes"
if [ "${1:-}" = --build-only ]; then exit 0; fi

[ "$(id -u)" = 0 ] || fail "installing wants root"
[ -z "$(dpkg-query -W -f '${db:Status-Status}' island-metrics 2>/dev/null || true)" ] || fail "island-metrics is installed here"
before=$(ls -d /var/lib/island-metrics* 2>/dev/null; getent passwd island-metrics || true)
installed=yes
dpkg -i "$deb" >"$work/dpkg" 2>&1 || fail "dpkg -i: $(cat "$work/dpkg")"
[ "$(/usr/bin/island-metrics --version | cut -d ' ' -f 1-2)" = "island-metrics $version" ] || fail "the version is not $version"

# Owners and modes.
stat -c '%a %U %G %n' /usr/bin/island-metrics /etc/island-metrics/island-metrics.conf \
    /var/lib/island-metrics /var/lib/island-metrics-published /var/lib/island-metrics-dataset \
    /lib/systemd/system/island-metrics{.service,.socket,-publish.service,-publish.timer} \
    /usr/lib/sysusers.d/island-metrics.conf /usr/lib/tmpfiles.d/island-metrics.conf \
    /usr/share/doc/island-metrics/copyright >"$work/stat" || fail "files are missing"
grep -v ' /var/lib/' "$work/stat" | grep -v '^644 root root ' | grep -v '^755 root root /usr/bin/island-metrics$' \
    && fail "owners or modes are wrong"
diff - <(grep ' /var/lib/' "$work/stat" | sort) <<'WANTED' || fail "owners or modes of state are wrong"
700 island-metrics island-metrics /var/lib/island-metrics
755 island-metrics-publish island-metrics-publish /var/lib/island-metrics-published
755 root root /var/lib/island-metrics-dataset
WANTED
if find / -xdev \( -user island-metrics -o -user island-metrics-publish \) -not -path '/proc/*' 2>/dev/null \
    | grep -v '^/var/lib/island-metrics'; then
    fail "its users own more than their state"
fi
find /etc/systemd/system -name '*island-metrics*' | grep . && fail "a unit is enabled that nobody asked for"

# The way of the data with the users of the units: a key issued by root, a dataset of root's, a publish by
# the one user, and a server of the other that reads both.
as() { setpriv --reuid "$1" --regid "$1" --clear-groups --no-new-privs --inh-caps=-all "${@:2}"; }
cp -r data/sample "$work/dataset"
island-metrics keys issue --state /var/lib/island-metrics --address ann@example.com >"$work/key" 2>/dev/null
(umask 022 && as island-metrics-publish island-metrics publish --dataset "$work/dataset" --to /var/lib/island-metrics-published 2>/dev/null)
(umask 077 && exec setpriv --reuid island-metrics --regid island-metrics --clear-groups --no-new-privs \
    island-metrics serve --listen 127.0.0.1:0 --state /var/lib/island-metrics \
    --published /var/lib/island-metrics-published 2>"$work/stderr") &
server=$!
base=$(address_of_server)
limit() { curl -fsS -o /dev/null -D - "$@" "$base/v1" | sed -n 's/^x-ratelimit-limit: \([0-9]*\).*/\1/p'; }
[ "$(limit)" = 100 ] || fail "an address has no quota"
[ "$(limit -H "Authorization: Bearer $(cat "$work/key")")" = 1000 ] || fail "a key issued by root is not known to the server"
curl -fsS -o /dev/null "$base/dumps/islands.csv.gz" || fail "the server cannot read the dumps"
if as island-metrics touch /var/lib/island-metrics-published/x 2>/dev/null; then fail "the server may write what is published"; fi
if as island-metrics-publish ls /var/lib/island-metrics >/dev/null 2>&1; then fail "the publisher may read the keys"; fi
as island-metrics-publish island-metrics publish --dataset "$work/dataset" --to /var/lib/island-metrics-published --full 2>/dev/null
stop_server

# Installed over itself: an edited configuration stays.
echo '#edited' >>/etc/island-metrics/island-metrics.conf
dpkg -i "$deb" >"$work/dpkg" 2>&1 || fail "the upgrade: $(cat "$work/dpkg")"
tail -n 1 /etc/island-metrics/island-metrics.conf | grep -qx '#edited' || fail "the upgrade lost the configuration"
island-metrics keys list --state /var/lib/island-metrics | grep -q ann@example.com || fail "the upgrade lost a key"

dpkg -L island-metrics | sort -u >"$work/files"
dpkg -r island-metrics >"$work/dpkg" 2>&1 || fail "dpkg -r: $(cat "$work/dpkg")"
[ ! -e /usr/bin/island-metrics ] || fail "removed, and the binary is there"
[ -e /etc/island-metrics/island-metrics.conf ] || fail "removed, and the configuration is gone"
dpkg --purge island-metrics >"$work/dpkg" 2>&1 || fail "dpkg --purge: $(cat "$work/dpkg")"
installed=
# Directories that others share stay, and state: keys are not made anew.
while read -r path; do
    if [ -f "$path" ] || [ -L "$path" ] && [ ! -d "$path" ]; then fail "purged, and $path is there"; fi
done <"$work/files"
left=$(find / -xdev -name '*island-metrics*' \( -path '/etc/*' -o -path '/usr/*' -o -path '/lib/*' -o -path '/var/*' \) \
    -not -path '/var/lib/island-metrics*' -not -path '/var/tmp/*' 2>/dev/null || true)
[ -z "$left" ] || fail "purged, and there is $left"
[ -n "$(ls -A /var/lib/island-metrics)" ] || fail "purged, and the keys are gone"

# The README's way without the package gives the same.
sed -n '/^<!-- without the package -->$/,/^```$/p' README.md | grep -v -e '^<!--' -e '^```' \
    | sed "s|target/release/island-metrics|$bin|" >"$work/by-hand"
[ "$(wc -l <"$work/by-hand")" = 3 ] || fail "the README has no three commands"
mkdir -p /etc/systemd/system
read -ra by_hand <<<"$(printf '/etc/systemd/system/%s ' $units)"
bash -euo pipefail "$work/by-hand"
for unit in $units; do [ -s "/etc/systemd/system/$unit" ] || fail "the three commands leave $unit out"; done
/usr/bin/island-metrics --version >/dev/null
rm /usr/bin/island-metrics "${by_hand[@]}"
by_hand=

# What this made, it takes away.
if [ -z "$before" ]; then
    rm -rf /var/lib/island-metrics /var/lib/island-metrics-published /var/lib/island-metrics-dataset
    userdel island-metrics
    userdel island-metrics-publish
fi
echo "package: $(wc -l <"$work/files") paths installed, used, upgraded, removed and purged; state stays"
