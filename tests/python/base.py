# SPDX-License-Identifier: Apache-2.0
"""What the cases share: the package beside a fake giltrace, and a look at what it leaves behind."""
import contextlib
import gc
import glob
import os
import select
import shutil
import sys
import tempfile
import time
import unittest
import warnings

import giltrace

HERE = os.path.dirname(os.path.abspath(__file__))
# No site, no environment: it starts in a few milliseconds.
FAKE = [sys.executable, "-I", "-S", os.path.join(HERE, "fake_giltrace.py")]
LIMIT = 20  # seconds for what ought to take far less

giltrace._process.GRACE = 0.3  # a fake has nothing to finish


def until(condition, what):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not within %d s: %s" % (LIMIT, what))
        select.select([], [], [], 0.002)


def children():
    """Process ids of this process's children, zombies, too."""
    found = []
    for path in glob.glob("/proc/self/task/*/children"):
        with open(path) as f:
            found += f.read().split()
    return found


def fds():
    return set(os.listdir("/proc/self/fd"))


def now():
    return int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9)


class Case(unittest.TestCase):
    """A test that must leave neither a descriptor nor a child."""

    def setUp(self):
        giltrace._default._places.clear()  # what stop() returns, of the test before
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        self.fds = fds()
        self.addCleanup(self.check_nothing_left)
        self.addCleanup(self.quietly_stop)

    def quietly_stop(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", giltrace.GiltraceWarning)
            giltrace.stop()

    def check_nothing_left(self):
        gc.collect()
        self.assertEqual(children(), [])
        self.assertEqual(fds() - self.fds, set())

    def how(self, odd=None, **options):
        """Options of start() for a fake."""
        options.setdefault("output_dir", self.dir)
        options.setdefault("command", FAKE)
        if odd:
            options["options"] = list(options.get("options", ())) + ["--fake=" + odd]
        return options

    def program(self, text, name="giltrace"):
        """The path of a program in Python: nothing else need be where the tests run."""
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write("#!%s -IS\nimport os, sys\n%s\n" % (sys.executable, text))
        os.chmod(path, 0o755)
        return path

    def start(self, odd=None, **options):
        return giltrace.start(**self.how(odd, **options))

    def heard(self):
        """What the fakes have heard, packets in their order, of one process after the other."""
        lines = []
        for path in sorted(glob.glob(os.path.join(self.dir, "heard.*")), key=os.path.getmtime):
            with open(path, "rb") as f:
                lines += f.read().decode("utf-8", "surrogateescape").splitlines()
        return lines

    def marks(self):
        """[(ns, tid, name)] that were heard."""
        words = [line.split(" ", 3) for line in self.heard() if line.startswith("mark ")]
        return [(int(ns), int(tid), name) for _, ns, tid, name in words]

    @contextlib.contextmanager
    def fails(self, kind, *patterns):
        """A start() that does."""
        with self.assertRaises(kind) as caught:
            yield
        self.assertIs(type(caught.exception), kind)
        for pattern in patterns:
            self.assertRegex(str(caught.exception), pattern)
        self.assertEqual(children(), [])
        self.assertIsNone(giltrace.recording())

    @contextlib.contextmanager
    def warns(self, pattern):
        """One warning, about a line of the test."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        ours = [w for w in caught if w.category is giltrace.GiltraceWarning]
        self.assertEqual(len(ours), 1, [str(w.message) for w in caught])
        self.assertRegex(str(ours[0].message), pattern)
        self.assertIn("case_", os.path.basename(ours[0].filename))

    def in_child(self, function):
        """Runs it in a forked child, whose exit status must be 0."""
        with warnings.catch_warnings():  # of threads that are not in the child: that is the case
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            try:
                function()
                os._exit(0)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
