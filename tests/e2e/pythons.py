# SPDX-License-Identifier: Apache-2.0
"""The CPythons of this machine."""
import functools
import glob
import os
import re
import shutil
import struct
import subprocess
import sys

from common import LIMIT, new_dir, say


ABOUT = r"""
import sys, os
lib = None
for line in open("/proc/self/maps"):
    f = line.split(None, 5)
    name = os.path.basename(f[5].strip()) if len(f) == 6 else ""
    if name.startswith("libpython%d.%d" % sys.version_info[:2]):
        lib = f[5].strip()
print(repr((tuple(sys.version_info[:3]), sys.prefix, lib, hasattr(sys, "gettotalrefcount"),
            "CPython" if "PyPy" not in sys.version else "PyPy")))
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
    """An interpreter and how to start it."""

    def __init__(self, path, version, prefix, lib, label, env=None):
        self.path, self.version, self.prefix, self.lib = path, version, prefix, lib
        self.label = label
        self.env = env or {}

    @property
    def file(self):
        """The file that holds CPython's code."""
        return self.lib or self.path

    @property
    def method(self):
        return re.sub(r"\W+", "_", self.label)

    def copy_to(self, folder, strip=False):
        """A copy of the interpreter and its libpython, which uses the original's modules."""
        env = {"PYTHONHOME": self.prefix}
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
                      self.label + (" stripped" if strip else " copy"), env)

    @functools.lru_cache(None)
    def copy(self):
        """A copy of our own: nobody else's probes are in it."""
        return self.copy_to(new_dir())

    @functools.lru_cache(None)
    def stripped(self):
        return self.copy_to(new_dir(), strip=True)


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
        try:
            out = subprocess.run([real, "-c", ABOUT], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, check=True, timeout=LIMIT).stdout
        except (OSError, subprocess.SubprocessError) as err:
            say("%s does not run, not tested: %s" % (real, err))
            continue
        version, prefix, lib, debug, kind = eval(out.decode())  # our own repr()
        if kind != "CPython":
            say("%s is a %s, not tested" % (real, kind))
            continue
        where = "pyenv" if "versions" in real.split(os.sep) else os.path.dirname(real).strip("/")
        label = "%d.%d.%d %s%s" % (version + (where, " debug" if debug else ""))
        while label in labels:
            label += " again"
        labels.add(label)
        found.append(Python(real, version, prefix, lib, label))
    found.sort(key=lambda p: p.version)
    return found


@functools.lru_cache(None)
def pythons():
    """Every CPython 3.6 or newer; what is missing of the kinds that matter is said once."""
    good = [p for p in all_pythons() if p.version >= (3, 6)]
    for minor in range(6, 14):
        if not any(p.version[:2] == (3, minor) for p in good):
            say("MISSING: no CPython 3.%d found, so none is tested" % minor)
    if not any(not has_symtab(p.file) for p in good):
        say("MISSING: no CPython found that its distributor stripped, so none is tested")
    if not good:
        say("MISSING: no CPython 3 at all")
    return good


def python():
    """A CPython for the tests for which any will do, with symbols where there is a choice."""
    good = pythons()
    some = [p for p in good if p.version[:2] == (3, 11)] or good[-1:]
    return ([p for p in some if has_symtab(p.file)] or some)[0].copy()


def each_python(cls):
    """Class decorator: each_x(self, python) becomes a test_x_<python> for every CPython."""
    for name in [n for n in dir(cls) if n.startswith("each_")]:
        inner = getattr(cls, name)
        for p in pythons():
            def test(self, inner=inner, p=p):
                inner(self, p)
            test.__doc__ = "%s on %s (%s)" % (name[5:].replace("_", " "), p.label, p.path)
            setattr(cls, "test_%s_%s" % (name[5:], p.method), test)
    return cls
