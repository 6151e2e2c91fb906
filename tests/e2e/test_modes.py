# SPDX-License-Identifier: Apache-2.0
"""The two ways to probe see the same: call sites (found without symbols) and function symbols."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402


@h.each_python
class SitesAndFunctions(h.BpfTest):
    def each_modes_agree(self, py):
        with h.Workload(py) as w:
            w.start_workers(cpu=3, stat=1)
            w.do("interval", seconds=0.001)
            if not w.about["gil"]:
                self.skipTest("no GIL in this build")
            if not h.has_symtab(py.file):
                return self.refused(w)
            if w.about["free_threaded"]:
                return self.refused_free_threaded(w)
            with h.Recorder(w, "--probe=sites") as s, h.Recorder(w, "--probe=functions") as f:
                w.do("run", names=["stat-0"], limit=2000)
                w.do("join")
                w.do("run", limit=500)
                w.do("join")
                w.quiesce()
                self.assertEqual(s.stop(), h.OK, s.text())
                self.assertEqual(f.stop(), h.OK, f.text())
                sites, functions = s.recording(), f.recording()
        self.assert_sound(sites)
        self.assert_sound(functions)
        self.assertIn("python.drop_request", sites.meta)
        self.assertNotIn("python.drop_request", functions.meta)
        self.assertEqual(sites.lost + functions.lost, 0)
        self.assertGreater(sites.count(h.ACQUIRE), 2000)
        begins, ends = [], []
        for tid in w.threads.values():
            for kind in (h.ACQUIRE, h.RELEASE):
                self.assertEqual(sites.count(kind, tid), functions.count(kind, tid))
            # take_gil returns after the site in it, drop_gil is entered before the site in it.
            for a, b in zip(sites.holds(tid), functions.holds(tid)):
                self.assertLessEqual(a.begin, b.begin, (a, b))
                self.assertLessEqual(b.end, a.end, (a, b))
                begins.append(b.begin - a.begin)
                ends.append(a.end - b.end)
        self.assertEqual(sites.count(h.ACQUIRE), functions.count(h.ACQUIRE))
        self.assertEqual(sites.count(h.RELEASE), functions.count(h.RELEASE))
        for distances in (begins, ends):
            self.assertLess(h.median(distances), 50 * 1000 * h.SLOW, "ns between the two modes")
        functions.trace()
        if py.version[:2] == (3, 8):
            self.check_clone(py, functions)

    def check_clone(self, py, rec):
        """A compiler may have cloned take_gil; then every copy must be probed, and was hit."""
        clones = [line for line in h.symbols(py.file) if line.startswith("take_gil")]
        if len(clones) < 2:
            h.say("MISSING: no CPython 3.8 with a clone of take_gil")
            return
        takes = {e.site for e in rec.all if e.kind == h.ACQUIRE}
        probed = {i for i, s in enumerate(rec.sites) if s.kind == h.ACQUIRE}
        self.assertEqual(len(probed), len(clones), clones)
        self.assertGreater(len(takes), 1, "copies of take_gil that were hit")

    def refused_free_threaded(self, w):
        """take_gil returns without the GIL where that is off, which looks like an acquire."""
        status, out, err = h.giltrace("-p", w.pid, "-d", "1", "--probe=functions", "-o",
                                      h.new_dir())
        self.assertEqual(status, h.NOT_PYTHON, out + err)
        self.assertRegex(err, r"free-threaded")

    def refused(self, w):
        """No symbols in the file itself; then none at all, unless a debug package is installed."""
        status, out, err = h.giltrace("-p", w.pid, "--dry-run", "--probe=functions")
        if status == h.OK:
            h.say("%s has its symbols in a debug file" % w.python.label)
            self.assertIn("symbol: entry of take_gil", out)
            return
        status, out, err = h.giltrace("-p", w.pid, "-d", "1", "--probe=functions", "-o",
                                      h.new_dir())
        self.assertEqual(status, h.NOT_PYTHON, out + err)
        self.assertRegex(err, r"symbol")
        self.assertIn(str(w.pid), err)


if __name__ == "__main__":
    h.main()
