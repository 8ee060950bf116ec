#!/usr/bin/env python3
"""A stand-in for the platform's public API on a loopback address: ten islands with data of the last seven days.

Prints its base URL and serves until it is ended. `tests/it/fake_upstream.rs` is the one for tests of behaviour;
this one lets scripts run `collect`.
"""

import datetime
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

CODES = [f"1000-0000-{number:04}" for number in range(10)]
DAY = 86_400


def series(step, count, value):
    """The last points of a series, in steps of so many seconds."""
    newest = int(time.time()) // step * step
    moment = lambda at: datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return [{"value": value, "timestamp": moment(newest - back * step)} for back in reversed(range(count))]


def answer(path):
    match path.strip("/").split("/")[2:]:
        case ["islands"]:
            row = lambda code: {"code": code, "title": f"Island {code}", "creatorCode": "ann", "createdIn": "UEFN", "tags": ["pvp"]}
            return {"data": [row(code) for code in CODES], "meta": {"page": {"nextCursor": None}}, "links": {"next": None}}
        case ["genres"]:
            return {"data": [{"slug": "party"}]}
        case ["genres", _, "rankings"]:
            return {"data": [{"islandCode": CODES[0], "rank": 1}], "meta": {"snapshotAvailable": True}}
        case ["metrics", "minute"]:
            return {"inMatchPeakCCU": series(600, 6, 77), "inClientPeakCCU": series(600, 6, 99)}
        case ["islands", _, "metrics", "minute"]:
            return {"peakCCU": series(600, 6, 7)}
        case ["islands", _, "metrics", "day"]:
            names = ["peakCCU", "uniquePlayers", "minutesPlayed", "favorites", "plays", "recommendations", "averageMinutesPerPlayer"]
            return {**{name: series(DAY, 8, 9) for name in names}, "retention": []}
    return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = answer(urlsplit(self.path).path)
        text = json.dumps(body or {}).encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_address[1]}/ecosystem/v1", flush=True)
server.serve_forever()
