# SPDX-License-Identifier: Apache-2.0
"""The release packages (scripts/release.sh) on the userlands that they are for: installed, used for
real recordings, removed without a trace. Needs root, BPF, debootstrap, rpm, and once the network for
the userlands, which are kept in a cache. All that is mounted and written vanishes with this process.

    sudo python3 tests/release/test_release.py [Packages]

Packages alone looks at them from outside, without userlands. They are those of scripts/release.sh, which
is run if there are none; $GT_RELEASE_DIR names another folder of them, $GT_RELEASE_ARCH=arm64 (amd64)
those for another machine, for Packages.
"""
import glob
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
NATIVE, = (a for a, m in MACHINES.items() if m == platform.machine())
ARCH = os.environ.get("GT_RELEASE_ARCH") or NATIVE
MACHINE = MACHINES[ARCH]
BUILD = os.path.join(TOP, "build-release-" + ARCH)
PACKAGES = os.environ.get("GT_RELEASE_DIR") or os.path.join(BUILD, "packages")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
                     "giltrace", "userland")
MIRROR = [m for m in [os.environ.get("GT_DEBIAN_MIRROR")] if m]  # else debootstrap's own
GLIBC = (2, 31)
LIBC = re.compile(r"(lib(c|m|dl|pthread)|ld-linux-(x86-64|aarch64))\.so\.\d+")
SUITES = {"bullseye": "3.9", "trixie": "3.13"}  # with their Pythons

# What the package's files may lie beside: no package may own these.
OWN = re.compile(r"giltrace|gil2trace|gilfile")
# What dpkg, rpm and the loader write for themselves.
THEIRS = re.compile(r"^(var/lib/(dpkg|rpm)|var/log/dpkg\.log|var/cache/ldconfig|etc/ld\.so\.cache|tmp)")

# Three threads want the GIL until there is no more standard input.
WORK = """
import sys, threading
stop = []
def work():
    while not stop:
        sum(range(1000))
threads = [threading.Thread(target=work) for i in range(2)]
[t.start() for t in threads]
print("ready", flush=True)
sys.stdin.read()
stop.append(1)
[t.join() for t in threads]
"""

RECORD_ITSELF = """
import giltrace, threading
with giltrace.record(output_dir="/tmp/itself") as r:
    t = threading.Thread(target=lambda: sum(range(100000)))
    t.start()
    giltrace.mark("here")
    t.join()
print(giltrace.__version__, *r.result.files)
"""


def skip(why):
    print("SKIP: tests/release: " + why, file=sys.stderr)
    sys.exit(77)


def run(command, **kwargs):
    p = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, universal_newlines=True, timeout=300, **kwargs)
    if p.returncode:
        raise AssertionError("%s: status %d\n%s%s" % (shlex.join(map(str, command)), p.returncode,
                                                      p.stdout, p.stderr))
    return p.stdout


def package(pattern):
    found = [p for p in glob.glob(os.path.join(PACKAGES, pattern)) if "debug" not in p]
    if len(found) != 1:
        raise AssertionError("%d files %s in %s" % (len(found), pattern, PACKAGES))
    return found[0]


def prepare_packages():
    for tool in ("debootstrap", "rpm", "dpkg-deb", "readelf"):
        if subprocess.call(["sh", "-c", "command -v " + tool], stdout=subprocess.DEVNULL):
            skip(tool + " is missing")
    if not glob.glob(os.path.join(PACKAGES, "*.deb")):
        p = subprocess.run([os.path.join(TOP, "scripts", "release.sh"), ARCH, PACKAGES],
                           stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True)
        if p.returncode:
            sys.stderr.write(p.stderr)
            if "cannot be had" in p.stderr:
                skip("the libraries of the release cannot be had; see above")
            sys.exit(1)


def prepare_userlands():
    for suite in SUITES:
        root = os.path.join(CACHE, suite)
        if not os.path.isdir(root):
            os.makedirs(CACHE, exist_ok=True)
            new = tempfile.mkdtemp(prefix="new-", dir=CACHE)
            if subprocess.call(["debootstrap", "--variant=minbase", "--include=python3", suite, new]
                               + MIRROR, stdin=subprocess.DEVNULL, stdout=sys.stderr):
                skip("no userland of %s could be had by debootstrap" % suite)
            os.chmod(new, 0o755)
            os.rename(new, root)


class Host:
    """A userland to change and to throw away."""

    def __init__(self, suite):
        self.dir = tempfile.mkdtemp(prefix="giltrace-release-")
        self.root = os.path.join(self.dir, "root")
        run(["mount", "-t", "tmpfs", "tmpfs", self.dir])
        for d in ("root", "upper", "work"):
            os.mkdir(os.path.join(self.dir, d))
        run(["mount", "-t", "overlay", "overlay", "-o", "lowerdir=%s,upperdir=%s,workdir=%s" % (
            os.path.join(CACHE, suite), self.dir + "/upper", self.dir + "/work"), self.root])
        for d in ("proc", "sys", "dev"):
            run(["mount", "--rbind", "/" + d, os.path.join(self.root, d)])
        self.before = self.files()

    def close(self):
        run(["umount", "-R", "-l", self.dir])
        os.rmdir(self.dir)

    def command(self, *command, **env):
        return ["chroot", self.root, "env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:"
                "/usr/bin:/sbin:/bin", "HOME=/root"] + ["%s=%s" % e for e in env.items()] + list(command)

    def run(self, *command, **env):
        return run(self.command(*command, **env))

    def copy(self, path, to="/tmp"):
        run(["cp", path, self.root + to])
        return os.path.join(to, os.path.basename(path))

    def files(self):
        found = set()
        for top, dirs, files in os.walk(self.root):
            at = os.path.relpath(top, self.root)
            if at == ".":
                dirs[:] = [d for d in dirs if d not in ("proc", "sys", "dev")]
            found.update(os.path.normpath(os.path.join(at, f)) for f in files + dirs)
        return {f for f in found if not THEIRS.match(f)}

    def left(self):
        """What is there that was not, and the other way round."""
        return sorted(self.files() ^ self.before)


class Packages(unittest.TestCase):
    """What can be seen from outside."""

    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        run(["dpkg-deb", "-x", package("giltrace_*_%s.deb" % ARCH), cls.tmp.name])
        cls.lib = glob.glob(cls.tmp.name + "/usr/lib/*/libgiltrace.so.*.*")[0]
        cls.giltrace, cls.gil2trace = (cls.tmp.name + "/usr/bin/" + p for p in ("giltrace", "gil2trace"))

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def needed(self, path):
        text = run(["readelf", "-dW", path])
        self.assertNotRegex(text, "R(UN)?PATH")
        return set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))

    def test_names(self):
        version = run(["dpkg-deb", "-f", package("*.deb"), "Version"]).strip()
        for name in ("giltrace_%s_%s.deb" % (version, ARCH), "giltrace-%s-1.%s.rpm" % (version, MACHINE),
                     "giltrace-%s-linux-%s.tar.gz" % (version, MACHINE),
                     "giltrace-%s-linux-%s-debug.tar.gz" % (version, MACHINE),
                     "giltrace-%s-py3-none-any.whl" % version):
            self.assertTrue(os.path.isfile(os.path.join(PACKAGES, name)), name)
        run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=PACKAGES)

    def test_needs_libc_only(self):
        for path, more in ((self.giltrace, set()), (self.gil2trace, {"libz.so.1"}), (self.lib, set())):
            self.assertEqual({n for n in self.needed(path) if not LIBC.fullmatch(n)}, more, path)

    def test_needs_no_newer_libc(self):
        for path in (self.giltrace, self.gil2trace, self.lib):
            found = re.findall(r" (\S+)@GLIBC_([0-9.]+)", run(["readelf", "--dyn-syms", "-W", path]))
            self.assertTrue(found, path)
            newer = [f for f in found if tuple(map(int, f[1].split("."))) > GLIBC]
            self.assertEqual(newer, [], path)

    def test_dependencies_are_declared(self):
        field = run(["dpkg-deb", "-f", package("*.deb"), "Depends"])
        self.assertEqual(field.strip(), "libc6 (>= %d.%d), zlib1g" % GLIBC)
        requires = set(run(["rpm", "-qp", "--requires", package("*.rpm")]).split("\n"))
        self.assertIn("glibc >= %d.%d" % GLIBC, requires)
        known = re.compile(r"$|glibc |rpmlib\(|libz\.so\.1\(|/bin/sh$")
        foreign = [r for r in requires if not known.match(r) and not LIBC.match(r)]
        self.assertEqual(foreign, [])

    def test_rpm_owns_no_shared_folder(self):
        listing = run(["rpm", "-qplv", package("*.rpm")])
        dirs = re.findall(r"^d.* (/\S+)$", listing, re.M)
        self.assertEqual([d for d in dirs if not OWN.search(d)], [])

    def test_same_files(self):
        def names(lines, strip):
            return {re.sub(strip, "", f) for f in lines}

        deb = {re.sub(r"^lib/[^/]*-linux-gnu/", "lib/", f) for f in self.members()}
        tar = names(run(["tar", "-tzf", package("*.tar.gz")]).split(), "^[^/]*/")
        rpm = names(run(["rpm", "-qpl", package("*.rpm")]).replace("/lib64/", "/lib/").split(), "^/usr/")
        self.assertEqual(deb - tar, set())
        self.assertEqual(deb - rpm, set())
        self.assertEqual({f for f in tar if f and not f.endswith("/")} - deb, set())

    def members(self):
        for top, dirs, files in os.walk(self.tmp.name + "/usr"):
            for f in files:
                yield os.path.relpath(os.path.join(top, f), self.tmp.name + "/usr")

    def test_tells_nothing_of_where_it_was_built(self):
        for name in self.members():
            with open(os.path.join(self.tmp.name, "usr", name), "rb") as f:
                data = f.read()
            for path in (TOP, os.path.dirname(CACHE), PACKAGES):
                self.assertNotIn(path.encode() + b"/", data, name)

    def test_symbols_are_beside_it(self):
        listing = run(["tar", "-tzf", glob.glob(PACKAGES + "/*-debug.tar.gz")[0]])
        for path in (self.giltrace, self.gil2trace, self.lib):
            self.assertNotIn(".debug_info", run(["readelf", "-SW", path]))
            id = re.search(r"Build ID: (\w+)", run(["readelf", "-nW", path])).group(1)
            self.assertIn("%s/%s.debug" % (id[:2], id[2:]), listing)

    def test_notices_are_in_it(self):
        doc = self.tmp.name + "/usr/share/doc/giltrace/"
        for name in ("LICENSE", "third-party.md", "third-party/LGPL-3", "third-party/GPL-3"):
            self.assertTrue(os.path.getsize(doc + name), name)


class Userland:
    """On each of the userlands."""

    def setUp(self):
        self.host = Host(self.suite)
        self.addCleanup(self.host.close)
        self.work = None

    def start_work(self):
        """A Python of the userland; its pid."""
        p = subprocess.Popen(self.host.command("python3", "-c", WORK), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, universal_newlines=True)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.stdin.close)
        self.assertEqual(p.stdout.readline(), "ready\n")
        return p.pid

    def check_recording(self, folder, pid, prefix="/usr/bin/"):
        """The file is whole, and its trace is one that viewers read, with waits in it."""
        trace = os.path.join(folder, "trace.json")
        file, = glob.glob("%s%s/GIL_%s_*.gil" % (self.host.root, folder, pid))
        self.host.run(prefix + "gil2trace", file[len(self.host.root):], "-o", trace)
        run([sys.executable, os.path.join(TOP, "tests", "check_trace_rules.py"), self.host.root + trace])
        with open(self.host.root + trace, encoding="utf-8") as f:
            data = json.load(f)
        events = data["traceEvents"] if isinstance(data, dict) else data
        names = [e.get("name") for e in events]
        self.assertIn("take_gil", names)
        self.assertIn("hold_gil", names)

    def record(self, prefix="/usr/bin/"):
        pid = self.start_work()
        sites = self.host.run(prefix + "giltrace", "--dry-run", "-p", str(pid))
        self.assertIn(SUITES[self.suite], sites)
        self.host.run(prefix + "giltrace", "-p", str(pid), "-d", "0.5", "-o", "/tmp")
        self.check_recording("/tmp", pid, prefix)

    def test_deb(self):
        deb = self.host.copy(package("*.deb"))
        self.host.run("dpkg", "-i", deb)
        version = self.host.run("dpkg-query", "-W", "-f", "${Version}", "giltrace")
        self.assertIn(version, self.host.run("giltrace", "--version"))
        self.assertIn(version, self.host.run("gil2trace", "--version"))
        self.record()

        # A command, as another user: looking that one up is what a static libc could not do.
        out = self.host.run("giltrace", "-o", "/tmp/command", "--user=nobody", "--", "python3", "-c",
                            "import os; print(os.getuid())")
        self.assertEqual(out.split(), ["65534"])

        # The Python package; as it leaves compiled files behind.
        itself = self.host.run("python3", "-c", RECORD_ITSELF,
                               PYTHONPATH="/usr/share/giltrace/python").split()
        self.assertEqual(itself[0], version)
        self.assertEqual(len(itself), 2, itself)
        self.assertTrue(glob.glob(self.host.root + "/usr/share/giltrace/python/giltrace/__pycache__"))

        self.embed()
        for how in ("-r", "-P"):
            self.host.run("dpkg", how, "giltrace")
            self.assertEqual(self.host.left(), [])

    def embed(self):
        """The example for C, built with the package, but not against this userland's libc."""
        sysroot, clang, lld = (cached(n) for n in ("GT_SYSROOT", "CMAKE_C_COMPILER", "GT_LLD"))
        with tempfile.TemporaryDirectory() as tmp:
            run(["dpkg-deb", "-x", package("*.deb"), tmp])
            pc, = glob.glob(tmp + "/usr/lib/*/pkgconfig")
            flags = run(["pkg-config", "--cflags", "--libs", "giltrace"],
                        env=dict(os.environ, PKG_CONFIG_PATH=pc)).split()
            run([clang, "--target=%s-linux-gnu" % MACHINE, "--sysroot=" + sysroot, "-fuse-ld=" + lld,
                 tmp + "/usr/share/doc/giltrace/examples/embed.c", "-o",
                 self.host.root + "/tmp/embed"] + flags)
        pid = self.start_work()
        out = self.host.run("/tmp/embed", str(pid), "3", "/tmp/embedded").split("\n")
        self.assertRegex(out[0], r"^[1-9]\d* events, 0 lost, 3 marks$")
        self.check_recording("/tmp/embedded", pid)

    def test_rpm(self):
        # Its rpm's database knows no glibc: what it requires is looked at above.
        rpm = ["rpm", "--root", self.host.root, "--dbpath", "/var/lib/rpm"]
        if run(["rpm", "--eval", "%{?_vendor}"]).strip() == "debian":
            rpm.append("--force-debian")
        run(rpm + ["-i", "--nodeps", "--nosignature", package("*.rpm")])
        run(rpm + ["-V", "--nodeps", "giltrace"])
        self.record()
        itself = self.host.run("python3", "-c", "import giltrace; print(giltrace.__file__)",
                               PYTHONPATH="/usr/share/giltrace/python")
        self.assertIn("/usr/share/giltrace/python", itself)
        self.host.run("python3", "-c", "import ctypes; ctypes.CDLL('/usr/lib64/libgiltrace.so.0')")
        run(rpm + ["-e", "giltrace"])
        self.assertEqual([f for f in self.host.left() if OWN.search(f)], [])
        self.assertEqual([f for f in self.host.left() if not os.path.isdir(
            os.path.join(self.host.root, f))], [])

    def test_tar(self):
        run(["tar", "-xzf", package("*.tar.gz"), "-C", self.host.root + "/opt"])
        top, = os.listdir(self.host.root + "/opt")
        self.record("/opt/%s/bin/" % top)
        for path in ("/opt/%s/share/giltrace/python" % top, self.host.copy(package("*.whl"))):
            itself = self.host.run("python3", "-c", RECORD_ITSELF, PYTHONPATH=path,
                                   GILTRACE_COMMAND="/opt/%s/bin/giltrace" % top).split()
            self.assertEqual(len(itself), 2, itself)
        run(["rm", "-r", "%s/opt/%s" % (self.host.root, top)])
        self.assertEqual(self.host.left(), [])

    def test_cmake(self):
        env = dict(os.environ, DESTDIR=self.host.root)
        run(["cmake", "--install", BUILD, "--prefix", "/usr/local", "--strip"], env=env)
        self.host.run("/usr/local/bin/giltrace", "--version")
        self.host.run("python3", "-c", "import giltrace", PYTHONPATH="/usr/local/share/giltrace/python")
        run(["cmake", "--build", BUILD, "--target", "uninstall"], env=env)
        left = [f for f in self.host.left() if OWN.search(f) or
                not os.path.isdir(os.path.join(self.host.root, f))]
        self.assertEqual(left, [])


class Bullseye(Userland, unittest.TestCase):
    suite = "bullseye"


class Trixie(Userland, unittest.TestCase):
    suite = "trixie"


def cached(name):
    """What cmake has been told or has found."""
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as f:
        return re.search(r"^%s:\w+=(.*)$" % name, f.read(), re.M).group(1)


if __name__ == "__main__":
    if os.geteuid():
        skip("needs root")
    if not os.environ.get("GT_RELEASE_NAMESPACE"):
        # What is mounted from here on is seen by nobody else, and vanishes at the end.
        os.environ["GT_RELEASE_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable] + sys.argv)
    prepare_packages()
    if not sys.argv[1:] or any(not name.startswith("Packages") for name in sys.argv[1:]):
        if ARCH != NATIVE:
            skip("packages for %s: only Packages looks at them here" % ARCH)
        prepare_userlands()
    unittest.main(verbosity=2)
