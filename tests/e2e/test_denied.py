# SPDX-License-Identifier: Apache-2.0
"""
What giltrace needs is not there, or not enough of it: descriptors, memory, system calls that a
filter refuses, time to wait in peace; and its target becomes another program, or ends, between the
look and the probes.
"""
import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
import kernel  # noqa: E402

SOAK = os.environ.get("GT_SOAK") == "1"
MIB = 1 << 20


def text(path):
    with contextlib.suppress(FileNotFoundError), open(path, errors="replace") as f:
        return f.read()
    return ""


class Short(h.BpfTest):
    """Whatever is short: a word, a status of its own, and nothing is left; or it works."""

    def setUp(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)
        self.work.start_workers(stat=1)
        self.work.do("run")

    def attempt(self, prepare, *options):
        """One short recording by a giltrace that has been prepared so: (status, what it said)."""
        folder = h.new_dir()
        p = subprocess.Popen([h.tool("giltrace"), "-p", str(self.work.pid), "-d", "0.2", "-o",
                              folder] + list(options), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=prepare)
        said = p.communicate(timeout=h.LIMIT)[0].decode(errors="replace")
        for name in os.listdir(folder):
            rec = h.Recording(os.path.join(folder, name))
            self.assertEqual(rec.violations()[:5], [])
            if p.returncode == h.OK:
                self.assert_sound(rec)
                self.assertGreater(rec.total(), 0)
            elif p.returncode > 0:
                self.assertIsNone(rec.problem)
                self.assertEqual(rec.end.reason, h.END_ERROR, said)
        if p.returncode == h.OK:
            self.assertEqual(len(os.listdir(folder)), 1)
        self.assertTrue(said.strip(), "status %d without a word" % p.returncode)
        h.until(lambda: not self.work.breakpoints(), "the probes go")
        self.assertEqual(self.work.do("ping"), "pong")
        return p.returncode, said

    def test_descriptors(self):
        """Whichever it is that cannot be opened any more."""
        def limit(n):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
        statuses = {}
        for n in range(4, 60, 1 if SOAK else 8):
            statuses[n], said = self.attempt(limit(n))
            self.assertIn(statuses[n], (h.OK, h.FAILED, h.NO_OUTPUT), "%d: %s" % (n, said))
            if statuses[n]:
                self.assertIn("Too many open files", said)
        h.say("descriptors, and statuses: %s" % statuses)
        self.assertEqual(statuses[4], h.FAILED)
        self.assertEqual(self.attempt(limit(200))[0], h.OK)

    def test_address_space(self):
        """malloc(), mmap() and thread stacks fail, each when it is too much."""
        def limit(mib):
            return lambda: resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))
        statuses = {}
        for mib in range(10, 140, 4 if SOAK else 40):
            statuses[mib], said = self.attempt(limit(mib))
            if statuses[mib] == 127:  # the loader, before giltrace begins
                continue
            self.assertIn(statuses[mib], (h.OK, h.FAILED), "%d MiB: %s" % (mib, said))
        h.say("MiB of address space, and statuses: %s" % statuses)
        self.assertIn(h.FAILED, statuses.values())
        self.assertEqual(self.attempt(limit(1000))[0], h.OK)

    def test_threads(self):
        """No thread can be started; RLIMIT_NPROC does not count for root, so by a filter."""
        for error in (errno.EAGAIN, errno.ENOMEM):
            # Children are made by clone, threads by clone3; what it says is pthread_create()'s.
            status, said = self.attempt(kernel.refused(self.number("clone3"), error))
            self.assertEqual(status, h.FAILED, said)
            self.assertIn(os.strerror(errno.EAGAIN), said)

    @staticmethod
    def number(name):
        """Of a system call: as strace knows it."""
        numbers = {"x86_64": {"clone3": 435, "process_vm_readv": 310, "pidfd_open": 434,
                              "memfd_create": 319, "close_range": 436, "faccessat2": 439,
                              "prctl": 157, "capset": 126, "kcmp": 312, "eventfd2": 290,
                              "signalfd4": 289, "timerfd_create": 283, "epoll_create1": 291},
                   "aarch64": {"clone3": 435, "process_vm_readv": 270, "pidfd_open": 434,
                               "memfd_create": 279, "close_range": 436, "faccessat2": 439,
                               "prctl": 167, "capset": 91, "kcmp": 272, "eventfd2": 19,
                               "signalfd4": 74, "timerfd_create": 85, "epoll_create1": 20}}
        return numbers[os.uname().machine][name]

    def test_filters(self):
        """As container runtimes have them, which know no newer calls or forbid some."""
        # What is dispensable: the recording is there.
        for name, error in (("process_vm_readv", errno.EPERM), ("close_range", errno.ENOSYS),
                            ("close_range", errno.EPERM), ("faccessat2", errno.ENOSYS),
                            ("clone3", errno.ENOSYS), ("kcmp", errno.EPERM)):
            status, said = self.attempt(kernel.refused(self.number(name), error))
            self.assertEqual(status, h.OK, "%s, %s: %s" % (name, os.strerror(error), said))
        # What is not.
        for name, error in (("pidfd_open", errno.EPERM), ("capset", errno.EPERM),
                            ("eventfd2", errno.EPERM), ("signalfd4", errno.EPERM),
                            ("timerfd_create", errno.EPERM), ("epoll_create1", errno.EPERM)):
            status, said = self.attempt(kernel.refused(self.number(name), error))
            self.assertIn(status, (h.FAILED, h.NO_BPF), "%s: %s" % (name, said))
            self.assertIn(os.strerror(error), said, name)


class Memory(h.BpfTest):
    """A cgroup that gives giltrace, and what the kernel has for it, no more than that."""

    def setUp(self):
        self.group = self.make_group()
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)
        self.work.start_workers(stat=1)
        self.work.do("run")

    def make_group(self):
        """(folder, name of the limit), of either version of cgroups."""
        for top, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                           ("/sys/fs/cgroup", "memory.max")):
            path = os.path.join(top, "gt-test-%d" % os.getpid())
            try:
                if limit == "memory.max":
                    with open(os.path.join(top, "cgroup.subtree_control"), "w") as f:
                        f.write("+memory")
                os.mkdir(path)
            except OSError:
                continue
            self.addCleanup(self.remove, path)
            if os.path.exists(os.path.join(path, limit)):
                return path, limit
        h.say("MISSING: no cgroup with a limit of memory can be made here")
        self.skipTest("no cgroup with a limit of memory")

    @staticmethod
    def remove(path):
        h.until(lambda: not text(os.path.join(path, "cgroup.procs")), "the group is empty")
        with contextlib.suppress(OSError):
            os.rmdir(path)

    def enter(self, limit):
        path, name = self.group
        with open(os.path.join(path, name), "w") as f:
            f.write(str(limit))

        def go():
            with open(os.path.join(path, "cgroup.procs"), "w") as f:
                f.write(str(os.getpid()))
        return go

    def test_limits(self):
        """
        What does not fit is said; or the kernel kills giltrace, whose probes and file are then as
        after any kill.
        """
        seen = {}
        between = range(2048, 12289, 512) if SOAK else (3072, 8192)
        for kib in (1024, *between, 65536):
            folder = h.new_dir()
            with h.Recorder(self.work, "--ring-size=4096", dir=folder, wait=False,
                            preexec_fn=self.enter(kib * 1024)) as r:
                ready = os.read(r.ready, 1)
                if ready:
                    r.proc.send_signal(signal.SIGINT)
                status = r.finish()
            said = r.said
            seen[kib] = status
            self.assertIn(status, (h.OK, h.FAILED, h.NO_BPF, -signal.SIGKILL), said)
            if status > 0:
                self.assertRegex(said, "emory", "%d KiB" % kib)
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if os.path.getsize(path):  # it was killed before it wrote to it
                    rec = h.Recording(path)
                    self.assertEqual(rec.violations()[:5], [])
                    self.assertTrue(rec.end or status == -signal.SIGKILL)
            h.until(lambda: not self.work.breakpoints(), "the probes go")
            self.assertEqual(self.work.do("ping"), "pong")
        h.say("KiB of memory, and statuses: %s" % seen)
        self.assertEqual(seen[65536], h.OK)
        self.assertNotEqual(seen[1024], h.OK)


class Storm(h.BpfTest):
    """Stopped and continued all the time: what waits in the kernel returns early (EINTR)."""

    def test_to_the_end(self):
        """From when it records on: until then the verifier, too, gives up at each signal."""
        over, times = threading.Event(), []

        def storm():
            while not over.wait(0.0005):
                for number in (signal.SIGSTOP, signal.SIGCONT):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(r.pid, number)
                times.append(1)
        with h.Workload(h.python()) as w:
            w.start_workers(stat=2)
            with h.Recorder(w, "--ring-size=16384") as whole, h.Recorder(w) as r:
                thread = threading.Thread(target=storm)
                thread.start()
                try:
                    w.do("run", limit=10000)
                    w.do("join")
                    w.quiesce()
                    r.proc.send_signal(signal.SIGINT)
                    # Not reaped while there are signals for its id.
                    os.waitid(os.P_PID, r.pid, os.WEXITED | os.WNOWAIT)
                finally:
                    over.set()
                    thread.join()
                status = r.finish()
                self.assertEqual(whole.stop(), h.OK, whole.text())
                good, rec = whole.recording(), r.recording()
                self.assertEqual(status, h.LOSSES if rec.lost else h.OK, r.text())
        self.assertGreater(len(times), 20)
        self.assertEqual(rec.end.reason, h.END_STOPPED)
        self.assertEqual(rec.violations()[:5], [])
        self.assertEqual(rec.total() + rec.lost, good.total())


class Between(h.BpfTest):
    """The target is another one when giltrace, which has looked at it, is about to attach."""

    CODE = ("import os, sys\n"
            "line = sys.stdin.readline()\n"
            "if line == 'exec\\n': os.execv(sys.argv[1], sys.argv[1:])\n")
    # At the same addresses each time; where there is no such command, at others.
    FIXED = (["setarch", os.uname().machine, "--addr-no-randomize"]
             if shutil.which("setarch") else [])

    def setUp(self):
        if not shutil.which("strace"):
            h.say("MISSING: strace, so nothing happens between the look and the probes")
            raise unittest.SkipTest("no strace")

    def between(self, prepare, then):
        """
        giltrace makes its folder after the look and before the probes, and is held there for a
        while, in which then() is to be done. prepare() gives the target: (it, what giltrace says,
        its status, names of its files).
        """
        for seconds in (1, 4, 16, 64):
            target = prepare()
            new = os.path.join(h.new_dir(), "out")
            p = subprocess.Popen(
                ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=mkdirat",
                 "-e", "inject=mkdirat:delay_exit=%d" % (seconds * 1000000), h.tool("giltrace"),
                 "-p", str(target.pid), "-d", "0.2", "-o", new], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                h.until(lambda: os.path.isdir(new), "it makes its folder")
                begin = time.monotonic()
                then(target)
                took = time.monotonic() - begin
            finally:
                said = p.communicate(timeout=h.LIMIT + seconds)[0].decode(errors="replace")
            if took < seconds * 0.8:
                return target, said, p.returncode, os.listdir(new)
        self.fail("this machine is too slow")

    def python(self, *front):
        """One that waits to be told that it is to execute the same Python again."""
        py = h.python()
        again = py.command() + ["-S", "-c", "import sys; sys.stdin.readline()"]
        p = subprocess.Popen(list(front) + py.command() + ["-S", "-c", self.CODE] + again,
                             stdin=subprocess.PIPE, env=dict(os.environ, **py.env))
        self.addCleanup(self.end, p)
        h.until(lambda: self.asks(p), "it asks")
        return p

    @staticmethod
    def end(p):
        p.stdin.close()
        p.kill()
        p.wait()

    def executed(self, p):
        exe, line = "/proc/%d/exe" % p.pid, "/proc/%d/cmdline" % p.pid
        before, was = os.readlink(exe), text(line)
        p.stdin.write(b"exec\n")
        p.stdin.flush()
        h.until(lambda: text(line) != was, "it executes")
        self.assertEqual(os.readlink(exe), before)

    def test_it_executes_another_program(self):
        """The same Python: what was found of it holds for its file, but not for this process."""
        for front in ((), self.FIXED):
            p, said, status, files = self.between(lambda: self.python(*front), self.executed)
            self.assertEqual((status, files), (h.NO_TARGET, []), said)
            self.assertRegex(said, r"%d .*(executed another program|has ended)" % p.pid)
            self.assertEqual(h.breakpoints(p.pid, h.python().file), 0)

    def test_it_ends(self):
        p, said, status, files = self.between(self.python, lambda p: (p.kill(), p.wait()))
        self.assertEqual((status, files), (h.NO_TARGET, []), said)
        self.assertIn(str(p.pid), said)

    def test_its_id_is_another_s(self):
        """At once, and it is the same program at the same addresses."""
        last = "/proc/sys/kernel/ns_last_pid"
        if not os.access(last, os.W_OK):
            h.say("MISSING: no ns_last_pid here, no id of a process is given again")
            self.skipTest("no ns_last_pid")

        def again(p):
            p.kill()
            p.wait()
            for _ in range(1000):
                with open(last, "w") as f:
                    f.write(str(p.pid - 1))
                new.append(self.python(*self.FIXED))
                if new[-1].pid == p.pid:
                    return
            self.fail("the id was not given again")
        new = []
        p, said, status, files = self.between(lambda: self.python(*self.FIXED), again)
        self.assertEqual((status, files), (h.NO_TARGET, []), said)
        self.assertIn(str(p.pid), said)
        self.assertIsNone(new[-1].poll())
        self.assertEqual(h.breakpoints(p.pid, h.python().file), 0)

    def test_the_time_is_up_before_the_command_begins(self):
        py = h.python()
        status, out, err = h.giltrace("-d", "0.000001", "-o", h.new_dir(), "--", py.path, "-c",
                                      "print('it runs')", env=dict(os.environ, **py.env))
        self.assertEqual((status, out), (h.OK, "it runs\n"), err)
        self.assertIn("recording had ended before the command began", err)

    @staticmethod
    def asks(p):
        """It is in read(2) of its standard input."""
        words = text("/proc/%d/syscall" % p.pid).split()
        return words[0] == {"x86_64": "0", "aarch64": "63"}[os.uname().machine] and \
            words[1] == "0x0"


if __name__ == "__main__":
    h.main()
