#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tracing costs, measured in one run; started by scripts/bench.sh, as root.

  1. Added time per take/drop cycle: a loop of os.stat("/") without a tracer, with giltrace in
     both probe modes, with giltrace that is paused, and with bpftrace on entry and return of
     take_gil and drop_gil. They take turns, so that what else the machine does hits all of them
     alike.
  2. Throughput of threads with and without giltrace, and events lost at the default buffer size.
  3. Events a second that gil2trace converts to JSON that is thrown away.
  4. The same of a large recording, and of other outputs, with the memory that it takes (convert.py).

Medians, with the quartiles in brackets. 1 is in CPU time of the measured thread, in which the
probes run: it does not count what else the machine did meanwhile.
"""
import argparse
import contextlib
import functools
import json
import os
import platform
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import convert

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 60  # seconds for anything that ought to take far less

# The least that bpftrace can do (keep the last four times of each thread), and the least that is
# of use (sum up how long each thread waited, held and dropped).
BPFTRACE = {
    "bpftrace, four times kept": """
uprobe:LIB:take_gil { @take_in[tid] = nsecs; }
uretprobe:LIB:take_gil { @take_out[tid] = nsecs; }
uprobe:LIB:drop_gil { @drop_in[tid] = nsecs; }
uretprobe:LIB:drop_gil { @drop_out[tid] = nsecs; }
""",
    "bpftrace, sums by thread": """
uprobe:LIB:take_gil { @take_in[tid] = nsecs; }
uretprobe:LIB:take_gil /@take_in[tid]/ {
    @take_ns[tid] = sum(nsecs - @take_in[tid]);
    @take_out[tid] = nsecs;
}
uprobe:LIB:drop_gil /@take_out[tid]/ {
    @hold_ns[tid] = sum(nsecs - @take_out[tid]);
    @drop_in[tid] = nsecs;
}
uretprobe:LIB:drop_gil /@drop_in[tid]/ {
    @drop_ns[tid] = sum(nsecs - @drop_in[tid]);
    @drop_out[tid] = nsecs;
}
""",
}


class Target:
    """target.py, running under the Python that is measured."""

    def __init__(self, python):
        self.proc = subprocess.Popen([python, os.path.join(HERE, "target.py")],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     universal_newlines=True)
        self.pid = self.proc.pid
        if self.proc.stdout.readline() != "ready\n":
            raise SystemExit("%s does not run target.py" % python)
        self.lib = self.gil_file()

    def ask(self, command):
        self.proc.stdin.write(command + "\n")
        self.proc.stdin.flush()
        answer = self.proc.stdout.readline()
        if not answer:
            raise SystemExit("the measured process has ended in \"%s\"" % command)
        return int(answer)

    def gil_file(self):
        """The mapped file with CPython's code: libpython, or else the executable."""
        for line in open("/proc/%d/maps" % self.pid):
            name = line.split(None, 5)[-1].strip()
            if os.path.basename(name).startswith("libpython3"):
                return name
        return os.readlink("/proc/%d/exe" % self.pid)

    def close(self):
        self.proc.stdin.close()
        self.proc.wait(LIMIT)


def wait_for(condition, what):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("not within %d s: %s" % (LIMIT, what))
        time.sleep(0.02)


@contextlib.contextmanager
def bare(_target):
    yield None


class Giltrace:
    """Context manager: records a target while it is entered."""

    def __init__(self, program, target, mode, folder, paused=False):
        self.dir = tempfile.mkdtemp(dir=folder)
        ready, w = os.pipe()
        options = ["--paused", "--control=%s/socket" % self.dir] if paused else []
        self.proc = subprocess.Popen(
            [program, "-p", str(target.pid), "-o", self.dir, "--probe=" + mode,
             "--ready-fd=%d" % w] + options, pass_fds=(w,), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        os.close(w)
        ok = os.read(ready, 1)
        os.close(ready)
        if not ok:
            raise SystemExit("giltrace: " + self.proc.communicate()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.send_signal(signal.SIGINT)
        self.text = self.proc.communicate(timeout=LIMIT)[0]
        if self.proc.returncode not in (0, 6):  # finished, finished with losses
            raise SystemExit("giltrace: " + self.text)

    def counts(self):
        """(events recorded, events lost), from the result that giltrace has printed."""
        events = re.search(r"([\d,]+) events", self.text)
        lost = re.search(r"([\d,]+) (?:events )?lost", self.text)
        if not events:
            raise SystemExit("giltrace printed no count of events: " + self.text)
        return tuple(int(m.group(1).replace(",", "")) if m else 0 for m in (events, lost))


@contextlib.contextmanager
def bpftrace(script, target):
    """bpftrace with its four probes, from when all of them are attached."""
    proc = subprocess.Popen(["bpftrace", "-p", str(target.pid), "-e",
                             script.replace("LIB", target.lib)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            universal_newlines=True)

    def attached():
        if proc.poll() is not None:
            raise SystemExit("bpftrace: " + proc.communicate()[0])
        shown = subprocess.run(["bpftool", "-j", "perf", "show"], stdout=subprocess.PIPE,
                               check=True).stdout
        return sum(entry["pid"] == proc.pid for entry in json.loads(shown.decode())) == 4

    try:
        wait_for(attached, "bpftrace attaches four probes")
        yield None
        # It sometimes misses the first (0.17).
        for limit in (10, LIMIT):
            proc.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                text = proc.communicate(timeout=limit)[0]
                break
        else:
            raise SystemExit("bpftrace does not end")
    finally:
        proc.kill()
        proc.wait()
    for name in ("take_in", "take_out", "drop_in", "drop_out"):
        if "@%s[%d]" % (name, target.pid) not in text:
            raise SystemExit("bpftrace saw no %s: %s" % (name, text))


def spread(values, form):
    low, mid, high = statistics.quantiles(values, n=4, method="inclusive")
    return "%s [%s, %s]" % (form % mid, form % low, form % high)


def has_functions(path):
    names = subprocess.run(["nm", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return set(re.findall(rb" [tT] (take_gil|drop_gil)$", names, re.M)) >= {b"take_gil",
                                                                             b"drop_gil"}


def cycle_cost(opt, target, folder):
    cycles = max(1000, int(100000 * opt.seconds * 1e9 / target.ask("stat 100000")))
    # (name, context manager)
    modes = [("no tracer", bare),
             ("giltrace --probe=sites", lambda t: Giltrace(opt.giltrace, t, "sites", folder)),
             ("giltrace, paused", lambda t: Giltrace(opt.giltrace, t, "sites", folder, True))]
    if has_functions(target.lib):
        modes.append(("giltrace --probe=functions",
                      lambda t: Giltrace(opt.giltrace, t, "functions", folder)))
        if shutil.which("bpftrace"):
            modes += [(name, functools.partial(bpftrace, script))
                      for name, script in BPFTRACE.items()]
        else:
            print("(bpftrace is not installed: left out)")
    else:
        print("(%s has no symbols take_gil and drop_gil: functions, bpftrace left out)"
              % target.lib)
    took = {name: [] for name, _ in modes}
    for r in range(opt.rounds):
        for name, mode in modes[r % len(modes):] + modes[:r % len(modes)]:
            with mode(target):
                took[name].append(target.ask("stat %d" % cycles) / cycles)
    print("1. A take/drop cycle: os.stat(\"/\"), ns of CPU time; %d rounds of %d cycles\n"
          % (opt.rounds, cycles))
    print("   %-28s %-26s %s" % ("", "an iteration", "added"))
    added = {}
    for name, values in took.items():
        added[name] = [v - b for v, b in zip(values, took["no tracer"])]
        print("   %-28s %-26s %s" % (name, spread(values, "%.0f"), "" if name == "no tracer" else
                                     spread(added[name], "%.0f")))
    print("   added by giltrace, paused / added by giltrace --probe=sites: %.2f" % (
        statistics.median(added["giltrace, paused"]) /
        statistics.median(added["giltrace --probe=sites"])))
    for base in [name for name in BPFTRACE if name in added]:
        print("   added by giltrace --probe=sites / added by %s: %.2f" % (
            base, statistics.median(added["giltrace --probe=sites"]) /
            statistics.median(added[base])))
    print(flush=True)


def throughput(opt, target, folder):
    print("2. Throughput with giltrace, of that without; losses at the default buffer size; "
          "%d rounds of %.1f s\n" % (opt.rounds, 4 * opt.seconds))
    print("   %-28s %-22s %14s %10s" % ("", "throughput, %", "events/s", "lost"))
    for label, kind, count in (("4 threads, CPU-bound", "cpu", 4), ("1 thread, os.stat", "stat", 1),
                               ("4 threads, os.stat", "stat", 4)):
        ask = "threads %s %d %d" % (kind, count, 4 * opt.seconds * 1000)
        ratio, rate, lost_all = [], [], 0
        for _ in range(opt.rounds):
            plain = target.ask(ask)
            with Giltrace(opt.giltrace, target, "sites", folder) as g:
                ratio.append(100 * target.ask(ask) / plain)
            events, lost = g.counts()
            rate.append((events + lost) / (4 * opt.seconds))
            lost_all += lost
        print("   %-28s %-22s %14.0f %10d" % (label, spread(ratio, "%.1f"),
                                              statistics.median(rate), lost_all), flush=True)
    print()


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def converter(opt, folder):
    path = os.path.join(folder, "contended.gil")
    subprocess.run([os.path.join(opt.build, "tests", "txt2gil"),
                    os.path.join(HERE, "contended.txt"), path], check=True)
    told = subprocess.run([opt.gil2trace, "-v", path, "-o", os.devnull], check=True,
                          stderr=subprocess.PIPE, universal_newlines=True).stderr
    events = int(re.search(r"(\d+) events", told).group(1))
    wall, cpu = [], []
    for _ in range(5):
        before, start = cpu_of_children(), time.perf_counter()
        subprocess.run([opt.gil2trace, "-q", path, "-o", os.devnull], check=True)
        wall.append(events / (time.perf_counter() - start) / 1e6)
        cpu.append(events / (cpu_of_children() - before) / 1e6)
    print("3. gil2trace: contended.txt, %d events (%.1f bytes each), to /dev/null\n"
          % (events, os.path.getsize(path) / events))
    print("   %-28s %s" % ("million events/s", spread(wall, "%.2f")))
    print("   %-28s %s" % ("... per second of CPU time", spread(cpu, "%.2f")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="folder with giltrace and gil2trace")
    parser.add_argument("--python", default=sys.executable, help="the Python to measure")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    opt = parser.parse_args()
    opt.giltrace = os.path.join(opt.build, "giltrace")
    opt.gil2trace = os.path.join(opt.build, "gil2trace")

    folder = tempfile.mkdtemp(prefix="giltrace-bench-")
    target = Target(opt.python)
    try:
        print("Linux %s, %s, %d CPUs; %s, %s\n" % (
            platform.release(), platform.machine(), os.cpu_count(),
            subprocess.run([opt.python, "-VV"], stdout=subprocess.PIPE).stdout.decode().strip(),
            target.lib), flush=True)
        cycle_cost(opt, target, folder)
        throughput(opt, target, folder)
        converter(opt, folder)
        print("\n4. A large recording, once for each output\n")
        convert.measure(opt.build, folder, 100)
    finally:
        target.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
