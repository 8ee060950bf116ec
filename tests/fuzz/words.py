"""Prints a dictionary for the fuzz targets that parse requests: the fixed parts of all documented paths, the names
of parameters, and the words of enumerations.

    python3 tests/fuzz/words.py src/site/openapi.json
"""

import json
import re
import sys


def members(value, name):
    """All members of this name, at any depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    if isinstance(value, dict) and name in value:
        yield value[name]
    for one in inner:
        yield from members(one, name)


with open(sys.argv[1], encoding="utf-8") as file:
    document = json.load(file)
parameters = [one for one in members(document, "parameters") if isinstance(one, list)]
parameters = [one for some in parameters for one in some] + list(document["components"]["parameters"].values())
words = {part for path in document["paths"] for part in re.split(r"\{\w+\}", path) if part}
words |= {one["name"] + "=" for one in parameters if one.get("in") == "query"}
words |= {word for some in members(document["components"]["schemas"], "enum") for word in some if word}
for word in sorted(words):
    assert re.fullmatch(r"[!#-\[\]-~]+", word), f"{word!r} needs escapes in a dictionary"
    print(f'"{word}"')
