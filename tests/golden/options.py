#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the options of gil2trace do to the trace, and which of them do not fit together.

    options.py TXT2GIL GIL2TRACE
"""
import glob
import json
import os
import random
import re
import subprocess

import case
from case import Case

START = 1700000000 * 10**9  # what time 0 of a script is

# Two threads that take turns: each wait ends with the other's release.
TURNS = ("meta process.pid 42\nmeta rank 3\nclock 0\nrepeat %d 20us\nacquire 0 1\nwait 1us 2\n"
         "forced 5us 1\nyield 5100 1\nacquire 6us 2\nwait 7us 1\nrelease 9us 2\nacquire 10us 1\n"
         "release 12us 1\ndone\nend %dus\n")


def turns(n):
    return TURNS % (n, 20 * n)


def ns(text):
    return int(text.replace(".", ""))


def slices(events):
    return [(e["name"], e["pid"], e["tid"], ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]),
             json.dumps(e["args"])) for e in events if e["ph"] == "X"]


def names(events):
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}


class Traces(Case):
    def trace(self, *args, out="out.json", **kw):
        """The events of a trace, and what was said."""
        said = self.run_it(*args, "-o", out, **kw)
        return self.check(self.path(out)), said

    def random_script(self, rnd, pid):
        now = 1000
        lines = ["meta process.pid %d" % pid, "meta rank %d" % pid, "clock 0"]
        for _ in range(rnd.randrange(20, 300)):
            now += rnd.randrange(1, 3000)
            kind = rnd.choice(["wait", "acquire", "release", "forced", "yield"] * 5 + ["lost"])
            if kind == "lost":
                lines.append("lost %d %d 9" % (now, now - rnd.randrange(900)))
            else:
                lines.append("%s %d %d %d" % (kind, now, rnd.randrange(1, 5), rnd.choice([0, 0, 1])))
        lines.append("end %d" % (now + rnd.randrange(1, 500)))
        return "\n".join(lines) + "\n"


class Filters(Traces):
    def test_any_filter(self):
        """What is drawn is exactly what was drawn without it and is asked for; the rest is told."""
        for seed in range(60):
            rnd = random.Random(seed)
            for pid in (10, 11):
                self.make(self.random_script(rnd, pid), "%d.gil" % pid)
            everything, _ = self.trace("10.gil", "11.gil", out="all.json")
            every = slices(everything)
            last = max(s[4] for s in every) - START
            lo, hi, least = 0, 1 << 62, 0
            pids, tids = {10, 11}, {1, 2, 3, 4}
            args = []
            if rnd.randrange(2):
                lo = START + rnd.randrange(last)
                args.append("--from=%dns" % (lo - START if rnd.randrange(2) else lo))
            if rnd.randrange(2):
                hi = max(lo, START) + 1 + rnd.randrange(last)
                args.append("--to=%s%dns" % ("", hi))
            if rnd.randrange(2):
                least = rnd.randrange(4000)
                args.append("--min-dur=%dns" % least)
            if rnd.randrange(3) == 0:
                pids = {11}
                args.append("--pid=11,99")
            if rnd.randrange(3) == 0:
                tids = {1, 3}
                args += ["--tid=3", "--tid=1"]
            # A relative time counts from the earliest recording, which is the first clock sample.
            want = [s for s in every if s[1] in pids and s[2] in tids and s[4] - s[3] >= least and
                    s[3] < hi and (s[4] > lo or s[3] >= lo)]
            with self.subTest(seed=seed, args=args):
                got, said = self.trace("10.gil", "11.gil", "--flows", *args)
                self.assertEqual(slices(got), want)
                self.assertEqual(set(names(got)) - {k for k in names(got) if k[1] > 4194303},
                                 {s[1:3] for s in want})
                if args:
                    for kind in ("take_gil", "hold_gil", "drop_gil"):
                        rest = [s for s in every if s not in want and s[0] == kind]
                        length = sum(s[4] - s[3] for s in rest)
                        self.assertIn("%d %s (%d.%03d ms)" % (len(rest), kind, length // 10**6,
                                                              length // 1000 % 1000), said)

    def test_relative_to_the_earliest(self):
        self.make("origin 1000s 1700000000s\n" + turns(5), "a.gil")
        self.make("origin 1000s 1700000001s\n" + turns(5).replace("pid 42", "pid 43").replace("rank 3", "rank 4"), "b.gil")
        got, _ = self.trace("b.gil", "a.gil", "--from=1", "--to=1.00001")
        self.assertEqual({s[1] for s in slices(got)}, {43})
        self.assertEqual({s[3] // 10000 for s in slices(got)}, {(START + 10**9) // 10000})
        same, _ = self.trace("b.gil", "a.gil", "--from=1700000001", "--to=1700000001.00001s")
        self.assertEqual(slices(same), slices(got))
        self.assertEqual(slices(self.trace("a.gil", "b.gil", "--from=1000000us")[0]),
                         [s for s in slices(self.trace("a.gil", "b.gil")[0]) if s[1] == 43])

    def test_nothing_is_left(self):
        self.make(turns(5), "a.gil")
        self.assertIn("no process has an id of --pid",
                      self.run_it("a.gil", "--pid=7", "-o", "x.json", status=1))
        self.assertFalse(os.path.exists(self.path("x.json")))
        for args in (["--tid=9"], ["--from=10"], ["--min-dur=1s"]):
            got, said = self.trace("a.gil", *args)
            self.assertEqual(slices(got), [])
            self.assertEqual(names(got), {})
            self.assertIn("2 thread(s)", said)
            self.assertIn("warning: the filters leave no slice", said)

    def test_totals_stay_true(self):
        """Summary and page are of everything, whatever is drawn."""
        self.make(turns(50), "a.gil")

        def summary(*args):
            return subprocess.run([case.GIL2TRACE, "a.gil", "--summary=json", *args], cwd=self.dir,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  check=True).stdout
        plain = summary()
        json.loads(plain.decode())
        self.assertEqual(summary("-o", "x.json", "--min-dur=4us", "--to=0.0005", "--tid=2"), plain)
        self.assertEqual(summary("--min-dur=4us"), plain)
        self.assertIn("none is written", self.run_it("a.gil", "--summary", "--tid=2",
                                                     stdout=subprocess.DEVNULL))
        self.run_it("a.gil", "--html=a.html")
        self.run_it("a.gil", "--html=b.html", "-o", "b.json", "--tid=2")
        with open(self.path("a.html"), "rb") as a, open(self.path("b.html"), "rb") as b:
            self.assertEqual(a.read(), b.read())


class Times(Traces):
    def test_relative(self):
        """The same to the nanosecond, from 0.001 on."""
        self.make("origin 1000s 1700000000000000123\n" + turns(5), "a.gil")
        self.make("origin 1000s 1700000000000004123\n" + turns(5).replace("pid 42", "pid 43"),
                  "b.gil")
        unix, _ = self.trace("a.gil", "b.gil")
        relative, _ = self.trace("a.gil", "b.gil", "--time=relative")
        base = START + 122
        self.assertEqual([s[:3] + (s[3] - base, s[4] - base) + s[5:] for s in slices(unix)],
                         slices(relative))
        self.assertEqual(min(ns(e["ts"]) for e in relative if "ts" in e), 1)
        labels = {e["args"]["labels"] for e in relative if e["name"] == "process_labels"}
        self.assertEqual(labels, {"CPU, ts 0 is Unix time 1700000000000000.122 us"})
        self.assertEqual(self.trace("a.gil", "b.gil", "--time=unix")[0], unix)

    def test_before_the_start(self):
        """A recording that came late tells of a time before its start."""
        self.make("meta process.pid 42\nmeta recording.late forked\nclock 100us\n"
                  "late 100us 50us\nacquire 100us 1\nrelease 200us 1\nend 300us\n", "a.gil")
        got, _ = self.trace("a.gil", "--time=relative")
        late, = [e for e in got if e["name"] == "not recorded"]
        self.assertEqual(late["ts"], "0.001")

    def test_spelling(self):
        """What is the same time is the same."""
        self.make(turns(50), "a.gil")
        want = slices(self.trace("a.gil", "--min-dur=4000ns")[0])
        self.assertEqual({s[4] - s[3] >= 4000 for s in want}, {True})
        for text in ("4", "4us", "4.000us", "0.004ms", "0.000004s", "4.0000"):
            self.assertEqual(slices(self.trace("a.gil", "--min-dur=" + text)[0]), want, text)
        self.assertTrue(slices(self.trace("a.gil", "--min-dur=3")[0]) != want)
        want = slices(self.trace("a.gil", "--min-dur=5us")[0])
        self.assertTrue(slices(self.trace("a.gil", "--min-dur=5.001us")[0]) != want)
        self.assertEqual(slices(self.trace("a.gil", "--min-dur=4.999us")[0]), want)


class Flows(Traces):
    def test_turns(self):
        """Each wait but the last ones ends with a release that is known, and has an arrow."""
        self.make(turns(100), "a.gil")
        got, _ = self.trace("a.gil", "--flows")
        takes = [e for e in got if e["name"] == "take_gil"]
        arrows = [e for e in got if e["ph"] == "f"]
        self.assertEqual(len(takes), 200)
        self.assertEqual([e["id"] for e in arrows], list(range(1, 201)))
        self.assertEqual({(e["tid"], ns(e["ts"])) for e in arrows},
                         {(e["tid"], ns(e["ts"]) + ns(e["dur"])) for e in takes})
        plain, _ = self.trace("a.gil")
        self.assertEqual([e for e in got if e["ph"] not in "sf"], plain)

    def test_golden_ones(self):
        """Over all scripts: an arrow has both ends in holds, and the second later than the first."""
        arrows = 0
        for script in sorted(glob.glob(os.path.join(case.HERE, "*.txt"))):
            name = os.path.basename(script)[:-4]
            self.make(name)
            subprocess.run([case.GIL2TRACE, "-q", name + ".gil", "--flows", "-o", "x.json"],
                           cwd=self.dir, stderr=subprocess.DEVNULL)
            arrows += len([e for e in self.check(self.path("x.json")) if e["ph"] == "s"])
        self.assertGreater(arrows, 10)


class Files(Traces):
    def written(self, pattern):
        return sorted(glob.glob(os.path.join(self.dir, pattern)))

    def test_gzip(self):
        self.make("contended", "a.gil")
        want, _ = self.trace("a.gil")
        self.run_it("a.gil", "--gzip")
        self.assertEqual(self.check(self.path("a.json.gz")), want)
        self.run_it("a.gil", "-o", "b.json.gz")
        self.assertEqual(self.check(self.path("b.json.gz")), want)
        with open(self.path("a.json.gz"), "rb") as a, open(self.path("b.json.gz"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        p = subprocess.run([case.GIL2TRACE, "a.gil", "--gzip", "-o", "-"], cwd=self.dir,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        self.assertEqual(p.stdout[:2], b"\x1f\x8b")
        self.assertIn("x.json: will be compressed", self.run_it("a.gil", "--gzip", "-o", "x.json"))

    def test_per_rank(self):
        for name in ("in/GIL_42_rank_0.gil", "in/GIL_43_rank_1.gil", "other/GIL_42_rank_0.gil"):
            pid = name.split("_")[1]
            self.make(turns(5).replace("pid 42", "pid " + pid), name)
        said = self.run_it("in", "other", "--per-rank", "-o", "out", status=3)  # 42 is there twice
        self.assertEqual(sorted(os.listdir(self.path("out"))),
                         ["GIL_42_rank_0.json", "GIL_42_rank_0_2.json", "GIL_43_rank_1.json"])
        for path in self.written("out/*"):
            events = self.check(path)
            self.assertEqual(len([e for e in events if e["name"] == "process_name"]), 1)
            self.assertIn(os.path.relpath(path, self.dir) + ": written", said)
        self.run_it("in", "other", "--per-rank", status=3)
        self.assertEqual(len(self.written("in/*.json")), 2)
        self.assertEqual(len(self.written("other/*.json")), 1)
        self.run_it("in", "--per-rank", "--gzip", "-o", "out/")
        self.check(self.path("out/GIL_43_rank_1.json.gz"))
        self.check_no_rest()

    def test_split(self):
        """Together the parts are the whole; each is a trace; arrows between parts are left out."""
        self.make(turns(2000), "a.gil")
        self.make(turns(2000).replace("pid 42", "pid 43"), "b.gil")
        whole, _ = self.trace("a.gil", "b.gil", "--flows")
        said = self.run_it("a.gil", "b.gil", "--flows", "--split=1", "-o", "part.json")
        parts = ["part_%d.json" % (i + 1) for i in range(len(self.written("part_*.json")))]
        self.assertGreater(len(parts), 4)
        self.assertIn("part_1.json .. part_%d.json: written, %d parts" % (len(parts), len(parts)),
                      said)
        events = [self.check(self.path(p)) for p in parts]
        self.assertEqual(slices(e for part in events for e in part), slices(whole))
        arrows = [len([e for e in part if e["ph"] == "s"]) for part in events]
        all_arrows = len([e for e in whole if e["ph"] == "s"])
        self.assertLess(sum(arrows), all_arrows)
        self.assertGreater(sum(arrows), all_arrows - 3 * len(parts))
        for part, name in zip(events, parts):
            self.assertLess(abs(os.path.getsize(self.path(name)) - (1 << 20)), 4096
                            if name != parts[-1] else 1 << 20)
            self.assertEqual(set(names(part)), {s[1:3] for s in slices(part)})
        both = [part for part in events if len({s[1] for s in slices(part)}) == 2]
        self.assertEqual(len(both), 1)

    def test_split_says_doubt_everywhere(self):
        self.make(turns(6000).replace("end ", 'meta check.result "sites missing"\n'
                                      'meta check.text "so it is"\nend '), "a.gil")
        self.run_it("a.gil", "--split=1")
        parts = self.written("a_*.json")
        self.assertGreater(len(parts), 3)
        for path in parts:
            events = self.check(path)
            doubt, = [e for e in events if e["name"] == "GIL sites missing" and e["ph"] == "I"]
            self.assertEqual(doubt["args"]["text"], "so it is")
            self.assertGreaterEqual(max(s[4] for s in slices(events)), ns(doubt["ts"]))

    def test_split_of_little(self):
        self.make("contended", "a.gil")
        want, _ = self.trace("a.gil")
        for i in (2, 3):
            with open(self.path("b_%d.json" % i), "w"):
                pass
        self.assertIn("b_2.json: is a part of another trace",
                      self.run_it("a.gil", "--split=1", "-o", "b.json"))
        self.assertEqual(self.check(self.path("b_1.json")), want)

    def test_split_per_rank_compressed(self):
        self.make(turns(5000), "in/a.gil")
        self.make(turns(5000).replace("pid 42", "pid 43"), "in/b.gil")
        self.run_it("in", "--split=2", "--per-rank", "--gzip", "-o", "out")
        files = [os.path.basename(p) for p in self.written("out/*")]
        self.assertEqual(len(files), 2 * len([f for f in files if f.startswith("a_")]))
        self.assertGreater(len(files), 4)
        for name in files:
            pids = {s[1] for s in slices(self.check(self.path("out/" + name)))}
            self.assertEqual(pids, {42 if name.startswith("a_") else 43})

    def test_cache_of_insight(self):
        """Everywhere where a trace is written."""
        self.make(turns(5), "in/a.gil")
        os.mkdir(self.path("out"))
        for args, cache in ((["--per-rank", "-o", "out"], "out/a_mindstudio_insight_data.db"),
                            (["--split=1", "-o", "out/p.json"],
                             "out/p_1_mindstudio_insight_data.db"),
                            (["--per-rank", "-o", "out"], "out/mindstudio_insight_data.db")):
            with open(self.path(cache), "w"):
                pass
            self.assertIn(cache + ": is MindStudio Insight's cache", self.run_it("in/a.gil", *args))
            os.unlink(self.path(cache))

    def test_signal_leaves_nothing(self):
        """Of several outputs at once, none that is not complete."""
        for n in (100000, 400000, 1600000):  # until it is not done before the signal comes
            self.make(turns(n), "a.gil")
            p = subprocess.Popen([case.GIL2TRACE, "a.gil", "--split=4", "--html=a.html", "-o",
                                  "b.json"], cwd=self.dir, stderr=subprocess.PIPE)
            while p.poll() is None and len(self.written(".*.tmp")) < 3:
                pass
            p.terminate()
            p.communicate()
            self.check_no_rest()
            if p.returncode:
                break
        self.assertEqual(p.returncode, -15)
        self.assertEqual(os.listdir(self.dir).count("a.html") + len(self.written("b_*")), 0)


class Several(Traces):
    def test_one_name_for_two(self):
        self.make(turns(5), "a.gil")
        os.mkdir(self.path("out"))
        self.assertIn("is the name of two outputs",
                      self.run_it("a.gil", "-o", "out/x", "--html=./out/../out/x", status=1))
        self.assertEqual(os.listdir(self.path("out")), [])

    def test_all_at_once(self):
        self.make(turns(5), "a.gil")
        p = subprocess.run([case.GIL2TRACE, "a.gil", "--summary=json", "--html=a.html", "-o",
                            "a.json"], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(p.returncode, 0, p.stderr)
        json.loads(p.stdout.decode())
        self.check(self.path("a.json"))
        with open(self.path("a.html"), "rb") as f:
            self.assertIn(b"</html>", f.read())

    def test_without_a_trace(self):
        """A summary or a page is all that is asked for."""
        self.make(turns(5), "a.gil")
        self.run_it("a.gil", "--summary", stdout=subprocess.DEVNULL)
        self.assertEqual(sorted(os.listdir(self.dir)), ["a.gil", "script.txt"])
        self.run_it("a.gil", "--html=x.html")
        self.assertFalse(os.path.exists(self.path("a.json")))

    def test_html_to_standard_output(self):
        self.make(turns(5), "a.gil")
        p = subprocess.run([case.GIL2TRACE, "a.gil", "--html=-"], cwd=self.dir,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn(b"</html>", p.stdout)


class Usage(Case):
    WRONG = (
        (["--min-dur=1m"], "no unit"), (["--min-dur="], "no number"), (["--min-dur=-1"], "no number"),
        (["--min-dur=1.us"], "no number"), (["--min-dur=.5us"], "no number"),
        (["--min-dur=1.5ns"], "finer than a nanosecond"), (["--min-dur=0.0000000001s"], "finer"),
        (["--min-dur=1.0000000000000000000000001s"], "finer"),
        (["--min-dur=99999999999999999999s"], "too large"), (["--min-dur=99999999999s"], "too large"),
        (["--min-dur=1e3us"], "no unit"), (["--min-dur=0x10"], "no unit"), (["--from=nan"], "no number"),
        (["--from=2", "--to=2"], "--from is not before --to"), (["--from=2", "--to=1.9s"], "not before"),
        (["--to=0"], "nothing lies before"), (["--pid="], "no list"), (["--pid=1,"], "no list"),
        (["--pid=1,,2"], "no list"), (["--pid=x"], "no list"), (["--tid=4294967296"], "too large"),
        (["--tid=1 2"], "no list"), (["--time=local"], "unix or relative"),
        (["--lanes=both", "--profiler=x"], "separate or inline"), (["--ids=guest"], "namespace or host"),
        (["--summary=xml"], "text or json"), (["--split=0"], "number of MiB"),
        (["--split=x"], "number of MiB"), (["--split="], "number of MiB"),
        (["--split=99999999999999999999999"], "number of MiB"), (["--split=1.5"], "number of MiB"),
        (["--merge"], "needs --profiler"), (["--clip"], "needs --profiler"),
        (["--lanes=inline"], "needs --profiler"), (["--profiler="], "needs a name"),
        (["--profiler=x", "--per-rank"], "does not go with --profiler"),
        (["--profiler=x", "--split=1"], "does not go with --profiler"),
        (["--profiler=x", "--time=relative"], "does not go with --profiler"),
        (["--profiler=x", "-o", "-"], "does not go with --profiler"),
        (["--per-rank", "-o", "-"], "needs a folder"), (["--split=1", "-o", "-"], "needs a name"),
        (["--summary", "-o", "-"], "only one use"), (["--html=-", "-o", "-"], "only one use"),
        (["--html=-", "--summary"], "only one use"), (["--html=x", "--html=y"], "needs one name"),
        (["--html="], "needs one name"), (["--html=x", "-o", "x"], "the same file"),
    )

    def test_wrong(self):
        self.make("contended", "a.gil")
        for args, pattern in self.WRONG:
            with self.subTest(args):
                said = self.run_it("a.gil", *args, status=2)
                self.assertIn(pattern, said)
                self.assertIn("Try `gil2trace --help'", said)
        self.assertEqual(os.listdir(self.dir), ["a.gil"])

    def test_wrong_once_the_start_is_known(self):
        self.make("contended", "a.gil")
        self.assertIn("--from is not before --to",
                      self.run_it("a.gil", "--from=1", "--to=1700000000.5", status=2))
        self.assertEqual(os.listdir(self.dir), ["a.gil"])

    def test_help(self):
        """All options, and lines that a terminal of 80 columns shows whole."""
        text = subprocess.run([case.GIL2TRACE, "--help"], stdout=subprocess.PIPE,
                              check=True).stdout.decode()
        self.assertEqual([line for line in text.split("\n") if len(line) > 80], [])
        for option in ("input", "output", "summary", "html", "min-dur", "from", "to", "pid", "tid",
                       "flows", "ids", "time", "gzip", "per-rank", "split", "profiler", "lanes",
                       "merge", "clip", "verbose", "quiet", "help", "version"):
            self.assertRegex(text, r"(?m)^ .*--%s\b" % option)
        with open(os.path.join(case.HERE, "..", "..", "README.md")) as f:
            readme = f.read()
        for option in re.findall(r"(?m)^ .*--([a-z-]+)", text):
            if option not in ("usage", "version", "help", "input", "output", "verbose", "quiet"):
                self.assertTrue("--" + option in readme, option)


if __name__ == "__main__":
    case.main(__doc__)
