# SPDX-License-Identifier: Apache-2.0
"""
Every system call of the recorder fails, one by one, once and from then on, by strace's injection:
whatever fails, giltrace ends by itself, with a documented status and a word, no file is bad, the
target lives.

Which calls there are is found by a first run. A sample of the faults is tried; all of them (some
ten minutes) with GT_SOAK=1.
"""
import collections
import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness as h  # noqa: E402

SOAK = os.environ.get("GT_SOAK") == "1"
BUSY = """
import os, sys, threading, time
def work(n):
    while True:
        if sum(range(200)) == 19900: rounds[n] += 1
        os.stat("/"); time.sleep(0.001)
rounds = [0, 0]
for n in 0, 1:
    threading.Thread(target=work, args=(n,), daemon=True).start()
for line in iter(sys.stdin.readline, ""):
    sys.stdout.write("%d %d\\n" % tuple(rounds)); sys.stdout.flush()
"""

# What each may say, where more than EPERM or ENOMEM is to be expected.
MEMORY = "ENOMEM", "EAGAIN"
DESCRIPTORS = "EMFILE", "ENFILE", "EINTR"
ERRORS = {
    "mmap": ("ENOMEM", "EPERM"), "mprotect": ("ENOMEM",),
    "clone": MEMORY, "clone3": MEMORY, "fork": MEMORY, "vfork": MEMORY,
    "open": DESCRIPTORS + ("EACCES", "ENOSPC"), "openat": DESCRIPTORS + ("EACCES", "ENOSPC"),
    "pipe2": DESCRIPTORS, "eventfd2": DESCRIPTORS, "epoll_create1": DESCRIPTORS,
    "dup": DESCRIPTORS, "dup2": DESCRIPTORS, "fcntl": DESCRIPTORS, "memfd_create": DESCRIPTORS,
    "signalfd4": DESCRIPTORS, "timerfd_create": DESCRIPTORS, "pidfd_open": DESCRIPTORS,
    "socket": DESCRIPTORS, "accept4": DESCRIPTORS + ("EAGAIN",),
    "read": ("EINTR", "EIO"), "pread64": ("EINTR", "EIO"), "readlink": ("EACCES", "ENOENT"),
    "readlinkat": ("EACCES", "ENOENT"),
    "write": ("ENOSPC", "EINTR", "EIO", "EDQUOT", "EPIPE"),
    "bpf": ("EPERM", "ENOMEM", "EINVAL", "EAGAIN", "EMFILE"),
    "perf_event_open": ("EACCES", "EMFILE", "ENOENT", "ENOMEM"),
    "ioctl": ("EPERM", "ENOMEM", "EINTR"),
    "epoll_ctl": ("ENOMEM", "ENOSPC"), "epoll_wait": ("EINTR",), "epoll_pwait": ("EINTR",),
    "poll": ("EINTR", "ENOMEM"), "ppoll": ("EINTR", "ENOMEM"),
    "wait4": ("EINTR", "ECHILD"), "waitid": ("EINTR", "ECHILD"),
    "process_vm_readv": ("EPERM", "ESRCH", "EFAULT"), "kill": ("EPERM", "ESRCH"),
    "mkdirat": ("EACCES", "ENOSPC", "EROFS"), "faccessat2": ("EACCES", "ENOENT"),
    "close": ("EIO", "EINTR"), "setresuid": ("EAGAIN", "EPERM"),
    "getdents64": ("ENOENT", "EIO"),
}
OTHERS = "EPERM", "ENOMEM", "EINTR"
# They do not return; the kernel never refuses them in this way (brk returns what there is, a
# wake-up of a futex wakes), and the C library relies on that; or it is not giltrace that fails.
NEVER = {"brk", "exit", "exit_group", "execve", "rt_sigreturn", "rt_sigprocmask", "futex", "getpid",
         "gettid", "getppid", "geteuid", "getegid", "getuid", "getgid", "set_robust_list", "rseq",
         "set_tid_address", "arch_prctl", "restart_syscall"}

# libelf's, for the comparison with symbols, which is not there for stripped files, either.
DISPENSABLE = {"dup"}

# Names, and options of giltrace; "%d" is the target, "%s" a folder.
RUNS = collections.OrderedDict([
    ("multi", ["-p", "%d"]),
    ("perf", ["-p", "%d", "--backend=perf"]),
    ("ioctl", ["-p", "%d", "--backend=ioctl"]),
    ("libc", ["-p", "%d", "--probe=libc"]),
    ("follow", ["-p", "%d", "--follow", "--control=%s/socket"]),
    ("list", ["-p", "%d", "--list"]),
    # strace does not follow here: the command is traced by giltrace.
    ("command", ["--", "%p", "-S", "-c", BUSY.split("for line")[0] + "time.sleep(0.3)"]),
])

# when: as strace(1) has it; "3" is the third one of a thread, "3+" that and all later ones.
Fault = collections.namedtuple("Fault", "run call error when")


# Of the short run: how many of each, and those that once were too much.
SAMPLE = collections.OrderedDict([("multi", 16), ("command", 3), ("follow", 3)])
FOUND = [Fault("multi", "capget", "EPERM", "1"), Fault("multi", "poll", "ENOMEM", "1+"),
         Fault("command", "sendto", "EPERM", "1+"), Fault("follow", "unlinkat", "EPERM", "2+")]


class Target:
    """Two threads that give the GIL up again and again; sums that come out right are counted."""

    def __init__(self, py):
        self.file = py.file
        self.proc = subprocess.Popen(py.command() + ["-S", "-c", BUSY], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, bufsize=0,
                                     env=dict(os.environ, **py.env))
        self.pid = self.proc.pid
        self.last = self.rounds()

    def rounds(self):
        self.proc.stdin.write(b"\n")
        return [int(n) for n in self.proc.stdout.readline().split()]

    def is_right(self):
        """Both threads go on."""
        def on():
            now = self.rounds()
            return len(now) == 2 and all(a > b for a, b in zip(now, self.last)) and now
        self.last = h.until(on, "the threads of %d go on" % self.pid, 10)

    def end(self):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdin.close()
        self.proc.stdout.close()


def strace(log, options, target, run, folder):
    argv = ["strace", "-qq", "-o", log] + ["-f", "--seccomp-bpf"] * (run != "command") + options
    argv += [h.tool("giltrace")]
    if run != "list":
        argv += ["-o", folder]
    if run not in ("list", "command"):
        argv += ["-d", "0.25"]
    argv += [o.replace("%d", str(target.pid)).replace("%s", os.path.dirname(log))
             .replace("%p", target.file) for o in RUNS[run]]
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, start_new_session=True)
    try:
        out = p.communicate(timeout=h.LIMIT)[0]
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        return None, p.communicate()[0].decode(errors="replace")
    return p.returncode, out.decode(errors="replace")


def count(log):
    """{call: (before main, in all, the most in another thread or process)}"""
    seen, main, begun = {}, None, False
    with open(log, errors="replace") as f:
        for line in f:
            m = re.match(r"(?:(\d+) +)?([a-z_0-9]+)\(", line)
            if not m:
                continue
            tid, call = m.groups()
            tid = tid or "main"
            main = main or tid
            # gt_fill_standard_fds() in main()
            begun = begun or (tid == main and '"/dev/null", O_RDWR)' in line)
            per = seen.setdefault(call, collections.Counter())
            per[tid] += 1
            if tid == main and not begun:
                per["before"] += 1
    if not begun:
        raise AssertionError("where does main() begin in %s?" % log)
    return {call: (per.pop("before", 0), per.pop(main, 0), max(list(per.values()) or [0]))
            for call, per in seen.items()}


def occurrences(before, total, others):
    """First, second, middle, last. strace counts each thread's for itself."""
    first, last = (before, total) if total > before else (0, others)
    some = {first + 1, first + 2, first + (last - first + 1) // 2, last, max(others, first + 1)}
    return sorted(n for n in some if first < n <= max(last, others))


def faults_of(run, call, counts):
    """An interruption that never ends is none."""
    places, errors = occurrences(*counts), ERRORS.get(call, OTHERS)
    once = [[Fault(run, call, e, str(n)) for n in places] for e in errors]
    ever = [[Fault(run, call, e, "%d+" % n) for n in places] for e in errors if e != "EINTR"]
    return interleave(once + ever[:2])


def interleave(groups):
    """One of each group, then the next of each."""
    out = []
    groups = [list(g) for g in groups]
    while any(groups):
        out += [g.pop(0) for g in groups if g]
    return out


def problems(fault, status, said, log, folder, usual=None):
    """What is wrong after a run. usual: keys of META that are there without a fault."""
    if status is None:
        return ["it hangs"]
    bad = []
    if os.path.exists(os.path.join(os.path.dirname(log), "socket")) and \
            "cannot remove the socket" not in said and status in range(9):
        bad.append("its socket is left")
    if not 0 <= status <= 8:
        bad.append("status %d" % status)
    with open(log, errors="replace") as f:
        injected = [line for line in f if "(INJECTED)" in line]
    words = [line for line in said.splitlines() if line.startswith("giltrace: ") and
             not re.match(r"giltrace: (recording \d+ process|.* --tell=)", line)]
    # Nobody can say that standard error is closed.
    mute = any("write(2," in line for line in injected)
    # With a command, the status is that one's.
    fine = not status and not (fault.run == "command" and words)
    if status and not words and not mute:
        bad.append("status %d without a word" % status)
    if "Sanitizer" in said:
        bad.append("a sanitizer reports")
    files = [os.path.join(folder, f) for f in sorted(os.listdir(folder))]
    for path in files:
        try:
            rec = h.Recording(path)
        except Exception as err:  # whatever it is, it is the file's fault
            bad.append("%s: %r" % (os.path.basename(path), err))
            continue
        if rec.problem and rec.end:
            bad.append("damaged, but with an end: %s" % rec.problem)
        if rec.violations():
            bad.append("violations: %s" % rec.violations()[:2])
        if not fine:
            continue
        if rec.problem or not rec.end:
            bad.append("all is well, but the file is not whole: %s" % rec.problem)
        if not rec.total():
            bad.append("all is well, and no event")
        if rec.lost:
            bad.append("all is well, but %d lost" % rec.lost)
        missing = {k for k in usual or () if k not in rec.meta and not k.endswith("why")}
        if missing and not words and fault.call not in DISPENSABLE:
            bad.append("silently without %s" % sorted(missing))
    if fine and fault.run != "list" and len(files) != 1:
        bad.append("all is well, and files %s" % files)
    return bad


class Injection(h.BpfTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not shutil.which("strace"):
            h.say("MISSING: strace, so no system call of giltrace is made to fail")
            raise unittest.SkipTest("no strace")

    def setUp(self):
        self.workers = 4 if SOAK else 2
        self.free = []
        for _ in range(self.workers):
            self.free.append(Target(h.python()))
            self.addCleanup(self.free[-1].end)

    def faults(self, run):
        """All that are to be tried in a run; the best known errors and places first."""
        folder, log = h.new_dir(), os.path.join(h.new_dir(), "strace")
        status, said = strace(log, [], self.free[0], run, folder)
        self.assertEqual(status, h.OK, "%s without a fault: %s" % (run, said))
        self.usual = None
        for name in os.listdir(folder):
            self.usual = set(h.Recording(os.path.join(folder, name)).meta)
        groups = []
        for call, counts in sorted(count(log).items()):
            if call not in NEVER and occurrences(*counts):
                groups.append(faults_of(run, call, counts))
        return groups

    def attempt(self, fault):
        target = self.free.pop()
        folder, logs = h.new_dir(), h.new_dir()
        log = os.path.join(logs, "strace")
        inject = "inject=%s:error=%s:when=%s" % (fault.call, fault.error, fault.when)
        status, hit, said, bad = None, 0, "", []
        try:
            status, said = strace(log, ["-e", "trace=" + fault.call, "-e", inject], target,
                                  fault.run, folder)
            bad += problems(fault, status, said, log, folder, self.usual)
            with open(log, errors="replace") as f:
                hit = f.read().count("(INJECTED)")
            # Another giltrace of this machine may record all Pythons for a while.
            h.until(lambda: not h.breakpoints(target.pid, target.file), "no probe is left", 20)
            target.is_right()
        except (AssertionError, OSError, ValueError) as err:
            bad.append("after it: %r" % err)
            target.end()
            target = Target(h.python())
            self.addCleanup(target.end)
        finally:
            self.free.append(target)
            shutil.rmtree(logs)
            shutil.rmtree(folder)
        return status, hit, said, bad

    def inject(self, faults):
        statuses, missed, bad = collections.Counter(), 0, []
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            for fault, (status, hit, said, wrong) in zip(faults, pool.map(self.attempt, faults)):
                statuses[status] += 1
                missed += not hit
                if os.environ.get("GT_INJECT_LOG"):
                    with open(os.environ["GT_INJECT_LOG"], "a") as f:
                        f.write("%s: hit %d, status %s, %s\n    %s\n" % (
                            fault, hit, status, wrong, said.replace("\n", "\n    ")))
                if wrong:
                    bad.append("%s: %s; it said: %s" % (fault, "; ".join(wrong), said[-1500:]))
        h.say("%d faults in %d system calls, %d not reached; statuses %s" % (
            len(faults), len({f.call for f in faults}), missed, dict(statuses)))
        self.assertEqual(bad, [], "\n".join(bad))
        self.assertLess(missed, len(faults) / 3, "most faults must come about")

    def test_a_sample(self):
        luck = random.Random(8)  # the same each time
        for run, n in SAMPLE.items():
            one_each = [luck.choice(g) for g in self.faults(run)]
            with self.subTest(run=run):
                self.inject([f for f in FOUND if f.run == run] +
                            luck.sample(one_each, min(n, len(one_each))))

    def test_all(self):
        if not SOAK:
            self.skipTest("GT_SOAK=1 makes every system call fail, which takes some ten minutes")
        tried = set()
        for run in RUNS:
            groups = self.faults(run)
            # The other ways: whole where they make a call that was not made before.
            chosen = [f for g in groups for f in (g if g[0].call not in tried else g[:2])]
            tried |= {g[0].call for g in groups}
            with self.subTest(run=run):
                self.inject(chosen)


if __name__ == "__main__":
    h.main()
