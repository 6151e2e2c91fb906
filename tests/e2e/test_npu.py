# SPDX-License-Identifier: Apache-2.0
"""
--all-npu: the Pythons that are bound to an NPU, by device numbers, never by names. The devices are
nodes of our own: they have the names of the driver's, and numbers of the kernel's memory devices,
which no Python has open by itself.
"""
import ctypes
import glob
import os
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

FULL, ZERO, RANDOM, URANDOM = (1, 7), (1, 5), (1, 8), (1, 9)
HOST = {"davinci0": FULL, "davinci1": ZERO, "davinci_manager": RANDOM}

NONE_HERE = r"\bno Ascend NPU on this host"
NONE_USED = r"\bno Python process uses an NPU"

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18

# A folder of its own for the devices, in a mount namespace of its own; the pid stays.
ELSEWHERE = """
set -e
mount -t tmpfs tmpfs "$1"
mknod "$1/accelerator" c 1 5
shift
exec "$@"
"""


def node(path, number, kind=stat.S_IFCHR):
    os.mknod(path, kind | 0o600, os.makedev(*number))
    return path


def root_of(nodes):
    """A folder with such devices."""
    folder = h.new_dir()
    for name, number in nodes.items():
        node(os.path.join(folder, name), number)
    return folder


def own_dev(nodes):
    """What a process runs to have a /dev with such devices besides those that everybody needs."""
    libc = ctypes.CDLL(None, use_errno=True)
    usual = {"null": (1, 3), "zero": ZERO, "full": FULL, "random": RANDOM, "urandom": URANDOM}

    def enter():
        for failed in (libc.unshare(CLONE_NEWNS),
                       libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None),
                       libc.mount(b"tmpfs", b"/dev", b"tmpfs", 0, None)):
            if failed:
                raise OSError(ctypes.get_errno(), "a mount namespace")
        for name, number in dict(usual, **nodes).items():
            node("/dev/" + name, number)
    return enter


class NpuTest(h.BpfTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.dev = root_of(HOST)
            os.close(os.open(cls.dev + "/davinci0", os.O_RDWR))
        except OSError as err:
            raise unittest.SkipTest("no device node can be made or opened here: %s" % err)
        if glob.glob("/dev/davinci*"):
            raise unittest.SkipTest("this machine has NPUs")

    def setUp(self):
        self.ours = []
        self.root = "--device-root=" + self.dev

    def start(self, path=None, py=None, **kwargs):
        """A Python with a worker, that has a device open."""
        w = h.Workload(py or h.python(), **kwargs)
        self.addCleanup(w.__exit__)
        w.start_workers(stat=1)
        if path:
            w.fd = w.do("open", path=path)
        self.ours.append(w)
        return w

    def nodes_of(self, *names):
        return [os.path.join(self.dev, n) for n in names]

    def assert_recorded(self, r, expected):
        """Of our processes exactly these have a file, with what happened in it; those files."""
        ours = {w.pid for w in self.ours}
        self.assertEqual(r.pids() & ours, {w.pid for w in expected}, r.text())
        found = {}
        for w in expected:
            rec = found[w] = r.recording(w.pid)
            self.assert_sound(rec)
            self.assertGreaterEqual(rec.count(h.RELEASE, w.threads["stat-0"]), 50)
        return found

    def run_all(self):
        for w in self.ours:
            w.do("run", limit=50)
            w.do("join")
            w.quiesce()


class Bound(NpuTest):
    def test_by_descriptor_and_by_mapping(self):
        """A node under another name, in another folder, deleted, in another mount namespace."""
        first, second, manager = self.nodes_of("davinci0", "davinci1", "davinci_manager")
        plain = self.start(first)
        renamed = self.start(node(os.path.join(h.new_dir(), "null"), ZERO))
        deleted = self.start(node(os.path.join(h.new_dir(), "gone"), FULL))
        os.unlink(os.readlink("/proc/%d/fd/%d" % (deleted.pid, deleted.fd)))
        folder = h.new_dir()
        away = self.start(os.path.join(folder, "accelerator"), inside=[
            "unshare", "--mount", "sh", "-c", ELSEWHERE, "elsewhere", folder])
        self.assertEqual(os.listdir(folder), [], "the node is only there")
        mapped, mapped_renamed = self.start(), self.start()
        mapped.do("map", path=second)
        mapped_renamed.do("map", path=node(os.path.join(h.new_dir(), "zero"), ZERO))
        only_manager = self.start(manager)
        both = self.start(second)
        both.do("open", path=first)
        unbound = self.start()
        with h.Recorder([], "--all-npu", self.root) as r:
            self.run_all()
            self.assertEqual(r.stop(), h.OK, r.text())
            recs = self.assert_recorded(r, [w for w in self.ours if w is not unbound])
        for w, devices, source, rank in (
                (plain, "0", "descriptor %d: davinci0" % plain.fd, "0"),
                (renamed, "1", "descriptor %d: davinci1" % renamed.fd, "1"),
                (deleted, "0", "descriptor %d: davinci0" % deleted.fd, "0"),
                (away, "1", "descriptor %d: davinci1" % away.fd, "1"),
                (mapped, "1", "mapping: davinci1", "1"),
                (mapped_renamed, "1", "mapping: davinci1", "1"),
                (both, "0,1", "descriptor %d: davinci1" % both.fd, None),
                (only_manager, "", "descriptor %d: davinci_manager" % only_manager.fd, None)):
            meta = recs[w].meta
            self.assertEqual(meta.get("npu.devices", ""), devices, meta)
            self.assertIn(source, meta["npu.source"])
            self.assertEqual((meta["rank"], meta["rank.source"]),
                             (rank, "npu") if rank else ("0", "default"))
            self.assertEqual(os.path.basename(recs[w].path),
                             "GIL_%d_rank_%s.gil" % (w.pid, meta["rank"]))
            self.assertEqual(recs[w].late, [])

    def test_names_and_other_programs_do_not_matter(self):
        """What looks like a worker has no device; what has one is no Python."""
        first, = self.nodes_of("davinci0")
        hidden = self.start(first)
        hidden.do("rename", tid=hidden.pid, name=b"sshd".hex())
        hidden.do("title", title=b"sshd: root@pts/0".hex())
        loud = self.start(inside=["env", "RANK=0", "ASCEND_DEVICE_ID=0"])
        loud.do("rename", tid=loud.pid, name=b"VLLM::Worker_TP0"[:15].hex())
        loud.do("title", title=b"VLLM::Worker_TP0 /dev/davinci0".hex())
        # The name of a device and the number of none, or no device at all.
        self.start(node(os.path.join(h.new_dir(), "davinci0"), (1, 3)))
        regular = os.path.join(h.new_dir(), "davinci0")
        open(regular, "w").close()
        self.start(regular)
        self.start("/dev/null")
        other = subprocess.Popen(["sh", "-c", 'exec 5<>"$0"; echo; exec sleep 1000', first],
                                 stdout=subprocess.PIPE)
        try:
            self.assertEqual(other.stdout.readline(), b"\n")
            with h.Recorder([], "--all-npu", self.root) as r:
                self.run_all()
                self.assertEqual(r.stop(), h.OK, r.text())
                self.assert_recorded(r, [hidden])
                self.assertNotIn(other.pid, r.pids())
        finally:
            other.kill()
            other.wait()
            other.stdout.close()

    def test_every_python(self):
        for py in h.pythons():
            self.start(self.dev + "/davinci1", py)
        named = self.start()  # has none: -p adds it
        with h.Recorder(named, "--all-npu", self.root) as r:
            self.run_all()
            self.assertEqual(r.stop(), h.OK, r.text())
            recs = self.assert_recorded(r, self.ours)
        self.assertNotIn("npu.devices", recs[named].meta)

    def test_dev_itself(self):
        """Without the option for tests: the host's /dev, here one of giltrace's own."""
        bound, unbound = self.start(self.dev + "/davinci1"), self.start()
        virtual = self.start(self.dev + "/davinci_manager")
        nodes = {"davinci7": ZERO, "vdavinci100": RANDOM}
        with h.Recorder([], "--all-npu", preexec_fn=own_dev(nodes)) as r:
            self.run_all()
            self.assertEqual(r.stop(), h.OK, r.text())
            recs = self.assert_recorded(r, [bound, virtual])
        self.assertEqual(recs[bound].meta["npu.devices"], "7")
        self.assertEqual(recs[bound].meta["rank"], "7")
        self.assertIn("vdavinci100", recs[virtual].meta["npu.source"])
        self.assertIsNotNone(unbound)


class Ranks(NpuTest):
    def test_where_the_rank_comes_from(self):
        second, = self.nodes_of("davinci1")
        by_variable = self.start(second, env={"RANK": "11", "LOCAL_RANK": "3"})
        other_variable = self.start(second, env={"OMPI_COMM_WORLD_RANK": "12"})
        by_title = self.start(second)
        by_title.do("title", title=b"VLLM::Worker_TP5".hex())
        by_card, nonsense = self.start(second), self.start(second, env={"RANK": "1x"})
        with h.Recorder([], "--all-npu", self.root) as r:
            self.run_all()
            self.assertEqual(r.stop(), h.OK, r.text())
            recs = self.assert_recorded(r, self.ours)
        for w, rank, source in ((by_variable, "11", "RANK"),
                                (other_variable, "12", "OMPI_COMM_WORLD_RANK"),
                                (by_title, "5", "title"), (by_card, "1", "npu"),
                                (nonsense, "1", "npu")):
            meta = recs[w].meta
            self.assertEqual((meta["rank"], meta["rank.source"]), (rank, source))
            self.assertEqual(os.path.basename(recs[w].path), "GIL_%d_rank_%s.gil" % (w.pid, rank))
        meta = recs[by_variable].meta
        self.assertEqual((meta["rank.local"], meta["rank.local_source"]), ("3", "LOCAL_RANK"))
        self.assertNotIn("rank.local", recs[by_card].meta)


class NothingThere(NpuTest):
    def refused(self, *options, **kwargs):
        expected = kwargs.pop("status", h.NO_TARGET)
        where = h.new_dir()
        status, out, err = h.giltrace("--all-npu", "-d", "20", "-o", where, *options, **kwargs)
        self.assertEqual((status, out), (expected, ""), err)
        self.assertEqual(os.listdir(where), [])
        return err

    def test_no_device_on_the_host(self):
        """Nothing of the driver's names, or nothing that is a character device."""
        odd = h.new_dir()
        open(os.path.join(odd, "davinci0"), "w").close()
        os.mkdir(os.path.join(odd, "davinci1"))
        os.symlink("/dev/null", os.path.join(odd, "davinci2x"))
        node(os.path.join(odd, "davinci3"), (1, 7), stat.S_IFBLK)
        bound = self.start(self.dev + "/davinci0")
        for folder in (h.new_dir(), odd):
            err = self.refused("--device-root=" + folder)
            self.assertRegex(err, NONE_HERE)
            self.assertNotRegex(err, NONE_USED)
            self.assertIn("davinci", err)
            self.assertIn(folder, err)
        err = self.refused()
        self.assertRegex(err, NONE_HERE)
        self.assertIn("/dev", err)
        self.assertIsNone(bound.proc.poll())

    def test_devices_but_none_in_use(self):
        self.start()  # a Python, but no device
        first, = self.nodes_of("davinci0")
        err = self.refused(self.root)
        self.assertRegex(err, NONE_USED)
        self.assertNotRegex(err, NONE_HERE)
        self.assertRegex(err, r"\b2 devices\b")
        other = subprocess.Popen(["sh", "-c", 'exec 5<>"$0"; echo; exec sleep 1000', first],
                                 stdout=subprocess.PIPE)
        try:
            self.assertEqual(other.stdout.readline(), b"\n")
            self.assertRegex(self.refused(self.root), NONE_USED)
        finally:
            other.kill()
            other.wait()
            other.stdout.close()

    def test_a_folder_that_is_not_there(self):
        self.assertIn("/nonexistent", self.refused("--device-root=/nonexistent", status=h.FAILED))


class Late(NpuTest):
    def test_those_that_come_later(self):
        """A Python that opens a device later, a new Python, and a new device."""
        first, = self.nodes_of("davinci0")
        dev = root_of(HOST)
        early, later = self.start(first), self.start()
        with h.Recorder([], "--all-npu", "--device-root=" + dev) as r:
            r.begun(early)
            opened = time.monotonic()
            later.do("open", path=first)
            r.begun(later)
            born = time.monotonic()
            new = self.start(first)
            r.begun(new)
            made = time.monotonic()
            newest = self.start(node(os.path.join(dev, "davinci2"), URANDOM))
            r.begun(newest)
            self.run_all()
            self.assertEqual(r.stop(), h.OK, r.text())
            recs = self.assert_recorded(r, self.ours)
        start = recs[early].begin_ns / 1e9
        self.assertEqual(recs[early].late, [])
        self.assertNotIn("recording.late", recs[early].meta)
        # From when on events are missing: the start for who was there, else the birth, which the
        # kernel tells in ticks of 10 ms.
        for w, since, seen in ((later, start, opened), (new, born, born), (newest, made, made)):
            record, = recs[w].late
            self.assertEqual(recs[w].all[0].kind, h.LATE)
            begin, end = record.begin_ns / 1e9, record.ns / 1e9
            self.assertLess(abs(begin - since), 0.5 if w is later else 2)
            self.assertGreater(end, seen)
            self.assertLess(end - seen, 3)
            self.assertEqual(recs[w].meta["recording.late"], "found")
            self.assertTrue(all(e.ns >= record.ns for e in recs[w].events))
        self.assertEqual(recs[newest].meta["npu.devices"], "2")

    def test_those_that_end_cost_nothing_further(self):
        first, = self.nodes_of("davinci0")
        front = ["sh", "-c", 'exec 5<>"$0"; exec "$@"', first]
        watched = self.start(first)

        def holds():
            """How much giltrace has open, and how much of that in the kernel."""
            return len(os.listdir("/proc/%d/fd" % r.pid)), len(r.kernel_objects())
        # For the summary, some files would stay open.
        with h.Recorder([], "--all-npu", self.root, "--no-summary") as r:
            r.begun(watched)
            before, ended = holds(), []
            for _ in range(3):
                ps = [h.Plain(h.python(), *front) for _ in range(10)]
                for p in ps:
                    self.addCleanup(p.kill)
                h.until_all_have(r, ps, "events")
                for now, then in zip(holds(), before):
                    self.assertGreater(now, then)
                for p in ps:
                    p.end()
                h.until_all_have(r, ps, "end")
                ended += ps
            h.until(lambda: holds() == before, "only so much is open: %s" % (before,))
            self.assertIsNone(r.proc.poll())
            r.begun(watched)
            self.run_all()
            self.assertEqual(r.stop(), h.OK, r.text())
            self.assert_recorded(r, [watched])
            for p in ended:
                rec = r.recording(p.pid)
                self.assert_sound(rec)
                self.assertEqual(rec.end.reason, h.END_TARGET_EXIT)


if __name__ == "__main__":
    h.main()
