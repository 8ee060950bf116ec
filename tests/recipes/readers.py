"""Reads dumps with the gzip readers of many languages, through a proxy that sends 1,448 bytes at a time.

Readers differ in what they do after a gzip member, and in how much they ask the network for.
"""

import hashlib
import http.server
import os
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request

from harness import CHROMIUM, PUBLISHED, PYTHON, SECONDS, days, same, want

PIECE = 1448  # the payload of a TCP segment on Ethernet

JAVA = """
import java.net.URI;
import java.util.zip.GZIPInputStream;
class Read {
    public static void main(String[] urls) throws Exception {
        try (var in = new GZIPInputStream(URI.create(urls[0]).toURL().openStream())) { in.transferTo(System.out); }
    }
}
"""
GO = """
package main

import ("compress/gzip"; "io"; "net/http"; "os")

func main() {
	reply, err := http.Get(os.Args[1])
	if err != nil { panic(err) }
	reader, err := gzip.NewReader(reply.Body)
	if err != nil { panic(err) }
	reader.Multistream(false)
	if _, err := io.Copy(os.Stdout, reader); err != nil { panic(err) }
}
"""
PHP = "echo gzdecode(file_get_contents($argv[1]));"
RUBY = "require 'open-uri'; require 'zlib'; $stdout.binmode; $stdout.write Zlib::GzipReader.new(URI.open(ARGV[0])).read"
PERL = "use IO::Uncompress::Gunzip qw(gunzip $GunzipError); open my $in, '-|', 'curl', '-sf', $ARGV[0]; " \
       "binmode STDOUT; gunzip $in => \\*STDOUT or die $GunzipError"
PYTHON_ZLIB = "import sys, urllib.request as u, zlib; " \
              "sys.stdout.buffer.write(zlib.decompress(u.urlopen(sys.argv[1]).read(), 31))"
NODE = "fetch(process.argv[1]).then(r => r.arrayBuffer()).then(b => process.stdout.write(require('zlib').gunzipSync(b)))"
NODE_STREAM = "fetch(process.argv[1]).then(r => require('stream').Readable.fromWeb(" \
              "r.body.pipeThrough(new DecompressionStream('gzip'))).pipe(process.stdout))"
PAGE = """<!doctype html><pre></pre><script type=module>
const reply = await fetch('FILE');
const bytes = await new Response(reply.body.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
document.querySelector('pre').textContent = [...hash].map(byte => byte.toString(16).padStart(2, '0')).join('');
</script>"""


class Proxy(http.server.BaseHTTPRequestHandler):
    """Sends a dump in pieces, and a page that reads it."""

    def do_GET(self):
        if self.path.startswith("/page/"):
            body = PAGE.replace("FILE", self.path.removeprefix("/page")).encode()
        else:
            try:
                with urllib.request.urlopen(PUBLISHED + "/dumps" + self.path, timeout=10) as answer:
                    body = answer.read()
            except urllib.error.HTTPError as error:  # the icon that a browser looks for
                return self.send_error(error.code)
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if self.path.startswith("/page/") else "application/gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for at in range(0, len(body), PIECE):
            self.wfile.write(body[at:at + PIECE])
            self.wfile.flush()
            time.sleep(0.0002)

    def log_message(self, *_):
        pass


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def output(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
    want(done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def in_chromium(base, name, folder):
    page = output(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/chromium",
                  "--timeout=20000", "--virtual-time-budget=20000", "--dump-dom", f"{base}/page/{name}").decode()
    return page.split("<pre>")[1].split("</pre>")[0]


def readers(folder):
    """The readers that are installed, each with the command that prints the file at a URL."""
    java, go = os.path.join(folder, "Read.java"), os.path.join(folder, "read.go")
    for path, text in ((java, JAVA), (go, GO)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    commands = [
        ("gunzip", "gzip", ["sh", "-c", "curl -sf \"$0\" | gunzip"]),
        ("java", "default-jdk-headless", ["java", java]),
        ("php", "php-cli", ["php", "-r", PHP, "--"]),
        ("ruby", "ruby", ["ruby", "-e", RUBY]),
        ("perl", "perl", ["perl", "-e", PERL]),
        ("node", "nodejs", ["node", "-e", NODE]),
        ("node", "nodejs", ["node", "-e", NODE_STREAM]),
    ]
    missing = sorted({package for program, package, _ in commands if not shutil.which(program)})
    found = [command for program, _, command in commands if shutil.which(program)]
    found.append([PYTHON, "-c", PYTHON_ZLIB])
    if shutil.which("go"):
        program = os.path.join(folder, "read")
        output("go", "build", "-o", program, go)
        found.append([program])
    else:
        missing.append("golang-go")
    return found, missing


def check():
    """Every reader gets all bytes of every kind of dump."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    folder = tempfile.mkdtemp()
    try:
        commands, missing = readers(folder)
        names = ["history.csv.gz", "last30days.csv.gz", "ccu.csv.gz", "islands.json.gz", f"daily/{days()[-1]}.csv.gz"]
        for name in names:
            with urllib.request.urlopen(f"{PUBLISHED}/dumps/{name}", timeout=10) as answer:
                plain = output("sh", "-c", f"curl -sf {PUBLISHED}/dumps/{name} | gunzip")
                want(len(answer.read()) > 3 * PIECE and plain.count(b"\n") > 100, f"{name} is small")
            for command in commands:
                same(sha256(output(*command, f"{base}/{name}")), sha256(plain), f"{name} by {command[0]}")
            if CHROMIUM:
                same(in_chromium(base, name, folder), sha256(plain), f"{name} by Chromium")
            count = plain.count(b"\n") - 1
            if name.endswith(".csv.gz"):
                copy = os.path.join(folder, os.path.basename(name))
                with open(copy, "wb") as file:
                    file.write(output("curl", "-sf", f"{base}/{name}"))
                for module, code in (("pandas", f"import pandas; print(len(pandas.read_csv('{base}/{name}', dtype=str)))"),
                                     ("DuckDB", f"import duckdb; print(len(duckdb.sql(\"from '{copy}'\").fetchall()))")):
                    same(output(PYTHON, "-c", code), f"{count}\n".encode(), f"rows of {name} by {module}")
        want(not missing or os.environ.get("CI") != "true", f"install {', '.join(missing)}")
        if missing:
            print(f"some readers of gzip were skipped: install {', '.join(missing)}", flush=True)
    finally:
        server.shutdown()
        shutil.rmtree(folder)
