# SPDX-License-Identifier: Apache-2.0
"""Names of threads, in the kernel and in Python, and titles of processes: as late as possible."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from family import FamilyTest, threads  # noqa: E402

NAME_MAX = 63  # bytes of a name in Python that the file keeps
LONG = "".join(chr(ord("a") + i % 26) for i in range(100))
HOSTILE = [b'"\\\n\x1b[1m\xff}],{', b"\xc3\xa4" * 7 + b"\xc3", b"\x7f\x01\xe2\x82", b"%s%n \t\r{}"]


def named_pythons():
    """Whose layout is to be known, and where threads are as usual."""
    return [p for p in h.chosen() if p.version >= (3, 8) and
            (not p.free_threaded or p.env.get("PYTHON_GIL") == "1")]


def of_tid(names, tid):
    """The names that a trace shows at the rows of a thread."""
    return [name for track, name in names.items() if h.number(track) == tid]


class Names(FamilyTest):
    def begin(self, py=None, names=("a", "b"), *options):
        self.family = self.start(py)
        self.root = self.family.root
        self.tids = self.root.do("threads", names=list(names))
        self.rec = self.record(self.family.pid, *options)

    def count(self, n=5):
        """Every thread has events."""
        for name in sorted(self.tids):
            self.root.do("in", thread=name, what="count", n=n)
        self.root.count(n)

    def finish(self):
        """Stops giltrace, if need be; what the file and the trace say in the end."""
        if self.rec.proc.poll() is None:
            self.stopped(self.rec)
        rec = self.rec.recording()
        self.assert_good(rec)
        return threads(rec), rec.trace(), rec

    def label(self, trace, tid):
        labels = of_tid(trace.names, tid)
        self.assertEqual(len(labels), 1, trace.names)
        return labels[0]


class Kernel(Names):
    """prctl(PR_SET_NAME), pthread_setname_np: what `top` shows."""

    def check(self, tid, comm, told, trace):
        self.assertEqual(told[tid].comm, comm)
        self.assertIn(comm.decode(), self.label(trace, tid))

    def test_renamed_after_its_first_event_by_itself_and_by_others(self):
        self.begin(names="abcd")
        self.count()
        self.root.do("in", thread="a", what="prctl", name=b"acl_thread".hex())
        self.root.do("rename", thread="b", name=b"by another".hex())
        for name in (b"first", b"second", b"third"):
            self.root.do("in", thread="c", what="prctl", name=name.hex())
            self.root.do("in", thread="c", what="count", n=1)
        with open("/proc/%d/task/%d/comm" % (self.family.pid, self.tids["d"]), "rb") as f:
            before = f.read().strip()
        told, trace, _ = self.finish()
        for name, comm in (("a", b"acl_thread"), ("b", b"by another"), ("c", b"third")):
            self.check(self.tids[name], comm, told, trace)
        self.assertEqual(told[self.tids["d"]].comm, before)

    def test_renamed_right_before_its_end(self):
        """Nobody finds that in /proc: giltrace stands still meanwhile."""
        self.begin(names="abc")
        self.count()
        self.rec.freeze()
        self.root.do("leave", thread="a", name=b"at the end".hex())
        self.root.do("in", thread="b", what="prctl", name=b"before".hex())
        self.root.do("leave", thread="b", name=b"after".hex())
        self.root.do("leave", thread="c")
        h.until(lambda: not set(self.tids.values()) & set(self.root.host_tids().values()),
                "the threads have ended")
        self.rec.thaw()
        told, trace, _ = self.finish()
        self.check(self.tids["a"], b"at the end", told, trace)
        self.check(self.tids["b"], b"after", told, trace)
        self.assertNotIn(told[self.tids["c"]].comm, (b"at the end", b"after", b"before"))

    def test_renamed_before_the_process_ends(self):
        self.begin()
        self.count()
        self.root.do("in", thread="a", what="prctl", name=b"last words".hex())
        self.root.send("exit")
        self.assertEqual(self.rec.finish(), h.OK, self.rec.text())
        told, trace, rec = self.finish()
        self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
        self.check(self.tids["a"], b"last words", told, trace)

    def test_renamed_when_its_last_event_is_long_over(self):
        """By its process, which alone has events after it; then giltrace ends at once."""
        self.begin()
        self.count()
        self.rec.freeze()
        self.root.do("rename", thread="b", name=b"too late?".hex())
        self.rec.proc.send_signal(signal.SIGINT)
        self.rec.proc.send_signal(signal.SIGCONT)
        self.assertEqual(self.rec.finish(), h.OK, self.rec.text())
        told, trace, _ = self.finish()
        self.check(self.tids["b"], b"too late?", told, trace)

    def test_hostile_names(self):
        self.begin(names=["t-%d" % i for i in range(len(HOSTILE))])
        self.count()
        for i, name in enumerate(HOSTILE):
            self.root.do("in", thread="t-%d" % i, what="prctl", name=name.hex())
        told, trace, rec = self.finish()
        for i, name in enumerate(HOSTILE):
            self.assertEqual(told[self.tids["t-%d" % i]].comm, name[:15])
            self.assertTrue(self.label(trace, self.tids["t-%d" % i]))
        for text in (self.rec.text(), trace.text):
            self.assertNotIn("\x1b", text)
        self.assertNotIn(b"\x1b", trace.raw)


class EachPython(Names):
    """threading.Thread.name, for threads that have no name of their own in the kernel."""

    def each_threading_name(self, py):
        odd = "d\u00e4ten-\u30b9\u30ec\u30c3\u30c9-\U0001f40d"
        given = ["pin_memory", odd, LONG]
        self.begin(py, given + [None])
        foreign = self.root.do("foreign", rounds=5)["tid"]
        self.count()
        told, trace, rec = self.finish()
        for name, tid in self.tids.items():  # the last one is Python's choice: Thread-1 and so on
            self.assertEqual(told[tid].name, name.encode()[:NAME_MAX], rec.meta)
            self.assertIn(name[:20], self.label(trace, tid))
        self.assertIn(told[self.family.pid].name, (b"MainThread", b"", None))
        self.assertIn(told[foreign].name, (b"", None))
        self.assertGreaterEqual(int(rec.meta["python.threads_named"]), 4)
        self.assertNotIn("python.threads_why", rec.meta)


h.each_python(EachPython, named_pythons)


class Python(Names):
    def test_named_while_it_records(self):
        self.begin()
        self.count()
        self.root.do("call", thread="a", name="renamed")
        self.root.do("threads", names=["born later"])
        self.root.do("in", thread="born later", what="count", n=3)
        told, trace, rec = self.finish()
        tid = [t for t, n in told.items() if n.name == b"born later"]
        self.assertEqual(len(tid), 1, told)
        self.assertEqual(told[self.tids["a"]].name, b"renamed")
        self.assertEqual(told[self.tids["b"]].name, b"b")
        self.assertIn("renamed", self.label(trace, self.tids["a"]))
        self.assertIn("born later", self.label(trace, tid[0]))

    def test_the_kernels_name_is_not_hidden(self):
        """Who has named itself in the kernel is shown by that."""
        self.begin(names=["Thread-python"])
        self.count()
        self.root.do("in", thread="Thread-python", what="prctl", name=b"acl_thread".hex())
        told, trace, _ = self.finish()
        self.assertEqual(told[self.tids["Thread-python"]].comm, b"acl_thread")
        self.assertIn("acl_thread", self.label(trace, self.tids["Thread-python"]))

    def test_switched_off(self):
        self.begin(None, ("pin_memory",), "--no-thread-names")
        self.count()
        told, trace, rec = self.finish()
        self.assertEqual({t.name for t in told.values()} - {None, b""}, set())
        self.assertNotIn("pin_memory", self.label(trace, self.tids["pin_memory"]))
        self.assertIn(rec.meta.get("python.threads_named"), (None, "0"))
        self.assertNotIn(b"pin_memory", trace.raw)

    def test_hostile_names(self):
        """Whatever str may hold: control characters, lone surrogates, braces, nothing at all."""
        names = ['"\\\n\x1b[1m}],{', "\udcff\ud800x", "a\x00b", "\x01\x7f\u2028", "", "{" * 70,
                 "\U0010ffff" * 40]
        self.begin(names=["t-%d" % i for i in range(len(names))])
        for i, name in enumerate(names):
            self.root.do("call", thread="t-%d" % i, name=name)
        self.count()
        told, trace, _ = self.finish()
        for i, name in enumerate(names):
            tid = self.tids["t-%d" % i]
            self.assertTrue(self.label(trace, tid))
            self.assertLessEqual(len(told[tid].name or b""), NAME_MAX)
        self.assertEqual(told[self.tids["t-5"]].name, b"{" * NAME_MAX)
        self.assertNotIn(b"\x1b", trace.raw)
        self.assertNotIn("\x1b", self.rec.text() + trace.text)

    def test_300_threads(self):
        """Each gets its own name, not that of another."""
        names = ["worker/%03d" % i for i in range(300)]
        self.begin(names=names)
        self.root.do("all", what="count", n=3)
        told, trace, rec = self.finish()
        self.assertEqual({n: told[t].name for n, t in self.tids.items()},
                         {n: n.encode() for n in names})
        for name, tid in self.tids.items():
            self.assertIn(name, self.label(trace, tid))

    def test_memory_that_nobody_serves(self):
        """A process whose memory cannot be read hangs neither giltrace nor others' recordings."""
        some = [p for p in h.pythons() if p.version[:2] == (3, 11) and "debug" not in p.label]
        if not some:
            self.skipTest("no CPython 3.11 here, which the workload is made for")
        trap = subprocess.Popen(some[0].command() + [os.path.join(h.WORKLOADS, "trap.py")],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=some[0].env)
        try:
            self.assertEqual(trap.stdout.readline(), b"ready\n")
            with h.Workload(h.python()) as w:
                r = self.record([trap.pid, w.pid], "-d", "1.5")
                self.assertEqual(r.finish(), h.OK, r.text())
        finally:
            trap.kill()
            trap.wait()
            trap.stdout.close()
        self.assertIn("hangs", r.text())
        for pid in (trap.pid, w.pid):
            rec = r.recording(pid)
            self.assert_sound(rec)
            self.assertEqual(rec.end.reason, h.END_DURATION)

    def test_a_child_has_the_names_of_its_own_threads(self):
        """After a fork the interpreter may still know those of the parent, which are not there."""
        self.family = self.start()
        self.root = self.family.root
        self.root.do("threads", names=["parent's"])
        child = self.family.beget("fork", "fork")
        tids = child.do("threads", names=["child's"])
        r = self.record(child.pid)
        child.do("in", thread="child's", what="count", n=3)
        self.stopped(r)
        told = threads(r.recording())
        self.assertEqual(told[tids["child's"]].name, b"child's")
        self.assertNotIn(b"parent's", {t.name for t in told.values()})


class Titles(Names):
    """The command line, and what setproctitle makes of it."""

    def shown(self, trace):
        """All that is said of processes in the trace's metadata."""
        return " ".join(str(e["args"]) for e in trace.events
                        if e["ph"] == "M" and e["name"] in ("process_name", "process_labels"))

    def test_command_line(self):
        self.begin()
        self.count()
        _, trace, rec = self.finish()
        line = rec.meta["process.cmdline"]
        for arg in self.family.command("root"):
            self.assertIn(arg, line)
        self.assertNotIn("process.title", rec.meta)
        self.assertIn("member.py", self.shown(trace))

    def test_title_that_is_set_before(self):
        self.family = self.start()
        self.family.root.do("title", title=b"VLLM::Worker_TP0".hex())
        r = self.record(self.family.pid)
        self.family.root.count(5)
        self.stopped(r)
        rec = r.recording()
        self.assertEqual(rec.meta["process.cmdline"].rstrip(" \0"), "VLLM::Worker_TP0")
        self.assertIn("VLLM::Worker_TP0", self.shown(rec.trace()))

    def test_title_that_is_set_meanwhile(self):
        """By writing over the arguments, and by PR_SET_NAME, as setproctitle does both."""
        self.begin()
        self.count()
        for title in (b"VLLM::EngineCore", b"VLLM::Worker_TP3"):
            self.root.do("title", title=title.hex())
            self.root.do("prctl", name=title[:15].hex())
        told, trace, rec = self.finish()
        self.assertIn("member.py", rec.meta["process.cmdline"])
        self.assertEqual(rec.meta["process.title"].rstrip(" \0"), "VLLM::Worker_TP3")
        self.assertEqual(told[self.family.pid].comm, b"VLLM::Worker_TP")
        self.assertIn("VLLM::Worker_TP3", self.shown(trace))

    def test_hostile_titles(self):
        for title in HOSTILE + [b"{" * 3000, b"\xff" * 500]:
            with self.subTest(title[:20]):
                self.begin()
                self.root.do("title", title=title.hex())
                self.count()
                _, trace, rec = self.finish()
                self.assertIn("process.title", rec.meta)
                self.assertNotIn(b"\x1b", trace.raw)
                self.assertNotIn("\x1b", self.rec.text() + trace.text)

    def test_a_program_that_is_executed_has_its_own(self):
        self.begin(None, ("a",), "--follow", "-v")
        self.count()
        pid = self.family.pid
        self.root.send("exec", argv=self.family.command("again") + ["--engine", "two words"])
        again = self.family.next("again")
        self.wait_recorded(self.rec, pid)
        again.count(5)
        self.stopped(self.rec)
        first, second = [h.Recording(f).meta["process.cmdline"] for f in self.paths(self.rec, pid)]
        self.assertNotIn("--engine", first)
        self.assertIn("two words", second)

    def test_the_next_program_leaves_its_name_to_itself(self):
        """What is seen of a process after an exec is not what was recorded."""
        self.begin(None, ("a",), "--follow")
        self.count()
        pid = self.family.pid
        self.root.send("exec", argv=["/bin/sleep", "5.4321"])
        h.until(lambda: h.Recording(self.paths(self.rec, pid)[0]).end, "the recording has ended")
        self.stopped(self.rec)
        rec = h.Recording(self.paths(self.rec, pid)[0])
        self.assertEqual(rec.end.reason, h.END_EXEC)
        self.assertNotIn("process.title", rec.meta)
        self.assertNotEqual(threads(rec)[pid].comm, b"sleep")
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    h.main()
