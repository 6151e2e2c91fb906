# SPDX-License-Identifier: Apache-2.0
"""What the tests of joint views share: ranks, where their time lies, what is checked."""
import collections
import glob
import json
import os
import re
import stat

import base as b
from model import Model
from profilers import Profiler

US, MS, S = b.US, b.MS, b.S
# The axis is this far from Unix time: a wrong clock cannot go unnoticed.
ASIDE = 123 * MS + 456789
NO_OVERLAP = "overlap|no time in common"
UNIX = 1700000000 * S + 123456789
INSIGHT = re.compile(r"(trace_view|trace|msprof(_slice)?(_\d+){0,4})\.json\Z")


def by_pid(events):
    """Slices of the GIL by the pid of their lane, as it stands there."""
    out = collections.defaultdict(list)
    for e in events:
        if e.get("ph") == "X" and e["name"] in ("take_gil", "hold_gil", "drop_gil"):
            begin = b.ns(e["ts"])
            out[e["pid"]].append((e["name"], begin, begin + b.ns(e["dur"]), e["tid"]))
    return out


class Joint(b.Case):
    """Ranks of a few seconds, in which the clocks drift apart."""

    def rank(self, i, pace=8, **kw):
        kw.setdefault("pid", 7000 + 100 * i)
        m = Model(20 + i, threads=4, rounds=250, gaps=i, rank=i, unix=UNIX, start=100000 * S,
                  pace=pace, **kw)
        m.write(self.path("GIL_%d_rank_%d.gil" % (m.pid, i)))
        return m

    def axis(self, m):
        """By RAW and D, as the Profiler's stamps are."""
        d = UNIX + ASIDE - m.raw(m.start)
        return d, lambda ns: m.raw(ns) + d

    def by_its_begin(self, m, begin=0.2):
        """That of a Profiler that has left nothing but its trace: by RAW, right at its begin."""
        at = m.start + int((m.end - m.start) * begin)
        d = m.to_unix(at) - m.raw(at)
        return lambda ns: m.raw(ns) + d

    def profiler(self, m, place, begin=0.2, end=0.8):
        """One that runs in a part of the recording."""
        at = [place(m.start + int((m.end - m.start) * x)) for x in (begin, end)]
        return Profiler(m.pid, m.rank, at[0], at[1], tids=[m.pid, m.pid + 1], seed=m.rank)

    def convert(self, *args, **kwargs):
        run = self.run_it(*args, **kwargs)
        self.assert_no_rest()
        return run

    def check_placed(self, m, events, place, within=US, keep=lambda s, begin, end: True):
        """Each slice lies where it must; which of them are left is kept()'s word."""
        want = sorted((k, place(x), place(y)) for k, _, _, x, y in m.truth().drawn())
        want = [s for s in want if keep(s, s[1], s[2])]
        got = sorted(s[:3] for s in events)
        self.assertEqual(len(got), len(want))
        self.assertGreater(len(got), 50)
        for name in ("take_gil", "hold_gil", "drop_gil"):
            for g, w in zip([s for s in got if s[0] == name], [s for s in want if s[0] == name]):
                self.assertLessEqual(abs(g[1] - w[1]), within, (g, w))
                self.assertLessEqual(abs(g[2] - w[2]), within, (g, w))
        digits = collections.Counter(s[1] % 1000 for s in got)
        self.assertGreater(len(digits), 30, "nanoseconds are gone")
        return got

    def check_insight(self, folder, name):
        """For one card: two files, no database, no link, none that all may write to."""
        top = os.path.join(folder, name)
        self.assertTrue(os.path.isdir(top), self.tree())
        for where, dirs, files in os.walk(top):
            for f in files:
                path = os.path.join(where, f)
                self.assertFalse(os.path.islink(path), path)
                self.assertFalse(os.stat(path).st_mode & stat.S_IWOTH, path)
                self.assertFalse(f.endswith(".db"), path)
        jsons = [p for p in glob.glob(os.path.join(top, "*", "*.json"))
                 if INSIGHT.match(os.path.basename(p))]
        self.assertEqual(len({os.path.dirname(p) for p in jsons}), 1, jsons)
        self.assertEqual(len(jsons), 2, jsons)
        return {os.path.basename(p): p for p in jsons}

    def check_said(self, run, method, stored):
        """Which clock it was and how good it is: said, and kept in what was written."""
        self.assertIn(method, run.err)
        self.assertRegex(run.err, r"\d+(\.\d+)? ?(ns|us|ms)", "no bound of the error")
        self.assertIn(method, stored.decode(), "the method is not stored")

    def merged(self, raw, p, data=None):
        """Every event of the Profiler is there, unchanged and in its order; the others are ours."""
        data = b.parse(raw)
        if isinstance(p.data, dict):
            self.assertEqual({k: v for k, v in data.items() if k != "traceEvents"},
                             {k: v for k, v in p.data.items() if k != "traceEvents"})
            data = data["traceEvents"]
        theirs = collections.Counter(json.dumps(e, sort_keys=True) for e in p.events)
        left = [e for e in data if json.dumps(e, sort_keys=True) in theirs]
        self.assertEqual(left, p.events)
        ours = [e for e in data if json.dumps(e, sort_keys=True) not in theirs]
        self.assertEqual([e for e in ours if list(e)[-1] != "ph"], [], "ph is not the last key")
        return ours

    def one_of(self, folder, name):
        """The merged trace of a Profiler's folder."""
        found = [n for n in os.listdir(self.path(folder))
                 if n in (name + ".json", name[:-len("_ascend_pt")] + ".json")]
        self.assertEqual(len(found), 1, os.listdir(self.path(folder)))
        return self.path(folder, found[0])
