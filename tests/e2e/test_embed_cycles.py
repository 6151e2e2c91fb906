# SPDX-License-Identifier: Apache-2.0
"""A program that records itself again and again keeps nothing of it.

GT_CYCLES says how often, 15 times unless it is set.
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from embed import C, MODULE, OBJECTS, EmbedTest, call, each_face, leftovers, marks  # noqa: E402

CYCLES = int(os.environ.get("GT_CYCLES") or 15)
WARM = 5  # cycles until what is made once has been made
KIB = 512  # that a process's memory may differ by, for another reason
KIB_PER_CYCLE = 0.5  # ... and in the long run: less than any object that is kept


class Cycles(EmbedTest):
    def check_same(self, before, after, cycles):
        """A job's descriptors, threads, children and memory, after some cycles."""
        for key in ("fds", "threads", "children"):
            self.assertEqual(after[key], before[key], key)
        self.assertEqual(after["children"], [])
        self.assertLess(after["kib"] - before["kib"], KIB + KIB_PER_CYCLE * cycles)

    def check_cycle(self, job, told, n):
        """What a cycle has left is its file, and the job is as if there had been none."""
        self.assertTrue(told["ok"], told)
        self.assertEqual((told["status"], told["marks"], told["lost"]), (0, 1, 0), told)
        self.assertEqual(told["files"], job.files())
        self.assertEqual(job.giltraces(), [], "stop() has returned")
        self.assertFalse(job.probed(), "stop() has returned")
        rec = job.recording()
        self.assertEqual([m[0] for m in marks(rec)], ["cycle %d" % n])
        self.assertEqual((rec.problem, rec.end.reason), (None, h.END_STOPPED))
        self.assertGreaterEqual(rec.count(h.RELEASE, job.pid), 10)
        shutil.rmtree(job.dir)
        job.dir = h.new_dir()

    def test_one_after_the_other(self):
        """A job for each way to record; they go round side by side."""
        jobs = [self.job(face) for face in (MODULE, C)]
        first = {}
        for n in range(CYCLES):
            if n == min(WARM, CYCLES - 1):
                first = {job: job.do("resources()") for job in jobs}
            sent = [job.send("cycle(%r, 'cycle %d')" % (job.dir, n)) for job in jobs]
            for job, number in zip(jobs, sent):
                self.check_cycle(job, job.answer(number), n)
        h.until(lambda: not leftovers(self.before), "the kernel's objects go")
        for job in jobs:
            last = job.do("resources()")
            h.say("%s: after %d cycles %s KiB more, %d descriptors, %d thread(s)" % (
                job.face, CYCLES, last["kib"] - first[job]["kib"], last["fds"], last["threads"]))
            self.check_same(first[job], last, CYCLES - WARM)

    @each_face(MODULE, C)
    def test_starts_that_fail(self, face):
        """Nothing is kept of those either."""
        job = self.job(face)
        for command in ("/no/such/giltrace", "/bin/true"):
            once = call("tried", call("start", job.dir, command=command))
            code = "[%s[1] is None for _ in range(%d)]" % (once, CYCLES)
            job.do(code)
            before = job.do("resources()")
            self.assertFalse(any(job.do(code)))
            self.check_same(before, job.do("resources()"), CYCLES)

    @each_face(OBJECTS, C)
    def test_two_threads_at_once(self, face):
        """Each with recordings of its own."""
        code = "[cycle(%r, 'of thread %d') for _ in range(2)]"
        job = self.job(face)
        folders = [h.new_dir(), h.new_dir()]
        codes = [code % (folder, i) for i, folder in enumerate(folders)]
        job.call("together", *[c.replace("range(2)", "range(1)") for c in codes])
        before = job.do("resources()")
        results = job.call("together", *codes)
        for i, told in enumerate(results):
            self.assertTrue(all(t["ok"] and t["marks"] == 1 for t in told), told)
            files = [os.path.join(folders[i], f) for f in os.listdir(folders[i])]
            self.assertEqual(len(files), 3)
            self.assertLessEqual({f for t in told for f in t["files"]}, set(files))
            for path in files:
                rec = h.Recording(path)
                self.check_file(rec)
                self.assertEqual([m[0] for m in marks(rec)], ["of thread %d" % i])
        self.check_same(before, job.do("resources()"), 4)
        self.assertEqual(job.giltraces(), [])
        self.assertFalse(job.probed())


if __name__ == "__main__":
    h.main()
