# SPDX-License-Identifier: Apache-2.0
"""--ring: nothing is written but the last seconds, when somebody asks for them or a limit is exceeded."""
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from family import Family, now  # noqa: E402
from owned import Owned, words  # noqa: E402

END_WINDOW = 6
LONG = "60"  # seconds: longer than a test takes


def complete(r, n=1):
    """The first n files, once all of them have their ends, in the order in which they were made."""
    def whole():
        files = sorted(r.files(), key=lambda f: (len(f), f))
        recs = [h.Recording(f) for f in files if os.path.getsize(f)]
        return len(recs) >= n and all(rec.end for rec in recs) and recs
    try:
        return h.until(whole, "%d files" % n)
    except AssertionError as err:
        raise AssertionError("%s: %s" % (err, r.text()))


def dump(r):
    """How many files it says that it has made; it has told of each before."""
    r.send("dump")
    return words(r.until("ok"))["files"]


class FlightTest(h.BpfTest):
    def setUp(self):
        self.work = h.Workload(h.python(), native=True)
        self.addCleanup(self.work.__exit__)

    def recorder(self, *options, **kwargs):
        return h.Recorder(self.work, *options, **kwargs)

    def rounds(self, n):
        self.work.do("run", limit=n)
        self.work.do("join")
        self.work.quiesce()

    def hold(self, ms):
        """A native extension that keeps the GIL for as long: its thread."""
        self.work.send("grab")
        self.work.expect_said(b"h")
        begin = now()
        h.until(lambda: now() - begin > ms * 10**6, "the hold lasts")
        os.write(self.work.hear, b"x")
        self.work.answer()

    def assert_good(self, rec, said_ok=("is of the same process",)):
        """A file as any other: sound, drawn by the rules, and without a warning."""
        self.assert_sound(rec)
        self.assertEqual(rec.faults(), [])
        self.assertGreaterEqual(rec.clocks[-1].mono_ns, max([e.ns for e in rec.events] or [0]))
        self.assertLessEqual(max([e.ns for e in rec.all] or [0]), rec.end.mono_ns)
        trace = rec.trace()
        warned = [line for line in trace.text.splitlines() if "warning" in line]
        self.assertEqual([w for w in warned if not any(s in w for s in said_ok)], [])
        return trace


class Windows(FlightTest):
    def test_the_last_part_of_what_was_recorded(self):
        """By a signal and at the end; a second giltrace records all of it."""
        self.work.start_workers(stat=2)
        with h.Recorder(self.work) as whole, self.recorder("--ring=0.5") as r:
            begin = now()
            while now() - begin < 1500000000:  # three windows
                self.rounds(50)
            self.assertEqual(r.files(), [])
            r.proc.send_signal(signal.SIGUSR1)
            first = complete(r)[0]
            self.rounds(7)
            self.assertEqual(r.stop(), h.OK, r.text())
            self.assertEqual(whole.stop(), h.OK, whole.text())
            truth, (_, last) = whole.recording(), complete(r, 2)
        self.assertEqual((first.end.reason, last.end.reason), (END_WINDOW, h.END_STOPPED))
        self.assertEqual([rec.meta["recording.trigger"] for rec in (first, last)],
                         ["signal", "end"])
        for rec in (first, last):
            trace = self.assert_good(rec)
            span = int(rec.meta["recording.window_ns"])
            self.assertEqual(rec.end.mono_ns - min(e.ns for e in rec.all), span)
            # What is kept is kept by the block, from one look to the next.
            self.assertTrue(490000000 < span < 10**9 * h.SLOW, span)
            self.assertNotIn("recording.window_cut", rec.meta)
            self.assertGreater(rec.total(), 50)
            self.assertEqual(rec.lost, 0)
            self.assertEqual({t for t in rec.names if rec.of(t)},
                             {e.tid for e in rec.events})
            self.assertEqual(len(trace.of("hold_gil", self.work.threads["stat-0"])) > 0, True)
        for name, tid in self.work.threads.items():
            seen = [e.kind for e in last.of(tid)]
            self.assertEqual([e.kind for e in truth.of(tid)][-len(seen):], seen)
            self.assertEqual(last.thread_names[tid], truth.thread_names[tid], name)
        self.assertIn("2 files, 0 of them by limits", r.said)

    def test_nothing_happens_for_longer_than_a_window(self):
        """Who holds and who waits all the time is known from before."""
        waiter = self.work.do("waiter")
        self.work.expect_said(b"w")
        with self.recorder("--ring=0.2") as r:
            self.work.send("grab")
            self.work.expect_said(b"h")
            os.write(self.work.wait, b"x")
            begin = now()
            h.until(lambda: now() - begin > 10**9, "five windows")
            r.proc.send_signal(signal.SIGUSR1)
            rec = complete(r)[0]
            os.write(self.work.hear, b"x")
            self.work.answer()
            self.assertEqual(r.stop(), h.OK, r.text())
        self.assertEqual(len(rec.before(h.HOLDING)), 1)
        self.assertEqual(len(rec.before(h.WAITING, waiter)), 1)
        holder = rec.before(h.HOLDING)[0].tid
        self.assertNotEqual(holder, waiter)
        trace = rec.trace()
        span = int(rec.meta["recording.window_ns"])
        for name, tid in (("hold_gil", holder), ("take_gil", waiter)):
            drawn = trace.of(name, tid)
            self.assertEqual([(s.end - s.begin, s.args["open"]) for s in drawn],
                             [(span, "start+end")])

    def test_while_it_is_paused(self):
        self.work.start_workers(stat=1)
        with Owned([self.work.pid], "--ring=" + LONG) as r:
            self.rounds(5)
            r.pause()
            self.rounds(5)
            self.assertEqual(dump(r), 1)
            r.resume()
            self.rounds(5)
            self.assertEqual(dump(r), 1)
            self.assertEqual(r.end()["status"], h.OK)
            during, after, end = complete(r, 3)
        self.assertEqual([len(rec.pauses) for rec in (during, after, end)], [1, 1, 1])
        self.assertEqual(during.pauses[0].ns, during.end.mono_ns)
        self.assertLess(after.pauses[0].ns, after.end.mono_ns)
        self.assertEqual([e for e in during.events if e.ns > during.pauses[0].begin_ns], [])
        for rec in (during, after, end):
            self.assert_good(rec)

    def test_memory_has_a_limit(self):
        """The window gets shorter then, which is said and stands in the file."""
        self.work.start_workers(stat=3)
        self.work.do("run")
        with self.recorder("--ring=" + LONG, "--window-memory=1") as r:
            h.until(lambda: "--window-memory" in r.text(), "the memory is used up")
            r.proc.send_signal(signal.SIGUSR1)
            rec = complete(r)[0]
            self.assertIn(r.stop(), (h.OK, h.LOSSES), r.text())
        self.work.do("park")
        self.assertEqual(rec.meta["recording.window_cut"], "memory")
        self.assertLess(int(rec.meta["recording.window_ns"]), 59 * 10**9)
        self.assertLess(os.path.getsize(rec.path), 1 << 20)
        self.assertGreater(rec.total(), 100000)
        self.assertEqual(rec.violations(), [])
        self.assertIn("do not fit into 1 MiB", r.said)
        self.assertIn("left the memory before their time", r.said)


class Limits(FlightTest):
    def test_a_hold_that_lasts(self):
        """It counts when it exceeds, not when it is over, and once; later ones are left out."""
        with self.recorder("--ring=" + LONG, "--trigger-hold=300") as r:
            self.work.send("grab")
            self.work.expect_said(b"h")
            rec = complete(r)[0]
            os.write(self.work.hear, b"x")
            self.work.answer()
            self.hold(350)
            self.hold(350)
            self.hold(20)
            self.assertEqual(r.stop(), h.OK, r.text())
            recs = complete(r, 2)
        self.assertEqual(len(recs), 2, r.said)
        self.assertEqual([x.meta["recording.trigger"] for x in recs], ["hold", "end"])
        tid = int(rec.meta["recording.trigger_tid"])
        self.assertGreaterEqual(int(rec.meta["recording.trigger_ns"]), 300 * 10**6)
        self.assertLess(int(rec.meta["recording.trigger_ns"]), 300 * 10**6 + h.SLOW * 5 * 10**9)
        self.assertEqual(rec.end.reason, END_WINDOW)
        trace = self.assert_good(rec)
        held = trace.of("hold_gil", tid)[-1]
        self.assertIn("end", held.args["open"])
        self.assertGreaterEqual(held.end - held.begin, 300 * 10**6)
        self.assertEqual([(m.tid, m.name[:20]) for m in rec.marks],
                         [(tid, "giltrace: a hold of ")])
        self.assertEqual(recs[1].meta["recording.suppressed"], "2")
        self.assertRegex(r.said, r"thread %d held the GIL for 3\d\d\.\d ms|held the GIL" % tid)
        self.assertIn("exceeded 2 times more", r.said)

    def test_a_wait(self):
        waiter = self.work.do("waiter")
        self.work.expect_said(b"w")
        with self.recorder("--ring=" + LONG, "--trigger-wait=200.5") as r:
            self.work.send("grab")
            self.work.expect_said(b"h")
            os.write(self.work.wait, b"x")
            rec = complete(r)[0]
            os.write(self.work.hear, b"x")
            self.work.answer()
            self.assertEqual(r.stop(), h.OK, r.text())
        self.assertEqual((rec.meta["recording.trigger"], rec.meta["recording.trigger_tid"]),
                         ("wait", str(waiter)))
        self.assertGreaterEqual(int(rec.meta["recording.trigger_ns"]), 200500000)
        self.assert_good(rec)

    def test_no_more_files_than_that(self):
        with self.recorder("--ring=0.1", "--trigger-hold=50", "--ring-files=2") as r:
            for n in (1, 2):
                h.until(lambda: (self.hold(60), len(r.files()) >= n)[1], "file %d" % n)
            h.until(lambda: (self.hold(60), "--ring-files" in r.text())[1], "it is said")
            self.hold(60)
            self.assertEqual(len(complete(r, 2)), 2)
            r.proc.send_signal(signal.SIGUSR1)  # that counts for itself
            self.assertEqual(len(complete(r, 3)), 3)
            self.assertEqual(r.stop(), h.OK, r.text())
        self.assertIn("4 files, 2 of them by limits", r.said)
        self.assertRegex(r.said, r"exceeded \d+ times more")


class Ways(FlightTest):
    def test_by_the_control_channel(self):
        self.work.start_workers(stat=1)
        with Owned([self.work.pid], "--ring=" + LONG) as r:
            self.rounds(10)
            status = r.ok("status")
            self.assertEqual((status["files"], status["bytes"]), (0, 0))
            h.until(lambda: r.ok("status")["kept_events"] > 10, "they are in memory")
            self.assertGreater(r.ok("status")["kept_bytes"], 30)
            r.send("dump")
            done = r.until("done").split(" ")
            self.assertEqual(words(r.until("ok")), {"files": 1})
            rec = complete(r)[0]
            self.assertEqual([done[1], done[4]], [str(self.work.pid), rec.path])
            self.assertEqual((int(done[2]), int(done[3])), (rec.total(), 0))
            self.assertEqual(r.ok("status")["bytes"], os.path.getsize(rec.path))
            ended = r.end()
            recs = complete(r, 2)
        self.assertEqual([t for t in r.told if t.startswith("file ")], [])
        self.assertEqual(ended["files"], 2)
        self.assertEqual(ended["bytes"], sum(os.path.getsize(x.path) for x in recs))
        self.assertEqual(ended["events"], recs[1].total())
        self.assertEqual(rec.meta["recording.trigger"], "request")

    def test_without_it(self):
        with Owned([self.work.pid]) as r:
            self.assertRegex(r.ask("dump"), "^error .*--ring")
            self.assertNotIn("kept_ns", r.ok("status"))
            self.assertEqual(r.end()["status"], h.OK)
            self.assertNotIn("recording.ring_seconds", r.recording().meta)

    def test_tell(self):
        with self.recorder("--ring=" + LONG, "--control=" + os.path.join(h.new_dir(), "s")) as r:
            path = [w for w in r.text().split() if w.startswith("--tell=")][0]
            self.assertEqual(h.giltrace(path, "dump")[:2], (h.OK, "ok files=1\n"))
            self.assertEqual(len(complete(r)), 1)
            self.assertEqual(r.stop(), h.OK)

    def test_ends_of_processes_and_those_that_come(self):
        """Each has files of its own; one becomes another program."""
        with Family(h.python()) as family, Owned([family.pid], "--follow", "--ring=" + LONG,
                                                 "-v") as r:
            child = family.beget("fork", "fork")
            h.until(lambda: "process %d: recorded" % child.pid in r.text(), "it is recorded")
            child.count(5)
            self.assertEqual(dump(r), 2)
            child.send("exec", argv=family.command("again"))
            again = family.next("again")
            h.until(lambda: r.text().count("process %d: recorded" % child.pid) == 2, "again")
            again.count(5)
            os.kill(family.pid, signal.SIGKILL)
            h.until(lambda: len(r.of(family.pid)) == 2, "its end")
            r.send("status")
            self.assertEqual(words(r.until("ok"))["processes"], 1)
            self.assertEqual(r.end()["status"], h.OK, r.text())
            recs = {f: h.Recording(f) for f in r.files()}
        reasons = sorted(rec.end.reason for rec in recs.values())
        self.assertEqual(reasons, sorted([END_WINDOW] * 2 + [h.END_EXEC, h.END_TARGET_EXIT,
                                                             h.END_STOPPED]))
        for rec in recs.values():
            self.assertIsNone(rec.problem)
            self.assertEqual(rec.faults(), [])

    def test_a_command(self):
        """SIGUSR1 is giltrace's then."""
        code = ("import signal, os\n"
                "signal.signal(signal.SIGUSR1, lambda *a: os._exit(3))\n"
                "print(1, flush=True)\n"
                "input()\n")
        with h.Recorder([], "--ring=" + LONG, command=h.python().command() + ["-S", "-c", code],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE) as r:
            self.assertEqual(r.proc.stdout.readline(), b"1\n")
            r.proc.send_signal(signal.SIGUSR1)
            complete(r)
            r.proc.stdin.write(b"\n")
            r.proc.stdin.close()
            self.assertEqual(r.finish(), h.OK, r.text())
            self.assertEqual(len(complete(r, 2)), 2)
            r.proc.stdout.close()

    def test_the_disk_is_full(self):
        """That file is removed, and what is in memory is in the next."""
        self.work.start_workers(stat=1)
        with self.recorder("--ring=" + LONG) as r:
            self.rounds(10)
            resource.prlimit(r.pid, resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))
            r.proc.send_signal(signal.SIGUSR1)
            h.until(lambda: "the next trigger tries again" in r.text(), "it is said")
            self.assertEqual(r.files(), [])
            resource.prlimit(r.pid, resource.RLIMIT_FSIZE,
                             (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            r.proc.send_signal(signal.SIGUSR1)
            rec = complete(r)[0]
            self.assertEqual(r.stop(), h.NO_OUTPUT, r.text())
        self.assert_good(rec)
        self.assertGreaterEqual(rec.count(h.RELEASE, self.work.threads["stat-0"]), 10)

    def test_line_on_the_terminal(self):
        master, slave = pty.openpty()
        shown, end = b"", time.monotonic() + h.LIMIT
        self.work.start_workers(stat=1)
        with Owned([self.work.pid], "--ring=" + LONG, stderr=slave) as r:
            os.close(slave)
            self.rounds(10)
            self.assertEqual(dump(r), 1)
            while b"MiB; files: 1" not in shown or b"in memory: " not in shown:
                self.assertLess(time.monotonic(), end, shown)
                if select.select([master], [], [], 1)[0]:
                    shown += os.read(master, 4096)
            self.assertEqual(r.end()["status"], h.OK)
        os.close(master)

    def test_usage(self):
        for options in (["--ring=0"], ["--ring=x"], ["--trigger-hold=5"], ["--window-memory=3"],
                        ["--ring=5", "--window-memory=0"], ["--ring=5", "--ring-files=0"],
                        ["--ring=5", "--trigger-wait=-1"], ["--ring=5", "--list"]):
            status, out, err = h.giltrace("-p", self.work.pid, *options)
            self.assertEqual((status, out), (h.USAGE, ""), options)
            self.assertIn("--" + options[-1].strip("-").split("=")[0].replace("list", "ring"), err)


if __name__ == "__main__":
    h.main()
