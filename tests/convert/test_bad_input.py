# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with inputs and outputs, for each kind of output: a message that names the file
and says why, a status, nothing half-written under a final name, and what is good is converted."""
import collections
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
import big  # noqa: E402
import gilwrite  # noqa: E402
from gilwrite import ACQUIRE, GilWriter  # noqa: E402
from model import Model  # noqa: E402
from profilers import Profiler  # noqa: E402

US, MS, S = b.US, b.MS, b.S
UNIX = 1700000000 * S
NOBODY = 65534

Output = collections.namedtuple("Output", "options name read")


def read_pids(case, *names):
    return {s.pid for n in names for s in case.read(n).slices}


def read_parts(case, names):
    """Of files, which each must be whole."""
    case.assertTrue(names)
    return read_pids(case, *names)


def read_page(case, names):
    name, = names
    with open(case.path(name), "rb") as f:
        page = f.read().decode("utf-8")
    case.assertRegex(page, r"(?is)^\s*<!doctype html.*</html>\s*$")
    return {p["pid"] for p in json.loads(b.page_data(page, "summary").decode("utf-8"))["processes"]}


def read_joint(case, names):
    pids = set()
    for n in names:
        data = b.parse(b.read_json(case.path(n)))
        if isinstance(data, list):
            tids = {e["tid"] for e in data if e.get("ph") == "X" and e["name"] == "hold_gil"}
            pids.update(pid for pid in (4200, 5200) if str(pid) in tids)
    return pids


# What is written where, and which processes are in it.
OUTPUTS = {
    "json": Output(["-o", "out.json"], "out.json", read_parts),
    "gz": Output(["-o", "out.json.gz"], "out.json.gz", read_parts),
    "split": Output(["--split=1", "-o", "out.json"], "out_1.json", read_parts),
    "per-rank": Output(["--per-rank", "-o", "out"], "out", read_parts),
    "html": Output(["--html=out.html"], "out.html", read_page),
    "joint": Output(["--profiler=prof", "-o", "out"], "out", read_joint),
    "merge": Output(["--profiler=prof", "--merge", "-o", "out"], "out", read_joint),
    "summary": Output(["--summary=json"], None, None),
    "text": Output(["--summary"], None, None),
}


class Bad(b.Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("in"))
        self.good = self.model(0)
        self.place = os.path.join("in", "GIL_4200_rank_0.gil")

    def model(self, rank, folder="in", **kw):
        m = Model(40 + rank, threads=3, rounds=120, pid=4200 + 1000 * rank, rank=rank, unix=UNIX,
                  **kw)
        m.write(self.path(folder, "GIL_%d_rank_%d.gil" % (m.pid, rank)))
        return m

    def profile(self, ranks=(0, 1)):
        for rank in ranks:
            p = Profiler(4200 + 1000 * rank, rank, UNIX, UNIX + S, events=50)
            p.torch_npu(self.path("prof"))

    def written(self):
        """Files that are there beside inputs and Profilers."""
        return [n for n in self.tree() if n.split(os.sep)[0] not in ("in", "prof", "more")]

    def pids(self, output, run):
        """The processes that are in what was written."""
        if output.name:
            return output.read(self, [n for n in self.written()
                                      if not n.endswith("profiler_info_0.json")])
        if output.options == ["--summary"]:
            return {pid for pid in (4200, 5200) if str(pid) in run.out.decode()}
        return {p["pid"] for p in json.loads(run.out.decode())["processes"]}

    def clean(self):
        for n in ("out", "out.json", "out.html", "out.json.gz"):
            path = self.path(n)
            shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.unlink(path)
        for n in self.written():
            os.unlink(self.path(n))

    def each(self, *inputs, **kwargs):
        """For each output: what was said; status and processes that must be in it."""
        pids, status, why = kwargs.pop("pids"), kwargs.pop("status"), kwargs.pop("why")
        self.profile()
        for name, output in OUTPUTS.items():
            with self.subTest(name):
                want = status
                if name in ("joint", "merge") and status == b.OK and len(pids) < 2:
                    want = b.LEFT_OUT  # a Profiler without a recording
                run = self.run_it(*(list(inputs) + output.options), status=want, **kwargs)
                self.assertRegex(run.err, why)
                if pids:
                    self.assertEqual(self.pids(output, run), pids)
                else:
                    self.assertEqual(self.written(), [])
                    self.assertEqual(run.out, b"")
                self.assert_no_rest()
                self.clean()


class Inputs(Bad):
    def bad(self, name, content):
        os.makedirs(self.path("more"), exist_ok=True)
        with open(self.path("more", name), "wb") as f:
            f.write(content)
        return os.path.join("more", name)

    def alone_and_beside(self, path, why):
        """Of no use by itself; the good one beside it is converted."""
        self.each(path, pids=set(), status=b.FAILED, why=why)
        shutil.rmtree(self.path("prof"))
        self.each(path, self.place, pids={4200}, status=b.LEFT_OUT, why=why)

    def test_foreign(self):
        self.alone_and_beside(self.bad("x.gil", b"\x7fELF" + bytes(1000)),
                              r"more/x\.gil: .*no \.gil")

    def test_other_json(self):
        self.alone_and_beside(self.bad("x.json", b'{"a": [1, 2, 3]}'), r"more/x\.json: ")

    def test_empty(self):
        self.alone_and_beside(self.bad("e.gil", b""), r"more/e\.gil: .*(empty|no \.gil)")

    def test_newer(self):
        self.alone_and_beside(self.bad("n.gil", gilwrite.header(major=2) + b"?" * 100),
                              r"more/n\.gil: .*newer")

    def test_header_only(self):
        self.alone_and_beside(self.bad("h.gil", gilwrite.header()[:20]), r"more/h\.gil: ")

    def test_missing(self):
        self.alone_and_beside("more/none.gil", r"more/none\.gil: .*[Nn]o such file")

    def test_folder(self):
        os.makedirs(self.path("more", "sub"))
        self.alone_and_beside("more", r"more: .*no \*\.gil")

    def test_pipe(self):
        os.mkdir(self.path("more"))
        os.mkfifo(self.path("more", "p.gil"))
        self.alone_and_beside("more/p.gil", r"more/p\.gil: .*regular")

    def test_unreadable(self):
        path = self.bad("u.gil", b"")
        self.model(1, folder="more")
        os.rename(self.path("more", "GIL_5200_rank_1.gil"), self.path(path))
        os.chmod(self.path(path), 0)
        os.chmod(self.dir, 0o777)
        self.alone_and_beside_as_nobody(path)

    def alone_and_beside_as_nobody(self, path):
        self.profile()
        for name, output in OUTPUTS.items():
            with self.subTest(name):
                for inputs, status in (([path], b.FAILED), ([path, self.place], b.LEFT_OUT)):
                    run = self.run_it(*(inputs + output.options), status=status,
                                      preexec_fn=as_nobody)
                    self.assertRegex(run.err, r"more/u\.gil: .*Permission denied")
                    self.assertEqual(bool(run.out if output.name is None else self.written()),
                                     len(inputs) > 1)
                    self.assert_no_rest()
                    self.clean()

    def rest_is_kept(self, change, why):
        """A recording whose beginning is good."""
        m = self.model(1)
        m.write(self.path("in", "GIL_5200_rank_1.gil"), records=50)
        with open(self.path("in", "GIL_5200_rank_1.gil"), "rb") as f:
            raw = f.read()
        with open(self.path("in", "GIL_5200_rank_1.gil"), "wb") as f:
            f.write(change(raw))
        self.each("in", pids={4200, 5200}, status=b.LEFT_OUT,
                  why=r"in/GIL_5200_rank_1\.gil: .*" + why)
        trace = self.trace("in", status=b.LEFT_OUT)
        for mine, whole in ((self.good, True), (m, False)):
            got = {s[:6] for s in trace.slices if s.pid == mine.pid and not {"end", "lost"} & set(
                s.args.get("open", "").split("+"))}
            want = set(b.truth_slices(mine))
            self.assertTrue(got <= want, sorted(got - want)[:3])
            self.assertEqual(len(got) > 0.9 * len(want), whole)
            self.assertGreater(len(got), 30)

    def test_damaged(self):
        def flip(raw):
            at = len(raw) // 2
            return raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1:]
        self.rest_is_kept(flip, r"(checksum|damaged)")

    def test_cut(self):
        self.rest_is_kept(lambda raw: raw[:len(raw) // 2 + 7], r"(ends inside|checksum|cut)")

    def test_cut_anywhere(self):
        """Never a trace that is not whole in itself, whatever is missing."""
        with open(self.path(self.place), "rb") as f:
            raw = f.read()
        for at in list(range(0, 400, 13)) + list(range(400, len(raw), 211)):
            with open(self.path("c.gil"), "wb") as f:
                f.write(raw[:at])
            run = b.gil2trace("c.gil", "-o", "c.json", "--html=c.html", "--summary=json",
                              cwd=self.dir)
            self.assertIn(run.status, (b.OK, b.FAILED, b.LEFT_OUT), at)
            self.assertIn("c.gil", run.err)
            self.assertEqual(os.path.exists(self.path("c.json")), run.status != b.FAILED, at)
            if run.status != b.FAILED:
                self.read("c.json")
                read_page(self, ["c.html"])
                json.loads(run.out.decode())
                os.unlink(self.path("c.json"))
                os.unlink(self.path("c.html"))
            self.assert_no_rest()

    def test_grows_while_it_is_read(self):
        """As a recording that is going on: what is there is converted, up to some whole block."""
        m = Model(4, threads=4, rounds=3000)
        m.write(self.path("whole.gil"), records=100)
        with open(self.path("whole.gil"), "rb") as f:
            raw = f.read()
        want, partly, grew, sizes = set(b.truth_slices(m)), 0, 0, set()
        for start in range(0, len(raw) - len(raw) // 20, len(raw) // 25):
            with open(self.path("g.gil"), "wb", buffering=0) as f, open(self.path("err"),
                                                                        "w+b") as err:
                f.write(raw[:start])
                p = subprocess.Popen([b.tool("gil2trace"), "g.gil", "-o", "g.json"], cwd=self.dir,
                                     stderr=err)
                at = start
                while p.poll() is None:
                    if at < start + len(raw) // 20:  # it never gets whole
                        f.write(raw[at:at + 7])
                        at += 7
                err.seek(0)
                said = err.read().decode()
            grew += start < at
            self.assertIn(p.returncode, (b.OK, b.FAILED, b.LEFT_OUT), said)
            self.assertIn("g.gil", said)
            if p.returncode == b.FAILED:
                self.assertFalse(os.path.exists(self.path("g.json")))
                continue
            got = {s[:6] for s in self.read("g.json").slices if "open" not in s.args}
            self.assertTrue(got <= want, sorted(got - want)[:3])
            partly += 0 < len(got) < len(want) - 10
            sizes.add(len(got))
            os.unlink(self.path("g.json"))
        self.assertGreater(grew, 3, "it did not grow while it was read")
        self.assertGreater(partly, 1)
        self.assertGreater(len(sizes), 10)

    def two_captures(self, pid=4200):
        """Of one rank, and of one process or of two."""
        os.makedirs(self.path("more"), exist_ok=True)
        again = Model(77, threads=3, rounds=100, pid=pid, rank=0, unix=UNIX)
        again.write(self.path("more", "GIL_%d_rank_0.gil" % pid))
        return again, [self.place, "more/GIL_%d_rank_0.gil" % pid]

    def test_two_captures_of_one_rank(self):
        """Both are there, told apart."""
        again, both = self.two_captures()
        self.run_it(*(both + ["-o", "out.json"]), status=b.LEFT_OUT)
        trace = self.read("out.json")
        self.assertEqual(sorted(s[0:1] + s[2:6] for s in trace.slices),
                         sorted(s[0:1] + s[2:6] for m in (self.good, again)
                                for s in b.truth_slices(m)))
        self.assertEqual(len(trace.processes), 2)
        self.assertEqual(len(self.summary(*both, status=b.LEFT_OUT)["processes"]), 2)
        self.run_it(*(both + ["--per-rank", "-o", "out"]), status=b.LEFT_OUT)
        self.assertEqual(len(self.tree(self.path("out"))), 2)

    def test_two_captures_of_one_rank_are_said(self):
        for pid in (4200, 6200):
            _, both = self.two_captures(pid)
            for name in ("json", "per-rank", "html", "summary"):
                with self.subTest(name, pid=pid):
                    # Two processes of one rank at the same time may be meant so.
                    run = self.run_it(*(both + OUTPUTS[name].options),
                                      status=b.LEFT_OUT if pid == 4200 else b.OK)
                    self.assertRegex(run.err, r"more/GIL_%d_rank_0\.gil: .*rank 0" % pid)

    def test_two_captures_of_one_rank_beside_a_profiler(self):
        """That there are two is said; they are told apart, or one is left out."""
        again, both = self.two_captures()
        self.profile(ranks=(0,))
        for options in (["-o", "out"], ["--merge", "-o", "out"]):
            run = b.gil2trace(*(both + ["--profiler=prof"] + options), cwd=self.dir)
            self.assertRegex(run.err, r"more/GIL_4200_rank_0\.gil: .*rank 0")
            self.assertEqual(run.status, b.LEFT_OUT, run.err)
            name, = [n for n in self.written() if os.path.basename(n) != "profiler_info_0.json" and
                     not n.endswith("trace_view.json")]
            lanes = collections.Counter(s.pid
                                        for s in b.slices(b.parse(b.read_json(self.path(name)))))
            want = [len(b.truth_slices(m)) for m in (self.good, again)]
            self.assertEqual(sorted(lanes.values()),
                             sorted(want) if len(lanes) == 2 else want[:1])
            self.assert_no_rest()
            self.clean()


class Outputs(Bad):
    def setUp(self):
        super().setUp()
        self.other = self.model(1)
        self.profile()

    def each_fails(self, why, names=OUTPUTS, out=None, **kwargs):
        """Nothing is there under its name, and an older one stays as it is."""
        for name in names:
            output = OUTPUTS[name]
            if not output.name:
                continue
            options = output.options
            if out:
                options = [o.replace("out", out, 1) if o.startswith("out") or
                           o.startswith("--html") else o
                           for o in options]
            with self.subTest(name):
                run = self.run_it("in", *options, status=b.FAILED, **kwargs)
                self.assertRegex(run.err, why)
                self.check_whole(out)
                self.assert_no_rest()

    def check_whole(self, out):
        """Files that came before the failure are whole; that of the failure is not there."""
        for n in self.written():
            if n.endswith(".json"):
                b.parse(b.read_json(self.path(n)))
            self.assertFalse(n.endswith(".html"), n)
        for n in [n for n in self.written() if not n.startswith("old")]:
            os.unlink(self.path(n))

    def test_disk_is_full(self):
        """A size limit stands for it."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        self.each_fails(r"out\S*: .*(large|cannot be written)", preexec_fn=limit)

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount a small disk")
    def test_small_disk(self):
        os.mkdir(self.path("full"))
        if subprocess.call(["mount", "-t", "tmpfs", "-o", "size=4k", "none", self.path("full")],
                           stderr=subprocess.DEVNULL):
            self.skipTest("mount is not allowed here")
        try:
            self.each_fails(r"full/\S+: .*No space left", out="full/out")
            self.assertEqual([n for n in self.tree(self.path("full"))
                              if os.path.getsize(self.path("full", n))], [])
        finally:
            subprocess.check_call(["umount", self.path("full")])

    def test_full_device(self):
        for options in (["-o", "/dev/full"], ["--html=/dev/full"]):
            run = self.run_it("in", *options, status=b.FAILED)
            self.assertRegex(run.err, r"/dev/full: .*No space left")
        for options in (["-o", "-"], ["--summary"], ["--summary=json"]):
            with self.subTest(options), open("/dev/full", "w") as full:
                run = self.run_it("in", *options, status=b.FAILED, stdout=full)
                self.assertRegex(run.err, r"No space left")

    def test_reader_goes_away(self):
        for options in (["-o", "-"], ["--summary"], ["--summary=json"]):
            r, w = os.pipe()
            os.close(r)
            try:
                with self.subTest(options):
                    self.assertIn("Broken pipe",
                                  self.run_it("in", *options, status=b.FAILED, stdout=w).err)
            finally:
                os.close(w)

    def test_read_only_folder(self):
        os.mkdir(self.path("ro"))
        os.chmod(self.path("ro"), 0o555)
        self.each_fails(r"ro/out\S*: .*Permission denied", out="ro/out", preexec_fn=as_nobody)
        self.assertEqual(self.tree(self.path("ro")), [])

    def test_missing_folder(self):
        self.each_fails(r"no/such/out\S*: .*No such file", names=("json", "gz", "split", "html"),
                        out="no/such/out")
        self.assertFalse(os.path.exists(self.path("no")))

    def test_old_files_stay(self):
        """What could not be replaced is as it was."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        for name, options in (("old.json", ["-o", "old.json"]), ("old.html", ["--html=old.html"]),
                              ("old/GIL_4200_rank_0.json", ["--per-rank", "-o", "old"])):
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            with open(self.path(name), "w") as f:
                f.write("old")
            self.run_it("in", *options, status=b.FAILED, preexec_fn=limit)
            with open(self.path(name)) as f:
                self.assertEqual(f.read(), "old")
            self.assert_no_rest()

    def test_never_onto_an_input(self):
        path = self.path(self.place)
        with open(path, "rb") as f:
            before = f.read()
        os.link(path, self.path("link.json"))
        for options in (["-o", "in/GIL_4200_rank_0.gil"], ["--html=in/GIL_4200_rank_0.gil"],
                        ["-o", "link.json"],
                        ["--html=link.json"]):
            run = self.run_it("in", *options, status=b.FAILED)
            self.assertIn("is an input", run.err)
            with open(path, "rb") as f:
                self.assertEqual(f.read(), before)

    def test_one_file_for_two_outputs(self):
        self.run_it("in", "-o", "out.json", "--html=out.json", status=b.USAGE)
        self.assertEqual(self.written(), [])

    def test_interrupted(self):
        """By Ctrl-C in the middle: nothing is left under the final name, nor beside it."""
        big.write(self.path("big.gil"), 500000 if b.sanitized() else 3000000)
        for options in (["-o", "out.json"], ["-o", "out.json.gz"], ["--split=1", "-o", "out.json"],
                        ["--html=out.html"]):
            with self.subTest(options):
                p = subprocess.Popen([b.tool("gil2trace"), "big.gil"] + options, cwd=self.dir,
                                     stderr=subprocess.DEVNULL)
                while p.poll() is None and not [n for n in os.listdir(self.dir)
                                                if n.endswith(".tmp")]:
                    pass
                p.send_signal(signal.SIGINT)
                self.assertEqual(p.wait(), -signal.SIGINT)
                self.assert_no_rest()
                self.assertEqual([n for n in self.written() if n != "big.gil"], [])


class Hostile(b.Case):
    NAMES = (b'}{"ph":"X"}', b"\x1b[2J\x07", b"\xff\xfe\x80", "\u2028\u202e\u4e2d".encode(),
             b"</script><b>", b"a\nb\tc",
             b"\xf0\x9f\x98", b"%s%n%s", b"'\"\\", b"\xed\xa0\x80", b"\xc2\x9b31m")

    def test_names(self):
        """Of threads, processes, files: outputs are sound, and show no control characters."""
        m = Model(5, threads=len(self.NAMES), rounds=200)
        m.write(self.path("a.gil"), names={m.pid + i: n for i, n in enumerate(self.NAMES)})
        name = 'x"\\\x1b[1m<b>.gil'
        with GilWriter(self.path(name)) as w:
            w.meta({b"process.pid": "9", b"process.cmdline": b"\x1b]0;x\x07 </script>\xff",
                    b"process.comm": b"\xff\x01"})
            w.clock(S, S, 2 * S)
            w.gil(S, 0)
            w.event(ACQUIRE, S + 5, 9)
            w.release(S + 9, 9)
            w.end(S + 10)
        run = self.run_it("a.gil", name, "-o", "t.json", "--html=t.html", "--summary")
        self.read("t.json")
        read_page(self, ["t.html"])
        text = run.out.decode("utf-8")
        self.assertNotRegex(text, b.CONTROL)
        data = json.loads(self.run_it("a.gil", name, "--summary=json").out.decode("utf-8"))
        self.assertEqual(len(data["processes"]), 2)
        with open(self.path("t.html"), encoding="utf-8") as f:
            page = f.read()
        self.assertNotIn("</script><b>", page)
        self.assertNotIn("</script>\ufffd", page)


def as_nobody():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


if __name__ == "__main__":
    b.main()
