"""Runs the recipes for run.sh, which sets the environment, and compares what they do with the dataset's own files.

What is right is computed here, from CSV and with the standard library alone; nothing is shared with a recipe.
"""

import collections
import csv
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
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
RECIPES = os.path.join(HERE, "..", "..", "src", "site", "recipes")
PRINTED_BASE = "http://127.0.0.1:8080"
KEY, TOOLS, WORK, CHROMIUM = (os.environ[name] for name in ("KEY", "TOOLS", "WORK", "CHROMIUM"))
PUBLISHED, SAMPLE, SMALL = (os.environ[name] for name in ("PUBLISHED", "SAMPLE", "SMALL"))
BIN, DATASET, NPM = os.path.abspath(os.environ["BIN"]), os.path.join(WORK, "dataset"), os.path.join(TOOLS, "npm")
PYTHON = os.path.join(TOOLS, "venv", "bin", "python")
SECONDS = 60  # for a recipe; each takes a few


def want(true, message):
    if not true:
        raise AssertionError(message)


def same(got, wanted, name):
    want(got == wanted, f"{name}: got {str(got)[:300]}; want {str(wanted)[:300]}")


def written(recipe, base, folder=None):
    """The recipe in a new folder, with the server's own address as the page shows it."""
    folder = folder or tempfile.mkdtemp(dir=WORK)
    with open(os.path.join(RECIPES, recipe), encoding="utf-8") as file:
        text = file.read()
    want(PRINTED_BASE in text, f"{recipe} does not name {PRINTED_BASE}")
    path = os.path.join(folder, os.path.basename(recipe))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(PRINTED_BASE, base))
    shutil.copymode(os.path.join(RECIPES, recipe), path)
    return path


def run(*command, folder=None, key=None, fails=False, seconds=SECONDS):
    """What it printed; of one that has to fail, on either stream."""
    environment = {name: value for name, value in os.environ.items() if name != "ISLAND_METRICS_KEY"}
    environment["PATH"] = os.path.join(NPM, "node_modules", ".bin") + os.pathsep + environment["PATH"]
    if key:
        environment["ISLAND_METRICS_KEY"] = key
    recipe = subprocess.Popen(command, cwd=folder or WORK, env=environment, text=True, start_new_session=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = recipe.communicate(timeout=seconds)
    except BaseException:
        os.killpg(recipe.pid, signal.SIGKILL)  # and what it started
        recipe.communicate()
        raise
    want((recipe.returncode != 0) == fails, f"ended with {recipe.returncode}: {(out + err)[-600:]}")
    return err + out if fails else out


def printed_commands(path, mark, skipped=()):
    """The commands in the recipe's head comment, which are indented."""
    with open(path, encoding="utf-8") as file:
        lines = re.findall(rf"^{re.escape(mark)}   (\S.*)$", file.read(), re.M)
    commands = [line for line in lines if not line.startswith(skipped)]
    want(commands, f"{path} has no commands in its head")
    return commands


def get(base, path):
    """Headers and JSON of an answer, also of one that refuses."""
    try:
        with urllib.request.urlopen(base + path, timeout=10) as answer:
            return answer.headers, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.headers, json.load(refusal)


def spend(base):
    """Asks until the quota is spent, on a day that has some time left."""
    for _ in range(20):
        headers, body = get(base, "/v1")
        if int(headers["X-RateLimit-Reset"]) < 60:
            time.sleep(int(headers["X-RateLimit-Reset"]) + 1)
        elif "error" in body:
            return
    raise AssertionError("the small quota cannot be spent")


def refused(*command, **options):
    """A spent quota ends the recipe at once, with the server's own words."""
    spend(SMALL)
    said = run(*command, fails=True, seconds=10, **options)
    want("the daily quota of 3 requests is spent" in said, f"with a spent quota it says {said!r}")


def access_log():
    with open(os.path.join(WORK, "access.log"), encoding="utf-8") as file:
        return file.readlines()


def requests_logged(wanted):
    """The access log from its mark on, once it has as many lines as wanted: it is written a moment later."""
    deadline = time.monotonic() + 5
    while True:
        lines = access_log()[logged:]
        if len(lines) >= wanted or time.monotonic() > deadline:
            return [dict(re.findall(r'(\w+)=("[^"]*"|\S*)', line)) for line in lines]
        time.sleep(0.05)


def mark_log():
    """Later calls of requests_logged see what comes from now on. One request of ours ends what came before."""
    global logged
    marker = get(PUBLISHED, "/v1/health")[0]["X-Request-Id"]
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        lines = access_log()
        if any(marker in line for line in lines):
            logged = len(lines)
            return
        time.sleep(0.05)
    raise AssertionError("a request is not in the access log")


logged = 0


def rows(name):
    with open(os.path.join(DATASET, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def days():
    return sorted(os.path.basename(path)[:10] for path in glob.glob(os.path.join(DATASET, "daily", "*.csv")))


def number(text):
    return None if text == "" else float(text) if "." in text else int(text)


def listing(chosen):
    """The lines that a listing recipe prints of islands that are chosen, in any order."""
    peaks = {row["code"]: row["peakCCU"] for row in rows(f"daily/{days()[-1]}.csv")}
    return sorted((row["code"], peaks.get(row["code"], ""), row["title"]) for row in rows("islands.csv") if chosen(row))


def listed(text):
    """The same from what was printed; @tsv doubles a backslash."""
    return sorted(tuple(line.replace("\\\\", "\\").split("\t")) for line in text.splitlines())


def on_sample(query, *command, **options):
    """Whoever tries the server without data of his own copies the recipe too: one line an island."""
    total = get(SAMPLE, f"/v1/islands?limit=1&{query}")[1]["meta"]["total"]
    want(total, f"the sample has no islands with {query}")
    same(len(run(*command, **options).splitlines()), total, "lines on the sample")


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
    same(run(path, folder=folder), "live.json is as it was\n", "the second time")
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
    same(run(path, folder=folder), "live.json is as it was\n", "after that")
    with open(os.path.join(folder, "live.json"), encoding="utf-8") as file:
        same(json.load(file)["time"], first["time"] + 600, "time of live.json")
    same(sorted(os.listdir(folder)), ["etag.sh", "live.etag", "live.json"], "files left")
    path = written("etag.sh", SMALL, folder)
    refused(path, folder=folder)
    same(sorted(os.listdir(folder)), ["etag.sh", "live.etag", "live.json"], "files left after a refusal")


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
    # Without the recipe's one class it would sleep: so the check above checks something.
    with open(path, encoding="utf-8") as file:
        text = file.read()
    trapped = path.replace(".py", "_trapped.py")
    with open(trapped, "w", encoding="utf-8") as file:
        file.write(text.replace("frozenset({503})", "Retry.RETRY_AFTER_STATUS_CODES"))
    want("frozenset" in text, "the recipe has no statuses to break")
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
    run(PYTHON, path)
    run(PYTHON, os.path.join(HERE, "frames.py"), os.path.dirname(path), PUBLISHED, DATASET)


def browser():
    path = written("browser.html", PUBLISHED)
    files = lambda *arguments: http.server.SimpleHTTPRequestHandler(*arguments, directory=os.path.dirname(path))
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), files)
    http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
    threading.Thread(target=site.serve_forever, daemon=True).start()
    page = f"http://127.0.0.1:{site.server_port}/browser.html"
    try:
        mark_log()
        seen = json.loads(run("node", os.path.join(HERE, "browser.mjs"), NPM, CHROMIUM, page, KEY))
        asked = requests_logged(5)
    finally:
        site.shutdown()
    key = KEY.split("_")[2]
    titles = [f"{row['title']} ({row['peakCCU']} players at the peak)"
              for row in get(PUBLISHED, "/v1/islands?limit=10")[1]["islands"]]
    for name in ("anonymous", "query", "header"):
        same(seen[name]["islands"], titles, name)
    want(re.fullmatch(r"655\d\d of 65535 requests left today", seen["anonymous"]["quota"]), seen["anonymous"]["quota"])
    left = [int(re.fullmatch(r"(\d+) of 1000 requests left today", seen[name]["quota"])[1]) for name in ("query", "header")]
    same(left[0] - left[1], 1, "spent between the two ways")
    want(seen["wrong"]["quota"].startswith("401 invalid_key: "), seen["wrong"]["quota"])
    # The server's own account: one preflight in all, for the one URL that was asked with the header, though thrice. What
    # Chromium answers from its cache is its own affair.
    same([line["status"] for line in asked if line["method"] == "OPTIONS"], ["204"], "preflights")
    kinds = [(line["status"], line.get("key")) for line in asked if line["method"] == "GET"]
    same((kinds[0], kinds[1], kinds[-1]), (("200", None), ("200", key), ("401", None)), "requests")
    want(all(kind in (("200", key), ("304", key)) for kind in kinds[2:-1]), kinds)


def typescript():
    # Inside the folder of the installed modules, where Node and the compiler look for them.
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
        # A name that the description does not have must not compile: the types are there, and are not any.
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(folder, "wrong.ts"), "w", encoding="utf-8") as file:
            file.write(text.replace("day.plays", "day.players"))
        strict = ("tsc", "--strict", "--noEmit", "--target", "es2022", "--module", "commonjs")
        want("'players' does not exist" in run(*strict, "--pretty", "false", "wrong.ts", folder=folder, fails=True), "a wrong name compiles")
        mark_log()
        run("node", "client.js", folder=folder, key=KEY)
        same({line["key"] for line in requests_logged(4)}, {KEY.split("_")[2]}, "keys in the log")
        compiled = os.path.join(folder, "client.js")
        with open(compiled, encoding="utf-8") as file:
            text = file.read()
        with open(compiled, "w", encoding="utf-8") as file:
            file.write(text.replace(PUBLISHED, SMALL))
        refused("node", "client.js", folder=folder)
    finally:
        shutil.rmtree(folder)


def dump():
    path = written("dump.sql", PUBLISHED)
    folder = os.path.dirname(path)
    for command in printed_commands(path, "--"):
        run("bash", "-euo", "pipefail", "-c", command, folder=folder)
    held = days()[-14:]
    same(sorted(os.listdir(os.path.join(folder, "daily"))), [f"{day}.csv.gz" for day in held], "files fetched")
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
        # Half a unit of the last place, and what summing in another order makes.
        want(abs(percent - 100 * back[tool] / players[tool]) < 0.00501, f"{tool}: {percent}")

    minutes = collections.Counter()
    for island, row, day in daily:
        if day == held[-1] and row["minutesPlayed"]:
            for tag in filter(None, island["tags"].split("|")):
                minutes[tag] += int(row["minutesPlayed"])
    same(tags, [[tag, minutes[tag]] for tag in sorted(minutes, key=lambda t: (-minutes[t], t))[:10]], "tags")


def lacking(*tools):
    """What has to be installed first, or nothing."""
    known = {
        "curl": (shutil.which("curl"), "curl"),
        "jq": (shutil.which("jq"), "jq"),
        "node": (shutil.which("node") and os.path.exists(os.path.join(TOOLS, "npm.installed")), "nodejs and npm, and be online once"),
        "chromium": (CHROMIUM, "chromium"),
        "venv": (os.path.exists(os.path.join(TOOLS, "venv.installed")), "python3-venv, and be online once"),
    }
    return ", ".join(known[tool][1] for tool in tools if not known[tool][0])


CHECKS = [
    ("page_by_link.sh", page_by_link, ("curl", "jq")),
    ("page_by_has_more.sh", page_by_has_more, ("curl", "jq")),
    ("etag.sh", etag, ("curl",)),
    ("requests_session.py", requests_session, ("venv",)),
    ("pandas_frames.py", pandas_frames, ("venv",)),
    ("browser.html", browser, ("node", "chromium")),
    ("typescript/client.ts", typescript, ("node",)),
    ("dump.sql", dump, ("curl", "jq", "venv")),
]
# They need a program that cannot be run here.
UNCHECKED = {"power_query.pq", "grafana_infinity.md"}


def main(chosen):
    held = {os.path.relpath(os.path.join(folder, name), RECIPES) for folder, _, names in os.walk(RECIPES) for name in names}
    names = {name for name, _, _ in CHECKS}
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
        except Exception as fault:  # whatever it is, the others are still of interest
            failed = True
            print(f"failed {name}: {type(fault).__name__}: {fault}", flush=True)
    return failed


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a recipe under way is ended too
    sys.exit(main(sys.argv[1:]))
