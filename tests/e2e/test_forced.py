# SPDX-License-Identifier: Apache-2.0
"""Was a release asked for by another thread, or did the thread give the GIL up by itself?

The truth is what each thread does: a loop in pure Python never releases the GIL by itself, os.stat
and time.sleep do nothing else. Medians and shares, and threads that go before others, as the
machine may be shared.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from odd import each_python  # noqa: E402

MS = 1000 * 1000
INTERVALS = (0.0001, 0.001, 0.005, 0.02)
STATS = 500


def share(part, whole):
    return len(part) / len(whole)


@each_python
class Forced(h.BpfTest):
    def record(self, py, *races):
        """Runs races one after another; the recording, and of each race its threads."""
        with h.Workload(py, env={"PYTHON_GIL": "1"}) as w:
            self.prefer(w.pid)
            with h.Recorder(w) as r:
                threads = [w.do("race", **race) for race in races]
                w.quiesce()
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
        self.assertEqual(rec.faults()[:5], [])
        self.assertEqual(rec.lost, 0)
        self.assertEqual({e.forced for e in rec.releases()} - {True, False}, set())
        return rec, threads

    def prefer(self, pid):
        """Before all else that runs here; inherited by the threads to come. Seconds in all."""
        try:
            os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
        except OSError as err:
            h.say("no real-time priority here (%s), so holds may be too long" % err)

    def racing(self, rec, threads, name, forced=None):
        """Releases of a thread while all of them ran."""
        begin = max(begin for _, _, begin, _ in threads.values())
        end = min(end for _, _, _, end in threads.values())
        return [e for e in rec.releases(threads[name][0], forced) if begin <= e.ns <= end]

    def each_holds_follow_the_switch_interval(self, py):
        races = [dict(cpu=n, interval=i, seconds=max(0.04, 12 * i))
                 for n in (2, 4) for i in INTERVALS]
        rec, done = self.record(py, *races)
        medians = {}
        for race, threads in zip(races, done):
            all_of_it, holds = [], []
            for tid, _, begin, end in threads.values():
                mine = [e for e in rec.releases(tid) if begin <= e.ns <= end]
                all_of_it += mine
                holds += [x.end - x.begin for x in rec.holds(tid)
                          if begin <= x.end <= end and x.forced]
            forced = [e for e in all_of_it if e.forced]
            what = "%d threads, %g s: %d of %d forced, holds %s" % (
                race["cpu"], race["interval"], len(forced), len(all_of_it), sorted(holds))
            self.assertGreater(len(holds), 3, what)
            self.assertGreaterEqual(share(forced, all_of_it), 0.9, what)
            interval = race["interval"] * 1e9
            medians[race["cpu"], race["interval"]] = middle = h.median(holds)
            self.assertGreater(middle, 0.9 * interval, what)
            self.assertLess(middle, 2.5 * interval + MS, what)
        for n in (2, 4):
            times = [medians[n, i] for i in INTERVALS]
            self.assertEqual(times, sorted(times), "medians for %s" % (INTERVALS,))
        self.check_trace(rec)

    def check_trace(self, rec):
        """hold_gil and drop_gil say the same as the file."""
        trace = rec.trace()
        told = {(e.tid, e.ns): e.forced for e in rec.releases()}
        for name, at in (("hold_gil", "end"), ("drop_gil", "begin")):
            spans = trace.of(name)
            self.assertGreaterEqual(len(spans), len(told))
            for s in spans:
                key = trace.tracks[s.tid], getattr(s, at) - rec.to_unix
                want = {True: "true", False: "false", None: None}[told.get(key)]
                got = s.args.get("forced")
                self.assertEqual(got if got is None else str(got).lower(), want, s)

    def each_voluntary(self, py):
        races = [dict(stat=1, interval=0.005, seconds=2, limit=STATS),
                 dict(nap=2, interval=0.005, seconds=0.05),
                 dict(nap=1, cpu=1, interval=0.0005, seconds=0.1),
                 dict(stat=1, cpu=1, interval=0.0005, seconds=0.1, limit=2000)]
        rec, (alone, naps, beside_nap, beside_stat) = self.record(py, *races)
        tid, rounds, begin, end = alone["stat-0"]
        mine = [e for e in rec.releases(tid) if begin <= e.ns <= end]
        self.assertEqual(rounds, STATS)
        self.assertGreaterEqual(len(mine), STATS)
        self.assertEqual([e for e in mine if e.forced], [], "nobody else wants it")
        for name in naps:
            mine = self.racing(rec, naps, name)
            self.assertGreater(len(mine), 5)
            self.assertLess(share(self.racing(rec, naps, name, True), mine), 0.1)
        for threads, gives in ((beside_nap, "nap-0"), (beside_stat, "stat-0")):
            cpu, other = self.racing(rec, threads, "cpu-0"), self.racing(rec, threads, gives)
            self.assertGreater(min(len(cpu), len(other)), 2, gives)
            self.assertGreaterEqual(share([e for e in cpu if e.forced], cpu), 0.9, gives)
            self.assertLess(share([e for e in other if e.forced], other), 0.1, gives)
        self.check_trace(rec)

    def test_function_probes_do_not_tell(self):
        py = h.python()
        if not h.has_symtab(py.file):
            self.skipTest("no CPython with symbols here")
        with h.Workload(py) as w:
            with h.Recorder(w, "--probe=functions") as r:
                w.do("race", cpu=2, interval=0.001, seconds=0.05)
                w.quiesce()
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
        self.assertGreater(len(rec.releases()), 10)
        self.assertEqual({bytes([e.kind]) for e in rec.file.events if e.forced}, set())
        for s in rec.trace().slices:
            self.assertNotIn("forced", s.args)


if __name__ == "__main__":
    h.main()
