# SPDX-License-Identifier: Apache-2.0
"""
The disk fails while giltrace writes: full, a quota, read-only, gone, stalled. What is in the file
and what is said to be missing is together what happened, which a second recorder has counted.
"""
import os
import re
import resource
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

BIG = "--ring-size=16384"
TINY = "--ring-size=%d" % (os.sysconf("SC_PAGESIZE") // 1024)
SOAK = os.environ.get("GT_SOAK") == "1"
SQUEEZE = 300000  # bytes that there are: some blocks of a recording


def run(*argv):
    argv = [str(a) for a in argv]
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if p.returncode:
        raise OSError("%s: %s" % (" ".join(argv), p.stdout.decode(errors="replace").strip()))


class Disk(h.BpfTest):
    def setUp(self):
        self.work = h.Workload(h.python())
        self.addCleanup(self.work.__exit__)
        self.work.start_workers(stat=2)

    # ---- places to write to ----

    def mount(self, *argv):
        """A mounted file system's folder; the test is skipped where it cannot be had."""
        place = h.new_dir()
        try:
            run("mount", *(list(argv) + [place]))
        except OSError as err:
            h.say("MISSING: %s" % err)
            self.skipTest(str(err))
        self.addCleanup(subprocess.call, ["umount", "-l", place])
        return place

    def tmpfs(self, *options):
        return self.mount("-t", "tmpfs", "-o", ",".join(options), "none")

    def mounted(self, mkfs, mib, *options):
        """A file system in a file."""
        image = os.path.join(h.new_dir(), "image")
        if not shutil.which(mkfs):
            self.skipTest("no " + mkfs)
        with open(image, "wb") as f:
            f.truncate(mib << 20)
        run(mkfs, "-q", image)
        return self.mount("-o", ",".join(("loop",) + options), image)

    def fill(self, place, leave):
        """Takes all but some of the room."""
        with open(os.path.join(place, "filler"), "wb") as f:
            st = os.statvfs(place)
            os.posix_fallocate(f.fileno(), 0, st.f_bavail * st.f_frsize - leave)

    # ---- what happens ----

    def rounds(self, n):
        self.work.do("run", limit=n)
        self.work.do("join")
        self.work.quiesce()

    def fail(self, place, spoil, why, rounds=10000, cut=True, **kwargs):
        """
        Events come while the recorder is stopped, then the disk fails, and it goes on: the
        failure ends the recording, and all that happened is what the other recorder has.
        """
        with h.Recorder(self.work, BIG) as whole:
            with h.Recorder(self.work, BIG, dir=place, **kwargs) as r:
                r.freeze()
                self.rounds(rounds)
                spoil()
                r.thaw()
                status = r.finish()
                path, = [f for f in r.files() if f.endswith(".gil")]
            self.assertEqual(whole.stop(), h.OK, whole.text())
            good, said = whole.recording(), r.said
        self.assertEqual(good.lost, 0)
        self.assertGreater(good.total(), rounds)
        self.assertEqual(status, h.NO_OUTPUT, said)
        self.assertRegex(said, why)
        rec = h.Recording(path)
        self.assertIsNone(rec.end)
        if cut:
            self.assertIsNone(rec.problem, "it is cut back to its last whole block")
        self.assertEqual(rec.violations()[:5], [])
        m = re.search(re.escape(path) + r": (\d+) events?, (\d+) lost", said)
        self.assertTrue(m, said)
        self.assertEqual(int(m.group(1)), rec.total(), "what it says it has written: %s" % said)
        self.assertEqual(rec.total() + int(m.group(2)), good.total(), said)
        m = re.search(r"its recording ended there, and (\d+) events before that are missing", said)
        self.assertTrue(m, said)
        self.assertEqual(rec.total() + int(m.group(1)), good.total(), "no ring was full: %s" % said)
        self.assertEqual(self.work.breakpoints(), 0)
        self.rounds(10)
        if rec.total():
            rec.trace(h.LEFT_OUT if rec.problem else h.OK)
        return rec

    def test_full(self):
        place = self.tmpfs("size=8m")
        rec = self.fail(place, lambda: self.fill(place, 65536), "No space left on device")
        self.assertGreater(rec.total(), 1000)

    def test_full_at_each_place_of_the_file(self):
        """Whichever block it is that does not fit: the last one may be one without events."""
        def limit(n):
            def go():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))
            return go
        with h.Recorder(self.work, BIG) as r:
            self.rounds(300)
            h.until(lambda: h.Recording(r.files()[0]).total(), "a block of events")
            self.assertEqual(r.stop(), h.OK)
            end = os.stat(r.files()[0]).st_size
        with h.Recorder(self.work) as r:
            begin = os.stat(r.files()[0]).st_size
        for size in range(begin, end, (end - begin) // (20 if SOAK else 3)):
            with self.subTest(size=size, of=end):
                self.fail(h.new_dir(), lambda: None, "File too large", 300,
                          preexec_fn=limit(size))

    def test_no_room_for_a_file(self):
        for options, why in ((("size=1m", "nr_inodes=2"), "No space left"),
                             (("size=1m", "ro"), "Read-only file system")):
            place = self.tmpfs(*options)
            if "ro" not in options:
                open(os.path.join(place, "filler"), "w").close()
            status, out, err = h.giltrace("-p", self.work.pid, "-d", "0.1", "-o", place)
            self.assertEqual(status, h.NO_OUTPUT, out + err)
            self.assertRegex(err, re.escape(place) + ".*" + why)
            self.assertEqual([f for f in os.listdir(place) if f != "filler"], [])
            self.assertEqual(self.work.breakpoints(), 0)

    def test_no_room_for_what_describes_it(self):
        """A file can be made, but nothing be written to it: none is left."""
        place = self.tmpfs("size=64k")
        self.fill(place, 0)
        status, out, err = h.giltrace("-p", self.work.pid, "-d", "0.1", "-o", place)
        self.assertEqual(status, h.NO_OUTPUT, out + err)
        self.assertIn("No space left", err)
        self.assertEqual(os.listdir(place), ["filler"])
        self.assertEqual(self.work.breakpoints(), 0)

    def test_quota(self):
        """By btrfs, as kernels without the format of other file systems' quotas have this one."""
        if not shutil.which("mkfs.btrfs"):
            h.say("MISSING: mkfs.btrfs, so no quota is exceeded")
            self.skipTest("no mkfs.btrfs")
        place = self.mounted("mkfs.btrfs", 128)
        run("btrfs", "quota", "enable", place)
        run("btrfs", "qgroup", "limit", SQUEEZE, "0/5", place)
        # It cannot be cut back, either; readers say what they leave out.
        rec = self.fail(place, lambda: None, "Disk quota exceeded", 40000, cut=False)
        self.assertGreater(rec.total(), 1000)

    def test_read_only_under_way(self):
        """As ext4 makes itself after an error of the disk."""
        place = self.mounted("mkfs.ext4", 32, "errors=remount-ro")
        self.fail(place, lambda: run("mount", "-o", "remount,abort", place),
                  "Read-only file system")

    def test_folder_is_removed(self):
        """With what is in it."""
        place = os.path.join(h.new_dir(), "out")
        before = os.listdir(os.path.dirname(place))
        with h.Recorder(self.work, "--follow", dir=place) as r:
            shutil.rmtree(place)
            self.rounds(10)
            self.assertEqual(r.stop(), h.NO_OUTPUT, r.text())
            self.assertRegex(r.text(), re.escape(place) + ".*was removed or renamed while it was")
        self.assertEqual(os.listdir(os.path.dirname(place)), before, "it is not made again")
        self.assertEqual(self.work.breakpoints(), 0)

    def test_stalled(self):
        """A write that does not return: the ring fills, its losses are counted, it goes on."""
        place = self.mounted("mkfs.ext4", 32)
        if not shutil.which("fsfreeze"):
            self.skipTest("no fsfreeze")
        with h.Recorder(self.work, BIG) as whole, h.Recorder(self.work, TINY, dir=place) as r:
            path, = [f for f in r.files() if f.endswith(".gil")]
            run("fsfreeze", "-f", place)
            self.addCleanup(subprocess.call, ["fsfreeze", "-u", place],
                            stderr=subprocess.DEVNULL)
            self.rounds(10)
            h.until(lambda: r.status(r"^State:\s+D"), "giltrace waits for the disk", 20)
            self.rounds(20000)
            r.proc.send_signal(signal.SIGINT)  # it waits, too
            run("fsfreeze", "-u", place)
            self.assertEqual(r.finish(), h.LOSSES, r.text())
            said = r.text()
            self.assertEqual(whole.stop(), h.OK, whole.text())
            good = whole.recording()
        rec = h.Recording(path)
        self.assertIsNone(rec.problem)
        self.assertEqual(rec.end.reason, h.END_STOPPED)
        self.assertGreater(rec.lost, 20000)
        self.assertEqual(rec.total() + rec.lost, good.total())
        self.assertIn(rec.result(), said)
        self.assertRegex(said, r"the ring was full, %d events are lost" % rec.lost)
        self.assertEqual(rec.violations()[:5], [])
        rec.trace()
        self.assertEqual(self.work.breakpoints(), 0)


if __name__ == "__main__":
    h.main()
