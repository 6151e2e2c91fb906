# SPDX-License-Identifier: Apache-2.0
"""Recordings beside a Profiler's trace: on its own time axis, to the microsecond, nothing lost.

With GT_SAMPLES_DIR, a folder with msinsight_text_level0, the same with real traces.
"""
import glob
import json
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
from joint import Joint, MS, NO_OVERLAP, S, UNIX, by_pid  # noqa: E402
from model import Model  # noqa: E402
from profilers import Profiler  # noqa: E402


class Layouts(Joint):
    def test_two_ranks(self):
        """Pids say which belongs to which."""
        ranks = [self.rank(0), self.rank(1)]
        placed = []
        for m in ranks:
            d, place = self.axis(m)
            p = self.profiler(m, place)
            placed.append((m, place, p, p.torch_npu(self.path("prof"), raw_offset=d)))
        run = self.convert("GIL_7000_rank_0.gil", "GIL_7100_rank_1.gil",
                           "--profiler=prof",
                           "-o", "joint")
        for m, place, p, folder in placed:
            name = os.path.basename(folder)
            files = self.check_insight(self.path("joint"), name)
            self.assertEqual(set(files), {"trace_view.json", "trace.json"})
            self.assertEqual(os.path.basename(os.path.dirname(files["trace.json"])),
                             "ASCEND_PROFILER_OUTPUT")
            with open(files["trace_view.json"], "rb") as f:
                self.assertEqual(b.parse(f.read()), p.events)
            with open(self.path("joint", name, "profiler_info_%d.json" % m.rank)) as f:
                json.load(f)
            raw = b.read_json(files["trace.json"])
            trace = b.Trace(raw)
            self.assertEqual(len(trace.processes), 1)
            pid, = trace.processes
            self.assertNotIn(str(pid), {str(e["pid"]) for e in p.events}, "a lane of its own")
            self.check_placed(m, by_pid(trace.events)[str(pid)], place)
            self.check_said(run, "start_info", raw)

    def test_default_folder(self):
        m = self.rank(0)
        d, place = self.axis(m)
        folder = self.profiler(m, place).torch_npu(self.path("prof"), raw_offset=d)
        self.convert("GIL_7000_rank_0.gil", "--profiler=prof")
        self.check_insight(self.path("gil_joint"), os.path.basename(folder))

    def test_one_folder_or_its_trace(self):
        """The folder itself, the trace in it, and each of several folders may be named."""
        ranks = [self.rank(0), self.rank(1)]
        names = []
        for m in ranks:
            d, place = self.axis(m)
            names.append(self.profiler(m, place).torch_npu(self.path("p%d" % m.rank), raw_offset=d))
        self.convert("GIL_7000_rank_0.gil", "--profiler", names[0], "-o", "one")
        self.check_insight(self.path("one"), os.path.basename(names[0]))
        self.convert("GIL_7000_rank_0.gil", "--profiler",
                     names[0] + "/ASCEND_PROFILER_OUTPUT/trace_view.json",
                     "-o", "two")
        trace, = [p for p in glob.glob(self.path("two", "**", "*.json"), recursive=True)
                  if os.path.basename(p) == "trace.json"]
        with open(trace, "rb") as f:
            self.check_placed(ranks[0], sum(by_pid(b.parse(f.read())).values(), []),
                              self.axis(ranks[0])[1])
        self.convert("GIL_7000_rank_0.gil", "GIL_7100_rank_1.gil", "--profiler", names[0],
                     "--profiler", names[1],
                     "-o", "both")
        self.assertEqual(sorted(os.listdir(self.path("both"))),
                         sorted(os.path.basename(n) for n in names))

    def test_mindspore(self):
        m = self.rank(0)
        d, place = self.axis(m)
        folder = self.profiler(m, place).torch_npu(self.path("prof"), raw_offset=d, kind="ms")
        self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "-o", "joint")
        top, = os.listdir(self.path("joint"))
        self.assertTrue(os.path.basename(folder).startswith(top[:-10]), top)
        files = self.check_insight(self.path("joint"), top)
        self.check_placed(m, sum(by_pid(b.parse(b.read_json(files["trace.json"]))).values(), []),
                          place)

    def test_msprof(self):
        """Its pid stands in host/info.json."""
        m, other = self.rank(0), self.rank(1)
        d, place = self.axis(m)
        p = self.profiler(m, place)
        p.msprof(self.path("prof"), d)
        run = self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "-o", "joint")
        tops = os.listdir(self.path("joint"))
        self.assertEqual(len(tops), 1)
        files = self.check_insight(self.path("joint"), tops[0])
        found = [b.parse(b.read_json(path)) for path in files.values()]
        self.assertIn(p.events, found)
        found.remove(p.events)
        self.check_placed(m, sum(by_pid(found[0]).values(), []), place)
        self.assertIn("start_info", run.err)

    def test_by_rank_where_pids_differ(self):
        """The Profiler ran in a container, and its folder tells another pid than the recording."""
        ranks = [self.rank(0), self.rank(1)]
        placed = []
        for m in ranks:
            d, place = self.axis(m)
            p = self.profiler(m, place)
            p.pid, p.tids = 31 + m.rank, [31 + m.rank]
            placed.append((m, place, p.torch_npu(self.path("prof"), raw_offset=d)))
        self.convert("GIL_7100_rank_1.gil", "GIL_7000_rank_0.gil", "--profiler=prof", "-o", "joint")
        for m, place, folder in placed:
            files = self.check_insight(self.path("joint"), os.path.basename(folder))
            self.check_placed(m, sum(by_pid(b.parse(b.read_json(files["trace.json"]))).values(),
                                     []), place)

    def test_what_has_no_partner_is_said(self):
        ranks = [self.rank(0), self.rank(1)]
        d, place = self.axis(ranks[0])
        folder = self.profiler(ranks[0], place).torch_npu(self.path("prof"), raw_offset=d)
        run = self.convert("GIL_7000_rank_0.gil", "GIL_7100_rank_1.gil", "--profiler=prof", "-o",
                           "joint",
                           status=b.LEFT_OUT)
        self.assertIn("GIL_7100_rank_1.gil", run.err)
        self.check_insight(self.path("joint"), os.path.basename(folder))
        self.assertEqual(len(os.listdir(self.path("joint"))), 1)
        d, place = self.axis(ranks[1])
        lone = self.profiler(ranks[1], place).torch_npu(self.path("prof"), raw_offset=d)
        run = self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "-o", "joint2",
                           status=b.LEFT_OUT)
        self.assertIn(os.path.basename(lone), run.err)

    def test_windows_of_one_process(self):
        """It profiles twice, and records each window: each recording is beside its own trace."""
        folders = []
        for i in range(2):
            m = Model(20 + i, threads=4, rounds=250, rank=0, pid=7000, unix=UNIX + 60 * i * S,
                      start=(100000 + 60 * i) * S, pace=8)
            m.write(self.path("GIL_7000_rank_0_%d.gil" % i))
            d, place = self.axis(m)
            folders.append((m, place, self.profiler(m, place).torch_npu(
                self.path("prof"), raw_offset=d, name="h_7000_2024010100000%d000_ascend_pt" % i)))
        both = ["GIL_7000_rank_0_0.gil", "GIL_7000_rank_0_1.gil"]
        run = self.convert(*both, "--profiler=prof", "-o", "joint")
        self.assertNotRegex(run.err, NO_OVERLAP + "|same process")
        for m, place, folder in folders:
            files = self.check_insight(self.path("joint"), os.path.basename(folder))
            lanes = by_pid(b.parse(b.read_json(files["trace.json"])))
            self.check_placed(m, sum(lanes.values(), []), place)
        run = self.convert(*both, "--profiler", folders[0][2], "-o", "joint2", status=b.LEFT_OUT)
        self.assertRegex(run.err, both[1] + ".*(%s)" % NO_OVERLAP)
        run = self.convert(both[0], "--profiler=prof", "-o", "joint3", status=b.LEFT_OUT)
        self.assertRegex(run.err, "(%s).*%s" % (NO_OVERLAP, os.path.basename(folders[1][2])))

    def test_nobody_has_a_partner(self):
        m = self.rank(3)
        d, place = self.axis(m)
        p = self.profiler(m, place)
        p.pid, p.rank, p.tids = 31, 5, [31]
        p.torch_npu(self.path("prof"), raw_offset=d)
        q = self.profiler(m, place)
        q.pid, q.rank, q.tids = 32, 6, [32]
        q.torch_npu(self.path("prof"), raw_offset=d)
        run = self.convert("GIL_7300_rank_3.gil", "--profiler=prof", "-o", "joint", status=b.FAILED)
        self.assertIn("GIL_7300_rank_3.gil", run.err)
        self.assertFalse(glob.glob(self.path("joint", "**", "*.json"), recursive=True))

    def test_nothing_there(self):
        self.rank(0)
        os.mkdir(self.path("none"))
        for where in ("none", "missing", "GIL_7000_rank_0.gil"):
            run = self.convert("GIL_7000_rank_0.gil", "--profiler", where, "-o", "joint",
                               status=b.FAILED)
            self.assertIn(where, run.err)
            self.assertFalse(glob.glob(self.path("joint", "**", "*.json"), recursive=True))


    def test_swapped(self):
        """Who names something else learns what it is."""
        self.rank(0)
        with open(self.path("app.py"), "w") as f:
            f.write("import os\n")
        run = self.convert("GIL_7000_rank_0.gil", "--profiler=app.py", "-o", "joint",
                           status=b.FAILED)
        self.assertRegex(run.err, r"app\.py: cannot be used: it is no JSON: byte \d")
        for what in ("GIL_7000_rank_0.gil", "."):
            run = self.convert("GIL_7000_rank_0.gil", "--profiler", what, "-o", "joint",
                               status=b.FAILED)
            self.assertRegex(run.err, "recordings? of the GIL")
            self.assertIn("swapped", run.err)


SAMPLES = os.environ.get("GT_SAMPLES_DIR")


@unittest.skipUnless(SAMPLES, "GT_SAMPLES_DIR is not set")
class Samples(Joint):
    """Real traces of two ranks; D is chosen, as no public trace comes with its own start_info."""

    def setUp(self):
        super().setUp()
        self.folders, self.models, self.places = [], [], []
        for rank, pid in ((0, 3016828), (1, 3016830)):
            folder = self.path("prof", "rank%d_ascend_pt" % rank)
            shutil.copytree(os.path.join(SAMPLES, "msinsight_text_level0",
                                         "rank%d_ascend_pt" % rank), folder,
                            copy_function=shutil.copyfile)
            for where, dirs, _ in os.walk(self.path("prof")):
                os.chmod(where, 0o755)
            p = Profiler(pid, rank, 0, 1)
            p.data = p.events = b.parse(b.read_json(os.path.join(folder, "ASCEND_PROFILER_OUTPUT",
                                                                 "trace_view.json")))
            stamps = [b.ns(e["ts"]) for e in p.events if e["ph"] == "X"]
            p.begin, p.end = min(stamps), max(stamps)
            m = Model(30 + rank, threads=4, rounds=300, rank=rank, pid=pid, unix=p.begin)
            m.write(self.path("GIL_%d_rank_%d.gil" % (pid, rank)))
            d = p.begin + 3 * MS - m.raw(m.start)
            p.start_info(os.path.join(folder, "PROF_000001_20250109065043863_ABCDEF"), d)
            self.folders.append((m, p, os.path.basename(folder), lambda ns, m=m,
                                 d=d: m.raw(ns) + d))
        self.files = [self.path("GIL_%d_rank_%d.gil" % (m.pid, m.rank)) for m, *_ in self.folders]

    def test_real_folders(self):
        run = self.convert(*self.files, "--profiler=prof", "-o", "joint")
        for m, p, name, place in self.folders:
            files = self.check_insight(self.path("joint"), name)
            raw = b.read_json(files["trace.json"])
            self.check_placed(m, sum(by_pid(b.Trace(raw).events).values(), []), place)
            self.assertEqual(b.parse(b.read_json(files["trace_view.json"])), p.events)
            self.check_said(run, "start_info", raw)

    def test_real_merge(self):
        for lanes in ("separate", "inline"):
            self.convert(*self.files, "--profiler=prof", "--merge", "--lanes", lanes, "-o", lanes)
            for m, p, name, place in self.folders:
                ours = self.merged(b.read_json(self.one_of(lanes, name)), p)
                (pid, slices), = by_pid(ours).items()
                self.assertEqual(pid == str(m.pid), lanes == "inline")
                self.check_placed(m, slices, place)


if __name__ == "__main__":
    b.main()
