# SPDX-License-Identifier: Apache-2.0
"""A GIL with threads, made up from a seed, that knows the truth of itself.

    m = Model(seed, threads=6, gils=2, rounds=500, gaps=2, pauses=1, marks=9)
    m.write(path)          a .gil file of it
    m.truth()              what can be known from the file, by brute force: a Truth

The truth is worked out from what the threads were in, not from events. A thread's state is known
in a stretch without losses and pauses from its first event there (from the stretch's begin, if that
event is a release, or a BEFORE told at the start) up to the stretch's end, or its own. Marks change
nothing of all that.
"""
import bisect
import collections
import heapq
import random

from gilwrite import ACQUIRE, EXIT, HOLDING, RELEASE, WAIT, WAITING, YIELD, GilWriter

US, MS, S = 1000, 1000 * 1000, 1000 * 1000 * 1000
DRIFT = (40 * US, -25 * US, 60 * US)  # of CLOCK_MONOTONIC_RAW in one second after another

# What a thread was in, from begin to end. forced: a hold's release; None: it has not released.
State = collections.namedtuple("State", "kind tid gil begin end forced ended")
Record = collections.namedtuple("Record", "ns kind tid gil forced")
Mark = collections.namedtuple("Mark", "ns tid name")  # tid 0: the process's
WAITS, HOLDS, YIELDS = "take_gil", "hold_gil", "drop_gil"


class Thread:
    def __init__(self, tid, gil):
        self.tid, self.gil = tid, gil
        self.kind, self.since, self.forced = None, 0, None
        self.gone = False


class Model:
    def __init__(self, seed, threads=5, gils=1, rounds=400, gaps=0, exits=0, told=True,
                 killed=False,
                 switches=0.5, pid=4242, rank=None, start=1000 * S, unix=1700000000 * S, pace=1,
                 pauses=0, begins_paused=False, ends_paused=False, marks=0):
        """pace: how many times slower all goes; a second or more is needed for clocks to drift."""
        self.rnd = random.Random(seed)
        self.pid, self.rank, self.killed, self.told = pid, rank, killed, told
        self.start, self.unix, self.pace = start, unix, pace
        self.switches = switches
        self.threads = {pid + i: Thread(pid + i, i % gils) for i in range(threads)}
        self.names = {tid: "worker-%d" % (tid - pid) for tid in self.threads}
        self.gils = range(gils)
        self.holder = {g: None for g in self.gils}
        self.yielders = {g: [] for g in self.gils}
        self.waiting = {g: [] for g in self.gils}
        self.records, self.states, self.queue = [], [], []
        self.now, self.told_before = start, {}
        self.exits_left = exits
        self.begin_states()
        self.run(rounds)
        self.finish()
        self.gaps, self.pauses = self.choose_gaps(gaps, pauses)
        self.pause_ends(begins_paused, ends_paused)
        self.visible = self.see()
        self.marks = self.choose_marks(marks)

    # ---- the run ----

    def later(self, mean, what, *args):
        """Times differ, so that order is never a matter of luck."""
        ns = self.now + 1 + int(self.rnd.expovariate(1.0 / (mean * self.pace)))
        while ns in self.taken:
            ns += 1
        self.taken.add(ns)
        heapq.heappush(self.queue, (ns, what.__name__, what, args))

    def begin_states(self):
        """Some hold, some wait when the recording begins; of some of these that is told."""
        self.taken = {self.start}
        for t in self.threads.values():
            lot = self.rnd.random()
            if self.holder[t.gil] is None and lot < 0.5:
                self.enter(t, HOLDS)
                self.holder[t.gil] = t
                self.later(2 * MS, self.release, t)
                told = HOLDING
            elif self.holder[t.gil] is not None and lot < 0.5:
                self.enter(t, WAITS)
                self.waiting[t.gil].append(t)
                told = WAITING
            else:
                self.later(1 * MS, self.want, t)
                continue
            if self.told and self.rnd.random() < 0.6:
                self.told_before[t.tid] = (told, t.gil)

    def enter(self, t, kind):
        t.kind, t.since = kind, self.now

    def leave(self, t, forced=None, ended=True):
        if t.kind:
            self.states.append(State(t.kind, t.tid, t.gil, t.since, self.now, forced, ended))
        t.kind = None

    def record(self, kind, t, forced=False):
        self.records.append(Record(self.now, kind, t.tid, t.gil, forced))

    def run(self, rounds):
        self.rounds = rounds
        while self.queue and self.rounds > 0:
            self.now, _, what, args = heapq.heappop(self.queue)
            what(*args)

    def want(self, t):
        if self.exits_left and self.rnd.random() < 0.02:
            self.exits_left -= 1
            self.record(EXIT, t)
            t.gone, self.gone_at = True, self.now
            self.states.append(State("exit", t.tid, t.gil, self.now, self.now, None, True))
            return
        if self.holder[t.gil] is None:
            self.acquire(t)
            return
        self.record(WAIT, t)
        self.enter(t, WAITS)
        self.waiting[t.gil].append(t)

    def acquire(self, t):
        g = t.gil
        if self.holder[g] is not None:  # somebody was quicker
            return
        if t in self.waiting[g]:
            self.waiting[g].remove(t)
        self.leave(t)
        self.record(ACQUIRE, t)
        self.holder[g] = t
        self.enter(t, HOLDS)
        for y in self.yielders[g]:
            self.leave(y)
            self.later(300, self.want, y)
        self.yielders[g] = []
        self.rounds -= 1
        self.later(self.rnd.choice([800, 20 * US, 3 * MS]), self.release, t)

    def release(self, t):
        g = t.gil
        forced = bool(self.waiting[g]) and self.rnd.random() < self.switches
        self.leave(t, forced)
        self.record(RELEASE, t, forced)
        self.holder[g] = None
        if forced and self.rnd.random() < 0.7:
            self.enter(t, YIELDS)
            self.yielders[g].append(t)
            self.now += 1  # nothing else happens in between
            self.taken.add(self.now)
            self.record(YIELD, t)
        else:
            self.later(self.rnd.choice([1 * US, 30 * US, 5 * MS]), self.want, t)
        if self.waiting[g]:
            self.later(6 * US, self.wake, g)

    def wake(self, g):
        """One of those that wait gets it, unless another thread has been quicker."""
        if self.holder[g] is None and self.waiting[g]:
            self.acquire(self.rnd.choice(self.waiting[g]))

    def finish(self):
        self.now += 1 + int(self.rnd.expovariate(1.0 / MS))
        self.end = self.now
        for t in self.threads.values():
            self.leave(t, ended=False)

    # ---- what is lost, and what can be known then ----

    def choose_gaps(self, lost, paused):
        """Stretches of which all events are missing; a YIELD stays at its release."""
        n = lost + paused
        places = [i for i in range(10, len(self.records)) if self.records[i].kind != YIELD and
                  self.records[i - 1].ns < self.records[i].ns]
        if not n:
            return [], []
        cuts = sorted(self.rnd.sample(places, 2 * n))
        gaps = []
        for i, j in zip(cuts[::2], cuts[1::2]):
            begin = self.rnd.randrange(self.records[i - 1].ns, self.records[i].ns) + 1
            end = self.rnd.randrange(max(self.records[j - 1].ns, begin), self.records[j].ns) + 1
            begin = min(begin, self.records[i].ns)
            gaps.append((begin, end, j - i))
        of_pauses = set(self.rnd.sample(range(n), paused))
        return ([g for i, g in enumerate(gaps) if i not in of_pauses],
                [g[:2] for i, g in enumerate(gaps) if i in of_pauses])

    def pause_ends(self, begins, ends):
        """A few records from the start on, or before the end, are missing, too."""
        cuts = [i for i in range(4, len(self.records)) if self.records[i].kind != YIELD]
        if begins:
            self.pauses.insert(0, (self.start, self.records[cuts[0] - 1].ns + 1))
        if ends:
            begin = self.records[cuts[-4] - 1].ns + 1
            self.pauses.append((max([begin] + [e for _, e, *_ in self.unknown()]), self.end))

    def unknown(self):
        """Losses and pauses: sorted [(begin, end, number of events or None)]."""
        return sorted(self.gaps + [p + (None,) for p in self.pauses])

    def seen(self, ns):
        return not any(begin <= ns < end for begin, end, _ in self.unknown())

    def stretches(self):
        """Between them: [(begin, end)]."""
        edges = [self.start]
        for begin, end, _ in self.unknown():
            edges += [begin, end]
        edges.append(self.end)
        return list(zip(edges[::2], edges[1::2]))

    def choose_marks(self, n):
        times = sorted(self.rnd.sample(range(self.start, self.end + 1), n))
        tids = [0] + sorted(self.threads)
        return [Mark(ns, self.rnd.choice(tids), "step %d" % i) for i, ns in enumerate(times)]

    def see(self):
        return [r for r in self.records if self.seen(r.ns)]

    def truth(self):
        return Truth(self)

    # ---- the file ----

    def meta(self):
        pairs = {"process.pid": str(self.pid), "process.ns_pid": str(self.pid),
                 "process.comm": "python3",
                 "host.name": "model", "probe.mode": "sites", "check.result": "consistent"}
        if self.rank is not None:
            pairs.update({"rank": str(self.rank), "rank.source": "RANK"})
        return pairs

    def raw(self, ns):
        """CLOCK_MONOTONIC_RAW: far from CLOCK_MONOTONIC, and it drifts, now slower, now faster."""
        seconds, rest = divmod(ns - self.start, S)
        drift = sum(DRIFT[i % len(DRIFT)]
                    for i in range(seconds)) + DRIFT[seconds % len(DRIFT)] * rest // S
        return ns - 7777777 + drift

    def clock(self, w, ns):
        w.clock(ns, self.raw(ns), ns - self.start + self.unix)

    def to_unix(self, ns):
        return ns - self.start + self.unix

    def write(self, path, records=4000, order=None, flush_at=(), names=None, astray=0):
        """order: the visible records in another. flush_at: where a block is sealed, by index.
        astray: so many records before or behind its place may a mark stand."""
        marks = collections.defaultdict(list)
        for m in self.marks:
            i = sum(r.ns < m.ns for r in self.visible)
            i += random.Random(m.ns).randint(-astray, astray)
            marks[min(max(i, 0), len(self.visible))].append(m)
        with GilWriter(path, records) as w:
            w.meta(self.meta())
            w.site()
            self.clock(w, self.start)
            for g in self.gils:
                w.gil(self.start, g)
            for tid in sorted(self.threads):
                name = (names or self.names).get(tid, "")
                raw = name if isinstance(name, bytes) else name.encode()
                w.thread(self.start, tid, tid, raw[:15], 0, raw)
            for tid, (state, gil) in sorted(self.told_before.items()):
                w.before(self.start, tid, gil, state)
            gaps, next_clock = collections.deque(self.unknown()), self.start + S
            for i, r in enumerate(self.visible if order is None else order):
                self.write_marks(w, marks[i])
                while gaps and gaps[0][1] <= r.ns:
                    self.write_gap(w, *gaps.popleft())
                while next_clock <= r.ns and order is None:
                    self.clock(w, next_clock)
                    next_clock += S
                if i in flush_at:
                    w.flush()
                if r.kind == RELEASE:
                    w.release(r.ns, r.tid, r.gil, r.forced)
                else:
                    w.event(r.kind, r.ns, r.tid, r.gil)
            for gap in gaps:
                self.write_gap(w, *gap)
            self.write_marks(w, marks[len(self.visible)])
            w.flush()
            self.clock(w, self.end)
            if not self.killed:
                w.end(self.end)

    @staticmethod
    def write_gap(w, begin, end, count):
        if count is None:
            w.pause(begin, end)
        else:
            w.gap(begin, end, count)

    @staticmethod
    def write_marks(w, marks):
        for m in marks:
            w.mark(m.ns, m.tid, m.name)


class Truth:
    """
    .slices    what is to be drawn: sorted State of known stretches, also releases without length
    .threads   {tid: dict of ns and numbers}
    .blame     {(victim, begin of the wait): {blocker: ns}}; of blockers None: nobody, "?": unknown,
               "free?": it was free, but no event shows it
    """

    def __init__(self, m):
        self.m = m
        self.known = {tid: self.known_of(tid) for tid in m.threads}
        self.slices = sorted(s for st in m.states if st.kind != "exit" for s in self.cut(st))
        holds = [s for s in self.slices if s.kind == HOLDS]
        self.holds = {g: sorted((h.begin, h.end, h.tid) for h in holds if h.gil == g)
                      for g in m.gils}
        self.truly = {g: sorted((s.begin, s.end) for s in m.states if s.kind == HOLDS and s.gil ==
                                g)
                      for g in m.gils}
        self.moves = {g: sorted(r.ns for r in m.visible if r.gil == g and
                                r.kind in (ACQUIRE, RELEASE))
                      for g in m.gils}
        self.blame = {(w.tid, w.begin): self.share(w) for w in self.slices if w.kind == WAITS}
        self.threads = {tid: self.numbers(tid) for tid in m.threads if self.known[tid]}

    def known_of(self, tid):
        """Stretches in which the thread's state is known."""
        out = []
        gone = [s.begin for s in self.m.states if s.kind == "exit" and s.tid == tid]
        events = [r for r in self.m.visible if r.tid == tid]
        times = [r.ns for r in events]
        for n, (begin, end) in enumerate(self.m.stretches()):
            i = bisect.bisect_left(times, begin)
            first = events[i] if i < len(events) and times[i] < end else None
            if n == 0 and tid in self.m.told_before and end > begin:
                since = begin
            elif first is None:
                continue
            else:
                since = begin if first.kind == RELEASE else first.ns
            if gone and gone[0] in times:
                end = min(end, gone[0])
            if since <= end:
                out.append((since, end))
        return out

    def cut(self, s):
        """The known parts of a state."""
        for begin, end in self.known[s.tid]:
            b, e = max(s.begin, begin), min(s.end, end)
            if b < e or (b == e and b == s.begin and s.kind == YIELDS):
                ended = s.ended and s.end <= end
                yield s._replace(begin=b, end=e, ended=ended, forced=s.forced if ended else None)

    def drawn(self):
        """(name, tid, gil, begin, end), with the releases that nothing delayed."""
        out = {(s.kind, s.tid, s.gil, s.begin, s.end) for s in self.slices}
        yields = {(s.tid, s.begin) for s in self.slices if s.kind == YIELDS}
        for r in self.m.visible:
            if r.kind == RELEASE and (r.tid, r.ns) not in yields:
                out.add((YIELDS, r.tid, r.gil, r.ns, r.ns))
        return sorted(out)

    def share(self, w):
        """Brute force: each piece of the wait between two changes of anything."""
        edges = {w.begin, w.end}
        held = self.overlapping(self.holds[w.gil], w)
        true_holds = self.overlapping(self.truly[w.gil], w)
        moves = self.moves[w.gil]
        begin = max(b for b, _ in self.m.stretches() if b <= w.begin)
        i = bisect.bisect_left(moves, begin)
        sure_from = moves[i] if i < len(moves) else self.m.end
        edges.update(x for h in held + true_holds for x in h[:2] if w.begin < x < w.end)
        edges.update([sure_from] if w.begin < sure_from < w.end else [])
        edges = sorted(edges)
        out = collections.Counter()
        for a, b in zip(edges, edges[1:]):
            by = [h[2] for h in held if h[0] <= a and b <= h[1]]
            if by:
                who = by[0]
            elif any(h[0] <= a and b <= h[1] for h in true_holds):
                who = "?"
            else:
                who = None if a >= sure_from else "free?"
            out[who] += b - a
        return out

    @staticmethod
    def overlapping(holds, w):
        """Of sorted ones that do not overlap each other."""
        i = max(0, bisect.bisect(holds, (w.begin,)) - 1)
        j = bisect.bisect(holds, (w.end,))
        return [h for h in holds[i:j] if h[0] < w.end and w.begin < h[1]]

    def arrows(self):
        """(who released, when, who waited, until when), of waits whose end is known so well."""
        out = []
        releases = {g: [r for r in self.m.visible if r.gil == g and r.kind == RELEASE]
                    for g in self.m.gils}
        times = {g: [r.ns for r in releases[g]] for g in self.m.gils}
        for w in self.slices:
            if w.kind == WAITS and w.ended:
                begin = max(b for b, _ in self.m.stretches() if b <= w.begin)
                i = bisect.bisect(times[w.gil], w.end) - 1
                if i >= 0 and times[w.gil][i] >= begin:
                    out.append((releases[w.gil][i].tid, times[w.gil][i], w.tid, w.end))
        return sorted(out)

    def numbers(self, tid):
        mine = [s for s in self.slices if s.tid == tid]
        events = [r for r in self.m.visible if r.tid == tid]
        sums = {k: sum(s.end - s.begin for s in mine if s.kind == k)
                for k in (WAITS, HOLDS, YIELDS)}
        observed = sum(e - b for b, e in self.known[tid])
        pairs = collections.Counter()
        for w in mine:
            if w.kind == WAITS:
                pairs.update(self.blame[tid, w.begin])
        return {
            "observed": observed, "wait": sums[WAITS], "hold": sums[HOLDS], "drop": sums[YIELDS],
            "idle": observed - sum(sums.values()),
            "takes": sum(1 for r in events if r.kind == ACQUIRE),
            "contended": sum(1 for s in mine if s.kind == WAITS and s.ended),
            "waits": sum(1 for s in mine if s.kind == WAITS),
            "forced": sum(1 for r in events if r.kind == RELEASE and r.forced),
            "voluntary": sum(1 for r in events if r.kind == RELEASE and not r.forced),
            "pairs": pairs}
