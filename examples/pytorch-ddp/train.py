#!/usr/bin/env python3
"""DistributedDataParallel on MNIST; nothing in here needs Lockstep.

torchrun gives each process its rank, the size of the world and where the first one listens. If report.py is there, rank
0 tells the operator how far it is.
"""
import argparse
import gc
import itertools
import json
import os
import pathlib
import struct

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

try:
    from report import report_progress
except ImportError:  # it runs without
    def report_progress(**_):
        return False


def say(**record):
    print(json.dumps({"rank": dist.get_rank(), **record}), flush=True)


def read_idx(path):
    """The bytes of one of MNIST's four files, in its shape."""
    data = bytearray(path.read_bytes())
    dimensions = data[3]
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    return torch.frombuffer(data, dtype=torch.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_set(folder, part):
    images = read_idx(folder / f"{part}-images-idx3-ubyte").unsqueeze(1)
    return TensorDataset(images, read_idx(folder / f"{part}-labels-idx1-ubyte").long())


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 10))


class Training:
    def __init__(self, checkpoint):
        self.model = DistributedDataParallel(make_model())
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-3)
        self.checkpoint = checkpoint
        self.step = 0

    def restore(self):
        """Every rank reads what rank 0 has saved, if it has."""
        if self.checkpoint.exists():
            saved = torch.load(self.checkpoint, weights_only=True)
            self.model.module.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.step = saved["step"]

    def save(self):
        """Rank 0 only. Whoever reads sees the old file or the new one."""
        new = self.checkpoint.with_suffix(".new")
        torch.save({"model": self.model.module.state_dict(), "step": self.step,
                    "optimizer": self.optimizer.state_dict()}, new)
        os.replace(new, self.checkpoint)

    def train(self, images, labels):
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(images / 255), labels)
        loss.backward()  # averages the gradients of all ranks
        self.optimizer.step()
        self.step += 1
        return loss.item()


def run(training, train_set, arguments):
    """From the step that was restored to the last one."""
    sampler = DistributedSampler(train_set, seed=1, drop_last=True)
    batches = DataLoader(train_set, arguments.batch, sampler=sampler, drop_last=True)
    total = arguments.epochs * len(batches)
    while training.step < total:
        epoch, done = divmod(training.step, len(batches))
        sampler.set_epoch(epoch)
        for images, labels in itertools.islice(batches, done, None):
            loss = training.train(images, labels)
            report_progress(step=training.step, total=total, loss=loss)
            if training.step % arguments.save_every == 0 and dist.get_rank() == 0:
                training.save()
                say(step=training.step, loss=round(loss, 4), saved=True)
            elif training.step % 50 == 0 or training.step == 1:
                say(step=training.step, loss=round(loss, 4))


@torch.no_grad()
def accuracy(model, test_set):
    """Over all ranks: each judges its share."""
    model.eval()
    shard = DataLoader(test_set, 500, sampler=range(dist.get_rank(), len(test_set), dist.get_world_size()))
    right = torch.zeros(1)
    for images, labels in shard:
        right += (model(images / 255).argmax(1) == labels).sum()
    dist.all_reduce(right)
    return right.item() / len(test_set)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True, help="a folder with MNIST's four files")
    parser.add_argument("--checkpoints", type=pathlib.Path, required=True, help="a folder that all ranks see")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64, help="of one rank")
    parser.add_argument("--save-every", type=int, default=100, help="steps")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(1)
    training = Training(arguments.checkpoints / "latest.pt")
    training.restore()
    say(world=dist.get_world_size(), pid=os.getpid(), restored_step=training.step)
    run(training, read_set(arguments.data, "train"), arguments)
    found = accuracy(training.model.module, read_set(arguments.data, "t10k"))
    say(steps=training.step, accuracy=round(found, 4))
    # The model holds the process group: its threads end only with both, and abort a Python that ends first.
    del training
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
