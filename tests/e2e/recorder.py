# SPDX-License-Identifier: Apache-2.0
"""Running giltrace."""
import ctypes
import errno
import os
import re
import select
import signal
import struct
import subprocess
import tempfile

from common import LIMIT, new_dir, scratch, tool, until
from recording import LATE, Recording
from workload import Workload


def giltrace(*args, **kwargs):
    """Runs giltrace to its end: (status, standard output, standard error)."""
    p = subprocess.run([tool("giltrace")] + [str(a) for a in args], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=LIMIT, **kwargs)
    return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")


def backends():
    """
    What must work on this kernel, the best ones. uprobe_multi links came with Linux 6.6; up to 6.9
    their filter is wrong except where a stable tree mended it, so nothing is expected of it there.
    Before 5.15 there are no links to perf events.
    """
    release = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])
    if release < (5, 15):
        return ("ioctl",)
    return ("multi", "perf") if release >= (6, 10) else ("perf",)


def late(rec):
    """A file's records of what is missing at its start, as tests/gilfile.py has them."""
    return [e for e in rec.file.events if e.kind == LATE]


def until_all_have(r, ps, what):
    """Has some Plain Pythons go round until the file of each has events, or its end."""
    def none_left():
        for p in ps:
            if p.proc.poll() is None:
                p.rounds(20)
        left[:] = [p for p in left if not any(getattr(Recording(f), what) for f in r.of(p.pid))]
        return not left
    left = list(ps)
    try:
        until(none_left, what)
    except AssertionError as err:
        raise AssertionError("%s of %s: %s" % (err, [p.pid for p in left], r.text()))


class Recorder:
    """
    A running giltrace: a context manager that kills it in the end if it is still there. `pids`
    is a number, a workload, or a list of such; none: other options say which. command=[...] is
    what it is to start. through=[...] is a command that executes the rest of its line. .dir is
    where its files go.
    """

    def __init__(self, pids=(), *options, **kwargs):
        self.dir = kwargs.pop("dir", None) or new_dir()
        env = {k: v for k, v in os.environ.items()
               if k not in ("SUDO_UID", "SUDO_GID", "SUDO_USER", "GILTRACE_DATA_DIR")}
        env.update(kwargs.pop("env", {}))
        wait = kwargs.pop("wait", True)
        output = kwargs.pop("output", True)
        pids = pids if isinstance(pids, (list, tuple)) else [pids]
        pids = [p.pid if isinstance(p, Workload) else p for p in pids]
        self.ready, w = os.pipe()
        argv = list(kwargs.pop("through", ())) + [tool("giltrace"), "--ready-fd=%d" % w]
        if pids:
            argv += ["-p", ",".join(str(p) for p in pids)]
        if output:
            argv += ["-o", self.dir]
        argv += [str(o) for o in options]
        command = kwargs.pop("command", None)
        if command:
            argv += ["--"] + [str(c) for c in command]
        self.err = tempfile.TemporaryFile(dir=scratch())
        self.out = tempfile.TemporaryFile(dir=scratch())
        self.proc = subprocess.Popen(argv, stdin=kwargs.pop("stdin", subprocess.DEVNULL),
                                     stdout=kwargs.pop("stdout", self.out),
                                     stderr=kwargs.pop("stderr", self.err), env=env,
                                     pass_fds=(w,), **kwargs)
        os.close(w)
        self.pid = self.proc.pid
        try:
            if wait:
                self.wait_ready()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        self.said = self.text()  # .text() needs files that are closed now
        if self.ready is not None:
            os.close(self.ready)
            self.ready = None
        self.err.close()
        self.out.close()

    def wait_ready(self):
        ready, _, _ = select.select([self.ready], [], [], LIMIT)
        byte = os.read(self.ready, 2) if ready else None
        if byte != b"\n":
            what = "hangs" if byte is None else "did not begin (read %r)" % byte
            if byte is not None:
                self.proc.wait(LIMIT)
            raise AssertionError("giltrace %s, status %s: %s" % (what, self.proc.poll(),
                                                                 self.text()))

    def text(self):
        """All that it has printed so far."""
        parts = []
        for f in (self.out, self.err):
            parts.append(os.pread(f.fileno(), 1 << 20, 0).decode(errors="replace"))
        return "".join(parts)

    def finish(self):
        """Waits for its end: the exit status."""
        try:
            return self.proc.wait(LIMIT)
        except subprocess.TimeoutExpired:
            raise AssertionError("giltrace does not end: %s" % self.text())

    def status(self, pattern):
        """What a pattern finds in /proc/PID/status."""
        with open("/proc/%d/status" % self.pid) as f:
            return re.search(pattern, f.read(), re.M)

    def freeze(self):
        """From here on it reads nothing, until thaw()."""
        self.proc.send_signal(signal.SIGSTOP)
        until(lambda: self.status(r"^State:\s+T"), "giltrace is stopped")

    def thaw(self, rounds=0):
        """Lets it run again; returns when it has gone to sleep that many times more."""
        def slept():
            return int(self.status(r"^voluntary_ctxt_switches:\s+(\d+)").group(1))
        before = slept()
        self.proc.send_signal(signal.SIGCONT)
        until(lambda: slept() >= before + rounds, "giltrace goes round")

    def stop(self, sig=signal.SIGINT):
        self.proc.send_signal(sig)
        return self.finish()

    def files(self):
        return sorted(os.path.join(self.dir, f) for f in os.listdir(self.dir))

    def of(self, pid):
        """The files of a process."""
        return [f for f in self.files() if os.path.basename(f).startswith("GIL_%d_" % pid)]

    def pids(self):
        """The processes that have files."""
        return {int(os.path.basename(f).split("_")[1]) for f in self.files()}

    def begun(self, w, limit=20):
        """
        Has a workload's workers go round until its file, which may come late, holds some of that;
        the file so far.
        """
        def seen():
            w.do("run", limit=20)
            w.do("join")
            files = self.of(w.pid)
            rec = Recording(files[-1]) if files and os.path.getsize(files[-1]) else None
            return rec if rec and rec.events else None
        try:
            return until(seen, "events of %d" % w.pid, limit)
        except AssertionError as err:
            raise AssertionError("%s: %s" % (err, self.text()))

    def recording(self, pid=None):
        """The only file, or the only one of a process."""
        files = self.files() if pid is None else self.of(pid)
        if len(files) != 1:
            raise AssertionError("files %s: %s" % (self.files(), self.text()))
        return Recording(files[0])

    def kernel_objects(self):
        """Ids of the BPF programs and links that it has open: {("prog", 7), ("link", 3), ...}."""
        ids = set()
        folder = "/proc/%d/fdinfo" % self.pid
        for fd in os.listdir(folder):
            try:
                with open(os.path.join(folder, fd)) as f:
                    text = f.read()
            except OSError:
                continue
            kind = re.search(r"^(prog|link|map)_id:\s+(\d+)", text, re.M)
            link = re.search(r"^link_id:\s+(\d+)", text, re.M)
            if link:
                ids.add(("link", int(link.group(1))))
            elif kind:
                ids.add((kind.group(1), int(kind.group(2))))
        return ids


def kernel_has(kind, number):
    """Is a BPF program, link or map with that id still there? By bpf(2) itself."""
    command = {"prog": 13, "map": 14, "link": 30}[kind]  # BPF_*_GET_FD_BY_ID
    syscall = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    attr = ctypes.create_string_buffer(struct.pack("<III", number, 0, 0))
    fd = ctypes.CDLL(None, use_errno=True).syscall(syscall, command, attr, 12)
    if fd >= 0:
        os.close(fd)
    elif ctypes.get_errno() != errno.ENOENT:
        raise OSError(ctypes.get_errno(), "bpf(2) for %s %d" % (kind, number))
    return fd >= 0
