# SPDX-License-Identifier: Apache-2.0
"""docs/security.md names a test for each door: it must be there, and be run."""
import ast
import os
import re
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
DOC = os.path.join(HERE, "..", "docs", "security.md")
NAME = re.compile(r"`((?:\w+/)?test_\w+\.(?:py|c)) ([\w.]+)`")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def in_python(path):
    """Class.method of all tests in it, which unittest finds by their names."""
    return {"%s.%s" % (c.name, m.name) for c in ast.parse(read(path)).body
            if isinstance(c, ast.ClassDef) for m in c.body
            if isinstance(m, ast.FunctionDef) and m.name.startswith("test")}


def in_c(path):
    """Functions that are tests: one that is not run is not used, and does not compile."""
    return set(re.findall(r"^static void (\w+)\(void \*\*\w+\)", read(path), re.M))


class Doc(unittest.TestCase):
    def test_names(self):
        found = NAME.findall(" ".join(read(DOC).split()))
        self.assertGreater(len(found), 30)
        for file, name in found:
            path = os.path.join(HERE, file)
            self.assertTrue(os.path.exists(path), file)
            self.assertIn(name, (in_python if file.endswith(".py") else in_c)(path), file)

    def test_each_door_has_one(self):
        doors = read(DOC).split("## Doors")[1].split("\n## ")[0]
        rows = [line for line in doors.splitlines() if line.startswith("| ")][1:]
        self.assertGreater(len(rows), 15)
        for row in rows:
            self.assertTrue(NAME.search(row.split("|")[4]), row)


if __name__ == "__main__":
    unittest.main()
