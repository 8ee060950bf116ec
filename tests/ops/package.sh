#!/usr/bin/env bash
# Builds the binary with all features, the Debian package and its bill of materials, installs it here, uses it, and
# removes it again.
# Requires root on Debian, in a container or on a machine where island-metrics is not installed.
#   tests/ops/package.sh [--build-only | --built]      `--built` uses the binary that is there
# The binary stays in target/packaged/dist, the package in target/package/island-metrics_VERSION_ARCH.deb
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=target/packaged/dist/island-metrics
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
deb=target/package/island-metrics_${version}_$(dpkg --print-architecture).deb
source tests/servers.sh
chmod 755 "$work"
installed=""
by_hand=()
clean_up() {
    if [ -n "$installed" ]; then dpkg --purge island-metrics >/dev/null || true; fi
    if [ ${#by_hand[@]} -gt 0 ]; then rm -f /usr/bin/island-metrics "${by_hand[@]}"; fi
}

# tool NAME VERSION OPTION...: installs a command of cargo in target/tools.
tool() {
    ! grep -qs "\"$1 $2 " target/tools/.crates.toml || return 0
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --force --debug --locked "$1" --version "$2" "${@:3}" --root target/tools --target-dir target/tools-build
}

# Not static: a static glibc loads the name service libraries of the machine, which may have another version.
if [ "${1:-}" != --built ]; then
    # With the list of its crates, which scanners for known vulnerabilities read.
    tool cargo-auditable 0.7.7
    PATH=$PWD/target/tools/bin:$PATH cargo auditable build --profile dist --locked --features collect,tls,shared-quota \
        --target-dir target/packaged
    objcopy --dump-section .dep-v0=/dev/stdout "$bin" "$work/copy" | python3 -c '
import json, sys, zlib
names = [package["name"] for package in json.loads(zlib.decompress(sys.stdin.buffer.read()))["packages"]]
assert "island-metrics" in names and "hyper" in names, names'
fi
needed=$(readelf -d "$bin" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | xargs)
grep -qvE '^(lib(c|m|gcc_s)\.so\.[0-9]+|ld-linux.*)$' <<<"${needed// /$'\n'}" && fail "the binary needs $needed"
serve built --listen 127.0.0.1:0
curl -fsS "$base/v1/islands?limit=1" | grep -q '"total":300' || fail "the binary does not serve the sample"
stop built
echo "binary: $(stat -c %s "$bin") bytes, symbols included"

# Files that the binary prints. Those that it does not print are left out.
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

# The changes are in data/CHANGELOG.md, which is in the package.
printf 'island-metrics (%s-1) unstable; urgency=medium\n\n  * See data/CHANGELOG.md beside this file.\n\n -- %s  %s\n' \
    "$version" "$(sed -n 's/^maintainer = "\(.*\)"/\1/p' Cargo.toml)" "$(date -R -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")" \
    >target/package/changelog
tool cargo-deb 3.8.0 --no-default-features
CARGO_TARGET_DIR=target/packaged target/tools/bin/cargo-deb --profile dist --no-build --locked --output "$deb" --strip --quiet
dpkg-deb --field "$deb" Depends | grep -q 'libc6 (>= ' || fail "the package does not depend on its libc"
dpkg-deb --info "$deb" | sed -n 's/^ \(Package\|Version\|Depends\|Installed-Size\): /\1 /p'
units=$(dpkg-deb --fsys-tarfile "$deb" | tar -t | sed -n 's|.*/systemd/system/\(..*\)|\1|p' | sort | xargs)
[ "$units" = "island-metrics-collect.service island-metrics-publish.service island-metrics-publish.timer island-metrics-replicate@.service island-metrics-replicate@.timer island-metrics.service island-metrics.socket" ] \
    || fail "the units are $units"
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error "$deb"
else
    echo "skipped: lintian, \`apt-get install lintian\`"
fi
bom=target/package/island-metrics_$version.cdx.json
python3 tests/ops/notices.py --sbom "$bom"
jq -e '.bomFormat == "CycloneDX" and (.components | map(.name) | contains(["hyper", "rustls"]))' "$bom" >/dev/null \
    || fail "the bill of materials is not complete"
echo "package: $deb, $(stat -c %s "$deb") bytes, with $(jq '.components | length' "$bom") crates"
if [ "${1:-}" = --build-only ]; then exit 0; fi

[ "$(id -u)" = 0 ] || fail "installing requires root"
[ -z "$(dpkg-query -W -f '${db:Status-Status}' island-metrics 2>/dev/null || true)" ] || fail "island-metrics is installed here"
before=$(ls -d /var/lib/island-metrics* 2>/dev/null; getent passwd island-metrics || true)
installed=yes
dpkg -i "$deb" >"$work/dpkg" 2>&1 || fail "dpkg -i: $(cat "$work/dpkg")"
[ "$(/usr/bin/island-metrics --version | cut -d ' ' -f 1-2)" = "island-metrics $version" ] || fail "the version is not $version"

# Owners and modes.
stat -c '%a %U %G %n' /usr/bin/island-metrics /etc/island-metrics/island-metrics{,-collect,-replicate}.conf \
    /var/lib/island-metrics{,-published,-collect,-dataset} \
    /lib/systemd/system/island-metrics{.service,.socket,-publish.service,-publish.timer,-collect.service} \
    /usr/lib/sysusers.d/island-metrics.conf /usr/lib/tmpfiles.d/island-metrics.conf \
    /usr/share/doc/island-metrics/copyright /usr/share/doc/island-metrics/licenses/{LICENSE-MIT,LICENSE-APACHE,THIRD-PARTY} \
    >"$work/stat" || fail "files are missing"
grep -v ' /var/lib/' "$work/stat" | grep -v '^644 root root ' | grep -v '^755 root root /usr/bin/island-metrics$' \
    && fail "owners or modes are wrong"
diff - <(grep ' /var/lib/' "$work/stat" | sort) <<'WANTED' || fail "owners or modes of state are wrong"
700 island-metrics island-metrics /var/lib/island-metrics
700 island-metrics-collect island-metrics-collect /var/lib/island-metrics-collect
755 island-metrics-collect island-metrics-collect /var/lib/island-metrics-dataset
755 island-metrics-publish island-metrics-publish /var/lib/island-metrics-published
WANTED
if find / -xdev \( -user island-metrics -o -user island-metrics-publish -o -user island-metrics-collect \) -not -path '/proc/*' 2>/dev/null \
    | grep -v '^/var/lib/island-metrics'; then
    fail "its users own more than their state"
fi
find /etc/systemd/system -name '*island-metrics*' | grep . && fail "a unit is enabled that nobody asked for"

# The path of the data, with the users of the units: collected by the first, published by the second, served by
# the third, with a key issued by root.
as() { setpriv --reuid "$1" --regid "$1" --clear-groups --no-new-privs --inh-caps=-all "${@:2}"; }
start_upstream
collect() {
    (umask 022 && as island-metrics-collect island-metrics collect --once --contact ann@example.com --rate 100 \
        --upstream "$upstream" --dataset /var/lib/island-metrics-dataset \
        --state /var/lib/island-metrics-collect 2>"$work/collect") || fail "collect: $(cat "$work/collect")"
}
publish() {
    umask 022 && as island-metrics-publish island-metrics publish --dataset /var/lib/island-metrics-dataset \
        --to /var/lib/island-metrics-published "$@" 2>"$work/publish"
}
collect
island-metrics keys issue --state /var/lib/island-metrics --address ann@example.com >"$work/key" 2>/dev/null
(publish) || fail "publish: $(cat "$work/publish")"
as_server() { umask 077 && exec setpriv --reuid island-metrics --regid island-metrics --clear-groups --no-new-privs "$@"; }
start installed as_server island-metrics serve --listen 127.0.0.1:0 --state /var/lib/island-metrics \
    --published /var/lib/island-metrics-published
curl -fsS "$base/v1/islands?limit=1" | grep -q '"total":10' || fail "the server does not serve what was collected"
limit() { curl -fsS -o /dev/null -D - "$@" "$base/v1" | sed -n 's/^x-ratelimit-limit: \([0-9]*\).*/\1/p'; }
[ "$(limit)" = 100 ] || fail "an address has no quota"
[ "$(limit -H "Authorization: Bearer $(cat "$work/key")")" = 1000 ] || fail "a key issued by root is not known to the server"
curl -fsS -o /dev/null "$base/dumps/islands.csv.gz" || fail "the server cannot read the dumps"
if as island-metrics touch /var/lib/island-metrics-published/x 2>/dev/null; then fail "the server may write what is published"; fi
if as island-metrics-publish ls /var/lib/island-metrics >/dev/null 2>&1; then fail "the publisher may read the keys"; fi
if as island-metrics-publish touch /var/lib/island-metrics-dataset/x 2>/dev/null; then fail "the publisher may write the dataset"; fi
if as island-metrics-publish ls /var/lib/island-metrics-collect >/dev/null 2>&1; then fail "the publisher may read the collector's state"; fi
if as island-metrics-collect ls /var/lib/island-metrics >/dev/null 2>&1; then fail "the collector may read the keys"; fi
# While the collector replaces files, the publisher waits.
begun=$(date +%s%N)
as island-metrics-collect flock /var/lib/island-metrics-dataset/.lock sleep 2 &
holder=$!
sleep 0.5
(publish --full) || fail "publish: $(cat "$work/publish")"
[ $(($(date +%s%N) - begun)) -gt 1900000000 ] || fail "the publisher did not wait for the collector"
wait "$holder"
collect
stop installed

# Reinstalled: an edited configuration stays.
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
# Shared directories and the state stay, so that keys are not lost.
while read -r path; do
    if [ -f "$path" ] || [ -L "$path" ] && [ ! -d "$path" ]; then fail "purged, and $path is there"; fi
done <"$work/files"
left=$(find / -xdev -name '*island-metrics*' \( -path '/etc/*' -o -path '/usr/*' -o -path '/lib/*' -o -path '/var/*' \) \
    -not -path '/var/lib/island-metrics*' -not -path '/var/tmp/*' 2>/dev/null || true)
[ -z "$left" ] || fail "purged, and there is $left"
[ -n "$(ls -A /var/lib/island-metrics)" ] || fail "purged, and the keys are gone"

# The commands of data/README.md for an installation without the package have the same result.
sed -n '/^<!-- without the package -->$/,/^```$/p' data/README.md | grep -v -e '^<!--' -e '^```' \
    | sed "s|target/release/island-metrics|$bin|" >"$work/by-hand"
[ "$(wc -l <"$work/by-hand")" = 3 ] || fail "data/README.md has no three commands"
mkdir -p /etc/systemd/system
read -ra by_hand <<<"$units"
by_hand=("${by_hand[@]/#//etc/systemd/system/}")
bash -euo pipefail "$work/by-hand"
for unit in $units; do [ -s "/etc/systemd/system/$unit" ] || fail "the three commands leave $unit out"; done
/usr/bin/island-metrics --version >/dev/null
rm /usr/bin/island-metrics "${by_hand[@]}"
by_hand=()

# Removes everything that this script created.
if [ -z "$before" ]; then
    rm -rf /var/lib/island-metrics{,-published,-collect,-dataset}
    for user in island-metrics{,-publish,-collect}; do userdel "$user"; done
fi
echo "package: $(wc -l <"$work/files") paths installed, used, upgraded, removed and purged; state stays"
