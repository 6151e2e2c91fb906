"""A PyTorch DataLoader: does the training loop wait for its data, or for the GIL?

    dataloader.py [SECONDS [WORKERS [decode]]]

With WORKERS > 0 the samples are made in processes of their own; the thread of the DataLoader that
receives them ("pin_memory" is not used here) and the training loop share one GIL. With "decode"
a thread of the training process does Python work beside it, as a logger or a prefetcher would.
"""
import sys
import threading
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
WORKERS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
until = time.monotonic() + SECONDS
torch.set_num_threads(1)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        return torch.full((64,), float(sum(k * k for k in range(i % 500))))


def decode():
    while time.monotonic() < until:
        sum(i * i for i in range(20000))


def main():
    if sys.argv[3:] == ["decode"]:
        threading.Thread(target=decode, name="decode").start()
    model = torch.nn.Linear(64, 64)
    steps = 0
    for batch in torch.utils.data.DataLoader(Samples(), batch_size=32, num_workers=WORKERS):
        model(batch).sum().backward()
        steps += 1
        if time.monotonic() >= until:
            break
    print("%d steps in %.1f s" % (steps, SECONDS))


if __name__ == "__main__":
    main()
