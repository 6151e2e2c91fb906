#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/examples, run as a reader would: the GIL beside PyTorch's profiler, in one trace.

Skipped without a PyTorch: Debian's python3-torch will do. GT_TORCH_PYTHON names an interpreter that
has one, GT_REQUIRE_TORCH=1 fails without.
"""
import bisect
import collections
import decimal
import functools
import glob
import itertools
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import BpfTest, LIMIT, OK, TESTS, main, new_dir, say, tool  # noqa: E402

EXAMPLES = os.path.join(TESTS, "..", "docs", "examples")
PACKAGE = os.path.join(TESTS, "..", "src", "python")
MS = 1000000
CYCLES = [["step 2", "step 3", "step 4"], ["step 7", "step 8", "step 9"]]
# PyTorch's clock, in builds without Kineto, is told in whole microseconds; both are placed by
# readings of the wall clock, and gil2trace tells that it may be off by some 6 us.
OFF = 8000

# What torch_npu's profiler does at the borders of steps, read in its published source, and no more:
# it profiles nothing. It tells what giltrace does when its window opens and when it has closed.
FAKE_NPU = """
import enum, json, os, types
import giltrace

Action = enum.Enum("Action", "NONE WARMUP RECORD RECORD_AND_SAVE")

def tell(what):
    live = giltrace.recording()
    with open(os.environ["ORDER"], "a") as f:
        f.write(json.dumps([what, live and live.status().state]) + "\\n")

class Schedule:
    def __init__(self, wait, active, warmup=0, repeat=0):
        self.wait, self.active, self.warmup, self.repeat = wait, active, warmup, repeat

    def __call__(self, step):
        cycle, step = divmod(step, self.wait + self.warmup + self.active)
        if step < self.wait or 0 < self.repeat <= cycle:
            return Action.NONE
        if step < self.wait + self.warmup:
            return Action.WARMUP
        last = step == self.wait + self.warmup + self.active - 1
        return Action.RECORD_AND_SAVE if last else Action.RECORD

class profile:
    def __init__(self, activities, schedule, on_trace_ready):
        json.dumps(schedule.__dict__)    # it goes into profiler_info.json
        self.schedule, self.on_trace_ready, self.number = schedule, on_trace_ready, 0
        self.action = schedule(0)

    def __enter__(self):
        self.change(Action.NONE, self.action)
        return self

    def __exit__(self, *exc):
        self.change(self.action, None)

    def step(self):
        before, self.number = self.action, self.number + 1
        self.action = self.schedule(self.number)
        self.change(before, self.action)

    def change(self, before, now):
        live = before in (Action.RECORD, Action.RECORD_AND_SAVE)
        if live and (not now or before is Action.RECORD_AND_SAVE):
            tell("closed")
            self.on_trace_ready(self)
            live = False
        if not live and now in (Action.RECORD, Action.RECORD_AND_SAVE):
            tell("opens")

profiler = types.SimpleNamespace(
    profile=profile, schedule=Schedule,
    tensorboard_trace_handler=lambda folder: lambda prof: tell("handler"),
    ProfilerActivity=types.SimpleNamespace(CPU=0, NPU=1))
"""

# Three steps of each schedule, beside the fake above.
SCHEDULES = """
import json, sys
import torch_npu
from beside import Beside

for schedule in json.loads(sys.argv[2]):
    schedule = torch_npu.profiler.schedule(**schedule)
    with Beside(schedule, output_dir=sys.argv[1]) as gil, torch_npu.profiler.profile(
            None, schedule, gil.on_trace_ready(lambda prof: None)) as prof:
        for number in range(3):
            gil.step(prof)
    print(len(gil.files))
"""


def ns(microseconds):
    return int(decimal.Decimal(microseconds) * 1000)


@functools.lru_cache(None)
def torch_python():
    """An interpreter with PyTorch, or None."""
    for python in (os.environ.get("GT_TORCH_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python and os.access(python, os.X_OK) and subprocess.run(
                [python, "-c", "import torch.profiler"], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def run(*argv, where=None, **env):
    """where: a folder with modules, before the others."""
    path = os.pathsep.join(filter(None, (where, PACKAGE, EXAMPLES)))
    full = dict(os.environ, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1",
                GILTRACE_COMMAND=tool("giltrace"))
    full.update(env)
    return subprocess.run([torch_python()] + list(argv), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                          env=full, timeout=2 * LIMIT)


class Merged:
    """One merged trace, as a reader of its JSON sees it."""

    def __init__(self, path):
        with open(path) as f:
            events = json.load(f, parse_float=decimal.Decimal)["traceEvents"]
        slices = collections.defaultdict(list)
        self.ops, self.marks = [], []
        self.paused = []    # (when, 1 or 0)
        for e in events:
            at = ns(e.get("ts", 0))
            if e["ph"] == "X" and e["name"].endswith("_gil"):
                slices[e["name"], e["tid"]].append((at, at + ns(e["dur"])))
            elif e["ph"] == "X":
                self.ops.append((at, at + ns(e["dur"]), e["tid"], e["name"], e["pid"]))
            elif e["ph"] == "C" and e["name"] == "GIL paused":
                self.paused.append((at, e["args"]["paused"]))
            elif e["ph"] in "iI" and e["name"].startswith("step "):
                self.marks.append((at, e["name"], e["s"]))
            elif e["name"] in ("GIL lost events", "GIL sites missing"):
                raise AssertionError("%s in %s" % (e["name"], path))
        self.slices = {key: sorted(found) for key, found in slices.items()}
        self.threads = {op[2] for op in self.ops}

    def ranges(self, name):
        return [op for op in self.ops if op[3] == name or op[3].startswith(name + " [")]

    def overlap(self, kind, tid, begin, end):
        """How long the thread did that between these two."""
        return sum(max(0, min(end, b) - max(begin, a)) for a, b in self.slices.get((kind, tid), []))


@functools.lru_cache(None)
def example():
    """The example's output, the last step's too, and the merged traces in their order."""
    out = new_dir()
    r = run(os.path.join(EXAMPLES, "torch_profiler.py"), out)
    if r.returncode:
        raise AssertionError("%d\n%s%s" % (r.returncode, r.stdout, r.stderr))
    m = subprocess.run([tool("gil2trace"), os.path.join(out, "gil"),
                        "--profiler", os.path.join(out, "prof"),
                        "-o", os.path.join(out, "merged") + "/", "--merge"],
                       stderr=subprocess.PIPE, universal_newlines=True, timeout=LIMIT)
    paths = sorted(glob.glob(os.path.join(out, "merged", "*.json")))
    return r, m, paths, sorted((Merged(p) for p in paths), key=lambda t: min(t.ops))


class Example(BpfTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if torch_python():
            return
        if os.environ.get("GT_REQUIRE_TORCH") == "1":
            raise AssertionError("GT_REQUIRE_TORCH=1, but no interpreter has PyTorch")
        say("SKIPPED %s: no interpreter has PyTorch (Debian: python3-torch)" % cls.__name__)
        raise unittest.SkipTest("no PyTorch")


class TorchProfiler(Example):
    def test_a_recording_for_each_cycle(self):
        r, m, paths, traces = example()
        self.assertEqual(r.stderr, "")
        self.assertEqual(m.returncode, OK, m.stderr)
        self.assertEqual(len(r.stdout.split()), len(CYCLES), r.stdout)
        self.assertEqual(len(traces), len(CYCLES), m.stderr)
        self.assertEqual(m.stderr.count("by its pid; clock: trace"), len(CYCLES), m.stderr)
        self.assertNotRegex(m.stderr, "warning|left out")

    def test_nothing_is_lost_at_the_edges(self):
        """What the Profiler shows lies within what giltrace has recorded, and no more than a
        step's border before it: of the warm-up, and of steps behind, there is nothing."""
        for trace in example()[3]:
            begin, end = min(o[0] for o in trace.ops), max(o[1] for o in trace.ops)
            main_thread = max(trace.ranges("python"))[2]
            holds = trace.slices["hold_gil", main_thread]
            resumed = [at for at, on in trace.paused if not on]
            self.assertEqual(len(resumed), 1, trace.paused)
            self.assertLess(resumed[0], begin)
            self.assertLess(holds[0][0], begin + OFF)
            self.assertGreater(holds[-1][1], end - OFF)
            self.assertLess(begin - resumed[0], 500 * MS)
            every = [s for found in trace.slices.values() for s in found]
            self.assertGreaterEqual(min(every)[0], resumed[0])
            self.assertLess(max(b for _, b in every) - end, 500 * MS)

    def test_marks_stand_where_steps_begin(self):
        """Behind all of the step before, and before all of the step."""
        for trace, names in zip(example()[3], CYCLES):
            marks = sorted({(at, name) for at, name, _ in trace.marks})
            self.assertEqual([name for _, name in marks], names)
            self.assertEqual({scope for _, _, scope in trace.marks}, {"p", "t"})
            trains, loops = sorted(trace.ranges("train")), sorted(trace.ranges("python"))
            for i, (at, name) in enumerate(marks):
                self.assertLess(at, trains[i][0] + OFF, name)
                if i:
                    self.assertGreater(at, loops[i - 1][1] - OFF, name)

    def test_rows_of_the_same_threads(self):
        fought = 0
        for trace in example()[3]:
            self.assertEqual(len({op[4] for op in trace.ops}), 1, "one process")
            self.assertGreaterEqual(len(trace.threads), 2, "threads that the Profiler knows")
            rows = {tid for kind, tid in trace.slices if kind == "hold_gil"}
            self.assertLessEqual(trace.threads, rows)
            self.assertGreaterEqual(len(rows), 3, "the counter, too, which the Profiler may miss")
            for a, b in itertools.permutations(trace.threads, 2):
                for wait in trace.slices.get(("take_gil", a), []):
                    fought += trace.overlap("hold_gil", b, *wait)
        self.assertGreater(fought, MS, "one has waited while the other had the GIL")

    def test_sleep_is_without_the_gil(self):
        for trace in example()[3]:
            found = trace.ranges("sleep")
            self.assertEqual(len(found), len(CYCLES[0]))
            for begin, end, tid, _, _ in found:
                holds = [s for s in trace.slices["hold_gil", tid] if s[1] > begin and s[0] < end]
                gaps = [(a[1], b[0]) for a, b in zip(holds, holds[1:])]
                let_go, taken = max(gaps, key=lambda g: g[1] - g[0])
                self.assertGreater(taken - let_go, 5 * MS - OFF, "time.sleep(0.005)")
                self.assertGreater(let_go, begin - OFF)
                self.assertLess(taken, end + OFF)
                # Nearly all of the range is the sleep and the wait for the GIL behind it.
                waits = trace.overlap("take_gil", tid, begin, end)
                self.assertLess(trace.overlap("hold_gil", tid, begin, end) + waits,
                                end - begin - 5 * MS + OFF)

    def test_python_holds_the_gil(self):
        """A loop of pure Python is a hold, within its range, and nobody has the GIL meanwhile."""
        parts = []
        for trace in example()[3]:
            for begin, end, tid, _, _ in trace.ranges("python"):
                waits = trace.overlap("take_gil", tid, begin, end)
                length, a, b = max((min(end, b) - max(begin, a), a, b)
                                   for a, b in trace.slices["hold_gil", tid])
                self.assertGreater(a, begin - OFF)
                self.assertLess(b, end + OFF)
                for kind, other in trace.slices:
                    if kind == "hold_gil" and other != tid:
                        self.assertEqual(trace.overlap(kind, other, a, b), 0, "two have the GIL")
                if not waits:
                    parts.append(length / (end - begin))
        # A thread may be off the CPU where it has no GIL, at a range's edges: not each time.
        self.assertGreater(max(parts), 0.9, parts)

    def test_ranges_begin_and_end_without_the_gil(self):
        """record_function() lets the GIL go around the reading of the clock. That is the ruler by
        which the rows must line up, at every edge, and closely at some."""
        closest = {}
        for trace in example()[3]:
            for begin, end, tid, name, _ in trace.ops:
                if not re.match(r"train|sleep|python|make batch", name):
                    continue
                holds = trace.slices["hold_gil", tid]
                for edge in (begin, end):
                    i = bisect.bisect_right(holds, (edge, edge))
                    if not 0 < i < len(holds):
                        continue
                    before, behind = edge - holds[i - 1][1], holds[i][0] - edge
                    inside = min(-before, edge - holds[i - 1][0])
                    self.assertLess(inside, OFF, "%s at %d" % (name, edge))
                    for side, distance in (("before", before), ("behind", behind)):
                        closest[side] = min(closest.get(side, MS), abs(distance))
        self.assertLess(closest["before"], MS // 10, closest)
        self.assertLess(closest["behind"], MS // 10, closest)

    def test_measured(self):
        r = run(os.path.join(EXAMPLES, "line_up.py"), *example()[2])
        self.assertEqual(r.returncode, 0, r.stderr)
        found = re.search(r"^(\d+) edges, \d+ of them in a hold; the GIL's rows are off by "
                          r"([-+][\d.]+) to ([-+][\d.]+) us \(\+: late\)$", r.stdout, re.M)
        self.assertTrue(found, r.stdout)
        say(found.group(0))
        self.assertGreater(int(found.group(1)), 50)
        self.assertLess(-float(found.group(2)), 100)
        self.assertLess(float(found.group(3)), 100)


class Order(Example):
    """Against a profiler that only tells the order of calls: there is no NPU here."""

    def run_beside_fake(self, *argv, **env):
        where = new_dir()
        with open(os.path.join(where, "torch_npu.py"), "w") as f:
            f.write(FAKE_NPU)
        order = os.path.join(where, "order")
        r = run(*argv, where=where, ORDER=order, **env)
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(order) as f:
            return r, [json.loads(line) for line in f]

    def test_npu(self):
        r, order = self.run_beside_fake(os.path.join(EXAMPLES, "torch_npu_profiler.py"), new_dir(),
                                        "cpu")
        self.assertEqual(order, [["opens", "recording"], ["closed", "recording"],
                                 ["handler", None]] * len(CYCLES))
        self.assertEqual((len(r.stdout.split()), r.stderr), (len(CYCLES), ""))

    def test_other_schedules(self):
        """Without a wait, without a warm-up, longer than the training, ended while it warms up."""
        schedules = [(dict(wait=0, warmup=0, active=1), 4),
                     (dict(wait=0, warmup=2, active=1), 1),
                     (dict(wait=1, warmup=0, active=3, repeat=1), 1),
                     (dict(wait=0, warmup=0, active=9), 1)]
        r, order = self.run_beside_fake("-c", SCHEDULES, new_dir(),
                                        json.dumps([s for s, _ in schedules]))
        self.assertEqual(order, [["opens", "recording"], ["closed", "recording"]] *
                         sum(n for _, n in schedules))
        self.assertEqual([int(n) for n in r.stdout.split()], [4, 1 + 1, 1, 1])
        self.assertEqual(r.stderr, "")

    def test_without_giltrace(self):
        """The training goes on, and it is said why there is no recording."""
        r, order = self.run_beside_fake("-c", SCHEDULES, new_dir(),
                                        json.dumps([dict(wait=1, warmup=1, active=2)]),
                                        GILTRACE_COMMAND="/nowhere/giltrace")
        self.assertEqual(order, [["opens", None], ["closed", None]])
        self.assertEqual(r.stdout, "0\n")
        self.assertEqual(r.stderr.count("Warning: no GIL trace of this cycle"), 1, r.stderr)


if __name__ == "__main__":
    main()
