# SPDX-License-Identifier: Apache-2.0
"""What the tests of the report page share: one browser, a folder of pages, and a case of its own.

GT_BUILD_DIR tells where the programs are. GT_SHOTS=DIR keeps screenshots there.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from webdriver import Browser

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("GT_BUILD_DIR", os.path.join(HERE, "..", "..", "build"))
SHOTS = os.environ.get("GT_SHOTS")
HOSTILE = "</script><script>alert(1)</script><!-- \"'{}[]&amp;\\ "

pages = None
browser = None


def begin(*which):
    """Makes the pages (pages.c knows which) and starts the browser; for setUpModule()."""
    global pages, browser
    browser = Browser().__enter__()
    pages = tempfile.mkdtemp(prefix="gil-pages-")
    subprocess.run([os.path.join(BUILD, "tests", "report_pages"), pages] + list(which), check=True)
    return pages, browser


def end():
    if browser:
        browser.stop()
    if pages:
        shutil.rmtree(pages)


def main():
    result = unittest.main(verbosity=2, exit=False).result
    if result.wasSuccessful() and not result.testsRun:
        sys.exit(77)  # skipped, as ctest knows it
    sys.exit(not result.wasSuccessful())


class Case(unittest.TestCase):
    size = (1280, 900)

    def open(self, name):
        self.path = os.path.join(pages, name)
        browser.size_to(*self.size)
        browser.open(self.path)
        self.addCleanup(self.check_quiet)

    def convert(self, script):
        """The page of a script of tests/golden, made by the program itself."""
        gil = os.path.join(pages, script + ".gil")
        subprocess.run([os.path.join(BUILD, "tests", "txt2gil"),
                        os.path.join(HERE, "..", "golden", script + ".txt"), gil], check=True)
        page = "golden_" + script + ".html"
        subprocess.run([os.path.join(BUILD, "gil2trace"), "-q", gil, "--html",
                        os.path.join(pages, page)], check=True, stderr=subprocess.DEVNULL)
        self.open(page)

    def check_quiet(self):
        """The page has said nothing on the console, and asked for nothing but itself."""
        self.assertEqual(browser.logs("browser"), [])
        asked = [line["message"] for line in browser.logs("performance")
                 if '"Network.requestWillBeSent"' in line["message"]]
        self.assertTrue(all("file://" + os.path.abspath(self.path) in a for a in asked), asked)
        self.assertLessEqual(len(asked), 1)

    def run_js(self, script, *args):
        return browser.run(script, *args)

    def text(self, selector):
        return self.run_js("return document.querySelector(arguments[0]).innerText", selector)

    def window(self):
        return self.run_js("return giltrace.window()")

    def span(self):
        t0, t1 = self.window()
        return t1 - t0

    def focus_timeline(self):
        self.run_js("document.getElementById('timeline').scrollIntoView();"
                    "document.getElementById('rows').focus()")

    def settle(self, script, *args):
        """Until the script is true, in spite of glides that take some frames."""
        self.assertTrue(browser.wait(script, *args), script)

    def still(self):
        """The window has come to rest, and is drawn: until then what lies where changes from frame to frame."""
        self.settle("return giltrace.still()")

    def shoot(self, name):
        return browser.screenshot(SHOTS and os.path.join(SHOTS, name + ".png"))

    def no_overflow(self):
        self.assertEqual(self.run_js(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0)

    def contrast(self, a, b):
        """Of two colours of the style sheet, as WCAG 2.1 counts it."""
        values = self.run_js("const s = getComputedStyle(document.documentElement);"
                             "return [...arguments].map(n => s.getPropertyValue('--' + n).trim())", a, b)
        light = []
        for value in values:
            parts = [int(value[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            r, g, b = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
            light.append(0.2126 * r + 0.7152 * g + 0.0722 * b)
        return (max(light) + 0.05) / (min(light) + 0.05)
