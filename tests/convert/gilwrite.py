# SPDX-License-Identifier: Apache-2.0
"""Writes .gil files in plain Python, from docs/file-format.md alone. tests/gilfile.py reads them.

    with GilWriter(path) as w:
        w.meta({"process.pid": "7"})
        w.clock(mono, raw, unix)
        w.event(ACQUIRE, ns, tid, gil)
        w.end(ns)                   # without it the recorder was killed
"""
import struct
import zlib

WAIT, ACQUIRE, RELEASE, YIELD, TAKE, DROPPED = 1, 2, 3, 4, 5, 6
FORCED, THREAD, GIL, LOST, BEFORE, EXIT, LEFT, LATE = 7, 8, 9, 10, 11, 12, 13, 14
EXTENDED, MARK, PAUSED = 15, 16, 17  # these two stand as the first, with their kind in front
COUNTED = (WAIT, ACQUIRE, RELEASE, YIELD, TAKE, DROPPED)
WAITING, HOLDING = 1, 2  # what a BEFORE tells

META, SITES, CLOCK, EVENTS, END = 1, 2, 3, 4, 5
STOPPED = 2  # a reason of END


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(delta):
    return varint(2 * delta if delta >= 0 else -2 * delta - 1)


def text(value):
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return varint(len(raw)) + raw


def thread_fields(ns_tid=0, comm=b"", host_tid=0, name=b""):
    """The own fields of a THREAD record."""
    return varint(ns_tid) + bytes([len(comm)]) + comm + varint(host_tid) + bytes([len(name)]) + name


def header(major=1, minor=3, machine=62):
    head = struct.pack("<8sHHIIII", b"\x89GIL\r\n\x1a\n", major, minor, 32, machine, 0, 0)
    return head + struct.pack("<I", zlib.crc32(head))


def block(kind, payload, seq, count, first=0, last=0, lost=0, codec=0):
    head = struct.pack("<IHBBIIQQQQI", 0x4b4c4247, kind, codec, 0, len(payload), count, seq, first,
                       last,
                       lost, zlib.crc32(payload))
    return head + struct.pack("<I", zlib.crc32(head)) + payload


class Records:
    """Records of one EVENTS block, as they are added."""

    def __init__(self):
        self.body, self.count, self.base = bytearray(), 0, 0
        self.time = self.first = self.last = 0
        self.tid = self.gil = 0
        self.threads = {}

    def add(self, kind, ns, tid, gil, own):
        if not self.count:
            self.base = self.time = self.first = self.last = ns
        tag = kind | 0x40  # all of one site
        words = b""
        if tid == self.tid:
            tag |= 0x10
        else:
            known = len(self.threads)
            index = self.threads.setdefault(tid, known)
            words += varint(index)
            if index == known:
                words += varint(tid)
            self.tid = tid
        if gil == self.gil:
            tag |= 0x20
        else:
            words += bytes([gil])
            self.gil = gil
        self.body.append(tag)
        self.body += words + zigzag(ns - self.time)
        if kind >= 8:
            self.body += varint(len(own)) + own
        self.time = ns
        self.first, self.last = min(self.first, ns), max(self.last, ns)
        self.count += 1

    def payload(self):
        return struct.pack("<Q", self.base) + bytes(self.body)


class GilWriter:
    """Seals a block when it has `records` records (FORCED and its release are never parted)."""

    def __init__(self, path, records=4000, minor=3, machine=62):
        self.file = open(path, "wb")
        self.file.write(header(minor=minor, machine=machine))
        self.records, self.seq, self.events, self.lost = records, 0, 0, 0
        self.pending = Records()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.file.close()

    def block(self, kind, payload, count, first=0, last=0, codec=0):
        self.file.write(block(kind, payload, self.seq, count, first, last, self.lost, codec))
        self.seq += 1

    def meta(self, pairs):
        self.flush()
        self.block(META, b"".join(text(k) + text(v) for k, v in pairs.items()), len(pairs))

    def site(self, kind=ACQUIRE, flags=0, offset=4096):
        self.flush()
        self.block(SITES, struct.pack("<QBBB", offset, kind, flags, 4) + b"test", 1)

    def clock(self, mono, raw, unix, error=40):
        self.flush()
        self.block(CLOCK, struct.pack("<5Q", mono, raw, unix, mono, error), 1, mono, mono)

    def event(self, kind, ns, tid=0, gil=0, own=b""):
        if self.pending.count >= self.records and kind not in (RELEASE, YIELD):
            self.flush()
        self.pending.add(kind, ns, tid, gil, own)
        self.events += kind in COUNTED

    def release(self, ns, tid, gil=0, forced=False):
        if forced:
            self.event(FORCED, ns, tid, gil)
        self.event(RELEASE, ns, tid, gil)

    def thread(self, ns, tid, ns_tid=0, comm=b"", host_tid=0, name=b""):
        self.event(THREAD, ns, tid, 0, thread_fields(ns_tid, comm, host_tid, name))

    def gil(self, ns, index, unconfirmed=0):
        self.event(GIL, ns, 0, index, bytes([unconfirmed]) + varint(0x7f0000000000 + index * 4096))

    def gap(self, begin, end, count):
        """Events are missing between the two."""
        self.lost += count
        self.event(LOST, end, 0, 0, varint(end - begin) + varint(count))

    def pause(self, begin, end):
        """Nobody wanted to know what happens between the two."""
        self.event(EXTENDED, end, 0, 0, varint(PAUSED) + varint(end - begin))

    def mark(self, ns, tid, name):
        raw = name if isinstance(name, bytes) else name.encode()
        self.event(EXTENDED, ns, tid, 0, varint(MARK) + bytes([len(raw)]) + raw)

    def late(self, begin, end):
        self.event(LATE, end, 0, 0, varint(end - begin))

    def before(self, ns, tid, gil, state):
        self.event(BEFORE, ns, tid, gil, bytes([state]))

    def flush(self):
        p, self.pending = self.pending, Records()
        if p.count:
            self.block(EVENTS, p.payload(), p.count, p.first, p.last, codec=1)

    def end(self, ns, reason=STOPPED):
        self.flush()
        self.block(END, struct.pack("<IQQ", reason, self.events, self.lost), 1, ns, ns)
        self.file.close()
