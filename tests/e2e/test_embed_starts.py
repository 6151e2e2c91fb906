# SPDX-License-Identifier: Apache-2.0
"""A program that records itself cannot, or does so in odd circumstances: it is told, and lives."""
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from embed import (  # noqa: E402
    C, MODULE, NOBODY, OBJECTS, UP, EmbedTest, Failed, about, call, each_face, executables, program,
    releases)
from test_rights import documented, python, with_file_capabilities  # noqa: E402

ROUNDS = 200
AS_NOBODY = ["setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups",
             "--bounding-set=-all"]

IN_TIME = r"\b1(\.0+)? ?s"
# Commands that are no giltrace, and what is said of them. Those that do not end have a second.
WRONG = (
    ("script that hangs", "exec sleep 1000", IN_TIME),
    ("script that will not end", "trap '' TERM INT HUP; while :; do sleep 1000; done", IN_TIME),
    ("script that hangs without its descriptors", "exec <&- >&- 2>&-; exec sleep 1000", None),
    ("script that says something else", "echo garbage >&0; echo 'cannot go on' >&2; exit 9",
     r"cannot go on"),
    ("script that never stops talking", "while :; do echo garbage >&0; done", None),
    ("script that never stops complaining", "while :; do echo 'no, no, no' >&2; done", None),
    ("script that is long in its complaints",
     "yes 'a long story' | head -c 10000000 >&2; echo 'the end' >&2; exit 1", None),
    ("script with another protocol",
     "printf 'ready protocol=99 version=99.0 processes=1 backend=x' >&0; exec sleep 1000", None),
    ("script that sends no text", "head -c 9000 /dev/zero >&0; exit 1", None),
    ("script that is killed", "kill -9 $$", r"(?i)kill|signal 9"))


class Wrong(EmbedTest):
    """What is started is no giltrace."""

    def refused(self, job, command, words=None, python_type=None, rc=None):
        """start() fails and says why; nothing is left."""
        before = job.do("resources()")
        err = self.fails(job, job.begin(command=command, timeout=1))
        if words:
            self.assertRegex(err.text, words)
        if job.face == C:
            self.assertIn(err.rc, [rc] if rc else range(-133, 0), err.text)
        elif python_type:
            self.assertIn(python_type, err.types)
        self.assertLess(len(err.text), 20000)
        after = job.do("resources()")
        for key in ("fds", "children", "threads"):
            self.assertEqual(after[key], before[key], key)
        self.assertEqual(job.files(), [])
        return err

    def recordable(self, job):
        """The failures have left nothing that is in the way."""
        job.start()
        self.assertTrue(job.stop()["ok"])

    @each_face()
    def test_no_such_program(self, face):
        job = self.job(face)
        folder = h.new_dir()
        for command in (os.path.join(folder, "giltrace"), "no-such-giltrace-anywhere",
                        "no-such-sudo -n giltrace"):
            with about(command):
                self.refused(job, command, re.escape(command.split()[0]), "NotFound", -2)
        self.recordable(job)

    @each_face()
    def test_found_by_the_environment(self, face):
        """$GILTRACE_COMMAND, and $PATH."""
        job = self.job(face)
        job.do("os.environ.update(GILTRACE_COMMAND='/no/such/program')")
        err = self.fails(job, job.begin())
        self.assertIn("/no/such/program", err.text)
        if face == C:  # getenv(3) sees what putenv(3) has been told
            self.assertEqual(err.rc, -2)
        path = os.path.dirname(job.giltrace) + ":" + os.environ["PATH"]
        job.do("os.environ.pop('GILTRACE_COMMAND')")
        job.do("os.environ.update(PATH=%r)" % path)
        job.start()
        self.assertEqual(len(job.giltraces()), 1)
        self.assertTrue(job.stop()["ok"])
        # A command with words of its own, which becomes giltrace.
        job.start(command="env FOO=bar giltrace")
        self.assertEqual(len(job.giltraces()), 1)
        self.assertTrue(job.stop()["ok"])

    @each_face()
    def test_not_executable(self, face):
        job = self.job(face)
        for command in (h.new_dir(), program("this is a text\n", 0o644),
                        program("\0\1\2\3"), program("#!/no/such/shell\n")):
            with about(command):
                self.refused(job, command, re.escape(command))
        self.recordable(job)

    @each_face()
    def test_another_program(self, face):
        job = self.job(face)
        for command in ("/bin/true", "/bin/false", "/bin/cat", "/bin/sh", "true -x giltrace"):
            with about(command):
                self.refused(job, command, re.escape(command.split()[0]))
        self.recordable(job)

    @each_face(OBJECTS, C)
    def test_odd_scripts(self, face):
        """All at once, in threads of one job: some take a second."""
        job = self.job(face)
        before = job.do("resources()")
        commands = [program("#!/bin/sh\n%s\n" % text) for _, text, _ in WRONG]
        results = job.call("together", *[
            call("tried", "Recording(output_dir=%r, command=%r, timeout=1).start()" % (
                job.dir, command)) for command in commands])
        for (name, _, words), (_, err) in zip(WRONG, results):
            with about(name):
                self.assertIsNotNone(err, "it started")
                self.assertRegex(err["text"], words or ".")
                self.assertLess(len(err["text"]), 20000)
        left = [pid for pid in executables() for command in commands if runs(pid, command)]
        self.assertEqual(left, [], "processes are left")
        after = job.do("resources()")
        for key in ("fds", "children", "threads"):
            self.assertEqual(after[key], before[key], key)
        self.assertLess(after["kib"], 200000)
        self.assertEqual(job.files(), [])
        self.recordable(job)

    @each_face()
    def test_it_says_ready_and_ends(self, face):
        """start() cannot know; stop() tells, and so does what is asked meanwhile."""
        text = ("#!/bin/sh\nprintf 'ready protocol=1 version=1.0 processes=1 backend=x' >&0\n"
                "echo 'I give up' >&2\nexit 3\n")
        job = self.job(face)
        try:
            job.start(command=program(text))
        except Failed as err:
            self.assertIn("I give up", err.text)
            return
        job.do("tried('r.mark(\"x\")')")
        job.do("tried('r.pause()')")
        told = job.stop()
        self.assertFalse(told["ok"], told)
        self.assertIn("I give up", "%s" % told)
        self.check_alive(job)

    @each_face()
    def test_what_a_failed_start_leaves_running(self, face):
        """A child of the wrong program holds its descriptors: nobody waits for that one."""
        where = os.path.join(h.new_dir(), "pid")
        text = "#!/bin/sh\nsleep 1000 &\necho $! >%s\necho 'I am none' >&2\nexit 1\n" % where
        job = self.job(face)
        err = self.fails(job, job.begin(command=program(text), timeout=2))
        self.assertIn("I am none", err.text)
        with open(where) as f:
            pid = int(f.read())
        if runs(pid, "1000"):
            os.kill(pid, signal.SIGKILL)
        self.recordable(job)


def runs(pid, word):
    """Is that word in a process's command line?"""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return word.encode() in f.read().split(b"\0")
    except OSError:
        return False


class Rights(EmbedTest):
    """A job of nobody's."""

    def job_of_nobody(self, face):
        job = self.job(face, py=python(), front=AS_NOBODY, cwd="/")
        os.chown(job.dir, NOBODY, NOBODY)
        return job

    @each_face()
    def test_none(self, face):
        job = self.job_of_nobody(face)
        err = self.fails(job, job.begin())
        self.assertIn("CAP_BPF", err.text)
        if face == C:
            self.assertEqual(err.rc, -13)
        else:
            self.assertIn("NotPermitted", err.types)
        self.assertEqual(job.do("resources()")["children"], [])
        self.assertEqual(job.files(), [])
        self.assertEqual(job.do("6 * 7"), 42)

    @each_face()
    def test_file_that_may_not_be_executed(self, face):
        job = self.job_of_nobody(face)
        path = shutil.copy(h.tool("giltrace"), h.new_dir())
        os.chmod(path, 0o700)
        err = self.fails(job, job.begin(command=path))
        self.assertIn(path, err.text)
        if face == C:
            self.assertEqual(err.rc, -13)
        else:
            self.assertIn("NotPermitted", err.types)

    @each_face()
    def test_capabilities_of_the_file(self, face):
        path = with_file_capabilities(documented() | (
            {"CAP_SYS_ADMIN"} if "multi" not in h.backends() else set()))
        if not path:
            self.skipTest("files cannot have capabilities here")
        job = self.job(face, py=python(), cwd="/", front=AS_NOBODY[:-1])
        os.chown(job.dir, NOBODY, NOBODY)
        job.start(command=path)
        done = job.call("rounds", ROUNDS)
        told = job.stop()
        self.assertTrue(told["ok"], told)
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(releases(rec, done), ROUNDS)
        self.assertEqual(os.stat(rec.path).st_uid, NOBODY)


class Places(EmbedTest):
    """Where nothing can be written."""

    def mount(self, *options):
        folder = h.new_dir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", folder],
                       check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
        return folder

    def refused(self, job, folder, words):
        """start() fails, and says where and why."""
        err = self.fails(job, job.begin(output_dir=folder))
        self.assertRegex(err.text, words)
        self.assertIn(folder, err.text)
        if job.face == C:
            self.assertEqual(err.rc, -5, err.text)  # EIO
        self.assertEqual(job.do("resources()")["children"], [])
        self.check_alive(job)

    @each_face()
    def test_no_folder(self, face):
        plain = program("a file")
        missing = os.path.join(h.new_dir(), "a", "b")
        read_only = self.mount("ro")
        job = self.job(face)
        for folder, words in ((missing, "does not exist"), (plain, "Not a directory"),
                              (read_only, "Read-only")):
            with about(folder):
                self.refused(job, folder, words)
        self.assertFalse(os.path.exists(os.path.dirname(missing)))
        made = os.path.join(h.new_dir(), "made")  # only its last part is missing
        job.start(output_dir=made)
        self.assertTrue(job.stop()["ok"])
        self.assertEqual(len(os.listdir(made)), 1)

    @each_face()
    def test_disk_that_is_full(self, face):
        folder = self.mount("size=64k")
        with open(os.path.join(folder, "filler"), "wb", 0) as f:
            try:
                while f.write(bytes(4096)):
                    pass
            except OSError:
                pass
        job = self.job(face)
        try:
            job.start(output_dir=folder)
        except Failed as err:
            self.assertIn("No space left", err.text)
            self.assertIn(folder, err.text)
            self.assertIn(err.rc, (None, -5))
        else:
            self.full_at_stop(job, job.stop())
        self.assertEqual(job.do("resources()")["children"], [])
        self.check_alive(job)

    def full_at_stop(self, job, told):
        self.assertFalse(told["ok"], told)
        self.assertEqual(told["status"], h.NO_OUTPUT)
        self.assertIn("No space left", told["error"])
        if job.face == C:
            self.assertEqual(told["rc"], -5)

    @each_face()
    def test_no_room_for_a_file(self, face):
        self.refused(self.job(face), self.mount("nr_inodes=1"), "No space left")

    @each_face()
    def test_disk_that_becomes_full(self, face):
        job = self.job(face)
        job.dir = self.mount("size=128k")
        job.start()
        first = job.call("rounds", ROUNDS)
        job.call("rounds", 30000)
        told = job.stop()
        self.full_at_stop(job, told)
        self.assertEqual(told["files"], job.files())
        rec = job.recording()
        self.check_begun(rec)
        self.assertEqual(releases(rec, first), ROUNDS)
        h.Trace([rec.path], h.LEFT_OUT if rec.problem else h.OK)
        self.check_alive(job)


class Twice(EmbedTest):
    @each_face()
    def test_stop_twice(self, face):
        job = self.job(face)
        if face == MODULE:
            self.assertIsNone(job.do("told_by_result(giltrace.stop())"))
        job.start()
        job.call("rounds", ROUNDS)
        first = job.stop()
        self.assertTrue(first["ok"], first)
        self.assertGreaterEqual(first["events"], 2 * ROUNDS)
        self.assertEqual(job.stop(), first)
        self.assertEqual(job.do("together('stop()', 'stop()')"), [first, first])
        self.assertEqual(len(job.files()), 1)

    @each_face()
    def test_two_stop_at_once(self, face):
        job = self.job(face)
        job.start()
        a, b = job.do("together('stop()', 'stop()')")
        self.assertEqual(a, b)
        self.assertTrue(a["ok"], a)
        self.check_file(job.recording())

    def test_start_twice(self):
        """The second is refused; the first goes on."""
        job = self.job(MODULE)
        job.start()
        err = self.fails(job, job.send("giltrace.start(output_dir=%r)" % job.dir))
        self.assertIn("already", err.text)
        done = job.call("rounds", ROUNDS)
        self.assertEqual(len(job.giltraces()), 1)
        self.assertTrue(job.stop()["ok"])
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(releases(rec, done), ROUNDS)

    def test_two_start_at_once(self):
        """One of them begins a recording."""
        job = self.job(MODULE)
        code = "tried(\"giltrace.start(output_dir=%r) and 1\")" % job.dir
        results = job.do("together(%r, %r)" % (code, code))
        errors = [err for _, err in results if err]
        self.assertEqual(len(errors), 1, results)
        self.assertIn("already", errors[0]["text"])
        self.assertEqual(len(job.giltraces()), 1)
        self.assertTrue(job.do("giltrace.stop().ok"))
        self.check_file(job.recording())

    @each_face(OBJECTS, C)
    def test_side_by_side(self, face):
        job = self.job(face)
        other = h.new_dir()
        job.start()
        job.do("second = Recording(output_dir=%r)" % other)
        job.do("second.start()")
        both = job.call("rounds", ROUNDS)
        self.assertTrue(job.do("second.stop()")["ok"])
        one = job.call("rounds", ROUNDS)
        self.assertTrue(job.stop()["ok"])
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual((releases(rec, both), releases(rec, one)), (ROUNDS, ROUNDS))
        name, = os.listdir(other)
        rec = h.Recording(os.path.join(other, name))
        self.check_file(rec)
        self.assertEqual((releases(rec, both), releases(rec, one)), (ROUNDS, 0))


class Circumstances(EmbedTest):
    """Jobs that are odd themselves."""

    def recorded(self, job, **options):
        """A recording from begin to end."""
        job.start(**options)
        done = job.call("rounds", ROUNDS)
        job.do("r.mark('in between')")
        told = job.stop()
        self.assertTrue(told["ok"], told)
        self.assertEqual((told["status"], told["files"]), (0, job.files()))
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(releases(rec, done), ROUNDS)

    @each_face()
    def test_no_standard_descriptors(self, face):
        job = self.job(face)
        job.do("[os.close(fd) for fd in range(3)]")
        self.recorded(job)

    @each_face()
    def test_children_are_not_waited_for(self, face):
        """SIGCHLD ignored: the kernel keeps no exit status."""
        job = self.job(face)
        job.do("signal.signal(signal.SIGCHLD, signal.SIG_IGN) and None")
        self.recorded(job)

    @each_face()
    def test_somebody_else_waits_for_all_children(self, face):
        code = ("def reap():\n"
                "    while True:\n"
                "        try:\n"
                "            os.waitpid(-1, 0)\n"
                "        except ChildProcessError:\n"
                "            time.sleep(0.001)\n"
                "threading.Thread(target=reap, daemon=True).start()\n")
        job = self.job(face)
        job.do(code)
        self.recorded(job)

    @each_face()
    def test_signals_that_interrupt(self, face):
        job = self.job(face)
        job.do("ticks = []")
        job.do("signal.signal(signal.SIGALRM, lambda *a: ticks.append(1)) and None")
        job.do("signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002) and None")
        job.start()
        job.do("r.pause()")
        job.do("r.resume()")
        job.do("r.mark('x')")
        told = job.stop()
        job.do("signal.setitimer(signal.ITIMER_REAL, 0) and None")
        self.assertTrue(told["ok"], told)
        self.assertGreaterEqual(job.do("len(ticks)"), 4)  # C: seen behind its calls
        self.check_file(job.recording())

    @each_face()
    def test_signals_that_are_blocked_or_ignored(self, face):
        """They are giltrace's all the same."""
        code = ("for s in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGUSR1):\n"
                "    signal.signal(s, signal.SIG_IGN)\n"
                "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32)) and None\n")
        job = self.job(face)
        job.do(code)
        job.start()
        job.tracer().kill(signal.SIGTERM)
        job.until_no_giltrace()
        self.assertTrue(job.stop()["ok"])
        self.check_file(job.recording())

    @each_face()
    def test_no_more_descriptors(self, face):
        """Each start that lacks some fails clearly and keeps none; with enough it works."""
        fill = ("spare = []\n"
                "try:\n"
                "    while True: spare.append(os.dup(0))\n"
                "except OSError: pass\n")
        job = self.job(face)
        before = job.do("resources()")["fds"]
        soft, hard = job.do("resource.getrlimit(resource.RLIMIT_NOFILE)")
        for more in range(10):
            # Those below are in use or filled.
            job.do("resource.setrlimit(resource.RLIMIT_NOFILE, (%d, %d))" % (UP + 2, hard))
            job.do(fill)
            job.do("resource.setrlimit(resource.RLIMIT_NOFILE, (%d, %d))" % (
                UP + 2 + more, hard))
            _, err = job.call("tried", "start(%r)" % job.dir)
            job.do("[os.close(fd) for fd in spare] and None")
            if not err:
                break
            self.assertIn("Too many open files", err["text"])
            self.assertEqual(job.do("resources()")["fds"], before)
        else:
            self.fail("it never starts")
        self.assertGreater(more, 0, "a start without a descriptor")
        job.do("resource.setrlimit(resource.RLIMIT_NOFILE, (%d, %d))" % (soft, hard))
        self.assertTrue(job.stop()["ok"])

    @each_face()
    def test_job_closes_all_descriptors(self, face):
        """As daemons do: the recording ends, well."""
        job = self.job(face)
        job.start()
        done = job.call("rounds", ROUNDS)
        job.do("os.closerange(3, %d)" % UP)
        job.until_no_giltrace()
        for code in ("r.mark('x')", "r.pause()"):
            self.check_refused(job, code)
        self.assertEqual(job.stop()["files"], job.files())
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(releases(rec, done), ROUNDS)
        self.assertEqual(job.do("resources()")["children"], [])

    @each_face()
    def test_folders(self, face):
        """Of any name, and from wherever the job is."""
        job = self.job(face)
        top = job.dir
        for name in ("a  b ", "two\nlines\n", "größe"):
            with about(repr(name)):
                job.do("os.chdir(%r)" % top)
                job.dir = os.path.join(top, name)
                job.start(output_dir=name)
                job.do("os.chdir('/')")
                told = job.stop()
                self.assertEqual([os.path.realpath(f) for f in told["files"]], job.files())

    @each_face()
    def test_sudo(self, face):
        """A command that runs giltrace as a child of its own."""
        if not shutil.which("sudo") or subprocess.call(["sudo", "-n", "true"]):
            h.say("MISSING: no sudo that root can use, so none is tested")
            self.skipTest("no sudo")
        job = self.job(face)
        job.start(command="sudo -n " + job.giltrace)
        done = job.call("rounds", ROUNDS)
        job.do("r.mark('x')")
        told = job.stop()
        self.assertEqual((told["ok"], told["marks"]), (True, 1), told)
        self.assertEqual(job.giltraces(), [])
        rec = job.recording()
        self.check_file(rec)
        self.assertEqual(releases(rec, done), ROUNDS)
        job.dir = h.new_dir()
        job.start(command="sudo -n " + job.giltrace)
        job.proc.kill()
        job.until_no_giltrace()
        self.check_file(job.recording(), (h.END_STOPPED, h.END_TARGET_EXIT))

    @each_face()
    def test_variables_for_the_loader_are_the_jobs(self, face):
        """A library that is preloaded into the job is not into giltrace."""
        job = self.job(face, env={"LD_PRELOAD": h.tool("tests/signals.so")})
        job.start()
        with open("/proc/%d/maps" % job.tracer().pid) as f:
            self.assertNotIn("signals.so", f.read())
        self.assertTrue(job.stop()["ok"])


if __name__ == "__main__":
    h.main()
