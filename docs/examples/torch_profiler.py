# SPDX-License-Identifier: Apache-2.0
"""torch.profiler and giltrace, side by side, for the same steps.

    sudo python3 torch_profiler.py /tmp/job
    gil2trace /tmp/job/gil --profiler=/tmp/job/prof -o /tmp/job/merged/ --merge

Then open a file of /tmp/job/merged in https://ui.perfetto.dev.
"""
import os
import sys

import torch

from beside import Beside
from export_trace import handler
from workload import Training


def profile_all_threads():
    """PyTorch 2.7 and newer can record threads that are not the Profiler's own."""
    try:
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return None


def main(out):
    os.makedirs(out, exist_ok=True)
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2)
    with Training() as training, \
            Beside(schedule, output_dir=os.path.join(out, "gil")) as gil, \
            torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU],
                schedule=schedule,
                on_trace_ready=gil.on_trace_ready(handler(os.path.join(out, "prof"))),
                experimental_config=profile_all_threads()) as prof:
        for number in range(10):   # two cycles
            training.step(number)
            gil.step(prof)
    print("\n".join(gil.files))


if __name__ == "__main__":
    main(sys.argv[1])
