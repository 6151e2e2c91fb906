# SPDX-License-Identifier: Apache-2.0
"""
The CPythons of this machine, and those that scripts/pythons.sh has fetched into its cache folder.

pythons() are the machine's own, every one of them started as it lies there. each_python takes also
those fetched ones that have no equal among them: other minor versions, free-threaded, on musl; all
fetched ones with GT_ALL_PYTHONS=1. matrix() (test_matrix.py) is always all there is.
"""
import functools
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys

from common import BUILD, LIMIT, new_dir, say, scratch


ABOUT = r"""
import sys, os, sysconfig
lib = None
libc, name = None, "CS_GNU_LIBC_VERSION"
for line in open("/proc/self/maps"):
    path = line.split(None, 5)[5].strip() if "/" in line else ""
    if os.path.basename(path).startswith("libpython%d.%d" % sys.version_info[:2]):
        lib = path
    if "/ld-musl" in line:
        libc = "musl"
print(repr((tuple(sys.version_info[:3]), sys.prefix, lib,
            "CPython" if "PyPy" not in sys.version else "PyPy",
            {"debug": hasattr(sys, "gettotalrefcount"),
             "libc": libc or name in os.confstr_names and os.confstr(name),
             "options": sysconfig.get_config_var("CONFIG_ARGS") or "",
             "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED"))})))
"""

# A new mount namespace, since nothing may be left behind in the root: /proc, /dev, and the folder
# of this test run at its own path. All by exec, so that the pid stays.
ENTER = """
set -e
root=$1 scratch=$2
shift 2
rest=${scratch#/}
mount --bind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root/${rest%%/*}"
mount -t tmpfs tmpfs "$root/${rest%%/*}"
mkdir -p "$root$scratch"
mount --bind "$scratch" "$root$scratch"
exec chroot "$root" "$@"
"""

ELF_SHT_SYMTAB = 2


def has_symtab(path):
    """Does a 64-bit ELF file have a .symtab?"""
    with open(path, "rb") as f:
        head = f.read(64)
        shoff, = struct.unpack_from("<Q", head, 40)
        shentsize, shnum = struct.unpack_from("<HH", head, 58)
        f.seek(shoff)
        table = f.read(shentsize * shnum)
    return any(struct.unpack_from("<I", table, i * shentsize + 4)[0] == ELF_SHT_SYMTAB
               for i in range(shnum))


def symbols(path):
    """Names of the functions in an ELF file's .symtab."""
    out = subprocess.run(["nm", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    lines = [line.split() for line in out.decode().splitlines()]
    return [f[2] for f in lines if len(f) == 3 and f[1] in "tT"]


class Python:
    """
    An interpreter and how to start it. `root`: the folder that it takes for /; its own files and
    those below scratch() are reachable there, the latter by the same names as outside.
    """

    def __init__(self, path, version, prefix, lib, label, env=None, root=None, build=None):
        self.path, self.version, self.prefix, self.lib = path, version, prefix, lib
        self.label = label
        self.env = env or {}
        self.root = root
        self.build = build or {}  # what it tells of itself: libc, options of configure, ...

    @property
    def file(self):
        """The file that holds CPython's code."""
        return self.lib or self.path

    @property
    def debug(self):
        return bool(self.build.get("debug"))

    @property
    def free_threaded(self):
        return bool(self.build.get("free_threaded"))

    @property
    def method(self):
        return re.sub(r"\W+", "_", self.label)

    def inside(self, path):
        """A path as the interpreter sees it."""
        return path[len(self.root):] if self.root and path.startswith(self.root + "/") else path

    def command(self):
        """How its command line begins."""
        return enter(self.root) + [self.inside(self.path)]

    def copy_to(self, folder, strip=False):
        """
        A copy of the interpreter and its libpython, which uses the original's modules. One that
        runs in a root needs it below scratch().
        """
        env = dict(self.env, PYTHONHOME=self.inside(self.prefix))
        path = shutil.copy(self.path, folder)
        lib = self.lib
        if lib:
            lib = shutil.copy(lib, folder)
            env["LD_LIBRARY_PATH"] = folder
        if strip:
            for f in filter(None, (path, lib)):
                os.chmod(f, 0o755)
                subprocess.run(["strip", "-s", f], check=True)
                assert not has_symtab(f), f
        return Python(path, self.version, self.prefix, lib,
                      self.label + (" stripped" if strip else " copy"), env, self.root, self.build)

    @functools.lru_cache(None)
    def copy(self):
        """A copy of our own: nobody else's probes are in it."""
        return self.copy_to(new_dir())

    @functools.lru_cache(None)
    def stripped(self):
        return self.copy_to(new_dir(), strip=True)


def enter(root):
    """A command that runs the rest of its line in a root; none for the machine's own."""
    return ["unshare", "--mount", "sh", "-c", ENTER, "enter", root, scratch()] if root else []


class Told:
    """
    What interpreters have told, kept in the build folder for the next test file: to start all of
    them takes longer than many a test does.
    """

    PATH = os.path.join(BUILD, "pythons-told.json")

    def __init__(self):
        try:
            with open(self.PATH) as f:
                self.kept = json.load(f)
        except (OSError, ValueError):
            self.kept = {}

    def add(self, key, text):
        self.kept[key] = text
        if key.startswith(scratch()) or not os.path.isdir(BUILD):
            return
        new, owner = "%s.%d" % (self.PATH, os.getpid()), os.stat(BUILD)
        try:
            with open(new, "w") as f:
                json.dump(self.kept, f)
            os.chown(new, owner.st_uid, owner.st_gid)
            os.replace(new, self.PATH)
        except OSError as err:
            say("what Pythons tell is not kept: %s" % err)


@functools.lru_cache(None)
def told():
    return Told()


def ask(what, path, command, env=None):
    """What an interpreter tells of itself, see ABOUT; None, and a word, if it does not run."""
    st = os.stat(path)
    key = "%s %d %d %s" % (path, st.st_mtime_ns, st.st_size, sorted((env or {}).items()))
    if key in told().kept:
        return eval(told().kept[key])  # our own repr()
    try:
        out = subprocess.run(command + ["-c", ABOUT], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, check=True, timeout=LIMIT,
                             env=dict(os.environ, **(env or {}))).stdout
    except (OSError, subprocess.SubprocessError) as err:
        said = (getattr(err, "stderr", None) or b"").decode(errors="replace")
        say("MISSING: %s does not run, not tested: %s" % (what, said.strip() or err))
        return None
    told().add(key, out.decode())
    return eval(out.decode())


def candidates():
    roots = [os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")]
    try:
        roots.append(subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL).stdout.decode().strip())
    except OSError:
        pass
    paths = []
    for root in filter(None, roots):
        paths += sorted(glob.glob(os.path.join(root, "versions", "*", "bin", "python*")))
    for folder in ("/usr/bin", "/usr/local/bin"):
        paths += sorted(glob.glob(os.path.join(folder, "python3*")))
    paths += [p for p in os.environ.get("GT_EXTRA_PYTHONS", "").split(":") if p]
    paths.append(sys.executable)
    return paths


@functools.lru_cache(None)
def all_pythons():
    found, seen, labels = [], set(), set()
    extra = os.environ.get("GT_EXTRA_PYTHONS", "").split(":")
    for path in candidates():
        named = re.match(r"python(2|3(\.\d+)?[td]*)?\Z", os.path.basename(path))
        real = os.path.realpath(path)
        if not (named or path in extra) or not os.access(real, os.X_OK):
            continue
        with open(real, "rb") as f:
            if f.read(4) != b"\x7fELF":  # a wrapper of pyenv's
                continue
        st = os.stat(real)
        if (st.st_dev, st.st_ino) in seen:
            continue
        seen.add((st.st_dev, st.st_ino))
        about = ask(real, real, [real])
        if not about:
            continue
        version, prefix, lib, kind, build = about
        if kind != "CPython":
            say("%s is a %s, not tested" % (real, kind))
            continue
        where = "pyenv" if "versions" in real.split(os.sep) else os.path.dirname(real).strip("/")
        label = "%d.%d.%d %s%s" % (version + (where, " debug" if build["debug"] else ""))
        while label in labels:
            label += " again"
        labels.add(label)
        found.append(Python(real, version, prefix, lib, label, build=build))
    found.sort(key=lambda p: p.version)
    return found


# ---- what scripts/pythons.sh has fetched ----

def cache():
    """The folder of scripts/pythons.sh."""
    above = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.realpath(os.environ.get("GT_PYTHONS_DIR") or
                            os.path.join(above, "giltrace", "pythons"))


def cached():
    """Names of what is there: (those that can run here, those of the other architecture)."""
    names = [os.path.basename(os.path.dirname(f)) for f in
             sorted(glob.glob(os.path.join(cache(), "*", "giltrace-origin")))]
    foreign = [n for n in names if n.endswith(("-arm64", "-amd64"))]
    return [n for n in names if n not in foreign], foreign


def files_of(name):
    """Interpreter and perhaps libpython of a fetched one: the files with CPython's code."""
    root = os.path.join(cache(), name)
    with open(os.path.join(root, "giltrace-origin")) as f:
        return [os.path.join(root, line) for line in f.read().splitlines()[1:]]


def launcher(root, lib):
    """
    A python that has CPython in libpython, as other distributions build it. Linked with the C
    library of the root, whose symbol versions may be older than those of this machine.
    """
    out = os.path.join(new_dir(), "python")
    libc, = glob.glob(os.path.join(root, "usr/lib/*/libc.so.6"))
    code = "int Py_BytesMain(int, char **); int main(int n, char **v) { return Py_BytesMain(n, v); }"
    subprocess.run([os.environ.get("CC") or "cc", "-o", out, "-xc", "-", "-xnone", lib,
                    "-nodefaultlibs", libc, "-Wl,--unresolved-symbols=ignore-in-shared-libs"],
                   input=code.encode(), check=True)
    return out


def from_cache(name, path, lib=None, env=None, note=""):
    """A fetched interpreter, or None."""
    root = os.path.join(cache(), name)
    if not os.path.isdir(os.path.join(root, "proc")):
        root = None  # built here, for here
    elif os.geteuid() != 0:
        say("MISSING: %s is not tested: only root can run it, by chroot" % name)
        return None
    py = Python(path, None, None, lib, name + note, env, root)
    about = ask(py.label, path, py.command(), env)
    if not about:
        return None
    py.version, prefix, mapped, _, py.build = about
    py.prefix = (root or "") + prefix
    py.lib = lib or (mapped and (root or "") + mapped)
    py.label = "%d.%d.%d %s" % (py.version + (py.label,))
    return py


def fetched(names):
    """Those of the cache folder by name. A free-threaded one as it is, and with its GIL on."""
    found = []
    for name in names:
        path = files_of(name)[0]
        found.append(from_cache(name, path))
        if name.startswith("free-threaded-"):
            found.append(from_cache(name, path, None, {"PYTHON_GIL": "1"}, " PYTHON_GIL=1"))
    return [p for p in found if p]


def libpythons(those):
    """Of each of those the libpython that Debian has beside its static interpreter."""
    found = []
    for p in those:
        name = os.path.basename(p.root or "")
        for lib in files_of(name)[1:] if p.root else []:
            found.append(from_cache(name, launcher(p.root, lib), lib, {"PYTHONHOME": "/usr"},
                                    " libpython"))
    return [p for p in found if p]


# ---- which are tested ----

@functools.lru_cache(None)
def pythons():
    """The machine's own CPythons 3.6 and newer."""
    good = [p for p in all_pythons() if p.version >= (3, 6)]
    if not good:
        say("MISSING: no CPython 3 of this machine's own")
    return good


def complain(good):
    """Says loudly what is missing of the kinds that matter."""
    for minor in range(6, 16):
        if not any(p.version[:2] == (3, minor) for p in good):
            say("MISSING: no CPython 3.%d found, so none is tested" % minor)
    for kind, has in (("that its distributor stripped", lambda p: not has_symtab(p.file)),
                      ("that is free-threaded", lambda p: p.free_threaded),
                      ("on musl", lambda p: p.build["libc"] == "musl")):
        if not any(has(p) for p in good):
            say("MISSING: no CPython found %s, so none is tested" % kind)
    return sorted(good, key=lambda p: (p.version, p.label))


@functools.lru_cache(None)
def matrix():
    """All there is."""
    more = fetched(cached()[0])
    if not [p for p in more if p.root]:
        say("MISSING: no CPython fetched by scripts/pythons.sh, so none with PGO and LTO of another "
            "distribution than this one's is tested")
    return complain(pythons() + more + libpythons(more))


@functools.lru_cache(None)
def chosen():
    """What each_python stands for: the rule is told at the top."""
    if os.environ.get("GT_ALL_PYTHONS") == "1":
        return matrix()
    have, names = {p.version[:2] for p in pythons()}, []
    for name in cached()[0]:
        version = (3, int(re.search(r"-3\.(\d+)", name).group(1)))
        if name.startswith(("free-threaded-", "musl-")):
            names.append(name)
        elif not name.endswith("-dbg") and version not in have:
            names.append(name)
            have.add(version)
    return complain(pythons() + fetched(names))


def python():
    """A CPython for the tests for which any will do, with symbols where there is a choice."""
    good = pythons()
    some = [p for p in good if p.version[:2] == (3, 11)] or good[-1:]
    return ([p for p in some if has_symtab(p.file)] or some)[0].copy()


def each_python(cls, which=chosen):
    """Class decorator: each_x(self, python) becomes a test_x_<python> for every one of which()."""
    for name in [n for n in dir(cls) if n.startswith("each_")]:
        inner = getattr(cls, name)
        for p in which():
            def test(self, inner=inner, p=p):
                inner(self, p)
            test.__doc__ = "%s on %s (%s)" % (name[5:].replace("_", " "), p.label, p.path)
            setattr(cls, "test_%s_%s" % (name[5:], p.method), test)
    return cls
