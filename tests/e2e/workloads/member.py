# SPDX-License-Identifier: Apache-2.0
"""A process, and whatever comes from it, for the tests of children, containers and names.
Runs on CPython 3.6 and newer.

    member.py SOCKET [ROLE]

Each process connects to the socket, says in a JSON line who it is, and then obeys: commands and
answers are JSON lines. What it forks, spawns or executes does the same by a connection of its own,
under the role given. It ends when the other side closes the connection.

Nothing happens between two commands: all threads are then blocked, without the GIL.
"""
import binascii
import ctypes
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
import traceback

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_NAME = 15
SWITCH_INTERVAL = 60  # seconds: nobody asks for the GIL, so each release is one that we made


def now():
    return int(time.monotonic() * 1e9)


def gettid():
    return int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])


class Link:
    """The connection to the test."""

    def __init__(self, path, role):
        born = now()
        self.path = path
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(path)
        self.lines = self.sock.makefile("r")
        self.say({"pid": os.getpid(), "ppid": os.getppid(), "tid": gettid(), "role": role,
                  "mono_ns": born, "version": list(sys.version_info[:3])})

    def say(self, answer):
        self.sock.sendall(json.dumps(answer).encode() + b"\n")

    def close(self):
        self.lines.close()
        self.sock.close()


link = None
workers = {}
kept = []  # what C code or other processes still use


def serve(path, role):
    """Obeys until the other side closes; never returns."""
    global link
    if link:
        link.close()  # our parent's
    workers.clear()
    maker = threading.Thread(target=int)  # up to 3.6 this makes the GIL
    maker.start()
    maker.join()
    sys.setswitchinterval(SWITCH_INTERVAL)
    link = Link(path, role)
    for line in link.lines:
        link.say(run(*json.loads(line)))
    os._exit(0)


def run(name, kwargs):
    """A command's answer; what goes wrong ends the process, whichever thread it is in."""
    try:
        return globals()["do_" + name](**kwargs)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def do_count(n, seconds=None):
    """n times one release and one take of the GIL, and no others: when, by whom."""
    begin, unix = now(), time.time()
    for _ in range(n):
        os.stat("/") if seconds is None else time.sleep(seconds)
    end, unix_end = now(), time.time()
    return {"pid": os.getpid(), "tid": gettid(), "n": n, "begin": begin, "end": end,
            "unix": [int(unix * 1e9), int(unix_end * 1e9)]}


def do_exit(status=0):
    os._exit(status)


# ---- children ----

def do_fork(role="fork"):
    pid = os.fork()
    if not pid:
        serve(link.path, role)
    return pid


def do_fork_in_thread():
    pids = []
    t = threading.Thread(target=lambda: pids.append(do_fork()))
    t.start()
    t.join()
    return pids[0]


def do_double_fork():
    """A grandchild whose parent ends before it says who it is."""
    pid = os.fork()
    if not pid:
        os.setsid()
        r, w = os.pipe()
        if os.fork():
            os._exit(0)
        os.close(w)
        os.read(r, 1)  # until our parent has ended
        serve(link.path, "daemon")
    os.waitpid(pid, 0)
    return pid


def do_process(method):
    """A multiprocessing.Process."""
    p = multiprocessing.get_context(method).Process(target=serve, args=(link.path, method))
    p.start()
    kept.append(p)
    return p.pid


def do_spawn(argv, env=None, close_fds=True):
    """A subprocess: by fork or vfork, and without close_fds by posix_spawn (3.8)."""
    p = subprocess.Popen(argv, env=env, close_fds=close_fds)
    kept.append(p)
    return p.pid


def do_exec(argv, env=None):
    os.execve(argv[0], argv, os.environ if env is None else env)


def do_brood(n, rounds=0):
    """n children one after another, which end by themselves at once; their pids."""
    pids = []
    for _ in range(n):
        pid = os.fork()
        if not pid:
            for _ in range(rounds):
                os.stat("/")
            os._exit(0)
        os.waitpid(pid, 0)
        pids.append(pid)
    return pids


def do_reap(pid):
    return os.waitpid(pid, 0)[1]


def enlist(path):
    """Of a worker of a pool: says who it is, and waits for a word."""
    kept.append(Link(path, "pool"))
    kept[-1].lines.readline()


def do_pool(method, size, tasks, rounds):
    """What multiprocessing.Pool's workers have counted, as a DataLoader uses them."""
    pool = multiprocessing.get_context(method).Pool(size, enlist, (link.path,))
    done = pool.map(do_count, [rounds] * tasks, chunksize=1)
    pool.close()  # terminate() might start a worker more
    pool.join()
    return done


# ---- threads ----

class Worker(threading.Thread):
    """Parked but when it does a command for somebody."""

    def __init__(self, name=None):
        threading.Thread.__init__(self, name=name)
        self.daemon = True
        self.gate, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.job = self.answer = self.last_name = None
        self.tid = 0

    def run(self):
        self.tid = gettid()
        while True:
            self.done.release()
            self.gate.acquire()
            if not self.job:
                return self.last_name and do_prctl(self.last_name)
            self.answer = self.job()

    def begin(self, what, kwargs):
        self.job = lambda: run(what, kwargs)
        self.gate.release()

    def finish(self):
        self.done.acquire()
        return self.answer


def do_threads(names):
    """Parked threads of these names (None: the name that Python gives); name -> tid."""
    made = [Worker(name) for name in names]
    for w in made:
        w.start()
    for w in made:
        w.done.acquire()
        workers[w.name] = w
    return {w.name: w.tid for w in made}


def do_in(thread, what, **kwargs):
    """A command in one of the threads."""
    workers[thread].begin(what, kwargs)
    return workers[thread].finish()


def do_all(what, **kwargs):
    """A command in all of them at once."""
    do_start(what, **kwargs)
    return [w.finish() for w in workers.values()]


def do_start(what, **kwargs):
    """The same, but answered at once."""
    for w in workers.values():
        w.begin(what, kwargs)


def do_nap(seconds):
    """Sleeps again and again, for good."""
    while True:
        time.sleep(seconds)


def do_leave(thread, name=None):
    """Ends one of them, which gives itself that name before."""
    w = workers.pop(thread)
    w.job, w.last_name = None, name
    w.gate.release()
    w.join()


def do_foreign(rounds):
    """A thread that C code made, which stays in Python; what it has counted."""
    told, tell = os.pipe()
    never = os.pipe()[0]

    def run(_):
        os.write(tell, json.dumps(do_count(rounds)).encode())
        os.read(never, 1)
        return None
    callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(run)
    thread = ctypes.c_ulong()
    kept.append(callback)
    if libc.pthread_create(ctypes.byref(thread), None, callback, None):
        raise OSError("pthread_create")
    return json.loads(os.read(told, 4096).decode())


# ---- names; in hex: any bytes ----

def do_prctl(name):
    if libc.prctl(PR_SET_NAME, binascii.unhexlify(name)):
        raise OSError("prctl")


def do_rename(thread, name):
    """By another thread than the one that gets the name."""
    if libc.pthread_setname_np(ctypes.c_ulong(workers[thread].ident), binascii.unhexlify(name)):
        raise OSError("pthread_setname_np")


def do_call(thread, name):
    """threading.Thread.name, for those that Python alone knows; None: the main thread."""
    (workers[thread] if thread else threading.main_thread()).name = name


def do_title(title):
    """As setproctitle does: over the arguments, and the environment behind them."""
    with open("/proc/self/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    begin, end = int(fields[45]), int(fields[48])  # arg_start, env_end
    with open("/proc/self/mem", "r+b", buffering=0) as mem:
        mem.seek(begin)
        mem.write(binascii.unhexlify(title)[:end - begin - 1].ljust(end - begin, b"\0"))


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "root")
