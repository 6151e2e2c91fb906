# SPDX-License-Identifier: Apache-2.0
"""
--features and --without: what giltrace says of the kernel is what this kernel does, tried by
kernel.py's own system calls, and is what the documentation says of it; and recordings are the same
whatever is missing, or left out.

What is missing is made to be so, too: folders are covered in a mount namespace, system calls are
refused by seccomp.
"""
import concurrent.futures
import errno
import functools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import embed  # noqa: E402
import harness as h  # noqa: E402
import kernel  # noqa: E402
from family import FamilyTest  # noqa: E402
from test_rights import CAPS, ME, become, documented  # noqa: E402

NAMES = {"ring-buffer", "uprobes", "perf-link", "uprobe-multi", "uprobe-multi-pid", "btf",
         "memcg-memory", "ring-sizes"}
PART_OF = {"uprobe-multi-pid": "uprobe-multi", "perf-link": "uprobes"}  # and not without it
FIELDS = {"name": str, "available": (bool, type(None)), "since": str, "for": str, "why": str,
          "instead": str}
TOP = {"kernel": str, "machine": str, "page_size": int, "libbpf": str,
       "backend": (str, type(None)), "features": list}
STAT = 300

# What the documentation says of distributions' kernels, each from this release on up to the next
# line's; of those between, which are None, only what the trials say is asked.
OLD = {"ring-buffer", "ring-sizes", "uprobes", "btf"}
DOCUMENTED = (
    ((5, 8), None, None),
    ((5, 10), OLD, "perf_ioctl"),
    ((5, 11), None, None),
    ((6, 1), OLD | {"perf-link", "memcg-memory"}, "perf_event"),
    ((6, 2), None, None),
    ((6, 12), NAMES, "uprobe_multi"),
)


def release():
    return tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])


def ask(*options, **kwargs):
    """--features --json: status, what it says, standard error."""
    status, out, err = h.giltrace("--features", "--json", *options, **kwargs)
    try:
        return status, json.loads(out), err
    except ValueError:
        raise AssertionError("status %d, no JSON: %r, %s" % (status, out, err))


def by_name(answer):
    return {f["name"]: f for f in answer["features"]}


@functools.lru_cache(None)
def here():
    """What it says of this kernel."""
    return ask()[1]


def available(answer):
    return {name: f["available"] for name, f in by_name(answer).items()}


def words(text):
    """Text with single blanks, wherever its lines end."""
    return " ".join(text.split())


def required():
    """What cannot be left out on this kernel."""
    multi = kernel.backend(kernel.truth()) == "uprobe_multi"
    return {"ring-buffer"} if multi else {"ring-buffer", "uprobes"}


def optional():
    return sorted(set(by_name(here())) - required())


def lacking(*names):
    """Which back end is used where these are missing, too."""
    return kernel.backend({n: has and n not in names for n, has in kernel.truth().items()})


def nobody():
    os.setgroups([])
    os.setgid(embed.NOBODY)
    os.setuid(embed.NOBODY)


class FeaturesTest(h.BpfTest):
    """Nothing of ours may be left in the kernel, whatever was asked."""

    def setUp(self):
        self.before = embed.kernel_list()
        self.addCleanup(self.check_kernel)

    def check_kernel(self):
        h.until(lambda: not embed.leftovers(self.before), "BPF objects go", limit=20)

    def check_form(self, answer):
        self.assertEqual(set(answer), set(TOP))
        for key, kind in TOP.items():
            self.assertIsInstance(answer[key], kind, key)
        names = [f["name"] for f in answer["features"]]
        self.assertEqual(len(names), len(set(names)), names)
        self.assertEqual(NAMES - set(names), set())
        for f in answer["features"]:
            self.assertEqual(set(f), set(FIELDS))
            for key, kind in FIELDS.items():
                self.assertIsInstance(f[key], kind, f)
            self.assertRegex(f["name"], r"\A[a-z][a-z0-9-]+\Z")
            self.assertRegex(f["since"], r"\A(\d+\.\d+)?\Z")
            self.assertNotEqual(f["for"], "", f)
            self.assertEqual(f["why"] == "", f["available"] is True, f)
            if f["name"] != "uprobes":  # depends on what else there is
                self.assertEqual(f["instead"] == "", f["name"] == "ring-buffer", f)
        told = available(answer)
        for part, whole in PART_OF.items():
            if told[whole] is not True:
                self.assertIsNot(told[part], True, "%s without %s" % (part, whole))

    def check_backend(self, status, answer, err):
        """The back end follows from what is there, and the status from the back end."""
        has = {name: is_there is True for name, is_there in available(answer).items()}
        backend = kernel.backend(has) if has["ring-buffer"] else None
        self.assertEqual(answer["backend"], backend, answer)
        self.assertEqual(status, h.OK if backend else h.NO_BPF, err)
        if backend:  # then it says nothing, but that a limit cannot be raised
            said = [line for line in err.splitlines() if "warning: " not in line or
                    "RLIMIT_MEMLOCK" not in line or has["memcg-memory"]]
            self.assertEqual(said, [])
        else:
            self.assertNotEqual(err.strip(), "", "it says why")

    def features(self, *options, **kwargs):
        """What it says, which is in itself right."""
        status, answer, err = ask(*options, **kwargs)
        self.check_form(answer)
        self.check_backend(status, answer, err)
        return answer

    def not_recorded(self, w, pattern, *options, **kwargs):
        """Refused with a reason like that, and nothing has come of it."""
        expected, folder = kwargs.pop("status", h.NO_BPF), h.new_dir()
        status, out, err = h.giltrace("-p", w.pid, "-d", "5", "-o", folder, *options, **kwargs)
        self.assertEqual(status, expected, out + err)
        self.assertRegex(err, pattern)
        self.assertEqual((os.listdir(folder), w.breakpoints()), ([], 0))

    def one_line_each(self, text, answer):
        """The text says the same as the JSON."""
        for key in ("kernel", "machine", "libbpf"):
            self.assertIn(answer[key], text)
        if answer["backend"]:
            self.assertIn(answer["backend"], text)
        lines = [line.split() for line in text.splitlines() if line.strip()]
        said = {}
        for f in answer["features"]:
            mine = [line for line in lines if line[0].rstrip(":") == f["name"]]
            self.assertEqual(len(mine), 1, "lines of %s in %s" % (f["name"], text))
            said.setdefault(f["available"], set()).add(mine[0][1].rstrip(",:;"))
            if not f["available"]:
                self.assertIn(words(f["why"]), words(text))
                self.assertIn(words(f["instead"]), words(text))
        # One word for each of yes, no and not known, which nothing else has.
        self.assertEqual([len(w) for w in said.values()], [1] * len(said), said)
        self.assertEqual(len({min(w) for w in said.values()}), len(said), said)
        return {key: min(w) for key, w in said.items()}


class Features(FeaturesTest):
    def test_it_is_the_truth(self):
        answer, uname = self.features(), os.uname()
        self.assertEqual((answer["kernel"], answer["machine"]), (uname.release, uname.machine))
        self.assertEqual(answer["page_size"], kernel.PAGE)
        self.assertRegex(answer["libbpf"], r"\A\d+\.\d+(\.\d+)?\Z")
        told = available(answer)
        for name, has in sorted(kernel.truth().items()):
            with self.subTest(feature=name):
                self.assertIs(told[name], has, by_name(answer)[name])
        self.assertEqual(answer["backend"], kernel.backend(kernel.truth()))
        for name in sorted(set(told) - NAMES):
            h.say("no trial of our own of %s, which giltrace takes to be %s" % (name, told[name]))

    def test_it_is_what_is_documented(self):
        _, names, backend = [row for row in DOCUMENTED if row[0] <= release()][-1]
        if names is None:
            self.skipTest("nothing is documented of Linux %s" % os.uname().release)
        told = available(here())
        self.assertEqual({n: told[n] for n in NAMES}, {n: n in names for n in NAMES})
        self.assertEqual(here()["backend"], backend)

    def test_text(self):
        for options in ([], ["--without=" + ",".join(optional())]):
            status, text, err = h.giltrace("--features", *options)
            answer = self.features(*options)
            self.assertEqual(status, h.OK if answer["backend"] else h.NO_BPF, err)
            self.assertTrue(all(len(line) <= 100 for line in text.splitlines()), text)
            said = self.one_line_each(text, answer)
            for value, word in ((True, "yes"), (False, "no")):
                self.assertEqual(said.get(value, word), word)

    def test_several_at_once(self):
        """They try the same on the same file; none takes another's hits for its own."""
        ps = [subprocess.Popen([h.tool("giltrace"), "--features", "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
        for p in ps:
            out, err = p.communicate(timeout=h.LIMIT)
            self.assertEqual((p.returncode, json.loads(out.decode())), (h.OK, here()), err)

    def test_it_touches_nobody_else(self):
        if not shutil.which("strace"):
            self.skipTest("no strace")
        log = os.path.join(h.new_dir(), "strace")
        subprocess.run(["strace", "-f", "-o", log, "-e", "trace=perf_event_open,ptrace",
                        h.tool("giltrace"), "--features"], check=True, timeout=h.LIMIT,
                       stdout=subprocess.DEVNULL)
        with open(log) as f:
            calls = f.readlines()
        ours = {line.split()[0] for line in calls} | {"0"}
        probed = [line for line in calls if "perf_event_open(" in line]
        self.assertEqual(bool(probed), True, calls)
        for line in probed:
            self.assertIn(re.search(r"\}, (-?\d+), ", line).group(1), ours, line)
        self.assertFalse([line for line in calls if "ptrace(" in line])

    def test_output_that_cannot_be_written(self):
        for options in ([], ["--json"]):
            with open("/dev/full", "wb") as full:
                p = subprocess.run([h.tool("giltrace"), "--features"] + options, stdout=full,
                                   stderr=subprocess.PIPE, timeout=h.LIMIT)
            self.assertIn(p.returncode, (h.FAILED, h.NO_OUTPUT))
            self.assertIn(b"No space left", p.stderr)


class Usage(FeaturesTest):
    def wrong(self, *args):
        where = h.new_dir()
        status, out, err = h.giltrace(*args, cwd=where)
        self.assertEqual((status, out), (h.USAGE, ""), "%s: %s" % (args, err))
        self.assertIn("giltrace: ", err)
        self.assertEqual(os.listdir(where), [])
        return err

    def test_features_is_for_no_process(self):
        me = str(os.getpid())
        for args in (["-p", me], ["--", "true"], ["--all-python"], ["--all-npu"], ["--list"],
                     ["stray"], ["--tell=%s" % me, "status"]):
            err = self.wrong("--features", *args)
            if args != ["stray"]:
                self.assertIn("--features", err)

    def test_names_that_are_none(self):
        for args in (["--features"], ["-p", str(os.getpid())]):
            for text in ("nonsense", "", "btf,", ",btf", "btf,,perf-link", "btf,nonsense", "BTF",
                         "btf perf-link", "bt", "ring-buffer", "btf,ring-buffer"):
                err = self.wrong("--without=" + text, *args)
                for name in optional():
                    self.assertRegex(err, r"(?<![\w-])%s(?![\w-])" % name, text)
                if "nonsense" in text:
                    self.assertIn("nonsense", err)

    def test_alone_they_are_no_task(self):
        self.wrong("--without=btf")
        self.wrong("--json")

    def test_help(self):
        text = h.giltrace("--help")[1]
        for option in ("--features", "--without=NAME"):
            self.assertIn(option, text)
        for name in ("auto", "multi", "perf", "ioctl"):
            self.assertRegex(text, r"--backend=[^-]*\b%s\b" % name)


class Without(FeaturesTest):
    """What is asked to be left out is as if the kernel did not have it."""

    def left_out(self, names, *options):
        told = by_name(self.features(*(options or ["--without=" + ",".join(names)])))
        for name, f in told.items():
            if name in names:
                self.assertIs(f["available"], False, f)
                self.assertIn("--without", f["why"])
            elif PART_OF.get(name) not in names:
                self.assertEqual(f, by_name(here())[name], "without %s" % (names,))

    def test_each_and_several(self):
        here()
        cases = [([name],) for name in optional()] + [(optional(),), (["btf", "btf"],)]
        cases.append((["btf", "perf-link"], "--without=btf", "--without=perf-link"))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for case, result in [(c, pool.submit(self.left_out, *c)) for c in cases]:
                with self.subTest(case=case):
                    result.result()

    def test_nothing_is_left_to_place_probes(self):
        out_of = "--without=uprobe-multi,uprobes"
        status, out, err = h.giltrace("--features", "--json", out_of)
        if "uprobes" in required():
            self.assertIn(status, (h.USAGE, h.NO_BPF), err)
        else:
            self.assertEqual((status, json.loads(out)["backend"]), (h.NO_BPF, None), err)
        self.assertIn("uprobes", err)
        with h.Workload(h.python()) as w:
            self.not_recorded(w, "uprobes", out_of, status=status)

    def test_a_back_end_that_was_left_out(self):
        with h.Workload(h.python()) as w:
            for name in ("uprobe-multi", "uprobe-multi-pid"):
                self.not_recorded(w, name.replace("-", "[-_]"), "--without=" + name,
                                  "--backend=multi")


class Recordings(FeaturesTest):
    """Many of one process at once: what they tell must be the same."""

    def ways(self):
        """Options, what is left out (None: not the question here), the back end by which."""
        ways = [([], [], lacking())]
        for names in [[n] for n in optional()] + [[n for n in optional() if n != "uprobes"]]:
            ways.append((["--without=" + ",".join(names)], names, lacking(*names)))
        ways.append((["--backend=ioctl"], None, "perf_ioctl"))
        return [way for way in ways if way[2]]

    def check_meta(self, rec, without, backend):
        self.assertEqual(rec.meta["probe.backend"], backend)
        left_out = rec.meta.get("kernel.without", "").split()
        missing = rec.meta.get("kernel.missing", "").split()
        self.assertEqual(sorted(left_out), sorted(without or []))
        self.assertEqual(len(missing), len(set(missing)))
        if without is not None:
            lacks = {n for n, there in available(here()).items() if not there} - set(without)
            parts = {n for n, whole in PART_OF.items() if whole in without}
            self.assertEqual(set(missing) - set(without) - parts, lacks - parts)

    def gone(self, objects):
        return not [o for o in objects if h.kernel_has(*o)]

    def test_they_are_alike(self):
        with h.Workload(h.python()) as w:
            w.start_workers(cpu=2, stat=2)
            ways, running, objects = self.ways(), [], set()
            for options, _, _ in ways:
                running.append(h.Recorder(w, "-v", *options))
                self.addCleanup(running[-1].__exit__)
            begin = time.monotonic() * 1e9
            for r in running:
                objects |= r.kernel_objects()
                self.assertEqual(h.breakpoints(r.pid, h.tool("giltrace")), 0, "trials are over")
            self.assertGreater(w.breakpoints(), 0)
            w.do("run", limit=STAT)
            w.do("join")
            w.quiesce()
            for r in running:
                r.proc.send_signal(2)
            for r in running:
                self.assertEqual(r.finish(), h.OK, r.text())
            h.until(lambda: self.gone(objects), "BPF objects go")
            self.assertEqual(w.breakpoints(), 0)
            stat = [w.threads["stat-0"], w.threads["stat-1"]]
        told, traced = [], set()
        for r, (options, without, backend) in zip(running, ways):
            with self.subTest(options=options):
                rec = r.recording()
                self.assertEqual(rec.faults()[:5], [])
                self.assert_sound(rec)
                self.assertEqual(rec.lost, 0)
                self.check_meta(rec, without, backend)
                self.assertIn(backend, r.text())
                for name in without or []:
                    self.assertIn(name, r.text(), "it says what is left out")
                for tid in stat:
                    self.assertGreaterEqual(rec.count(h.RELEASE, tid), STAT)
                self.assertEqual({rec.names.get(t) for t in w.threads.values()}, set(w.threads))
                told.append([(e.kind, e.tid) for e in rec.events
                             if e.ns > begin and e.kind in (h.ACQUIRE, h.RELEASE)])
                self.assertEqual(told[-1], told[0], "after %s" % ways[0][0])
                if backend not in traced:
                    rec.trace()
                traced.add(backend)


class NoBtf(FeaturesTest, FamilyTest):
    """Its file is covered, or giltrace is told to do without."""

    WAYS = (([], kernel.covered("/sys/kernel/btf")), (["--without=btf"], None))

    def setUp(self):
        super().setUp()
        self.family = self.start()

    def test_features(self):
        answer = self.features(preexec_fn=self.WAYS[0][1])
        self.assertEqual(dict(available(answer), btf=None), dict(available(here()), btf=None))
        f = by_name(answer)["btf"]
        self.assertIs(f["available"], False)
        self.assertIn(kernel.BTF, f["why"])

    def test_children_are_found_all_the_same(self):
        running = []
        for options, prepare in self.WAYS:
            r = self.record(self.family.pid, "--follow", "-v", *options, preexec_fn=prepare)
            self.assertRegex(r.text(), r"(?i)btf", "not silent")
            running.append(r)
        child = self.family.beget("fork", "fork")
        for r in running:
            self.wait_recorded(r, child.pid)
        done = {m.pid: m.count() for m in (child, self.family.root)}
        for r, (options, _) in zip(running, self.WAYS):
            with self.subTest(options=options):
                self.stopped(r)
                for pid in done:
                    rec = r.recording(pid)
                    self.assert_good(rec)
                    self.assert_counted(rec, done[pid])
                    self.assertEqual(rec.meta["probe.backend"], here()["backend"])
                    self.assertIn("btf", (rec.meta.get("kernel.missing", "") + " " +
                                          rec.meta.get("kernel.without", "")).split())

    def test_what_needs_it_is_refused(self):
        for options, prepare in self.WAYS:
            folder = h.new_dir()
            status, out, err = h.giltrace("-p", self.family.pid, "--follow=bpf", "-d", "5", "-o",
                                          folder, *options, preexec_fn=prepare)
            self.assertEqual(status, h.NO_BPF, out + err)
            self.assertIn("--follow=proc", err)
            self.assertRegex(err, r"BTF|/sys/kernel/btf")
            self.assertEqual(os.listdir(folder), [])


class Memory(FeaturesTest):
    """RLIMIT_MEMLOCK is 0, as services have it."""

    def record(self, *options, **kwargs):
        folder = h.new_dir()
        with h.Workload(h.python()) as w:
            status, out, err = h.giltrace("-p", w.pid, "-d", "0.1", "-v", "-o", folder, *options,
                                          **kwargs)
        if status == h.OK:
            name, = os.listdir(folder)
            self.assert_sound(h.Recording(os.path.join(folder, name)))
        else:
            self.assertEqual(os.listdir(folder), [])
        return status, out + err

    def test_the_limit_is_raised(self):
        self.assertEqual(available(self.features(preexec_fn=kernel.no_locked_memory(True))),
                         available(here()))
        for options in ([], ["--without=memcg-memory"]):
            with h.Workload(h.python()) as w:
                with h.Recorder(w, *options, preexec_fn=kernel.no_locked_memory(True)) as r:
                    with open("/proc/%d/limits" % r.pid) as f:
                        limit = re.search(r"Max locked memory +(\w+)", f.read()).group(1)
                    self.assertEqual(r.stop(), h.OK, r.text())
                    self.assert_sound(r.recording())
            if options or not kernel.truth()["memcg-memory"]:
                self.assertNotEqual(limit, "0", options)

    def test_it_cannot_be_raised(self):
        fixed = kernel.no_locked_memory(False)
        status, said = self.record(preexec_fn=fixed)
        if kernel.truth()["memcg-memory"]:
            self.assertEqual(status, h.OK, said)
            self.assertEqual(available(self.features(preexec_fn=fixed)), available(here()))
            status, said = self.record("--without=memcg-memory", preexec_fn=fixed)
            self.assertIn(status, (h.OK, h.NO_BPF), said)
        else:
            self.assertEqual(status, h.NO_BPF, said)
            status, answer, err = ask(preexec_fn=fixed)
            self.check_form(answer)
            self.assertEqual(status, h.NO_BPF, answer)
            self.assertIn("RLIMIT_MEMLOCK", err)
        self.assertIn("RLIMIT_MEMLOCK", said)


class Refused(FeaturesTest):
    """The kernel says no, by seccomp, or the user may not."""

    def setUp(self):
        super().setUp()
        self.w = h.Workload(h.python())
        self.addCleanup(self.w.__exit__)

    def recorded(self, **kwargs):
        self.w.start_workers(stat=2)
        with h.Recorder(self.w, "-v", **kwargs) as r:
            self.w.do("run", limit=STAT)
            self.w.do("join")
            self.w.quiesce()
            self.assertEqual(r.stop(), h.OK, r.text())
            rec = r.recording()
        self.assertEqual(rec.faults()[:5], [])
        for tid in self.w.threads.values():
            self.assertGreaterEqual(rec.count(h.RELEASE, tid), STAT)
        return rec

    def test_no_links(self):
        """As Linux 5.10 has it."""
        prepare = kernel.refused(kernel.SYS_BPF, errno.EINVAL, kernel.LINK_CREATE)
        told = by_name(self.features(preexec_fn=prepare))
        for name in ("perf-link", "uprobe-multi"):
            self.assertIs(told[name]["available"], False)
            self.assertIn("Invalid argument", told[name]["why"])
        self.assertIs(told["uprobe-multi-pid"]["available"], False)
        for name in NAMES - {"perf-link", "uprobe-multi", "uprobe-multi-pid"}:
            self.assertEqual(told[name], by_name(here())[name])
        rec = self.recorded(preexec_fn=prepare)
        self.assertEqual(rec.meta["probe.backend"], "perf_ioctl")
        self.assertTrue({"perf-link", "uprobe-multi"} <= set(rec.meta["kernel.missing"].split()))
        self.not_recorded(self.w, r"(?i)multi", "--backend=multi", preexec_fn=prepare)

    def test_no_perf_events(self):
        for error, answers in ((errno.ENOSYS, (False,)), (errno.EACCES, (False, None))):
            prepare = kernel.refused(kernel.SYS_PERF_EVENT_OPEN, error)
            f = by_name(self.features(preexec_fn=prepare))["uprobes"]
            self.assertIn(f["available"], answers)
            self.assertRegex(f["why"], "perf_event_open.*%s" % os.strerror(error))
        for backend in ["ioctl"] + ["perf"] * kernel.truth()["perf-link"]:
            self.not_recorded(self.w, "perf_event.*%s" % os.strerror(error),
                              "--backend=" + backend, preexec_fn=prepare)
        if lacking("uprobes"):
            self.assertEqual(self.recorded(preexec_fn=prepare).meta["probe.backend"],
                             lacking("uprobes"))
        else:
            self.not_recorded(self.w, "perf_event", preexec_fn=prepare)

    def test_no_sysfs(self):
        """A container that does not see it: what a uprobe is cannot be told to perf_event_open."""
        prepare = kernel.covered("/sys")
        told = by_name(self.features(preexec_fn=prepare))
        for name, path in (("uprobes", kernel.UPROBE_TYPE), ("btf", kernel.BTF)):
            self.assertIsNot(told[name]["available"], True)
            self.assertIn(path, told[name]["why"])
        if lacking("uprobes"):
            rec = self.recorded(preexec_fn=prepare)
            self.assertEqual(rec.meta["probe.backend"], lacking("uprobes"))
            self.assertIn("btf", rec.meta["kernel.missing"].split())
        else:
            self.not_recorded(self.w, kernel.UPROBE_TYPE, preexec_fn=prepare)

    def test_no_bpf(self):
        for error in (errno.EPERM, errno.ENOSYS):
            prepare = kernel.refused(kernel.SYS_BPF, error)
            told = by_name(self.features(preexec_fn=prepare))
            for name in NAMES - {"btf", "uprobes"}:
                self.assertIsNot(told[name]["available"], True, told[name])
                self.assertIn(os.strerror(error), told[name]["why"])
            self.assertIs(told["ring-buffer"]["available"], None if error == errno.EPERM else False)
            self.not_recorded(self.w, os.strerror(error), preexec_fn=prepare)

    def test_nobody(self):
        answer = self.features(preexec_fn=nobody, cwd="/")
        self.assertIsNone(answer["backend"])
        for name, f in by_name(answer).items():
            if kernel.truth().get(name):
                self.assertIsNot(f["available"], False, f)
            if f["available"] is None:
                self.assertRegex(f["why"], r"(?i)permi|root|CAP_", f)
        for name in ("ring-buffer", "uprobes", "perf-link", "uprobe-multi", "uprobe-multi-pid"):
            self.assertIsNone(by_name(answer)[name]["available"])
        status, text, err = h.giltrace("--features", preexec_fn=nobody, cwd="/")
        self.assertEqual(status, h.NO_BPF)
        self.assertRegex(err, r"(?i)root|sudo|CAP_")
        said = self.one_line_each(text, answer)
        self.assertNotIn(said[None], ("yes", "no"))

    def test_the_documented_rights(self):
        """With what docs/rights.md asks for, and without root, it says the same as with."""
        multi, caps = lacking("uprobes") == "uprobe_multi", documented()
        if not multi:
            caps = caps | {"CAP_SYS_ADMIN"}
        self.assertLessEqual(caps, set(CAPS))

        def prepare():
            if not kernel.truth()["memcg-memory"]:
                resource.setrlimit(resource.RLIMIT_MEMLOCK, 2 * (resource.RLIM_INFINITY,))
            become(ME, caps)()
        told = available(self.features(preexec_fn=prepare, cwd="/"))
        for name, there in available(here()).items():  # with multi, these may want CAP_SYS_ADMIN
            may = (there, None) if multi and name in ("uprobes", "perf-link") else (there,)
            self.assertIn(told[name], may, name)


if __name__ == "__main__":
    h.main()
