# SPDX-License-Identifier: Apache-2.0
"""A program that records itself, for the tests of that. Runs on CPython 3.6 and newer.

    embedded.py module|objects|PATH/libgiltrace.so

The word says by what it records: the functions of the Python package, its Recording objects, or the
C library, by ctypes. All three look the same to the tests, see class Recording below.

Commands come as JSON lines [number, where, code] on standard input; where: "main" runs the code in
the main thread, "thread" in one of its own. Each is answered on standard output by [number, value]
or [number, null, error]. Both descriptors are moved out of the way of tests that close 0 and 1.
"""
import ctypes
import gc
import json
import multiprocessing
import os
import resource  # noqa: F401: commands use it
import signal
import sys
import threading
import time

UP = 20  # the first descriptor of our own


def now():
    """On the clock of the events."""
    return int(time.monotonic() * 1e9)


def gettid():
    return int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])


class Uncaught(BaseException):
    """Nobody here catches it."""


# ---- the three ways to record ----

class CFailed(Exception):
    def __init__(self, rc, text):
        Exception.__init__(self, text)
        self.rc = rc


class Opts(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("output_dir", ctypes.c_char_p),
                ("pids", ctypes.POINTER(ctypes.c_int)), ("n_pids", ctypes.c_size_t),
                ("duration_ns", ctypes.c_uint64), ("flags", ctypes.c_uint32),
                ("timeout_ms", ctypes.c_uint32), ("command", ctypes.c_char_p),
                ("args", ctypes.POINTER(ctypes.c_char_p))]


class Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [
        (n, ctypes.c_uint64) for n in ("events", "lost", "bytes", "elapsed_ns", "paused_ns",
                                       "marks")] + [
        ("processes", ctypes.c_uint32), ("state", ctypes.c_uint32), ("status", ctypes.c_int32)]


STATES = {1: "recording", 2: "paused", 3: "ended"}


class ByLibrary:
    """As Recording is in the package, but stop() and others raise by what C returns."""

    lib = None

    @classmethod
    def load(cls, path):
        cls.lib = ctypes.CDLL(path)
        cls.lib.giltrace_error.restype = ctypes.c_char_p
        cls.lib.giltrace_file.restype = ctypes.c_char_p
        cls.lib.giltrace_messages.restype = ctypes.c_char_p

    def __init__(self, output_dir=None, pids=None, duration=None, paused=False, follow=False,
                 command=None, timeout=0, options=()):
        self.opts = o = Opts(size=ctypes.sizeof(Opts))
        o.output_dir = output_dir and output_dir.encode()
        if pids is not None:
            o.pids, o.n_pids = (ctypes.c_int * len(pids))(*pids), len(pids)
        o.duration_ns = int((duration or 0) * 1e9)
        o.flags = (8 if paused else 0) | (4 if follow else 0)
        o.timeout_ms = int(timeout * 1000)
        o.command = command and command.encode()
        if options:
            o.args = (ctypes.c_char_p * (len(options) + 1))(*[a.encode() for a in options])
        self.handle = ctypes.c_void_p()

    def check(self, rc):
        if rc:
            raise CFailed(rc, self.lib.giltrace_error().decode(errors="replace"))

    def start(self):
        self.check(self.lib.giltrace_start(ctypes.byref(self.opts), ctypes.byref(self.handle)))

    def mark(self, name):
        self.check(self.lib.giltrace_mark(self.handle, name.encode("utf-8", "surrogateescape")))

    def pause(self):
        self.check(self.lib.giltrace_pause(self.handle))

    def resume(self):
        self.check(self.lib.giltrace_resume(self.handle))

    def tell(self, stats):
        told = {n: getattr(stats, n) for n, _ in Stats._fields_}
        told["state"] = STATES[stats.state]
        return told

    def status(self):
        stats = Stats(size=ctypes.sizeof(Stats))
        self.check(self.lib.giltrace_stats(self.handle, ctypes.byref(stats)))
        return self.tell(stats)

    def files(self):
        names = iter(lambda n=iter(range(1000)): self.lib.giltrace_file(
            self.handle, ctypes.c_size_t(next(n))), None)
        return [os.fsdecode(name) for name in names]

    def stop(self):
        stats = Stats(size=ctypes.sizeof(Stats))
        rc = self.lib.giltrace_stop(self.handle, ctypes.byref(stats))
        error = self.lib.giltrace_error().decode(errors="replace") if rc else None
        told = self.tell(stats) if stats.state else {}
        told.update(ok=rc == 0, rc=rc, error=error, files=self.files(),
                    messages=self.lib.giltrace_messages(self.handle).decode(errors="replace"))
        return told

    def free(self):
        self.lib.giltrace_free(self.handle)
        self.handle = ctypes.c_void_p()


def told_by_result(result):
    if result is None:
        return None
    return {n: getattr(result, n) for n in ("ok", "status", "error", "messages", "files", "events",
                                            "lost", "marks")}


class ByObjects:
    """The package's Recording objects."""

    def __init__(self, **options):
        self.inner = giltrace.Recording(**options)

    def start(self):
        self.inner.start()

    def mark(self, name):
        return self.inner.mark(name)

    def pause(self):
        return self.inner.pause()

    def resume(self):
        return self.inner.resume()

    def status(self):
        return told_by_status(self.inner.status())

    def stop(self):
        return told_by_result(self.inner.stop())

    def free(self):
        self.inner = None


class ByModule:
    """The package's functions."""

    def __init__(self, **options):
        self.options = options

    def start(self):
        giltrace.start(**self.options)

    def mark(self, name):
        return giltrace.mark(name)

    def pause(self):
        return giltrace.pause()

    def resume(self):
        return giltrace.resume()

    def status(self):
        return told_by_status(giltrace.status())

    def stop(self):
        return told_by_result(giltrace.stop())

    def free(self):
        pass


def told_by_status(status):
    return status if status is None else dict(vars(status))


r = None  # the recording of start() and stop()


def start(output_dir, **options):
    global r
    r = Recording(output_dir=output_dir, **options)
    r.start()


def stop():
    """Of the recording, if it came to that."""
    return r.stop()


# ---- what the tests have it do ----

def rounds(n):
    """In each, the thread releases the GIL and takes it again: [tid, from, to]."""
    begin = now()
    for _ in range(n):
        os.stat("/")
    end = now()  # before gettid(), which releases it, too
    return [gettid(), begin, end]


def marked(name, n, each, recording=None):
    """Rounds, and a mark behind them, n times: [tid, [from, to, when the mark was set], ...]."""
    told = []
    for i in range(n):
        _, begin, end = rounds(each)
        (recording or r).mark("%s-%d" % (name, i))
        told.append([begin, end, now()])
    return [gettid(), told]


def together(*codes):
    """Each code in a thread of its own: their values, in that order."""
    values = [None] * len(codes)

    def run(i):
        values[i] = value(codes[i])
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(codes))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return values


def tried(code):
    """The value of an expression, or what it raises."""
    try:
        return [value(code), None]
    except Exception as err:
        return [None, described(err)]


def in_child(code, end="os._exit(0)"):
    """What an expression is worth in a child, which ends like that: [value, exit status]."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(writer, json.dumps(tried(code)).encode())
            os.close(writer)
            exec(end, globals())
        finally:
            os._exit(99)
    os.close(writer)
    with open(reader, "rb") as f:
        text = f.read()
    return [json.loads(text.decode()), os.waitpid(pid, 0)[1]]


def staying_child(code, raw=False):
    """
    The pid of a child that stays until it is killed. raw: made by clone(2) itself, so neither the
    interpreter nor a library learns of it; it runs no code.
    """
    libc = ctypes.PyDLL(None)
    clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    reader, writer = os.pipe()
    pid = libc.syscall(clone, int(signal.SIGCHLD), 0, 0, 0, 0) if raw else os.fork()
    if not pid:
        try:
            if not raw:
                exec(code, globals())
            os.write(writer, b"x")
            while True:
                libc.pause()
        finally:
            os._exit(99)
    os.close(writer)
    if os.read(reader, 1) != b"x":
        raise RuntimeError("the child has ended")
    os.close(reader)
    return pid


def by_multiprocessing(method, code):
    """The same as in_child(), in a Process of multiprocessing."""
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=process_main, args=(sys.argv[1], theirs, code))
    process.start()
    theirs.close()
    told = ours.recv()
    ours.close()
    process.join()
    return [told, process.exitcode]


def process_main(how, pipe, code):
    choose(how)
    pipe.send(tried(code))
    pipe.close()


def resources():
    """What must not grow with each recording, of this process."""
    gc.collect()
    with open("/proc/self/status") as f:
        lines = dict(line.split(":", 1) for line in f)
    children = []
    for tid in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/children" % tid) as f:
            children += f.read().split()
    return {"fds": len(os.listdir("/proc/self/fd")), "children": children,
            "threads": int(lines["Threads"]), "kib": int(lines["VmRSS"].split()[0])}


def cycle(output_dir, mark="x"):
    """A recording from begin to end: what stop() says."""
    recording = Recording(output_dir=output_dir)
    recording.start()
    rounds(10)
    recording.mark(mark)
    told = recording.stop()
    recording.free()
    return told


# ---- commands ----

def value(code):
    """An expression's value; statements have none."""
    try:
        compiled = compile(code, "<command>", "eval")
    except SyntaxError:
        exec(compile(code, "<command>", "exec"), globals())
        return None
    return eval(compiled, globals())


def described(err):
    return {"types": [c.__name__ for c in type(err).__mro__], "text": str(err),
            "rc": getattr(err, "rc", None)}


def obey(out, number, code):
    try:
        answer = [number, value(code)]
    except (Exception, KeyboardInterrupt) as err:
        answer = [number, None, described(err)]
    os.write(out, json.dumps(answer).encode() + b"\n")


def choose(how):
    global Recording, giltrace
    if how.endswith(".so"):
        Recording = ByLibrary
        ByLibrary.load(how)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as in a program in C
        return
    import giltrace
    Recording = {"module": ByModule, "objects": ByObjects}[how]


def main():
    os.dup2(0, UP, False)
    os.dup2(1, UP + 1, False)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    choose(sys.argv[1])
    with open(UP, "rb", closefd=False) as lines:
        for line in iter(lines.readline, b""):
            number, where, code = json.loads(line.decode())
            if where == "main":
                obey(UP + 1, number, code)
            else:
                threading.Thread(target=obey, args=(UP + 1, number, code), daemon=True).start()


if __name__ == "__main__":
    main()
