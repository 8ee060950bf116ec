"""Prints a dictionary for the fuzz targets that parse requests: the fixed parts of all documented paths, the names
of parameters, the words of enumerations, and values that the sample has.

    python3 tests/fuzz/words.py src/site/openapi.json src/request/parameters.rs
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
with open(sys.argv[2], encoding="utf-8") as file:
    parameters = re.findall(r'^ +name: "(\w+)",$', file.read(), re.MULTILINE)
words = {part for path in document["paths"] for part in re.split(r"\{\w+\}", path) if part}
words |= {name + "=" for name in [*parameters, "key"]}
words |= {"0000-0000-0001", "/latest", "2026-11-20", "/openapi.json", "/docs", "index.json"}
words |= {word for some in members(document["components"]["schemas"], "enum") for word in some if word}
for word in sorted(words):
    assert re.fullmatch(r"[!#-\[\]-~]+", word), f"{word!r} needs escapes in a dictionary"
    print(f'"{word}"')
