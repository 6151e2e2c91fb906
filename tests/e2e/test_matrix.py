# SPDX-License-Identifier: Apache-2.0
"""
Every CPython that is here, those of scripts/pythons.sh among them, under the same load; what came
of it is a row of pythons.md in the build folder. With GT_WRITE_DOCS=1 also docs/pythons.md gets
that table.
"""
import collections
import datetime
import os
import re
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

SOURCE = os.path.dirname(h.TESTS)
DOC = os.path.join(SOURCE, "docs", "pythons.md")
BEGIN, END = "<!-- made by tests/e2e/test_matrix.py -->\n", "<!-- end -->\n"
STATS, ROUNDS = 2000, 1500

HEAD = ["Python", "build", "sites, by", "symbols", "wait", "acquire", "release", "yield", "takes",
        "acquires", "releases", "forced", "violations"]
Row = collections.namedtuple("Row", "order cells")


def build(py):
    """What a file is, in words."""
    with open(py.path, "rb") as f:
        kind, = struct.unpack_from("<H", f.read(18), 16)
    words = ["libpython" if py.lib else "static, " + {2: "non-PIE", 3: "PIE"}[kind]]
    if not h.has_symtab(py.file):
        words.append("stripped")
    words += [word for option, word in (("--enable-optimizations", "PGO"), ("--with-lto", "LTO"))
              if option in py.build["options"]]
    if py.debug:
        words.append("debug")
    if py.free_threaded:
        words.append("free-threaded")
    return ", ".join(words + [py.build["libc"]])


rows = []


class Matrix(h.BpfTest):
    def each_row(self, py):
        with h.Workload(py) as w:
            w.start_workers(cpu=3, stat=1)
            w.do("interval", seconds=0.001)
            with h.Recorder(w) as r:
                # The waiters first, or that thread is done before it has to share.
                w.do("run", names=["cpu-0", "cpu-1", "cpu-2"], limit=ROUNDS)
                w.do("run", names=["stat-0"], limit=STATS)
                rounds = w.do("join")
                w.quiesce()
                status, said = r.stop(), r.text()
                rec = r.recording()
            rows.append(self.row(py, w, rec))
            self.assertEqual(status, h.OK, said)
            self.assertEqual(w.do("ping"), "pong")
        self.assertEqual(rounds, {"cpu-0": ROUNDS, "cpu-1": ROUNDS, "cpu-2": ROUNDS,
                                  "stat-0": STATS})
        self.assertEqual(rec.lost, 0)
        self.assertEqual(rec.faults()[:5], [])
        self.assertNotEqual(rec.meta["symbols.verdict"], "disagrees",
                            rec.meta.get("symbols.disagreement"))
        self.assertEqual(rec.meta["probe.mode"], "sites", "the scan is right on all of these")
        self.assertEqual(rec.meta["python.drop_request"],
                         "inferred" if py.version < (3, 7) else "read")
        if w.about["gil"]:
            self.check_gil(w, rec)
        else:
            self.assertEqual(rec.events, [])
            self.assertEqual(rec.meta["gil.enabled"] + rec.meta["gil.enabled_at_end"], "00")
        self.assertEqual(rec.meta.get("gil.free_threaded", "0") == "1", py.free_threaded)

    def check_gil(self, w, rec):
        self.assert_sound(rec)
        for name, tid in w.threads.items():
            acquires, releases = rec.count(h.ACQUIRE, tid), rec.count(h.RELEASE, tid)
            self.assertEqual(acquires, releases, "%s begins and ends without the GIL" % name)
            self.assertGreater(acquires, 0, name)
            self.assertLessEqual(rec.count(h.WAIT, tid), acquires)
        # Each round of os.stat gives the GIL up once.
        self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), STATS)
        self.assertGreater(len(rec.releases(forced=True)), 0)

    def row(self, py, w, rec):
        how = sorted({s.how.split(":")[0] for s in rec.sites})
        kinds = [sum(1 for s in rec.sites if s.kind == k)
                 for k in (h.WAIT, h.ACQUIRE, h.RELEASE, h.YIELD)]
        seen = [rec.count(k) for k in (h.WAIT, h.ACQUIRE, h.RELEASE)]
        return Row((py.version, py.label), [
            py.label if w.about["gil"] else py.label + " (GIL off)", build(py),
            "%s (%s)" % (", ".join(how), rec.meta["probe.mode"]), rec.meta["symbols.verdict"]] +
            kinds + seen + [len(rec.releases(forced=True)), "%d / %s" % (
                len(rec.violations()), rec.meta["check.mismatches"])])


h.each_python(Matrix, h.matrix)


class OtherArchitecture(unittest.TestCase):
    def test_scan(self):
        """Only read: by the unit test of the scan, which checks what it finds, and tells it."""
        scan = os.path.join(h.BUILD, "tests", "test_gilscan")
        files = {f: name for name in h.cached()[1] for f in h.files_of(name)}
        if not files or not os.access(scan, os.X_OK):
            missing = scan if files else "a CPython of the other architecture"
            h.say("MISSING: %s, so the scan of the other architecture's is not tested" % missing)
            self.skipTest("no " + missing)
        nowhere = h.new_dir()  # those of pyenv are scanned by the unit test itself
        env = dict(os.environ, GT_SOURCE_DIR=SOURCE, GT_BUILD_DIR=h.BUILD, HOME=nowhere,
                   PYENV_ROOT=nowhere, GT_TEST_PYTHONS=":".join(files))
        done = subprocess.run([scan], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                              timeout=10 * h.LIMIT)
        said = done.stdout.decode(errors="replace")
        self.assertEqual(done.returncode, 0, said[-2000:])
        for path, name in files.items():
            self.assertIn(path, said)
            rows.append(self.row(path, name, said))

    def row(self, path, name, said):
        found = re.search(re.escape(path) + r": 3\.\d+, (\d+) wait, (\d+) acquire, (\d+) release, "
                          r"(\d+) yield(.*)", said)
        with open(os.path.join(h.cache(), name, "giltrace-origin")) as f:
            version = re.match(r"\d+\.\d+\.\d+", f.read()).group()
        lib = "libpython" in path
        return Row((tuple(int(n) for n in version.split(".")), name + " " * lib), [
            "%s %s%s" % (version, name, " libpython" if lib else ""),
            ("libpython" if lib else "static") + (", stripped" if found.group(5) else ""),
            "scan (only that)", "none"] + list(found.groups()[:4]) + ["-"] * 5)


def names():
    """What scripts/pythons.sh knows."""
    return subprocess.run([os.path.join(SOURCE, "scripts", "pythons.sh"), "--names"], check=True,
                          stdout=subprocess.PIPE).stdout.decode().split()


def absent():
    here = h.cached()[0] + h.cached()[1]
    return [Row(((9,), name), [name, "was not there"] + ["-"] * 11)
            for name in names() if name not in here]


def table():
    lines = ["On %s: Linux %s, %s, %d CPUs.\n\n" % (
        datetime.date.today().isoformat(), os.uname().release, os.uname().machine, os.cpu_count())]
    for cells in [HEAD, ["---"] * 4 + ["---:"] * 9] + [r.cells for r in sorted(rows + absent())]:
        lines.append("| %s |\n" % " | ".join(str(c) for c in cells))
    return "".join(lines)


def tearDownModule():
    path, owner, text = os.path.join(h.BUILD, "pythons.md"), os.stat(h.BUILD), table()
    with open(path, "w") as f:
        f.write(text)
    if os.geteuid() == 0:
        os.chown(path, owner.st_uid, owner.st_gid)
    if os.environ.get("GT_WRITE_DOCS") == "1":
        with open(DOC) as f:
            before, rest = f.read().split(BEGIN)
        with open(DOC, "w") as f:
            f.write(before + BEGIN + text + END + rest.split(END)[1])


class Docs(unittest.TestCase):
    def test_there_is_a_row_for_each_name(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the table was made on x86-64")
        with open(DOC) as f:
            rows = [line.split("|")[1].split() for line in f if line.startswith("| ")]
        for name in names():
            self.assertTrue([r for r in rows if name in r], "no row for %s" % name)
        for minor in range(6, 14):
            found = [r for r in rows if r[-1] == "pyenv" and r[0].startswith("3.%d." % minor)]
            self.assertTrue(found, "no row for pyenv's 3.%d" % minor)


if __name__ == "__main__":
    h.main()
