# SPDX-License-Identifier: Apache-2.0
"""Odd sequences: state at attach, children, interpreters, foreign threads, losses, no GIL.

Each is looked at in the file and in the trace. Builds that can run without the GIL
have it here (PYTHON_GIL=1), save in FreeThreaded.
"""
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from odd import (  # noqa: E402
    FOR_EVER, Odd, UNSEEN, each_python, now, once, opened, published, target)

TINY = "--ring-size=%d" % (os.sysconf("SC_PAGESIZE") // 1024)


@each_python
class AtAttach(Odd):
    """Who held the GIL, and who waited for it, when recording began."""

    def beyond(self, py, interval):
        """The main thread holds and two threads wait, from before the begin to behind the end."""
        with target(py) as w:
            waiters = self.waiters(w, 2)
            w.do("interval", seconds=interval)
            self.grab(w)
            self.assertEqual(sorted(self.queue(w, 2)), sorted(waiters))
            begin = now()
            with h.Recorder(w, "-d", "0.05") as r:
                ready = now()
                self.assertEqual(r.finish(), h.OK, r.text())
                rec, text = r.recording(), r.text()
            self.let_go(w)
        self.assert_sound(rec)
        return w, waiters, rec, text, (begin, ready)

    def check_beyond(self, rec, trace, tids, name, times):
        for tid in tids:
            spans = trace.of(name, tid)
            self.assertEqual(len(spans), 1, (name, tid, trace.slices))
            self.check_started(rec, spans[0], *times)
            self.assertEqual(opened(spans[0]), "start+end")
            self.assertEqual(spans[0].end, rec.end.mono_ns + rec.to_unix)
        self.assertEqual(len(trace.of(name)), len(tids))

    def skip_on_musl(self, py):
        """A waiter of musl's sleeps at an address on its own stack, which tells no GIL."""
        if py.build["libc"] == "musl":
            self.skipTest("who waits at the attach is not known on musl")

    def each_not_one_event(self, py):
        self.skip_on_musl(py)
        w, waiters, rec, text, times = self.beyond(py, FOR_EVER)
        self.assertEqual(rec.events, [])
        trace = rec.trace()
        if not published(py):
            self.assertRegex(text, UNSEEN)
            self.assertEqual(trace.slices, [])
            return
        self.assertEqual([e.tid for e in rec.before(h.HOLDING)], [w.pid])
        self.assertEqual(sorted(e.tid for e in rec.before(h.WAITING)), sorted(waiters))
        self.check_beyond(rec, trace, [w.pid], "hold_gil", times)
        self.check_beyond(rec, trace, waiters, "take_gil", times)
        self.assertEqual(len(trace.slices), 3)

    def each_nothing_but_timed_waits(self, py):
        self.skip_on_musl(py)
        known = py.version >= (3, 7)  # 3.6: where its GIL lies is not
        for _ in range(5):  # a thread that is just between two timed waits cannot be seen to wait
            w, waiters, rec, _, times = self.beyond(py, 0.005)
            self.assertEqual({e.kind for e in rec.events}, {h.WAIT})
            told = {e.tid for e in rec.before(h.WAITING)}
            self.assertLessEqual(told, set(waiters) if known else set())
            if len(told) == len(waiters) or not known:
                break
        else:
            self.fail("threads that wait when recording begins are not told")
        trace = rec.trace()
        if known:
            self.check_beyond(rec, trace, waiters, "take_gil", times)
        for tid in waiters if not known else []:
            wait, = trace.of("take_gil", tid)
            self.assertEqual((wait.begin - rec.to_unix, opened(wait)), (rec.of(tid)[0].ns, "end"))
        holders = [w.pid] if published(py) else []
        self.check_beyond(rec, trace, holders, "hold_gil", times)

    def each_released_and_acquired(self, py):
        self.skip_on_musl(py)
        """A thread holds and two wait without coming round; then it lets go."""
        with target(py) as w:
            waiters = self.waiters(w, 2)
            w.do("interval", seconds=FOR_EVER)
            self.grab(w, thread=True)
            self.queue(w, 2)
            begin = now()
            with h.Recorder(w) as r:
                ready = now()
                holder = self.let_go(w)
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
        self.assert_sound(rec)
        trace = rec.trace()
        released = rec.of(holder)[0]
        self.assertEqual(released.kind, h.RELEASE)
        hold = trace.of("hold_gil", holder)[0]
        self.check_started(rec, hold, begin, ready)
        self.assertEqual(hold.end - rec.to_unix, released.ns)
        for tid in waiters:
            got = [e for e in rec.of(tid) if e.kind == h.ACQUIRE][0]
            first = rec.of(tid)[0]
            if first != got:  # it was woken, and somebody was faster
                self.assertEqual(first.kind, h.WAIT)
                self.assertGreater(first.ns, released.ns, "no timed wait comes round")
            takes = trace.of("take_gil", tid)
            if py.version < (3, 7):
                self.assertLessEqual(len(takes), 1)
                continue
            self.assertEqual(len(takes), 1)
            self.check_started(rec, takes[0], begin, ready)
            self.assertEqual(opened(takes[0]), "start")
            self.assertEqual(takes[0].end - rec.to_unix, got.ns)
        started = [s for s in trace.slices if opened(s)]
        self.assertEqual(len(started), 1 + len([s for s in started if s.name == "take_gil"]),
                         started)

    def test_a_holder_in_a_pid_namespace(self):
        """The interpreter tells its holder by an id of its own namespace."""
        inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        some = [p for p in h.pythons() if published(p)]
        if not some:
            h.say("MISSING: no CPython 3.13 or newer, a published holder is not tested")
            self.skipTest("no CPython 3.13 or newer here")
        with target(some[0], through=inside) as w:
            self.grab(w)
            with h.Recorder(w, "-d", "0.05") as r:
                self.assertEqual(r.finish(), h.OK, r.text())
                rec = r.recording()
            self.let_go(w)
        self.assertEqual([e.tid for e in rec.before(h.HOLDING)], [w.pid])
        self.assertEqual(len(rec.trace(h.OK, "--ids=host").of("hold_gil", w.pid)), 1)


@each_python
class Others(Odd):
    """Processes and threads beside those that Python's threading makes."""

    def children(self, py, *options):
        with target(py) as w:
            w.start_workers(cpu=1)
            with h.Recorder(w, *options) as r:
                w.do("run")
                w.do("fork", n=100)
                self.assertGreater(len(w.do("children")), 2)
                w.do("park")
                w.quiesce()
                self.assertEqual(r.stop(), h.OK, r.text())
                self.assertEqual(len(r.files()), 1)
                rec = r.recording()
        self.assert_sound(rec)
        self.assertEqual(rec.lost, 0)
        self.assertEqual(rec.tids(), {w.pid, w.threads["cpu-0"]})
        self.check_quiet(rec.trace())

    def each_children(self, py):
        """fork, multiprocessing, subprocess, posix_spawn: nothing of them, nothing from them."""
        self.children(py)

    def test_children_perf(self):
        """Probes of this back end are copied into a child with the memory."""
        self.children(h.python(), "--backend=" + h.backends()[-1])

    def test_exec_by_another_thread_than_the_first(self):
        """The thread that calls it becomes the first one; the program's memory is another."""
        for py in {h.python(), h.pythons()[-1]}:
            with target(py) as w:
                w.start_workers(cpu=1, stat=1)
                with h.Recorder(w) as r:
                    w.do("run", names=["stat-0"], limit=100)
                    w.do("join")
                    argv = w.do("argv")
                    w.send("exec", path=py.path, args=argv, thread=True)
                    self.assertEqual(w.answer()["pid"], w.pid)
                    self.assertEqual(r.finish(), h.OK, r.text())
                    rec = r.recording()
                self.assertEqual(w.do("ping"), "pong")
            self.assertEqual(rec.end.reason, h.END_EXEC)
            self.assert_sound(rec)
            for s in rec.trace().slices:
                self.assertLessEqual(s.end - rec.to_unix, rec.end.mono_ns)

    def each_foreign_threads_and_interpreters(self, py):
        """C threads, interpreters that share the GIL, and (3.12) some that do not."""
        own = py.version >= (3, 12)
        with target(py) as w:
            with h.Recorder(w, "--ring-size=16384") as r:
                foreign = w.do("foreign", n=3, rounds=100)
                shared = w.do("legacy", n=2, rounds=50)
                if (3, 8) <= py.version < (3, 12):
                    shared += w.do("interpreters", n=2, rounds=50)
                apart = []
                for _ in range(3 if own else 0):  # addresses are used again
                    apart += w.do("interpreters", n=2, rounds=50)
                swapped = w.do("swap", n=50) if own else None
                if own:
                    self.apart(w, False)
                    w.do("churn", n=1)  # while another GIL is held
                w.quiesce()
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
        # Up to 3.11 a thread that goes to another interpreter without a release finds a request
        # there that was meant for the holder before it.
        self.assert_sound(rec, yields=py.version >= (3, 12))
        self.assertEqual(rec.lost, 0)
        main_gil = rec.of(w.pid)[0].gil
        for tid in foreign:
            for kind in (h.ACQUIRE, h.RELEASE):
                self.assertEqual(rec.count(kind, tid), 100)
            self.assertEqual(rec.names[tid], "foreign")
        for tid in foreign + shared:
            self.assertEqual({e.gil for e in rec.of(tid)}, {main_gil})
        for tid in shared + apart:
            self.assertGreaterEqual(rec.count(h.RELEASE, tid), 50)
        self.assertEqual(len(rec.gils) > 1, own, rec.gils)
        if own:
            for tid in apart:
                self.assertGreater(len({e.gil for e in rec.of(tid)}), 1)
            self.check_swap(rec.between(swapped[0], swapped[1], w.pid), main_gil)
        trace = rec.trace()
        self.check_quiet(trace)
        to_the_end = [s for s in trace.of("hold_gil") if opened(s) == "end"]
        self.assertEqual(len(to_the_end), int(own))
        for s in to_the_end:
            others = [o for o in trace.of("hold_gil") if o.begin > s.begin]
            self.assertGreater(len(others), 10, "two that hold at once")
            self.assertNotIn(s.args["gil"], {o.args["gil"] for o in others})
        for tid in foreign + shared + apart:
            self.assertEqual(len(trace.of("hold_gil", tid)), rec.count(h.ACQUIRE, tid))

    def check_swap(self, events, main_gil):
        """100 ways: each a release of the one GIL and an acquire of the other."""
        ways = [(e.kind, e.gil) for e in events]
        self.assertEqual(len(ways), 200)
        other = ways[1][1]
        self.assertNotEqual(other, main_gil)
        self.assertEqual(ways, [(h.RELEASE, main_gil), (h.ACQUIRE, other), (h.RELEASE, other),
                                (h.ACQUIRE, main_gil)] * 50)

    def test_a_gil_that_is_made_meanwhile(self):
        """Up to 3.6 there is none before the first thread: nothing, and then all of it."""
        old = [p for p in h.pythons() if p.version < (3, 7)]
        if not old:
            h.say("MISSING: no CPython 3.6, a GIL that is made later is not tested")
            self.skipTest("no CPython 3.6 here")
        with h.Workload(old[0]) as w:
            with h.Recorder(w) as r:
                w.do("ping")
                self.assertEqual(r.stop(), h.OK, r.text())
                self.assertRegex(r.text(), UNSEEN)
                self.assertEqual(r.recording().all, [])
            with h.Recorder(w) as r:
                w.start_workers(stat=1)
                w.do("run", limit=100)
                w.do("join")
                w.quiesce()
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
        self.assert_sound(rec)
        self.assertEqual(rec.of(w.pid)[0].kind, h.ACQUIRE)
        self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 100)


class Lost(Odd):
    """What is lost is a gap, and no reason to doubt the rest."""

    def record(self, during):
        with target(h.python()) as w:
            w.start_workers(cpu=2, stat=2)
            w.do("interval", seconds=0.0005)
            with h.Recorder(w, TINY) as r:
                during(w, r)
                self.assertEqual(r.finish(), h.LOSSES, r.text())
                self.assertNotIn("sites missing", r.text())
                rec = r.recording()
        self.assert_sound(rec)
        self.assertGreater(rec.lost, 0)
        trace = rec.trace()
        seen = {(x.tid, x.begin, x.end) for x in rec.holds()}
        for s in trace.of("hold_gil"):
            span = (trace.tracks[s.tid], s.begin - rec.to_unix, s.end - rec.to_unix)
            self.assertTrue(opened(s) or span in seen, s)
            for gap in rec.gaps:
                self.assertTrue(span[2] <= gap.begin_ns or span[1] >= gap.ns, (s, gap))
        return rec

    def load(self, w):
        w.do("run", limit=300)
        w.do("join")
        w.quiesce()

    def test_to_the_end(self):
        def during(w, r):
            r.freeze()
            self.load(w)
            r.proc.send_signal(signal.SIGINT)
            r.thaw()
        self.assertEqual(len(self.record(during).gaps), 1)

    def test_for_a_while_and_threads_end_meanwhile(self):
        """A state from before the gap, of a thread that ended in it, is not carried on."""
        def during(w, r):
            self.waiters(w, 2)
            self.grab(w)
            self.queue(w, 1)
            r.freeze()
            self.let_go(w)
            for _ in range(2):
                self.load(w)
                w.do("churn", n=20)
            r.thaw(rounds=4)
            self.load(w)
            r.proc.send_signal(signal.SIGINT)
        rec = self.record(during)
        self.assertTrue([e for e in rec.events if e.ns > rec.gaps[0].ns], "it goes on")

    def test_again_and_again(self):
        def during(w, r):
            for _ in range(3):
                r.freeze()
                self.load(w)
                r.thaw(rounds=2)
            r.proc.send_signal(signal.SIGINT)
        self.record(during)


class FreeThreaded(Odd):
    """Builds that can run without the GIL, 3.13t and newer."""

    def builds(self):
        some = [p for p in once() if p.free_threaded]
        if not some:
            h.say("MISSING: no free-threaded CPython, so none is tested")
            self.skipTest("no free-threaded CPython here")
        return some

    def run_all(self, w):
        w.do("run", limit=300)
        rounds = w.do("join")
        w.quiesce()
        return rounds

    def test_without_the_gil(self):
        for py in self.builds():
            with h.Workload(py, native=True, env={"PYTHON_GIL": "0"}) as w:
                self.assertFalse(w.about["gil"])
                w.start_workers(cpu=2, stat=2)
                with h.Recorder(w) as r:
                    self.run_all(w)
                    self.assertEqual(r.stop(), h.OK, r.text())
                    self.assertRegex(r.text(), "(?i)free-threaded|without (the|its) GIL")
                    rec = r.recording()
            self.assertEqual(rec.events + [e for e in rec.all if e.kind == h.BEFORE], [])
            self.assertEqual([rec.meta.get("gil." + k) for k in
                              ("free_threaded", "enabled", "enabled_at_end")], ["1", "0", "0"])
            self.assertEqual(rec.trace().slices, [])

    def test_with_the_gil(self):
        for py in self.builds():
            with target(py) as w:
                self.assertTrue(w.about["gil"])
                w.start_workers(cpu=2, stat=1)
                with h.Recorder(w) as r:
                    rounds = self.run_all(w)
                    self.assertEqual(r.stop(), h.OK, r.text())
                    rec = r.recording()
            self.assert_sound(rec)
            self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), rounds["stat-0"])
            self.assertEqual([rec.meta.get("gil." + k) for k in
                              ("free_threaded", "enabled", "enabled_at_end")], ["1", "1", "1"])

    def test_switched_on_by_an_import(self):
        for py in self.builds():
            with h.Workload(py, native=True) as w:
                self.assertFalse(w.about["gil"])
                w.start_workers(cpu=2, stat=1)
                with h.Recorder(w) as r:
                    self.run_all(w)
                    begin, end = w.do("enable")
                    rounds = self.run_all(w)
                    self.assertEqual(r.stop(), h.OK, r.text())
                    rec = r.recording()
            self.assert_sound(rec)
            self.assertGreater(rec.events[0].ns, begin)
            self.assertLess(rec.events[0].ns, end)
            self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), rounds["stat-0"])
            self.assertEqual([rec.meta.get("gil." + k) for k in
                              ("free_threaded", "enabled", "enabled_at_end")], ["1", "0", "1"])
            first = min(s.begin for s in rec.trace().slices)
            self.assertGreater(first - rec.to_unix, begin)


if __name__ == "__main__":
    h.main()
