"""asyncio with a busy thread: an event loop shares the GIL with a thread that computes.

    asyncio_busy.py [SECONDS [alone]]

Each time the loop comes back from waiting for events it must take the GIL from the busy thread,
which gives it up only after the switch interval (5 ms): a loop that should turn 1,000 times a
second turns fewer than 200 times. With "alone" there is no busy thread.
"""
import asyncio
import sys
import threading
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
until = time.monotonic() + SECONDS


def compute():
    while time.monotonic() < until:
        sum(i * i for i in range(20000))


async def turn():
    turns = 0
    while time.monotonic() < until:
        await asyncio.sleep(0.001)
        turns += 1
    return turns


if sys.argv[2:] != ["alone"]:
    threading.Thread(target=compute, name="busy").start()
print("%d turns of the event loop in %.1f s" % (asyncio.run(turn()), SECONDS))
