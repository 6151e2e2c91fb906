# SPDX-License-Identifier: Apache-2.0
"""--follow: children of targets are recorded, too, each from soon after its birth to its end."""
import os
import resource
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from family import FamilyTest, clean_env, now  # noqa: E402


def another_version(py):
    """A Python of another version than that one, or None."""
    others = [p for p in h.pythons() if p.version[:2] != py.version[:2] and p.version >= (3, 7)]
    return others[-1] if others else None


class Follow(FamilyTest):
    """What the cases share: a child comes, counts when its file is there, and ends."""

    OPTION = "--follow"
    EXACT = True  # are births known by the kernel's word, not by looks at /proc?

    def begin(self, *options, **kwargs):
        self.family = self.start(**kwargs)
        self.rec = self.record(self.family.pid, self.OPTION, "-v", *options)
        self.born, self.done = {}, {}

    def beget(self, role, command, **kwargs):
        """A new process, by a command of an older one; kwargs: as Family.beget()."""
        before = now()
        child = self.family.beget(role, command, **kwargs)
        self.born[child.pid] = (before, child.about["mono_ns"])
        self.work(child)
        return child

    def work(self, member):
        self.wait_recorded(self.rec, member.pid)
        self.done[member.pid] = member.count()

    def check(self, pid, path, kinds):
        """The file of one that came late."""
        rec = h.Recording(path)
        self.assert_good(rec)
        self.assertEqual(rec.meta["process.pid"], str(pid))
        self.assert_late(rec, *self.born[pid],
                         kinds=kinds if self.EXACT else ("forked", "executed", "found"))
        self.assertLessEqual(h.late(rec)[0].mono_ns, self.done[pid]["begin"])
        self.assert_counted(rec, self.done[pid])
        rec.trace()
        return rec

    def finish(self, kinds=("forked",)):
        """Stops giltrace; the files of all that have counted are as they ought to be."""
        self.done[self.family.pid] = self.family.root.count()
        self.stopped(self.rec)
        recs = {pid: self.check(pid, self.paths(self.rec, pid)[0], kinds) for pid in self.born}
        first = self.rec.recording(self.family.pid)
        self.assert_good(first)
        self.assertEqual(h.late(first), [])
        self.assertNotIn("recording.late", first.meta)
        self.assert_counted(first, self.done[self.family.pid])
        for path in self.rec.files():  # helpers of multiprocessing, say
            self.assert_sound(h.Recording(path))
        return recs


class Core(Follow):
    """The usual ways to make a process; these must work however births are noticed."""

    def test_forked_child_and_grandchild(self):
        self.begin()
        child = self.beget("fork", "fork")
        grandchild = self.beget("fork", "fork", member=child)
        recs = self.finish()
        self.assertEqual(recs[child.pid].meta["process.parent_pid"], str(self.family.pid))
        self.assertEqual(recs[grandchild.pid].meta["process.parent_pid"], str(child.pid))
        both = h.Trace(self.rec.files())
        self.assertEqual(len(both.processes), 3)

    def test_multiprocessing(self):
        self.begin()
        self.beget("fork", "process", method="fork")
        self.finish()
        for method, kinds in (("spawn", ("executed",)), ("forkserver", ("forked",))):
            with self.subTest(method):
                self.begin()
                self.beget(method, "process", method=method)
                self.finish(kinds)

    def test_subprocess_of_another_version(self):
        """By fork or vfork, and by posix_spawn."""
        self.begin()
        other = another_version(self.family.python)
        if not other:
            h.say("MISSING: no second CPython, so none is started by the first")
            self.skipTest("one CPython only")
        for close in (True, False):
            self.beget("other", "spawn", argv=self.family.command("other", other),
                       env=clean_env(other), close_fds=close)
        for rec in self.finish(("executed",)).values():
            self.assertEqual(rec.meta["python.version"], "%d.%d" % other.version[:2])
            self.assertNotIn("%d.%d" % self.family.python.version[:2], rec.meta["python.file"])

    def test_shell_in_between(self):
        """The parent is no Python, and gets no file."""
        self.begin()
        line = '"$@"; exit $?'
        child = self.beget("inner", "spawn",
                           argv=["/bin/sh", "-c", line, "sh"] + self.family.command("inner"))
        shell = child.about["ppid"]
        self.assertNotEqual(shell, self.family.pid)
        self.finish(("executed",))
        self.assertEqual(self.paths(self.rec, shell), [])
        self.assertEqual(len(self.rec.files()), 2)


class CoreByProc(Core):
    """Without BTF there is only /proc to look at."""

    OPTION = "--follow=proc"
    EXACT = False


class CoreByBpf(Core):
    OPTION = "--follow=bpf"


class Ways(Follow):
    """Less usual ways."""

    def test_daemon_whose_parent_has_ended(self):
        self.begin()
        child = self.beget("daemon", "double_fork")
        self.assertNotEqual(child.about["ppid"], self.family.pid)
        self.finish()

    def test_fork_by_another_thread(self):
        self.begin()
        self.family.root.do("threads", names=["a", "b"])
        child = self.beget("fork", "fork_in_thread")
        recs = self.finish()
        # The only thread of the child has its pid, whichever thread has forked.
        self.assertEqual({e.tid for e in recs[child.pid].events if e.ns > self.born[child.pid][1]},
                         {child.pid})

    def test_the_target_executes_itself(self):
        self.begin()
        old = self.family.pid
        first_done = self.family.root.count()
        before = now()
        self.family.root.send("exec", argv=self.family.command("again"))
        again = self.family.next("again")
        self.assertEqual(again.pid, old)
        self.born[old] = (before, again.about["mono_ns"])
        self.work(again)
        self.stopped(self.rec)
        first, second = self.paths(self.rec, old)
        first = h.Recording(first)
        self.assertEqual(first.end.reason, h.END_EXEC)
        self.assert_counted(first, first_done)
        self.assertGreaterEqual(h.late(h.Recording(second))[0].mono_ns, first.end.mono_ns)
        self.check(old, second, ("executed",))

    def test_another_program_and_back(self):
        """A process is followed through its time as a program that is no Python."""
        self.begin()
        pid = self.family.pid
        pipe = os.path.join(h.new_dir(), "pipe")
        os.mkfifo(pipe)
        self.family.root.send("exec", argv=["/bin/sh", "-c", 'read x < "$0"; exec "$@"', pipe] +
                              self.family.command("back"))
        with open(pipe, "w") as f:  # it is the shell that opens the other end
            first = self.wait_closed(self.paths(self.rec, pid)[0], h.END_EXEC)
            self.assertIsNone(self.rec.proc.poll(), self.rec.text())
            f.write("\n")
        back = self.family.next("back")
        self.assertEqual(back.pid, pid)
        self.born[pid] = (first.end.mono_ns, back.about["mono_ns"])
        self.work(back)
        self.stopped(self.rec)
        self.check(pid, self.paths(self.rec, pid)[1], ("executed",))

    def pool(self, method):
        """As a DataLoader has them: eight workers that take tasks from a queue."""
        self.begin()
        root = self.family.root
        before = now()
        root.send("pool", method=method, size=8, tasks=64, rounds=20)
        workers = [self.family.next("pool") for _ in range(8)]
        for w in workers:
            self.wait_recorded(self.rec, w.pid)
            self.born[w.pid] = (before, w.about["mono_ns"])
        for w in workers:
            w.sock.sendall(b"go\n")
        tasks = root.answer()
        self.assertEqual(len(tasks), 64)
        self.done[self.family.pid] = root.count()
        for w in workers:
            self.wait_closed(self.rec.of(w.pid)[0])
        self.stopped(self.rec)
        for w in workers:
            rec = self.rec.recording(w.pid)
            self.assert_good(rec)
            self.assert_late(rec, *self.born[w.pid])
            self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
        for done in tasks:
            self.assert_counted(self.rec.recording(done["pid"]), done)
        self.assert_counted(self.rec.recording(self.family.pid), self.done[self.family.pid])

    def test_pool_by_fork(self):
        self.pool("fork")

    def test_pool_by_spawn(self):
        self.pool("spawn")


class Ends(Follow):
    def test_files_of_ended_children_are_closed(self):
        self.begin()
        children = [self.beget("fork", "fork") for _ in range(3)]
        for child in children[:2]:
            child.send("exit")
            self.wait_closed(self.paths(self.rec, child.pid)[0])
        path, = self.paths(self.rec, children[2].pid)
        self.assertIsNone(h.Recording(path).end)
        recs = self.finish()
        self.assertEqual([recs[c.pid].end.reason for c in children],
                         [h.END_TARGET_EXIT, h.END_TARGET_EXIT, h.END_STOPPED])

    def test_it_ends_with_the_last_of_them(self):
        """The target has ended; a child and its child have not, and go on being recorded."""
        self.begin()
        child = self.beget("fork", "fork")
        grandchild = self.beget("fork", "fork", member=child)
        self.family.root.send("exit")
        self.wait_closed(self.paths(self.rec, self.family.pid)[0])
        self.done[child.pid] = child.count()
        child.send("exit")
        self.wait_closed(self.paths(self.rec, child.pid)[0])
        self.done[grandchild.pid] = grandchild.count()
        self.assertIsNone(self.rec.proc.poll(), self.rec.text())
        grandchild.send("exit")
        self.assertEqual(self.rec.finish(), h.OK, self.rec.text())
        for pid in self.born:
            rec = self.check(pid, self.paths(self.rec, pid)[0], ("forked",))
            self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)

    def held(self):
        """Descriptors of giltrace, and what it keeps in the kernel."""
        return (len(os.listdir("/proc/%d/fd" % self.rec.pid)), len(self.rec.kernel_objects()))

    def test_a_hundred_short_children_cost_nothing_further(self):
        for option in ("--follow", "--follow=proc"):
            with self.subTest(option):
                self.OPTION = option
                self.begin("--no-summary")  # for which some files stay open
                before = self.held()
                pids = self.family.root.do("brood", n=50) + \
                    self.family.root.do("brood", n=50, rounds=500)
                for _ in range(3):  # some that are recorded for sure
                    child = self.beget("fork", "fork")
                    child.send("exit")
                    self.wait_closed(self.paths(self.rec, child.pid)[0])
                h.until(lambda: self.held() <= before,
                        "descriptors and objects are no more than %s" % (before,), limit=20)
                self.EXACT = option == "--follow"
                self.finish()
                seen = 0
                for pid in set(pids):
                    for path in self.paths(self.rec, pid):
                        rec = h.Recording(path)
                        self.assert_sound(rec)
                        self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
                        self.assertEqual([e.kind for e in rec.file.events][:1], [h.LATE])
                        seen += 1
                h.say("%s: %d of %d short children have a file" % (option, seen, len(pids)))

    def test_children_are_born_while_it_attaches(self):
        """Neither a fault nor a false event, whenever in its start they come."""
        family = self.start()
        family.root.send("brood", n=300, rounds=20)
        r = self.record(family.pid, "--follow")
        family.root.answer()
        done = family.root.count()
        self.stopped(r)
        self.assert_counted(r.recording(family.pid), done)
        for path in r.files():
            self.assert_sound(h.Recording(path))

    def test_stopped_while_children_are_born(self):
        self.begin()
        self.family.root.send("brood", n=300, rounds=20)
        self.stopped(self.rec)
        self.family.root.answer()
        for path in self.rec.files():
            rec = h.Recording(path)
            self.assert_sound(rec)
            self.assertIsNotNone(rec.end)
        child = self.family.beget("fork", "fork")  # nothing is left in the kernel to mind it
        self.assertEqual(child.count()["n"], 50)
        self.assertEqual(self.paths(self.rec, child.pid), [])

    def test_without_follow_no_child_is_recorded(self):
        family = self.start()
        r = self.record(family.pid)
        children = [family.beget("fork", "fork"),
                    family.beget("new", "spawn", argv=family.command("new"))]
        done = [m.count() for m in [family.root] + children]
        self.stopped(r)
        rec = r.recording()
        self.assert_good(rec)
        self.assert_counted(rec, done[0])
        self.assertEqual(rec.tids(), {family.pid})

    def test_only_what_comes_from_targets(self):
        """The child of somebody else of the same file is nobody's business."""
        self.begin()
        other = self.start()
        stranger = other.beget("fork", "fork")
        self.beget("fork", "fork")
        stranger.count()
        self.finish()
        for m in (other.root, stranger):
            self.assertEqual(self.paths(self.rec, m.pid), [])

    def test_a_killed_child(self):
        self.begin()
        child = self.beget("fork", "fork")
        os.kill(child.pid, signal.SIGKILL)
        rec = self.wait_closed(self.paths(self.rec, child.pid)[0])
        self.assert_counted(rec, self.done[child.pid])
        self.finish()

    def test_descriptors_run_out(self):
        """What cannot be looked at for want of them is said, and makes the status."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        for n in (60, 100):
            with self.subTest(n):
                self.OPTION = "--follow"
                self.family = self.start()
                r = self.record(self.family.pid, "--follow",
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                                      (n, min(n, limit))))
                children = [self.family.beget("fork", "fork") for _ in range(40)]
                h.until(lambda: "ulimit -n" in r.text() or len(r.files()) > len(children),
                        "it says that descriptors are short")
                self.assertIn(r.stop(), (h.FAILED, h.NO_OUTPUT), r.text()[-3000:])
                self.assertEqual(r.text().count("ulimit -n"), 1, r.text())
                for path in r.files():
                    self.assert_sound(h.Recording(path))

    def test_a_follow_that_is_none(self):
        status, out, err = h.giltrace("-p", os.getpid(), "--follow=luck", "-d", "1")
        self.assertEqual((status, out), (h.USAGE, ""), err)
        self.assertIn("luck", err)
        self.assertNotIn("unrecognized", err)


if __name__ == "__main__":
    h.main()
