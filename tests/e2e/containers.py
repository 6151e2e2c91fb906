# SPDX-License-Identifier: Apache-2.0
"""Containers, as far as the kernel makes them: namespaces and roots; giltrace in one of them."""
import contextlib
import ctypes
import os
import re
import subprocess

import harness as h

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWTIME, CLONE_NEWNS, CLONE_NEWPID = 0x80, 0x20000, 0x20000000

PID = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
USER = ["unshare", "--user", "--map-root-user"] + PID[1:]
# The process is not the first of its namespace: a shell is, which waits for it.
SECOND = ["sh", "-c", '"$@"; exit $?', "sh"]

# An overlay over the root, and on it /proc of the new PID namespace, /dev, the folder of this test
# run, and other files in the place of some: OVER="what:where ...".
OVERLAY = """
set -e
work=$1 scratch=$2
shift 2
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
for pair in $OVER; do
	cp --remove-destination "${pair%%:*}" "$work/root${pair##*:}"
done
mount -t proc proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
mount --bind "$scratch" "$work/root$scratch"
exec chroot "$work/root" "$@"
"""


def overlay():
    """A command that runs the rest of its line in a container on an overlay; see OVERLAY."""
    return PID[:-1] + ["--mount", "sh", "-c", OVERLAY, "overlay", h.new_dir(), h.scratch()]


def works(command):
    """None, or why such a container cannot be made here."""
    p = subprocess.run(command + ["true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=h.LIMIT)
    return p.stdout.decode(errors="replace").strip() or "it fails" if p.returncode else None


def after(days, boot=False):
    """A command that runs the rest of its line where the machine has been up for longer."""
    seconds = str(days * 86400)
    return ["unshare", "--time", "--monotonic", seconds, "--fork", "--kill-child"] + (
        ["--boottime", seconds] if boot else [])


def setns(pid, kind, flag):
    fd = os.open("/proc/%s/ns/%s" % (pid, kind), os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(fd, flag):
            raise OSError(ctypes.get_errno(), "setns to %s of %s" % (kind, pid))
    finally:
        os.close(fd)


@contextlib.contextmanager
def born_inside(pid):
    """
    Processes that this thread starts meanwhile are born in the PID namespace of that process.
    Gives what else Popen must be told, so that they see that one's /proc and clocks, too.
    """
    def enter():
        setns(pid, "time", CLONE_NEWTIME)
        os.chdir("/")  # nobody shares our folder: we have been forked
        setns(pid, "mnt", CLONE_NEWNS)
    setns(pid, "pid", CLONE_NEWPID)
    try:
        yield {"preexec_fn": enter}
    finally:
        setns("self", "pid", CLONE_NEWPID)


def recorder_inside(pid, *args, **kwargs):
    """giltrace in the namespaces of a process; `args` as that one sees the world."""
    with born_inside(pid) as more:
        return h.Recorder(*args, **dict(kwargs, **more))


def giltrace_inside(pid, *args):
    """The same, run to its end: (status, standard output, standard error)."""
    with born_inside(pid) as more:
        return h.giltrace(*args, **more)


def ids(pid):
    """Ids of a process on the host and in each namespace down to its own."""
    with open("/proc/%d/status" % pid) as f:
        return [int(n) for n in re.search(r"^NSpid:\s+(.*)$", f.read(), re.M).group(1).split()]


def parent(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


LAUNCHER = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
	void *lib = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	int (*run)(int, char **) = lib ? (int (*)(int, char **))dlsym(lib, "Py_BytesMain") : 0;

	return run ? run(argc - 1, argv + 1) : 1;
}
"""


def launcher():
    """A program that runs the Python in a libpython, wherever that lies: its first argument."""
    out = os.path.join(h.new_dir(), "launcher")
    subprocess.run([os.environ.get("CC") or "cc", "-o", out, "-xc", "-", "-ldl"],
                   input=LAUNCHER.encode(), check=True)
    return out
