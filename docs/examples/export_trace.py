# SPDX-License-Identifier: Apache-2.0
"""A Profiler's trace that a GIL recording can be laid beside, with every build of PyTorch.

Builds with Kineto, as those from pytorch.org are, export such a trace themselves. Builds without
it, as Debian's python3-torch, export times that count from a zero that is not in the file, the pid
"CPU functions" and threads numbered 1, 2, 3: nobody can say where the GIL belongs there. But the
process itself still knows, so for these builds the trace is written here, in the form of Kineto's:
Unix time, the real pid, the real ids of threads.
"""
import json
import os
import re
import socket
import threading
import time

import torch

USER_SCOPE = 7   # at::RecordScope: a record_function() of the program's own


def handler(folder):
    """For on_trace_ready."""
    if torch.profiler.kineto_available():
        return torch.profiler.tensorboard_trace_handler(folder)

    def write(prof):
        os.makedirs(folder, exist_ok=True)
        name = "%s_%d.%d.pt.trace.json" % (socket.gethostname(), os.getpid(), time.time() * 1000)
        with open(os.path.join(folder, name), "w") as f:
            json.dump(chrome_trace(prof), f)
    return write


def thread_range(name):
    """A record_function() that also tells the exporter which thread it is in: such a build knows
    its threads by a number of its own. Each thread but the one that profiles needs one, once."""
    return torch.profiler.record_function("%s [thread %d]" % (name, threading.get_native_id()))


def chrome_trace(prof):
    """To be called by the thread that profiles, as on_trace_ready is."""
    events = prof.profiler.kineto_results.events()
    threads = native_ids(events)
    pid = os.getpid()
    rows = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "python"}},
            {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": "CPU"}}]
    for tid in sorted(set(threads.values())):
        rows.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
                     "args": {"name": "thread %d (python)" % tid}})
    for e in events:
        start, duration = times_us(e)
        # A thread that has not told its id gets a number that no thread has.
        tid = threads.get(e.start_thread_id(), 1 << 30 | e.start_thread_id())
        cat = "user_annotation" if e.scope() == USER_SCOPE else "cpu_op"
        rows.append({"ph": "X", "cat": cat, "name": e.name(), "pid": pid, "tid": tid,
                     "ts": start, "dur": duration, "args": {}})
    return {"schemaVersion": 1, "traceEvents": rows}


def native_ids(events):
    """The real id of each thread, by the number that PyTorch has for it."""
    ids = {}
    for e in events:
        told = re.search(r" \[thread (\d+)\]$", e.name())
        if told:
            ids[e.start_thread_id()] = int(told.group(1))
        elif e.name().startswith("ProfilerStep#"):
            ids[e.start_thread_id()] = threading.get_native_id()
    return ids


def times_us(event):
    if hasattr(event, "start_ns"):   # PyTorch 2.3 and newer
        return event.start_ns() / 1000, event.duration_ns() / 1000
    return event.start_us(), event.duration_us()
