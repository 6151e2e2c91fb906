# SPDX-License-Identifier: Apache-2.0
"""What is drawn under filters, and in which form, against a model that knows the truth."""
import collections
import gzip
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
from gilwrite import ACQUIRE, WAIT, GilWriter  # noqa: E402
from model import Model  # noqa: E402

US, MS, S = b.US, b.MS, b.S


def seconds(ns):
    """As an option wants it, exactly."""
    return "%d.%09d" % divmod(ns, S)


class Filtered(b.Case):
    """Two ranks, one with losses, several GILs."""

    def setUp(self):
        super().setUp()
        self.models = [Model(7, threads=6, gils=2, rounds=500, gaps=2, exits=1, pid=4200, rank=0),
                       Model(8, threads=4, rounds=300, pid=5200, rank=1,
                             start=1000 * S + 100 * MS, unix=1700000000 * S + 100 * MS)]
        self.files = []
        for m in self.models:
            self.files.append("GIL_%d_rank_%d.gil" % (m.pid, m.rank))
            m.write(self.path(self.files[-1]))
        self.all = sorted(s for m in self.models for s in b.truth_slices(m))
        self.begin = min(m.unix for m in self.models)

    def drawn(self, *options):
        return self.trace(*(tuple(self.files) + options))

    def expect(self, keep, *options):
        """Exactly those of all slices that are kept are drawn; what is not is told, and adds up."""
        run = self.run_it(*(tuple(self.files) + options + ("-o", "-")))
        trace = b.Trace(run.out)
        want = [s for s in self.all if keep(b.Slice(*s, args=None))]
        self.assertEqual(trace.plain(), want)
        self.assertTrue(0 < len(want) < len(self.all), "a filter that does nothing tests nothing")
        out = collections.Counter(self.all)
        out.subtract(want)
        self.told(run.err, [s for s in out.elements()])
        return trace

    def told(self, said, out):
        """How many slices of each kind are left out, and how long they are together."""
        told = {kind: (int(n), int(time.replace(".", "")))
                for n, kind, time in re.findall(r"\b(\d+) (\w+_gil) \((\d+\.\d{3}) ms\)", said)}
        for kind in ("take_gil", "hold_gil", "drop_gil"):
            gone = [s for s in out if s[0] == kind]
            total = sum(s[5] - s[4] for s in gone)
            self.assertEqual(told.get(kind, (0, 0)), (len(gone), total // US), said)


class What(Filtered):
    def test_all(self):
        trace = self.drawn()
        self.assertEqual(trace.plain(), self.all)

    def test_least_length(self):
        for text, least in (("5ms", 5 * MS), ("30", 30 * US), ("30us", 30 * US), ("1500ns", 1500),
                            ("0.005s", 5 * MS), ("1.5us", 1500), ("0.00500000000000s", 5 * MS)):
            with self.subTest(text):
                self.expect(lambda s: s.end - s.begin >= least, "--min-dur=" + text)

    def test_least_length_to_the_nanosecond(self):
        some = sorted(s[5] - s[4] for s in self.all)[len(self.all) // 2 + 40]
        self.assertGreater(some, 0)
        self.expect(lambda s: s.end - s.begin >= some, "--min-dur=%dns" % some)
        self.expect(lambda s: s.end - s.begin >= some + 1, "--min-dur=%dns" % (some + 1))

    def span(self):
        """Two instants in the middle, at which nothing begins or ends."""
        edges = {t for s in self.all for t in s[4:6]}
        first, last = min(edges), max(edges)
        at = [first + (last - first) * i // 10 for i in (3, 6)]
        while at[0] in edges or at[1] in edges:
            at = [t + 1 for t in at]
        return at

    def test_range(self):
        begin, end = self.span()
        for since, until in ((seconds(begin), seconds(end)), ("%dns" % begin, "%dns" % end),
                             (seconds(begin - self.begin), seconds(end - self.begin)),
                             ("%dns" % (begin - self.begin), "%dns" % (end - self.begin))):
            with self.subTest(since=since):
                self.expect(lambda s: s.end > begin and s.begin < end, "--from=" + since,
                            "--to=" + until)
        self.expect(lambda s: s.end > begin, "--from=" + seconds(begin))
        self.expect(lambda s: s.begin < end, "--to", seconds(end))

    def test_edges_of_the_range(self):
        """What ends where it begins is out, what has no length there is in."""
        with GilWriter(self.path("e.gil")) as w:
            w.meta({"process.pid": "7"})
            w.clock(S, S, 2 * S)
            w.gil(S, 0)
            for at in (10, 20, 30):
                w.event(ACQUIRE, S + at * MS, 9)
                w.release(S + (at + 10) * MS - (at == 20), 9)
            w.flush()
            w.clock(S + 50 * MS, S + 50 * MS, 2 * S + 50 * MS)
            w.end(S + 50 * MS)
        got = [((s.begin - 2 * S) // MS, s.name) for s in
               self.trace("e.gil", "--from=0.02", "--to=0.03").slices]
        self.assertEqual(sorted(got), [(20, "drop_gil"), (20, "hold_gil"), (29, "drop_gil")])

    def test_losses_in_the_range_are_still_shown(self):
        m = self.models[0]
        (b0, e0, n0), (b1, e1, n1) = m.gaps
        trace = self.drawn("--to=%dns" % m.to_unix((e0 + b1) // 2))
        self.assertEqual([e["args"]["count"] for e in trace.events if e["name"] == "lost events"],
                         [str(n0)])
        trace = self.drawn("--min-dur=1s")
        self.assertEqual([e["args"]["count"] for e in trace.events if e["name"] == "lost events"],
                         [str(n0), str(n1)])

    def test_processes_and_threads(self):
        tids = sorted({s[2] for s in self.all})
        self.expect(lambda s: s.pid == 5200, "--pid=5200")
        self.expect(lambda s: s.tid == tids[1], "--tid=%d" % tids[1])
        self.expect(lambda s: s.tid in (tids[0], tids[-1]), "--tid=%d,%d" % (tids[0], tids[-1]))
        self.expect(lambda s: s.pid == 4200 and s.tid == 4201, "--pid=4200", "--tid=4201")

    def test_together(self):
        begin, end = self.span()
        self.expect(lambda s: s.end > begin and s.begin < end and s.end - s.begin >= 20 * US and
                    s.pid == 4200,
                    "--from=%dns" % begin, "--to=%dns" % end, "--min-dur=20", "--pid=4200")

    def test_rows_of_threads_that_are_left_out(self):
        """No empty rows: a viewer shows each row that has a name."""
        trace = self.drawn("--tid=4201")
        self.assertEqual([t for t in trace.threads if t[1] < 4194304], [(4200, 4201)])

    def test_summary_is_of_everything(self):
        whole = self.run_it(*(self.files + ["--summary=json"])).out
        begin, end = self.span()
        for options in (["--min-dur=1ms"], ["--from=%dns" % begin], ["--to=%dns" % end],
                        ["--pid=4200"],
                        ["--tid=4201"], ["--flows"], ["--time=relative"], ["--gzip"],
                        ["--min-dur=1ms", "--from=0.001", "--pid=5200"]):
            with self.subTest(options):
                got = self.run_it(*(self.files + options + ["--summary=json", "-o", "t.json"])).out
                self.assertEqual(got, whole)
        text = self.run_it(*(self.files + ["--summary"])).out
        self.assertEqual(self.run_it(*(self.files +
                                       ["--summary", "--min-dur=1ms", "-o", "t.json"])).out, text)

    def test_nothing_is_left(self):
        """An empty array would be an import error: the trace says which processes there are."""
        run = self.run_it(*(self.files + ["--tid=77", "-o", "t.json"]))
        self.told(run.err, self.all)
        self.assertEqual(self.read("t.json").slices, [])

    def test_nonsense(self):
        for option in ("--min-dur=", "--min-dur=-1", "--min-dur=1.0001us",
                       "--min-dur=0.00500000000001s", "--min-dur=5km", "--min-dur=1e3", "--from=x",
                       "--to=1:2",
                       "--from=5", "--from=2", "--pid=", "--pid=x", "--pid=1,,2", "--tid=-4",
                       "--tid=4294967296",
                       "--min-dur=99999999999999999999", "--time=local", "--split=0", "--split=-1",
                       "--split=x"):
            options = [option] + (["--to=1"] if option == "--from=2" else ["--to=4"] if option ==
                                  "--from=5" else [])
            with self.subTest(options):
                r = self.run_it(*(self.files + options + ["-o", "t.json"]), status=b.USAGE)
                self.assertIn(option.split("=")[0], r.err)
        self.assertEqual(self.tree(), sorted(self.files))


class Marks(b.Case):
    """Marks and pauses under filters; docs/trace.md says what is let through."""

    def setUp(self):
        super().setUp()
        self.models = [Model(41, threads=4, pauses=2, marks=60, pid=4200, rank=0),
                       Model(42, threads=3, marks=30, pid=5200, rank=1)]
        self.files = ["GIL_%d.gil" % m.pid for m in self.models]
        for m, name in zip(self.models, self.files):
            m.write(self.path(name))
        self.all = sorted((m.pid, x.tid, m.to_unix(x.ns), x.name)
                          for m in self.models for x in m.marks)
        self.begin = min(m.unix for m in self.models)

    def expect(self, keep, *options):
        run = self.run_it(*(tuple(self.files) + options + ("-o", "-")))
        trace = b.Trace(run.out)
        want = [x for x in self.all if keep(*x[:3])]
        self.assertEqual(sorted(trace.marks), want)
        self.assertTrue(set(x[:2] for x in want if x[1]) <= set(trace.threads))
        if options:
            self.assertIn(", %d mark(s)" % (len(self.all) - len(want)), run.err)
        return trace

    def paused(self, trace):
        return [(int(e["pid"]), b.ns(e["ts"]), b.ns(e["args"]["end"])) for e in trace.events
                if e["name"] == "paused" and e["ph"] == "I"]

    def test_all(self):
        m = self.models[0]
        trace = self.expect(lambda *x: True)
        self.assertEqual(self.paused(trace),
                         [(m.pid, m.to_unix(x), m.to_unix(y)) for x, y in m.pauses])

    def test_range(self):
        at = self.all[20][2], self.all[45][2]
        for options in ((seconds(at[0]), seconds(at[1])),
                        ("%dns" % (at[0] - self.begin), "%dns" % (at[1] - self.begin))):
            self.expect(lambda pid, tid, ns: at[0] <= ns < at[1], "--from=" + options[0],
                        "--to=" + options[1])
        # its end and its beginning, exactly
        self.expect(lambda pid, tid, ns: ns < at[1] + 1, "--to=%dns" % (at[1] + 1))
        self.expect(lambda pid, tid, ns: ns > at[0], "--from=%dns" % (at[0] + 1))

    def test_pauses_in_the_range(self):
        m = self.models[0]
        (x0, y0), (x1, y1) = [tuple(map(m.to_unix, p)) for p in m.pauses]
        trace = self.trace(self.files[0], "--to=%dns" % ((y0 + x1) // 2), "--tid=1")
        self.assertEqual(self.paused(trace), [(m.pid, x0, y0)])
        trace = self.trace(self.files[0], "--from=%dns" % (y1 - 1), "--min-dur=1s")
        self.assertEqual(self.paused(trace), [(m.pid, x1, y1)])

    def test_threads_and_processes(self):
        self.expect(lambda pid, tid, ns: tid in (0, 4201), "--tid=4201")
        self.expect(lambda pid, tid, ns: pid == 5200, "--pid=5200")
        self.expect(lambda pid, tid, ns: pid == 5200 and tid in (0, 5201), "--pid=5200",
                    "--tid=5201")

    def test_rows_for_marks_alone(self):
        """Slices are gone, marks are not: their threads need rows, and no others."""
        run = self.run_it(*self.files, "--min-dur=3600s", "-o", "-")
        trace = b.Trace(run.out)
        self.assertEqual(trace.slices, [])
        self.assertEqual({x for x in trace.threads if x[1] < 4194304},
                         {x[:2] for x in self.all if x[1]})
        self.assertNotIn("mark(s)", run.err.split("left out by the filters")[1])

    def test_relative_time(self):
        trace = b.Trace(self.run_it(*self.files, "--time=relative", "-o", "-").out)
        self.assertEqual(sorted(trace.marks),
                         sorted((p, t, ns - self.begin + 1, n) for p, t, ns, n in self.all))

    def test_parts(self):
        """Each is a trace of its own, with the rows of what is marked in it."""
        m = Model(43, threads=8, gils=2, rounds=6000, pauses=2, marks=400)
        m.write(self.path("big.gil"))
        whole = self.trace("big.gil")
        self.run_it("big.gil", "--split=1", "-o", "p.json")
        names = [n for n in self.tree() if n.startswith("p_")]
        self.assertGreater(len(names), 1)
        parts = [b.Trace(b.read_json(self.path(n))) for n in names]
        self.assertEqual(sorted(x for p in parts for x in p.marks), sorted(whole.marks))
        self.assertEqual(sorted(x for p in parts for x in self.paused(p)), self.paused(whole))
        self.assertTrue(all(p.marks for p in parts))

    def test_parts_of_marks_alone(self):
        """Threads that do nothing else have rows in each part that shows a mark of theirs."""
        with GilWriter(self.path("marks.gil")) as w:
            w.meta({"process.pid": "7"})
            w.clock(S, S, 2 * S)
            for i in range(6000):
                w.mark(S + i, 8 + i // 1000, "x" * 100)
            w.end(S + MS)
        self.run_it("marks.gil", "--split=1", "-o", "p.json")
        parts = [b.Trace(b.read_json(self.path(n))) for n in self.tree() if n.startswith("p_")]
        self.assertGreater(len(parts), 1)
        self.assertEqual(sorted(x for p in parts for x in p.marks),
                         [(7, 8 + i // 1000, 2 * S + i, "x" * 100) for i in range(6000)])
        for p in parts:
            self.assertEqual({t for t in p.threads if t[1] < 4194304},
                             {x[:2] for x in p.marks})


class Blame(Filtered):
    def test_who_blocked_whom(self):
        """Each wait's parts, and the thread that had the GIL longest meanwhile."""
        trace = self.drawn()
        takes = {(s.pid, s.tid, s.begin): s for s in trace.slices if s.name == "take_gil"}
        kinds = collections.Counter()
        for m in self.models:
            for (tid, begin), share in m.truth().blame.items():
                s = takes.pop((m.pid, tid, m.to_unix(begin)))
                part = {k: b.ns(s.args.get(k, "0.000"))
                        for k in ("held_us", "nobody_us", "unknown_us",
                                                                  "blocker_us")}
                by = {k: v for k, v in share.items() if isinstance(k, int)}
                self.assertEqual(part["held_us"], sum(by.values()), (s, share))
                self.assertEqual(part["blocker_us"], max(by.values(), default=0), (s, share))
                if by:
                    self.assertEqual(by[int(s.args["blocker"])], part["blocker_us"])
                else:
                    self.assertNotIn("blocker", s.args)
                low = share[None]
                self.assertTrue(low <= part["nobody_us"] <= low + share["free?"], (s, share))
                self.assertGreaterEqual(part["unknown_us"], share["?"])
                kinds.update(k if not isinstance(k, int) else "held" for k, v in share.items() if v)
        self.assertEqual(takes, {})
        self.assertGreater(kinds["held"], 200)
        self.assertGreater(kinds[None], 200)

    def test_stays_exact_under_filters(self):
        """A blocker that is not drawn is named all the same."""
        whole = {s[:6]: s.args for s in self.drawn().slices}
        for options in (["--min-dur=3ms"], ["--tid=4201,5201"], ["--from=0.02"]):
            some = {s[:6]: s.args for s in self.drawn(*options).slices}
            self.assertGreater(len(some), 10)
            for s, args in some.items():
                self.assertEqual(args, whole[s])

    def test_unknown_holder(self):
        """Somebody has the GIL; no event says who."""
        with GilWriter(self.path("u.gil")) as w:
            w.meta({"process.pid": "7"})
            w.clock(S, S, 2 * S)
            w.gil(S, 0)
            w.event(WAIT, S + 10 * US, 9)
            w.flush()
            w.clock(S + MS, S + MS, 2 * S + MS)
            w.end(S + MS)
        s, = self.trace("u.gil").slices
        self.assertEqual(s.args["unknown_us"], "990.000")
        self.assertNotIn("blocker", s.args)

    def test_gil_is_told(self):
        self.assertEqual({s.gil for s in self.drawn().slices if s.pid == 4200}, {"0", "1"})


class Flows(Filtered):
    def test_from_a_release_to_the_acquire(self):
        trace = self.drawn("--flows")
        want = []
        for m in self.models:
            t = m.truth()
            for who, at, victim, until in t.arrows():
                hold = [h for h in t.holds if [x for x in t.holds[h] if x[1:] == (at, who)]]
                self.assertEqual(len(hold), 1)
                want.append((who, m.to_unix(at) - 1, victim, m.to_unix(until)))
        self.assertGreater(len(want), 100)
        self.assertEqual(sorted(a["s"] + a["f"] for a in trace.arrows.values()), sorted(want))
        self.assertEqual(trace.plain(), self.all)
        self.assertEqual(self.drawn().arrows, {}, "only where they are asked for")

    def test_under_filters(self):
        """Both ends lie in what is drawn: the rules are checked by trace()."""
        counts = [len(self.drawn("--flows", *o).arrows) for o in
                  ([], ["--min-dur=1ms"], ["--tid=4200,4202"], ["--tid=4201"],
                   ["--from=0.05", "--to=0.2"])]
        self.assertEqual(counts[3], 0)
        self.assertTrue(all(0 < n < counts[0] for n in counts[1:3] + counts[4:]), counts)

    def test_parts(self):
        Model(3, rounds=6000).write(self.path("big.gil"))
        self.run_it("big.gil", "--flows", "--split=1", "-o", "big.json")
        parts = [n for n in self.tree() if n.startswith("big_")]
        self.assertGreater(len(parts), 2)
        n = sum(len(self.read(p).arrows) for p in parts)
        whole = len(self.trace("big.gil", "--flows").arrows)
        self.assertTrue(0.9 * whole < n <= whole, (n, whole))


class Form(Filtered):
    def test_relative_time(self):
        trace = self.drawn("--time=relative")
        shifts = {got[4] - (want[4] - self.begin) for got, want in zip(trace.plain(), self.all)}
        self.assertLessEqual(len(shifts), 1, shifts)
        self.assertIn(shifts.pop(), (0, 1))
        self.assertEqual([(s[:4], s[5] - s[4]) for s in trace.plain()],
                         [(s[:4], s[5] - s[4]) for s in self.all])
        self.assertEqual(self.drawn("--time=unix").raw, self.drawn().raw)

    def test_relative_time_of_the_very_start(self):
        """0 would become the card's begin in Insight."""
        with GilWriter(self.path("s.gil")) as w:
            w.meta({"process.pid": "7"})
            w.clock(S, S, 2 * S)
            w.gil(S, 0)
            w.event(ACQUIRE, S, 9)
            w.release(S + 5, 9)
            w.end(S + MS)
        hold = [s for s in self.trace("s.gil", "--time=relative").slices if s.name == "hold_gil"]
        self.assertTrue(0 < hold[0].begin <= 1 and hold[0].end - hold[0].begin in (4, 5), hold)

    def test_ids(self):
        with GilWriter(self.path("i.gil")) as w:
            w.meta({"process.pid": "500", "process.ns_pid": "1"})
            w.clock(S, S, 2 * S)
            w.gil(S, 0)
            for tid, inside in ((500, 1), (501, 2), (502, 3)):
                w.thread(S, tid, inside)
                w.event(ACQUIRE, S + tid * US, tid)
                w.release(S + tid * US + 10, tid)
            w.event(ACQUIRE, S + 600 * US, 500)
            w.event(WAIT, S + 610 * US, 501)
            w.release(S + 650 * US, 500)
            w.event(ACQUIRE, S + 660 * US, 501)
            w.end(S + MS)
        for options, pid, main in (([], 1, 1), (["--ids=namespace"], 1, 1),
                                   (["--ids=host"], 500, 500)):
            slices = self.trace("i.gil", *options).slices
            self.assertEqual({(s.pid, s.tid) for s in slices},
                             {(pid, main), (pid, main + 1), (pid, main + 2)})
            wait, = [s for s in slices if s.name == "take_gil"]
            self.assertEqual((wait.tid, wait.args["blocker"]), (main + 1, str(main)),
                             "ids of one kind")
        self.assertEqual({s.tid for s in self.trace("i.gil", "--tid=2").slices}, {2})
        self.assertEqual({s.tid for s in self.trace("i.gil", "--tid=501", "--ids=host").slices},
                         {501})

    def test_gzip(self):
        want = self.drawn().raw
        self.assertEqual(gzip.decompress(self.run_it(*(self.files + ["--gzip", "-o", "-"])).out),
                         want)
        self.run_it(*(self.files + ["-o", "t.json.gz"]))
        self.assertEqual(b.read_json(self.path("t.json.gz")), want)
        self.run_it(self.files[0], "--gzip")
        self.assertEqual(b.read_json(self.path(self.files[0][:-4] + ".json.gz")),
                         self.trace(self.files[0]).raw)
        size = os.path.getsize(self.path("t.json.gz"))
        self.assertLess(size, len(want) / 3)
        self.assert_no_rest()

    def test_one_for_each_rank(self):
        self.run_it(*(self.files + ["--per-rank", "-o", "out"]))
        self.assertEqual(self.tree(self.path("out")), [f[:-4] + ".json" for f in self.files])
        for m, f in zip(self.models, self.files):
            trace = self.read("out", f[:-4] + ".json")
            self.assertEqual(trace.plain(), b.truth_slices(m))
            self.assertEqual(list(trace.processes), [m.pid])
        self.assert_no_rest()

    def test_ranks_of_one_name(self):
        """Two folders, from two hosts: none replaces the other, both keep their pid."""
        for i, m in enumerate(self.models):
            os.mkdir(self.path("h%d" % i))
            m.write(self.path("h%d" % i, "GIL_1_rank_0.gil"))
        self.run_it("h0", "h1", "--per-rank", "--gzip", "-o", "out")
        names = self.tree(self.path("out"))
        self.assertEqual(len(names), 2)
        self.assertIn("GIL_1_rank_0.json.gz", names)
        got = sorted(s for n in names for s in self.read("out", n).plain())
        self.assertEqual(got, self.all)

    def test_parts_by_size(self):
        m = Model(3, threads=8, gils=2, rounds=9000, gaps=3)
        m.write(self.path("big.gil"))
        whole = self.trace("big.gil", self.files[1])
        for size in (1, 2):
            self.run_it("big.gil", self.files[1], "--split=%d" % size, "-o", "p%d.json" % size)
            names = [n for n in self.tree() if n.startswith("p%d" % size)]
            self.assertGreaterEqual(len(names), len(whole.raw) // (size << 20))
            self.assertEqual(sorted(names), sorted("p%d_%d.json" % (size, i + 1)
                                                   for i in range(len(names))))
            got, lost = [], []
            for n in names:
                self.assertLess(os.path.getsize(self.path(n)), (size << 20) * 1.05 + 65536)
                part = self.read(n)
                got += part.plain()
                lost += [e["ts"] for e in part.events if e["name"] == "lost events"]
                for s in part.slices:
                    self.assertEqual(part.threads[s.pid, s.tid], whole.threads[s.pid, s.tid])
                    self.assertEqual(part.processes[s.pid], whole.processes[s.pid])
            self.assertEqual(sorted(got), whole.plain())
            self.assertEqual(sorted(lost), sorted(e["ts"] for e in whole.events if e["name"] ==
                                                  "lost events"))
        self.assert_no_rest()

    def test_parts_of_losses_alone(self):
        """What is lost takes room, too."""
        with GilWriter(self.path("lost.gil")) as w:
            w.meta({"process.pid": "7"})
            w.clock(S, S, 2 * S)
            for i in range(9000):
                w.gap(S + 10 * i, S + 10 * i + 5, 1)
            w.end(S + MS)
        self.run_it("lost.gil", "--split=1", "-o", "p.json")
        names = [n for n in self.tree() if n.startswith("p")]
        self.assertGreater(len(names), 1)
        lost = []
        for n in names:
            self.assertLess(os.path.getsize(self.path(n)), 1.05 * (1 << 20))
            lost += [e["ts"] for e in self.read(n).events if e["name"] == "lost events"]
        self.assertEqual(len(set(lost)), 9000)

    def test_small_enough_is_one_part(self):
        self.run_it(*(self.files + ["--split=100", "-o", "t.json"]))
        name, = [n for n in self.tree() if n.startswith("t")]
        self.assertEqual(self.read(name).plain(), self.all)

    def test_options_that_do_not_fit(self):
        for options in (["--summary", "-o", "-"], ["--summary=json", "-o", "-"],
                        ["--per-rank", "-o", "-"],
                        ["--split=5", "-o", "-"], ["--clip", "-o", "t.json"],
                        ["--merge", "-o", "t.json"],
                        ["--lanes=inline", "-o", "t.json"], ["--lanes=above", "-o", "t.json"],
                        ["--summary=xml"], ["--html=", "-o", "t.json"]):
            with self.subTest(options):
                self.run_it(*(self.files + options), status=b.USAGE)
        self.assertEqual(self.tree(), sorted(self.files))


if __name__ == "__main__":
    b.main()
