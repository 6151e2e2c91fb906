# SPDX-License-Identifier: Apache-2.0
"""What the converter's tests share: running gil2trace, its traces, summaries, scratch folders.

GT_BUILD_DIR says where gil2trace lies. No test here attaches to anything or needs to be root; those
that can do more as root say so.
"""
import base64
import collections
import functools
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zlib

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "e2e")]

import check_trace_rules  # noqa: E402
from common import LEFT_OUT, OK, FAILED, USAGE, new_dir, tool  # noqa: E402,F401

US, MS, S = 1000, 1000 * 1000, 1000 * 1000 * 1000
CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
Run = collections.namedtuple("Run", "status out err cpu rss_kib")
Slice = collections.namedtuple("Slice", "name pid tid gil begin end args")


def gil2trace(*args, **kwargs):
    """Runs it to its end; what it used is its own, whatever else this process has started."""
    argv = [tool("gil2trace")] + [str(a) for a in args]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=kwargs.pop("stdout", out),
                             stderr=err,
                             **kwargs)
        _, code, used = os.wait4(p.pid, 0)
        p.returncode = -os.WTERMSIG(code) if os.WIFSIGNALED(code) else os.WEXITSTATUS(code)
        texts = []
        for f in (out, err):
            f.seek(0)
            texts.append(f.read())
    return Run(p.returncode, texts[0], texts[1].decode("utf-8", "replace"),
               used.ru_utime + used.ru_stime, used.ru_maxrss)


@functools.lru_cache(None)
def sanitized():
    """A build with sanitizers tells nothing of speed and memory."""
    with open(tool("gil2trace"), "rb") as f:
        return b"__asan_init" in f.read()


def ns(value):
    """Microseconds as they stand in a JSON, number or text, exactly."""
    whole, _, part = str(value).partition(".")
    if not re.fullmatch(r"\d+", whole) or not re.fullmatch(r"\d{0,3}", part):
        raise AssertionError("no microseconds with three decimals: %r" % (value,))
    return int(whole) * 1000 + int(part.ljust(3, "0"))


def parse(raw):
    """Strict JSON, numbers as they stand in the text."""
    def refuse(text):
        raise ValueError("%s is no JSON" % text)
    return json.loads(raw.decode("utf-8"), parse_float=str, parse_int=str, parse_constant=refuse)


def read_json(path):
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as f:
        return f.read()


class Trace:
    """A trace, whose rules hold."""

    def __init__(self, raw):
        broken = check_trace_rules.check(raw)
        if broken:
            raise AssertionError("the trace breaks %d rules: %s" % (len(broken), broken[:5]))
        self.raw, self.events = raw, parse(raw)
        self.slices = slices(self.events)
        self.threads = {(int(e["pid"]), int(e["tid"])): e["args"]["name"] for e in self.events
                        if e["ph"] == "M" and e["name"] == "thread_name"}
        self.processes = {int(e["pid"]): e["args"]["name"] for e in self.events
                          if e["ph"] == "M" and e["name"] == "process_name"}
        self.marks = [(int(e["pid"]), int(e["args"].get("thread", 0)), ns(e["ts"]), e["name"])
                      for e in self.events if e["ph"] == "I" and e.get("s") == "p"]
        self.arrows = collections.defaultdict(dict)
        for e in self.events:
            if e["ph"] in ("s", "f"):
                self.arrows[e["id"]][e["ph"]] = (int(e["tid"]), ns(e["ts"]))

    def plain(self):
        """Slices without their arguments, sorted."""
        return sorted(s[:6] for s in self.slices)


def slices(events):
    out = []
    for e in events:
        if e.get("ph") == "X" and e["name"] in check_trace_rules.SLICES:
            begin = ns(e["ts"])
            out.append(Slice(e["name"], int(e["pid"]), int(e["tid"]), e["args"]["gil"], begin,
                             begin + ns(e["dur"]), e["args"]))
    return out


def truth_slices(m):
    """What a model knows, in the words of Trace.plain()."""
    return sorted((k, m.pid, tid, str(g), m.to_unix(b), m.to_unix(e)) for k, tid, g, b, e in
                  m.truth().drawn())


def page_data(page, name):
    """What a report page carries: raw deflate in base64."""
    found = re.findall(r'(?s)<script type="application/octet-stream" id="gt-%s">(.*?)</script>' %
                       name, page)
    if len(found) != 1:
        raise AssertionError("%d times %s in the page" % (len(found), name))
    return zlib.decompress(base64.b64decode("".join(found[0].split())), -15)


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.dir = new_dir()
        self.addCleanup(shutil.rmtree, self.dir, True)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def run_it(self, *args, **kwargs):
        """Runs gil2trace in the scratch folder; status: what is expected."""
        status = kwargs.pop("status", OK)
        kwargs.setdefault("cwd", self.dir)
        r = gil2trace(*args, **kwargs)
        self.assertEqual(r.status, status, "gil2trace %s: %s" % (" ".join(map(str, args)),
                                                                 r.err[-2000:]))
        self.assertNotRegex(r.err, CONTROL, "control characters in what it says")
        return r

    def trace(self, *args, **kwargs):
        return Trace(self.run_it(*(args + ("-o", "-")), **kwargs).out)

    def read(self, *names):
        return Trace(read_json(self.path(*names)))

    def summary(self, *args, **kwargs):
        return json.loads(self.run_it(*(args + ("--summary=json",)), **kwargs).out.decode("utf-8"))

    def assert_no_rest(self, folder=None):
        """Nothing half-written lies about."""
        for where, _, names in os.walk(folder or self.dir):
            self.assertEqual([n for n in names if n.endswith(".tmp") or n.startswith(".")], [],
                             where)

    def tree(self, folder=None):
        folder = folder or self.dir
        return sorted(os.path.relpath(os.path.join(w, n), folder) for w, _, names in os.walk(folder)
                      for n in names)


def main():
    unittest.main(module="__main__", verbosity=2)
