# SPDX-License-Identifier: Apache-2.0
"""Many processes and many threads at once: the time and the memory they cost; all is there."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402
from family import FamilyTest  # noqa: E402

PROCESSES, THREADS = 64, 16
LIMIT = 3  # seconds, of a start and of a stop, on a machine that has nothing else to do
KIB = 1024
MIB = 1024 * KIB
NEWS = 64 * KIB  # a ring of its own tells who was born


def slack():
    """How much longer things may take here: by what else runs."""
    return min(4, max(1, os.getloadavg()[0] / os.cpu_count()))


def rings(r):
    """Sizes of the rings that giltrace reads: of each it maps a page, and the data twice."""
    with open("/proc/%d/maps" % r.pid) as f:
        found = re.findall(r"^(\w+)-(\w+) r--s .*anon_inode:bpf-map$", f.read(), re.M)
    page = os.sysconf("SC_PAGE_SIZE")
    sizes = [(int(end, 16) - int(begin, 16) - page) // 2 for begin, end in found]
    return [s for s in sizes if s]  # other maps may have a page


class Many(FamilyTest):
    def brood(self, n, threads=0):
        """n forked children, each with so many parked threads; their members."""
        family = self.start()
        children = [family.beget("fork", "fork") for _ in range(n)]
        if threads:
            for child in children:
                child.send("threads", names=["t-%d" % i for i in range(threads)])
            for child in children:
                child.answer()
        return children

    def count_all(self, children, n, seconds):
        """All threads of all children at once; what each has counted, by process."""
        for child in children:
            child.send("all", what="count", n=n, seconds=seconds)
        return {child.pid: child.answer() for child in children}

    def check_all(self, r, counted, threads):
        for pid, done in counted.items():
            rec = r.recording(pid)
            self.assert_good(rec)
            self.assertEqual(rec.meta["process.pid"], str(pid))
            self.assertEqual(len(done), threads)
            for d in done:
                self.assert_counted(rec, d)
            self.assertEqual({d["tid"] for d in done} - rec.tids(), set())


class Processes(Many):
    def timed(self, children, *options):
        """A recording of all of them; seconds that the start has taken."""
        begin = time.monotonic()
        r = self.record([c.pid for c in children], *options)
        return r, time.monotonic() - begin

    def timed_stop(self, r):
        begin = time.monotonic()
        self.stopped(r)
        return time.monotonic() - begin

    def memory(self, r, limit):
        """What giltrace has, in the kernel and of its own, at its most."""
        sizes = rings(r)
        peak = int(r.status(r"^VmHWM:\s+(\d+) kB").group(1)) * KIB
        h.say("%d rings of %s KiB, %.1f MiB in all; giltrace itself had %.1f MiB at its most" % (
            len(sizes), sorted({s // KIB for s in sizes}), sum(sizes) / MIB, peak / MIB))
        self.assertEqual(len(sizes), PROCESSES)
        self.assertLessEqual(sum(sizes), limit)
        self.assertLess(peak, 64 * MIB + 2 * sum(sizes))  # each page of a ring counts twice
        return sizes

    def test_64_processes_of_16_threads(self):
        """All are attached and let go in time, waiting or busy; every recording is whole."""
        children = self.brood(PROCESSES, THREADS)
        factor = slack()
        r, start = self.timed(children)
        counted = self.count_all(children, 10, 0.0005)
        sizes = self.memory(r, 256 * MIB)
        stop = self.timed_stop(r)
        self.check_all(r, counted, THREADS)
        for pid in counted:
            self.assertIn(int(r.recording(pid).meta["ring.bytes"]), sizes)
        for child in children:
            child.do("start", what="nap", seconds=0.1)
        busy, busy_start = self.timed(children)
        busy_stop = self.timed_stop(busy)
        for pid in counted:
            self.assert_sound(busy.recording(pid))
        h.say("%d processes of %d threads: waiting: start %.2f s, stop %.2f s; busy: %.2f s, "
              "%.2f s; limit %.1f s (load %.1f)" % (PROCESSES, THREADS, start, stop, busy_start,
                                                    busy_stop, LIMIT * factor,
                                                    os.getloadavg()[0]))
        for seconds in (start, stop, busy_start, busy_stop):
            self.assertLess(seconds, LIMIT * factor)

    def test_memory_that_the_user_allows(self):
        """The rings shrink with their number, and all together stay within what is allowed."""
        children = self.brood(PROCESSES)
        r, _ = self.timed(children, "--ring-memory=16")
        done = [c.count() for c in children]
        for size in self.memory(r, 16 * MIB):
            self.assertLessEqual(size, 256 * KIB)
        self.stopped(r)
        for child, d in zip(children, done):
            rec = r.recording(child.pid)
            self.assert_good(rec)
            self.assert_counted(rec, d)
            self.assertLessEqual(int(rec.meta["ring.bytes"]), 256 * KIB)

    def test_few_have_large_rings(self):
        """And one alone the usual size, unless it asks for another."""
        child, = self.brood(1)
        for options, size in (((), 4 * MIB), (("--ring-memory=1",), MIB),
                              (("--ring-size=64",), 64 * KIB)):
            r = self.record(child.pid, *options)
            self.assertEqual(rings(r), [size], options)
            self.stopped(r)
            self.assertEqual(r.recording().meta["ring.bytes"], str(size))

    def test_memory_that_does_not_suffice(self):
        """It says so, and which option gives more; also where that and another contradict."""
        children = self.brood(PROCESSES)
        pids = ",".join(str(c.pid) for c in children)
        for options in ((), ("--ring-size=4096",)):
            folder = h.new_dir()
            status, out, err = h.giltrace("-p", pids, "--ring-memory=1", "-d", "0.1", "-o", folder,
                                          *options)
            self.assertIn("--ring-memory", err[:3000], options)
            self.assertEqual((status, out, os.listdir(folder)), (h.FAILED, "", []), options)

    def test_values_that_are_none(self):
        for value in ("0", "-1", "abc", "", "99999999999999999999", "1.5x"):
            status, out, err = h.giltrace("-p", os.getpid(), "--ring-memory=" + value, "-d", "1",
                                          "-o", h.new_dir())
            self.assertEqual((status, out), (h.USAGE, ""), (value, err))
            self.assertIn("ring-memory", err)
            self.assertNotIn("unrecognized", err)

    def test_children_that_come_share_the_memory(self):
        """How many will come is not known before; the rings stay within what is allowed."""
        family = self.start()
        r = self.record(family.pid, "--follow", "-v", "--ring-memory=4")
        children, most = [], 0
        for _ in range(32):
            children.append(family.beget("fork", "fork"))
            most = max(most, sum(rings(r)))
        first = children[0]
        self.wait_recorded(r, first.pid)
        done = first.count()
        h.until(lambda: "left out" in r.text() or all(r.of(c.pid) for c in children),
                "all children are recorded, or it says that not")
        most = max(most, sum(rings(r)))
        self.assertGreater(most, 0)
        self.assertLessEqual(most, 4 * MIB + NEWS)
        self.assertEqual(r.stop(), h.FAILED if "left out" in r.text() else h.OK, r.text()[-3000:])
        self.assert_counted(r.recording(first.pid), done)
        recorded = [c.pid for c in children if r.of(c.pid)]
        h.say("%d of %d children recorded within 4 MiB" % (len(recorded), len(children)))
        for pid in recorded:
            self.assert_good(r.recording(pid))
        if len(recorded) < len(children):
            self.assertTrue("--ring-memory" in r.text(), "it says what to do")

    def test_a_hundred_and_fifty_children(self):
        """Eight ranks and their workers: nobody is left out by default."""
        family = self.start()
        r = self.record(family.pid, "--follow")
        children = [family.beget("fork", "fork") for _ in range(150)]
        h.until(lambda: all(r.of(c.pid) for c in children), "all children are recorded")
        self.assertLessEqual(sum(rings(r)), 256 * MIB + NEWS)
        self.assertEqual(r.stop(), h.OK, r.text()[-3000:])


class Threads(Many):
    def test_300_threads_in_one_process(self):
        family = self.start()
        family.root.do("threads", names=["n-%d" % i for i in range(300)])
        r = self.record(family.pid)
        done = family.root.do("all", what="count", n=20, seconds=0.0002)
        self.stopped(r)
        rec = r.recording()
        self.assert_good(rec)
        tids = {d["tid"] for d in done}
        self.assertEqual(len(tids), 300)
        self.assertEqual(tids | {family.pid}, rec.tids())
        trace = rec.trace()
        rows = {h.number(t) for t in trace.names}
        self.assertEqual(tids - rows, set())
        for d in done:
            self.assert_counted(rec, d)
        drawn = {}
        for s in trace.of("hold_gil"):
            drawn[trace.tracks[s.tid]] = drawn.get(trace.tracks[s.tid], 0) + 1
        for tid in tids:
            self.assertEqual(drawn[tid], rec.count(h.ACQUIRE, tid))

    def test_threads_beyond_what_a_block_can_list(self):
        """1,500 in turn, 300 at a time: more than one block of a file can name."""
        family = self.start()
        r = self.record(family.pid)
        done = []
        for turn in range(5):
            names = ["n-%d-%d" % (turn, i) for i in range(300)]
            family.root.do("threads", names=names)
            done += family.root.do("all", what="count", n=5)
            for name in names:
                family.root.do("leave", thread=name)
        self.stopped(r)
        rec = r.recording()
        # Where more than four live threads share places in its table, it may tell a wait twice.
        self.assertEqual([v for v in rec.violations() if "WAIT" not in v], [])
        self.assertEqual((rec.lost, rec.meta["check.result"]), (0, "consistent"))
        self.assertEqual({d["tid"] for d in done} - rec.tids(), set())
        for d in done:
            self.assert_counted(rec, d)
        rec.trace()


if __name__ == "__main__":
    h.main()
