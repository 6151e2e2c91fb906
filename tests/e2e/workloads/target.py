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
import ctypes
import json
import os
import sys
import threading

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


class Span(ctypes.Structure):
    _fields_ = [("begin_mono_ns", ctypes.c_int64), ("end_mono_ns", ctypes.c_int64),
                ("begin_unix_ns", ctypes.c_int64)]

    def plain(self):
        return [self.begin_mono_ns, self.end_mono_ns, self.begin_unix_ns]


workers = {}
held = free = None
if len(sys.argv) > 4:
    held, free = ctypes.PyDLL(sys.argv[4]), ctypes.CDLL(sys.argv[4])
    for f in (held.gh_hold, free.gh_free):
        f.argtypes = [ctypes.c_int64, ctypes.POINTER(Span)]
    held.gh_wait.argtypes = [ctypes.POINTER(Span)]
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


def do_grab():
    """Holds the GIL in C: says 'h' on SAY_FD, goes on when a byte comes on HEAR_FD."""
    return held.gh_hold_until(say_fd, hear_fd)


def do_waiter():
    """A thread that says 'w' on SAY_FD and wants the GIL when a byte comes on WAIT_FD."""
    tids = []

    def run():
        set_comm("waiter")
        tids.append(gettid())
        told.release()
        held.gh_wait_from(say_fd, wait_fd)
    told = threading.Semaphore(0)
    t = threading.Thread(target=run)
    t.daemon = True
    t.start()
    told.acquire()
    return tids[0]


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


def do_interpreters(n, rounds):
    """n interpreters with a GIL each (3.12+), all computing at once; the tids of their threads."""
    try:
        import _interpreters as sub
    except ImportError:
        import _xxsubinterpreters as sub  # 3.12
    code = "import os\nfor r in range(%d):\n    os.stat('/')\n    sum(range(200))\n" % rounds
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


def do_exec(path, args):
    """Becomes another program; if it is this one again, its first line is the answer."""
    sys.stdout.flush()
    os.execv(path, [path] + args)


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
              "gil": getattr(sys, "_is_gil_enabled", lambda: True)()}
    while True:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return
        name, kwargs = json.loads(line)
        answer = globals()["do_" + str(name)](**{str(k): v for k, v in kwargs.items()})


main()
