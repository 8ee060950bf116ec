"""Checks of the recipes that are pages: in headless Chromium, from an origin that is not the server's."""

import contextlib
import datetime
import functools
import http.server
import json
import os
import re
import threading

from harness import *


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a directory without logging."""

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def site(recipe, base):
    """The address of a recipe, which is the only file of its server."""
    files = functools.partial(Files, directory=os.path.dirname(written(recipe, base)))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{recipe}"
    finally:
        server.shutdown()


def browser():
    with site("browser.html", PUBLISHED) as page:
        mark_log()
        seen = json.loads(run("node", os.path.join(HERE, "browser.mjs"), NPM, CHROMIUM, page, KEY))
        asked = requests_logged(5)
    key = KEY.split("_")[2]
    titles = [f"{row['title']} ({row['peakCCU']} players at the peak)"
              for row in get(PUBLISHED, "/v1/islands?limit=10")[1]["islands"]]
    for name in ("anonymous", "query", "header"):
        same(seen[name]["islands"], titles, name)
    want(re.fullmatch(r"6\d{4} of 65535 requests left today", seen["anonymous"]["quota"]), seen["anonymous"]["quota"])
    left = [int(re.fullmatch(r"(\d+) of 1000 requests left today", seen[name]["quota"])[1]) for name in ("query", "header")]
    same(left[0] - left[1], 1, "spent between the two ways")
    want(seen["wrong"]["quota"].startswith("401 invalid_key: "), seen["wrong"]["quota"])
    # By the server's log: one preflight in total, for the one URL that was requested with the header, three times.
    # Requests that Chromium answers from its cache are not counted.
    same([line["status"] for line in asked if line["method"] == "OPTIONS"], ["204"], "preflights")
    kinds = [(line["status"], line.get("key")) for line in asked if line["method"] == "GET"]
    same((kinds[0], kinds[1], kinds[-1]), (("200", None), ("200", key), ("401", None)), "requests")
    want(all(kind in (("200", key), ("304", key)) for kind in kinds[2:-1]), kinds)


def known_peaks():
    """Days and peaks by island, from both directories of the dataset that contain peaks."""
    known = {}
    for folder in ("ccu", "daily"):
        for name in os.listdir(os.path.join(DATASET, folder)):
            for row in rows(f"{folder}/{name}"):
                if row["peakCCU"]:
                    known.setdefault(row["code"], {})[datetime.date.fromisoformat(name[:10])] = int(row["peakCCU"])
    return {code: sorted(held.items()) for code, held in known.items()}


def runs(held):
    """The number of days in each run of days without a gap."""
    lengths = []
    for at, (day, _) in enumerate(held):
        if at and (day - held[at - 1][0]).days == 1:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


def drawn(seen, held, title):
    """Checks that each day has its position, a height in proportion to its peak, and that each run is one line."""
    highest = max(peak for _, peak in held)
    first, last = held[0][0], held[-1][0]
    same(seen["title"], f"{title}: highest number of players by day", "title")
    same(seen["labels"], [f"{highest:,}", "0", str(first), str(last)], "labels")
    lines = [re.findall(r"([\d.]+) ([\d.]+)h0", line) for line in seen["path"].split("M")[1:]]
    same([len(line) for line in lines], runs(held), f"days in each line of {title}")
    points = [(float(x), float(y)) for line in lines for x, y in line]
    for (x, y), (day, peak) in zip(points, held):
        across = (day - first) / (last - first) if last > first else 0
        want(abs(x - (60 + 640 * across)) < 0.06, f"{day} is at {x}")
        # SVG counts from the top: zero is at 230.
        want(abs(y - (230 - 210 * peak / highest)) < 0.06, f"{peak} is at {y}")


def chart():
    known = known_peaks()
    titles = {row["code"]: row["title"] for row in rows("islands.csv")}
    whole = next(code for code, held in known.items() if len(held) > 10 and len(runs(held)) == 1)
    cut = max(known, key=lambda code: len(runs(known[code])))
    # An island whose curve has a single day between gaps, which is drawn as a dot.
    alone = next(code for code, held in known.items() if len(held) > 10 and 1 in runs(held)[1:-1])
    newest = {row["code"]: number(row["peakCCU"]) or 0 for row in rows(f"daily/{days()[-1]}.csv")}
    top = min(newest, key=lambda code: (-newest[code], code))
    want(len(runs(known[cut])) > 2, "no island has two gaps")

    def look(page, *queries):
        return json.loads(run("node", os.path.join(HERE, "chart.mjs"), NPM, CHROMIUM, *(page + query for query in queries)))

    with site("chart.html", PUBLISHED) as page:
        chosen = (whole, cut, alone)
        *charts, unknown, odd, never = look(
            page, "", *(f"?code={code}" for code in chosen), "?code=0000-0000-0000", "?code=%3Cb%3E/../x", "?code=9999-9999-9999")
    for seen, code in zip(charts, (top, *chosen)):
        drawn(seen, known[code], titles[code])
    for seen, said in ((unknown, "404: island 0000-0000-0000 is not tracked"), (never, "no daily peaks are known for NA")):
        same(seen, {"title": f"No chart: {said}.", "path": None, "labels": []}, "without a chart")
    want(re.match("No chart: 40[04]: ", odd["title"]), odd["title"])
    with site("chart.html", SAMPLE) as page:
        [seen] = look(page, "")
    want(seen["path"], "the sample has no chart")

    spend(SMALL)
    before = int(get(SMALL, "/v1/health")[0]["X-RateLimit-Reset"])
    with site("chart.html", SMALL) as page:
        [seen] = look(page, "")
    said = re.fullmatch(r"No chart: today's quota is spent; it resets in (\d+) h (\d+) min\.", seen["title"])
    want(said, seen["title"])
    waits = int(said[1]) * 60 + int(said[2])
    want(0 <= before + 59 - waits * 60 < 120, f"it says {waits} minutes of {before} seconds")
    with site("chart.html", "http://127.0.0.1:9") as page:
        [seen] = look(page, "")
    same(seen["title"], "No chart: Failed to fetch.", "without a server")


def most_played():
    titles = {row["code"]: row["title"] for row in rows("islands.csv")}
    folder = os.path.join(DATASET, "live")
    newest = max(int(name[:-4]) for name in os.listdir(folder))
    step = [(row["code"], number(row["players"]) or 0) for row in rows(f"live/{newest}.csv")]
    # A later step, in which each island has the players of another one.
    players = [count for _, count in step]
    later = [(code, count) for (code, _), count in zip(step, players[1:] + players[:1])]
    with open(os.path.join(folder, f"{newest + 600}.csv"), "w", encoding="utf-8") as file:
        file.write("code,players\n" + "".join(f"{code},{count}\n" for code, count in later))

    def listed(step):
        step = sorted(step, key=lambda row: (-row[1], row[0]))
        return [f"{titles[code] or code}: {count:,}" for code, count in step[:100]]

    def look(page, *publish):
        return json.loads(run("node", os.path.join(HERE, "most_played.mjs"), NPM, CHROMIUM, page, *publish))

    with site("most_played.html", PUBLISHED) as page:
        mark_log()
        seen = look(page, PUBLISHED, BIN, "publish", "--dataset", DATASET, "--to", os.path.join(WORK, "published"))
        asked = requests_logged(4, "/v1/live")
    want(listed(step) != listed(later) and len(step) > 100, "the steps are not told apart")
    same([state["islands"] for state in seen], 2 * [listed(step)] + 2 * [listed(later)], "islands")
    total = sum(players)
    want(all(state["status"].startswith(f"{total:,} players on the tracked islands at ") for state in seen), seen[0]["status"])
    # A request at the start, and one for each refresh of the visible page, without preflights.
    same([(line["method"], line["status"]) for line in asked],
         [("GET", "200"), ("GET", "304"), ("GET", "200"), ("GET", "304")], "requests")

    spend(SMALL)
    with site("most_played.html", SMALL) as page:
        [seen] = look(page)
    want(seen["status"].startswith("429 rate_limited: the daily quota of 3 requests is spent"), seen["status"])
    with site("most_played.html", "http://127.0.0.1:9") as page:
        [seen] = look(page)
    same(seen["status"], "No response: Failed to fetch", "without a server")
