# SPDX-License-Identifier: Apache-2.0
"""Each way to find a Profiler's time axis, and what is outside of it."""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
from joint import ASIDE, Joint, NO_OVERLAP, S, UNIX, US, by_pid  # noqa: E402
from profilers import session_database  # noqa: E402


class Clocks(Joint):
    def one(self, place, *options, **how):
        m = how.pop("model")
        end = how.pop("window", (0.2, 0.8))
        database = how.pop("database", None)
        folder = self.profiler(m, place, *end).torch_npu(self.path("prof"), **how)
        if database:
            session_database(os.path.join(folder, "ASCEND_PROFILER_OUTPUT",
                                          "ascend_pytorch_profiler_0.db"),
                             *database)
        run = self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "-o", "joint", *options)
        files = self.check_insight(self.path("joint"), os.path.basename(folder))
        raw = b.read_json(files["trace.json"])
        return run, raw, sum(by_pid(b.parse(raw)).values(), [])

    def test_start_info(self):
        m = self.rank(0, pace=25)
        self.assertGreater(m.end - m.start, 4 * S)
        self.assertGreater(abs(m.raw(m.end) - m.raw(m.start) - (m.end - m.start)), 20 * US,
                           "no drift, no test")
        d, place = self.axis(m)
        run, raw, got = self.one(place, model=m, raw_offset=d)
        self.check_said(run, "start_info", raw)
        self.check_placed(m, got, place)

    def test_end_info(self):
        """
        A session without a device takes D from readings of CLOCK_MONOTONIC, and adds it to stamps
        of RAW: so must the recording, to lie beside the Profiler's events.
        """
        m = self.rank(0)
        d = UNIX + ASIDE - m.start
        run, raw, got = self.one(lambda ns: m.raw(ns) + d, model=m, mono_offset=d, device=False)
        self.check_said(run, "end_info", raw)
        self.check_placed(m, got, lambda ns: m.raw(ns) + d)

    def test_reading_at_the_end(self):
        """msprof's end_info alone: D is what it was at the start, so the drift is taken off."""
        m = self.rank(0)
        place = self.by_its_begin(m)
        begin, end = (m.start + int((m.end - m.start) * x) for x in (0.2, 0.44))
        p = self.profiler(m, place, 0.2, 0.43)
        folder = p.torch_npu(self.path("prof"), raw_offset=0, started=begin)
        info, = glob.glob(os.path.join(folder, "PROF_*", "host", "start_info"))
        os.unlink(info)
        unix_us = m.to_unix(end) // US
        with open(os.path.join(os.path.dirname(info), "end_info"), "w") as f:
            json.dump({"collectionTimeEnd": str(unix_us),
                       "clockMonotonicRaw": str(m.raw(end) - (m.to_unix(end) - unix_us * US))}, f)
        run = self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "-o", "joint")
        raw = b.read_json(self.check_insight(self.path("joint"),
                                             os.path.basename(folder))["trace.json"])
        self.check_said(run, "end_info", raw)
        self.assertGreater(abs(m.raw(end) - m.raw(begin) - (end - begin)), 10 * US,
                           "no drift, no test")
        self.check_placed(m, sum(by_pid(b.parse(raw)).values(), []), place, within=6 * US)

    def test_no_time_at_all(self):
        """A trace without an event: by Unix time, which is said."""
        m = self.rank(0)
        p = self.profiler(m, m.to_unix)
        p.trace(self.path("trace_view.json"), [e for e in p.ascend() if e["ph"] == "M"])
        run = self.convert("GIL_7000_rank_0.gil", "--profiler=trace_view.json", "--merge", "-o",
                           "m.json")
        raw = b.read_json(self.path("m.json"))
        self.check_said(run, "none", raw)
        self.check_placed(m, sum(by_pid(b.parse(raw)).values(), []), m.to_unix)

    def test_database(self):
        """It tells the Unix time of the begin, which is not that of the first event."""
        m = self.rank(0)
        place = self.by_its_begin(m, 0.05)
        begin = m.start + int((m.end - m.start) * 0.05)
        run, raw, got = self.one(place, model=m, database=(m.to_unix(begin), m.to_unix(m.end)))
        self.check_said(run, "database", raw)
        self.check_placed(m, got, place, within=6 * US)

    def test_start_info_goes_before_end_info(self):
        m = self.rank(0)
        d, place = self.axis(m)
        run, raw, got = self.one(place, model=m, raw_offset=d, mono_offset=UNIX - m.start + 60 * S)
        self.check_said(run, "start_info", raw)
        self.check_placed(m, got, place)

    def test_trace_alone(self):
        """Unix time is all that there is; from the Profiler's begin on the trace goes by RAW."""
        m = self.rank(0)
        place = self.by_its_begin(m)
        run, raw, got = self.one(place, model=m)
        self.check_said(run, "trace", raw)
        self.check_placed(m, got, place, within=20 * US)

    def test_start_info_that_cannot_be(self):
        """The next best is taken, and it is said why."""
        d = '{"collectionTimeBegin": "%s", "clockMonotonicRaw": "%s"}'
        for i, text in enumerate(("", "{", d % ("x", 1), d % ("9" * 23, 5), d % (-5, -7), d % ("", ""),
                                  '["collectionTimeBegin"]', '{"clockMonotonicRaw": "1"}')):
            with self.subTest(text):
                m = self.rank(0)
                place = self.by_its_begin(m)
                folder = self.profiler(m, place).torch_npu(self.path("prof%d" % i),
                                                           raw_offset=0)
                info, = glob.glob(os.path.join(folder, "PROF_*", "host", "start_info"))
                with open(info, "w") as f:
                    f.write(text)
                run = self.convert("GIL_7000_rank_0.gil", "--profiler", folder, "-o", "joint%d" % i)
                self.assertIn("start_info", run.err)
                files = self.check_insight(self.path("joint%d" % i), os.path.basename(folder))
                got = sum(by_pid(b.parse(b.read_json(files["trace.json"]))).values(), [])
                self.check_placed(m, got, place, within=20 * US)

    def test_clip(self):
        m = self.rank(0)
        d, place = self.axis(m)
        p = self.profiler(m, place)
        folder = p.torch_npu(self.path("prof"), raw_offset=d)
        run = self.convert("GIL_7000_rank_0.gil", "--profiler=prof", "-o", "joint", "--clip")
        files = self.check_insight(self.path("joint"), os.path.basename(folder))
        got = b.Trace(b.read_json(files["trace.json"])).slices
        want = [(k, tid, max(place(x), p.begin), min(place(y), p.end)) for k, tid, _, x,
                y in m.truth().drawn()
                if place(y) > p.begin + US and place(x) < p.end - US]
        got = [(s.name, s.tid, s.begin, s.end) for s in got if s.end > p.begin + US and
               s.begin < p.end - US]
        self.assertEqual(len(got), len(want))
        for g, w in zip(sorted(got, key=lambda s: (s[1], s[2], s[0])),
                        sorted(want, key=lambda s: (s[1], s[2], s[0]))):
            self.assertEqual(g[:2], w[:2])
            self.assertLessEqual(max(abs(g[2] - w[2]), abs(g[3] - w[3])), US, (g, w))
            self.assertTrue(p.begin - US <= g[2] <= g[3] <= p.end + US, g)
        self.assertRegex(run.err, r"take_gil|hold_gil|left out|cut", "what is left out is told")

    def test_no_overlap(self):
        """An hour apart: an error, and no picture that would be aligned left in silence."""
        m = self.rank(0)
        d, place = self.axis(m)
        for n, hour in enumerate((3600 * S, -3600 * S)):
            p = self.profiler(m, lambda ns: place(ns) + hour)
            folder = p.torch_npu(self.path("p%d" % n), raw_offset=d)
            for options in ([], ["--merge"], ["--lanes=inline"]):
                with self.subTest(hour=hour, options=options):
                    run = self.convert("GIL_7000_rank_0.gil", "--profiler", folder, "-o", "joint",
                                       *options,
                                       status=b.FAILED)
                    self.assertRegex(run.err, NO_OVERLAP)
                    self.assertIn("GIL_7000_rank_0.gil", run.err)
                    self.assertFalse(os.path.isfile(self.path("joint")))
                    self.assertFalse(glob.glob(self.path("joint", "**", "*.json"), recursive=True))

    def test_one_of_two_overlaps(self):
        ranks = [self.rank(0), self.rank(1)]
        folders = []
        for m in ranks:
            d, place = self.axis(m)
            p = self.profiler(m, place if m.rank else lambda ns: place(ns) + 3600 * S)
            folders.append(p.torch_npu(self.path("prof"), raw_offset=d))
        run = self.convert("GIL_7000_rank_0.gil", "GIL_7100_rank_1.gil", "--profiler=prof", "-o",
                           "joint",
                           status=b.LEFT_OUT)
        self.assertRegex(run.err, NO_OVERLAP)
        self.check_insight(self.path("joint"), os.path.basename(folders[1]))
        self.assertFalse(glob.glob(self.path("joint", os.path.basename(folders[0]), "**", "*.json"),
                                   recursive=True))


if __name__ == "__main__":
    b.main()
