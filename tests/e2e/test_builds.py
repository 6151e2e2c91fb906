# SPDX-License-Identifier: Apache-2.0
"""CPython however it was built, linked, changed afterwards or embedded: recorded exactly."""
import collections
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import builds as b  # noqa: E402
import harness as h  # noqa: E402

ROUNDS = 1000  # of os.stat by one thread alone
CROWD = 300    # by each of four threads that want the GIL at once


class ExactTest(h.BpfTest):
    """What all these tests ask of a recording from rest to rest."""

    def exercise(self, *works):
        for w in works:
            w.do("interval", seconds=0.001)
        for w in works:
            w.do("run", names=["stat-0"], limit=ROUNDS)
            w.do("join")
        for w in works:
            w.do("run", limit=CROWD)
        for w in works:
            w.do("join")
        for w in works:
            w.quiesce()

    def assert_exact(self, rec, w, mode="sites"):
        self.assertEqual(rec.faults()[:5], [], rec.path)
        self.assertEqual(rec.lost, 0)
        self.assertEqual(rec.meta["probe.mode"], mode)
        self.assertEqual(len(rec.gils), 1)
        self.assertLessEqual(rec.tids(), {w.pid} | set(w.threads.values()))
        for name, tid in w.threads.items():
            acquires, releases = rec.count(h.ACQUIRE, tid), rec.count(h.RELEASE, tid)
            self.assertEqual(acquires, releases, "%s begins and ends without the GIL" % name)
            rounds = {"stat-0": ROUNDS + CROWD, "stat-1": CROWD}.get(name, 1)
            self.assertGreaterEqual(releases, rounds, name)
        # One release a round while it was alone; in the crowd forced switches come on top.
        alone = rec.count(h.RELEASE, w.threads["stat-0"]) - rec.count(
            h.RELEASE, w.threads["stat-1"])
        self.assertLess(alone, ROUNDS + 2 * CROWD)
        waits = h.TAKE if mode == "functions" else h.WAIT
        self.assertGreater(rec.count(waits), 0, "threads that wait")

    def record(self, *pythons, **kwargs):
        """Exercises and records processes of these CPythons, all by one recorder."""
        options, mode = kwargs.pop("options", ()), kwargs.pop("mode", "sites")
        works = []
        try:
            for p in pythons:
                works.append(h.Workload(p, **kwargs))
                works[-1].start_workers(cpu=2, stat=2)
            with h.Recorder(works, *options) as r:
                self.exercise(*works)
                self.assertEqual(r.stop(), h.OK, r.text())
                self.said = r.text()
                recs = [r.recording(w.pid) for w in works]
            for rec, w in zip(recs, works):
                self.assert_exact(rec, w, mode)
                self.assertEqual(w.do("ping"), "pong")
            return recs
        finally:
            for w in works:
                w.__exit__()


# ---- how a build is proved to be what it is meant to be ----

def moved(py):
    """Code whose address is not its place in the file."""
    code = [s for s in b.Elf(py.file).segments() if s.type == b.PT_LOAD and s.flags & b.PF_X]
    assert all(s.vaddr != s.offset for s in code), b.distances(py.file)
    assert any(b.distances(py.file)), b.distances(py.file)


def disassembly(py, *options):
    return subprocess.run(["objdump", "-d"] + list(options) + [py.file], check=True,
                          stdout=subprocess.PIPE).stdout.decode()


def ibt(py):
    """Stubs begin with endbr64."""
    sections = [n for n in (".plt", ".plt.sec") if n.encode() + b"\0" in b.Elf(py.file).data]
    text = disassembly(py, *["-j" + n for n in sections])
    assert text.count("endbr64") > 10, text[:500]


def by_got(py):
    """take_gil calls through the GOT."""
    text = disassembly(py, "--disassemble=take_gil")
    assert "pthread_cond_signal" in text and "call   *" in text, text


def fixed(py):
    assert b.Elf(py.file).get("H", 0x10) == (2,), "ET_EXEC"


DT_HASH, DT_FLAGS, DT_RELR, DT_GNU_HASH = 4, 30, 36, 0x6ffffef5
DF_BIND_NOW = 8


def old_hash(py):
    tags = b.Elf(py.file).dynamic()
    assert DT_HASH in tags and DT_GNU_HASH not in tags, tags


def relr(py):
    assert DT_RELR in b.Elf(py.file).dynamic()


def eager(py):
    assert b.Elf(py.file).dynamic().get(DT_FLAGS, [0])[0] & DF_BIND_NOW


def lazy(py):
    assert not b.Elf(py.file).dynamic().get(DT_FLAGS, [0])[0] & DF_BIND_NOW


def static(minor, *flags, **kwargs):
    return lambda: b.static(b.base(minor, **kwargs), *flags)


def shared(minor, *flags):
    return lambda: b.shared(b.base(minor), *flags)


def bolted(make, *options):
    return lambda: b.bolted(make(), *options)


def patched(make):
    return lambda: b.patched(make())


RELOCS = ("-Wl,--emit-relocs", "-Wl,-z,now")  # what BOLT asks for
FAST = ("-plt=all", "-funcs=take_gil.*,drop_gil.*,_?PyEval_.*,PyGILState_.*")  # BOLT takes 5 s else

Build = collections.namedtuple("Build", "make proofs strip")
Build.__new__.__defaults__ = ((), b.stripped)

# Each on a version of its own, so that versions vary, too.
BUILDS = {
    "static_lld_pie": Build(static(11, "-pie", *b.LLD), [moved]),
    "static_lld_fixed": Build(static(12, "-no-pie", *b.LLD), [moved, fixed]),
    "static_pie_now": Build(static(13, "-pie", "-Wl,-z,now"), [eager]),
    "static_fixed_lazy": Build(static(8, "-no-pie", "-Wl,-z,lazy"), [fixed, lazy]),
    "static_gold": Build(static(10, "-pie", "-fuse-ld=gold")),
    "static_ibt": Build(static(9, "-pie", "-Wl,-z,ibtplt", "-Wl,-z,now"), [ibt]),
    "static_ibt_lld": Build(static(12, "-pie", "-Wl,-z,force-ibt", *b.LLD), [ibt, moved]),
    "static_one_segment": Build(static(10, "-no-pie", "-Wl,-z,noseparate-code"), [fixed]),
    "static_old_hash": Build(static(11, "-pie", "-Wl,--hash-style=sysv"), [old_hash]),
    "static_relr": Build(static(9, "-pie", "-Wl,-z,pack-relative-relocs"), [relr]),
    "static_distribution": Build(static(11, "-no-pie", *b.LLD, system=True), [moved, fixed]),
    "shared_lld": Build(shared(13, *b.LLD), [moved]),
    "shared_far": Build(shared(10, "-Wl,-z,now", "-Wl,-Ttext-segment=0x30000000"),
                        [moved, eager]),
    "shared_6": Build(shared(6, *b.LLD), [moved]),
    "static_no_sections": Build(static(12, "-pie", *b.LLD), [moved], b.without_sections),
    "shared_no_sections": Build(shared(8), [], b.without_sections),
    "static_patchelf": Build(patched(static(9, "-pie")), [], b.without_sections),
    "static_fixed_patchelf": Build(patched(static(11, "-no-pie")), [fixed], b.without_sections),
    "shared_patchelf": Build(patched(shared(12)), [], b.without_sections),
    "static_bolt": Build(bolted(static(11, "-no-pie", *RELOCS), "-plt=all"), [fixed, by_got],
                         b.without_sections),
    "static_bolt_some": Build(bolted(static(13, "-pie", *RELOCS), *FAST), [by_got],
                              b.without_sections),
    "shared_bolt_some": Build(bolted(shared(12, *RELOCS), *FAST), [by_got], b.without_sections),
}


def or_skip(test, make, *args):
    """What make() makes; where this machine lacks what it takes, that is said."""
    try:
        return make(*args)
    except b.Missing as why:
        h.say("MISSING: %s" % why)
        return test.skipTest(str(why))


class Builds(ExactTest):
    def check(self, build):
        """As it was linked, and stripped; recorded at the same time."""
        whole = or_skip(self, build.make)
        for proof in build.proofs:
            proof(whole)
        stripped = build.strip(whole)
        self.assertFalse(h.has_symtab(stripped.file))
        named, nameless = self.record(whole, stripped)
        self.assertEqual(named.meta["symbols.verdict"], "agrees")
        self.assertEqual(nameless.meta["symbols.verdict"], "none")


def add_builds():
    for name, build in BUILDS.items():
        def test(self, build=build):
            self.check(build)
        setattr(Builds, "test_" + name, test)


add_builds()


class EmbeddedTest(ExactTest):
    """Threads of a C program, each of which takes and releases a GIL N times."""

    N = 2000

    def count_exactly(self, target, *options, **kwargs):
        mode = kwargs.get("mode", "sites")
        with h.Recorder(target.pid, *options) as r:
            target.do("gil %d" % self.N)
            self.assertEqual(r.stop(), h.OK, r.text())
            rec = r.recording()
        self.assertEqual(rec.faults()[:5], [], rec.path)
        self.assertEqual(rec.lost, 0)
        self.assertEqual(rec.meta["probe.mode"], mode)
        tids = {t for p in target.pythons for t in p}
        self.assertEqual(rec.tids(), tids)
        for tid in tids:
            self.assertEqual(rec.count(h.ACQUIRE, tid), self.N)
            self.assertEqual(rec.count(h.RELEASE, tid), self.N)
        return rec


class Embedding(EmbeddedTest):
    def linked(self, py, *flags, **kwargs):
        path = b.embedding(py, kwargs.get("archive", False), *flags)
        with b.Embedded([path], py.prefix) as target:
            rec = self.count_exactly(target)
        self.assertEqual(len(rec.gils), 1)
        return rec

    def test_shared(self):
        for minor in (6, 11, 13):
            self.linked(or_skip(self, b.base, minor))

    def test_archive(self):
        self.linked(or_skip(self, b.base, 11), "-rdynamic", archive=True)

    def test_archive_that_exports_nothing(self):
        """Only .symtab tells that there is a CPython."""
        for minor in (8, 12):
            rec = self.linked(or_skip(self, b.base, minor), archive=True)
            self.assertEqual(rec.meta["symbols.verdict"], "agrees")

    def test_archive_that_exports_nothing_stripped(self):
        """Nothing tells: refused, and why."""
        py = or_skip(self, b.base, 12)
        path = b.embedding(py, True, "-Wl,-s")
        self.assertFalse(h.has_symtab(path))
        with b.Embedded([path], py.prefix) as target:
            where = h.new_dir()
            status, out, err = h.giltrace("-p", target.pid, "-d", "1", "-o", where)
            self.assertEqual(status, h.NOT_PYTHON, out + err)
            self.assertIn(str(target.pid), err)
            self.assertRegex(err, r"PyEval_RestoreThread|no CPython")
            self.assertEqual(os.listdir(where), [])
            target.do("gil 1")


class Several(EmbeddedTest):
    """More than one CPython in a process."""

    def pair(self):
        one, other = or_skip(self, b.base, 11), or_skip(self, b.base, 13)
        if not one.lib or not other.lib or one is other:
            h.say("MISSING: no two CPythons with a libpython")
            self.skipTest("no two CPythons with a libpython here")
        return one, other

    def loaded(self, how, *options, **kwargs):
        """Both are recorded, each with a GIL of its own."""
        pair = self.pair()
        path = b.compiled("embed.c", "-DEMBED_LOAD", "-ldl")
        argv = [path, how] + [a for py in pair for a in (py.prefix, py.lib)]
        with b.Embedded(argv) as target:
            rec = self.count_exactly(target, *options, **kwargs)
            trace = rec.trace()
        gils = [{e.gil for e in rec.events if e.tid in tids} for tids in target.pythons]
        self.assertEqual([len(g) for g in gils], [1, 1])
        self.assertNotEqual(gils[0], gils[1])
        told = {(rec.meta[k + "file"], rec.meta[k + "version"]) for k in ("python.", "python.2.")}
        self.assertEqual(told, {(py.lib, "%d.%d" % py.version[:2]) for py in pair})
        for tid in (t for tids in target.pythons for t in tids):
            self.assertEqual(len(trace.of("hold_gil", tid)), self.N)

    def test_two_in_one_namespace(self):
        self.loaded("local")

    def test_two_in_namespaces_of_their_own(self):
        """With a C library each."""
        self.loaded("new")

    def test_two_in_libc_mode(self):
        for how in ("local", "new"):
            self.loaded(how, "--probe=libc", mode="libc")

    def test_one_that_is_not_used(self):
        """A static interpreter that has loaded the libpython of another version."""
        static = [p for p in h.pythons() if not p.lib and p.version >= (3, 8)]
        static = static[0] if static else or_skip(self, b.static, b.base())
        other = [p for p in h.pythons() if p.lib and p.version[:2] != static.version[:2]]
        if not other:
            h.say("MISSING: no libpython of another version")
            self.skipTest("no libpython of another version here")
        rec, = self.record(static.copy(), env=b.also(load=[other[-1].lib]))
        self.assertIn(other[-1].lib, {v for k, v in rec.meta.items() if k.startswith("python.")})


if __name__ == "__main__":
    h.main()
