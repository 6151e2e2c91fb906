# SPDX-License-Identifier: Apache-2.0
"""Targets in containers, and giltrace in one: everybody is called by the right ids and times."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import containers as c  # noqa: E402
import harness as h  # noqa: E402
from family import FamilyTest, threads  # noqa: E402

MS = 10**6
DAY = 86400 * 10**9


def needs(command, what):
    """Skips a test, loudly, where the kernel makes no such container."""
    def decorate(test):
        def run(self):
            why = c.works(command())
            if why:
                h.say("MISSING: %s, not tested: %s" % (what, why))
                raise unittest.SkipTest(why)
            test(self)
        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run
    return decorate


class Containers(FamilyTest):
    def inside(self, through, py=None, n=2, **kwargs):
        """A process in there, with n more threads."""
        family = self.start(py, through=through, **kwargs)
        family.tids = family.root.do("threads", names=["t-%d" % i for i in range(n)])
        family.host = family.root.host_tids()
        return family

    def count(self, family, n=30):
        """All its threads have counted, one after the other."""
        names = sorted(family.tids)
        return [family.root.count(n)] + \
            [family.root.do("in", thread=t, what="count", n=n) for t in names]

    def check_host(self, rec, family, done, shift=0):
        """A recording by giltrace on the host has both ids of everybody, and all events."""
        self.assert_good(rec)
        inner = c.ids(family.pid)[-1]
        self.assertEqual(os.path.basename(rec.path), "GIL_%d_rank_0.gil" % family.pid)
        self.assertEqual((rec.meta["process.pid"], rec.meta["process.ns_pid"]),
                         (str(family.pid), str(inner)))
        told = threads(rec)
        self.assertEqual(set(told), set(family.host.values()))
        for ns_tid, tid in family.host.items():
            self.assertEqual(told[tid].ns_tid, ns_tid)
        for d in done:
            self.assert_counted(rec, d, tid=family.host[d["tid"]], shift=shift)

    def check_trace(self, rec, pid, tids, *options):
        """The trace calls the process and its threads so."""
        trace = h.Trace([rec.path] + list(options))
        self.assertEqual({s.pid for s in trace.slices}, {str(pid)}, options)
        self.assertEqual({trace.tracks[s.tid] for s in trace.slices}, set(tids), options)
        self.assertIn(str(pid), trace.processes)
        return trace

    def check_ids(self, rec, family):
        self.check_trace(rec, c.ids(family.pid)[-1], family.host.keys())
        self.check_trace(rec, c.ids(family.pid)[-1], family.host.keys(), "--ids=namespace")
        self.check_trace(rec, family.pid, family.host.values(), "--ids=host")

    def check_times(self, rec, done, tids):
        """What the wall clock told the program lies where the trace has its events."""
        trace = h.Trace([rec.path, "--ids=host"])
        for d in done:
            begin, end = d["unix"]
            inside = [s for s in trace.of("hold_gil", tids[d["tid"]])
                      if begin - 5 * MS <= s.begin and s.end <= end + 5 * MS]
            self.assertGreaterEqual(len(inside), d["n"] - 1)


class OnTheHost(Containers):
    """giltrace on the host."""

    def recorded(self, through, **kwargs):
        family = self.inside(through, **kwargs)
        r = self.record(family.pid)
        done = self.count(family)
        self.stopped(r)
        rec = r.recording()
        self.check_host(rec, family, done)
        self.check_ids(rec, family)
        return rec, family, done

    @needs(lambda: c.PID, "a PID namespace")
    def test_pid_namespace(self):
        for through in (c.PID, c.PID + c.SECOND):
            rec, family, done = self.recorded(through)
            self.check_times(rec, done, family.host)
            self.assertNotEqual(c.ids(family.pid)[-1], family.pid)

    @needs(lambda: c.USER, "a user namespace")
    def test_pid_mount_and_user_namespace(self):
        rec, family, _ = self.recorded(c.USER)
        self.assertNotEqual(os.readlink("/proc/%d/ns/user" % family.pid),
                            os.readlink("/proc/self/ns/user"))
        self.assertEqual(rec.meta["process.uid"], str(os.getuid()))

    @needs(lambda: c.PID + c.PID, "a PID namespace in another")
    def test_pid_namespace_in_another(self):
        rec, family, _ = self.recorded(c.PID + c.SECOND + c.PID)
        self.assertEqual(len(c.ids(family.pid)), 3)

    @needs(c.overlay, "an overlay")
    def test_another_libpython_at_the_same_path(self):
        """What lies at that path on the host is not what runs in the container."""
        pair = [p for p in h.pythons() if p.lib and p.version >= (3, 8)]
        if len(pair) < 2:
            h.say("MISSING: two CPythons with a libpython, so none takes the other's place")
            self.skipTest("no two libpythons")
        host, other = pair[0], pair[-1]
        launch = [c.launcher(), host.lib]
        within = h.Python(None, other.version, other.prefix, host.lib, other.label,
                          {"OVER": "%s:%s" % (other.lib, host.lib), "PYTHONHOME": other.prefix})
        within.command = lambda: launch
        outside = h.Python(None, host.version, host.prefix, host.lib, host.label,
                           {"PYTHONHOME": host.prefix})
        outside.command = lambda: launch
        one, two = self.inside(c.overlay(), within), self.inside([], outside)
        for family, py in ((one, other), (two, host)):
            self.assertEqual(tuple(family.root.about["version"]), py.version)
        r = self.record([one.pid, two.pid])
        done = self.count(one), self.count(two)
        self.stopped(r)
        ids = []
        for family, d, py in ((one, done[0], other), (two, done[1], host)):
            rec = r.recording(family.pid)
            self.check_host(rec, family, d)
            self.assertEqual(rec.meta["python.version"], "%d.%d" % py.version[:2])
            self.assertTrue(rec.meta["python.file"].endswith(host.lib), rec.meta["python.file"])
            ids.append(rec.meta["python.build_id"])
        self.assertNotEqual(ids[0], ids[1])

    @needs(lambda: c.PID, "a PID namespace")
    def test_two_containers_that_both_have_a_pid_1(self):
        both = [self.inside(c.PID), self.inside(c.PID)]
        r = self.record([f.pid for f in both])
        done = [self.count(f) for f in both]
        self.stopped(r)
        recs = [r.recording(f.pid) for f in both]
        for rec, family, d in zip(recs, both, done):
            self.check_host(rec, family, d)
        trace = h.Trace([rec.path for rec in recs])
        self.assertEqual(len({s.pid for s in trace.slices}), 2, "two processes, not one")
        # One pid is there twice: viewers want numbers, and the second gets one that nobody has.
        first, second = sorted(h.number(p) for p in trace.processes)
        self.assertEqual(first, 1)
        self.assertGreater(second, 4194304)
        self.assertIn("pid 1 (2)", trace.processes[str(second)])
        for tid in set(both[0].host) & set(both[1].host):
            self.assertEqual(len([s for s in trace.of("hold_gil", tid)]),
                             sum(len(rec.trace().of("hold_gil", tid)) for rec in recs))
        host = h.Trace([rec.path for rec in recs] + ["--ids=host"])
        self.assertEqual(set(host.processes), {str(f.pid) for f in both})

    @needs(lambda: c.after(10), "a time namespace")
    def test_time_namespace(self):
        """Its monotonic clock is ten days ahead; the events' Unix times are right all the same."""
        for boot in (False, True):
            family = self.inside(c.after(10, boot) + c.PID)
            r = self.record(family.pid)
            done = self.count(family)
            self.stopped(r)
            rec = r.recording()
            self.assertGreater(done[0]["begin"] - rec.begin_ns, 9 * DAY)
            self.check_host(rec, family, done, shift=-10 * DAY)
            self.check_times(rec, done, family.host)
            self.assertEqual(rec.meta["process.timens_mono_ns"], str(10 * DAY))
            self.assertEqual(rec.meta.get("process.timens_boot_ns"),
                             str(10 * DAY) if boot else None)

    def test_without_a_container(self):
        """Nothing of the kind is claimed of a process of the host."""
        family = self.inside([])
        r = self.record(family.pid)
        done = self.count(family)
        self.stopped(r)
        rec = r.recording()
        self.check_host(rec, family, done)
        for key in ("process.timens_mono_ns", "process.timens_boot_ns", "process.host_pid"):
            self.assertIn(rec.meta.get(key), (None, str(family.pid)), key)
        for t in threads(rec).values():
            self.assertIn(t.host_tid, (None, 0, t.ns_tid))
        self.check_trace(rec, family.pid, family.host.keys())
        self.check_trace(rec, family.pid, family.host.keys(), "--ids=host")

    @needs(lambda: c.PID, "a PID namespace")
    def test_child_that_goes_into_a_container(self):
        """A container that a target starts: followed into it, and called by both ids."""
        family = self.start()
        r = self.record(family.pid, "--follow", "-v")
        child = family.beget("inner", "spawn", argv=c.PID + family.command("inner"))
        self.wait_recorded(r, child.pid)
        done = child.count()
        self.stopped(r)
        rec = r.recording(child.pid)
        self.assert_good(rec)
        self.assertEqual(rec.meta["process.ns_pid"], "1")
        self.assert_counted(rec, done, tid=child.pid)


class Inside(Containers):
    """giltrace in a container."""

    def recorded(self, through, *options):
        """The first process of a container is a shell, so that our target is not."""
        family = self.inside(through + c.PID + c.SECOND)
        local = c.ids(family.pid)[-1]
        self.assertNotEqual(local, family.pid)
        r = c.recorder_inside(family.pid, local, *options)
        self.addCleanup(r.__exit__)
        self.assertEqual(len(c.ids(r.pid)), len(c.ids(family.pid)), "it is inside, too")
        done = self.count(family)
        self.stopped(r)
        rec = r.recording()
        self.assert_good(rec)
        self.assertEqual(os.path.basename(rec.path), "GIL_%d_rank_0.gil" % local)
        return family, rec, done, local

    @needs(lambda: c.PID, "a PID namespace")
    def test_recorder_in_a_pid_namespace(self):
        """It calls everybody by the ids of that namespace, and knows the host's."""
        for backend in h.backends():
            family, rec, done, local = self.recorded([], "--backend=" + backend)
            for d in done:
                self.assert_counted(rec, d)
            self.assertEqual([rec.meta[k] for k in ("process.pid", "process.ns_pid",
                                                    "process.host_pid")],
                             [str(local), str(local), str(family.pid)])
            told = threads(rec)
            self.assertEqual({tid: t.host_tid for tid, t in told.items()}, family.host)
            for tid, t in told.items():
                self.assertIn(t.ns_tid, (0, tid))
            self.check_trace(rec, local, family.host.keys())
            self.check_trace(rec, family.pid, family.host.values(), "--ids=host")
            self.check_times(rec, done, family.host)

    @needs(lambda: c.after(10), "a time namespace")
    def test_recorder_in_a_time_namespace(self):
        """The kernel stamps events by the host's clock, giltrace reads another one."""
        family, rec, done, _ = self.recorded(c.after(10, True))
        self.check_times(rec, done, family.host)
        for d in done:
            shift = 0 if abs(rec.begin_ns - d["begin"]) < DAY else -10 * DAY
            self.assert_counted(rec, d, shift=shift)
        for clock in rec.clocks:
            self.assertLess(abs(clock.unix_ns - done[0]["unix"][0]), 60e9)

    @needs(lambda: c.after(10), "a time namespace")
    def test_recorder_in_another_time_namespace_than_the_target(self):
        """Only one of the two is ahead."""
        target = self.inside(c.PID + c.SECOND + c.after(10))
        local = c.ids(target.pid)[-1]
        r = c.recorder_inside(c.parent(c.parent(target.pid)), local)  # the shell
        self.addCleanup(r.__exit__)
        done = self.count(target)
        self.stopped(r)
        rec = r.recording()
        self.assert_good(rec)
        for d in done:
            self.assert_counted(rec, d, shift=-10 * DAY)
        self.check_times(rec, done, target.host)
        self.assertEqual(rec.meta["process.timens_mono_ns"], str(10 * DAY))

    @needs(lambda: c.PID + c.PID, "a PID namespace in another")
    def test_deeper_target_is_refused(self):
        family = self.inside(c.PID + c.SECOND + c.PID)
        outer, middle, inner = c.ids(family.pid)
        folder = h.new_dir()
        shell = c.parent(c.parent(family.pid))
        status, out, err = c.giltrace_inside(shell, "-p", middle, "-d", "0.1", "-o", folder)
        self.assertIn(status, (h.NOT_PYTHON, h.NO_BPF), out + err)
        self.assertEqual(out, "")
        self.assertRegex(err, r"\b%d\b" % middle)
        self.assertRegex(err, r"(?i)namespace")
        self.assertEqual(os.listdir(folder), [])

    @needs(lambda: c.PID, "a PID namespace")
    def test_all_python_sees_that_namespace_only(self):
        here, other = self.inside(c.PID + c.SECOND), self.inside(c.PID)
        second = here.beget("new", "spawn", argv=here.command("new"))
        r = c.recorder_inside(here.pid, (), "--all-python")
        self.addCleanup(r.__exit__)
        done = self.count(here), second.count()
        self.count(other)
        self.stopped(r)
        locals_ = [c.ids(m.pid)[-1] for m in (here.root, second)]
        self.assertEqual(r.pids(), set(locals_))
        for d in done[0]:
            self.assert_counted(r.recording(locals_[0]), d)
        self.assert_counted(r.recording(locals_[1]), done[1])

    @needs(lambda: c.PID, "a PID namespace")
    def test_follow_in_a_pid_namespace(self):
        family = self.inside(c.PID + c.SECOND)
        for option in ("--follow", "--follow=proc"):
            r = c.recorder_inside(family.pid, c.ids(family.pid)[-1], option, "-v")
            self.addCleanup(r.__exit__)
            child = family.beget("fork", "fork")
            local = c.ids(child.pid)[-1]
            self.wait_recorded(r, local)
            done = child.count()
            self.stopped(r)
            rec = r.recording(local)
            self.assert_good(rec)
            self.assert_counted(rec, done)
            self.assertEqual(rec.meta["process.host_pid"], str(child.pid))

    @needs(lambda: c.USER, "a user namespace")
    def test_root_of_a_user_namespace_has_no_rights(self):
        """It is told what it lacks, and no more happens."""
        folder = h.new_dir()
        p = subprocess.run(c.USER + [h.tool("giltrace"), "-p", "1", "-d", "0.1", "-o", folder],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=h.LIMIT)
        self.assertIn(p.returncode, (h.NO_BPF, h.NOT_PYTHON), p.stderr)
        self.assertEqual((p.stdout, os.listdir(folder)), (b"", []))


if __name__ == "__main__":
    h.main()
