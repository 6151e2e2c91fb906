"""NumPy in threads: the GIL is released in the C code, so two threads really run at once.

    numpy_threads.py [SECONDS [SIZE]]

A product of two matrices of SIZE x SIZE (400) takes milliseconds, and NumPy lets the GIL go
meanwhile. For small matrices (SIZE 8) it keeps the GIL, as releasing it would cost more than the
work: then the threads share it as those in pure Python do.
"""
import os
import sys
import threading
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy  # noqa: E402 (after the environment)

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
SIZE = int(sys.argv[2]) if len(sys.argv) > 2 else 400
until = time.monotonic() + SECONDS
products = [0, 0]


def multiply(me):
    a = numpy.random.rand(SIZE, SIZE)
    while time.monotonic() < until:
        a @ a
        products[me] += 1


threads = [threading.Thread(target=multiply, name="numpy-%d" % i, args=(i,)) for i in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("%d products of %d x %d in %.1f s" % (sum(products), SIZE, SIZE, SECONDS))
