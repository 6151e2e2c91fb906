# SPDX-License-Identifier: Apache-2.0
"""
Finding the program giltrace and starting it, so that a KeyboardInterrupt at any time loses neither
a process nor a descriptor: Python runs signal handlers between two of its own instructions only, so
what one call into C both makes and stores cannot be lost.
"""
import collections
import functools
import itertools
import os
import signal

from ._errors import RIGHTS, GiltraceError, NotFound, NotPermitted

# They are for the job's own libraries.
NOT_INHERITED = (b"LD_PRELOAD", b"LD_AUDIT", b"LD_LIBRARY_PATH")


def keep(into, function, *args):
    """into.append(function(*args)) in one piece."""
    into.extend(map(function, *[(arg,) for arg in args]))


def keep_all(into, function, *args):
    """into.extend(function(*args)) in one piece."""
    into.extend(itertools.chain.from_iterable(map(function, *[(arg,) for arg in args])))


def close_all(fds, n=None):
    """Closes the descriptors of a list, or its last n, and removes them: none twice, none not."""
    left = 0 if n is None else len(fds) - n
    while len(fds) > left:
        try:
            each = itertools.islice(iter(fds.pop, None), len(fds) - left)
            collections.deque(map(os.close, each), 0)
        except OSError:  # somebody has closed that one
            pass


# ---- which program ----

def _words(command):
    """A command as a list of words; where it is no list, by the rules of giltrace.h."""
    if command is None:
        command = os.environ.get("GILTRACE_COMMAND") or "giltrace"
    if isinstance(command, (list, tuple)):
        return [os.fsdecode(word) for word in command]
    command = os.fsdecode(command)
    return [command] if os.path.isfile(command) and "/" in command else command.split()


def _candidates(name):
    if "/" in name:
        return [name]
    return [os.path.join(folder or ".", name) for folder in os.get_exec_path()]


def resolve(command):
    """The words of a command, of which the first is the path of a program that we may execute."""
    words = _words(command)
    if not words:
        raise NotFound("the command for giltrace is empty")
    found = [path for path in _candidates(words[0]) if os.path.isfile(path)]
    for path in found:
        if os.access(path, os.X_OK):
            return [path] + words[1:]
    if found:
        raise NotPermitted(
            "%s is there, but this user may not execute it: whoever may is in its group (ls -l "
            "tells which), or sudo starts it (GILTRACE_COMMAND=\"sudo -n giltrace\"): "
            "docs/embedding.md" % found[0])
    raise NotFound(
        "no program %s is there%s. Set the environment variable GILTRACE_COMMAND, or command=, to "
        "the path of giltrace or to a command that starts it, as \"sudo -n /usr/local/bin/"
        "giltrace\"" % (words[0], "" if "/" in words[0] else " in $PATH"))


# ---- the process ----

def _environment():
    """Of this process, without what is not for giltrace; others may change it meanwhile."""
    values = [(name, os.environb.get(name)) for name in list(os.environb)]
    return {name: value for name, value in values
            if value is not None and name not in NOT_INHERITED}


def _posix_spawn(pids, argv, fds, _):
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)]
    start = functools.partial(os.posix_spawn, file_actions=actions, setpgroup=0, setsigmask=(),
                              setsigdef=signal.valid_signals())
    keep(pids, start, argv[0], argv, _environment())


def _own_group(pid):
    try:
        os.setpgid(pid, pid)
    except OSError:  # it runs already, or has ended
        pass


def _fork_exec(pids, argv, fds, pipe):
    """
    For CPython 3.6 and 3.7: what their subprocess is made of, as their multiprocessing calls it.
    Signal mask and dispositions are left to giltrace, and so is the group where it is too late.
    """
    from _posixsubprocess import fork_exec
    env = [name + b"=" + value for name, value in _environment().items()]
    keep_all(pipe, os.pipe2, os.O_CLOEXEC)
    keep(pids, fork_exec, argv, [argv[0]], True, (pipe[1],), None, env, fds[0], -1, -1, fds[1], -1,
         fds[2], pipe[0], pipe[1], True, False, None)
    _own_group(pids[-1])
    close_all(pipe, 1)
    said = b"".join(iter(lambda: os.read(pipe[0], 4096), b""))  # nothing if it was executed
    if said:
        number = int(said.split(b":")[1], 16)
        raise OSError(number, os.strerror(number))


def spawn(pids, argv, fds, temporary):
    """
    Starts a program, of which fds, all above 2, become descriptors 0, 1 and 2; appends its process
    id to pids. It inherits no other descriptor, is in a process group of its own (so that Ctrl-C is
    for the job), not in a session of its own (sudo's tickets are by terminal). temporary: an empty
    list for descriptors, which the caller closes.
    """
    argv = [os.fsencode(word) for word in argv]
    try:
        (_posix_spawn if hasattr(os, "posix_spawn") else _fork_exec)(pids, argv, fds, temporary)
    except OSError as err:
        text = "%s cannot be executed: %s" % (os.fsdecode(argv[0]), err.strerror)
        if isinstance(err, PermissionError):
            raise NotPermitted("%s\n%s" % (text, RIGHTS)) from None
        raise GiltraceError(text) from None
