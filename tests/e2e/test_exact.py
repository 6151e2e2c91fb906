# SPDX-License-Identifier: Apache-2.0
"""
Recorded + lost = true, where the truth is counted by others: by the targets themselves, in each call by
which they hand their GIL over (calls.py), or by the kernel's own counters at the same addresses.
Each loss has its place and its number, in the file, on the screen and in what gil2trace makes of it.

With GT_SOAK=1 the loads are ten times as long, and the rate that is reached must be half a million
events a second.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from calls import COND_WAIT, SIGNAL, TIMEDWAIT, Calls, Hits, since  # noqa: E402
from family import FamilyTest  # noqa: E402
from kernel import closing  # noqa: E402

SOAK = os.environ.get("GT_SOAK") == "1"
ROUNDS = 1000000 if SOAK else 25000  # of os.stat: each releases and takes the GIL once
RATE = 500000  # events a second
TINY = "--ring-size=%d" % (os.sysconf("SC_PAGESIZE") // 1024)
THREADS = 1400  # the table of BPF has room for 1,024
EVENTS = r"%s: (\d+) events?, (\d+) lost"


def usual():
    """No debug build, which takes its time."""
    good = [p for p in h.pythons() if not p.debug]
    return ([p for p in good if p.version[:2] == (3, 11)] or good)[-1].copy()


def now():
    return int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9)


class Target:
    """A busy process that counts its calls."""

    def __init__(self, test, py=None, room=0, **workers):
        self.calls = Calls(room)
        self.work = h.Workload(py or usual(), env=self.calls.env)
        test.addCleanup(self.work.__exit__)
        self.pid = self.work.pid
        self.work.start_workers(**workers)
        self.begin()

    def begin(self):
        """It rests, and is recorded from now on."""
        self.work.quiesce()
        self.before = self.calls.counted()

    def true(self):
        """What it has done since then."""
        return since(self.calls.counted(), self.before)


def summary(path):
    """What gil2trace says of a recording."""
    out = subprocess.run([h.tool("gil2trace"), "-q", "--summary=json", path],
                         stdout=subprocess.PIPE, timeout=h.LIMIT, check=True).stdout
    process, = json.loads(out.decode())["processes"]
    return process


class Exact(h.BpfTest):
    def load(self, targets, rounds, **kwargs):
        """All of them at once; how many seconds it takes until the last one rests."""
        begin = time.monotonic()
        for t in targets:
            t.work.do("run", limit=rounds, **kwargs)
        for t in targets:
            t.work.do("join")
        seconds = time.monotonic() - begin
        for t in targets:
            t.work.quiesce()
        return seconds

    def check_sum(self, target, r):
        """The file, the screen and gil2trace tell of the same numbers, and these add up to the truth."""
        path, = r.of(target.pid)
        told = summary(path)
        self.assertEqual(told["events"] + told["lost"], sum(target.true()),
                         "%d recorded, %d lost, true: %s" % (told["events"], told["lost"],
                                                             target.true()))
        self.assertTrue(told["lost_known"])
        said = re.search(EVENTS % re.escape(path), r.text())
        self.assertTrue(said, r.text())
        self.assertEqual([int(n) for n in said.groups()], [told["events"], told["lost"]])
        if told["lost"]:
            self.assertRegex(r.text(), "process %d: the ring was full, %d events are lost" % (
                target.pid, told["lost"]))
        return told

    def check_places(self, path, told, spans=()):
        """Each gap of the file is drawn where it is, with its number; spans: where they may be."""
        rec = h.Recording(path)
        self.assertEqual(rec.violations()[:5], [])
        self.assertEqual((len(rec.gaps), rec.lost), (told["gaps"], told["lost"]))
        trace = rec.trace()
        drawn = [(h.exact_ns(e["ts"]) - rec.to_unix, h.exact_ns(e["args"]["end"]) - rec.to_unix,
                  int(e["args"]["count"])) for e in trace.events if e["name"] == "lost events"]
        self.assertEqual(sorted(drawn), sorted((g.begin_ns, g.ns, g.count) for g in rec.gaps))
        for gap in rec.gaps if spans else ():
            self.assertTrue(any(begin <= gap.begin_ns <= end for begin, end in spans), (gap, spans))
        return rec

    def check_kinds(self, rec, true):
        """Where nothing is lost, it is known of each kind."""
        self.assertEqual((rec.count(h.ACQUIRE) + rec.count(h.RELEASE), rec.count(h.WAIT),
                          rec.count(h.YIELD)), true)


class Counts(Exact):
    def test_as_fast_as_it_goes(self):
        """A busy process for each CPU, rings of the usual size."""
        targets = [Target(self, stat=1) for _ in range(os.cpu_count())]
        with h.Recorder([t.pid for t in targets]) as r:
            seconds = self.load(targets, ROUNDS)
            self.assertIn(r.stop(), (h.OK, h.LOSSES), r.text())
            told = [self.check_sum(t, r) for t in targets]
        true = sum(sum(t.true()) for t in targets)
        h.say("%d processes: %d events in %.2f s, %d a second, %d of them lost (load %.1f)" % (
            len(targets), true, seconds, true / seconds, sum(t["lost"] for t in told),
            os.getloadavg()[0]))
        if SOAK:
            self.assertGreater(true / seconds, RATE)

    def test_threads_that_contend(self):
        """Of each kind, as nothing is lost: waits and forced releases, too."""
        target = Target(self, cpu=2, stat=2)
        target.work.do("interval", seconds=0.0002)
        target.begin()
        with h.Recorder(target.pid, "--ring-size=16384") as r:
            self.load([target], 6000)
            self.assertEqual(r.stop(), h.OK, r.text())
            told = self.check_sum(target, r)
        rec = r.recording()
        self.assert_sound(rec)
        self.assertEqual(told["lost"], 0)
        self.check_kinds(rec, target.true())
        self.assertGreater(rec.count(h.WAIT), 10)
        self.assertGreater(rec.count(h.YIELD), 0)

    def test_reader_that_is_stopped(self):
        """By SIGSTOP, for as long as it takes to lose most of it, twice; with rings of two sizes."""
        for option, rounds in (("--ring-size=1024", ROUNDS), (TINY, ROUNDS // 10)):
            targets = [Target(self, stat=2) for _ in range(2)]
            spans = []
            with h.Recorder([t.pid for t in targets], option) as r:
                for _ in range(2):
                    begin = now()
                    r.freeze()
                    seconds = self.load(targets, rounds)
                    spans.append((begin, now()))
                    r.thaw(rounds=4)
                    self.load(targets, 20)
                self.assertEqual(r.stop(), h.LOSSES, r.text())
                for t in targets:
                    told = self.check_sum(t, r)
                    self.assertGreater(told["lost"], 0)
                    rec = self.check_places(r.of(t.pid)[0], told, spans)
                    self.assertEqual(len(rec.gaps), 2)
                    h.say("%s, stopped for %.1f s: %d recorded, %d lost" % (
                        option, seconds, told["events"], told["lost"]))

    def test_rings_that_are_too_small(self):
        """Full and read in turns, while nobody is stopped; two processes, two threads each."""
        targets = [Target(self, stat=2) for _ in range(2)]
        with h.Recorder([t.pid for t in targets], TINY) as r:
            begin = now()
            self.load(targets, ROUNDS // 4)
            self.assertIn(r.stop(), (h.LOSSES, h.OK), r.text())
            for t in targets:
                told = self.check_sum(t, r)
                rec = self.check_places(r.of(t.pid)[0], told, [(begin, now())])
                h.say("%d recorded, %d lost in %d gaps" % (rec.total(), rec.lost, len(rec.gaps)))

    def test_killed_while_events_are_lost(self):
        target = Target(self, stat=2)
        with h.Recorder(target.pid, TINY) as r:
            r.freeze()
            self.load([target], ROUNDS // 10)
            target.work.kill()
            r.thaw()
            self.assertEqual(r.finish(), h.LOSSES, r.text())
            told = self.check_sum(target, r)
            self.check_places(r.of(target.pid)[0], told)


class Process:
    """As far as h.Workload looks at one to see whether it rests."""

    tids, asleep, quiesce = h.Workload.tids, h.Workload.asleep, h.Workload.quiesce

    def __init__(self, pid):
        self.pid = pid


class Threads(FamilyTest):
    def test_more_than_its_table_holds(self):
        """
        Takes, releases and yields are exact, and a wait that is told repeatedly is drawn once; each
        thread has its end.
        """
        calls = Calls()
        family = self.start(usual(), env=calls.env)
        family.root.do("threads", names=["n-%d" % i for i in range(THREADS)])
        Process(family.pid).quiesce()
        before = calls.counted()
        r = self.record(family.pid, "--ring-size=16384")
        done = family.root.do("all", what="count", n=5)
        Process(family.pid).quiesce()
        os.kill(family.pid, signal.SIGKILL)  # all end, those whose places others have, too
        self.assertEqual(r.finish(), h.OK, r.text())
        rec, last = r.recording(), since(calls.counted(), before)
        self.assertEqual(rec.count(h.ACQUIRE) + rec.count(h.RELEASE), last.signals)
        self.assertEqual(rec.count(h.YIELD), last.yields)
        self.assertGreaterEqual(rec.count(h.WAIT), last.waits)
        self.assertEqual([v for v in rec.violations() if "WAIT" not in v], [])
        drawn = sum(t["waits"]["count"] for t in summary(rec.path)["threads"])
        self.assertEqual(drawn, last.waits)
        h.say("%d threads: %s; %d waits told" % (THREADS, last, rec.count(h.WAIT)))
        tids = {d["tid"] for d in done}
        self.assertEqual(len(tids), THREADS)
        self.assertEqual({t for t in tids if len(rec.exits(t)) != 1}, set(), "threads without their end")


class SecondTracer(Exact):
    def sites(self, py):
        """Where CPython hands its GIL over, found by a recording that is thrown away."""
        with h.Workload(py) as w, h.Recorder(w) as r:
            w.do("ping")
            self.assertEqual(r.stop(), h.OK, r.text())
            return r.recording().sites

    def test_kernel_counters_at_the_same_addresses(self):
        """Each hit is recorded, or lost, or a wait that is repeated; of each site, too."""
        py = usual()
        sites = self.sites(py)
        with closing() as fds, h.Workload(py) as w:
            w.start_workers(cpu=1, stat=2)
            w.do("interval", seconds=0.0005)
            hits = Hits(fds, py.file, {s.offset for s in sites})
            self.assertGreater(w.breakpoints(), 0)
            whole = h.Recorder(w, "--ring-size=16384")
            self.addCleanup(whole.__exit__)
            with h.Recorder(w, TINY) as r:
                w.do("run", limit=3000)
                w.do("join")
                w.quiesce()
                self.assertEqual(whole.stop(), h.OK, whole.text())
                self.assertIn(r.stop(), (h.OK, h.LOSSES), r.text())
            rec, part = whole.recording(), r.recording()
            counted = {i: hits.of(s.offset) for i, s in enumerate(rec.sites)}
        self.assert_sound(rec)
        for i, s in enumerate(rec.sites):
            told = sum(1 for e in rec.all if e.kind in h.COUNTED and e.site == i)
            if s.kind == h.WAIT:
                self.assertLessEqual(told, counted[i], s)
            else:
                self.assertEqual(told, counted[i], s)
        self.assertEqual(part.total() + part.lost, rec.total())
        repeats = sum(counted.values()) - rec.total()
        h.say("%d hits by the kernel's counters: %d recorded, %d repeated waits; beside it %d "
              "recorded, %d lost" % (sum(counted.values()), rec.total(), repeats, part.total(),
                                     part.lost))
        self.assertGreaterEqual(repeats, 0)


class Places(Exact):
    """What is not recorded, as nobody was there yet."""

    def test_attached_under_load(self):
        """
        From the opening of the gate on each call is there, in its order, thread by thread: none is
        missing between the first and the last.
        """
        target = Target(self, room=2000000, cpu=2, stat=2)
        target.work.do("interval", seconds=0.0005)
        target.work.do("run", limit=10**9)
        with h.Recorder(target.pid, "--ring-size=16384") as r:
            opened = now()  # or before that
            with h.Recorder(target.pid, "-d", 0.2) as inner:  # so long there is load
                self.assertEqual(inner.finish(), h.OK, inner.text())
            target.work.do("park")
            target.work.quiesce()
            self.assertEqual(r.stop(), h.OK, r.text())
            rec = r.recording()
        self.assert_sound(rec)
        self.assertEqual(rec.lost, 0)
        lines = target.calls.lines()
        for tid in target.work.threads.values():
            mine = [(line.ns, line.call) for line in lines if line.tid == tid]
            kept, waiting = [], False
            for ns, call in mine:  # the repeats of a wait are one wait
                if call != TIMEDWAIT or not waiting:
                    kept.append((ns, call))
                waiting = call == TIMEDWAIT
            events = [(e.ns, SIGNAL if e.kind in (h.ACQUIRE, h.RELEASE) else
                       TIMEDWAIT if e.kind == h.WAIT else COND_WAIT) for e in rec.of(tid)]
            must = [c for ns, c in kept if ns > opened]
            self.assertGreater(len(must), 10)
            # The first of these may have been on its way from the probe to the counter.
            self.assertGreaterEqual(len(events), len(must) - 1)
            kept = kept[-len(events):]
            self.assertEqual([c for _, c in events], [c for _, c in kept])
            # A wait that was under way at the start is told when it is repeated.
            for n in range(events[0][1] == TIMEDWAIT, len(events)):
                self.assertLessEqual(events[n][0], kept[n][0], "the counter is behind the probe")
                self.assertTrue(n == 0 or events[n][0] > kept[n - 1][0], "it is that very call")


if __name__ == "__main__":
    h.main()
