# SPDX-License-Identifier: Apache-2.0
"""--list and --list --json: what would be recorded, and nothing is done to it."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

INSIDE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
HOSTILE = b'a\nb\r\t\x1b[31;1m"\\ \x7f\xff\xc3,}]\xe2\x80\xae\xc2\x9b' + "äöü∑".encode()


def unclean(text):
    """What a terminal would obey to, besides the ends of lines."""
    return [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)]


class ListTest(h.BpfTest):
    def listed(self, *args, **kwargs):
        """What --list --json tells: {pid: its object}."""
        expected = kwargs.pop("status", h.OK)
        folder = h.new_dir()
        p = subprocess.run([h.tool("giltrace"), "--list", "--json", "-o", folder] +
                           [str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           stdin=subprocess.DEVNULL, timeout=h.LIMIT, cwd=folder, **kwargs)
        self.assertEqual(p.returncode, expected, p.stdout + p.stderr)
        self.assertEqual(os.listdir(folder), [])
        told = json.loads(p.stdout.decode())  # valid UTF-8, and nothing but the JSON
        self.assertEqual(told["format"], 1)
        self.assertEqual(unclean(p.stdout.decode().replace("\t", "")), [])
        self.assertEqual(unclean(p.stderr.decode(errors="replace")), [])
        return {row["pid"]: row for row in told["processes"]}

    def table(self, *args, **kwargs):
        """Lines of --list without those that begin with no pid."""
        status, out, err = h.giltrace("--list", *args, **kwargs)
        self.assertEqual(status, h.OK, err)
        self.assertEqual(unclean(out + err), [])
        rows = {}
        for line in out.splitlines():
            m = re.match(r"\s*(\d+)\s", line)
            if m:
                self.assertNotIn(int(m.group(1)), rows)
                rows[int(m.group(1))] = line
        self.assertEqual(len(out.splitlines()), len(rows) + 1, "a heading: %s" % out)
        return rows

    def start(self, py=None, **kwargs):
        w = h.Workload(py or h.python(), **kwargs)
        self.addCleanup(w.__exit__)
        return w


class Fields(ListTest):
    def test_by_pid(self):
        py = h.python()
        plain = self.start(py, env={"RANK": "6", "LOCAL_RANK": "2"})
        inside = self.start(h.pythons()[-1], through=INSIDE)
        self.assertEqual(inside.about["pid"], 1)
        inside.start_workers(cpu=1, stat=2)
        rows = self.listed("-p", plain.pid, "-p", inside.pid)
        self.assertEqual(set(rows), {plain.pid, inside.pid})
        for w, ns_pid, rank, source, threads in (
                (plain, plain.pid, 6, "RANK", 1), (inside, 1, 0, "default", 4)):
            row = rows[w.pid]
            with open("/proc/%d/cmdline" % w.pid, "rb") as f:
                title = f.read().rstrip(b"\0").replace(b"\0", b" ").decode()
            self.assertEqual(row["ns_pid"], ns_pid)
            self.assertEqual((row["rank"], row["rank_source"]), (rank, source))
            self.assertEqual(row["threads"], threads)
            self.assertEqual(row["cmdline"], title)
            self.assertIn("container", row)
            self.assertEqual(row["npus"], [])
            python, = row["python"]
            self.assertEqual(python["version"], "%d.%d" % w.python.version[:2])
            self.assertTrue(os.path.samefile("/proc/%d/root%s" % (w.pid, python["file"]),
                                             w.python.file))
            self.assertEqual(python["build_id"], self.build_id(w.python.file))
        lines = self.table("-p", "%d,%d" % (plain.pid, inside.pid))
        self.assertEqual(set(lines), {plain.pid, inside.pid})
        for w, words in ((plain, ["6", "RANK", h.script()]), (inside, ["1", "default", "4"])):
            for word in words + ["%d.%d" % w.python.version[:2]]:
                self.assertRegex(lines[w.pid], r"(?<![\w.])%s(?![\w.])" % re.escape(word))

    def build_id(self, path):
        out = subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE, check=True).stdout
        found = re.search(rb"Build ID: (\w+)", out)
        return found.group(1).decode() if found else ""

    def test_in_the_order_of_ranks(self):
        ws = [self.start(env={"RANK": str(n)}) for n in (2, 10, 1)]
        args = ["-p", ",".join(str(w.pid) for w in ws)]
        order = [w.pid for w in sorted(ws, key=lambda w: [1, 2, 10].index(
            {ws[0]: 2, ws[1]: 10, ws[2]: 1}[w]))]
        self.assertEqual(list(self.listed(*args)), order)
        self.assertEqual(list(self.table(*args)), order)

    def test_all_python(self):
        ws = [self.start(py) for py in h.pythons()]
        other = subprocess.Popen(["sleep", "1000"])
        try:
            rows, lines = self.listed("--all-python"), self.table("--all-python")
        finally:
            other.kill()
            other.wait()
        for found in (rows, lines):
            self.assertLessEqual({w.pid for w in ws} | {os.getpid()}, set(found))
            self.assertNotIn(other.pid, found)
        for w in ws:
            self.assertEqual(rows[w.pid]["python"][0]["version"],
                             "%d.%d" % w.python.version[:2])

    def test_all_npu(self):
        folder = h.new_dir()
        for name, minor in (("davinci3", 7), ("davinci5", 5)):
            os.mknod(os.path.join(folder, name), 0o20600, os.makedev(1, minor))
        bound, unbound = self.start(), self.start()
        fds = []
        try:
            for name in ("davinci5", "davinci3"):
                fds.append(bound.do("open", path=os.path.join(folder, name)))
        except AssertionError as err:
            self.skipTest("no device node can be opened here: %s" % err)
        rows = self.listed("--all-npu", "--device-root=" + folder)
        self.assertIn(bound.pid, rows)
        self.assertNotIn(unbound.pid, rows)
        row = rows[bound.pid]
        self.assertEqual([n["device"] for n in row["npus"]], [3, 5])
        self.assertIn("descriptor %d" % min(fds), row["npu_source"])
        self.assertEqual((row["rank"], row["rank_source"]), (0, "default"), "3 or 5?")
        line = self.table("--all-npu", "--device-root=" + folder)[bound.pid]
        self.assertRegex(line, r"\b3\b.*,.*\b5\b")


class Hostile(ListTest):
    def test_titles(self):
        w = self.start()
        for title in (HOSTILE, b"\xff" * 4096, b"\n" * 40, b"\x1b]0;owned\x07", b" "):
            w.do("title", title=title.hex())
            row = self.listed("-p", w.pid)[w.pid]
            self.assertLessEqual(len(row["cmdline"].encode()), 4 * 1024)
            lines = self.table("-p", w.pid)
            self.assertEqual(list(lines), [w.pid])
            if title == HOSTILE:
                for text in (row["cmdline"], lines[w.pid]):
                    self.assertIn("äöü∑", text)
                    self.assertIn("[31;1m", text)

    def test_path_of_the_interpreter(self):
        folder = os.path.join(h.new_dir(), 'a b\n\x1b[1m"\\ (deleted)')
        os.mkdir(folder)
        py = h.python().copy_to(folder)
        code = "import sys; print(1); sys.stdout.flush(); sys.stdin.read()"
        p = subprocess.Popen([py.path, "-S", "-c", code], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env=dict(os.environ, **py.env))
        try:
            self.assertEqual(p.stdout.readline(), b"1\n")
            row = self.listed("-p", p.pid)[p.pid]
            self.assertEqual(row["python"][0]["version"], "%d.%d" % py.version[:2])
            self.assertEqual(list(self.table("-p", p.pid)), [p.pid])
        finally:
            p.communicate()

    def test_rank(self):
        w = self.start(env={"RANK": '7\x1b[1m","x":"'})
        row = self.listed("-p", w.pid)[w.pid]
        self.assertEqual((row["rank"], row["rank_source"]), (0, "default"))


class DoesNothing(ListTest):
    def test_nothing_is_attached_and_no_file_made(self):
        w = self.start()
        w.start_workers(stat=1)
        folder = h.new_dir()
        for args in (["-p", str(w.pid)], ["--all-python"]):
            for how in ([], ["--json"]):
                argv = [h.tool("giltrace"), "--list", "-o", folder] + args + how
                log = os.path.join(h.new_dir(), "strace")
                tracer = []
                if shutil.which("strace"):
                    tracer = ["strace", "-f", "-o", log, "-e",
                              "trace=bpf,perf_event_open,ptrace,process_vm_writev"]
                p = subprocess.run(tracer + argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   cwd=folder, timeout=h.LIMIT)
                self.assertEqual(p.returncode, h.OK, p.stderr)
                self.assertIn(str(w.pid).encode(), p.stdout)
                self.assertEqual(os.listdir(folder), [])
                self.assertEqual(w.breakpoints(), 0)
                if not tracer:
                    h.say("MISSING: strace, so nobody looks what --list asks of the kernel")
                    continue
                with open(log) as f:
                    calls = f.read()
                self.assertIn("exited with 0", calls)
                self.assertNotRegex(calls, r"BPF_LINK_CREATE|perf_event_open\(|ptrace\(|writev\(")

    def test_while_it_is_recorded(self):
        """Another giltrace's probes are not in the way, nor is this one in that one's."""
        w = self.start()
        w.start_workers(stat=1)
        with h.Recorder(w) as r:
            before = self.listed("-p", w.pid)
            self.assertEqual(before[w.pid]["rank"], 0)
            w.do("run", limit=100)
            w.do("join")
            w.quiesce()
            self.assertEqual(r.stop(), h.OK, r.text())
            rec = r.recording()
        self.assert_sound(rec)
        self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 100)


class Statuses(ListTest):
    def test_nothing_is_found(self):
        p = subprocess.Popen(["true"])
        p.wait()
        for args in (["-p", p.pid], ["--all-npu", "--device-root=" + h.new_dir()]):
            for how in ([], ["--json"]):
                status, out, err = h.giltrace("--list", *(how + args))
                self.assertEqual(status, h.NO_TARGET, out + err)
                self.assertNotEqual(err, "")
                self.assertNotRegex(out, r"(?m)^\s*\d")
                if how and out:
                    self.assertEqual(json.loads(out)["processes"], [])

    def test_one_of_two(self):
        p = subprocess.Popen(["true"])
        p.wait()
        w = self.start()
        self.assertEqual(set(self.listed("-p", p.pid, "-p", w.pid, status=h.NO_TARGET)), {w.pid})

    def test_no_python(self):
        p = subprocess.Popen(["sleep", "1000"])
        try:
            status, out, err = h.giltrace("--list", "-p", p.pid)
            self.assertEqual(status, h.NOT_PYTHON, err)
            self.assertIn(str(p.pid), err)
        finally:
            p.kill()
            p.wait()

    def test_usage(self):
        """JSON of what, list of what?"""
        for args in (["--json", "-p", os.getpid()], ["--list"], ["--list", "--json"]):
            status, out, err = h.giltrace("-d", "0.1", "-o", h.new_dir(), *args)
            self.assertEqual((status, out), (h.USAGE, ""), err)
            self.assertNotIn("unrecognized", err)

    def test_output_that_cannot_be_written(self):
        w = self.start()
        for how in ([], ["--json"]):
            with open("/dev/full", "w") as full:
                p = subprocess.run([h.tool("giltrace"), "--list", "-p", str(w.pid)] + how,
                                   stdout=full, stderr=subprocess.PIPE)
            self.assertIn(p.returncode, (h.FAILED, h.NO_OUTPUT), p.stderr)
            for line in p.stderr.decode().splitlines():
                self.assertIn("No space left on device", line)


if __name__ == "__main__":
    h.main()
