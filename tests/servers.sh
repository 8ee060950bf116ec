# The start and the end of scripts that test the program: sourced with `bin`, the program. Sets `work`, a directory,
# if it is not set. When the script exits for any reason, ends what was started, by its ids, runs the function
# `clean_up` of the script, if it has one, and removes the directory.
script=$(basename "$(dirname "$0")")/$(basename "$0")
fail() { echo "$script: $*" >&2; exit 1; }

work=${work:-$(mktemp -d "${TMPDIR:-/tmp}/island-metrics.XXXXXX")}
declare -A started=()
finish() {
    for one in "${started[@]}"; do kill -- "$one" 2>/dev/null || true; done
    for one in "${started[@]}"; do wait -- "${one#-}" 2>/dev/null || true; done
    if declare -F clean_up >/dev/null; then clean_up; fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start NAME COMMAND...: runs a command in the background that ends with a server's; sets `base` to the address that
# the server logs. Its output is in $work/NAME.out and $work/NAME.log.
start() {
    local name=$1
    shift
    : >"$work/$name.log"
    "$@" >"$work/$name.out" 2>"$work/$name.log" &
    started[$name]=$!
    for _ in $(seq 300); do
        base=$(sed -n 's|.*listening on \(http://127\.0\.0\.1:[0-9]*\).*|\1|p' "$work/$name.log" | head -n 1)
        [ -z "$base" ] || return 0
        kill -0 "${started[$name]}" 2>/dev/null || break
        sleep 0.1
    done
    fail "the server $name did not start: $(cat "$work/$name.log")"
}
serve() { start "$1" "$bin" serve "${@:2}"; }

# stop NAME: ends a server, which must exit with 0.
stop() {
    local process=${started[$1]}
    unset "started[$1]"
    kill "$process"
    wait "$process" || fail "the server $1 ended with $?: $(cat "$work/$1.log")"
}

# Starts the upstream of `collect`, and sets `upstream` to its address.
start_upstream() {
    : >"$work/upstream" # the job may create it later than it is read
    python3 tests/ops/upstream.py >"$work/upstream" &
    started[upstream]=$!
    for _ in $(seq 300); do
        upstream=$(cat "$work/upstream")
        [ -z "$upstream" ] || return 0
        sleep 0.1
    done
    fail "the upstream did not start"
}

port() { PYTHONPATH=tests/ops python3 -Bc 'import checks; print(checks.free_port())'; }

# Runs a command in the background and waits: bash handles no signal while a foreground command runs.
attend() {
    "$@" &
    started[attended]=$!
    wait "${started[attended]}"
    unset 'started[attended]'
}

# modules FOLDER: the packages of npm that the recipes and the pages need, in FOLDER/npm; installed once for each set
# of pinned versions.
modules() {
    local pinned=tests/recipes/package-lock.json
    cmp -s "$pinned" "$1/npm.installed" && return
    rm -rf "$1/npm" "$1/npm.installed"
    mkdir "$1/npm"
    cp tests/recipes/package.json "$pinned" "$1/npm/"
    npm --prefix "$1/npm" ci --no-audit --no-fund --ignore-scripts >"$1/npm.log" 2>&1 \
        || { tail -n 3 "$1/npm.log" >&2; return 1; }
    cp "$pinned" "$1/npm.installed"
}
