#!/usr/bin/env bash
# Checks the units with systemd's tools: that they are valid, the exposure of the services, and that they
# allow the system calls of the binary. Needs no running systemd, but strace for the last check.
# With a binary without the feature `collect`, that command is skipped.
#   BIN=target/packaged/dist/island-metrics tests/ops/systemd.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=$(realpath "${BIN:-target/release/island-metrics}")
[ -x "$bin" ] || { echo "systemd: $bin is not there; build it or set BIN" >&2; exit 1; }
units=data/systemd
source tests/servers.sh

# `verify` requires the binary at the path in the unit. It prints nothing if the unit is valid; some versions
# print errors but exit with 0.
plain=$work/plain activated=$work/activated
mkdir "$plain" "$activated"
for unit in "$units"/*.{service,socket} "$units"/{collect,publish}/* "$units"/replicate/*.*; do
    sed "s|/usr/bin/island-metrics|$bin|; s|/usr/share/island-metrics/|$PWD/$units/replicate/|" "$unit" >"$plain/${unit##*/}"
done
cp "$plain"/* "$activated"
mkdir "$activated/island-metrics.service.d"
cp "$units/examples/socket-activation.conf" "$activated/island-metrics.service.d"
cp "$units"/examples/island-metrics-{admin,tls}.socket "$activated"
for set in "$plain" "$activated"; do
    mapfile -t names < <(find "$set" -maxdepth 1 -type f -printf '%f\n')
    said=$(SYSTEMD_UNIT_PATH="$set:" systemd-analyze verify --man=no --recursive-errors=no "${names[@]}" 2>&1) || fail "verify: $said"
    [ -z "$said" ] || fail "verify: $said"
    echo "${set##*/}: ${#names[@]} units verified"
done

# directory, unit, highest exposure in tenths
score() (
    cd "$1"
    said=$(systemd-analyze security --offline=true --no-pager --threshold="$3" "./$2" 2>&1) \
        || { tail -n 1 <<<"$said"; fail "$2 is more exposed than $3/10"; }
    echo "${1##*/}:$(tail -n 1 <<<"$said" | tr -cd '\40-\176' | sed 's/.*exposure level for/ exposure of/')"
)
score "$plain" island-metrics.service 12
score "$plain" island-metrics-publish.service 12
score "$plain" island-metrics-collect.service 12
score "$plain" island-metrics-replicate@.service 12
score "$activated" island-metrics.service 3

every=$(sed -n 's/^OnCalendar=//p' "$units/publish/island-metrics-publish.timer")
systemd-analyze calendar --iterations=2 "$every" | grep -q 'Iter. #2' || fail "no calendar: $every"

# The users and directories of the units, created in an empty root.
root=$work/root
mkdir -p "$root/etc"
systemd-sysusers --root="$root" "$PWD/data/sysusers.d/island-metrics.conf" 2>/dev/null
systemd-tmpfiles --root="$root" --create "$PWD/data/tmpfiles.d/island-metrics.conf"
id_of() { awk -F: -v name="$1" '$1 == name { print $3 }' "$root/etc/passwd"; }
made=$(cd "$root/var/lib" && stat -c '%a %u %n' island-metrics*)
wanted=$(printf '%s\n' "700 $(id_of island-metrics) island-metrics" "700 $(id_of island-metrics-collect) island-metrics-collect" \
    "755 $(id_of island-metrics-collect) island-metrics-dataset" "755 $(id_of island-metrics-publish) island-metrics-published")
[ "$made" = "$wanted" ] || fail "directories are"$'\n'"$made"$'\n'"want"$'\n'"$wanted"
while read -r user; do
    [ -n "$(id_of "$user")" ] || fail "no user $user in sysusers.d"
done < <(sed -n 's/^\(User\|Group\)=//p' "$units"/*.service "$units"/*/*.service | sort -u)
# A dataset that another program writes keeps its owner.
chown 12345 "$root/var/lib/island-metrics-dataset"
systemd-tmpfiles --root="$root" --create "$PWD/data/tmpfiles.d/island-metrics.conf"
[ "$(stat -c %u "$root/var/lib/island-metrics-dataset")" = 12345 ] || fail "the dataset changed its owner"
echo "3 users, 4 directories"

# Started by a connection to its socket. It has no other network, if the script may create a network namespace.
if command -v systemd-socket-activate >/dev/null; then
    port=$(port)
    alone=()
    if unshare --net true 2>/dev/null; then alone=(unshare --net); fi
    systemd-socket-activate -l "127.0.0.1:$port" --fdname=api "${alone[@]}" "$bin" serve --base-url https://api.example 2>"$work/activated.log" &
    started[activated]=$!
    curl -fsS -o /dev/null --retry 20 --retry-delay 1 --retry-connrefused "http://127.0.0.1:$port/v1/health" \
        || fail "the socket's server does not answer: $(cat "$work/activated.log")"
    stop activated
    echo "activated by its socket, ${alone[*]:-with the network}"
fi

# The examples name settings of the binary, with valid values.
sed -n 's/^#\(ISLAND_METRICS_[A-Z_]*\)=.*/\1/p' data/etc/*.conf | sort -u >"$work/said"
"$bin" --help | sed -n 's/^ *--\([a-z-]*\).*/\1/p' | tr 'a-z-' 'A-Z_' | sed 's/^/ISLAND_METRICS_/' | sort -u >"$work/known"
unknown=$(comm -23 "$work/said" "$work/known")
[ -z "$unknown" ] || fail "an example sets what no flag is named: $unknown"
sed -n 's/^#\(ISLAND_METRICS_[A-Z_]*=\)/\1/p' data/etc/island-metrics.conf \
    | sed "s|/var/log/island-metrics|$work|" >"$work/settings"
"$bin" serve --shared-quota redis://store --print-config >/dev/null 2>&1 || sed -i '/_SHARED_/d' "$work/settings"
# As in the unit.
echo "ISLAND_METRICS_STATE=$work/state" >>"$work/settings"
# shellcheck source=/dev/null
(set -a && . "$work/settings" && "$bin" serve --print-config >"$work/printed") || fail "the example is no configuration"
echo "$(wc -l <"$work/settings") settings of the example, $(grep -c '# ISLAND_METRICS' "$work/printed") of them the server's"

has_collect=
if "$bin" collect --plan --dataset "$work/dataset" --state "$work/collector" --contact ann@example.com >/dev/null 2>&1; then
    has_collect=yes
    sed -n 's/^#\(ISLAND_METRICS_[A-Z_]*=\)/\1/p' data/etc/island-metrics-collect.conf >"$work/settings"
    # shellcheck source=/dev/null
    (set -a && . "$work/settings" && "$bin" collect --plan --dataset "$work/dataset" --state "$work/collector" >/dev/null) \
        || fail "the collector's example is no configuration"
    echo "$(wc -l <"$work/settings") settings of the collector's example"
else
    echo "systemd: $bin has no collect; its settings and system calls are not checked"
fi

if ! command -v strace >/dev/null; then
    echo "systemd: no strace; the calls that the binary makes are not compared with those allowed"
    exit 0
fi
# Names of the calls of a set, including those of nested sets.
calls() {
    local name
    for name in $(systemd-analyze syscall-filter --no-pager "$1" | sed '1d;s/#.*//'); do
        case $name in @*) calls "$name" ;; *) echo "$name" ;; esac
    done
}
calls @system-service | sort -u >"$work/named"
{ calls @privileged; calls @resources; } | sort -u >"$work/refused"
comm -23 "$work/named" "$work/refused" >"$work/allowed"
# Calls that the server's unit allows by their names.
sed -n 's/^SystemCallFilter=\([a-z_]*\)$/\1/p' "$plain/island-metrics.service" >"$work/by_name.serve"
traces=(publish serve)
if command -v rsync >/dev/null; then
    traces+=(replicate)
else
    echo "systemd: no rsync; the calls of a copy are not compared with those allowed"
fi
if [ -n "$has_collect" ]; then
    traces+=(collect)
    echo fchown >"$work/by_name.collect" # SQLite makes this call only as root, which the service is not
    start_upstream
    # By name, so that the system's name services take part.
    strace -f -qq -o "$work/trace.collect" "$bin" collect --once --contact ann@example.com --rate 100 --admin 127.0.0.1:0 \
        --upstream "${upstream/127.0.0.1/localhost}" --dataset "$work/dataset" --state "$work/collector" \
        2>"$work/stderr" || fail "collect: $(cat "$work/stderr")"
fi
strace -f -qq -o "$work/trace.publish" "$bin" publish --dataset data/sample --to "$work/published" 2>/dev/null
if command -v rsync >/dev/null; then
    mkdir "$work/copy"
    strace -f -qq -o "$work/trace.replicate" "$units/replicate/replicate" rsync "$work/published" "$work/copy" 2>"$work/stderr" \
        || fail "replicate: $(cat "$work/stderr")"
fi
mkdir -m 700 "$work/state"
# -I2: SIGTERM also ends what it traces.
start traced strace -I2 -f -qq -o "$work/trace.serve" "$bin" serve --published "$work/published" --state "$work/state" --listen 127.0.0.1:0
"$bin" keys issue --state "$work/state" --address ann@example.com >/dev/null 2>&1
"$bin" publish --dataset data/sample --to "$work/published" --full 2>/dev/null
for path in /v1/islands?limit=200 /v1/live /dumps/islands.csv /docs; do
    curl -fsS -o /dev/null "$base$path"
done
sleep 1.5 # what looks after keys and publishes looks by then
kill "$(ps -o pid= --ppid "${started[traced]}" | tr -d ' ')" # and strace ends with it
wait "${started[traced]}" || fail "the server ended with $?"
unset 'started[traced]'
for traced in "${traces[@]}"; do
    sed -n 's/^[0-9]* \+\([a-z0-9_]*\)(.*/\1/p' "$work/trace.$traced" | sort -u >"$work/made.$traced"
    [ "$(wc -l <"$work/made.$traced")" -gt 20 ] || fail "$traced: traced too little"
    # systemd itself executes the binary, before it installs the filter.
    touch "$work/by_name.$traced"
    refused=$(comm -23 "$work/made.$traced" "$work/allowed" | grep -vxF -e execve -f "$work/by_name.$traced" || true)
    [ -z "$refused" ] || fail "$traced makes calls that its unit refuses: $refused"
    echo "$traced: $(wc -l <"$work/made.$traced") kinds of system calls, none refused"
done
