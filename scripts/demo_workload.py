#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python process whose threads fight for the GIL; runs until its standard input ends.

    python3 scripts/demo_workload.py [--cpu THREADS]

Threads cpu-0, cpu-1, ... compute in pure Python and give the GIL up only when asked to, every
5 ms. Thread "io" reads blocks from /dev/urandom: each read gives the GIL up for a while, and
after it the thread must wait behind the others. Prints "ready PID" once all threads run.
"""
import argparse
import os
import sys
import threading


def name_thread():
    # Before 3.14 CPython does not tell the kernel the names of its threads.
    name = threading.current_thread().name
    with open("/proc/self/task/%d/comm" % threading.get_native_id(), "w") as f:
        f.write(name[:15])


def compute(started, stop):
    name_thread()
    started.wait()
    x = 1
    while not stop.is_set():
        for _ in range(20000):
            x = (x * 1103515245 + 12345) & 0x7FFFFFFF


def read_blocks(started, stop):
    name_thread()
    with open("/dev/urandom", "rb", buffering=0) as f:
        started.wait()
        while not stop.is_set():
            sum(f.read(128 * 1024)[:1000])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", type=int, default=4, help="CPU-bound threads (default: 4)")
    args = parser.parse_args()

    stop = threading.Event()
    started = threading.Barrier(args.cpu + 2)
    threads = [threading.Thread(target=compute, name="cpu-%d" % i, args=(started, stop))
               for i in range(args.cpu)]
    threads.append(threading.Thread(target=read_blocks, name="io", args=(started, stop)))
    for t in threads:
        t.start()
    started.wait()
    print("ready %d" % os.getpid(), flush=True)
    try:
        sys.stdin.read()
    except KeyboardInterrupt:
        pass
    stop.set()
    for t in threads:
        t.join()


if __name__ == "__main__":
    main()
