# SPDX-License-Identifier: Apache-2.0
"""Recordings, read by tests/gilfile.py, and what gil2trace makes of them."""
import collections
import functools
import json
import re
import subprocess

from common import LIMIT, OK, load, tool


WAIT, ACQUIRE, RELEASE, YIELD, TAKE, DROPPED = range(1, 7)
THREAD, GIL, LOST = 8, 9, 10
KIND_NAMES = {1: "WAIT", 2: "ACQUIRE", 3: "RELEASE", 4: "YIELD", 5: "TAKE", 6: "DROPPED"}
COUNTED = tuple(KIND_NAMES)
END_DURATION, END_STOPPED, END_TARGET_EXIT, END_ERROR, END_EXEC = range(1, 6)

Event = collections.namedtuple(
    "Event", "kind ns tid gil site unconfirmed name ns_tid begin_ns count")
Hold = collections.namedtuple("Hold", "tid gil begin end")  # None: open


def event(e):
    """An event of tests/gilfile.py with plain names and text instead of bytes."""
    name = None if e.comm is None else bytes(e.comm).decode(errors="replace")
    return Event(e.kind, e.mono_ns, e.tid, e.gil, e.site, e.unconfirmed, name, e.ns_tid,
                 e.begin_mono_ns, e.count)


class Recording:
    """A .gil file as tests/gilfile.py reads it, which shares no code with the project."""

    def __init__(self, path):
        self.path = path
        self.file = f = load("gilfile").read(path)
        self.meta, self.sites, self.clocks = f.meta, f.sites, f.clocks
        self.end, self.problem = f.end, f.problem
        self.all = [event(e) for e in f.events]
        self.raw_names = {e.tid: bytes(e.comm) for e in f.events if e.kind == THREAD}
        # A release on a condition variable that never turned out to be a GIL's is no GIL event.
        doubtful = {e.gil for e in self.all if e.kind == GIL and e.unconfirmed}
        doubtful -= {e.gil for e in self.all if e.kind == GIL and not e.unconfirmed}
        self.events = [e for e in self.all if e.kind in COUNTED and e.gil not in doubtful]
        self.gils = sorted({e.gil for e in self.events})
        self.gaps = [e for e in self.all if e.kind == LOST]
        self.lost = sum(e.count for e in self.gaps)
        if self.lost != f.lost_total and f.end:
            raise AssertionError("%s: %d lost by its gaps, %d by its blocks" % (
                path, self.lost, f.lost_total))
        if f.end and (f.end.events, f.end.lost) != (self.total(), self.lost):
            raise AssertionError("%s: END says %s, the file holds %d and %d lost" % (
                path, f.end, self.total(), self.lost))
        self.names = {e.tid: e.name for e in self.all if e.kind == THREAD}

    def count(self, kind, tid=None):
        return sum(1 for e in self.events if e.kind == kind and tid in (None, e.tid))

    def total(self):
        """Events that the file holds, as losses are counted."""
        return sum(1 for e in self.all if e.kind in COUNTED)

    def result(self):
        """What giltrace says of it in the end."""
        return "%s: %d events, %d lost" % (self.path, self.total(), self.lost)

    def tids(self):
        return {e.tid for e in self.events} | set(self.names)

    def between(self, begin, end, tid):
        return [e for e in self.events if begin <= e.ns <= end and e.tid == tid]

    def violations(self):
        return violations(self.events, self.gaps)

    def holds(self, tid=None):
        """Holds in the order of their begin; only what was seen from end to end."""
        since, out = {}, []
        for e in sorted(self.events + self.gaps, key=lambda e: e.ns):
            if e.kind == LOST:
                since.clear()
            elif e.kind == ACQUIRE:
                since[e.tid, e.gil] = e.ns
            elif e.kind == RELEASE and (e.tid, e.gil) in since:
                if tid in (None, e.tid):
                    out.append(Hold(e.tid, e.gil, since[e.tid, e.gil], e.ns))
                del since[e.tid, e.gil]
        return sorted(out, key=lambda h: h.begin)

    def waits(self, tid):
        since, out = None, []
        for e in self.events:
            if e.tid == tid and e.kind == WAIT:
                since = e.ns
            elif e.tid == tid and e.kind == ACQUIRE and since is not None:
                out.append(Hold(tid, e.gil, since, e.ns))
                since = None
        return out

    def trace(self, status=OK):
        return Trace([self.path], status)


def violations(events, gaps=()):
    """
    What is wrong in a sequence of events, as text: per thread wait -> acquire -> release [->
    yield], never two holders of one GIL, times in order. Before the first event of a thread or a
    GIL, and after a gap, nothing is known and everything is allowed.
    """
    bad, state, holder, last = [], {}, {}, {}
    gaps = sorted((g.ns, g) for g in gaps)
    before = {WAIT: ("out",), TAKE: ("out",), ACQUIRE: ("out", "waiting"), RELEASE: ("holding",),
              YIELD: ("released",), DROPPED: ("released", "out")}
    after = {WAIT: "waiting", TAKE: "out", ACQUIRE: "holding", RELEASE: "released", YIELD: "out",
             DROPPED: "out"}
    for n, e in enumerate(events):
        while gaps and gaps[0][0] <= e.ns:
            gaps.pop(0)
            state.clear()
            holder.clear()
        here = "event %d: %s of %d at %d on GIL %d" % (n, KIND_NAMES[e.kind], e.tid, e.ns, e.gil)
        keys = [("thread", e.tid)]
        if e.kind not in (TAKE, DROPPED):  # stamped outside gil->mutex
            keys.append(("GIL", e.gil))
        for key in keys:
            if e.ns < last.get(key, 0):
                bad.append("%s: earlier than the %s's event before it" % (here, key[0]))
            last[key] = e.ns
        was = state.get(e.tid)
        if was == "released" and e.kind not in (YIELD, DROPPED):
            was = "out"
        if was is not None and was not in before[e.kind]:
            bad.append("%s: the thread is %s" % (here, was))
        state[e.tid] = after[e.kind]
        if e.kind == ACQUIRE:
            if holder.get(e.gil) is not None:
                bad.append("%s: %d holds it" % (here, holder[e.gil]))
            holder[e.gil] = e.tid
        elif e.kind == RELEASE:
            if holder.get(e.gil, e.tid) != e.tid:
                bad.append("%s: %s holds it" % (here, holder[e.gil]))
            holder[e.gil] = None
    return bad


Slice = collections.namedtuple("Slice", "name pid tid begin end args")


def exact_ns(value):
    """Microseconds with three decimals, as they stand in the JSON -> integer ns; no float."""
    if value[-4:-3] != "." or not (value[:-4] + value[-3:]).isdigit():
        raise AssertionError("no microseconds with three decimals: %r" % value)
    return int(value[:-4] + value[-3:])


class Trace:
    """What gil2trace makes of files (times: Unix time in ns); the rules for traces hold."""

    def __init__(self, paths, status=OK):
        p = subprocess.run([tool("gil2trace")] + paths + ["-o", "-"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=LIMIT)
        self.raw, self.text = p.stdout, p.stderr.decode(errors="replace")
        if p.returncode != status:
            raise AssertionError("gil2trace %s: status %d, not %d: %s" % (
                paths, p.returncode, status, self.text))
        broken = rules().check(self.raw)
        if broken:
            raise AssertionError("the trace of %s breaks %d rules: %s" % (
                paths, len(broken), broken[:5]))
        self.events = json.loads(self.raw.decode(), parse_float=str, parse_int=str)
        self.slices = []
        for e in self.events:
            if e["ph"] == "X":
                begin = exact_ns(e["ts"])
                self.slices.append(Slice(e["name"], e["pid"], e["tid"], begin,
                                         begin + exact_ns(e["dur"]), e.get("args", {})))
        self.names = {str(e["tid"]): e["args"]["name"] for e in self.events
                      if e["ph"] == "M" and e["name"] == "thread_name"}
        self.processes = {str(e["pid"]): e["args"]["name"] for e in self.events
                          if e["ph"] == "M" and e["name"] == "process_name"}

        self.tracks = {t: number(t) for t in {e["tid"] for e in self.events if "tid" in e}}

    def of(self, name, tid=None):
        """Slices of a name, in order of begin; tid: the number in the track's id."""
        return sorted((s for s in self.slices if s.name == name and
                       (tid is None or self.tracks[s.tid] == tid)), key=lambda s: s.begin)


def number(track):
    """The tid in a track's id, which may have words around it; None: no thread's."""
    numbers = re.findall(r"\d+", track)
    return int(numbers[-1]) if numbers else None


@functools.lru_cache(None)
def rules():
    return load("check_trace_rules")


def median(values):
    values = sorted(values)
    return values[len(values) // 2]
