# SPDX-License-Identifier: Apache-2.0
"""One JSON of a Profiler's trace and the GIL: nothing of the former is lost or changed."""
import gzip
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
from joint import Joint, S, UNIX, US, by_pid  # noqa: E402
from profilers import session_database  # noqa: E402


class Merged(Joint):
    def test_lanes_of_their_own(self):
        m = self.rank(0)
        d, place = self.axis(m)
        p = self.profiler(m, place)
        p.torch_npu(self.path("prof"), raw_offset=d)
        self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "--merge", "--flows", "-o",
                     "all.json")
        raw = b.read_json(self.path("all.json"))
        ours = self.merged(raw, p)
        (pid, slices), = by_pid(ours).items()
        self.assertNotIn(pid, {str(e["pid"]) for e in p.events})
        self.check_placed(m, slices, place)
        names = {e["name"]: e["args"] for e in ours if e["ph"] == "M" and e["pid"] == pid}
        self.assertIn("GIL", names["process_name"]["name"])
        self.assertTrue([e for e in ours if e["ph"] == "s"])
        ids = {e["id"] for e in p.events if e["ph"] in "sf"}
        self.assertFalse(ids & {e["id"] for e in ours if e["ph"] in "sf"},
                         "ids of arrows are mixed up")
        self.assertEqual(self.tree(), sorted(["GIL_7000_rank_0.gil", "all.json"] +
                                             [n for n in self.tree() if n.startswith("prof/")]))

    def test_inline(self):
        """Each row above its thread's, in the Profiler's process, which keeps its name."""
        m = self.rank(0)
        d, place = self.axis(m)
        p = self.profiler(m, place)
        folder = p.torch_npu(self.path("prof"), raw_offset=d)
        for options, read in ((["--merge", "-o", "all.json"], lambda: self.merged(
                b.read_json(self.path("all.json")), p)),
                (["-o", "joint"], lambda: b.parse(b.read_json(
                    self.path("joint", os.path.basename(folder), "ASCEND_PROFILER_OUTPUT",
                              "trace.json"))))):
            self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "--lanes=inline", *options)
            ours = read()
            (pid, slices), = by_pid(ours).items()
            self.assertEqual(pid, str(m.pid))
            self.check_placed(m, slices, place)
            self.assertFalse([e for e in ours if e["ph"] == "M" and
                              e["name"].startswith("process_")])
            rows = {e["tid"]: e["args"]["name"] for e in ours if e["name"] == "thread_name"}
            order = {e["tid"]: e["args"]["sort_index"] for e in ours if e["name"] ==
                     "thread_sort_index"}
            self.assertFalse(set(rows) & {str(t) for t in p.tids}, "their rows are not ours")
            self.assertTrue({s[3] for s in slices} <= set(rows))
            for i, tid in enumerate(p.tids):
                (row, name), = [(r, n) for r, n in rows.items() if str(tid) in n]
                self.assertTrue(name.startswith("GIL "), name)
                self.assertEqual(order[row], str(10 * i + 5), "the sort index of its thread")

    def test_marks_and_pauses(self):
        """In lanes of their own, and inline on the rows of the threads that have set them."""
        m = self.rank(0, pauses=1, marks=40)
        d, place = self.axis(m)
        p = self.profiler(m, place)
        p.torch_npu(self.path("prof"), raw_offset=d)
        for inline in (False, True):
            self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "--merge", "-o", "all.json",
                         "--lanes=%s" % ("inline" if inline else "separate"))
            ours = self.merged(b.read_json(self.path("all.json")), p)
            rows = {e["tid"]: e["args"]["name"] for e in ours if e["name"] == "thread_name"}
            marks = {s: [e for e in ours if e.get("s") == s] for s in "pt"}
            self.assertEqual([e["name"] for e in marks["p"]], [x.name for x in m.marks])
            for e, x in zip(marks["p"], m.marks):
                self.assertLessEqual(abs(b.ns(e["ts"]) - place(x.ns)), US)
                self.assertEqual(int(e["args"].get("thread", 0)), x.tid)
            self.assertEqual({rows[e["tid"]] for e in marks["p"]}, {"GIL marks"})
            by_threads = [x for x in m.marks if x.tid]
            self.assertEqual([(e["name"], e["ts"]) for e in marks["t"]],
                             [(e["name"], e["ts"]) for e in marks["p"] if e["args"]])
            self.assertEqual([rows[e["tid"]] for e in marks["t"]],
                             ["GIL " * inline + "worker-%d %d" % (x.tid - m.pid, x.tid)
                              for x in by_threads])
            paused, = [e for e in ours if e["name"] == "paused"]
            self.assertEqual(rows[paused["tid"]], "GIL paused")
            for text, ns in zip((paused["ts"], paused["args"]["end"]), m.pauses[0]):
                self.assertLessEqual(abs(b.ns(text) - place(ns)), US)
            if inline:
                self.assertFalse(set(rows) & {str(t) for t in p.tids}, "their rows are not ours")

    def test_clipped_marks(self):
        """Those outside of the Profiler's time are left out."""
        m = self.rank(0, marks=60)
        d, place = self.axis(m)
        p = self.profiler(m, place)
        p.torch_npu(self.path("prof"), raw_offset=d)
        self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "--merge", "--clip", "-o",
                     "all.json")
        ours = self.merged(b.read_json(self.path("all.json")), p)
        times = [b.ns(e["ts"]) for e in p.events if e["ph"] == "X"]
        got = {e["name"] for e in ours if e.get("s") == "p"}
        self.assertTrue(0 < len(got) < 60)
        inside = {x.name for x in m.marks if min(times) < place(x.ns) < max(times)}
        self.assertTrue(inside <= got, inside - got)
        near = {x.name for x in m.marks
                if min(times) - 2 * S < place(x.ns) < max(times) + 2 * S}
        self.assertTrue(got <= near, got - near)

    def test_several(self):
        ranks = [self.rank(0), self.rank(1)]
        placed = []
        for m in ranks:
            d, place = self.axis(m)
            p = self.profiler(m, place)
            placed.append((m, place, p,
                           os.path.basename(p.torch_npu(self.path("prof"), raw_offset=d))))
        self.convert("GIL_7000_rank_0.gil", "GIL_7100_rank_1.gil", "--profiler=prof", "--merge",
                     "-o", "out")
        self.assertEqual(len(os.listdir(self.path("out"))), 2)
        for m, place, p, name in placed:
            (_, slices), = by_pid(self.merged(b.read_json(self.one_of("out", name)), p)).items()
            self.check_placed(m, slices, place)

    def test_gzip(self):
        m = self.rank(0)
        d, place = self.axis(m)
        p = self.profiler(m, place)
        p.torch_npu(self.path("prof"), raw_offset=d)
        self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "--merge", "-o", "all.json.gz")
        self.check_placed(m,
                          sum(by_pid(self.merged(gzip.decompress(open(self.path("all.json.gz"),
                                                                      "rb").read()),
                                                    p)).values(), []), place)

    def test_kineto(self):
        """The traces of PyTorch's own profiler, whatever accelerator there is, if any."""
        m = self.rank(0)
        for name, since in (("k.json", 0), ("k2.json", UNIX - UNIX % 1000 - 5000000 * S),
                            ("k3.json.gz", UNIX // 2),
                            ("k4.pt.trace.json.gz", 0)):
            with self.subTest(name):
                p = self.profiler(m, m.to_unix)
                p.trace(self.path(name), p.kineto(since, rank=0))
                self.convert("GIL_7000_rank_0.gil", "--profiler", name, "--merge", "-o", "m.json")
                ours = self.merged(b.read_json(self.path("m.json")), p)
                (pid, slices), = by_pid(ours).items()
                self.check_placed(m, slices, lambda ns: m.to_unix(ns) - since)
                run = self.convert("GIL_7000_rank_0.gil", "--profiler", name, "--merge",
                                   "--lanes=inline",
                                   "-o", "i.json")
                (pid, slices), = by_pid(self.merged(b.read_json(self.path("i.json")), p)).items()
                self.assertEqual(pid, str(m.pid))
                self.check_said(run, "trace", b.read_json(self.path("i.json")))

    def test_kineto_by_pid(self):
        """Of several recordings the one whose pid is in the trace."""
        ranks = [self.rank(0), self.rank(1)]
        p = self.profiler(ranks[1], ranks[1].to_unix)
        p.trace(self.path("k.json"), p.kineto())
        run = self.convert("GIL_7000_rank_0.gil", "GIL_7100_rank_1.gil", "--profiler=k.json",
                           "--merge",
                           "-o", "m.json", status=b.LEFT_OUT)
        self.assertIn("GIL_7000_rank_0.gil", run.err)
        self.check_placed(ranks[1],
                          sum(by_pid(self.merged(b.read_json(self.path("m.json")), p)).values(),
                              []),
                          ranks[1].to_unix)

    def test_a_plain_array_alone(self):
        m = self.rank(0)
        place = self.by_its_begin(m)
        p = self.profiler(m, place)
        p.trace(self.path("trace_view.json"), p.ascend())
        self.convert("GIL_7000_rank_0.gil", "--profiler=trace_view.json", "--merge", "-o", "m.json")
        self.check_placed(m, sum(by_pid(self.merged(b.read_json(self.path("m.json")), p)).values(),
                                 []), place,
                          within=20 * US)

    def test_profiler_that_was_cut(self):
        """It ends in the midst of an event; the result is whole, and it is said."""
        m = self.rank(0)
        place = self.by_its_begin(m)
        p = self.profiler(m, place)
        p.trace(self.path("trace_view.json"), p.ascend())
        with open(self.path("trace_view.json"), "r+b") as f:
            f.truncate(os.path.getsize(self.path("trace_view.json")) - 30)
        run = self.convert("GIL_7000_rank_0.gil", "--profiler=trace_view.json", "--merge", "-o",
                           "m.json",
                           status=b.LEFT_OUT)
        self.assertIn("trace_view.json", run.err)
        p.events = p.data = p.events[:-1]
        self.check_placed(m, sum(by_pid(self.merged(b.read_json(self.path("m.json")), p)).values(),
                                 []), place,
                          within=20 * US)

    def test_profiler_that_is_none(self):
        m = self.rank(0)
        for text in ("", "{", "[1, 2]", '{"a": 1}', '\ufeff[{"ph": "X"}]', "hello", "[" * 5000,
                     '[{"ph":"X","name":"a","ts":"1","dur":NaN}]'):
            with self.subTest(text[:20]):
                if os.path.exists(self.path("m.json")):
                    os.unlink(self.path("m.json"))
                with open(self.path("t.json"), "w") as f:
                    f.write(text)
                run = self.convert("GIL_7000_rank_0.gil", "--profiler=t.json", "--merge", "-o",
                                   "m.json",
                                   status=b.FAILED)
                self.assertIn("t.json", run.err)
                self.assertFalse(os.path.exists(self.path("m.json")))

    def test_cache_of_insight(self):
        """It is keyed by the path only, and would show the old data."""
        m = self.rank(0)
        d, place = self.axis(m)
        folder = os.path.basename(self.profiler(m, place).torch_npu(self.path("prof"),
                                                                    raw_offset=d))
        out = self.path("joint", folder, "ASCEND_PROFILER_OUTPUT")
        for name in ("mindstudio_insight_data.db", "trace_mindstudio_insight_data.db"):
            os.makedirs(out, exist_ok=True)
            with open(os.path.join(out, name), "w") as f:
                f.write("old")
            run = self.run_it("GIL_7000_rank_0.gil", "--profiler=prof", "-o", "joint")
            there = os.path.exists(os.path.join(out, name))
            self.assertTrue(not there or name in run.err, "neither removed nor said")
            shutil.rmtree(self.path("joint"))
        with open(self.path("all_mindstudio_insight_data.db"), "w") as f:
            f.write("old")
        run = self.run_it("GIL_7000_rank_0.gil", "--profiler=prof", "--merge", "-o", "all.json")
        self.assertTrue(not os.path.exists(self.path("all_mindstudio_insight_data.db")) or
                        "all_mindstudio_insight_data.db" in run.err)

    def test_databases_stay_behind(self):
        """They would win over the JSON."""
        m = self.rank(0)
        d, place = self.axis(m)
        p = self.profiler(m, place)
        folder = p.torch_npu(self.path("prof"), raw_offset=d)
        session_database(os.path.join(folder, "ASCEND_PROFILER_OUTPUT",
                                      "ascend_pytorch_profiler_0.db"), p.begin, p.end)
        self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "-o", "joint")
        self.check_insight(self.path("joint"), os.path.basename(folder))

    def test_the_profilers_own_files_are_untouched(self):
        m = self.rank(0)
        d, place = self.axis(m)
        folder = self.profiler(m, place).torch_npu(self.path("prof"), raw_offset=d)
        trace = os.path.join(folder, "ASCEND_PROFILER_OUTPUT", "trace_view.json")
        before = {n: b.read_json(self.path("prof", n)) for n in self.tree(self.path("prof"))}
        for options in (["-o", "prof"], ["--merge", "-o", trace]):
            self.run_it("GIL_7000_rank_0.gil", "--profiler=prof", *options, status=b.FAILED)
            self.assertEqual({n: b.read_json(self.path("prof", n))
                              for n in self.tree(self.path("prof"))}, before)

    def test_large(self):
        """100 MB: not loaded whole."""
        m = self.rank(0)
        place = self.by_its_begin(m)
        p = self.profiler(m, place)
        p.trace(self.path("small.json"), p.ascend())
        with open(self.path("small.json"), "rb") as f:
            text = f.read().strip()
        with open(self.path("t.json"), "wb") as f:
            f.write(text[:-1])
            more = b", " + text[1:-1]
            while f.tell() < 100 << 20:
                f.write(more)
            f.write(b"]")
        run = self.run_it("GIL_7000_rank_0.gil", "--profiler=t.json", "--merge", "-o", "m.json")
        if not b.sanitized():
            self.assertLess(run.rss_kib, 100 << 10)
        with open(self.path("t.json"), "rb") as f, open(self.path("m.json"), "rb") as g:
            old = f.read()
            new = g.read()
        os.unlink(self.path("t.json"))
        self.assertTrue(new.endswith(old[1:].strip()), "its text is copied as it is")
        ours = b.parse(new[:-len(old)].rstrip().rstrip(b",") + b"]")
        self.check_placed(m, sum(by_pid(ours).values(), []), place, within=20 * US)


if __name__ == "__main__":
    b.main()
