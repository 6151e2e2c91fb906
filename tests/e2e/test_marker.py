# SPDX-License-Identifier: Apache-2.0
"""Does the GIL lie where it must on a Profiler's time axis? The target stamps CLOCK_MONOTONIC_RAW,
by which Profilers stamp, around calls that hold the GIL; the start_info of a made-up Profiler says
how far that is from its axis. After recording and conversion each hold covers its call."""
import glob
import json
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

US, MS, S = 1000, 1000 * 1000, 1000 * 1000 * 1000
WITHIN = 5 * US
MARKS = 12

# Another thread wants the GIL all the time. Each call takes it anew before, by a sleep.
TARGET = """
import ctypes, json, sys, threading, time
class Mark(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in ("raw_begin", "mono_begin", "raw_end", "mono_end")]
lib = ctypes.PyDLL(sys.argv[1])
lib.gm_hold.argtypes = [ctypes.c_int64, ctypes.POINTER(Mark)]
go, stop = threading.Event(), []
def contend():
    tids.append(threading.get_native_id())
    go.wait()
    while not stop:
        sum(range(500))
tids = [threading.get_native_id()]
t = threading.Thread(target=contend)
t.start()
print("ready", flush=True)
sys.stdin.readline()
go.set()
marks = [Mark() for _ in range(int(sys.argv[2]))]
for i, m in enumerate(marks):
    time.sleep(0.02 + 0.2 * (i % 4 == 3))
    lib.gm_hold((1 + i % 5 * 4) * 1000000, m)
stop.append(1)
t.join()
print(json.dumps([tids, [[getattr(m, f) for f, _ in m._fields_] for m in marks]]), flush=True)
sys.stdin.readline()
"""


def native_id_python():
    """One that knows the ids of its threads (3.8)."""
    found = [p for p in h.pythons() if p.version >= (3, 8) and not p.free_threaded]
    return found[0] if found else None


class Marker(h.BpfTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        py = native_id_python()
        if not py:
            raise cls.skipTest(cls, "no Python 3.8 or newer")
        argv = ["-S", "-c", TARGET, h.tool("tests/marker.so"), str(MARKS)]
        p = subprocess.Popen(py.command() + argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             bufsize=0, env=dict(os.environ, **py.env))
        try:
            assert p.stdout.readline() == b"ready\n"
            cls.pid = p.pid
            with h.Recorder(p.pid) as r:
                p.stdin.write(b"\n")
                cls.tids, cls.marks = json.loads(p.stdout.readline().decode())
                assert r.stop() == h.OK, r.text()
                cls.rec = r.recording()
        finally:
            p.kill()
            p.communicate()
        cls.offset = int((time.time() - time.clock_gettime(time.CLOCK_MONOTONIC_RAW)) * 1e9)

    def profiler(self, where, offset):
        """A folder as torch_npu's, whose axis is RAW + offset; it lasts as long as the marks do."""
        folder = os.path.join(where, "node_%d_20240101000000000_ascend_pt" % self.pid)
        os.makedirs(os.path.join(folder, "ASCEND_PROFILER_OUTPUT"))
        os.makedirs(os.path.join(folder, "PROF_000001_20240101000000000_ABCDEF", "host"))
        begin, end = self.marks[0][0] + offset - 10 * MS, self.marks[-1][2] + offset + 10 * MS
        first_us = (begin - 30 * MS) // US
        with open(os.path.join(folder, "PROF_000001_20240101000000000_ABCDEF", "host",
                               "start_info"), "w") as f:
            json.dump({"collectionTimeBegin": str(first_us),
                       "clockMonotonicRaw": str(first_us * US - offset)}, f)
        with open(os.path.join(folder, "profiler_info_0.json"), "w") as f:
            json.dump({"rank_id": 0}, f)
        events = [{"ph": "M", "name": "process_name", "pid": self.pid, "tid": 0,
                   "args": {"name": "Python"}}]
        for at in (begin, end - 1000):
            events.append({"ph": "X", "name": "aten::add", "pid": self.pid, "tid": self.pid,
                           "ts": "%d.%03d" % divmod(at, 1000), "dur": 1.0, "cat": "cpu_op"})
        with open(os.path.join(folder, "ASCEND_PROFILER_OUTPUT", "trace_view.json"), "w") as f:
            json.dump(events, f)
        return folder

    def holds(self, out):
        path, = glob.glob(os.path.join(out, "**", "trace.json"), recursive=True)
        with open(path, "rb") as f:
            raw = f.read()
        self.assertEqual(h.rules().check(raw), [])
        found = []
        for e in json.loads(raw.decode()):
            hold = e["ph"] == "X" and e["name"] == "hold_gil"
            if hold and h.number(str(e["tid"])) == self.tids[0]:
                begin = h.exact_ns(e["ts"])
                found.append((begin, begin + h.exact_ns(e["dur"])))
        return found

    def test_recording_is_sound(self):
        self.assert_sound(self.rec)
        self.assertEqual(len(self.marks), MARKS)
        waits = self.rec.waits(self.tids[1])
        self.assertGreater(len(waits), MARKS / 2, "nobody has contended")

    def test_holds_cover_the_marks(self):
        """For axes near to Unix time, and for one that is far from it."""
        for aside in (0, random.Random(1).randrange(10**9), -7 * 86400 * S + 123):
            offset = self.offset + aside
            where = h.new_dir()
            self.profiler(where, offset)
            out = os.path.join(where, "out")
            p = subprocess.run([h.tool("gil2trace"), self.rec.path, "--profiler", where, "-o", out],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=h.LIMIT)
            self.assertEqual(p.returncode, h.OK, p.stderr.decode(errors="replace"))
            self.assertIn(b"start_info", p.stderr)
            holds = self.holds(out)
            for raw_begin, _, raw_end, _ in self.marks:
                begin, end = raw_begin + offset, raw_end + offset
                over = [s for s in holds if s[0] <= begin + WITHIN and end - WITHIN <= s[1]]
                self.assertEqual(len(over), 1,
                                 "%d .. %d is not covered by one of %s" % (begin, end, [
                    (a - begin, z - end) for a, z in holds if a < end and begin < z]))

    def test_by_unix_time_alone(self):
        """The same holds in the plain trace, by CLOCK_MONOTONIC and the recording's own samples."""
        holds = self.rec.trace().of("hold_gil", self.tids[0])
        for _, begin, _, end in self.marks:
            begin, end = begin + self.rec.to_unix, end + self.rec.to_unix
            self.assertEqual(len([s for s in holds if s.begin <= begin and end <= s.end]), 1)

    def test_waits_behind_the_marks_have_a_blocker(self):
        """Who waited during a mark was blocked by the marked thread, as long as it did in it."""
        trace = self.rec.trace()
        waits, seen = trace.of("take_gil", self.tids[1]), 0
        for _, begin, _, end in self.marks:
            begin, end = begin + self.rec.to_unix, end + self.rec.to_unix
            for w in waits:
                common = min(w.end, end) - max(w.begin, begin)
                if common > 0:
                    self.assertEqual(w.args.get("blocker"), str(self.tids[0]), w)
                    self.assertGreaterEqual(h.exact_ns(w.args["blocker_us"]), common)
                    seen += 1
        self.assertGreaterEqual(seen, MARKS / 2)


if __name__ == "__main__":
    h.main()
