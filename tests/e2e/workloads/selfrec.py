# SPDX-License-Identifier: Apache-2.0
"""
A Python that records itself by libgiltrace.so, through ctypes, for test_embed_c.py:

    selfrec.py LIBRARY FOLDER SCENARIO [ARGUMENT...]

A scenario is a function below. Its last line on standard output is what it found, as JSON. 3.6 and
newer.
"""
import ctypes
import json
import os
import signal
import sys
import threading
import time


class Opts(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("output_dir", ctypes.c_char_p),
                ("pids", ctypes.c_void_p), ("n_pids", ctypes.c_size_t),
                ("duration_ns", ctypes.c_uint64), ("flags", ctypes.c_uint32),
                ("timeout_ms", ctypes.c_uint32), ("command", ctypes.c_char_p),
                ("args", ctypes.c_void_p)]


class Stats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + \
        [(n, ctypes.c_uint64)
         for n in ("events", "lost", "bytes", "elapsed_ns", "paused_ns", "marks")] + \
        [("processes", ctypes.c_uint32), ("state", ctypes.c_uint32), ("status", ctypes.c_int32)]


def declare(library):
    handle = ctypes.c_void_p
    library.giltrace_start.argtypes = [ctypes.POINTER(Opts), ctypes.POINTER(handle)]
    library.giltrace_mark.argtypes = [handle, ctypes.c_char_p]
    library.giltrace_file.argtypes = [handle, ctypes.c_size_t]
    for name in ("stats", "stop"):
        getattr(library, "giltrace_" + name).argtypes = [handle, ctypes.POINTER(Stats)]
    for name in ("pause", "resume", "free", "messages"):
        getattr(library, "giltrace_" + name).argtypes = [handle]
    for name in ("error", "messages", "file"):
        getattr(library, "giltrace_" + name).restype = ctypes.c_char_p
    return library


LIB = declare(ctypes.CDLL(sys.argv[1]))
# Keeps the GIL: a mark by it adds nothing to what is recorded.
QUIET = declare(ctypes.PyDLL(sys.argv[1]))
FOLDER = sys.argv[2]
RECORDING, PAUSED, ENDED = 1, 2, 3  # enum giltrace_state
START_PAUSED = 8


class Handle:
    def __init__(self, **opts):
        self.value = ctypes.c_void_p()
        opts.setdefault("output_dir", FOLDER.encode())
        self.result = LIB.giltrace_start(Opts(size=ctypes.sizeof(Opts), **opts), self.value)
        self.error = LIB.giltrace_error().decode()

    def call(self, name, *args):
        result = getattr(LIB, "giltrace_" + name)(self.value, *args)
        self.error = LIB.giltrace_error().decode()
        return result

    def mark(self, name):
        return QUIET.giltrace_mark(self.value, name.encode())

    def stats(self, name="stats"):
        s = Stats(size=ctypes.sizeof(Stats))
        result = self.call(name, s)
        return dict({f[0]: getattr(s, f[0]) for f in Stats._fields_}, result=result,
                    error=self.error if result else "")

    def stop(self):
        return self.stats("stop")

    def free(self):
        LIB.giltrace_free(self.value)
        self.value = None


def started(**opts):
    h = Handle(**opts)
    if h.result:
        raise SystemExit("giltrace_start: %d: %s" % (h.result, h.error))
    return h


def around(n):
    """Gives the GIL up and takes it again n times."""
    for _ in range(n):
        os.stat("/")


def left():
    """What a recording must leave as it was."""
    with open("/proc/self/task/%d/children" % os.getpid()) as f:
        children = f.read().split()
    return {"descriptors": sorted(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")),
            "children": children,
            "handlers": [str(signal.getsignal(s)) for s in (signal.SIGCHLD, signal.SIGPIPE)]}


def giltrace_pid():
    """Of the giltrace that has been started last."""
    return int(left()["children"][-1])


# ---- scenarios ----

def steps():
    """Marks around work that goes round a known number of times, a pause, and the numbers."""
    before = left()
    h = started(flags=START_PAUSED)
    during = left()
    found = {"pid": os.getpid(), "states": [h.stats()["state"]], "marks": []}
    around(1000)
    for i in range(4):
        begin = time.clock_gettime(time.CLOCK_MONOTONIC)
        if i % 2 == 0:
            assert h.call("resume") == 0, h.error
        h.mark("before %d" % i)
        around(100 + i)
        h.mark("after %d" % i)
        end = time.clock_gettime(time.CLOCK_MONOTONIC)
        if i % 2:
            assert h.call("pause") == 0, h.error
            around(1000)
        found["marks"].append([int(begin * 1e9), int(end * 1e9)])
        found["states"].append(h.stats()["state"])
    found["stats"] = h.stats()
    found["stops"] = [h.stop(), h.stop()]
    found["file"] = h.call("file", 0).decode()
    found["messages"] = h.call("messages").decode()
    found["late"] = [h.mark("late"), h.call("pause"), h.stats()]
    h.free()
    found["left"] = [before, during, left()]
    return found


def twice():
    """Two recordings at once, and one after them."""
    a, b = started(), started()
    a.mark("both")
    b.mark("both")
    around(100)
    first = a.stop()
    b.mark("one")
    around(100)
    second = b.stop()
    c = started()
    around(100)
    third = c.stop()
    files = [x.call("file", 0).decode() for x in (a, b, c)]
    for x in (a, b, c):
        x.free()
    return {"stops": [first, second, third], "files": files}


def fork():
    """A child between start and stop, which lives longer than the recording."""
    h = started()
    around(50)
    told, tell = os.pipe()
    hold, release = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(release)
        answers = [h.mark("x"), h.call("pause"), h.stats()["result"], h.stop()["result"]]
        around(1000)
        h.free()
        os.write(tell, json.dumps(answers).encode())
        os.read(hold, 1)
        os._exit(0)
    child = json.loads(os.read(told, 1000).decode())
    h.mark("forked")
    around(50)
    stop = h.stop()
    os.close(release)
    status = os.waitpid(pid, 0)[1]
    h.free()
    return {"pid": os.getpid(), "child": child, "stop": stop, "status": status}


def threads():
    """Eight of them use one recording, whatever the others do."""
    h = started()
    wrong, n = [], 8

    def use(i):
        for k in range(25):
            around(5)
            name = "%d.%d" % (i, k)
            err = (LIB if k % 2 else QUIET).giltrace_mark(h.value, name.encode())
            if err:
                wrong.append((name, err))
            if k == i:
                for call in ("pause", "resume"):
                    err = getattr(LIB, "giltrace_" + call)(h.value)
                    if err:
                        wrong.append((call, err))
            if h.stats()["result"]:
                wrong.append("stats")
    workers = [threading.Thread(target=use, args=(i,)) for i in range(n)]
    for w in workers:
        w.start()
    tids = [getattr(w, "native_id", 0) for w in workers]
    for w in workers:
        w.join()
    stops = []

    def stop():
        stops.append(h.stop())
    workers = [threading.Thread(target=stop) for _ in range(n)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    h.free()
    return {"wrong": wrong, "stops": stops, "tids": tids, "marks": n * 25}


def tracer_killed():
    """... while it records; this process goes on."""
    h = started()
    around(100)
    h.mark("before")
    # A block is written when it is a second old: 200 events take more than a clock's sample does.
    first, end = h.stats()["bytes"], time.monotonic() + 20
    while h.stats()["bytes"] < first + 300 and time.monotonic() < end:
        time.sleep(0.05)
    pid = giltrace_pid()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    around(100)
    found = {"mark": h.mark("after"), "stats": h.stats(), "stop": h.stop(),
             "file": h.call("file", 0).decode()}
    h.free()
    again = started()
    found["again"] = again.stop()
    again.free()
    found["children"] = left()["children"]
    return found


def impatient():
    """Starts that give up at different moments of giltrace's own start, and one that does not."""
    before, results = left(), []
    for ms in (1, 30, 100):
        h = Handle(timeout_ms=ms)
        results.append([h.result, h.error])
        if not h.result:
            h.free()
    between = left()
    h = started()
    around(100)
    stop = h.stop()
    h.free()
    return {"results": results, "stop": stop, "left": [before, between, left()]}


def job_killed():
    """Between two marks; giltrace finishes the file."""
    h = started()
    around(100)
    h.mark("before")
    print(giltrace_pid(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def executes():
    """Another program, which does not live on for giltrace."""
    h = started()
    around(100)
    h.mark("before")
    print(giltrace_pid(), flush=True)
    os.execl("/bin/cat", "cat")


def refused():
    """How a start fails; the command is the argument."""
    h = Handle(command=sys.argv[4].encode() if len(sys.argv) > 4 else None)
    found = {"result": h.result, "error": h.error, "null": h.value.value is None}
    if not h.result:
        h.mark("x")
        around(100)
        found.update(stop=h.stop(), file=h.call("file", 0).decode())
        h.free()
    found["children"] = left()["children"]
    return found


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[3]]()), flush=True)
