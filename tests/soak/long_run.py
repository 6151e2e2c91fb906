#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""long_run.py [--minutes M] [--processes N]: one recording of many processes under mixed load, for long.

Each second every process gets its share: waves of system calls, computing threads that fight, both,
or nothing. What giltrace needs (memory, CPU, descriptors) is looked at every few seconds. At the end:
its memory and descriptors have not grown after the first quarter, nothing is lost, each file is
complete, and each thread has released the GIL as often as it says itself. Prints a table. Environment:
GT_BUILD_DIR, and what tests/e2e/harness.py names.
"""
import argparse
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness as h  # noqa: E402

EVERY = 5       # seconds from one look to the next
GROWTH = 1024   # KiB that a heap may still settle by
WAVE = 1500     # system calls of a thread, times 1 .. 4


def share(n, second):
    """What process n does in that second: {"names": ..., "limit": ...} of do_run(), or None."""
    turn = (n + second) % 4
    if turn == 3:
        return None
    if turn == 2:
        return {"limit": 15}  # all of them, few rounds
    return {"names": ["stat-0", "stat-1"][:turn + 1], "limit": WAVE * (1 + (n * 7 + second) % 4)}


class Look:
    """giltrace now: memory in KiB, CPU seconds, open descriptors."""

    def __init__(self, pid):
        with open("/proc/%d/status" % pid) as f:
            status = dict(line.split(":", 1) for line in f)
        self.rss = int(status["RssAnon"].split()[0])
        self.all = int(status["VmRSS"].split()[0])
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        self.cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        self.fds = len(os.listdir("/proc/%d/fd" % pid))


def drive(works, recorder, seconds):
    """Loads until the time is over: (looks, times that each thread of each process has let go)."""
    looks, rounds = [Look(recorder.pid)], [{} for _ in works]
    begin = time.monotonic()
    for second in range(seconds):
        shares = [share(n, second) for n in range(len(works))]
        for w, s in zip(works, shares):
            if s:
                w.send("run", **s)
        for w, s, done in zip(works, shares, rounds):
            if not s:
                continue
            w.answer()
            for name, n in w.do("join").items():
                # A computing thread lets go at the end of its wave, whatever else forces it to.
                done[name] = done.get(name, 0) + (n if name.startswith("stat") else 1)
        if second % EVERY == EVERY - 1:
            looks.append(Look(recorder.pid))
        time.sleep(max(0, begin + second + 1 - time.monotonic()))  # the load's pace
    for w in works:
        w.quiesce()
    looks.append(Look(recorder.pid))
    return looks, rounds


def summary(path):
    p = subprocess.run([h.tool("gil2trace"), "--summary=json", path], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE)
    return p.returncode, json.loads(p.stdout.decode() or "{}"), p.stderr.decode()


def check_files(recorder, works, rounds):
    """(wrong, events, bytes)"""
    wrong, events, size = [], 0, 0
    for w, done in zip(works, rounds):
        files = recorder.of(w.pid)
        if len(files) != 1:
            wrong.append("%d has the files %s" % (w.pid, files))
            continue
        status, told, err = summary(files[0])
        if status != h.OK:
            wrong.append("gil2trace says %d of %s: %s" % (status, files[0], err.strip()))
            continue
        size += os.path.getsize(files[0])
        process, = told["processes"]
        by_tid = {t["tid"]: t for t in process["threads"]}
        for name, n in sorted(done.items()):
            releases = sum(by_tid.get(w.threads[name], {}).get("releases", {}).values())
            events += releases
            if releases < n:
                wrong.append("%s of %d let go %d times, %d are recorded" % (name, w.pid, n, releases))
    return wrong, events, size


def check_growth(looks):
    """What was reached in the first quarter is all that it takes."""
    cut = max(2, len(looks) // 4)
    first, rest = looks[:cut], looks[cut:]
    wrong = []
    if max(x.rss for x in rest) > max(x.rss for x in first) + GROWTH:
        wrong.append("memory grows: %s KiB" % [x.rss for x in looks])
    if max(x.fds for x in rest) > max(x.fds for x in first):
        wrong.append("descriptors grow: %s" % [x.fds for x in looks])
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--processes", type=int, default=8)
    args = parser.parse_args()
    pythons = h.pythons()
    works = [h.Workload(pythons[n % len(pythons)]) for n in range(args.processes)]
    try:
        for w in works:
            w.start_workers(cpu=2, stat=2)
        begin = time.monotonic()
        with h.Recorder(works) as r:
            looks, rounds = drive(works, r, int(args.minutes * 60))
            status, said = r.stop(), r.text()
            took = time.monotonic() - begin
            wrong, events, size = check_files(r, works, rounds)
        if status != h.OK:
            wrong.append("giltrace ends with %d: %s" % (status, said))
        wrong += check_growth(looks)
    finally:
        for w in works:
            w.__exit__()
    rows = (("processes", "%d, %d versions of Python" % (
                len(works), len({w.python.version[:2] for w in works}))),
            ("time", "%.1f min" % (took / 60)),
            ("releases recorded", "%d" % events),
            ("times that threads let go by themselves", "%d" % sum(sum(d.values()) for d in rounds)),
            ("files", "%.1f MB" % (size / 1e6)),
            ("giltrace's CPU", "%.1f s, %.2f %%" % (looks[-1].cpu, 100 * looks[-1].cpu / took)),
            ("its own memory, first ... last", "%d ... %d KiB" % (looks[1].rss, looks[-1].rss)),
            ("  with its rings and code, most", "%d KiB" % max(x.all for x in looks)),
            ("descriptors, first ... last", "%d ... %d" % (looks[1].fds, looks[-1].fds)),
            ("wrong", "%d" % len(wrong)))
    print("| long run | |\n| --- | --- |")
    for name, value in rows:
        print("| %s | %s |" % (name, value))
    for text in wrong:
        print("WRONG: " + text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
