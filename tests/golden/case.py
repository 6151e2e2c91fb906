# SPDX-License-Identifier: Apache-2.0
"""What the tests of gil2trace's command line share: how to make recordings and to run it."""
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import check_trace_rules  # noqa: E402

TXT2GIL = GIL2TRACE = None


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gil2trace-")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def make(self, script, name=None):
        """The .gil file of a script of this folder, or of a text with newlines."""
        if "\n" in script:
            source = self.path("script.txt")
            with open(source, "w") as f:
                f.write(script)
        else:
            source = os.path.join(HERE, script + ".txt")
        out = self.path(name or script + ".gil")
        os.makedirs(os.path.dirname(out), exist_ok=True)
        subprocess.run([TXT2GIL, source, out], check=True)
        return out

    def run_it(self, *args, status=0, **kw):
        """Runs gil2trace and returns what it wrote to standard error."""
        p = subprocess.run([GIL2TRACE, *args], stderr=subprocess.PIPE, cwd=self.dir, **kw)
        self.assertEqual(p.returncode, status, p.stderr.decode("utf-8", "replace"))
        return p.stderr.decode("utf-8", "replace")

    def check(self, path):
        """Reads a trace, which must be right in itself, and returns its events."""
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
            raw = f.read()
        self.assertEqual(check_trace_rules.check(raw), [])
        return json.loads(raw.decode("utf-8"))

    def check_no_rest(self):
        self.assertEqual([n for n in os.listdir(self.dir) if n.endswith(".tmp")], [])

def main(usage):
    global TXT2GIL, GIL2TRACE
    args = [a for a in sys.argv[1:] if a != "--update"]
    if len(args) != 2:
        sys.exit(usage)
    TXT2GIL, GIL2TRACE = map(os.path.abspath, args)
    unittest.main(argv=sys.argv[:1])
