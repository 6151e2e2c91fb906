"""Processes instead of threads: the work of threads.py, each computation in a process of its own.

    processes.py [SECONDS]
"""
import multiprocessing
import sys
import threading
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0


def compute(until):
    while time.monotonic() < until:
        sum(i * i for i in range(20000))


if __name__ == "__main__":
    until = time.monotonic() + SECONDS
    answered = 0

    def serve():
        global answered
        while time.monotonic() < until:
            time.sleep(0.001)
            sum(range(100))
            answered += 1

    workers = [multiprocessing.get_context("fork").Process(target=compute, args=(until,)) for _ in range(4)]
    for w in workers:
        w.start()
    server = threading.Thread(target=serve, name="serve")
    server.start()
    for w in workers:
        w.join()
    server.join()
    print("%d requests answered in %.1f s" % (answered, SECONDS))
