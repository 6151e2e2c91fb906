# SPDX-License-Identifier: Apache-2.0
"""
The worked cases of docs/cases.md: what it says of each holds in a run. The thresholds are far from
the figures there, as the machine may be busy.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from common import LIMIT, TESTS, new_dir, tool  # noqa: E402
from recorder import giltrace  # noqa: E402

SECONDS = "2"


def python_with(*modules):
    """A Python of the machine that has these, or None."""
    for python in ("/usr/bin/python3", "python3"):
        try:
            if subprocess.call([python, "-c", "import " + ",".join(modules or ("sys",))],
                               stderr=subprocess.DEVNULL, timeout=LIMIT) == 0:
                return python
        except OSError:
            pass
    return None


def run_case(python, program, *args):
    """Runs a case under giltrace: the processes of its summary, the one with the command first."""
    where = new_dir()
    status, out, err = giltrace("--no-summary", "--follow", "-o", where, "--", python,
                                os.path.join(TESTS, "..", "docs", "cases", program), SECONDS, *args)
    assert status == 0, out + err
    text = subprocess.run([tool("gil2trace"), "-q", "--summary=json", where], check=True,
                          stdout=subprocess.PIPE, timeout=LIMIT).stdout
    processes = json.loads(text)["processes"]
    return sorted(processes, key=lambda p: p["pid"])


def thread(process, name):
    found = [t for t in process["threads"] if t["name"].startswith(name)]
    assert len(found) == 1, (name, [t["name"] for t in process["threads"]])
    return found[0]


def share(process, name, what):
    t = thread(process, name)
    return t[what + "_ns"] / t["observed_ns"]


class Cases(h.BpfTest):
    def test_threads(self):
        """The convoy: who serves waits nearly always, for those who compute."""
        p = run_case(python_with(), "threads.py")[0]
        self.assertGreater(share(p, "serve", "wait"), 0.7)
        self.assertLess(share(p, "serve", "hold"), 0.05)
        computing = sum(thread(p, "compute-%d" % i)["hold_ns"] for i in range(4))
        self.assertGreater(computing, 0.7 * (p["end_ns"] - p["start_ns"]))

    def test_switch_interval(self):
        """A shorter switch interval makes each wait of the one that serves shorter."""
        usual = thread(run_case(python_with(), "threads.py")[0], "serve")
        short = thread(run_case(python_with(), "threads.py", "0.0005")[0], "serve")
        self.assertLess(short["waits"]["median_ns"], usual["waits"]["median_ns"])
        self.assertGreater(short["takes"], usual["takes"])

    def test_processes(self):
        p = run_case(python_with(), "processes.py")[0]
        self.assertLess(share(p, "serve", "wait"), 0.05)

    def test_long_hold(self):
        p = run_case(python_with(), "longhold.py")[0]
        sorter = thread(p, "sorter")
        self.assertGreater(sorter["holds"]["max_ns"], 50000000)
        pair = max((x for x in p["pairs"] if x["victim"] == thread(p, "ticker")["tid"]),
                   key=lambda x: x["ns"])
        self.assertEqual(pair["blocker"], sorter["tid"])

    def test_asyncio(self):
        busy = run_case(python_with(), "asyncio_busy.py")[0]
        alone = run_case(python_with(), "asyncio_busy.py", "alone")[0]
        self.assertGreater(share(busy, "MainThread", "wait"), 0.3)
        self.assertEqual(alone["wait_ns"], 0)

    def test_numpy(self):
        python = python_with("numpy")
        if not python:
            self.skipTest("no Python with NumPy: python3-numpy")
        large = run_case(python, "numpy_threads.py")[0]
        small = run_case(python, "numpy_threads.py", "8")[0]
        for i in range(2):
            self.assertLess(share(large, "numpy-%d" % i, "wait"), 0.2)
        self.assertGreater(small["wait_ns"], 2 * large["wait_ns"])

    def test_dataloader(self):
        python = python_with("torch")
        if not python:
            self.skipTest("no Python with PyTorch: python3-torch")
        plain = run_case(python, "dataloader.py", "2")
        self.assertGreaterEqual(len(plain), 3)
        busy = run_case(python, "dataloader.py", "2", "decode")[0]
        self.assertGreater(share(busy, "MainThread", "wait"), share(plain[0], "MainThread", "wait"))


if __name__ == "__main__":
    h.main()
