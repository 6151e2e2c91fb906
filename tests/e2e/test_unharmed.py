# SPDX-License-Identifier: Apache-2.0
"""
Targets are unharmed: programs whose results are known come to these, and to their exit code, while
giltrace comes and goes, and other tracers beside it; and nothing is left of it after any end.

With GT_SOAK=1 it comes and goes 200 times on each Python, not 3 times on some.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from embed import kernel_list, leftovers  # noqa: E402

SOAK = os.environ.get("GT_SOAK") == "1"
CYCLES = 200 if SOAK else 3
FEW = 50 if SOAK else 3
SEGV_RETRIES = 5


class Program:
    """workloads/unharmed.py NAME under some Python; its results and status when it has ended."""

    def __init__(self, py, *args):
        self.py = py
        self.errors = tempfile.TemporaryFile(dir=h.scratch())
        path = shutil.copy(os.path.join(h.WORKLOADS, "unharmed.py"), h.scratch())
        self.proc = subprocess.Popen(py.command() + ["-W", "ignore", path] + list(args),
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=self.errors, env=dict(os.environ, **py.env))
        self.pid = self.proc.pid
        line = self.proc.stdout.readline()
        if line != b"ready\n":
            raise AssertionError("%s under %s says %r: %s" % (args, py.label, line, self.said()))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        for f in (self.proc.stdin, self.proc.stdout, self.errors):
            f.close()

    def said(self):
        return os.pread(self.errors.fileno(), 1 << 16, 0).decode(errors="replace")

    def end(self):
        """Lets it end: (status, what it printed)."""
        self.proc.stdin.close()
        out = self.proc.stdout.read().decode()
        return self.proc.wait(h.LIMIT), out

    def breakpoints(self):
        return h.breakpoints(self.pid, self.py.file)


def with_module(name):
    """The interpreter of the machine that has a module, or None; the module is not loaded for that."""
    code = "import importlib.util, sys; sys.exit(not importlib.util.find_spec(%r))" % name
    return next((p for p in h.pythons() if not p.debug and
                 subprocess.call([p.path, "-c", code]) == 0), None)


def usual():
    """A Python that is no debug build: these have other ideas of what may be done to them."""
    good = [p for p in h.pythons() if not p.debug]
    return ([p for p in good if p.version[:2] == (3, 11) and h.has_symtab(p.file)] or good)[-1]


class Unharmed(h.BpfTest):
    def setUp(self):
        self.before = kernel_list()

    def cycle(self, p, *options, **kwargs):  # kill=False, beside=True
        """giltrace comes and goes; it has a sound recording."""
        kill, beside = kwargs.pop("kill", False), kwargs.pop("beside", True)
        with h.Recorder(p.pid, *options) as r:
            if beside:  # a second one, on the same places; so long there is load
                with h.Recorder(p.pid, "-d", "0.2") as inner:
                    self.assertEqual(inner.finish(), h.OK, inner.text())
            if kill:
                r.proc.kill()
                r.proc.wait()
            else:
                self.assertIn(r.stop(), (h.OK, h.LOSSES), r.text())
            rec = r.recording(p.pid)
        self.assertEqual(rec.violations()[:5], [], rec.path)
        return rec

    def untraced(self, py, *args):
        with Program(py, *args) as p:
            return p.end()

    def check_same(self, p, expected):
        """It has come to the same, with the same status."""
        self.assertEqual(p.end(), expected, p.said())
        self.assertEqual(expected[0], 7)

    def nothing_left(self, p=None):
        if p:
            h.until(lambda: p.breakpoints() == 0, "the probes go")
        h.until(lambda: not leftovers(self.before), "the kernel's objects go")

    def come_and_go(self, py, *args, **kwargs):
        """Under load, some times, and once it is killed."""
        cycles, options = kwargs.get("cycles", FEW), kwargs.get("options", ())
        expected, total = self.untraced(py, *args), 0
        with Program(py, *args) as p:
            for n in range(cycles):
                total += self.cycle(p, *options, kill=n == cycles - 2, beside=n % 4 == 0).total()
            self.nothing_left(p)
            self.check_same(p, expected)
            h.say("%s, %s: %d times, %d events; %s" % (py.label, args[0], cycles, total,
                                                       p.said().strip()[-200:]))
        self.nothing_left()
        return total


def some():
    """The oldest, the newest, and those between whose GILs differ most."""
    good = h.chosen()
    if SOAK:
        return good
    return [p for p in good if p in (good[0], good[-1]) or p.free_threaded or p.prefix == "/usr" or
            p.version[:2] in ((3, 9), (3, 12))]


class EachPython(Unharmed):
    def each_mixed(self, py):
        """Threads, children, a signal every 300 us."""
        total = self.come_and_go(py, "mixed", cycles=CYCLES)
        if not py.free_threaded or py.env.get("PYTHON_GIL") == "1":
            self.assertGreater(total, 0)


h.each_python(EachPython, some)


class Kinds(Unharmed):
    def test_children_of_fork(self):
        """Forked in two threads at once, while probes come and go; with those followed, too."""
        for options in ((), ("--follow", "--no-summary")):
            self.assertGreater(self.come_and_go(usual(), "forks", options=options), 0)

    def test_fallback_probes(self):
        """Returns from functions, and every condition variable of libc's."""
        py = usual()
        for mode in ("functions", "libc") if h.has_symtab(py.file) else ("libc",):
            self.come_and_go(py, "mixed", options=("--probe=" + mode,))

    def test_gevent(self):
        py = with_module("gevent")
        if not py:
            h.say("MISSING: no Python with gevent (python3-gevent), greenlets are not tested")
            self.skipTest("no gevent here")
        self.assertGreater(self.come_and_go(py, "greenlets"), 0)

    def test_dataloader(self):
        py = with_module("torch")
        if not py:
            h.say("MISSING: no Python with PyTorch (python3-torch), its DataLoader is not tested")
            self.skipTest("no PyTorch here")
        self.assertGreater(self.come_and_go(py, "loaded", options=("--follow", "--no-summary")), 0)

    def test_exceptions_of_cpp(self):
        compiler = os.environ.get("CXX") or shutil.which("c++")
        if not compiler:
            h.say("MISSING: no c++ (g++), exceptions of C++ are not tested")
            self.skipTest("no C++ compiler here")
        lib = os.path.join(h.new_dir(), "thrower.so")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-fno-builtin", "-o", lib,
                        os.path.join(h.WORKLOADS, "thrower.cc")], check=True)
        new = [p for p in h.pythons() if not p.debug][-1]
        for py in {usual(), new}:
            self.assertGreater(self.come_and_go(py, "thrown", lib), 0)
        if h.has_symtab(usual().file):
            self.come_and_go(usual(), "thrown", lib, options=("--probe=functions",))

    def test_each_signal_comes(self):
        """Real-time signals are queued, so their number is known."""
        py, sent = usual(), 0
        with Program(py, "counted") as p, h.Recorder(p.pid):
            pass  # killed
        with Program(py, "counted") as p:
            for n in range(FEW):
                with h.Recorder(p.pid) as r:
                    for _ in range(2000):
                        os.kill(p.pid, signal.SIGRTMIN + 2)
                    sent += 2000
                    self.assertIn(r.stop(), (h.OK, h.LOSSES), r.text())
            status, out = p.end()
        told, results = out.split("\n", 1)
        self.assertEqual((status, told), (7, "signals %d" % sent))
        self.assertEqual(len(results.splitlines()), 1, results)
        self.nothing_left()

    def daemons(self, py, *options):
        with Program(py, "daemons") as p:
            with h.Recorder(p.pid, *options) as r:
                ended = p.end()
                self.assertIn(r.finish(), (h.OK, h.LOSSES), r.text())
                rec = r.recording()
        self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)
        return ended

    def test_daemon_threads_at_the_end(self):
        """
        They end in take_gil, or hang there; with probes on the return from it, too. CPython itself
        crashes here at times, untraced as well.
        """
        for py in {usual(), [p for p in h.pythons() if not p.debug][-1]}:
            for options in ((), ("--probe=functions",)):
                if options and not h.has_symtab(py.file):
                    continue
                for _ in range(FEW):
                    for _ in range(SEGV_RETRIES):
                        status, out = self.daemons(py, *options)
                        if status != -signal.SIGSEGV:
                            break
                        h.say("%s crashed at its own end, as it does untraced" % py.label)
                    self.assertEqual(status, 7)
                    self.assertEqual(len(out.splitlines()), 1, out)
        self.nothing_left()


class Other:
    """Another tracer, which says when it is there."""

    def __init__(self, argv, sign, **kwargs):
        self.out = tempfile.TemporaryFile(dir=h.scratch())
        self.proc = subprocess.Popen(argv, stdout=self.out, stderr=self.out, **kwargs)
        self.argv, self.sign = argv, sign

    def __enter__(self):
        try:
            h.until(self.up, "%s is there" % self.argv[0])
        except AssertionError as err:
            text = self.text()[-2000:]
            self.__exit__()
            raise AssertionError("%s: %s" % (err, text))
        return self

    def up(self):
        if self.proc.poll() is not None:
            raise AssertionError("%s has ended" % self.argv[0])
        return re.search(self.sign, self.text())

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        self.out.close()

    def text(self):
        self.out.seek(0)
        return self.out.read().decode(errors="replace")

    def end(self):
        self.proc.send_signal(signal.SIGINT)
        self.proc.wait(h.LIMIT)
        return self.text()


class BesideOthers(Unharmed):
    def need(self, name, package):
        path = shutil.which(name)
        if not path:
            h.say("MISSING: no %s (%s), tracing beside it is not tested" % (name, package))
            self.skipTest("no %s here" % name)
        return path

    def beside(self, p, other, expected):
        """giltrace comes and goes while the other is there; and the other way round."""
        with other() as o:
            for _ in range(FEW):
                rec = self.cycle(p)
                self.assertEqual(rec.meta["probe.mode"], "sites")
                self.assertGreater(rec.total(), 0)
            text = o.end()
        with h.Recorder(p.pid) as r:
            with other() as o:
                o.end()
            self.assertIn(r.stop(), (h.OK, h.LOSSES), r.text())
            self.assertEqual(r.recording().violations()[:5], [])
        self.nothing_left(p)
        self.check_same(p, expected)
        return text

    def gdb(self, p, *commands):
        argv = [self.need("gdb", "gdb"), "-q", "-nx", "-batch", "-p", str(p.pid)]
        for c in ("set pagination off", "set debuginfod enabled off",
                  "set print thread-events off", "set print inferior-events off",
                  "handle SIGALRM nostop noprint pass") + commands:
            argv += ["-ex", c]
        return argv

    def test_gdb_with_a_breakpoint(self):
        """Which is hit at each os.stat, by the way; it counts."""
        py = usual()
        expected = self.untraced(py, "mixed")
        with Program(py, "mixed") as p:
            argv = self.gdb(p, "break PyOS_FSPath", "ignore 1 100000000", "echo there\\n", "continue",
                            "info breakpoints", "detach")
            text = self.beside(p, lambda: Other(argv, "there"), expected)
        self.assertRegex(text, r"already hit \d+ times")

    def test_gdb_that_has_stopped_it(self):
        """giltrace begins and ends while its target stands still."""
        py = usual()
        expected = self.untraced(py, "mixed")
        with Program(py, "mixed") as p:
            fifo = os.path.join(h.new_dir(), "fifo")
            os.mkfifo(fifo)
            argv = self.gdb(p, "shell echo there; cat " + fifo, "detach")
            for inside in (True, False):  # begins in the stop and ends after it; the other way round
                with Other(argv, "there") if inside else h.Recorder(p.pid) as first:
                    with h.Recorder(p.pid) if inside else Other(argv, "there") as second:
                        o, r = (first, second) if inside else (second, first)
                        if not inside:
                            self.assertIn(r.stop(), (h.OK, h.LOSSES), r.text())
                        with open(fifo, "w") as f:
                            f.write("go on\n")
                        self.assertEqual(o.proc.wait(h.LIMIT), 0, o.text())
                        if inside:
                            self.assertIn(r.stop(), (h.OK, h.LOSSES), r.text())
                        self.assertEqual(r.recording().violations()[:5], [])
            self.nothing_left(p)
            self.check_same(p, expected)

    def test_bpftrace_on_the_same_functions(self):
        """In every process that runs that file, as long as nobody says which."""
        program = self.need("bpftrace", "bpftrace")
        py = usual().copy()
        if not h.has_symtab(py.file):
            h.say("MISSING: no Python with symbols, bpftrace is not tested")
            self.skipTest("no symbols")
        names = [n for n in h.symbols(py.file) if re.match(r"(take|drop)_gil$", n)]
        code = "BEGIN { printf(\"there\\n\"); } " + " ".join(
            "uprobe:%s:%s { @[probe] = count(); }" % (py.file, n) for n in names)
        expected = self.untraced(py, "mixed")
        with Program(py, "mixed") as p:
            text = self.beside(p, lambda: Other([program, "-e", code], "there"), expected)
        for n in names:
            self.assertRegex(text, r"%s\]: \d+" % n)

    def test_perf(self):
        """Samples of all that the target does."""
        program, py = self.need("perf", "linux-perf"), usual()
        data = os.path.join(h.new_dir(), "perf.data")
        expected = self.untraced(py, "mixed")
        with Program(py, "mixed") as p:
            self.beside(p, lambda: Other([program, "record", "-e", "cpu-clock", "-F", "999", "-g", "-p",
                                          str(p.pid), "-o", data, "-v"], "mmap size|Events enabled"),
                        expected)
        self.assertGreater(os.path.getsize(data), 1000)


if __name__ == "__main__":
    h.main()
