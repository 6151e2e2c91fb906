# SPDX-License-Identifier: Apache-2.0
"""A reader of .gil files in plain Python 3.6+, written from docs/file-format.md alone.

It is the proof that the page suffices, and an independent view of a file for tests:

    f = gilfile.read(path)
    f.meta      dict of str
    f.sites     list of Site
    f.clocks    list of Clock
    f.events    list of Event, in the file's order; kinds that version 1.3 does not know left out
    f.end       End, or None: the recorder was killed
    f.lost_total
    f.problem   None, or what was left out and where

What is no .gil file at all, or made by a newer major version, raises NotGil.
Run as a program, it prints a file as text.
"""
import collections
import struct
import sys
import zlib

WAIT, ACQUIRE, RELEASE, YIELD, TAKE, DROPPED = 1, 2, 3, 4, 5, 6
FORCED = 7  # joined to the RELEASE behind it
THREAD, GIL, LOST, BEFORE, EXIT, LEFT, LATE = 8, 9, 10, 11, 12, 13, 14
EXTENDED = 15  # the kind stands in the record's own fields
MARK, PAUSED = 16, 17
KIND_NAMES = {1: "WAIT", 2: "ACQUIRE", 3: "RELEASE", 4: "YIELD", 5: "TAKE", 6: "DROPPED",
              8: "THREAD", 9: "GIL", 10: "LOST", 11: "BEFORE", 12: "EXIT", 13: "LEFT",
              14: "LATE", 16: "MARK", 17: "PAUSED"}
WAITING, HOLDING = 1, 2  # state of a BEFORE
END_REASONS = {1: "duration", 2: "stopped", 3: "target exit", 4: "error", 5: "exec"}

META, SITES, CLOCK, EVENTS, END = 1, 2, 3, 4, 5
TIME_MAX = 1 << 62
PAYLOAD_MAX = 1 << 20
THREADS_MAX = 1024
META_PAIRS_MAX, META_BYTES_MAX = 16384, 16 << 20
SITES_MAX = 256

Site = collections.namedtuple("Site", "offset kind flags how")
Clock = collections.namedtuple("Clock", "mono_ns raw_ns unix_ns boot_ns error_ns")
End = collections.namedtuple("End", "reason events lost mono_ns")
Header = collections.namedtuple(
    "Header", "magic type codec reserved size count seq first_ns last_ns lost_total "
              "payload_crc header_crc")
# ns_tid, comm (bytes), host_tid, name (bytes): THREAD, 0 or empty where not known; unconfirmed, addr:
# GIL; begin_mono_ns: LOST, LATE, PAUSED; count: LOST; forced: RELEASE, False in files that do not know
# it (version 1.0, function probes), too; state: BEFORE; name (bytes): MARK, too
Event = collections.namedtuple(
    "Event", "mono_ns tid kind gil site ns_tid comm unconfirmed addr begin_mono_ns count "
             "forced state host_tid name")
Event.__new__.__defaults__ = (None,) * 10

FILE_HEADER = struct.Struct("<8sHHIIIII")
BLOCK_HEADER = struct.Struct("<IHBBIIQQQQII")


class NotGil(ValueError):
    pass


class Damage(Exception):
    pass


class File:
    def __init__(self):
        self.version = None
        self.machine = 0
        self.meta = {}
        self.sites = []
        self.clocks = []
        self.events = []
        self.end = None
        self.lost_total = 0
        self.first_mono_ns = self.last_mono_ns = 0
        self.problem = None
        self.meta_pairs = self.meta_bytes = 0

    def unix_ns(self, mono_ns):
        return mono_ns + self.clocks[0].unix_ns - self.clocks[0].mono_ns


def varint(buf, pos, end):
    value = shift = 0
    while True:
        if pos >= end:
            raise Damage("a varint does not end within its block")
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7f) << shift
        if value >> 64 or shift > 63:
            raise Damage("a varint has more than 64 bits")
        if byte < 0x80:
            return value, pos
        shift += 7


def string(buf, pos):
    size, pos = varint(buf, pos, len(buf))
    if size > len(buf) - pos:
        raise Damage("a string is longer than its block")
    raw = bytes(buf[pos:pos + size])
    if b"\0" in raw:
        raise Damage("a string holds a 0")
    return raw.decode("utf-8", "surrogateescape"), pos + size


def read_meta(f, head, buf):
    f.meta_pairs += head.count
    f.meta_bytes += head.size
    if f.meta_pairs > META_PAIRS_MAX or f.meta_bytes > META_BYTES_MAX:
        raise Damage("too much META")
    pos = 0
    for _ in range(head.count):
        key, pos = string(buf, pos)
        f.meta[key], pos = string(buf, pos)


def read_sites(f, head, buf):
    pos = 0
    if len(f.sites) + head.count > SITES_MAX:
        raise Damage("too many sites")
    for _ in range(head.count):
        if len(buf) - pos < 11 or len(buf) - pos - 11 < buf[pos + 10]:
            raise Damage("a site is longer than its block")
        offset, kind, flags, size = struct.unpack_from("<QBBB", buf, pos)
        how = bytes(buf[pos + 11:pos + 11 + size])
        if b"\0" in how:
            raise Damage("a site's text holds a 0")
        f.sites.append(Site(offset, kind, flags, how.decode("utf-8", "surrogateescape")))
        pos += 11 + size


def read_clock(f, head, buf):
    if len(buf) < 40 or head.count != 1:
        raise Damage("a clock sample has the wrong size")
    clock = Clock(*struct.unpack_from("<5Q", buf))
    if not clock.mono_ns == head.first_ns == head.last_ns or max(clock) >= TIME_MAX:
        raise Damage("a clock sample is impossible")
    if f.clocks and clock.mono_ns < f.clocks[-1].mono_ns:
        raise Damage("clock samples are not in the order of time")
    f.clocks.append(clock)


def read_end(f, head, buf):
    if len(buf) < 20:
        raise Damage("END is too short")
    reason, events, lost = struct.unpack_from("<IQQ", buf)
    if not 0 < reason < 1 << 31:
        raise Damage("END has an impossible reason")
    f.end = End(reason, events, lost, head.last_ns)


def short_text(buf, pos, end, limit):
    """A u8, the length, and so many bytes."""
    if pos >= end or buf[pos] > limit or buf[pos] > end - pos - 1:
        raise Damage("a short string is wrong")
    after = pos + 1 + buf[pos]
    text = bytes(buf[pos + 1:after])
    if b"\0" in text:
        raise Damage("a name holds a 0")
    return text, after


def own_fields(kind, time, buf, pos, end):
    """The fields of a record of kind 8 or more, as keywords of Event."""
    if kind == THREAD:
        ns_tid, pos = varint(buf, pos, end)
        comm, pos = short_text(buf, pos, end, 15)
        host_tid, name = 0, b""
        if pos < end:
            host_tid, pos = varint(buf, pos, end)
            name, pos = short_text(buf, pos, end, 63)
        if ns_tid >> 32 or host_tid >> 32:
            raise Damage("a THREAD record is wrong")
        return {"ns_tid": ns_tid, "comm": comm, "host_tid": host_tid, "name": name}
    if kind == GIL:
        if pos >= end:
            raise Damage("a GIL record is wrong")
        return {"unconfirmed": bool(buf[pos] & 1), "addr": varint(buf, pos + 1, end)[0]}
    if kind == LOST:
        gap, pos = varint(buf, pos, end)
        if gap > time:
            raise Damage("a LOST record is wrong")
        return {"begin_mono_ns": time - gap, "count": varint(buf, pos, end)[0]}
    if kind == BEFORE:
        if pos >= end:
            raise Damage("a BEFORE record is wrong")
        return {"state": buf[pos]}
    if kind == LATE:
        before, pos = varint(buf, pos, end)
        if before >= time:
            raise Damage("a LATE record is wrong")
        return {"begin_mono_ns": time - before}
    if kind == MARK:
        name, pos = short_text(buf, pos, end, 127)
        if not name:
            raise Damage("a MARK record is wrong")
        return {"name": name}
    if kind == PAUSED:
        before, pos = varint(buf, pos, end)
        if before >= time:
            raise Damage("a PAUSED record is wrong")
        return {"begin_mono_ns": time - before}
    return {}


def read_events(f, head, buf):
    if len(buf) < 8:
        raise Damage("it is too short for events")
    time, = struct.unpack_from("<Q", buf)
    tid = gil = 0
    site = [0] * 16
    threads = []
    forced = None  # thread, GIL and time of a FORCED record right before this one
    pos, end = 8, len(buf)
    for _ in range(head.count):
        if pos >= end:
            raise Damage("it ends before its last record")
        tag = buf[pos]
        pos += 1
        kind = real = tag & 15
        if not kind or tag & 0x80:
            raise Damage("a record's tag is wrong")
        if not tag & 0x10:
            index, pos = varint(buf, pos, end)
            if index > len(threads) or index >= THREADS_MAX:
                raise Damage("a thread's index is too great")
            if index == len(threads):
                tid, pos = varint(buf, pos, end)
                if tid >> 32:
                    raise Damage("a thread's id is too great")
                threads.append(tid)
            tid = threads[index]
        if not tag & 0x20:
            gil = buf[pos] if pos < end else None
            pos += 1
        if not tag & 0x40:
            site[kind] = buf[pos] if pos < end else None
            pos += 1
        zigzag, pos = varint(buf, pos, end)
        time += -(zigzag + 1) // 2 if zigzag & 1 else zigzag // 2
        if not head.first_ns <= time <= head.last_ns:
            raise Damage("a record's time is not within its block's")
        own = {}
        if kind >= 8:
            size, pos = varint(buf, pos, end)
            if size > end - pos:
                raise Damage("a record is longer than its block")
            after = pos + size
            if kind == EXTENDED:
                real, pos = varint(buf, pos, after)
                real = real if real > EXTENDED else EXTENDED
            own = own_fields(real, time, buf, pos, after)
            pos = after
        if kind == RELEASE:
            own["forced"] = forced == (tid, gil, time)
        forced = (tid, gil, time) if kind == FORCED else None
        if real in KIND_NAMES and own.get("state", WAITING) in (WAITING, HOLDING):
            f.events.append(Event(time, tid, real, gil, site[kind], **own))
    if pos != end:
        raise Damage("it goes on after its last record")


READERS = {META: (0, read_meta), SITES: (0, read_sites), CLOCK: (0, read_clock),
           EVENTS: (1, read_events), END: (0, read_end)}


def read_block(f, data, off, seq):
    """Returns the offset of the next block."""
    if len(data) - off < BLOCK_HEADER.size:
        raise Damage("the file ends inside it")
    head = Header(*BLOCK_HEADER.unpack_from(data, off))
    if head.magic != 0x4b4c4247:
        raise Damage("no block begins here")
    if head.header_crc != zlib.crc32(data[off:off + 52]):
        raise Damage("the checksum of its header does not match")
    if head.seq != seq:
        raise Damage("its number is out of sequence")
    if head.size > PAYLOAD_MAX or not head.first_ns <= head.last_ns < TIME_MAX:
        raise Damage("its header is impossible")
    if head.type in (CLOCK, EVENTS) and head.count and not head.first_ns:
        raise Damage("it has a time of 0")
    off += BLOCK_HEADER.size
    if head.size > len(data) - off:
        raise Damage("the file ends inside it")
    buf = data[off:off + head.size]
    if head.payload_crc != zlib.crc32(buf):
        raise Damage("the checksum of its content does not match")
    if head.type in READERS:
        codec, reader = READERS[head.type]
        if head.codec != codec:
            raise Damage("its encoding is not known")
        reader(f, head, buf)
    f.lost_total = head.lost_total
    if head.type in (CLOCK, EVENTS) and head.count:
        f.first_mono_ns = min(f.first_mono_ns or head.first_ns, head.first_ns)
        f.last_mono_ns = max(f.last_mono_ns, head.last_ns)
    if head.type == END and f.first_mono_ns:
        f.last_mono_ns = max(f.last_mono_ns, head.last_ns)
    return off + head.size


def parse(data, name="<bytes>"):
    data = memoryview(data)
    if bytes(data[:8]) != b"\x89GIL\r\n\x1a\n":
        raise NotGil("%s: this is no .gil file" % name)
    if len(data) < FILE_HEADER.size:
        raise NotGil("%s: the file ends inside its header" % name)
    _, major, minor, size, machine, _, _, crc = FILE_HEADER.unpack_from(data)
    if crc != zlib.crc32(data[:28]):
        raise NotGil("%s: the file's header is damaged" % name)
    if major != 1:
        raise NotGil("%s: made by a newer version, %d.%d" % (name, major, minor))
    if not FILE_HEADER.size <= size <= min(4096, len(data)):
        raise NotGil("%s: the file's header has an impossible size" % name)
    f = File()
    f.version = (major, minor)
    f.machine = machine
    off, seq = size, 0
    while off < len(data):
        try:
            if f.end:
                raise Damage("it comes after END")
            off = read_block(f, data, off, seq)
        except Damage as wrong:
            f.problem = "%s: block %d at byte %d: %s; everything from there on is left out" % (
                name, seq, off, wrong)
            break
        seq += 1
    return f


def read(path):
    with open(path, "rb") as file:
        return parse(file.read(), str(path))


def event_text(ev):
    text = "%d %d %s gil %d site %d" % (ev.mono_ns, ev.tid, KIND_NAMES[ev.kind], ev.gil, ev.site)
    if ev.kind == THREAD:
        text += " ns_tid %d comm %s host_tid %d name %s" % (
            ev.ns_tid, ev.comm.hex(), ev.host_tid, ev.name.hex())
    elif ev.kind == GIL:
        text += " unconfirmed %d addr %x" % (ev.unconfirmed, ev.addr)
    elif ev.kind == LOST:
        text += " begin %d count %d" % (ev.begin_mono_ns, ev.count)
    elif ev.kind == BEFORE:
        text += " state %d" % ev.state
    elif ev.kind in (LATE, PAUSED):
        text += " begin %d" % ev.begin_mono_ns
    elif ev.kind == MARK:
        text += " name %s" % ev.name.hex()
    elif ev.forced:
        text += " forced"
    return text


def main(paths):
    for path in paths:
        f = read(path)
        for key, value in f.meta.items():
            print("meta %s = %r" % (key, value))
        for i, site in enumerate(f.sites):
            print("site %d %s" % (i, site))
        for clock in f.clocks:
            print(clock)
        for ev in f.events:
            print(event_text(ev))
        print("lost %d, end %s, problem %s" % (f.lost_total, f.end, f.problem))


if __name__ == "__main__":
    main(sys.argv[1:])
