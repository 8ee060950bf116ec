#!/usr/bin/env bash
# Makes the screenshots of the README with headless Chromium, from the sample dataset, which is shifted in time so that it ends now.
#   [BIN=target/release/island-metrics] data/images/make.sh
# Needs chromium, pngquant and python3.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=${BIN:-target/release/island-metrics}
[ -x "$bin" ] || { echo "images: $bin is not there; build it or set BIN" >&2; exit 1; }
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ] || ! command -v pngquant >/dev/null; then echo "images: apt-get install chromium pngquant" >&2; exit 1; fi
source tests/servers.sh

cp -r data/sample "$work/dataset"
# The dates are shifted by whole days and steps to the present, because pages mark old data.
python3 - "$work/dataset" <<'PY'
import datetime, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
newest = max(int(file.stem) for file in (folder / "live").iterdir())
seconds = (int(time.time()) - newest) // 600 * 600
days = datetime.date.fromtimestamp(newest + seconds) - datetime.date.fromtimestamp(newest)
later = lambda number: str(int(number) + seconds)
move = lambda file, stem: file.rename(file.with_name(f"{stem}.csv"))
for file in sorted((folder / "live").iterdir(), reverse=True):
    move(file, later(file.stem))
for file in sorted([*(folder / "daily").iterdir(), *(folder / "ccu").iterdir()], reverse=True):
    move(file, datetime.date.fromisoformat(file.stem) + days)
header, *points = (folder / "platform.csv").read_text().splitlines()
moved = [",".join([later(point.split(",")[0]), point.split(",")[1]]) for point in points]
(folder / "platform.csv").write_text("\n".join([header, *moved, ""]))
PY
"$bin" publish --dataset "$work/dataset" --to "$work/published" >"$work/publish" 2>&1 || { cat "$work/publish" >&2; exit 1; }
serve pages --listen 127.0.0.1:0 --published "$work/published"

for image in dashboard=/ docs=/docs; do
    name=${image%%=*}
    "$chromium" --headless --no-sandbox --hide-scrollbars --force-color-profile=srgb --window-size=1280,800 \
        --user-data-dir="$work/profile" --virtual-time-budget=3000 \
        --screenshot="$work/$name.png" "$base${image#*=}" >"$work/chromium" 2>&1 \
        || { cat "$work/chromium" >&2; exit 1; }
    pngquant --force --output "data/images/$name.png" 64 "$work/$name.png"
    bytes=$(stat -c %s "data/images/$name.png")
    echo "images: data/images/$name.png, $bytes bytes"
    [ "$bytes" -le 153600 ] || { echo "images: $name.png is larger than 150 KiB" >&2; exit 1; }
    [ "$bytes" -ge 10240 ] || { echo "images: $name.png is blank" >&2; exit 1; }
done
