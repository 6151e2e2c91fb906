# SPDX-License-Identifier: Apache-2.0
"""What the examples profile: a training whose threads fight for the GIL.

- The main thread trains: operators, which let the GIL go while they compute, and Python between.
- A thread of PyTorch's own pool makes the next batch meanwhile, in Python, as a badly written
  loader does. torch.jit.fork() is one of the few ways to hand work to another thread of which the
  Profiler knows: up to PyTorch 2.6 it records the thread that it was started in, and what that
  one hands on by autograd or fork, but nothing of a threading.Thread.
- A threading.Thread counts, in Python. So the Profiler may not show it; the GIL's rows do.
"""
import threading
import time

import torch
from torch.profiler import record_function

from export_trace import thread_range

SIZE = 256


@torch.jit.ignore
def make_batch(seed: int) -> torch.Tensor:
    with thread_range("make batch"):
        values = []
        for i in range(SIZE * 64):   # pure Python: holds the GIL
            seed = (seed * 1103515245 + 12345) % 2147483648
            values.append(seed / 2147483648)
        return torch.tensor(values).reshape(64, SIZE)


@torch.jit.script
def make_batch_task(seed: int) -> torch.Tensor:
    return make_batch(seed)


@torch.jit.script
def next_batch(seed: int) -> torch.jit.Future[torch.Tensor]:
    return torch.jit.fork(make_batch_task, seed)


class Counter(threading.Thread):
    """Wants the GIL for a moment, again and again."""

    def __init__(self):
        super().__init__(name="counter", daemon=True)
        self.end = threading.Event()

    def run(self):
        while not self.end.wait(0.01):
            sum(range(20000))


class Training:
    def __init__(self, device="cpu"):
        self.device = device
        self.model = torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE), torch.nn.ReLU(),
                                         torch.nn.Linear(SIZE, 1)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batch = next_batch(1).wait()
        self.counter = Counter()

    def __enter__(self):
        self.counter.start()
        return self

    def __exit__(self, *exc):
        self.counter.end.set()
        self.counter.join()

    def step(self, number):
        following = next_batch(number + 2)   # beside what this thread does
        with record_function("train"):
            loss = self.model(self.batch.to(self.device)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        with record_function("sleep"):       # as one waits for a disk or a device: without the GIL
            time.sleep(0.005)
        # Here and not in the next step, so that a step's work is over when the step is.
        self.batch = following.wait()
        with record_function("python"):      # holds the GIL all the time
            sum(i * i for i in range(20000))
