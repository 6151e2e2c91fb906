# SPDX-License-Identifier: Apache-2.0
"""
Programs whose results are known: each goes round until its standard input ends, and each round must
come to what the first one came to, which nobody disturbed.

    unharmed.py NAME [ARGUMENT]

Says "ready" after the first round; at last all results, each once. Exits with 7. CPython 3.6 and newer.
"""
import binascii
import hashlib
import os
import select
import signal
import sys
import threading
import time

DATA = bytes(range(256)) * 64  # so much that hashlib releases the GIL


def together(*functions):
    """All at once, each in a thread; what they return."""
    results = [None] * len(functions)

    def run(i):
        results[i] = functions[i]()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def compute():
    return sum(i * i for i in range(8000))


def digest():
    value = 0
    for i in range(30):
        value ^= binascii.crc32(hashlib.sha256(DATA + bytes([i])).digest() + DATA)
        os.stat("/")
    return value


def relay():
    """Two threads that hand a number to and fro, by locks and a pipe."""
    r, w = os.pipe()
    turn, total = threading.Semaphore(0), []

    def other():
        for _ in range(20):
            turn.acquire()
            os.write(w, b"%c" % (len(total) % 251))
    t = threading.Thread(target=other)
    t.start()
    for _ in range(20):
        turn.release()
        total.append(os.read(r, 1)[0])
    t.join()
    os.close(r)
    os.close(w)
    return sum(total)


def forked():
    """The status of a child that computes, with a thread of its own."""
    pid = os.fork()
    if pid == 0:
        value = 1
        try:
            value = sum(together(compute, digest)) % 100 + 3
        finally:
            os._exit(value)
    return os.waitpid(pid, 0)[1]


def mixed(ticks=[]):
    """Threads, children, and a signal several thousand times a second."""
    def tick(number, frame):
        ticks.append(number)
    if not ticks:
        signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
    results = together(compute, digest, relay, digest) + [forked()]
    time.sleep(0.001)
    return results


def forks():
    """Many children, while other threads are at work."""
    return together(lambda: [forked() for _ in range(3)], lambda: [forked() for _ in range(3)],
                    digest, compute)


def greenlets():
    """Stacks that are switched, deep ones, too; greenlets in threads; a pool of threads of gevent's."""
    import gevent
    import gevent.pool
    import gevent.queue
    import gevent.threadpool

    def deep(n, queue):
        if n:
            return deep(n - 1, queue) + n
        gevent.sleep(0)
        queue.put(n)
        os.stat("/")
        return queue.get()

    def swarm():
        pool, queue = gevent.pool.Pool(20), gevent.queue.Queue()
        values = pool.map(lambda n: deep(n, queue), range(60))
        return sum(values)

    def served():
        pool = gevent.threadpool.ThreadPool(3)
        jobs = [pool.spawn(digest) for _ in range(4)] + [pool.spawn(compute)]
        return [swarm()] + [job.get() for job in jobs]
    return together(swarm, served, swarm)


def thrown():
    """C++ exceptions: caught where the GIL is taken on the way, and right through frames of Python."""
    import ctypes
    lib = ctypes.PyDLL(sys.argv[2])
    lib.leap.argtypes = lib.round.argtypes = [ctypes.py_object, ctypes.c_long]
    lib.throw_it.argtypes = [ctypes.c_long]

    def one():
        def inner(n):
            os.stat("/")
            if n == 0:
                lib.throw_it(5)
            inner(n - 1)

        def fails():
            os.stat("/")
            raise ValueError("to be thrown")
        return ([lib.leap(lambda: inner(n), n) for n in range(10)] +
                [lib.round(fails, n) for n in range(10)])
    return together(one, one, digest, compute)


def loaded():
    """A DataLoader of PyTorch with a worker process and threads beside it."""
    import torch
    import torch.utils.data

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, i):
            return torch.full((64,), float(i * i)) + compute() % 7

    def epoch():
        loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=1)
        return [float(batch.sum()) for batch in loader]
    return together(epoch, digest, compute)


def counted(state=[]):
    """
    Real-time signals are not merged: each comes. How many have come is told at the end, by the bytes
    that the C half of the handler writes for each.
    """
    if not state:
        r, w = os.pipe()
        os.set_blocking(w, False)
        state.append([r, 0])
        signal.signal(signal.SIGRTMIN + 2, lambda number, frame: None)
        signal.set_wakeup_fd(w)

        def drain():
            while True:
                state[0][1] += len(os.read(r, 65536))
        threading.Thread(target=drain, daemon=True).start()
    return together(compute, digest, relay)


def daemons():
    """Threads that are at work when the interpreter ends."""
    def work(what):
        while True:
            what()
    if threading.active_count() < 5:
        for what in (compute, digest, lambda: os.stat("/"), relay):
            threading.Thread(target=work, args=(what,), daemon=True).start()
    return together(compute, digest)


def ended():
    return select.select([0], [], [], 0)[0]


def main():
    program = globals()[sys.argv[1]]
    results = {repr(program())}
    rounds = 1
    print("ready", flush=True)
    while not ended():
        results.add(repr(program()))
        rounds += 1
    if program is counted:
        os.read(0, 1)
        before = -1
        while counted.__defaults__[0][0][1] != before:  # it has been drained
            before = counted.__defaults__[0][0][1]
            time.sleep(0.2)
        print("signals", before, flush=True)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("\n".join(sorted(results)), flush=True)
    sys.stderr.write("%d rounds\n" % rounds)
    sys.exit(7)


main()
