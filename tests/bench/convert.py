#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast gil2trace is, and how much memory it takes, by the kind of output; needs no root.

    convert.py --build DIR [--million N] [--folder DIR]

Makes a recording of N million events of contended.txt (100 unless told otherwise: some 400 MB in
the folder, which is removed afterwards) and converts it to each kind of output, thrown away where
that is possible. A record of the tool that users had before is a wait, a hold or a release, so half
as many events.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FORMS = (
    ("trace", ["-o", os.devnull]),
    ("trace, --flows", ["-o", os.devnull, "--flows"]),
    ("trace, --gzip", ["-o", os.devnull, "--gzip"]),
    ("trace, --min-dur=1ms", ["-o", os.devnull, "--min-dur=1ms"]),
    ("--summary=json", ["--summary=json"]),
    ("--html", ["--html=FOLDER/report.html"]),
)


def make(build, folder, million):
    """A recording of so many million events."""
    with open(os.path.join(HERE, "contended.txt")) as f:
        script = f.read()
    times = million * 1000000 // 19 + 1
    script = re.sub(r"(?m)^repeat \d+ 20ms", "repeat %d 20ms" % times, script)
    script = re.sub(r"(?m)^(clock|end) \d+s", r"\1 %dms" % (times * 20 + 20), script)
    text, path = os.path.join(folder, "big.txt"), os.path.join(folder, "big.gil")
    with open(text, "w") as f:
        f.write(script)
    subprocess.run([os.path.join(build, "tests", "txt2gil"), text, path], check=True)
    return path, 19 * times + 5


def run(args):
    """Seconds, those of CPU time, and the most memory that was resident, in MiB. (Of that the kernel
    counts what this program had when it started the other, too: it cannot be less.)"""
    start = time.perf_counter()
    p = subprocess.Popen(args, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
    if p.returncode:
        raise SystemExit("%s: status %d" % (" ".join(args), p.returncode))
    return (time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def measure(build, folder, million):
    path, events = make(build, folder, million)
    print("   gil2trace: contended.txt, %d events, %.0f MB\n"
          % (events, os.path.getsize(path) / 1e6))
    print("   %-22s %8s %8s %18s %16s %8s" % ("", "seconds", "of CPU", "million/s of CPU",
                                              "CPU s a million", "MiB"))
    for name, args in FORMS:
        args = [a.replace("FOLDER", folder) for a in args]
        seconds, cpu, mib = run([os.path.join(build, "gil2trace"), "-q", path, *args])
        print("   %-22s %8.1f %8.1f %18.1f %16.3f %8.0f" % (
            name, seconds, cpu, events / cpu / 1e6, cpu / events * 1e6, mib), flush=True)
    report = os.path.join(folder, "report.html")
    print("   the report has %.1f MB" % (os.path.getsize(report) / 1e6))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="folder with gil2trace and tests/txt2gil")
    parser.add_argument("--million", type=int, default=100, help="events")
    parser.add_argument("--folder", help="for the recording")
    opt = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="gil2trace-bench-", dir=opt.folder)
    try:
        measure(os.path.abspath(opt.build), folder, opt.million)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
