#!/usr/bin/env python3
"""Starts the processes of data/container/compose.yaml without containers, kills each of them under load, and
checks what clients see.

Three servers, a store (redis-server) and HAProxy with data/proxy/haproxy.cfg run on addresses of
loopback. Clients from many addresses, and one with a key, send requests through HAProxy all the time. Each
process is killed with SIGKILL and started again a few seconds later.

- No response is other than 200, or 429 once the client's limit is reached, or 503 with Retry-After from a
  server where the client has used its part of the day and the store is down or answers too late, as on a
  busy machine. Connections fail only while HAProxy itself is down.
- All servers together admit no more than the limit of a client, and its last requests of the test get 429.
- A key issued or revoked on any server is known to all servers within two seconds, also after a restart.

    tests/ops/cluster.py [--bin BINARY]

Exits with 1 if a check fails. Prints one line and exits with 0 if a tool is not installed.
"""

import argparse
import collections
import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from checks import ROOT, check, faults, until

# Each process has its own address, so that the ports can be those of the example.
SERVERS = {"server-1": "127.7.20.11", "server-2": "127.7.20.12", "server-3": "127.7.20.13"}
STORE, BALANCER = ("127.7.20.21", 6379), ("127.7.20.31", 8080)
LIMIT, LIMIT_KEY = 400, 2000
CLIENTS = 12
DOWN_SECONDS, SETTLED_SECONDS = 3, 4
KEYS_SECONDS = 2

def get(address, path, key=None, source=None, timeout=10):
    """Status and headers of a request on a new connection."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    connection = http.client.HTTPConnection(*address, timeout=timeout, source_address=source)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        response.read()
        return response.status, response.headers
    finally:
        connection.close()


class Cluster:
    def __init__(self, binary, work):
        self.binary, self.work, self.processes = binary, work, {}
        self.published = os.path.join(work, "published")
        self.command("publish", "--dataset", os.path.join(ROOT, "data/sample"), "--to", self.published)
        for name in SERVERS:
            os.mkdir(os.path.join(work, name), 0o700)
        with open(os.path.join(ROOT, "data/proxy/haproxy.cfg")) as file:
            config = file.read()
        config = config.replace("bind :80\n", f"bind {BALANCER[0]}:{BALANCER[1]}\n")
        with open(os.path.join(work, "haproxy.cfg"), "w") as file:
            file.write(config)

    def command(self, *words):
        """Runs a command of the binary; returns what it prints."""
        done = subprocess.run([self.binary, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"cluster: {words[0]} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def keys(self, server, command, *words):
        return self.command("keys", command, "--state", os.path.join(self.work, server), *words)

    def start(self, name):
        environment = dict(os.environ)
        if name == "store":
            words = ["redis-server", "--bind", STORE[0], "--port", str(STORE[1]), "--dir", self.work, "--appendonly", "yes"]
            words += ["--maxmemory-policy", "noeviction"]
        elif name == "haproxy":
            words = ["haproxy", "-db", "-f", os.path.join(self.work, "haproxy.cfg")]
            environment |= {server.upper().replace("-", "_"): f"{address}:8080" for server, address in SERVERS.items()}
        else:
            words = [self.binary, "serve", "--listen", f"{SERVERS[name]}:8080", "--admin", f"{SERVERS[name]}:9108"]
            words += ["--published", self.published, "--state", os.path.join(self.work, name), "--trusted-proxy", "127.0.0.1"]
            words += ["--base-url", "http://api.example", "--limit-anonymous", str(LIMIT), "--limit-free", str(LIMIT_KEY)]
            words += ["--shared-quota", f"redis://{STORE[0]}:{STORE[1]}", "--shared-quota-replicas", str(len(SERVERS))]
            words += ["--shared-keys"]
        with open(os.path.join(self.work, f"{name}.log"), "ab") as log:
            self.processes[name] = subprocess.Popen(words, stdout=log, stderr=log, env=environment, cwd=self.work)

    def kill(self, name, number=signal.SIGKILL):
        self.processes[name].send_signal(number)
        self.processes.pop(name).wait()

    def ready(self, name):
        return get((SERVERS[name], 9108), "/readyz")[0] == 200

    def status_everywhere(self, key):
        """The status of a key at each server that runs."""
        running = [address for name, address in SERVERS.items() if name in self.processes]
        return {get((address, 8080), "/v1/live", key)[0] for address in running}

    def end(self):
        for name in list(self.processes):
            self.kill(name, signal.SIGTERM if name in SERVERS else signal.SIGKILL)


class Client(threading.Thread):
    """Sends requests through HAProxy from one address, or with a key, and counts statuses."""

    def __init__(self, number, key=None):
        super().__init__(daemon=True)
        self.source, self.key = f"127.7.30.{number}", key
        self.limit = LIMIT_KEY if key else LIMIT
        self.statuses, self.unexpected = collections.Counter(), []
        self.done = False
        # The process that is down, or that was started again a few seconds ago.
        self.down = None

    def run(self):
        connection = None
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        while not self.done:
            try:
                if connection is None:
                    connection = http.client.HTTPConnection(*BALANCER, timeout=10, source_address=(self.source, 0))
                connection.request("GET", "/v1/islands?limit=5", headers=headers)
                response = connection.getresponse()
                body = response.read()
                self.statuses[response.status] += 1
                is_expected = response.status in (200, 429)
                if response.status == 503:
                    is_expected = response.headers["Retry-After"] == "1" and b"quota cannot be determined" in body
                if not is_expected:
                    self.unexpected.append(f"{response.status} {body[:120]!r}")
                if response.will_close:
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException) as error:
                self.statuses["failed"] += 1
                if self.down != "haproxy":
                    self.unexpected.append(repr(error))
                connection.close()
                connection = None
            # The limits are reached near the end of the test, not at its beginning.
            time.sleep(0.012 if self.key else 0.06)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=os.environ.get("BIN", os.path.join(ROOT, "target/release/island-metrics")))
    binary = os.path.realpath(parser.parse_args().bin)
    for tool, package in (("redis-server", "redis-server"), ("haproxy", "haproxy")):
        if not shutil.which(tool):
            print(f"skipped: needs {tool}, `apt-get install {package}`")
            return
    work = tempfile.mkdtemp(prefix="island-metrics-cluster.")
    cluster = Cluster(binary, work)
    try:
        run(cluster)
        cluster.end()
    finally:
        for process in cluster.processes.values():
            process.kill()
        if faults:
            for name in (*SERVERS, "haproxy", "store"):
                print(f"--- {name}")
                print(pathlib.Path(work, f"{name}.log").read_text(errors="replace")[-1500:])
        shutil.rmtree(work)
    if faults:
        sys.exit(f"cluster: {len(faults)} faults")


def run(cluster):
    for name in ("store", *SERVERS, "haproxy"):
        cluster.start(name)
    for name in SERVERS:
        check(until(30, lambda name=name: cluster.ready(name)), f"{name} is not ready")
    check(until(30, lambda: get(BALANCER, "/v1/health")[0] == 200), "HAProxy passes no request on")
    if faults:
        return

    key = cluster.keys("server-1", "issue", "--address", "ann@example.com").strip()
    begun = time.monotonic()
    check(until(KEYS_SECONDS, lambda: cluster.status_everywhere(key) == {200}), "a new key is not known everywhere")
    print(f"a new key is known to all servers after {time.monotonic() - begun:.1f} s")
    clients = [Client(number) for number in range(1, CLIENTS)] + [Client(CLIENTS, key)]
    for client in clients:
        client.start()
    time.sleep(1)

    for name in ("server-2", "store", "server-1", "haproxy"):
        for client in clients:
            client.down = name
        before = sum((client.statuses for client in clients), collections.Counter())
        cluster.kill(name)
        issued = None
        if name == "server-2":
            issued = cluster.keys("server-3", "issue", "--address", "bob@example.com").strip()
        time.sleep(DOWN_SECONDS)
        if name == "store":
            # The last known keys stay valid.
            check(cluster.status_everywhere(key) == {200}, "a key is lost with the store")
            check(all(cluster.ready(server) for server in SERVERS), "a server is not ready without the store")
        cluster.start(name)
        if name in SERVERS:
            check(until(30, lambda name=name: cluster.ready(name)), f"{name} is not ready again")
        time.sleep(SETTLED_SECONDS)
        if issued:
            check(cluster.status_everywhere(issued) == {200}, "a restarted server does not know a key issued meanwhile")
            cluster.keys("server-2", "revoke", issued.split("_")[2])
            check(until(KEYS_SECONDS, lambda issued=issued: cluster.status_everywhere(issued) == {403}), "a revoked key is valid somewhere")
        after = sum((client.statuses for client in clients), collections.Counter())
        print(f"{name} killed and started again: {dict(after - before)}", flush=True)

    for client in clients:
        client.down = None
    check(until(90, lambda: all(client.statuses[429] > 20 for client in clients)), "a client never reaches its limit")
    for client in clients:
        client.done = True
    for client in clients:
        client.join()
    own = 4 * len(SERVERS) + 200  # requests for the key's status above
    for client in clients:
        admitted = client.statuses[200]
        check(not client.unexpected, f"{client.source}: {client.unexpected[:3]}")
        check(admitted <= client.limit, f"{client.source}: {admitted} of {client.limit} admitted")
        # Credits that a killed server had leased are lost to the client until the day ends.
        check(admitted >= client.limit // 2 - (own if client.key else 0), f"{client.source}: only {admitted} of {client.limit} admitted")
    admitted = [client.statuses[200] for client in clients[:-1]]
    print(f"limit {LIMIT}: {min(admitted)} to {max(admitted)} admitted; limit {LIMIT_KEY}: {clients[-1].statuses[200]} admitted")
    print(f"responses: {dict(sum((client.statuses for client in clients), collections.Counter()))}")


if __name__ == "__main__":
    main()
