# SPDX-License-Identifier: Apache-2.0
"""Programs that record themselves (workloads/embedded.py), and what is asked of what they leave.

Each job has a giltrace of its own name, so that its processes can be told from those of others.
What the kernel has is compared before and after a test, less what somebody else's processes hold:
other recordings may be going on here.
"""
import concurrent.futures
import contextlib
import ctypes
import errno
import functools
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import harness as h
from odd import FUTEX

NOBODY = 65534
MODULE, OBJECTS, C = "module", "objects", "c"
FACES = (MODULE, C)
UP = 20  # as in workloads/embedded.py
STOPPED = (h.END_STOPPED,)


@functools.lru_cache(None)
def package():
    """The folder with a copy of the package, which others may reach, too."""
    top = os.path.join(h.scratch(), "python")
    shutil.copytree(os.path.join(h.TESTS, "..", "src", "python", "giltrace"),
                    os.path.join(top, "giltrace"),
                    ignore=shutil.ignore_patterns("__pycache__"))
    return top


@functools.lru_cache(None)
def script():
    return shutil.copy(os.path.join(h.WORKLOADS, "embedded.py"), h.scratch())


def now():
    """On the clock of the events."""
    return int(time.monotonic() * 1e9)


def executables():
    """pid -> what it runs, of all processes that run something; zombies do not."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found[int(pid)] = os.readlink("/proc/%s/exe" % pid)
        except OSError:
            continue
    return found


def parent(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def is_ours(exe):
    """Is it a giltrace of this test run?"""
    return exe.startswith(h.scratch() + "/") and os.path.basename(exe).startswith("giltrace")


# ---- the kernel's own lists ----

class Objects:
    """A process, as far as h.Recorder looks at one."""

    kernel_objects = h.Recorder.kernel_objects
    status = h.Recorder.status

    def __init__(self, pid):
        self.pid = pid


def kernel_list():
    """All BPF programs, maps and links of this machine: {("prog", 7), ...}."""
    syscall = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    found = set()
    for kind, command in (("prog", 11), ("map", 12), ("link", 31)):  # BPF_*_GET_NEXT_ID
        number = 0
        while True:
            attr = ctypes.create_string_buffer(struct.pack("<III", number, 0, 0), 12)
            if libc.syscall(syscall, command, attr, 12):
                if ctypes.get_errno() != errno.ENOENT:
                    raise OSError(ctypes.get_errno(), "bpf(2) for the next %s" % kind)
                break
            number = struct.unpack_from("<II", attr)[1]
            found.add((kind, number))
    return found


def held_by_others():
    """What processes hold that are no giltrace of this test run."""
    held = set()
    for pid, exe in executables().items():
        if not is_ours(exe):
            try:
                held |= Objects(pid).kernel_objects()
            except OSError:
                continue
    return held


def leftovers(before):
    """What has come since, and is nobody else's."""
    new = kernel_list() - before
    return new and new - held_by_others()


# ---- a giltrace that a job has started ----

class Tracer(Objects):
    def freeze(self):
        os.kill(self.pid, signal.SIGSTOP)
        h.until(lambda: self.status(r"^State:\s+[TZ]"), "giltrace is stopped")
        self.objects = self.kernel_objects()

    def thaw(self):
        os.kill(self.pid, signal.SIGCONT)

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)

    def has(self, kind):
        return any(k == kind for k, _ in self.kernel_objects())


class Held:
    """A command that becomes giltrace when it is told to: .command, .pid(), .go()."""

    TEXT = ('#!/bin/sh\necho $$ >"%(dir)s/pid.new"\nmv "%(dir)s/pid.new" "%(dir)s/pid"\n'
            'read -r _ <"%(dir)s/go"\nexec "%(giltrace)s" "$@"\n')

    def __init__(self, job):
        self.dir = h.new_dir()
        os.mkfifo(os.path.join(self.dir, "go"))
        self.command = program(self.TEXT % {"dir": self.dir, "giltrace": job.giltrace})

    def pid(self):
        path = os.path.join(self.dir, "pid")
        h.until(lambda: os.path.exists(path), "the command has been started")
        with open(path) as f:
            return int(f.read())

    def go(self):
        with open(os.path.join(self.dir, "go"), "w") as f:
            f.write("\n")


def program(text, mode=0o755):
    """The path of a new file with that text."""
    path = os.path.join(h.new_dir(), "giltrace-but-not")
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


# ---- the program ----

class Failed(Exception):
    """What a job's command has raised."""

    def __init__(self, told):
        Exception.__init__(self, "%s: %s" % (told["types"][0], told["text"]))
        self.types, self.text, self.rc = told["types"], told["text"], told["rc"]


class Job:
    """A context manager that kills what is left of it."""

    def __init__(self, face, py=None, front=(), env=None, **kwargs):
        self.face, self.python = face, py or h.python()
        self.giltrace = os.path.join(h.new_dir(), "giltrace")
        os.link(h.tool("giltrace"), self.giltrace)
        self.dir = h.new_dir()
        drop = h.RANK_VARIABLES + ("SUDO_UID", "SUDO_GID", "SUDO_USER", "GILTRACE_DATA_DIR")
        full = {k: v for k, v in os.environ.items() if k not in drop}
        full.update(self.python.env, PYTHONPATH=package(), PYTHONDONTWRITEBYTECODE="1",
                    GILTRACE_COMMAND=self.giltrace, **(env or {}))
        word = h.tool("libgiltrace.so") if face == C else face
        self.errors = tempfile.TemporaryFile(dir=h.scratch())
        self.proc = subprocess.Popen(list(front) + self.python.command() + [script(), word],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                     stderr=self.errors, env=full, start_new_session=True, **kwargs)
        self.pid = self.proc.pid
        self.number, self.places, self.answers, self.buffer = 0, {}, {}, b""
        try:
            self.do("None")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        self.proc.stdin.close()
        self.proc.stdout.close()
        self.errors.close()

    def text(self):
        """What it has said on standard error."""
        return os.pread(self.errors.fileno(), 1 << 16, 0).decode(errors="replace")

    def send(self, code, where="main"):
        """A command, whose number is the key to its answer."""
        self.number += 1
        line = json.dumps([self.number, where, code]).encode() + b"\n"
        self.proc.stdin.write(line)
        self.places[self.number] = where
        return self.number

    def answered(self, number):
        """Has it answered by now?"""
        while number not in self.answers and select.select([self.proc.stdout], [], [], 0)[0]:
            self.read()
        return number in self.answers

    def answer(self, number, limit=h.LIMIT):
        end = time.monotonic() + limit
        while number not in self.answers:
            left = end - time.monotonic()
            if left < 0 or not select.select([self.proc.stdout], [], [], left)[0]:
                raise AssertionError("the job does not answer: %s" % self.text()[-3000:])
            self.read()
        told = self.answers.pop(number)
        if len(told) > 2:
            raise Failed(told[2])
        return told[1]

    def read(self):
        chunk = os.read(self.proc.stdout.fileno(), 1 << 16)
        if not chunk:
            raise AssertionError("the job has ended, %s: %s" % (self.proc.wait(),
                                                                self.text()[-3000:]))
        lines = (self.buffer + chunk).split(b"\n")
        self.buffer = lines.pop()
        for line in lines:
            told = json.loads(line.decode())
            self.answers[told[0]] = told

    def do(self, code, where="main"):
        return self.answer(self.send(code, where))

    def call(self, function, *args, **kwargs):
        """As do(), of a function of workloads/embedded.py."""
        return self.do(call(function, *args, **kwargs))

    def begin(self, where="main", **options):
        """Sends start(); to be answered."""
        options.setdefault("output_dir", self.dir)
        return self.send(call("start", **options), where)

    def start(self, **options):
        self.answer(self.begin(**options))

    def stop(self):
        return self.do("stop()")

    def giltraces(self):
        """Its giltrace, the processes that one has made, and what is left of earlier ones."""
        return [pid for pid, exe in executables().items() if exe == self.giltrace]

    def tracer(self):
        """Its giltrace, which there is."""
        def child():
            try:
                return [pid for pid in self.giltraces() if parent(pid) == self.pid]
            except OSError:  # one has ended meanwhile
                return None
        return Tracer(h.until(child, "the job has a giltrace")[0])

    def waits(self, number):
        """Returns when the thread of a command is blocked, for another thing than the GIL."""
        main = self.places[number] == "main"

        def blocked():
            if self.answered(number):
                raise AssertionError("it does not wait: %s" % (self.answers[number],))
            for tid in os.listdir("/proc/%d/task" % self.pid):
                with open("/proc/%d/task/%s/syscall" % (self.pid, tid)) as f:
                    words = f.read().split()
                if (int(tid) == self.pid) == main and words[0].isdigit() and \
                        int(words[0]) != FUTEX and int(words[1], 16) != UP:  # a command's read(2)
                    return True
            return False
        h.until(blocked, "the job waits")

    def probed(self):
        """Is there a probe in the code of its CPython? As h.breakpoints(), in a millisecond."""
        with open("/proc/%d/maps" % self.pid) as maps:
            line, = [m for m in maps if " r-xp " in m and m.endswith(" %s\n" % self.python.file)]
        span, _, offset = line.split()[:3]
        start, end = (int(a, 16) for a in span.split("-"))
        with open("/proc/%d/mem" % self.pid, "rb", 0) as mem, open(self.python.file, "rb") as code:
            mem.seek(start)
            code.seek(int(offset, 16))
            kept = code.read(end - start)
            return mem.read(len(kept)) != kept

    def files(self):
        return sorted(os.path.join(self.dir, f) for f in os.listdir(self.dir)
                      if f.endswith(".gil"))

    def recording(self):
        path, = self.files()
        return h.Recording(path)

    def until_no_giltrace(self, limit=20):
        h.until(lambda: not self.giltraces(), "no giltrace of %d is left" % self.pid, limit)


def call(function, *args, **kwargs):
    """The text of a call."""
    words = [repr(a) for a in args] + ["%s=%r" % kv for kv in sorted(kwargs.items())]
    return "%s(%s)" % (function, ", ".join(words))


class InStart:
    """A job in start(), which does not go on until told to: see the phases."""

    def __init__(self, job, phase, where="thread"):
        self.job, self.held = job, None
        if phase == "held":  # the command runs, and is no giltrace yet
            self.held = Held(job)
            self.begun = job.begin(where, command=self.held.command)
            self.pid = self.held.pid()
            return
        # This one takes its time for that.
        options = ["--backend=" + h.backends()[-1]] if phase == "placed" else []
        self.begun = job.begin(where, options=options)
        self.tracer = job.tracer()
        self.pid = self.tracer.pid
        h.until(getattr(self, phase), "%s in start()" % phase)
        self.tracer.freeze()

    def loading(self):
        return self.tracer.has("prog")

    def placed(self):
        return self.tracer.has("link") and self.job.probed()

    def go_on(self):
        if self.held:
            self.held.go()
        else:
            self.tracer.thaw()


def marks(rec, tid=None):
    """(name, time, tid) of each mark, in the order of time."""
    found = [(e.name, e.ns, e.tid) for e in rec.marks if tid in (None, e.tid)]
    return sorted(found, key=lambda m: m[1])


def releases(rec, done):
    """How often a thread that went rounds gave up the GIL in that time, by the file."""
    tid, begin, end = done
    return sum(1 for e in rec.between(begin, end, tid) if e.kind == h.RELEASE)


def each_face(*faces):
    """Decorator: test(self, face) is run for each way to record (two of them), all at once."""
    def decorate(test):
        @functools.wraps(test)
        def run(self):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                runs = [(face, pool.submit(test, self, face)) for face in faces or FACES]
            for face, result in runs:
                with self.subTest(face=face):
                    result.result()
        return run
    return decorate


@contextlib.contextmanager
def about(what):
    """Says what a failure is about: subTest() is for one thread only."""
    try:
        yield
    except (AssertionError, Failed) as err:
        raise AssertionError("%s: %s" % (what, err)) from err


class EmbedTest(h.BpfTest):
    """A test that must leave no process and no probe, whatever happened in it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # What is made once is made before threads could make it twice.
        package(), script(), h.tool("libgiltrace.so"), h.python()

    def setUp(self):
        self.before = kernel_list()
        self.addCleanup(self.check_nothing_left)

    def check_nothing_left(self):
        def ours():
            return [pid for pid, exe in executables().items() if is_ours(exe)]
        h.until(lambda: not ours(), "no giltrace is left", limit=20)
        self.check_kernel()

    def check_kernel(self):
        """All BPF objects that have come since the test began have gone."""
        h.until(lambda: not leftovers(self.before), "BPF objects go")

    def job(self, face, **kwargs):
        job = Job(face, **kwargs)
        self.addCleanup(job.__exit__)
        return job

    def fails(self, job, number):
        """What a command raises."""
        try:
            got = job.answer(number)
        except Failed as err:
            self.assertTrue(err.text, err.types)
            if job.face != C:
                self.assertIn("GiltraceError", err.types, err)
            else:
                self.assertLess(err.rc, 0, err)
            return err
        self.fail("it returned %r" % (got,))

    def check_refused(self, job, code, rc=-errno.EPIPE):
        """A call without a recording, or after its end: an error in C, False in the package."""
        got, err = job.call("tried", code)
        if job.face == C:
            self.assertEqual(err["rc"], rc, err)
            self.assertTrue(err["text"])
        else:
            self.assertEqual((got, err), (False, None), code)

    def check_file(self, rec, reasons=STOPPED):
        """Whole, sound, and readable to its end."""
        self.assertIsNone(rec.problem)
        self.assertIsNotNone(rec.end, "%s has no end" % rec.path)
        self.assertIn(rec.end.reason, reasons, rec.path)
        self.assertEqual(rec.faults()[:5], [], rec.path)
        rec.trace()

    def check_begun(self, rec):
        """Sound, as far as it was written."""
        self.assertEqual(rec.violations()[:5], [], rec.path)

    def check_alive(self, job):
        """The job goes on, unprobed, and can be recorded again."""
        self.assertEqual(job.do("6 * 7"), 42)
        self.assertFalse(job.probed())
