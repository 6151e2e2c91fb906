# SPDX-License-Identifier: Apache-2.0
"""
A CPython 3.11 whose thread has a name in memory that nobody serves: who reads it from outside waits
until this process ends. Prints "ready", then sleeps in two threads, until it is killed.
"""
import ctypes
import mmap
import os
import sys
import threading
import time

PAGE = 4096 if os.uname().machine == "x86_64" else 65536
USERFAULTFD = {"x86_64": 323, "aarch64": 282}[os.uname().machine]
UFFDIO_API, UFFDIO_REGISTER, MISSING = 0xC018AA3F, 0xC020AA00, 1
libc = ctypes.CDLL(None, use_errno=True)


def words(*values):
    return (ctypes.c_uint64 * len(values))(*values)


def unserved_page():
    """Address of a page that is missing, and that this process says it will provide."""
    fd = libc.syscall(USERFAULTFD, os.O_CLOEXEC)
    if fd < 0 or libc.ioctl(fd, ctypes.c_ulong(UFFDIO_API), words(0xAA, 0, 0)):
        sys.exit("userfaultfd: %s" % os.strerror(ctypes.get_errno()))
    memory = mmap.mmap(-1, PAGE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if libc.ioctl(fd, ctypes.c_ulong(UFFDIO_REGISTER), words(at, PAGE, MISSING, 0)):
        sys.exit("userfaultfd: %s" % os.strerror(ctypes.get_errno()))
    return at, memory


def sleep():
    while True:
        time.sleep(0.01)


thread = threading.Thread(target=sleep, daemon=True)
thread.start()
address, keep = unserved_page()
thread._name = name = "a name that is nowhere else"
# The dict of the thread: ma_keys and ma_values of CPython 3.11.
for table in (ctypes.c_uint64.from_address(id(thread.__dict__) + at).value for at in (32, 40)):
    for slot in range(table, table + 2000, 8) if table else ():
        if ctypes.c_uint64.from_address(slot).value == id(name):
            ctypes.c_uint64.from_address(slot).value = address
            print("ready", flush=True)
            sleep()
sys.exit("the name was not found")
