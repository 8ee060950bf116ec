#!/usr/bin/env bash
# Runs rustc, with coverage counters in the code under test and in the parsers that it uses only: after each run, the
# engine reads all counters. The checks of `request` take most of its time with counters, and read responses only; those
# of the other targets are parsers of their own. `run.sh` names this file to cargo.
set -euo pipefail

case ${CARGO_PKG_NAME-}:${CARGO_BIN_NAME-} in
    fuzz:request) ;;
    island-metrics:* | fuzz:* | csv-core:* | httparse:* | hyper:*) exec "$@" ;;
esac
words=()
for word in "$@"; do
    case $word in
        -Cpasses=sancov-module | -Cllvm-args=-sanitizer-coverage-*) ;;
        *) words+=("$word") ;;
    esac
done
exec "${words[@]}"
