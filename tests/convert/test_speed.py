# SPDX-License-Identifier: Apache-2.0
"""Speed and memory, with generous bounds: a hundred times what the tool before took.

That took 38 s of CPU time and 734 MiB for a million records. By hand, with more events:

    big.py 100 big.gil; command time -v gil2trace big.gil -o /dev/null
"""
import json
import os
import pty
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
import big  # noqa: E402

MILLIONS = float(os.environ.get("GT_SPEED_MILLIONS") or 5)
SECONDS_PER_MILLION = 38 / 100
RSS_KIB = 200 << 10


@unittest.skipIf(b.sanitized(), "a build with sanitizers tells nothing of speed")
class Speed(b.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = b.new_dir()
        cls.big = os.path.join(cls.folder, "big.gil")
        cls.events = big.write(cls.big, int(MILLIONS * 1000000))

    @classmethod
    def tearDownClass(cls):
        os.unlink(cls.big)

    def fast(self, *args):
        run = self.run_it(self.big, *args)
        sys.stderr.write("\n  %s: %.2f million events, %.2f s of CPU (%.1f million/s), %d MiB\n" % (
            " ".join(args), self.events / 1e6, run.cpu, self.events / 1e6 / run.cpu,
            run.rss_kib >> 10))
        self.assertLess(run.cpu, SECONDS_PER_MILLION * self.events / 1e6, args)
        self.assertLess(run.rss_kib, RSS_KIB, args)
        return run

    def test_json(self):
        self.fast("-o", "/dev/null")

    def test_json_with_all(self):
        self.fast("--flows", "--time=relative", "--min-dur=5us", "-o", "/dev/null")

    def test_summary(self):
        run = self.fast("--summary=json")
        self.assertIn("thread-1", json.dumps(json.loads(run.out.decode())))

    def test_text(self):
        self.fast("--summary")

    def test_html(self):
        self.fast("--html=r.html")
        self.assertLess(os.path.getsize(self.path("r.html")), 20 << 20)

    def test_all_at_once(self):
        self.fast("--summary", "--html=r.html", "-o", "/dev/null")

    def test_parts_and_gzip(self):
        """Compression is slow by nature; memory has its bound all the same."""
        small = self.path("small.gil")
        big.write(small, 300000)
        for args in (["--split=5", "-o", "t.json"], ["--gzip", "-o", "t.json.gz"],
                     ["--per-rank", "-o", "out"]):
            self.assertLess(self.run_it(small, *args).rss_kib, RSS_KIB)

    def on_a_terminal(self, *args):
        """What it says on one."""
        master, slave = pty.openpty()
        try:
            p = subprocess.Popen([b.tool("gil2trace"), self.big] + list(args),
                                 stdout=subprocess.DEVNULL,
                                 stderr=slave, cwd=self.dir)
            os.close(slave)
            said = b""
            try:
                for part in iter(lambda: os.read(master, 4096), b""):
                    said += part
            except OSError:  # EIO: the other end is closed
                pass
            self.assertEqual(p.wait(), b.OK)
        finally:
            os.close(master)
        return said.decode("utf-8", "replace")

    def test_progress(self):
        """Long runs tell how far they are, on a terminal only."""
        said = self.on_a_terminal("--summary", "--html=r.html", "-o", "/dev/null")
        shares = [int(n) for n in re.findall(r"(\d+) ?%", said)]
        self.assertTrue(shares, said)
        self.assertEqual(shares, sorted(shares))
        self.assertLessEqual(shares[-1], 100)
        self.assertNotIn("%", self.on_a_terminal("-q", "-o", "/dev/null"))
        self.assertNotIn("%", self.run_it(self.big, "-o", "/dev/null").err)

    def test_memory_is_constant(self):
        """Not by the number of events: a fifth of them takes as much."""
        small = self.path("small.gil")
        big.write(small, self.events // 5)
        for args in (["-o", "/dev/null"], ["--summary", "-o", "/dev/null"]):
            few, many = (self.run_it(f, *args).rss_kib for f in (small, self.big))
            self.assertLess(many - few, 8 << 10, args)


if __name__ == "__main__":
    b.main()
