# SPDX-License-Identifier: Apache-2.0
"""What the attach tests share: the CPythons of this machine, a process to trace, a recorder, a
recording and its rules. Standard library only, Python 3.6 and newer.

Environment:
  GT_BUILD_DIR      where giltrace and gil2trace lie; build/ at the top of the source otherwise
  GT_REQUIRE_BPF    1: a test that cannot attach fails instead of being skipped
  GT_EXTRA_PYTHONS  more interpreters, separated by colons
  GT_PYTHONS_DIR    where scripts/pythons.sh has put others
  GT_ALL_PYTHONS    1: all of these in every test, not one of each kind
  GT_SOAK           1: test_unharmed.py and test_exact.py at full length
  GT_SLOW           a factor for the times after which the tests give something up
  GT_WRITE_DOCS     1: test_matrix.py writes its table to docs/pythons.md

Nothing here waits by sleeping for a guessed time: processes tell over pipes what they have done,
and where the kernel has no such word (a thread has blocked, a probe has gone), the condition
itself is looked at again and again up to a limit.
"""
import bisect
import functools
import itertools
import os
import sys
import unittest

sys.dont_write_bytecode = True  # before the parts are imported

from common import *  # noqa: E402,F401,F403
from common import NO_BPF, new_dir, say, tool  # noqa: E402
from pythons import *  # noqa: E402,F401,F403
from pythons import python  # noqa: E402
from recorder import *  # noqa: E402,F401,F403
from recorder import giltrace  # noqa: E402
from recording import *  # noqa: E402,F401,F403
from recording import ACQUIRE, RELEASE  # noqa: E402
from workload import *  # noqa: E402,F401,F403
from workload import Workload  # noqa: E402


def main():
    """What each test file does when it is run: status 77, as ctest wants it, if all was skipped."""
    result = unittest.main(module="__main__", verbosity=2, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.skipped and result.testsRun <= len(result.skipped) else 0)


@functools.lru_cache(None)
def why_no_bpf():
    """Why attaching does not work here, or None: tried, as root, with the recorder itself."""
    if os.geteuid() != 0:
        return "not root"
    with Workload(python()) as w:
        status, out, err = giltrace("-p", w.pid, "-d", "0.05", "-o", new_dir())
    return (out + err).strip() if status == NO_BPF else None


class BpfTest(unittest.TestCase):
    """A test that attaches: skipped with the reason where that cannot work."""

    longMessage = True
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        tool("giltrace"), tool("gil2trace")
        why = why_no_bpf()
        if why and os.environ.get("GT_REQUIRE_BPF") == "1":
            raise AssertionError("GT_REQUIRE_BPF=1, but: %s" % why)
        if why:
            say("SKIPPED %s: %s" % (cls.__name__, why))
            raise unittest.SkipTest(why)

    def assert_sound(self, rec):
        """The rules that every recording without losses keeps."""
        self.assertIsNone(rec.problem)
        bad = rec.violations()
        self.assertEqual(bad[:5], [], "%d violations in %s" % (len(bad), rec.path))
        resumed = sorted(p.ns for p in rec.pauses)
        for gil in rec.gils:
            mine = [e for e in rec.events if e.gil == gil and e.kind in (ACQUIRE, RELEASE)]
            # What a hold is half of is not known across a pause.
            for _, part in itertools.groupby(mine, lambda e: bisect.bisect(resumed, e.ns)):
                self.assert_balanced(gil, list(part))

    def assert_balanced(self, gil, events):
        first_open, last_open = events[0].kind == RELEASE, events[-1].kind == ACQUIRE
        acquires = sum(1 for e in events if e.kind == ACQUIRE)
        self.assertEqual(len(events) - acquires - first_open, acquires - last_open,
                         "releases and acquires of GIL %d" % gil)
