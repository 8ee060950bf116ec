#!/usr/bin/env python3
"""Runs nginx, Caddy and HAProxy with the settings of data/proxy in front of the server, and sends requests, on loopback.

For each proxy: responses are those of the server itself; clients are counted by their own address, whatever
they forward; connections to the server are kept open; and no request of any form makes a response reach
another client (a desync). A relay between proxy and server counts requests and changes nothing.

    tests/ops/proxies.py [--bin BINARY] [--only nginx|caddy|haproxy] [--rounds N] [--seed N] [--canary]

Exits with 1 if a check fails. A proxy that is not installed is skipped with a message.
"""

import argparse
import collections
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from checks import ROOT, fault, faults, free_port, until

HOST = "api.example"
LIMIT = 65535
# Bytes at the beginning of every response of the server, which no body contains.
ANSWER = b"\r\nx-ratelimit-limit: "

# --- processes and the relay ---------------------------------------------------------------------


def wait_for(port, process, what):
    def is_open():
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True

    if not until(30, lambda: process.poll() is not None or is_open()) or process.poll() is not None:
        sys.exit(f"proxies: {what} does not listen; its exit code is {process.poll()}")


class Relay:
    """Relays bytes between a proxy and the server, and counts turns and responses of each connection.

    A proxy sends one request and waits for its answer. So a turn begins with bytes from the proxy after
    bytes from the server, and more answers than turns means that the server saw more requests than the
    proxy sent.
    """

    def __init__(self, server_port, canary):
        self.server_port = server_port
        # Imitates a server that interprets a body as a request: it responds twice.
        self.canary = canary
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                proxy, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:
                proxy.close()
                continue
            counts = {"turns": 0, "answers": 0, "tail": b"", "answered": True, "sent": b"", "ended": 0, "lock": threading.Lock()}
            self.connections.append(counts)
            for side in (proxy, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.upward, args=(proxy, server, counts), daemon=True).start()
            threading.Thread(target=self.downward, args=(server, proxy, counts), daemon=True).start()

    @staticmethod
    def upward(proxy, server, counts):
        try:
            while chunk := proxy.recv(65536):
                if counts["answered"]:
                    counts["turns"] += 1
                    counts["answered"] = False
                    counts["sent"] = b""
                counts["sent"] += chunk[:2000]
                try:
                    server.sendall(chunk)
                except OSError:
                    pass  # the server has ended; what the proxy still sends is read
            server.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        Relay.ended(proxy, server, counts)

    def downward(self, server, proxy, counts):
        try:
            while chunk := server.recv(65536):
                if self.canary and b"smuggled" in counts["sent"]:
                    chunk *= 2
                counts["answered"] = True
                seen = counts["tail"] + chunk
                counts["answers"] += seen.count(ANSWER)
                counts["tail"] = seen[-(len(ANSWER) - 1):]
                if counts["answers"] > counts["turns"] and "double" not in counts:
                    counts["double"] = counts["sent"]
                proxy.sendall(chunk)
            proxy.shutdown(socket.SHUT_WR)
        except OSError:
            try:
                proxy.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        Relay.ended(proxy, server, counts)

    @staticmethod
    def ended(proxy, server, counts):
        """Closes both sides when neither is read any more."""
        with counts["lock"]:
            counts["ended"] += 1
            if counts["ended"] == 2:
                proxy.close()
                server.close()


class Running:
    """The server, and at most one proxy in front of it."""

    def __init__(self, binary, work, canary):
        self.processes = []
        self.work = work
        published = os.path.join(work, "published")
        subprocess.run(
            [binary, "publish", "--dataset", os.path.join(ROOT, "data/sample"), "--to", published],
            check=True, stderr=subprocess.DEVNULL,
        )
        self.server_port, self.admin_port = free_port(), free_port()
        self.start([
            binary, "serve", "--published", published, "--listen", f"127.0.0.1:{self.server_port}",
            "--admin", f"127.0.0.1:{self.admin_port}",
            "--base-url", "https://api.example", "--limit-anonymous", str(LIMIT),
            "--trusted-proxy", "127.0.0.1/32", "--trusted-proxy", "::1",
        ], self.server_port, "the server")
        self.relay = Relay(self.server_port, canary)

    def start(self, command, port, what, **more):
        with open(os.path.join(self.work, "log"), "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, **more)
        self.processes.append(process)
        wait_for(port, process, what)
        return process

    def stop_last(self):
        process = self.processes.pop()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return process.returncode


def edited(text, changes):
    for old, new in changes:
        if text.count(old) != 1:
            sys.exit(f"proxies: {old!r} is in the example {text.count(old)} times; want once")
        text = text.replace(old, new)
    return text


def nginx(running, port, work):
    temporary = "".join(
        f"    {kind}_temp_path {work}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    path = f"{work}/nginx.conf"
    command = ["nginx", "-p", work, "-e", f"{work}/error.log", "-c", path]
    return path, [
        ("listen 80;", f"listen 127.0.0.1:{port};"),
        ("server 127.0.0.1:8080;", f"server 127.0.0.1:{running.relay.port};"),
        ("pid /run/nginx.pid;", f"pid {work}/pid;\nerror_log {work}/error.log;"),
        # All clients share the connections to the server, so a desync of one client affects the next.
        ("worker_processes auto;", "worker_processes 1;"),
        ("http {\n", "http {\n" + temporary),
    ], {}, [*command, "-t", "-q"], [*command, "-g", "daemon off;"]


def caddy(running, port, work):
    path = f"{work}/Caddyfile"
    home = {"HOME": work, "XDG_DATA_HOME": work, "XDG_CONFIG_HOME": work}
    options = ["--config", path, "--adapter", "caddyfile"]
    return path, [
        ("\napi.example {\n", f"\nhttp://api.example:{port} {{\n\tbind 127.0.0.1\n"),
        ("reverse_proxy 127.0.0.1:8080 {", f"reverse_proxy 127.0.0.1:{running.relay.port} {{"),
        ("\n{\n\tservers {", "\n{\n\tadmin off\n\tservers {"),
    ], home, ["caddy", "validate", *options], ["caddy", "run", *options]


def haproxy(running, port, work):
    path = f"{work}/haproxy.cfg"
    server = {"SERVER_1": f"127.0.0.1:{running.relay.port}"}
    return path, [
        ("bind :80\n", f"bind 127.0.0.1:{port}\n"),
        # All clients share the connections to the server, as with nginx.
        ("global\n", "global\n    nbthread 1\n"),
        # One server.
        ('    server server-2 "${SERVER_2-10.0.0.12:8080}"\n', ""),
        ('    server server-3 "${SERVER_3-10.0.0.13:8080}"\n', ""),
        ("check port 9108", f"check port {running.admin_port}"),
    ], server, ["haproxy", "-c", "-q", "-f", path], ["haproxy", "-db", "-f", path]


def start(proxy, running):
    """Starts a proxy with its example, edited for loopback; returns its port."""
    port, work = free_port(), os.path.join(running.work, proxy.__name__)
    os.mkdir(work)
    os.chmod(running.work, 0o755)
    path, changes, environment, check, run = proxy(running, port, work)
    example = pathlib.Path(ROOT, "data/proxy", os.path.basename(path))
    pathlib.Path(path).write_text(edited(example.read_text(), changes))
    environment = {**os.environ, **environment}
    subprocess.run(check, check=True, env=environment, capture_output=True)
    running.start(run, port, proxy.__name__, env=environment)
    return port


# --- a client that parses responses strictly -------------------------------------------------------


class Closed(Exception):
    pass


class Client:
    def __init__(self, port, source, timeout=10):
        self.arguments = (port, source, timeout)
        self.socket = None

    def connect(self):
        port, source, timeout = self.arguments
        self.socket = socket.create_connection(("127.0.0.1", port), timeout, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def close(self):
        if self.socket:
            self.socket.close()
            self.socket = None

    def fill(self):
        chunk = self.socket.recv(1 << 18)
        if not chunk:
            raise Closed
        self.buffer += chunk

    def until(self, end):
        while end not in self.buffer:
            self.fill()
        part, self.buffer = self.buffer.split(end, 1)
        return part

    def exactly(self, count):
        while len(self.buffer) < count:
            self.fill()
        part, self.buffer = self.buffer[:count], self.buffer[count:]
        return part

    def answer(self, is_head=False):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
        headers = [(name.lower(), value) for name, value in headers]
        fields = dict(headers)
        body = b""
        if is_head or status in (204, 304):
            pass
        elif fields.get("transfer-encoding") == "chunked":
            while size := int(self.until(b"\r\n"), 16):
                body += self.exactly(size)
                self.exactly(2)
            self.exactly(2)
        elif "content-length" in fields:
            body = self.exactly(int(fields["content-length"]))
        else:
            try:
                while True:
                    self.fill()
            except Closed:
                body, self.buffer = self.buffer, b""
        return status, headers, body

    def ask(self, method, target, *more, body=b""):
        lines = [f"{method} {target} HTTP/1.1", f"Host: {HOST}", *more]
        request = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body
        fresh = self.socket is None
        if fresh:
            self.connect()
        try:
            self.socket.sendall(request)
            status, headers, body = self.answer(method == "HEAD")
        except (Closed, ConnectionError):
            # A connection may be closed between two requests, but not before the first.
            if fresh or self.buffer:
                raise
            self.close()
            return self.ask(method, target, *more, body=body)
        if dict(headers).get("connection", "").lower() == "close":
            self.close()
        return status, headers, body


# --- responses through the proxy are those of the server -------------------------------------------

# Headers that differ between responses, or belong to a connection.
OWN = {
    "date", "server", "via", "connection", "keep-alive", "transfer-encoding", "x-ratelimit-remaining",
    "x-ratelimit-reset", "x-request-id",
}


def same_answers(port, running):
    direct, proxied = Client(running.server_port, "127.0.0.1"), Client(port, "127.0.0.11")
    _, headers, island = direct.ask("GET", "/v1/islands?limit=1")
    etag = dict(headers)["etag"]
    code = json.loads(island)["islands"][0]["code"]
    dump = "/dumps/islands.csv"
    _, headers, whole = direct.ask("GET", dump)
    dump_etag, modified = dict(headers)["etag"], dict(headers)["last-modified"]
    # nginx sends no length if the response of its upstream is chunked. All our responses have a length.
    paths = json.loads(direct.ask("GET", "/openapi.json")[2])["paths"]
    cases = [("GET", path) for path in paths if "{" not in path] + [
        ("GET", "/v1", "Accept-Encoding: gzip"),
        ("GET", "/v1/islands?limit=1", f"If-None-Match: {etag}"),
        ("GET", "/v1/islands?limit=1", f'If-None-Match: "other", {etag}'),
        ("GET", "/v1/islands?limit=200"), ("GET", "/v1/islands?limit=200", "Accept-Encoding: gzip"),
        ("GET", "/v1/islands?limit=200", "Accept-Encoding: br, gzip;q=0.5"),
        ("GET", "/v1/islands?limit=7&offset=14&q=the&sort=plays"),
        ("GET", "/v1/islands?q=%F0%9F%8F%9D&limit=2"),
        ("HEAD", "/v1/islands?limit=200"), ("HEAD", "/v1/islands?limit=200", "Accept-Encoding: gzip"),
        ("HEAD", "/v1/nothing"), ("GET", f"/v1/islands/{code}"), ("GET", f"/v1/islands/{code}/ccu"),
        ("GET", "/v1/rankings/latest"), ("OPTIONS", "/v1/islands"),
        ("OPTIONS", "/v1", "Origin: https://a.example", "Access-Control-Request-Method: GET"),
        ("POST", "/v1/islands", "Content-Length: 0"), ("DELETE", "/v1/islands"), ("PUT", "/v1", "Content-Length: 0"),
        ("GET", "/v1/nothing"), ("GET", "/v1/islands/"), ("GET", "/v1/islands?limit=0"),
        ("GET", "/v1/islands?limit=1&limit=1"), ("GET", "/v1/creators/a%2Fb"), ("GET", "/v1/creators/%ff"),
        ("GET", "/v1", "Authorization: Bearer im_live_x_y"), ("GET", "/v1?key=im_live_x_y"),
        ("GET", "/v1", "Authorization: Basic YTpi"),
        ("GET", "/openapi.json"), ("GET", "/docs", "Accept-Encoding: gzip"),
        ("GET", "/dumps/"), ("GET", dump), ("HEAD", dump), ("GET", dump + ".gz"), ("GET", "/dumps/nothing.csv"),
        ("GET", dump, "Range: bytes=0-99"), ("GET", dump, "Range: bytes=-10"), ("HEAD", dump, "Range: bytes=0-99"),
        ("GET", dump, f"Range: bytes={len(whole) // 2}-"), ("GET", dump, f"Range: bytes={len(whole)}-"),
        ("GET", dump, "Range: bytes=0-99", f"If-Range: {dump_etag}"),
        ("GET", dump, "Range: bytes=0-99", 'If-Range: "other"'),
        ("GET", dump, f"If-None-Match: {dump_etag}"), ("GET", dump, f"If-Modified-Since: {modified}"),
        ("GET", dump, 'If-Match: "other"'),
    ]
    for case in cases:
        wanted, found = direct.ask(*case), proxied.ask(*case)
        for part, want, have in zip(("status", "body"), wanted[::2], found[::2]):
            if want != have:
                fault(f"{case}: {part} is {have!r:.200}; the server's is {want!r:.200}")
        want, have = (sorted(pair for pair in answer[1] if pair[0] not in OWN) for answer in (wanted, found))
        # The length may be missing for HEAD; nginx and Caddy forward it, so they are checked.
        if want != have:
            fault(f"{case}: headers differ: {set(want) ^ set(have)}")
        fields = dict(found[1])
        if not fields.get("x-ratelimit-remaining", "").isdigit():
            fault(f"{case}: no X-RateLimit-Remaining")
        if dict(wanted[1]).get("x-request-id") == fields.get("x-request-id", ""):
            fault(f"{case}: X-Request-Id is {fields.get('x-request-id')!r}, as of another request")
        if fields.get("etag", '"')[0] != '"':
            fault(f"{case}: the ETag is weak: {fields['etag']}")
        if found[0] >= 400 and case[0] != "HEAD" and "code" not in json.loads(found[2])["error"]:
            fault(f"{case}: the error is no error of the API")
        if fields.get("content-encoding") == "gzip" and case[0] == "GET" and not case[1].startswith("/docs"):
            json.loads(gzip.decompress(found[2]))
    proxied.close()
    direct.close()
    return len(cases)


# --- identification of clients ---------------------------------------------------------------------


def remaining(answer):
    return int(dict(answer[1])["x-ratelimit-remaining"])


def counted_by_address(port):
    """Each client has its own count, and a forged X-Forwarded-For changes no count."""
    claims = [
        "9.9.9.9", "127.0.0.1", "::1", "9.9.9.9, 127.0.0.1", "unknown", "", ",", "127.0.0.1, ::1", "[::1]:80",
        "127.0.0.22", "9.9.9.9\r\nX-Forwarded-For: 8.8.8.8", "9.9.9.9\r\nX-Forwarded-For: 127.0.0.1",
        "\"9.9.9.9\"", "9.9.9.9,,,,", "127.0.0.1:1", "9" * 500,
    ]
    left = {source: LIMIT for source in ("127.0.0.21", "127.0.0.22", "127.0.0.23")}
    asked = 0
    for claim in [None, *claims, None]:
        for source, before in left.items():
            client = Client(port, source)
            more = [] if claim is None else [f"X-Forwarded-For: {claim}"]
            found = client.ask("GET", "/v1", *more)
            client.close()
            asked += 1
            left[source] = before - 1
            if found[0] != 200 or remaining(found) != left[source]:
                fault(f"{source} claims {claim!r}: {found[0]}, {remaining(found)} left; want {left[source]}")
                left[source] = remaining(found)
    return asked


def connections_kept(port, relay):
    """Two hundred requests, each on a new connection to the proxy, use few connections to the server."""
    for counts in relay.connections:
        counts["before"] = counts["turns"]
    for _ in range(200):
        client = Client(port, "127.0.0.12")
        client.ask("GET", "/v1/islands?limit=5", "Connection: close")
        client.close()
    used = [turns for counts in relay.connections if (turns := counts["turns"] - counts.get("before", 0))]
    if sum(used) != 200 or len(used) > 4:
        fault(f"200 requests came to the server as {sum(used)} on {len(used)} connections")
    return len(used)


def bodies_survived(port):
    """The server responds to a request with a body and closes; a client that is still sending gets the response."""
    asked = 0
    client = Client(port, "127.0.0.13")
    for at in range(120):
        size = 1 + at * 8  # up to what the examples let through
        for method, status in [("POST", 405), ("OPTIONS", 204), ("DELETE", 405), ("GET", 200)]:
            asked += 1
            try:
                found = client.ask(method, "/v1/islands?limit=1", f"Content-Length: {size}", body=b"b" * size)[0]
            except (Closed, OSError) as error:
                client.close()
                found = repr(error)
            if found != status:
                fault(f"{method} with a body of {size} bytes: {found}; want {status}")
    client.close()
    return asked


# --- request forms that proxies and servers have interpreted differently ---------------------------


def shapes():
    """Request forms: name to bytes. TAG is replaced by a unique number; `smuggled` is hidden in a (possible) body."""
    host = "Host: api.example\r\n"
    inner = "GET /v1/smuggled-TAG HTTP/1.1\r\nHost: api.example\r\nX: "
    whole = "GET /v1/smuggled-TAG HTTP/1.1\r\nHost: api.example\r\n\r\n"
    own = "GET /v1/own-TAG HTTP/1.1\r\nHost: api.example\r\n\r\n"
    chunked = "Transfer-Encoding: chunked\r\n"
    size = len(whole.replace("TAG", "0" * 8))
    chunk = f"{size:x}\r\n{whole}\r\n0\r\n\r\n"
    found = {}

    def post(name, headers, body, method="POST", target="/v1/own-TAG", version="HTTP/1.1"):
        found[name] = f"{method} {target} {version}\r\n{host}{headers}\r\n{body}"

    # Both lengths, in both orders.
    post("CL.TE", f"Content-Length: {5 + size}\r\n{chunked}", f"0\r\n\r\n{whole}")
    post("TE.CL", f"{chunked}Content-Length: 4\r\n", chunk)
    post("CL.TE on GET", f"Content-Length: {5 + size}\r\n{chunked}", f"0\r\n\r\n{whole}", "GET")
    post("TE.CL on GET", f"{chunked}Content-Length: 4\r\n", chunk, "GET")
    post("CL.0", f"Content-Length: {size}\r\n", whole)
    post("CL.0 on GET", f"Content-Length: {size}\r\n", whole, "GET")
    post("CL.0 on HEAD", f"Content-Length: {size}\r\n", whole, "HEAD")
    post("CL.0 on OPTIONS", f"Content-Length: {size}\r\n", whole, "OPTIONS")
    post("CL.0 on DELETE", f"Content-Length: {size}\r\n", whole, "DELETE")
    post("CL.0 on a dump", f"Content-Length: {size}\r\n", whole, "GET", "/dumps/islands.csv")
    post("TE.0", chunked, chunk)
    post("TE.0 on GET", chunked, chunk, "GET")
    post("TE.0 on OPTIONS", chunked, chunk, "OPTIONS")
    post("CL.CL", f"Content-Length: 0\r\nContent-Length: {size}\r\n", whole)
    post("CL.CL, the other way", f"Content-Length: {size}\r\nContent-Length: 0\r\n", whole)
    post("CL.CL, the same", f"Content-Length: {size}\r\nContent-Length: {size}\r\n", whole)
    # Transfer-Encoding in disguise.
    for name, line in {
        "TE xchunked": "Transfer-Encoding: xchunked", "TE space before colon": "Transfer-Encoding : chunked",
        "TE tab": "Transfer-Encoding:\tchunked", "TE vertical tab": "Transfer-Encoding:\x0bchunked",
        "TE twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
        "TE twice, the other way": "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
        "TE identity": "Transfer-Encoding: identity", "TE gzip, chunked": "Transfer-Encoding: gzip, chunked",
        "TE chunked, identity": "Transfer-Encoding: chunked, identity",
        "TE chunked twice": "Transfer-Encoding: chunked, chunked", "TE capitals": "TRANSFER-ENCODING: CHUNKED",
        "TE quoted": 'Transfer-Encoding: "chunked"', "TE folded": "Transfer-Encoding:\r\n chunked",
        "TE behind a folded line": "X: y\r\n Transfer-Encoding: chunked", "TE first, space": " Transfer-Encoding: chunked",
        "TE NUL": "Transfer-Encoding: chunked\0", "TE underscore": "Transfer_Encoding: chunked",
        "TE bare CR": "X: y\rTransfer-Encoding: chunked", "TE bare LF": "X: y\nTransfer-Encoding: chunked",
        "TE empty": "Transfer-Encoding:", "TE comma": "Transfer-Encoding: ,chunked",
        "TE parameter": "Transfer-Encoding: chunked;x=y", "TE latin": "Transfer-Encoding: chunked\xff",
        "TE long s": "Tran\xc5\xbffer-Encoding: chunked", "TE named by Connection": "Connection: Transfer-Encoding\r\n"
        "Transfer-Encoding: chunked",
    }.items():
        post(name, f"{line}\r\nContent-Length: 4\r\n", chunk)
        post(f"{name}, no length", f"{line}\r\n", chunk)
    # Lengths in disguise.
    for name, value in {
        "CL plus": f"+{size}", "CL minus": "-1", "CL hex": f"0x{size:x}", "CL list": f"{size}, {size}",
        "CL list that differs": f"0, {size}", "CL zeros": f"{size:020}", "CL 2^64": str(2**64),
        "CL 2^64 and some": str(2**64 + size), "CL huge": "9" * 40, "CL empty": "", "CL space inside": f"1 {size}",
        "CL fraction": f"{size}.0", "CL exponent": "1e2", "CL tab": f"\t{size}\t", "CL NUL": f"{size}\0",
        "CL underscore digits": "1_0", "CL full-width": "\xef\xbc\x91", "CL bare CR": f"0\rContent-Length: {size}",
    }.items():
        post(name, f"Content-Length: {value}\r\n", whole)
    post("CL space before colon", f"Content-Length : {size}\r\n", whole)
    post("CL folded", f"Content-Length:\r\n {size}\r\n", whole)
    post("CL bare LF", f"X: y\nContent-Length: {size}\r\n", whole)
    post("CL named by Connection", f"Connection: Content-Length\r\nContent-Length: {size}\r\n", whole)
    # Chunks in disguise.
    for name, body in {
        "chunk extension": f"{size:x};a=b\r\n{whole}\r\n0\r\n\r\n",
        "chunk extension with bare LF": f"2;\nxx\r\n{size:x}\r\n{whole}\r\n0\r\n\r\n",
        "chunk extension with bare CR": f"2;\rxx\r\n{size:x}\r\n{whole}\r\n0\r\n\r\n",
        "chunk of 2^64": f"1{'0' * 16}\r\n{whole}\r\n0\r\n\r\n", "chunk of minus": f"-1\r\n{whole}\r\n0\r\n\r\n",
        "chunk in 0x": f"0x{size:x}\r\n{whole}\r\n0\r\n\r\n", "chunk space": f"{size:x} \r\n{whole}\r\n0\r\n\r\n",
        "chunk plus": f"+{size:x}\r\n{whole}\r\n0\r\n\r\n", "chunk without CRLF": f"1\r\nA{size:x}\r\n{whole}0\r\n\r\n",
        "chunk bare LF": f"{size:x}\n{whole}\n0\n\n", "chunk of many zeros": f"{'0' * 200}{size:x}\r\n{whole}\r\n0\r\n\r\n",
        "chunk empty size": f"\r\n{whole}\r\n0\r\n\r\n", "chunk trailers": f"0\r\nContent-Length: 5\r\nHost: b\r\n\r\n{own}",
        "chunk last without end": f"0\r\n{whole}", "chunk longer than said": f"1\r\n{whole}\r\n0\r\n\r\n",
        "chunk underscore": f"1_0\r\n{whole}\r\n0\r\n\r\n", "chunk quoted extension": f'1;a="\r\n{whole}"\r\n0\r\n\r\n',
    }.items():
        post(name, chunked, body)
        post(f"{name} on GET", chunked, body, "GET")
    # The head itself.
    post("expect", f"Expect: 100-continue\r\nContent-Length: {size}\r\n", whole)
    post("expect on GET", f"Expect: 100-continue\r\nContent-Length: {size}\r\n", whole, "GET")
    post("expect other", f"Expect: x\r\nContent-Length: {size}\r\n", whole)
    post("upgrade websocket", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", whole, "GET")
    post("upgrade h2c", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET")
    post("connect", "", whole, "CONNECT", "api.example:80")
    post("trace", f"Content-Length: {size}\r\n", whole, "TRACE")
    post("HTTP/1.0 chunked", chunked, chunk, "POST", "/v1/own-TAG", "HTTP/1.0")
    post("HTTP/1.0 kept", f"Connection: keep-alive\r\nContent-Length: {size}\r\n", whole, "GET", "/v1", "HTTP/1.0")
    post("HTTP/1.2", f"Content-Length: {size}\r\n", whole, "GET", "/v1", "HTTP/1.2")
    post("HTTP/2.0", f"Content-Length: {size}\r\n", whole, "GET", "/v1", "HTTP/2.0")
    post("absolute form", "", own, "GET", "http://api.example/v1/own-TAG")
    post("absolute form, other host", "", own, "GET", "http://evil.example/v1/own-TAG")
    post("target with a space", "", own, "GET", "/v1/own-TAG HTTP/1.1\t/x")
    post("target with CRLF encoded", "", own, "GET", "/v1/own-TAG%20HTTP/1.1%0d%0aHost:%20x%0d%0a%0d%0aGET%20/v1/smuggled-TAG")
    post("target with a fragment", "", own, "GET", "/v1/own-TAG#x")
    post("target with dots", "", own, "GET", "/dumps/../v1/own-TAG")
    post("target with NUL", "", own, "GET", "/v1/own-TAG\0")
    post("asterisk", "", own, "OPTIONS", "*")
    post("host twice", "Host: b.example\r\n", own, "GET")
    post("host folded", "X: y\r\n Host: b.example\r\n", own, "GET")
    post("header without colon", f"Content-Length {size}\r\n", whole)
    post("header with empty name", ": x\r\n", own, "GET")
    post("header NUL", "X: a\0b\r\n", own, "GET")
    post("header CR CR LF", f"X: y\r\r\nContent-Length: {size}\r\n", whole)
    post("connection named close", "Connection: close, Content-Length\r\n" f"Content-Length: {size}\r\n", whole)
    post("hop headers", "Connection: X-Forwarded-For, Host\r\nX-Forwarded-For: 9.9.9.9\r\n", own, "GET")
    post("pipelined", "", own * 5, "GET")
    post("pipelined HEADs", "", own.replace("GET", "HEAD", 1) * 5, "HEAD")
    post("pipelined behind a body", f"Content-Length: {size}\r\n", whole + own)
    post("pipelined behind chunks", chunked, chunk + own)
    post("body cut short", f"Content-Length: {size + 40}\r\n", whole)
    post("body over the proxy's bound", "Content-Length: 100000\r\n", whole + "A" * 3000)
    found["no host"] = f"GET /v1/own-TAG HTTP/1.1\r\n\r\n{own}"
    found["HTTP/0.9"] = f"GET /v1/own-TAG\r\n{own}"
    found["blank lines first"] = "\r\n\r\n" + own
    found["space first"] = " " + own
    found["bare LF"] = f"POST /v1/own-TAG HTTP/1.1\nHost: api.example\nContent-Length: {size}\n\n{whole}"
    found["bare CR"] = own.replace("\r\n", "\r") + own
    found["head cut short"] = own[:-2]
    found["lower-case method"] = own.replace("GET", "get") + own
    found["no space"] = own.replace(" HTTP", "HTTP")
    found["preface"] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + own
    found["head of 20 KB"] = own.replace("\r\n\r\n", "\r\nX: " + "a" * 20000 + "\r\n\r\n") + own
    found["two hundred headers"] = own.replace("\r\n\r\n", "\r\n" + "X: a\r\n" * 200 + "\r\n") + own
    found["prefix of a request"] = f"POST /v1 HTTP/1.1\r\n{host}Content-Length: {len(inner)}\r\n{chunked}\r\n0\r\n\r\n{inner}"
    return {name: text.encode("latin-1") for name, text in found.items()}


TOKENS = [
    b"\r\n", b"\n", b"\r", b"\0", b"\t", b" ", b":", b",", b";", b"0\r\n\r\n", b"\r\n\r\n", b"\r\n ",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"chunked", b"identity",
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0", b"\xff",
    b"Host: b.example\r\n", b"Upgrade: h2c\r\n", b"GET /v1/own-TAG HTTP/1.1\r\nHost: api.example\r\n\r\n", b"+", b"0x", b"-",
]


def mutated(rng, corpus):
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0:
                data[at:at] = rng.choice(TOKENS)
            case 1:
                del data[at:at + rng.randint(1, 4)]
            case 2 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 3:
                lines = bytes(data).split(b"\r\n")
                lines.insert(rng.randrange(len(lines)), rng.choice(lines))
                data = bytearray(b"\r\n".join(lines))
            case 4:
                lines = bytes(data).split(b"\r\n")
                one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
                lines[one], lines[other] = lines[other], lines[one]
                data = bytearray(b"\r\n".join(lines))
            case 5:
                data += rng.choice(corpus)
            case _:
                token = rng.choice(TOKENS)
                data[at:at + len(token)] = token
    return bytes(data)


class Probes:
    """Clients, each with requests that no other client sends, on connections that stay open."""

    def __init__(self, port):
        self.clients = [Client(port, f"127.0.1.{at}") for at in range(1, 17)]
        self.asked = self.desynchronised = self.failed = 0

    def ask(self, client, culprit):
        self.asked += 1
        number = 10**9 + self.asked
        # In turn: an error that repeats the path, a page that repeats the offset, and a HEAD without a body.
        kind = number % 3
        target = f"/v1/probe-{number}" if kind else f"/v1/islands?limit=1&offset={number}"
        try:
            if number % 16 == 0:
                found = client.ask("HEAD", "/v1/rankings")
                good, foreign = found[0] == 200 and not client.buffer, True
            else:
                found = client.ask("GET", target)
                good, foreign = judge(found, number)
        except (Closed, OSError, ValueError, IndexError) as error:
            client.close()
            self.failed += 1
            fault(f"behind {culprit!r}: a probe got no answer: {error!r}")
            return
        if good:
            return
        client.close()
        if foreign:
            self.desynchronised += 1
            fault(f"behind {culprit!r}: {target} was answered with {found[0]} {found[2]!r:.300}")
        else:
            self.failed += 1
            fault(f"behind {culprit!r}: {target} failed with {found[0]} {found[2]!r:.200}")


def judge(found, number):
    """Whether a response belongs to this probe; and if not, whether it belongs to another one or is a failure."""
    status, _, body = found
    if status in (404, 200):
        found = json.loads(body)
        if status == 404:
            return f'"/v1/probe-{number}";' in found["error"]["message"], True
        return found["meta"].get("offset") == number, True
    # Errors of the quota and of the proxy itself do not repeat the request.
    return False, status not in (429, 500, 502, 503, 504)


def send_shape(client, data):
    """Sends a request and reads for a moment. Returns responses that repeat the path of another client."""
    client.connect()
    taken = b""
    try:
        client.socket.sendall(data)
        client.socket.settimeout(0.25)
        taken = client.socket.recv(1 << 18)
        client.socket.settimeout(0.01)
        while chunk := client.socket.recv(1 << 18):
            taken += chunk
    except OSError:
        pass
    return taken


def smuggling(name, port, running, rounds, seed):
    corpus = shapes()
    rng = random.Random(seed)
    probes = Probes(port)
    for client in probes.clients:
        probes.ask(client, "nothing")
    answered = answers = 0
    statuses = collections.Counter()
    plan = [*corpus.items(), *((f"mutation {at} of seed {seed}", None) for at in range(rounds))]
    texts = list(corpus.values())
    for at, (shape, data) in enumerate(plan):
        data = mutated(rng, texts) if data is None else data
        tag = f"{at:08}"
        client = Client(port, f"127.0.2.{at % 200 + 1}")
        taken = send_shape(client, data.replace(b"TAG", tag.encode()))
        answered += taken.startswith(b"HTTP/1.")
        answers += taken.count(b"HTTP/1.1 ")
        statuses.update(status.decode() for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", taken))
        # Its own responses must also belong to it.
        for whose, other in re.findall(rb"/v1/(own|smuggled|probe)-(\d{8})", taken):
            # A mutation may have appended digits to its own number.
            if whose == b"probe" or other != tag.encode():
                probes.desynchronised += 1
                fault(f"{shape!r} got a response about /v1/{whose.decode()}-{other.decode()}…, which another client requested")
        # While its connection is open, and after it is closed.
        probes.ask(probes.clients[at % 16], shape)
        probes.ask(probes.clients[(at + 1) % 16], shape)
        client.close()
        probes.ask(probes.clients[(at + 2) % 16], shape)
    for client in probes.clients:
        client.close()
    turns = sum(counts["turns"] for counts in running.relay.connections)
    doubles = [counts["double"] for counts in running.relay.connections if "double" in counts]
    for double in doubles[:5]:
        fault(f"the server answered more than {name} asked: {double!r:.600}")
    print(
        f"{name}: {len(corpus)} shapes and {rounds} mutations (seed {seed}), {answered} of them answered, with {answers} "
        f"answers; {turns} turns on {len(running.relay.connections)} connections to the server; {probes.asked} probes, {probes.desynchronised} desynchronised, {probes.failed} failed, "
        f"{len(doubles)} connections with an answer too many",
        flush=True,
    )
    print(f"{name}: statuses of what they were answered: {dict(sorted(statuses.items()))}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=os.environ.get("BIN", os.path.join(ROOT, "target/release/island-metrics")))
    parser.add_argument("--only", choices=["nginx", "caddy", "haproxy"])
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--canary", action="store_true", help="with a server that is fooled, which must be found out")
    arguments = parser.parse_args()
    told = {"error": {"message": 'unknown path "/v1/probe-8"; the endpoints are listed at /v1'}}
    judged = [judge((404, [], json.dumps(told).encode()), number) for number in (7, 8)]
    assert judged == [(False, True), (True, True)], "the check finds no fault"
    for proxy in (nginx, caddy, haproxy):
        name = proxy.__name__
        if arguments.only not in (None, name):
            continue
        if not shutil.which(name):
            print(f"proxies: {name} is not installed; left out", flush=True)
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="island-metrics-proxies.") as work:
            running = Running(os.path.abspath(arguments.bin), work, arguments.canary)
            try:
                port = start(proxy, running)
                answers = same_answers(port, running)
                counted = counted_by_address(port)
                kept = connections_kept(port, running.relay)
                bodies = bodies_survived(port)
                print(
                    f"{name}: {answers} answers compared with the server's own; {counted} requests counted for who sent "
                    f"them; 200 front connections over {kept} to the server; {bodies} requests with bodies",
                    flush=True,
                )
                smuggling(name, port, running, arguments.rounds, arguments.seed)
                running.stop_last()
                if (code := running.stop_last()) != 0:
                    fault(f"the server ended with {code}")
            finally:
                while running.processes:
                    running.stop_last()
                running.relay.listener.close()
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    if arguments.canary:
        print(f"proxies: the canary was {'found out' if faults else 'not found out'}: {len(faults)} faults")
        sys.exit(0 if faults else 1)
    print(f"proxies: {'passed' if not faults else f'{len(faults)} faults'}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
