# SPDX-License-Identifier: Apache-2.0
"""
Records the GIL from inside the program, beside a Profiler's own start and stop:

    import giltrace

    giltrace.start(output_dir="/data/gil")
    ...
    giltrace.mark("step 10")
    ...
    print(giltrace.stop().files)

or, for a block or a function:

    with giltrace.record(output_dir="/data/gil"):
        ...

The program giltrace does the work, as a child of this process, and needs rights that this process
need not have. What each function does is told in __init__.pyi; docs/embedding.md tells the rest.
"""
from ._default import mark, pause, record, recording, resume, start, status, stop
from ._errors import (GiltraceError, GiltraceWarning, NoProcess, NotFound, NotPermitted, NotPython,
                      OutputError, TimedOut)
from ._recording import Recording, Result, Status

__version__ = "0.1.0"

__all__ = ["GiltraceError", "GiltraceWarning", "NoProcess", "NotFound", "NotPermitted",
           "NotPython", "OutputError", "Recording", "Result", "Status", "TimedOut", "mark",
           "pause", "record", "recording", "resume", "start", "status", "stop"]
