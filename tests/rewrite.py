"""Rewrites what the repository repeats of the program's output on the sample dataset: the examples of the OpenAPI
document, the responses in README.md, and the checksum of payload files. Run it after a change of responses; `git diff`
shows what has changed. Tests fail if it was not run.

It also completes a new operation of the document, which needs only an ID, a tag, a summary, a description, the
parameters of its path, and of its response 200 the description and the schema.

usage: python3 tests/rewrite.py [FLAG OF CARGO...]
"""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops"))
from checks import ROOT, free_port, until

os.chdir(ROOT)
DOCUMENT = "src/site/openapi.json"
# The server has this address in its responses, wherever it listens.
SHOWN = "http://127.0.0.1:8080"
# Two rows are enough to show the form.
SHORT = {"/v1/islands": "?limit=2", "/v1/creators": "?limit=2"}


def rewritten(path, change):
    with open(path, encoding="utf-8") as file:
        before = file.read()
    after = change(before)
    if after != before:
        print(f"rewrote {path}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(after)


def set_checksum():
    """The test names the checksum of what the program renders now."""
    name = "the_content_of_payload_files_is_that_of_their_version"
    command = ["cargo", "test", "--locked", *sys.argv[1:], "--lib", name]
    test = subprocess.run(command, check=False, capture_output=True, text=True)
    found = re.search(r"set SAMPLE_CHECKSUM in (\S+) to (\d+)", test.stdout)
    if found:
        line = f"SAMPLE_CHECKSUM: u32 = {int(found[2]):_};"
        rewritten("src/" + found[1], lambda text: re.sub(r"SAMPLE_CHECKSUM: u32 = [\d_]+;", line, text))
    elif test.returncode != 0:
        sys.exit(test.stdout + test.stderr)


def shortened(answer):
    """Shortens arrays of more than 13 items to three, which show the form. The endpoints are listed whole."""
    if isinstance(answer, list):
        return [shortened(item) for item in answer[: 3 if len(answer) > 13 else None]]
    if isinstance(answer, dict):
        return {name: member if name == "endpoints" else shortened(member) for name, member in answer.items()}
    return answer


def complete(operation, model):
    """Adds the headers and the other responses of a metered endpoint without parameters if they are missing."""
    responses = {**model["responses"], **operation["responses"]}
    whole = responses["200"] = operation["responses"]["200"]
    if "headers" not in whole:
        rest = {name: whole.pop(name) for name in list(whole) if name != "description"}
        whole.update({"headers": model["responses"]["200"]["headers"], **rest})
    operation["responses"] = dict(sorted(responses.items()))


def with_examples(text, get):
    document = json.loads(text)
    top = json.loads(get("/v1/islands?limit=1"))["islands"][0]
    values = {"code": top["code"], "slug": top["creator"]}
    for name, value in [("Code", top["code"]), ("Slug", top["creator"])]:
        document["components"]["parameters"][name]["example"] = value
    # The newest day may have no new islands.
    days = json.loads(get("/v1/new"))["days"]
    new = next(day for day in days if json.loads(get(f"/v1/new/{day}"))["islands"])
    for path, item in document["paths"].items():
        if not path.startswith("/v1"):
            continue  # examples of the dumps are written by hand
        date = new if path == "/v1/new/{date}" else "latest"
        answer = json.loads(get(path.format(**values, date=date) + SHORT.get(path, "")))
        if path != "/v1/health":
            complete(item["get"], document["paths"]["/v1"]["get"])
        content = item["get"]["responses"]["200"]["content"]["application/json"]
        content["examples"] = {"sample": {"value": shortened(answer)}}
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def with_responses(text, get):
    """A response is on the line after its command."""
    command = re.compile(rf"^(\$ curl '{re.escape(SHOWN)}(\S+)'\n).*", re.MULTILINE)
    return command.sub(lambda found: found[1] + get(found[2], may_fail=True), text)


def main():
    set_checksum()
    subprocess.run(["cargo", "build", "--locked", "--quiet", *sys.argv[1:]], check=True)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    address = f"127.0.0.1:{free_port()}"
    command = [f"{target}/debug/island-metrics", "serve", "--listen", address, "--base-url", SHOWN]

    def get(path, may_fail=False):
        try:
            with urllib.request.urlopen(f"http://{address}{path}") as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            if not may_fail:
                raise
            return error.read().decode()

    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        if not until(30, lambda: get("/v1/health")):
            sys.exit("rewrite: the server did not start")
        rewritten(DOCUMENT, lambda text: with_examples(text, get))
        rewritten("README.md", lambda text: with_responses(text, get))
    finally:
        server.terminate()
        server.wait()


main()
