#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inputs that are damaged, foreign or not to be had, and outputs that cannot be written: a clear
message, a status that is not 0, nothing half written under a final name, good inputs converted.

    bad_input.py TXT2GIL GIL2TRACE
"""
import glob
import os
import re
import resource
import shutil
import signal
import subprocess
import threading

import case
from case import Case

# Each kind of output: options, and the files that they make of a.gil (beside it: of several).
FORMS = (
    (["-o", "out.json"], ["out.json"]),
    (["-o", "out.json.gz"], ["out.json.gz"]),
    (["--split=1", "-o", "out.json"], ["out_1.json"]),
    (["--per-rank", "-o", "out"], ["out/a.json"]),
    (["--per-rank", "--split=1", "--gzip", "-o", "out"], ["out/a_1.json.gz"]),
    (["--html=out.html"], ["out.html"]),
    (["--summary"], []),
    (["--summary=json", "--html=out.html", "-o", "out.json"], ["out.html", "out.json"]),
)
GOOD = "meta process.pid 42\nclock 0\nrepeat 500 1ms\nacquire 0 1\nrelease 500us 1\ndone\nend 500ms\n"


class Forms(Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)
        self.program = self.path("gil2trace")  # where anybody may execute it
        shutil.copy(case.GIL2TRACE, self.program)

    def run_form(self, args, status, **kw):
        p = subprocess.run([self.program, *args], cwd=self.dir, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, **kw)
        said = p.stderr.decode("utf-8", "replace")
        self.assertEqual(p.returncode, status, said)
        for line in said.splitlines():
            self.assertRegex(line, "^gil2trace: ")
        self.assertEqual(self.files("**/.*.tmp") + self.files(".*.tmp"), [])
        return said

    def files(self, pattern):
        return glob.glob(os.path.join(self.dir, pattern), recursive=True)

    def clear(self):
        for path in self.files("out*"):
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def damaged(self, name, how):
        """A good file, spoilt."""
        self.make(GOOD, name)
        with open(self.path(name), "r+b") as f:
            how(f, os.path.getsize(self.path(name)))

    def each(self, status, pattern, *inputs, written=True):
        """Every form says the same of these inputs, and writes what it can or nothing."""
        for args, files in FORMS:
            with self.subTest(args=args, inputs=inputs):
                said = self.run_form([*inputs, *args], status)
                told = [line for line in said.splitlines() if re.search(pattern, line)]
                self.assertEqual(len(told), 1, said)
                there = sorted(os.path.relpath(p, self.dir) for p in self.files("out*")
                               + self.files("out/*") if os.path.isfile(p))
                self.assertEqual(there, files if written else [])
                for path in there:
                    if ".json" in path:
                        self.check(self.path(path))
                self.clear()


def content(path):
    """None: it is not there."""
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


class Inputs(Forms):
    def test_refused(self):
        """Not a byte of them is of use."""
        def newer(f, _size):
            f.seek(8)
            f.write(b"\2\0\0\0")
            f.seek(0)
            head = f.read(28)
            import zlib
            f.write(zlib.crc32(head).to_bytes(4, "little"))
        self.damaged("newer.gil", newer)
        self.damaged("empty.gil", lambda f, size: f.truncate(0))
        self.damaged("head.gil", lambda f, size: f.truncate(20))
        self.damaged("foreign.gil", lambda f, size: f.write(b"\x7fELF" * 20))
        os.mkfifo(self.path("fifo.gil"))
        with open(self.path("trace.json"), "w") as f:
            f.write('[{"name":"x","ph":"X"}]')
        for name, pattern in (("newer.gil", r"newer giltrace \(format 2.0, this reads 1.x\)"),
                              ("empty.gil", "is empty: no .gil file"),
                              ("head.gil", "ends inside its header, at byte 20"),
                              ("foreign.gil", "this is no .gil file"),
                              ("fifo.gil", "no regular file"),
                              ("trace.json", "this is no recording, .* put -o before it"),
                              ("missing.gil", "cannot be opened: ")):
            self.each(1, "%s: .*%s" % (name, pattern), name, written=False)

    def test_folders(self):
        os.mkdir(self.path("none"))
        os.mkdir(self.path("odd.gil"))
        self.each(1, "none: there is no \\*.gil file", "none", written=False)
        self.each(1, "odd.gil: there is no \\*.gil file", "odd.gil", written=False)
        self.make(GOOD, "a.gil")
        self.each(3, "none: there is no \\*.gil file", "a.gil", "none")

    def test_beside_a_good_one(self):
        self.make(GOOD, "a.gil")
        self.damaged("foreign.gil", lambda f, size: f.write(b"\x7fELF" * 20))
        self.each(3, "foreign.gil: this is no .gil file", "a.gil", "foreign.gil")
        self.each(3, "foreign.gil: this is no .gil file", "foreign.gil", "a.gil")
        self.each(3, "missing.gil: cannot be opened: No such file", "a.gil", "missing.gil")

    def test_good_up_to_somewhere(self):
        self.damaged("a.gil", lambda f, size: f.truncate(size - 100))
        self.each(3, "a.gil: the file ends inside block", "a.gil")

        def flip(f, size):
            f.seek(size - 200)
            byte = f.read(1)
            f.seek(size - 200)
            f.write(bytes([byte[0] ^ 1]))
        self.damaged("a.gil", flip)
        self.each(3, "a.gil: block .*checksum .* everything from there on is left out",
                  "a.gil")

    def test_unreadable(self):
        self.make(GOOD, "a.gil")
        self.make(GOOD, "b.gil")
        self.make(GOOD, "secret/c.gil")
        os.chmod(self.path("b.gil"), 0)
        os.chmod(self.path("secret"), 0o111)
        os.chmod(self.dir, 0o777)
        args = ["--per-rank", "-o", "out"]
        said = self.run_form(["a.gil", "b.gil", "secret", *args], 3, preexec_fn=be_nobody)
        self.assertIn("b.gil: cannot be opened: Permission denied", said)
        self.assertIn("secret: the folder cannot be read: Permission denied", said)
        self.check(self.path("out/a.json"))
        os.chmod(self.path("secret"), 0o755)

    def test_grows(self):
        """The recorder is at work on it: what was there at the beginning is converted."""
        self.make(GOOD.replace("repeat 500", "repeat 20000").replace("end 500ms", "flush"), "a.gil")
        p = subprocess.Popen([self.program, "a.gil", "-o", "-"], cwd=self.dir,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = p.stdout.read(1)  # it is open by now, and the pipe cannot hold the rest
        with open(self.path("a.gil"), "ab") as f:
            f.write(b"more")
        said = []
        reader = threading.Thread(target=lambda: said.append(p.stderr.read().decode()))
        reader.start()
        rest = p.stdout.read()
        reader.join()
        self.assertEqual(p.wait(), 3, said)
        self.assertIn("a.gil: has grown while it was read", said[0])
        with open(self.path("x.json"), "wb") as f:
            f.write(first + rest)
        self.check(self.path("x.json"))
        p.stdout.close()
        p.stderr.close()

    def test_recordings_are_not_written_over(self):
        """An output whose name was forgotten: what a shell makes of --html *.gil."""
        self.make(GOOD, "a.gil")
        self.make(GOOD, "b.gil")
        os.rename(self.path("b.gil"), self.path("b.rec"))
        with open(self.path("GIL_1_rank_0"), "w") as f:
            f.write('[{"name":"take_gil","ph":"B","ts":1800000000000000,"pid":"0","tid":"GIL_1"}')
        for name in ("b.rec", "GIL_1_rank_0", "new.gil"):
            for option in ("-o", "--html", "--merge -o"):
                before = content(self.path(name))
                args = option.split() + [name, "a.gil"]
                if "--merge" in args:
                    args += ["--profiler=nothing.json"]
                    with open(self.path("nothing.json"), "w") as f:
                        f.write('[{"ph":"X","name":"a","ts":"1800000000000000.000","dur":1,"pid":42,'
                                '"tid":42}]')
                said = self.run_it(*args, status=1)
                if "--merge" not in args:
                    self.assertIn(name + ": is a recording, or has the name of one", said)
                self.assertEqual(content(self.path(name)), before, said)

    def test_old_in_a_folder(self):
        """The other tool's files have no suffix."""
        os.mkdir(self.path("d"))
        for name in ("GIL_1_rank_0", "GIL_2_rank_1", "GIL_notes"):
            with open(self.path("d/" + name), "w") as f:
                f.write("text" if "notes" in name else "[%s]" % ",".join(
                    '{"name":"%s","ph":"%s","ts":%d,"pid":"0","tid":"GIL_1"}' % (
                        n, p, 1800000000000000 + t) for n, p, t in (
                            ("take_gil", "B", 1), ("take_gil", "E", 2), ("drop_gil", "B", 3),
                            ("drop_gil", "E", 4))))
        self.run_it("d", "-o", "x.json")
        self.assertEqual(len([e for e in self.check(self.path("x.json"))
                              if e["name"] == "process_name"]), 2)

    def test_twice(self):
        """Two recordings of one process, or of one rank of two runs, are shown side by side."""
        one = ("meta host.name h\nmeta process.start_ticks 5\nmeta rank 3\nmeta rank.source RANK\n"
               + GOOD)
        for name, script in (("a.gil", one), ("b.gil", one),
                             ("c.gil", "origin 1000s 1800000000s\n"
                              + one.replace("pid 42", "pid 43").replace("start_ticks 5",
                                                                        "start_ticks 6")),
                             ("d.gil", one.replace("pid 42", "pid 44")),  # at the same time
                             ("e.gil", "origin 1000s 1800000000s\nmeta process.parent_pid 42\n"
                              + one.replace("pid 42", "pid 45")),
                             ("f.gil", "origin 1000s 1800000000s\n"
                              + one.replace("pid 42", "pid 46").replace("RANK", "default")),
                             ("g.gil", "origin 1000s 1800000000s\n" + one)):  # the next window
            self.make(script, name)
        said = self.run_form(["a.gil", "b.gil", "--per-rank", "-o", "out"], 3)
        self.assertIn("warning: b.gil: is of the same process (rank 3) as a.gil; both are shown", said)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["a.json", "b.json"])
        said = self.run_form(["a.gil", "c.gil", "-o", "out.json"], 3)
        self.assertIn("warning: c.gil: is of rank 3, as a.gil is, but of another run; both", said)
        self.assertEqual(len([e for e in self.check(self.path("out.json"))
                              if e["name"] == "process_name"]), 2)
        said = self.run_form(["a.gil", "d.gil", "-o", "out.json"], 0)
        self.assertIn("d.gil: is of rank 3, as a.gil is; both are shown", said)
        self.assertNotIn("warning", said)
        said = self.run_form(["a.gil", "g.gil", "-o", "out.json"], 0)
        self.assertIn("g.gil: is of the same process (rank 3) as a.gil, at another time; each", said)
        self.assertNotIn("warning", said)
        for other in "ef":
            self.assertNotIn("both are shown",
                             self.run_form(["a.gil", other + ".gil", "-o", "x"], 0))


def be_nobody():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def small_files():
    """Stands for a full disk: the write fails half way."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


class Outputs(Forms):
    def setUp(self):
        super().setUp()
        self.make(GOOD, "a.gil")

    def test_disk_full(self):
        for args, files in FORMS:
            if not files:
                continue
            with self.subTest(args):
                said = self.run_form(["a.gil", *args], 1, preexec_fn=small_files)
                self.assertRegex(said, "(%s): cannot be written: File too large"
                                 % "|".join(files))
                self.assertEqual([p for p in self.files("out*") + self.files("out/*")
                                  if os.path.isfile(p)], [])
                self.clear()

    def test_disk_full_keeps_the_old_one(self):
        with open(self.path("out.json"), "w") as f:
            f.write("old")
        self.run_form(["a.gil", "-o", "out.json"], 1, preexec_fn=small_files)
        with open(self.path("out.json")) as f:
            self.assertEqual(f.read(), "old")

    def test_disk_full_after_some_parts(self):
        """Parts get their names together."""
        self.make(GOOD.replace("repeat 500", "repeat 40000").replace("end 500ms", "end 40s"),
                  "a.gil")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
        said = self.run_form(["a.gil", "--split=4", "-o", "out.json"], 1, preexec_fn=limit)
        self.assertEqual(said.count("cannot be written"), 1)
        self.assertEqual(self.files("out*"), [])
        self.run_form(["a.gil", "--split=2", "-o", "out.json"], 0, preexec_fn=limit)

    def test_full_standard_output(self):
        for args in (["--summary"], ["--summary=json"], ["-o", "-"], ["--html=-"],
                     ["-o", "-", "--gzip"]):
            with self.subTest(args), open("/dev/full", "wb") as full:
                p = subprocess.run([self.program, "a.gil", *args], cwd=self.dir, stdout=full,
                                   stderr=subprocess.PIPE)
                self.assertEqual(p.returncode, 1)
                self.assertRegex(p.stderr.decode(), "standard output: .*cannot be written: "
                                                    "No space left on device")

    def test_other_outputs_are_kept(self):
        """Of several outputs, those that can be written are."""
        with open("/dev/full", "wb") as full:
            p = subprocess.run([self.program, "a.gil", "--summary", "--html=out.html", "-o",
                                "out.json"], cwd=self.dir, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(p.returncode, 1)
        self.check(self.path("out.json"))
        self.assertTrue(os.path.exists(self.path("out.html")))
        p = subprocess.run([self.program, "a.gil", "--summary", "--html=out2.html", "-o",
                            "/dev/full"], cwd=self.dir, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
        self.assertEqual(p.returncode, 1)
        self.assertIn("/dev/full: cannot be written", p.stderr.decode())
        self.assertGreater(len(p.stdout), 100)
        self.assertTrue(os.path.exists(self.path("out2.html")))

    def test_one_rank_cannot_be_written(self):
        self.make(GOOD.replace("pid 42", "pid 43"), "b.gil")
        self.make(GOOD.replace("pid 42", "pid 44"), "c.gil")
        os.makedirs(self.path("out/b.json"))
        said = self.run_form(["a.gil", "b.gil", "c.gil", "--per-rank", "-o", "out"], 3)
        self.assertIn("out/b.json: cannot be written: Is a directory", said)
        self.check(self.path("out/a.json"))
        self.check(self.path("out/c.json"))

    def test_read_only_folder(self):
        os.mkdir(self.path("out"))
        os.chmod(self.path("out"), 0o555)
        for args in (["-o", "out/x.json"], ["--split=1", "-o", "out/x.json"],
                     ["--per-rank", "-o", "out"], ["--html=out/x.html"],
                     ["--per-rank", "-o", "out/new"]):
            with self.subTest(args):
                said = self.run_form(["a.gil", *args], 1, preexec_fn=be_nobody)
                self.assertRegex(said, "out/.*: Permission denied")
                self.assertEqual(os.listdir(self.path("out")), [])

    def test_folder_is_a_file(self):
        with open(self.path("out"), "w") as f:
            f.write("x")
        self.assertIn("out: the folder cannot be made: a file has this name",
                      self.run_form(["a.gil", "--per-rank", "-o", "out"], 1))

    def test_never_onto_an_input(self):
        with open(self.path("a.gil"), "rb") as f:
            before = f.read()
        os.symlink("a.gil", self.path("b_1.json"))
        os.makedirs(self.path("out"))
        os.link(self.path("a.gil"), self.path("out/a.json"))
        for args in (["--html=a.gil"], ["--split=1", "-o", "b.json"], ["--per-rank", "-o", "out"]):
            self.assertIn("is an input", self.run_form(["a.gil", *args], 1))
        with open(self.path("a.gil"), "rb") as f:
            self.assertEqual(f.read(), before)


if __name__ == "__main__":
    case.main(__doc__)
