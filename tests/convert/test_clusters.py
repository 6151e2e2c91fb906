# SPDX-License-Identifier: Apache-2.0
"""Recordings of several hosts become one trace, as docs/clusters.md promises."""
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import base as b  # noqa: E402
from model import Model  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None

MS, S = b.MS, b.S
DOC = os.path.join(b.HERE, "..", "..", "docs", "clusters.md")
HOSTS = ("node1", "node2", "node3", "node10")


class Host(Model):
    """A process on a host, which has a boot and a clock of its own."""

    def __init__(self, host, pid, rank, seed, boot=None, clock_error_us=250, source="RANK",
                 ticks=77, **kwargs):
        self.host, self.boot, self.source = host, boot or "boot of " + host, source
        self.error, self.ticks = clock_error_us, ticks
        up = HOSTS.index(host) if host in HOSTS else 0
        kwargs.setdefault("unix", 1700000000 * S + MS * seed)
        super().__init__(seed, pid=pid, rank=rank, start=1000 * S + 7 * up * S, threads=3,
                         rounds=60, **kwargs)

    def meta(self):
        pairs = dict(super().meta(), **{"host.name": self.host, "rank.source": self.source,
                                        "process.start_ticks": str(self.ticks)})
        if self.boot:
            pairs["host.boot_id"] = self.boot
        if self.error is not None:
            pairs["host.clock_error_us"] = str(self.error)
        return pairs


class Hosts(b.Case):
    """Each host has the same two pids, of other ranks: as containers and fresh machines have."""

    def make(self, hosts=HOSTS, **kwargs):
        models = []
        for host in hosts:
            i = HOSTS.index(host)
            os.mkdir(self.path(host))
            for k, pid in enumerate((4711, 812)):  # the higher pid has the lower rank
                m = Host(host, pid, 2 * i + k, 5 * i + k, **kwargs)
                m.write(self.path(host, "GIL_%d_rank_%d.gil" % (pid, m.rank)))
                models.append(m)
        return models

    def processes(self, events):
        """[(name, labels)] in the order of the viewer."""
        by = {}
        for e in events:
            if e["ph"] == "M" and e["name"].startswith("process_"):
                by.setdefault(e["pid"], {})[e["name"]] = list(e["args"].values())[0]
        return [(p["process_name"], p["process_labels"]) for p in
                sorted(by.values(), key=lambda p: int(p["process_sort_index"]))]


class Several(Hosts):
    def test_one_trace(self):
        models = self.make()
        folders = list(reversed(HOSTS))  # the order of the ranks is not that of the folders
        run = self.run_it(*folders, "-o", "-")
        trace = b.Trace(run.out)
        self.assertNotIn("warning", run.err)
        seen = self.processes(trace.events)
        self.assertEqual([int(re.search(r"\(rank (\d+)\)", name).group(1)) for name, _ in seen],
                         list(range(8)))
        self.assertEqual([re.search(r"\bon (\w+)$", labels).group(1) for _, labels in seen],
                         [h for h in HOSTS for _ in range(2)])
        # Nothing collides: each keeps its own slices, under a number of its own.
        self.assertEqual(len(trace.processes), 8)
        pids = {name: pid for pid, name in trace.processes.items()}
        for m, (name, _) in zip(models, seen):
            want = sorted((k, tid, begin, end) for k, _, tid, _, begin, end in b.truth_slices(m))
            got = sorted((s.name, s.tid, s.begin, s.end) for s in trace.slices
                         if s.pid == pids[name])
            self.assertEqual(got, want, name)
            self.assertGreater(len(got), 50)
        self.assertEqual(sum(", pid " in name for name, _ in seen), 6)

    def test_a_shared_folder(self):
        """Two hosts, one pid, no rank: the second file has a number. rpdcp adds the host's name."""
        for host, name in (("node2", "GIL_7_rank_0_2.gil"), ("node1", "GIL_7_rank_0.gil"),
                           ("node3", "GIL_9_rank_2.gil.node3"), ("node10", "GIL_30_rank_10.gil"),
                           ("node10", "GIL_31_rank_9.gil")):
            pid, rank = map(int, re.match(r"GIL_(\d+)_rank_(\d+)", name).groups())
            Host(host, pid, rank, len(name), source="RANK" if rank else "default").write(
                self.path(name))
        run = self.run_it(".", "-o", "trace.json")
        self.assertNotIn("warning", run.err)
        self.assertEqual([labels for _, labels in self.processes(self.read("trace.json").events)],
                         ["CPU, on node1", "CPU, on node2", "CPU, on node3", "CPU, on node10",
                          "CPU, on node10"])

    def test_named_files_keep_their_places(self):
        self.make(HOSTS[:2])
        files = ["node2/GIL_812_rank_3.gil", "node1/GIL_4711_rank_0.gil",
                 "node2/GIL_4711_rank_2.gil"]
        said = self.processes(self.trace(*files).events)
        self.assertEqual([re.search(r"rank (\d)", name).group(1) for name, _ in said],
                         ["3", "0", "2"])
        for args, want in (((files[0], "node1"), "301"), (("node2", files[1]), "230"),
                           ((files[1], "node2"), "023")):
            said = self.processes(self.trace(*args).events)
            self.assertEqual("".join(re.search(r"rank (\d)", name).group(1) for name, _ in said),
                             want)

    def test_summary(self):
        self.make()
        got = self.summary(*HOSTS)["processes"]
        self.assertEqual([(p["rank"], p["host"]) for p in got],
                         [(i, HOSTS[i // 2]) for i in range(8)])
        text = self.run_it(*HOSTS, "--summary").out.decode()
        rows = re.findall(r"(?m)^ +(\d) +\d+ .* (\S+): python3", text)
        self.assertEqual(sorted(rows), [(str(i), HOSTS[i // 2]) for i in range(8)])
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        alone = self.run_it(HOSTS[0], "--summary").out.decode()
        self.assertNotRegex(alone, r"(?m)^ +\d +\d+ .* node1: ")

    def test_report(self):
        self.make()
        self.run_it(*HOSTS, "--html=report.html")
        with open(self.path("report.html"), encoding="utf-8") as f:
            page = f.read()
        found = [p["tags"] for p in json.loads(b.page_data(page, "meta"))["processes"]]
        self.assertEqual(found, ["CPU, on " + h for h in HOSTS for _ in range(2)])

    def test_parts_and_one_for_each(self):
        self.make(HOSTS[:2])
        self.run_it("node1", "node2", "--per-rank", "-o", "out")
        self.assertEqual(sorted(os.listdir(self.path("out"))),
                         ["GIL_4711_rank_0.json", "GIL_4711_rank_2.json", "GIL_812_rank_1.json",
                          "GIL_812_rank_3.json"])
        (_, labels), = self.processes(self.read("out", "GIL_4711_rank_2.json").events)
        self.assertEqual(labels, "CPU, on node2")


class Clocks(Hosts):
    def said(self, *args):
        return self.run_it(*args, "-o", "x.json").err

    def test_distance(self):
        """Both errors together, of the two worst."""
        self.make(HOSTS[:1], clock_error_us=250)
        self.assertNotIn("hosts", self.said("node1"))
        self.make(HOSTS[1:2], clock_error_us=3000)
        self.make(HOSTS[2:3], clock_error_us=1)
        self.assertIn("recordings of 3 hosts (node1, node2, node3): each has the time of its own "
                      "host's clock, and two of these differ by up to 3.250 ms\n",
                      self.said(*HOSTS[:3]))
        self.assertIn("by up to 0.251 ms\n", self.said("node1", "node3"))
        Host("node3", 9, 9, 3, clock_error_us=None).write(self.path("node3", "GIL_9_rank_9.gil"))
        self.assertIn("by up to an amount that they do not know\n", self.said("node1", "node3"))
        os.unlink(self.path("node3", "GIL_9_rank_9.gil"))
        self.make(HOSTS[3:], clock_error_us=None)
        self.assertIn("by up to an amount that they do not know\n", self.said(*HOSTS))

    def test_nothing_in_common(self):
        self.make(HOSTS[:1])
        self.make(HOSTS[1:2], unix=1700000100 * S)
        said = self.said("node1", "node2")
        self.assertIn("warning: the recordings of node1 and node2 have no instant in common", said)

    def test_one_name(self):
        """Copies of a machine: one name, one pid, one start; the boots differ, and so do they."""
        for i, boot in enumerate(("a", "b")):
            Host("localhost", 7, i, i, boot=boot).write(self.path("GIL_7_rank_%d.gil" % i))
        said = self.said(".")
        self.assertNotIn("same process", said)
        self.assertIn("recordings of 2 hosts (localhost, localhost)", said)
        Host("localhost", 7, 1, 1, boot="a").write(self.path("GIL_7_rank_1.gil"))
        said = self.run_it(".", "-o", "x.json", status=b.LEFT_OUT).err
        self.assertIn("is of the same process", said)
        self.assertNotIn("hosts", said)

    def test_parents_are_of_one_host(self):
        """A parent's pid on another host makes no child: the rank is there twice, and told."""
        def write(host, pid, **more):
            m = Host(host, pid, 5, pid)
            meta = m.meta()
            m.meta = lambda: dict(meta, **more)
            m.write(self.path("%s_%d.gil" % (host, pid)))
        write("node1", 10)
        write("node1", 11, **{"process.parent_pid": "10"})
        write("node2", 12, **{"process.parent_pid": "10"})
        self.assertNotIn("both are shown", self.said("node1_10.gil", "node1_11.gil"))
        self.assertIn("node2_12.gil: is of rank 5, as node1_10.gil is; both are shown",
                      self.said("node1_10.gil", "node2_12.gil"))


class Documented(unittest.TestCase):
    @unittest.skipUnless(yaml, "SKIPPED: no parser for YAML here (python3-yaml)")
    def test_manifest(self):
        with open(DOC, encoding="utf-8") as f:
            manifest, = re.findall(r"(?ms)^```yaml\n(.*?)^```", f.read())
        manifest = yaml.safe_load(manifest)
        self.assertEqual((manifest["apiVersion"], manifest["kind"]), ("apps/v1", "DaemonSet"))
        template = manifest["spec"]["template"]
        self.assertEqual(template["metadata"]["labels"],
                         manifest["spec"]["selector"]["matchLabels"])
        pod = template["spec"]
        self.assertIs(pod["hostPID"], True)
        self.assertIs(pod["hostNetwork"], True)
        container, = pod["containers"]
        self.assertIs(container["securityContext"]["privileged"], True)
        self.assertEqual({m["name"] for m in container["volumeMounts"]},
                         {v["name"] for v in pod["volumes"]})


if __name__ == "__main__":
    b.main()
