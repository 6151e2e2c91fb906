# SPDX-License-Identifier: Apache-2.0
"""What giltrace says: usage, refusals, --dry-run, messages, the status line."""
import fcntl
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

OPTIONS = ("--pid", "--duration", "--output-dir", "--dry-run", "--probe", "--backend",
           "--ring-size", "--ready-fd", "--verbose", "--quiet", "--version", "--help")


class Usage(unittest.TestCase):
    """Needs neither root nor BPF."""

    def test_usage_errors(self):
        me = str(os.getpid())
        for args in ([], ["-d", "1"], ["--nonsense", "-p", me], ["-p", me, "-d", "0"],
                     ["-p", me, "-d", "-1"], ["-p", me, "-d", "abc"], ["-p", me, "-d", ""],
                     ["-p", me, "-d", "nan"], ["-p", me, "-d", "inf"], ["-p", me, "-d", "1s"],
                     ["-p", me, "-d", "1e400"], ["-p", "abc"], ["-p", "1,,2"], ["-p", ""],
                     ["-p", "1,"], ["-p", "0"], ["-p", "-1"], ["-p", "99999999999999999999"],
                     ["-p", "1x"], ["-p"], ["-p", me, "--backend=fast"],
                     ["-p", me, "--probe=luck"], ["-p", me, "--ring-size=abc"],
                     ["-p", me, "--ring-size=0"], ["-p", me, "--ring-size=-4"],
                     ["-p", me, "--ring-size=99999999999999999999"],
                     ["-p", me, "--ready-fd=abc"], ["-p", me, "stray"]):
            where = h.new_dir()
            status, out, err = h.giltrace(*args, cwd=where)
            self.assertEqual(status, h.USAGE, "%s: %s" % (args, out + err))
            self.assertEqual(out, "", args)
            self.assertIn("giltrace", err, args)
            self.assertEqual(os.listdir(where), [])

    def test_usage_error_names_what_is_wrong(self):
        for args, word in ((["-p", "12a4"], "12a4"), (["-p", "1", "-d", "soon"], "soon"),
                           (["--nonsense"], "nonsense"), (["-p", "1", "--backend=fast"], "fast")):
            self.assertIn(word, h.giltrace(*args)[2])

    def test_help(self):
        status, out, err = h.giltrace("--help")
        self.assertEqual((status, err), (h.OK, ""))
        for option in OPTIONS + ("-p", "-d", "-o", "-v", "-q"):
            self.assertTrue(re.search(r"(?<![\w-])%s\b" % re.escape(option), out), option)
        self.assertIn("GILTRACE_DATA_DIR", out)
        self.assertTrue(all(len(line) <= 100 for line in out.splitlines()))
        self.assertEqual(h.giltrace("-h"), (status, out, err))

    def test_statuses_are_documented_alike(self):
        with open(os.path.join(h.TESTS, "..", "README.md")) as f:
            rows = [line.split("|") for line in f if re.match(r"\| \d \|", line)]
        for name, column in (("giltrace", 2), ("gil2trace", 3)):
            out = subprocess.run([h.tool(name), "--help"], stdout=subprocess.PIPE,
                                 check=True).stdout.decode()
            listed = re.findall(r"(?m)^  (\d)  ", out[out.index("Exit status"):])
            self.assertEqual(listed, [row[1].strip() for row in rows if row[column].strip()])

    def test_version(self):
        status, out, err = h.giltrace("--version")
        self.assertEqual((status, err), (h.OK, ""))
        self.assertRegex(out, r"\Agiltrace \d+\.\d+")

    def test_converter(self):
        for args, status in ((["--help"], h.OK), (["--version"], h.OK), ([], h.USAGE),
                             (["--nonsense"], h.USAGE),
                             ([os.path.join(h.new_dir(), "none.gil")], h.FAILED),
                             (["/bin/sh"], h.FAILED), (["/dev/null"], h.FAILED)):
            p = subprocess.run([h.tool("gil2trace")] + args, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, cwd=h.new_dir())
            self.assertEqual(p.returncode, status, "%s: %s" % (args, p.stderr))
            if status:
                self.assertNotEqual(p.stderr, b"")
                self.assertIn((args or ["gil2trace"])[-1].lstrip("-"), p.stderr.decode())


class Refusals(h.BpfTest):
    def refused(self, status, words, *args, **kwargs):
        where = kwargs.pop("where", None) or h.new_dir()
        got, out, err = h.giltrace("-d", "1", "-o", where, *args, **kwargs)
        self.assertEqual(got, status, "%s: %s" % (args, out + err))
        for word in words:
            self.assertRegex(err, word)
        self.assertEqual(os.listdir(where), [])

    def test_no_such_process(self):
        p = subprocess.Popen(["true"])
        p.wait()
        self.refused(h.NO_TARGET, [r"\b%d\b" % p.pid], "-p", p.pid)
        self.refused(h.NO_TARGET, [r"\b%d\b" % p.pid], "-p", p.pid, "--dry-run")

    def test_kernel_without_btf(self):
        """A recording needs none; what follows processes in the kernel does, and says so."""
        hidden = ["unshare", "--mount", "sh", "-c",
                  'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"]
        if not os.path.exists("/sys/kernel/btf/vmlinux") or \
                subprocess.run(hidden + ["true"]).returncode:
            self.skipTest("it has none, or no mount namespace can be made here")
        where = h.new_dir()

        def run(*options):
            p = subprocess.run(hidden + [h.tool("giltrace"), "-p", str(w.pid), "-d", "0.1", "-o",
                                         where] + list(options),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=h.LIMIT)
            return p.returncode, p.stderr.decode()

        with h.Workload(h.python()) as w:
            self.assertEqual(run()[0], h.OK)
            self.assertEqual(run("--follow")[0], h.OK)
            self.assertEqual(len(os.listdir(where)), 2)
            status, said = run("--follow=bpf")
        self.assertEqual(status, h.NO_BPF, said)
        self.assertIn("--follow=proc", said)
        self.assertEqual(len(os.listdir(where)), 2)

    def test_process_that_waits_for_its_parent(self):
        p = subprocess.Popen(["true"])
        os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
        self.refused(h.NO_TARGET, [r"\b%d\b" % p.pid], "-p", p.pid)
        p.wait()

    def test_thread_is_no_process(self):
        with h.Workload(h.python()) as w:
            w.start_workers(stat=1)
            self.refused(h.NO_TARGET, [r"\b%d\b" % w.threads["stat-0"], r"\b%d\b" % w.pid],
                         "-p", w.threads["stat-0"])

    def test_no_python(self):
        p = subprocess.Popen(["sleep", "1000"])
        try:
            self.refused(h.NOT_PYTHON, [r"\b%d\b" % p.pid, r"(?i)python"], "-p", p.pid)
            self.refused(h.NOT_PYTHON, [r"\b%d\b" % p.pid], "-p", p.pid, "--dry-run")
        finally:
            p.kill()
            p.wait()

    def test_kernel_thread(self):
        with open("/proc/2/comm") as f:
            if f.read() != "kthreadd\n":
                self.skipTest("pid 2 is no kernel thread here")
        self.refused(h.NOT_PYTHON, [r"\b2\b"], "-p", "2")

    def test_not_permitted(self):
        """An unprivileged user, with a process of somebody else and with one of their own."""
        def drop():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        where = h.new_dir()
        os.chown(where, 65534, 65534)
        with h.Workload(h.python()) as w:
            self.refused(h.NO_BPF, [r"(?i)root|sudo|CAP_"], "-p", w.pid, preexec_fn=drop,
                         where=where)
        # The home of root, where pyenv may be, is closed to that user: the interpreter of the system.
        code = "import sys; print(1, flush=True); sys.stdin.read()"
        own = subprocess.Popen([shutil.which("python3", path="/usr/bin") or sys.executable, "-c",
                                code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               preexec_fn=drop)
        try:
            self.assertEqual(own.stdout.readline(), b"1\n")
            self.refused(h.NO_BPF, [r"(?i)root|sudo|CAP_"], "-p", own.pid, preexec_fn=drop,
                         where=where)
        finally:
            own.communicate()

    def test_a_back_end_that_the_kernel_does_not_have(self):
        if "multi" in h.backends():
            self.skipTest("this kernel has all")
        with h.Workload(h.python()) as w:
            folder = h.new_dir()
            status, out, err = h.giltrace("-p", w.pid, "--backend=multi", "-d", "1", "-o", folder)
            self.assertEqual((status, out), (h.NO_BPF, ""), err)
            self.assertIn("uprobe_multi", err)
            self.assertEqual(os.listdir(folder), [])
            self.assertEqual(w.breakpoints(), 0)

    def test_functions_of_a_stripped_python(self):
        with h.Workload(h.python().stripped()) as w:
            self.refused(h.NOT_PYTHON, [r"\b%d\b" % w.pid, r"symbol"], "-p", w.pid,
                         "--probe=functions")


class DryRun(h.BpfTest):
    def test_it_names_every_site_and_attaches_nothing(self):
        for py in (h.python(), h.python().stripped(), h.pythons()[-1].copy()):
            with h.Workload(py) as w:
                folder = h.new_dir()
                log = os.path.join(folder, "strace")
                argv = ["-p", str(w.pid), "--dry-run", "-o", folder]
                status, out, err = h.giltrace(*argv)
                self.assertEqual(status, h.OK, err)
                self.assertEqual(os.listdir(folder), [])
                self.assertEqual(w.breakpoints(), 0)
                self.assertIn(str(w.pid), out)
                self.assertIn(py.file, out)
                with h.Recorder(w) as r:
                    self.assertEqual(r.stop(), h.OK, r.text())
                    sites = r.recording().sites
                for site in sites:
                    line = [l for l in out.splitlines() if "0x%x" % site.offset in l]
                    self.assertTrue(line, "site 0x%x in %s" % (site.offset, out))
                    self.assertIn(site.how, out)
                if not shutil.which("strace"):
                    h.say("MISSING: strace, so nobody looks what --dry-run asks of the kernel")
                    continue
                subprocess.run(["strace", "-f", "-o", log, "-e", "trace=bpf,perf_event_open",
                                h.tool("giltrace")] + argv, check=True, timeout=h.LIMIT,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                with open(log) as f:
                    calls = f.read()
                self.assertIn("exited with 0", calls)
                self.assertNotIn("BPF_LINK_CREATE", calls)
                self.assertNotIn("perf_event_open", calls)

    def test_functions(self):
        if not h.has_symtab(h.python().file):
            self.skipTest("no CPython with symbols here")
        with h.Workload(h.python()) as w:
            status, out, err = h.giltrace("-p", w.pid, "--dry-run", "--probe=functions")
            self.assertEqual(status, h.OK, err)
            self.assertIn("take_gil", out)
            self.assertIn("drop_gil", out)


class Messages(h.BpfTest):
    STATUS = re.compile(rb"\d s\b.*\d events/s.*\d lost")

    def test_status_line_on_a_terminal_and_ctrl_c(self):
        with h.Workload(h.python()) as w:
            w.start_workers(cpu=2, stat=1)
            w.do("run")
            master, slave = pty.openpty()

            def terminal():
                os.setsid()
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            with h.Recorder(w, stdout=slave, stderr=slave, preexec_fn=terminal) as r:
                os.close(slave)
                seen = b""
                end = time.monotonic() + 20
                while len(self.STATUS.findall(seen.replace(b"\r", b"\n"))) < 2:
                    ready, _, _ = select.select([master], [], [], end - time.monotonic())
                    self.assertTrue(ready, "no status line in %r" % seen)
                    seen += os.read(master, 65536)
                self.assertIn(b"\r", seen)
                os.write(master, b"\x03")  # Ctrl-C, as the terminal makes it a signal
                tail = b""
                while True:
                    try:
                        chunk = os.read(master, 65536)
                    except OSError:  # EIO: the other side is closed
                        break
                    if not chunk:
                        break
                    tail += chunk
                self.assertEqual(r.finish(), h.OK, tail)
                rec = r.recording()
            os.close(master)
            w.do("park")
            self.assertEqual(rec.end.reason, h.END_STOPPED)
            # The result does not stand on what is left of the status line.
            text = tail.decode(errors="replace")
            self.assertIn(rec.result(), text)

    def test_no_status_line_elsewhere(self):
        with h.Workload(h.python()) as w:
            status, out, err = h.giltrace("-p", w.pid, "-d", "1.2", "-o", h.new_dir())
            self.assertEqual(status, h.OK, err)
            for text in (out, err):
                self.assertNotIn("\r", text)
                self.assertNotIn("\x1b", text)
                self.assertNotIn("events/s", text)
            self.assertTrue([l for l in err.splitlines() if l.startswith("giltrace: recording")])

    def test_quiet_and_verbose(self):
        with h.Workload(h.python()) as w:
            texts = []
            for option in ("-q", None, "-vv"):
                args = ["-p", w.pid, "-d", "0.1", "-o", h.new_dir()]
                status, out, err = h.giltrace(*(args + ([option] if option else [])))
                self.assertEqual(status, h.OK, err)
                texts.append(out + err)
            self.assertEqual(texts[0], "")
            self.assertGreater(len(texts[1]), 0)
            self.assertGreater(len(texts[2].splitlines()), len(texts[1].splitlines()))

    def test_quiet_still_says_errors(self):
        status, out, err = h.giltrace("-q", "-p", "1", "-o", "/nonexistent/folder", "-d", "1")
        self.assertNotEqual(status, h.OK)
        self.assertNotEqual(err, "")

    def test_ready_fd_that_is_none(self):
        """A number that was not inherited is never taken for one of giltrace's own descriptors."""
        with h.Workload(h.python()) as w:
            for fd in list(range(3, 30)) + [77]:
                folder = h.new_dir()
                status, out, err = h.giltrace("-p", w.pid, "-d", "0.01", "--ready-fd=%d" % fd,
                                              "-o", folder)
                self.assertIn(status, (h.FAILED, h.USAGE), "descriptor %d: %s" % (fd, err))
                self.assertIn(str(fd), err)
                self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    h.main()
