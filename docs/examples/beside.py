# SPDX-License-Identifier: Apache-2.0
"""The GIL of exactly the steps that a Profiler records: giltrace beside a Profiler's schedule.

    schedule = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2)
    with Beside(schedule, output_dir="gil") as gil, torch.profiler.profile(
            schedule=schedule, on_trace_ready=gil.on_trace_ready(handler)) as prof:
        for batch in batches:
            train(batch)
            gil.step(prof)          # instead of prof.step()

The same for torch_npu.profiler and mindspore.profiler, whose schedules, steps and on_trace_ready
work alike. Copy this file into your program, or take from it what you need.

The order is what matters. An active step begins in prof.step(), and the last one ends there, so:

    warm-up begins      giltrace.start(paused=True)   attaching takes some 100 ms: not in a step
                                                      that counts
    first active step   giltrace.resume()             then the Profiler opens its window
    last one has ended  the Profiler closes its       then giltrace.stop(), then the handler, which
                        window                        may work for minutes

So the GIL's recording is a bit longer than the Profiler's at both ends, and nothing is lost.
"""
import warnings

import giltrace


class Beside:
    """One recording for each cycle of a schedule. By one thread: the one that calls step()."""

    def __init__(self, schedule, **options):
        self.files = []           # the recordings, when they are complete
        self._schedule = schedule
        self._options = options   # of giltrace.start()
        self._number = 0          # of the step that runs
        self._action = None       # what the schedule wants for it
        self._due = False         # that has not been done yet
        self._state = "off"       # or "paused", "recording"; "failed" until the cycle has ended

    def __enter__(self):
        self._plan()
        self._do()
        return self

    def __exit__(self, *exc):
        self._stop()

    def step(self, prof):
        """Tells both that the next step begins. Instead of prof.step()."""
        closes = self._action == "RECORD_AND_SAVE"
        self._number += 1
        self._plan()
        if not closes:
            self._do()   # before the Profiler goes on
        prof.step()      # if it closes its window, this calls ready() below

    def on_trace_ready(self, handler):
        """What the Profiler gets for on_trace_ready, in the place of handler."""
        def ready(*args):
            self._stop()      # the Profiler has closed its window already
            handler(*args)
            self._do()        # without a wait between two cycles, the next one begins now
        return ready

    def _plan(self):
        # By name, since each of the Profilers has actions of its own.
        self._action = self._schedule(self._number).name
        self._due = True

    def _do(self):
        if not self._due:   # the Profiler was stopped in a cycle: there is no next step
            return
        self._due = False
        try:
            if self._action.startswith("RECORD"):
                self._record()
            elif self._action == "NONE":
                self._stop()
            elif self._state == "off":   # warm-up, the Profiler's and ours
                giltrace.start(paused=True, **self._options)
                self._state = "paused"
        except giltrace.GiltraceError as e:   # no reason for the training to end
            warnings.warn("no GIL trace of this cycle: %s" % e)
            self._stop()
            self._state = "failed"

    def _record(self):
        if self._state == "off":   # a schedule without warm-up
            giltrace.start(**self._options)
        elif self._state == "paused":
            giltrace.resume()
        elif self._state == "failed":
            return
        self._state = "recording"
        giltrace.mark("step %d" % self._number)

    def _stop(self):
        if self._state in ("paused", "recording"):
            self.files += giltrace.stop().files   # it warns if something went wrong
        self._state = "off"
