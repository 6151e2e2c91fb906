# SPDX-License-Identifier: Apache-2.0
"""
The two functions that many programs call already; only the import changes:

    from giltrace.gil_trace_record import gil_trace_record_start, gil_trace_record_stop

They raise nothing: what goes wrong is logged (logging.getLogger("giltrace")), and they return
False. The recording is that of the module giltrace, so giltrace.mark() works beside them.
"""
import logging

from . import _default
from ._errors import GiltraceError

__all__ = ["gil_trace_record_start", "gil_trace_record_stop"]

_log = logging.getLogger("giltrace")


def gil_trace_record_start(pid_list=None, duration=-1):
    """
    Records these processes, or all Python processes on the NPU, for so many seconds, or until
    gil_trace_record_stop(). Files go to $GILTRACE_DATA_DIR, else to the current folder.
    """
    try:
        if pid_list is not None and not pid_list:
            raise ValueError("pid_list is empty")
        _default.start(pid_list, all_npu=pid_list is None,
                       duration=duration if duration is not None and duration > 0 else None)
    except (GiltraceError, OSError, TypeError, ValueError) as err:
        _log.error("no GIL trace: %s", err)
        return False
    return True


def gil_trace_record_stop():
    """Ends the recording, and returns when the files are complete: was all as it should be?"""
    result = _default.finish()
    if result is None:
        _log.error("no GIL trace: this process has not begun one")
        return False
    if result.error is not None:
        _log.error("GIL trace: %s", result.error)
    elif result.lost:
        _log.warning("GIL trace: %d events were lost", result.lost)
    return result.ok
