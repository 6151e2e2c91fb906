# SPDX-License-Identifier: Apache-2.0
"""
The calls by which a target hands its GIL over, as it counts them itself (workloads/signals.c), or as the
kernel counts the hits at some addresses.
"""
import collections
import ctypes
import os
import struct

import harness as h
import kernel

HEADER = struct.Struct("<6Q16x")
LINE = struct.Struct("<QII")
SIGNAL, TIMEDWAIT, COND_WAIT = 1, 2, 3

# signals: takes and releases; waits: those that repeat one aside; yields: after forced releases.
Counted = collections.namedtuple("Counted", "signals waits yields")
Call = collections.namedtuple("Call", "ns tid call")


class Calls:
    """room: how many calls are also kept one by one."""

    def __init__(self, room=0):
        self.path = os.path.join(h.new_dir(), "calls")
        self.room = room
        with open(self.path, "wb") as f:
            f.truncate(HEADER.size + room * LINE.size)
        self.env = {"LD_PRELOAD": h.tool("tests/signals.so"), "GT_SIGNALS": self.path}

    def read(self, n):
        with open(self.path, "rb") as f:
            return f.read(n)

    def counted(self):
        signals, _, waits, yields, _, _ = HEADER.unpack(self.read(HEADER.size))
        return Counted(signals, waits, yields)

    def first_ns(self):
        """When the first signal was sent."""
        return HEADER.unpack(self.read(HEADER.size))[1]

    def lines(self):
        """All calls, in the order in which they were begun; no thread may be in one."""
        n = HEADER.unpack(self.read(HEADER.size))[4]
        if n > self.room:
            raise AssertionError("%d calls, but room for %d" % (n, self.room))
        data = self.read(HEADER.size + n * LINE.size)[HEADER.size:]
        return [Call(*line) for line in LINE.iter_unpack(data)]


def since(now, before):
    return Counted(*[a - b for a, b in zip(now, before)])


class Hits:
    """Counters of the kernel's own, one for each of some places in a file, whoever runs them."""

    def __init__(self, fds, path, offsets):
        name = ctypes.create_string_buffer(os.fsencode(path))
        self.fds = {offset: [kernel.uprobe(fds, name, offset, -1, cpu)
                             for cpu in sorted(os.sched_getaffinity(0))] for offset in offsets}

    def of(self, offset):
        return sum(struct.unpack("<Q", os.read(fd, 8))[0] for fd in self.fds[offset])
