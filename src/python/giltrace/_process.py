# SPDX-License-Identifier: Apache-2.0
"""
The process giltrace as its owner sees it: a socket to talk, standard error to read in the end, and
how it has ended. One owner: the process that started it; in forked children its descriptors are
closed, and nothing here must be called. The caller has a lock.

The child is waited for by its id, and only here: whoever else of this program waits for children
by their ids, or asyncio, is not disturbed. Where SIGCHLD is ignored, or somebody waits for any
child, its status is not known.
"""
import os
import select
import signal
import socket
import threading
import time

from ._errors import GiltraceError
from ._spawn import close_all, keep, keep_all, spawn

PACKET_MAX = 8192
WORDS_MAX = 65536     # bytes of standard error: what a pipe holds
SLICE = 0.2           # seconds after which a wait looks whether the child is still there
GRACE = 3             # seconds to finish, for one that is not wanted any more
TERMINATED = 1        # and after SIGTERM, which sudo hands on
KILLED = 5            # and after SIGKILL: even then its probes are taken away before it is gone

# As a plain number: an operation with the enum's members takes longer than the system call.
SEND_FLAGS = int(socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)

_processes = {}       # by id(): all that have a descriptor or a child


def sweep():
    """Looks after children whose recording was given up and that had not ended then."""
    for process in list(_processes.values()):
        process.sweep()


def _forked():
    """In a forked child: what is the parent's is closed, as if it had never been there."""
    for process in list(_processes.values()):
        process.busy = process.sending = threading.RLock()  # of a thread that is not here
        process.close()
    _processes.clear()


if hasattr(os, "register_at_fork"):  # 3.7
    os.register_at_fork(after_in_child=_forked)


class Process:
    """
    given_up: when it was given up (time.monotonic()), or None. busy: of the thread that waits for
    its end. sending: nobody closes the socket meanwhile.
    """

    def __init__(self):
        self.owner = os.getpid()
        self.given_up = None
        self.busy = threading.RLock()
        self.sending = threading.RLock()
        self._socket = None
        self._theirs = None
        self._null = []     # descriptors of /dev/null, and others: only while it is started
        self._exec = []
        self._pipe = []     # of its standard error: to read, to write
        self._stderr = []   # the former, once it has been started
        self._pids = []     # of the child: none or one
        self._waits = []    # what waitpid() has returned
        self._reaped = False  # somebody else did
        self._sent = set()  # signals
        self._words = b""

    def start(self, argv):
        _processes[id(self)] = self
        try:
            # Until all numbers up to 2 are taken: a job may have closed its own.
            while not self._null or self._null[-1] <= 2:
                keep(self._null, os.open, os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            self._socket, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            keep_all(self._pipe, os.pipe2, os.O_CLOEXEC | os.O_NONBLOCK)
            spawn(self._pids, argv, (self._theirs.fileno(), self._null[-1], self._pipe[1]),
                  self._exec)
        except OSError as err:  # no descriptors, no memory
            raise GiltraceError("%s cannot be started: %s" % (argv[0], err.strerror)) from err
        finally:
            _close(self._theirs)
            close_all(self._null)
            close_all(self._exec)
            if self._pipe:
                keep(self._stderr, self._pipe.pop, 0)
            close_all(self._pipe)

    # ---- talk ----

    def send(self, packet):
        """Sends without waiting. BlockingIOError: there is no room; other OSErrors: nobody."""
        with self.sending:
            self._socket.send(packet, SEND_FLAGS)

    def send_counted(self, packet, into):
        """The same, and appends to a list if, and only if, it was sent."""
        with self.sending:
            keep(into, self._socket.send, packet, SEND_FLAGS)

    def receive(self, into, deadline):
        """Appends the next packet, b"" at the end of all; False: there is none until then."""
        while True:
            try:
                keep(into, self._socket.recv, PACKET_MAX)
                return True
            except BlockingIOError:
                pass
            except ConnectionResetError:  # told once: it has not read all. Its packets follow
                continue
            except OSError:  # closed by a signal handler of this thread
                into.append(b"")
                return True
            if not self.ready(select.POLLIN, deadline):
                # A process that was forked at the wrong moment may keep the socket open.
                if not self.ended():
                    return False
                if not self.ready(select.POLLIN, 0):
                    into.append(b"")
                    return True

    def ready(self, events, deadline):
        """Waits until the socket is ready; False: not until then, or the child has ended."""
        fd = self._socket.fileno()
        while fd >= 0:
            left = deadline - time.monotonic()
            if _poll(fd, events, left):
                return True
            if left <= 0 or self.ended():
                return False
        return True

    # ---- its end ----

    def ended(self):
        """Has it? Does not wait."""
        if not self._pids or self._reaped or any(pid for pid, _ in self._waits):
            return True
        try:
            keep(self._waits, os.waitpid, self._pids[0], os.WNOHANG)
        except ChildProcessError:
            self._reaped = True
            return True
        if self._waits[-1][0]:
            return True
        self._waits.remove((0, 0))
        return False

    def status(self):
        """As giltrace's exit status, -N if signal N has ended it, None: not known."""
        for pid, status in self._waits:
            if pid:
                return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return None

    @property
    def killed(self):
        """Was it us who ended it? Not if it has ended by a signal that we have not sent."""
        status = self.status()
        return bool(self._sent) and (status is None or status >= 0 or -status in self._sent)

    def wait(self, deadline):
        """Waits for its end; False: not until then."""
        pause = 0.001
        while not self.ended():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            # Its standard error has been closed when it is gone, or is about to be.
            if not self._stderr or _poll(self._stderr[0], 0, left):
                time.sleep(min(pause, left))
                pause = min(2 * pause, SLICE)
        return True

    def words(self):
        """What it has said on standard error until now: lines."""
        while self._stderr and len(self._words) < WORDS_MAX:
            try:
                more = os.read(self._stderr[0], WORDS_MAX)
            except OSError:  # nothing more for now; or somebody has closed it
                break
            if not more:
                break
            self._words += more
        text = self._words[:WORDS_MAX].decode("utf-8", "replace")
        return [line.rstrip() for line in text.splitlines() if line.strip()]

    def hang_up(self):
        """It finishes its files, and ends."""
        with self.sending:
            _close(self._socket)

    def give_up(self):
        """Nobody wants it any more: sweep() looks after what end() has not done."""
        if self.given_up is None:
            self.given_up = time.monotonic()
        self.hang_up()

    def end(self, grace=None):
        """Gives it up and waits for its end, which is made in the end; nothing is left of it."""
        grace = GRACE if grace is None else grace
        with self.busy:
            self.give_up()
            try:
                if not self.wait(time.monotonic() + grace):
                    self._signal(signal.SIGTERM)
                    self.wait(time.monotonic() + TERMINATED)
            finally:
                self._signal(signal.SIGKILL)
                self.wait(time.monotonic() + KILLED)
                self.words()
                self._sweep()

    def sweep(self):
        """What end() was kept from: ends it if it has had its time, and closes all if it has."""
        if self.given_up is not None and self.busy.acquire(False):
            try:
                if time.monotonic() - self.given_up > GRACE:
                    self._signal(signal.SIGKILL)
                self._sweep()
            finally:
                self.busy.release()

    def _sweep(self):
        self.hang_up()
        if self.ended():
            self.close()
            _processes.pop(id(self), None)

    def _signal(self, number):
        """To all of its group, if that is its own. What sudo runs is not ours to signal."""
        if self.ended():
            return
        self._sent.add(number)
        pid = self._pids[0]
        try:
            if os.getpgid(pid) == pid:
                os.killpg(pid, number)
            else:
                os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def close(self):
        """Closes all descriptors."""
        _close(self._socket)
        _close(self._theirs)
        for fds in (self._null, self._exec, self._pipe, self._stderr):
            close_all(fds)


def _close(end):
    try:
        if end:
            end.close()
    except OSError:  # somebody has done so
        pass


def _poll(fd, events, left):
    """Waits a slice at most, and not longer than is left."""
    poller = select.poll()
    poller.register(fd, events)
    return poller.poll(max(0, min(left, SLICE)) * 1000)
