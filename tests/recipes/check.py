"""Runs the recipes for run.sh, which sets the environment, and compares their results with the files of the dataset.

What is right is computed here, from CSV and with the standard library alone; nothing is shared with a recipe.
"""

import collections
import glob
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import readers
from browsers import browser, chart, most_played
from harness import *


def shell_pages(recipe, query, chosen):
    wanted = listing(chosen)
    want(len(wanted) > 400, f"{len(wanted)} islands are too few for three pages")
    path = written(recipe, PUBLISHED)
    same(listed(run(path)), wanted, "islands")
    same(len(wanted), get(PUBLISHED, f"/v1/islands?limit=1&{query}")[1]["meta"]["total"], "meta.total")
    mark_log()
    run(path, key=KEY)
    asked = requests_logged(-(-len(wanted) // 200))
    same(len(asked), -(-len(wanted) // 200), "requests with a key")
    same({line["key"] for line in asked}, {KEY.split("_")[2]}, "keys in the log")
    same({line["enc"] for line in asked}, {"gzip"}, "encodings")
    on_sample(query, written(recipe, SAMPLE))
    refused(written(recipe, SMALL))


def page_by_link():
    shell_pages("page_by_link.sh", "createdIn=uefn", lambda row: row["createdIn"] == "uefn")


def page_by_has_more():
    shell_pages("page_by_has_more.sh", "", lambda row: True)


def etag():
    path = written("etag.sh", PUBLISHED)
    folder = os.path.dirname(path)
    mark_log()
    same(run(path, folder=folder), "live.json is new\n", "the first time")
    with open(os.path.join(folder, "live.json"), encoding="utf-8") as file:
        first = json.load(file)
    same(first, get(PUBLISHED, "/v1/live")[1], "live.json")
    mark_log()
    same(run(path, folder=folder), "live.json has not changed\n", "the second time")
    [line] = requests_logged(1)
    same((line["status"], line["bytes"]), ("304", "0"), "the second answer")
    newest = max(glob.glob(os.path.join(DATASET, "live", "*.csv")))
    later = os.path.join(DATASET, "live", f"{first['time'] + 600}.csv")
    shutil.copy(newest, later)
    run(BIN, "publish", "--dataset", DATASET, "--to", os.path.join(WORK, "published"))
    deadline = time.monotonic() + 10
    while get(PUBLISHED, "/v1/live")[1]["time"] == first["time"] and time.monotonic() < deadline:
        time.sleep(0.1)
    same(run(path, folder=folder), "live.json is new\n", "after a publish")
    same(run(path, folder=folder), "live.json has not changed\n", "after that")
    with open(os.path.join(folder, "live.json"), encoding="utf-8") as file:
        same(json.load(file)["time"], first["time"] + 600, "time of live.json")
    same(sorted(os.listdir(folder)), ["etag.sh", "live.etag", "live.json"], "files left")
    path = written("etag.sh", SMALL, folder)
    refused(path, folder=folder)
    same(sorted(os.listdir(folder)), ["etag.sh", "live.etag", "live.json"], "files left after a refusal")


def last_days():
    def most_played(count):
        plays = collections.Counter()
        for day in days()[-count:]:
            for row in rows(f"daily/{day}.csv"):
                plays[row["code"]] += int(row["plays"] or 0)
        highest = sorted(plays, key=lambda code: (-plays[code], code))[:10]
        return "".join(f"{plays[code]} {code}\n" for code in highest)

    path = written("last_days.sh", PUBLISHED)
    folder = os.path.dirname(path)
    mark_log()
    for sent, count, *argument in (("200", 30), ("304", 30), ("304", 7, "7"), ("200", 45, "45")):
        same(run(path, *argument, folder=folder), most_played(count), f"islands of {count} days")
        [line] = requests_logged(1)
        same(line["status"], sent, "the answer")
        mark_log()
    files = ["history.csv.gz", "last30days.csv.gz"]
    tags = [f"{file}.etag" for file in files]
    same(sorted(os.listdir(folder)), sorted([*files, *tags, "last_days.sh"]), "files left")


class Unready(http.server.BaseHTTPRequestHandler):
    """Not ready twice, then an empty page."""

    asked = 0

    def do_GET(self):
        Unready.asked += 1
        ready = Unready.asked > 2
        body = b'{"islands":[],"meta":{"total":0,"hasMore":false}}' if ready else b'{"error":{}}'
        self.send_response(200 if ready else 503)
        if not ready:
            self.send_header("Retry-After", "1")
        self.send_header("X-RateLimit-Remaining", "9")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def requests_session():
    recipe = "requests_session.py"
    wanted = listing(lambda row: "1v1" in row["tags"].split("|"))
    want(len(wanted) > 200, f"{len(wanted)} islands are too few for two pages")
    path = written(recipe, PUBLISHED)
    # An island without a peak is None in Python.
    same(sorted(tuple(line.replace("\tNone\t", "\t\t").split("\t")) for line in run(PYTHON, path).splitlines()),
         wanted, "islands")
    mark_log()
    run(PYTHON, path, key=KEY)
    same({line["key"] for line in requests_logged(2)}, {KEY.split("_")[2]}, "keys in the log")

    on_sample("tag=1v1", PYTHON, written(recipe, SAMPLE))

    path = written(recipe, SMALL)
    refused(PYTHON, path)
    # The control: without the class of the recipe it would sleep.
    trapped = changed(path, "frozenset({503})", "Retry.RETRY_AFTER_STATUS_CODES", path.replace(".py", "_trapped.py"))
    try:
        run(PYTHON, trapped, fails=True, seconds=5)
        raise AssertionError("urllib3 no longer sleeps at 429: the recipe may be shorter")
    except subprocess.TimeoutExpired:
        pass

    unready = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Unready)
    threading.Thread(target=unready.serve_forever, daemon=True).start()
    try:
        same(run(PYTHON, written(recipe, f"http://127.0.0.1:{unready.server_port}")), "", "of no islands")
        same(Unready.asked, 3, "requests until ready")
    finally:
        unready.shutdown()


def pandas_frames():
    path = written("pandas_frames.py", PUBLISHED)
    folder = os.path.dirname(path)
    run(PYTHON, path, folder=folder)
    same(sorted(os.listdir(folder)), ["pandas_frames.py", "peaks.png"], "files left")
    run(PYTHON, os.path.join(HERE, "frames.py"), folder)
    mark_log()
    run(PYTHON, path, folder=folder, key=KEY)
    lines = [line for line in requests_logged(4) if "/v1/" in line["target"]]
    same([line.get("key") for line in lines], 2 * [KEY.split("_")[2]], "keys in the log")
    refused(PYTHON, written("pandas_frames.py", SMALL))


def readme():
    """The Python program of the README, with the sample."""
    with open(os.path.join(HERE, "..", "..", "README.md"), encoding="utf-8") as file:
        program = re.search(r"<<'END'\n(.*?)\nEND\n", file.read(), re.DOTALL)[1]
    want(PRINTED_BASE in program, "the program names no server")
    folder = tempfile.mkdtemp(dir=WORK)
    rows = run(PYTHON, "-c", program.replace(PRINTED_BASE, SAMPLE), folder=folder).splitlines()
    want(rows[-1].startswith("[") and rows[-1].endswith(" columns]"), rows[-1])
    same(os.listdir(folder), ["chart.png"], "files left")


def typescript():
    # In the directory of the installed modules, where Node and the compiler search them.
    folder = tempfile.mkdtemp(dir=NPM)
    try:
        path = written("typescript/client.ts", PUBLISHED, folder)
        for command in printed_commands(path, "//", skipped=("npm install",)):
            printed = run("sh", "-euc", command, folder=folder).splitlines()
        wanted = [row for row in rows("islands.csv") if row["createdIn"] == "uefn"]
        same(printed[0], f"{len(wanted)} islands made with UEFN", "the count")
        newest = {row["code"]: number(row["plays"]) for row in rows(f"daily/{days()[-1]}.csv")}
        top = min(wanted, key=lambda row: (-(newest.get(row["code"]) or -1), row["code"]))
        plays = []
        for day in days():
            for row in rows(f"daily/{day}.csv"):
                if row["code"] == top["code"]:
                    plays.append(f"{day}\t{row['plays'] or 'unknown'}\t{top['title']}")
        same(printed[1:], plays[-7:], "plays")
        # The control: a member that the OpenAPI document does not have must not compile, so the types are not `any`.
        changed(path, "day.plays", "day.players", os.path.join(folder, "wrong.ts"))
        strict = ("tsc", "--strict", "--noEmit", "--target", "es2022", "--module", "commonjs")
        want("'players' does not exist" in run(*strict, "--pretty", "false", "wrong.ts", folder=folder, fails=True), "a wrong name compiles")
        mark_log()
        run("node", "client.js", folder=folder, key=KEY)
        same({line["key"] for line in requests_logged(4)}, {KEY.split("_")[2]}, "keys in the log")
        changed(os.path.join(folder, "client.js"), PUBLISHED, SMALL)
        refused("node", "client.js", folder=folder)
    finally:
        shutil.rmtree(folder)


def dump():
    path = written("dump.sql", PUBLISHED)
    folder = os.path.dirname(path)
    for command in printed_commands(path, "--"):
        run("bash", "-euo", "pipefail", "-c", command, folder=folder)
    held = days()
    creators, tools, tags = json.loads(run(PYTHON, os.path.join(HERE, "duck.py"), path, folder=folder))

    islands = {row["code"]: row for row in rows("islands.csv")}
    daily = [(islands[row["code"]], row, day) for day in held for row in rows(f"daily/{day}.csv")]
    peak, owned = {}, collections.defaultdict(set)
    for island, row, _ in daily:
        slug = island["creator"]
        if slug:
            owned[slug].add(island["code"])
            if row["peakCCU"]:
                peak[slug] = max(peak.get(slug, 0), int(row["peakCCU"]))
    same(creators, [[slug, peak[slug], len(owned[slug])] for slug in sorted(peak, key=lambda s: (-peak[s], s))[:10]],
         "creators")

    back, players = collections.Counter(), collections.Counter()
    for island, row, _ in daily:
        if island["createdIn"] and row["retentionD1"] and row["uniquePlayers"]:
            back[island["createdIn"]] += float(row["retentionD1"]) * int(row["uniquePlayers"])
            players[island["createdIn"]] += int(row["uniquePlayers"])
    same([(tool, count) for tool, _, count in tools], sorted(players.items()), "players by tool")
    for tool, percent, _ in tools:
        # Half a unit of the last digit, plus the error of summing in another order.
        want(abs(percent - 100 * back[tool] / players[tool]) < 0.00501, f"{tool}: {percent}")

    minutes = collections.Counter()
    for island, row, day in daily:
        if day == held[-1] and row["minutesPlayed"]:
            for tag in filter(None, island["tags"].split("|")):
                minutes[tag] += int(row["minutesPlayed"])
    same(tags, [[tag, minutes[tag]] for tag in sorted(minutes, key=lambda t: (-minutes[t], t))[:10]], "tags")


def lacking(*tools):
    """The programs that are missing, or nothing."""
    known = {
        "curl": (shutil.which("curl"), "curl"),
        "jq": (shutil.which("jq"), "jq"),
        "node": (shutil.which("node") and os.path.exists(f"{NPM}.installed"), "nodejs and npm, and be online once"),
        "chromium": (CHROMIUM, "chromium"),
        "venv": (os.path.exists(os.path.join(TOOLS, "venv.installed")), "python3-venv, and be online once"),
    }
    return ", ".join(known[tool][1] for tool in tools if not known[tool][0])


CHECKS = [
    ("page_by_link.sh", page_by_link, ("curl", "jq")),
    ("page_by_has_more.sh", page_by_has_more, ("curl", "jq")),
    ("etag.sh", etag, ("curl",)),
    ("last_days.sh", last_days, ("curl",)),
    ("requests_session.py", requests_session, ("venv",)),
    ("pandas_frames.py", pandas_frames, ("venv",)),
    ("README.md", readme, ("venv",)),
    ("chart.html", chart, ("node", "chromium")),
    ("most_played.html", most_played, ("node", "chromium")),
    ("browser.html", browser, ("node", "chromium")),
    ("typescript/client.ts", typescript, ("node",)),
    ("dump.sql", dump, ("curl", "venv")),
    ("readers of gzip", readers.check, ("curl", "venv")),
]
# Recipes that need a program that cannot run here.
UNCHECKED = {"power_query.pq", "grafana_infinity.md"}


def main(chosen):
    held = {os.path.relpath(os.path.join(folder, name), RECIPES) for folder, _, names in os.walk(RECIPES) for name in names}
    names = {name for name, _, _ in CHECKS} - {"README.md", "readers of gzip"}
    failed = False
    for name in sorted((names ^ held) - UNCHECKED):
        failed = True
        print(f"failed {name}: {'has no check' if name in held else 'is not there'}")
    for name, check, tools in CHECKS:
        if chosen and name not in chosen:
            continue
        missing = lacking(*tools)
        if missing:
            failed |= os.environ.get("CI") == "true"
            print(f"skipped {name}: install {missing}", flush=True)
            continue
        began = time.monotonic()
        try:
            check()
            print(f"ok {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as fault:  # noqa: BLE001 - whatever it is, the others are still of interest
            failed = True
            print(f"failed {name}: {type(fault).__name__}: {fault}", flush=True)
    return failed


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a recipe under way is ended too
    sys.exit(main(sys.argv[1:]))
