# SPDX-License-Identifier: Apache-2.0
"""
Names that this program has for its threads, and the kernel's ids of these. CPython knows the ids of
its threads from 3.8 on; before, only the calling thread's and, as that of the process, the main
thread's can be told.
"""
import os
import threading

from ._process import PACKET_MAX

NAME_MAX = 255  # bytes; giltrace keeps fewer


def _thread_self():
    """The calling thread's id, of the kernel: without ctypes, which need not be there."""
    try:
        return int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])
    except OSError:
        return 0


native_id = getattr(threading, "get_native_id", _thread_self)


def _threads():
    """
    threading.enumerate() without its lock: a handler of a signal may be here while its own thread
    has that.
    """
    active = getattr(threading, "_active", None)
    return threading.enumerate() if active is None else list(active.copy().values())


def _ids():
    """(thread, its id) of those that are known."""
    if native_id is not _thread_self:
        return [(t, t.native_id) for t in _threads() if getattr(t, "native_id", None)]
    found = {threading.get_ident(): native_id()}
    found.setdefault(threading.main_thread().ident, os.getpid())
    return [(t, found[t.ident]) for t in _threads() if found.get(t.ident)]


class Names:
    """Which names giltrace has been told."""

    def __init__(self):
        self._told = {}

    def knows(self, tid):
        return tid in self._told

    def packets(self):
        """Packets with the names that are new."""
        self._told.setdefault(native_id(), "")  # a thread that threading does not know, too
        packets, lines, size = [], [b"threads"], len(b"threads")
        for thread, tid in _ids():
            name = thread.name
            if self._told.get(tid) == name:
                continue
            self._told[tid] = name
            line = b"%d %s" % (tid, _bytes(name))
            if size + 1 + len(line) > PACKET_MAX:
                packets.append(b"\n".join(lines))
                lines, size = [b"threads"], len(b"threads")
            lines.append(line)
            size += 1 + len(line)
        return packets + ([b"\n".join(lines)] if len(lines) > 1 else [])


def _bytes(name):
    for bad in "\0", "\n":
        name = name.replace(bad, " ")
    return name.encode("utf-8", "replace")[:NAME_MAX] or b"?"
