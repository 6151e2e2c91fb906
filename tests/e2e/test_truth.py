# SPDX-License-Identifier: Apache-2.0
"""Recordings against what C code in the target measured itself (workloads/gilhold.c)."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

US = 1000
MS = 1000 * 1000
TIMES = 30
BUSY = int(10 * MS * h.SLOW)  # longer than it takes another thread to wake up


class GroundTruth(h.BpfTest):
    """
    The machine may be shared and any single instant may be late, so tolerances are asked of the
    median; the order of events holds without any tolerance.
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.work = h.Workload(h.python(), native=True)
        cls.addClassCleanup(cls.work.__exit__) if hasattr(cls, "addClassCleanup") else None

    @classmethod
    def tearDownClass(cls):
        if not hasattr(cls, "addClassCleanup"):  # Python before 3.8
            cls.work.__exit__()

    def run_recorded(self, command, **kwargs):
        self.work.quiesce()
        with h.Recorder(self.work) as r:
            answer = self.work.do(command, n=TIMES, ns=BUSY, **kwargs)
            self.work.quiesce()
            self.assertEqual(r.stop(), h.OK, r.text())
            rec = r.recording()
        self.assert_sound(rec)
        return answer, rec

    def only(self, spans, begin, end):
        """The one span that covers the middle of what was measured."""
        middle = (begin + end) // 2
        found = [s for s in spans if s.begin <= middle <= s.end]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_hold_and_wait(self):
        truth, rec = self.run_recorded("hold")
        trace = rec.trace()
        holds, waits = rec.holds(truth["holder"]), rec.waits(truth["waiter"])
        drawn_holds = {s.end - s.begin for s in trace.of("hold_gil", truth["holder"])}
        drawn_waits = {s.end - s.begin for s in trace.of("take_gil", truth["waiter"])}
        hold_errors, wait_errors, begins, ends = [], [], [], []
        for begin, end, _ in truth["holds"]:
            span = self.only(holds, begin, end)
            self.assertLessEqual(span.begin, begin)
            self.assertGreaterEqual(span.end, end)
            begins.append(begin - span.begin)
            ends.append(span.end - end)
            hold_errors.append((span.end - span.begin) - (end - begin))
            self.assertIn(span.end - span.begin, drawn_holds)
        for begin, end, _ in truth["waits"]:
            span = self.only(waits, begin, end)
            self.assertGreaterEqual(span.begin, begin)
            self.assertLessEqual(span.end, end)
            wait_errors.append((end - begin) - (span.end - span.begin))
            self.assertIn(span.end - span.begin, drawn_waits)
        for what, errors in (("hold", hold_errors), ("wait", wait_errors), ("begin", begins),
                             ("end", ends)):
            self.assertLess(h.median(errors), 100 * US * h.SLOW, "%s: %s" % (what, sorted(errors)))

    def test_forced_switch_is_a_release_as_long_as_its_wait(self):
        """
        The waiter has asked for the GIL for 10 ms, so the holder's drop waits until it has it,
        unless it was so fast that there is nothing to wait for.
        """
        for _ in range(5):
            truth, rec = self.run_recorded("hold")
            if self.check_drops(truth, rec):
                return
        self.fail("no forced switch was seen in %d" % (5 * TIMES))

    def check_drops(self, truth, rec):
        drops = rec.trace().of("drop_gil", truth["holder"])
        shift = rec.clocks[0].unix_ns - rec.clocks[0].mono_ns
        yields = 0
        for begin, end, _ in truth["holds"]:
            hold = self.only(rec.holds(truth["holder"]), begin, end)
            drop = [s for s in drops if s.begin == hold.end + shift]
            self.assertEqual(len(drop), 1)
            after = [e for e in rec.events if e.tid == truth["holder"] and e.ns > hold.end]
            if after[0].kind != h.YIELD:
                self.assertEqual(drop[0].end, drop[0].begin, "a release that nothing delayed")
                continue
            yields += 1
            taken = min(e.ns for e in rec.events if e.kind == h.ACQUIRE and e.ns > hold.end)
            self.assertEqual(drop[0].end, min(taken, after[1].ns) + shift)
        return yields

    def test_released_for_a_known_time(self):
        truth, rec = self.run_recorded("free")
        befores, afters = [], []
        trace = rec.trace()
        shift = rec.clocks[0].unix_ns - rec.clocks[0].mono_ns
        for begin, end, _ in truth["spans"]:
            self.assertEqual(rec.between(begin, end, truth["tid"]), [])
            for span in rec.holds(truth["tid"]):
                self.assertTrue(span.end <= begin or span.begin >= end, (span, begin, end))
            for span in trace.of("hold_gil", truth["tid"]):
                self.assertTrue(span.end <= begin + shift or span.begin >= end + shift, span)
            mine = [e for e in rec.events if e.tid == truth["tid"]]
            before = [e for e in mine if e.ns <= begin][-1]
            after = [e for e in mine if e.ns >= end][0]
            self.assertIn(before.kind, (h.RELEASE, h.YIELD))
            self.assertIn(after.kind, (h.ACQUIRE, h.WAIT))
            befores.append(begin - before.ns)
            afters.append(after.ns - end)
        self.assertLess(h.median(befores), 100 * US * h.SLOW, sorted(befores))
        self.assertLess(h.median(afters), 100 * US * h.SLOW, sorted(afters))

    def test_unix_time(self):
        """What the wall clock said during a hold lies on that hold in the trace."""
        truth, rec = self.run_recorded("hold")
        holds = rec.trace().of("hold_gil", truth["holder"])
        waits = rec.trace().of("take_gil", truth["waiter"])
        for measured, drawn in ((truth["holds"], holds), (truth["waits"], waits)):
            # Each by its nearest: the program may have been off the CPU between its two clocks.
            errors = [min(abs(s.begin - unix) for s in drawn) for _, _, unix in measured]
            self.assertLess(h.median(errors), MS * h.SLOW, errors)
        self.assertLess(abs(holds[-1].end - time.time() * 1e9), 60e9)

    def test_clock_samples(self):
        self.work.quiesce()
        before = time.clock_gettime(time.CLOCK_MONOTONIC)
        with h.Recorder(self.work, "-d", "1.2") as r:
            self.assertEqual(r.finish(), h.OK, r.text())
            clocks = r.recording().clocks
        after = time.clock_gettime(time.CLOCK_MONOTONIC)
        self.assertGreaterEqual(len(clocks), 3, "at the start, each second, at the end")
        for c in clocks:
            self.assertTrue(before * 1e9 <= c.mono_ns <= after * 1e9)
            self.assertLess(c.error_ns, MS * h.SLOW)
            shift = time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(
                time.CLOCK_MONOTONIC)
            self.assertLess(abs(c.unix_ns - c.mono_ns - shift * 1e9), 5 * MS * h.SLOW)
        self.assertGreater(clocks[-1].mono_ns - clocks[0].mono_ns, 1e9)


class OpenIntervals(h.BpfTest):
    """What began before the recording or ends after it is drawn to its edge, and flagged."""

    FUTEX = {"x86_64": 202, "aarch64": 98}

    def setUp(self):
        self.work = h.Workload(h.python(), native=True)
        self.addCleanup(self.work.__exit__)
        self.waiter = self.work.do("waiter")
        self.work.expect_said(b"w")
        self.work.quiesce()

    def grab(self):
        """The main thread holds the GIL in C."""
        self.work.send("grab")
        self.work.expect_said(b"h")

    def queue(self):
        """The waiter wants the GIL and is blocked in take_gil: it was in read(2) before."""
        number = self.FUTEX[os.uname().machine]
        self.assertNotEqual(self.work.syscall(self.waiter), number)
        os.write(self.work.wait, b"g")
        h.until(lambda: self.work.syscall(self.waiter) == number, "the waiter blocks")

    def let_go(self):
        os.write(self.work.hear, b"x")
        self.work.answer()
        self.work.quiesce()

    def test_held_and_awaited_at_attach(self):
        self.grab()
        self.queue()
        with h.Recorder(self.work) as r:
            self.let_go()
            self.assertEqual(r.stop(), h.OK, r.text())
            rec = r.recording()
        self.assert_sound(rec)
        main = [e for e in rec.events if e.tid == self.work.pid]
        self.assertEqual(main[0].kind, h.RELEASE)
        mine = [e.kind for e in rec.events if e.tid == self.waiter]
        self.assertIn(mine[:2], ([h.ACQUIRE, h.RELEASE], [h.WAIT, h.ACQUIRE]))
        trace = rec.trace()
        hold = trace.of("hold_gil", self.work.pid)[0]
        shift = rec.clocks[0].unix_ns - rec.clocks[0].mono_ns
        self.assertEqual(hold.end, main[0].ns + shift)
        # To the beginning of the recording, which is before the first event.
        self.assertLessEqual(hold.begin, rec.clocks[0].unix_ns + 50 * MS * h.SLOW)
        self.assertLess(hold.begin, hold.end)
        self.assert_flagged(hold, [s for s in trace.of("hold_gil") if s is not hold])

    def test_held_and_awaited_at_the_end(self):
        with h.Recorder(self.work) as r:
            self.grab()
            self.queue()
            # The first timed wait lasts 5 ms; its event comes before it. A second look at a
            # blocked thread after its event is in the file is not possible: stop, then read.
            self.assertEqual(r.stop(), h.OK, r.text())
            rec = r.recording()
        self.let_go()
        self.assertEqual([e.kind for e in rec.events if e.tid == self.work.pid][-1], h.ACQUIRE)
        self.assertEqual([e.kind for e in rec.events if e.tid == self.waiter][-1], h.WAIT)
        trace = rec.trace()
        hold = trace.of("hold_gil", self.work.pid)[-1]
        wait = trace.of("take_gil", self.waiter)[-1]
        last = max(e.ns for e in rec.events) + rec.clocks[0].unix_ns - rec.clocks[0].mono_ns
        for s in (hold, wait):
            self.assertGreaterEqual(s.end, last)
        self.assert_flagged(hold, trace.of("hold_gil")[:-1])
        self.assertTrue(wait.args)

    def assert_flagged(self, span, whole):
        """It has something in its args that none of the whole ones has."""
        def marks(s):
            return {k: v for k, v in s.args.items() if k != "gil"}
        self.assertTrue(marks(span), span)
        for other in whole:
            self.assertNotEqual(marks(other).keys(), marks(span).keys(), other)


if __name__ == "__main__":
    h.main()
