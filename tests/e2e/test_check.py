# SPDX-License-Identifier: Apache-2.0
"""The recording checks itself: whole where it is whole, found out where probes are missing."""
import mmap
import os
import re
import struct
import sys
import unittest
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from odd import UNSEEN, each_python  # noqa: E402

UNSOUND = 8
MISSING = r"(?i)sites (are )?missing"
PT_LOAD, PF_X = 1, 1
X86 = os.uname().machine == "x86_64"
gilfile = h.load("gilfile")


def load(w):
    """Many threads of all kinds, and threads that come and go."""
    w.do("run", limit=25)
    w.do("join")
    w.do("run", names=["cpu-0", "cpu-1"])
    w.do("churn", n=5)
    w.do("park")
    if w.python.version >= (3, 8):
        w.do("interpreters", n=2, rounds=50)
    w.quiesce()


@each_python
class Whole(h.BpfTest):
    def each_consistent(self, py):
        """16 threads, threads that come and go, interpreters, and an exit under load."""
        with h.Workload(py, env={"PYTHON_GIL": "1"}) as w:
            w.start_workers(cpu=8, stat=8)
            w.do("interval", seconds=0.0002)
            with h.Recorder(w, "--ring-size=16384") as r:
                load(w)
                w.do("run", names=["cpu-%d" % i for i in range(8)])
                w.proc.stdin.close()
                self.assertEqual(w.proc.wait(h.LIMIT), 0)
                self.assertEqual(r.finish(), h.OK, r.text())
                self.assertNotRegex(r.text(), MISSING)
                rec = r.recording()
        # Up to 3.11 a thread in another interpreter finds requests there that were not for it.
        self.assertEqual(rec.faults(yields=py.version >= (3, 12))[:5], [])
        self.assertEqual(rec.lost, 0)
        self.assertEqual(rec.meta["check.result"], "consistent")
        self.assertGreater(int(rec.meta["check.releases"]), 300)
        trace = rec.trace()
        self.assertEqual(len(trace.text.splitlines()), 2, trace.text)


KINDS = {"W": h.WAIT, "A": h.ACQUIRE, "R": h.RELEASE, "Y": h.YIELD, "N": h.THREAD, "E": h.EXIT,
         "w": h.BEFORE, "h": h.BEFORE}


def make(script):
    """"1A 2W 1R/3": thread and kind, a GIL after the slash; w, h: waiting, holding before."""
    events = []
    for n, word in enumerate(script.split()):
        what, _, gil = word.partition("/")
        kind = what.rstrip("!")[-1]
        events.append(h.Event(KINDS[kind], 100 + n, int(what.rstrip("!")[:-1]), int(gil or 0), 0,
                              0, None, 0, 0, 0, "!" in what, {"w": 1, "h": 2}.get(kind)))
    return events


class Rules(unittest.TestCase):
    """The tests' own view of a file can tell good from bad; needs neither root nor BPF."""

    def test_good(self):
        for script in ("1w 1A 1R", "1w 1W 1A", "1h 1R 2A", "1h 2w 1R 2A", "1h 2W 1R 2A",
                       "1N 1A 1R 1E 1N 1A", "1N 1W 1E 1N 1W 1A", "1N 1A 1E 2A 2R", "1A 2w 1R 2A",
                       "1A 1R 1E 2E", "1A/255 2A/255 1R/255 2R/255"):
            self.assertEqual(h.violations(make(script)), [], script)

    def test_bad(self):
        for script in ("1A 1R 1w", "1h 1A", "1h 2A", "1w 1R", "1w 1W 1W", "2A 2R 1h", "1h 2R",
                       "1N 1A 1R 1E 1A", "1A 1R 1E 1E", "1N 1A 1E 1N 1R", "1N 1A 1R 1E 1N 1R",
                       "1A/255 1A/255"):
            self.assertNotEqual(h.violations(make(script)), [], script)

    def test_nothing_is_known_after_a_gap(self):
        gap = h.Event(h.LOST, 102, 0, 0, 0, 0, None, 0, 101, 5)
        for script in ("1N 1A 1R 1A", "1A 1E 1A"):
            self.assertEqual(h.violations(make(script), [gap]), [], script)
        self.assertNotEqual(h.violations(make("1A 1E 1A")), [])

    def test_yields(self):
        for script, bad in (("1A 1R! 1Y", 0), ("1Y", 0), ("1A 1R 1Y", 1), ("1R! 2A 2R 1Y", 0),
                            ("1R! 1A 1Y", 1), ("1R!/1 1Y", 1)):
            self.assertEqual(len(h.unforced_yields(make(script))), bad, script)


class NothingSeen(h.BpfTest):
    """No event is no fault where nobody had to give the GIL up."""

    def record(self, w):
        with h.Recorder(w, "-d", "0.3") as r:
            self.assertEqual(r.finish(), h.OK, r.text())
            self.assertRegex(r.text(), UNSEEN)
            rec = r.recording()
        self.assertEqual(rec.events, [])
        self.assertNotEqual(rec.meta.get("check.result"), "sites missing")
        self.assertNotRegex(rec.trace().text, MISSING)
        return rec

    def test_idle(self):
        with h.Workload(h.python()) as w:
            w.start_workers(cpu=2, stat=2)
            rec = self.record(w)
        self.assertEqual(rec.meta["activity.threads_ran"], "0")

    def test_busy_single_thread(self):
        """It computes all the time and never has to release."""
        for py in {h.python(), h.pythons()[-1]}:
            flag = os.path.join(h.new_dir(), "flag")
            with open(flag, "w+b") as f:
                f.write(b"\0")
                f.flush()
                stop = mmap.mmap(f.fileno(), 1)
            with h.Workload(py, env={"PYTHON_GIL": "1"}, native=True) as w:
                w.send("burn", path=flag)
                w.expect_said(b"x")
                try:
                    rec = self.record(w)
                finally:
                    stop[0] = 1
                w.answer()
            self.assertEqual(rec.meta["activity.threads_ran"], "1")
            self.assertGreater(int(rec.meta["activity.run_ns"]), 1000000)


def marks(trace):
    """What says in the trace that it is not to be trusted."""
    return [e for e in trace.events if e["ph"] == "I" and re.search(MISSING, str(e))]


def segments(data):
    """Of a 64-bit ELF file: (type, flags, offset, address, size in the file) each."""
    phoff, = struct.unpack_from("<Q", data, 32)
    size, n = struct.unpack_from("<HH", data, 54)
    return [struct.unpack_from("<IIQQ8xQ", data, phoff + i * size) for i in range(n)]


def called(data, at):
    """Where the direct call at that place in the code goes; None: it is none."""
    if X86:  # e8, distance from its end
        return at + 5 + struct.unpack_from("<i", data, at + 1)[0] if data[at] == 0xe8 else None
    word, = struct.unpack_from("<I", data, at)  # bl, distance in words
    return at + 4 * (((word & 0x3ffffff) ^ 0x2000000) - 0x2000000) if word >> 26 == 0x25 else None


def put_branch(data, at, target, call):
    """Writes a call, or a jump."""
    if X86:
        struct.pack_into("<Bi", data, at, 0xe8 if call else 0xe9, target - at - 5)
    else:
        struct.pack_into("<I", data, at,
                         (0x25 if call else 0x05) << 26 | (target - at) // 4 & 0x3ffffff)


def detour(path, site, build_id):
    """
    Redirects a call: to a jump behind the end of the code segment's part of the file, in the rest
    of its last page, and from there to where it went. It does what it did, but no longer calls a
    PLT stub. With another build-id, so that no debug file tells what was there.
    """
    with open(path, "rb") as f:
        data = bytearray(f.read())
    _, _, start, addr, size = [s for s in segments(data) if s[0] == PT_LOAD and s[1] & PF_X and
                               s[2] <= site < s[2] + s[4]][0]
    spare = start + size + -(start + size) % 4
    room = -spare % mmap.PAGESIZE
    target = called(data, site)
    if target is None or room < 5 or any(data[spare:spare + 5]):
        return False
    put_branch(data, site, spare, True)
    put_branch(data, spare, target, False)
    raw = bytes.fromhex(build_id)
    at = data.find(raw)
    while raw and at >= 0:
        data[at] ^= 0xff
        at = data.find(raw)
    os.chmod(path, 0o755)
    with open(path, "wb") as f:
        f.write(data)
    return True


class Missing(h.BpfTest):
    """A Python with a copy of drop_gil that was changed so that the scan cannot see it."""

    def contend(self, py, *options):
        with h.Workload(py, env={"PYTHON_GIL": "1"}) as w:
            w.start_workers(cpu=3, stat=2)
            w.do("interval", seconds=0.001)
            with h.Recorder(w, *options) as r:
                w.do("run", limit=300)
                w.do("join")
                w.quiesce()
                return r.stop(), r.text(), r.recording()

    def victim(self):
        """A stripped Python with several copies, and a recording of it."""
        for py in h.pythons():
            if h.has_symtab(py.file):
                continue
            status, text, rec = self.contend(py)
            self.assertEqual(status, h.OK, text)
            hits = {}
            for e in rec.releases():
                hits[e.site] = hits.get(e.site, 0) + 1
            if len(hits) > 1:
                return py, rec, sorted(hits, key=hits.get)
        h.say("MISSING: no stripped CPython with inlined copies of drop_gil (as Debian's), so none "
              "is changed to hide one")
        self.skipTest("no CPython with inlined copies of drop_gil here")

    def test_a_copy_that_the_scan_does_not_see(self):
        py, whole, sites = self.victim()
        self.assertEqual(whole.faults()[:5], [])
        tested = 0
        for site in {sites[-1], sites[-2]}:
            folder = h.new_dir()
            copy = py.copy_to(folder)
            if not detour(copy.file, whole.sites[site].offset, whole.meta["python.build_id"]):
                continue
            tested += 1
            status, text, rec = self.contend(copy)
            what = "without the site %s: %s" % (whole.sites[site].how, text)
            self.assertEqual(len([s for s in rec.sites if s.kind == h.RELEASE]),
                             len([s for s in whole.sites if s.kind == h.RELEASE]) - 1, what)
            self.assertEqual(status, UNSOUND, what)
            self.check_told(text, rec)
            self.last_resort(copy)
        self.assertGreater(tested, 0, "sites that could be changed")

    def check_told(self, text, rec):
        self.assertEqual(rec.meta["check.result"], "sites missing")
        self.assertGreater(len(rec.violations()), 3)
        self.assertGreater(int(rec.meta["check.mismatches"]), 3)
        # Its own word, beside that of the summary.
        line = [t for t in text.splitlines() if re.search(MISSING, t) and "giltrace: " in t]
        self.assertEqual(len(line), 1, text)
        numbers = rec.meta["check.text"]
        for key in ("check.acquires", "check.releases"):
            self.assertIn(rec.meta[key], numbers)
        self.assertRegex(line[0], r"\d")
        self.assertTrue([k for k in rec.meta if k.startswith("check.gil.")])
        trace = rec.trace()
        self.assertRegex(trace.text, MISSING)
        self.assertEqual(len(marks(trace)), 1)

    def last_resort(self, py):
        """libc's own functions are called from that copy, too."""
        status, text, rec = self.contend(py, "--probe=libc")
        self.assertEqual(status, h.OK, text)
        self.assertEqual(rec.faults()[:5], [])
        self.assertGreater(rec.count(h.RELEASE), 100)


def number(value):
    """As a varint."""
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def own_fields(e):
    if e.kind == h.THREAD:
        own = number(e.ns_tid) + bytes([len(e.comm)]) + bytes(e.comm)
        if not e.host_tid and not e.name:
            return own
        return own + number(e.host_tid) + bytes([len(e.name)]) + bytes(e.name)
    if e.kind == h.LATE:
        return number(e.mono_ns - e.begin_mono_ns)
    if e.kind == h.GIL:
        return bytes([e.unconfirmed]) + number(e.addr)
    if e.kind == h.LOST:
        return number(e.mono_ns - e.begin_mono_ns) + number(e.count)
    return bytes([e.state]) if e.kind == h.BEFORE else b""


def encode(base, events):
    """The payload of an EVENTS block, without any saving of space; and how many records."""
    out, threads, last, n = bytearray(struct.pack("<Q", base)), [], base, 0
    for e in events:
        for kind in ([7] if e.forced else []) + [e.kind]:
            n += 1
            out.append(kind)
            if e.tid in threads:
                out += number(threads.index(e.tid))
            else:
                out += number(len(threads)) + number(e.tid)
                threads.append(e.tid)
            step, last = e.mono_ns - last, e.mono_ns
            out += bytes([e.gil, e.site]) + number(step * 2 if step >= 0 else -step * 2 - 1)
            own = own_fields(e)
            out += number(len(own)) + own if kind >= 8 else b""
    return bytes(out), n


def strings(*texts):
    return b"".join(number(len(t)) + t for t in texts)


def rewrite(rec, keep=lambda e: True, meta=(), killed=False):
    """
    Another file: of its events those kept, with more META in front of END; or as if the recorder
    had been killed, without END and what is written with it.
    """
    with open(rec.path, "rb") as f:
        data = f.read()
    off, = struct.unpack_from("<I", data, 12)
    blocks, kept = [], 0
    while off < len(data):
        head = gilfile.Header(*gilfile.BLOCK_HEADER.unpack_from(data, off))
        off += gilfile.BLOCK_HEADER.size
        payload = data[off:off + head.size]
        off += head.size
        part = gilfile.File()
        if head.type == gilfile.EVENTS:
            gilfile.read_events(part, head, payload)
            events = [e for e in part.events if keep(e)]
            kept += sum(e.kind in h.COUNTED for e in events)
            payload, n = encode(struct.unpack_from("<Q", payload)[0], events)
            head = head._replace(count=n)
        elif head.type == gilfile.META:
            gilfile.read_meta(part, head, payload)
            if killed and "check.result" in part.meta:
                break
        elif head.type == gilfile.END:
            payload = payload[:4] + struct.pack("<Q", kept) + payload[12:]
            blocks.append((head._replace(type=gilfile.META, count=len(meta), first_ns=0,
                                         last_ns=0), b"".join(strings(*pair) for pair in meta)))
        blocks.append((head, payload))
    return written(rec, data, blocks)


def written(rec, data, blocks):
    """A file of these blocks, numbered and with the right sums."""
    out = bytearray(data[:struct.unpack_from("<I", data, 12)[0]])
    for seq, (head, payload) in enumerate(blocks):
        fixed = gilfile.BLOCK_HEADER.pack(*head._replace(
            size=len(payload), seq=seq, payload_crc=zlib.crc32(payload), header_crc=0))[:-4]
        out += fixed + struct.pack("<I", zlib.crc32(fixed)) + payload
    path = os.path.join(h.new_dir(), "GIL_%s_rank_0.gil" % rec.meta["process.pid"])
    with open(path, "wb") as f:
        f.write(out)
    return h.Recording(path)


class InTheFile(h.BpfTest):
    """What the converter makes of a file that lacks the releases of one place."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with h.Workload(h.python()) as w:
            w.start_workers(cpu=3, stat=1)
            w.do("interval", seconds=0.001)
            with h.Recorder(w) as r:
                w.do("run", limit=200)
                w.do("join")
                w.quiesce()
                r.stop()
                cls.whole = r.recording()
        cls.count = 0

    def thinned(self, **kwargs):
        """Every third release is missing: what an inlined copy can be."""
        def keep(e):
            self.count += e.kind == h.RELEASE
            return e.kind != h.RELEASE or self.count % 3
        rec = rewrite(self.whole, keep, **kwargs)
        self.assertIsNone(rec.problem)
        self.assertGreater(len(rec.violations()), 10)
        return rec

    def test_the_writer_changes_nothing_else(self):
        same = rewrite(self.whole)
        self.assertEqual(same.file.events, self.whole.file.events)
        self.assertEqual((same.meta, same.end, same.problem),
                         (self.whole.meta, self.whole.end, None))
        a, b = same.trace(), self.whole.trace()
        self.assertEqual(a.slices, b.slices)

    def test_no_hold_is_drawn_that_was_not_seen(self):
        rec = self.thinned()
        trace = rec.trace()
        seen = {(x.tid, x.begin, x.end) for x in rec.holds()}
        for tid in rec.tids():  # a YIELD is as good: it comes a few instructions after the release
            mine = rec.of(tid)
            seen |= {(tid, a.ns, b.ns) for a, b in zip(mine, mine[1:])
                     if (a.kind, b.kind) == (h.ACQUIRE, h.YIELD)}
        for s in trace.of("hold_gil"):
            span = (trace.tracks[s.tid], s.begin - rec.to_unix, s.end - rec.to_unix)
            self.assertTrue("open" in s.args or span in seen, s)

    def test_the_trace_says_that_sites_are_missing(self):
        text = "1200 acquires, 800 releases; 400 acquires of a GIL held by another thread"
        pairs = [(b"check.result", b"sites missing"), (b"check.mismatches", b"400"),
                 (b"check.text", text.encode())]
        trace = self.thinned(meta=pairs).trace()
        self.assertEqual(marks(self.whole.trace()), [])
        self.assertRegex(trace.text, MISSING)
        self.assertIn(text, trace.text)
        mark, = marks(trace)
        self.assertIn(text, str(mark))
        self.assertLessEqual(h.exact_ns(mark["ts"]), min(s.begin for s in trace.slices))

    def test_a_recorder_that_was_killed(self):
        """It could not check: the converter decides by what it sees itself."""
        self.assertRegex(self.thinned(killed=True).trace().text, MISSING)
        whole = rewrite(self.whole, killed=True)
        self.assertIsNone(whole.end)
        trace = whole.trace()
        self.assertNotRegex(trace.text, MISSING)
        self.assertEqual(marks(trace), [])

    def test_text_that_is_hostile(self):
        """The file may come from anybody; the rules for traces are checked in passing."""
        for text in (b'"}],{\\', b"\x1b[31m\n\r", b"\xff\xc3", b"x" * 100000, b""):
            trace = self.thinned(meta=[(b"check.result", b"sites missing"),
                                       (b"check.text", text)]).trace()
            self.assertRegex(trace.text, MISSING)
            self.assertNotIn("\x1b", trace.text)
            self.assertEqual(len(marks(trace)), 1)

    def test_results_that_are_no_reason_to_doubt(self):
        for result in (b"consistent", b"not checked", b"something newer", b""):
            trace = rewrite(self.whole, meta=[(b"check.result", result)]).trace()
            self.assertNotRegex(trace.text, MISSING)
            self.assertEqual(marks(trace), [])


if __name__ == "__main__":
    h.main()
