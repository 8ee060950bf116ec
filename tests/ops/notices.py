#!/usr/bin/env python3
"""Writes the licences and the list of the crates that the package and the image contain.

    tests/ops/notices.py               writes data/licenses/THIRD-PARTY
    tests/ops/notices.py --check       fails if the file is not what it would write
    tests/ops/notices.py --sbom FILE   writes the list as a bill of materials in CycloneDX 1.6

Package and image have all features. Of crates that offer several licences, the MIT licence is used where it is one
of them. .cargo/deny.toml has the licences that are accepted.
"""

import json
import os
import re
import subprocess
import sys
import tomllib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FILE = os.path.join(ROOT, "data", "licenses", "THIRD-PARTY")
FEATURES = "collect,tls,shared-quota"


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


def packages():
    """What cargo knows of each crate, by name and version."""
    known = json.loads(cargo("metadata", "--format-version", "1"))["packages"]
    for package in known:
        package["license"] = package["license"].replace("/", " OR ")
    return {(package["name"], package["version"]): package for package in known}


def where(crate, expression):
    """Where the text of a licence is that the crate does not contain."""
    if expression == "CC0-1.0":
        return "It is dedicated to the public domain: https://creativecommons.org/publicdomain/zero/1.0/legalcode"
    if "MIT" in expression or "Apache-2.0" in expression:
        return "The texts of the MIT licence and of the Apache licence are beside this file."
    sys.exit(f"{crate[0]} contains no text of its licence {expression}, and data/licenses has none")


def notices():
    known, groups = packages(), {}
    for crate in linked():
        package = known[crate]
        expression = package["license"]
        found = list(texts(os.path.dirname(package["manifest_path"]), expression))
        if not found:
            authors = ", ".join(re.sub(r"\s*<.*>", "", author) for author in package["authors"]) or f"the authors of {crate[0]}"
            found = [f"Copyright (c) {authors}\n\nThe crate contains no text of its licence; it is licensed under {expression}.\n{where(crate, expression)}"]
        groups.setdefault("\n\n".join(found), []).append(f"{crate[0]} {crate[1]} ({expression})")
    parts = ["Licences of the crates that island-metrics contains. Written by tests/ops/notices.py.\n"]
    for text, crates in sorted(groups.items(), key=lambda group: group[1]):
        parts.append("\n".join([*crates, "-" * 80, text, ""]))
    return ("\n" + "=" * 80 + "\n").join(parts)


def bill_of_materials():
    with open(os.path.join(ROOT, "Cargo.lock"), "rb") as file:
        locked = {(package["name"], package["version"]): package for package in tomllib.load(file)["package"]}
    known = packages()

    def component(kind, crate):
        name, version = crate
        purl = f"pkg:cargo/{name}@{version}"
        entry = {"type": kind, "name": name, "version": version, "purl": purl, "bom-ref": purl,
                 "licenses": [{"expression": known[crate]["license"]}]}
        checksum = locked[crate].get("checksum")
        return entry | ({"hashes": [{"alg": "SHA-256", "content": checksum}]} if checksum else {})

    program = next(crate for crate in known if crate[0] == "island-metrics")
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
            "metadata": {"component": component("application", program)},
            "components": [component("library", crate) for crate in linked()]}


def main():
    if sys.argv[1:2] == ["--sbom"]:
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            json.dump(bill_of_materials(), file, indent=1)
        return
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
