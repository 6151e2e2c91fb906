# SPDX-License-Identifier: Apache-2.0
"""A giltrace that the test owns, by a socket, as libgiltrace and the Python package do."""
import socket
import subprocess
import tempfile

import harness as h

PACKET = 8192


def words(packet):
    """The key=value words of a packet, numbers as such."""
    pairs = (w.split("=", 1) for w in packet.split(" ") if "=" in w)
    return {k: int(v) if v.isdigit() else v for k, v in pairs}


class Owned(h.Recorder):
    """A giltrace that this process owns, by a socket that is its standard input."""

    def __init__(self, pids, *options, **kwargs):
        self.dir = h.new_dir()
        command = kwargs.pop("command", None)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [h.tool("giltrace"), "--control-fd=0"]
        if pids:
            argv += ["-p", ",".join(str(p) for p in pids)]
        argv += ["-o", self.dir] + [str(o) for o in options]
        argv += ["--"] + command if command else []
        self.err = tempfile.TemporaryFile(dir=h.scratch())
        self.out = tempfile.TemporaryFile(dir=h.scratch())
        self.ready = None
        self.proc = subprocess.Popen(argv, stdin=theirs, stdout=self.out,
                                     stderr=kwargs.pop("stderr", self.err), **kwargs)
        self.pid = self.proc.pid
        theirs.close()
        self.socket = ours
        self.socket.settimeout(h.LIMIT)
        self.told = []
        try:
            self.until("ready")
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc):
        self.socket.close()
        super(Owned, self).__exit__(*exc)

    def packet(self):
        data = self.socket.recv(PACKET)
        if not data:
            raise AssertionError("giltrace has ended: %s %s" % (self.told, self.text()))
        self.told.append(data.decode())
        return self.told[-1]

    def until(self, word):
        while True:
            packet = self.packet()
            if packet.split(" ")[0] == word:
                return packet
            if packet.startswith("ended "):
                raise AssertionError("%s, no %s: %s" % (packet, word, self.text()))

    def send(self, text):
        self.socket.send(text.encode())

    def ask(self, text):
        self.send(text)
        return self.packet()

    def ok(self, text):
        answer = self.ask(text)
        if answer.split(" ")[0] != "ok":
            raise AssertionError("%s: %s" % (text, answer))
        return words(answer)

    def pause(self):
        self.ok("pause")

    def resume(self):
        self.ok("resume")

    def end(self):
        """Stops it: what it says of itself at last."""
        self.send("stop")
        ended = words(self.until("ended"))
        if self.socket.recv(PACKET):
            raise AssertionError("there is something behind the end")
        if self.finish() != ended["status"]:
            raise AssertionError("%s, but it ended with %s" % (ended, self.proc.returncode))
        return ended


def inside(event, gaps):
    return any(g.begin_ns < event.ns < g.ns for g in gaps)
