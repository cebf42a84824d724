#!/usr/bin/env python3
"""PyTorch on Lockstep's models; with WORLD_SIZE above 1, DistributedDataParallel over gloo."""
import argparse
import json
import os
import time

import idx
import torch
from torch import nn

MODELS = {
    "core-cnn": lambda: nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 1024), nn.ReLU(), nn.Linear(1024, 10)),
    "simple-cnn": lambda: nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5408, 10)),
    "mlp": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)),
}


def measure_sgemm(size=2048, seconds=1.0):
    """GFLOP/s of a square float32 matrix product, the best of many."""
    a, b = torch.rand(size, size), torch.rand(size, size)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    return {"sgemm_gflops": 2 * size**3 / best / 1e9}


def train(arguments):
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    images, labels = idx.train_set(arguments.data)
    images, labels = torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels)
    model = MODELS[arguments.model]()
    if world > 1:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    loss_of = nn.CrossEntropyLoss()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))[rank::world]
    at, start = 0, 0.0
    for step in range(arguments.warmup + arguments.steps):
        if step == arguments.warmup:
            start = time.perf_counter()
        if at + arguments.batch > len(order):
            at = 0
        batch = order[at:at + arguments.batch]
        at += arguments.batch
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
    last = loss.item()
    seconds = time.perf_counter() - start
    if world > 1:
        torch.distributed.destroy_process_group()
    images_done = arguments.steps * arguments.batch * world
    return {"images_per_second": images_done / seconds, "loss": last, "rank": rank,
            "version": torch.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="a folder of IDX files")
    parser.add_argument("--model", choices=MODELS, default="core-cnn")
    parser.add_argument("--batch", type=int, default=128, help="of one process")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sgemm", action="store_true", help="only measure a matrix product")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(json.dumps(measure_sgemm() if arguments.sgemm else train(arguments)))


if __name__ == "__main__":
    main()
