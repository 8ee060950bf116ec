"""Checks of the recipes that are pages: in headless Chromium, from an origin that is not the server's."""

import contextlib
import http.server
import json
import os
import re
import threading

from harness import CHROMIUM, HERE, KEY, NPM, PUBLISHED, get, mark_log, requests_logged, run, same, want, written


class Files(http.server.SimpleHTTPRequestHandler):
    """Sends a folder's files and is silent about it."""

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def site(recipe, base):
    """The address of a recipe, served beside nothing else."""
    path = written(recipe, base)
    files = lambda *arguments: Files(*arguments, directory=os.path.dirname(path))
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
