# SPDX-License-Identifier: Apache-2.0
"""A recording, from start to stop."""
import os
import sys
import threading
import time
import types
import warnings

from . import _process, _wire
from ._errors import (LOSSES, RIGHTS, GiltraceError, GiltraceWarning, NotPermitted, TimedOut,
                      meaning, text_of)
from ._names import Names, native_id
from ._spawn import resolve

LINES_MAX = 20        # of giltrace's words, in a text of ours
LINE_MAX = 500

if hasattr(time, "clock_gettime_ns"):
    def _now():
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
else:  # 3.6: a float is off by some ns, if the machine has been up for years
    def _now():
        return int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9)


class Status(types.SimpleNamespace):
    """
    How a recording goes. state: "recording", "paused" or "ended"; elapsed: seconds since the probes
    were live, those included that it was paused; processes: that are recorded now; events, lost
    (there was no room for them), bytes and marks in the files.
    """


class Result(types.SimpleNamespace):
    """
    How a recording was. files: paths; status: giltrace's exit status, -N where signal N ended it,
    None where nobody knows; error: a text, None where all went well (losses are no error);
    messages: lines that giltrace has said; events, lost, bytes, marks, elapsed, paused: as in a
    Status, 0 where giltrace could not tell any more.
    """

    @property
    def ok(self):
        """Did all go well? Losses do not count."""
        return self.error is None

    def check(self):
        """Raises a GiltraceError if something went wrong; returns itself."""
        if self.error is not None:
            raise meaning(self.status)[0](self.error, self.status)
        return self


def _options(pids, output_dir, duration, follow, all_npu, all_python, paused, options):
    """As giltrace wants them; None as a process stands for this one."""
    if isinstance(options, (str, bytes)):
        raise TypeError("options is a list of words, not one string")
    words = ["--control-fd=0"]
    if output_dir is None:
        output_dir = os.environ.get("GILTRACE_DATA_DIR") or "."
    try:
        words.append("--output-dir=" + os.path.abspath(os.fsdecode(output_dir)))
    except OSError as err:
        raise GiltraceError("the current folder is not there any more: %s" % err.strerror) from err
    if duration is not None:
        if not 1e-9 <= duration <= 1e9:
            raise ValueError("duration is in seconds, up to 1e9, not %r" % (duration,))
        words.append("--duration=%.9f" % duration)
    for wanted, word in ((follow, "--follow"), (all_npu, "--all-npu"),
                         (all_python, "--all-python"), (paused, "--paused")):
        if wanted:
            words.append(word)
    if pids is None and not all_npu and not all_python:
        pids = [os.getpid()]
    if pids is not None:
        pids = [pids] if isinstance(pids, int) else list(pids)
        if any(not isinstance(pid, int) or pid <= 0 for pid in pids):
            raise ValueError("pids are process ids, not %r" % (pids,))
    if pids:
        words.append("--pid=" + ",".join(str(int(pid)) for pid in pids))
    return words + [os.fsdecode(word) for word in options]


class Recording:
    """
    One recording, which begins once.

    pids: one process id or several; without them, and without all_npu (each Python that is bound to
    an Ascend NPU, also later ones) and all_python, it is this process. follow: their children, too.
    output_dir: else $GILTRACE_DATA_DIR, else the current folder. duration: seconds; else until
    stop(). paused: records nothing before resume(). command: path of giltrace, or a command that
    becomes it, as "sudo -n giltrace" or a list of words; else $GILTRACE_COMMAND, else "giltrace" in
    $PATH. timeout: seconds for the probes to be live, and for an answer. options: more options of
    giltrace.

    For any thread. A forked child finds it inert: nothing is done there, and False or None
    returned. result: the Result, once it has been stopped.
    """

    # A handler of a signal may call this in the middle of this: hence an RLock. mark() and stop()
    # always work there.

    _process = None

    def __init__(self, pids=None, *, output_dir=None, duration=None, follow=False, all_npu=False,
                 all_python=False, paused=False, command=None, timeout=60, options=()):
        if not timeout > 0:
            raise ValueError("timeout is in seconds, not %r" % (timeout,))
        self.result = None
        self._how = (pids, output_dir, duration, follow, all_npu, all_python, paused, options)
        _options(*self._how)  # what is wrong is told here
        self._command = command
        self.timeout = timeout
        self._lock = threading.RLock()
        self._wire = None
        self._names = Names()
        self._live = False    # the probes are, or have been
        self._called_off = False
        self._said = 0        # lines of giltrace's, when it was ready
        self._dropped = 0     # marks
        self._told = False    # that it went wrong

    # ---- start ----

    def start(self):
        """Returns, itself, when the probes are live. Raises GiltraceError."""
        with self._lock:
            if self._process is not None:
                raise GiltraceError("this Recording has been started already")
            _process.sweep()
            try:
                self._start()
                return self
            except BaseException:
                self._discard()
                raise

    def _start(self):
        argv = resolve(self._command) + _options(*self._how)
        deadline = time.monotonic() + self.timeout
        process = _process.Process()
        self._wire = wire = _wire.Wire(process)
        self._process = process
        process.start(argv)
        try:
            wire.until(lambda: wire.ready is not None or wire.ended or self._called_off, deadline)
        except TimedOut:
            process.end(0)
            raise TimedOut(self._late(argv)) from None
        if self._called_off:
            raise GiltraceError("a handler of a signal has called stop() before it was ready")
        if wire.ended or wire.ready is None:
            process.end()
            raise self._unready(argv)
        if wire.ready.get("protocol") != "1":
            raise GiltraceError("%s speaks protocol %s, this package protocol 1: they are of "
                                "different versions" % (argv[0], wire.ready.get("protocol")))
        self._said = len(process.words())
        self._live = True
        self._tell_names()

    def _late(self, argv):
        hint = None
        if os.path.basename(argv[0]) == "sudo" and "-n" not in argv:
            hint = "Does sudo ask for a password? Nobody can answer: sudo -n"
        return text_of("%s was not ready within %g s" % (argv[0], self.timeout), self._lines(),
                       hint)

    def _unready(self, argv):
        """Why there is no recording: an exception."""
        lines, status = self._lines(), self._status()
        text = "\n".join(lines)
        kind, sentence = meaning(status)
        hint = None
        through = os.path.basename(argv[0])
        if through in ("sudo", "doas") and status == 1 and not self._wire.ended:
            kind, sentence, hint = NotPermitted, "%s did not start giltrace" % argv[0], RIGHTS
        elif self._process.killed:
            sentence = "%s is no giltrace: it ended the conversation" % argv[0]
        elif kind is GiltraceError:
            sentence = "%s: %s before it was ready" % (argv[0], sentence)
            if "control-fd" in text:
                hint = "It is no giltrace, or one that is older than this package"
        elif "CAP_" in text:
            hint = RIGHTS
        return kind(text_of(sentence, lines, hint), status)

    def _discard(self):
        """Whatever has been begun is ended, as if it had never been."""
        if self._mine():
            try:
                self._process.end()
            finally:
                self._process = None
                self._live = self._called_off = False

    # ---- while it records ----

    def _mine(self):
        """Has it been started, by this process?"""
        process = self._process
        return process is not None and process.owner == os.getpid()

    @property
    def _begun(self):
        """Has it been started, be it by a parent of this process?"""
        return self._process is not None

    @property
    def running(self):
        """Has it begun, and not ended yet?"""
        if not self._mine() or self.result is not None:
            return False
        if not self._lock.acquire(False):  # another thread starts it, or waits for an answer
            return True
        try:
            if not self._live:  # we are in a handler of a signal that came in start()
                return True
            self._wire.drain()
            return self._wire.ended is None and not self._wire.over
        finally:
            self._lock.release()

    def mark(self, name):
        """
        A named instant, of this thread, now. Waits for nobody and raises nothing: False if there is
        no recording any more, or giltrace does not keep up.
        """
        ns = _now()
        if not self._live or not self._mine() or self.result is not None:
            return False
        tid = native_id()
        if not self._names.knows(tid):
            self._tell_names()
        if self._wire.tell(_wire.mark(ns, tid, str(name))):
            return True
        self._dropped += 1
        return False

    def _tell_names(self):
        for packet in self._names.packets():
            self._wire.tell(packet)

    def pause(self):
        """
        Records nothing for a while; the probes stay. Returns when that is so; False: the recording
        has ended. Raises GiltraceError.
        """
        return self._order(b"pause")

    def resume(self):
        """Ends a pause. As pause()."""
        return self._order(b"resume")

    def _ask(self, request):
        """The answer, or None: it has ended."""
        with self._lock:
            if not self._live or self.result is not None:
                return None
            return self._wire.ask(request, time.monotonic() + self.timeout)

    def _order(self, word):
        answer = self._ask(word) if self._mine() else None
        if answer and not answer[0]:
            raise GiltraceError("giltrace does not %s: %s" % (word.decode(), answer[1]))
        return answer is not None

    def status(self):
        """A Status. Raises GiltraceError."""
        if not self._live or not self._mine():
            return None
        answer = self._ask(b"status")
        if answer and answer[0]:
            n = _wire.Numbers(answer[1])
        else:
            n = self._wire.ended or _wire.Numbers()
        return Status(state=n.state, elapsed=n.elapsed, paused=n.paused, processes=n.processes,
                      events=n.events, lost=n.lost, bytes=n.bytes, marks=n.marks)

    # ---- stop ----

    def stop(self):
        """
        Returns a Result when the files are complete. Raises nothing for what went wrong, but warns
        of it (GiltraceWarning). A second call returns the same; None: it has not begun.
        """
        return self._stop(3)

    def _stop(self, level):
        """As stop(). level: of the caller's caller, for the warning."""
        result = self._end()
        text = self._trouble()
        if text:
            warnings.warn(text, GiltraceWarning, level)
        return result

    def _end(self):
        """As stop(), without a warning."""
        if not self._mine():
            return None
        with self._lock:
            if not self._live:
                self._called_off = True
                return None
            try:
                if self.result is None:
                    self._finish(self.timeout)
            except BaseException:
                self._finish(_process.GRACE)  # Ctrl-C: it gets the time to be whole all the same
                raise
            finally:
                if self.result is None:
                    self._process.end(0)
                    self.result = self._result("it was interrupted")
            return self.result

    def _finish(self, timeout):
        late = None
        self._tell_names()
        try:
            self._wire.stop(timeout)
            self._process.end(timeout if self._wire.ended else None)
        except TimedOut:
            self._process.end(1)
            late = "it did not end within %g s of its last word, and was killed" % timeout
        self._wire.drain()
        if self.result is None:  # else a signal handler has been here
            self.result = self._result(late)

    def _status(self):
        return self._wire.ended.status if self._wire.ended else self._process.status()

    def _result(self, late=None):
        status, error = self._status(), None
        n = self._wire.ended or _wire.Numbers()
        if late or not self._wire.ended or status not in (0, LOSSES):
            sentence = "giltrace: %s" % late if late else meaning(status)[1]
            if not late and not self._wire.ended and status == 0:
                sentence = "giltrace has ended without its last word"
            error = text_of(sentence, self._lines(self._said))
        messages = self._process.words()
        if self._dropped:
            messages.append("%d marks were dropped: giltrace did not keep up, or had ended" %
                            self._dropped)
        return Result(status=status, error=error, messages=messages, files=list(self._wire.files),
                      events=n.events, lost=n.lost, bytes=n.bytes, marks=n.marks,
                      elapsed=n.elapsed, paused=n.paused)

    def _trouble(self):
        """What there is to warn of, once."""
        result = self.result
        if result is None or self._told:
            return None
        self._told = True
        if result.error:
            return result.error
        if result.lost:
            return ("giltrace: %d events were lost, %d recorded; a larger buffer may help: "
                    "options=[\"--ring-size=16384\"]" % (result.lost, result.events))
        return None

    def _lines(self, since=0):
        """giltrace's words from a line on, or all if there are none: as many as are bearable."""
        lines = self._process.words()
        lines = lines[since:] or lines
        return [line[:LINE_MAX] for line in lines[-LINES_MAX:]]

    # ---- as a context manager ----

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self._stop(3)

    def __del__(self):
        if not self._mine() or self.result is not None or self._process.given_up is not None:
            return
        if sys.is_finalizing():  # the end of the process is the end of the recording
            self._process.close()
            return
        self._process.give_up()
        warnings.warn("a recording that was not stopped was dropped", ResourceWarning, 2)
