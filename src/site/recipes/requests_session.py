"""Prints the code, peak and title of every island with a tag, over one connection, and retries only a 503.

pip install requests 'urllib3>=2.6.3'; set ISLAND_METRICS_KEY to use a key. Each page of 200
islands costs one request.
"""

import os
import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

BASE = "http://127.0.0.1:8080"


class Patience(Retry):
    # urllib3 obeys Retry-After on 429 too, whatever status_forcelist has. Here that is the time until 00:00 UTC, so a
    # script with a spent quota would sleep for up to six hours, three times, without a message.
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
    """Yields every island that matches the filters, page by page."""
    offset, more = 0, True
    while more:
        answer = get(s, "/v1/islands", limit=200, offset=offset, **filters)
        page = answer.json()
        yield from page["islands"]
        offset += len(page["islands"])
        more = page["meta"]["hasMore"]
        if more and answer.headers["X-RateLimit-Remaining"] == "0":
            sys.exit(f"the quota is spent after {offset} of {page['meta']['total']} islands; "
                     f"it resets in {answer.headers['X-RateLimit-Reset']} seconds")


if __name__ == "__main__":
    with session() as s:
        for island in islands(s, tag="1v1", sort="plays"):
            print(island["code"], island["peakCCU"], island["title"], sep="\t")
