# SPDX-License-Identifier: Apache-2.0
"""What Profilers leave behind, made up: folders of torch_npu, MindSpore, msprof, traces of PyTorch.

    p = Profiler(pid=7, rank=0, begin=ns, end=ns)
    folder = p.torch_npu(where, raw_offset=D)
    p.events                      what stands in its trace, as parsed

begin and end are nanoseconds of the trace's own axis. Events have names as nasty as is allowed.
"""
import gzip
import json
import os
import random
import re
import sqlite3

import base

US = 1000
NAMES = ("aten::empty", "aten::addmm", "}{ \"ph\": \"X\" }, {", "\u4e2d\u6587 \u00e4\u00f6",
         "back\\slash \"quoted\"",
         "tab\tand\nnewline", "Iteration#3", "std::vector<int>::push_back(int&&)", "\U0001f600",
         "[1, 2")


def us(ns):
    return "%d.%03d" % divmod(ns, 1000)


def number(ns):
    """Microseconds as a number with these digits, which no float would keep: see write()."""
    return "@@%s@@" % us(ns)


class Profiler:
    def __init__(self, pid, rank, begin, end, tids=(), seed=1, events=200):
        self.pid, self.rank, self.begin, self.end = pid, rank, begin, end
        self.tids = list(tids) or [pid, pid + 1]
        self.rnd = random.Random(seed)
        self.n = events

    def ascend(self, device=True):
        """Events as torch_npu's and msprof's exports have them: ts is text, dur a number."""
        npu = self.pid << 10 | 3 << 5
        out = [meta("process_name", self.pid, 0, name="Python"),
               meta("process_labels", self.pid, 0, labels="CPU"),
               meta("process_sort_index", self.pid, 0, sort_index=0)]
        if device:
            out += [meta("process_name", npu, 0, name="Ascend Hardware"),
                    meta("process_labels", npu, 0, labels="NPU"),
                    meta("process_sort_index", npu, 0, sort_index=3),
                    meta("thread_name", npu, 2, name="Stream 2"),
                    meta("thread_sort_index", npu, 2, sort_index=2)]
        for i, tid in enumerate(self.tids):
            out.append(meta("thread_name", self.pid, tid, name="Thread %d" % tid))
            out.append(meta("thread_sort_index", self.pid, tid, sort_index=10 * i + 5))
        for i, begin, dur in self.times():
            where = [(self.pid, self.tids[i % len(self.tids)]), (npu, 2)][device and i % 5 == 4]
            out.append({"ph": "X", "name": NAMES[i % len(NAMES)], "pid": where[0], "tid": where[1],
                        "ts": us(begin), "dur": dur / 1000, "cat": "cpu_op",
                        "args": {"Call stack": "a.py(1): f;\r\nb.py(2): {g}",
                                 "Sequence number": i}})
            if i % 7 == 0 and device:
                out.append({"ph": "s", "bp": "e", "name": "async_npu", "id": 1 << 60 | i,
                            "pid": self.pid,
                            "tid": self.tids[0], "ts": us(begin), "cat": "async_npu"})
                out.append({"ph": "f", "bp": "e", "name": "async_npu", "id": 1 << 60 | i,
                            "pid": npu,
                            "tid": 2, "ts": us(begin + dur), "cat": "async_npu"})
        return out

    def times(self):
        """(number, begin, length), the first at the begin, the last up to the end."""
        step = (self.end - self.begin) // self.n
        for i in range(self.n):
            begin = self.begin + i * step + (self.rnd.randrange(step // 2) if i else 0)
            end = self.end if i == self.n - 1 else begin + self.rnd.randrange(step // 2)
            yield i, begin, end - begin

    def kineto(self, since=0, rank=None):
        """What PyTorch's own profiler exports: an object; ts are numbers, maybe from a base on."""
        events = [{"name": "process_name", "ph": "M", "ts": number(self.begin - since),
                   "pid": self.pid, "tid": 0,
                   "args": {"name": "python3"}},
                  {"name": "process_labels", "ph": "M", "ts": number(self.begin - since),
                   "pid": self.pid, "tid": 0,
                   "args": {"labels": "CPU"}}]
        for tid in self.tids:
            events.append({"name": "thread_name", "ph": "M", "ts": number(self.begin - since),
                           "pid": self.pid,
                           "tid": tid, "args": {"name": "thread %d (python3)" % tid}})
        for i, begin, dur in self.times():
            events.append({"ph": "X", "cat": "cpu_op", "name": NAMES[i % len(NAMES)],
                           "pid": self.pid,
                           "tid": self.tids[i % len(self.tids)], "ts": number(begin - since),
                           "dur": number(dur),
                           "args": {"External id": i, "Ev Idx": i}})
        events.append({"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans",
                       "tid": "PyTorch Profiler", "ts": number(self.begin - since),
                       "dur": number(self.end - self.begin), "args": {"Op count": 0}})
        out = {"schemaVersion": 1, "deviceProperties": []}
        if rank is not None:
            out["distributedInfo"] = {"backend": "gloo", "rank": rank, "world_size": 2}
        out["traceEvents"] = events
        out["traceName"] = "x.json"
        if since:
            out["baseTimeNanoseconds"] = since
        return out

    # ---- folders ----

    def start_info(self, where, raw_offset, pid=None):
        """PROF_.../host of msprof: D is what RAW is behind the axis."""
        host = os.path.join(where, "host")
        os.makedirs(host)
        unix_us = self.begin // US - 20000
        raw = unix_us * US - raw_offset
        write(os.path.join(host, "start_info"),
              {"collectionDateBegin": "2024-01-01 00:00:00.000000",
                                                 "collectionTimeBegin": str(unix_us),
                                                 "clockMonotonicRaw": str(raw)})
        with open(os.path.join(host, "host_start.log"), "w") as f:
            f.write("[Host]\nclock_monotonic_raw: 0\ncntvct: 0\ncntvct_diff: 0\n")
        write(os.path.join(host, "info.json"),
              {"jobInfo": "NA", "devices": "0", "platform_version": "0",
                                                "pid": str(pid or self.pid)})

    def torch_npu(self, root, raw_offset=None, mono_offset=None, kind="pt", name=None, started=None,
                  device=True):
        """
        <host>_<pid>_<time>_ascend_pt, with start_info, or end_info, or none of them. started: the
        CLOCK_MONOTONIC at its begin.
        """
        folder = os.path.join(root, name or "worker_%d_20240101000000000_ascend_%s" % (self.pid,
                                                                                       kind))
        os.makedirs(os.path.join(folder, "ASCEND_PROFILER_OUTPUT"))
        self.trace(os.path.join(folder, "ASCEND_PROFILER_OUTPUT", "trace_view.json"),
                   self.ascend(device))
        about = {"config": {"common_config": {}}, "rank_id": self.rank}
        if started is not None:
            about["start_info"] = {"syscnt_enable": True, "freq": 100, "start_cnt": 1,
                                   "start_monotonic": started}
        if mono_offset is not None:
            about["end_info"] = {"collectionTimeEnd": self.end,
                                 "MonotonicTimeEnd": self.end - mono_offset}
        write(os.path.join(folder, "profiler_info_%d.json" % self.rank), about)
        write(os.path.join(folder, "profiler_metadata.json"), {"ENV_VARIABLES": {}})
        if raw_offset is not None:
            self.start_info(os.path.join(folder, "PROF_000001_20240101000000000_ABCDEF"),
                            raw_offset)
        return folder

    def msprof(self, root, raw_offset):
        """PROF_<n>_<time>_<letters> with mindstudio_profiler_output."""
        folder = os.path.join(root, "PROF_000001_20240101000000000_ABCDEF")
        os.makedirs(os.path.join(folder, "mindstudio_profiler_output"))
        self.trace(os.path.join(folder, "mindstudio_profiler_output", "msprof_20240101000001.json"),
                   self.ascend())
        self.start_info(folder, raw_offset)
        return folder

    def trace(self, path, data):
        """Writes it, and keeps what an independent parser reads in it."""
        write(path, data)
        self.data = base.parse(base.read_json(path))
        self.events = self.data if isinstance(self.data, list) else self.data["traceEvents"]
        return path


def meta(what, pid, tid, **args):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def write(path, data):
    text = json.dumps(data, ensure_ascii=len(path) % 2 == 0)
    text = re.sub('"@@([0-9.]+)@@"', r"\1", text).encode("utf-8")
    with (gzip.open if path.endswith(".gz") else open)(path, "wb") as f:
        f.write(text)


def session_database(path, begin_ns, end_ns):
    db = sqlite3.connect(path)
    db.execute("create table SESSION_TIME_INFO (startTimeNs integer, endTimeNs integer)")
    db.execute("insert into SESSION_TIME_INFO values (?, ?)", (begin_ns, end_ns))
    db.commit()
    db.close()
