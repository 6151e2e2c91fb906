#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
test_libgiltrace.py LIBRARY CLANG: what libgiltrace.so brings into a program, and what giltrace.h
asks of one. With GT_SANITIZE=1 the library also needs a sanitizer's runtime, and that is let pass.
"""
import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
INCLUDE = os.path.join(TOP, "include")
LIBRARY, CLANG = sys.argv[1], sys.argv[2]
VERSION = "GILTRACE_0.1"
# libc, and its own loader, where a thread's variables come from.
ALLOWED = r"libc\.so\.6|libc\.musl-.*\.so\.1|ld-linux.*\.so\.\d|ld-musl-.*\.so\.1"


def run(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
                          universal_newlines=True).stdout


def expect(what, got, want):
    if got != want:
        raise SystemExit("%s: %r, not %r" % (what, got, want))


def declared():
    """The functions of the header, as the preprocessor leaves it."""
    text = run(CLANG, "-E", "-P", "-I", INCLUDE, "-include", "giltrace/giltrace.h", "-xc",
               os.devnull)
    return sorted(set(re.findall(r"\b(giltrace_\w+)\(", text)))


def exported():
    """{name: its version} of what the library defines for others."""
    found = {}
    for line in run("readelf", "-W", "--dyn-syms", LIBRARY).splitlines():
        f = line.split()
        if len(f) == 8 and f[0][:-1].isdigit() and f[6] != "UND" and f[3] != "OBJECT":
            name, _, version = f[7].partition("@@")
            found[name] = version
    return found


def check_elf():
    names = declared()
    expect("functions of the header", len(names) >= 10, True)
    expect("exported", exported(), dict.fromkeys(names, VERSION))
    dynamic = run("readelf", "-W", "-d", LIBRARY)
    expect("SONAME", re.findall(r"\(SONAME\).*\[(.*)\]", dynamic), ["libgiltrace.so.0"])
    expect("NODELETE", "NODELETE" in dynamic, True)
    expect("TEXTREL", "TEXTREL" in dynamic, False)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    if os.environ.get("GT_SANITIZE") == "1":
        return
    expect("needed beside libc", [n for n in needed if not re.match(ALLOWED + r"\Z", n)], [])
    expect("RUNPATH", re.findall(r"\((?:RPATH|RUNPATH)\)", dynamic), [])


def check_header():
    """It compiles alone as old C and C++ without a warning; and the example links as C++."""
    strict = [CLANG, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", INCLUDE]
    example = os.path.join(TOP, "docs", "examples", "embed.c")
    for language, standard in (("c", "c99"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++17")):
        run(*strict + ["-x", language, "-std=" + standard, "-fsyntax-only", "-include",
                       "giltrace/giltrace.h", os.devnull])
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "embed")
        run(*strict + ["-x", "c++", "-std=c++11", "-D_POSIX_C_SOURCE=200809L", "-fno-exceptions",
                       example, "-x", "none", LIBRARY, "-o", program,
                       "-Wl,-rpath," + os.path.dirname(LIBRARY)]
            + ["-Wl,--allow-shlib-undefined"] * (os.environ.get("GT_SANITIZE") == "1"))
        if os.environ.get("GT_SANITIZE") != "1":
            p = subprocess.run([program], stderr=subprocess.PIPE)
            expect("the example's status without arguments", p.returncode, 2)


check_elf()
check_header()
print("%s: %s" % (os.path.basename(LIBRARY), ", ".join(sorted(exported()))))
