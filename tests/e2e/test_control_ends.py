# SPDX-License-Identifier: Apache-2.0
"""Who may steer a recording, how they reach it, and with whom it ends."""
import os
import re
import signal
import socket
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from family import now  # noqa: E402
from owned import Owned, words  # noqa: E402


class Owners(h.BpfTest):
    """Whose end is the end of the recording."""

    def setUp(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)

    def test_order_of_what_is_told(self):
        with Owned([self.work.pid]) as r:
            path = r.files()[0]
            self.assertEqual(r.told[0], "file %d %s" % (self.work.pid, path))
            self.assertEqual(len(r.told), 2)
            ready = words(r.told[1])
            self.assertEqual((ready["protocol"], ready["processes"]), (1, 1))
            self.work.start_workers(stat=1)
            ended = r.end()
            done = r.told[-2].split(" ", 4)
            self.assertEqual(done[:2] + done[4:], ["done", str(self.work.pid), path])
            self.assertEqual((int(done[2]), int(done[3])), (ended["events"], 0))
            self.assertEqual(r.recording().total(), ended["events"])
        self.assertNotIn("--summary", r.said)

    def test_closes_its_end(self):
        for last in (None, b"mark 0 0 last"):
            with Owned([self.work.pid]) as r:
                if last:
                    r.socket.send(last)
                r.socket.close()
                self.assertEqual(r.finish(), h.OK, r.text())
                rec = r.recording()
            self.assertEqual(rec.end.reason, h.END_STOPPED)
            self.assertEqual([m.name for m in rec.marks], ["last"] if last else [])
        self.assertEqual(self.work.breakpoints(), 0)

    def test_dies_while_a_child_has_the_socket(self):
        """The owner's own end counts, not that of what it has forked."""
        where = h.new_dir()
        code = ("import os, socket, subprocess, sys\n"
                "ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                "os.set_inheritable(ours.fileno(), True)\n"
                "p = subprocess.Popen(sys.argv[1:], stdin=theirs)\n"
                "theirs.close()\n"
                "while not ours.recv(8192).startswith(b'ready'): pass\n"
                "child = subprocess.Popen(['sleep', '1000'], close_fds=False)\n"
                "print(p.pid, child.pid); sys.stdout.flush()\n"
                "sys.stdin.read()\n")
        argv = [h.tool("giltrace"), "--control-fd=0", "-p", str(self.work.pid), "-o", where]
        owner = subprocess.Popen([sys.executable, "-c", code] + argv, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        pid, child = [int(n) for n in owner.stdout.readline().split()]
        try:
            owner.kill()
            owner.wait()
            path = os.path.join(where, os.listdir(where)[0])
            h.until(lambda: h.Recording(path).end, "the recording has ended", 20)
            h.until(lambda: not os.path.exists("/proc/%d" % pid) or
                    open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[0] == "Z",
                    "giltrace has ended")
            self.assertTrue(os.path.exists("/proc/%d" % child))
        finally:
            os.kill(child, signal.SIGKILL)
            owner.stdin.close()
            owner.stdout.close()
        self.assertEqual(h.Recording(path).end.reason, h.END_STOPPED)

    def test_records_itself_and_ends(self):
        """That it has ended, or become another program, is why, not that it has closed its end."""
        code = ("import os, socket, subprocess, sys\n"
                "ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                "p = subprocess.Popen(sys.argv[2:] + ['-p', str(os.getpid())], stdin=theirs)\n"
                "while not ours.recv(8192).startswith(b'ready'): pass\n"
                "os.stat('/')\n"
                "if sys.argv[1] == 'exec': os.execv('/bin/sleep', ['sleep', '1000'])\n"
                "os.abort()\n")
        for how, reason in (("abort", h.END_TARGET_EXIT), ("exec", h.END_EXEC)):
            where = h.new_dir()
            argv = [h.tool("giltrace"), "--control-fd=0", "-o", where]
            owner = subprocess.Popen([sys.executable, "-c", code, how] + argv,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            try:
                h.until(lambda: any(os.path.getsize(f) and h.Recording(f).end for f in
                                    [os.path.join(where, f) for f in os.listdir(where)]), how, 20)
            finally:
                owner.kill()
                owner.wait()
            rec = h.Recording(os.path.join(where, os.listdir(where)[0]))
            self.assertEqual(rec.end.reason, reason)
            self.assertNotEqual(rec.names[owner.pid], "sleep")
            self.assertGreater(rec.total(), 0)

    def test_owner_stops_and_the_command_goes_on(self):
        py = h.python()
        code = "import sys, os; print(os.getpid()); sys.stdout.flush(); sys.stdin.read(1)"
        with Owned([], command=py.command() + ["-c", code]) as r:
            def first_line():
                return re.match(r"(\d+)\n", os.pread(r.out.fileno(), 100, 0).decode())
            # Its standard input is /dev/null, not the socket: so it ends of itself.
            pid = int(h.until(first_line, "the command runs").group(1))
            words(r.until("ended"))
            self.assertEqual(r.finish(), 0)
        code = "import os, time; os.write(1, b'%d\\n' % os.getpid()); time.sleep(1000)"
        with Owned([], "--paused", command=py.command() + ["-c", code]) as r:
            pid = int(h.until(first_line, "the command runs").group(1))
            ended = r.end()
            self.assertEqual(ended["status"], 0)
            self.assertEqual(ended["files"], 1)
            with open("/proc/%d/status" % pid) as f:
                self.assertIn("TracerPid:\t0\n", f.read())
            os.kill(pid, signal.SIGKILL)
        with self.assertRaises(OSError):
            h.until(lambda: os.kill(pid, 0), "it was a child of giltrace", 5)

    def test_nothing_else_is_inherited(self):
        r, w = os.pipe()
        extra = [os.dup(w) for _ in range(5)]
        for fd in extra + [w]:
            os.set_inheritable(fd, True)
        with Owned([self.work.pid], close_fds=False) as rec:
            for fd in extra + [w]:
                os.close(fd)
            self.assertEqual(os.read(r, 1), b"")  # nobody has the other end
            self.assertEqual(os.readlink("/proc/%d/fd/0" % rec.pid), "/dev/null")
        os.close(r)

    def test_unfit_descriptors(self):
        stream, other = socket.socketpair()
        lone = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        good, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for fd, why in ((stream.fileno(), "no socket of AF_UNIX"), (4711, "not open"),
                        (lone.fileno(), "not connected"), ("x", "no number")):
            fds = [fd] if fd not in (4711, "x") else []
            p = subprocess.run([h.tool("giltrace"), "--control-fd=%s" % fd, "-p", "1"],
                               pass_fds=fds, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, timeout=h.LIMIT)
            self.assertEqual(p.returncode, h.USAGE)
            self.assertIn(why, p.stderr.decode())
        for s in (stream, other, lone, good, far):
            s.close()

    def test_failures_are_told(self):
        """A start that fails ends with its status, and no `ready`."""
        with self.assertRaisesRegex(AssertionError, "ended status=3 files=0 "):
            Owned([2**22 + 1])


class Tell(h.BpfTest):
    """Requests from outside."""

    def setUp(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)
        self.place = h.new_dir()

    def record(self, *options, **kwargs):
        return h.Recorder(self.work, *options, **kwargs)

    def tell(self, whom, *request, **kwargs):
        return h.giltrace("--tell=%s" % whom, *request, **kwargs)

    def test_requests(self):
        path = os.path.join(self.place, "made", "s.sock")
        marks = ["epoch 3"]
        self.work.start_workers(stat=1)
        with self.record("--control=" + path, "--paused") as r:
            self.assertIn("paused", r.text())
            self.assertIn(path, r.text())
            for name, mode in ((path, 0o600), (os.path.dirname(path), 0o700)):
                st = os.lstat(name)
                self.assertEqual((stat.S_IMODE(st.st_mode), st.st_uid), (mode, os.geteuid()))
            status, out, err = self.tell(path, "status")
            self.assertEqual((status, err), (0, ""))
            self.assertTrue(out.startswith("ok state=paused elapsed_ns="), out)
            self.assertEqual(self.tell(path, "resume"), (0, "ok\n", ""))
            self.work.do("run", limit=5)
            self.work.do("join")
            before = now()
            self.assertEqual(self.tell(path, "mark", "epoch", "3"), (0, "ok\n", ""))
            after = now()
            if os.path.exists("/proc/self/ns/time"):
                marks.append("elsewhere")
                subprocess.run(["unshare", "--time", "--monotonic", "-10", "--fork",
                                h.tool("giltrace"), "--tell=" + path, "mark", "elsewhere"],
                               check=True, stdout=subprocess.DEVNULL, timeout=h.LIMIT)
            last = now()
            self.assertEqual(self.tell(path, "pause"), (0, "ok\n", ""))
            status, out, err = self.tell(path, "stop")
            self.assertEqual((status, err), (0, ""))
            self.assertEqual(words(out.strip())["marks"], len(marks))
            self.assertEqual(r.finish(), h.OK)
            rec = r.recording()
            self.assertFalse(os.path.exists(path))
        self.assertEqual([(m.name, m.tid) for m in rec.marks], [(name, 0) for name in marks])
        self.assertTrue(before <= rec.marks[0].ns <= after)
        self.assertTrue(after <= rec.marks[-1].ns <= last or len(marks) == 1)
        self.assertEqual(len(rec.pauses), 2)

    def test_where_everybody_looks_for_it(self):
        """By the pid; what was killed leaves a socket, which the next one removes."""
        with self.record("--control") as r:
            path = "/run/giltrace/%d.sock" % r.pid
            self.assertIn(path, r.text())
            self.assertEqual(self.tell(r.pid, "status")[0], 0)
            r.proc.kill()
            r.proc.wait()
            self.assertTrue(os.path.exists(path))
        status, _, err = self.tell(r.pid, "status")
        self.assertEqual(status, 1)
        self.assertIn(path, err)
        with self.record("--control") as r:
            self.assertFalse(os.path.exists(path))
            self.assertEqual(r.stop(signal.SIGTERM), h.OK)
            self.assertFalse(os.path.exists("/run/giltrace/%d.sock" % r.pid))

    def test_nobody_there_and_wrong_words(self):
        for whom in (2**22 + 1, os.path.join(self.place, "no", "s"), self.place, ""):
            status, out, err = self.tell(whom, "status")
            self.assertEqual((status, out), (1, ""), err)
            self.assertIn("giltrace: ", err)
        for request in ((), ("mark",), ("mark", ""), ("jump",), ("pause", "now"), ("status", "-v")):
            status, out, err = self.tell(self.place, *request)
            self.assertEqual((status, out), (h.USAGE, ""))
        for options in (("--paused",), ("--list", "--control"), ("--dry-run", "--control")):
            self.assertEqual(h.giltrace("-p", self.work.pid, *options)[0], h.USAGE)

    def refused(self, path, why):
        status, _, err = h.giltrace("-p", self.work.pid, "--control=" + path, "-o", self.place)
        self.assertEqual(status, h.FAILED, err)
        self.assertIn(why, err)
        self.assertEqual([f for f in os.listdir(self.place) if f.endswith(".gil")], [])

    def test_places_that_are_refused(self):
        path = os.path.join(self.place, "s")
        for mode in (0o777, 0o1777, 0o775):
            os.chmod(self.place, mode)
            self.refused(path, "in which others may write")
        os.chmod(self.place, 0o755)
        os.chown(self.place, 65534, 65534)
        self.refused(path, "belongs to user 65534")
        os.chown(self.place, 0, 0)
        os.symlink(self.place, os.path.join(self.place, "link"))
        self.refused(os.path.join(self.place, "link", "s"), "a link to one")
        with open(path, "w"):
            pass
        self.refused(path, "there is something else")
        os.unlink(path)
        with self.record("--control=" + path) as r:
            self.refused(path, "somebody listens there already")
            self.assertEqual(self.tell(path, "stop")[0], 0)
            self.assertEqual(r.finish(), h.OK)

    def test_other_users(self):
        """Neither the mode of the socket nor, where that has been changed, giltrace lets them."""
        path = os.path.join(self.place, "s")
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        with self.record("--control=" + path) as r:
            for mode, why in ((0o600, "Permission denied"), (0o666, "belongs to another user")):
                os.chmod(path, mode)
                p = subprocess.run(nobody + [h.tool("giltrace"), "--tell=" + path, "stop"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   timeout=h.LIMIT)
                self.assertEqual(p.returncode, 1)
                self.assertIn(why, p.stderr.decode())
            self.assertEqual(self.tell(path, "status")[0], 0)
            self.assertEqual(r.stop(), h.OK)


if __name__ == "__main__":
    h.main()
