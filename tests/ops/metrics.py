#!/usr/bin/env python3
"""Compares the rules, the scrape example and the dashboard with the metrics of the server and the collector.

Names in them must be those that /metrics prints after some requests, and labels and values those of the list below.
promtool, where it is installed, checks and tests the rules, and reads what /metrics prints. A binary without the
feature `collect` leaves the collector out.

    tests/ops/metrics.py --bin BINARY
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from checks import ROOT, check, fault, faults, free_port, until

MATCHER = r'([a-z_]+)\s*[=!]~?\s*"([^"]*)"'
COLLECTOR = "island_metrics_collect_"

# The metrics that have labels, and the values of labels that have few. All others, and their names, are those that a
# server and a collector print.
LABELLED = """
collect_catalogue_islands crawl=newest|believed
collect_complete_day_values metric=peakCCU|uniquePlayers|minutesPlayed|favorites|plays|recommendations|averageMinutesPerPlayer|retentionD1|retentionD7
collect_responses_total endpoint=platform|catalogue|genres|rankings|days|steps result=usable|null|vanished|gone|doubtful|throttled|rejected|broken
collect_islands_due what=fresh|unasked|inactive
collect_players what=known|contradicted
http_requests_total route code
http_request_duration_seconds_bucket le
http_response_body_bytes_total route encoding=identity|gzip
http_connections_refused_total reason=address|full
http_connections_cut_total reason=handshake|first_byte|head|idle|send|room
http_parse_errors_total code
quota_rejections_total tier=anonymous|free|starter|pro
snapshot_published_timestamp_seconds payload=history|live
snapshot_rows kind=islands|creators|days
reloads_total what=data|keys|certificate result=ok|refused
poll_age_seconds what=data|keys|certificate|shared-keys
tls_handshakes_total result=full|resumed|failed|not_tls
shared_quota_requests_total result=answered|late|failed
worker_heartbeat_age_seconds worker
build_info version commit
"""
# Metrics without a sample while there is nothing to measure: no store, no certificate, no value that could be lost or
# that daily/ lacks.
OPTIONAL = r"island_metrics_(shared_|tls_certificate_|collect_next_loss_|collect_unwritten_)"
# By metric: its labels with their known values, and `None` for any value.
LABELS = {}
for name, *labels in map(str.split, LABELLED.strip().splitlines()):
    pairs = (label.partition("=") for label in labels)
    LABELS["island_metrics_" + name] = {label: set(values.split("|")) if values else None for label, _, values in pairs}
# Filled from the pages: the metrics with their labels.
METRICS = {}
# Labels and metrics that a scrape adds.
SCRAPED = {"job", "instance"}

def path(*parts):
    return os.path.join(ROOT, *parts)


def read(name):
    return pathlib.Path(path(name)).read_text()


def unknown(name, label, values):
    """Those of the values that a label cannot have."""
    known = LABELS.get(name, {}).get(label)
    return set(values) - known if known else set()


def check_expressions(where, text, recorded):
    """All names and labels of a text with PromQL. Returns the metrics it uses."""
    used = set()
    for name in re.findall(r"\bisland_metrics:[a-z0-9_:]+", text):
        if name not in recorded:
            fault(f"{where}: nothing records {name}")
    for name, matchers in re.findall(r"(?<![\w:])((?:island_metrics|process)_[a-z0-9_]+)(\{[^}]*\})?", text):
        if name not in METRICS:
            fault(f"{where}: there is no metric {name}")
            continue
        used.add(name)
        for label, value in re.findall(MATCHER, matchers):
            if label not in SCRAPED.union(METRICS[name]):
                fault(f"{where}: {name} has no label {label}")
            for one in unknown(name, label, value.split("|")):
                fault(f"{where}: {name} has no {label} {one}")
    known = SCRAPED.union(*METRICS.values())
    for labels in re.findall(r"\b(?:by|without) \(([^)]*)\)", text):
        for label in set(re.split(r"[,\s]+", labels)) - known:
            fault(f"{where}: nothing has a label {label}")
    for label in set(re.findall(r"\$labels\.(\w+)|\{\{(\w+)\}\}", text)):
        if "".join(label) not in known:
            fault(f"{where}: nothing has a label {''.join(label)}")
    return used


def check_files(has_collector):
    if not has_collector:
        files = [f"data/{name}" for name in ("prometheus/rules.yml", "prometheus/rules_test.yml", "grafana/dashboard.json")]
        for name in re.findall(COLLECTOR + "[a-z_]+", "".join(map(read, files))):
            METRICS[name] = LABELS.get(name, {})
    rules = read("data/prometheus/rules.yml")
    recorded = set(re.findall(r"- record: (\S+)", rules))
    tests = read("data/prometheus/rules_test.yml")
    used = check_expressions("rules.yml", rules, recorded)
    check_expressions("rules_test.yml", tests, recorded)
    alerts = re.findall(r"- alert: (\S+)", rules)
    for alert in alerts:
        if f"alertname: {alert}\n" not in tests:
            fault(f"rules_test.yml: {alert} is not tested")

    dashboard = json.loads(read("data/grafana/dashboard.json"))
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert "datasource" in variables and dashboard["schemaVersion"] >= 36 and dashboard["id"] is None
    numbers, places, queries = set(), set(), 0
    for panel in dashboard["panels"]:
        where = f"dashboard, {panel['title']}"
        grid = panel["gridPos"]
        cells = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])}
        if cells & places or panel["id"] in numbers or grid["x"] + grid["w"] > 24:
            fault(f"{where}: lies on another, or has its number")
        places |= cells
        numbers.add(panel["id"])
        if panel["type"] == "row":
            continue
        for target in panel["targets"]:
            queries += 1
            text = target["expr"] + " " + target["legendFormat"]
            used |= check_expressions(where, text, recorded)
            if target["datasource"]["uid"] != "${datasource}":
                fault(f"{where}: asks a data source of its own")
            if missing := set(re.findall(r"\$(\w+)", text)) - variables - {"__rate_interval"}:
                fault(f"{where}: no variable is named {missing}")
    for variable in dashboard["templating"]["list"]:
        used |= check_expressions("dashboard, variables", str(variable.get("query")), recorded)
    unused = sorted(set(METRICS) - used)
    print(f"metrics: {len(alerts)} alerts, all with tests; {len(recorded)} recorded; "
          f"{len(numbers)} panels and rows, {queries} queries; {len(used)} of {len(METRICS)} metrics used; not {', '.join(unused)}")


def promtool(*arguments, **more):
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        fault(f"promtool {' '.join(arguments)}: {done.stdout}{done.stderr}")


def dashboard_as_rules(work):
    """The dashboard's queries as rules, so that promtool reads their PromQL."""
    dashboard = json.loads(read("data/grafana/dashboard.json"))
    lines = ["groups:", "  - name: dashboard", "    rules:"]
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$__rate_interval", "5m")
            lines += ["      - record: dashboard", f"        labels: {{at: {panel['id']}{target['refId']}}}",
                      f"        expr: {json.dumps(expression)}"]
    name = os.path.join(work, "dashboard.yml")
    pathlib.Path(name).write_text("\n".join(lines) + "\n")
    return name


def get(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def scrape_collector(binary):
    """The /metrics page of a collector whose upstream refuses connections; `None` without the command."""
    admin = free_port()
    with tempfile.TemporaryDirectory(prefix="island-metrics-collect.") as work:
        command = [binary, "collect", "--dataset", f"{work}/dataset", "--state", f"{work}/state", "--contact", "ann@example.com",
                   "--upstream", f"http://127.0.0.1:{free_port()}", "--admin", f"127.0.0.1:{admin}"]
        collector = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            page = lambda: get(f"http://127.0.0.1:{admin}/metrics")[2].decode()
            if not until(30, lambda: collector.poll() is not None or page()):
                fault("nothing answers at the collector's /metrics")
            if collector.poll() is None:
                return page()
            error = collector.stderr.read()
            check("has no `collect`" in error, f"collect ended: {error}")
            return None
        finally:
            collector.terminate()
            collector.wait(40)


def scrape(binary):
    """The /metrics page after some requests; `None` if nothing responds."""
    port, admin = free_port(), free_port()
    command = [binary, "serve", "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}", "--limit-anonymous", "4"]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(30, lambda: get(f"http://127.0.0.1:{port}/v1/health"))
        for target in ["/v1", "/v1/islands", "/v1/islands?limit=0", "/v1/nothing", "/v1/live", "/docs"]:
            for encoding in ("gzip", "identity"):
                get(f"http://127.0.0.1:{port}{target}", **{"Accept-Encoding": encoding})
        time.sleep(0.3)
        try:
            status, headers, body = get(f"http://127.0.0.1:{admin}/metrics")
        except OSError:
            return None
        if status != 200 or not headers.get("content-type", "").startswith("text/plain"):
            fault(f"/metrics: {status}, {headers.get('content-type')}")
        return body.decode()
    finally:
        server.terminate()
        server.wait(40)


def check_scrape(text):
    printed, promised = set(), set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            names = {name + end for end in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))}
            check(not names & promised, f"/metrics: {name} has two TYPE lines")
            promised |= names
            check((kind == "counter") == name.endswith("_total"), f"/metrics: {name} is a {kind}")
        if line.startswith("# HELP "):
            check(line.endswith("."), f"/metrics: {line!r} is no sentence")
        if not line or line.startswith("#"):
            continue
        found = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line)
        if not found:
            fault(f"/metrics: {line!r} is no sample")
            continue
        name, labels = found[1], dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', found[2] or ""))
        if name not in promised:
            fault(f"/metrics prints {name} without a TYPE line")
        elif set(labels) != set(LABELS.get(name, {})):
            fault(f"/metrics: {name} has the labels {set(labels)}; want {set(LABELS.get(name, {}))}")
        printed.add(name)
        for label, value in labels.items():
            if unknown(name, label, [value]):
                fault(f"/metrics: {name} has {label} {value!r}")
        float(found[3])
    for name in sorted(promised - printed):
        if not re.match(OPTIONAL, name):
            fault(f"/metrics prints no sample of {name}")
    METRICS.update({name: LABELS.get(name, {}) for name in promised})
    print(f"metrics: /metrics prints {len(printed)} of {len(promised)} names in {len(text)} bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    arguments = parser.parse_args()
    has_promtool = shutil.which("promtool") is not None
    binary = os.path.abspath(arguments.bin)
    served, collected = scrape(binary), scrape_collector(binary)
    if served is None:
        sys.exit("metrics: nothing answers at /metrics")
    for page in (served, collected):
        if page is None:
            print("metrics: the binary has no collect; its metrics are not checked")
            continue
        check_scrape(page)
        if has_promtool:
            promtool("check", "metrics", input=page)
    check_files(collected is not None)
    for name in sorted(set(LABELS) - set(METRICS)):
        if collected is not None or not name.startswith(COLLECTOR):
            fault(f"/metrics does not print {name}")
    if has_promtool:
        promtool("check", "rules", path("data/prometheus/rules.yml"))
        promtool("test", "rules", path("data/prometheus/rules_test.yml"))
        with tempfile.TemporaryDirectory(prefix="island-metrics-prometheus.") as work:
            promtool("check", "rules", "--lint=none", dashboard_as_rules(work))
            shutil.copy(path("data/prometheus/rules.yml"), work)
            shutil.copy(path("data/prometheus/scrape.yml"), work)
            promtool("check", "config", os.path.join(work, "scrape.yml"))
    else:
        print("metrics: no promtool; rules are neither checked nor tested")
    print("metrics: passed" if not faults else f"metrics: {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
