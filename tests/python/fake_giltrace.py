# SPDX-License-Identifier: Apache-2.0
"""
Speaks the protocol of docs/control.md as giltrace does, and records nothing: for what a real one
never does, or not when it is wanted. What it has heard goes to OUTPUT_DIR/heard.<pid>, a line each.

    fake_giltrace.py --control-fd=0 --output-dir=DIR ... [--fake=ODDITY]

By _socket and _signal it starts in half the time that socket and signal take.
"""
import _signal as signal
import _socket as socket
import os
import select
import sys


class Fake:
    def __init__(self, words):
        self.words = words
        self.dir = self.option("--output-dir=")
        self.odd = self.option("--fake=") or ""
        self.file = os.path.join(self.dir, "GIL_%d_rank_0.gil" % os.getppid())
        self.marks, self.paused, self.status = 0, False, 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, 0)
        self.log = open(os.path.join(self.dir, "heard.%d" % os.getpid()), "wb", 0)

    def option(self, name):
        found = [w[len(name):] for w in self.words if w.startswith(name)]
        return found[-1] if found else None

    def send(self, text):
        self.socket.send(text.encode("utf-8", "surrogateescape"), socket.MSG_NOSIGNAL)

    def say(self, text):
        os.write(2, text.encode() + b"\n")

    def heard(self, packet):
        self.log.write(packet.replace(b"\n", b"|") + b"\n")

    def numbers(self):
        return ("elapsed_ns=2500000000 paused_ns=500000000 processes=1 events=12 lost=%d bytes=99 "
                "marks=%d" % (3 if self.status == 6 else 0, self.marks))

    def ready(self):
        self.send("file %d %s" % (os.getppid(), self.file))
        self.send("hello this is a word that is not known")
        self.send("ready protocol=1 version=0.1.0 new=thing processes=1 backend=fake")

    def answer(self, request):
        """False: it is time to end."""
        word = request.split(" ")[0].split("\n")[0]
        if word == "mark":
            self.marks += 1
        elif word in ("pause", "resume"):
            self.paused = word == "pause"
            self.send("ok")
        elif word == "status":
            self.send("ok state=%s %s" % ("paused" if self.paused else "recording", self.numbers()))
        elif word != "threads":
            return word != "stop"
        return True

    def serve(self):
        while True:
            packet = self.socket.recv(9000)
            self.heard(packet or b"(end)")
            if not packet or not self.answer(packet.decode("utf-8", "surrogateescape")):
                return

    def ended(self):
        lost = 3 if self.status == 6 else 0
        self.send("done %d 12 %d %s" % (os.getppid(), lost, self.file))
        self.send("ended status=%d files=1 %s" % (self.status, self.numbers()))

    def run(self):
        self.say("fake: starts")
        before, _, how = self.odd.partition(":")
        getattr(self, "odd_" + before, self.plain)(how)
        self.socket.close()
        self.log.close()

    def plain(self, how):
        self.ready()
        self.serve()
        self.ended()

    # ---- oddities ----

    def odd_about(self, how):
        """Tells about itself first."""
        with open("/proc/self/status") as f:
            lines = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        self.heard(b"fds " + " ".join(sorted(os.listdir("/proc/self/fd"), key=int)).encode())
        self.heard(b"group %d session %d of %d" % (os.getpgid(0), os.getsid(0), os.getpid()))
        self.heard(b"blocked %s ignored %s" % (lines["SigBlk"].encode(), lines["SigIgn"].encode()))
        self.heard(b"stdout " + os.readlink("/proc/self/fd/1").encode())
        for name in sorted(os.environ):
            if name.startswith("LD_") or name == "GT_X":
                self.heard(("env %s=%s" % (name, os.environ[name])).encode())
        self.heard(" ".join(self.words).encode("utf-8", "surrogateescape"))
        self.plain(how)

    def odd_silent(self, how):
        self.serve()

    def odd_deaf(self, how):
        """Ready, and reads no more. It ends by SIGTERM."""
        self.ready()
        signal.pause()

    def odd_slow(self, how):
        """Does not end before there is a file "go"."""
        self.ready()
        self.serve()
        while not os.path.exists(os.path.join(self.dir, "go")):
            select.select([], [], [], 0.002)
        self.ended()

    def odd_stubborn(self, how):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()

    def odd_unready(self, how):
        self.say("giltrace: CAP_BPF is missing")
        sys.exit(int(how))

    def odd_ended(self, how):
        """Its last word instead of the first."""
        self.say("giltrace: it does not work")
        self.send("ended status=%s files=0" % how)
        sys.exit(int(how))

    def odd_protocol(self, how):
        self.send("ready protocol=%s version=9.9 processes=1" % how)
        self.serve()

    def odd_status(self, how):
        """Ends with that status when it is told to stop."""
        self.status = int(how)
        self.ready()
        self.serve()
        self.say("giltrace: warning: a thing went wrong")
        self.ended()
        sys.exit(self.status)

    def odd_killed(self, how):
        """By itself, at the first status."""
        self.answer = lambda request: not request.startswith("status")
        self.ready()
        self.serve()
        os.kill(os.getpid(), signal.SIGKILL)

    def odd_busy(self, how):
        """Takes its time to end, and says so."""
        self.ready()
        self.serve()
        for i in range(int(how)):
            select.select([], [], [], 0.25)
            self.send("busy" if i % 2 else "busy new=thing")
        self.ended()

    def odd_dies(self, how):
        """By SIGKILL as if of somebody else's: after some seconds, or when SIGTERM comes."""
        if not how:
            signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        self.socket.close()
        select.select([], [], [], float(how) if how else None)
        os.kill(os.getpid(), signal.SIGKILL)

    def odd_short(self, how):
        """Its time is over before anybody asks; marks are not read."""
        self.ready()
        self.ended()

    def odd_refuses(self, how):
        self.answer = lambda request: request != "stop" and (self.send("error not now") or True)
        self.plain(how)

    def odd_late(self, how):
        """The answer to the first request comes with that to the second."""
        self.ready()
        first = self.socket.recv(9000)
        while first.startswith(b"threads"):
            first = self.socket.recv(9000)
        second = self.socket.recv(9000)
        for packet in (first, second):
            self.answer(packet.decode())
        self.serve()
        self.ended()

    def odd_floods(self, how):
        try:
            while True:
                self.send(how or "x" * 8192)
        except OSError:
            pass

    def odd_talks(self, how):
        """More than its standard error holds."""
        self.say("\n".join("fake: line %d" % i for i in range(1000)))
        os.set_blocking(2, False)
        try:
            while True:
                os.write(2, b"no, no, no\n" * 1000)
        except BlockingIOError:
            pass
        self.plain(how)

    def odd_stays(self, how):
        """A child of its own keeps all that is open."""
        if not os.fork():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.alarm(30)  # long behind the test
            signal.pause()
        self.ready()
        os._exit(9)


if __name__ == "__main__":
    Fake(sys.argv[1:]).run()
