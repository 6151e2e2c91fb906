# SPDX-License-Identifier: Apache-2.0
"""libgiltrace.so in programs that record themselves, or others: a Python that calls it by ctypes
(workloads/selfrec.py), and the example in C. What it does with a giltrace that misbehaves is tested
without any in tests/unit/test_client*.c."""
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

MARK, PAUSED = 16, 17
ENDED = 3
NOBODY = 65534
# Becomes its arguments, as nobody, where sudo lets nobody execute one program as root.
SUDOER = """
set -e
mount -t tmpfs -o mode=0755 tmpfs /etc/sudoers.d
echo "nobody ALL=(root) NOPASSWD: $1" >/etc/sudoers.d/giltrace
chmod 0440 /etc/sudoers.d/giltrace
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""
CAPS = "cap_bpf,cap_perfmon,cap_checkpoint_restore,cap_sys_ptrace,cap_dac_read_search=ep"


def library():
    """Copied, since an unprivileged user may not reach the build folder."""
    path = os.path.join(h.scratch(), "libgiltrace.so.0")
    if not os.path.exists(path):
        shutil.copy(os.path.join(h.BUILD, "libgiltrace.so"), path)
        os.chmod(path, 0o755)
        shutil.copy(os.path.join(h.WORKLOADS, "selfrec.py"), h.scratch())
    return path


def gone(pid):
    """Has a process ended? Nobody need have waited for it."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(") ")[2][0] in "ZX"
    except OSError:
        return True


def environment(py, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("GILTRACE_")}
    env.update(py.env, GILTRACE_COMMAND=h.tool("giltrace"), PYTHONDONTWRITEBYTECODE="1")
    env.update(more)
    return env


class SelfRecorded(h.BpfTest):
    def process(self, scenario, *args, **kwargs):
        """A Python that plays a scenario; .folder is where its recordings go."""
        py = kwargs.pop("py", None) or h.python()
        folder = kwargs.pop("folder", None) or h.new_dir()
        lib = library()
        argv = kwargs.pop("front", []) + py.command() + [os.path.join(h.scratch(), "selfrec.py"), lib, folder, scenario]
        p = subprocess.Popen(argv + list(args), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=environment(py, **kwargs.pop("env", {})),
                             **kwargs)
        p.folder = folder
        self.addCleanup(lambda: (p.poll() is None and p.kill(), p.communicate()))
        return p

    def play(self, scenario, *args, **kwargs):
        """What the scenario has found."""
        p = self.process(scenario, *args, **kwargs)
        out, err = p.communicate(timeout=2 * h.LIMIT)
        self.assertEqual((p.returncode, err), (0, b""), out)
        self.folder = p.folder
        return json.loads(out.decode().splitlines()[-1])

    def files(self):
        return [h.Recording(os.path.join(self.folder, f)) for f in sorted(os.listdir(self.folder))]

    def marks(self, rec):
        """Names and times, in the order of the latter."""
        found = [(e.mono_ns, bytes(e.name).decode(), e.tid) for e in rec.file.events
                 if e.kind == MARK]
        return sorted(found)

    def assert_good_stop(self, stop):
        self.assertEqual((stop["result"], stop["status"], stop["lost"], stop["state"]),
                         (0, h.OK, 0, ENDED), stop)

    def test_steps(self):
        """Marks lie between the right events, to the event; what is paused is not there."""
        found = self.play("steps")
        rec, = self.files()
        self.assertEqual(found["file"], rec.path)
        self.assertIsNone(rec.problem)
        self.assertEqual(found["states"], [2, 1, 2, 1, 2])
        marks = self.marks(rec)
        self.assertEqual([(name, tid) for _, name, tid in marks],
                         [("%s %d" % (w, i), found["pid"])
                          for i in range(4) for w in ("before", "after")])
        times = [m[0] for m in marks]
        for i, (begin, end) in enumerate(found["marks"]):
            self.assertLessEqual(begin, times[2 * i] + 1000)  # it was read as a float
            self.assertLessEqual(times[2 * i + 1], end + 1000)
            inside = rec.between(times[2 * i], times[2 * i + 1], found["pid"])
            for kind in (h.ACQUIRE, h.RELEASE):
                self.assertEqual(sum(1 for e in inside if e.kind == kind), 100 + i, i)
        self.assertLess(rec.count(h.ACQUIRE), 500)
        # The last pause ends with the recording.
        pauses = sorted((e.begin_mono_ns, e.mono_ns) for e in rec.file.events if e.kind == PAUSED)
        self.assertEqual(len(pauses), 3)
        self.assertTrue(pauses[0][1] <= times[0] and times[3] <= pauses[1][0] and
                        pauses[1][1] <= times[4] and times[7] <= pauses[2][0], (pauses, times))

        first, second = found["stops"]
        self.assert_good_stop(first)
        self.assertEqual(first, second)
        self.assertEqual((first["events"], first["lost"], first["marks"], first["processes"]),
                         (rec.total(), 0, 8, 1))
        self.assertEqual(first["bytes"], os.path.getsize(rec.path))
        paused = sum(end - begin for begin, end in pauses)
        self.assertLess(abs(first["paused_ns"] - paused), first["elapsed_ns"] / 10)
        self.assertGreater(first["elapsed_ns"], first["paused_ns"])
        self.assertEqual(found["stats"]["events"], first["events"])
        self.assertEqual(found["late"][:2], [-errno.EPIPE, -errno.EPIPE])
        self.assertEqual(found["late"][2], first)
        self.assertIn("giltrace: recording 1 process", found["messages"])

        before, during, after = found["left"]
        self.assertEqual(before, after)
        self.assertEqual(len(during["descriptors"]), len(before["descriptors"]) + 2)
        self.assertEqual((during["threads"], during["handlers"]),
                         (before["threads"], before["handlers"]))

    def test_twice(self):
        """Two recordings of a process at once, and one after the other."""
        found = self.play("twice")
        for stop in found["stops"]:
            self.assert_good_stop(stop)
        a, b, c = (h.Recording(f) for f in found["files"])
        self.assertEqual([[m[1] for m in self.marks(r)] for r in (a, b, c)],
                         [["both"], ["both", "one"], []])
        for rec in (a, b, c):
            self.assertGreaterEqual(rec.count(h.ACQUIRE), 100)
            self.assert_sound(rec)

    def test_fork(self):
        """A forked child does not end the recording, mark it or hold it up."""
        found = self.play("fork")
        self.assertEqual(found["child"], [-errno.ECHILD] * 4)
        self.assertEqual(found["status"], 0)
        self.assert_good_stop(found["stop"])
        rec, = self.files()
        self.assert_sound(rec)
        self.assertEqual([m[1] for m in self.marks(rec)], ["forked"])
        self.assertEqual(rec.tids(), {found["pid"]})

    def test_threads(self):
        found = self.play("threads")
        self.assertEqual(found["wrong"], [])
        self.assertEqual(len(found["stops"]), 8)
        for stop in found["stops"]:
            self.assert_good_stop(stop)
            self.assertEqual(stop["marks"], found["marks"])
        rec, = self.files()
        self.assertIsNone(rec.problem)
        marks = self.marks(rec)
        self.assertEqual(sorted(m[1] for m in marks),
                         sorted("%d.%d" % (i, k) for i in range(8) for k in range(25)))
        of = {name.split(".")[0]: tid for _, name, tid in marks}
        self.assertEqual(len(set(of.values())), 8)
        if all(found["tids"]):  # 3.8
            self.assertEqual([of[str(i)] for i in range(8)], found["tids"])

    def test_tracer_killed(self):
        """The job goes on, stop() tells, the file is good up to then, and another can begin."""
        found = self.play("tracer_killed")
        self.assertEqual(found["mark"], -errno.EPIPE)
        stop = found["stop"]
        self.assertEqual((stop["result"], stop["status"], stop["state"]), (-errno.EIO, -1, ENDED))
        self.assertIn("killed by signal 9: what was recorded until then", stop["error"])
        self.assertEqual(dict(found["stats"], result=None, error=None),
                         dict(stop, result=None, error=None))
        rec = h.Recording(found["file"])
        self.assertIsNone(rec.end)
        self.assertGreater(rec.count(h.ACQUIRE), 100)
        self.assert_good_stop(found["again"])
        self.assertEqual(found["children"], [])

    def test_impatient(self):
        """A start that gives up leaves nothing behind, in whatever giltrace was at then."""
        found = self.play("impatient")
        for result, error in found["results"]:
            if result:
                self.assertEqual(result, -errno.ETIMEDOUT, error)
                self.assertIn("was not ready within", error)
        self.assertEqual(found["results"][0][0], -errno.ETIMEDOUT)
        self.assert_good_stop(found["stop"])
        before, between, after = found["left"]
        self.assertEqual(before, between)
        self.assertEqual(before, after)

    def ends_without_stop(self, p, status):
        """The giltrace of a program that has gone finishes its file."""
        pid = int(p.stdout.readline())
        if status is not None:
            self.assertEqual(p.wait(h.LIMIT), status)
        h.until(lambda: gone(pid), "giltrace ends")
        self.folder = p.folder
        rec, = self.files()
        self.assertIsNotNone(rec.end)
        self.assert_sound(rec)
        self.assertEqual([m[1] for m in self.marks(rec)], ["before"])
        self.assertGreaterEqual(rec.count(h.ACQUIRE), 100)

    def test_job_killed(self):
        self.ends_without_stop(self.process("job_killed"), -signal.SIGKILL)

    def test_executes(self):
        """The program that it becomes runs on: it is not what giltrace has waited for."""
        p = self.process("executes")
        self.ends_without_stop(p, None)
        self.assertIsNone(p.poll())
        p.stdin.close()
        self.assertEqual(p.wait(h.LIMIT), 0)
        p.stdin = None

    # ---- rights ----

    def unprivileged(self, *args, **kwargs):
        """The scenario "refused" of a user who has no rights, in a folder of that user's."""
        py = next((p for p in h.pythons() if not p.path.startswith("/root/")), None)
        if not py:
            self.skipTest("no Python that other users can execute")
        folder = h.new_dir()
        os.chown(folder, NOBODY, NOBODY)

        def drop():
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        kwargs.setdefault("preexec_fn", drop)
        return self.play("refused", *args, py=py, folder=folder, cwd="/", **kwargs)

    def test_without_rights(self):
        found = self.unprivileged()
        self.assertEqual((found["result"], found["null"], found["children"]),
                         (-errno.EACCES, True, []))
        self.assertRegex(found["error"], "(?i)cap_")
        self.assertEqual(os.listdir(self.folder), [])

    def test_with_capabilities(self):
        """The program's rights are enough, this process needs none."""
        able = shutil.copy(h.tool("giltrace"), h.new_dir())
        if not shutil.which("setcap") or subprocess.call(["setcap", CAPS, able]):
            self.skipTest("no setcap, or not on this file system")
        found = self.unprivileged(able)
        self.assertEqual(found["result"], 0, found["error"])
        self.assert_good_stop(found["stop"])
        self.assertEqual(os.stat(found["file"]).st_uid, NOBODY)

    @unittest.skipUnless(shutil.which("sudo"), "no sudo")
    def test_sudo(self):
        """Through sudo, which closes what is above 2; and where it wants a password."""
        giltrace = h.tool("giltrace")
        found = self.unprivileged("sudo -n " + giltrace)
        self.assertEqual((found["result"], found["children"]), (-errno.EACCES, []))
        self.assertRegex(found["error"], "sudo did not start .*giltrace, status 1: sudo: .*password")
        found = self.unprivileged("sudo -n " + giltrace, preexec_fn=None, front=[
            "unshare", "--mount", "sh", "-c", SUDOER, "sudoer", giltrace])
        self.assertEqual(found["result"], 0, found["error"])
        self.assert_good_stop(found["stop"])
        self.assertEqual(found["children"], [])
        self.assertEqual(os.stat(found["file"]).st_uid, NOBODY)


class Example(h.BpfTest):
    """docs/examples/embed.c, as the build has made it."""

    def test_example(self):
        with h.Workload(h.python()) as w:
            w.start_workers(stat=2)
            w.send("run", limit=100000)
            w.answer()
            folder = h.new_dir()
            p = subprocess.run([os.path.join(h.BUILD, "tests", "embed"), str(w.pid), "3", folder],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=h.LIMIT,
                               env=dict(os.environ, GILTRACE_COMMAND=h.tool("giltrace")))
            w.do("join")
        self.assertEqual((p.returncode, p.stderr), (0, b""))
        numbers, path = p.stdout.decode().splitlines()
        rec = h.Recording(path)
        self.assertEqual(numbers, "%d events, 0 lost, 3 marks" % rec.total())
        self.assertEqual([bytes(e.name).decode() for e in rec.file.events if e.kind == MARK],
                         ["step 0", "step 1", "step 2"])
        self.assertGreater(rec.total(), 1000)
        self.assert_sound(rec)

    def test_example_without_giltrace(self):
        """The work goes on without a trace."""
        p = subprocess.run([os.path.join(h.BUILD, "tests", "embed"), str(os.getpid()), "2"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=h.LIMIT,
                           env=dict(os.environ, GILTRACE_COMMAND="/no/such/giltrace"))
        self.assertEqual((p.returncode, p.stdout), (1, b""))
        self.assertEqual(p.stderr, b"no GIL trace: there is no /no/such/giltrace, or what it needs "
                                   b"to run is missing\n")


if __name__ == "__main__":
    h.main()
