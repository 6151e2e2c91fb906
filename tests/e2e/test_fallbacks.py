# SPDX-License-Identifier: Apache-2.0
"""
Kernels that lack something, as made by --without and --backend: everything is recorded all the
same, and what cannot be is said. On an old kernel this is what it really has.
"""
import os
import re
import resource
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import containers as c  # noqa: E402
import harness as h  # noqa: E402
import test_command  # noqa: E402
import test_many  # noqa: E402
from family import FamilyTest  # noqa: E402

OLD = "uprobe-multi,perf-link,memcg-memory,btf"  # and all that comes with these
WAYS = (["--backend=ioctl"], ["--without=" + OLD], ["--without=ring-sizes"])
MIB = 1024 * 1024


class Processes(test_many.Many):
    def test_processes_threads_and_children(self):
        """Three at once, each with threads; then one more is forked. By all ways at once."""
        family = self.start()
        children = [family.beget("fork", "fork") for _ in range(2)]
        for m in [family.root] + children:
            m.do("threads", names=["t-0", "t-1", "t-2"])
        all_of_them = [family.root] + children
        running = [self.record([m.pid for m in all_of_them], "--follow", "-v", *way)
                   for way in WAYS]
        counted = self.count_all(all_of_them, 40, 0.0005)
        late = family.beget("fork", "fork", member=children[0])
        for r in running:
            self.wait_recorded(r, late.pid)
        late_done = late.count()
        for r, way in zip(running, WAYS):
            self.stopped(r)
            with self.subTest(way=way):
                self.check_all(r, counted, 3)
                rec = r.recording(late.pid)
                self.assert_good(rec)
                self.assert_counted(rec, late_done)
                self.check_meta(rec, way)

    def check_meta(self, rec, way):
        option, _, names = way[0].partition("=")
        if option == "--backend" or names == OLD:
            self.assertEqual(rec.meta["probe.backend"], "perf_ioctl")
        if option == "--without":
            self.assertEqual(set(rec.meta["kernel.without"].split()), set(names.split(",")))
        else:
            self.assertNotIn("kernel.without", rec.meta)

    def test_rings_of_one_size(self):
        """Where the kernel wants all rings alike, they are; and no more than may be."""
        family = self.start()
        ps = [family.root] + [family.beget("fork", "fork") for _ in range(2)]
        pids = [p.pid for p in ps]
        for options, size in (([], 4 * MIB), (["--ring-size=128"], 128 * 1024)):
            r = self.record(pids, "--without=ring-sizes", "--ring-memory=13", *options)
            self.assertEqual(test_many.rings(r), 3 * [size])
            self.stopped(r)
            for pid in pids:
                self.assertEqual(r.recording(pid).meta["ring.bytes"], str(size))
        smaller = self.record(pids, "--ring-memory=11")
        self.assertEqual(test_many.rings(smaller), 3 * [2 * MIB])
        self.stopped(smaller)
        status, out, err = h.giltrace("-p", ",".join(map(str, pids)), "-d", "5", "-o", h.new_dir(),
                                      "--without=ring-sizes", "--ring-memory=11")
        self.assertEqual(status, h.FAILED, out + err)
        self.assertIn("--ring-memory", err)

    def test_what_it_costs(self):
        """A program more for each probe, loaded at the start; for people to read."""
        with h.Workload(h.python()) as w:
            for way in set(h.backends()) - {"multi"} | {"ioctl"}:
                taken = []
                for _ in range(5):
                    with h.Recorder(w, "--backend=" + way, "-v") as r:
                        self.assertEqual(r.stop(), h.OK, r.text())
                    said = re.search(r"(\d+) probes attached in ([0-9.]+) ms", r.said)
                    taken.append(float(said.group(2)))
                h.say("%s probes attached in %.1f ms by %s (the least of %s)" % (
                    said.group(1), min(taken), way, sorted(taken)))
                self.assertGreater(int(said.group(1)), 3)


class Ioctl(FamilyTest):
    def test_modes(self):
        """Return probes, and libc's functions: every kind of site has a copy of its own."""
        for mode in ("functions", "libc"):
            with h.Workload(h.python()) as w, self.subTest(mode):
                w.start_workers(cpu=1, stat=2)
                if mode == "functions" and not h.has_symtab(w.python.file):
                    self.skipTest("no CPython with symbols here")
                with h.Recorder(w, "--backend=ioctl", "--probe=" + mode) as r:
                    w.do("run", names=["stat-0", "stat-1"], limit=300)
                    w.do("join")
                    w.do("run", limit=100)
                    w.do("join")
                    w.quiesce()
                    self.assertEqual(r.stop(), h.OK, r.text())
                    rec = r.recording()
                self.assert_sound(rec)
                self.assertEqual(rec.lost, 0)
                for name in ("stat-0", "stat-1"):
                    self.assertGreaterEqual(rec.count(h.RELEASE, w.threads[name]), 300)
                self.assertEqual(rec.meta["probe.mode"], mode)

    def test_nothing_is_left_of_it(self):
        """Probes and copies end with giltrace, however it ends."""
        for sig in (signal.SIGINT, signal.SIGKILL):
            with h.Workload(h.python()) as w:
                w.start_workers(stat=2)
                with h.Recorder(w, "--backend=ioctl") as r:
                    objects = r.kernel_objects()
                    self.assertGreater(w.breakpoints(), 0)
                    w.do("run", limit=50)
                    w.do("join")
                    r.stop(sig)
                h.until(lambda: not w.breakpoints(), "no probe is left")
                h.until(lambda: not [o for o in objects if h.kernel_has(*o)], "no program is")
                w.do("run", limit=50)
                w.do("join")

    def test_too_few_descriptors(self):
        """Each probe has one; the process that cannot have its own is left alone."""
        few = 34
        with h.Workload(h.python()) as w:
            folder = h.new_dir()
            status, _, err = h.giltrace(
                "-p", w.pid, "-d", "5", "-o", folder, "--backend=ioctl", preexec_fn=lambda:
                resource.setrlimit(resource.RLIMIT_NOFILE, (few, few)))
            self.assertNotIn(status, (h.OK, h.LOSSES))
            self.assertRegex(err, "Too many open files")
            self.assertEqual(w.breakpoints(), 0)
        self.assertEqual([f for f in os.listdir(folder)
                          if h.Recording(os.path.join(folder, f)).events], [])

    def test_pid_namespace(self):
        """The recorder in a PID namespace does not know the ids that BPF sees."""
        why = c.works(c.PID)
        if why:
            self.skipTest("no PID namespace here: %s" % why)
        family = self.start(through=c.PID)
        r = c.recorder_inside(family.pid, c.ids(family.pid)[-1], "--backend=ioctl")
        self.addCleanup(r.__exit__)
        done = family.root.count()
        self.stopped(r)
        rec = r.recording()
        self.assert_good(rec)
        self.assert_counted(rec, done)
        self.assertEqual(rec.meta["probe.backend"], "perf_ioctl")


class Command(test_command.CommandTest):
    counted = vars(test_command.FromTheFirstOn)["counted"]

    def test_from_the_first_event_on(self):
        command = [self.py.path, "-S", "-c", test_command.TWO_THREADS]
        for way in WAYS:
            with self.subTest(way=way):
                self.counted(command, *way)

    def test_its_limit_of_locked_memory_is_its_own(self):
        """giltrace's is raised where BPF memory counts against it; a command gets ours."""
        ours = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        low = (min(ours[1] - 1, 65536) if ours[1] > 0 else 65536, ours[1])
        code = "import resource; print(resource.getrlimit(resource.RLIMIT_MEMLOCK))"
        status, out, err = self.run_it(
            [self.py.path, "-S", "-c", code], "--without=memcg-memory", preexec_fn=lambda:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, low))
        self.assertEqual(status, 0, err)
        self.assertEqual(tuple(int(n) for n in re.findall(r"-?\d+", out.decode())), low)


if __name__ == "__main__":
    h.main()
