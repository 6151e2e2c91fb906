# SPDX-License-Identifier: Apache-2.0
"""
Capabilities instead of root: what docs/rights.md says is enough is enough, and what is missing is
named. Users are numbers that nobody else has.
"""
import ctypes
import functools
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

ME, OTHER = 64101, 64102
CAPS = {"CAP_DAC_READ_SEARCH": 2, "CAP_SETGID": 6, "CAP_SETUID": 7, "CAP_SYS_PTRACE": 19,
        "CAP_SYS_ADMIN": 21, "CAP_SYS_RESOURCE": 24, "CAP_PERFMON": 38, "CAP_BPF": 39,
        "CAP_CHECKPOINT_RESTORE": 40}
FOR_OTHERS = {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"}
PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 8, 24, 38, 47
CLONE_NEWNS = 0x20000
MS_REC_PRIVATE = 0x44000
libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def documented():
    """The capabilities of the setcap line in docs/rights.md."""
    with open(os.path.join(h.TESTS, "..", "docs", "rights.md")) as f:
        names, = re.findall(r"setcap ([a-z_,]+)=ep", f.read())
    return {name.upper() for name in names.split(",")}


def words(caps, part):
    """32 bits of a set of capabilities, as the kernel's interfaces want them."""
    return sum(1 << CAPS[c] for c in caps) >> 32 * part & 0xffffffff


def become(uid, caps=()):
    """For preexec_fn: that user, with these capabilities, which survive the exec as ambient ones."""
    def go():
        checked(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        head = (ctypes.c_uint32 * 2)(0x20080522, 0)
        data = [words(caps, part) for part in (0, 0, 0, 1, 1, 1)]
        checked(libc.capset(head, (ctypes.c_uint32 * 6)(*data)))
        for c in caps:
            checked(libc.prctl(PR_CAP_AMBIENT, 2, CAPS[c], 0, 0))
    return go


def with_file_capabilities(caps):
    """A copy of giltrace with these capabilities, as setcap(8) makes them; None: not possible."""
    path = shutil.copy(h.tool("giltrace"), h.new_dir())
    os.chmod(path, 0o755)
    value = struct.pack("<IIIII", 0x02000001, words(caps, 0), 0, words(caps, 1), 0)
    try:
        os.setxattr(path, "security.capability", value)
    except OSError:
        return None
    return path


@functools.lru_cache(None)
def python():
    """One that everybody can run."""
    for py in h.pythons():
        try:
            subprocess.run([py.path, "-c", ""], preexec_fn=become(ME), cwd="/", check=True,
                           stderr=subprocess.DEVNULL)
            return py
        except (OSError, subprocess.SubprocessError):
            pass
    raise unittest.SkipTest("no CPython here that another user can run")


class Rights(h.BpfTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not shutil.which("setpriv"):
            raise unittest.SkipTest("no setpriv")
        cls.set = documented()
        cls.work = {}
        try:
            for uid in (ME, OTHER):
                inside = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
                cls.work[uid] = h.Workload(python(), inside=inside)
                cls.work[uid].start_workers(cpu=2)
                cls.work[uid].do("run")
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        for w in cls.work.values():
            w.__exit__()

    def setUp(self):
        self.folder = h.new_dir()
        os.chown(self.folder, ME, ME)

    def run_as(self, prepare, uid, *options, **kwargs):
        """giltrace after `prepare`, on the process of `uid`: status, what it said."""
        status, out, err = h.giltrace("-p", self.work[uid].pid, "-d", "0.3", "-o", self.folder,
                                      *options, preexec_fn=prepare, cwd="/", **kwargs)
        return status, out + err

    def recorded(self, uid, result):
        self.assertEqual(result[0], h.OK, result[1])
        name, = [f for f in os.listdir(self.folder) if f.startswith("GIL_%d_" %
                                                                   self.work[uid].pid)]
        path = os.path.join(self.folder, name)
        st = os.stat(path)
        self.assertEqual((st.st_uid, st.st_gid, st.st_mode & 0o777), (ME, ME, 0o640))
        rec = h.Recording(path)
        os.unlink(path)
        self.assertGreater(len(rec.events), 0)
        self.assert_sound(rec)

    def refused(self, result, missing):
        """Status 5, no file, and these capabilities are named, and no other."""
        self.assertEqual(result[0], h.NO_BPF, result[1])
        self.assertEqual(set(re.findall(r"CAP_\w+", result[1])), missing, result[1])
        self.assertIn("missing: ", result[1])
        self.assertEqual(os.listdir(self.folder), [])

    def expect_multi(self):
        if "multi" not in h.backends():
            self.skipTest("without uprobe_multi CAP_SYS_ADMIN is needed, which has most in it")

    def needed(self, backend):
        return self.set | ({"CAP_SYS_ADMIN"} if backend != "multi" else set())

    def test_the_documented_set_as_ambient_capabilities(self):
        for backend in h.backends():
            for uid in (ME, OTHER, ME):
                self.recorded(uid, self.run_as(become(ME, self.needed(backend)), uid,
                                               "--backend=" + backend))

    def test_the_documented_set_as_capabilities_of_the_file(self):
        """The kernel makes such a program undumpable, and /proc/self root's."""
        for backend in h.backends():
            path = with_file_capabilities(self.needed(backend))
            if not path:
                self.skipTest("files cannot have capabilities here")
            for uid in (ME, OTHER):
                self.recorded(uid, self.run_as(become(ME), uid, "--backend=" + backend,
                                               executable=path))

    def test_an_own_process_needs_less(self):
        backend = h.backends()[0]
        self.recorded(ME, self.run_as(become(ME, self.needed(backend) - FOR_OTHERS), ME,
                                      "--backend=" + backend))

    def test_admin_has_some_in_it(self):
        for backend in h.backends():
            self.recorded(OTHER, self.run_as(become(ME, FOR_OTHERS | {"CAP_SYS_ADMIN"}), OTHER,
                                             "--backend=" + backend))

    def test_each_is_needed(self):
        self.expect_multi()
        for cap in sorted(self.set):
            with self.subTest(cap=cap):
                self.refused(self.run_as(become(ME, self.set - {cap}), OTHER), {cap})
                path = with_file_capabilities(self.set - {cap})
                if path:
                    self.refused(self.run_as(become(ME), OTHER, executable=path), {cap})
                if cap not in FOR_OTHERS:
                    self.refused(self.run_as(become(ME, self.set - {cap}), ME), {cap})

    def test_none_at_all(self):
        self.expect_multi()
        self.refused(self.run_as(become(ME), OTHER), self.set)
        self.refused(self.run_as(become(ME), ME), self.set - FOR_OTHERS)
        self.refused(self.run_as(become(ME, {"CAP_CHECKPOINT_RESTORE"}), ME),
                     {"CAP_BPF", "CAP_PERFMON"})

    def test_to_look_takes_less(self):
        status, said = self.run_as(become(ME, {"CAP_CHECKPOINT_RESTORE"}), ME, "--dry-run")
        self.assertEqual(status, h.OK, said)

    def test_perf_needs_more(self):
        """Linux 6.16, and the stable trees since then."""
        status, said = self.run_as(become(ME, self.set), ME, "--backend=" + h.backends()[-1])
        if status == h.OK:
            self.skipTest("this kernel is content with CAP_PERFMON")
        self.refused((status, said), {"CAP_SYS_ADMIN"})

    def test_paranoid(self):
        """The sysctl is for those without CAP_PERFMON, who cannot do anything here anyway."""
        path = "/proc/sys/kernel/perf_event_paranoid"
        with open(path) as f:
            before = f.read()

        def put(value):
            with open(path, "w") as f:
                f.write(value)
        try:
            put("3")
        except OSError as err:
            self.skipTest("%s: %s" % (path, err))
        self.addCleanup(put, before)
        for backend in h.backends():
            self.recorded(OTHER, self.run_as(become(ME, self.needed(backend)), OTHER,
                                             "--backend=" + backend))

    def hidden(self, how, caps):
        def go():
            checked(libc.unshare(CLONE_NEWNS))
            checked(libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None))
            checked(libc.mount(b"proc", b"/proc", b"proc", 0, b"hidepid=" + how))
            become(ME, caps)()
        return go

    def test_hidepid(self):
        self.expect_multi()
        for how, name in ((b"1", "noaccess"), (b"2", "invisible")):
            result = self.run_as(self.hidden(how, self.set - {"CAP_SYS_PTRACE"}), OTHER)
            self.refused(result, {"CAP_SYS_PTRACE"})
            self.assertRegex(result[1], r"/proc is mounted with hidepid=(%s|%s)\b" %
                             (name, how.decode()))
            self.recorded(OTHER, self.run_as(self.hidden(how, self.set), OTHER))
            self.recorded(ME, self.run_as(self.hidden(how, self.set - FOR_OTHERS), ME))
            # It is not blamed for what is not there.
            p = subprocess.Popen(["true"])
            p.wait()
            status, out, err = h.giltrace("-p", p.pid, "-o", self.folder,
                                          preexec_fn=self.hidden(how, self.set - FOR_OTHERS))
            self.assertEqual(status, h.NO_TARGET, err)
            self.assertNotIn("hidepid", err)

    def test_capabilities_of_the_file_that_do_not_count(self):
        path = with_file_capabilities(self.set)
        if not path:
            self.skipTest("files cannot have capabilities here")

        def go():
            become(ME)()
            checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        result = self.run_as(go, OTHER, executable=path)
        self.refused(result, self.set)
        self.assertIn("no_new_privs", result[1])

    def test_user_namespace(self):
        inside = ["unshare", "--user", "--map-root-user"]
        if subprocess.run(inside + ["true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no user namespace can be made here")
        with h.Workload(h.python()) as w:
            p = subprocess.run(inside + [h.tool("giltrace"), "-p", str(w.pid), "-o", self.folder],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(p.returncode, h.NO_BPF, p.stdout)
        self.assertIn(b"user namespace", p.stdout)
        self.assertEqual(os.listdir(self.folder), [])

    def test_root_that_cannot_become_nobody(self):
        """A container started with all capabilities dropped but the documented ones."""
        def go():
            for c in ("CAP_SETUID", "CAP_SETGID"):
                checked(libc.prctl(PR_CAPBSET_DROP, CAPS[c], 0, 0, 0))
        self.refused(self.run_as(go, ME), {"CAP_SETUID", "CAP_SETGID"})

    def test_the_reader_of_files_has_none(self):
        """What parses somebody's ELF file gives up all before it maps it, and keeps no way back."""
        if not shutil.which("strace"):
            h.say("MISSING: strace, so nobody looks what the reader of files gives up")
            self.skipTest("no strace")
        log = os.path.join(h.new_dir(), "log")
        os.chmod(os.path.dirname(log), 0o777)
        p = subprocess.run(["strace", "-f", "-o", log, "-e",
                            "trace=capset,prctl,mmap,setresuid,setresgid,setgroups",
                            h.tool("giltrace"), "-p", str(self.work[ME].pid), "--dry-run"],
                           preexec_fn=become(ME, self.set), stdout=subprocess.DEVNULL, cwd="/")
        self.assertEqual(p.returncode, h.OK)
        calls = {}
        with open(log) as f:
            for line in f:
                pid, call = line.split(None, 1)
                calls.setdefault(pid, []).append(call)
        main = next(iter(calls))
        # Others are threads of giltrace's own.
        readers = [c for pid, c in calls.items() if pid != main and
                   any(re.match(r"mmap\(.*MAP_(?:PRIVATE|SHARED), 3, 0\)", call) for call in c)]
        self.assertGreater(len(readers), 0)
        for own in readers:
            order = [i for i, c in enumerate(own) if c.startswith("capset(")]
            self.assertEqual(len(order), 1, own)
            gone = own[order[0]]
            self.assertRegex(gone, r"effective=0, permitted=0, inheritable=0\}\) = 0$")
            self.assertRegex(own[order[0] + 1], r"prctl\(PR_SET_NO_NEW_PRIVS, 1.*\) = 0$")
            mapped = [i for i, c in enumerate(own)
                      if re.match(r"mmap\(.*MAP_(?:PRIVATE|SHARED), 3, 0\)", c)]
            self.assertTrue(mapped and mapped[0] > order[0], own)


if __name__ == "__main__":
    h.main()
