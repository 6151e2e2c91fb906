# SPDX-License-Identifier: Apache-2.0
"""torch_npu.profiler and giltrace, side by side, for the same steps, on an Ascend NPU.

    sudo python3 torch_npu_profiler.py /tmp/job
    gil2trace /tmp/job/gil --profiler=/tmp/job/prof -o /tmp/job/joint

Then import /tmp/job/joint in MindStudio Insight. All but the names is as in torch_profiler.py.
"""
import os
import sys

try:
    import torch_npu
except ImportError as e:
    sys.exit("%s: this example needs torch_npu, and an NPU; without, see torch_profiler.py" % e)

from beside import Beside
from workload import Training


def main(out, device="npu:0"):
    os.makedirs(out, exist_ok=True)
    schedule = torch_npu.profiler.schedule(wait=1, warmup=1, active=3, repeat=2)
    handler = torch_npu.profiler.tensorboard_trace_handler(os.path.join(out, "prof"))
    with Training(device) as training, \
            Beside(schedule, output_dir=os.path.join(out, "gil")) as gil, \
            torch_npu.profiler.profile(
                activities=[torch_npu.profiler.ProfilerActivity.CPU,
                            torch_npu.profiler.ProfilerActivity.NPU],
                schedule=schedule,
                on_trace_ready=gil.on_trace_ready(handler)) as prof:
        for number in range(10):   # two cycles
            training.step(number)
            gil.step(prof)
    print("\n".join(gil.files))


if __name__ == "__main__":
    main(*sys.argv[1:])
