"""Harness of the recipe checks: runs recipes, and reads the servers, the access log and the files of the dataset."""

import csv
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
RECIPES = os.path.join(HERE, "..", "..", "src", "site", "recipes")
PRINTED_BASE = "http://127.0.0.1:8080"
KEY, TOOLS, NPM, WORK, CHROMIUM = (os.environ[name] for name in ("KEY", "TOOLS", "NPM", "WORK", "CHROMIUM"))
PUBLISHED, SAMPLE, SMALL = (os.environ[name] for name in ("PUBLISHED", "SAMPLE", "SMALL"))
BIN, DATASET = os.path.abspath(os.environ["BIN"]), os.path.join(WORK, "dataset")
PYTHON = os.path.join(TOOLS, "venv", "bin", "python")
SECONDS = 60  # for a recipe; each takes a few


def want(true, message):
    if not true:
        raise AssertionError(message)


def same(got, wanted, name):
    want(got == wanted, f"{name}: got {str(got)[:300]}; want {str(wanted)[:300]}")


def changed(path, old, new, to=None):
    """A file with another text in place of one that it must have, at a path of its own or in place."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    want(old in text, f"{path} does not have {old}")
    to = to or path
    with open(to, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    shutil.copymode(path, to)
    return to


def written(recipe, base, folder=None):
    """The recipe in a new directory, with the server's own address as the page shows it."""
    folder = folder or tempfile.mkdtemp(dir=WORK)
    path = os.path.join(folder, os.path.basename(recipe))
    return changed(os.path.join(RECIPES, recipe), PRINTED_BASE, base, path)


def run(*command, folder=None, key=None, fails=False, seconds=SECONDS):
    """The stdout of a recipe; if it has to fail, also its stderr."""
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
        lines = re.findall(rf"^{re.escape(mark)}   (\S.*)$", file.read(), re.MULTILINE)
    commands = [line for line in lines if not line.startswith(skipped)]
    want(commands, f"{path} has no commands in its head")
    return commands


def get(base, path):
    """Headers and JSON of a response, also of an error."""
    try:
        with urllib.request.urlopen(base + path, timeout=10) as answer:
            return answer.headers, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.headers, json.load(refusal)


def spend(base):
    """Sends requests until the quota is spent, on a day that has some time left."""
    for _ in range(20):
        headers, body = get(base, "/v1")
        if int(headers["X-RateLimit-Reset"]) < 60:
            time.sleep(int(headers["X-RateLimit-Reset"]) + 1)
        elif "error" in body:
            return
    raise AssertionError("the small quota cannot be spent")


def refused(*command, **options):
    """A spent quota ends the recipe immediately, with the message of the server."""
    spend(SMALL)
    said = run(*command, fails=True, seconds=10, **options)
    want("the daily quota of 3 requests is spent" in said, f"with a spent quota it says {said!r}")


def access_log():
    with open(os.path.join(WORK, "access.log"), encoding="utf-8") as file:
        return file.readlines()


def requests_logged(wanted, route=None):
    """The requests in the access log after the mark, of one route or of all, when there are at least so many: the log
    is written with a delay."""
    deadline = time.monotonic() + 5
    while True:
        lines = [dict(re.findall(r'(\w+)=("[^"]*"|\S*)', line)) for line in access_log()[logged:]]
        lines = [line for line in lines if route in (None, line["route"])]
        if len(lines) >= wanted or time.monotonic() > deadline:
            return lines
        time.sleep(0.05)


def mark_log():
    """Sets the mark: later calls of requests_logged return later lines. A request of ours is the last line before."""
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
    """The lines that a listing recipe prints for the selected islands, in any order."""
    peaks = {row["code"]: row["peakCCU"] for row in rows(f"daily/{days()[-1]}.csv")}
    return sorted((row["code"], peaks.get(row["code"], ""), row["title"]) for row in rows("islands.csv") if chosen(row))


def listed(text):
    """The same from the output of a recipe; @tsv doubles a backslash."""
    return sorted(tuple(line.replace("\\\\", "\\").split("\t")) for line in text.splitlines())


def on_sample(query, *command, **options):
    """The recipe also works with the sample dataset: one line per island."""
    total = get(SAMPLE, f"/v1/islands?limit=1&{query}")[1]["meta"]["total"]
    want(total, f"the sample has no islands with {query}")
    same(len(run(*command, **options).splitlines()), total, "lines on the sample")
