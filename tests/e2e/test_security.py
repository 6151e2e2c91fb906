# SPDX-License-Identifier: Apache-2.0
"""
Who could want what, and what stops it (docs/security.md): what giltrace keeps of its rights, what
its children have, where files go, what its caller's variables and options reach. Users are numbers
that nobody else has.
"""
import ctypes
import errno
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from family import FamilyTest  # noqa: E402
from test_rights import (CAPS, ME, OTHER, become, documented, python,  # noqa: E402
                         with_file_capabilities)

NAMES = dict(CAPS, CAP_CHOWN=0, CAP_DAC_OVERRIDE=1, CAP_KILL=5)
BASE = {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_BPF"}
JAIL = {"CAP_SETUID", "CAP_SETGID"}
LATE = {"CAP_PERFMON", "CAP_CHECKPOINT_RESTORE", "CAP_DAC_OVERRIDE", "CAP_CHOWN"}
SETS = ("CapInh", "CapPrm", "CapEff", "CapAmb")


def fields(path):
    """/proc/PID/status, as a dict."""
    with open(path) as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def names(mask):
    known = {1 << n: name for name, n in NAMES.items()}
    bits = [1 << n for n in range(64) if int(mask, 16) >> n & 1]
    return {known.get(bit, "CAP_%d" % (bit.bit_length() - 1)) for bit in bits}


def tasks(pid):
    """The status of each thread."""
    folder = "/proc/%d/task" % pid
    return [fields(os.path.join(folder, tid, "status")) for tid in os.listdir(folder)]


def children(pid):
    found = []
    for tid in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/children" % (pid, tid)) as f:
                found += map(int, f.read().split())
        except OSError:
            pass
    return found


class Kept(FamilyTest):
    """What is left of root's capabilities while it records."""

    def setUp(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)
        self.work.start_workers(stat=1)

    def expect(self, pid, kept):
        # Threads give up their own, each when it begins.
        h.until(lambda: all(t["NoNewPrivs"] == "1" for t in tasks(pid)), "no_new_privs", 10)
        for t in tasks(pid):
            self.assertEqual(names(t["CapEff"]), names(t["CapPrm"]))
            if t["Pid"] == str(pid):
                self.assertEqual(names(t["CapPrm"]), kept)
            self.assertLessEqual(names(t["CapPrm"]), kept)
            for name in ("CapInh", "CapAmb"):
                self.assertEqual(names(t[name]), set(), "%s of %s" % (name, t["Pid"]))

    def documented(self, when):
        """The capabilities of a line of the table in docs/security.md."""
        with open(os.path.join(h.TESTS, "..", "docs", "security.md")) as f:
            row, = [line for line in f if line.startswith("| kept: %s |" % when)]
        return set(re.findall(r"CAP_\w+", row))

    def test_a_process_that_is_named(self):
        self.assertEqual(self.documented("always"), BASE | JAIL)
        for backend in h.backends():
            with h.Recorder(self.work, "--backend=" + backend) as r:
                self.expect(r.pid, BASE | JAIL)
                self.work.do("run", limit=20)
                self.work.do("join")
                self.assertEqual(r.stop(), h.OK, r.text())
                self.assertEqual(self.work.breakpoints(), 0)
                rec = r.recording()
                self.assert_sound(rec)
                self.assertGreater(len(rec.events), 0)
                # Read after that, from its memory.
                self.assertIn("stat-0", rec.thread_names.values())

    def test_late_comers(self):
        """
        What they need is there: to find, to attach, to make a file in a folder of somebody else's
        and to give it away.
        """
        self.assertEqual(self.documented("late comers"), LATE)
        self.assertEqual(self.documented("late comers by perf_event_open"), {"CAP_SYS_ADMIN"})
        for backend in h.backends():
            folder = h.new_dir()
            os.chown(folder, OTHER, OTHER)
            os.chmod(folder, 0o700)
            admin = set() if backend == "multi" else {"CAP_SYS_ADMIN"}
            family = self.start()
            r = self.record(family.pid, "--follow", "-v", "--backend=" + backend, dir=folder,
                            env={"SUDO_UID": str(ME), "SUDO_GID": str(ME)})
            self.expect(r.pid, BASE | JAIL | LATE | admin)
            children = [family.beget("fork", "fork"),
                        family.beget("new", "spawn", argv=family.command("new"))]
            for child in children:
                self.wait_recorded(r, child.pid)
                child.count()
            self.assertEqual(r.stop(), h.OK, r.text())
            for child in children:
                st = os.stat(r.of(child.pid)[0])
                self.assertEqual((st.st_uid, st.st_gid, st.st_mode & 0o777), (ME, ME, 0o640))
                rec = h.Recording(r.of(child.pid)[0])
                self.assert_sound(rec)
                self.assertGreater(len(rec.events), 0)

    def test_files_from_memory(self):
        """With --ring they are made at any time."""
        self.assertEqual(self.documented("files from memory"), {"CAP_DAC_OVERRIDE", "CAP_CHOWN"})
        folder = h.new_dir()
        os.chown(folder, OTHER, OTHER)
        os.chmod(folder, 0o700)
        with h.Recorder(self.work, "--ring=60", dir=folder,
                        env={"SUDO_UID": str(ME), "SUDO_GID": str(ME)}) as r:
            self.expect(r.pid, BASE | JAIL | {"CAP_DAC_OVERRIDE", "CAP_CHOWN"})
            self.work.do("run", limit=20)
            self.work.do("join")
            r.proc.send_signal(signal.SIGUSR1)
            h.until(r.files, "a file", 20)
            self.assertEqual(r.stop(), h.OK, r.text())
            for path in r.files():
                st = os.stat(path)
                self.assertEqual((st.st_uid, st.st_gid, st.st_mode & 0o777), (ME, ME, 0o640))

    def test_a_command(self):
        """It has what it would have without giltrace; who holds it has what that takes."""
        show = ["sh", "-c", "grep -E '^(Cap|NoNewPrivs)' /proc/self/status"]
        plain = subprocess.check_output(show)
        status, out, err = h.giltrace("-o", h.new_dir(), "--", *show, env=dict(
            {k: v for k, v in os.environ.items() if not k.startswith("SUDO_")}))
        self.assertEqual((status, out), (0, plain.decode()), err)
        with h.Recorder([], command=["sh", "-c", "read line"], stdin=subprocess.PIPE) as r:
            self.expect(r.pid, BASE | JAIL | LATE | {"CAP_KILL"} |
                        ({"CAP_SYS_ADMIN"} if h.backends()[0] != "multi" else set()))
            holder, = [c for c in children(r.pid)
                       if fields("/proc/%d/status" % c)["Name"] == "gt-command"]
            h.until(lambda: tasks(holder)[0]["NoNewPrivs"] == "1", "the holder holds")
            self.expect(holder, {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"})
            r.proc.stdin.close()
            self.assertEqual(r.finish(), 1, r.text())

    def test_a_command_of_another_user_gets_signals(self):
        with h.Recorder([], command=["sh", "-c", "trap 'exit 9' TERM; echo up; while :; do "
                                     "read line || sleep 0.05; done"],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
                        env={"SUDO_UID": str(ME), "SUDO_GID": str(ME)}) as r:
            self.assertEqual(r.proc.stdout.readline(), b"up\n")
            r.proc.send_signal(signal.SIGTERM)
            r.proc.stdin.close()
            self.assertEqual(r.finish(), 9)
            r.proc.stdout.close()

    def test_not_root(self):
        """Of the documented set, what only finding and attaching need is given up."""
        given = documented() | (set() if h.backends()[0] == "multi" else {"CAP_SYS_ADMIN"})
        if h.backends()[0] == "ioctl":  # BPF memory may count against RLIMIT_MEMLOCK there (5.10)
            given = given | {"CAP_SYS_RESOURCE"}
        folder = h.new_dir()
        os.chown(folder, ME, ME)
        with h.Recorder(self.work, dir=folder, preexec_fn=become(ME, given), cwd="/") as r:
            self.expect(r.pid, BASE)
            self.work.do("run", limit=20)
            self.work.do("join")
            self.assertEqual(r.stop(), h.OK, r.text())
            self.assert_sound(r.recording())


class Jail(h.BpfTest):
    """The process that reads somebody's ELF file, seen from outside while it is at it."""

    def caught(self, prepare):
        """
        A look at a process of OTHER's, and its reader of files, stopped when it has the file
        mapped: (its pid, giltrace).
        """
        with h.Workload(python(), inside=["setpriv", "--reuid", str(OTHER), "--regid",
                                          str(OTHER), "--clear-groups"]) as w:
            for _ in range(20):
                p = subprocess.Popen([h.tool("giltrace"), "-p", str(w.pid), "--dry-run"],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     preexec_fn=prepare, cwd="/")
                child = self.stop_reader(p, w)
                if child:
                    return child, p
                p.wait()
        self.fail("no reader of files was seen")

    def stop_reader(self, p, w):
        while p.poll() is None:
            for c in children(p.pid):
                try:
                    with open("/proc/%d/maps" % c) as f:
                        at_it = w.about["file"] in f.read()
                    if at_it:
                        os.kill(c, signal.SIGSTOP)
                        h.until(lambda: fields("/proc/%d/status" % c)["State"][0] in "TZ", "")
                        if fields("/proc/%d/status" % c)["State"][0] == "T":
                            return c
                except (OSError, KeyError):
                    pass
        return None

    def look(self, prepare, uid):
        child, p = self.caught(prepare)
        try:
            s = fields("/proc/%d/status" % child)
            for name in SETS:
                self.assertEqual(int(s[name], 16), 0, name)
            self.assertEqual(s["NoNewPrivs"], "1")
            self.assertEqual(s["Uid"].split(), [str(uid)] * 4)
            self.assertEqual(s["Gid"].split(), [str(uid)] * 4)
            links = {fd: os.readlink("/proc/%d/fd/%s" % (child, fd))
                     for fd in os.listdir("/proc/%d/fd" % child)}
            # The file and the pipe; libdwfl has copies of the first, and files with symbols.
            self.assertEqual({links.pop(fd) for fd in "012"}, {"/dev/null"})
            self.assertRegex(links.pop("4"), r"\Apipe:")
            for fd, to in links.items():
                self.assertNotRegex(to, r"\A(pipe|socket|anon_inode)", fd)
            with open("/proc/%d/limits" % child) as f:
                limits = f.read()
            for name in ("file size", "core file size", "processes"):
                self.assertRegex(limits, r"Max %s +0 +0 " % name)
            self.out_of_reach(child, ME if uid == ME else 65534)
        finally:
            os.kill(child, signal.SIGCONT)
            self.assertEqual(p.wait(), h.OK)

    def out_of_reach(self, pid, uid):
        """Of others who are that user: what it has open, its memory, ptrace."""
        code = ("import ctypes, os, sys\n"
                "pid, got = int(sys.argv[1]), []\n"
                "for name in 'fd/3', 'mem', 'environ':\n"
                "    try: os.close(os.open('/proc/%d/%s' % (pid, name), os.O_RDONLY))\n"
                "    except OSError: continue\n"
                "    got.append(name)\n"
                "if ctypes.CDLL(None).ptrace(16, pid, 0, 0) == 0: got.append('ptrace')\n"
                "print(got)\n")
        out = subprocess.check_output(python().command() + ["-c", code, str(pid)], cwd="/",
                                      preexec_fn=become(uid))
        self.assertEqual(out, b"[]\n")

    def test_of_root(self):
        nobody = 4294967293
        self.look(None, nobody)
        # The user nobody is somebody, and may have processes.
        child, p = self.caught(None)
        try:
            p2 = subprocess.run(["sh", "-c", "kill -0 %d" % child], preexec_fn=become(65534),
                                stderr=subprocess.DEVNULL, cwd="/")
            self.assertNotEqual(p2.returncode, 0)
        finally:
            os.kill(child, signal.SIGCONT)
            p.wait()

    def test_of_a_user_with_capabilities(self):
        self.look(become(ME, documented()), ME)


class Folders(h.BpfTest):
    """Where root makes files, if others may write on the way."""

    def setUp(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)
        self.victim, self.place = h.new_dir(), h.new_dir()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("SUDO_")}

    def run_it(self, folder, **env):
        return h.giltrace("-p", self.work.pid, "-d", "0.1", "-o", folder, env=dict(self.env, **env))

    def link(self, owner, name="out"):
        path = os.path.join(self.place, name)
        os.symlink(self.victim, path)
        os.lchown(path, owner, owner)
        return path

    def test_a_link_of_somebody_else_is_not_followed(self):
        for mode in (0o1777, 0o755):
            os.chmod(self.place, mode)
            path = self.link(OTHER)
            for folder in (path, path + "/", os.path.join(path, "new"),
                           os.path.join(path, "..", os.path.basename(self.victim))):
                status, out, err = self.run_it(folder, SUDO_UID=str(ME), SUDO_GID=str(ME))
                self.assertEqual(status, h.NO_OUTPUT, err)
                self.assertIn(folder, err)
                self.assertEqual(os.listdir(self.victim), [])
            os.unlink(path)
        self.assertEqual(os.stat(self.victim).st_uid, 0)
        self.assertEqual(self.work.breakpoints(), 0)

    def test_links_of_ones_own_are(self):
        for owner, env in ((0, {}), (0, {"SUDO_UID": str(ME)}), (ME, {"SUDO_UID": str(ME)})):
            path = self.link(owner)
            status, out, err = self.run_it(path, **env)
            self.assertEqual(status, h.OK, err)
            name, = os.listdir(self.victim)
            os.unlink(os.path.join(self.victim, name))
            os.unlink(path)
        # The kernel's own: what they lead to is no text.
        status, out, err = self.run_it("/proc/%d/root%s" % (self.work.pid, self.victim))
        self.assertEqual(status, h.OK, err)
        self.assertEqual(len(os.listdir(self.victim)), 1)

    def test_owner_and_mode(self):
        """Whatever the umask, and the group that a set-group-ID folder would give."""
        os.chown(self.place, OTHER, OTHER)
        os.chmod(self.place, 0o2777)
        with h.Recorder(self.work, dir=self.place, preexec_fn=lambda: os.umask(0),
                        env={"SUDO_UID": str(ME), "SUDO_GID": str(ME)}) as r:
            st = os.stat(r.files()[0])
            self.assertEqual((st.st_uid, st.st_gid, st.st_mode & 0o7777), (ME, ME, 0o640))
            self.assertEqual(r.stop(), h.OK, r.text())


class Callers(h.BpfTest):
    """Users who may run it with rights that they do not have themselves."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.work = h.Workload(python(), inside=["setpriv", "--reuid", str(ME), "--regid", str(ME),
                                                "--clear-groups"])
        given = documented() | (set() if h.backends()[0] == "multi" else {"CAP_SYS_ADMIN"})
        if h.backends()[0] == "ioctl":  # BPF memory may count against RLIMIT_MEMLOCK there (5.10)
            given = given | {"CAP_SYS_RESOURCE"}
        cls.with_caps = with_file_capabilities(given)
        cls.given = given

    @classmethod
    def tearDownClass(cls):
        cls.work.__exit__()

    def run_as_me(self, *args, **kwargs):
        """With the capabilities of the file, or where these are not possible, ambient ones."""
        if self.with_caps:
            return h.giltrace(*args, preexec_fn=become(ME), executable=self.with_caps, cwd="/",
                              **kwargs)
        return h.giltrace(*args, preexec_fn=become(ME, self.given), cwd="/", **kwargs)

    def test_set_user_id_is_refused(self):
        for name, rest in (("giltrace", ["-p", str(self.work.pid), "-d", "0.1"]),
                           ("gil2trace", ["--version"])):
            path = shutil.copy(h.tool(name), h.new_dir())
            for mode in (0o4755, 0o2755):
                os.chmod(path, mode)
                p = subprocess.run([path] + rest, preexec_fn=become(ME), cwd="/",
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual((p.returncode, p.stdout), (h.FAILED, b""), p.stderr)
                self.assertRegex(p.stderr, b"set-user-ID|more rights than its user")

    def test_the_converter_refuses_capabilities(self):
        path = shutil.copy(h.tool("gil2trace"), h.new_dir())
        os.chmod(path, 0o755)
        if subprocess.run(["setcap", "cap_dac_override=ep", path]).returncode:
            self.skipTest("files cannot have capabilities here")
        p = subprocess.run([path, "--version"], preexec_fn=become(ME), cwd="/",
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((p.returncode, p.stdout), (h.FAILED, b""), p.stderr)

    def test_folders_that_are_closed_to_them(self):
        """CAP_DAC_READ_SEARCH is for /proc: it opens no folder, and tells of none."""
        top = h.new_dir()
        inside = os.path.join(top, "open")
        os.mkdir(inside)
        os.chmod(inside, 0o777)
        os.chmod(top, 0o700)
        said = set()
        for name in ("open", "missing", "open/missing/deep"):
            path = os.path.join(top, name)
            for options, refused in ((["-o", path], h.NO_OUTPUT),
                                     (["--control=" + os.path.join(path, "s")], h.FAILED)):
                status, out, err = self.run_as_me("-p", self.work.pid, "-d", "0.1", *options)
                self.assertEqual(status, refused, err)
                said.add(err.replace(path, "PATH").replace("open/missing", "open"))
                self.assertIn("Permission denied", err)
        self.assertEqual(os.listdir(inside), [])
        self.assertEqual(len({s for s in said if "output" in s}), 1, said)

    def test_sockets_that_are_closed_to_them(self):
        top = h.new_dir()
        path = os.path.join(top, "s")
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(server.close)
        server.bind(path)
        server.listen(1)
        os.chmod(path, 0o666)
        os.chmod(top, 0o700)
        status, out, err = self.run_as_me("--tell=" + path, "mark", "x")
        self.assertEqual(status, 1)
        self.assertIn("Permission denied", err)
        self.assertEqual(select.select([server], [], [], 0)[0], [])

    def test_a_command_has_nothing_of_it(self):
        folder = h.new_dir()
        os.chown(folder, ME, ME)
        status, out, err = self.run_as_me("-o", folder, "--", "sh", "-c",
                                          "grep ^Cap /proc/self/status")
        self.assertEqual(status, 0, err)
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertIn("%s:\t%016x\n" % (name, 0), out)
        status, out, err = self.run_as_me("-o", folder, "--user", "root", "--", "id")
        self.assertEqual((status, out), (h.FAILED, ""), err)
        self.assertIn("only root", err)

    def test_the_loader_is_not_theirs(self):
        """The kernel says that it is more than its user; so the loader believes no variable."""
        if not self.with_caps:
            self.skipTest("files cannot have capabilities here")
        module = h.tool("tests/condhammer.so")
        folder = h.new_dir()
        os.chown(folder, ME, ME)
        env = dict(os.environ, LD_PRELOAD=module, LD_AUDIT=module,
                   LD_LIBRARY_PATH=os.path.dirname(module))
        with h.Recorder(self.work, dir=folder, preexec_fn=become(ME), cwd="/", env=env,
                        executable=self.with_caps) as r:
            with open("/proc/%d/maps" % r.pid) as f:
                self.assertNotIn(os.path.basename(module), f.read())
            self.assertEqual(r.stop(), h.OK, r.text())


class Converter(h.BpfTest):
    """gil2trace in a folder in which others may write, too."""

    def setUp(self):
        with h.Workload(h.python()) as w, h.Recorder(w, "-d", 0.1) as r:
            self.assertEqual(r.finish(), h.OK, r.text())
            self.recording = r.files()[0]
        self.place = h.new_dir()
        os.chmod(self.place, 0o1777)
        self.out = os.path.join(self.place, "out.json")

    def convert(self):
        p = subprocess.run([h.tool("gil2trace"), self.recording, "-o", self.out],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=h.LIMIT)
        return p.returncode, p.stdout.decode()

    def plant(self, to):
        os.symlink(to, self.out)
        os.lchown(self.out, OTHER, OTHER)

    def test_nothing_is_written_through_a_planted_link(self):
        victim = os.path.join(h.new_dir(), "victim")
        with open(victim, "w") as f:
            f.write("precious")
        self.plant(victim)
        status, said = self.convert()
        with open(victim) as f:
            self.assertEqual(f.read(), "precious")
        if status == h.OK:  # fs.protected_symlinks is off: the link is replaced, not followed
            self.assertFalse(os.path.islink(self.out))
        else:
            self.assertIn(self.out, said)

    def test_no_device_through_a_planted_link(self):
        fifo = os.path.join(self.place, "fifo")
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        for to in (fifo, "/dev/null"):
            self.plant(to)
            status, said = self.convert()
            self.assertEqual(status, h.FAILED, said)
            self.assertIn("%s: cannot be written" % self.out, said)
            os.unlink(self.out)
        self.assertEqual(os.read(reader, 1), b"")
        os.symlink("/dev/null", self.out)  # one's own
        self.assertEqual(self.convert()[0], h.OK)


# What libraries read, and what makes programs of other kinds load or write something.
VARIABLES = ("LOCPATH", "GCONV_PATH", "NLSPATH", "TMPDIR", "TMP", "HOME", "XDG_RUNTIME_DIR",
             "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP",
             "GILTRACE_COMMAND", "DEBUGINFOD_CACHE_PATH", "LIBBPF_VMLINUX", "HOSTALIASES",
             "RES_OPTIONS", "GETCONF_DIR", "TZDIR", "TZ", "BASH_ENV", "ENV", "CDPATH",
             "SSLKEYLOGFILE", "GT_BUILD_DIR", "SUDO_HOME", "SUDO_COMMAND")


class Variables(h.BpfTest):
    def test_none_is_a_path_or_an_address(self):
        """Root's variables may be a job's: none but the documented ones leads anywhere."""
        if not shutil.which("strace"):
            h.say("MISSING: strace, so nobody looks what variables lead to")
            self.skipTest("no strace")
        log = os.path.join(h.new_dir(), "log")
        evil = os.path.join(h.new_dir(), "evil")
        env = {k: v for k, v in os.environ.items() if not k.startswith("SUDO_")}
        env.update({name: evil for name in VARIABLES})
        env.update(LANG="de_DE.UTF-8", LC_ALL="de_DE.UTF-8", LANGUAGE="de", TERM=evil,
                   DEBUGINFOD_URLS="http://127.0.0.1:9/")
        with h.Workload(h.python()) as w:
            p = subprocess.run(["strace", "-f", "-o", log, "-e", "trace=%file,%network",
                                "--", h.tool("giltrace"), "-p", str(w.pid), "-d", "0.1",
                                "-o", h.new_dir(), "--follow"],
                               env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(p.returncode, h.OK, p.stderr)
        with open(log, errors="replace") as f:
            calls = [line for line in f if not re.search(r"\bexecve\(", line)]
        self.assertGreater(len(calls), 20)
        self.assertEqual([c for c in calls if evil in c], [])
        self.assertEqual([c for c in calls if re.search(r"AF_INET|connect\(", c)], [])
        self.assertEqual([c for c in calls if re.search(r"/locale|gconv", c)], [])

    def test_sudo_variables_of_a_user_are_not_believed(self):
        """Who is not root may set them to anything."""
        folder = h.new_dir()
        os.chown(folder, ME, ME)
        given = documented() | (set() if h.backends()[0] == "multi" else {"CAP_SYS_ADMIN"})
        if h.backends()[0] == "ioctl":  # BPF memory may count against RLIMIT_MEMLOCK there (5.10)
            given = given | {"CAP_SYS_RESOURCE"}
        with h.Workload(h.python()) as w:
            with h.Recorder(w, dir=folder, preexec_fn=become(ME, given), cwd="/",
                            env={"SUDO_UID": "0", "SUDO_GID": "0"}) as r:
                self.assertEqual(os.stat(r.files()[0]).st_uid, ME)
                self.assertEqual(r.stop(), h.OK, r.text())


if __name__ == "__main__":
    h.main()
