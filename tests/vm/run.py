#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py ci|all|PATTERN...: the attach tests on whatever runs here, for scripts/kernels.sh in a
machine of scripts/vmtest.sh, and as good anywhere else.

ci: what tells soonest whether giltrace works on a kernel, in one process; all: every file of
ATTACH and UNIT, each in a process of its own; a PATTERN: those of tests/e2e whose module.Class.name
matches it (test_modes.*). A line for each file; what failed, at its end. In /out (or $GT_OUT) lies
result.json, which tests/vm/table.py reads. A test that is skipped fails, unless SKIPS says why it may
be. --units: prints the names in UNIT. Environment: GT_BUILD_DIR, and what tests/e2e/harness.py names.
"""
import fnmatch
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import time
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
E2E = os.path.join(TESTS, "e2e")
OUT = os.environ.get("GT_OUT") or "/out"
LIMIT = 90 * float(os.environ.get("GT_SLOW") or 1)  # seconds for one process

CI = ["test_modes.*", "test_features.Features.test_it_is_*", "test_targets.OnlyTheTarget.test_two_*",
      "test_truth.GroundTruth.test_released_*"]

# What needs no compiler, no container engine, no notebook, and measures neither speed nor shares of time.
ATTACH = """all check cli clockset command control control_ends embed_c embed_children embed_faults
    embed_marks embed_python embed_starts ends fallbacks features flight follow list loss many marker modes
    names npu odd odd_ends probes pythons rights targets truth""".split()
# Those that look at a running kernel, at its machine, or at a live Python.
UNIT = """about attach before collect collect_pause emulated features gilscan insn libcsites pylayout
    pynames_live pytarget rights snapshot_live symres""".split()

# (pattern of the reason, why it is all the same here)
SKIPS = (
    (r"no CPython 3|no CPython 2\.7|no CPython found|no free-threaded|no two|one CPython only|"
     r"no libpython|a CPython of the other", "a userland has one Python"),
    (r"no CPython with (symbols|inlined)|no debug file", "as the distribution built it"),
    (r"(cc|gcc|clang|ld|objcopy|strip|patchelf|objdump|.*archive|.*linked anew).*", "no compiler"),
    (r"no sudo|no setcap|no Python that other users", "not in the userland"),
    (r"no (NumPy|PyTorch|torch|nbclient|ipykernel).*|no Python with", "not in the userland"),
    (r"no uprobe_multi on this kernel|without uprobe_multi", "the kernel has none"),
    (r"this kernel has all|this kernel is content", "it is about kernels that differ"),
    (r"the reader kept up", "by chance"),
    (r"no GIL in this build", "it is about others"),
    (r"no .*package|no dist", "not in the userland"),
    (r"this (kernel cannot suspend|machine does not suspend).*", "qemu's ARM machine, as a rule"),
)


class Result(unittest.TextTestResult):
    """Keeps, of each test, how it went and how long it took."""

    def __init__(self, *args):
        super().__init__(*args)
        self.kept, self.begun = [], {}

    def startTest(self, test):
        self.begun[test.id()] = time.monotonic()
        super().startTest(test)

    def keep(self, test, how, why=""):
        begun = self.begun.get(test.id())
        seconds = round(time.monotonic() - begun, 2) if begun else 0
        self.kept.append({"test": test.id(), "how": how, "why": why, "seconds": seconds})

    def addSuccess(self, test):
        super().addSuccess(test)
        self.keep(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.keep(test, "skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.keep(test, "failed", "%s: %s" % (err[0].__name__, err[1]))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.keep(test, "failed", "%s: %s: %s" % (subtest, err[0].__name__, err[1]))

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.keep(test, "failed", "unexpected success")


def each(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from each(item)
        else:
            yield item


def child(out, patterns):
    """Runs the tests that match, and leaves in a file how they went."""
    sys.path.insert(0, E2E)
    sys.argv = sys.argv[:1]
    os.chdir(E2E)
    suite = unittest.TestSuite()
    for name in sorted({p.split(".")[0] for p in patterns}):
        tests = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name))
        suite.addTests(t for t in each(tests)
                       if any(fnmatch.fnmatchcase(t.id(), p) for p in patterns))
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    with open(out, "w") as f:
        json.dump(result.kept, f)


def run(argv, log):
    """A process with a limit: its status, or None where it took too long."""
    env = dict(os.environ, GT_REQUIRE_BPF="1", PYTHONDONTWRITEBYTECODE="1",
               GT_SOURCE_DIR=os.path.dirname(TESTS))
    with open(log, "wb") as f:
        try:
            return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=f, stderr=f, env=env,
                                  timeout=LIMIT).returncode
        except subprocess.TimeoutExpired:
            return None


def tail(log, size=6000):
    with open(log, "rb") as f:
        return f.read()[-size:].decode(errors="replace")


def attach_tests(name, patterns):
    """[how each went] of a process that runs what matches."""
    log, out = "/tmp/%s.log" % name, "/tmp/%s.json" % name
    status = run([sys.executable, os.path.abspath(__file__), "--child", out] + patterns, log)
    if status == 0:
        with open(out) as f:
            kept = json.load(f)
        if kept:
            return kept, log
    why = "not done within %g s" % LIMIT if status is None else "no test" if status == 0 else \
        "status %d" % status
    return [{"test": name, "how": "failed", "why": why, "seconds": 0}], log


def unit_test(name):
    path, log = os.path.join(os.environ["GT_BUILD_DIR"], "tests", "test_" + name), "/tmp/u.log"
    begun = time.monotonic()
    status = run([path], log) if os.path.exists(path) else 127
    told = re.search(r"\[  PASSED  \] (\d+) test", tail(log)) if status in (0, 77) else None
    how = "passed" if status == 0 else "skipped" if status == 77 else "failed"
    kept = [{"test": "unit." + name, "how": how, "seconds": 0,
             "why": "" if status == 0 else "status %s" % status}] * max(int(told.group(1)) if told
                                                                        else 1, 1)
    kept[0] = dict(kept[0], seconds=round(time.monotonic() - begun, 2))
    return kept, log


def unexpected(test):
    return test["how"] == "failed" or test["how"] == "skipped" and not any(
        re.match(pattern, test["why"]) for pattern, _ in SKIPS)


def report(name, kept, log, seconds):
    bad = [t for t in kept if unexpected(t)]
    count = {how: sum(t["how"] == how for t in kept) for how in ("passed", "failed", "skipped")}
    print("%s %-16s %3d passed, %d failed, %d skipped, %.0f s" % (
        "FAILED" if bad else "ok    ", name, count["passed"], count["failed"], count["skipped"],
        seconds), flush=True)
    for t in bad:
        print("       %s %s: %s" % (t["how"], t["test"], t["why"][:1000]), flush=True)
    if bad:
        print("\n".join("       | " + line for line in tail(log).splitlines()), flush=True)


def about():
    """What this machine is, and what giltrace makes of it."""
    found = {"kernel": os.uname().release, "machine": os.uname().machine,
             "python": platform.python_version(), "libc": "-".join(platform.libc_ver()),
             "date": time.strftime("%Y-%m-%d", time.gmtime())}
    p = subprocess.run([os.path.join(os.environ["GT_BUILD_DIR"], "giltrace"), "--features",
                        "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        found["features"] = json.loads(p.stdout.decode())
    except ValueError:
        found["features"] = None
        print("giltrace --features --json: status %d: %s" % (p.returncode, p.stderr.decode()))
    return found


def main(words):
    begun, found, tests = time.monotonic(), about(), []
    found["asked"] = " ".join(words)
    if words == ["all"]:
        jobs = [(n, lambda n=n: attach_tests(n, ["test_%s.*" % n])) for n in ATTACH] + \
            [("unit." + n, lambda n=n: unit_test(n)) for n in UNIT]
    else:
        words = CI if words == ["ci"] else words
        jobs = [("attach", lambda: attach_tests("attach", words))]
    for name, job in jobs:
        since = time.monotonic()
        kept, log = job()
        report(name, kept, log, time.monotonic() - since)
        tests += kept
    found.update(tests=tests, seconds=round(time.monotonic() - begun),
                 unexpected=sum(map(unexpected, tests)))
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "result.json"), "w") as f:
        json.dump(found, f, indent=1)
    return 1 if found["unexpected"] or found["features"] is None else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    elif sys.argv[1:] == ["--units"]:
        print(*UNIT)
    else:
        sys.exit(main(sys.argv[1:] or ["ci"]))
