# SPDX-License-Identifier: Apache-2.0
"""Processes that beget others (workloads/member.py), and what is asked of their recordings."""
import collections
import functools
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time

import harness as h

TICK = 10**9 // os.sysconf("SC_CLK_TCK")  # births are known to this, where /proc is all there is
Thread = collections.namedtuple("Thread", "comm name ns_tid host_tid")


def now():
    """On the clock of the events."""
    return int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9)


@functools.lru_cache(None)
def script():
    """member.py where those see it, too, that run in another root."""
    return shutil.copy(os.path.join(h.WORKLOADS, "member.py"), h.scratch())


def clean_env(py):
    """Without what leads to the modules or the rank of another Python."""
    drop = h.RANK_VARIABLES + ("LD_LIBRARY_PATH", "PYTHONHOME")
    env = {k: v for k, v in os.environ.items() if k not in drop}
    return dict(env, **py.env)


class Member:
    """One of the processes, at the other end of its connection. .pid is the host's."""

    def __init__(self, sock):
        self.sock = sock
        sock.settimeout(h.LIMIT)
        self.file = sock.makefile("r")
        cred = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self.pid = struct.unpack("3i", cred)[0]
        self.about = self.answer()
        self.role = self.about["role"]

    def send(self, command, **kwargs):
        self.sock.sendall(json.dumps([command, kwargs]).encode() + b"\n")

    def answer(self):
        line = self.file.readline()
        if not line:
            raise AssertionError("process %d has ended" % self.pid)
        return json.loads(line)

    def do(self, command, **kwargs):
        self.send(command, **kwargs)
        return self.answer()

    def count(self, n=50, **kwargs):
        return self.do("count", n=n, **kwargs)

    def end(self):
        """Lets it end, and waits for that; False: it does not."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
            self.sock.settimeout(10)
            while self.sock.recv(4096):
                pass
        except OSError as err:
            return err.errno is not None
        return True

    def host_tids(self):
        """Ids of its threads: in its own namespace -> on the host."""
        found = {}
        for tid in os.listdir("/proc/%d/task" % self.pid):
            with open("/proc/%d/task/%s/status" % (self.pid, tid)) as f:
                ids = re.search(r"^NSpid:\s+(.*)$", f.read(), re.M).group(1).split()
            found[int(ids[-1])] = int(tid)
        return found


class Family:
    """A first process, and all those that come from it: kills what is left of them."""

    def __init__(self, py, through=(), env=None):
        """through: a command in front that runs the rest of its line."""
        self.python = py
        self.path = os.path.join(h.new_dir(), "socket")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o666)
        self.socket.listen(128)
        self.members = []
        self.errors = tempfile.TemporaryFile(dir=h.scratch())
        self.proc = subprocess.Popen(list(through) + self.command("root"), stdin=subprocess.DEVNULL,
                                     stdout=self.errors, stderr=self.errors,
                                     env=dict(clean_env(py), **(env or {})))
        try:
            self.root = self.next("root")
        except BaseException:
            self.__exit__()
            raise
        self.pid = self.root.pid

    def command(self, role, py=None):
        return (py or self.python).command() + [script(), self.path, role]

    def next(self, role=None):
        """The next process that has said who it is."""
        self.socket.settimeout(h.LIMIT)
        try:
            member = Member(self.socket.accept()[0])
        except OSError as err:
            raise AssertionError("no %s came (%s): %s" % (role or "process", err, self.text()))
        self.members.append(member)
        if role and member.role != role:
            raise AssertionError("%s came, not %s" % (member.about, role))
        return member

    def beget(self, role, command, member=None, **kwargs):
        """Has a process (the first one) make another, which comes under that role."""
        maker = member or self.root
        maker.send(command, **kwargs)
        child = self.next(role)
        maker.answer()
        return child

    def text(self):
        return os.pread(self.errors.fileno(), 1 << 16, 0).decode(errors="replace")[-3000:]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for m in reversed(self.members):
            if not m.end():  # the connection is open: it is still that process
                os.kill(m.pid, 9)
        if self.proc.poll() is None and not self.members:
            self.proc.kill()
        self.proc.wait()
        for m in self.members:
            m.file.close()
            m.sock.close()
        self.socket.close()
        self.errors.close()


def threads(rec):
    """What the file tells of each thread in the end: tid -> Thread."""
    found = {}
    for e in rec.file.events:
        if e.kind == h.THREAD:
            name = None if e.name is None else bytes(e.name)
            found[e.tid] = Thread(bytes(e.comm), name, e.ns_tid, e.host_tid)
    return found


class FamilyTest(h.BpfTest):
    def start(self, py=None, **kwargs):
        family = Family(py or h.python(), **kwargs)
        self.addCleanup(family.__exit__)
        return family

    def record(self, *args, **kwargs):
        r = h.Recorder(*args, **kwargs)
        self.addCleanup(r.__exit__)
        return r

    def paths(self, r, pid):
        """Files of a process, the first one first."""
        return sorted(r.of(pid), key=lambda f: (len(f), f))

    def wait_recorded(self, r, pid):
        """Returns when a process that has come late is recorded; giltrace -v says so."""
        def said():
            text = r.text()
            if r.proc.poll() is not None:
                raise AssertionError("giltrace has ended: %s" % text)
            return re.search(r"process %d: recorded from now on" % pid, text)
        try:
            h.until(said, "process %d is recorded" % pid, limit=20)
        except AssertionError as err:
            raise AssertionError("%s: %s" % (err, r.text()[-3000:]))

    def wait_closed(self, path, reason=h.END_TARGET_EXIT):
        """A file that is complete, while the recording of others goes on."""
        def closed():
            rec = h.Recording(path)
            return rec.end and rec
        rec = h.until(closed, "%s is closed" % path)
        self.assertEqual(rec.end.reason, reason)
        return rec

    def stopped(self, r, status=h.OK):
        self.assertIsNone(r.proc.poll(), r.text()[-3000:])
        self.assertEqual(r.stop(), status, r.text()[-3000:])

    def assert_good(self, rec):
        """Sound, whole, and giltrace itself found no fault."""
        self.assert_sound(rec)
        self.assertEqual(rec.lost, 0)
        self.assertIsNotNone(rec.end, rec.path)
        self.assertIn(rec.meta.get("check.result"), ("consistent", "not checked"))

    def assert_counted(self, rec, done, tid=None, shift=0):
        """What a thread counted is there, neither less nor more; shift: from its clock to ours."""
        tid = tid or done["tid"]
        mine = rec.between(done["begin"] + shift, done["end"] + shift, tid)
        for kind in (h.RELEASE, h.ACQUIRE):
            self.assertEqual(sum(1 for e in mine if e.kind == kind), done["n"],
                             "%s: thread %d, %s" % (rec.path, tid, h.KIND_NAMES[kind]))

    def assert_late(self, rec, not_before, not_after, kinds=("forked", "executed", "found")):
        """It was born in that time, and says from when to when it was not recorded."""
        first = rec.file.events[0]
        self.assertEqual(first.kind, h.LATE, "%s begins with %s" % (rec.path, first))
        self.assertEqual(len(h.late(rec)), 1)
        self.assertGreaterEqual(first.begin_mono_ns, not_before - 2 * TICK)
        self.assertLessEqual(first.begin_mono_ns, not_after)
        self.assertLessEqual(first.begin_mono_ns, first.mono_ns)
        if rec.events:
            self.assertLessEqual(first.mono_ns, rec.events[0].ns)
        self.assertIn(rec.meta.get("recording.late"), kinds)
