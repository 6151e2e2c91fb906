# SPDX-License-Identifier: Apache-2.0
"""
The clocks jump while giltrace records: somebody sets the wall clock, the machine is suspended.
Only where the clock is this test's own: in the machines of scripts/kernels.sh, by GT_OWN_CLOCK=1.
"""
import contextlib
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

HOUR = 3600
SECOND = 10 ** 9


@unittest.skipUnless(os.environ.get("GT_OWN_CLOCK") == "1", "the clock is everybody's")
class ClockSet(h.BpfTest):
    def setUp(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)
        self.work.start_workers(stat=1)

    def rounds(self, n=200):
        self.work.do("run", limit=n)
        self.work.do("join")
        self.work.quiesce()

    @contextlib.contextmanager
    def step(self, seconds):
        """The wall clock is ahead by that meanwhile; a monotonic one tells what it would be."""
        def put(by):
            time.clock_settime(time.CLOCK_REALTIME, real + time.monotonic() - mono + by)
        real, mono = time.time(), time.monotonic()
        put(seconds)
        try:
            yield
        finally:
            put(0)

    def samples(self, r, n):
        """Waits for n clock samples more in its file: one comes each second."""
        path = r.files()[0]
        have = len(h.Recording(path).clocks)
        h.until(lambda: len(h.Recording(path).clocks) >= have + n, "clock samples", 30)

    def distances(self, rec):
        """Of Unix time and CLOCK_MONOTONIC in each sample, from the first one on, in s."""
        first = rec.clocks[0].unix_ns - rec.clocks[0].mono_ns
        return [(c.unix_ns - c.mono_ns - first) / SECOND for c in rec.clocks]

    def test_forth_and_back(self):
        for seconds in (HOUR, -HOUR):
            begin = time.monotonic()
            with h.Recorder(self.work) as r:
                self.rounds()
                self.samples(r, 1)
                with self.step(seconds):
                    self.rounds()
                    self.samples(r, 2)
                self.rounds()
                self.samples(r, 2)
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
            took = time.monotonic() - begin
            self.assert_sound(rec)
            seen = self.distances(rec)
            self.assertTrue([d for d in seen if abs(d - seconds) < 60], seen)
            self.assertLess(abs(seen[-1]), 60)
            # No time in it is bent: neither the events', nor the slices that are made of them.
            self.assertLess(rec.events[-1].ns - rec.events[0].ns, took * SECOND)
            trace = rec.trace()
            self.assertRegex(trace.text, r"the wall clock was set")
            begins = [s.begin for s in trace.of("hold_gil")]
            self.assertLess(max(begins) - min(begins), took * SECOND)
            self.assertEqual(sorted(s.end - s.begin for s in trace.of("hold_gil"))[:50],
                             sorted(x.end - x.begin for x in rec.holds())[:50])

    def test_set_between_two_samples(self):
        """It is back before anybody looks."""
        with h.Recorder(self.work) as r:
            self.rounds()
            with self.step(HOUR):
                self.rounds(10)
            self.assertEqual(r.stop(), h.OK, r.text())
            self.assert_sound(r.recording())
            r.recording().trace()

    def test_a_duration_is_as_long_as_ever(self):
        for seconds in (HOUR, -HOUR):
            with h.Recorder(self.work, "-d", "3") as r:
                begin = time.monotonic()
                with self.step(seconds):
                    self.rounds()
                    self.assertEqual(r.finish(), h.OK, r.text())
                took = time.monotonic() - begin
            self.assertGreater(took, 1)
            self.assertLess(took, 3 + 5 * h.SLOW)
            rec = r.recording()
            self.assertEqual(rec.end.reason, h.END_DURATION)
            self.assertGreaterEqual(rec.clocks[-1].mono_ns - rec.clocks[0].mono_ns, 3 * SECOND)

    def test_suspend(self):
        """CLOCK_BOOTTIME goes on where CLOCK_MONOTONIC, and with it all events, stands still."""
        alarm, state = "/sys/class/rtc/rtc0/wakealarm", "/sys/power/state"
        if not os.path.exists(alarm) or not os.path.exists(state):
            self.skipTest("this kernel cannot suspend, or not wake up")
        with open(state) as f:
            ways = f.read().split()
        with h.Recorder(self.work) as r:
            self.rounds()
            self.samples(r, 1)
            before = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
            for way in [w for w in ("mem", "freeze") if w in ways]:
                with contextlib.suppress(OSError):
                    with open(alarm, "w") as f:
                        f.write("+5")
                    with open(state, "w") as f:
                        f.write(way)
                    break
            jump = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic() - before
            if jump < 1:
                r.stop()
                self.skipTest("this machine does not suspend")
            self.rounds()
            self.samples(r, 2)
            self.assertEqual(r.stop(), h.OK, r.text())
            rec = r.recording()
        self.assert_sound(rec)
        apart = [(c.boot_ns - c.mono_ns) / SECOND for c in rec.clocks]
        self.assertAlmostEqual(apart[-1] - apart[0], jump, delta=0.5)
        rec.trace()


if __name__ == "__main__":
    h.main()
