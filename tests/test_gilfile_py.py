#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reader in C and the one written from docs/file-format.md must see the same in any file:
whole ones, cut ones, and ones whose blocks were changed and given right checksums again.

    test_gilfile_py.py GILFILE_TOOL [SEED]
"""
import os
import random
import struct
import subprocess
import sys
import tempfile
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gilfile


def raw_hex(text):
    return text.encode("utf-8", "surrogateescape").hex()


def python_view(path):
    """What gilfile_tool prints for the file, or ("refused", None)."""
    try:
        f = gilfile.read(path)
    except gilfile.NotGil:
        return [], "refused", []
    events = [gilfile.event_text(ev) for ev in f.events]
    if f.problem:
        return events, "problem", []
    lines = ["meta %s %s" % (key, raw_hex(f.meta.get(key, "-")))
             for key in ("a", "b", "empty", "not there")]
    # The C reader keeps 95 bytes of what is for people only.
    lines += ["site %d %d %d %s" % (s.offset, s.kind, s.flags, raw_hex(s.how)[:190]) for s in f.sites]
    lines += ["clock %d %d %d %d %d" % c for c in f.clocks]
    lines.append("from %d to %d lost %d end %d" % (
        f.first_mono_ns, f.last_mono_ns, f.lost_total, f.end.reason if f.end else 0))
    return events, "whole", lines


def c_views(tool, paths):
    out = subprocess.run([tool, "dump"] + paths, stdout=subprocess.PIPE, check=True).stdout
    views = []
    for line in out.decode("ascii").splitlines():
        word = line.split(" ", 1)[0]
        if word == "file":
            views.append(([], "whole", []))
        elif word in ("refused", "problem"):
            views[-1] = (views[-1][0], word, [])
        elif word in ("meta", "site", "clock", "from"):
            views[-1][2].append(line)
        else:
            views[-1][0].append(line)
    return views


def compare(tool, paths):
    seen = {"whole": 0, "problem": 0, "refused": 0}
    for path, c in zip(paths, c_views(tool, paths)):
        py = python_view(path)
        # Damage before the first events makes the C reader refuse the file.
        if c[1] == "refused" and py[1] == "problem" and not py[0]:
            py = c
        if c != py:
            print("%s: C: %s, %d events; Python: %s, %d events" % (
                path, c[1], len(c[0]), py[1], len(py[0])))
            for a, b in zip(c[0] + c[2], py[0] + py[2]):
                if a != b:
                    print("  C:      %s\n  Python: %s" % (a, b))
                    break
            sys.exit(1)
        seen[c[1]] += 1
    return seen


def blocks(data):
    off, found = 32, []
    while off < len(data):
        size, = struct.unpack_from("<I", data, off + 8)
        found.append((off, size))
        off += 56 + size
    return found


def damage(rnd, data):
    data = bytearray(data)
    if rnd.randrange(10) == 0:
        return data[:rnd.randrange(len(data) + 1)]
    for _ in range(rnd.randrange(1, 4)):
        off, size = rnd.choice(blocks(data))
        if rnd.randrange(4) == 0:
            # type, codec, count, times, lost; not the magic, the size, the sequence number
            at = off + rnd.choice([4, 5, 6, 7] + list(range(12, 16)) + list(range(24, 48)))
        else:
            at = off + 56 + rnd.randrange(size)
        data[at] = rnd.choice([0, 1, 0x7f, 0x80, 0xff, rnd.randrange(256)])
        struct.pack_into("<I", data, off + 48, zlib.crc32(data[off + 56:off + 56 + size]))
        struct.pack_into("<I", data, off + 52, zlib.crc32(data[off:off + 52]))
    return data


def main():
    tool = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 40)
    print("seed %d" % seed)
    rnd = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = []
        for n, threads in ((0, 1), (1, 1), (40, 3), (300, 7), (3000, 2000), (40000, 5)):
            path = os.path.join(folder, "whole-%d.gil" % n)
            subprocess.run([tool, "write", str(rnd.randrange(1, 1 << 40)), str(n), str(threads),
                            path], check=True)
            whole.append(path)
        seen = compare(tool, whole)
        assert seen == {"whole": len(whole), "problem": 0, "refused": 0}, seen
        damaged = []
        for path in whole[1:4]:
            with open(path, "rb") as file:
                data = file.read()
            for i in range(700):
                damaged.append("%s.%d" % (path, i))
                with open(damaged[-1], "wb") as file:
                    file.write(damage(rnd, data))
        seen = compare(tool, damaged)
        print("of %d damaged files: %s" % (len(damaged), seen))
        # Changes that mean another event, but no damage, have to be among them.
        assert min(seen.values()) > 0, seen


main()
