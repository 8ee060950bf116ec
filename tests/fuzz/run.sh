#!/usr/bin/env bash
# Runs each fuzz target for so many seconds, starting with its seeds and the inputs found by earlier runs.
# Needs a C++ compiler, but no nightly toolchain: flags enable the coverage counters of rustc.
#   tests/fuzz/run.sh SECONDS [TARGET...]
#   tests/fuzz/run.sh build                   only builds the targets
#   tests/fuzz/run.sh build-long              the same for runs of hours: without the calls for comparisons, which take
#                                             half of the time
#   tests/fuzz/run.sh lint                    runs clippy; after `build`, without compiling C and C++ again
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:?"usage: $0 SECONDS [TARGET...] | build | build-long | lint"}
shift
targets=("$@")
[ $# -gt 0 ] || targets=(dataset snapshot request query)
command -v c++ >/dev/null || { echo "fuzz: needs a C++ compiler, \`apt-get install g++\`" >&2; exit 1; }

# With an explicit target, the flags are not used for build scripts and procedural macros.
host=$(rustc -vV | sed -n 's/^host: //p')
out=../../target/fuzz
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table"
if [ "$seconds" = build-long ]; then
    out+=/long
else
    RUSTFLAGS+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
fi
export RUSTC_WRAPPER=$PWD/rustc.sh
options=(--locked --release --target "$host" --target-dir "$out")
if [ "$seconds" = lint ]; then exec cargo clippy "${options[@]}" -- -D warnings; fi
cargo build "${options[@]}"

# The certificate for requests over TLS.
export IM_FUZZ_TLS=$PWD/$out/tls
if [ ! -e "$IM_FUZZ_TLS.key" ]; then
    command -v openssl >/dev/null || { echo "fuzz: needs openssl, \`apt-get install openssl\`" >&2; exit 1; }
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
        -keyout "$IM_FUZZ_TLS.key" -out "$IM_FUZZ_TLS.pem" 2>/dev/null
fi
case $seconds in build*) exit ;; esac

for target in "${targets[@]}"; do
    corpus=$out/corpus/$target
    log=$out/$target.log
    mkdir -p "$corpus" "$out/found"
    # A seed with more header lines than a head may have.
    [ "$target" != request ] || printf '%s\r\n' 'GET /v1 HTTP/1.1' 'Host: x.test' A:\ {1..101} '' >"$corpus/many-lines"
    # Heads over 8 KiB are refused, so inputs of `request` may be longer.
    longest=4096
    [ "$target" != request ] || longest=12288
    words=(-max_total_time="$seconds" -max_len="$longest" -len_control=20 -timeout=20 -rss_limit_mb=2048)
    if [ -e "$target.dict" ]; then
        cp "$target.dict" "$out/$target.dict"
        case $target in
            request | query) python3 words.py ../../src/site/openapi.json ../../src/request/parameters.rs >>"$out/$target.dict" ;;&
            request) grep -oE '"fuzz_live_\w+"' src/known.rs >>"$out/$target.dict" ;;
        esac
        words+=(-dict="$out/$target.dict")
    fi
    if ! timeout "$((seconds + 120))" "$out/$host/release/$target" "${words[@]}" \
        -artifact_prefix="$out/found/$target-" "$corpus" "seeds/$target" >"$log" 2>&1; then
        grep -aE -A 4 'panicked|ERROR' "$log" >&2 || tail -n 20 "$log" >&2
        echo "fuzz: $target fails; the input is in target/fuzz/found, the log is target/fuzz/$target.log" >&2
        echo "fuzz: \`target/fuzz/$host/release/$target INPUT\` shows it again" >&2
        exit 1
    fi
    echo "$target: $(sed -n 's/^Done /ran /p' "$log"); $(grep -aE ' cov: ' "$log" | tail -n 1 | grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+')"
done
