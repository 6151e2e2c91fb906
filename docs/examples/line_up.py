# SPDX-License-Identifier: Apache-2.0
"""How well do the GIL's rows and the Profiler's line up? Measured in a merged trace of PyTorch:

    python3 line_up.py merged/*.json

A thread that enters or leaves a record_function() lets the GIL go, the Profiler reads its clock,
and the thread takes the GIL again. So where a range of the Profiler begins or ends, the thread
cannot have the GIL: it has let it go some microseconds before, and takes it some behind. How close
that comes, at its closest, tells between what the rows of the GIL may be off the Profiler's.
"""
import bisect
import collections
import decimal
import json
import sys


def ns(microseconds):
    return int(decimal.Decimal(microseconds) * 1000)


def rows(path):
    """By thread: when it had the GIL, and when a range of its own begins or ends."""
    with open(path) as f:
        events = json.load(f, parse_float=decimal.Decimal)   # a double has not enough digits
    holds, edges = collections.defaultdict(list), collections.defaultdict(list)
    for e in events["traceEvents"]:
        if e["ph"] != "X":
            continue
        begin = ns(e["ts"])
        if e["name"] == "hold_gil":
            holds[e["tid"]].append((begin, begin + ns(e["dur"])))
        elif e.get("cat") == "user_annotation":
            edges[e["tid"]] += [begin, begin + ns(e["dur"])]
    return holds, edges


def line_up(holds, edges):
    """For each edge: since when the thread has not had the GIL, for how long it will not. Below 0:
    it has it, so the rows are wrong by that much at least."""
    holds = sorted(holds)
    begins = [h[0] for h in holds]
    for edge in edges:
        i = bisect.bisect_right(begins, edge)   # of the first hold behind the edge
        if 0 < i < len(holds):
            let_go, taken = edge - holds[i - 1][1], holds[i][0] - edge
            if i > 1 and edge - begins[i - 1] < -let_go:   # in a hold, and nearer to its begin
                let_go, taken = edge - holds[i - 2][1], begins[i - 1] - edge
            yield let_go, taken


def main(paths):
    n = inside = 0
    early, late = [], []
    for path in paths:
        holds, edges = rows(path)
        for tid in sorted(edges):
            found = list(line_up(holds[tid], edges[tid]))
            if not found:
                print("%s: thread %s: no rows of the GIL" % (path, tid))
                continue
            let_go, taken = (min(f[i] for f in found) / 1000 for i in (0, 1))
            n += len(found)
            inside += sum(1 for f in found if min(f) < 0)
            early.append(let_go)
            late.append(taken)
            print("%s: thread %s: %d edges of ranges: GIL let go %.3f us or more before, "
                  "taken %.3f us or more behind" % (path, tid, len(found), let_go, taken))
    if not n:
        sys.exit("no thread has both ranges and rows of the GIL")
    print("%d edges, %d of them in a hold; the GIL's rows are off by %+.3f to %+.3f us (+: late)"
          % (n, inside, -min(early), min(late)))


if __name__ == "__main__":
    main(sys.argv[1:])
