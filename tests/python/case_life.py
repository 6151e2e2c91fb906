# SPDX-License-Identifier: Apache-2.0
"""Jobs that fork, have signals, close descriptors, wait for children themselves."""
import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import unittest

from base import LIMIT, Case, children, fds, now, until

import giltrace

AT_FORK = hasattr(os, "register_at_fork")  # 3.7
EVERY = 61 if os.environ.get("GT_ALL_PYTHONS") == "1" else 263  # lines of a cycle
ATTRIBUTES = hasattr(os, "posix_spawn")    # 3.8: of the child's signals


class Fork(Case):
    def test_inert_in_a_child(self):
        def child():
            assert giltrace.recording() is None
            assert not r.running
            assert giltrace.mark("of the child") is False and r.mark("of the child") is False
            assert giltrace.pause() is False and r.resume() is False
            assert giltrace.status() is None and r.status() is None
            assert giltrace.stop() is None and r.stop() is None
            r.__exit__(None, None, None)
            if AT_FORK:
                assert fds() == self.fds, fds() - self.fds

        r = self.start()
        self.in_child(child)
        self.assertTrue(giltrace.mark("of the parent"))
        self.assertEqual(giltrace.stop().marks, 1)
        self.assertEqual([name for _, _, name in self.marks()], ["of the parent"])

    def test_garbage_in_a_child(self):
        """A child has no hand in the parent's giltrace, whatever becomes of the object there."""
        def child():
            del rs[:]
            gc.collect()

        rs = [giltrace.Recording(**self.how()).start()]
        self.in_child(child)
        self.assertTrue(rs[0].mark("x"))
        self.assertEqual(rs.pop().stop().marks, 1)

    def test_its_own(self):
        """An explicit start works there, while the parent's goes on."""
        def child():
            with giltrace.record(**self.how()) as own:
                assert giltrace.mark("child") and giltrace.recording() is own
            assert own.result.ok and own.result.marks == 1
            assert children() == []

        self.start()
        self.in_child(child)
        self.in_child(child)
        giltrace.mark("parent")
        self.assertEqual(giltrace.stop().marks, 1)
        self.assertEqual(sorted(name for _, _, name in self.marks()), ["child", "child", "parent"])

    def test_while_another_thread_waits(self):
        """The locks are held by a thread that the child does not have."""
        def child():
            giltrace.mark("x")
            giltrace.stop()
            self.start()
            assert giltrace.stop().ok

        r = self.start("deaf")
        r.timeout = 0.5
        waiting = threading.Thread(target=lambda: self.assertRaises(giltrace.TimedOut, r.status))
        waiting.start()
        until(lambda: not r._lock.acquire(False) or r._lock.release(), "it waits")
        self.in_child(child)
        waiting.join()
        with self.warns("did not end"):
            giltrace.stop()


class Signals(Case):
    def handle(self, number, handler):
        self.addCleanup(signal.signal, number, signal.signal(number, handler))

    @unittest.skipUnless(ATTRIBUTES, "CPython 3.8: before, giltrace does it itself")
    def test_the_child_has_none_of_ours(self):
        for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGUSR1):
            self.handle(number, signal.SIG_IGN)
        blocked = {signal.SIGTERM, signal.SIGUSR2}
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        self.addCleanup(signal.pthread_sigmask, signal.SIG_UNBLOCK, blocked)
        self.start("about")
        giltrace.stop()
        words = [line.split() for line in self.heard() if line.startswith("blocked ")][0]
        self.assertEqual(int(words[1], 16), 0)
        for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGUSR1):
            self.assertFalse(int(words[3], 16) >> (number - 1) & 1, number)

    def test_the_child_apart(self):
        """A group of its own in the same session; no library, no other descriptor of ours."""
        os.environ.update(LD_LIBRARY_PATH="/no/such", LD_AUDIT="", GT_X="a")
        for name in ("LD_LIBRARY_PATH", "LD_AUDIT", "GT_X"):
            self.addCleanup(os.environ.pop, name)
        ours = {os.open(os.devnull, os.O_RDONLY) for _ in range(3)}
        for fd in ours:
            self.addCleanup(os.close, fd)
        self.start("about")
        giltrace.stop()
        heard = self.heard()
        line, = [line.split() for line in heard if line.startswith("group ")]
        self.assertEqual(int(line[3]), os.getsid(0))
        if ATTRIBUTES:  # else giltrace sees to it
            self.assertEqual(line[1], line[5])
        self.assertIn("stdout /dev/null", heard)
        self.assertEqual([line for line in heard if line.startswith("env ")], ["env GT_X=a"])
        inherited = [line.split()[1:] for line in heard if line.startswith("fds ")][0]
        self.assertEqual(set(map(int, inherited)) & ours & set(range(6, 99)), set())

    def test_children_that_nobody_keeps(self):
        """The kernel keeps no exit status."""
        self.handle(signal.SIGCHLD, signal.SIG_IGN)
        self.start()
        self.assertTrue(giltrace.stop().ok)
        with self.fails(giltrace.GiltraceError, "nobody knows how(.|\n)*CAP_BPF"):
            self.start("unready:5")

    def test_somebody_waits_for_every_child(self):
        """The exit status is taken by another."""
        def reap(number, frame):
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    taken.append(1)
            except ChildProcessError:
                pass

        taken = []
        self.handle(signal.SIGCHLD, reap)
        self.start()
        self.assertTrue(giltrace.stop().ok)
        self.start("killed")
        giltrace.status()
        with self.warns("nobody knows how|killed by signal 9"):
            giltrace.stop()

    def test_children_of_others(self):
        """Their statuses are theirs."""
        p = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
        with giltrace.record(**self.how()):
            os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
        self.assertEqual(p.wait(), 7)

    def test_asyncio(self):
        async def job():
            p = await asyncio.create_subprocess_exec(sys.executable, "-c", "raise SystemExit(7)")
            with giltrace.record(**self.how()) as r:
                giltrace.mark("x")
            return await p.wait(), r.result.ok

        loop = asyncio.new_event_loop()
        loop.slow_callback_duration = LIMIT
        try:
            asyncio.set_event_loop(loop)  # 3.6: its watcher of children wants it
            self.assertEqual(loop.run_until_complete(job()), (7, True))
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def in_a_handler(self, function, condition):
        """Calls it in a handler of the main thread, soon after the condition is met."""
        def send():
            until(condition, "it is time for the signal")
            os.kill(os.getpid(), signal.SIGUSR1)

        def handler(number, frame):
            try:
                values.append(function())
            except giltrace.GiltraceError as err:
                values.append(err)

        values = []
        self.handle(signal.SIGUSR1, handler)
        t = threading.Thread(target=send)
        t.start()
        self.addCleanup(t.join)
        return values

    def busy(self, r):
        """Does a thread wait for giltrace?"""
        return not r._lock.acquire(False) or r._lock.release()

    def test_handler_that_stops(self):
        """In the middle of another call of the same thread."""
        r = self.start("deaf")
        r.timeout = 0.4
        values = self.in_a_handler(lambda: (giltrace.mark("x"), giltrace.stop()),
                                   lambda: self.busy(r))
        with self.warns("did not end"):
            try:
                giltrace.status()
            except giltrace.TimedOut:
                pass
        self.assertEqual(values, [(True, r.result)])
        self.assertIs(giltrace.stop(), r.result)

    def test_handler_that_stops_what_starts(self):
        before = children()
        values = self.in_a_handler(
            lambda: (giltrace.mark("x"), giltrace.pause(), giltrace.status(), giltrace.stop()),
            lambda: children() != before)
        with self.assertRaisesRegex(giltrace.GiltraceError, "has called stop"):
            self.start("silent")
        self.assertEqual(values, [(False, False, None, None)])
        self.start()
        self.assertTrue(giltrace.stop().ok)

    def test_handler_that_asks(self):
        """It is refused where it would take another one's answer."""
        r = self.start("late")
        r.timeout = 1
        values = self.in_a_handler(giltrace.pause, lambda: self.busy(r))
        with self.assertRaises(giltrace.TimedOut):
            giltrace.status()
        self.assertRegex(str(values[0]), "in the middle of")
        self.assertTrue(giltrace.resume())

    def test_handler_while_threads_are_counted(self):
        """threading's own lock is not taken again."""
        with threading._active_limbo_lock:
            self.start()
            giltrace.mark("x")
            self.assertTrue(giltrace.stop().ok)

    def test_ctrl_c(self):
        """While start() and stop() wait: nothing is left, and it comes through at once."""
        def interrupt():
            until(children, "it has been started")
            os.kill(os.getpid(), signal.SIGINT)

        self.handle(signal.SIGINT, signal.default_int_handler)
        for odd in ("silent", "stubborn"):
            t = threading.Thread(target=interrupt)
            t.start()
            with self.assertRaises(KeyboardInterrupt):
                self.start(odd)
            t.join()
            self.assertEqual(children(), [])
            self.assertIsNone(giltrace.recording())
        self.interrupted_stop("deaf", lambda: None)
        with self.warns("did not end within"):
            self.assertFalse(giltrace.stop().ok)

    def test_ctrl_c_and_a_result(self):
        """It is whole, if giltrace ends soon enough."""
        self.addCleanup(setattr, giltrace._process, "GRACE", giltrace._process.GRACE)
        giltrace._process.GRACE = LIMIT
        self.handle(signal.SIGINT, signal.default_int_handler)
        self.interrupted_stop("slow", lambda: open(os.path.join(self.dir, "go"), "w").close())
        self.assertTrue(giltrace.stop().ok)

    def interrupted_stop(self, odd, then):
        def interrupt():
            until(lambda: self.busy(r), "stop() waits")
            os.kill(os.getpid(), signal.SIGINT)
            then()

        r = self.start(odd)
        t = threading.Thread(target=interrupt)
        t.start()
        with self.assertRaises(KeyboardInterrupt):
            giltrace.stop()
        t.join()
        self.assertEqual(children(), [])

    def test_ctrl_c_anywhere(self):
        """At line after line of the package, in start(), mark() and stop()."""
        folder = os.path.dirname(giltrace.__file__)

        def trace(frame, event, arg):
            if not frame.f_code.co_filename.startswith(folder):
                return None
            if event == "line":
                passed[0] += 1
                if passed[0] == at:
                    raise KeyboardInterrupt
            return trace

        def cycle():
            sys.settrace(trace)
            try:
                self.start()
                giltrace.mark("x")
                giltrace.stop()
            finally:
                sys.settrace(None)

        passed, at = [0], 0
        cycle()
        total = passed[0]
        self.assertGreater(total, 200)
        # Each version tries others.
        for at in range(1 + 7 * sys.version_info[1], total, EVERY):
            passed = [0]
            with self.subTest(at=at):
                try:
                    cycle()
                except KeyboardInterrupt:
                    pass
                self.quietly_stop()
                gc.collect()
                until(self.swept, "nothing is left")
                self.assertEqual(fds() - self.fds, set())

    def swept(self):
        """Looks after what was left, as every start does."""
        try:
            giltrace.Recording(command="/no/such").start()
        except giltrace.NotFound:
            return not children()


class Descriptors(Case):
    def test_a_job_without_standard_ones(self):
        def child():
            for fd in range(3):
                os.close(fd)
            self.start("about")
            assert giltrace.mark("x")
            try:
                assert giltrace.stop().messages == ["fake: starts"]
                assert not [fd for fd in fds() if int(fd) < 3 and os.path.exists(
                    "/proc/self/fd/" + fd)]
            except BaseException as err:
                with open(os.path.join(self.dir, "failed"), "w") as f:
                    f.write(repr(err))
                raise

        self.in_child(child)
        self.assertIn("stdout /dev/null", self.heard())

    def test_somebody_closes_them(self):
        """As programs do that become services."""
        def child():
            self.start()
            os.closerange(3, 256)
            assert not giltrace.mark("x")
            self.quietly_stop()

        self.in_child(child)


class Marks(Case):
    def test_cost(self):
        """A bound that a busy machine does not miss; the figure is for who reads the output."""
        self.start()
        best = 1 << 60
        for _ in range(20):
            begin = now()
            for _ in range(100):
                giltrace.mark("step")
            best = min(best, now() - begin)
            self.assertTrue(giltrace.status())  # all have been read
        giltrace.stop()
        self.assertLess(best, 100 * 1000000)
        sys.stderr.write("a mark takes %.1f us\n" % (best / 100000.0))
