# SPDX-License-Identifier: Apache-2.0
"""
The Python package without BPF: the cases case_*.py, on each CPython that there is, beside a fake
giltrace, with all warnings as errors.

    test_package.py [NAME...]    cases to run, as unittest names them: case_talk.Talk.test_threads
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
    names = names or sorted(os.path.basename(path)[:-3]
                            for path in glob.glob(os.path.join(HERE, "case_*.py")))
    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for label, bad, said in pool.map(lambda p: run(p, folder, names), chosen()):
            failed |= bad
            print("---- %s: %s\n%s" % (label, "FAILED" if bad else "passed", said.strip()))
            sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
