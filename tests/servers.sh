# Starts servers for scripts, and ends them by their ids when the script exits for any reason. Sourced with `bin`, the
# program, and `work`, a directory that is removed at the end.
started=()
finish() {
    for one in "${started[@]}"; do kill "$one" 2>/dev/null || true; done
    for one in "${started[@]}"; do wait "$one" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# serve NAME ARGUMENTS...: sets `base` to the address that the server logs.
serve() {
    local name=$1
    shift
    : >"$work/$name.log"
    "$bin" serve "$@" >"$work/$name.out" 2>"$work/$name.log" &
    started+=($!)
    for _ in $(seq 100); do
        base=$(sed -n 's|^listening on \(http://127\.0\.0\.1:[0-9]*\).*|\1|p' "$work/$name.log")
        [ -n "$base" ] && return
        sleep 0.1
    done
    echo "the server $name did not start:" >&2
    cat "$work/$name.log" >&2
    exit 1
}

# Runs a command in the background and waits: bash handles no signal while a foreground command runs.
attend() {
    "$@" &
    started+=($!)
    wait $!
}
