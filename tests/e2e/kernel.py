# SPDX-License-Identifier: Apache-2.0
"""What the running kernel can do, tried by system calls of this process's own: bpf(2),
perf_event_open(2) and the rest by their numbers, programs put together by hand. Shares nothing
with giltrace or libbpf, and asks for no version.

Numbers: include/uapi/linux/{bpf,perf_event,seccomp,prctl}.h.
"""
import contextlib
import ctypes
import errno
import functools
import os
import resource
import struct
import threading

from common import new_dir

MACHINE = os.uname().machine
SYS_BPF, SYS_PERF_EVENT_OPEN, SYS_SECCOMP = {"x86_64": (321, 298, 317),
                                             "aarch64": (280, 241, 277)}[MACHINE]
AUDIT_ARCH = {"x86_64": 0xc000003e, "aarch64": 0xc00000b7}[MACHINE]
PAGE = os.sysconf("SC_PAGE_SIZE")
BTF = "/sys/kernel/btf/vmlinux"
UPROBE_TYPE = "/sys/bus/event_source/devices/uprobe/type"

MAP_CREATE, MAP_LOOKUP, MAP_UPDATE, PROG_LOAD, LINK_CREATE = 0, 1, 2, 5, 28
ARRAY, ARRAY_OF_MAPS, RINGBUF = 2, 12, 27  # types of maps
KPROBE = 2  # the type of program that uprobes are
BPF_PERF_EVENT, BPF_TRACE_UPROBE_MULTI = 41, 48  # types of attachment
IOC_ENABLE, IOC_SET_BPF = 0x2400, 0x40042408  # PERF_EVENT_IOC_*
GET_COOKIE = 174  # bpf_get_attach_cookie()
CLOEXEC = 8  # PERF_FLAG_FD_CLOEXEC
CLONE_NEWNS, MS_REC_PRIVATE = 0x20000, 0x44000
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
CAP_SYS_RESOURCE = 24

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
libc.syscall.restype = ctypes.c_long


def failed():
    return OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def checked(result):
    if result is None or result < 0 or result == ctypes.c_void_p(-1).value:
        raise failed()
    return result


def bpf(command, attr):
    attr = attr.ljust(128, b"\0")  # the kernel wants 0 in what it does not know
    return checked(libc.syscall(ctypes.c_long(SYS_BPF), ctypes.c_long(command),
                                ctypes.c_char_p(attr), ctypes.c_long(len(attr))))


@contextlib.contextmanager
def closing():
    """A list for descriptors that are to be closed in the end."""
    fds = []
    try:
        yield fds
    finally:
        for fd in reversed(fds):
            os.close(fd)


def opened(fds, fd):
    fds.append(fd)
    return fd


def array(fds, value_size=8):
    return opened(fds, bpf(MAP_CREATE, struct.pack("<IIII", ARRAY, 4, value_size, 1)))


def value(fd):
    """What stands in an array of one number."""
    key, out = ctypes.c_uint32(0), ctypes.c_uint64(0)
    bpf(MAP_LOOKUP, struct.pack("<IIQQ", fd, 0, ctypes.addressof(key), ctypes.addressof(out)))
    return out.value


def insn(code, dst=0, src=0, off=0, imm=0):
    return struct.pack("<BBhi", code, src << 4 | dst, off, imm)


def counting(fds, sums, cookie, attach_type=0):
    """A program that adds its cookie, or 1, to the number in an array at each hit."""
    first = [insn(0xb7, 7, imm=1)]  # r7 = 1
    if cookie:
        first = [insn(0x85, imm=GET_COOKIE), insn(0xbf, 7, 0)]  # r7 = cookie; r1: the context
    code = b"".join(first + [
        insn(0x62, 10, off=-4),  # *(u32 *)(r10 - 4) = 0
        insn(0xbf, 2, 10), insn(0x07, 2, imm=-4),  # r2 = r10 - 4
        insn(0x18, 1, 1, imm=sums), insn(0),  # r1 = the map
        insn(0x85, imm=1),  # r0 = bpf_map_lookup_elem(r1, r2)
        insn(0x15, off=1),  # if r0 == 0: leave out
        insn(0xdb, 0, 7),  # atomic *(u64 *)r0 += r7
        insn(0xb7), insn(0x95)])  # return 0
    text, licence = ctypes.create_string_buffer(code, len(code)), ctypes.c_char_p(b"GPL")
    attr = struct.pack("<IIQQIIQII16sII", KPROBE, len(code) // 8, ctypes.addressof(text),
                       ctypes.cast(licence, ctypes.c_void_p).value, 0, 0, 0, 0, 0, b"", 0,
                       attach_type)
    return opened(fds, bpf(PROG_LOAD, attr))


class Function:
    """Machine code in a file of its own, mapped here and nowhere else: what is to be probed."""

    CODE = {"x86_64": b"\x55\x5d\xc3",  # push %rbp; pop %rbp; ret
            "aarch64": b"\x1f\x20\x03\xd5\xc0\x03\x5f\xd6"}[MACHINE]  # nop; ret
    OFFSET = 64

    def __init__(self):
        path = os.path.join(new_dir(), "function")
        self.path = ctypes.create_string_buffer(path.encode())
        with open(path, "wb+") as f:
            f.write((b"\0" * self.OFFSET + self.CODE).ljust(PAGE, b"\0"))
            f.flush()
            at = checked(libc.mmap(None, PAGE, 1 | 4, 2, f.fileno(), 0))  # read, exec; private
        self.call = ctypes.CFUNCTYPE(None)(at + self.OFFSET)

    def call_elsewhere(self):
        """By a second thread of this process."""
        thread = threading.Thread(target=self.call)
        thread.start()
        thread.join()


@functools.lru_cache(None)
def function():
    return Function()


def uprobe(fds, path, offset, pid, cpu):
    """A perf_event uprobe, which counts its hits; path: a buffer."""
    with open(UPROBE_TYPE) as f:
        kind = int(f.read())
    attr = struct.pack("<IIQQQQQIIQQ", kind, 112, 0, 0, 0, 0, 0, 0, 0, ctypes.addressof(path),
                       offset).ljust(112, b"\0")
    return opened(fds, checked(libc.syscall(
        ctypes.c_long(SYS_PERF_EVENT_OPEN), ctypes.c_char_p(attr), ctypes.c_long(pid),
        ctypes.c_long(cpu), ctypes.c_long(-1), ctypes.c_ulong(CLOEXEC))))


def perf_event(fds):
    """A perf_event uprobe on the function, for this process only."""
    return uprobe(fds, function().path, Function.OFFSET, os.getpid(), -1)


COOKIE = 1 << 40 | 7


def hits_of_both():
    """Calls the function in this thread and in another."""
    function().call()
    function().call_elsewhere()


# ---- the trials: True, False, or an OSError ----

def ring(fds, pages):
    return opened(fds, bpf(MAP_CREATE, struct.pack("<IIII", RINGBUF, 0, 0, pages * PAGE)))


def ring_buffer():
    with closing() as fds:
        return ring(fds, 16) >= 0


def ring_sizes():
    """A ring in a map of rings that was made for another size."""
    with closing() as fds:
        first, second = ring(fds, 16), ring(fds, 4)
        rings = opened(fds, bpf(MAP_CREATE, struct.pack("<IIIIII", ARRAY_OF_MAPS, 4, 4, 1, 0,
                                                        first)))
        key, fd = ctypes.c_uint32(0), ctypes.c_uint32(second)
        bpf(MAP_UPDATE, struct.pack("<IIQQQ", rings, 0, ctypes.addressof(key),
                                    ctypes.addressof(fd), 0))
    return True


def uprobes():
    """A perf_event uprobe with a program by ioctl(): what the oldest kernels have."""
    with closing() as fds:
        sums = array(fds)
        program, event = counting(fds, sums, False), perf_event(fds)
        checked(libc.ioctl(event, ctypes.c_ulong(IOC_SET_BPF), program))
        checked(libc.ioctl(event, ctypes.c_ulong(IOC_ENABLE), 0))
        function().call()
        return value(sums) == 1


def perf_link():
    with closing() as fds:
        sums = array(fds)
        program, event = counting(fds, sums, True), perf_event(fds)
        opened(fds, bpf(LINK_CREATE, struct.pack("<IIIIQ", program, event, BPF_PERF_EVENT, 0,
                                                 COOKIE)))
        function().call()
        return value(sums) == COOKIE


def multi_sum():
    """A uprobe_multi link for this process: the sum of the cookies of a hit in each thread."""
    at = function()
    offsets, cookies = (ctypes.c_uint64 * 1)(at.OFFSET), (ctypes.c_uint64 * 1)(COOKIE)
    with closing() as fds:
        sums = array(fds)
        program = counting(fds, sums, True, BPF_TRACE_UPROBE_MULTI)
        opened(fds, bpf(LINK_CREATE, struct.pack(
            "<IIIIQQQQIII", program, 0, BPF_TRACE_UPROBE_MULTI, 0, ctypes.addressof(at.path),
            ctypes.addressof(offsets), 0, ctypes.addressof(cookies), 1, 0, os.getpid())))
        hits_of_both()
        return value(sums)


def uprobe_multi():
    return multi_sum() > 0


def uprobe_multi_pid():
    return multi_sum() == 2 * COOKIE


def btf():
    with open(BTF, "rb") as f:
        return struct.unpack("=H", f.read(2))[0] == 0xeb9f


def memcg_memory():
    """A map of more than RLIMIT_MEMLOCK; from that limit nobody is excepted, root neither."""
    pid = os.fork()
    if not pid:
        status = 2
        try:
            hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, hard))
            bpf(MAP_CREATE, struct.pack("<IIII", ARRAY, 4, 64 * PAGE, 1))
            status = 0
        except OSError as err:
            status = 1 if err.errno == errno.EPERM else 2
        finally:
            os._exit(status)
    status = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
    if status == 2:
        raise AssertionError("no map could be made, for another reason than RLIMIT_MEMLOCK")
    return status == 0


TRIALS = {"ring-buffer": ring_buffer, "ring-sizes": ring_sizes, "uprobes": uprobes,
          "perf-link": perf_link, "uprobe-multi": uprobe_multi,
          "uprobe-multi-pid": uprobe_multi_pid, "btf": btf, "memcg-memory": memcg_memory}


@contextlib.contextmanager
def much_locked_memory():
    """What the trials need may count against the limit, together with all else that root has."""
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    try:
        try:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, 2 * (resource.RLIM_INFINITY,))
        except ValueError:  # no CAP_SYS_RESOURCE
            resource.setrlimit(resource.RLIMIT_MEMLOCK, 2 * before[1:])
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


@functools.lru_cache(None)
def truth():
    """name -> does it work here?"""
    found = {}
    with much_locked_memory():
        for name, trial in TRIALS.items():
            try:
                found[name] = trial()
            except OSError as err:
                if err.errno in (errno.EPERM, errno.EACCES):
                    raise AssertionError("%s cannot be tried here: %s" % (name, err))
                found[name] = False
    return found


def backend(has):
    """How probes are placed where these features are there: by the documentation."""
    if has["uprobe-multi"] and has["uprobe-multi-pid"]:
        return "uprobe_multi"
    if has["uprobes"]:
        return "perf_event" if has["perf-link"] else "perf_ioctl"
    return None


# ---- a process that has less, for preexec_fn ----

def covered(*folders):
    """In a mount namespace of its own, with an empty file system over each of these folders."""
    def go():
        checked(libc.unshare(CLONE_NEWNS))
        checked(libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None))
        for folder in filter(os.path.isdir, folders):
            checked(libc.mount(b"none", folder.encode(), b"tmpfs", 0, None))
    return go


def refused(number, error, first=None):
    """By seccomp(2): that system call, with that first argument if any, fails with that error."""
    allow, deny = 0x7fff0000, 0x00050000 | error
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, AUDIT_ARCH), (0x06, 0, 0, allow),
            (0x20, 0, 0, 0), (0x15, 1, 0, number), (0x06, 0, 0, allow)]
    if first is not None:
        code += [(0x20, 0, 0, 16), (0x15, 1, 0, first), (0x06, 0, 0, allow)]
    code.append((0x06, 0, 0, deny))
    text = b"".join(struct.pack("<HBBI", *c) for c in code)
    keep = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(keep))

    def go(_=keep):
        checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        checked(libc.syscall(ctypes.c_long(SYS_SECCOMP), ctypes.c_long(1), ctypes.c_long(0),
                             ctypes.c_char_p(program)))  # SECCOMP_SET_MODE_FILTER
    return go


def no_locked_memory(raise_it):
    """RLIMIT_MEMLOCK is 0; raise_it: may it be raised?"""
    def go():
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        if not raise_it:
            hard = 0  # and execve() gives root all that is in the bounding set
            checked(libc.prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, hard))
    return go
