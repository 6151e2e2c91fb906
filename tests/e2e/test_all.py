# SPDX-License-Identifier: Apache-2.0
"""
--all-python: every CPython of the host, also those that come later, and nothing else. Whatever
Pythons the machine runs besides are recorded as well, so what is said here is said of our own.
"""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

TICK = 0.02  # seconds: births are told in ticks of 10 ms
SOON = 3 * h.SLOW  # seconds within which a process is found

def started(pid):
    """When a process was made, on the events' clock, or a tick before."""
    with open("/proc/%d/stat" % pid) as f:
        ticks = int(f.read().rpartition(")")[2].split()[19])
    away = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    return ticks / os.sysconf("SC_CLK_TCK") - away


class AllTest(h.BpfTest):
    def start(self, py=None, **kwargs):
        w = h.Workload(py or h.python(), **kwargs)
        self.addCleanup(w.__exit__)
        w.born, w.up = started(w.pid), time.clock_gettime(time.CLOCK_MONOTONIC)
        w.start_workers(stat=1)
        return w

    def plain(self, *args):
        p = h.Plain(*args)
        self.addCleanup(p.kill)
        return p

    def other(self, *argv):
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        return p

    def stop(self, r):
        """Others' Pythons may have lost events, or been odd; we have nothing to do with them."""
        status = r.stop()
        self.assertIn(status, (h.OK, h.LOSSES), r.text())

    def assert_late(self, rec, w):
        """It began when it was born, or became a Python."""
        record, = rec.late
        self.assertEqual(rec.all[0].kind, h.LATE, "it comes first")
        self.assertGreater(record.begin_ns / 1e9, w.born - TICK)
        self.assertLess(record.begin_ns / 1e9, w.up)
        self.assertGreater(record.ns, record.begin_ns)
        self.assertLess((record.ns - record.begin_ns) / 1e9, SOON)
        self.assertTrue(all(e.ns >= record.ns for e in rec.events))
        self.assertIn(rec.meta["recording.late"], ("forked", "executed", "found"))


class Found(AllTest):
    def test_every_python_and_nothing_else(self):
        ws = [self.start(py) for py in h.pythons()]
        others = [self.other("sleep", "1000"), self.other("cat"),
                  self.other("sh", "-c", "echo; read x # python3"),
                  # No Python by being called so.
                  self.other("bash", "-c", "exec -a /usr/bin/python3.11 sleep 1000")]
        for py in h.all_pythons():
            if py.version < (3,):
                others.append(self.plain(py).proc)  # a CPython that cannot be traced
        with h.Recorder([], "--all-python") as r:
            for w in ws:
                w.do("run", limit=50)
                w.do("join")
                w.quiesce()
            recorder = r.pid
            self.stop(r)
            pids = r.pids()
            text = r.text()
            recs = [(w, r.recording(w.pid)) for w in ws]
            everything = [h.Recording(f) for f in r.files()]
        self.assertLessEqual({os.getpid()} | {w.pid for w in ws}, pids)
        self.assertEqual(pids & {p.pid for p in others}, set(), text)
        self.assertNotIn(recorder, pids)
        for rec in everything:  # also what is not ours is a Python
            self.assertRegex(rec.meta["python.version"], r"\A3\.\d+\Z")
            self.assertNotEqual(rec.meta["process.comm"], "giltrace")
        for w, rec in recs:
            self.assert_sound(rec)
            self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 50)
            self.assertEqual(rec.meta["python.version"], "%d.%d" % w.python.version[:2])
            self.assertEqual(rec.late, [])
            self.assertNotIn("recording.late", rec.meta)

    def test_named_ones_are_not_taken_twice(self):
        w = self.start()
        with h.Recorder(w, "--all-python") as r:
            w.do("run", limit=50)
            w.do("join")
            w.quiesce()
            self.stop(r)
            rec = r.recording(w.pid)
        self.assert_sound(rec)

    def test_a_time_is_kept(self):
        w = self.start()
        with h.Recorder([], "--all-python", "-d", "0.3") as r:
            self.assertIn(r.finish(), (h.OK, h.LOSSES), r.text())
            self.assertEqual(r.recording(w.pid).end.reason, h.END_DURATION)


class Late(AllTest):
    def test_a_new_python(self):
        """Of each kind, by itself and by exec of something that is none."""
        with h.Recorder([], "--all-python") as r:
            ws = [self.start(py) for py in h.pythons()]
            p = self.plain(h.python(), "sh", "-c", 'read x; exec "$@"', "sh")
            for w in ws:
                r.begun(w)
            self.assertNotIn(p.pid, r.pids(), "a shell is no Python")
            p.proc.stdin.write(b"\n")  # now it becomes one
            p.rounds(1)
            became = time.clock_gettime(time.CLOCK_MONOTONIC)

            def seen():
                p.rounds(100)
                return r.of(p.pid) and h.Recording(r.of(p.pid)[0]).events
            h.until(seen, "events of the former shell")
            for w in ws:
                w.quiesce()
            self.stop(r)
            for w in ws:
                rec = r.recording(w.pid)
                self.assert_sound(rec)
                self.assert_late(rec, w)
            rec = r.recording(p.pid)
        self.assert_sound(rec)
        record, = rec.late
        self.assertLess(record.ns / 1e9 - became, SOON)
        self.assertIn(rec.meta["recording.late"], ("forked", "executed", "found"))

    def test_one_that_becomes_another_python(self):
        """exec ends a file; what comes then, if it is a Python, has another."""
        w = self.start()
        with h.Recorder([], "--all-python") as r:
            r.begun(w)
            w.send("exec", path=w.python.path, args=w.do("argv"))
            self.assertEqual(w.answer()["pid"], w.pid)
            w.threads.clear()
            w.start_workers(stat=1)
            h.until(lambda: len(r.of(w.pid)) == 2, "a second file")
            r.begun(w)
            w.quiesce()
            self.stop(r)
            first, second = sorted((h.Recording(f) for f in r.of(w.pid)),
                                   key=lambda rec: rec.path.endswith("_2.gil"))
        self.assertTrue(second.path.endswith("_2.gil"))
        self.assertEqual(first.end.reason, h.END_EXEC)
        self.assertEqual(second.end.reason, h.END_STOPPED)
        self.assertEqual(len(second.late), 1)
        self.assertEqual(second.meta["recording.late"], "executed")
        for rec in (first, second):
            self.assert_sound(rec)
        self.assertEqual(first.late, [])


class ThoseThatEnd(AllTest):
    def test_one_after_the_other(self):
        """
        Their files end with them, the others' go on. Some are over before anybody looks, or while
        somebody looks: that is no failure, and nobody is bothered with it.
        """
        watched, py = self.start(), h.python()
        with h.Recorder([], "--all-python") as r:
            ps = [self.plain(py) for _ in range(5)]
            h.until_all_have(r, ps, "events")
            for p in ps:
                p.end()
            h.until_all_have(r, ps, "end")
            short = []
            for _ in range(30):
                p = subprocess.Popen([py.path, "-S", "-c", "pass"],
                                     env=dict(os.environ, **py.env))
                self.assertEqual(p.wait(), 0)
                short.append(p.pid)
            r.begun(watched)
            watched.quiesce()
            self.stop(r)
            for p in ps:
                rec = r.recording(p.pid)
                self.assert_sound(rec)
                self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
            rec = r.recording(watched.pid)
            for line in r.text().splitlines():
                if set(map(int, re.findall(r"\d+", line))) & set(short):
                    self.assertNotRegex(line, r"(?i)error|fail|cannot|no such process")
        self.assert_sound(rec)
        self.assertEqual(rec.end.reason, h.END_STOPPED)


if __name__ == "__main__":
    h.main()
