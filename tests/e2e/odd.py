# SPDX-License-Identifier: Apache-2.0
"""What the tests of odd sequences share."""
import os
import time

import harness as h

FUTEX = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
FOR_EVER = 60  # seconds of switch interval: a timed wait that does not come round again
UNSEEN = r"did not change hands|no event"


def once():
    """
    One of each version: what becomes of a GIL in these cases is up to that, and other tests see to
    how it was built. A free-threaded build stands there twice; these switch its GIL on themselves.
    """
    those = [p for p in h.chosen() if p.env.get("PYTHON_GIL") != "1"]
    if os.environ.get("GT_ALL_PYTHONS") == "1":
        return those
    kinds = {}
    for p in those:
        kinds.setdefault((p.version[:2], hangs(p), p.free_threaded, p.build["libc"] == "musl"), p)
    return list(kinds.values())


def each_python(cls):
    return h.each_python(cls, once)


def target(py, **kwargs):
    return h.Workload(py, env={"PYTHON_GIL": "1"}, native=True, **kwargs)


def now():
    """On the clock of the events."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9


def opened(span):
    return span.args.get("open")


def published(py):
    """Does this version tell who holds the GIL?"""
    return py.version >= (3, 13)


def hangs(py):
    """Does a thread that wants the GIL of an ending interpreter stay, instead of ending?"""
    return py.version >= (3, 13, 8)


def exits_in_take(py):
    return (3, 9) <= py.version and not hangs(py)


class Odd(h.BpfTest):
    """What the cases share. A waiter wants the GIL, in C, when it is told to."""

    def waiters(self, w, n):
        self.waiting = []
        for _ in range(n):
            self.waiting.append(w.do("waiter"))
            w.expect_said(b"w")
        w.quiesce()
        return list(self.waiting)

    def queue(self, w, n):
        """Lets n waiters want the GIL, which somebody holds, until they are blocked."""
        for tid in self.waiting:
            self.assertNotEqual(w.syscall(tid), FUTEX, "it waits for its byte")
        os.write(w.wait, b"g" * n)

        def blocked():
            tids = [t for t in self.waiting if w.syscall(t) == FUTEX]
            return len(tids) == n and tids
        tids = h.until(blocked, "waiters block")
        self.waiting = [t for t in self.waiting if t not in tids]
        return tids

    def grab(self, w, **kwargs):
        """A thread holds the GIL in C, until let_go(), which tells which it was."""
        w.send("grab", **kwargs)
        w.expect_said(b"h")

    def let_go(self, w):
        os.write(w.hear, b"x")
        tid = w.answer()
        w.quiesce()
        return tid

    def apart(self, w, wait):
        """A thread holds the GIL of another interpreter for good; another waits for it, or 0."""
        w.send("apart", wait=wait)
        w.expect_said(b"h")
        os.write(w.hear, b"x")
        return w.answer()

    def gone(self, w, tids, what):
        h.until(lambda: not set(tids) & set(w.tids()), what)

    def assert_sound(self, rec, **kwargs):
        """Nothing is wrong with it, in the file and by what giltrace itself found."""
        self.assertEqual(rec.faults(**kwargs)[:5], [], rec.path)

    def check_started(self, rec, span, not_before, not_after):
        """A span that was open when recording began is drawn from there."""
        self.assertEqual(opened(span).split("+")[0], "start", span)
        self.assertTrue(not_before <= span.begin - rec.to_unix <= not_after,
                        (not_before, span, not_after))

    def check_quiet(self, trace):
        """gil2trace had nothing to say but what it has read and written."""
        self.assertEqual(len(trace.text.splitlines()), 2, trace.text)
