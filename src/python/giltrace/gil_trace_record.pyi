# SPDX-License-Identifier: Apache-2.0
from typing import Iterable, Optional

__all__ = ["gil_trace_record_start", "gil_trace_record_stop"]

def gil_trace_record_start(pid_list: Optional[Iterable[int]] = ...,
                           duration: Optional[float] = ...) -> bool: ...
def gil_trace_record_stop() -> bool: ...
