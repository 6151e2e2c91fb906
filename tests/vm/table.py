#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table.py DOC FOLDER: a table of what scripts/kernels.sh found: a row for each FOLDER/NAME/result.json
of tests/vm/run.py. With GT_WRITE_DOCS=1 these rows also take the place of their like in DOC."""
import glob
import json
import os
import sys

BEGIN, END = "<!-- made by scripts/kernels.sh -->\n", "<!-- end -->\n"
HEAD = ["machine", "kernel", "Python", "libc", "back end", "missing", "tests", "passed", "failed",
        "skipped", "seconds", "date"]


def row(name, found):
    features = found["features"] or {"backend": "?", "features": []}
    counts = [sum(t["how"] == how for t in found["tests"]) for how in ("passed", "failed",
                                                                       "skipped")]
    missing = [f["name"] for f in features["features"] if not f["available"]]
    return [name, "%(kernel)s %(machine)s" % found, found["python"], found["libc"],
            features["backend"], ", ".join(missing) or "-", found["asked"]] + counts + [found["seconds"],
                                                                        found["date"]]


def line(cells):
    return "| %s |\n" % " | ".join(str(c) for c in cells)


def main(doc, folder):
    rows = {}
    for path in sorted(glob.glob(os.path.join(folder, "*", "result.json"))):
        name = os.path.basename(os.path.dirname(path))
        with open(path) as f:
            rows[name] = line(row(name, json.load(f)))
    head = line(HEAD) + line(["---"] * 7 + ["---:"] * 4 + ["---"])
    sys.stdout.write(head + "".join(rows.values()))
    if os.environ.get("GT_WRITE_DOCS") != "1":
        return
    with open(doc) as f:
        before, rest = f.read().split(BEGIN)
    table, after = rest.split(END)
    old = {text.split("|")[1].strip(): text for text in table.splitlines(True)[2:]}
    old.update(rows)
    with open(doc, "w") as f:
        f.write(before + BEGIN + head + "".join(old.values()) + END + after)


main(*sys.argv[1:])
