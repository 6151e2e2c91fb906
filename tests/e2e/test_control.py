# SPDX-License-Identifier: Apache-2.0
"""What a running recording can be told: pauses, and what lies between them; marks; names."""
import os
import pty
import select
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from family import Family, now  # noqa: E402
from owned import Owned, inside, words  # noqa: E402


class Windows(h.BpfTest):
    """Pauses, and what lies between them."""

    def setUp(self):
        self.begin()

    def begin(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)

    def owned(self, *options, **kwargs):
        return Owned(kwargs.pop("pids", [self.work.pid]), *options, **kwargs)

    def rounds(self, n):
        """Returns when all threads sleep again; when that began and ended."""
        begin = now()
        self.work.do("run", limit=n)
        self.work.do("join")
        self.work.quiesce()
        return begin, now()

    def windows(self, backend, pauses_wanted):
        self.work.start_workers(stat=2)
        windows, pauses = [], []
        with h.Recorder(self.work) as whole, self.owned("--backend=" + backend) as r:
            links = {o for o in r.kernel_objects() if o[0] == "link"}
            self.assertTrue(links)
            probes = self.work.breakpoints()
            for n in range(pauses_wanted):
                windows.append(self.rounds(3 + n))
                self.assertEqual(r.ok("status")["state"], "recording")
                r.pause()
                pauses.append(self.rounds(30))
                status = r.ok("status")
                self.assertEqual(status["state"], "paused")
                self.assertEqual({o for o in r.kernel_objects() if o[0] == "link"}, links)
                if n in (0, pauses_wanted - 1):
                    self.assertEqual(self.work.breakpoints(), probes)
                r.resume()
            ended = r.end()
            self.assertEqual(whole.stop(), h.OK, whole.text())
            truth, rec = whole.recording(), r.recording()
        self.assertEqual((ended["status"], ended["lost"], ended["files"]), (0, 0, 1), r.said)
        self.assertEqual(ended["events"], rec.total())
        self.assertEqual(ended["bytes"], os.path.getsize(rec.path))
        self.assertEqual(rec.end.reason, h.END_STOPPED)
        self.assert_sound(rec)
        self.assertEqual(rec.faults(), [])
        self.assertEqual([e for e in rec.events if inside(e, rec.pauses)], [])
        self.assertEqual(len(rec.pauses), pauses_wanted)
        for window, pause, told in zip(windows, pauses, rec.pauses):
            self.assertTrue(window[1] <= told.begin_ns <= pause[0] < pause[1] <= told.ns)
            for tid in self.work.threads.values():
                seen = truth.between(window[0], window[1], tid)
                self.assertEqual([e.kind for e in rec.between(window[0], window[1], tid)],
                                 [e.kind for e in seen])
                self.assertGreater(len(seen), 2)
                self.assertGreater(len(truth.between(pause[0], pause[1], tid)), 60)
        inside_ns = sum(p.ns - p.begin_ns for p in rec.pauses)
        self.assertGreaterEqual(ended["paused_ns"], inside_ns)
        self.assertLess(ended["paused_ns"] - inside_ns, ended["elapsed_ns"] - inside_ns)
        self.check_drawn(rec)

    def check_drawn(self, rec):
        trace = rec.trace()
        for p in rec.pauses:
            begin, end = p.begin_ns + rec.to_unix, p.ns + rec.to_unix
            self.assertEqual([s for s in trace.of("hold_gil") if s.begin < end and s.end > begin],
                             [])
        self.assertIn("paused for", trace.text)
        self.assertIn("in %d pause" % len(rec.pauses), trace.text)

    def test_windows(self):
        for backend, pauses in zip(h.backends(), (20, 5)):
            with self.subTest(backend=backend):
                self.begin()
                self.windows(backend, pauses)

    def test_threads_that_wait_and_hold_all_the_time(self):
        self.work.start_workers(cpu=2)
        self.work.do("run")
        with self.owned() as r:
            for n in range(10):
                before = r.ok("status")["events"]
                h.until(lambda: r.ok("status")["events"] >= before + 8, "events in a window")
                r.pause()
                seen = r.ok("status")["events"]
                self.assertEqual(r.ok("status")["events"], seen)
                r.resume()
            ended = r.end()
            rec = r.recording()
        self.work.do("park")
        self.assertEqual(ended["status"], 0, r.said)
        self.assert_sound(rec)
        self.assertEqual(rec.faults(), [])
        self.assertEqual([e for e in rec.events if inside(e, rec.pauses)], [])

    def test_a_wait_that_goes_on(self):
        """Over pauses: it is told anew after each, as what it was before is not known then."""
        work = h.Workload(h.python(), native=True)
        self.addCleanup(work.__exit__)
        waiter = work.do("waiter")
        work.expect_said(b"w")
        with self.owned(pids=[work.pid]) as r:
            work.send("grab")
            work.expect_said(b"h")
            before = r.ok("status")["events"]
            os.write(work.wait, b"x")
            for n in range(1, 4):
                h.until(lambda: r.ok("status")["events"] == before + n, "the wait is told", 10)
                r.pause()
                r.resume()
            h.until(lambda: r.ok("status")["events"] == before + 4, "the wait is told", 10)
            os.write(work.hear, b"x")
            work.answer()
            self.assertEqual(r.end()["status"], 0)
            rec = r.recording()
        self.assert_sound(rec)
        self.assertEqual([e.kind for e in rec.of(waiter)][:5], [h.WAIT] * 4 + [h.ACQUIRE])
        self.assertEqual(len(rec.pauses), 3)

    def test_begins_paused_and_stays_so(self):
        """The duration counts on; and nothing is said of a GIL that did not change hands."""
        self.work.start_workers(stat=2)
        began = time.monotonic()
        with self.owned("--paused", "-d", "0.5") as r:
            self.rounds(50)
            self.assertEqual(r.ok("status")["state"], "paused")
            ended = words(r.until("ended"))
            self.assertGreaterEqual(time.monotonic() - began, 0.5)
            self.assertEqual(r.finish(), h.OK)
            rec = r.recording()
        self.assertEqual(ended["events"], 0)
        self.assertGreaterEqual(ended["elapsed_ns"], 500000000)
        self.assertEqual(ended["paused_ns"], ended["elapsed_ns"])
        self.assertEqual(rec.end.reason, h.END_DURATION)
        self.assertEqual(rec.events, [])
        self.assertEqual([p.ns for p in rec.pauses], [rec.end.mono_ns])
        self.assertLess(rec.pauses[0].begin_ns - rec.begin_ns, 10**9)
        self.assertNotIn("did not change hands", r.said)

    def test_all_that_happened_was_in_a_pause(self):
        """Probes are not said to be in the wrong places then."""
        self.work.start_workers(stat=2)
        with self.owned() as r:
            r.pause()
            self.rounds(20000)
            ended = r.end()
        self.assertEqual((ended["status"], ended["events"]), (0, 0), r.said)
        self.assertNotIn("did not change hands", r.said)

    def test_begins_paused_and_is_resumed(self):
        self.work.start_workers(stat=1)
        tid = self.work.threads["stat-0"]
        with self.owned("--paused") as r:
            self.rounds(10)
            r.pause()  # again: no error
            r.resume()
            window = self.rounds(4)
            r.resume()
            r.pause()
            self.rounds(10)
            self.assertEqual(r.end()["status"], 0)
            rec = r.recording()
        self.assert_sound(rec)
        self.assertEqual(len(rec.pauses), 2)
        self.assertEqual(rec.of(tid), rec.between(window[0], window[1], tid))
        self.assertGreaterEqual(rec.count(h.RELEASE, tid), 4)
        self.assertLess(rec.count(h.RELEASE, tid), 10)
        self.assertEqual(rec.before(h.HOLDING) + rec.before(h.WAITING), [])

    def test_ends_and_executions_in_a_pause(self):
        for how in ("exit", "exec"):
            with self.subTest(how), Family(h.python()) as family:
                root = family.root
                with self.owned(pids=[family.pid]) as r:
                    root.count(5)
                    r.pause()
                    if how == "exec":
                        r.freeze()  # so it may be told to resume before it has noticed
                        root.send("exec", argv=family.command("again"))
                        family.next("again").count(5)
                        r.send("resume")
                        r.thaw()
                        family.members[-1].count(5)
                    else:
                        os.kill(family.pid, signal.SIGKILL)
                    ended = words(r.until("ended"))
                    self.assertEqual(r.finish(), h.OK, r.text())
                    rec = r.recording()
                reason = h.END_EXEC if how == "exec" else h.END_TARGET_EXIT
                self.assertEqual(rec.end.reason, reason)
                self.assertEqual(ended["events"], rec.total())
                self.assertEqual([p.ns for p in rec.pauses], [rec.end.mono_ns])
                self.assertEqual([e for e in rec.events if e.ns > rec.pauses[0].begin_ns], [])

    def test_one_that_comes_in_a_pause(self):
        with Family(h.python()) as family, self.owned("--follow", "-v", pids=[family.pid]) as r:
            family.root.count(5)
            r.pause()
            child = family.beget("fork", "fork")
            h.until(lambda: "process %d: recorded" % child.pid in r.text(), "it is recorded")
            child.count(7)
            self.assertEqual(r.ok("status")["processes"], 2)
            r.resume()
            began = now()
            child.count(9)
            self.assertEqual(r.end()["status"], 0)
            rec = r.recording(child.pid)
        self.assertEqual(len(rec.late), 1)
        self.assertEqual(len(rec.pauses), 1)
        self.assertTrue(rec.late[0].ns <= rec.pauses[0].begin_ns < rec.pauses[0].ns <= began)
        self.assertTrue(all(e.ns > rec.pauses[0].ns for e in rec.events))
        self.assertGreaterEqual(rec.count(h.RELEASE), 9)
        self.assertLess(rec.count(h.RELEASE), 9 + 7)

    def test_line_on_the_terminal(self):
        master, slave = pty.openpty()
        shown = b""
        with Owned([self.work.pid], stderr=slave) as r:
            os.close(slave)
            for word in (b"s  paused  0 events/s", b"s  0 events/s"):
                r.ok("pause" if b"paused" in word else "resume")
                shown = b""
                while word not in shown:
                    ready, _, _ = select.select([master], [], [], h.LIMIT)
                    self.assertTrue(ready, shown)
                    shown += os.read(master, 4096)
            self.assertEqual(r.end()["status"], 0)
        os.close(master)

    def test_killed_in_a_pause(self):
        """What was before it must not seem to have gone on."""
        self.work.start_workers(cpu=2)
        self.work.do("run")
        with self.owned() as r:
            h.until(lambda: r.ok("status")["events"] > 20, "events")
            r.pause()
            paused = now()
            # Until what there is has been sealed, and longer: the clock is read each second.
            size = os.path.getsize(r.files()[0])
            h.until(lambda: os.path.getsize(r.files()[0]) > size and
                    now() - paused > 1500000000, "the file has grown")
            r.proc.kill()
            r.proc.wait()
            rec = h.Recording(r.files()[0])
        self.work.do("park")
        self.assertIsNone(rec.end)
        last = max(s.end for s in rec.trace().slices)
        self.assertLess(last, paused + rec.to_unix)


class Marks(h.BpfTest):
    def setUp(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)
        self.work.start_workers(stat=1)

    def rounds(self, n):
        self.work.do("run", limit=n)
        self.work.do("join")
        self.work.quiesce()

    def test_marks_lie_between_the_right_events(self):
        """In the file of each process; the thread only where it is the asker's."""
        mine = threading.get_native_id() if hasattr(threading, "get_native_id") else os.getpid()
        with Owned([self.work.pid, os.getpid()]) as r:
            self.rounds(5)
            first = now()
            r.send("mark %d %d epoch 1 \u00e4" % (first, mine))
            self.rounds(5)
            r.send("mark 0 0 no time")
            self.assertEqual(r.ok("status")["marks"], 2)
            self.rounds(5)
            r.send("mark 1 0 before all")
            r.send("mark %d 0 in the future" % (now() + 10**12))
            r.send("mark %d 0 %s" % (first + 1, "x" * 300))
            r.pause()
            r.send("mark 0 999999999 in a pause")
            self.assertEqual(r.ask("mark x y z").split(" ")[0], "error")
            ended = r.end()
            work, own = r.recording(self.work.pid), r.recording(os.getpid())
        self.assertEqual((ended["marks"], ended["status"]), (6, 0))
        for rec, tid in ((work, 0), (own, mine)):
            self.assertIsNone(rec.problem)
            marks = {m.name: m for m in rec.marks}
            self.assertEqual(len(marks), 6)
            self.assertEqual(marks["epoch 1 \u00e4"].ns, first)
            self.assertEqual(marks["epoch 1 \u00e4"].tid, tid)
            self.assertEqual({m.tid for name, m in marks.items() if name != "epoch 1 \u00e4"}, {0})
            self.assertEqual(marks["x" * 127].ns, first + 1)
            self.assertLessEqual(marks["before all"].ns, rec.begin_ns)
            self.assertLessEqual(marks["in the future"].ns, rec.end.mono_ns)
            self.assertLess(marks["no time"].ns, marks["in the future"].ns)
            self.assertTrue(inside(marks["in a pause"], rec.pauses))
        tid = self.work.threads["stat-0"]
        at = [0, first, [m.ns for m in work.marks if m.name == "no time"][0], work.end.mono_ns]
        counts = [sum(e.kind == h.RELEASE for e in work.between(a, b, tid))
                  for a, b in zip(at, at[1:])]
        self.assertTrue(all(5 <= n < 10 for n in counts), counts)
        drawn = [e for e in work.trace().events if e["ph"] in "iI" and "epoch 1" in e["name"]]
        self.assertEqual(len(drawn), 1)

    def test_names_that_the_program_tells(self):
        """They count beside those in its memory, also for a thread that has had no event yet."""
        go, done = threading.Event(), threading.Event()
        tids = {}

        def work(name):
            tids[name] = int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])
            go.wait()
            for _ in range(100):
                os.stat("/")
            done.wait()
        threads = [threading.Thread(target=work, args=(n,), name=n) for n in ("one", "two")]
        for t in threads:
            t.start()
        h.until(lambda: len(tids) == 2, "the threads run")
        with Owned([os.getpid()], "--paused") as r:
            r.send("threads\n%d told one\n999999999 nobody\nodd line" % tids["one"])
            r.resume()
            go.set()
            h.until(lambda: h.Recording(r.recording().path).thread_names.get(tids["two"]),
                    "names were asked for")
            r.send("threads\n%d told main" % os.getpid())
            done.set()
            for t in threads:
                t.join()
            self.assertEqual(r.end()["status"], 0)
            rec = r.recording()
        self.assertEqual(rec.thread_names[tids["one"]], "told one")
        self.assertEqual(rec.thread_names[tids["two"]], "two")
        self.assertEqual(rec.thread_names[os.getpid()], "told main")
        names = [e.thread_name for e in rec.all if e.kind == h.THREAD and e.tid == tids["one"] and
                 e.thread_name]
        self.assertEqual(set(names), {"told one"})


if __name__ == "__main__":
    h.main()
