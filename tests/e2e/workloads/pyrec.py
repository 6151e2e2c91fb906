# SPDX-License-Identifier: Apache-2.0
"""
Programs that record themselves by the Python package, for test_embed_python.py:

    pyrec.py FOLDER SCENARIO

A scenario is a function below. Its last line on standard output is what it found, as JSON. 3.6 and
newer.
"""
import json
import os
import sys
import threading
import time

import giltrace
from giltrace.gil_trace_record import gil_trace_record_start, gil_trace_record_stop

FOLDER = sys.argv[1]
ROUNDS = 100


def now():
    return int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9)


def tid():
    return int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])


def around(n=ROUNDS):
    """Gives the GIL up and takes it again n times."""
    for _ in range(n):
        os.stat("/")


def in_thread(function, name):
    """In CPython 3.6 there is no GIL before there is a thread."""
    t = threading.Thread(target=function, name=name)
    t.start()
    t.join()


def told(result):
    return {"ok": result.ok, "error": result.error, "files": result.files, "marks": result.marks,
            "events": result.events, "lost": result.lost}


def example():
    """A thread's steps, each with a mark behind it. The thread lives on until all is over."""
    def train():
        for i in range(5):
            begin = now()
            around()
            end = now()
            found["steps"].append([begin, end, giltrace.mark("step %d" % i)])
        found["tid"] = tid()
        done.set()
        over.wait()

    done, over = threading.Event(), threading.Event()
    found = {"pid": os.getpid(), "steps": []}
    # Names are to come from the package, not from the interpreter's memory.
    giltrace.start(output_dir=FOLDER, options=["--no-thread-names"])
    t = threading.Thread(target=train, name="trainer \u4e2d")
    t.start()
    done.wait()
    found["result"] = told(giltrace.stop())
    over.set()
    t.join()
    return found


def ways():
    """One recording after another, in all ways that there are."""
    results = []
    for i in range(2):
        giltrace.start(output_dir=FOLDER)
        in_thread(around, "worker")
        giltrace.mark("start %d" % i)
        results.append(giltrace.stop())
    with giltrace.record(output_dir=FOLDER) as r:
        in_thread(around, "worker")
        giltrace.mark("with")
    results.append(r.result)

    @giltrace.record(output_dir=FOLDER)
    def work():
        in_thread(around, "worker")
        giltrace.mark("decorator")

    work()
    results.append(giltrace.stop())
    os.environ["GILTRACE_DATA_DIR"] = FOLDER
    good = [gil_trace_record_start([os.getpid()])]
    in_thread(around, "worker")
    giltrace.mark("familiar")
    good.append(gil_trace_record_stop())
    results.append(giltrace.stop())
    return {"good": good, "results": [told(r) for r in results]}


def npu():
    """The familiar functions with nothing said, by a program that is bound to a card, if any."""
    os.environ["GILTRACE_DATA_DIR"] = FOLDER
    fd = os.open(os.environ["NPU"], os.O_RDWR) if "NPU" in os.environ else None
    good = [gil_trace_record_start()]
    in_thread(around, "worker")
    giltrace.mark("on the NPU")
    good.append(gil_trace_record_stop())
    if fd is not None:
        os.close(fd)
    return {"good": good, "files": giltrace.stop().files if good[0] else []}


def refused():
    """What start() raises."""
    try:
        giltrace.start(output_dir=FOLDER)
    except giltrace.GiltraceError as err:
        return {"type": type(err).__name__, "text": str(err), "status": err.status}


def brief():
    with giltrace.record(output_dir=FOLDER) as r:
        in_thread(around, "worker")
        giltrace.mark("brief")
    return told(r.result)


class Items:
    """A data set whose items are looked at by workers."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        around(10)
        return int(giltrace.mark("item")), int(giltrace.stop() is None), os.getpid()


def loader():
    """torch's workers, forked while the main process is recorded."""
    import torch.utils.data as data
    giltrace.start(output_dir=FOLDER)
    seen = []
    for i, batch in enumerate(data.DataLoader(Items(), batch_size=10, num_workers=2)):
        giltrace.mark("batch %d" % i)
        seen.append([part.tolist() for part in batch])
    return {"pid": os.getpid(), "seen": seen, "result": told(giltrace.stop())}


def rank():
    """One of torchrun's; the other is waited for, as ranks do."""
    import torch.distributed as dist
    dist.init_process_group("gloo")
    giltrace.start(output_dir=FOLDER)
    dist.barrier()
    in_thread(around, "worker")
    giltrace.mark("rank %d" % dist.get_rank())
    dist.barrier()
    result = giltrace.stop().check()
    return {"rank": dist.get_rank(), "pid": os.getpid(), "result": told(result)}


if __name__ == "__main__":
    answer = globals()[sys.argv[2]]()
    sys.stdout.write("\n%s\n" % json.dumps(answer))
