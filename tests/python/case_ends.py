# SPDX-License-Identifier: Apache-2.0
"""Recordings that do not begin, or end in another way than they ought to."""
import contextlib
import gc
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings

from base import FAKE, HERE, LIMIT, Case, children, until

import giltrace

WITHOUT_STOP = """
import giltrace, sys, threading
giltrace.start(output_dir=sys.argv[1], command=sys.argv[2:])
giltrace.mark("last words")
"""


class NoStart(Case):
    def test_what_the_status_means(self):
        for status, kind, words in (
                (1, giltrace.GiltraceError, "exit status 1.* before it was ready"),
                (2, giltrace.GiltraceError, "options before it was ready"),
                (3, giltrace.NoProcess, "no process to record"),
                (4, giltrace.NotPython, "no CPython"),
                (5, giltrace.NotPermitted, "sudo -n giltrace(.|\n)*setcap"),
                (7, giltrace.OutputError, "could not be written"),
                (8, giltrace.GiltraceError, "add up"), (99, giltrace.GiltraceError, "99")):
            with self.subTest(status=status), self.fails(kind, words, "CAP_BPF is missing"):
                self.start("unready:%d" % status)
        with self.fails(giltrace.NotPython, "it does not work"):
            self.start("ended:4")

    def test_the_status_is_told(self):
        with self.assertRaises(giltrace.NotPermitted) as caught:
            self.start("unready:5")
        self.assertEqual(caught.exception.status, 5)

    def test_sudo_that_refuses(self):
        sudo = self.program("sys.exit('sudo: a password is required')", "sudo")
        with self.fails(giltrace.NotPermitted, "sudo: a password", "setcap"):
            self.start(command=sudo + " -n giltrace")

    def test_other_programs(self):
        for text, words in (("", "status 0"), ("sys.exit(1)", "status 1"),
                            ("sys.exit('no option --control-fd')", "control-fd(.|\n)*older"),
                            ("os.closerange(0, 3)\nimport _signal\n_signal.pause()",
                             "is no giltrace")):
            with self.subTest(text), self.fails(giltrace.GiltraceError, words, self.dir):
                self.start(command=self.program(text, "another"))

    def test_killed_by_somebody_else(self):
        """That is told, also where it takes its time, and where we have signalled it meanwhile."""
        words = "killed by signal 9 before it was ready"
        with self.fails(giltrace.GiltraceError, words):
            self.start("dies")
        self.addCleanup(setattr, giltrace._process, "GRACE", giltrace._process.GRACE)
        giltrace._process.GRACE = LIMIT
        with self.assertRaises(giltrace.GiltraceError) as caught:
            self.start("dies:1")
        self.assertRegex(str(caught.exception), words)
        self.assertEqual(caught.exception.status, -9)

    def test_no_descriptors(self):
        """At whichever of them: it is a failure as any other, and nothing is left."""
        with self.limit(3):
            self.assertEqual(self.unrecorded(), 42)
        failed = []
        for n in range(3, 40):
            with self.limit(n):
                try:
                    self.start()
                    break
                except giltrace.GiltraceError as err:
                    failed.append(str(err))
            self.check_nothing_left()
        ours = [text for text in failed if "cannot be started: Too many open files" in text]
        self.assertGreaterEqual(len(ours), 4, failed)
        self.assertTrue(giltrace.stop().ok)

    @contextlib.contextmanager
    def limit(self, n):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (n, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def unrecorded(self):
        @giltrace.record(**self.how())
        def step():
            return 6 * 7
        with self.warns(r"step\(\) is not recorded: .*Too many open files"):
            return step()

    def test_no_folder(self):
        os.chdir(tempfile.mkdtemp())
        self.addCleanup(os.chdir, HERE)
        os.rmdir(os.getcwd())
        with self.fails(giltrace.GiltraceError, "current folder"):
            self.start(output_dir="x")

    def test_another_version(self):
        with self.fails(giltrace.GiltraceError, "protocol 2.*protocol 1"):
            self.start("protocol:2")
        with self.fails(giltrace.GiltraceError, "protocol None"):
            self.start("floods:ready")

    def test_too_late(self):
        for odd in ("silent", "stubborn", "floods", "floods:file 1 x"):
            with self.subTest(odd=odd):
                began = time.monotonic()
                with self.fails(giltrace.TimedOut, "was not ready within 0.1 s"):
                    self.start(odd, timeout=0.1)
                self.assertLess(time.monotonic() - began, 10)

    def test_sudo_that_asks(self):
        sudo = self.program("import _signal\n_signal.pause()", "sudo")
        with self.fails(giltrace.TimedOut, "password.*sudo -n"):
            self.start(command=sudo + " giltrace", timeout=0.2)

    def test_the_next_start(self):
        with self.fails(giltrace.NotFound):
            self.start(command="/no/such/giltrace")
        self.assertIsNone(giltrace.stop())
        first = self.start()
        giltrace.stop()
        with self.fails(giltrace.GiltraceError):
            self.start("unready:1")
        self.assertIs(giltrace.stop(), first.result)  # the last there was
        self.start()
        self.assertTrue(giltrace.stop().ok)

    def test_the_same_object(self):
        """What has not begun can be begun again."""
        r = giltrace.Recording(**self.how("unready:5"))
        for _ in range(2):
            with self.fails(giltrace.NotPermitted):
                r.start()
        self.assertIsNone(r.stop())
        self.assertFalse(r.mark("x"))


class Stop(Case):
    def test_twice(self):
        self.assertIsNone(giltrace.stop())
        self.start()
        first = giltrace.stop()
        self.assertIs(giltrace.stop(), first)
        self.assertIsNone(giltrace.recording())
        self.assertEqual(giltrace.status().state, "ended")
        self.assertFalse(giltrace.mark("x"))

    def test_two_at_once(self):
        self.start()
        results = []
        threads = [threading.Thread(target=lambda: results.append(giltrace.stop()))
                   for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertTrue(results[0].ok)
        self.assertEqual({id(r) for r in results}, {id(results[0])})

    def test_losses(self):
        self.start("status:6")
        with self.warns("3 events were lost, 12 recorded"):
            result = giltrace.stop()
        self.assertTrue(result.check().ok)
        self.assertEqual((result.status, result.lost), (6, 3))

    def test_failures(self):
        for status, kind in ((1, giltrace.GiltraceError), (7, giltrace.OutputError),
                             (8, giltrace.GiltraceError)):
            with self.subTest(status=status):
                r = self.start("status:%d" % status)
                with self.warns("a thing went wrong"):
                    result = giltrace.stop()
                self.assertIs(giltrace.stop(), result)  # without another warning
                self.assertEqual((result.ok, result.status), (False, status))
                self.assertNotIn("fake: starts", result.error)
                self.assertEqual(len(result.files), 1)
                with self.assertRaisesRegex(kind, "a thing went wrong") as caught:
                    r.result.check()
                self.assertEqual(caught.exception.status, status)

    def test_killed(self):
        r = self.start("killed")
        self.assertTrue(giltrace.mark("x"))
        status = giltrace.status()
        self.assertEqual((status.state, status.events), ("ended", 0))
        self.assertFalse(r.running)
        self.assertFalse(giltrace.mark("y"))
        self.assertFalse(giltrace.resume())
        with self.warns("killed by signal 9"):
            result = giltrace.stop()
        self.assertEqual((result.ok, result.status), (False, -9))
        self.assertEqual(result.files, [os.path.join(self.dir, "GIL_%d_rank_0.gil" % os.getpid())])

    def test_what_has_a_child_that_stays(self):
        """Nobody waits for that one, though it has all descriptors."""
        self.start("stays")
        with self.warns("exit status 9"):
            self.assertEqual(giltrace.stop().status, 9)

    def test_busy(self):
        """Who says that it is not done is waited for."""
        self.start("busy:10").timeout = 2
        began = time.monotonic()
        self.assertTrue(giltrace.stop().ok)
        self.assertGreater(time.monotonic() - began, 2)

    def test_warnings_that_are_errors(self):
        self.start("status:8")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(giltrace.GiltraceWarning):
                giltrace.stop()
        self.assertFalse(giltrace.stop().ok)


class Unstopped(Case):
    def test_end_of_the_process(self):
        """It is the end of the recording, and no word is lost about it."""
        options = ["-W", "error"] + (["-X", "dev"] if sys.version_info >= (3, 7) else [])
        p = subprocess.run([sys.executable] + options + ["-c", WITHOUT_STOP, self.dir] + FAKE,
                           cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=LIMIT)
        self.assertEqual((p.returncode, p.stdout), (0, b""))
        until(lambda: "(end)" in self.heard(), "the fake notices")
        self.assertIn("last words", self.heard()[-2])

    def test_dropped_object(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            giltrace.Recording(**self.how()).start()
            gc.collect()
        self.assertEqual([w.category for w in caught], [ResourceWarning])
        until(lambda: "(end)" in self.heard(), "the fake notices")
        until(lambda: self.gone(), "its child is taken by a later recording")

    def gone(self):
        with giltrace.Recording(**self.how()):
            return len(children()) == 1

    def test_many(self):
        for _ in range(5):
            with giltrace.record(**self.how()):
                giltrace.mark("x")
