#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Large recordings in no time: one block of events, again and again, each time a little later.

    big.py MILLIONS OUT.gil        by hand, for speed tests with more than fits in a test
"""
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gilwrite import ACQUIRE, EVENTS, WAIT, YIELD, GilWriter, Records  # noqa: E402

US, MS, S = 1000, 1000 * 1000, 1000 * 1000 * 1000
THREADS = 4


def one_block(threads, cycles):
    """Threads that take the GIL from each other, forced and not; at first and last it is free."""
    r, now = Records(), S
    r.add(ACQUIRE, now, threads[0], 0, b"")
    counted, holder = 1, 0
    for i in range(cycles):
        waiter = (holder + 1 + i % (len(threads) - 1)) % len(threads)
        now += 900 + i % 7 * 111
        r.add(WAIT, now, threads[waiter], 0, b"")
        now += [2 * US, 40 * US, 5 * MS // 100][i % 3] + i % 997
        if i % 2:
            r.add(7, now, threads[holder], 0, b"")
        r.add(3, now, threads[holder], 0, b"")
        if i % 4 == 1:
            r.add(YIELD, now + 300, threads[holder], 0, b"")
            counted += 1
        now += 2000 + i % 31
        r.add(ACQUIRE, now, threads[waiter], 0, b"")
        counted += 3
        holder = waiter
    now += 500
    r.add(3, now, threads[holder], 0, b"")
    return r, counted + 1, now - S + 700


def write(path, events, pid=4242, rank=0):
    """At least so many counted events; how many there are."""
    threads = [pid + i for i in range(THREADS)]
    records, counted, length = one_block(threads, 5000)
    payload = records.payload()
    blocks = -(-events // counted)
    with GilWriter(path) as w:
        w.meta({"process.pid": str(pid), "process.ns_pid": str(pid), "process.comm": "python3",
                "rank": str(rank),
                "check.result": "consistent"})
        w.site()
        w.clock(S - 10, S - 10, 1700000000 * S)
        w.gil(S - 10, 0)
        for t in threads:
            w.thread(S - 10, t, t, b"", 0, b"thread-%d" % (t - pid))
        w.flush()
        for i in range(blocks):
            later = i * length
            body = struct.pack("<Q", records.base + later) + payload[8:]
            w.block(EVENTS, body, records.count, records.first + later, records.last + later,
                    codec=1)
        w.events = counted * blocks
        w.clock(S + blocks * length, S + blocks * length, 1700000000 * S + 10 + blocks * length)
        w.end(S + blocks * length)
    return counted * blocks


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print("%d events" % write(sys.argv[2], int(float(sys.argv[1]) * 1000000)))
