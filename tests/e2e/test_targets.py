# SPDX-License-Identifier: Apache-2.0
"""Which processes and threads are recorded: these, all of these, and no others."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402


def dead_pid():
    """The id of a process that has ended."""
    p = subprocess.Popen(["true"])
    p.wait()
    return p.pid


class OnlyTheTarget(h.BpfTest):
    def test_two_tracers_on_one_python(self):
        """Two recorders, two processes and a third one that nobody traces, of one file."""
        with h.Workload(h.python()) as a, h.Workload(h.python()) as b, \
                h.Workload(h.python()) as c:
            for w in (a, b, c):
                w.start_workers(cpu=2, stat=1)
            with h.Recorder(a) as ra, h.Recorder(b) as rb:
                self.assertGreater(a.breakpoints(), 0)
                self.assertEqual(c.breakpoints(), 0)
                for w in (a, b, c):
                    w.do("run", limit=300)
                for w in (a, b, c):
                    w.do("join")
                    w.quiesce()
                self.assertEqual(ra.stop(), h.OK, ra.text())
                self.assertEqual(rb.stop(), h.OK, rb.text())
                both = [(a, ra.recording()), (b, rb.recording())]
                self.assertEqual(len(ra.files() + rb.files()), 2)
        for w, rec in both:
            self.assert_sound(rec)
            self.assertLessEqual(rec.tids(), {w.pid} | set(w.threads.values()))
            for tid in w.threads.values():
                self.assertGreater(rec.count(h.ACQUIRE, tid), 0)
            self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 300)

    def test_one_tracer_of_two_back_ends_each(self):
        if "multi" not in h.backends():
            self.skipTest("no uprobe_multi on this kernel")
        with h.Workload(h.python()) as a, h.Workload(h.python()) as b:
            for w in (a, b):
                w.start_workers(stat=1)
            with h.Recorder(a, "--backend=multi") as ra, h.Recorder(b, "--backend=perf") as rb:
                for w in (a, b):
                    w.do("run", limit=1000)
                    w.do("join")
                    w.quiesce()
                self.assertEqual(ra.stop(), h.OK, ra.text())
                self.assertEqual(rb.stop(), h.OK, rb.text())
                for w, r in ((a, ra), (b, rb)):
                    rec = r.recording()
                    self.assert_sound(rec)
                    self.assertLessEqual(rec.tids(), {w.pid} | set(w.threads.values()))
                    self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 1000)

    def test_a_forked_child_is_not_recorded(self):
        for backend in h.backends():
            with h.Workload(h.python()) as w:
                w.quiesce()
                with h.Recorder(w, "--backend=" + backend) as r:
                    w.do("fork", n=1000)
                    w.quiesce()
                    self.assertEqual(r.stop(), h.OK, r.text())
                    rec = r.recording()
                self.assert_sound(rec)
                self.assertEqual(rec.tids(), {w.pid})


class SeveralTargets(h.BpfTest):
    def test_one_file_each(self):
        with h.Workload(h.python()) as a, h.Workload(h.python()) as b, \
                h.Workload(h.pythons()[-1].copy()) as c:
            for w in (a, b, c):
                w.start_workers(cpu=1, stat=1)
            with h.Recorder([a, b], "--pid=%d" % c.pid) as r:
                for w in (a, b, c):
                    w.do("run", limit=200)
                    w.do("join")
                    w.quiesce()
                self.assertEqual(r.stop(), h.OK, r.text())
                self.assertEqual([os.path.basename(f) for f in r.files()],
                                 sorted("GIL_%d_rank_0.gil" % w.pid for w in (a, b, c)))
                for w in (a, b, c):
                    rec = r.recording(w.pid)
                    self.assert_sound(rec)
                    self.assertEqual(rec.tids(), {w.pid} | set(w.threads.values()))
                    self.assertIn(rec.result(), r.text())
                trace = h.Trace(r.files())
                self.assertEqual(len({s.pid for s in trace.slices}), 3)
                self.assertEqual(len(trace.processes), 3)
                for w in (a, b, c):
                    self.assertEqual(len(trace.of("hold_gil", w.threads["stat-0"])),
                                     r.recording(w.pid).count(h.ACQUIRE, w.threads["stat-0"]))

    def test_a_pid_named_twice_is_one_target(self):
        with h.Workload(h.python()) as w:
            with h.Recorder([w, w], "-p", w.pid) as r:
                w.do("ping")
                self.assertEqual(r.stop(), h.OK, r.text())
                r.recording()

    def test_one_of_two_is_not_there(self):
        gone = dead_pid()
        with h.Workload(h.python()) as w:
            w.start_workers(stat=1)
            with h.Recorder([gone, w]) as r:
                w.do("run", limit=200)
                w.do("join")
                w.quiesce()
                self.assertEqual(r.stop(), h.NO_TARGET, r.text())
                rec = r.recording()
                self.assertIn(str(gone), r.text())
            self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 200)

    def test_it_goes_on_until_the_last_has_ended(self):
        with h.Workload(h.python()) as a, h.Workload(h.python()) as b:
            for w in (a, b):
                w.start_workers(stat=1)
            with h.Recorder([a, b]) as r:
                a.send("exit")
                a.proc.wait()
                b.do("run", limit=500)
                b.do("join")
                self.assertIsNone(r.proc.poll())
                b.send("exit")
                self.assertEqual(r.finish(), h.OK, r.text())
                first, second = r.recording(a.pid), r.recording(b.pid)
            for rec in (first, second):
                self.assert_sound(rec)
                self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
            self.assertGreaterEqual(second.count(h.RELEASE, b.threads["stat-0"]), 500)


def of_each_kind():
    """A Python with a libpython and a static interpreter, the newest of each that there is."""
    kinds = {bool(p.lib): p for p in h.pythons()}
    for lib, what in ((True, "CPython with a libpython"), (False, "static CPython")):
        if lib not in kinds:
            h.say("MISSING: no %s here" % what)
    return list(kinds.values())


class OddTargets(h.BpfTest):
    def test_interpreter_deleted_on_disk(self):
        """The file is reached through the mapping, whatever became of its name."""
        for py in of_each_kind():
            folder = h.new_dir()
            copy = py.copy_to(folder)
            with h.Workload(copy) as w:
                w.start_workers(cpu=1, stat=1)
                shutil.rmtree(folder)
                with h.Recorder(w) as r:
                    w.do("run", limit=200)
                    w.do("join")
                    w.quiesce()
                    self.assertEqual(r.stop(), h.OK, r.text())
                    rec = r.recording()
                self.assert_sound(rec)
                self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 200)

    def test_interpreter_replaced_on_disk(self):
        """Another file under the same name is not the one that runs."""
        for py in of_each_kind():
            copy = py.copy_to(h.new_dir())
            for other in ("/bin/true", [p.file for p in h.pythons() if p is not py][0]):
                with h.Workload(copy) as w:
                    w.start_workers(stat=1)
                    os.rename(copy.file, copy.file + ".old")
                    shutil.copy(other, copy.file)
                    with h.Recorder(w) as r:
                        w.do("run", limit=200)
                        w.do("join")
                        w.quiesce()
                        self.assertEqual(r.stop(), h.OK, r.text())
                        rec = r.recording()
                    self.assert_sound(rec)
                    self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 200)
                os.rename(copy.file + ".old", copy.file)

    def test_a_process_that_becomes_another_program(self):
        """exec: another program, or the same one anew. The recording ends: its memory is gone."""
        py = h.python()
        best = h.backends()[0]
        for again, backend in sorted({(False, best), (True, best), (True, h.backends()[-1])}):
            with h.Workload(py) as w:
                w.start_workers(stat=1)
                with h.Recorder(w, "--backend=" + backend) as r:
                    w.do("run", limit=200)
                    w.do("join")
                    argv = w.do("argv")
                    if again:
                        w.send("exec", path=py.path, args=argv)
                        self.assertEqual(w.answer()["pid"], w.pid)
                        self.assertEqual(w.do("ping"), "pong")
                    else:
                        w.send("exec", path="/bin/cat", args=[])
                        h.until(lambda: os.readlink("/proc/%d/exe" % w.pid).endswith("/cat"),
                                "the process is another program")
                        w.proc.stdin.write(b"\"pong\"\n")
                        w.proc.stdin.flush()
                        self.assertEqual(w.answer(), "pong")
                    self.assertEqual(r.finish(), h.OK, r.text())
                    self.assertIn("executed another program", r.text())
                    rec = r.recording()
            self.assertEqual(rec.end.reason, h.END_EXEC)
            self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 200)
            self.assertIsNone(rec.problem)
            rec.trace()

    def test_process_in_a_pid_namespace(self):
        """Threads have one id here and another there; the file tells both."""
        inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run(inside + ["true"]).returncode:
            self.skipTest("no PID namespace can be made here")
        with h.Workload(h.python(), through=inside) as w:
            self.assertEqual(w.about["pid"], 1)
            w.start_workers(cpu=1, stat=1)
            with h.Recorder(w) as r:
                w.do("run", limit=200)
                w.do("join")
                w.quiesce()
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
            self.assert_sound(rec)
            self.assertEqual(os.path.basename(rec.path), "GIL_%d_rank_0.gil" % w.pid)
            self.assertEqual(rec.tids(), set(w.tids()))
            self.assertEqual(rec.meta["process.pid"], str(w.pid))
            self.assertEqual(rec.meta["process.ns_pid"], "1")
            there = {e.ns_tid: e.name for e in rec.all if e.kind == h.THREAD}
            for name, ns_tid in w.threads.items():
                self.assertEqual(there[ns_tid], name)

    def test_threads_that_come_and_go(self):
        with h.Workload(h.python()) as w:
            w.quiesce()
            with h.Recorder(w) as r:
                tids = w.do("churn", n=100)
                w.quiesce()
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
        self.assert_sound(rec)
        self.assertEqual(rec.tids(), {w.pid} | set(tids))
        for tid in set(tids):
            self.assertGreaterEqual(rec.count(h.RELEASE, tid), 10)
            self.assertEqual(rec.count(h.RELEASE, tid), rec.count(h.ACQUIRE, tid))
        rec.trace()

    def test_interpreters_with_their_own_gils(self):
        """Two threads may hold at once where they hold two GILs (3.12 and newer)."""
        tested = 0
        for py in h.pythons():
            if py.version < (3, 12):
                continue
            tested += 1
            with h.Workload(py) as w:
                if not w.about["gil"]:
                    continue
                w.quiesce()
                with h.Recorder(w) as r:
                    tids = w.do("interpreters", n=3, rounds=2000)
                    w.quiesce()
                    self.assertEqual(r.stop(), h.OK, r.text())
                    rec = r.recording()
            self.assert_sound(rec)
            self.assertEqual(rec.lost, 0)
            self.assertGreaterEqual(len(rec.gils), 4, "the main one and three more")
            for tid in tids:
                self.assertGreaterEqual(rec.count(h.RELEASE, tid), 2000)
            rec.trace()
        if not tested:
            h.say("MISSING: no CPython 3.12 or newer, interpreters with own GILs are not tested")
            self.skipTest("no CPython 3.12 or newer here")

    def test_names_that_are_no_text(self):
        """A thread may call itself anything; the trace stays valid (its checker reads it)."""
        with h.Workload(h.python()) as w:
            w.start_workers(stat=1)
            tid = w.threads["stat-0"]
            for name in (b'"\\\n\x1b[1m\xff}],{', b"\xc3\xa4" * 7 + b"\xc3", b"\x7f\x01\xe2\x82"):
                w.do("rename", tid=tid, name=name.hex())
                with h.Recorder(w) as r:
                    w.do("run", limit=10)
                    w.do("join")
                    self.assertEqual(r.stop(), h.OK, r.text())
                    self.assertNotIn("\x1b", r.text())
                    rec = r.recording()
                self.assertEqual(rec.raw_names[tid], name)
                self.assertEqual(len(rec.trace().of("hold_gil", tid)), rec.count(h.ACQUIRE, tid))

    def test_last_name_counts(self):
        """Threads are often named after their start."""
        with h.Workload(h.python()) as w:
            w.start_workers(stat=1)
            tid = w.threads["stat-0"]
            with h.Recorder(w) as r:
                w.do("run", limit=10)
                w.do("join")
                w.do("rename", tid=tid, name=b"late-name".hex())
                w.do("run", limit=10)
                w.do("join")
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
            self.assertEqual(rec.names[tid], "late-name")
            label = [n for t, n in rec.trace().names.items() if h.number(t) == tid]
            self.assertRegex(label[0], "late-name")


if __name__ == "__main__":
    h.main()
