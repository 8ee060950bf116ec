#!/usr/bin/env python3
"""Writes the licences of the crates that the package and the image contain, or checks that the file is current.

    tests/ops/notices.py            writes data/licenses/THIRD-PARTY
    tests/ops/notices.py --check    fails if the file is not what it would write

Package and image have all features. Of crates that offer several licences, the MIT licence is used where it is one
of them.
"""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FILE = os.path.join(ROOT, "data", "licenses", "THIRD-PARTY")
FEATURES = "collect,tls,shared-quota"
# The licences under which the crates are used. Another one needs a decision.
ACCEPTED = {"MIT", "Apache-2.0", "ISC", "BSD-3-Clause", "Unicode-3.0", "Zlib", "0BSD", "OpenSSL", "CDLA-Permissive-2.0",
            "MIT-0", "BSL-1.0"}


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked", "--features", FEATURES]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def linked():
    """Name and version of each crate that is linked into the program."""
    lines = cargo("tree", "-e", "normal,no-proc-macro", "--prefix", "none", "-f", "{p}").splitlines()
    crates = {tuple(line.split()[:2]) for line in lines if line}
    return sorted((name, version.removeprefix("v")) for name, version in crates if name != "island-metrics")


def texts(folder, expression):
    """The texts of a crate's licence files: of the MIT licence where it suffices, else all of them."""
    names = sorted(name for name in os.listdir(folder) if re.match(r"(?i)(licen[cs]e|copying|notice|unlicense)", name)
                   and os.path.isfile(os.path.join(folder, name)))
    mit = [name for name in names if "mit" in name.lower()]
    if mit and re.search(r"\bMIT\b", expression) and "AND" not in expression:
        names = mit + [name for name in names if "notice" in name.lower()]
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            yield "\n".join(line.rstrip() for line in file.read().strip().splitlines())


def notices():
    packages = {(one["name"], one["version"]): one for one in json.loads(cargo("metadata", "--format-version", "1"))["packages"]}
    groups, faults = {}, []
    for crate in linked():
        package = packages[crate]
        expression = (package["license"] or "").replace("/", " OR ")
        words = set(re.findall(r"[A-Za-z0-9.-]+", expression)) - {"OR", "AND", "WITH", "LLVM-exception"}
        if not words & ACCEPTED or ("AND" in expression and words - ACCEPTED):
            faults.append(f"{crate[0]} {crate[1]}: the licence {expression!r} is not among those that are accepted")
        found = list(texts(os.path.dirname(package["manifest_path"]), expression))
        if not found:
            authors = ", ".join(re.sub(r"\s*<.*>", "", author) for author in package["authors"]) or f"the authors of {crate[0]}"
            found = [f"Copyright (c) {authors}\n\nThe crate contains no text of its licence; it is licensed under {expression}.\n"
                     "The texts of the MIT licence and of the Apache licence are beside this file."]
        groups.setdefault("\n\n".join(found), []).append(f"{crate[0]} {crate[1]} ({expression})")
    if faults:
        sys.exit("\n".join(faults))
    parts = ["Licences of the crates that island-metrics contains. Written by tests/ops/notices.py.\n"]
    for text, crates in sorted(groups.items(), key=lambda group: group[1]):
        parts.append("\n".join([*crates, "-" * 80, text, ""]))
    return ("\n" + "=" * 80 + "\n").join(parts)


def main():
    text = notices()
    if sys.argv[1:] == ["--check"]:
        with open(FILE, encoding="utf-8") as file:
            if file.read() != text:
                sys.exit("data/licenses/THIRD-PARTY is not current; run tests/ops/notices.py")
        print(f"notices: current, {text.count(chr(10))} lines")
        return
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
