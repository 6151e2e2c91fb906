# SPDX-License-Identifier: Apache-2.0
"""
What is said between giltrace and its owner, by docs/control.md, over a Process. The caller has a
lock, but for tell(). Nothing here minds a KeyboardInterrupt: an answer that nobody has waited for
to its end is not taken for that to the next request.
"""
import os
import select
import time

from ._errors import GiltraceError, TimedOut
from ._process import SLICE
from ._spawn import keep

MARK_MAX = 127      # bytes of a name
FILES_MAX = 65536
BOOKS_MAX = 1000


def mark(ns, tid, name):
    """The packet of a mark."""
    name = name.encode("utf-8", "replace").replace(b"\0", b" ").replace(b"\n", b" ") or b"mark"
    if len(name) > MARK_MAX:
        name = name[:MARK_MAX].decode("utf-8", "ignore").encode()
    return b"mark %d %d %s" % (ns, tid, name)


def _words(text):
    """The key=value words of a packet."""
    return dict(word.split("=", 1) for word in text.split(" ") if "=" in word)


def _number(words, key):
    value = words.get(key, "")
    return int(value) if value.isdigit() else 0


class Numbers:
    """What a status and an "ended" have in common; what is not told is 0."""

    def __init__(self, text=""):
        words = _words(text)
        self.state = words.get("state", "ended")
        self.status = _number(words, "status")
        for key in ("events", "lost", "bytes", "marks", "processes"):
            setattr(self, key, _number(words, key))
        self.elapsed = _number(words, "elapsed_ns") / 1e9
        self.paused = _number(words, "paused_ns") / 1e9


class Wire:
    """
    ready: the words of that packet, or None; ended: Numbers, or None; over: nothing will come any
    more; files: path -> (events, lost), None where it is not known to be complete.
    """

    def __init__(self, process):
        self.ready = None
        self.ended = None
        self.over = False
        self.files = {}
        self._process = process
        self._got = []           # packets that have not been read
        self._count = 0          # of those that have been
        self._books = ([], [])   # of requests and their answers, in their order
        self._asking = False

    def tell(self, packet):
        """Sends what is not answered, without waiting; False: there is no room, or nobody."""
        if self.ended or self.over:
            return False
        try:
            self._process.send(packet)
            return True
        except OSError:
            return False

    def ask(self, request, deadline):
        """(is it ok, text) of the answer; None: the recording has ended. TimedOut."""
        ours = False
        try:
            if self._asking:
                raise GiltraceError("a handler of a signal asks giltrace in the middle of another "
                                    "request of the same thread")
            ours = True
            self._asking = True
            return self._ask(request, deadline)
        finally:
            if ours:
                self._asking = False

    def _ask(self, request, deadline):
        if len(self._books[0]) == len(self._books[1]) >= BOOKS_MAX:
            self._books = ([], [])
        asked, answers = self._books
        if not self._send(request, deadline, asked):
            return None
        number = len(asked)
        self.until(lambda: len(answers) >= number, deadline)
        if len(answers) < number:
            return None
        word, _, text = _text(answers[number - 1]).partition(" ")
        return word == "ok", text

    def stop(self, timeout):
        """
        Returns when it has ended, or cannot be waited for any more. TimedOut, which is counted anew
        with each packet: slow disks, or many probes to remove, are no reason to lose the rest.
        """
        if self._send(b"stop", time.monotonic() + timeout, []):
            while not self.ended and not self.over:
                before = self._count
                self.until(lambda: self.ended or self._count > before, time.monotonic() + timeout)

    def until(self, condition, deadline):
        """Reads until that is true or nothing more will come. TimedOut."""
        while not condition() and not self.over:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut("giltrace does not answer in time")
            self._read(time.monotonic() + min(left, SLICE))

    def drain(self):
        """Reads what has come."""
        for _ in range(FILES_MAX):
            if self.over or not self._read(0):
                break

    def _send(self, packet, deadline, into):
        """Waits for room; False: nobody reads it. TimedOut. into: where it is counted."""
        while True:
            try:
                self._process.send_counted(packet, into)
                return True
            except BlockingIOError:
                if not self._process.ready(select.POLLOUT, deadline):
                    if not self._process.ended():
                        raise TimedOut("giltrace does not read what it is told") from None
                    return False
            except OSError:
                self.drain()
                return False

    def _read(self, deadline):
        """One packet; False: there is none until then."""
        if not self._got and not self._process.receive(self._got, deadline):
            return False
        packet = self._got[0]
        asked, answers = self._books
        try:
            if packet.split(b" ", 1)[0] in (b"ok", b"error") and len(answers) < len(asked):
                keep(answers, self._got.pop, 0)
            else:
                self._understand(packet)
                del self._got[0]
        except IndexError:  # a handler of a signal has called stop() meanwhile, which has read all
            pass
        self._count += 1
        return True

    def _understand(self, packet):
        """Again is the same as once."""
        word, _, rest = _text(packet).partition(" ")
        if not packet:
            self.over = True
        elif word == "ready":
            self.ready = _words(rest)
        elif word == "ended":
            self.ended = Numbers(rest)
        elif word == "file":
            self._file(rest.split(" ", 1)[1:], None)
        elif word == "done":
            words = rest.split(" ", 3)
            self._file(words[3:], tuple(int(w) if w.isdigit() else 0 for w in words[1:3]))

    def _file(self, path, what):
        if path and (len(self.files) < FILES_MAX or path[0] in self.files):
            self.files[path[0]] = what


def _text(packet):
    return os.fsdecode(packet)
