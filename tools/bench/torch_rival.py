#!/usr/bin/env python3
"""PyTorch on Lockstep's models; with WORLD_SIZE above 1, DistributedDataParallel over gloo."""
import argparse
import json
import os
import resource
import time

import idx
import torch
from torch import nn

class Bottleneck(nn.Module):
    """Of ResNet v1.5: the 3x3 convolution has the stride."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.branch = nn.Sequential(
            *convolve(channels, width, 1), nn.ReLU(inplace=True),
            *convolve(width, width, 3, stride), nn.ReLU(inplace=True), *convolve(width, 4 * width, 1))
        is_same = stride == 1 and channels == 4 * width
        self.shortcut = nn.Sequential(*(() if is_same else convolve(channels, 4 * width, 1, stride)))

    def forward(self, x):
        return torch.relu_(self.branch(x) + self.shortcut(x))


def convolve(channels, filters, kernel, stride=1):
    return (nn.Conv2d(channels, filters, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(filters))


def resnet_50():
    layers, channels = [*convolve(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, 2 if block == 0 and width > 64 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


MODELS = {
    "resnet-50": resnet_50,
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
    model = MODELS[arguments.model]()
    if arguments.data:
        images, labels = idx.train_set(arguments.data)
        images, labels = torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels)
    else:  # photographs of random numbers, in the order that PyTorch is fastest with
        images = torch.randn(arguments.batch, 3, 224, 224).to(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (arguments.batch,))
        model = model.to(memory_format=torch.channels_last)
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
        samples = images[batch] if arguments.data else images
        loss = loss_of(model(samples), labels[batch])
        loss.backward()
        optimizer.step()
    last = loss.item()
    seconds = time.perf_counter() - start
    if world > 1:
        torch.distributed.destroy_process_group()
    images_done = arguments.steps * arguments.batch * world
    return {"images_per_second": images_done / seconds, "loss": last, "rank": rank,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "version": torch.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="a folder of IDX files; without it, photographs of random numbers")
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
