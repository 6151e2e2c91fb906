"""Pure Python in threads: four that compute, one that serves requests.

    threads.py [SECONDS [SWITCH_INTERVAL]]

A request is 1 ms of sleep (as if it waited for a socket) and a little work. However little that
is, after each sleep the thread must get the GIL back from the computing ones: the convoy effect.
"""
import sys
import threading
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
if len(sys.argv) > 2:
    sys.setswitchinterval(float(sys.argv[2]))
until = time.monotonic() + SECONDS
answered = 0


def compute():
    while time.monotonic() < until:
        sum(i * i for i in range(20000))


def serve():
    global answered
    while time.monotonic() < until:
        time.sleep(0.001)
        sum(range(100))
        answered += 1


threads = [threading.Thread(target=compute, name="compute-%d" % i) for i in range(4)]
threads.append(threading.Thread(target=serve, name="serve"))
for t in threads:
    t.start()
for t in threads:
    t.join()
print("%d requests answered in %.1f s" % (answered, SECONDS))
