#!/bin/sh
# Prints the code, peak and title of every island made with UEFN, following the Link header from page to page.
# Needs curl 7.76 or newer, and jq. Set ISLAND_METRICS_KEY to use a key. Each page of 200 islands costs one request:
# 20,000 islands cost 100, which is the usual quota of a day without a key. The dumps cost none.
set -eu

url='http://127.0.0.1:8080/v1/islands?createdIn=uefn&limit=200'

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

while [ -n "$url" ]; do
    # Do not add --retry: curl would obey Retry-After and wait until 00:00 UTC when the quota is spent.
    curl --silent --show-error --compressed --fail-with-body \
        ${ISLAND_METRICS_KEY:+--header "Authorization: Bearer $ISLAND_METRICS_KEY"} \
        --dump-header "$work/head" --output "$work/page.json" "$url" || {
        jq --raw-output '.error.message // empty' "$work/page.json" >&2
        exit 1
    }
    jq --raw-output '.islands[] | [.code, .peakCCU, .title] | @tsv' "$work/page.json"
    # Link: <first>; rel="first", <next>; rel="next", … and no rel="next" on the last page.
    url=$(sed -n 's/^[Ll]ink: .*<\([^>]*\)>; rel="next".*/\1/p' "$work/head")
done
