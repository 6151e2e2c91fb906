# SPDX-License-Identifier: Apache-2.0
"""
The Python package without BPF: the cases case_*.py beside a fake giltrace, with all warnings as
errors. All of them on the oldest CPython that there is, the newest, and /usr/bin/python3; a few on
the others. With GT_ALL_PYTHONS=1: all on each.

    test_package.py [NAME...]    cases to run, as unittest names them: case_talk.Talk.test_threads;
                                 on each CPython
"""
import concurrent.futures
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.dont_write_bytecode = True

from pythons import chosen  # noqa: E402
from common import new_dir  # noqa: E402

LIMIT = 240
FEW = ["case_talk.Talk.test_a_recording", "case_talk.Talk.test_threads",
       "case_life.Fork.test_inert_in_a_child"]


def wholly():
    """Those that run all cases."""
    pythons = chosen()
    if os.environ.get("GT_ALL_PYTHONS") == "1":
        return pythons
    usual = os.path.realpath("/usr/bin/python3")
    return [pythons[0], pythons[-1]] + [p for p in pythons if p.path == usual]


def run(python, folder, names):
    """(label, failed, what was said)"""
    options = ["-W", "error"] + (["-X", "dev"] if python.version >= (3, 7) else [])
    command = python.command() + options + ["-B", "-m", "unittest", "-q"] + names
    env = dict(os.environ, **python.env)
    env.update(PYTHONPATH=folder, PYTHONDONTWRITEBYTECODE="1", TMPDIR=folder)
    env.pop("GILTRACE_COMMAND", None)
    env.pop("GILTRACE_DATA_DIR", None)
    p = subprocess.run(command, cwd=folder if not python.root else None, env=env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=LIMIT)
    return python.label, p.returncode != 0, p.stdout.decode(errors="replace")


def main(names):
    folder = new_dir()  # the same path inside and outside of what python.command() enters
    shutil.copytree(os.path.join(TOP, "src", "python", "giltrace"),
                    os.path.join(folder, "giltrace"))
    for path in glob.glob(os.path.join(HERE, "*.py")):
        shutil.copy(path, folder)
    everything = sorted(os.path.basename(path)[:-3]
                        for path in glob.glob(os.path.join(HERE, "case_*.py")))
    whole = wholly()

    def task(python):
        return run(python, folder, names or (everything if python in whole else FEW))

    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for label, bad, said in pool.map(task, chosen()):
            failed |= bad
            print("---- %s: %s\n%s" % (label, "FAILED" if bad else "passed", said.strip()))
            sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
