# SPDX-License-Identifier: Apache-2.0
"""Where things lie, statuses, scratch folders; what all parts of the harness use."""
import atexit
import functools
import importlib.util
import os
import select
import shutil
import sys
import tempfile
import time


HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
BUILD = os.path.abspath(os.environ.get("GT_BUILD_DIR") or os.path.join(TESTS, "..", "build"))
WORKLOADS = os.path.join(HERE, "workloads")
SLOW = float(os.environ.get("GT_SLOW") or 1)
LIMIT = 60 * SLOW  # seconds for anything that ought to take far less

# Exit statuses of giltrace and gil2trace, as documented.
OK, FAILED, USAGE, NO_TARGET, NOT_PYTHON, NO_BPF, LOSSES, NO_OUTPUT = range(8)
LEFT_OUT = 3  # gil2trace


def say(text):
    sys.stderr.write("e2e: %s\n" % text)
    sys.stderr.flush()


def load(name):
    """A module in tests/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(TESTS, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.lru_cache(None)
def scratch():
    """A folder for this run; others may pass through, so that tests can drop their privileges."""
    path = tempfile.mkdtemp(prefix="gt-e2e-")
    os.chmod(path, 0o755)
    atexit.register(shutil.rmtree, path, True)
    return path


def new_dir():
    path = tempfile.mkdtemp(dir=scratch())
    os.chmod(path, 0o755)
    return path


@functools.lru_cache(None)
def tool(name):
    """Something built; copied, since an unprivileged user may not reach the build folder."""
    path = os.path.join(BUILD, name)
    if not os.access(path, os.X_OK):
        raise AssertionError("%s is not there: build first, or set GT_BUILD_DIR" % path)
    copy = os.path.join(scratch(), os.path.basename(name))
    shutil.copy(path, copy)
    os.chmod(copy, 0o755)
    return copy


def until(condition, what, limit=60):
    """Looks at a condition that nobody announces until it is true; returns its value."""
    end = time.monotonic() + limit * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %d s: %s" % (limit * SLOW, what))
        select.select([], [], [], 0.002)
