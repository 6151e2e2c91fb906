# SPDX-License-Identifier: Apache-2.0
"""The answers to what users ask, for programs of which the answer is known: who waited, for whom,
how long; and what giltrace says of a recording when it has ended."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

MS, S = 1000 * 1000, 1000 * 1000 * 1000

# One thread holds the GIL in C for long, others compute or call the system; it says who is who.
BLOCKER = """
import ctypes, json, os, sys, threading, time
lib = ctypes.PyDLL(None)
stop, tids = [], {}
def run(name, work):
    tids[name] = threading.get_native_id()
    while not stop:
        work()
works = {"blocker": lambda: (lib.usleep(40000), time.sleep(0.001)),
         "computes": lambda: sum(range(500)),
         "asks": lambda: os.stat("/"), "naps": lambda: time.sleep(0.0005)}
threads = [threading.Thread(target=run, args=pair) for pair in works.items()]
for t in threads: t.start()
while len(tids) < len(works): time.sleep(0.01)
print(json.dumps(tids), flush=True)
sys.stdin.readline()
stop.append(1)
for t in threads: t.join()
"""


def prefer(w):
    """
    Before all else that runs here, and a CPU for each of its threads: between a forced release and
    the wait that follows a thread needs one, or it waits for that and not for the GIL. A woken
    thread is often put on the CPU of the one that has woken it.
    """
    cpus = sorted(os.sched_getaffinity(0))
    try:
        for i, tid in enumerate(w.threads.values()):
            os.sched_setscheduler(tid, os.SCHED_RR, os.sched_param(1))
            os.sched_setaffinity(tid, {cpus[i % len(cpus)]})
    except OSError as err:
        h.say("no real-time priority here: %s" % err)


def forced_off(rec, tid):
    """How long the thread had been made to give the GIL up, and had not yet asked for it again."""
    total, since = 0, None
    for e in rec.events:
        if e.tid != tid:
            continue
        if e.kind == h.RELEASE:
            since = e.ns if e.forced else None
        elif e.kind in (h.WAIT, h.ACQUIRE) and since is not None:
            total += e.ns - since
            since = None
    return total


class Answers(h.BpfTest):
    def summary(self, rec):
        p = subprocess.run([h.tool("gil2trace"), rec.path, "--summary=json"],
                           stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=h.LIMIT)
        self.assertEqual(p.returncode, h.OK, p.stderr.decode(errors="replace"))
        process, = json.loads(p.stdout.decode())["processes"]
        return process

    def threads(self, process):
        return {t["tid"]: t for t in process["threads"]}

    def blockers(self, process, victim):
        """Threads, and how long it has waited for each."""
        return {p["blocker"]: p["ns"] for p in process["pairs"] if p["victim"] == victim and
                p["kind"] == "thread"}

    def record(self, w, seconds):
        with h.Recorder(w, "-d", str(seconds)) as r:
            self.assertEqual(r.finish(), h.OK, r.text())
            rec = r.recording()
        self.assertEqual(rec.lost, 0)
        self.assert_sound(rec)
        return rec

    def test_two_that_compute(self):
        """Half of the time each waits for the other."""
        with h.Workload(h.python()) as w:
            w.start_workers(cpu=2)
            prefer(w)
            w.do("run")
            rec = self.record(w, 5)
            w.do("park")
        process = self.summary(rec)
        mine = {t: v for t, v in self.threads(process).items() if t in w.threads.values()}
        self.assertEqual(len(mine), 2)
        for tid, t in mine.items():
            self.assertGreater(t["observed_ns"], 4.8 * S)
            # What it is forced off is next to nothing where CPUs are free, but they may not be.
            off = forced_off(rec, tid) / t["observed_ns"]
            wait, hold = (t[what] / t["observed_ns"] for what in ("wait_ns", "hold_ns"))
            self.assertAlmostEqual(wait + off, 0.5, delta=0.02 + off / 4, msg=t)
            self.assertAlmostEqual(wait + off + hold, 1, delta=0.005, msg=t)
            if off < 0.005:
                self.assertAlmostEqual(wait, 0.5, delta=0.02, msg=t)
            other, = set(mine) - {tid}
            self.assertGreater(self.blockers(process, tid).get(other, 0) / t["wait_ns"], 0.9,
                               process["pairs"])

    def test_one_that_computes(self):
        """Nobody waits."""
        with h.Workload(h.python()) as w:
            w.start_workers(cpu=1, stat=0)
            w.do("run")
            rec = self.record(w, 1)
            w.do("park")
        for t in self.threads(self.summary(rec)).values():
            self.assertLess(t["wait_ns"], 0.01 * max(t["observed_ns"], S), t)

    def test_one_that_calls_the_system(self):
        """It takes the GIL twenty thousand times, and never waits for anybody."""
        with h.Workload(h.python()) as w:
            w.start_workers(stat=1)
            with h.Recorder(w) as r:
                w.do("run", limit=20000)
                w.do("join")
                self.assertEqual(r.stop(), h.OK, r.text())
                rec = r.recording()
        process = self.summary(rec)
        t = self.threads(process)[w.threads["stat-0"]]
        self.assertGreaterEqual(t["takes"], 20000)
        self.assertLess(t["wait_ns"], 0.01 * t["observed_ns"], t)

    def test_who_blocks_all_others(self):
        py, = [p for p in h.pythons() if p.version >= (3, 8) and not p.free_threaded][:1]
        p = subprocess.Popen(py.command() + ["-S", "-c", BLOCKER], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE,
                             bufsize=0, env=dict(os.environ, **py.env))
        try:
            tids = json.loads(p.stdout.readline().decode())
            rec = self.record(p.pid, 2)
        finally:
            p.kill()
            p.communicate()
        process = self.summary(rec)
        threads = self.threads(process)
        for name, tid in tids.items():
            if name == "blocker":
                continue
            by = self.blockers(process, tid)
            self.assertEqual(max(by, key=by.get), tids["blocker"], (name, by, tids))
            self.assertGreater(by[tids["blocker"]] / threads[tid]["wait_ns"], 0.6, (name, by))
        longest = process["longest_holds"][0]
        self.assertEqual(longest["tid"], tids["blocker"])
        self.assertGreaterEqual(longest["ns"], 40 * MS)


class AtTheEnd(h.BpfTest):
    """What giltrace says by itself."""

    def run_it(self, *options):
        with h.Workload(h.python()) as w:
            w.start_workers(cpu=2)
            prefer(w)
            w.do("run")
            with h.Recorder(w, "-d", "1", *options) as r:
                self.assertEqual(r.finish(), h.OK, r.text())
                text = r.text()
            w.do("park")
        return w, text

    def test_brief_summary(self):
        w, text = self.run_it()
        rows = [line for line in text.splitlines()
                if any(re.search(r"\b%s\b" % name, line) for name in w.threads)]
        self.assertGreaterEqual(len(rows), 2, text)
        for row in rows[:2]:
            shares = [float(n) for n in re.findall(r"(\d+(?:\.\d+)?) ?%", row)]
            self.assertTrue([n for n in shares if 20 <= n <= 60], row)
        self.assertNotRegex(text, r"[\x00-\x08\x0b-\x1f]")

    def test_none_if_not_wanted(self):
        w, text = self.run_it("--no-summary")
        self.assertNotRegex(text, r"\d ?%")
        self.assertNotIn("cpu-0", text)

    def test_help(self):
        self.assertIn("--no-summary", h.giltrace("--help")[1])


if __name__ == "__main__":
    h.main()
