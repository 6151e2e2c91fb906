#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden tests of gil2trace, and tests of its command line.

    run.py TXT2GIL GIL2TRACE [--update]

Each NAME.txt becomes a .gil by txt2gil and must convert to NAME.json, byte for byte; comments in
it that begin with "#: " say what else is expected ("status N", "stderr PATTERN"). --update writes
the .json files anew: look at the difference before you commit it.
"""
import glob
import os
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import unittest

import case
from case import HERE, Case

UPDATE = "--update" in sys.argv


class Golden(Case):
    def test_scripts(self):
        scripts = sorted(glob.glob(os.path.join(HERE, "*.txt")))
        self.assertGreater(len(scripts), 15)
        for script in scripts:
            name = os.path.basename(script)[:-4]
            with self.subTest(name):
                self.one(name)

    def one(self, name):
        status, patterns = 0, []
        with open(os.path.join(HERE, name + ".txt")) as f:
            for line in f:
                if line.startswith("#: status "):
                    status = int(line.split()[2])
                elif line.startswith("#: stderr "):
                    patterns.append(line[10:].strip())
        said = self.run_it(os.path.basename(self.make(name)), status=status)
        for pattern in patterns:
            self.assertRegex(said, pattern)
        if not patterns and not status:
            for line in said.splitlines():
                if "events were lost" not in line:
                    self.assertNotIn("warning", line)
        got, want = self.path(name + ".json"), os.path.join(HERE, name + ".json")
        self.check(got)
        if UPDATE:
            shutil.copyfile(got, want)
        with open(got, "rb") as g, open(want, "rb") as w:
            self.assertEqual(g.read().decode("utf-8"), w.read().decode("utf-8"))
        self.check_no_rest()

    def test_no_script_is_missing(self):
        for path in glob.glob(os.path.join(HERE, "*.json")):
            self.assertTrue(os.path.exists(path[:-5] + ".txt"), path)

    def test_random_scripts(self):
        """Through the file and the JSON; the fuzz target tries many more without them."""
        for seed in range(40):
            rnd = random.Random(seed)
            now, lines = 0, ["meta process.pid 1", "clock 0",
                             "meta process.ns_pid %d" % rnd.choice([1, 3])]
            for _ in range(rnd.randrange(200)):
                now += rnd.randrange(5000)
                kind = rnd.choice(["wait", "acquire", "release", "forced", "yield", "take",
                                   "dropped", "left"] * 6 +
                                  ["gil", "lost", "late", "paused", "mark", "thread", "before",
                                   "exit"])
                tid, gil = rnd.randrange(1, 5), rnd.choice([0, 0, 0, 1, 255])
                if kind == "gil":
                    lines.append("gil %d %d 0x10 %s" % (now, gil, rnd.choice(["", "unconfirmed"])))
                elif kind == "lost":
                    lines.append("lost %d %d 9" % (now, now - rnd.randrange(min(now, 900) + 1)))
                elif kind in ("late", "paused"):
                    lines.append("%s %d %d" % (kind, now, now - rnd.randrange(min(now, 900) + 1)))
                elif kind == "mark":
                    lines.append('mark %d %d "%s"' % (now, rnd.choice([0, tid, 9]),
                                                      rnd.choice(["step", "\\xff\\x22\\x0a"])))
                elif kind == "exit":
                    lines.append("exit %d %d" % (now, tid))
                elif kind == "before":
                    lines.append("before %d %d %s %d" % (
                        now, tid, rnd.choice(["waiting", "holding"]), gil))
                elif kind == "thread":
                    lines.append('thread %d %d "\\x%02x" %d 0 "%s"' % (
                        now, tid, rnd.randrange(1, 256), rnd.randrange(7),
                        rnd.choice(["", "name", "\\xff\\x0a"])))
                else:
                    lines.append("%s %d %d %d" % (kind, now, tid, gil))
            lines.append("end %d" % now)
            gil = self.make("\n".join(lines) + "\n", "random.gil")
            with self.subTest(seed):
                self.run_it(gil, "-o", "random.json")
                self.check(self.path("random.json"))


class Inputs(Case):
    def test_folder(self):
        self.make("contended", "in/b.gil")
        self.make("uncontended", "in/a.gil")
        with open(self.path("in/note.txt"), "w") as f:
            f.write("not one of them")
        os.mkdir(self.path("in/sub"))
        self.run_it("in")
        events = self.check(self.path("gil_trace.json"))
        self.assertEqual([e["pid"] for e in events if e["name"] == "process_name"], [77, 4242])
        self.assertEqual([e["args"]["sort_index"] for e in events
                          if e["name"] == "process_sort_index"], [0, 1])
        self.check_no_rest()

    def test_folder_without_files(self):
        os.mkdir(self.path("in"))
        self.assertIn("no *.gil file", self.run_it("in", status=1))
        self.assertEqual(os.listdir(self.dir), ["in"])

    def test_one_pid_twice(self):
        """Two hosts may have it: they are kept apart."""
        for i in range(3):
            self.make("contended", "%d.gil" % i)
        self.run_it("0.gil", "1.gil", "2.gil", "-o", "all.json", status=3)
        events = self.check(self.path("all.json"))
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {4242: "GIL Trace: python3 (rank 3)",
                                 4194306: "GIL Trace: python3 (rank 3), pid 4242 (2)",
                                 4194307: "GIL Trace: python3 (rank 3), pid 4242 (3)"})

    def test_options_are_inputs(self):
        self.make("contended", "a.gil")
        self.make("empty", "b.gil")
        self.run_it("--input", "a.gil", "-i", "b.gil", "--output=c.json", status=3)
        self.assertEqual(len([e for e in self.check(self.path("c.json"))
                              if e["name"] == "process_name"]), 2)

    def test_given_twice(self):
        self.make("contended", "a.gil")
        os.link(self.path("a.gil"), self.path("b.gil"))
        self.assertIn("more than once", self.run_it("a.gil", "./a.gil", "b.gil"))
        self.check(self.path("a.json"))

    def test_not_a_recording(self):
        for name, content in (("text.gil", b"hello\n"), ("empty.gil", b""),
                              ("json.gil", b"[]" * 100)):
            with open(self.path(name), "wb") as f:
                f.write(content)
            self.assertRegex(self.run_it(name, status=1), name + ": .*no .gil file")
        self.assertIn("missing.gil", self.run_it("missing.gil", status=1))
        os.mkfifo(self.path("fifo.gil"))
        self.assertIn("regular", self.run_it("fifo.gil", status=1))
        self.assertEqual([n for n in os.listdir(self.dir) if not n.endswith(".gil")], [])

    def test_one_of_two_is_bad(self):
        self.make("contended", "a.gil")
        self.assertIn("b.gil", self.run_it("a.gil", "b.gil", "-o", "c.json", status=3))
        self.check(self.path("c.json"))
        os.mkdir(self.path("none"))
        self.run_it("a.gil", "none", "-o", "d.json", status=3)
        self.check(self.path("d.json"))

    def test_damaged_before_the_first_event(self):
        self.make("meta process.pid 1\nclock 0\nacquire 0 1\nend 1ms\nflip 40\n", "a.gil")
        self.assertIn("a.gil", self.run_it("a.gil", status=1))
        self.assertFalse(os.path.exists(self.path("a.json")))

    def test_no_pid(self):
        """The file's name stands for it, made harmless."""
        self.make("acquire 1ms 5\nrelease 2ms 5\nend 3ms\n", 'x"\\\u00e4\n.gil')
        self.run_it('x"\\\u00e4\n.gil', "-o", "a.json")
        pids = {e["pid"] for e in self.check(self.path("a.json"))}
        self.assertEqual(pids, {4194305})
        names = [e["args"]["name"] for e in self.check(self.path("a.json"))
                 if e["name"] == "process_name"]
        self.assertEqual(names, ["GIL Trace: x?????.gil"])


class Output(Case):
    def setUp(self):
        super().setUp()
        self.gil = self.make("contended", "a.gil")
        with open(os.path.join(HERE, "contended.json"), "rb") as f:
            self.want = f.read()

    def test_standard_output(self):
        for args in (["a.gil", "-o", "-"], ["a.gil", "-o", "/dev/stdout"]):
            p = subprocess.run([case.GIL2TRACE, *args], cwd=self.dir, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
            self.assertEqual((p.returncode, p.stdout), (0, self.want), p.stderr)

    def test_replaces_and_is_private_to_its_owner(self):
        old = os.umask(0)
        self.addCleanup(os.umask, old)
        with open(self.path("a.json"), "w") as f:
            f.write("old")
        self.run_it("a.gil")
        with open(self.path("a.json"), "rb") as f:
            self.assertEqual(f.read(), self.want)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("a.json")).st_mode), 0o644)
        os.umask(0o077)
        self.run_it("a.gil")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("a.json")).st_mode), 0o600)
        self.check_no_rest()

    def test_link_is_replaced_not_followed(self):
        with open(self.path("victim"), "w") as f:
            f.write("untouched")
        os.symlink("victim", self.path("a.json"))
        self.run_it("a.gil")
        self.assertFalse(os.path.islink(self.path("a.json")))
        with open(self.path("victim")) as f:
            self.assertEqual(f.read(), "untouched")

    def test_never_onto_an_input(self):
        with open(self.gil, "rb") as f:
            before = f.read()
        os.link(self.gil, self.path("link.json"))
        os.symlink("a.gil", self.path("symlink.json"))
        for out in ("a.gil", "./a.gil", "link.json", "symlink.json"):
            self.assertIn("is an input", self.run_it("a.gil", "-o", out, status=1))
        with open(self.gil, "rb") as f:
            self.assertEqual(f.read(), before)

    def test_cannot_be_written(self):
        os.mkdir(self.path("folder"))
        for out in ("folder", "folder/", "no/such/folder.json", "/dev/full"):
            self.assertIn("cannot be written", self.run_it("a.gil", "-o", out, status=1))
        self.assertEqual(os.listdir(self.path("folder")), [])
        self.check_no_rest()

    def test_disk_full(self):
        """A size limit stands for it: the write fails half way, and nothing is left behind."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with open(self.path("a.json"), "w") as f:
            f.write("old")
        self.assertIn("cannot be written", self.run_it("a.gil", status=1, preexec_fn=limit))
        with open(self.path("a.json")) as f:
            self.assertEqual(f.read(), "old")
        self.check_no_rest()

    def test_closed_pipe(self):
        r, w = os.pipe()
        os.close(r)
        self.assertIn("Broken pipe", self.run_it("a.gil", "-o", "-", status=1, stdout=w))
        os.close(w)

    def test_closed_standard_descriptors(self):
        """Their numbers must not go to the output, or messages end up in it."""
        def close_all():
            for fd in range(3):
                os.close(fd)
        p = subprocess.run([case.GIL2TRACE, "-v", "a.gil"], cwd=self.dir, preexec_fn=close_all)
        self.assertEqual(p.returncode, 0)
        with open(self.path("a.json"), "rb") as f:
            self.assertEqual(f.read(), self.want)

    def test_memory_does_not_grow_with_events(self):
        self.make("meta process.pid 1\nclock 0\nrepeat 2000000 1us\nacquire 0 1\n"
                  "release 500 1\ndone\nend 20s\n", "big.gil")

        def limit():  # 4,000,000 events at 8 bytes each would fill it
            resource.setrlimit(resource.RLIMIT_DATA, (32 << 20, 32 << 20))
        with open(case.GIL2TRACE, "rb") as f:
            sanitized = b"__asan_init" in f.read()  # reserves terabytes
        self.run_it("big.gil", "-o", "/dev/null", preexec_fn=None if sanitized else limit)

    def test_signal_leaves_nothing(self):
        for count in (1000000, 4000000, 16000000):  # until it is not done before the signal comes
            self.make("meta process.pid 1\nclock 0\nrepeat %d 1us\nacquire 0 1\n"
                      "release 500 1\ndone\nend 20s\n" % count, "big.gil")
            p = subprocess.Popen([case.GIL2TRACE, "big.gil"], cwd=self.dir, stderr=subprocess.PIPE)
            while p.poll() is None and not [n for n in os.listdir(self.dir) if n.endswith(".tmp")]:
                pass
            p.send_signal(signal.SIGTERM)
            p.communicate()
            self.check_no_rest()
            if p.returncode:
                break
            os.unlink(self.path("big.json"))
        self.assertEqual(p.returncode, -signal.SIGTERM)
        self.assertFalse(os.path.exists(self.path("big.json")))

    def test_cache_of_insight(self):
        for name in ("a_mindstudio_insight_data.db", "mindstudio_insight_data.db"):
            with open(self.path(name), "w"):
                pass
            self.assertIn(name + ": is MindStudio Insight's cache", self.run_it("a.gil"))
            os.unlink(self.path(name))
        self.assertNotIn("Insight", self.run_it("a.gil"))


class Doubt(Case):
    """A recording that cannot be right is never shown as if it were."""
    ODD = "clock 0\nacquire 1ms 1\nacquire 2ms 2\nrelease 3ms 2\n"
    COUNTED = "1 acquired while another thread held"
    LOUD = "warning: a.gil: GIL SITES ARE MISSING"

    def doubts(self, script, *options):
        """What the trace says of it, and standard error."""
        self.make(script, "a.gil")
        said = self.run_it("a.gil", *options)
        events = [e for e in self.check(self.path("a.json")) if e["name"] == "GIL sites missing"]
        drawn = [e for e in events if e["ph"] == "C"]  # what viewers draw that drop instants
        events = [e for e in events if e["ph"] != "C"]
        self.assertEqual([e["ts"] for e in drawn], [e["ts"] for e in events])
        for e in events:
            self.assertEqual((e["ph"], e["ts"]), ("I", "1700000000000000.000"))
        self.assertEqual(len(events) > 0, self.LOUD in said, said)
        return [e["args"]["text"] for e in events], said

    def test_recorder_was_killed(self):
        self.assertEqual(self.doubts(self.ODD + "flush\n")[0], [self.COUNTED])

    def test_recorder_has_checked(self):
        missing = 'meta check.result "sites missing"\n'
        texts, said = self.doubts(self.ODD + missing + 'meta check.text "so it is"\nend 4ms\n')
        self.assertEqual(texts, ["so it is"])
        self.assertIn("sequences of events that should not be: " + self.COUNTED, said)
        self.assertEqual(self.doubts(self.ODD + missing + "end 4ms\n")[0],
                         ["the recorder has not said why"])
        texts, said = self.doubts(self.ODD + "meta check.result consistent\nend 4ms\n")
        self.assertEqual(texts, [])
        self.assertIn("sequences of events that should not be: " + self.COUNTED, said)
        self.assertEqual(self.doubts(self.ODD + 'meta check.result "not checked"\nend 4ms\n')[0],
                         [self.COUNTED])

    def test_quiet_does_not_silence_it(self):
        self.assertIn(self.LOUD, self.doubts(self.ODD + "end 4ms\n", "-q")[1])

    def test_text_is_harmless(self):
        texts, said = self.doubts(self.ODD + 'meta check.result "sites missing"\n'
                                  'meta check.text "a\\x22\\x1b[2J\\xff%s"\nend 4ms\n')
        self.assertEqual(texts, ['a"\x1b[2J\ufffd%s'])
        self.assertIn('a"?[2J', said)

    def test_version_1_0_had_no_check(self):
        texts, said = self.doubts("minor 0\n" + self.ODD + "end 4ms\n")
        self.assertEqual(texts, [])
        self.assertIn("sequences of events that should not be: " + self.COUNTED, said)

    def test_free_threaded(self):
        """Without its GIL take_gil is entered all the time: that is as it should be."""
        takes = "clock 0\ntake 1ms 1\ntake 2ms 1\nend 3ms\n"
        self.assertEqual(self.doubts("meta gil.free_threaded 1\n" + takes)[0], [])
        self.assertEqual(self.doubts(takes)[0], ["1 waited without acquiring"])

    def test_several_inputs(self):
        """Each process has its own."""
        self.make("missed", "a.gil")
        self.make("contended", "b.gil")
        self.make("sites_missing", "c.gil")
        self.run_it("a.gil", "b.gil", "c.gil", "-o", "all.json", status=3)  # all of one process
        events = self.check(self.path("all.json"))
        doubts = [e["pid"] for e in events if e["name"] == "GIL sites missing" and e["ph"] == "I"]
        self.assertEqual(doubts, [4242, 4194307])


class Ids(Case):
    """Whose ids processes and threads are shown under."""
    FROM_HOST = ("meta process.pid 4242\nmeta process.ns_pid 7\nclock 0\nacquire 1ms 4250\n"
                 "release 2ms 4250\nthread 3ms 4250 w 9 0\nacquire 3ms 4242\nend 4ms\n")
    FROM_INSIDE = ("meta process.pid 7\nmeta process.ns_pid 7\nmeta process.host_pid 4242\n"
                   "clock 0\nacquire 1ms 9\nrelease 2ms 9\nthread 3ms 9 w 9 4250\n"
                   "acquire 3ms 7\nend 4ms\n")
    FROM_BETWEEN = ("meta process.pid 70\nmeta process.ns_pid 7\nmeta process.host_pid 4242\n"
                    "clock 0\nacquire 1ms 90\nrelease 2ms 90\nthread 3ms 90 w 9 4250\n"
                    "acquire 3ms 70\nend 4ms\n")

    def rows(self, script, *options):
        """Names of rows by (pid, tid), and what was said."""
        self.make(script, "a.gil")
        said = self.run_it("a.gil", *options)
        events = self.check(self.path("a.json"))
        drawn = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
                 if e["name"] == "thread_name"}
        self.assertEqual(drawn, set(names))
        return names, said

    def test_either(self):
        for script in (self.FROM_HOST, self.FROM_INSIDE, self.FROM_BETWEEN):
            for options, want in (([], {(7, 7): "thread 7", (7, 9): "w 9"}),
                                  (["--ids=namespace"], {(7, 7): "thread 7", (7, 9): "w 9"}),
                                  (["--ids=host"], {(4242, 4242): "thread 4242",
                                                    (4242, 4250): "w 4250"})):
                with self.subTest(script=script, options=options):
                    names, said = self.rows(script, *options)
                    self.assertEqual(names, want)
                    self.assertNotIn("warning", said)

    def test_not_known(self):
        """A row of its own, whose number is no id, and which says where its id is from."""
        for script, options, want, which in (
                (self.FROM_HOST.replace("w 9 0", "w 0 0"), [], "w host 4250", "inside"),
                (self.FROM_BETWEEN.replace("w 9 4250", "w 0 0"), [], "w recorder 90", "inside"),
                (self.FROM_INSIDE.replace("w 9 4250", "w 9 0"), ["--ids=host"], "w recorder 9",
                 "on the host")):
            names, said = self.rows(script, *options)
            self.assertEqual(len(names), 2)
            (_, tid), = [key for key, name in names.items() if name == want]
            self.assertGreater(tid, 4194304)
            self.assertIn("warning: a.gil: of 1 thread(s) the id %s" % which, said)

    def test_two_containers(self):
        """Both processes are pid 1: one trace tells them apart, by id, name and labels."""
        for i, container in enumerate(("3f2a" * 16, "beef" * 16)):
            self.make('meta process.container %s\nmeta process.cmdline "python3 serve.py"\n' % container +
                      self.FROM_HOST.replace("ns_pid 7", "ns_pid 1").replace("42", "%d2" % (4 + i)),
                      "%d.gil" % i)
        self.run_it("0.gil", "1.gil", "-o", "all.json")
        events = self.check(self.path("all.json"))
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {1: "GIL Trace: python3 serve.py",
                                 4194306: "GIL Trace: python3 serve.py, pid 1 (2)"})
        tags = {e["pid"]: e["args"]["labels"] for e in events if e["name"] == "process_labels"}
        self.assertEqual(tags, {1: "CPU, container 3f2a3f2a3f2a, host pid 4242",
                                4194306: "CPU, container beefbeefbeef, host pid 5252"})
        self.run_it("0.gil", "1.gil", "-o", "host.json", "--ids=host")
        pids = {e["pid"] for e in self.check(self.path("host.json"))}
        self.assertEqual(pids, {4242, 5252})

    def test_time_namespace(self):
        """Times are the host's: Unix time is the same in all."""
        names = "meta process.timens_mono_ns 5000000000\nmeta process.timens_boot_ns -7\n"
        self.make(self.FROM_HOST, "a.gil")
        self.make(names + self.FROM_HOST, "b.gil")
        self.run_it("a.gil")
        self.run_it("b.gil")
        with open(self.path("a.json"), "rb") as a, open(self.path("b.json"), "rb") as b:
            self.assertEqual(a.read(), b.read())


class Docs(Case):
    def test_who_held_the_lock(self):
        """The script in docs/trace.md: 4250 waits 2 .. 12.306123 ms, 4242 holds 1 .. 12.3 ms."""
        with open(os.path.join(HERE, "..", "..", "docs", "trace.md")) as f:
            script, = re.findall(r"(?s)^```python\n(.*?)^```", f.read(), re.M)
        out = subprocess.run([sys.executable, "-c", script, os.path.join(HERE, "contended.json"),
                              "4250"], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertEqual(out, "waited 10.306 ms; held meanwhile by\n"
                              "  4242  10.300 ms\n"
                              "  nobody  0.006 ms\n")


class Options(Case):
    def test_usage(self):
        self.make("contended", "a.gil")
        for args in ([], ["--nonsense"], ["a.gil", "-o"], ["a.gil", "-o", "x", "-o", "y"],
                     ["a.gil", "-o", ""], [""], ["a.gil", "--ids=guest"], ["a.gil", "--ids="]):
            self.assertIn("gil2trace", self.run_it(*args, status=2))
        self.assertEqual(os.listdir(self.dir), ["a.gil"])

    def test_trace_instead_of_a_recording(self):
        self.make("contended", "a.gil")
        self.assertIn("did you mean -o t.json?", self.run_it("a.gil", "t.json", status=2))
        self.assertEqual(os.listdir(self.dir), ["a.gil"])

    def test_help_and_version(self):
        for arg, pattern in (("-h", r"(?s)Exit status:.*0 .*1 .*2 .*3 "),
                             ("--help", r"(?s)Exit status:.*0 .*1 .*2 .*3 "),
                             ("--version", r"^gil2trace \d+\.\d+\.\d+\n$")):
            p = subprocess.run([case.GIL2TRACE, arg], stdout=subprocess.PIPE, check=True)
            self.assertRegex(p.stdout.decode(), pattern)

    def test_talk(self):
        self.make("contended", "a.gil")
        self.assertEqual(self.run_it("-q", "a.gil"), "")
        self.assertRegex(self.run_it("a.gil"),
                         r"a\.gil: 8 slices, 2 thread\(s\), 1 GIL\(s\), 0 lost, 0\.016 s\n")
        self.assertIn("11 events", self.run_it("-v", "a.gil"))

    def test_pauses(self):
        """No loss, and no wonder that nothing was seen: neither is a warning."""
        self.make("paused_all", "a.gil")
        said = self.run_it("a.gil")
        self.assertNotIn("warning", said)
        self.assertIn("a.gil: paused for 0.008 s, in 1 pause(s): what", said)
        # for the rest of the time it is one
        self.make("clock 0\npaused 98ms 0\nend 100ms\n", "b.gil")
        self.assertIn("warning: b.gil: there is no GIL event in it", self.run_it("b.gil"))
        self.assertEqual(self.run_it("-q", "a.gil"), "")

    def test_details(self):
        self.make("meta probe.mode sites\nmeta symbols.verdict agrees\n"
                  "meta check.gil.3 \"5 acquires\"\nclock 0\nacquire 0 1\nforced 1 1\n"
                  "acquire 2 1\nrelease 3 1\nacquire 4 1\nrelease 5 1\nend 6\n", "a.gil")
        said = self.run_it("-v", "a.gil")
        for text in ("probe.mode: sites\n", "symbols.verdict: agrees\n",
                     "check.gil.3: 5 acquires\n",
                     "releases: 1 forced, 2 voluntary, 0 not told\n"):
            self.assertIn("a.gil: " + text, said)
        self.assertNotIn("voluntary", self.run_it("a.gil"))
        self.make("site 3 1\nclock 0\nacquire 0 1\nrelease 1 1\nend 6\n", "a.gil")
        self.assertIn("releases: 0 forced, 0 voluntary, 1 not told\n", self.run_it("-v", "a.gil"))
        self.make("functions", "a.gil")
        self.assertIn("releases: 0 forced, 0 voluntary, 4 not told\n", self.run_it("-v", "a.gil"))


if __name__ == "__main__":
    case.main(__doc__)
