# SPDX-License-Identifier: Apache-2.0
"""
The recording of this process that the functions of the module are about, and the decorator. A
forked child has none, whatever its parent has.
"""
import functools
import inspect
import os
import threading
import warnings

from ._errors import GiltraceError, GiltraceWarning
from ._recording import Recording


class _Place:
    def __init__(self):
        self.lock = threading.RLock()
        self.recording = None


_places = {}  # by process id: the parent's is of no use in a child, and its lock may be held

if hasattr(os, "register_at_fork"):  # 3.7
    os.register_at_fork(after_in_child=_places.clear)


def _place():
    pid = os.getpid()
    return _places.get(pid) or _places.setdefault(pid, _Place())


def _last():
    """The recording, also one that has ended; None."""
    place = _places.get(os.getpid())
    return place and place.recording


def start(pids=None, **options):
    """
    Records this process, or others, until stop(): returns the Recording when the probes are live.
    Raises GiltraceError, also where one is under way. Its arguments: help(giltrace.Recording).
    """
    new = Recording(pids, **options)
    place = _place()
    last = place.recording
    try:
        with place.lock:
            last = place.recording
            if last is not None and (last.running or not last._begun):
                raise GiltraceError("already recording: call giltrace.stop() first, or use "
                                    "giltrace.Recording objects for several side by side")
            place.recording = new
        if last is not None:
            last._stop(3)  # it has ended by itself
        return new.start()
    except BaseException:
        new._discard()
        if place.recording is new:
            place.recording = last
        raise


def recording():
    """The Recording that is under way in this process, or None."""
    last = _last()
    return last if last is not None and last.running else None


def stop():
    """
    Ends the recording and returns its Result when the files are complete. Raises nothing for what
    went wrong, but warns of it (GiltraceWarning). Without a recording: the last Result, or None.
    """
    last = _last()
    return None if last is None else last._stop(3)


def finish():
    """As stop(), without a warning."""
    last = _last()
    return None if last is None else last._end()


def mark(name):
    """
    A named instant, of this thread, now. Waits for nobody and raises nothing: False if nothing is
    recorded, or giltrace does not keep up.
    """
    last = _last()
    return False if last is None else last.mark(name)


def pause():
    """
    Records nothing for a while; the probes stay. Returns when that is so; False: there is no
    recording. Raises GiltraceError.
    """
    last = _last()
    return False if last is None else last.pause()


def resume():
    """Ends a pause. As pause()."""
    last = _last()
    return False if last is None else last.resume()


def status():
    """A Status of the recording, or None. Raises GiltraceError."""
    last = _last()
    return None if last is None else last.status()


class _Record:
    def __init__(self, options):
        self._options = options
        self._recording = None

    def __enter__(self):
        self._recording = start(**self._options)
        return self._recording

    def __exit__(self, *exc):
        self._recording._stop(3)

    def __call__(self, function):
        if inspect.isasyncgenfunction(function):
            raise TypeError("giltrace.record cannot record an asynchronous generator: use it as a "
                            "context manager in there")
        return _wrapped(function, self._options)


def record(pids=None, **options):
    """
    With the arguments of start(): a context manager, whose value is the Recording; or a decorator,
    for functions, coroutine functions and generator functions, of which each call is recorded. A
    decorated function runs all the same where it cannot be recorded (a GiltraceWarning says why),
    and within a recording that is under way its call is a part of that one.
    """
    if callable(pids):  # @giltrace.record
        return _Record(options)(pids)
    return _Record(dict(options, pids=pids))


def _begin(function, options):
    """A recording of a call, or None: the function runs all the same."""
    try:
        return start(**options)
    except GiltraceError as err:
        if recording() is None:  # else the call is a part of that one
            warnings.warn("%s() is not recorded: %s" % (function.__qualname__, err),
                          GiltraceWarning, 4)
    return None


class _Call:
    """A call of a decorated function."""

    def __init__(self, function, options):
        self._recording = _begin(function, options)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self._recording is not None:
            self._recording._stop(4)


def _wrapped(function, options):
    if inspect.iscoroutinefunction(function):
        async def wrapper(*args, **kwargs):
            with _Call(function, options):
                return await function(*args, **kwargs)
    elif inspect.isgeneratorfunction(function):
        def wrapper(*args, **kwargs):
            with _Call(function, options):
                return (yield from function(*args, **kwargs))
    else:
        def wrapper(*args, **kwargs):
            with _Call(function, options):
                return function(*args, **kwargs)
    return functools.wraps(function)(wrapper)


for _function in (start, record):  # for help(); the arguments are Recording's
    _function.__signature__ = inspect.signature(Recording)
