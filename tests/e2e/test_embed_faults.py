# SPDX-License-Identifier: Apache-2.0
"""A program that records itself, or its giltrace, comes to grief, in each phase of a recording."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from embed import (  # noqa: E402
    C, FACES, EmbedTest, Failed, InStart, about, each_face, program, releases)

ROUNDS = 200
KILLED = r"(?i)kill|signal 9"  # what is said of a giltrace that was


class Cause:
    """How a job ends: code that it runs in its main thread, or a signal; its status then."""

    def __init__(self, name, status, code=None, number=None, reasons=(h.END_TARGET_EXIT,)):
        self.name, self.status, self.code, self.number = name, status, code, number
        self.reasons = (h.END_STOPPED,) + reasons  # whichever giltrace learns first

    def strike(self, job):
        """Returns when the job has ended, or has become another program."""
        if self.code:
            job.send(self.code)
        else:
            os.kill(job.pid, self.number)
        if self.status is None:
            h.until(lambda: os.path.basename(os.readlink("/proc/%d/exe" % job.pid)) == "sleep",
                    "another program runs")
        elif job.proc.wait(h.LIMIT) != self.status:
            raise AssertionError("%s: status %s: %s" % (self.name, job.proc.poll(), job.text()))


CAUSES = (
    Cause("SIGSEGV", -signal.SIGSEGV, number=signal.SIGSEGV),
    Cause("SIGKILL", -signal.SIGKILL, number=signal.SIGKILL),
    Cause("_exit", 3, "os._exit(3)"),
    Cause("sys.exit", 4, "sys.exit(4)"),
    Cause("exception", 1, "raise Uncaught('nobody catches this')"),
    Cause("exec", None, "os.execvp('sleep', ['sleep', '1000'])", reasons=(h.END_EXEC,)))


class Crashes(EmbedTest):
    """The job ends; giltrace finishes its file, if there is one, and ends, too."""

    def setUp(self):
        super().setUp()
        self.jobs = []

    def each(self, faces):
        """A job for each cause and face."""
        for cause in CAUSES:
            for face in faces:
                job = self.job(face)
                job.cause = cause
                self.jobs.append(job)

    def alternating(self):
        """A job for each cause, of which each face has its share."""
        for i, cause in enumerate(CAUSES):
            job = self.job(FACES[i % len(FACES)])
            job.cause = cause
            self.jobs.append(job)

    def all_start(self):
        begun = [job.begin() for job in self.jobs]
        for job, number in zip(self.jobs, begun):
            job.answer(number)
            job.tracers = [job.tracer()]
            job.objects = job.tracers[0].kernel_objects()
            self.assertTrue(job.tracers[0].has("link"))
            self.assertTrue(job.probed())

    def all_gone(self, files, least=0):
        for job in self.jobs:
            with self.subTest(cause=job.cause.name, face=job.face):
                job.until_no_giltrace()
                for kind, number in getattr(job, "objects", ()):
                    h.until(lambda: not h.kernel_has(kind, number), "%s %d goes" % (kind, number))
                found = job.files()
                self.assertIn(len(found), files)
                for path in found:
                    rec = h.Recording(path)
                    self.check_file(rec, job.cause.reasons)
                    if least:
                        self.assertEqual(releases(rec, job.done), least)

    def test_before_start(self):
        """The package or the library alone starts nothing that could be left."""
        self.each(FACES)
        for job in self.jobs:
            self.assertEqual(job.do("resources()")["children"], [])
            job.cause.strike(job)
        self.all_gone(files=(0,))

    def in_start(self, phase):
        self.alternating()
        started = [InStart(job, phase) for job in self.jobs]
        for job, s in zip(self.jobs, started):
            job.cause.strike(job)
            self.assertTrue(os.path.exists("/proc/%d" % s.pid), "giltrace is still there")
        for s in started:
            s.go_on()
        self.all_gone(files=(0, 1))

    def test_in_start_before_giltrace_runs(self):
        self.in_start("held")

    def test_in_start_while_programs_are_loaded(self):
        self.in_start("loading")

    def test_in_start_when_probes_are_placed(self):
        self.in_start("placed")

    def test_while_it_is_recorded(self):
        self.each(FACES)
        self.all_start()
        for job in self.jobs:
            job.done = job.call("rounds", ROUNDS)
            job.do("r.mark('last words')")
        for job in self.jobs:
            job.cause.strike(job)
        self.all_gone(files=(1,), least=ROUNDS)

    def test_in_stop(self):
        """It has asked giltrace to stop, and ends before the answer."""
        self.alternating()
        self.all_start()
        for job in self.jobs:
            job.done = job.call("rounds", ROUNDS)
            job.tracers[0].freeze()
            job.waits(job.send("stop()", "thread"))
            job.cause.strike(job)
        for job in self.jobs:
            job.tracers[0].thaw()
        self.all_gone(files=(1,), least=ROUNDS)

    def test_right_after_stop(self):
        """What stop() has returned from is complete."""
        self.alternating()
        self.all_start()
        for job in self.jobs:
            job.done = job.call("rounds", ROUNDS)
            job.send("stop()")
            job.send(job.cause.code or "os.kill(os.getpid(), %d)" % job.cause.number)
        for job in self.jobs:
            if job.cause.status is not None:
                self.assertEqual(job.proc.wait(h.LIMIT), job.cause.status, job.text())
        self.all_gone(files=(1,), least=ROUNDS)


class TracerKilled(EmbedTest):
    """giltrace is killed: the job lives, is told, and can be recorded again."""

    def again(self, job):
        """Recorded again, from begin to end."""
        self.assertEqual(job.do("resources()")["children"], [])
        self.check_alive(job)
        job.dir = h.new_dir()
        job.start()
        done = job.call("rounds", ROUNDS)
        told = job.stop()
        self.assertTrue(told["ok"], told)
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(releases(rec, done), ROUNDS)

    def in_start(self, phase, face):
        job = self.job(face)
        for _ in range(10):
            started = InStart(job, phase)
            os.kill(started.pid, signal.SIGKILL)
            try:
                job.answer(started.begun)
            except Failed as err:
                self.assertRegex(err.text, KILLED)
                self.assertIn("CFailed" if face == C else "GiltraceError", err.types)
                break
            job.stop()  # it was ready before it was stopped
        else:
            self.fail("start() is always too fast for us")
        h.until(lambda: not job.probed(), "the probes go")
        for path in job.files():
            self.check_begun(h.Recording(path))
        job.until_no_giltrace()
        return job

    @each_face()
    def test_in_start(self, face):
        for phase in ("held", "loading", "placed"):
            with about(phase):
                job = self.in_start(phase, face)
        self.again(job)

    def check_killed(self, job, told):
        """What stop() says of a giltrace that was killed."""
        self.assertFalse(told["ok"], told)
        self.assertRegex(told["error"], KILLED)
        if job.face == C:
            self.assertEqual((told["rc"], told["status"], told["state"]), (-5, -1, "ended"))
        self.assertEqual(told["files"], job.files())

    def check_afterwards(self, job):
        """No call works, and none does harm."""
        for code in ("r.mark('x')", "r.pause()", "r.resume()"):
            self.check_refused(job, code)
        got = job.do("r.status()")
        self.assertEqual(got["state"], "ended")
        if job.face == C:
            self.assertEqual(got["status"], -1)

    @each_face()
    def test_while_it_records(self, face):
        job = self.job(face)
        job.start()
        done = job.call("rounds", ROUNDS)
        path, = job.files()
        # Blocks are sealed when they are a second old.
        h.until(lambda: releases(h.Recording(path), done) == ROUNDS, "events are written")
        tracer = job.tracer()
        tracer.freeze()
        tracer.kill()
        job.until_no_giltrace()
        h.until(lambda: not job.probed(), "the probes go")
        for kind, number in tracer.objects:
            h.until(lambda: not h.kernel_has(kind, number), "%s %d goes" % (kind, number))
        self.check_afterwards(job)
        told = job.stop()
        self.check_killed(job, told)
        self.check_afterwards(job)
        self.assertEqual(job.stop(), told)
        rec = job.recording()
        self.assertIsNone(rec.end)
        self.check_begun(rec)
        self.assertEqual(releases(rec, done), ROUNDS)
        self.assertGreater(len(rec.trace().of("hold_gil")), ROUNDS / 2)
        self.again(job)

    @each_face()
    def test_while_a_request_is_under_way(self, face):
        """Who waits for an answer, or for the end, waits no longer."""
        for code in ("r.pause()", "r.status()", "stop()"):
            with about(code):
                job = self.job(face)
                job.start()
                tracer = job.tracer()
                tracer.freeze()
                number = job.send(code, "thread")
                job.waits(number)
                tracer.kill()
                if code == "stop()":
                    told = job.answer(number)
                else:
                    try:
                        job.answer(number)
                    except Failed as err:
                        self.assertRegex(err.text, r"(?i)end|kill")
                    told = job.stop()
                self.check_killed(job, told)
                self.check_alive(job)

    @each_face()
    def test_while_it_is_paused(self, face):
        job = self.job(face)
        job.start()
        job.do("r.pause()")
        job.tracer().kill()
        job.until_no_giltrace()
        self.check_killed(job, job.stop())
        self.check_alive(job)

    @each_face()
    def test_its_descriptors_live_on(self, face):
        """Another process has its end of the socket and its standard error still open."""
        where = os.path.join(h.new_dir(), "pid")
        job = self.job(face)
        job.start(command=program('#!/bin/sh\nsleep 1000 &\necho $! >%s\nexec %s "$@"\n' % (
            where, job.giltrace)))
        with open(where) as f:
            self.addCleanup(os.kill, int(f.read()), signal.SIGKILL)
        job.tracer().kill()
        job.until_no_giltrace()
        begun = time.monotonic()
        job.call("tried", "r.mark('x')")
        job.call("tried", "r.pause()")
        told = job.stop()
        self.assertLess(time.monotonic() - begun, 30 * h.SLOW, "less than its timeout")
        self.check_killed(job, told)
        self.again(job)

    @each_face()
    def test_it_hangs(self, face):
        """Who asks it waits as long as was agreed; stop() ends it."""
        job = self.job(face)
        for seconds in (1, 2, 4, 8, 16, 32):  # for everything, so a busy machine needs more
            try:
                job.start(timeout=seconds)
                break
            except Failed as err:
                self.assertIn("was not ready within %d" % seconds, err.text)
                job.dir = h.new_dir()
        tracer = job.tracer()
        tracer.freeze()
        _, err = job.call("tried", "r.pause()")
        self.assertIn(err["rc"], (None, -110))  # ETIMEDOUT
        job.do("r.mark('it is not waited for')")
        told = job.stop()
        self.assertFalse(told["ok"], told)
        self.assertRegex(told["error"], r"\b%d(\.0+)? ?s" % seconds)
        if face == C:
            self.assertEqual(told["rc"], -110)
        self.assertEqual(job.giltraces(), [])
        self.check_begun(job.recording())
        self.again(job)

    @each_face()
    def test_after_its_end(self, face):
        """Stopped by somebody else: the file is complete, and stop() is content."""
        job = self.job(face)
        job.start()
        done = job.call("rounds", ROUNDS)
        tracer = job.tracer()
        tracer.kill(signal.SIGTERM)
        job.until_no_giltrace()
        told = job.stop()
        self.assertTrue(told["ok"], told)
        self.assertEqual((told["status"], told["files"]), (0, job.files()))
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(releases(rec, done), ROUNDS)


if __name__ == "__main__":
    h.main()
