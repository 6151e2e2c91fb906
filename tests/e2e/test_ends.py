# SPDX-License-Identifier: Apache-2.0
"""How a recording ends, and where it is written."""
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402


class Ends(h.BpfTest):
    def setUp(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)
        self.work.start_workers(cpu=2, stat=1)

    def stat_rounds(self, n=500):
        self.work.do("run", names=["stat-0"], limit=n)
        self.work.do("join")
        self.work.quiesce()

    def check_end(self, r, rec, reason):
        self.assertIsNone(rec.problem)
        self.assertEqual(rec.end.reason, reason)
        self.assert_sound(rec)
        self.assertIn(rec.result(), r.text())
        rec.trace()

    def check_unharmed(self):
        self.assertEqual(self.work.breakpoints(), 0)
        self.assertEqual(self.work.do("ping"), "pong")
        self.stat_rounds(10)

    def test_duration(self):
        for option, seconds in (("-d", 0.3), ("--duration", 1)):
            self.work.do("run")
            with h.Recorder(self.work, option, seconds) as r:
                begin = time.monotonic()
                self.assertEqual(r.finish(), h.OK, r.text())
                self.assertGreater(time.monotonic() - begin, seconds * 0.9)
                self.check_end(r, r.recording(), h.END_DURATION)
            self.work.do("park")
            # The recorder's own clock samples at its gates: events come when the machine lets them.
            clocks = r.recording().clocks
            self.assertGreaterEqual(clocks[-1].mono_ns - clocks[0].mono_ns, seconds * 1e9)
            self.assertLess(clocks[-1].mono_ns - clocks[0].mono_ns, (seconds + h.SLOW) * 1e9)
            self.check_unharmed()

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with h.Recorder(self.work) as r:
                self.assertGreater(self.work.breakpoints(), 0)
                self.stat_rounds()
                self.assertEqual(r.stop(number), h.OK, r.text())
                rec = r.recording()
                self.check_end(r, rec, h.END_STOPPED)
                # What lies in the ring when the signal comes is drained.
                self.assertGreaterEqual(rec.count(h.RELEASE, self.work.threads["stat-0"]), 500)
            self.check_unharmed()

    def test_a_second_signal_changes_nothing(self):
        with h.Recorder(self.work) as r:
            self.stat_rounds()
            r.proc.send_signal(signal.SIGINT)
            r.proc.send_signal(signal.SIGTERM)
            self.assertEqual(r.stop(signal.SIGINT), h.OK, r.text())
            self.check_end(r, r.recording(), h.END_STOPPED)
        self.check_unharmed()

    def test_target_exits(self):
        with h.Recorder(self.work) as r:
            self.stat_rounds()
            self.work.proc.stdin.close()  # the interpreter ends in its usual way
            self.work.proc.wait()
            self.assertEqual(r.finish(), h.OK, r.text())
            rec = r.recording()
            self.assertIsNone(rec.problem)
            self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
            self.assertEqual(rec.violations()[:5], [])
            self.assertGreaterEqual(rec.count(h.RELEASE, self.work.threads["stat-0"]), 500)
            self.assertIn(rec.result(), r.text())
            rec.trace()

    def test_target_is_killed_under_load(self):
        with h.Recorder(self.work) as r:
            self.work.do("run")
            with h.Recorder(self.work, "-d", 0.2) as inner:  # so long there is load
                self.assertEqual(inner.finish(), h.OK, inner.text())
            self.work.kill()
            self.assertEqual(r.finish(), h.OK, r.text())
            rec = r.recording()
            self.check_end(r, rec, h.END_TARGET_EXIT)
            self.assertGreater(rec.total(), 50)

    def test_recorder_is_killed(self):
        """The file is good up to its last block, the target unharmed, nothing is left behind."""
        for backend in h.backends():
            with h.Recorder(self.work, "--backend=" + backend) as r:
                objects = r.kernel_objects()
                self.assertTrue([o for o in objects if o[0] == "prog"], objects)
                self.assertTrue(all(h.kernel_has(*o) for o in objects), objects)
                self.assertGreater(self.work.breakpoints(), 0)
                self.work.do("run")
                path = r.files()[0]
                # Blocks are sealed when they are a second old.
                h.until(lambda: h.Recording(path).total() > 50, "events come into the file", 10)
                r.proc.kill()
                r.proc.wait()
                h.until(lambda: self.work.breakpoints() == 0, "the probes go")
                for kind, number in objects:
                    h.until(lambda: not h.kernel_has(kind, number), "%s %d goes" % (kind, number))
                rounds = self.work.do("park")
                self.assertGreater(sum(rounds.values()), 0)
                self.check_unharmed()
                rec = r.recording()
                self.assertIsNone(rec.end)
                self.assertEqual(rec.violations()[:5], [])
                self.assertGreater(rec.total(), 50)
                trace = rec.trace()
                self.assertGreater(len(trace.of("hold_gil")), 20)
            # And it can be traced again.
            with h.Recorder(self.work, dir=r.dir) as again:
                self.stat_rounds()
                self.assertEqual(again.stop(), h.OK, again.text())
                self.assertEqual(len(again.files()), 2)

    def test_nobody_reads_its_messages_any_more(self):
        """As after "giltrace 2>&1 | tee log" and Ctrl-C, which ends tee first."""
        reader, writer = os.pipe()
        with h.Recorder(self.work, stdout=writer, stderr=writer) as r:
            os.close(writer)
            self.stat_rounds()
            os.close(reader)
            r.stop()
            rec = r.recording()
        self.assertIsNotNone(rec.end, "it died of its message")
        self.assertEqual(rec.end.reason, h.END_STOPPED)
        self.assertGreaterEqual(rec.count(h.RELEASE, self.work.threads["stat-0"]), 500)
        self.check_unharmed()

    def test_file_that_may_not_grow(self):
        """Writing fails in the middle: said, counted, and the file is good up to there."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))  # between two blocks
        with h.Recorder(self.work, preexec_fn=limit) as r:
            self.stat_rounds(30000)
            self.assertEqual(r.stop(), h.NO_OUTPUT, r.text())
            self.assertLessEqual(os.stat(r.files()[0]).st_size, 100000)
            rec = r.recording()
        self.assertEqual(rec.violations()[:5], [])
        self.assertGreater(rec.total(), 5000)
        missing = re.search(r"%s: .*too large.*?(\d+) events" % re.escape(rec.path), r.said)
        self.assertTrue(missing, r.said)
        # The recording ended when the failure was noticed, so not all of the 30000 rounds are in it.
        self.assertGreater(int(missing.group(1)), 0)
        self.assertIn("%s: %d events, %s lost" % (rec.path, rec.total(), missing.group(1)), r.said)
        self.check_unharmed()
        h.Trace([rec.path], h.LEFT_OUT if rec.problem else h.OK)

    def test_file_that_may_hold_no_event(self):
        """That nothing was written does not mean that nothing happened."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
        with h.Recorder(self.work, preexec_fn=limit) as r:
            self.stat_rounds(1000)
            self.assertEqual(r.stop(), h.NO_OUTPUT, r.text())
            self.assertNotIn("did not change hands", r.text())


    def test_file_that_is_removed_meanwhile(self):
        with h.Recorder(self.work) as r:
            self.stat_rounds(10)
            os.unlink(r.files()[0])
            self.assertEqual(r.stop(), h.NO_OUTPUT, r.text())
            self.assertIn("was removed or renamed", r.text())

    def test_closed_standard_descriptors(self):
        def close_all():
            for fd in range(3):
                os.close(fd)
        with h.Recorder(self.work, preexec_fn=close_all) as r:
            self.stat_rounds(100)
            self.assertEqual(r.stop(), h.OK)
            self.assert_sound(r.recording())


class Places(h.BpfTest):
    """Names and owners of the files."""

    def capture(self, work, *options, **kwargs):
        kwargs.setdefault("status", h.OK)
        status = kwargs.pop("status")
        with h.Recorder(work, *options, **kwargs) as r:
            work.do("ping")
            self.assertEqual(r.stop(), status, r.text())
            return r

    def names(self, folder):
        return sorted(os.listdir(folder))

    def test_later_captures_get_names_of_their_own(self):
        with h.Workload(h.python()) as w:
            first = self.capture(w)
            with open(first.files()[0], "rb") as f:
                content = f.read()
            self.capture(w, dir=first.dir)
            third = self.capture(w, dir=first.dir)
            self.assertIn("this one goes to %s/GIL_%d_rank_0_3.gil" % (first.dir, w.pid), third.said)
            self.assertEqual(self.names(first.dir), ["GIL_%d_rank_0%s.gil" % (w.pid, n)
                                                     for n in ("", "_2", "_3")])
            with open(os.path.join(first.dir, "GIL_%d_rank_0.gil" % w.pid), "rb") as f:
                self.assertEqual(f.read(), content)

    def test_two_recorders_into_one_folder(self):
        with h.Workload(h.python()) as w:
            with h.Recorder(w) as a, h.Recorder(w, dir=a.dir) as b:
                w.do("ping")
                self.assertEqual((a.stop(), b.stop()), (h.OK, h.OK))
                self.assertEqual(len(a.files()), 2)
                for f in a.files():
                    self.assert_sound(h.Recording(f))

    def test_folder(self):
        with h.Workload(h.python()) as w:
            name = ["GIL_%d_rank_0.gil" % w.pid]
            env_dir, option_dir, long_dir, here = [h.new_dir() for _ in range(4)]
            env = {"GILTRACE_DATA_DIR": env_dir}
            self.capture(w, env=env, output=False, cwd=here)
            self.assertEqual((self.names(env_dir), self.names(here)), (name, []))
            self.capture(w, env=env, dir=option_dir, cwd=here)
            self.assertEqual((self.names(option_dir), self.names(env_dir)), (name, name))
            self.capture(w, "--output-dir", long_dir, output=False, cwd=here)
            self.assertEqual((self.names(long_dir), self.names(here)), (name, []))
            self.capture(w, output=False, cwd=here)
            self.assertEqual(self.names(here), name)

    def test_folder_that_is_not_there(self):
        """Made if only its last part is missing."""
        with h.Workload(h.python()) as w:
            new = os.path.join(h.new_dir(), "new")
            self.capture(w, dir=new)
            self.assertEqual(self.names(new), ["GIL_%d_rank_0.gil" % w.pid])
            deep = os.path.join(h.new_dir(), "a", "b")
            status, out, err = h.giltrace("-p", w.pid, "-d", "0.1", "-o", deep)
            self.assertEqual(status, h.NO_OUTPUT, out + err)
            self.assertIn(deep, err)
            self.assertFalse(os.path.exists(os.path.dirname(deep)))

    def test_folder_that_is_none(self):
        with h.Workload(h.python()) as w:
            plain = os.path.join(h.new_dir(), "file")
            open(plain, "w").close()
            status, out, err = h.giltrace("-p", w.pid, "-d", "0.1", "-o", plain)
            self.assertEqual(status, h.NO_OUTPUT, out + err)
            self.assertIn(plain, err)
            self.assertEqual(w.breakpoints(), 0)

    def test_rank(self):
        for env, rank in (({"RANK": "3"}, 3), ({"OMPI_COMM_WORLD_RANK": "12"}, 12),
                          ({"RANK": "5", "SLURM_PROCID": "9"}, 5), ({"RANK": "../../x"}, 0),
                          ({"RANK": "-1"}, 0), ({"RANK": ""}, 0), ({}, 0)):
            with h.Workload(h.python(), env=env) as w:
                r = self.capture(w)
                self.assertEqual(self.names(r.dir), ["GIL_%d_rank_%d.gil" % (w.pid, rank)], env)

    def test_owner_is_who_ran_sudo(self):
        with h.Workload(h.python()) as w:
            for env, owner in (({"SUDO_UID": "65534", "SUDO_GID": "65533"}, (65534, 65533)),
                               ({"SUDO_UID": "x", "SUDO_GID": "y"}, (0, 0)),
                               ({"SUDO_UID": "-1", "SUDO_GID": "-1"}, (0, 0)),
                               ({"SUDO_UID": "4294967295", "SUDO_GID": "4294967295"}, (0, 0)),
                               ({}, (0, 0))):
                r = self.capture(w, env=env)
                st = os.stat(r.files()[0])
                self.assertEqual((st.st_uid, st.st_gid), owner, env)
                self.assertFalse(st.st_mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID))
                self.assertTrue(st.st_mode & stat.S_IRUSR)

    def test_a_planted_link_is_not_followed(self):
        with h.Workload(h.python()) as w:
            folder, victim = h.new_dir(), os.path.join(h.new_dir(), "victim")
            with open(victim, "w") as f:
                f.write("precious")
            os.symlink(victim, os.path.join(folder, "GIL_%d_rank_0.gil" % w.pid))
            r = self.capture(w, dir=folder)
            with open(victim) as f:
                self.assertEqual(f.read(), "precious")
            self.assertIn("GIL_%d_rank_0_2.gil" % w.pid, self.names(r.dir))

    def test_a_new_folder_that_is_swapped_is_not_given_away(self):
        """Who owns the parent may put a link in the new folder's place before it gets its owner."""
        strace = shutil.which("strace")
        if not strace:
            h.say("MISSING: no strace, the race for a new output folder is not tested")
            self.skipTest("no strace here")
        top, victim = h.new_dir(), h.new_dir()
        new = os.path.join(top, "out")
        with h.Workload(h.python()) as w:
            # mkdir and mkdirat return late, so there is time to swap.
            p = subprocess.Popen([strace, "-f", "-qq", "-o", "/dev/null", "-e",
                                  "inject=mkdir,mkdirat:delay_exit=500000", h.tool("giltrace"),
                                  "-p", str(w.pid), "-d", "0.1", "-o", new],
                                 env=dict(os.environ, SUDO_UID="65534", SUDO_GID="65534"),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
            h.until(lambda: os.path.isdir(new), "the folder is made")
            os.rename(new, os.path.join(top, "gone"))
            os.symlink(victim, new)
            p.wait(h.LIMIT)
        self.assertEqual(os.stat(victim).st_uid, 0)
        self.assertEqual(os.listdir(victim), [])

    def test_the_back_end_is_chosen_by_trying(self):
        names = {"multi": "uprobe_multi", "perf": "perf_event", "ioctl": "perf_ioctl"}
        with h.Workload(h.python()) as w:
            self.assertEqual(self.capture(w).recording().meta["probe.backend"],
                             names[h.backends()[0]])
            for backend in h.backends():
                r = self.capture(w, "--backend=" + backend)
                self.assertEqual(r.recording().meta["probe.backend"], names[backend])

    def test_the_converter_needs_no_privileges(self):
        folder = h.new_dir()
        os.chown(folder, 65534, 65534)
        with h.Workload(h.python()) as w:
            env = {"SUDO_UID": "65534", "SUDO_GID": "65534"}
            path = self.capture(w, env=env, dir=folder).files()[0]
        p = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                            "--bounding-set=-all", h.tool("gil2trace"), path],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(p.returncode, 0, p.stdout)
        out = path[:-len("gil")] + "json"
        self.assertEqual(os.stat(out).st_uid, 65534)
        with open(out, "rb") as f:
            self.assertFalse(h.rules().check(f.read()))

    def test_what_the_file_says_of_itself(self):
        with h.Workload(h.python(), env={"RANK": "7"}) as w:
            rec = self.capture(w).recording()
            values = " ".join("%s=%s" % kv for kv in rec.meta.items())
            for word in (str(w.pid), "7", os.path.basename(w.python.file),
                         "%d.%d" % w.python.version[:2]):
                self.assertTrue(re.search(r"(?<!\d)%s(?!\d)" % re.escape(word), values),
                                "%s in %s" % (word, values))
            kinds = {s.kind for s in rec.sites}
            self.assertLessEqual({h.WAIT, h.ACQUIRE, h.RELEASE, h.YIELD}, kinds)
            self.assertTrue(all(s.how for s in rec.sites))


if __name__ == "__main__":
    h.main()
