# SPDX-License-Identifier: Apache-2.0
"""What a program that records itself does meanwhile: marks, pauses, Ctrl-C."""
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from recording import exact_ns  # noqa: E402
from embed import (  # noqa: E402
    C, EmbedTest, Failed, InStart, call, each_face, marks, now, releases)

ROUNDS = 200
MARK_MAX = 127


class Marks(EmbedTest):
    def check_marked(self, rec, told, name, n, each):
        """Each mark lies behind the rounds before it, and before the next ones."""
        tid, stamps = told
        mine = [m for m in marks(rec, tid) if m[0].startswith(name + "-")]
        self.assertEqual([m[0] for m in mine], ["%s-%d" % (name, i) for i in range(n)])
        last = 0
        for (_, ns, _), (begin, end, after) in zip(mine, stamps):
            self.assertTrue(end <= ns <= after, (end, ns, after))
            # What was done between this mark and the one before is between them in the file.
            here = [e for e in rec.between(begin, end, tid) if e.kind == h.RELEASE]
            self.assertEqual(len([e for e in here if last < e.ns < ns]), each)
            last = ns

    def check_shown(self, rec, trace, names):
        """Each mark is in the trace, at its time, on its thread's row and that of all."""
        for name, ns, tid in marks(rec):
            if name not in names:
                continue
            found = {e["s"]: e for e in trace.events if e["name"] == name and e["ph"] == "I"}
            self.assertEqual(set(found), {"p", "t"}, "%r: process and thread" % name)
            self.assertEqual(trace.tracks[found["t"]["tid"]], tid)
            for e in found.values():
                self.assertEqual(exact_ns(e["ts"]), ns + rec.to_unix)

    @each_face()
    def test_of_one_thread(self, face):
        job = self.job(face)
        job.start()
        told = job.call("marked", "step", 20, 10)
        said = job.stop()
        self.assertEqual((said["ok"], said["marks"]), (True, 20), said)
        rec = job.recording()
        self.check_file(rec)
        self.check_marked(rec, told, "step", 20, 10)
        self.check_shown(rec, rec.trace(), ["step-%d" % i for i in range(20)])

    @each_face()
    def test_of_several_threads(self, face):
        job = self.job(face)
        job.start()
        names = ("here", "there", "elsewhere")
        told = job.call("together", *[call("marked", name, 20, 10) for name in names])
        said = job.stop()
        self.assertEqual((said["ok"], said["marks"]), (True, 60), said)
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(len({tid for tid, _ in told}), 3)
        for name, t in zip(names, told):
            self.check_marked(rec, t, name, 20, 10)
        self.check_shown(rec, rec.trace(), ["here-0", "there-10", "elsewhere-19"])

    @each_face()
    def test_of_a_thread_that_has_ended(self, face):
        """When giltrace learns of its mark, it is gone; the mark is its own all the same."""
        job = self.job(face)
        job.start()
        tracer = job.tracer()
        tracer.freeze()
        told, = job.call("together", call("marked", "gone", 3, 10))
        h.until(lambda: not os.path.exists("/proc/%d/task/%d" % (job.pid, told[0])),
                "the thread ends")
        tracer.thaw()
        self.assertTrue(job.stop()["ok"])
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(len(marks(rec)), 3)
        self.check_marked(rec, told, "gone", 3, 10)

    @each_face()
    def test_more_than_giltrace_takes(self, face):
        """What was not refused is in the file, and nothing else."""
        code = ("def flood(limit):\n"
                "    for i in range(limit):\n"
                "        done, err = tried('r.mark(\"flood %d\")' % i)\n"
                "        if err or done is False: return [i, err and err['rc']]\n")
        job = self.job(face)
        job.do(code)
        job.start()
        tracer = job.tracer()
        tracer.freeze()
        taken, rc = job.call("flood", 10**6)
        self.assertGreater(taken, 10)
        self.assertIn(rc, (None, -11))  # EAGAIN
        tracer.thaw()
        job.do("r.status()")  # it has read all that came before
        job.do("r.mark('and on')")
        said = job.stop()
        self.assertEqual((said["ok"], said["marks"]), (True, taken + 1), said)
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual([m[0] for m in marks(rec)],
                         ["flood %d" % i for i in range(taken)] + ["and on"])

    @each_face()
    def test_names(self, face):
        """They come out as they went in, but that long ones are cut between two characters."""
        names = ["step 10", "  two  blanks ", "größer → 世界 🐍", '"quoted" \\ </script>', "12 34",
                 "stop", "\u00fc" * 100, "x" * 300, "tab\tand \x01"]
        job = self.job(face)
        job.start()
        for name in names:
            job.call("r.mark", name)
        self.assertTrue(job.stop()["ok"])
        rec = job.recording()
        self.check_file(rec)
        kept = [n.encode()[:MARK_MAX].decode(errors="ignore") for n in names]
        self.assertEqual([m[0] for m in marks(rec)], kept)
        self.assertEqual({m[2] for m in marks(rec)}, {job.pid})

    @each_face()
    def test_names_that_break_rules(self, face):
        """No name ends the recording, or is another request than a mark."""
        job = self.job(face)
        job.start()
        for name in ("", "\n", "two\nlines", "stop\n", "\0", "a\0b", "\udc80", "x" * 10**5):
            job.call("tried", call("r.mark", name))
        done = job.call("rounds", ROUNDS)
        self.assertEqual(job.do("r.status()")["state"], "recording")
        job.do("r.mark('the last')")
        self.assertTrue(job.stop()["ok"])
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(releases(rec, done), ROUNDS)
        found = [m[0] for m in marks(rec)]
        self.assertEqual(found[-1], "the last")
        for name in found:
            self.assertTrue(0 < len(name.encode()) <= MARK_MAX)

    @each_face()
    def test_without_a_recording(self, face):
        """Before the first, and after the last."""
        job = self.job(face)
        job.do("r = Recording(output_dir=%r)" % job.dir)
        for code in ("r.mark('x')", "r.pause()", "r.resume()"):
            self.check_refused(job, code, -22)  # EINVAL
        job.do("r.start()")
        self.assertTrue(job.stop()["ok"])
        for code in ("r.mark('x')", "r.pause()", "r.resume()"):
            self.check_refused(job, code)
        self.assertEqual(marks(job.recording()), [])


class Pauses(EmbedTest):
    @each_face()
    def test_pause(self, face):
        job = self.job(face)
        job.start()
        self.assertEqual(job.do("r.status()")["state"], "recording")
        first = job.call("rounds", ROUNDS)
        begin = now()
        job.do("r.pause()")
        shut = now()
        self.assertEqual(job.do("r.status()")["state"], "paused")
        unseen = job.call("rounds", ROUNDS)
        job.do("r.mark('in the pause')")
        job.do("r.pause()")
        open_again = now()
        job.do("r.resume()")
        end = now()
        self.assertEqual(job.do("r.status()")["state"], "recording")
        job.do("r.resume()")
        last = job.call("rounds", ROUNDS)
        said = job.stop()
        self.assertTrue(said["ok"], said)
        self.assertEqual(said["lost"], 0)
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual([releases(rec, d) for d in (first, unseen, last)],
                         [ROUNDS, 0, ROUNDS])
        (since, until), = [(e.begin_ns, e.ns) for e in rec.pauses]
        self.assertTrue(begin <= since <= shut, (begin, since, shut))
        self.assertTrue(open_again <= until <= end, (open_again, until, end))
        (name, ns, _), = marks(rec)
        self.assertEqual(name, "in the pause")
        self.assertTrue(since < ns < until)

    @each_face()
    def test_many(self, face):
        """Each window has what was done in it; time of pauses adds up."""
        job = self.job(face)
        job.start(paused=True)
        outside, inside = [], []
        for _ in range(5):
            outside.append(job.call("rounds", ROUNDS))
            job.do("r.resume()")
            inside.append(job.call("rounds", ROUNDS))
            job.do("r.pause()")
        said = job.stop()
        self.assertTrue(said["ok"], said)
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual([releases(rec, d) for d in inside], [ROUNDS] * 5)
        self.assertEqual([releases(rec, d) for d in outside], [0] * 5)
        spans = [(e.begin_ns, e.ns) for e in rec.pauses]
        self.assertEqual(len(spans), 6)
        for (_, begin, end), (since, until) in zip(outside, spans):
            self.assertLess(since, begin)
            self.assertLess(end, until)
        if face == C:
            self.assertAlmostEqual(said["paused_ns"], sum(b - a for a, b in spans), delta=10**6)

    @each_face()
    def test_paused_all_the_time(self, face):
        """Nothing was asked for, so nothing is missing."""
        job = self.job(face)
        job.start(paused=True)
        job.call("rounds", ROUNDS)
        said = job.stop()
        self.assertEqual((said["ok"], said["status"], said["events"]), (True, 0, 0), said)
        self.assertEqual(job.recording().total(), 0)

    @each_face()
    def test_what_is_recorded_ends_before_stop(self, face):
        """Another process than the job."""
        job, other = self.job(face), self.job(face)
        job.start(pids=[other.pid])
        done = other.call("rounds", ROUNDS)
        job.do("r.mark('from outside')")
        other.proc.kill()
        job.until_no_giltrace()
        said = job.stop()
        self.assertEqual((said["ok"], said["status"]), (True, 0), said)
        rec = job.recording()
        self.check_file(rec, (h.END_TARGET_EXIT,))
        self.assertEqual(releases(rec, done), ROUNDS)
        # It counts for each process, but has a thread in that of who has set it only.
        self.assertEqual([(m[0], m[2]) for m in marks(rec)], [("from outside", 0)])

    @each_face()
    def test_duration_is_over_before_stop(self, face):
        job = self.job(face)
        job.start(duration=1)
        done = job.call("rounds", 20)
        job.until_no_giltrace()
        h.until(lambda: not job.probed(), "the probes go")
        self.check_refused(job, "r.mark('too late')")
        self.check_refused(job, "r.pause()")
        said = job.stop()
        self.assertEqual((said["ok"], said["status"]), (True, 0), said)
        self.assertEqual(said["files"], job.files())
        rec = job.recording()
        self.check_file(rec, (h.END_DURATION,))
        self.assertEqual(marks(rec), [])
        self.assertEqual(releases(rec, done), 20)
        self.assertEqual(job.do("resources()")["children"], [])

    @each_face()
    def test_all_at_once(self, face):
        """Threads that pause, resume, mark and ask, while another stops it all."""
        code = ("def storm(call):\n"
                "    done = 0\n"
                "    while True:\n"
                "        try:\n"
                "            call()\n"
                "        except Exception as err:\n"
                "            if getattr(err, 'rc', None) != -11:\n"  # EAGAIN
                "                return [done, str(err)]\n"
                "        done += 1\n"
                "        reached[call.__name__] = done\n"
                "        if over: return [done, None]\n"
                "over, reached = [], {}\n"
                "def enough():\n"
                "    while len(reached) < 4 or min(reached.values()) < 20: time.sleep(0.001)\n"
                "    told = stop()\n"
                "    over.append(1)\n"
                "    return told\n"
                "def mark(): r.mark('x')\n"
                "def pause(): r.pause()\n"
                "def resume(): r.resume()\n"
                "def status(): r.status()\n")
        job = self.job(face)
        job.do(code)
        job.start()
        told = job.call("together", "storm(mark)", "storm(pause)", "storm(resume)",
                        "storm(status)", "enough()")
        self.assertTrue(told[4]["ok"], told)
        rec = job.recording()
        self.check_file(rec)
        self.assertGreaterEqual(len(marks(rec)), 20)
        self.check_alive(job)


class CtrlC(EmbedTest):
    """SIGINT to the foreground: the job's process group, of which giltrace is none."""

    def strike(self, job):
        os.killpg(os.getpgid(job.pid), signal.SIGINT)

    def interrupted(self, job, number):
        with self.assertRaises(Failed) as caught:
            job.answer(number)
        self.assertIn("KeyboardInterrupt", caught.exception.types)

    @each_face()
    def test_while_it_is_recorded(self, face):
        job = self.job(face)
        job.start()
        tracer = job.tracer()
        self.assertNotEqual(os.getpgid(tracer.pid), os.getpgid(job.pid))
        first = job.call("rounds", ROUNDS)
        number = job.send("signal.pause()")
        job.waits(number)
        self.strike(job)
        self.interrupted(job, number)
        last = job.call("rounds", ROUNDS)
        self.assertEqual(job.do("r.status()")["state"], "recording")
        said = job.stop()
        self.assertTrue(said["ok"], said)
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual([releases(rec, d) for d in (first, last)], [ROUNDS, ROUNDS])

    @each_face()
    def test_in_start(self, face):
        """start() raises, or has begun a recording that can be stopped."""
        job = self.job(face)
        begun = InStart(job, "loading", "main")
        self.strike(job)
        begun.go_on()
        self.interrupted(job, begun.begun)
        if face == C:  # the C call is not interrupted; Python raises behind it
            self.assertTrue(job.stop()["ok"])
        job.until_no_giltrace()
        for path in job.files():
            self.check_file(h.Recording(path))
        self.assertEqual(job.do("resources()")["children"], [])
        self.check_alive(job)
        job.dir = h.new_dir()
        job.start()
        self.assertTrue(job.stop()["ok"])
        self.check_file(job.recording())

    @each_face()
    def test_in_stop(self, face):
        """stop() may be interrupted; the next one has the result."""
        job = self.job(face)
        job.start()
        done = job.call("rounds", ROUNDS)
        tracer = job.tracer()
        tracer.freeze()
        number = job.send("stop()")
        job.waits(number)
        self.strike(job)
        tracer.thaw()
        self.interrupted(job, number)
        said = job.stop()
        self.assertEqual((said["ok"], said["status"]), (True, 0), said)
        self.assertEqual(said["files"], job.files())
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(releases(rec, done), ROUNDS)
        job.until_no_giltrace()
        self.assertEqual(job.do("resources()")["children"], [])


if __name__ == "__main__":
    h.main()
