# SPDX-License-Identifier: Apache-2.0
"""A program that records itself forks: its children are no part of that, unless they ask."""
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from embed import (  # noqa: E402
    C, FACES, MODULE, OBJECTS, EmbedTest, about, each_face, executables, marks, releases)

ROUNDS = 200


def has_socket(pid):
    """Has that process a socket open, as the job has that of its recording?"""
    folder = "/proc/%d/fd" % pid
    return any(os.readlink(os.path.join(folder, fd)).startswith("socket:")
               for fd in os.listdir(folder))


class Children(EmbedTest):
    """What is forked from a job that is recorded, or starts a recording of its own."""

    CALLS = ("r.mark('child')", "r.pause()", "r.resume()", "r.status()", "r.stop()")

    def check_parent(self, job):
        """It is recorded as if there had been no child."""
        self.assertEqual(job.do("r.status()")["state"], "recording")
        done = job.call("rounds", ROUNDS)
        job.do("r.mark('parent')")
        said = job.stop()
        self.assertTrue(said["ok"], said)
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(releases(rec, done), ROUNDS)
        self.assertEqual([m[0] for m in marks(rec)], ["parent"])

    @each_face(*FACES, OBJECTS)
    def test_inert(self, face):
        job = self.job(face)
        job.start()
        for code in self.CALLS:
            (got, err), status = job.call("in_child", code)
            self.assertEqual(status, 0, code)
            if face == C and code != "r.stop()":
                self.assertEqual(err["rc"], -10, code)  # ECHILD
            elif face == C:
                self.assertEqual(got["rc"], -10)
            else:
                self.assertIsNone(err, code)
        self.check_parent(job)

    @each_face()
    def test_ends_of_children(self, face):
        """By whatever way a child goes, or forgets its handle."""
        job = self.job(face)
        job.start()
        for end in ("os._exit(0)", "r.free(); os._exit(0)", "raise SystemExit",
                    "import atexit; atexit._run_exitfuncs(); os._exit(0)",
                    "os.kill(os.getpid(), 9)", "os.execv('/bin/true', ['true'])"):
            job.call("in_child", "1", end)
        self.check_parent(job)

    def test_context_and_decorator(self):
        """A child that leaves the parent's with block, or a function that is recorded."""
        job = self.job(MODULE)
        for code in ("with giltrace.record(output_dir=%r):\n"
                     "    pid = os.fork()\n"
                     "if not pid: os._exit(0)\n",
                     "@giltrace.record(output_dir=%r)\n"
                     "def work():\n"
                     "    return os.fork()\n"
                     "pid = work()\n"
                     "if not pid: os._exit(0)\n"):
            job.dir = h.new_dir()
            job.do(code % job.dir)
            self.assertEqual(job.do("os.waitpid(pid, 0)[1]"), 0)
            self.check_file(job.recording())
            self.assertEqual(job.giltraces(), [])

    @each_face(*FACES, OBJECTS)
    def test_a_childs_own(self, face):
        """It works where the child asks for it, beside the parent's and after that."""
        code = "cycle(%r, 'of the child')"
        job = self.job(face)
        job.start()
        own = [h.new_dir(), h.new_dir()]
        (got, err), status = job.call("in_child", code % own[0])
        self.assertIsNone(err)
        self.assertEqual((got["ok"], status), (True, 0))
        self.check_parent(job)
        (got, err), status = job.call("in_child", code % own[1])
        self.assertEqual((err, status, got["ok"]), (None, 0, True))
        for folder in own:
            name, = os.listdir(folder)
            rec = h.Recording(os.path.join(folder, name))
            self.check_file(rec)
            self.assertEqual([m[0] for m in marks(rec)], ["of the child"])

    @each_face()
    def test_multiprocessing(self, face):
        job = self.job(face)
        job.start()
        for method in ("fork", "spawn", "forkserver"):
            with about(method):
                folder = h.new_dir()
                code = "cycle(%r, 'of a worker')" % folder
                (got, err), status = job.call("by_multiprocessing", method, code)
                self.assertIsNone(err)
                self.assertEqual((got["ok"], status), (True, 0))
                name, = os.listdir(folder)
                self.check_file(h.Recording(os.path.join(folder, name)))
        (_, err), status = job.call("by_multiprocessing", "fork", "r.mark('worker')")
        self.assertEqual(status, 0)
        self.check_parent(job)

    @each_face()
    def test_outlives_the_job(self, face):
        """A child that has all that it inherited still open does not keep the recording going."""
        for raw in (False, True):
            with about("raw" if raw else "forked"):
                job = self.job(face)
                job.start()
                done = job.call("rounds", ROUNDS)
                code = "r.mark('child')" if face == MODULE else "0"
                child = job.call("staying_child", code, raw)
                self.addCleanup(os.kill, child, signal.SIGKILL)
                # Up to 3.6 Python cannot close it in a child.
                kept = raw or (face == MODULE and job.python.version < (3, 7))
                self.assertEqual(has_socket(child), kept)
                job.proc.kill()
                job.proc.wait()
                job.until_no_giltrace(limit=10)
                self.assertEqual(executables().get(child), os.path.realpath(job.python.path))
                rec = job.recording()
                self.check_file(rec, (h.END_STOPPED, h.END_TARGET_EXIT))
                self.assertEqual(releases(rec, done), ROUNDS)
                self.assertEqual(marks(rec), [])

    @each_face()
    def test_programs_inherit_nothing(self, face):
        """A program that the job starts meanwhile has no descriptor of the recording."""
        code = ("__import__('subprocess').check_output(['ls', '-l', '/proc/self/fd'], "
                "close_fds=False).decode()")
        job = self.job(face)
        before = job.do(code)
        job.start()
        during = job.do(code)
        self.assertEqual(before.count("->"), during.count("->"), during)
        self.assertNotIn("socket", during)
        self.assertTrue(job.stop()["ok"])


if __name__ == "__main__":
    h.main()
