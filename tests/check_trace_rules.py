#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is a JSON of gil2trace what MindStudio Insight and Perfetto read, and can it be true?

    check_trace_rules.py TRACE.json...

Prints each rule that is broken; exit status 1 if any is. Also used as a module by the tests.
"""
import bisect
import json
import re
import sys
from collections import defaultdict

SLICES = ("take_gil", "hold_gil", "drop_gil")
OPEN = ("start", "lost", "paused", "end", "unknown", "exit", "finalizing", "clipped")
SIGNS = {"I": ("lost events", "not recorded", "GIL sites missing", "paused"),
         "C": ("GIL lost events", "GIL not recorded", "GIL sites missing", "GIL paused")}
MARKS_TRACK = "4194308"
TID_END = 4194304  # Linux: PID_MAX_LIMIT; tracks from here on are no thread's
MICROSECONDS = re.compile(r"\d+\.\d{3}")
PARTS = ("held_us", "nobody_us", "unknown_us")  # of a wait


class Number(str):
    """The text of a number, as it stands in the file."""


class Event(dict):
    """An object that remembers the order of its keys and refuses one given twice."""

    def __init__(self, pairs):
        super().__init__(pairs)
        self.keys_in_order = [k for k, _ in pairs]
        if len(self) != len(pairs):
            raise ValueError("a key is given twice: %s" % self.keys_in_order)


def refuse(text):
    raise ValueError("%s is no JSON" % text)


def parse(raw):
    if raw.startswith(b"\xef\xbb\xbf"):
        raise ValueError("byte-order mark")
    return json.loads(raw.decode("utf-8"), parse_int=Number, parse_float=Number,
                      parse_constant=refuse, object_pairs_hook=Event)


def to_ns(text):
    return int(text.replace(".", ""))


class Checker:
    def __init__(self):
        self.faults = []
        self.processes, self.threads = set(), set()
        self.tracks = defaultdict(list)  # (pid, tid) -> [(start, end, name, gil, args)]
        self.flows = defaultdict(list)  # id -> [(phase, pid, tid, ns, event)]
        self.marks = defaultdict(list)  # scope -> [(pid, thread, ns, name, event)]

    def fault(self, event, why):
        self.faults.append("%s: %s" % (why, json.dumps(event)))

    def add_slice(self, e):
        if not (type(e.get("ts")) is str and MICROSECONDS.fullmatch(e["ts"])):
            return self.fault(e, "ts is no string of microseconds with three decimals")
        if not (type(e.get("dur")) is str and MICROSECONDS.fullmatch(e["dur"])):
            return self.fault(e, "dur is no string of microseconds with three decimals")
        args = e.get("args", {})
        if "gil" not in args:
            return self.fault(e, "no args.gil")
        ends = args["open"].split("+") if "open" in args else []
        if len(ends) > 2 or ends != [o for o in OPEN if o in ends]:
            return self.fault(e, "args.open")
        if "finalizing" in ends and e["name"] != "take_gil":
            return self.fault(e, "only a take ends so")
        if args.get("forced", True) not in (True, False):
            return self.fault(e, "args.forced")
        not_released = e["name"] == "take_gil" or (
            e["name"] == "hold_gil" and
            not set(ends) <= {"start", "lost", "paused", "clipped"})
        if "forced" in args and not_released:
            return self.fault(e, "forced, but not released")
        if to_ns(e["ts"]) <= 0:
            return self.fault(e, "ts is not above 0")
        self.add_blame(e, args)
        if e["name"] not in SLICES:
            return self.fault(e, "name")
        if "unknown" in ends and to_ns(e["dur"]):
            self.fault(e, "an unknown end is drawn with a length")
        start = to_ns(e["ts"])
        self.tracks[e["pid"], e["tid"]].append(
            (start, start + to_ns(e["dur"]), e["name"], args["gil"], e))

    def add_blame(self, e, args):
        """Who had the GIL during a wait: the parts add up, those that are nothing are left out."""
        given = [k for k in PARTS + ("blocker_us",) if k in args]
        if e["name"] != "take_gil":
            if given or "blocker" in args:
                self.fault(e, "blame, but no wait")
            return
        if not all(type(args[k]) is str and MICROSECONDS.fullmatch(args[k]) and to_ns(args[k])
                   for k in given):
            return self.fault(e, "a part of a wait is no string of microseconds above 0")
        parts = {k: to_ns(args[k]) if k in args else 0 for k in PARTS + ("blocker_us",)}
        total, drawn = sum(parts[k] for k in PARTS), to_ns(e["dur"])
        if total < drawn or (total > drawn and "clipped" not in args.get("open", "")):
            self.fault(e, "the parts of a wait do not add up")
        if ("blocker" in args) != ("blocker_us" in args) or parts["blocker_us"] > parts["held_us"]:
            self.fault(e, "the blocker of a wait")
        if ("held_us" in args) != ("blocker" in args):
            self.fault(e, "held, but no blocker")

    def add_flow(self, e):
        if not (type(e.get("ts")) is str and MICROSECONDS.fullmatch(e["ts"])):
            return self.fault(e, "ts is no string of microseconds with three decimals")
        if (e["name"], e.get("cat")) != ("gil", "gil") or (e["ph"] == "f") != (e.get("bp") == "e"):
            return self.fault(e, "no flow of ours")
        self.flows[e.get("id")].append((e["ph"], e["pid"], e["tid"], to_ns(e["ts"]), e))

    def check_flows(self):
        """From within a hold to the beginning of another thread's hold, which comes later."""
        holds = {k: sorted(s[:2] for s in v if s[2] == "hold_gil") for k, v in self.tracks.items()}
        for key, ends in self.flows.items():
            if key is None or sorted(end[0] for end in ends) != ["f", "s"]:
                self.faults.append("flow %s has ends %s" % (key, [end[0] for end in ends]))
                continue
            (_, *to, f_ns, f), (_, *at, s_ns, s) = sorted(ends, key=lambda end: end[0])
            if s_ns > f_ns or to == at:
                self.fault(f, "a flow goes back")
            for where, ns, e in ((at, s_ns, s), (to, f_ns, f)):
                spans = holds.get(tuple(where), [])
                i = bisect.bisect(spans, (ns, 1 << 62)) - 1
                if i < 0 or not (spans[i][0] <= ns < spans[i][1] or spans[i] == (ns, ns)):
                    self.fault(e, "a flow's end lies in no hold")
                elif e is f and spans[i][0] != ns:
                    self.fault(e, "a flow does not end where a hold begins")

    def add(self, e):
        if not isinstance(e, Event) or e.keys_in_order[-1:] != ["ph"]:
            return self.fault(e, "ph is not the last key")
        # Perfetto puts all processes with a text for their pid into one.
        if not isinstance(e.get("pid"), Number):
            return self.fault(e, "pid is no number")
        if e["ph"] == "X":
            return self.add_slice(e)
        if e["ph"] == "I" and "s" in e:
            return self.add_mark(e)
        if e["ph"] in ("I", "C"):
            if not MICROSECONDS.fullmatch(e["ts"]) or to_ns(e["ts"]) <= 0:
                self.fault(e, "ts")
            if (e["pid"], e["tid"]) not in self.threads:
                self.fault(e, "instant on a track without a name before it")
            if e["name"] not in SIGNS[e["ph"]] or int(e["tid"]) < TID_END:
                self.fault(e, "no instant or counter of ours")
            return None
        if e["ph"] in ("s", "f"):
            return self.add_flow(e)
        if e["ph"] != "M":
            return self.fault(e, "kind of event")
        names = {"process_name": self.processes, "thread_name": self.threads}.get(e["name"])
        if names is not None:
            key = e["pid"] if e["name"] == "process_name" else (e["pid"], e["tid"])
            if key in names:
                self.fault(e, "named twice")
            names.add(key)
        return None

    def add_mark(self, e):
        """All are the process's, on one track; those of a thread stand on its row once more."""
        if not (type(e.get("ts")) is str and MICROSECONDS.fullmatch(e["ts"]) and to_ns(e["ts"])):
            return self.fault(e, "ts")
        thread = e["args"].get("thread")
        if e["s"] not in ("p", "t") or not e["name"] or set(e["args"]) - {"thread"}:
            return self.fault(e, "no mark of ours")
        if e["s"] == "p" and (e["pid"], e["tid"]) not in self.threads:
            return self.fault(e, "mark on a track without a name before it")
        if e["tid"] != (MARKS_TRACK if e["s"] == "p" else thread):
            return self.fault(e, "mark on another's track")
        self.marks[e["s"]].append((e["pid"], thread, e["ts"], e["name"], e))

    def check_marks(self):
        of_threads = [m for m in self.marks["p"] if m[1]]
        if [m[:4] for m in of_threads] != [m[:4] for m in self.marks["t"]]:
            self.faults.append("marks of threads do not stand on their rows")
        for pid, thread, _, _, e in of_threads:
            if (pid, thread) not in self.threads:
                self.fault(e, "mark on a row without a name")

    def check_track(self, key, slices):
        """In one track slices follow each other, and none begins with another of its name."""
        slices = sorted(slices, key=lambda s: s[:2])
        for a, b in zip(slices, slices[1:]):
            if b[0] < a[1]:
                self.fault(b[4], "overlaps the slice before it")
        for name in SLICES:
            starts = [s[0] for s in slices if s[2] == name]
            if len(set(starts)) != len(starts):
                self.faults.append("%s: two %s start at once" % (key, name))
        if key not in self.threads:
            self.faults.append("%s: no thread_name" % (key,))
        if key[0] not in self.processes:
            self.faults.append("%s: no process_name" % (key,))

    def check_holds(self):
        holds = defaultdict(list)
        for (pid, _), slices in self.tracks.items():
            for s in slices:
                if s[2] == "hold_gil":
                    holds[pid, s[3]].append(s)
        for gil in holds.values():
            gil.sort(key=lambda s: s[:2])
            for a, b in zip(gil, gil[1:]):
                if b[0] < a[1]:
                    self.fault(b[4], "two hold one GIL at once")

    def finish(self):
        for key, slices in self.tracks.items():
            self.check_track(key, slices)
        self.check_holds()
        self.check_flows()
        self.check_marks()
        return self.faults


def check(raw):
    """Returns the faults of a trace given as bytes."""
    try:
        events = parse(raw)
    except ValueError as err:
        return ["no strict JSON: %s" % err]
    if not isinstance(events, list) or not events:
        return ["no array with events"]
    checker = Checker()
    for e in events:
        checker.add(e)
    return checker.finish()


def main():
    bad = 0
    for path in sys.argv[1:]:
        with open(path, "rb") as f:
            faults = check(f.read())
        for fault in faults[:20]:
            print("%s: %s" % (path, fault))
        bad |= bool(faults)
    return 1 if bad or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
