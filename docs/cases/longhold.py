"""A long hold: C code that does not let the GIL go.

    longhold.py [SECONDS]

The "sorter" sorts a list of a million floats in one call of list.sort(): CPython asks it to give
the GIL up after each switch interval, but only the interpreter's loop listens to that, and it runs
again only when the sort is done.
"""
import random
import sys
import threading
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
until = time.monotonic() + SECONDS
numbers = [random.random() for _ in range(1000000)]
late = []


def sort():
    while time.monotonic() < until:
        numbers.copy().sort()


def tick():
    while time.monotonic() < until:
        due = time.monotonic() + 0.01
        time.sleep(0.01)
        late.append(time.monotonic() - due)


threads = [threading.Thread(target=sort, name="sorter"), threading.Thread(target=tick, name="ticker")]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("%d ticks, the latest %.0f ms too late" % (len(late), 1e3 * max(late)))
