"""Prints code, peak and title of every island with a tag, through one connection that retries with sense.

pip install requests 'urllib3>=2.6.3'; set ISLAND_METRICS_KEY to spend a key's quota instead of your address's.
"""

import os
import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

BASE = "http://127.0.0.1:8080"


class Patience(Retry):
    # The trap: urllib3 obeys Retry-After on 429 too, whatever status_forcelist says. Here that is the time to
    # midnight UTC, so a script with a spent quota would sleep, six hours at most, three times, and say nothing.
    RETRY_AFTER_STATUS_CODES = frozenset({503})


def session():
    s = requests.Session()
    s.headers["User-Agent"] = "my-island-report/1.0 (me@example.com)"
    if key := os.environ.get("ISLAND_METRICS_KEY"):
        s.headers["Authorization"] = f"Bearer {key}"
    retry = Patience(total=3, backoff_factor=1, status_forcelist=[503], retry_after_max=60, raise_on_status=False)
    s.mount(BASE, HTTPAdapter(max_retries=retry))
    return s


def get(s, path, **params):
    answer = s.get(BASE + path, params=params, timeout=30)
    if not answer.ok:
        error = answer.json()["error"]
        sys.exit(f"{answer.status_code} {error['code']}: {error['message']}")
    return answer


def islands(s, **filters):
    """Every island of a filter, page by page, as they come."""
    offset, more = 0, True
    while more:
        answer = get(s, "/v1/islands", limit=200, offset=offset, **filters)
        page = answer.json()
        yield from page["islands"]
        offset += len(page["islands"])
        more = page["meta"]["hasMore"]
        if more and answer.headers["X-RateLimit-Remaining"] == "0":
            sys.exit(f"the quota is spent after {offset} of {page['meta']['total']} islands; "
                     f"it is full again in {answer.headers['X-RateLimit-Reset']} seconds")


if __name__ == "__main__":
    with session() as s:
        for island in islands(s, tag="1v1", sort="plays"):
            print(island["code"], island["peakCCU"], island["title"], sep="\t")
