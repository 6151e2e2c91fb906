# SPDX-License-Identifier: Apache-2.0
"""What holds whatever a file says: events in no order that could be, times that go back or are
absurd, cut at any byte. No model knows the truth here; but the outputs must agree with each other.

GT_WILD_SEEDS says how many files are made.
"""
import collections
import json
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
import gilwrite as g  # noqa: E402

MS, S = b.MS, b.S
SEEDS = int(os.environ.get("GT_WILD_SEEDS") or 40)
KINDS = ([g.WAIT, g.ACQUIRE, g.RELEASE] * 6 + [g.YIELD] * 2 +
         [g.TAKE, g.DROPPED, g.EXIT, g.LEFT, g.LOST, g.PAUSED, g.MARK])
NAMES = ["step", b"\xff\x1b[m\n", b"\"ph\":\"X\"}", "x" * 127]
STEPS = [0, 1, 3, 7, 900, MS]


def write(path, rnd, pid):
    with g.GilWriter(path, records=rnd.choice([5, 40, 1000])) as w:
        now, tids = S, [pid] + [pid + i for i in range(5)]
        w.meta({"process.pid": str(pid)})
        if rnd.random() < 0.9:
            w.clock(now, now, 2 * S)
        if rnd.random() < 0.3:
            w.late(now - MS, now)
        for gil in range(3):
            if rnd.random() < 0.6:
                w.gil(now, gil)
        for _ in range(rnd.randrange(4)):
            w.before(now, rnd.choice(tids), rnd.choice([0, 0, 1, 255]),
                     rnd.choice([g.WAITING, g.HOLDING]))
        for _ in range(rnd.randrange(1, 400)):
            now += rnd.choice(STEPS if rnd.random() < 0.95 else [-500, -MS, 1 << 40, 1 << 55])
            now = max(1, min(now, 1 << 61))
            kind = rnd.choice(KINDS)
            if kind == g.LOST:
                w.gap(max(1, now - rnd.choice([0, 5, MS, S])), now, rnd.choice([1, 1 << 40]))
            elif kind == g.PAUSED:
                w.pause(max(1, now - rnd.choice([0, 5, MS, S])), now)
            elif kind == g.MARK:
                w.mark(now, rnd.choice([0, 77] + tids), rnd.choice(NAMES))
            else:
                w.event(kind, now, rnd.choice(tids), rnd.choice([0] * 6 + [1, 2, 255]))
        w.flush()
        if rnd.random() < 0.7:
            w.end(now)


def cut(path, rnd):
    with open(path, "r+b") as f:
        f.truncate(rnd.randrange(f.seek(0, os.SEEK_END)))


def options(rnd):
    out = []
    for chance, option in ((0.5, "--min-dur=%dns" % rnd.choice([1, 100, MS, 1 << 50])),
                           (0.5, "--from=%dns" % rnd.choice([0, 1, MS, S, 1 << 50])),
                           (0.3, "--to=%dns" % rnd.choice([(1 << 50) + 1, 1 << 56])),
                           (0.3, "--pid=4200,7"), (0.3, "--tid=4201,4300"), (0.5, "--flows"),
                           (0.3, "--time=relative"), (0.3, "--ids=host")):
        if rnd.random() < chance:
            out.append(option)
    return out


class Wild(b.Case):
    def check_process(self, p):
        known = p["known_ns"] + p["gap_ns"] + p["paused_ns"] + p["unread_ns"]
        self.assertTrue(p["span_ns"] - p["late_ns"] <= known <= p["span_ns"])
        for gil in p["gils"]:
            if gil["gil"] != "other":
                self.assertEqual(gil["held_ns"] + gil["free_ns"] + gil["unknown_ns"],
                                 max(p["known_ns"], gil["held_ns"]))
            self.assertEqual(gil["held_ns"], sum(gil["bucket_held_ns"]))
        blamed = collections.Counter()
        for pair in p["pairs"]:
            blamed[pair["victim"]] += pair["ns"]
        for t in p["threads"]:
            self.assertEqual(sum(t[k + "_ns"] for k in ("wait", "hold", "drop", "idle", "unknown",
                                                        "finalizing")), t["observed_ns"], t)
            self.assertEqual((blamed[t["tid"]], t["blamed_ns"]), (t["wait_ns"],) * 2)
            self.assertLessEqual(t["contended"], t["waits"]["count"])
            self.assertLessEqual(t["takes"], t["holds"]["count"] + t["holds"]["missed"])
        for key, what in (("longest_waits", "waits"), ("longest_holds", "holds")):
            lengths = [x["ns"] for x in p[key]] or [0]
            self.assertEqual(lengths, sorted(lengths, reverse=True))
            self.assertEqual(lengths[0], max([t[what]["max_ns"] for t in p["threads"]] or [0]))
        for w in p["longest_waits"]:
            self.assertEqual(w["held_ns"] + w["nobody_ns"] + w["unknown_ns"], w["ns"])

    def check_marks(self, processes, marks):
        for p in processes:
            mine = sorted((ns, name, tid) for pid, tid, ns, name in marks if pid == p["pid"])
            told = [(m["at_ns"], m["name"], m["tid"] or 0) for m in p["marks"]]
            self.assertEqual(p["marks_total"], len(mine))
            self.assertEqual(len(told), min(100, len(mine)))
            self.assertEqual([t[0] for t in told], [m[0] for m in mine[:100]])
            self.assertTrue(set(told) <= set(mine))

    def check_totals(self, processes, slices):
        total = collections.Counter()
        for s in slices:
            total[s.pid, s.tid, s.name] += s.end - s.begin
        for p in processes:
            for t in p["threads"]:
                of = [total.pop((p["pid"], t["tid"], k), 0)
                      for k in ("take_gil", "hold_gil", "drop_gil")]
                self.assertEqual(of, [t["wait_ns"] + t["finalizing_ns"], t["hold_ns"],
                                      t["drop_ns"]])
        self.assertFalse(+total)

    def counted(self, *traces):
        return collections.Counter(s[:6] + (json.dumps(s.args, sort_keys=True),)
                                   for t in traces for s in t.slices)

    def one(self, rnd):
        """Returns how many slices there were."""
        names = ["GIL_%d_rank_%d.gil" % (pid, i) for i, pid in enumerate((4200, 4300))]
        for i, name in enumerate(names):
            write(self.path(name), rnd, 4200 + 100 * i)
        if rnd.random() < 0.5:
            cut(self.path(names[0]), rnd)
        run = b.gil2trace(*(names + ["--summary=json", "-o", "all.json"]), cwd=self.dir)
        self.assertIn(run.status, (b.OK, b.LEFT_OUT), run.err)
        processes = json.loads(run.out.decode("utf-8"))["processes"]
        for p in processes:
            self.check_process(p)
        whole = self.read("all.json")
        self.check_totals(processes, whole.slices)
        self.check_marks(processes, whole.marks)
        b.gil2trace(*(names + ["--per-rank", "-o", "ranks"]), cwd=self.dir)
        ranks = [os.path.join("ranks", n) for n in os.listdir(self.path("ranks"))]
        self.assertEqual(self.counted(*map(self.read, ranks)), self.counted(whole))
        chosen = options(rnd)
        again = b.gil2trace(*(names + chosen + ["--summary=json", "-o", "some.json"]),
                            cwd=self.dir)
        if again.status == b.FAILED:
            self.assertIn("--pid", again.err)
            return len(whole.slices)
        self.assertIn(again.status, (b.OK, b.LEFT_OUT), again.err)
        self.assertEqual(again.out, run.out, chosen)
        some = self.read("some.json")
        if "--time=relative" not in chosen:
            self.assertFalse(self.counted(some) - self.counted(whole), chosen)
            self.assertTrue(set(some.marks) <= set(whole.marks), chosen)
        return len(whole.slices)

    def test_outputs_agree(self):
        slices = 0
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                slices += self.one(random.Random(seed))
                for where, _, names in os.walk(self.dir):
                    for name in names:
                        os.unlink(os.path.join(where, name))
        self.assertGreater(slices, 50 * SEEDS)


if __name__ == "__main__":
    b.main()
