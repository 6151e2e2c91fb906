# SPDX-License-Identifier: Apache-2.0
"""How a process is probed: what --dry-run tells, the modes, symbols that disagree, files that lie,
and recordings that do not add up."""
import collections
import functools
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import builds as b  # noqa: E402
import harness as h  # noqa: E402
from test_builds import FAST, RELOCS, ExactTest, or_skip  # noqa: E402

UNSOUND = 8  # status: it does not add up
DISAGREE = r"(?i)disagree|contradict"
COSTS = r"(?i)\bevery use\b|slower"


def plain():
    """A CPython with symbols, optimised as people's are; with a libpython where there is one."""
    some = [p for p in h.pythons() if h.has_symtab(p.file) and "debug" not in p.label]
    some.sort(key=lambda p: (p.lib is None, p.version[:2] != (3, 11)))
    return (some or [h.python()])[0].copy()


@functools.lru_cache(None)
def through_bolt():
    """Its functions lie in a second segment and call through the GOT; what was there is left."""
    return b.bolted(b.shared(b.base(11), *RELOCS), *FAST)


def counts(rec):
    """Acquires and releases of each thread and GIL; the GILs in the order of their first event."""
    order = []
    for e in rec.events:
        if e.gil not in order:
            order.append(e.gil)
    return collections.Counter((e.tid, order.index(e.gil), e.kind) for e in rec.events
                               if e.kind in (h.ACQUIRE, h.RELEASE))


class DryRun(h.BpfTest):
    def dry(self, w, *options):
        status, out, err = h.giltrace("-p", w.pid, "--dry-run", *options)
        self.assertEqual(status, h.OK, out + err)
        return out + err

    def site_lines(self, text):
        """[(kind, file offset, the line)] of the sites."""
        found = []
        for line in text.splitlines():
            m = re.search(r"\b(wait|acquire|release|yield|take|dropped)\b.*?(0x[0-9a-f]+)", line)
            if m and "offset" in line:
                found.append((m.group(1), int(m.group(2), 16), line))
        return found

    def check_sites(self, py, text):
        """Each site tells how the kernel runs it, and that is so."""
        sites = self.site_lines(text)
        self.assertLessEqual({"wait", "acquire", "release", "yield"}, {s[0] for s in sites}, text)
        with open(py.file, "rb") as f:
            code = f.read()
        for _, at, line in sites:
            said = [w for w in ("emulated", "single-step") if re.search(w, line)]
            self.assertEqual(said, ["emulated" if emulated(code[at:at + 8]) else "single-step"],
                             "%s: %s" % (line, code[at:at + 8]))

    def test_with_symbols(self):
        named = [p for p in h.pythons() if h.has_symtab(p.file)]
        for py in {p.version: p for p in (named[0], plain(), named[-1])}.values():
            with h.Workload(py) as w:
                text = self.dry(w)
            self.assertRegex(text, r"\bsites\b")
            self.assertRegex(text, r"symbols from .*symtab.*\bagree")
            self.assertNotRegex(text, DISAGREE)
            for name in ("take_gil", "drop_gil"):
                self.assertRegex(text, r"(?m)^.*\b[1-9]\d* site.*\b%s\b" % name, py.label)
            self.check_sites(py, text)

    def test_without_symbols(self):
        py = plain().stripped()
        with h.Workload(py) as w:
            text = self.dry(w)
        self.assertNotIn("agree", text)
        self.assertRegex(text, r"(?i)no symbols|symbols.*\bnone\b|stripped")
        self.check_sites(py, text)

    def test_inlined_copies(self):
        """Those of a distribution's build, as its debug file tells them."""
        found = [p for p in h.pythons() if p.prefix == "/usr" and not h.has_symtab(p.file)]
        debug = [p for p in found if debug_file(p)]
        if not debug:
            h.say("MISSING: no distribution's Python with its debug file (package python3-dbg): "
                  "inlined copies of drop_gil are not tested")
            self.skipTest("no debug file of a stripped Python here")
        for py in debug:
            with h.Workload(py) as w:
                text = self.dry(w)
            inlined = [line for line in text.splitlines() if "inlined" in line]
            self.assertTrue(inlined, text)
            self.assertIn(os.path.basename(debug_file(py)), text)
            self.assertRegex(text, r"\bagree")
            self.check_sites(py, text)
            # Sites in drop_gil itself are a part; the rest are in what it was inlined into.
            self.assertGreater(sum(s[0] == "release" for s in self.site_lines(text)), 3)

    def test_single_stepped_sites(self):
        """Calls through the GOT."""
        py = b.without_sections(or_skip(self, through_bolt))
        with h.Workload(py) as w:
            text = self.dry(w)
        self.check_sites(py, text)
        self.assertIn("single-step", text)  # its own
        self.assertIn("emulated", text)  # what BOLT has left of the original

    def test_forced_modes_are_told(self):
        with h.Workload(plain()) as w:
            for mode in ("sites", "functions", "libc"):
                self.assertRegex(self.dry(w, "--probe=" + mode), r"\b%s\b" % mode)
            self.assertRegex(self.dry(w, "--probe=libc"), r"pthread_cond_timedwait")


def emulated(code):
    """Does the kernel emulate this instruction? As arch/x86/kernel/uprobes.c has it (Linux 6.1)."""
    if os.uname().machine != "x86_64":
        return (code[3] & 0xfc) in (0x14, 0x94)  # AArch64: b and bl
    if code[0] == 0x41:  # a register from r8 on
        code = code[1:]
    return code[0] in (0xe8, 0xe9, 0xeb, 0x90) or 0x50 <= code[0] <= 0x57 or \
        0x70 <= code[0] <= 0x7f or (code[0] == 0x0f and 0x80 <= code[1] <= 0x8f)


def debug_file(py):
    """The debug file by build-id of a stripped Python, or None."""
    m = re.search(br"\x14\0\0\0\x03\0\0\0GNU\0([\0-\xff]{20})", bytes(b.Elf(py.file).data))
    if not m:
        return None
    name = m.group(1).hex()
    path = "/usr/lib/debug/.build-id/%s/%s.debug" % (name[:2], name[2:])
    return path if os.path.exists(path) else None


@h.each_python
class Modes(ExactTest):
    """All ways to probe see the same of one process at the same time."""

    def together(self, w, command, *modes):
        """Recordings of the same events in several modes; what each recorder said: self.said."""
        recorders, self.said = [], []
        try:
            for m in modes:
                recorders.append(h.Recorder(w, "--probe=" + m))
            command()
            w.quiesce()
            out = []
            for m, r in zip(modes, recorders):
                self.assertEqual(r.stop(), h.OK, r.text())
                self.said.append(r.text())
                out.append(r.recording())
                self.assertEqual(out[-1].faults()[:5], [], m)
                self.assertEqual(out[-1].lost, 0)
            return out
        finally:
            for r in recorders:
                r.__exit__()

    def each_libc_sees_what_sites_see(self, py):
        with h.Workload(py) as w:
            if not w.about["gil"]:
                self.skipTest("no GIL in this build")
            if py.version < (3, 7):
                return self.refused(w)
            w.start_workers(cpu=2, stat=2)
            auto, sites, libc = self.together(w, lambda: self.exercise(w), "auto", "sites", "libc")
            self.assert_exact(auto, w)
            self.assert_exact(sites, w)
            self.assert_exact(libc, w, "libc")
        self.assertEqual(counts(auto), counts(sites))
        self.assertEqual(counts(libc), counts(sites))
        for kind in (h.WAIT, h.YIELD):
            self.assertEqual(libc.count(kind), sites.count(kind), h.KIND_NAMES[kind])
        # The function is entered after the call, so nothing else lies between the two.
        for tid in w.threads.values():
            for s, m in zip(sites.holds(tid), libc.holds(tid)):
                self.assertTrue(s.begin <= m.begin <= s.end <= m.end, (s, m))
        self.assertEqual({s.offset for s in auto.sites}, {s.offset for s in sites.sites})
        self.assertRegex(self.said[2], COSTS)
        libc.trace()

    def refused(self, w):
        where = h.new_dir()
        status, out, err = h.giltrace("-p", w.pid, "-d", "1", "--probe=libc", "-o", where)
        self.assertEqual(status, h.NOT_PYTHON, out + err)
        self.assertRegex(err, r"3\.6")
        self.assertIn(str(w.pid), err)
        self.assertEqual(os.listdir(where), [])

    def test_functions(self):
        """Forced, beside sites; test_modes.py compares the two on every Python."""
        with h.Workload(plain()) as w:
            w.start_workers(cpu=2, stat=2)
            auto, functions = self.together(w, lambda: self.exercise(w), "auto", "functions")
            self.assert_exact(functions, w, "functions")
        self.assertEqual(counts(auto), counts(functions))

    def test_gils_of_interpreters(self):
        some = [p for p in h.pythons() if p.version >= (3, 12)]
        tested = 0
        for py in some:
            with h.Workload(py) as w:
                if not w.about["gil"]:
                    continue
                w.quiesce()
                sites, libc = self.together(
                    w, lambda: w.do("interpreters", n=3, rounds=500), "sites", "libc")
            self.assertGreaterEqual(len(sites.gils), 4, "the main one and three more")
            self.assertEqual(len(libc.gils), len(sites.gils))
            self.assertEqual(counts(libc), counts(sites))
            libc.trace()
            tested += 1
        if not tested:
            h.say("MISSING: no CPython 3.12 or newer: its GILs are not told apart in libc mode")
            self.skipTest("no CPython 3.12 or newer here")

    def test_condition_variables_of_others(self):
        """Threads in C that use some all the time; these lie as far apart as a GIL's."""
        hammer = b.Hammer()
        self.addCleanup(hammer.close)

        def busy(w):
            hammer.start(4000)
            self.exercise_busy(w)
            hammer.wait()
        for py in (plain(), h.pythons()[-1]):
            with h.Workload(py, env=hammer.env) as w:
                w.start_workers(cpu=1, stat=2)
                sites, libc = self.together(w, lambda: busy(w), "sites", "libc")
                self.assertEqual(len(libc.gils), 1)
                self.assertLessEqual(libc.tids(), {w.pid} | set(w.threads.values()))
                self.assertEqual(counts(libc), counts(sites))
                self.assertGreaterEqual(libc.count(h.RELEASE, w.threads["stat-0"]), 1000)

    def exercise_busy(self, w):
        w.do("interval", seconds=0.001)
        w.do("run", limit=1000)
        w.do("join")

    def test_code_in_two_segments(self):
        """libc mode asks whether the caller is CPython: in whichever segment of its file."""
        self.record(or_skip(self, through_bolt), options=["--probe=libc"], mode="libc")

    def test_unscannable(self):
        """No unwind table, no section, no symbol: libc mode is all that is left, and is taken."""
        for py in (plain(), h.pythons()[-1]):
            rec, = self.record(b.unscannable(py), mode="libc")
            self.assertRegex(self.said, r"\blibc\b")
            self.assertRegex(self.said, COSTS)
            self.assertEqual(rec.meta["symbols.verdict"], "none")

    def test_unscannable_forced_to_sites(self):
        with h.Workload(b.unscannable(plain())) as w:
            status, out, err = h.giltrace("-p", w.pid, "-d", "1", "--probe=sites", "-o",
                                          h.new_dir())
            self.assertEqual(status, h.NOT_PYTHON, out + err)
            self.assertIn(str(w.pid), err)

    def test_scan_fails_but_symbols_are_whole(self):
        """Functions, where nothing is inlined; else libc: exact in any case."""
        py = b.edited(plain().copy_to(h.new_dir()), no_unwind_but_symbols)
        with h.Workload(py) as w:
            w.start_workers(cpu=2, stat=2)
            rec, = self.together(w, lambda: self.exercise(w), "auto")
            self.assertIn(rec.meta["probe.mode"], ("functions", "libc"))
            self.assert_exact(rec, w, rec.meta["probe.mode"])
            self.assertRegex(self.said[0], r"\b%s\b" % rec.meta["probe.mode"])


def no_unwind_but_symbols(elf):
    elf.put("I", elf.segment(b.PT_GNU_EH_FRAME).at, b.PT_NULL)


def symbol_elsewhere(name, other):
    """The symbol `name` says what `other` is."""
    def change(elf):
        by_name = {s.name: s for s in elf.symbols()}
        elf.put("QQ", by_name[name].at + 8, by_name[other].value, by_name[other].size)
    return change


class Disagreement(ExactTest):
    """Symbols that contradict the scan: reported, and the recording is right."""

    def lying(self, change):
        py = b.edited(plain().copy_to(h.new_dir()), change)
        with h.Workload(py) as w:
            status, out, err = h.giltrace("-p", w.pid, "--dry-run")
            self.assertEqual(status, h.OK, out + err)
            self.assertRegex(out, DISAGREE)
        with h.Workload(py) as w:
            w.start_workers(cpu=2, stat=2)
            with h.Recorder(w) as r:
                self.exercise(w)
                self.assertEqual(r.stop(), h.OK, r.text())
                self.assertRegex(r.text(), DISAGREE)
                rec = r.recording()
            self.assertEqual(rec.meta["symbols.verdict"], "disagrees")
            self.assertTrue(rec.meta["symbols.disagreement"])
            self.assert_exact(rec, w, rec.meta["probe.mode"])

    def test_take_gil_is_elsewhere(self):
        self.lying(symbol_elsewhere("take_gil", "PyList_New"))

    def test_drop_gil_is_elsewhere(self):
        self.lying(symbol_elsewhere("drop_gil", "PyList_New"))

    def test_forced_sites_still_tell(self):
        py = b.edited(plain().copy_to(h.new_dir()), symbol_elsewhere("take_gil", "PyList_New"))
        rec, = self.record(py, options=["--probe=sites"])
        self.assertRegex(self.said, DISAGREE)
        self.assertEqual(rec.meta["symbols.verdict"], "disagrees")


# ---- files that lie ----

DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_STRSZ, DT_JMPREL, DT_PLTRELSZ = (
    4, 5, 6, 7, 8, 10, 23, 2)
DT_GNU_HASH = 0x6ffffef5
HUGE = (1 << 64) - 4096


def tag(name, value):
    def change(elf):
        elf.put("Q", elf.dynamic()[name][1], value)
    return change


def many_segments(elf):
    elf.put("H", 0x38, 0xffff)


def segments_beyond(elf):
    elf.put("Q", 0x20, HUGE)


def huge_dynamic(elf):
    s = elf.segment(b.PT_DYNAMIC)
    elf.put("QQ", s.at + 32, HUGE, HUGE)


def overlapping(elf):
    for s in elf.segments():
        if s.type == b.PT_LOAD:
            elf.put("QQQQQ", s.at + 8, 0, 0, 0, HUGE, HUGE)


def endless_chains(elf):
    """No chain of the hash table ends, and each bucket is in use."""
    at = elf.offset_of(elf.dynamic()[DT_GNU_HASH][0])
    nbuckets, symoffset, bloom, _ = elf.get("IIII", at)
    end = elf.offset_of(elf.dynamic()[DT_SYMTAB][0])
    chains = at + 16 + bloom * 8 + nbuckets * 4
    for i in range(nbuckets):
        elf.put("I", chains - 4 * (i + 1), symoffset)
    if end > chains:
        for i in range((end - chains) // 4):
            value, = elf.get("I", chains + 4 * i)
            elf.put("I", chains + 4 * i, value & ~1)


def many_buckets(elf):
    at = elf.offset_of(elf.dynamic()[DT_GNU_HASH][0])
    elf.put("IIII", at, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff)


def huge_unwind_table(elf):
    s = elf.segment(b.PT_GNU_EH_FRAME)
    elf.put("I", s.offset + 8, 0xffffffff)


def cut(elf):
    del elf.data[len(elf.data) // 3:]


def stub(elf):
    del elf.data[4096:]


LIES = collections.OrderedDict([
    ("cut", cut), ("stub", stub), ("many_segments", many_segments),
    ("segments_beyond", segments_beyond), ("huge_dynamic", huge_dynamic),
    ("overlapping", overlapping), ("endless_chains", endless_chains),
    ("many_buckets", many_buckets), ("huge_unwind_table", huge_unwind_table),
    ("no_names", tag(DT_STRTAB, HUGE)), ("names_size", tag(DT_STRSZ, HUGE)),
    ("symbols", tag(DT_SYMTAB, HUGE)), ("relocs_size", tag(DT_RELASZ, HUGE)),
    ("relocs_self", tag(DT_RELA, 0)), ("plt_size", tag(DT_PLTRELSZ, HUGE)),
])


def huge(elf):
    """16 GiB of code, which take no place on the disk."""
    size = 16 << 30
    for s in elf.segments():
        if s.type == b.PT_LOAD and s.flags & b.PF_X:
            elf.put("QQ", s.at + 32, size, size)
    return size


LIES["huge"] = huge


class Lies(ExactTest):
    """Broken files that claim to be a libpython, mapped by the target."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        good = plain().stripped().file
        cls.files = {}
        for name, change in LIES.items():
            elf = b.Elf(good)
            folder = os.path.join(h.new_dir(), name)
            os.mkdir(folder)
            elf.path = cls.files[name] = os.path.join(folder, "libpython3.99.so")
            size = change(elf)
            elf.save()
            if size:
                os.truncate(elf.path, size)

    def test_beside_a_good_one(self):
        """That one is recorded exactly; what is no CPython at all is passed over."""
        names = list(self.files)
        for group in (names[i:i + 3] for i in range(0, len(names), 3)):
            paths = [self.files[n] for n in group]
            with self.subTest(group):
                self.record(plain(), env=b.also(map_=paths))

    def test_unscannable_beside_a_good_one(self):
        """libc mode for the one; the other is none the worse."""
        some = [p for p in h.pythons() if p.version[:2] not in ((3, 6), h.python().version[:2])]
        if not some:
            self.skipTest("no two CPythons here")
        odd = b.unscannable(some[-1])
        rec, = self.record(h.python(), env=b.also(map_=[odd.file]), mode="libc")
        self.assertIn(odd.file, self.said)
        self.assertLessEqual({odd.file, h.python().file}, set(rec.meta.values()))

    def test_alone(self):
        """In a program that is no Python: refused, and why. Never by the signal of a crash."""
        program, targets = h.tool("tests/mapper"), {}
        try:
            for name, path in self.files.items():
                targets[name] = b.Embedded([program, path])
            status, out, err = h.giltrace("-p", ",".join(str(t.pid) for t in targets.values()),
                                          "-d", "0.1", "-o", h.new_dir())
            self.assertEqual(status, h.NOT_PYTHON, out + err)
            for name, target in targets.items():
                said = [line for line in err.splitlines() if "process %d" % target.pid in line]
                self.assertTrue(said, "%s: %s" % (name, err))
        finally:
            for target in targets.values():
                target.__exit__()


class AddsUp(h.BpfTest):
    """Status 8: nothing was seen although threads ran."""

    def program(self):
        py = or_skip(self, b.base)
        return b.Embedded([or_skip(self, b.embedding, py)], py.prefix)

    def test_threads_ran_and_nothing_was_seen(self):
        """Two threads that compute in C without the GIL: whether they should take it, who knows."""
        with self.program() as target:
            with h.Recorder(target.pid) as r:
                target.do("spin")
                ran(target, 0.05)
                target.do("halt")
                self.assertEqual(r.stop(), UNSOUND, r.text())
                self.assertIn(str(target.pid), r.text())
                self.assertRegex(r.text(), r"(?i)thread")
                rec = r.recording()
            self.assertEqual(rec.events, [])
            self.assertEqual(rec.meta["activity.threads_ran"], "2")
            self.assertGreater(int(rec.meta["activity.run_ns"]), 50 * 1000 * 1000)

    def test_a_thread_that_sleeps_again_and_again(self):
        """... gives up the GIL when it does, or never had it."""
        with self.program() as target:
            with h.Recorder(target.pid) as r:
                target.do("doze")
                ran(target, 0.05, 1)
                target.do("halt")
                self.assertEqual(r.stop(), UNSOUND, r.text())
                rec = r.recording()
            self.assertEqual(rec.events, [])
            self.assertEqual(rec.meta["activity.threads_ran"], "1")

    def test_a_single_thread_keeps_the_gil(self):
        """Nobody else wants it, so there is nothing to see: no fault, but it is said."""
        read = {"x86_64": 0, "aarch64": 63}[os.uname().machine]
        with h.Workload(h.python()) as w:
            w.start_workers(cpu=1)
            w.do("run")
            h.until(lambda: w.syscall(w.pid) == read, "the main thread waits without the GIL")
            with h.Recorder(w, "-d", "0.2") as r:
                self.assertEqual(r.finish(), h.OK, r.text())
                self.assertRegex(r.text(), r"warning.*\b%d\b" % w.pid)
                rec = r.recording()
            self.assertEqual(rec.events, [])
            self.assertEqual(rec.meta["activity.threads_ran"], "1")
            w.do("park")

    def test_idle(self):
        with self.program() as target:
            status, out, err = h.giltrace("-p", target.pid, "-d", "0.2", "-o", h.new_dir())
            self.assertEqual(status, h.OK, out + err)

    def test_threads_ran_and_something_was_seen(self):
        with self.program() as target:
            with h.Recorder(target.pid) as r:
                target.do("gil 1")
                target.do("spin")
                ran(target, 0.05)
                target.do("halt")
                self.assertEqual(r.stop(), h.OK, r.text())

    def test_one_of_two_targets(self):
        """The other one's recording is no worse for it."""
        with self.program() as target, h.Workload(h.python()) as w:
            w.start_workers(stat=1)
            with h.Recorder([target.pid, w.pid]) as r:
                target.do("spin")
                w.do("run", limit=500)
                w.do("join")
                ran(target, 0.05)
                target.do("halt")
                w.quiesce()
                self.assertEqual(r.stop(), UNSOUND, r.text())
                rec = r.recording(w.pid)
            self.assertEqual(rec.faults(), [])
            self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 500)


def ran(target, seconds, n=2):
    """Returns when the first n threads of a process have each run for so long."""
    tick = os.sysconf("SC_CLK_TCK")

    def used():
        times = []
        for tid in target.pythons[0][:n]:
            with open("/proc/%d/task/%d/stat" % (target.pid, tid)) as f:
                fields = f.read().rsplit(")", 1)[1].split()
            times.append((int(fields[11]) + int(fields[12])) / tick)
        return times
    start = used()
    h.until(lambda: all(now - was > seconds for was, now in zip(start, used())),
            "its threads have run")


if __name__ == "__main__":
    h.main()
