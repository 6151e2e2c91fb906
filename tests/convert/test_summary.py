# SPDX-License-Identifier: Apache-2.0
"""The numbers, against a model that knows the truth; docs/summary.md says what each means."""
import functools
import itertools
import json
import os
import random
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
from gilwrite import ACQUIRE, EXIT, HOLDING, WAIT, GilWriter  # noqa: E402
from model import HOLDS, WAITS, Model  # noqa: E402

US, MS, S = b.US, b.MS, b.S

# One GIL and several, losses, ends of threads, killed recorders, few and many threads.
KINDS = [dict(threads=2), dict(threads=6, gils=2, gaps=2), dict(threads=8, gaps=4, exits=3),
         dict(threads=3, killed=True),
         dict(threads=9, gils=3, gaps=1, exits=2, killed=True), dict(threads=4, told=False, gaps=1),
         dict(threads=12, rounds=900, switches=0.9), dict(threads=1, rounds=50),
         dict(threads=4, gils=4, rounds=200),
         dict(threads=5, switches=0),
         dict(threads=5, pauses=3, marks=20),
         dict(threads=7, gils=2, gaps=2, pauses=2, exits=2, marks=150, begins_paused=True),
         dict(threads=4, begins_paused=True, ends_paused=True, marks=7),
         dict(threads=3, pauses=1, ends_paused=True, killed=True)]


def share(part, whole):
    return None if not whole else part / whole


@functools.lru_cache(None)
def made(seed):
    """A model, its truth, and what the summary says of it."""
    folder = b.new_dir()
    m = Model(100 + seed, **(KINDS + KINDS)[seed])
    m.write(os.path.join(folder, "a.gil"))
    run = b.gil2trace("a.gil", "--summary=json", cwd=folder)
    process, = json.loads(run.out.decode("utf-8"))["processes"]
    return m, m.truth(), process


class Numbers(b.Case):
    def each(self):
        for seed in range(2 * len(KINDS)):
            with self.subTest(seed=seed, **(KINDS + KINDS)[seed]):
                yield made(seed)

    def test_each_thread(self):
        for m, t, process in self.each():
            threads = {x["tid"]: x for x in process["threads"]}
            self.assertEqual(len(threads), len(process["threads"]))
            self.assertEqual(process["threads_total"], len(threads))
            self.assertTrue({tid for tid, n in t.threads.items() if n["observed"]} <= set(threads))
            for tid, x in threads.items():
                want = t.threads.get(tid, dict.fromkeys(
                    ("observed", "wait", "hold", "drop", "idle", "takes", "contended", "forced",
                     "voluntary"), 0))
                for key in ("observed", "wait", "hold", "drop", "idle"):
                    self.assertEqual(x[key + "_ns"], want[key], (tid, key))
                self.assertEqual(x["unknown_ns"] + x["finalizing_ns"], 0)
                self.assertEqual((x["takes"], x["contended"]), (want["takes"], want["contended"]),
                                 tid)
                self.assertEqual(x["releases"],
                                 {"forced": want["forced"], "voluntary": want["voluntary"],
                                                 "unknown": 0}, tid)
                for key in ("wait", "hold", "idle"):
                    self.near(x[key + "_share"], share(want[key], want["observed"]))
                if tid in m.names:
                    self.assertEqual(x["name"], m.names[tid])
                self.assertEqual(x["main"], tid == m.pid)
                if want["observed"]:
                    self.assertEqual(x["first_ns"], m.to_unix(t.known[tid][0][0]))

    def near(self, got, want):
        if want is None:
            self.assertIsNone(got)
        else:
            self.assertAlmostEqual(got, want, delta=2e-6)

    def test_who_waited_for_whom(self):
        for m, t, process in self.each():
            got = {}
            for p in process["pairs"]:
                key = (p["victim"], p["blocker"] if p["kind"] == "thread" else p["kind"])
                self.assertNotIn(key, got)
                self.assertEqual(p["blocker"] is None, p["kind"] != "thread")
                self.assertGreater(p["ns"], 0)
                got[key] = p
            self.assertEqual([p["ns"] for p in process["pairs"]],
                             sorted([p["ns"] for p in process["pairs"]], reverse=True))
            for tid, want in t.threads.items():
                mine = {k[1]: p["ns"] for k, p in got.items() if k[0] == tid}
                self.assertEqual(sum(mine.values()), want["wait"])
                for p in [p for k, p in got.items() if k[0] == tid]:
                    self.near(p["share"], share(p["ns"], want["wait"]))
                pairs = want["pairs"]
                self.assertEqual({k: v for k, v in mine.items() if isinstance(k, int)},
                                 {k: v for k, v in pairs.items() if isinstance(k, int) and v})
                low = pairs[None]
                self.assertTrue(low <= mine.get("nobody", 0) <= low + pairs["free?"], (mine, pairs))
                self.assertGreaterEqual(mine.get("unknown", 0), pairs["?"])
                self.assertNotIn("others", mine)
            for x in process["threads"]:
                self.assertEqual(x["blamed_ns"], x["wait_ns"])
            for (victim, blocker), p in got.items():
                if isinstance(blocker, int):
                    waits = [k for k, v in t.blame.items() if k[0] == victim and v.get(blocker)]
                    self.assertEqual(p["waits"], len(waits))

    def test_percentiles(self):
        """Exact at the top, and elsewhere up to a 64th too great."""
        for m, t, process in self.each():
            for x in process["threads"]:
                for kind, key in ((WAITS, "waits"), (HOLDS, "holds")):
                    mine = [s for s in t.slices if s.tid == x["tid"] and s.kind == kind]
                    lengths, got = sorted(s.end - s.begin for s in mine), x[key]
                    self.assertEqual((got["count"], got["missed"]), (len(lengths), 0))
                    self.assertEqual(got["sum_ns"], sum(lengths))
                    self.assertEqual(got["cut"], sum(1 for s in mine if self.is_cut(m, s)),
                                     (x["tid"], key))
                    if not lengths:
                        continue
                    self.assertEqual(got["max_ns"], lengths[-1])
                    for name, q in (("median_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)):
                        low = lengths[max(0, int(q * len(lengths)) - 1)]
                        high = lengths[min(len(lengths) - 1, int(q * len(lengths)) + 1)]
                        self.assertTrue(low <= got[name] <= high + high // 64 + 1,
                                        (name, got, low, high))

    def is_cut(self, m, s):
        """Did it begin or end out of sight?"""
        return s.begin not in self.begins(m, s) or not s.ended

    @staticmethod
    def begins(m, s):
        return {st.begin for st in m.states if st.tid == s.tid and st.kind == s.kind and
                st.begin > m.start}

    def is_cut_by(self, gaps, m, s):
        return ((s.begin in {g[1] for g in gaps} and s.begin not in self.begins(m, s)) or
                (s.end in {g[0] for g in gaps} and not s.ended))

    def test_longest(self):
        for m, t, process in self.each():
            for kind, key in ((WAITS, "longest_waits"), (HOLDS, "longest_holds")):
                got = process[key]
                want = sorted((s for s in t.slices if s.kind == kind),
                              key=lambda s: s.begin - s.end)[:10]
                self.assertEqual([x["ns"] for x in got], [s.end - s.begin for s in want])
                by = {(s.tid, m.to_unix(s.begin)): s for s in t.slices if s.kind == kind}
                for x in got:
                    s = by[x["tid"], x["start_ns"]]
                    self.assertEqual((x["ns"], x["gil"]), (s.end - s.begin, s.gil))
                    self.assertEqual(x["offset_ns"], s.begin - m.start)
                    self.assertEqual(bool(x["open"]), self.is_cut(m, s), x)
                    self.assertEqual("paused" in x["open"], self.is_cut_by(m.pauses, m, s), x)
                    self.assertEqual("lost" in x["open"], self.is_cut_by(m.gaps, m, s), x)
                    if kind == HOLDS:
                        self.assertEqual(x["forced"], s.forced)
                        continue
                    blame = t.blame[s.tid, s.begin]
                    held = {k: v for k, v in blame.items() if isinstance(k, int)}
                    self.assertEqual(x["held_ns"] + x["nobody_ns"] + x["unknown_ns"], x["ns"])
                    self.assertEqual(x["held_ns"], sum(held.values()))
                    self.assertEqual(x["blocker_ns"], max(held.values(), default=0))
                    self.assertEqual(held.get(x["blocker"], 0), x["blocker_ns"])

    def test_process(self):
        for m, t, process in self.each():
            known = sum(e - s for s, e in m.stretches())
            self.assertEqual((process["pid"], process["order"], process["path"]),
                             (m.pid, 0, "a.gil"))
            self.assertEqual((process["start_ns"], process["end_ns"]),
                             (m.to_unix(m.start), m.to_unix(m.end)))
            self.assertEqual((process["span_ns"], process["known_ns"]), (m.end - m.start, known))
            self.assertEqual(process["gap_ns"], sum(e - s for s, e, _ in m.gaps))
            self.assertEqual((process["pauses"], process["paused_ns"]),
                             (len(m.pauses), sum(e - s for s, e in m.pauses)))
            self.assertEqual((process["gaps"], process["lost"]),
                             (len(m.gaps), sum(n for _, _, n in m.gaps)))
            self.assertEqual((process["killed"], process["odd"], process["doubt"],
                              process["problem"]),
                             (m.killed, 0, None, None))
            self.assertIs(process["complete"], True)
            self.assertEqual(process["events"], sum(1 for r in m.visible if r.kind != EXIT))
            wait = sum(n["wait"] for n in t.threads.values())
            observed = sum(n["observed"] for n in t.threads.values())
            self.assertEqual((process["wait_ns"], process["observed_ns"]), (wait, observed))
            self.near(process["wait_share"], share(wait, observed))
            self.near(process["contention"], share(wait, known))

    def test_marks(self):
        for m, _, process in self.each():
            self.assertEqual(process["marks_total"], len(m.marks))
            self.assertEqual([(x["at_ns"], x["offset_ns"], x["tid"] or 0, x["name"])
                              for x in process["marks"]],
                             [(m.to_unix(x.ns), x.ns - m.start, x.tid, x.name)
                              for x in m.marks[:100]])

    def test_gils(self):
        for m, t, process in self.each():
            known = sum(e - s for s, e in m.stretches())
            got = {g["gil"]: g for g in process["gils"]}
            for gil in m.gils:
                held = sum(e - s for s, e, _ in t.holds[gil])
                if not t.moves[gil] and gil not in got:
                    self.assertEqual(held, 0)
                    continue
                g = got.pop(gil)
                self.assertEqual(g["held_ns"], held)
                self.assertEqual(g["held_ns"] + g["free_ns"] + g["unknown_ns"], known)
                self.near(g["utilisation"], share(held, known))
                self.assertEqual(sum(g["bucket_held_ns"]), held)
                self.assertLessEqual(g["free_ns"], known - self.truly_held(m, gil))
            self.assertEqual(got, {})

    def truly_held(self, m, gil):
        """Also where no event shows it."""
        return sum(max(0, min(s.end, end) - max(s.begin, begin)) for s in m.states
                   if s.kind == HOLDS and s.gil == gil for begin, end in m.stretches())

    def test_buckets(self):
        """Bursts are where they were: each column is right by itself."""
        for m, t, process in self.each():
            buckets = process["buckets"]
            self.assertEqual(len(buckets), 60)
            self.assertEqual(buckets[0]["start_ns"], process["start_ns"])
            self.assertEqual(buckets[-1]["end_ns"], process["end_ns"])
            lengths = [x["end_ns"] - x["start_ns"] for x in buckets]
            self.assertLessEqual(max(lengths) - min(lengths), 1)
            waits = sorted((m.to_unix(s.begin), m.to_unix(s.end)) for s in t.slices if s.kind ==
                           WAITS)
            holds = {g: [(m.to_unix(s), m.to_unix(e)) for s, e, _ in t.holds[g]] for g in m.gils}
            gaps = [(m.to_unix(s), m.to_unix(e)) for s, e, _ in m.gaps]
            pauses = [(m.to_unix(s), m.to_unix(e)) for s, e in m.pauses]
            for i, (x, y) in enumerate(itertools.zip_longest(buckets, buckets[1:])):
                if y:
                    self.assertEqual(x["end_ns"], y["start_ns"])
                self.assertEqual(x["wait_ns"], within(waits, x), i)
                self.assertEqual(x["gap_ns"], within(gaps + pauses, x), i)
                for key, spans in (("lost", gaps), ("paused", pauses)):
                    self.assertEqual(x[key], any(s < x["end_ns"] and x["start_ns"] < e
                                                 for s, e in spans), (i, key))
                for g in process["gils"]:
                    self.assertEqual(g["bucket_held_ns"][i], within(holds[g["gil"]], x),
                                     (i, g["gil"]))

    def test_times_are_whole_numbers(self):
        for _, _, process in self.each():
            lists = process["threads"] + process["pairs"] + process["longest_waits"]
            for where in [process] + lists:
                for key, value in where.items():
                    if key.endswith("_ns") or key == "ns":
                        self.assertIs(type(value), int, key)


def within(spans, bucket):
    return sum(max(0, min(e, bucket["end_ns"]) - max(s, bucket["start_ns"])) for s, e in spans)


class Order(b.Case):
    """The numbers are those of what happened, in whatever order and blocks it is written."""

    def setUp(self):
        super().setUp()
        self.m = Model(9, threads=8, gils=3, rounds=700, exits=2)
        self.m.write(self.path("a.gil"))
        self.want = self.summary("a.gil")
        self.slices = sorted(self.trace("a.gil").slices, key=lambda s: s[:6])

    def same(self, **how):
        m = how.pop("m", self.m)
        m.write(self.path("a.gil"), **how)
        self.assertEqual(self.summary("a.gil"), self.want)
        self.assertEqual(sorted(self.trace("a.gil").slices, key=lambda s: s[:6]), self.slices)

    def test_blocks_of_any_size(self):
        for records in (1, 2, 7, 100, 100000):
            self.same(records=records)
        rnd = random.Random(1)
        self.same(flush_at={rnd.randrange(len(self.m.visible)) for _ in range(50)})

    def test_with_losses(self):
        self.m = Model(10, threads=6, gils=2, gaps=3)
        self.m.write(self.path("a.gil"))
        self.want = self.summary("a.gil")
        self.slices = sorted(self.trace("a.gil").slices, key=lambda s: s[:6])
        for records in (1, 5, 64):
            self.same(records=records)

    def test_with_pauses(self):
        self.m = Model(14, threads=6, gils=2, gaps=1, pauses=2, begins_paused=True)
        self.m.write(self.path("a.gil"))
        self.want = self.summary("a.gil")
        self.slices = sorted(self.trace("a.gil").slices, key=lambda s: s[:6])
        for records in (1, 5, 64):
            self.same(records=records)

    def test_marks_beside_their_places(self):
        """Other processes stamp them, and they are written when they are read."""
        plain = self.want["processes"][0]
        self.m.marks = self.m.choose_marks(60)
        self.m.write(self.path("a.gil"))
        self.want = self.summary("a.gil")
        changed, = self.want["processes"]
        self.assertEqual(dict(changed, marks=[], marks_total=0), plain, "marks change numbers")
        marks = sorted(self.trace("a.gil").marks)
        self.assertEqual(marks, sorted((self.m.pid, m.tid, self.m.to_unix(m.ns), m.name)
                                       for m in self.m.marks))
        for astray, records in ((3, 1), (40, 7), (10000, 4000)):
            self.same(astray=astray, records=records)
            self.assertEqual(sorted(self.trace("a.gil").marks), marks)

    def test_events_of_gils_among_each_other(self):
        """As from several buffers: a few microseconds out of order, but for each thread and GIL."""
        for seed in range(5):
            rnd, order, moved = random.Random(seed), list(self.m.visible), 0
            for _ in range(6):
                for i in range(len(order) - 1):
                    x, y = order[i], order[i + 1]
                    free = x.tid != y.tid and x.gil != y.gil and abs(y.ns - x.ns) < 9 * US
                    if free and rnd.random() < 0.7:
                        order[i:i + 2] = y, x
                        moved += 1
            self.assertGreater(moved, 100)
            self.same(order=order, records=rnd.choice([1, 9, 4000]))

    def test_blocks_of_one_gil_each(self):
        """Each GIL's events in blocks of their own; also all of one before all of another."""
        for n in (20, 200, 100000):
            queues = [[r for r in self.m.visible if r.gil == g] for g in self.m.gils]
            order = []
            while any(queues):
                for q in queues:
                    order += q[:n]
                    del q[:n]
            self.assertNotEqual(order, self.m.visible)
            self.same(order=order, records=n)
        self.same(order=[r for g in reversed(self.m.gils) for r in self.m.visible if r.gil == g])

    def test_inputs_in_any_order(self):
        ms = [Model(11, pid=10, rank=0, threads=3), Model(12, pid=20, rank=1, threads=4),
              Model(13, pid=30, rank=2)]
        for m in ms:
            m.write(self.path("%d.gil" % m.pid))
        want = None
        for names in itertools.permutations(["10.gil", "20.gil", "30.gil"]):
            data = self.summary(*names)
            ranks = {p["order"]: p["rank"] for p in data["processes"]}
            slowest = [ranks[i] for i in data["slowest_first"]]
            numbers = {p["pid"]: dict(p, order=0) for p in data["processes"]}
            want = want or (slowest, numbers)
            self.assertEqual((slowest, numbers), want)


class Text(b.Case):
    def setUp(self):
        super().setUp()
        self.models = [Model(21, threads=4, pid=100, rank=0, gaps=1),
                       Model(22, threads=2, pid=200, rank=1),
                       Model(23, threads=9, pid=300, rank=2, switches=0.9),
                       Model(24, threads=1, pid=400, rank=3, rounds=50)]
        for m in self.models:
            m.write(self.path("GIL_%d_rank_%d.gil" % (m.pid, m.rank)))
        self.files = ["GIL_%d_rank_%d.gil" % (m.pid, m.rank) for m in self.models]

    def text(self, *files, **kw):
        env = dict(os.environ, LC_ALL="C.UTF-8")
        text = self.run_it(*(files + ("--summary",)), env=env, **kw).out.decode("utf-8")
        self.assertNotRegex(text, b.CONTROL)
        return text

    def test_sections(self):
        text = self.text(*self.files)
        for words in (r"slowest first", r"GIL held +\d", r"threads waiting on average",
                      r"held +\|.{60}\|", r"waiting +\|.{60}\|",
                      r"lost +\|[ !]{60}\|", r"waiting +holding +idle", r"takes +contended",
                      r"forced +voluntary",
                      r"one wait +one hold", r"median +90% +99% +longest", r"who waited +for whom",
                      r"\(nobody\)",
                      r"longest waits", r"longest holds", r"LOST: \d+ events in 1 gap",
                      r"forced to give it up",
                      r"given up by itself", r"1\.0\d s|\d ms recorded"):
            self.assertRegex(text, words)
        for m in self.models:
            for tid in m.threads:
                if m.truth().known[tid]:
                    self.assertRegex(text, r"worker-%d %d\b" % (tid - m.pid, tid))

    def test_numbers_of_the_text_are_those_of_the_json(self):
        """Percentages of each thread, in the table of threads."""
        text = self.text(self.files[1])
        process, = self.summary(self.files[1])["processes"]
        for t in process["threads"]:
            row = [r for r in text.splitlines() if r.strip().startswith(t["name"] + " ") and
                   r.count("%") == 4][0]
            shown = [float(x) for x in re.findall(r"([\d.]+)%", row)]
            for key, value in zip(("wait", "hold", "idle"), shown):
                self.assertAlmostEqual(value, 100 * t[key + "_share"], delta=0.1001)

    def test_slowest_rank_first(self):
        data = self.summary(*self.files)
        shares = {p["order"]: p["wait_ns"] / p["observed_ns"] for p in data["processes"]}
        self.assertEqual(data["slowest_first"], sorted(shares, key=lambda i: -shares[i]))
        self.assertEqual([p["order"] for p in data["processes"]], [0, 1, 2, 3])
        text = self.text(*self.files)
        table = text[:text.index("\n\n")]
        ranks = [int(line.split()[0]) for line in table.splitlines()
                 if line.split()[0].isdigit() and "%" in line]
        order = [data["processes"][i]["rank"] for i in data["slowest_first"]]
        self.assertEqual(ranks, order)
        heads = [int(n) for n in re.findall(r"(?m)^\S.*\(rank (\d+)\), pid", text)]
        self.assertEqual(heads, order)

    def test_terminal_without_unicode(self):
        text = self.run_it(self.files[0], "--summary", env=dict(os.environ, LC_ALL="C")).out
        self.assertEqual(text.decode("ascii", "replace").count("\ufffd"), 0)

    def test_hostile_names(self):
        names = [b"\x1b[31mred", b"a\nb", b"\xff\xfe", b"x" * 63, "\u202egnirts".encode(),
                 b"\xc2\x9b1m", b""]
        m = Model(25, threads=len(names), rounds=200)
        m.write(self.path("h.gil"), names={m.pid + i: n for i, n in enumerate(names)})
        text = self.text("h.gil")
        self.assertIn("[31mred", text)
        self.assertNotIn("\u202e", text)
        self.assertEqual(len(self.summary("h.gil")["processes"][0]["threads"]), len(names))

    def test_with_a_trace(self):
        """Both in one go, and each as it is alone."""
        alone = self.run_it(self.files[0], "--summary=json").out
        trace = self.run_it(self.files[0], "-o", "-").out
        self.assertEqual(self.run_it(self.files[0], "--summary=json", "-o", "t.json").out, alone)
        self.assertEqual(b.read_json(self.path("t.json")), trace)
        self.run_it(self.files[0], "--summary=json", "--html=t.html")
        page = json.loads(b.page_data(b.read_json(self.path("t.html")).decode(),
                                      "summary").decode())
        self.assertEqual(page, json.loads(alone.decode()), "the page has other numbers")

    def test_no_trace_unless_asked_for(self):
        self.run_it(*(self.files + ["--summary"]))
        self.assertEqual(self.tree(), sorted(self.files))
        self.run_it(*(self.files + ["--html=t.html"]))
        self.assertEqual(self.tree(), sorted(self.files + ["t.html"]))


class Asked(b.Case):
    """Pauses and marks, which somebody has asked for, in the text."""

    def test_text(self):
        m = Model(31, threads=4, pauses=2, marks=120)
        m.write(self.path("a.gil"))
        run = self.run_it("a.gil", "--summary", env=dict(os.environ, LC_ALL="C.UTF-8"))
        text = run.out.decode("utf-8")
        paused = sum(e - s for s, e in m.pauses)
        share = re.search(r"(?m)^  paused for \S+ \S+ \(([\d.]+)%\), in 2 pauses, which", text)
        self.assertAlmostEqual(float(share.group(1)), 100 * paused / (m.end - m.start), delta=0.06)
        self.assertRegex(text, r"(?m)^  paused   \|[ !]{60}\|$")
        self.assertNotIn("LOST", text)
        self.assertIn(", 0 lost\n", text)
        listed = re.findall(r"(?m)^  (\S+(?: \S+)?) +(\d+\.\d{6}) s  (step \d+)$", text)
        self.assertEqual([x[1:] for x in listed],
                         [("%d.%06d" % divmod((x.ns - m.start) // 1000, 1000000), x.name)
                          for x in m.marks[:100]])
        self.assertEqual([x[0] for x in listed],
                         ["worker-%d %d" % (x.tid - m.pid, x.tid) if x.tid else "(the process)"
                          for x in m.marks[:100]])
        self.assertIn("\n  ... and 20 more marks\n", text)
        self.assertIn("120 mark(s)", run.err)
        self.assertRegex(run.err, r"a\.gil: paused for 0\.\d{3} s, in 2 pause\(s\)")
        self.assertNotIn("warning", run.err)


class Unknown(b.Case):
    """What is not known is said, and never spread over the rest."""

    def gil(self, fill, name="u.gil", begin=S, end=S + 10 * MS, meta=(), last_clock=True):
        with GilWriter(self.path(name)) as w:
            w.meta(dict({"process.pid": "7", "process.ns_pid": "7"}, **dict(meta)))
            w.clock(begin, begin, 2 * S)
            w.gil(begin, 0)
            fill(w)
            if last_clock:
                w.clock(end, end, 2 * S + end - begin)
            w.end(end)
        return name

    def test_missed_release(self):
        """A hold whose end was missed has no length; the time up to the next event is unknown."""
        def fill(w):
            w.event(ACQUIRE, S + 1 * MS, 7)
            w.event(ACQUIRE, S + 5 * MS, 7)
            w.release(S + 6 * MS, 7)
        process, = self.summary(self.gil(fill))["processes"]
        t, = process["threads"]
        self.assertEqual((t["observed_ns"], t["hold_ns"], t["unknown_ns"]),
                         (9 * MS, 1 * MS, 4 * MS))
        self.assertEqual(t["idle_ns"], 4 * MS)
        self.assertEqual((t["holds"]["count"], t["holds"]["missed"]), (1, 1))
        self.assertEqual(process["odd"], 1)
        g, = process["gils"]
        self.assertEqual((g["held_ns"], g["unknown_ns"]), (1 * MS, 4 * MS))

    def test_gap(self):
        """In it nobody has waited, held or been idle."""
        def fill(w):
            w.event(ACQUIRE, S + 1 * MS, 7)
            w.event(WAIT, S + 2 * MS, 8)
            w.gap(S + 3 * MS, S + 8 * MS, 1000)
            w.release(S + 9 * MS, 7)
        process, = self.summary(self.gil(fill))["processes"]
        threads = {t["tid"]: t for t in process["threads"]}
        self.assertEqual((threads[7]["observed_ns"], threads[7]["hold_ns"]), (4 * MS, 3 * MS))
        self.assertEqual((threads[8]["observed_ns"], threads[8]["wait_ns"]), (1 * MS, 1 * MS))
        self.assertEqual((process["lost"], process["gap_ns"], process["known_ns"]),
                         (1000, 5 * MS, 5 * MS))
        text = self.run_it("u.gil", "--summary").out.decode()
        self.assertRegex(text, r"1000 (lost|events)")
        self.assertIn("5.00 ms", text)

    def test_late(self):
        def fill(w):
            w.late(S - 300 * MS, S)
            w.event(ACQUIRE, S + 1 * MS, 7)
            w.release(S + 2 * MS, 7)
        process, = self.summary(self.gil(fill, meta={"recording.late": "forked"}))["processes"]
        self.assertEqual((process["late_ns"], process["known_ns"]), (300 * MS, 10 * MS))
        self.assertEqual(process["threads"][0]["observed_ns"], 9 * MS)
        self.assertRegex(self.run_it("u.gil", "--summary").out.decode(), r"300 ms|0\.3")

    def test_held_from_before_to_the_end(self):
        """A busy thread that never lets go."""
        process, = self.summary(self.gil(lambda w: w.before(S, 7, 0, HOLDING)))["processes"]
        t, = process["threads"]
        self.assertEqual((t["observed_ns"], t["hold_ns"], t["takes"]), (10 * MS, 10 * MS, 0))
        self.assertEqual(sorted(process["longest_holds"][0]["open"]), ["end", "start"])

    def test_end_block_tells_the_end(self):
        """Also where no clock sample stands right before it."""
        process, = self.summary(self.gil(lambda w: w.event(ACQUIRE, S + 1 * MS, 7),
                                         last_clock=False))["processes"]
        self.assertEqual((process["span_ns"], process["threads"][0]["hold_ns"]), (10 * MS, 9 * MS))

    def test_finalizing_is_no_wait(self):
        """Threads that hang at the interpreter's end would be the longest waits of all."""
        def fill(w):
            w.event(ACQUIRE, S + 1 * MS, 7)
            w.event(WAIT, S + 2 * MS, 8)
            w.event(EXIT, S + 9 * MS, 8)
            w.event(EXIT, S + 9 * MS + 5, 7)
        process, = self.summary(self.gil(fill))["processes"]
        t = [t for t in process["threads"] if t["tid"] == 8][0]
        self.assertEqual((t["wait_ns"], t["finalizing"], t["finalizing_ns"]), (0, 1, 7 * MS))
        self.assertEqual((process["finalizing"], process["longest_waits"], process["wait_ns"]),
                         (1, [], 0))
        self.assertEqual([p for p in process["pairs"] if p["victim"] == 8], [])

    def test_not_to_be_trusted(self):
        def fill(w):
            w.event(ACQUIRE, S + 1 * MS, 7)
            w.release(S + 2 * MS, 7)
        name = self.gil(fill, meta={"check.result": "sites missing", "check.text": "so it is"})
        process, = self.summary(name)["processes"]
        self.assertEqual(process["doubt"], "so it is")
        self.assertIn("DO NOT TRUST THIS", self.run_it(name, "--summary").out.decode())

    def test_rank_that_nobody_set(self):
        """It is 0 for all of them: as a number it would tell which is which."""
        def fill(w):
            w.event(ACQUIRE, S + 1 * MS, 7)
            w.release(S + 2 * MS, 7)
        for source, want in (("default", None), ("RANK", 0)):
            name = self.gil(fill, meta={"rank": "0", "rank.source": source})
            process, = self.summary(name)["processes"]
            self.assertEqual(process["rank"], want)
            self.assertTrue(process["name"].endswith("(rank 0)"), process["name"])
            self.run_it(name, "--html=t.html")
            page = json.loads(b.page_data(b.read_json(self.path("t.html")).decode(),
                                          "meta").decode())
            self.assertEqual(page["processes"][0].get("rank"), want)

    def test_losses_that_nobody_counted(self):
        def fill(w):
            w.event(ACQUIRE, S + 1 * MS, 7)
            w.release(S + 2 * MS, 7)
        for meta, known in (({}, True), ({"import.format": "json"}, False)):
            name = self.gil(fill, meta=meta)
            process, = self.summary(name)["processes"]
            self.assertIs(process["lost_known"], known)
            text = self.run_it(name, "--summary").out.decode()
            self.assertEqual("losses not counted" in text, not known, text)
            self.assertEqual(", 0 lost" in text, known, text)

    def test_nothing_in_it(self):
        process, = self.summary(self.gil(lambda w: None))["processes"]
        self.assertEqual((process["gils"], process["contention"]), ([], None))
        self.assertEqual((process["threads"], process["pairs"], process["wait_share"]),
                         ([], [], None))
        text = self.run_it("u.gil", "--summary").out.decode()
        self.assertIn("no take or release was seen: a thread that has the GIL all the time", text)
        self.assertNotIn("GIL held", text)

    def test_two_threads_half_and_half(self):
        """Threads that compute, by turns: each waits for half of the time."""
        def fill(w):
            w.event(ACQUIRE, S, 7)
            for i in range(200):
                me, other = (7, 8) if i % 2 == 0 else (8, 7)
                w.event(WAIT, S + 5 * MS * i + 10 * US, other)
                w.release(S + 5 * MS * (i + 1) - 10 * US, me, 0, True)
                w.event(ACQUIRE, S + 5 * MS * (i + 1), other)
        process, = self.summary(self.gil(fill, end=2 * S))["processes"]
        for t in process["threads"]:
            self.assertAlmostEqual(t["wait_share"], 0.5, delta=0.01)
            self.assertEqual(t["contended"], 100)
        self.assertEqual({(p["victim"], p["blocker"]) for p in process["pairs"][:2]},
                         {(7, 8), (8, 7)})


if __name__ == "__main__":
    b.main()
