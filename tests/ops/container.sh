#!/usr/bin/env bash
# Builds the static binary and the container image of data/container, starts the image with a read-only root, and
# uses it: publish, serve, healthcheck, collect, SIGTERM. Requires root, buildah and crun, but no network and no
# running container engine. The binary is built with little optimization, since nothing is measured here.
#   tests/ops/container.sh [build]      `build` builds the binary only
set -euo pipefail
cd "$(dirname "$0")/../.."

# The first stage of the Containerfile, with the toolchain of this machine.
target=$(rustc -vV | sed -n 's/^host: //p')
features=$(sed -n 's/.*--features \([a-z,-]*\).*/\1/p' data/container/Containerfile)
RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --profile plain --features "$features" --target "$target" \
    --target-dir target/plain
if [ "${1:-}" = build ]; then exit; fi

for tool in buildah crun; do
    command -v "$tool" >/dev/null || { echo "skipped: needs $tool, \`apt-get install $tool\`"; exit 0; }
done
if ! unshare --mount --pid --ipc --uts --fork mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null; then
    echo "skipped: needs permission to create namespaces and to mount in them"
    exit 0
fi
# crun refuses the hybrid cgroup hierarchy of some machines, even if it uses no cgroup. So the script runs in its own
# mount namespace with the unified hierarchy only.
if [ "$(stat -fc %T /sys/fs/cgroup)" != cgroup2fs ]; then
    if [ "${1:-}" = --inside ]; then
        mount -t cgroup2 none /sys/fs/cgroup
    else
        exec unshare --mount "$0" --inside
    fi
fi
source tests/servers.sh
chmod 755 "$work"
# Images and containers of this test only. vfs needs no kernel module.
build() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
engine() { crun --root "$work/crun" --cgroup-manager=disabled "$@"; }
serving=""
clean_up() {
    if [ -n "$serving" ]; then engine delete --force "$serving" 2>/dev/null || true; fi
    build rm --all >/dev/null 2>&1 || true
}

# The rest of the Containerfile's first stage.
mkdir -p "$work"/files/{image/{etc/ssl/certs,licenses},volumes/{published,state,dataset}}
bin=$work/files/image/island-metrics
cp "target/plain/$target/plain/island-metrics" "$bin"
strip "$bin"
cp /etc/ssl/certs/ca-certificates.crt "$work/files/image/etc/ssl/certs/"
cp data/licenses/* "$work/files/image/licenses/"
readelf -d "$bin" | grep -q NEEDED && fail "the binary is not static"

# The Containerfile's last stage, unchanged; `build` is a directory instead of a stage.
sed -n '/^FROM scratch$/,$p' data/container/Containerfile >"$work/Containerfile"
build build --quiet --format docker --isolation chroot --build-context "build=$work/files" \
    -f "$work/Containerfile" -t island-metrics "$work/files" >/dev/null
build inspect --type image island-metrics | python3 -c '
import json, sys
config = json.load(sys.stdin)["Docker"]["config"]
wanted = {"User": "65532:65532", "StopSignal": "SIGTERM", "Entrypoint": ["/island-metrics"], "Cmd": ["serve"]}
for name, value in wanted.items():
    assert config[name] == value, f"{name} is {config[name]}"
assert config["Healthcheck"]["Test"] == ["CMD", "/island-metrics", "healthcheck"], config["Healthcheck"]
assert sorted(config["Volumes"]) == ["/dataset", "/published", "/state"], config["Volumes"]
assert config["Labels"]["org.opencontainers.image.licenses"] == "MIT OR Apache-2.0", config["Labels"]
json.dump(config, open(sys.argv[1], "w"))
' "$work/config.json"
container=$(build from island-metrics)
root=$(build mount "$container")
found=$(cd "$root" && find . -type f | sort | xargs)
licences="./licenses/LICENSE-APACHE ./licenses/LICENSE-MIT ./licenses/THIRD-PARTY"
[ "$found" = "./etc/ssl/certs/ca-certificates.crt ./island-metrics $licences" ] || fail "the image has the files $found"
[ "$(stat -c '%a %u' "$root/island-metrics")" = "755 0" ] || fail "the binary is not root's"
for volume in state published dataset; do
    [ "$(stat -c %u "$root/$volume")" = 65532 ] || fail "/$volume is not the user's"
done
echo "image: $(stat -c %s "$bin") bytes of binary, features $features"

mkdir "$work"/{published,state,own,written}
chown 65532:65532 "$work"/{published,state,written}
printf '127.0.0.1 localhost upstream.example\n' >"$work/hosts"
listen=127.0.0.1:$(port) admin=127.0.0.1:$(port)

# A bundle that runs the image like an engine with --read-only, --cap-drop=ALL, no-new-privileges and the
# network of the host. Parameters: arguments of the command, then mounts as SOURCE:DESTINATION:OPTION.
bundle() {
    rm -rf "$work/bundle"
    mkdir "$work/bundle"
    python3 - "$work" "$root" "$listen" "$admin" "$@" <<'PY'
import json, sys
work, root, listen, admin, *rest = sys.argv[1:]
config = json.load(open(f"{work}/config.json"))
mounts = [part.split(":") for part in rest if ":/" in part and part.startswith("/")]
arguments = [part for part in rest if not (":/" in part and part.startswith("/"))]
user, group = map(int, config["User"].split(":"))
environment = [line for line in config["Env"] if not line.startswith(("ISLAND_METRICS_LISTEN=", "ISLAND_METRICS_ADMIN="))]
environment += [f"ISLAND_METRICS_LISTEN={listen}", f"ISLAND_METRICS_ADMIN={admin}"]
none = {name: [] for name in ("bounding", "effective", "permitted", "inheritable", "ambient")}
json.dump({
    "ociVersion": "1.0.2",
    "process": {
        "user": {"uid": user, "gid": group}, "args": config["Entrypoint"] + (arguments or config["Cmd"]), "env": environment,
        "cwd": "/", "noNewPrivileges": True, "capabilities": none,
    },
    "root": {"path": root, "readonly": True},
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
    ]
    + [{"destination": to, "type": "bind", "source": source, "options": ["rbind", option]} for source, to, option in mounts],
    "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
}, open(f"{work}/bundle/config.json", "w"))
PY
}
# Runs a command in the image until it exits.
run() { bundle "$@" && engine run --bundle "$work/bundle" "once-$$" 2>"$work/stderr"; }

# Engines create the mount points.
mkdir "$root"/{proc,dev}
touch "$root/etc/hosts"
before=$(cd "$root" && find . -printf '%p %y %m %U %s %T@\n' | sort)
run publish --dataset /dataset --to /published "$PWD/data/sample:/dataset:ro" "$work/published:/published:rw" || fail "publish: $(cat "$work/stderr")"
run check --published /published "$work/published:/published:ro" || fail "check: $(cat "$work/stderr")"
run check --dataset /dataset "$PWD/data/sample:/dataset:ro" || fail "check: $(cat "$work/stderr")"
run keys issue --address ann@example.com "$work/state:/state:rw" >"$work/key" || fail "keys: $(cat "$work/stderr")"
if run publish --dataset /dataset --to /published "$PWD/data/sample:/dataset:ro" "$work/own:/published:rw"; then fail "the user may write what is root's"; fi

bundle "$work/published:/published:ro" "$work/state:/state:rw"
serving=serve-$$
engine run --detach --bundle "$work/bundle" "$serving" >"$work/stdout" 2>"$work/stderr"
healthy() { engine exec "$serving" /island-metrics healthcheck; }
for _ in $(seq 100); do
    if healthy >"$work/health" 2>&1; then break; fi
    sleep 0.1
done
grep -q '^ready; serving the publish of ' "$work/health" || fail "not healthy: $(cat "$work/health" "$work/stderr")"
curl -fsS "http://$listen/v1/islands?limit=1" | grep -q '"total":300' || fail "the sample is not served"
curl -fsS -o /dev/null -D - -H "Authorization: Bearer $(cat "$work/key")" "http://$listen/v1" \
    | grep -qi '^x-ratelimit-limit: 1000' || fail "the key is not known"
curl -fsS -o /dev/null "http://$listen/dumps/islands.csv.gz" || fail "no dumps"
if engine exec "$serving" /bin/sh -c true 2>/dev/null; then fail "the image has a shell"; fi
process=$(engine state "$serving" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
[ "$(awk '/^(Uid|Gid):/ { print $2, $3, $4 }' "/proc/$process/status" | sort -u)" = "65532 65532 65532" ] || fail "not the user 65532"
[ "$(awk '/^CapEff:/ { print $2 }' "/proc/$process/status")" = 0000000000000000 ] || fail "it has capabilities"

# SIGTERM ends the server in the time that orchestrators allow, also as process 1 and with an open connection.
exec 8<>"/dev/tcp/${listen/://}"
printf 'GET /v1/health HTTP/1.1\r\nHost: a\r\n\r\n' >&8
begun=$(date +%s%N)
engine kill "$serving" TERM
while [ -d "/proc/$process" ] && [ "$(awk '/^State:/ { print $2 }' "/proc/$process/status" 2>/dev/null)" != Z ]; do
    [ $(($(date +%s%N) - begun)) -lt 27000000000 ] || fail "SIGTERM does not end it"
    sleep 0.05
done
took=$((($(date +%s%N) - begun) / 1000000))
exec 8>&-
engine delete --force "$serving" 2>/dev/null || true
serving=
if curl -fsS -o /dev/null "http://$listen/v1/health" 2>/dev/null; then fail "it serves after SIGTERM"; fi

# A static binary resolves names. Names of a file are tested; the code is the same for DNS.
case $features in
    *collect*)
        start_upstream
        mkdir "$work/collector"
        chown 65532:65532 "$work/collector"
        run collect --dataset /dataset --once --contact ann@example.com --rate 100 --upstream "${upstream/127.0.0.1/localhost}" \
            "$work/written:/dataset:rw" "$work/collector:/state:rw" "$work/hosts:/etc/hosts:ro" || fail "collect: $(cat "$work/stderr")"
        [ -s "$work/written/islands.csv" ] || fail "collect wrote no islands"
        ;;
esac

after=$(cd "$root" && find . -printf '%p %y %m %U %s %T@\n' | sort)
[ "$before" = "$after" ] || fail "the image changed: $(diff <(echo "$before") <(echo "$after"))"
echo "container: published, served, healthy, used with a read-only root; SIGTERM took $took ms"
