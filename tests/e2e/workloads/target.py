# SPDX-License-Identifier: Apache-2.0
"""The process that the attach tests trace. Runs on CPython 2.7 and 3.6 upwards.

    target.py SAY_FD HEAR_FD WAIT_FD [GILHOLD.so]

Commands come as JSON lines on standard input, each is answered by one JSON line on standard
output; the first line, without a command, says who this process is. Nothing happens between two
commands: every thread is then blocked, without the GIL.

The workers stand parked at a lock each. "run" lets some of them go, with or without a number of
rounds; "join" waits for these rounds, "park" stops them. The other commands are described where
they are.
"""
import binascii
import functools
import json
import mmap
import os
import sys
import threading
import time

say_fd, hear_fd, wait_fd = [int(a) for a in sys.argv[1:4]]


def gettid():
    return int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])


def set_comm(name):
    with open("/proc/thread-self/comm", "w") as f:
        f.write(name)


class Worker(threading.Thread):
    """Parked until go() is called, then works until `running` is false."""

    def __init__(self, name):
        threading.Thread.__init__(self, name=name)
        self.daemon = True
        self.gate = threading.Semaphore(0)
        self.parked = threading.Semaphore(0)
        self.running = self.away = False
        self.rounds = 0
        self.limit = None
        self.tid = 0

    def go(self, limit=None):
        self.rounds = 0
        self.limit = limit
        self.running = self.away = True
        self.gate.release()

    def run(self):
        set_comm(self.name)
        self.tid = gettid()
        while True:
            self.parked.release()
            self.gate.acquire()
            self.work()


class CpuWorker(Worker):
    def work(self):
        x = 0
        while self.running and self.rounds != self.limit:
            for i in range(500):
                x += i * i
            self.rounds += 1


class StatWorker(Worker):
    """One release and one take of the GIL each round (CPython releases it around stat(2))."""

    def work(self):
        while self.running and self.rounds != self.limit:
            os.stat("/")
            self.rounds += 1


workers = {}
held = free = None
if len(sys.argv) > 4:
    import ctypes  # only here: up to 3.6 this makes the GIL

    class Span(ctypes.Structure):
        _fields_ = [("begin_mono_ns", ctypes.c_int64), ("end_mono_ns", ctypes.c_int64),
                    ("begin_unix_ns", ctypes.c_int64)]

        def plain(self):
            return [self.begin_mono_ns, self.end_mono_ns, self.begin_unix_ns]

    held, free = ctypes.PyDLL(sys.argv[4]), ctypes.CDLL(sys.argv[4])
    for f in (held.gh_hold, free.gh_free):
        f.argtypes = [ctypes.c_int64, ctypes.POINTER(Span)]
    held.gh_wait.argtypes = [ctypes.POINTER(Span)]
    held.gh_swap.argtypes = [ctypes.c_int, ctypes.POINTER(Span)]
    held.gh_legacy.argtypes = [ctypes.c_char_p]
    free.gh_foreign.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int)]
    held.gh_init()


def do_workers(cpu=0, stat=0):
    """Starts parked workers; answers with the tid and the name of each."""
    for cls, n, name in ((CpuWorker, cpu, "cpu"), (StatWorker, stat, "stat")):
        for i in range(n):
            w = cls("%s-%d" % (name, i))
            workers[w.name] = w
            w.start()
            w.parked.acquire()  # it has set its tid and its name
    return {w.name: w.tid for w in workers.values()}


def do_run(names=None, limit=None):
    for name in sorted(names or workers):
        workers[name].go(limit)


def do_park():
    """Stops all workers that were let go; the rounds of each."""
    for w in workers.values():
        w.running = False
    return do_join()


def do_join():
    """Waits for the rounds of the workers that were let go; how many they were."""
    done = {}
    for w in workers.values():
        if w.away:
            w.parked.acquire()
            w.away = False
            done[w.name] = w.rounds
    return done


def do_hold(n, ns):
    """n times: one thread holds the GIL for `ns` in C while another waits for it in C."""
    holds, waits, tids = [Span() for _ in range(n)], [Span() for _ in range(n)], {}

    def holder():
        tids["holder"] = gettid()
        for s in holds:
            held.gh_hold(ns, s)

    def waiter():
        tids["waiter"] = gettid()
        for s in waits:
            held.gh_wait(s)
    both(holder, waiter)
    return {"holder": tids["holder"], "waiter": tids["waiter"],
            "holds": [s.plain() for s in holds], "waits": [s.plain() for s in waits]}


def do_free(n, ns):
    """n times busy for `ns` in C without the GIL."""
    spans, tids = [Span() for _ in range(n)], {}

    def run():
        tids["free"] = gettid()
        for s in spans:
            free.gh_free(ns, s)
    both(run)
    return {"tid": tids["free"], "spans": [s.plain() for s in spans]}


def do_grab(thread=False):
    """
    Holds the GIL in C: says 'h' on SAY_FD, goes on when a byte comes on HEAR_FD. If asked for, it
    is a new thread that does so; the tid of that.
    """
    tids = []

    def run():
        held.gh_hold_until(say_fd, hear_fd)
        tids.append(gettid())
    if not thread:
        return held.gh_hold_until(say_fd, hear_fd)
    both(run)
    return tids[0]


def do_waiter(name="waiter", tid=0):
    """
    A thread that says 'w' on SAY_FD and wants the GIL when a byte comes on WAIT_FD; its tid. With
    `tid` it gets that one, which must be free: the kernel is told which it gave last.
    """
    return start(name, lambda: held.gh_wait_from(say_fd, wait_fd), tid)


def start(name, function, tid=0):
    """A daemon thread of that name that calls the function; its tid, see do_waiter()."""
    tids = []

    def run():
        tids.append(gettid())
        if tid not in (0, tids[-1]):
            return told.release()
        set_comm(name)
        told.release()
        function()
    told = threading.Semaphore(0)
    for _ in range(100):  # another process may get it in between
        t = threading.Thread(target=run)
        t.daemon = True
        if tid:
            with open("/proc/sys/kernel/ns_last_pid", "w") as f:
                f.write(str(tid - 1))
        t.start()
        told.acquire()
        if tid in (0, tids[-1]):
            break
    return tids[-1]


def do_apart(wait):
    """
    A thread holds the GIL of another interpreter for ever (3.12), says 'h' on SAY_FD, to be
    answered on HEAR_FD. If asked for, a second one waits for it, for ever, but it ends by SIGUSR1
    as by pthread_exit; the tid of that.
    """
    free.gh_end_by_signal()
    start("apart", lambda: held.gh_hold_apart(say_fd))
    os.read(hear_fd, 1)
    return start("first", held.gh_wait_apart) if wait else 0


def do_end(holding):
    """
    A thread that ends without a word to Python, with the GIL or without it; who and when it says
    on SAY_FD. Not answered: Python waits for ever.
    """
    both(lambda: (held if holding else free).gh_end_thread(say_fd))


class Last(object):
    """Calls a function when it is destroyed."""

    def __init__(self, *call):
        self.call = call

    def __del__(self):
        self.call[0](*self.call[1:])


def do_finish(release):
    """
    Holds the GIL in C as by "grab"; then the interpreter ends, and as soon as it counts as ending
    this thread once more holds the GIL in C, or goes without it (says 'w'), until told.
    """
    # The first thing that an interpreter drops once it has said that it is ending.
    sys.last_value = Last(held.gh_wait_from if release else held.gh_hold_until, say_fd, hear_fd)
    held.gh_hold_until(say_fd, hear_fd)
    sys.exit(0)  # and no call on the way that releases the GIL


def do_foreign(n, rounds):
    """n threads of C take and release the GIL so often by PyGILState_*; their tids."""
    tids = (ctypes.c_int * n)()
    if free.gh_foreign(n, rounds, tids):
        raise RuntimeError("gh_foreign")
    return list(tids)


def do_swap(n):
    """
    Goes n times to an interpreter with a GIL of its own and back, by PyThreadState_Swap; the span
    in which it did nothing else.
    """
    span = Span()
    failed = held.gh_swap(n, span)
    if failed:
        raise RuntimeError("gh_swap: %d" % failed)
    return span.plain()


def do_legacy(n, rounds):
    """n threads, each with an interpreter that shares the main one's GIL; their tids."""
    code = "import os\nfor r in range(%d):\n    os.stat('/')\n    sum(range(200))\n" % rounds
    tids = []

    def one():
        tids.append(gettid())
        if held.gh_legacy(code.encode()):
            raise RuntimeError("gh_legacy")
    both(*[one] * n)
    return tids


def do_enable():
    """
    Loads the C half as an extension module that does not say it can do without the GIL: a
    free-threaded build switches it on. When that was, in ns.
    """
    import importlib.machinery
    import importlib.util
    loader = importlib.machinery.ExtensionFileLoader("gilhold", sys.argv[4])
    begin = time.monotonic()
    importlib.util.module_from_spec(importlib.util.spec_from_loader("gilhold", loader))
    if not sys._is_gil_enabled():
        raise RuntimeError("the GIL is still off")
    return [int(begin * 1e9), int(time.monotonic() * 1e9)]


def do_race(seconds, interval, limit=None, **kinds):
    """
    Threads of these kinds, cpu=2 and so on, until the time is over or each has done so many
    rounds. Name -> tid, rounds, and the span in ns in which it did nothing else.
    """
    def cpu(end):
        n = x = 0
        while time.monotonic() < end:  # no call that releases the GIL
            for i in range(100):
                x += i * i
            n += 1
        return n

    def stat(end):
        n = 0
        while time.monotonic() < end and n != limit:
            os.stat("/")
            n += 1
        return n

    def nap(end):
        n = 0
        while time.monotonic() < end:
            time.sleep(0.0002)
            n += 1
        return n

    def run(name, work):
        set_comm(name)
        tid = gettid()
        ready.release()
        gate.acquire()
        begin = time.monotonic()
        rounds = work(ends[0])
        done[name] = [tid, rounds, int(begin * 1e9), int(time.monotonic() * 1e9)]
    ready, gate, done, ends, threads = threading.Semaphore(0), threading.Semaphore(0), {}, [], []
    works = {"cpu": cpu, "stat": stat, "nap": nap}
    for kind, n in kinds.items():
        for i in range(n):
            t = threading.Thread(target=run, args=("%s-%d" % (kind, i), works[kind]))
            t.daemon = True
            threads.append(t)
            t.start()
            ready.acquire()
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    ends.append(time.monotonic() + seconds)
    for t in threads:
        gate.release()
    for t in threads:
        t.join()
    sys.setswitchinterval(before)
    return done


def do_burn(path):
    """Computes in the main thread until the first byte of that file is no longer 0."""
    with open(path, "r+b") as f:
        flag = mmap.mmap(f.fileno(), 1)
    free.gh_say(say_fd)
    while flag[0] == 0:
        pass


def do_churn(n):
    """n threads one after another, each with ten rounds of os.stat; their tids."""
    tids = []

    def run():
        tids.append(gettid())
        for _ in range(10):
            os.stat("/")
    for _ in range(n):
        both(run)
    return tids


def do_fork(n):
    """A child that goes round n times in os.stat, in two threads; its pid."""
    def spin():
        for _ in range(n):
            os.stat("/")
    pid = os.fork()
    if pid == 0:
        try:
            both(spin, spin)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    return pid


def do_children():
    """A child of each kind there is besides fork; their pids."""
    import multiprocessing
    import subprocess

    def spin():
        both(*[lambda: [os.stat("/") for _ in range(100)]] * 2)
    worker = multiprocessing.get_context("fork").Process(target=spin)
    worker.start()
    worker.join()
    pids = [worker.pid]
    command = [sys.executable, "-S", "-c", "import os; [os.stat('/') for _ in range(100)]"]
    for close in (True, False):  # by fork or vfork, and by posix_spawn (3.8)
        p = subprocess.Popen(command, close_fds=close)
        p.wait()
        pids.append(p.pid)
    return pids


def do_interpreters(n, rounds):
    """n interpreters with a GIL each (3.12+), all computing at once; the tids of their threads."""
    try:
        import _interpreters as sub
    except ImportError:
        import _xxsubinterpreters as sub  # 3.12
    code = "sum(range(200000))\nimport os\n"
    code += "for r in range(%d):\n    os.stat('/')\n    sum(range(200))\n" % rounds
    tids = []

    def one(i):
        tids.append(gettid())
        failed = sub.run_string(i, code)  # raises up to 3.12, returns what went wrong from 3.13
        if failed:
            raise RuntimeError(failed)
    ids = [sub.create() for _ in range(n)]
    both(*[lambda i=i: one(i) for i in ids])
    for i in ids:
        sub.destroy(i)
    return tids


def do_rename(tid, name):
    """Gives a thread a name, in hex: any bytes."""
    with open("/proc/self/task/%d/comm" % tid, "wb") as f:
        f.write(binascii.unhexlify(name))


def do_title(title):
    """Does as setproctitle: a title, in hex, over the arguments and over the environment behind."""
    with open("/proc/self/stat", "rb") as f:
        words = f.read().rpartition(b")")[2].split()
    begin, end = int(words[45]), int(words[48])  # arg_start and env_end, see proc(5)
    with open("/proc/self/mem", "r+b", 0) as f:
        f.seek(begin)
        f.write(binascii.unhexlify(title)[:end - begin - 1].ljust(end - begin, b"\0"))


def do_open(path):
    """Opens a file, or a device, and keeps it; the descriptor."""
    return os.open(path, os.O_RDWR)


def do_close(fd):
    os.close(fd)


def do_map(path):
    """Maps the first page of a file, or of a device, and keeps nothing else of it."""
    import ctypes
    fd = os.open(path, os.O_RDWR)
    call = ctypes.CDLL(None).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    if call(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0) in (None, 2**64 - 1):
        raise OSError("mmap of %s" % path)
    os.close(fd)


def do_exec(path, args, thread=False):
    """
    Becomes another program, perhaps called by a thread that is not the first one; if it is this
    one again, its first line is the answer.
    """
    sys.stdout.flush()
    run = functools.partial(os.execv, path, [path] + args)
    both(run) if thread else run()


def do_argv():
    return sys.argv


def do_ping():
    return "pong"


def do_interval(seconds):
    sys.setswitchinterval(seconds)


def do_exit(status=0):
    os._exit(status)


def both(*functions):
    threads = [threading.Thread(target=f) for f in functions]
    for t in threads:
        t.daemon = True
        t.start()
    for t in threads:
        t.join()


def python_file():
    """The mapped file that holds CPython: libpython, else the executable."""
    with open("/proc/self/maps") as f:
        for line in f:
            path = line.split(None, 5)[5].strip() if line.count("/") else ""
            if " r-xp " in line and os.path.basename(path).startswith(
                    "libpython%d.%d" % sys.version_info[:2]):
                return path
    return os.path.realpath("/proc/self/exe")


def main():
    answer = {"pid": os.getpid(), "version": list(sys.version_info[:3]), "file": python_file(),
              "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
              "free_threaded": "t" in getattr(sys, "abiflags", "")}
    while True:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return
        name, kwargs = json.loads(line)
        answer = globals()["do_" + str(name)](**{str(k): v for k, v in kwargs.items()})


main()
