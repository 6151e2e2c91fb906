# SPDX-License-Identifier: Apache-2.0
"""The process that is traced."""
import functools
import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time

from common import LIMIT, WORKLOADS, scratch, tool, until


RANK_VARIABLES = ("RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                  "SLURM_PROCID", "MS_NODE_ID")


@functools.lru_cache(None)
def script():
    """target.py where those see it, too, that run in another root."""
    return shutil.copy(os.path.join(WORKLOADS, "target.py"), scratch())


class Plain:
    """
    A Python with nothing of ours but that it goes round in os.stat as often as it is told to;
    perhaps by a command in front that becomes the rest of its line.
    """

    CODE = ("import os, sys\n"
            "for line in iter(sys.stdin.readline, ''):\n"
            "    for _ in range(int(line)): os.stat('/')\n"
            "    sys.stdout.write('done\\n'); sys.stdout.flush()\n")

    def __init__(self, py, *front):
        self.proc = subprocess.Popen(list(front) + py.command() + ["-S", "-c", self.CODE],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                     env=dict(os.environ, **py.env))
        self.pid = self.proc.pid

    def rounds(self, n):
        self.proc.stdin.write(b"%d\n" % n)
        line = self.proc.stdout.readline()
        if line != b"done\n":
            raise AssertionError("%d says %r" % (self.pid, line))

    def end(self):
        self.proc.stdin.close()
        self.proc.stdout.close()
        return self.proc.wait()

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.end()


class Workload:
    """workloads/target.py under some Python: a context manager that kills what is left of it."""

    def __init__(self, py, env=None, native=False, through=(), inside=()):
        """
        through: a command in front that runs the rest of its line in a child; inside: one that
        becomes the rest of its line.
        """
        self.python = py
        say_r, say_w = os.pipe()
        hear_r, hear_w = os.pipe()
        wait_r, wait_w = os.pipe()
        self.said, self.hear, self.wait = say_r, hear_w, wait_w
        full = {k: v for k, v in os.environ.items() if k not in RANK_VARIABLES}
        full.update(py.env)
        full.update(env or {})
        argv = list(through) + list(inside) + py.command() + [script()]
        argv += [str(fd) for fd in (say_w, hear_r, wait_r)]
        if native:
            argv.append(tool("tests/gilhold.so"))
        self.errors = tempfile.TemporaryFile(dir=scratch())
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=self.errors, env=full,
                                     pass_fds=(say_w, hear_r, wait_r))
        for fd in (say_w, hear_r, wait_r):
            os.close(fd)
        self.buffer = b""
        self.about = self.answer()
        self.pid = self.proc.pid
        if through:
            with open("/proc/%d/task/%d/children" % (self.pid, self.pid)) as f:
                self.pid = int(f.read())
        elif self.about["pid"] != self.pid:
            raise AssertionError("%d runs %r" % (self.pid, self.about))
        if not os.path.samefile("/proc/%d/root%s" % (self.pid, self.about["file"]), py.file):
            raise AssertionError("%s runs %r" % (py.label, self.about))
        self.threads = {}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.kill()
        for fd in (self.said, self.hear, self.wait):
            os.close(fd)
        self.proc.stdin.close()
        self.proc.stdout.close()
        self.errors.close()

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()

    def send(self, command, **kwargs):
        self.proc.stdin.write(json.dumps([command, kwargs]).encode() + b"\n")
        self.proc.stdin.flush()

    def answer(self):
        end = time.monotonic() + LIMIT
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.proc.stdout], [], [], end - time.monotonic())
            chunk = os.read(self.proc.stdout.fileno(), 65536) if ready else b""
            if not chunk:
                self.errors.seek(0)
                raise AssertionError("the workload under %s %s: %s" % (
                    self.python.label, "ended" if ready else "does not answer",
                    self.errors.read().decode(errors="replace")[-2000:]))
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line.decode())

    def do(self, command, **kwargs):
        self.send(command, **kwargs)
        return self.answer()

    def start_workers(self, cpu=0, stat=0):
        """Parked workers; their names and tids are kept in .threads."""
        self.threads.update(self.do("workers", cpu=cpu, stat=stat))
        self.quiesce()

    def expect_said(self, byte):
        ready, _, _ = select.select([self.said], [], [], LIMIT)
        got = os.read(self.said, 1) if ready else None
        if got != byte:
            raise AssertionError("the workload said %r, not %r" % (got, byte))

    def tids(self):
        return sorted(int(t) for t in os.listdir("/proc/%d/task" % self.pid))

    def asleep(self):
        """{tid: times it has gone to sleep} if every thread sleeps now, else None."""
        seen = {}
        for tid in self.tids():
            try:
                with open("/proc/%d/task/%d/status" % (self.pid, tid)) as f:
                    text = f.read()
            except OSError:
                return None
            if not re.search(r"^State:\s+S", text, re.M):
                return None
            seen[tid] = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M).group(1)
        return seen

    def quiesce(self):
        """
        Returns when all threads are blocked for good. Two looks in a row that find the same
        threads asleep, none of which has slept again between them, mean that all slept at one
        instant; and then nobody is left who could wake another.
        """
        def still():
            first = self.asleep()
            return first and first == self.asleep()
        until(still, "the threads of %d come to rest" % self.pid)

    def syscall(self, tid):
        """Number of the system call in which a thread is blocked, or None."""
        try:
            with open("/proc/%d/task/%d/syscall" % (self.pid, tid)) as f:
                word = f.read().split()[0]
        except OSError:
            return None
        return int(word) if word.isdigit() else None

    def breakpoints(self):
        return breakpoints(self.pid, self.about["file"])


def breakpoints(pid, file):
    """How many bytes of a file's mapped code differ from it in a process: probes."""
    n = 0
    with open("/proc/%d/maps" % pid) as maps:
        lines = maps.readlines()
    for f in (line.split(None, 5) for line in lines):
        if len(f) < 6 or "x" not in f[1]:
            continue
        # From outside, the names begin with the root that the process runs in.
        if not f[5].split(" (deleted)")[0].strip().endswith(file):
            continue
        start, end = (int(a, 16) for a in f[0].split("-"))
        with open("/proc/%d/mem" % pid, "rb") as mem:
            mem.seek(start)
            live = mem.read(end - start)
        with open("/proc/%d/map_files/%x-%x" % (pid, start, end), "rb") as code:
            code.seek(int(f[2], 16))
            kept = code.read(end - start)
        if live[:len(kept)] != kept:
            n += sum(1 for a, b in zip(live, kept) if a != b)
    return n
