# SPDX-License-Identifier: Apache-2.0
"""
CPythons built in other ways, without compiling one: what an installed CPython brings along
(libpython3.x.a) is linked anew, and files are changed afterwards by the tools that people use for
that. And programs that embed CPython.
"""
import collections
import functools
import json
import os
import select
import shutil
import struct
import subprocess
import tempfile

from common import LIMIT, WORKLOADS, new_dir, say, scratch, tool
from pythons import Python, pythons
from workload import RANK_VARIABLES

PT_NULL, PT_LOAD, PT_DYNAMIC, PT_GNU_EH_FRAME = 0, 1, 2, 0x6474e550
SHT_SYMTAB = 2
PF_X = 1

Segment = collections.namedtuple("Segment", "at type flags offset vaddr filesz memsz")
Section = collections.namedtuple("Section", "at type vaddr offset size link")
Symbol = collections.namedtuple("Symbol", "at value size name")


class Missing(Exception):
    """What this machine lacks for a build."""


class Elf:
    """A 64-bit ELF file, little-endian, to be looked at and to be damaged."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as f:
            self.data = bytearray(f.read())

    def save(self, path=None):
        with open(path or self.path, "wb") as f:
            f.write(self.data)

    def get(self, form, at):
        return struct.unpack_from("<" + form, self.data, at)

    def put(self, form, at, *values):
        struct.pack_into("<" + form, self.data, at, *values)

    def segments(self):
        phoff, = self.get("Q", 0x20)
        size, n = self.get("HH", 0x36)
        out = []
        for i in range(n):
            kind, flags, offset, vaddr, _, filesz, memsz = self.get("IIQQQQQ", phoff + i * size)
            out.append(Segment(phoff + i * size, kind, flags, offset, vaddr, filesz, memsz))
        return out

    def segment(self, kind):
        return [s for s in self.segments() if s.type == kind][0]

    def offset_of(self, vaddr):
        for s in self.segments():
            if s.type == PT_LOAD and s.vaddr <= vaddr < s.vaddr + s.filesz:
                return vaddr - s.vaddr + s.offset
        raise AssertionError("%s has no file data at %#x" % (self.path, vaddr))

    def dynamic(self):
        """{tag: (value, where that stands in the file)}"""
        s = self.segment(PT_DYNAMIC)
        out = {}
        for at in range(s.offset, s.offset + s.filesz, 16):
            tag, value = self.get("QQ", at)
            if tag == 0:
                break
            out[tag] = value, at + 8
        return out

    def sections(self):
        shoff, = self.get("Q", 0x28)
        size, n = self.get("HH", 0x3a)
        out = []
        for i in range(n):
            at = shoff + i * size
            kind, = self.get("I", at + 4)
            out.append(Section(at, kind, *self.get("QQQI", at + 16)))
        return out

    def symbols(self):
        """The functions in .symtab."""
        table = [s for s in self.sections() if s.type == SHT_SYMTAB][0]
        names = self.sections()[table.link]
        out = []
        for at in range(table.offset, table.offset + table.size, 24):
            name, info, _, _, value, size = self.get("IBBHQQ", at)
            if info & 15 == 2:
                start = names.offset + name
                text = bytes(self.data[start:self.data.index(b"\0", start)]).decode()
                out.append(Symbol(at, value, size, text))
        return out

    def no_sections(self):
        """What sstrip and the like do: no section header is left."""
        self.put("Q", 0x28, 0)
        self.put("HHH", 0x3a, 0, 0, 0)

    def no_unwind(self):
        """Nothing tells any more where functions begin and end."""
        self.no_sections()
        self.put("I", self.segment(PT_GNU_EH_FRAME).at, PT_NULL)


def distances(path):
    """Virtual address - file offset of each segment that is loaded, by readelf."""
    out = subprocess.run(["readelf", "-lW", path], stdout=subprocess.PIPE, check=True).stdout
    fields = [line.split() for line in out.decode().splitlines()]
    return [int(f[2], 16) - int(f[1], 16) for f in fields if f and f[0] == "LOAD"]


# ---- linking anew ----

def run(*argv):
    p = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if p.returncode:
        raise AssertionError("%s: %s" % (" ".join(argv), p.stdout.decode(errors="replace")[-3000:]))


def need(*programs):
    """Names of programs, or [Missing]; the first of each tuple that is there."""
    out = []
    for names in programs:
        names = names if isinstance(names, tuple) else (names,)
        found = [n for n in names if shutil.which(n)]
        if not found:
            raise Missing("%s is not installed" % " or ".join(names))
        out.append(found[0])
    return out


def need_libc(*version):
    """[Missing] unless this machine's glibc is that new."""
    word = os.confstr("CS_GNU_LIBC_VERSION").split()[-1]
    if tuple(int(n) for n in word.split(".")) < version:
        raise Missing("glibc %s is too old" % word)


def need_machine(*machines):
    if os.uname().machine not in machines:
        raise Missing("this machine is no " + " or ".join(machines))


def compiler():
    return os.environ.get("CC") or "cc"


Kit = collections.namedtuple("Kit", "python archive main libs")

KIT = """
import sysconfig
v = sysconfig.get_config_vars()
print(repr([v.get(k) or "" for k in ("LIBPL", "LIBRARY", "LIBS", "SYSLIBS", "MODLIBS")]))
"""


@functools.lru_cache(None)
def kit(py):
    """What is needed to link a CPython anew."""
    out = subprocess.run([py.path, "-c", KIT], stdout=subprocess.PIPE, check=True).stdout
    folder, archive, libs, system, modules = eval(out.decode())  # our own repr()
    archive, main = os.path.join(folder, archive), os.path.join(folder, "python.o")
    for f in (archive, main):
        if not os.path.exists(f):
            raise Missing("%s is not there" % f)
    # Debian's python3.x.a needs these from packages of their own; the rest is the C library's.
    libs = [f for f in (libs + " " + system + " " + modules).split() if f.startswith("-l")]
    return Kit(py, archive, main, libs + ["-lutil", "-ldl", "-pthread"])


def linkable(good):
    out = []
    for p in good:
        try:
            kit(p)
            out.append(p)
        except Missing:
            pass
    return out


@functools.lru_cache(None)
def base(minor=11, system=False):
    """
    The CPython 3.`minor` that can be linked anew, or the nearest; system: one that a distribution
    built, with other compiler options and pieces of functions moved away.
    """
    from_system = [p for p in pythons() if p.prefix == "/usr"]
    some = linkable(from_system if system else [p for p in pythons() if p not in from_system])
    if not some and not system:
        some = linkable(from_system)
    if not some:
        raise Missing("no CPython here has a libpython3.x.a and what else it takes to link it")
    best = min(some, key=lambda p: abs(p.version[1] - minor))
    if best.version[1] != minor:
        say("MISSING: no CPython 3.%d that can be linked anew, %s is taken" % (minor, best.label))
    return best


LLD = ("-fuse-ld=lld",)


def check_linker(flags):
    if "-fuse-ld=lld" in flags:
        need("ld.lld")
    if "-fuse-ld=gold" in flags:
        need("ld.gold")
    if any("ibt" in f for f in flags):
        need_machine("x86_64")
    if "-Wl,-z,pack-relative-relocs" in flags:
        need_libc(2, 36)


def static(py, *flags):
    """An interpreter that holds CPython itself. No debug information: links are a second faster."""
    if py.version < (3, 8):
        raise Missing("the modules of %s bring its libpython along" % py.label)
    check_linker(flags)
    k = kit(py)
    path = os.path.join(new_dir(), "python")
    run(compiler(), "-Wl,-S", "-Wl,--export-dynamic", "-o", path, *list(flags) +
        [k.main, k.archive] + k.libs)
    return Python(path, py.version, py.prefix, None, "static " + py.label,
                  {"PYTHONHOME": py.prefix})


def shared(py, *flags):
    """The interpreter with another libpython."""
    if not py.lib:
        raise Missing("%s has no libpython of its own" % py.label)
    check_linker(flags)
    k = kit(py)
    copy = py.copy_to(new_dir())
    os.unlink(copy.lib)
    run(compiler(), "-shared", "-Wl,-S", "-Wl,-soname," + os.path.basename(copy.lib), "-o",
        copy.lib, *list(flags) + ["-Wl,--whole-archive", k.archive, "-Wl,--no-whole-archive"] +
        k.libs)
    return copy


# ---- changing files afterwards: Python -> the same Python, its file changed ----

def bolted(py, *options):
    """Through BOLT: functions and their unwind information are written anew, at another place."""
    bolt, = need(("llvm-bolt", "llvm-bolt-16", "llvm-bolt-15", "llvm-bolt-17"))
    before = py.file + ".before"
    os.rename(py.file, before)
    run(bolt, before, "-o", py.file, *options)
    os.unlink(before)
    os.chmod(py.file, 0o755)
    return py


def patched(py):
    """As wheels and conda packages are repaired: a longer rpath and one more library."""
    patchelf, = need("patchelf")
    os.chmod(py.file, 0o755)
    run(patchelf, "--set-rpath", ":".join("/nowhere/%d/%s" % (i, "x" * 200) for i in range(40)),
        py.file)
    run(patchelf, "--add-needed", "libdl.so.2", py.file)
    return py


def edited(py, change):
    """change(elf) is done to its file."""
    os.chmod(py.file, 0o755)
    elf = Elf(py.file)
    change(elf)
    elf.save()
    return py


def stripped(py):
    return py.copy_to(new_dir(), strip=True)


def without_sections(py):
    """Also the only way to strip what BOLT or patchelf wrote: strip(1) spoils that."""
    return edited(py.copy_to(new_dir()), Elf.no_sections)


def unscannable(py):
    """Works, but the search for call sites has nothing to go by; and no symbols either."""
    return edited(stripped(py), Elf.no_unwind)


# ---- programs that embed CPython (workloads/embed.c) ----

@functools.lru_cache(None)
def compiled(source, *flags):
    """A program or, with -shared, a library out of workloads/."""
    out = os.path.join(new_dir(), source[:-2])
    run(compiler(), "-O1", "-Wall", "-pthread", "-o", out, os.path.join(WORKLOADS, source), *flags)
    return out


def embedding(py, archive=False, *flags):
    """embed.c with the libpython of a CPython, or with its archive linked in."""
    if archive:
        k = kit(py)
        return compiled("embed.c", "-Wl,-S", *list(flags) + [k.archive] + k.libs)
    if not py.lib:
        raise Missing("%s has no libpython" % py.label)
    return compiled("embed.c", py.lib, "-Wl,-rpath," + os.path.dirname(py.lib), *flags)


class Embedded:
    """Such a program, running: a context manager that kills what is left of it."""

    def __init__(self, argv, home=None):
        env = {k: v for k, v in os.environ.items() if k not in RANK_VARIABLES}
        if home:
            env["PYTHONHOME"] = home
        self.errors = tempfile.TemporaryFile(dir=scratch())
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=self.errors, env=env, bufsize=0)
        self.pid = self.proc.pid
        try:
            self.pythons = self.answer()  # of each CPython the ids of its threads
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        self.proc.stdin.close()
        self.proc.stdout.close()
        self.errors.close()

    def answer(self):
        ready, _, _ = select.select([self.proc.stdout], [], [], LIMIT)
        line = self.proc.stdout.readline() if ready else b""
        if not line.endswith(b"\n"):
            self.errors.seek(0)
            raise AssertionError("embed %s: %s" % ("ended" if ready else "does not answer",
                                                   self.errors.read().decode(errors="replace")))
        return json.loads(line.decode())

    def do(self, command):
        self.proc.stdin.write(command.encode() + b"\n")
        return self.answer()


# ---- what a target has loaded besides ----

SITE = """
import ctypes, mmap, os
for path in filter(None, os.environ.get("GT_LOAD", "").split(":")):
    ctypes.CDLL(path)
kept = []
for path in filter(None, os.environ.get("GT_MAP", "").split(":")):
    with open(path, "rb") as f:
        kept.append(mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE,
                              mmap.PROT_READ | mmap.PROT_EXEC))
"""


def also(load=(), map_=()):
    """Environment of a workload that first loads libraries, or maps files as if they were code."""
    folder = new_dir()
    with open(os.path.join(folder, "sitecustomize.py"), "w") as f:
        f.write(SITE)
    return {"PYTHONPATH": folder, "GT_LOAD": ":".join(load), "GT_MAP": ":".join(map_)}


class Hammer:
    """workloads/condhammer.c: .env goes to the workload whose threads are to play."""

    def __init__(self):
        folder = new_dir()
        for name in ("go", "done"):
            os.mkfifo(os.path.join(folder, name))
        self.go, self.done = [os.open(os.path.join(folder, n), os.O_RDWR) for n in ("go", "done")]
        self.env = {"LD_PRELOAD": tool("tests/condhammer.so"),
                    "GT_HAMMER": folder}

    def start(self, rounds):
        os.write(self.go, struct.pack("l", rounds))

    def wait(self):
        ready, _, _ = select.select([self.done], [], [], LIMIT)
        if not ready or os.read(self.done, 1) != b"d":
            raise AssertionError("the condition variables are not done")

    def close(self):
        os.close(self.go)
        os.close(self.done)
