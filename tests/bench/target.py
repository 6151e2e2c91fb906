# SPDX-License-Identifier: Apache-2.0
"""The process that bench.py measures. Reads commands from standard input, answers in one line each:

    stat N              N times os.stat("/") in the main thread: nanoseconds of its CPU time
    threads KIND T MS   T threads for MS milliseconds, KIND stat or cpu: rounds a second, all together
"""
import os
import sys
import threading
import time


def stat_loop(n):
    stat = os.stat
    start = time.thread_time_ns()
    for _ in range(n):
        stat("/")
    return time.thread_time_ns() - start


def cpu_round():
    x = 1
    for _ in range(100):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF


def stat_round():
    os.stat("/")


def run_threads(kind, count, milliseconds):
    one = {"cpu": cpu_round, "stat": stat_round}[kind]
    stop = False
    done = [0] * count
    start = threading.Barrier(count + 1)

    def work(i):
        start.wait()
        n = 0
        while not stop:
            one()
            n += 1
        done[i] = n

    workers = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for w in workers:
        w.start()
    start.wait()
    begin = time.perf_counter()
    time.sleep(milliseconds / 1000)
    stop = True
    # Later than asked for: this thread, too, had to wait for the GIL.
    seconds = time.perf_counter() - begin
    for w in workers:
        w.join()
    return int(sum(done) / seconds)


print("ready", flush=True)
for line in sys.stdin:
    word = line.split()
    if word[0] == "stat":
        print(stat_loop(int(word[1])), flush=True)
    else:
        print(run_threads(word[1], int(word[2]), int(word[3])), flush=True)
