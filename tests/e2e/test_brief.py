# SPDX-License-Identifier: Apache-2.0
"""The summary that giltrace prints when it ends, and that nothing depends on it."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

HEAD = re.compile(r"^(.*), pid (\d+)(?:: |\n  )GIL held [\d.]+% of [\d.]+ m?s, [\d.]+ threads waiting",
                  re.M)


def unclean(text):
    """What a terminal would obey to, besides the ends of lines."""
    return [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)]


class Brief(h.BpfTest):
    def busy(self):
        """Two threads that fight for the GIL, until the end of the test."""
        w = h.Workload(h.python())
        self.addCleanup(w.__exit__)
        w.start_workers(cpu=2)
        w.do("run")
        return w

    def record(self, *options, **kwargs):
        w = self.busy()
        status, out, err = h.giltrace("-p", w.pid, "-d", "0.5", "-o", h.new_dir(), *options,
                                      **kwargs)
        self.assertEqual(status, h.OK, err)
        return w, out, err

    def test_who_waited_for_whom(self):
        w, out, err = self.record()
        lines = out.splitlines()
        self.assertIn("GIL_%d_rank_0.gil: " % w.pid, lines[0])
        self.assertEqual(HEAD.search(out).group(2), str(w.pid))
        self.assertLessEqual(len(lines), 1 + 6)
        waits = re.findall(r"^  (.+): waited ([\d.]+)% of its time \(.*\), ([\d.]+)% of it for (.+)$",
                           out, re.M)
        self.assertGreaterEqual(len(waits), 2, out)
        # Both want all of it; and each waits for the other one.
        self.assertEqual({waits[0][0], waits[0][3]}, {waits[1][0], waits[1][3]}, out)
        self.assertNotEqual(waits[0][0], waits[0][3])

    def test_not_asked_for(self):
        for option in ("--no-summary", "-q"):
            _, out, err = self.record(option)
            self.assertEqual(len(out.splitlines()), option == "--no-summary", out)
            self.assertNotIn("GIL held", out + err)

    def test_nothing_recorded(self):
        with h.Workload(h.python()) as w:
            status, out, err = h.giltrace("-p", w.pid, "-d", "0.2", "-o", h.new_dir())
        self.assertEqual(status, h.OK, err)
        self.assertEqual(len(out.splitlines()), 1, out)

    def test_command_keeps_its_output(self):
        p = subprocess.run([h.tool("giltrace"), "-o", h.new_dir(), "--", sys.executable, "-c",
                            "import os\nfor _ in range(99): os.stat('/')\nprint('mine')"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=h.LIMIT)
        self.assertEqual(p.stdout, b"mine\n")
        self.assertTrue(HEAD.search(p.stderr.decode(errors="replace")), p.stderr)

    def test_replaced_file(self):
        """What stands under the name by then is not read: root's eyes are not lent."""
        w = self.busy()
        with h.Recorder(w) as r:
            path, = [os.path.join(r.dir, n) for n in os.listdir(r.dir)]
            h.until(lambda: os.stat(path).st_size > 8192, "events are in the file")
            os.rename(path, path + ".away")
            os.symlink("/etc/shadow", path)
            r.proc.terminate()
            self.assertEqual(r.finish(), h.OK)
        self.assertTrue(HEAD.search(r.said), r.said)

    def test_status_does_not_depend_on_it(self):
        """The file is spoilt while it is written; its own messages are not those of the summary."""
        w = self.busy()
        with h.Recorder(w) as r:
            path, = [os.path.join(r.dir, n) for n in os.listdir(r.dir)]
            h.until(lambda: os.stat(path).st_size > 8192, "events are in the file")
            with open(path, "r+b") as f:
                f.write(b"no .gil")
            r.proc.terminate()
            self.assertEqual(r.finish(), h.OK)
        self.assertIn("(1 of 1 recordings cannot be read any more)", r.said)

    def test_reader_that_goes_away(self):
        """The summary finds a closed pipe; what came before it was read."""
        w = self.busy()
        rd, wr = os.pipe()
        with tempfile.TemporaryFile(dir=h.scratch()) as err:
            p = subprocess.Popen([h.tool("giltrace"), "-p", str(w.pid), "-d", "0.5", "-o",
                                  h.new_dir()], stdout=wr, stderr=err)
            os.close(wr)
            self.assertIn(b".gil: ", os.read(rd, 1 << 16).splitlines()[0])
            os.close(rd)
            self.assertEqual(p.wait(h.LIMIT), h.OK)

    def test_unprivileged_names_do_not_reach_the_terminal(self):
        code = ("import threading, os\n"
                "def f():\n"
                "    for _ in range(3000): os.stat('/')\n"
                "ts = [threading.Thread(target=f, name='\\x1b[31mred\\u202e\\n') for _ in range(3)]\n"
                "[t.start() for t in ts]; [t.join() for t in ts]\n")
        p = subprocess.run([h.tool("giltrace"), "-o", h.new_dir(), "--", sys.executable, "-c",
                            code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=h.LIMIT)
        text = p.stderr.decode()
        self.assertTrue(HEAD.search(text), text)
        self.assertEqual(unclean(text), [])

    def test_many_processes(self):
        """One line each, those first that suffer."""
        ws = [self.busy() for _ in range(2)]
        for _ in range(3):
            w = h.Workload(h.python())
            self.addCleanup(w.__exit__)
            w.start_workers(stat=1)
            w.do("run")
            ws.append(w)
        pids = [str(w.pid) for w in ws]
        status, out, err = h.giltrace("-p", ",".join(pids), "-d", "0.5", "-o", h.new_dir())
        self.assertEqual(status, h.OK, err)
        rows = re.findall(r"^ +- +(\d+) +([\d.]+)% ", out, re.M)
        self.assertEqual(sorted(pid for pid, _ in rows), sorted(pids), out)
        self.assertEqual({pid for pid, _ in rows[:2]}, set(pids[:2]), out)
        shares = [float(share) for _, share in rows]
        self.assertEqual(shares, sorted(shares, reverse=True))


if __name__ == "__main__":
    h.main()
