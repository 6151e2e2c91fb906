# SPDX-License-Identifier: Apache-2.0
"""scripts/release.sh makes the same bytes of the same source, wherever it lies and whoever builds it
when: two copies are built and compared. Takes as long as two builds do; [amd64|arm64] may be named."""
import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def release(copy, **env):
    shutil.copytree(TOP, copy, symlinks=True,
                    ignore=lambda d, names: [n for n in names if n == ".git" or
                                             n.startswith("build") and d == TOP])
    p = subprocess.run([os.path.join(copy, "scripts", "release.sh")] + sys.argv[1:2],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       universal_newlines=True,
                       env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000", **env))
    if p.returncode:
        sys.stderr.write(p.stderr)
        if "cannot be had" in p.stderr:
            print("SKIP: tests/release: the libraries cannot be had; see above", file=sys.stderr)
            sys.exit(77)
        sys.exit(1)
    return p.stdout


def main():
    # Not below one folder that is the same for both; the second one's name is longer.
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory(suffix="-another") as two:
        first = release(os.path.join(one, "giltrace"))
        second = release(os.path.join(two, "some", "where", "else"), TZ="Asia/Shanghai", LC_ALL="C")
    if len(first.split("\n")) != 6:
        sys.exit("release.sh printed what is not five sums:\n" + first)
    if first != second:
        sys.exit("The same source, and not the same bytes:\n%s\n%s" % (first, second))
    print("the same:\n" + first)


if __name__ == "__main__":
    main()
