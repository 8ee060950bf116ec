#!/bin/sh
# Prints code, peak and title of all islands, counting the offset up until meta.hasMore is false.
# Needs curl 7.76 or newer, and jq. Set ISLAND_METRICS_KEY to spend a key's quota instead of your address's.
set -eu

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

offset=0
more=true
while [ "$more" = true ]; do
    # No --retry: curl obeys Retry-After, which on a spent quota means midnight UTC.
    curl --silent --show-error --compressed --fail-with-body \
        ${ISLAND_METRICS_KEY:+--header "Authorization: Bearer $ISLAND_METRICS_KEY"} \
        --output "$work/page.json" \
        "http://127.0.0.1:8080/v1/islands?limit=200&offset=$offset" || {
        jq --raw-output '.error.message // empty' "$work/page.json" >&2
        exit 1
    }
    jq --raw-output '.islands[] | [.code, .peakCCU, .title] | @tsv' "$work/page.json"
    # A publish between two pages may move an island from one to the other; .meta.generatedAt would tell.
    more=$(jq .meta.hasMore "$work/page.json")
    offset=$((offset + 200))
done
