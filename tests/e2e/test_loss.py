# SPDX-License-Identifier: Apache-2.0
"""A reader that is too slow: what is lost is counted exactly, and drawn as a gap."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

ROUNDS = 20000
TINY = "--ring-size=%d" % (os.sysconf("SC_PAGESIZE") // 1024)
BIG = "--ring-size=16384"


class Losses(h.BpfTest):
    def setUp(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)
        self.work.start_workers(cpu=1, stat=2)
        self.work.do("interval", seconds=0.0005)

    def load(self):
        self.work.do("run", names=["stat-0"], limit=ROUNDS)
        self.work.do("join")
        self.work.do("run", limit=500)
        self.work.do("join")
        self.work.quiesce()

    def rounds(self, n):
        self.work.do("run", names=["stat-0"], limit=n)
        self.work.do("join")
        self.work.quiesce()

    def two(self, during):
        """
        The same load seen by a recorder with a tiny ring, handed to during(), which loads, and
        by one that loses nothing.
        """
        with h.Recorder(self.work, BIG) as whole, h.Recorder(self.work, TINY) as r:
            during(r)
            self.status, self.text = r.stop(), r.text()
            self.assertEqual(whole.stop(), h.OK, whole.text())
            good, rec = whole.recording(), r.recording()
        self.assert_sound(good)
        self.assertEqual(good.lost, 0)
        self.assertGreater(good.total(), 2 * ROUNDS)
        self.check_counts(rec, good.total())
        return rec

    def check_counts(self, rec, total):
        self.assertEqual(rec.total() + rec.lost, total)
        self.assertEqual(rec.problem, None)
        self.assertEqual(self.status, h.LOSSES if rec.lost else h.OK, self.text)
        self.assertIn(rec.result(), self.text)
        self.assertEqual(rec.violations()[:5], [])
        for gap in rec.gaps:
            self.assertLessEqual(gap.begin_ns, gap.ns)
            self.assertGreater(gap.count, 0)

    def check_drawn(self, rec):
        trace = rec.trace()
        shift = rec.clocks[0].unix_ns - rec.clocks[0].mono_ns
        for gap in rec.gaps:
            begin, end = gap.begin_ns + shift, gap.ns + shift
            over = [s for s in trace.of("hold_gil") if s.begin < end and s.end > begin]
            self.assertEqual(over, [], "holds drawn over the gap %d .. %d" % (begin, end))
        told = [e for e in trace.events if "lost" in e["name"].lower() and e["ph"] != "M"]
        self.assertGreaterEqual(len(told), 1, "the gap is drawn")
        self.assertIn(str(rec.gaps[0].count), str(told))
        whole = [x for x in rec.holds()]
        drawn = {s.end - s.begin for s in trace.of("hold_gil")}
        for x in whole[:50]:
            self.assertIn(x.end - x.begin, drawn)

    def test_reader_that_is_stuck_to_the_end(self):
        def during(r):
            r.freeze()
            self.load()
            r.proc.send_signal(signal.SIGINT)
            r.thaw()
        rec = self.two(during)
        self.assertGreater(rec.lost, ROUNDS)
        self.assertGreater(rec.total(), 50)
        self.assertEqual(len(rec.gaps), 1)
        self.check_drawn(rec)

    def test_reader_that_is_stuck_for_a_while(self):
        """What comes after the gap is recorded again, and the gap is where it was."""
        told = []

        def during(r):
            self.rounds(20)
            r.freeze()
            told.append(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9)
            self.load()
            told.append(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9)
            r.thaw(rounds=4)  # it looks at every ring each time it wakes up
            self.rounds(20)
        rec = self.two(during)
        self.assertGreater(rec.lost, ROUNDS)
        self.assertEqual(len(rec.gaps), 1)
        self.assertGreater(rec.gaps[0].begin_ns, told[0])
        self.assertGreater(rec.gaps[0].ns, told[1])
        tid = self.work.threads["stat-0"]
        before = [e for e in rec.events if e.ns < rec.gaps[0].begin_ns and e.tid == tid]
        after = [e for e in rec.events if e.ns > rec.gaps[0].ns and e.tid == tid]
        self.assertGreaterEqual(sum(1 for e in before if e.kind == h.RELEASE), 20)
        self.assertGreaterEqual(sum(1 for e in after if e.kind == h.RELEASE), 19)
        self.check_drawn(rec)

    def test_reader_that_is_overrun(self):
        """The ring fills and is emptied in turns."""
        rec = self.two(lambda r: self.load())
        if not rec.lost:
            self.skipTest("the reader kept up with the smallest ring")
        self.check_drawn(rec)
        self.assertTrue([e for e in rec.events if e.ns > rec.gaps[0].ns], "it goes on after a gap")

    def test_target_ends_while_events_are_lost(self):
        with h.Recorder(self.work, TINY) as r:
            r.freeze()
            self.load()
            self.work.kill()
            r.thaw()
            self.assertEqual(r.finish(), h.LOSSES, r.text())
            rec = r.recording()
        self.assertGreater(rec.lost, ROUNDS)
        self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
        self.check_drawn(rec)

    def test_the_reader_is_not_woken_for_each_event(self):
        """A wake-up costs the traced thread several times as much as all the rest of a hit."""
        with h.Recorder(self.work, BIG) as r:
            def slept():
                return int(r.status(r"^voluntary_ctxt_switches:\s+(\d+)").group(1))
            before = slept()
            self.rounds(ROUNDS)
            times = slept() - before
            self.assertEqual(r.stop(), h.OK, r.text())
            self.assertGreater(r.recording().total(), 2 * ROUNDS)
        self.assertLess(times, ROUNDS / 20)

    def test_each_target_has_a_ring_of_its_own(self):
        """What one process loses is not lost by another of the same recorder."""
        with h.Workload(h.python()) as calm:
            calm.start_workers(stat=1)
            with h.Recorder([self.work, calm], TINY) as r:
                r.freeze()
                self.load()
                calm.do("run", limit=10)
                calm.do("join")
                calm.quiesce()
                r.thaw()
                self.assertEqual(r.stop(), h.LOSSES, r.text())
                rec = r.recording(calm.pid)
                self.assertGreater(r.recording(self.work.pid).lost, 0)
            self.assert_sound(rec)
            self.assertEqual(rec.lost, 0)
            self.assertGreaterEqual(rec.count(h.RELEASE, calm.threads["stat-0"]), 10)


if __name__ == "__main__":
    h.main()
