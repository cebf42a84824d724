#!/usr/bin/env python3
"""Writes resnet18.json: one step of ResNet-18 v1.5 on 48x48 images, by PyTorch in float64.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch numpy
    /tmp/golden/bin/python tests/golden/generate_resnet.py

The model has 11 million parameters, so the file holds none of them: numbers() makes them, and the
samples, from their places, as tests/trainer/models/resnet_golden_test.cc does. Of each parameter's
gradient the file has the norm and some elements, of the parameter after one update of SGD some
elements. Float32 may round a number to the other side of a ReLU's 0, or another number to a window's
maximum, and then all gradients before it differ. So of 1,000 salts for the samples, the file has the
one whose decisions are the clearest; the search takes a few minutes. The network is built here as torchvision builds it, with its names.
"""
import json
import pathlib

import numpy
import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE, CLASSES, RATE, SAMPLES = 2, 48, 10, 0.1, 6
SALTS = range(100, 1100)  # those below are the parameters'


def numbers(salt, count):
    """float32 numbers in [-1, 1) that differ in each place of each salt."""
    mask = 0xFFFFFFFF
    x = (numpy.arange(count, dtype=numpy.uint64) * 2654435761 + (salt * 0x9E3779B9 & mask)) & mask
    for _ in range(2):
        x ^= x >> 16
        x = x * 0x45D9F3B & mask
    x ^= x >> 16
    return ((x >> 8).astype(numpy.float64) / 2**23 - 1).astype(numpy.float32).astype(numpy.float64)


class Decisions:
    """The least distance of any decision from the other side, of all ReLUs and maxima of a step."""
    least = float("inf")

    @classmethod
    def relu(cls, x):
        cls.least = min(cls.least, x.detach().abs().min().item())
        return x.relu()

    @classmethod
    def max_pool(cls, x):
        """Its input comes from a ReLU: no number is below 0, so the padding of F.unfold changes no maximum."""
        windows = F.unfold(x.detach(), 3, padding=1, stride=2).unflatten(1, (x.shape[1], 9))
        first, second = windows.topk(2, dim=2).values.unbind(2)
        cls.least = min(cls.least, (first - second)[first > 0].min().item())
        return F.max_pool2d(x, 3, 2, 1)


class Block(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False),
                                            nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(Decisions.relu(self.bn1(self.conv1(x)))))
        return Decisions.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        widths = (64, 64, 128, 256, 512)
        for i in range(1, 5):
            stride = 1 if i == 1 else 2
            setattr(self, f"layer{i}", nn.Sequential(Block(widths[i - 1], widths[i], stride),
                                                     Block(widths[i], widths[i], 1)))
        self.fc = nn.Linear(512, CLASSES)

    def forward(self, x):
        x = Decisions.max_pool(Decisions.relu(self.bn1(self.conv1(x))))
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


def our_name(name):
    layer, parameter = name.rsplit(".", 1)
    is_norm = "bn" in layer or "downsample.1" in layer
    parameter = {"weight": "gamma", "bias": "beta"}[parameter] if is_norm else parameter
    return f"{layer.replace('.', '_')}/{parameter}"


def initial(name, shape, salt):
    """Convolutions as He's, batch norms and biases near their usual starts."""
    values = numbers(salt, int(numpy.prod(shape)))
    if name.endswith("/gamma"):
        return 1 + 0.25 * values
    if name.endswith("/weight"):
        return numpy.float32((6 / numpy.prod(shape[1:])) ** 0.5).astype(numpy.float64) * values
    return 0.125 * values


def short(values):
    return [float(f"{v:.9g}") for v in values]


def samples(salt):
    return torch.from_numpy(numbers(salt, BATCH * 3 * SIZE * SIZE)).reshape(BATCH, 3, SIZE, SIZE)


def clearest(model):
    def distance(salt):
        Decisions.least = float("inf")
        with torch.no_grad():
            model(samples(salt))
        return Decisions.least

    distances = {salt: distance(salt) for salt in SALTS}
    salt = max(distances, key=distances.get)
    print(f"salt {salt}: every decision is {distances[salt]:.2g} or more from the other side")
    return salt


def main():
    torch.set_default_dtype(torch.float64)
    model = ResNet18().train()
    parameters = {our_name(name): p for name, p in model.named_parameters()}
    for salt, (name, p) in enumerate(sorted(parameters.items())):
        with torch.no_grad():
            values = initial(name, tuple(p.shape), salt + 1).astype(numpy.float32)
            p.copy_(torch.from_numpy(values.astype(numpy.float64)).reshape(p.shape))
    salt = clearest(model)
    x = samples(salt)
    labels = torch.tensor([i * 3 % CLASSES for i in range(BATCH)])
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    logits = model(x)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    before = {name: p.detach().clone() for name, p in parameters.items()}
    optimizer.step()
    tensors = {}
    for name, p in sorted(parameters.items()):
        places = [int(i) for i in numpy.linspace(0, p.numel() - 1, SAMPLES)]
        tensors[name] = {
            "shape": list(p.shape), "norm": float(f"{p.grad.norm().item():.9g}"), "places": places,
            "gradient": short(p.grad.flatten()[places].tolist()),
            "change": short((p.detach() - before[name]).flatten()[places].tolist())}
    with torch.no_grad():
        after = F.cross_entropy(model(x), labels)
    content = {"salt": salt, "batch": BATCH, "size": SIZE, "classes": CLASSES, "rate": RATE,
               "logits": short(logits.detach().flatten().tolist()), "loss": loss.item(),
               "lossAfter": after.item(), "parameters": tensors}
    path = pathlib.Path(__file__).parent / "resnet18.json"
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
