# SPDX-License-Identifier: Apache-2.0
"""Recordings of the tool that users had before, in its three generations, against a model's truth.

They hold the calls of take_gil and drop_gil; a hold is what lies between the end of a take and the
next drop. Times are cut to microseconds, so nothing is asked that is finer than two of these.
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
from gilwrite import ACQUIRE, RELEASE, WAIT, YIELD  # noqa: E402
from model import HOLDS, WAITS, YIELDS, Model  # noqa: E402

US = b.US
WITHIN = 2 * US


def calls(m):
    """(begin, end, name, tid) of each call, in the order of ends; end None: never returned."""
    out = []
    for tid in m.threads:
        events, returned = [r for r in m.records if r.tid == tid], m.start
        yields = {s.begin: s.end for s in m.states if s.kind == YIELDS and s.tid == tid}
        for i, r in enumerate(events):
            following = events[i + 1].ns if i + 1 < len(events) else m.end
            if r.kind == WAIT:
                done = i + 1 < len(events) and events[i + 1].kind == ACQUIRE
                out.append((r.ns, events[i + 1].ns if done else None, WAITS, tid))
            elif r.kind == ACQUIRE and (i == 0 or events[i - 1].kind != WAIT):
                out.append((max(returned, r.ns - 400), r.ns, WAITS, tid))
            elif r.kind == RELEASE:
                end = yields.get(r.ns, min(r.ns + 300, following))
                out.append((r.ns, end, YIELDS, tid))
                returned = end
            assert r.kind in (WAIT, ACQUIRE, RELEASE, YIELD) or not m.exits_left
    return sorted(out, key=lambda c: c[1] or m.end)


def records(m, generation, pid, leave_out=lambda call: False):
    """What that generation wrote of it."""
    place = (lambda ns: ns) if generation == 1 else m.to_unix
    out = []
    for call in calls(m):
        begin, end, name, tid = call
        if leave_out(call):
            continue
        about = {"name": name, "pid": str(pid), "tid": "GIL_%d" % tid}
        if generation == 3:
            if end is not None:
                us = place(begin) // US
                out.append((end, dict(about, ph="X", ts=us, dur=round((end - begin) / 1000, 3))))
            continue
        out.append((begin, dict(about, ph="B", ts=place(begin) // US)))
        if end is not None:
            out.append((end, dict(about, ph="E", ts=place(end) // US)))
    return [r for _, r in sorted(out, key=lambda r: r[0])]


class Old(b.Case):
    NAME = "GIL_4242_rank_3.json"

    def write(self, data, name=NAME, cut=0):
        text = json.dumps(data, indent=None)
        with open(self.path(name), "w") as f:
            f.write(text[:len(text) - cut])
        return name

    def near(self, got, want, shift=0):
        """Spans (tid, begin, end) in pairs."""
        self.assertEqual(len(got), len(want))
        for g, w in zip(sorted(got), sorted(want)):
            self.assertEqual(g[0], w[0])
            self.assertLessEqual(abs(g[1] - w[1] - shift), WITHIN, (g, w, shift))
            self.assertLessEqual(abs(g[2] - w[2] - shift), WITHIN, (g, w, shift))

    def compare(self, trace, m, generation):
        """Waits, holds and releases that were seen from end to end."""
        def of(name):
            return [(s.tid, s.begin, s.end) for s in trace.slices if s.name == name and
                    "open" not in s.args]
        all_calls = calls(m)
        takes = [(c[3], m.to_unix(c[0]), m.to_unix(c[1])) for c in all_calls if c[2] == WAITS and
                 c[1]]
        drops = [(c[3], m.to_unix(c[0]), m.to_unix(c[1])) for c in all_calls if c[2] == YIELDS]
        holds = [(s.tid, m.to_unix(s.begin), m.to_unix(s.end)) for s in m.states
                 if s.kind == HOLDS and s.begin > m.start and s.ended]
        shift = 0
        if generation == 1:  # Unix time is nowhere in it
            shift = min(s[1] for s in of("take_gil")) - min(t[1] for t in takes)
        self.near(of("take_gil"), takes, shift)
        self.near(of("hold_gil"), holds, shift)
        got = of("drop_gil")
        # A yield of which the end is not known is flagged; those are few.
        self.near(got, drops, shift)

    def test_three_generations(self):
        for generation in (1, 2, 3):
            for seed in range(4):
                with self.subTest(generation=generation, seed=seed):
                    m = Model(60 + seed, threads=2 + 2 * seed, rounds=400, told=False)
                    name = self.write(records(m, generation, 3))
                    run = self.run_it(name, "-o", "t.json")
                    self.assertNotIn("Traceback", run.err)
                    trace = self.read("t.json")
                    self.assertEqual(list(trace.processes), [4242], "the pid is in the file's name")
                    self.assertIn("rank 3", list(trace.processes.values())[0])
                    self.compare(trace, m, generation)
                    self.assertEqual([s for s in trace.slices if s.end < s.begin], [])

    def test_host_pid_where_there_is_no_rank(self):
        m = Model(61, threads=3, rounds=100, told=False)
        self.run_it(self.write(records(m, 3, 987), "GIL_987_rank_0.json"), "-o", "t.json")
        self.assertEqual(list(self.read("t.json").processes), [987])

    def test_summary_and_page(self):
        m = Model(62, threads=4, rounds=400, told=False)
        name = self.write(records(m, 3, 3))
        process, = self.summary(name)["processes"]
        waits = {tid: sum(c[1] - c[0] for c in calls(m) if c[3] == tid and c[2] == WAITS and c[1])
                 for tid in m.threads}
        for t in process["threads"]:
            n = t["takes"] + 1
            self.assertLess(abs(t["wait_ns"] - waits[t["tid"]]), n * 2 * US)
        self.run_it(name, "--html=t.html")
        self.assertIn("</html>", b.read_json(self.path("t.html")).decode())

    def test_together_with_new_ones(self):
        m = Model(63, threads=3, rounds=100, told=False)
        new = Model(64, threads=3, rounds=100, pid=5000, rank=0)
        new.write(self.path("new.gil"))
        self.run_it(self.write(records(m, 2, 3)), "new.gil", "-o", "t.json")
        trace = self.read("t.json")
        self.assertEqual([s for s in trace.plain() if s[1] == 5000], b.truth_slices(new))
        self.assertEqual(set(trace.processes), {4242, 5000})

    def test_killed(self):
        """Without the closing bracket, after a comma, in the middle of a record."""
        m = Model(65, threads=3, rounds=200, told=False)
        for generation in (1, 2, 3):
            data = records(m, generation, 3)
            whole = self.trace(self.write(data)).plain()
            for cut, name in ((1, "bracket.json"), (20, "record.json"), (4001, "more.json")):
                with self.subTest(generation=generation, cut=cut):
                    run = b.gil2trace(self.write(data, name, cut), "-o", "t.json", cwd=self.dir)
                    self.assertIn(run.status, (b.OK, b.LEFT_OUT) if cut == 1 else (b.LEFT_OUT,),
                                  run.err)
                    self.assertIn(name, run.err)
                    self.assertIn("losses not counted", run.err)
                    self.assertNotRegex(run.err, "[0-9] lost|the recorder was|--probe")
                    got = {(s.name,) + s[2:6] for s in self.read("t.json").slices
                           if "open" not in s.args}
                    self.assertTrue(got <= {(s[0],) + s[2:6] for s in whole}, "made up")
                    self.assertGreater(len(got),
                                       len(whole) * (1 - (cut + 400) / len(json.dumps(data))) * 0.9)
            text = json.dumps(data)
            with open(self.path("comma.json"), "w") as f:
                f.write(text[:-1] + ", ")
            self.assertIn("comma.json", b.gil2trace("comma.json", "-o", "t.json", cwd=self.dir).err)
            self.read("t.json")

    def test_lost_release(self):
        """No long false hold comes of it."""
        m = Model(66, threads=3, rounds=300, told=False)
        drops = [c for c in calls(m) if c[2] == YIELDS]
        gone = {(c[0], c[3]) for c in drops[20::40]}
        longest = max(s.end - s.begin for s in m.states if s.kind == HOLDS)
        for generation in (1, 2, 3):
            data = records(m, generation, 3, lambda c: c[2] == YIELDS and (c[0], c[3]) in gone)
            trace = self.trace(self.write(data))
            holds = [s for s in trace.slices if s.name == "hold_gil"]
            self.assertLessEqual(max(s.end - s.begin for s in holds), longest + WITHIN)
            self.assertEqual(len([s for s in holds if "unknown" in s.args.get("open", "")]),
                             len(gone))

    def test_wait_without_a_release_is_there(self):
        """One that was never released, as its thread waits at the end: it vanished before."""
        data = [dict(name="take_gil", ph="X", ts=1700000000000000, dur=10.0, pid="0", tid="GIL_7"),
                dict(name="take_gil", ph="X", ts=1700000000000100, dur=5000.25, pid="0",
                     tid="GIL_8")]
        trace = self.trace(self.write(data))
        self.assertIn((8, 5000250), [(s.tid, s.end - s.begin) for s in trace.slices if s.name ==
                                     "take_gil"])

    def test_odd_records(self):
        """Each is left out and counted, or the file is none; nothing crashes."""
        good = dict(name="take_gil", ph="B", ts=1700000000000000, pid="0", tid="GIL_7")
        m = Model(67, threads=2, rounds=30, told=False)
        rest = records(m, 2, 0)
        for bad in (dict(good, ts=-5), dict(good, ts="x"), dict(good, ts=10**30),
                    dict(good, ts=1.5e300),
                    dict(good, tid="GIL_99999999999"), dict(good, tid="7"), dict(good, tid=None),
                    dict(good, ph="Q"),
                    dict(good, name="other"), 5, None, [], "text", {}, dict(good, ph="X", dur=-1),
                    dict(good, ph="X", dur="NaN"), [[[[]]]], dict(good, ts=0)):
            with self.subTest(bad):
                data = rest[:10] + [bad] + rest[10:]
                run = b.gil2trace(self.write(data), "-o", "t.json", cwd=self.dir)
                self.assertIn(run.status, (b.OK, b.LEFT_OUT), run.err)
                if not (isinstance(bad, dict) and bad.get("ts") == 0):
                    self.assertIn(self.NAME, run.err)
                trace = self.read("t.json")
                self.assertGreater(len(trace.slices), 60)

    def test_no_recording(self):
        for text in ("[]", "[1]", "{}",
                     '[{"name": "x", "ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]', "[{]",
                     "", "[" * 100000):
            with self.subTest(text[:30]):
                with open(self.path("o.json"), "w") as f:
                    f.write(text)
                run = self.run_it("o.json", "-o", "t.json", status=b.FAILED)
                self.assertIn("o.json", run.err)
                self.assertFalse(os.path.exists(self.path("t.json")))

    def test_many(self):
        """Half a million records: no slower than others by much, and memory stays low."""
        m = Model(68, threads=4, rounds=2000, told=False)
        text = json.dumps(records(m, 2, 3))[1:-1]
        length = m.end - m.start + 10 * b.MS
        with open(self.path(self.NAME), "w") as f:
            f.write("[")
            for i in range(45):
                stamps = length // US * i
                part = text
                if i:
                    part = ", " + re.sub(r'"ts": (\d+)',
                                         lambda t: '"ts": %d' % (int(t.group(1)) + stamps), text)
                f.write(part)
            f.write("]")
        run = self.run_it(self.NAME, "-o", "/dev/null")
        if not b.sanitized():
            self.assertLess(run.rss_kib, 200 << 10)
            self.assertLess(run.cpu, 5)


if __name__ == "__main__":
    b.main()
