#!/usr/bin/env bash
# The ten islands with the most plays in the last 30 days, from the dumps: without a key, and without a quota.
# A file that has not changed is not sent again.
set -euo pipefail

file=last30days.csv.gz
if [ ! -e "$file" ]; then rm -f "$file.etag"; fi
curl --fail --silent --show-error --etag-compare "$file.etag" --etag-save "$file.etag.new" --output "$file.new" \
    "http://127.0.0.1:8080/dumps/$file"
if [ -s "$file.new" ]; then
    mv "$file.new" "$file"
    mv "$file.etag.new" "$file.etag"
fi
rm -f "$file.new" "$file.etag.new"

# date,code,peakCCU,uniquePlayers,minutesPlayed,favorites,plays,…
gunzip --stdout "$file" |
    awk -F , 'NR > 1 { plays[$2] += $7 } END { for (code in plays) print plays[code], code }' |
    sort --key 1,1nr --key 2,2 | sed -n 1,10p
