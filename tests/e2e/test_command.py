# SPDX-License-Identifier: Apache-2.0
"""
giltrace -- COMMAND: started as its user would start it, recorded from the first time on that it
takes the GIL, sent the signals, and its status passed on.
"""
import fcntl
import json
import os
import pty
import pwd
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import termios

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from calls import Calls  # noqa: E402

SI_KERNEL = 128  # si_code of what the terminal sends

TWO_THREADS = """
import os, threading
def work():
    for _ in range(200):
        os.stat('/')
t = threading.Thread(target=work)
t.start()
work()
t.join()
"""

# Tells each signal and who has sent it; ends by HUP.
TELL_SIGNALS = """
import os, signal, sys
signals = {getattr(signal, 'SIG' + n) for n in 'INT TERM QUIT USR1 USR2 HUP'.split()}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
out = open(sys.argv[1], 'w') if sys.argv[1:] else sys.stdout
if os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp():
    sys.exit('the terminal is not ours')
print(os.getpid(), file=out, flush=True)
while True:
    i = signal.sigwaitinfo(signals)
    print(int(i.si_signo), i.si_code, i.si_pid, file=out, flush=True)
    if i.si_signo == signal.SIGHUP:
        sys.exit(9)
"""

# A line comes back for each line, the first is its pid; "exit N" ends it.
ECHO = """
import os, sys
print(os.getpid(), flush=True)
for line in iter(sys.stdin.readline, ''):
    if line.startswith('exit'):
        sys.exit(int(line.split()[1]))
    print(line, end='', flush=True)
"""

# All that a program is given by who starts it.
SURROUNDINGS = r"""
import json, os, re, resource, sys
text = open('/proc/self/status').read()
keys = 'SigBlk SigIgn CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Umask Groups Uid Gid'
print(json.dumps({
    'status': {k: re.search(r'(?m)^%s:[ \t]*(.*)$' % k, text).group(1) for k in keys.split()},
    'descriptors': {n: os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd')
                    if os.path.exists('/proc/self/fd/' + n)},
    'limits': {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource)
               if n.startswith('RLIMIT_')},
    'environment': dict(os.environ), 'folder': os.getcwd(), 'arguments': sys.argv,
    'nice': os.nice(0), 'session': os.getsid(0), 'group': os.getpgrp(),
    'oom': open('/proc/self/oom_score_adj').read(),
    'scheduling': [os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))],
    'timer': open('/proc/self/timerslack_ns').read()}))
"""


def system_python():
    """One that every user can run; a home may be closed."""
    return shutil.which("python3", path="/usr/bin") or sys.executable


class CommandTest(h.BpfTest):
    def setUp(self):
        self.py = h.python()
        self.env = dict({k: v for k, v in os.environ.items() if not k.startswith("SUDO_") and
                         k != "GILTRACE_DATA_DIR"}, **self.py.env)

    def run_it(self, command, *options, **kwargs):
        """giltrace with a command to its end: status, standard output, standard error."""
        self.dir = h.new_dir()
        argv = [h.tool("giltrace"), "-o", self.dir] + list(options) + ["--"] + command
        kwargs.setdefault("env", self.env)
        if "input" not in kwargs:
            kwargs["stdin"] = subprocess.DEVNULL
        p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=h.LIMIT,
                           **kwargs)
        return p.returncode, p.stdout, p.stderr.decode(errors="replace")

    def recordings(self):
        return [h.Recording(os.path.join(self.dir, f)) for f in sorted(os.listdir(self.dir))]

    def talk(self, code, *options, **kwargs):
        """A recorder of a command that is being talked to by its standard input and output."""
        r = h.Recorder([], *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env,
                       command=[self.py.path, "-S", "-c", code], **kwargs)
        self.addCleanup(r.proc.stdout.close)
        self.addCleanup(r.proc.stdin.close)
        return r

    def line(self, stream):
        ready, _, _ = select.select([stream], [], [], h.LIMIT)
        self.assertTrue(ready, "the command says nothing")
        return stream.readline().decode().split()


    def pid_of(self, stream):
        """The first word that the command says; it is not left behind if the test fails."""
        pid = int(self.line(stream)[0])

        def end():
            try:
                with open("/proc/%d/cmdline" % pid) as f:
                    if h.scratch() in f.read():
                        os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # it has ended
        self.addCleanup(end)
        return pid


class FromTheFirstOn(CommandTest):
    def counted(self, command, *options, **kwargs):
        """
        Runs it with a counter of the calls by which CPython tells that the GIL was taken or
        released: no event is missing, and none too many. The only recording.
        """
        calls = Calls()
        env = ["env"] + ["%s=%s" % e for e in calls.env.items()]
        status, out, err = self.run_it(env + command, *options, **kwargs)
        self.assertEqual((status, out), (0, b""), err)
        rec, = self.recordings()
        self.assert_sound(rec)
        counted = calls.counted()
        self.assertGreater(counted.signals, 800)
        self.assertEqual(rec.count(h.ACQUIRE) + rec.count(h.RELEASE), counted.signals)
        self.assertEqual((rec.count(h.WAIT), rec.count(h.YIELD)), counted[1:])
        self.assertEqual(rec.lost, 0)
        self.assertEqual(rec.events[0].kind, h.ACQUIRE)
        self.assertLessEqual(rec.events[0].ns, calls.first_ns())
        # Nothing was there before it, and nothing is after.
        self.assertEqual(rec.late + rec.before(h.HOLDING) + rec.before(h.WAITING), [])
        self.assertNotIn("recording.late", rec.meta)
        self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
        self.assertEqual(rec.faults(), [])
        return rec

    def each_event(self, py):
        if py.free_threaded:
            self.skipTest("it runs without its GIL")
        env = ["%s=%s" % e for e in py.env.items()]
        for key in self.py.env:  # is another one's
            self.env.pop(key)
        rec = self.counted(["env"] + env + py.command() + ["-S", "-c", TWO_THREADS])
        self.assertEqual(rec.meta["python.version"], "%d.%d" % py.version[:2])
        rec.trace()

    def test_ways_to_it(self):
        python = [self.py.path, "-S", "-c", TWO_THREADS]
        script = os.path.join(h.new_dir(), "script")
        with open(script, "w") as f:
            f.write("#!%s -S\n%s" % (self.py.path, TWO_THREADS))
        os.chmod(script, 0o755)
        by_name = dict(self.env, PATH=os.path.dirname(self.py.path) + ":" + self.env["PATH"])
        self.counted(["sh", "-c", 'exec "$0" "$@"'] + python)
        self.counted(["nice", "-n1", "sh", "-c", 'true; exec env "$@"', "sh"] + python)
        self.counted([script])
        self.counted([os.path.basename(self.py.path)] + python[1:], env=by_name)
        self.counted(python, "--backend=" + h.backends()[-1])


h.each_python(FromTheFirstOn, h.pythons)


class Status(CommandTest):
    def test_it_is_passed_on(self):
        for code, expected in (("", 0), ("raise SystemExit(3)", 3), ("1 / 0", 1),
                               ("import os; os._exit(255)", 255),
                               ("import os; os.kill(os.getpid(), 9)", 128 + 9),
                               ("import os; os.kill(os.getpid(), 15)", 128 + 15)):
            status, out, err = self.run_it([self.py.path, "-S", "-c", code])
            self.assertEqual((status, out), (expected, b""), err)
            rec, = self.recordings()
            self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
            self.assertIn(os.path.basename(rec.path), err)

    def test_what_cannot_be_executed(self):
        plain = os.path.join(h.new_dir(), "plain")
        with open(plain, "w") as f:
            f.write("#!/bin/sh\n")
        os.chmod(plain, 0o644)
        for command, expected in (("/nonexistent/program", 127), ("no-such-program-anywhere", 127),
                                  (plain, 126), (os.path.dirname(plain), 126)):
            status, out, err = self.run_it([command])
            self.assertEqual((status, out), (expected, b""), err)
            self.assertIn(command, err)
            self.assertEqual(self.recordings(), [])

    def test_no_python(self):
        status, out, err = self.run_it(["sh", "-c", "echo out; echo err >&2; exit 7"])
        self.assertEqual((status, out), (7, b"out\n"), err)
        self.assertRegex(err, r"(?i)giltrace: .*python")
        self.assertIn("err\n", err)
        self.assertEqual(self.recordings(), [])

    def test_usage(self):
        for args in (["--"], ["-o", h.new_dir(), "--"], [self.py.path]):
            status, out, err = h.giltrace(*args, env=self.env)
            self.assertEqual((status, out), (h.USAGE, ""), err)

    def test_it_is_not_started_where_it_cannot_be_recorded(self):
        def drop():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        folder = h.new_dir()
        os.chmod(folder, 0o777)
        mark = os.path.join(folder, "mark")
        command = ["--", system_python(), "-c", "open(%r, 'w')" % mark]
        for args, kwargs, expected in ((["-o", "/nonexistent/folder"], {}, h.NO_OUTPUT),
                                       (["-o", folder], {"preexec_fn": drop}, h.NO_BPF)):
            status, out, err = h.giltrace(*(args + command), env=self.env, **kwargs)
            self.assertEqual(status, expected, err)
            self.assertFalse(os.path.exists(mark), args)


class Surroundings(CommandTest):
    def test_they_are_those_that_giltrace_was_started_in(self):
        """It cannot tell, but by its parent, that it was not started by itself."""
        command = [self.py.path, "-S", "-c", SURROUNDINGS, "", "-d", "--", "a b", "-p1", "\xe4"]
        folder = h.new_dir()
        kwargs = {"cwd": folder, "env": dict(self.env, X="", RANK="3")}

        def odd():
            os.umask(0o026)
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 5000))
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        p = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, preexec_fn=odd, **kwargs)
        self.assertEqual(p.returncode, 0, p.stderr)
        status, out, err = self.run_it(command, preexec_fn=odd, **kwargs)
        self.assertEqual(status, 0, err)
        plain, traced = json.loads(p.stdout.decode()), json.loads(out.decode())
        for about in (plain, traced):  # pipes of this test's own
            for fd in ("1", "2"):
                self.assertRegex(about["descriptors"].pop(fd), r"\Apipe:")
        self.assertEqual(traced, plain)
        self.assertEqual(os.listdir(folder), [])

    def test_input_and_output_are_its_own(self):
        code = ("import sys; data = sys.stdin.buffer.read(); sys.stderr.write('said\\n');"
                "sys.stdout.buffer.write(data[::-1])")
        data = bytes(range(256)) * 1000
        status, out, err = self.run_it([self.py.path, "-S", "-c", code], input=data)
        self.assertEqual(status, 0, err)
        self.assertEqual(out, data[::-1], "giltrace says nothing in between")
        rec, = self.recordings()
        self.assertIn("said\n", err)
        self.assertIn("%s: %d events" % (rec.path, rec.total()), err)

    def test_descriptors_of_giltrace_are_not_inherited(self):
        with self.talk(ECHO) as r:
            pid = self.pid_of(r.proc.stdout)
            self.assertEqual(set(os.listdir("/proc/%d/fd" % pid)), {"0", "1", "2"})
            r.proc.stdin.write(b"exit 0\n")
            r.proc.stdin.flush()
            self.assertEqual(r.finish(), 0, r.text())


class Signals(CommandTest):
    def test_they_are_passed_on(self):
        with self.talk(TELL_SIGNALS) as r:
            pid = self.pid_of(r.proc.stdout)
            self.assertNotEqual(pid, r.pid)
            for name in ("INT", "TERM", "QUIT", "USR1", "USR2", "INT", "HUP"):
                number = int(getattr(signal, "SIG" + name))
                r.proc.send_signal(number)
                signo, _, sender = map(int, self.line(r.proc.stdout))
                self.assertEqual((signo, sender), (number, r.pid), name)
            self.assertEqual(r.finish(), 9, r.text())
            self.assertEqual(r.recording(pid).end.reason, h.END_TARGET_EXIT)

    def test_one_that_ends_it(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.talk("import signal; signal.signal(2, signal.SIG_DFL)\n" + ECHO) as r:
                pid = self.pid_of(r.proc.stdout)
                self.assertEqual(r.stop(number), 128 + number, r.text())
                self.assertEqual(r.recording(pid).end.reason, h.END_TARGET_EXIT)

    def test_of_the_terminal(self):
        """Ctrl-C and Ctrl-\\ go to both: the command gets each of them once."""
        fifo = os.path.join(h.new_dir(), "fifo")
        os.mkfifo(fifo)
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)

        def terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        told = os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb", 0)
        self.addCleanup(told.close)
        with h.Recorder([], command=[self.py.path, "-S", "-c", TELL_SIGNALS, fifo], stdin=slave,
                        stdout=slave, stderr=slave, preexec_fn=terminal, env=self.env) as r:
            os.close(slave)
            pid = self.pid_of(told)
            for key, number in ((b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)):
                os.write(master, key)
                self.assertEqual(self.line(told), [str(int(number)), str(SI_KERNEL), "0"])
                # A second one would have come before this, which giltrace gets after the first.
                r.proc.send_signal(signal.SIGUSR2)
                self.assertEqual(self.line(told)[::2], [str(int(signal.SIGUSR2)), str(r.pid)])
            r.proc.send_signal(signal.SIGHUP)
            self.assertEqual(self.line(told)[0], str(int(signal.SIGHUP)))
            self.assertEqual(r.finish(), 9)
            self.assertEqual(r.recording(pid).end.reason, h.END_TARGET_EXIT)


class Ends(CommandTest):
    def test_a_time_ends_the_recording_and_not_the_command(self):
        with self.talk(ECHO, "-d", "0.5") as r:
            pid = self.pid_of(r.proc.stdout)
            self.assertGreater(h.breakpoints(pid, self.py.file), 0)
            h.until(lambda: r.recording(pid).end, "the file ends")
            h.until(lambda: not h.breakpoints(pid, self.py.file), "no probe is left")
            self.assertEqual(r.recording(pid).end.reason, h.END_DURATION)
            r.proc.stdin.write(b"still there\n")
            r.proc.stdin.flush()
            self.assertEqual(self.line(r.proc.stdout), ["still", "there"])
            self.assertIsNone(r.proc.poll(), r.text())
            r.proc.stdin.write(b"exit 5\n")
            r.proc.stdin.flush()
            self.assertEqual(r.finish(), 5, r.text())

    def test_without_giltrace_the_command_goes_on(self):
        with self.talk(ECHO) as r:
            pid = self.pid_of(r.proc.stdout)
            r.proc.kill()
            r.proc.wait()
            for n in range(100):
                r.proc.stdin.write(b"%d\n" % n)
                r.proc.stdin.flush()
                self.assertEqual(self.line(r.proc.stdout), [str(n)])
            with open("/proc/%d/status" % pid) as f:
                self.assertIn("\nTracerPid:\t0\n", f.read())
            r.proc.stdin.write(b"exit 0\n")
            r.proc.stdin.flush()
            self.assertEqual(r.proc.stdout.read(), b"", "it ends")
            self.assertIsNone(r.recording(pid).problem)


    def test_the_recording_of_others_ends_with_it(self):
        """Whatever else there is to record, or may come."""
        with h.Workload(self.py) as other:
            for options in (["--all-python"], ["-p", str(other.pid)], ["--follow"]):
                with self.subTest(options[0]):
                    status, _, err = self.run_it(
                        [self.py.path, "-S", "-c", "import os, subprocess\n"
                         "subprocess.Popen(['sleep', '20'], stdout=subprocess.DEVNULL,"
                         " stderr=subprocess.DEVNULL, start_new_session=True)\n"
                         + TWO_THREADS + "raise SystemExit(5)\n"], *options)
                    self.assertEqual(status, 5, err)
                    ends = {int(rec.meta["process.pid"]): rec.end.reason
                            for rec in self.recordings()}
                    if options[0] != "--follow":
                        self.assertEqual(ends[other.pid], h.END_STOPPED)
                    self.assertIn(h.END_TARGET_EXIT, ends.values())


class User(CommandTest):
    def setUp(self):
        super().setUp()
        for key in self.py.env:  # of another interpreter than the system's
            self.env.pop(key)

    def test_the_one_who_ran_sudo(self):
        nobody = pwd.getpwnam("nobody")
        sudo = {"SUDO_UID": str(nobody.pw_uid), "SUDO_GID": str(nobody.pw_gid),
                "SUDO_USER": nobody.pw_name, "SUDO_COMMAND": "giltrace"}
        for options, env in ((["--user=nobody"], {}), (["--user=%d" % nobody.pw_uid], {}),
                             ([], sudo), (["--user=root"], sudo)):
            status, out, err = self.run_it([system_python(), "-S", "-c", SURROUNDINGS], *options,
                                           env=dict(self.env, **env))
            self.assertEqual(status, 0, err)
            about = json.loads(out.decode())
            user = pwd.getpwnam("root") if "--user=root" in options else nobody
            got = about["status"]
            self.assertEqual(got["Uid"].split(), [str(user.pw_uid)] * 4)
            self.assertEqual(got["Gid"].split(), [str(user.pw_gid)] * 4)
            if user is nobody:
                groups = os.getgrouplist(user.pw_name, user.pw_gid)
                self.assertEqual(sorted(map(int, got["Groups"].split())), sorted(groups))
                for caps in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
                    self.assertEqual(int(got[caps], 16), 0, caps)
                for key, value in (("HOME", user.pw_dir), ("USER", user.pw_name),
                                   ("LOGNAME", user.pw_name)):
                    self.assertEqual(about["environment"].get(key), value)
            if not options:
                self.assertEqual([k for k in about["environment"] if k.startswith("SUDO_")], [])
            path, = (os.path.join(self.dir, f) for f in os.listdir(self.dir))
            if env and user is nobody:
                st = os.stat(path)
                self.assertEqual((st.st_uid, st.st_gid), (nobody.pw_uid, nobody.pw_gid))
                self.assertEqual(stat.S_IMODE(st.st_mode) & 0o022, 0)
            self.assertEqual(h.Recording(path).events[0].kind, h.ACQUIRE)

    def test_one_that_is_not_there(self):
        mark = os.path.join(h.new_dir(), "mark")
        status, out, err = self.run_it(["touch", mark], "--user=no-such-user")
        self.assertIn(status, (h.FAILED, h.USAGE), err)
        self.assertIn("no-such-user", err)
        self.assertNotIn("unrecognized", err)
        self.assertFalse(os.path.exists(mark))


class Children(CommandTest):
    CODE = ("import os, subprocess, sys\n"
            "p = subprocess.Popen([sys.executable, '-S', '-c', sys.argv[1]])\n"
            "p.wait(); print(os.getpid(), p.pid)\n")

    def test_they_are_recorded_if_asked_for(self):
        # A child is not held: it has to live for longer than it takes to attach.
        for options, n in (([], 1), (["--follow"], 2)):
            status, out, err = self.run_it([self.py.path, "-S", "-c", self.CODE,
                                            TWO_THREADS + "import time\ntime.sleep(1)\n"],
                                           *options)
            self.assertEqual(status, 0, err)
            pids = [int(p) for p in out.split()]
            recs = {int(rec.meta["process.pid"]): rec for rec in self.recordings()}
            self.assertEqual(sorted(recs), sorted(pids[:n]))
            for rec in recs.values():
                self.assert_sound(rec)
            self.assertEqual(recs[pids[0]].late, [])


if __name__ == "__main__":
    h.main()
