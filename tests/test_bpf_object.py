#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
test_bpf_object.py OBJECT: what the BPF object must keep, whatever the compiler makes of the source.

gt_hit has a tail call. Without one, Linux 6.13 and newer run it on a stack per CPU; behind a uprobe
it can be preempted, another thread then overwrites its variables, and the kernel crashes. Seen with
lazy preemption on 6.18 and 7.3; the machine that runs the tests may not be of that kind.
"""
import struct
import sys

TAIL_CALL = struct.pack("<BBHI", 0x85, 0, 0, 12)  # call bpf_tail_call


def section(elf, wanted):
    """The bytes of a section of a 64-bit little-endian ELF file."""
    shoff, = struct.unpack_from("<Q", elf, 0x28)
    size, n, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, shoff + i * size) for i in range(n)]
    strings = headers[names][4]
    for name, _, _, _, offset, length in headers:
        start = strings + name
        if elf[start:elf.index(b"\0", start)] == wanted:
            return elf[offset:offset + length]
    raise SystemExit("%s: no section %s" % (sys.argv[1], wanted.decode()))


def main():
    with open(sys.argv[1], "rb") as f:
        code = section(f.read(), b"uprobe")
    calls = [code[i:i + 8] for i in range(0, len(code), 8)].count(TAIL_CALL)
    if not calls:
        raise SystemExit("gt_hit has no tail call: it would crash kernels from 6.13 on")
    print("gt_hit: %d instructions, %d tail call(s)" % (len(code) // 8, calls))


main()
