# SPDX-License-Identifier: Apache-2.0
"""Odd sequences: threads that end, one by one or with their process, in whatever they are in.

Each is looked at in the file and in the trace.
"""
import ctypes
import os
import signal
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from odd import (  # noqa: E402
    FOR_EVER, FUTEX, Odd, each_python, exits_in_take, hangs, now, opened, target)

MS = 1000 * 1000
TGKILL = {"x86_64": 234, "aarch64": 131}[os.uname().machine]


@each_python
class Ends(Odd):
    """Threads that end, one by one or with their process, in whatever they are in."""

    def finish(self, py, release, interval):
        """
        Two daemon threads wait in take_gil when the interpreter ends; the main thread then holds
        the GIL until told, or releases it.
        """
        with target(py) as w:
            waiters = self.waiters(w, 2)
            w.do("interval", seconds=interval)
            with h.Recorder(w) as r:
                w.send("finish", release=release)
                w.expect_said(b"h")
                self.queue(w, 2)
                os.write(w.hear, b"x")
                w.expect_said(b"w" if release else b"h")
                if release or py.version >= (3, 9):
                    h.until(lambda: all(w.syscall(t) != FUTEX for t in waiters), "they leave it")
                    if not hangs(py):
                        self.gone(w, waiters, "they end")
                    self.assertEqual(hangs(py), set(waiters) <= set(w.tids()))
                still = now()
                os.write(w.hear, b"x")
                self.assertEqual(w.proc.wait(h.LIMIT), 0)
                self.assertEqual(r.finish(), h.OK, r.text())
                rec = r.recording()
        self.assert_sound(rec)
        self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
        for tid in waiters + [w.pid]:
            self.assertEqual(len(rec.exits(tid)), 1, "EXIT of %d" % tid)
        return w, waiters, rec, still

    def check_last_hold(self, w, rec, trace):
        """The main thread holds to its end, if it has not released."""
        last = [e.kind for e in rec.of(w.pid) if e.kind in (h.ACQUIRE, h.RELEASE)][-1]
        hold = trace.of("hold_gil", w.pid)[-1]
        if last == h.ACQUIRE:
            self.assertEqual(opened(hold), "exit")
            self.assertEqual(hold.end - rec.to_unix, rec.exits(w.pid)[0])
        else:
            self.assertIsNone(opened(hold))

    def each_interpreter_ends_while_threads_wait(self, py):
        """By pthread_exit in take_gil (3.9 to 3.13.7), or with the process."""
        for _ in range(3):
            w, waiters, rec, still = self.finish(py, False, 0.2)
            if not [e for t in waiters for e in rec.of(t) if e.kind == h.ACQUIRE and e.ns < still]:
                break
        else:  # a machine so slow that they had waited for an interval before
            self.fail("the waiters got the GIL before the interpreter began to end")
        trace = rec.trace()
        self.check_last_hold(w, rec, trace)
        for tid in waiters:
            end, = rec.exits(tid)
            if exits_in_take(py):
                self.assertLess(end, still)
            else:
                self.assertGreater(end, still)
            for hold in trace.of("hold_gil", tid):
                self.assertIsNone(opened(hold))
            take = trace.of("take_gil", tid)[-1]
            if rec.of(tid)[-1].kind == h.WAIT:
                self.assertEqual((opened(take), take.end - rec.to_unix), ("finalizing", end))
            else:  # up to 3.8 the thread may get it once more, and drops it at once
                self.assertLess(py.version, (3, 9))
                self.assertEqual([e.kind for e in rec.of(tid)][-2:], [h.ACQUIRE, h.RELEASE])
                self.assertIsNone(opened(take))

    def each_interpreter_ends_and_releases(self, py):
        """The waiters get the GIL of an ending interpreter: they drop it at once and are gone."""
        w, waiters, rec, still = self.finish(py, True, FOR_EVER)
        trace = rec.trace()
        self.check_last_hold(w, rec, trace)
        for tid in waiters:
            self.assertEqual([e.kind for e in rec.of(tid)][-3:], [h.WAIT, h.ACQUIRE, h.RELEASE])
            self.assertEqual(rec.exits(tid)[0] > still, hangs(py))
            hold, take = trace.of("hold_gil", tid)[-1], trace.of("take_gil", tid)[-1]
            self.assertEqual((opened(hold), opened(take)), (None, None))
            self.assertEqual(len(trace.of("take_gil", tid)), rec.count(h.WAIT, tid))

    def told_end(self, w):
        """When a thread that ends by "end" did so, and which it was."""
        ns, tid, _ = struct.unpack("<qii", os.read(w.said, 16))
        self.gone(w, [tid], "the thread ends")
        return tid, ns, now()

    def each_thread_ends_without_the_gil(self, py):
        with target(py) as w, h.Recorder(w) as r:
            tids = w.do("churn", n=10)
            w.send("end", holding=False)
            tid, told, gone = self.told_end(w)
            w.quiesce()
            self.assertEqual(r.stop(), h.OK, r.text())
            rec = r.recording()
        self.assert_sound(rec)
        end, = rec.exits(tid)
        self.assertTrue(told <= end <= gone, (told, end, gone))
        trace = rec.trace()
        for t in tids + [tid]:
            end, = rec.exits(t)
            last = rec.of(t)[-1]
            self.assertIn(last.kind, (h.RELEASE, h.YIELD))
            self.assertLessEqual(last.ns, end)
            for s in trace.of("hold_gil", t) + trace.of("take_gil", t):
                self.assertIsNone(opened(s))
        late = [rec.exits(t)[0] - rec.of(t)[-1].ns for t in tids]
        self.assertLess(h.median(late), 20 * MS, "ns from the last release to the thread's end")

    def each_thread_ends_with_the_gil_and_the_process_is_killed(self, py):
        with target(py) as w:
            self.waiters(w, 2)
            with h.Recorder(w) as r:
                w.send("end", holding=True)
                holder, told, gone = self.told_end(w)
                blocked = self.queue(w, 1)
                self.assertEqual(len(blocked), 1)
                before = now()
                w.kill()
                self.assertEqual(r.finish(), h.OK, r.text())
                rec = r.recording()
        self.assert_sound(rec)
        self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
        trace = rec.trace()
        end, = rec.exits(holder)
        self.assertTrue(told <= end <= gone, (told, end, gone))
        hold = trace.of("hold_gil", holder)[-1]
        self.assertEqual((opened(hold), hold.end - rec.to_unix), ("exit", end))
        end, = rec.exits(blocked[0])
        self.assertGreater(end, before)
        self.assertEqual(rec.of(blocked[0])[-1].kind, h.WAIT)
        take = trace.of("take_gil", blocked[0])[-1]
        self.assertEqual((opened(take), take.end - rec.to_unix), ("exit", end))

    def test_killed_while_threads_hold_and_wait(self):
        for py in {h.python(), h.pythons()[-1]}:
            with target(py) as w:
                self.waiters(w, 2)
                with h.Recorder(w) as r:
                    self.grab(w, thread=True)
                    blocked = self.queue(w, 2)
                    w.kill()
                    self.assertEqual(r.finish(), h.OK, r.text())
                    rec = r.recording()
            self.assert_sound(rec)
            trace = rec.trace()
            open_holds = [s for s in trace.of("hold_gil") if opened(s)]
            self.assertEqual(len(open_holds), 1)
            for s in open_holds + [trace.of("take_gil", t)[-1] for t in blocked]:
                self.assertEqual(opened(s), "exit")
                self.assertEqual([s.end - rec.to_unix], rec.exits(trace.tracks[s.tid]))


class Reuse(Odd):
    """Ids of threads are given again; the next one is another thread, with no state."""

    def setUp(self):
        if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
            h.say("MISSING: no ns_last_pid here, ids that are given again are not tested")
            self.skipTest("no /proc/sys/kernel/ns_last_pid")

    def second(self, w, r, tid):
        """Another thread with that id waits, acquires, ends."""
        self.assertEqual(w.do("waiter", name="second", tid=tid), tid, "id of the second")
        w.expect_said(b"w")
        r.thaw(rounds=3)
        self.waiting = [tid]
        self.grab(w)
        self.assertEqual(self.queue(w, 1), [tid])
        self.let_go(w)
        self.gone(w, [tid], "the second ends")

    def lives(self, rec, tid):
        """What is told of the two threads; each begins with its name."""
        mine = [e for e in rec.all if e.tid == tid and e.kind != h.GIL]
        one, two = [n for n, e in enumerate(mine) if e.kind == h.EXIT]
        self.assertEqual(two, len(mine) - 1)
        first, second = mine[:one + 1], mine[one + 1:]
        for name, part in (("first", first), ("second", second)):
            self.assertEqual(part[0].kind, h.THREAD)
            self.assertIn(name, {e.name for e in part if e.kind == h.THREAD})
        return first, second

    def check_second(self, rec, tid, second):
        """Its wait is told, and drawn, from its own begin."""
        wait = [e for e in second if e.kind == h.WAIT][0]
        got = [e for e in second if e.kind == h.ACQUIRE and e.ns > wait.ns][0]
        trace = rec.trace()
        self.assertIn("second", " ".join(trace.names.values()), "one row, with the later name")
        self.assertIn((wait.ns, got.ns, None), [
            (s.begin - rec.to_unix, s.end - rec.to_unix, opened(s)) for s in trace.of("take_gil")])
        return trace

    def test_an_id_that_is_given_again(self):
        with target(h.python()) as w:
            with h.Recorder(w) as r:
                tid = w.do("waiter", name="first")
                w.expect_said(b"w")
                r.thaw(rounds=3)  # names are asked for now and then
                os.write(w.wait, b"g")
                self.gone(w, [tid], "the first ends")
                self.second(w, r, tid)
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
        self.assert_sound(rec)
        _, second = self.lives(rec, tid)
        for s in self.check_second(rec, tid, second).slices:
            self.assertIsNone(opened(s))

    def test_the_id_of_a_thread_that_ended_as_it_waited(self):
        """
        For another GIL, as its end is none that this one would outlive. What was heard last of
        that id is a wait; the next thread's is another one all the same.
        """
        if h.pythons()[-1].version < (3, 12):
            h.say("MISSING: no CPython 3.12 or newer, an id given again in a wait is not tested")
            self.skipTest("no CPython 3.12 or newer here")
        with target(h.pythons()[-1]) as w:
            with h.Recorder(w) as r:
                tid = self.apart(w, True)
                h.until(lambda: w.syscall(tid) == FUTEX, "it waits")
                r.thaw(rounds=3)
                ctypes.CDLL(None).syscall(TGKILL, w.pid, tid, signal.SIGUSR1)
                self.gone(w, [tid], "it ends in take_gil")
                self.second(w, r, tid)
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
        self.assert_sound(rec)
        first, second = self.lives(rec, tid)
        wait, end = [e for e in first if e.kind != h.THREAD][-2:]
        self.assertEqual([wait.kind, end.kind], [h.WAIT, h.EXIT])
        self.assertNotIn(wait.gil, {e.gil for e in second if e.kind == h.WAIT})
        take, = [s for s in self.check_second(rec, tid, second).of("take_gil", tid)
                 if s.begin - rec.to_unix == wait.ns]
        self.assertEqual(take.end - rec.to_unix, end.ns)
        self.assertIn(opened(take), ("exit", "finalizing"))


if __name__ == "__main__":
    h.main()
