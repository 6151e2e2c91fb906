# SPDX-License-Identifier: Apache-2.0
"""How the Python package is shipped: the wheel that pip makes of it, its version, its stubs."""
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = os.path.join(TOP, "src", "python")

# mypy takes the package's own modules, which have no annotations, for stubs: not of interest.
MYPY = "[mypy]\n[mypy-giltrace.*]\nignore_errors = True\n"
PRIVATE = "giltrace\\._.*\n"

# A program that uses all that there is, as its author's mypy sees it.
USER = """
from typing import List, Optional
import giltrace
from giltrace.gil_trace_record import gil_trace_record_start, gil_trace_record_stop

r: giltrace.Recording = giltrace.start(output_dir="x", duration=1, options=["-v"],
                                       command=["sudo", "giltrace"])
ok: bool = giltrace.mark("x") and giltrace.pause() and giltrace.resume()
result: Optional[giltrace.Result] = giltrace.stop()
if result is not None:
    files: List[str] = result.check().files
    status: Optional[int] = result.status
with giltrace.record([1, 2], paused=True) as q:
    s: Optional[giltrace.Status] = q.status()
with giltrace.Recording(3, follow=True) as q:
    running: bool = q.running

@giltrace.record
def f(a: int) -> str:
    return str(a)

@giltrace.record(output_dir="x")
def g(a: int) -> int:
    return a

x: str = f(1)
y: int = g(1)
z: bool = gil_trace_record_start([1], 3) and gil_trace_record_stop()
try:
    giltrace.start(all_npu=True)
except giltrace.NotPermitted as err:
    status = err.status
"""

WRONG = (("giltrace.start(durations=1)", "durations"), ("giltrace.start(pids='x')", "pids|str"),
         ("giltrace.stop().files", "None"), ("giltrace.mark()", "name"),
         ("a: int = giltrace.mark('x').real + giltrace.start()", "Recording"))


def output(command, **kwargs):
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                       **kwargs)
    return p.returncode, p.stdout.decode(errors="replace")


class Shipped(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)

    def imported(self, path):
        """Where the package comes from, if it can be had there alone."""
        status, said = output([sys.executable, "-S", "-B", "-c",
                               "import giltrace.gil_trace_record; print(giltrace.__file__)"],
                              env=dict(os.environ, PYTHONPATH=path), cwd=self.dir)
        self.assertEqual(status, 0, said)
        return said.strip()

    def test_version(self):
        """It is the project's."""
        with open(os.path.join(TOP, "CMakeLists.txt")) as f:
            project = re.search(r"project\(giltrace VERSION (\S+)", f.read()).group(1)
        with open(os.path.join(SOURCE, "giltrace", "__init__.py")) as f:
            tree = ast.parse(f.read())
        version, = [node.value for node in tree.body if isinstance(node, ast.Assign) and
                    node.targets[0].id == "__version__"]
        self.assertEqual(ast.literal_eval(version), project)

    def test_wheel(self):
        sys.path.insert(0, os.path.join(SOURCE, "backend"))
        self.addCleanup(sys.path.pop, 0)
        import giltrace_wheel
        path = os.path.join(self.dir, giltrace_wheel.build_wheel(self.dir))
        with zipfile.ZipFile(path) as z:
            names = z.namelist()
            records = [n for n in names if n.endswith("/RECORD")]
            told = z.read(records[0]).decode().splitlines()
        self.assertEqual(sorted(line.split(",")[0] for line in told), sorted(names))
        wanted = {"giltrace/" + n for n in os.listdir(os.path.join(SOURCE, "giltrace"))
                  if n != "__pycache__"}
        self.assertEqual({n for n in names if n.startswith("giltrace/")}, wanted)
        self.assertTrue(self.imported(path).startswith(path))

    def test_pip(self):
        """Without a network, without setuptools."""
        status, said = output([sys.executable, "-m", "pip", "--version"])
        if status or int(re.search(r"pip (\d+)", said).group(1)) < 20:
            self.skipTest("no pip, or one that is older than 20: " + said.strip())
        source = shutil.copytree(SOURCE, os.path.join(self.dir, "source"))  # pip may write there
        target = os.path.join(self.dir, "target")
        status, said = output([sys.executable, "-m", "pip", "install", "--no-index", "--target",
                               target, source], env=dict(os.environ, PIP_NO_CACHE_DIR="1"))
        self.assertEqual(status, 0, said)
        self.assertTrue(self.imported(target).startswith(target))

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def mypy(self, *command):
        return output(list(command), cwd=self.dir,
                      env=dict(os.environ, MYPYPATH=SOURCE, PYTHONPATH=SOURCE,
                               PYTHONDONTWRITEBYTECODE="1"))

    @unittest.skipUnless(shutil.which("mypy"), "no mypy")
    def test_types(self):
        status, said = self.mypy(
            "mypy", "--strict", self.write("user.py", USER),
            os.path.join(SOURCE, "giltrace", "__init__.pyi"),
            os.path.join(SOURCE, "giltrace", "gil_trace_record.pyi"))
        self.assertEqual(status, 0, said)
        lines = ["import giltrace"] + [code for code, _ in WRONG]
        status, said = self.mypy("mypy", "--strict", self.write("wrong.py", "\n".join(lines)))
        self.assertEqual(status, 1, said)
        for i, (code, words) in enumerate(WRONG):
            self.assertRegex(said, r"wrong.py:%d: error: .*(%s)" % (i + 2, words), code)

    @unittest.skipUnless(shutil.which("stubtest"), "no stubtest")
    def test_stubs(self):
        """They say what the package is."""
        status, said = self.mypy("stubtest", "giltrace",
                                 "--mypy-config-file", self.write("mypy.ini", MYPY),
                                 "--allowlist", self.write("allowed", PRIVATE))
        self.assertEqual(status, 0, said)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
