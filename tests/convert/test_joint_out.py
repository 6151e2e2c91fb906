# SPDX-License-Identifier: Apache-2.0
"""Where joint views go: folders and files that are complete or absent, and nothing of others harmed."""
import glob
import json
import os
import resource
import shutil
import stat
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
import gilfile  # noqa: E402
from gilwrite import ACQUIRE, GilWriter, RELEASE, WAIT  # noqa: E402
from profilers import Profiler, session_database  # noqa: E402

MS, S = b.MS, b.S
UNIX, MONO = 1700000000 * S, 1000 * S
TRACE = ("ASCEND_PROFILER_OUTPUT", "trace_view.json")
OURS = ("ASCEND_PROFILER_OUTPUT", "trace.json")


class Out(b.Case):
    def recording(self, name="r.gil", pid=7000, rank=0, later=0, more=0, **meta):
        """A second with two threads, and more slices in its last 100 ms."""
        at = MONO + later
        pairs = {"process.pid": str(pid), "process.comm": "python3", "host.name": "h"}
        if rank is not None:
            pairs.update({"rank": str(rank), "rank.source": "RANK"})
        pairs.update({k.replace("_", ".", 1): v for k, v in meta.items()})
        with GilWriter(self.path(name)) as w:
            w.meta(pairs)
            w.site()
            w.clock(at, at - 5 * MS, UNIX + later)
            w.gil(at, 0)
            for i, kind, tid in ((1, ACQUIRE, pid), (2, WAIT, pid + 1), (400, RELEASE, pid),
                                 (401, ACQUIRE, pid + 1), (900, RELEASE, pid + 1)):
                w.event(kind, at + i * MS, tid, 0)
            for i in range(more):
                for k, kind in enumerate((ACQUIRE, RELEASE)):
                    w.event(kind, at + 900 * MS + (2 * i + k + 1) * 1000, pid, 0)
            w.clock(at + S, at + S - 5 * MS, UNIX + later + S)
            w.end(at + S)
        self.assertIsNone(gilfile.read(self.path(name)).problem)
        return name

    def profiler(self, root="prof", pid=7000, rank=0, **kw):
        """Its folder; it ran in the second half of the recording."""
        p = Profiler(pid, rank, UNIX + 500 * MS, UNIX + 800 * MS)
        return p.torch_npu(self.path(root), raw_offset=UNIX - MONO + 5 * MS, **kw)

    def go(self, *args, **kwargs):
        inputs = kwargs.pop("inputs", ("r.gil",))
        kwargs.setdefault("status", b.OK)
        run = self.run_it(*(inputs + args), **kwargs)
        self.assert_no_rest()
        return run

    def lanes(self, *names):
        """What our lanes in a trace are called, by pid."""
        return {int(e["pid"]): e["args"]["name"] for e in b.parse(b.read_json(self.path(*names)))
                if e["name"] == "process_name" and e["args"]["name"].startswith("GIL Trace: ")}

    # ---- how the Profiler's trace comes into the folder ----

    def test_link(self):
        """Gigabytes are not copied; where a link is not allowed, they are."""
        self.recording()
        folder = self.profiler()
        name = os.path.basename(folder)
        self.go("--profiler=prof", "-o", "out")
        trace, out = os.path.join(folder, *TRACE), self.path("out", name, *TRACE)
        self.assertTrue(os.path.samefile(trace, out))
        os.chmod(trace, 0o666)
        self.go("--profiler=prof", "-o", "out")
        self.assertFalse(os.path.samefile(trace, out), "Insight refuses what everybody may write to")
        self.assertFalse(os.stat(out).st_mode & stat.S_IWOTH)
        self.assertEqual(b.read_json(trace), b.read_json(out))
        self.assertEqual(os.stat(trace).st_mode & 0o777, 0o666)

    @unittest.skipUnless(os.access("/dev/shm", os.W_OK), "no other file system to write to")
    def test_other_file_system(self):
        self.recording()
        folder = self.profiler()
        out = os.path.join("/dev/shm", os.path.basename(self.dir))
        if os.stat("/dev/shm").st_dev == os.stat(self.dir).st_dev:
            self.skipTest("/dev/shm is no other file system")
        try:
            self.go("--profiler=prof", "-o", out)
            self.assertEqual(b.read_json(os.path.join(out, os.path.basename(folder), *TRACE)),
                             b.read_json(os.path.join(folder, *TRACE)))
        finally:
            shutil.rmtree(out, True)

    def test_cut(self):
        """What Insight would refuse is completed; the Profiler's own stays as it is."""
        self.recording()
        folder = self.profiler()
        trace = os.path.join(folder, *TRACE)
        os.truncate(trace, os.path.getsize(trace) - 40)
        before = b.read_json(trace)
        run = self.go("--profiler=prof", "-o", "out", status=b.LEFT_OUT)
        self.assertIn("trace_view.json", run.err)
        events = json.loads(b.read_json(self.path("out", os.path.basename(folder), *TRACE)).decode())
        self.assertGreater(len(events), 100)
        self.assertEqual(b.read_json(trace), before)

    def test_slices(self):
        self.recording()
        p = Profiler(7000, 0, UNIX + 500 * MS, UNIX + 800 * MS)
        folder = p.msprof(self.path("prof"), UNIX - MONO + 5 * MS)
        inner = os.path.join(folder, "mindstudio_profiler_output")
        one = os.path.join(inner, os.listdir(inner)[0])
        for i in range(3):
            with open(os.path.join(inner, "msprof_slice_%d_20240101000002.json" % i), "wb") as f:
                f.write(b.read_json(one))
        os.unlink(one)
        self.go("--profiler=prof", "-o", "out")
        top, = os.listdir(self.path("out"))
        self.assertEqual(sorted(os.listdir(self.path("out", top, "ASCEND_PROFILER_OUTPUT"))),
                         ["msprof_slice_1_20240101000002.json", "msprof_slice_2_20240101000002.json",
                          "trace.json", "trace_view.json"])
        run = self.go("--profiler=prof", "--merge", "-o", "m.json", status=b.LEFT_OUT)
        self.assertIn("3 parts", run.err)
        # A part whose end is missing is completed, as a whole trace is.
        os.truncate(os.path.join(inner, "msprof_slice_2_20240101000002.json"), 3000)
        run = self.go("--profiler=prof", "-o", "out", status=b.LEFT_OUT)
        self.assertIn("msprof_slice_2", run.err)
        b.parse(b.read_json(self.path("out", top, "ASCEND_PROFILER_OUTPUT",
                                      "msprof_slice_2_20240101000002.json")))

    def test_rank_of_the_card(self):
        """The Profiler's, else the recording's, else none."""
        self.recording(rank=5)
        folder = self.profiler()
        name = os.path.basename(folder)
        os.unlink(os.path.join(folder, "profiler_info_0.json"))
        self.go("--profiler=prof", "-o", "out")
        self.assertIn("profiler_info_5.json", os.listdir(self.path("out", name)))
        self.assertEqual(json.loads(b.read_json(self.path("out", name, "profiler_info_5.json")).decode()),
                         {"rank_id": 5})
        self.recording("none.gil", rank=None)
        self.go("--profiler=prof", "-o", "out2", inputs=("none.gil",))
        self.assertEqual(os.listdir(self.path("out2", name)), ["ASCEND_PROFILER_OUTPUT"])

    # ---- what is there already ----

    def test_in_the_way(self):
        """Insight would import it, too; nothing of it is touched."""
        self.recording()
        folder = self.profiler()
        self.profiler("other", pid=8000)
        for i, (what, put) in enumerate((
                ("notes.txt", lambda at: open(os.path.join(at, "notes.txt"), "w").close()),
                ("x.db", lambda at: open(os.path.join(at, "x.db"), "w").close()),
                ("sub", lambda at: os.mkdir(os.path.join(at, "sub"))),
                ("link", lambda at: os.symlink(folder, os.path.join(at, "link"))),
                ("worker", lambda at: os.rename(self.path("other"), os.path.join(at, "worker_ascend_pt"))),
                ("mine", lambda at: os.makedirs(os.path.join(at, "x_ascend_pt", "mine"))),
                # As an export that somebody has tidied up.
                ("stripped_ascend_pt", lambda at: [
                    os.makedirs(os.path.join(at, "stripped_ascend_pt", "ASCEND_PROFILER_OUTPUT")),
                    open(os.path.join(at, "stripped_ascend_pt", *TRACE), "w").close()]))):
            with self.subTest(what):
                out = self.path("out%d" % i)
                os.mkdir(out)
                put(out)
                before = [os.path.join(w, n) for w, d, f in os.walk(out) for n in d + f]
                run = self.go("--profiler=prof", "-o", out, status=b.FAILED)
                self.assertIn(what, run.err)
                self.assertEqual(before, [os.path.join(w, n) for w, d, f in os.walk(out) for n in d + f])
        with open(self.path("file"), "w") as f:
            f.write("mine")
        self.go("--profiler=prof", "-o", "file", status=b.FAILED)
        with open(self.path("file")) as f:
            self.assertEqual(f.read(), "mine")

    def test_again(self):
        """What an earlier run has made is replaced; what it made of other ranks stays."""
        self.recording()
        self.recording("s.gil", pid=7100, rank=1)
        names = [os.path.basename(self.profiler()), os.path.basename(self.profiler(pid=7100, rank=1))]
        self.go("--profiler=prof", "-o", "out", inputs=("r.gil", "s.gil"))
        first = b.read_json(self.path("out", names[0], *OURS))
        for where in ("mindstudio_insight_data.db", "mindstudio_insight_data.db-wal",
                      os.path.join(names[0], "ASCEND_PROFILER_OUTPUT", "trace_view_mindstudio_insight_data.db"),
                      os.path.join(names[0], "ASCEND_PROFILER_OUTPUT", "msprof_1.json"),
                      os.path.join(names[0], "profiler_info_9.json")):
            with open(self.path("out", where), "w") as f:
                f.write("old")
        self.recording(later=100 * MS)
        self.go("--profiler", self.path("prof", names[0]), "-o", "out")
        self.assertNotEqual(b.read_json(self.path("out", names[0], *OURS)), first)
        self.assertEqual(self.tree(self.path("out")), sorted(
            os.path.join(n, *f) for i, n in enumerate(names)
            for f in (TRACE, OURS, ("profiler_info_%d.json" % i,))))

    def test_failed_run_keeps_the_earlier_one(self):
        self.recording()
        name = os.path.basename(self.profiler())
        self.go("--profiler=prof", "-o", "out")
        before = b.read_json(self.path("out", name, *OURS))
        self.go("--profiler=prof", "-o", "out", "--pid=1", status=b.FAILED)
        self.assertEqual(b.read_json(self.path("out", name, *OURS)), before)

    def test_nothing_half_written(self):
        """A disk that is full, nearly."""
        self.recording(more=100)
        self.profiler()
        for to in ("out", "m.json"):
            with self.subTest(to):
                run = self.go("--profiler=prof", "-o", to, status=b.FAILED, preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_FSIZE, (8000, 8000)))
                self.assertIn("cannot be written", run.err)
                self.assertFalse(os.path.exists(self.path(to)), self.tree())

    def test_full_disk_keeps_the_earlier_one(self):
        """The trace has to be copied, which fails after the events have been written."""
        self.recording()
        folder = self.profiler()
        trace = os.path.join(folder, *TRACE)
        os.chmod(trace, 0o666)
        self.go("--profiler=prof", "-o", "out")
        before = {n: b.read_json(self.path("out", n)) for n in self.tree(self.path("out"))}
        run = self.go("--profiler=prof", "-o", "out", status=b.FAILED, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (20000, 20000)))
        self.assertRegex(run.err, "trace_view.json: cannot be written: File too large")
        self.assertEqual(before, {n: b.read_json(self.path("out", n)) for n in self.tree(self.path("out"))})

    def test_link_of_a_killed_run(self):
        self.recording()
        name = os.path.basename(self.profiler())
        self.go("--profiler=prof", "-o", "out")
        inner = self.path("out", name, "ASCEND_PROFILER_OUTPUT")
        for i in range(5):
            open(os.path.join(inner, ".gil2trace-link-%d.tmp" % i), "w").close()
        self.run_it("r.gil", "--profiler=prof", "-o", "out")
        self.assertTrue(os.path.samefile(os.path.join(inner, "trace_view.json"),
                                         self.path("prof", name, *TRACE)))

    def test_in_a_profilers_folder(self):
        """Nothing is ever written there: Insight would import it with the rest."""
        self.recording()
        folder = self.profiler()
        os.symlink(folder, self.path("link"))
        before = self.tree(folder)
        for out in (folder, folder + "/", folder + "/new", folder + "/new/", folder + "/new.json",
                    folder + "/ASCEND_PROFILER_OUTPUT/x", "link/new", "link/../" + os.path.basename(folder)):
            for options in ([], ["--merge"]):
                with self.subTest(out, options=options):
                    run = self.go("--profiler=prof", "-o", out, *options, status=b.FAILED)
                    self.assertIn("Profiler's own folder", run.err)
                    self.assertEqual(self.tree(folder), before)
                    self.assertFalse(os.path.exists(os.path.join(folder, "new")))
        # Beside it, there may be what is ours, and it is no Profiler's.
        for i in range(2):
            self.go("--profiler=prof", "-o", "prof/joint")
            self.go("--profiler=prof", "-o", "prof/merged", "--merge")
        run = self.go("--profiler=prof/joint", "-o", "out", status=b.FAILED)
        self.assertIn("joint views", run.err)

    def test_two_of_one_stem(self):
        """Merged, they lose their suffix; laid out, a trace alone gets one: none replaces another."""
        self.recording()
        self.recording("s.gil", pid=7100, rank=1)
        self.recording("t.gil", pid=7200, rank=2)
        self.profiler("a", name="x_ascend_pt")
        self.profiler("b", pid=7100, rank=1, kind="ms", name="x_ascend_ms")
        os.rename(os.path.join(self.profiler("c", pid=7200, rank=2), *TRACE), self.path("x.json"))
        args = ["--profiler=a", "--profiler=b", "--profiler=x.json"]
        for options, names in (["--merge"], ["x.json", "x_2.json", "x_3.json"]), (
                [], ["x_2_ascend_ms", "x_3_ascend_pt", "x_ascend_pt"]):
            out = "out%d/" % len(options)
            self.go(*args, "-o", out, *options, inputs=("r.gil", "s.gil", "t.gil"))
            self.assertEqual(sorted(os.listdir(self.path(out))), names)

    def test_two_of_one_name(self):
        self.recording()
        self.profiler("a")
        self.profiler("b")
        self.go("--profiler=a", "--profiler=b", "-o", "out")
        names = sorted(os.listdir(self.path("out")))
        self.assertEqual(len(names), 2)
        for name in names:
            self.assertTrue(name.endswith("_ascend_pt"), name)
            self.assertTrue(self.lanes("out", name, *OURS))

    def test_merged_into_what_is_the_profilers(self):
        self.recording()
        folder = self.profiler()
        for target in (os.path.join(folder, *TRACE), os.path.join(folder, "profiler_info_0.json")):
            before = b.read_json(target)
            run = self.go("--profiler=prof", "--merge", "-o", target, status=b.FAILED)
            self.assertIn("Profiler", run.err)
            self.assertEqual(b.read_json(target), before)
        os.link(os.path.join(folder, *TRACE), self.path("hard.json"))
        run = self.go("--profiler=prof", "--merge", "-o", "hard.json", status=b.FAILED)
        self.assertIn("is the Profiler's trace", run.err)
        self.go("--profiler=prof", "--merge", "-o", "r.gil", status=b.FAILED)
        self.assertIsNone(gilfile.read(self.path("r.gil")).problem)
        self.go("--profiler=prof", "--merge", "-o", "m.json")
        self.go("--profiler=prof", "--merge", "-o", "m.json")
        run = self.go("--profiler=m.json", "--merge", "-o", "n.json", status=b.FAILED)
        self.assertIn("m.json", run.err, "the GIL is in it already")

    # ---- what is wrong with a trace ----

    def test_flaws_are_said(self):
        """Viewers may refuse them, or show them at 1970."""
        self.recording()
        trace = os.path.join(self.profiler(), *TRACE)
        good = b.read_json(trace)
        for text, said in ((b'{"ph":"X","name":"\xff"},', "UTF-8"), (b'{"ph":"X","ts":NaN},', "NaN"),
                           (b'7,', "no events"), (b'{"ph":"X","ts":"0","dur":1},', "1970")):
            with self.subTest(said):
                with open(trace, "wb") as f:
                    f.write(good[:1] + text + good[1:])
                self.assertRegex(self.go("--profiler=prof", "-o", "out").err, "warning: .*" + said)
        with open(trace, "wb") as f:
            f.write(good)
        self.assertNotIn("warning", self.go("--profiler=prof", "-o", "out").err)

    def test_one_early_event(self):
        """It must not make the recording's place a matter of RAW in 1970."""
        self.recording()
        folder = self.profiler()
        trace = os.path.join(folder, *TRACE)
        for info in glob.glob(os.path.join(folder, "PROF_*")):
            shutil.rmtree(info)
        text = b.read_json(trace)
        with open(trace, "wb") as f:
            f.write(text[:1] + b'{"ph":"X","name":"early","pid":7000,"tid":7000,"ts":"0.5","dur":1},' + text[1:])
        self.go("--profiler=prof", "-o", "out")
        found = b.slices(b.parse(b.read_json(self.path("out", os.path.basename(folder), *OURS))))
        self.assertLess(abs(min(s.begin for s in found) - UNIX - MS), 10 * b.US)

    def test_while_it_is_written(self):
        """What changes is no trace yet: found out before or while it is copied."""
        self.recording()
        folder = self.profiler()
        trace = os.path.join(folder, *TRACE)
        text = b.read_json(trace)
        with open(trace, "wb") as f:
            f.write(text + b" " * (8 << 20))
        # A pipe as output holds it up in the middle.
        os.mkfifo(self.path("pipe.json"))
        out, reader = [], None

        def read():
            with open(self.path("pipe.json"), "rb") as f:
                out.append(f.read(1))
                with open(trace, "ab") as g:
                    g.write(b" ")
                f.read()

        reader = threading.Thread(target=read)
        reader.start()
        run = self.run_it("r.gil", "--profiler=prof", "--merge", "-o", "pipe.json", status=b.FAILED)
        reader.join()
        self.assertIn("it has changed while it was read", run.err)
        self.assertNotIn("Stale", run.err)

    def test_base_within_the_recording(self):
        """No time before it can be written."""
        self.recording(more=100)
        base = UNIX + 900 * MS + 101 * b.US
        p = Profiler(7000, 0, base + 10 * b.US, UNIX + 950 * MS)
        p.trace(self.path("a.pt.trace.json"), p.kineto(base))
        for options, pid in ([], None), (["--lanes=inline"], 7000):
            run = self.go("--profiler=a.pt.trace.json", "-o", "out.json", *options)
            self.assertIn("baseTimeNanoseconds", run.err)
            self.assertRegex(run.err, r"left out by the filters: .*[1-9] ")
            found = b.slices(b.parse(b.read_json(self.path("out.json")))["traceEvents"])
            for tid in {s.tid for s in found}:
                begins = [s.begin for s in found if s.tid == tid and s.name == "hold_gil"]
                self.assertEqual(len(begins), len(set(begins)))
            self.assertEqual(max(s.end for s in found if s.name == "hold_gil"), 99 * b.US)
            self.assertEqual(len([s for s in found if s.name == "hold_gil"]), 50)

    def test_rows_in_use(self):
        """The trace has a thread where ours would go."""
        self.recording()
        folder = self.profiler()
        trace = os.path.join(folder, *TRACE)
        events = json.loads(b.read_json(trace).decode())
        for tid in (8388608 + 7000, 3 * 8388608 - 1):
            events.append({"ph": "M", "name": "thread_name", "pid": 7000, "tid": tid, "args": {"name": "x"}})
        with open(trace, "w") as f:
            json.dump(events, f)
        self.go("--profiler=prof", "--lanes=inline", "--merge", "-o", "m.json")
        merged = b.parse(b.read_json(self.path("m.json")))
        self.assertEqual({s.tid for s in b.slices(merged)}, {3 * 8388608 + 7000, 3 * 8388608 + 7001})
        run = self.go("--profiler=m.json", "--merge", "-o", "n.json", status=b.FAILED)
        self.assertIn("GIL rows", run.err)

    # ---- which form ----

    def test_implied(self):
        """Where Insight's folder makes no sense, it is one JSON, and that is said."""
        self.recording()
        trace = os.path.join(self.profiler(), *TRACE)
        os.rename(trace, self.path("alone.json"))
        run = self.go("--profiler=alone.json", "-o", "out")
        self.assertEqual(os.listdir(self.path("out")), ["alone.json"])
        self.assertIn("--merge", run.err)
        self.go("--profiler=alone.json", "-o", "laid_out/")
        self.assertEqual(os.listdir(self.path("laid_out")), ["alone_ascend_pt"])
        self.assertTrue(self.lanes("laid_out", "alone_ascend_pt", *OURS))
        self.go("--profiler=alone.json", "-o", "x.json.gz")
        self.assertTrue(self.lanes("x.json.gz"))

    def test_one_file_for_two(self):
        self.recording()
        self.profiler("a")
        self.profiler("b")
        for options in ([], ["--merge"]):
            run = self.go("--profiler=a", "--profiler=b", "-o", "x.json", *options, status=b.FAILED)
            self.assertIn("x.json", run.err)
            self.assertFalse(os.path.exists(self.path("x.json")))

    def test_gzip(self):
        self.recording()
        name = os.path.basename(self.profiler())
        self.go("--profiler=prof", "--merge", "--gzip", "-o", "out")
        merged = name[:-len("_ascend_pt")] + ".json.gz"
        self.assertEqual(os.listdir(self.path("out")), [merged])
        self.assertTrue(self.lanes("out", merged))
        run = self.go("--profiler=prof", "--gzip", "-o", "folder")
        self.assertIn("--gzip", run.err)
        self.assertTrue(self.lanes("folder", name, *OURS))

    def test_database_is_said(self):
        self.recording()
        folder = self.profiler()
        session_database(os.path.join(folder, "ASCEND_PROFILER_OUTPUT", "ascend_pytorch_profiler_0.db"),
                         UNIX, UNIX + S)
        run = self.go("--profiler=prof", "-o", "out")
        self.assertIn("database", run.err)

    # ---- several recordings of one Profiler ----

    def test_two_captures(self):
        """Of one process: each gets a lane. Beside the threads there is room for one."""
        self.recording()
        self.recording("again.gil", later=300 * MS)
        name = os.path.basename(self.profiler())
        self.go("--profiler=prof", "-o", "out", inputs=("r.gil", "again.gil"), status=b.LEFT_OUT)
        self.assertEqual(len(self.lanes("out", name, *OURS)), 2)
        run = self.go("--profiler=prof", "--lanes=inline", "-o", "out2", inputs=("r.gil", "again.gil"),
                      status=b.LEFT_OUT)
        self.assertIn("again.gil", run.err)

    def test_children(self):
        """A DataLoader's workers come with the process that has made them."""
        self.recording()
        self.recording("child.gil", pid=7050, process_parent_pid="7000")
        name = os.path.basename(self.profiler())
        self.go("--profiler=prof", "-o", "out", inputs=("child.gil", "r.gil"))
        self.assertEqual(len(self.lanes("out", name, *OURS)), 2)

    # ---- a launcher and its ranks ----

    def launched(self, **launcher):
        """torchrun's recording, and those of three ranks."""
        self.recording("l.gil", pid=15081, **launcher or {"rank": None})
        for i in range(3):
            self.recording("w%d.gil" % i, pid=15093 + i, rank=i, process_parent_pid="15081")
        return ("l.gil", "w0.gil", "w1.gil", "w2.gil")

    def bare(self, name, pid, rank=None):
        """A trace of PyTorch in which nothing but the events' numbers tells of processes."""
        p = Profiler(pid, 0, UNIX + 500 * MS, UNIX + 800 * MS)
        data = p.kineto(rank=rank)
        data["traceEvents"] = [e for e in data["traceEvents"] if e["name"] != "process_labels"]
        p.trace(self.path(name), data)

    def lane_names(self, *path):
        events = b.parse(b.read_json(self.path(*path)))["traceEvents"]
        return sorted(e["args"]["name"].split("GIL Trace: ")[1] for e in events
                      if e["name"] == "process_name" and "GIL Trace: " in e["args"]["name"])

    def test_a_pid_in_it(self):
        """It was taken for the launcher's, "as the only one", and the ranks for children."""
        inputs = self.launched()
        for rank in (None, 0, 1):
            self.bare("k.json", 15093, rank)
            run = self.go("--profiler=k.json", "-o", "m.json", inputs=inputs, status=b.LEFT_OUT)
            self.assertRegex(run.err, r"w0\.gil: belongs to \S*k\.json by a pid in it")
            self.assertEqual(self.lane_names("m.json"), ["python3 (rank 0)"])
            self.assertEqual("its rank is 0 and not 1" in run.err, rank == 1)
            self.assertRegex(run.err, r"l\.gil: is the launcher of \S*w0\.gil")
        run = self.go("--profiler=k.json", "-o", "m.json", inputs=("w0.gil", "w1.gil"),
                      status=b.LEFT_OUT)
        self.assertIn("w0.gil: belongs to", run.err)
        self.assertIn("1 of 1 Profilers' traces, 1 of 2 recordings used", run.err)

    def test_several_pids_in_it(self):
        """Whose events are in one trace have a lane each."""
        inputs = self.launched()
        self.bare("k.json", 15093)
        data = b.parse(b.read_json(self.path("k.json")))
        data["traceEvents"] += [dict(e, pid=15095, tid=15095) for e in data["traceEvents"]
                                if e.get("cat") == "cpu_op"][:3]
        data["traceEvents"].append({"ph": "X", "name": "k", "cat": "kernel", "pid": 15094,
                                    "tid": 7, "ts": UNIX // 1000 + 600000, "dur": 5})
        with open(self.path("k.json"), "w") as f:
            json.dump(data, f, default=float)
        run = self.go("--profiler=k.json", "-o", "m.json", inputs=inputs, status=b.LEFT_OUT)
        self.assertEqual(self.lane_names("m.json"), ["python3 (rank 0)", "python3 (rank 2)"])
        self.assertIn("w1.gil: belongs to no Profiler's trace", run.err)

    def test_rank_in_it(self):
        """Whose pids tell nothing goes by its rank; what tells nothing goes to nobody."""
        inputs = self.launched()
        self.bare("k.json", 31, rank=1)
        run = self.go("--profiler=k.json", "-o", "m.json", inputs=inputs, status=b.LEFT_OUT)
        self.assertRegex(run.err, r"w1\.gil: belongs to \S*k\.json by its rank")
        self.assertRegex(run.err, "its pid is 15094 and not 31")
        self.assertEqual(self.lane_names("m.json"), ["python3 (rank 1)"])
        self.bare("k.json", 31)
        run = self.go("--profiler=k.json", "-o", "none.json", inputs=inputs, status=b.FAILED)
        self.assertRegex(run.err, r"k\.json: no recording belongs to it: pid 31 \(its events\)")
        self.assertFalse(os.path.exists(self.path("none.json")))

    def test_launcher(self):
        """It has no Profiler, and nobody misses one: the status is 0."""
        self.launched()
        for i in range(3):
            self.profiler(pid=15093 + i, rank=i)
        # Without a rank, or with 0, because nothing has told it.
        for launcher in ({}, {"rank": 0, "rank_source": "default"}):
            inputs = self.launched(**launcher)
            run = self.go("--profiler=prof", "-o", "out", inputs=inputs)
            self.assertRegex(run.err, r"l\.gil: is the launcher of \S*w\d\.gil; no Profiler's "
                                      "trace belongs to it, so it is left out")
            self.assertIn("3 of 3 Profilers' traces, 3 of 4 recordings used", run.err)
            self.assertEqual(len(os.listdir(self.path("out"))), 3)
        run = self.go("--profiler=prof", "-o", "out", inputs=inputs[1:])
        self.assertNotIn("recordings used", run.err)
        self.recording("x.gil", pid=15099, rank=7, process_parent_pid="15081")
        run = self.go("--profiler=prof", "-o", "out", inputs=inputs + ("x.gil",),
                      status=b.LEFT_OUT)
        self.assertIn("x.gil: belongs to no Profiler's trace", run.err)

    def test_two_runs(self):
        """In a container all of them have one pid: the time tells."""
        self.recording("a.gil", process_start_ticks="1")
        self.recording("b.gil", later=60 * S, process_start_ticks="2")
        names = ["w_7000_2024010100%d000000_ascend_pt" % i for i in range(2)]
        self.profiler(name=names[0])
        p = Profiler(7000, 0, UNIX + 60 * S + 200 * MS, UNIX + 60 * S + 700 * MS)
        p.torch_npu(self.path("prof"), raw_offset=UNIX - MONO + 5 * MS, name=names[1])
        for inputs in (("b.gil", "a.gil"), ("a.gil", "b.gil")):
            self.go("--profiler=prof", "-o", "out", inputs=inputs)
            for i, name in enumerate(names):
                found = b.slices(b.parse(b.read_json(self.path("out", name, *OURS))))
                self.assertEqual(min(s.begin for s in found), UNIX + 60 * S * i + MS)

    def test_sessions(self):
        """Two of one process, one of which the recording has missed."""
        self.recording()
        self.profiler("a", name="w_7000_20240101000000000_ascend_pt")
        p = Profiler(7000, 0, UNIX + 5 * S, UNIX + 6 * S)
        p.torch_npu(self.path("b"), raw_offset=UNIX - MONO + 5 * MS, name="w_7000_20240101000005000_ascend_pt")
        run = self.go("--profiler=a", "--profiler=b", "-o", "out", status=b.LEFT_OUT)
        self.assertIn("overlap", run.err)
        self.assertEqual(os.listdir(self.path("out")), ["w_7000_20240101000000000_ascend_pt"])

    def test_lane(self):
        """Its pid is no pid that there can be, its own is in the label, beside the clock."""
        self.recording()
        name = os.path.basename(self.profiler())
        self.go("--profiler=prof", "-o", "out")
        events = b.parse(b.read_json(self.path("out", name, *OURS)))
        (pid,) = self.lanes("out", name, *OURS)
        self.assertGreater(pid, 4194304)
        about = {e["name"]: e["args"] for e in events if e["ph"] == "M" and e["name"].startswith("process_")}
        self.assertRegex(about["process_labels"]["labels"], r"pid 7000, clock start_info \+-1 us")
        self.assertEqual(about["process_sort_index"]["sort_index"], "0")
        self.go("--profiler=prof", "--lanes=inline", "--merge", "-o", "i.json")
        clock, = [e for e in b.parse(b.read_json(self.path("i.json"))) if e["name"] == "GIL clock"]
        self.assertEqual(clock["args"], {"clock": "start_info +-1 us"})

    def test_filters(self):
        self.recording()
        name = os.path.basename(self.profiler())
        run = self.go("--profiler=prof", "-o", "out", "--min-dur=450ms", "--pid=7000")
        self.assertRegex(run.err, r"left out by the filters: 1 take_gil \(399\.000 ms\), 1 hold_gil \(399\.000 ms\)")
        found = b.slices(b.parse(b.read_json(self.path("out", name, *OURS))))
        self.assertEqual([(s.name, s.end - s.begin) for s in found], [("hold_gil", 499 * MS)])


if __name__ == "__main__":
    b.main()
