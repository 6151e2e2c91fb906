# SPDX-License-Identifier: Apache-2.0
"""
The Python package in programs that record themselves (workloads/pyrec.py): an example on each
CPython; on one, all ways to use it, by sudo, in torch's workers and ranks, in a notebook. What it
does with a giltrace that misbehaves is tested without any in tests/python.
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from embed import NOBODY, EmbedTest, marks, package  # noqa: E402
from test_embed_c import SUDOER  # noqa: E402
from test_npu import FULL, root_of  # noqa: E402

ROUNDS, STEPS = 100, 5  # of workloads/pyrec.py
DEBIAN = "/usr/bin/python3"  # has torch and the notebook, where there are any


def program():
    return shutil.copy(os.path.join(h.WORKLOADS, "pyrec.py"), h.scratch())


def environment(py_env=(), **more):
    drop = h.RANK_VARIABLES + ("SUDO_UID", "SUDO_GID", "SUDO_USER", "GILTRACE_DATA_DIR")
    env = {k: v for k, v in os.environ.items() if k not in drop}
    env.update(py_env, PYTHONPATH=package(), PYTHONDONTWRITEBYTECODE="1",
               GILTRACE_COMMAND=h.tool("giltrace"))
    env.update(more)
    return env


def run(command, **kwargs):
    """What a program says: (standard output, standard error), both text."""
    p = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=h.LIMIT, **kwargs)
    out, err = (text.decode(errors="replace") for text in (p.stdout, p.stderr))
    if p.returncode:
        raise AssertionError("%s: status %s: %s%s" % (command, p.returncode, out, err))
    return out, err


def has(module):
    """It is not imported here: torch takes seconds."""
    code = "import importlib.util as u, sys; sys.exit(u.find_spec(%r) is None)" % module
    return os.path.exists(DEBIAN) and subprocess.call([DEBIAN, "-c", code]) == 0


def needs(*modules):
    """Skips a test, and says so, where Debian's Python has not got that."""
    missing = [m for m in modules if not has(m)]
    if missing:
        h.say("MISSING: %s of %s, so what it does with the package is not tested" %
              (", ".join(missing), DEBIAN))
    return unittest.skipIf(missing, "no " + ", ".join(missing))


class PythonTest(EmbedTest):
    def setUp(self):
        super().setUp()
        self.dir = h.new_dir()

    def scenario(self, name, py=None, front=(), **env):
        """What it found. Nothing is to be said on standard error."""
        py = py or h.python()
        options = ["-W", "error", "-X", "faulthandler"]
        out, self.said = run(list(front) + py.command() + options + [program(), self.dir, name],
                             env=environment(py.env, **env))
        return json.loads(out.splitlines()[-1])

    def files(self):
        return sorted(os.path.join(self.dir, name) for name in os.listdir(self.dir))

    def good(self, result, names):
        """A result, whose file has these marks."""
        self.assertTrue(result["ok"], result)
        path, = result["files"]
        rec = h.Recording(path)
        self.check_file(rec)
        self.assertEqual((result["marks"], result["events"], result["lost"]),
                         (len(marks(rec)), rec.total(), rec.lost))
        self.assertEqual([m[0] for m in marks(rec)], names)
        return rec


class EachPython(PythonTest):
    def each_example(self, py):
        """Marks stand between the right events; the program's own names of threads are known."""
        found = self.scenario("example", py)
        self.assertEqual(self.said, "")
        rec = self.good(found["result"], ["step %d" % i for i in range(STEPS)])
        self.assertEqual(found["result"]["files"], self.files())
        self.assertEqual(rec.thread_names[found["tid"]], "trainer \u4e2d")
        releases = [e.ns for e in rec.releases(found["tid"]) if not e.forced]
        ends = [begin for begin, _, _ in found["steps"][1:]] + [rec.end.mono_ns]
        for (begin, end, good), until, (_, ns, tid) in zip(found["steps"], ends, marks(rec)):
            self.assertTrue(good)
            self.assertEqual(tid, found["tid"])
            # 3.6 has the time as a float, which is off by some ns.
            self.assertTrue(end - 50 <= ns <= until + 50, (end, ns, until))
            self.assertEqual(sum(begin <= r <= end for r in releases), ROUNDS)
            # A free-threaded build gives its GIL up for locks of its own, too.
            if not py.free_threaded:
                self.assertFalse([r for r in releases if end < r < ns - 50])


def here():
    """Not those in a root of their own: giltrace's libraries are not there. With a GIL."""
    return [p for p in h.chosen() if not p.root and (not p.free_threaded or p.env)]


h.each_python(EachPython, here)


class Around(PythonTest):
    """Ways to use it; where programs run, and as whom."""

    def test_ways(self):
        """start() and stop() twice, a with block, a decorator, the familiar functions."""
        found = self.scenario("ways")
        self.assertEqual(self.said, "")
        self.assertEqual(found["good"], [True, True])
        for result, name in zip(found["results"],
                                ("start 0", "start 1", "with", "decorator", "familiar")):
            self.good(result, [name])
        self.assertEqual(sorted(f for r in found["results"] for f in r["files"]), self.files())

    def test_npu(self):
        """All Pythons on the NPU is what the familiar functions record unless told otherwise."""
        command = h.tool("giltrace") + " --device-root="
        found = self.scenario("npu", GILTRACE_COMMAND=command + h.new_dir())
        self.assertEqual(found, {"good": [False, False], "files": []})
        self.assertRegex(self.said, "no GIL trace: .*(\n.*)*no Ascend NPU on this host")
        try:
            devices = root_of({"davinci0": FULL})
            os.close(os.open(os.path.join(devices, "davinci0"), os.O_RDWR))
        except OSError as err:
            self.skipTest("no device node can be made or opened here: %s" % err)
        found = self.scenario("npu", NPU=os.path.join(devices, "davinci0"),
                              GILTRACE_COMMAND=command + devices)
        self.assertEqual(found["good"], [True, True], self.said)
        self.assertEqual(found["files"], self.files())
        self.assertEqual([m[0] for m in marks(h.Recording(*self.files()))], ["on the NPU"])

    def test_without_rights(self):
        os.chown(self.dir, NOBODY, NOBODY)
        found = self.scenario("refused", front=["setpriv", "--reuid=65534", "--regid=65534",
                                                "--clear-groups", "--bounding-set=-all"])
        self.assertEqual((found["type"], found["status"]), ("NotPermitted", h.NO_BPF))
        for word in ("CAP_BPF", "sudo -n giltrace", "setcap", "docs/embedding.md"):
            self.assertIn(word, found["text"])
        self.assertEqual(self.files(), [])

    @unittest.skipUnless(shutil.which("sudo"), "no sudo")
    def test_sudo(self):
        """Nobody may run that one program, and only by the variable; the file is nobody's."""
        os.chown(self.dir, NOBODY, NOBODY)
        tool = h.tool("giltrace")
        found = self.scenario("brief", GILTRACE_COMMAND="sudo -n " + tool, front=[
            "unshare", "--mount", "sh", "-c", SUDOER, "sudoer", tool])
        rec = self.good(found, ["brief"])
        self.assertEqual(os.stat(rec.path).st_uid, NOBODY)

    @unittest.skipUnless(shutil.which("sudo"), "no sudo")
    def test_sudo_that_refuses(self):
        os.chown(self.dir, NOBODY, NOBODY)
        found = self.scenario("refused", GILTRACE_COMMAND="sudo -n " + h.tool("giltrace"), front=[
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
        self.assertEqual(found["type"], "NotPermitted")
        self.assertIn("password", found["text"])
        self.assertEqual(self.files(), [])


class Torch(PythonTest):
    @needs("torch")
    def test_loader(self):
        """In forked workers the recording is inert; in the main process it goes on."""
        out, said = run([DEBIAN, program(), self.dir, "loader"], env=environment())
        found = json.loads(out.splitlines()[-1])
        rec = self.good(found["result"], ["batch %d" % i for i in range(4)])
        workers = set()
        for marked, stopped, pids in found["seen"]:
            self.assertEqual((set(marked), set(stopped)), ({0}, {1}))
            workers |= set(pids)
        self.assertEqual(len(workers), 2)
        self.assertNotIn(found["pid"], workers)
        self.assertEqual(found["result"]["files"], self.files())
        self.assertNotIn("giltrace", said)
        self.assertTrue(rec.of(found["pid"]))

    @needs("torch")
    def test_ranks(self):
        """Each records itself; its file has its rank."""
        # Without -r and -t, PyTorch 1.13 stumbles over the enums of Python 3.11.
        run([DEBIAN, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone",
             "-r", "1", "-t", "1", "--log_dir", h.new_dir(), program(), self.dir, "rank"],
            env=environment(OMP_NUM_THREADS="1"))
        names = {}
        for path in self.files():
            rec = h.Recording(path)
            self.check_file(rec)
            (name, _, _), = marks(rec)
            names[os.path.basename(path).split("_rank_")[1]] = name
        self.assertEqual(names, {"0.gil": "rank 0", "1.gil": "rank 1"})


CELLS = (
    "import giltrace, os, threading\n"
    "r = giltrace.start(output_dir=%r)",
    "done, over = threading.Event(), threading.Event()\n"
    "def work():\n"
    "    assert giltrace.mark('in a cell')\n"
    "    done.set()\n"
    "    over.wait()\n"
    "t = threading.Thread(target=work, name='cell')\n"
    "t.start()\n"
    "assert done.wait(20)",
    "result = giltrace.stop()\n"
    "over.set()\n"
    "t.join()\n"
    "result.check().files")

NOTEBOOK = """
import nbclient, nbformat, sys
cells = [nbformat.v4.new_code_cell(text) for text in sys.argv[1:]]
notebook = nbformat.v4.new_notebook(cells=cells)
nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
print(notebook.cells[-1].outputs[0]["data"]["text/plain"])
"""


class Notebook(PythonTest):
    @needs("nbclient", "ipykernel")
    def test_cells(self):
        """Started in one cell, stopped in another."""
        run([DEBIAN, "-c", NOTEBOOK, CELLS[0] % self.dir, *CELLS[1:]],
            env=environment(HOME=h.new_dir()))
        path, = self.files()
        rec = h.Recording(path)
        self.check_file(rec)
        self.assertEqual([m[0] for m in marks(rec)], ["in a cell"])
        self.assertIn("cell", rec.thread_names.values())


if __name__ == "__main__":
    h.main()
