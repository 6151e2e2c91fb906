# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, and what giltrace's exit statuses mean."""


class GiltraceError(Exception):
    """
    A recording could not begin or does not answer. The text is for a person: it holds giltrace's
    own words. status: giltrace's exit status, -N where signal N ended it, None where there is none.
    """

    def __init__(self, text, status=None):
        Exception.__init__(self, text)
        self.status = status


class NotFound(GiltraceError):
    """There is no program giltrace where it was looked for."""


class NotPermitted(GiltraceError):
    """Rights are missing: giltrace's, or those to execute it."""


class NoProcess(GiltraceError):
    """There is no process to record."""


class NotPython(GiltraceError):
    """A process is no CPython that can be traced."""


class OutputError(GiltraceError):
    """A file could not be written."""


class TimedOut(GiltraceError):
    """giltrace was not ready, or did not answer, in time."""


class GiltraceWarning(UserWarning):
    """A recording that went wrong on its way, or is not whole."""


RIGHTS = ("giltrace needs rights that this process need not have. Either let sudo start it "
          "(GILTRACE_COMMAND=\"sudo -n giltrace\"), or give the program its capabilities "
          "(sudo setcap ... giltrace): docs/embedding.md")

LOSSES = 6

# Exit statuses as the README has them.
_MEANINGS = {
    2: (GiltraceError, "giltrace does not understand its options"),
    3: (NoProcess, "there is no process to record"),
    4: (NotPython, "a process is no CPython that can be traced"),
    5: (NotPermitted, "giltrace lacks rights, or the kernel a feature"),
    7: (OutputError, "a file could not be written"),
    8: (GiltraceError, "what was recorded does not add up"),
}


def meaning(status):
    """(class of exception, sentence) for the way giltrace has ended."""
    if status is None:
        return GiltraceError, "giltrace has ended, nobody knows how"
    if status < 0:
        return GiltraceError, "giltrace was killed by signal %d" % -status
    return _MEANINGS.get(status, (GiltraceError, "giltrace has failed (exit status %d)" % status))


def text_of(sentence, words, hint=None):
    """One text of a sentence, giltrace's own words and a hint, as far as they are there."""
    return "\n".join(filter(None, [sentence + (":" if words else ""), "\n".join(words), hint]))
