# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven by chromedriver over W3C WebDriver, with nothing but Python 3.6.

    with Browser() as b:
        b.open("/path/to/page.html")
        b.run("return document.title")

All that the browser does is in a folder that goes away with it. Skip is raised where a browser is
missing, or cannot be started; with GT_REQUIRE_BROWSER=1 that is a failure.
"""
import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request
import zlib

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
        "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Tab": "\ue004", "Control": "\ue009"}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"]


class WebDriverError(Exception):
    pass


def skip(why):
    if os.environ.get("GT_REQUIRE_BROWSER") == "1":
        raise RuntimeError(why + " (GT_REQUIRE_BROWSER=1)")
    print("browser: SKIPPED: " + why)
    raise unittest.SkipTest(why)


def find(*names):
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    def __init__(self, width=1280, height=900, scale=1, dark=False):
        self.size = (width, height)
        self.driver = find("chromedriver")
        self.binary = find("chromium", "chromium-browser", "google-chrome", "chrome")
        self.flags = FLAGS + ["--window-size=%d,%d" % self.size,
                              "--force-device-scale-factor=%g" % scale]
        if dark:
            self.flags.append("--force-dark-mode")
        self.process = self.session = None

    def __enter__(self):
        if not self.driver or not self.binary:
            skip("no chromium and chromedriver here; Debian: chromium chromium-driver")
        self.dir = tempfile.mkdtemp(prefix="gil-browser-")
        try:
            self.start()
        except (OSError, WebDriverError) as e:
            self.stop()
            skip("Chromium does not start: %s" % e)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc):
        self.stop()

    def start(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = "http://127.0.0.1:%d" % port
        env = dict(os.environ, HOME=self.dir, TMPDIR=self.dir, XDG_CONFIG_HOME=self.dir,
                   XDG_CACHE_HOME=self.dir)
        self.log = open(os.path.join(self.dir, "driver.log"), "wb")
        self.process = subprocess.Popen([self.driver, "--port=%d" % port], stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, env=env, cwd=self.dir)
        self.wait_for_driver()
        options = {"binary": self.binary,
                   "args": self.flags + ["--user-data-dir=" + os.path.join(self.dir, "profile")]}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self.session = "/session/" + answer["sessionId"]

    def wait_for_driver(self):
        """It listens soon; each try is a connection, so nothing is guessed."""
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if self.call("GET", "/status")["ready"]:
                    return
            except (OSError, WebDriverError):
                pass
            try:
                self.process.wait(0.05)
            except subprocess.TimeoutExpired:
                pass
        self.log.flush()
        with open(self.log.name, "rb") as f:
            raise WebDriverError("chromedriver does not answer: %r" % f.read()[-2000:])

    def stop(self):
        if self.session:
            try:
                self.call("DELETE", self.session)
            except (OSError, WebDriverError):
                pass
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as answer:
                return json.loads(answer.read().decode())["value"]
        except urllib.error.HTTPError as e:
            value = json.loads(e.read().decode()).get("value") or {}
            raise WebDriverError("%s: %s" % (value.get("error"), value.get("message")))

    def do(self, method, path, body=None):
        return self.call(method, self.session + path, body)

    # ---- pages ----

    def open(self, path):
        """Opens a file and waits until it has drawn itself; forgets what was logged before."""
        self.logs("browser")
        self.logs("performance")
        self.do("POST", "/url", {"url": "file://" + os.path.abspath(path)})
        state = self.wait("return document.documentElement.dataset.state")
        if state != "ready":
            raise WebDriverError("the page says: " + self.run("return document.body.innerText"))

    def run(self, script, *args):
        return self.do("POST", "/execute/sync", {"script": script, "args": list(args)})

    def wait(self, script, *args):
        """Until the script returns something true, in the page, frame by frame."""
        return self.do("POST", "/execute/async", {"script": """
            const done = arguments[arguments.length - 1];
            const fn = new Function(%s), given = [...arguments].slice(0, -1);
            const began = performance.now();
            (function again() {
                const value = fn(...given);
                if (value || performance.now() - began > 25000)
                    done(value);
                else
                    setTimeout(again, 10);
            })();""" % json.dumps(script), "args": list(args)})

    def size_to(self, width, height):
        self.do("POST", "/window/rect", {"width": width, "height": height})

    def logs(self, kind):
        return self.do("POST", "/se/log", {"type": kind})

    # ---- input ----

    def keys(self, text):
        actions = []
        for key in text if isinstance(text, list) else list(text):
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self.do("POST", "/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]})

    def mouse(self, *steps):
        """Steps: ("move", x, y), "down", "up"."""
        actions = []
        for step in steps:
            if step == "down" or step == "up":
                actions.append({"type": "pointer" + step.capitalize(), "button": 0})
            else:
                actions.append({"type": "pointerMove", "duration": 0, "origin": "viewport",
                                "x": int(step[1]), "y": int(step[2])})
        self.do("POST", "/actions", {"actions": [{
            "type": "pointer", "id": "m", "parameters": {"pointerType": "mouse"},
            "actions": actions}]})

    def wheel(self, x, y, dx, dy):
        self.do("POST", "/actions", {"actions": [{"type": "wheel", "id": "w", "actions": [{
            "type": "scroll", "x": int(x), "y": int(y), "deltaX": dx, "deltaY": dy, "duration": 0,
            "origin": "viewport"}]}]})

    def screenshot(self, path=None):
        """The window, as PNG."""
        png = base64.b64decode(self.do("GET", "/screenshot"))
        if path:
            with open(path, "wb") as f:
                f.write(png)
        return png


def png_colours(png):
    """How often each colour occurs in a PNG of 8 bits, RGB or RGBA: {(r, g, b): n}."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, head = 8, b"", None
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        data = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", data)
        elif kind == b"IDAT":
            packed += data
        at += 12 + size
    width, height, depth, colour, _, _, interlace = head
    assert depth == 8 and colour in (2, 6) and not interlace, head
    n = 4 if colour == 6 else 3
    raw, stride = zlib.decompress(packed), width * n
    before, counts = bytearray(stride), {}
    for y in range(height):
        method, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        unfilter(method, line, before, n)
        for x in range(0, stride, n):
            pixel = bytes(line[x:x + 3])
            counts[pixel] = counts.get(pixel, 0) + 1
        before = line
    return {tuple(pixel): count for pixel, count in counts.items()}


def unfilter(method, line, before, n):
    """PNG's filters, section 9 of its specification."""
    for i in range(len(line)):
        left = line[i - n] if i >= n else 0
        up, corner = before[i], before[i - n] if i >= n else 0
        if method == 1:
            add = left
        elif method == 2:
            add = up
        elif method == 3:
            add = (left + up) // 2
        elif method == 4:
            guess = left + up - corner
            add = min((abs(guess - left), 0, left), (abs(guess - up), 1, up),
                      (abs(guess - corner), 2, corner))[2]
        else:
            return
        line[i] = (line[i] + add) & 255
