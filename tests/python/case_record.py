# SPDX-License-Identifier: Apache-2.0
"""The context manager, the decorator, the two functions that others know, the stubs."""
import ast
import asyncio
import functools
import inspect
import os
import threading
import unittest

from base import LIMIT, Case

import giltrace
from giltrace.gil_trace_record import gil_trace_record_start, gil_trace_record_stop

PACKAGE = os.path.dirname(giltrace.__file__)


class Block(Case):
    def test_block(self):
        with giltrace.record(**self.how()) as r:
            self.assertIs(giltrace.recording(), r)
            giltrace.mark("x")
        self.assertIsNone(giltrace.recording())
        self.assertEqual(r.result.marks, 1)

    def test_twice(self):
        block = giltrace.record(**self.how())
        for _ in range(2):
            with block as r:
                pass
            self.assertTrue(r.result.ok)

    def test_exception(self):
        with self.assertRaises(ZeroDivisionError):
            with giltrace.record(**self.how()) as r:
                1 // 0
        self.assertTrue(r.result.ok)

    def test_stopped_inside(self):
        """And another one begun: the block does not end that."""
        with giltrace.record(**self.how()) as r:
            giltrace.stop()
            other = self.start()
        self.assertTrue(r.result.ok)
        self.assertTrue(other.running)

    def test_no_start(self):
        with self.assertRaises(giltrace.NotPermitted):
            with giltrace.record(**self.how("unready:5")):
                self.fail("the block runs")

    def test_trouble(self):
        with self.warns("add up"):
            with giltrace.record(**self.how("status:8")):
                pass

    def test_nested(self):
        with giltrace.record(**self.how()) as r:
            with self.assertRaises(giltrace.GiltraceError):
                with giltrace.record(**self.how()):
                    self.fail("the block runs")
            self.assertTrue(r.running)


class Decorator(Case):
    def test_function(self):
        @giltrace.record(**self.how())
        def step(a, b=2):
            """A step."""
            giltrace.mark("step")
            return a + b, giltrace.recording()

        for _ in range(2):
            (total, r) = step(1, b=4)
            self.assertEqual(total, 5)
            self.assertEqual(r.result.marks, 1)
        self.assertEqual((step.__name__, step.__doc__), ("step", "A step."))

    def test_without_options(self):
        os.environ.update(GILTRACE_DATA_DIR=self.dir, GILTRACE_COMMAND=" ".join(
            self.how()["command"]))
        self.addCleanup(os.environ.pop, "GILTRACE_DATA_DIR")
        self.addCleanup(os.environ.pop, "GILTRACE_COMMAND")

        @giltrace.record
        def step():
            return giltrace.mark("step")
        self.assertTrue(step())

    def test_exception(self):
        @giltrace.record(**self.how())
        def step():
            raise ZeroDivisionError
        self.assertRaises(ZeroDivisionError, step)
        self.assertTrue(giltrace.stop().ok)

    def test_trouble(self):
        """The function runs all the same, and its value comes."""
        for odd, words in (("unready:5", r"step\(\) is not recorded.*rights(.|\n)*CAP_BPF"),
                           ("status:8", "add up")):
            @giltrace.record(**self.how(odd))
            def step():
                return 6 * 7
            with self.warns(words):
                self.assertEqual(step(), 42)

    def test_within_another(self):
        """A call is a part of the recording that is under way: recursion, other threads."""
        @giltrace.record(**self.how())
        def step(n):
            giltrace.mark("depth %d" % n)
            if n:
                t = threading.Thread(target=step, args=(n - 1,))
                t.start()
                t.join()
                self.assertIsNotNone(giltrace.recording())

        step(2)
        self.assertEqual(giltrace.stop().marks, 3)
        self.assertEqual(len([f for f in os.listdir(self.dir) if f.startswith("heard")]), 1)

    def test_coroutine(self):
        @giltrace.record(**self.how())
        async def step(n):
            await asyncio.sleep(0)
            return n, giltrace.mark("x")

        self.assertTrue(inspect.iscoroutinefunction(step))
        loop = asyncio.new_event_loop()
        loop.slow_callback_duration = LIMIT
        try:
            self.assertEqual(loop.run_until_complete(step(3)), (3, True))
        finally:
            loop.close()
        self.assertEqual(giltrace.stop().marks, 1)

    def test_generator(self):
        """From its first value to its end, or to when it is closed."""
        @giltrace.record(**self.how())
        def steps(n):
            for i in range(n):
                got.append((yield i, giltrace.mark("x")))
            return "done"

        def outer():
            got.append((yield from steps(2)))

        got = []
        self.assertEqual(list(outer()), [(0, True), (1, True)])
        self.assertEqual(got, [None, None, "done"])
        self.assertEqual(giltrace.stop().marks, 2)
        g = steps(5)
        self.assertIsNone(giltrace.recording())
        next(g)
        self.assertIsNotNone(giltrace.recording())
        g.close()
        self.assertIsNone(giltrace.recording())

    def test_asynchronous_generator(self):
        with self.assertRaises(TypeError):
            exec("@giltrace.record()\nasync def steps():\n    yield 1\n", {"giltrace": giltrace})


class Familiar(Case):
    def setUp(self):
        super().setUp()
        self.set(GILTRACE_COMMAND=" ".join(self.how()["command"]), GILTRACE_DATA_DIR=self.dir)

    def set(self, **variables):
        for name, value in variables.items():
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name, None)

    def test_all(self):
        for args, told in (((), "--all-npu"), (([4, 5],), "--pid=4,5"), ((None, 2), "--all-npu"),
                           (([6], 0.5), "--pid=6")):
            with self.subTest(args=args):
                self.assertIs(gil_trace_record_start(*args), True)
                self.assertTrue(giltrace.mark("beside"))
                with open("/proc/%d/cmdline" % giltrace.recording()._process._pids[0]) as f:
                    words = f.read().split("\0")
                self.assertIn(told, words)
                duration = [w for w in words if w.startswith("--duration")]
                self.assertEqual(len(duration), int(len(args) > 1))
                self.assertIs(gil_trace_record_stop(), True)

    def test_names_of_arguments(self):
        self.assertEqual(str(inspect.signature(gil_trace_record_start)),
                         "(pid_list=None, duration=-1)")
        self.assertTrue(gil_trace_record_start(pid_list=[os.getpid()], duration=-1))
        self.assertTrue(gil_trace_record_stop())

    def logged(self, words):
        """One line of the log at that level, and False."""
        case = self

        class Logged:
            def __enter__(self):
                self.inner = case.assertLogs("giltrace", "ERROR")
                self.caught = self.inner.__enter__()

            def __exit__(self, *exc):
                self.inner.__exit__(*exc)
                case.assertEqual(len(self.caught.output), 1)
                case.assertRegex(self.caught.output[0], words)
        return Logged()

    def test_failures(self):
        for arguments, command, words in (
                ({}, "/no/such/giltrace", "/no/such/giltrace"),
                ({"pid_list": []}, None, "empty"), ({"pid_list": ["1"]}, None, "process ids"),
                ({"pid_list": 1.5}, None, "iterable")):
            if command:
                self.set(GILTRACE_COMMAND=command)
            with self.logged(words):
                self.assertIs(gil_trace_record_start(**arguments), False)
        with self.logged("has not begun"):
            self.assertIs(gil_trace_record_stop(), False)

    def test_twice(self):
        self.assertTrue(gil_trace_record_start())
        with self.logged("already"):
            self.assertFalse(gil_trace_record_start())
        self.assertTrue(gil_trace_record_stop())
        self.assertTrue(gil_trace_record_stop())  # the same again

    def test_trouble(self):
        self.start("status:8")
        with self.logged("add up"):
            self.assertIs(gil_trace_record_stop(), False)


def names_in_stub(name):
    with open(os.path.join(PACKAGE, name)) as f:
        tree = ast.parse(f.read())
    return {node.name for node in tree.body if hasattr(node, "name") and node.name[0] != "_"}


class Stubs(unittest.TestCase):
    """mypy's stubtest tells more; it need not be there."""

    def test_names(self):
        self.assertEqual(names_in_stub("__init__.pyi"), set(giltrace.__all__))
        self.assertEqual(names_in_stub("gil_trace_record.pyi"),
                         set(giltrace.gil_trace_record.__all__))
        self.assertTrue(os.path.exists(os.path.join(PACKAGE, "py.typed")))

    def test_words_for_everything(self):
        """Each public thing has a text for help()."""
        for name in giltrace.__all__:
            thing = getattr(giltrace, name)
            self.assertTrue(inspect.getdoc(thing), name)
            for inner, value in vars(thing).items() if inspect.isclass(thing) else ():
                if not inner.startswith("_") and isinstance(value, (property, type(names_in_stub))):
                    self.assertTrue(inspect.getdoc(value), "%s.%s" % (name, inner))

    def test_arguments(self):
        """What help() shows is what can be given."""
        wanted = ["pids", "output_dir", "duration", "follow", "all_npu", "all_python", "paused",
                  "command", "timeout", "options"]
        for function in (giltrace.start, giltrace.record, giltrace.Recording,
                         functools.partial(giltrace.Recording)):
            self.assertEqual(list(inspect.signature(function).parameters), wanted)
