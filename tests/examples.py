"""Rewrites the examples of the OpenAPI document from the responses of a server on the sample dataset.

usage: examples.py BASE_URL src/site/openapi.json
"""

import json
import sys
import urllib.request

BASE, DOCUMENT = sys.argv[1], sys.argv[2]
# The address in the document, whatever the server has.
SAMPLE = "http://127.0.0.1:8080"
# Two rows are enough to show the form.
SHORT = {"/v1/islands": "?limit=2", "/v1/creators": "?limit=2"}


def get(path):
    with urllib.request.urlopen(BASE + path) as answer:
        return json.loads(answer.read().replace(BASE.encode(), SAMPLE.encode()))


def shortened(answer):
    """Shortens arrays of more than 13 items to three, which show the form. The endpoints are listed whole."""
    if isinstance(answer, list):
        return [shortened(item) for item in answer[: 3 if len(answer) > 13 else None]]
    if isinstance(answer, dict):
        return {name: member if name == "endpoints" else shortened(member) for name, member in answer.items()}
    return answer


def main():
    with open(DOCUMENT, encoding="utf-8") as file:
        document = json.load(file)
    top = get("/v1/islands?limit=1")["islands"][0]
    values = {"code": top["code"], "slug": top["creator"]}
    for name, value in [("Code", top["code"]), ("Slug", top["creator"])]:
        document["components"]["parameters"][name]["example"] = value
    # The newest day may have no new islands.
    new = next(day for day in get("/v1/new")["days"] if get(f"/v1/new/{day}")["islands"])
    for path, item in document["paths"].items():
        if not path.startswith("/v1"):
            continue  # examples of the dumps are written by hand
        date = new if path == "/v1/new/{date}" else "latest"
        answer = get(path.format(**values, date=date) + SHORT.get(path, ""))
        content = item["get"]["responses"]["200"]["content"]["application/json"]
        content["examples"]["sample"]["value"] = shortened(answer)
    with open(DOCUMENT, "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, indent=2)
        file.write("\n")


main()
