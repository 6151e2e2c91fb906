# SPDX-License-Identifier: Apache-2.0
"""What is said between the package and giltrace while all goes well, or nearly."""
import os
import threading

from base import FAKE, LIMIT, Case, now, until

import giltrace


class Talk(Case):
    def test_a_recording(self):
        r = self.start()
        self.assertIs(giltrace.recording(), r)
        self.assertTrue(r.running)
        before = now()
        self.assertTrue(giltrace.mark("step 1"))
        between = now()
        self.assertTrue(r.mark("step 2"))
        after = now()
        self.assertTrue(giltrace.pause())
        self.assertEqual(giltrace.status().state, "paused")
        self.assertTrue(giltrace.resume())
        s = r.status()
        self.assertEqual((s.state, s.elapsed, s.paused, s.processes, s.events, s.lost, s.bytes,
                          s.marks), ("recording", 2.5, 0.5, 1, 12, 0, 99, 2))
        result = giltrace.stop()
        self.assertTrue(result.ok)
        self.assertIs(result.check(), result)
        self.assertEqual((result.status, result.error, result.events, result.lost, result.bytes,
                          result.marks, result.elapsed, result.paused),
                         (0, None, 12, 0, 99, 2, 2.5, 0.5))
        self.assertEqual(result.files, [os.path.join(self.dir, "GIL_%d_rank_0.gil" % os.getpid())])
        self.assertEqual(result.messages, ["fake: starts"])
        (a, tid, name), (b, _, _) = self.marks()
        slack = 1000  # 3.6 has no integers for it
        self.assertTrue(before - slack <= a <= between + slack)
        self.assertTrue(between - slack <= b <= after + slack)
        self.assertEqual((tid, name), (os.getpid(), "step 1"))
        self.assertEqual([line for line in self.heard() if line[:4] not in ("mark", "thre")],
                         ["pause", "status", "resume", "status", "stop"])

    def test_names_of_marks(self):
        self.start()
        names = ["", "a  b ", "x" * 200, "\u4e2d" * 50, "a\nb\0c", "\udcff", 7]
        for name in names:
            self.assertTrue(giltrace.mark(name))
        giltrace.stop()
        self.assertEqual([name for _, _, name in self.marks()],
                         ["mark", "a  b ", "x" * 127, "\u4e2d" * 42, "a b c", "?", "7"])

    def test_threads(self):
        """Their names are told at the start, at the end, and before the mark of a new one."""
        def work(name, go):
            go.wait()
            told[name] = threading.get_ident(), int(os.readlink("/proc/thread-self")
                                                    .rsplit("/", 1)[1])
            giltrace.mark(name)

        told, first, second = {}, threading.Event(), threading.Event()
        early = threading.Thread(target=work, args=("early", first), name="early bird")
        early.start()
        self.start()
        first.set()
        early.join()
        late = threading.Thread(target=work, args=("late", second), name="late\nbird\0")
        late.start()
        second.set()
        late.join()
        giltrace.stop()
        names = dict(line.split(" ", 1)
                     for packet in self.heard() if packet.startswith("threads|")
                     for line in packet.split("|")[1:])
        self.assertEqual(names[str(os.getpid())], "MainThread")
        self.assertEqual(names[str(told["early"][1])], "early bird")
        self.assertEqual(names[str(told["late"][1])], "late bird ")
        self.assertEqual([(name, tid) for _, tid, name in self.marks()],
                         [(name, told[name][1]) for name in ("early", "late")])
        packets = [packet.split("|")[0].split(" ")[0] for packet in self.heard()]
        self.assertIn("threads", packets[:packets.index("mark")])

    def test_many_threads(self):
        """More names than a packet holds; ids only from 3.8 on."""
        go = threading.Event()
        threads = [threading.Thread(target=go.wait, name="worker %d %s" % (i, "x" * 200))
                   for i in range(100)]
        for t in threads:
            t.start()
        self.start()
        go.set()
        for t in threads:
            t.join()
        giltrace.stop()
        packets = [line for line in self.heard() if line.startswith("threads|")]
        self.assertTrue(all(len(p.encode()) <= 8192 for p in packets))
        told = [line for p in packets for line in p.split("|")[1:]]
        wanted = 101 if hasattr(threads[0], "native_id") else 1
        self.assertEqual(len(told), wanted)

    def test_all_at_once(self):
        """Each thread gets its own answers, and no mark is lost."""
        def work(i):
            for n in range(30):
                if not giltrace.mark("%d-%d" % (i, n)):
                    bad.append("a mark")
                if i % 2:
                    if giltrace.status().events != 12:
                        bad.append("a status")
                elif giltrace.pause() is not True or giltrace.resume() is not True:
                    bad.append("a pause")

        bad = []
        self.start()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertTrue(giltrace.stop().ok)
        self.assertEqual(bad, [])
        self.assertEqual(sorted(name for _, _, name in self.marks()),
                         sorted("%d-%d" % (i, n) for i in range(6) for n in range(30)))

    def test_the_answer_to_another_request(self):
        """One that came too late is not taken for the next one."""
        self.start("late").timeout = 0.2
        with self.assertRaises(giltrace.TimedOut):
            giltrace.pause()
        giltrace.recording().timeout = LIMIT
        self.assertEqual(giltrace.status().state, "paused")
        self.assertTrue(giltrace.resume())
        self.assertTrue(giltrace.stop().ok)

    def test_a_refusal(self):
        self.start("refuses")
        with self.assertRaisesRegex(giltrace.GiltraceError, "pause: not now"):
            giltrace.pause()
        self.assertTrue(giltrace.stop().ok)

    def test_no_room(self):
        """A mark never waits; what is dropped is told."""
        self.start("deaf").timeout = 0.2
        n = 0
        while giltrace.mark("x"):
            n += 1
            self.assertLess(n, 100000)
        self.assertGreater(n, 100)
        with self.assertRaises(giltrace.TimedOut):
            giltrace.status()
        with self.warns("did not end within 0.2 s"):
            result = giltrace.stop()
        self.assertFalse(result.ok)
        self.assertIn("1 marks were dropped", result.messages[-1])

    def test_many_requests(self):
        """More than are remembered."""
        self.start()
        for _ in range(1100):
            self.assertTrue(giltrace.pause())
        self.assertTrue(giltrace.stop().ok)

    def test_without_a_recording(self):
        self.assertIsNone(giltrace.recording())
        self.assertFalse(giltrace.mark("x"))
        self.assertFalse(giltrace.pause())
        self.assertFalse(giltrace.resume())

    def test_side_by_side(self):
        one = giltrace.Recording(**self.how()).start()
        self.assertFalse(giltrace.mark("of no recording"))
        with giltrace.Recording(**self.how()) as two:
            self.start()
            one.mark("one")
            two.mark("two")
        self.assertEqual(two.result.marks, 1)
        self.assertEqual(two.stop(), two.result)
        self.assertEqual(giltrace.stop().marks, 0)
        self.assertEqual(one.stop().marks, 1)
        with self.assertRaises(giltrace.GiltraceError):
            one.start()


class Told(Case):
    """What giltrace is told when it is started."""

    def words(self, **options):
        self.start("about", **options)
        giltrace.stop()
        line, = [l for l in self.heard() if l.startswith("--control-fd=0 ")]
        os.unlink(os.path.join(self.dir, [f for f in os.listdir(self.dir)][0]))
        return line.split(" ")

    def test_options(self):
        common = ["--control-fd=0", "--output-dir=" + self.dir]
        me = "--pid=%d" % os.getpid()
        for options, words in (
                ({}, [me]), ({"pids": [3, 4]}, ["--pid=3,4"]), ({"pids": 5}, ["--pid=5"]),
                ({"duration": 1.5}, ["--duration=1.500000000", me]), ({"duration": None}, [me]),
                ({"follow": True, "paused": True}, ["--follow", "--paused", me]),
                ({"all_npu": True}, ["--all-npu"]),
                ({"all_python": True, "pids": [7]}, ["--all-python", "--pid=7"]),
                ({"options": ["--ring-size=64"]}, [me, "--ring-size=64"])):
            self.assertEqual(self.words(**options), common + words + ["--fake=about"])

    def test_folder(self):
        os.environ["GILTRACE_DATA_DIR"] = self.dir
        self.addCleanup(os.environ.pop, "GILTRACE_DATA_DIR")
        self.assertIn("--output-dir=" + self.dir, self.words(output_dir=None))
        was = os.getcwd()
        self.addCleanup(os.chdir, was)
        os.chdir(self.dir)
        self.assertIn("--output-dir=" + os.path.realpath(self.dir), self.words(output_dir="."))

    def test_wrong_options(self):
        for options in ({"duration": 0}, {"duration": -1}, {"duration": float("nan")},
                        {"pids": [0]}, {"pids": ["1"]}, {"timeout": 0}):
            with self.subTest(options), self.assertRaises(ValueError):
                self.start(**options)
        for options in ({"options": "-v"}, {"durations": 1}, {"pids": 1.5}):
            with self.subTest(options), self.assertRaises(TypeError):
                self.start(**options)
        self.assertIsNone(giltrace.recording())

    def test_commands(self):
        words = ", ".join(repr(word) for word in FAKE)
        odd = self.program("os.execv(%r, [%s] + sys.argv[1:])" % (FAKE[0], words),
                           "a giltrace with blanks")
        self.program("os.execvp(sys.argv[1], sys.argv[1:])", "through")
        os.symlink(odd, os.path.join(self.dir, "giltrace"))
        link = os.path.join(self.dir, "giltrace")
        path = os.environ["PATH"]
        self.addCleanup(os.environ.update, PATH=path)
        self.addCleanup(os.environ.pop, "GILTRACE_COMMAND", None)
        os.environ["PATH"] = self.dir + ":" + path
        for command, variable in ((odd, None), (link, None), ("through giltrace", None),
                                  ("giltrace", "/no/such"), ([odd], None), (None, odd),
                                  (None, "through giltrace"), (None, ""), (None, None)):
            with self.subTest(command=command, variable=variable):
                os.environ.pop("GILTRACE_COMMAND", None)
                if variable is not None:
                    os.environ["GILTRACE_COMMAND"] = variable
                self.start(command=command)
                self.assertTrue(giltrace.stop().ok)

    def test_not_found(self):
        with self.fails(giltrace.NotFound, "no program no-such-thing", "PATH", "GILTRACE_COMMAND"):
            self.start(command="no-such-thing -n giltrace")
        with self.fails(giltrace.NotFound, "/no/such/giltrace", "GILTRACE_COMMAND"):
            self.start(command="/no/such/giltrace")
        with self.fails(giltrace.NotFound):
            self.start(command=" ")

    def test_not_executable(self):
        path = os.path.join(self.dir, "giltrace")
        with open(path, "w") as f:
            f.write("#!/no/such/shell\n")
        with self.fails(giltrace.NotPermitted, path, "group", "sudo"):
            self.start(command=path)
        os.chmod(path, 0o755)
        with self.fails(giltrace.GiltraceError, path, "No such file"):
            self.start(command=path)
        with open(path, "w") as f:
            f.write("\0\1\2\3")
        with self.fails(giltrace.GiltraceError, path, "Exec format error"):
            self.start(command=path)


class Late(Case):
    """Started when giltrace has something to do already."""

    def test_talkative(self):
        """Nothing of giltrace's words blocks it; what does not fit is lost."""
        self.start("talks")
        messages = giltrace.stop().messages
        self.assertEqual(messages[:2], ["fake: starts", "fake: line 0"])
        self.assertLess(sum(map(len, messages)), 1 << 17)

    def test_two_starts(self):
        r = self.start()
        with self.assertRaisesRegex(giltrace.GiltraceError, "already"):
            self.start()
        self.assertIs(giltrace.recording(), r)
        self.assertTrue(giltrace.stop().ok)
        self.start()
        self.assertTrue(giltrace.stop().ok)

    def test_two_starts_at_once(self):
        def work():
            try:
                self.start()
                won.append(1)
            except giltrace.GiltraceError as err:
                lost.append(str(err))

        won, lost = [], []
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((len(won), len(lost)), (1, 3))
        self.assertTrue(all("already" in text for text in lost), lost)
        self.assertTrue(giltrace.stop().ok)

    def test_after_one_that_has_ended(self):
        """By itself, since its time was over; its marks that came later were dropped."""
        r = self.start("short", duration=1)
        until(lambda: not r.running, "it ends")
        self.assertIsNone(giltrace.recording())
        self.assertFalse(giltrace.mark("too late"))
        self.assertFalse(giltrace.pause())
        self.assertEqual(giltrace.status().state, "ended")
        self.start()
        self.assertTrue(r.result.ok)
        self.assertEqual(r.result.events, 12)
        self.assertIn("1 marks were dropped", r.result.messages[-1])
        self.assertTrue(giltrace.stop().ok)
