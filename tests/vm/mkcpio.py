#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mkcpio.py OUT [-GLOB...] SOURCE=NAME...: an initramfs of files and folders, each with its name
there, all owned by root. What matches a GLOB is left out of folders, and so is what is neither
file, folder nor link. For scripts/vmtest.sh.

Format: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.
"""
import fnmatch
import os
import shutil
import stat
import sys


class Archive:
    def __init__(self, out, left_out):
        self.out, self.left_out, self.inode = out, left_out, 0
        # The userland's; made again as folders here, they would hide its links.
        self.folders = {"bin", "sbin", "lib", "lib64"}

    def pad(self):
        self.out.write(b"\0" * (-self.out.tell() % 4))

    def header(self, name, mode, size):
        self.inode += 1
        name = os.fsencode(name) + b"\0"
        fields = self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name), 0
        self.out.write(b"070701" + b"".join(b"%08X" % f for f in fields) + name)
        self.pad()

    def add(self, source, name):
        mode = os.lstat(source).st_mode
        if stat.S_ISLNK(mode):
            target = os.fsencode(os.readlink(source))
            self.header(name, mode, len(target))
            self.out.write(target)
            self.pad()
        elif stat.S_ISREG(mode):
            with open(source, "rb") as f:
                self.header(name, mode, os.fstat(f.fileno()).st_size)
                shutil.copyfileobj(f, self.out)
            self.pad()
        elif stat.S_ISDIR(mode):
            if name:
                self.header(name, mode, 0)
            for entry in sorted(os.listdir(source)):
                if not any(fnmatch.fnmatch(entry, glob) for glob in self.left_out):
                    self.add(os.path.join(source, entry), os.path.join(name, entry))

    def add_below(self, source, name):
        """With the folders above it."""
        above = os.path.dirname(name)
        for end in [i for i, c in enumerate(above) if c == "/"] + [len(above)]:
            if above[:end] and above[:end] not in self.folders:
                self.folders.add(above[:end])
                self.header(above[:end], stat.S_IFDIR | 0o755, 0)
        self.add(source, name)


def main(path, *args):
    with open(path, "wb") as out:
        archive = Archive(out, [a[1:] for a in args if a.startswith("-")])
        for arg in args:
            if not arg.startswith("-"):
                source, name = arg.rsplit("=", 1)
                archive.add_below(source, name.strip("/"))
        archive.header("TRAILER!!!", 0, 0)


main(*sys.argv[1:])
