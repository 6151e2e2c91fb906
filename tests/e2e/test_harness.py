# SPDX-License-Identifier: Apache-2.0
"""The attach tests' own tools can tell good from bad; needs neither root nor BPF."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

KINDS = {"W": h.WAIT, "A": h.ACQUIRE, "R": h.RELEASE, "Y": h.YIELD, "T": h.TAKE, "D": h.DROPPED}


def make(script):
    """"1A 2W 1R/3": thread and kind, a GIL after the slash; times rise by one."""
    events = []
    for n, word in enumerate(script.split()):
        what, _, gil = word.partition("/")
        events.append(h.Event(KINDS[what[-1]], 100 + n, int(what[:-1]), int(gil or 0), 0, 0, None,
                              0, 0, 0))
    return events


class Violations(unittest.TestCase):
    def test_good(self):
        for script in ("", "1A 1R 1A 1R", "1R 2A 2R", "1A 2W 3W 1R 1Y 2A 2R 2Y 3A", "1R 1Y 2A",
                       "2W 1R 2A", "1A 2A/1 1R 2R/1", "1T 1A 1R 1D 1T 1W 1A", "1A 1R 1A/1 1R/1",
                       "1R 1A 1R 2A"):
            self.assertEqual(h.violations(make(script)), [], script)

    def test_bad(self):
        for script in ("1A 1A", "1A 2A", "1A 1R 1R", "1A 2R", "1A 2W 2R", "1W 1W", "1A 1W",
                       "1A 1Y", "1W 1A 1R 1Y 1Y", "1A 2W 2A", "1A 1R 2R 2A 3R", "1R 2A 1R",
                       "1A 1T", "1A 1A/1"):
            self.assertNotEqual(h.violations(make(script)), [], script)

    def test_order_of_time(self):
        events = make("1A 1R")
        self.assertNotEqual(h.violations([events[1]._replace(kind=h.ACQUIRE),
                                          events[0]._replace(kind=h.RELEASE)]), [])

    def test_nothing_is_known_after_a_gap(self):
        events = make("1A 2A")
        self.assertNotEqual(h.violations(events), [])
        gap = h.Event(h.LOST, 101, 0, 0, 0, 0, None, 0, 100, 5)
        self.assertEqual(h.violations(events, [gap]), [])


class Numbers(unittest.TestCase):
    def test_times(self):
        for text, ns in (("1.000", 1000), ("1795975519010260.951", 1795975519010260951),
                         ("0.001", 1)):
            self.assertEqual(h.exact_ns(text), ns)
        for text in ("-1.000", "1e3.000", "1.0001", "1.00", "1", "", "."):
            self.assertRaises(AssertionError, h.exact_ns, text)

    def test_median(self):
        self.assertEqual(h.median([9, 1, 5]), 5)


class Target(unittest.TestCase):
    """The traced program, on every CPython."""

    def test_every_command(self):
        for py in h.pythons():
            with h.Workload(py, native=True) as w:
                w.start_workers(cpu=2, stat=1)
                self.assertEqual(len(w.threads), 3)
                self.assertLessEqual(set(w.threads.values()), set(w.tids()))
                w.do("run", limit=30)
                self.assertEqual(w.do("join"), {"cpu-0": 30, "cpu-1": 30, "stat-0": 30})
                w.do("run", names=["stat-0"])
                self.assertEqual(list(w.do("park")), ["stat-0"])
                w.quiesce()
                for begin, end, _ in w.do("hold", n=2, ns=1000000)["holds"]:
                    self.assertGreaterEqual(end - begin, 1000000)
                self.assertEqual(len(w.do("free", n=2, ns=1000)["spans"]), 2)
                w.do("waiter")
                w.expect_said(b"w")
                w.send("grab")
                w.expect_said(b"h")
                os.write(w.wait, b"g")
                os.write(w.hear, b"x")
                self.assertEqual(w.answer(), 0)
                self.assertEqual(len(w.do("churn", n=2)), 2)
                self.assertGreater(w.do("fork", n=2), 0)
                if py.version >= (3, 12):
                    self.assertEqual(len(w.do("interpreters", n=2, rounds=2)), 2)

    def test_no_rest_while_threads_run(self):
        with h.Workload(h.python()) as w:
            w.start_workers(cpu=1)
            w.do("run")
            self.assertIsNone(w.asleep() and w.asleep() and w.asleep())
            w.do("park")
            w.quiesce()

    def test_a_changed_byte_of_code_is_seen(self):
        if os.geteuid() != 0:
            self.skipTest("not root")
        with h.Workload(h.python()) as w:
            w.quiesce()
            self.assertEqual(w.breakpoints(), 0)
            with open("/proc/%d/maps" % w.pid) as f:
                line = [m for m in f if " r-xp " in m and m.rstrip().endswith(w.about["file"])][0]
            with open("/proc/%d/mem" % w.pid, "r+b", 0) as mem:
                end = int(line.split()[0].split("-")[1], 16)
                mem.seek(end - 4096)
                was = mem.read(1)
                mem.seek(end - 4096)
                mem.write(bytes([was[0] ^ 1]))
            self.assertEqual(w.breakpoints(), 1)


if __name__ == "__main__":
    h.main()
