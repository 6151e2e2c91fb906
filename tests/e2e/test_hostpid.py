# SPDX-License-Identifier: Apache-2.0
"""giltrace in a pod with the host's PIDs: what docs/clusters.md says that it needs, and no more."""
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import containers as c  # noqa: E402
import harness as h  # noqa: E402
from family import FamilyTest  # noqa: E402

# All namespaces of its own but that of the PIDs; a root of its own, in which nothing is mounted but
# /proc and /dev, and in /sys what each test puts there.
POD = ["unshare", "--mount", "--uts", "--net", "--ipc", "--cgroup"]
NAMED = ["sh", "-ec", 'echo pod-x >/proc/sys/kernel/hostname; exec "$@"', "sh"]
SYS = ["sh", "-ec", 'mount -t sysfs -o ro sysfs /sys; exec "$@"', "sh"]
CAPS = ("bpf", "perfmon", "checkpoint_restore", "sys_ptrace", "dac_read_search", "setuid", "setgid")


def pod(*inside):
    return POD + ["sh", "-c", c.OVERLAY, "overlay", h.new_dir(), h.scratch()] + NAMED + \
        [word for command in inside for word in command]


def only(*caps):
    return ["setpriv", "--bounding-set=-all," + ",".join("+" + name for name in caps)]


class HostPid(FamilyTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        why = c.works(pod(SYS))
        if why:
            h.say("MISSING: a pod, not tested: %s" % why)
            raise unittest.SkipTest(why)

    def recorded(self, through, *options):
        """By a giltrace in there, of a process outside of it."""
        family = self.start()
        with h.Recorder(family.pid, *options, through=through) as r:
            done = family.root.count(30)
            self.assertEqual(r.stop(), h.OK, r.text())
            rec = r.recording()
        self.assert_good(rec)
        self.assert_counted(rec, done)
        self.assertEqual(rec.meta["process.pid"], str(family.pid))
        return rec

    def refused(self, through, *options):
        family = self.start()
        with h.Recorder(family.pid, *options, through=through, wait=False) as r:
            self.assertEqual(r.finish(), h.NO_BPF, r.text())
            self.assertEqual(r.files(), [])
            return r.text()

    def test_each_back_end_with_sysfs(self):
        for backend in h.backends() + ("ioctl",):
            rec = self.recorded(pod(SYS), "--backend=" + backend)
            self.assertEqual(rec.meta["host.name"], "pod-x")
        self.assertRegex(rec.meta["host.boot_id"], r"\A[0-9a-f-]{36}\Z")
        with open("/proc/sys/kernel/random/boot_id") as f:
            self.assertEqual(rec.meta["host.boot_id"], f.read().strip())

    @unittest.skipUnless(os.path.exists("/sys/kernel/btf/vmlinux"), "this kernel has no BTF")
    def test_following_needs_the_btf_in_sysfs(self):
        self.recorded(pod(SYS), "--follow=bpf")
        self.assertIn("/sys/kernel/btf", self.refused(pod(), "--follow=bpf"))

    def test_without_sysfs(self):
        for backend in ("perf", "ioctl"):
            self.assertIn("sysfs", self.refused(pod(), "--backend=" + backend))
        if "multi" in h.backends():
            self.recorded(pod())
            self.recorded(pod(), "--follow=proc")
        else:
            self.assertIn("sysfs", self.refused(pod()))

    @unittest.skipUnless(shutil.which("setpriv"), "no setpriv here")
    def test_capabilities(self):
        multi = "multi" in h.backends()
        self.recorded(pod(SYS, only(*CAPS + (() if multi else ("sys_admin",)))))
        self.recorded(pod(SYS, only("sys_admin", *CAPS)), "--backend=ioctl")
        if multi:  # kernels before 2025 may be content without it
            self.assertIn("CAP_SYS_ADMIN", self.refused(pod(SYS, only(*CAPS)), "--backend=ioctl"))


if __name__ == "__main__":
    h.main()
