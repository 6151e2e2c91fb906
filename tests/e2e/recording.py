# SPDX-License-Identifier: Apache-2.0
"""Recordings, read by tests/gilfile.py, and what gil2trace makes of them."""
import collections
import functools
import json
import re
import subprocess

from common import LIMIT, OK, load, tool


WAIT, ACQUIRE, RELEASE, YIELD, TAKE, DROPPED = range(1, 7)
THREAD, GIL, LOST, BEFORE, EXIT, LEFT, LATE = range(8, 15)
MARK, PAUSED = 16, 17
COUNTED = (WAIT, ACQUIRE, RELEASE, YIELD, TAKE, DROPPED)
KIND_NAMES = {1: "WAIT", 2: "ACQUIRE", 3: "RELEASE", 4: "YIELD", 5: "TAKE", 6: "DROPPED",
              THREAD: "THREAD", BEFORE: "BEFORE", EXIT: "EXIT", LEFT: "LEFT"}
WAITING, HOLDING = 1, 2  # .state of BEFORE
DROP_REQUESTS = ["python%s.drop_request" % n for n in ["", ".2", ".3", ".4"]]
INDEX_OTHER = 255  # GILs beyond those told apart
END_DURATION, END_STOPPED, END_TARGET_EXIT, END_ERROR, END_EXEC = range(1, 6)

# forced: of a RELEASE; None: the recording does not tell. state: of BEFORE. Of a THREAD: name is
# the kernel's (comm), thread_name that of threading, None where it is not known. name: of a MARK,
# too. begin_ns: LOST, LATE, PAUSED.
Event = collections.namedtuple(
    "Event", "kind ns tid gil site unconfirmed name ns_tid begin_ns count forced state "
             "host_tid thread_name")
Event.__new__.__defaults__ = (None,) * 4
Hold = collections.namedtuple("Hold", "tid gil begin end forced")  # None: open
Hold.__new__.__defaults__ = (None,)


def event(e):
    """An event of tests/gilfile.py with plain names and text instead of bytes."""
    name = None if e.comm is None else bytes(e.comm).decode(errors="replace")
    thread_name = bytes(e.name).decode(errors="replace") if e.name else None
    if e.kind == MARK:
        name, thread_name = thread_name, None
    return Event(e.kind, e.mono_ns, e.tid, e.gil, e.site, e.unconfirmed, name, e.ns_tid,
                 e.begin_mono_ns, e.count, e.forced, e.state, e.host_tid, thread_name)


class Recording:
    """A .gil file as tests/gilfile.py reads it, which shares no code with the project."""

    def __init__(self, path):
        self.path = path
        self.file = f = load("gilfile").read(path)
        self.meta, self.sites, self.clocks = f.meta, f.sites, f.clocks
        self.end, self.problem = f.end, f.problem
        self.all = [event(e) for e in f.events]
        if f.version < (1, 1) or self.meta.get("probe.mode") == "functions":
            self.all = [e._replace(forced=None) for e in self.all]  # it does not tell
        self.raw_names = {e.tid: bytes(e.comm) for e in f.events if e.kind == THREAD}
        # A release on a condition variable that never turned out to be a GIL's is no GIL event.
        doubtful = {e.gil for e in self.all if e.kind == GIL and e.unconfirmed}
        doubtful -= {e.gil for e in self.all if e.kind == GIL and not e.unconfirmed}
        self.sure = [e for e in self.all if e.gil not in doubtful or e.kind in (THREAD, EXIT)]
        self.events = [e for e in self.sure if e.kind in COUNTED]
        self.gils = sorted({e.gil for e in self.events})
        self.gaps = [e for e in self.all if e.kind == LOST]
        self.lost = sum(e.count for e in self.gaps)
        if self.lost != f.lost_total and f.end:
            raise AssertionError("%s: %d lost by its gaps, %d by its blocks" % (
                path, self.lost, f.lost_total))
        if f.end and (f.end.events, f.end.lost) != (self.total(), self.lost):
            raise AssertionError("%s: END says %s, the file holds %d and %d lost" % (
                path, f.end, self.total(), self.lost))
        threads = [e for e in self.all if e.kind == THREAD]  # by tid, the last that tells counts
        self.names = {e.tid: e.name for e in threads}
        self.thread_names = {e.tid: e.thread_name for e in threads if e.thread_name}
        self.ns_tids = {e.tid: e.ns_tid for e in threads if e.ns_tid}
        self.host_tids = {e.tid: e.host_tid for e in threads if e.host_tid}  # where it is not tid
        self.marks = [e for e in self.all if e.kind == MARK]
        self.pauses = [e for e in self.all if e.kind == PAUSED]  # from .begin_ns to .ns, too
        self.late = [e for e in self.all if e.kind == LATE]  # from .begin_ns to .ns not recorded

    @property
    def begin_ns(self):
        """When recording began, as the file tells it."""
        return self.clocks[0].mono_ns

    @property
    def to_unix(self):
        """Add it to a time of an event: where that is in the trace."""
        return self.clocks[0].unix_ns - self.clocks[0].mono_ns

    def before(self, state, tid=None):
        """Records of what threads were in when recording began."""
        return [e for e in self.sure if e.kind == BEFORE and e.state == state and
                tid in (None, e.tid)]

    def exits(self, tid):
        return [e.ns for e in self.all if e.kind == EXIT and e.tid == tid]

    def of(self, tid):
        return [e for e in self.events if e.tid == tid]

    def releases(self, tid=None, forced=None):
        return [e for e in self.events if e.kind == RELEASE and tid in (None, e.tid) and
                forced in (None, e.forced)]

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
        return violations([e for e in self.sure if e.kind in KIND_NAMES], self.gaps + self.pauses)

    def faults(self, yields=True):
        """Violations, and whatever else cannot be in a recording whose probes are complete."""
        bad = self.violations()
        if self.problem:
            bad.append(self.problem)
        mine = [e for e in self.events if e.gil != INDEX_OTHER]
        changed_hands = any(e.kind in (ACQUIRE, RELEASE) for e in mine)
        result = self.meta.get("check.result")
        if result != ("consistent" if changed_hands else "not checked") or \
                "check.text" in self.meta:
            bad.append("check.result is %r: %s" % (result, self.meta.get("check.text")))
        for key, found in (("check.acquires", sum(1 for e in mine if e.kind == ACQUIRE)),
                           ("check.releases", sum(1 for e in mine if e.kind == RELEASE)),
                           ("check.mismatches", 0), ("check.unchecked", 0)):
            if self.meta.get(key) != str(found):
                bad.append("%s is %r, not %d" % (key, self.meta.get(key), found))
        # What is inferred misses requests, and then it is the YIELD that tells of them.
        inferred = "inferred" in [self.meta.get(k) for k in DROP_REQUESTS]
        return bad + (unforced_yields(self.events, self.gaps + self.pauses, inferred)
                      if yields else [])

    def holds(self, tid=None):
        """Holds in the order of their begin; only what was seen from end to end."""
        since, out = {}, []
        unknown = self.gaps + self.pauses  # each ends with an event, or before it
        for e in sorted(unknown + self.events, key=lambda e: e.ns):
            if e.kind in (LOST, PAUSED):
                since.clear()
            elif e.kind == ACQUIRE:
                since[e.tid, e.gil] = e.ns
            elif e.kind == RELEASE and (e.tid, e.gil) in since:
                if tid in (None, e.tid):
                    out.append(Hold(e.tid, e.gil, since[e.tid, e.gil], e.ns, e.forced))
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

    def trace(self, status=OK, *options):
        return Trace([self.path], status, *options)


def unforced_yields(events, gaps=(), inferred=False):
    """
    A thread waits for the switch only if somebody had asked for the GIL it has released; inferred:
    the release may not tell.
    """
    bad, last, gaps = [], {}, sorted(g.ns for g in gaps)
    for e in events:
        while gaps and gaps[0] <= e.ns:
            gaps.pop(0)
            last.clear()
        if e.kind == YIELD and e.tid in last and \
                last[e.tid] not in [(RELEASE, e.gil, told) for told in (True, not inferred)]:
            bad.append("YIELD of %d at %d comes after %s" % (e.tid, e.ns, last[e.tid]))
        last[e.tid] = (e.kind, e.gil, e.forced)
    return bad


BEFORE_ALLOWED = {
    WAIT: ("out", "waited"), TAKE: ("out",), ACQUIRE: ("out", "waiting", "waited"),
    RELEASE: ("holding",), YIELD: ("released",), DROPPED: ("released", "out"),
    LEFT: ("waiting", "waited")}
AFTER = {WAIT: "waiting", TAKE: "out", ACQUIRE: "holding", RELEASE: "released", YIELD: "out",
         DROPPED: "out", LEFT: "out"}


def violations(events, gaps=()):
    """
    What is wrong in a sequence of events, as text: per thread wait -> acquire -> release [->
    yield], never two holders of one GIL, times in order. Before the first event of a thread or a
    GIL, and after a gap, nothing is known and everything is allowed. BEFORE tells a state, so no
    event stands before it; after EXIT a thread is another one, with a THREAD record of its own.
    """
    bad, state, holder, last, gone, moved = [], {}, {}, {}, set(), set()
    gaps = sorted((g.ns, g) for g in gaps)
    for n, e in enumerate(events):
        while gaps and gaps[0][0] <= e.ns and e.kind != BEFORE:
            gaps.pop(0)
            for known in (state, holder, gone):
                known.clear()
        here = "event %d: %s of %d at %d on GIL %d" % (n, KIND_NAMES[e.kind], e.tid, e.ns, e.gil)
        if e.kind == THREAD:
            gone.discard(e.tid)
            continue
        if e.tid in gone:
            bad.append("%s: the thread has ended" % here)
        if e.kind == BEFORE:
            if ("thread", e.tid) in last or (e.state == HOLDING and e.gil in moved):
                bad.append("%s: there are events before it" % here)
            state[e.tid] = "holding" if e.state == HOLDING else "waited"
            if e.state == HOLDING:
                holder[e.gil] = e.tid
            continue
        keys = [("thread", e.tid)]
        # Some are stamped outside gil->mutex; an index may stand for several GILs.
        if e.kind not in (TAKE, DROPPED, EXIT) and e.gil != INDEX_OTHER:
            keys.append(("GIL", e.gil))
        for key in keys:
            if e.ns < last.get(key, 0):
                bad.append("%s: earlier than the %s's event before it" % (here, key[0]))
            last[key] = e.ns
        if e.kind == EXIT:
            gone.add(e.tid)
            state[e.tid] = "out"
            holder.update({g: None for g, tid in holder.items() if tid == e.tid})
            continue
        was = state.get(e.tid)
        if was == "released" and e.kind not in (YIELD, DROPPED):
            was = "out"
        if was is not None and was not in BEFORE_ALLOWED[e.kind]:
            bad.append("%s: the thread is %s" % (here, was))
        state[e.tid] = AFTER[e.kind]
        if e.gil == INDEX_OTHER:
            continue
        if e.kind in (ACQUIRE, RELEASE):
            moved.add(e.gil)
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

    def __init__(self, paths, status=OK, *options):
        p = subprocess.run([tool("gil2trace")] + paths + list(options) + ["-o", "-"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
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
