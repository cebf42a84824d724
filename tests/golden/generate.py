#!/usr/bin/env python3
"""Writes the golden files of this folder: what PyTorch and Keras compute for small inputs.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install torch keras
    /tmp/golden/bin/python tests/golden/generate.py

Inputs are float32 numbers, and both compute in float64, so the files hold the exact answers to
float32's precision. Ops are PyTorch's, with Keras' padding "same" spelled out here; optimizers are
Keras' own, on PyTorch's gradients. The tests tests/trainer/{backend,optim}/golden_*.cc read the files; run this again
only to add a case.
"""
import json
import math
import os
import pathlib

os.environ["KERAS_BACKEND"] = "torch"
import keras  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

FOLDER = pathlib.Path(__file__).parent
torch.set_default_dtype(torch.float64)
keras.config.set_floatx("float64")


def values(generator, *shape):
    """float32 numbers in [-1, 1), as float64."""
    return (torch.rand(shape, generator=generator, dtype=torch.float32) * 2 - 1).double()


def tensor_json(tensor):
    tensor = tensor.detach()
    return {"shape": list(tensor.shape),
            "data": [float(f"{v:.9g}") for v in tensor.flatten().tolist()]}


def write(name, content):
    text = json.dumps(content, separators=(",", ":"))
    (FOLDER / f"{name}.json").write_text(text + "\n")


def same_padding(size, window, stride):
    """TensorFlow's: (before, after), the odd one after."""
    total = max(0, (math.ceil(size / stride) - 1) * stride + window - size)
    return total // 2, total - total // 2


def pad(x, window, strides, padding, value=0.0):
    if padding == "valid":
        return x
    top, bottom = same_padding(x.shape[2], window[0], strides[0])
    left, right = same_padding(x.shape[3], window[1], strides[1])
    return F.pad(x, (left, right, top, bottom), value=value)


def write_op(name, op, spec, x, parameters, function, states=()):
    """`function(x, *parameters)` gives y, and with states the states afterwards as well."""
    generator = torch.Generator().manual_seed(len(name))
    inputs = [t.clone().requires_grad_() for t in (x, *parameters)]
    y = function(*inputs)
    after = []
    if states:
        y, after = y
    dy = values(generator, *y.shape)
    gradients = torch.autograd.grad(y, inputs, dy)
    write(name, {"op": op, "spec": spec, "x": tensor_json(x), "dy": tensor_json(dy),
                 "parameters": [tensor_json(p) for p in parameters],
                 "states": [tensor_json(s) for s in states],
                 "y": tensor_json(y), "dx": tensor_json(gradients[0]),
                 "gradients": [tensor_json(g) for g in gradients[1:]],
                 "states_after": [tensor_json(s) for s in after]})


def write_convolutions(generator):
    cases = {
        "conv2d_valid": ((2, 3, 6, 5), 4, (3, 2), (1, 1), "valid", False),
        "conv2d_same_relu": ((2, 2, 6, 6), 3, (5, 5), (1, 1), "same", True),
        "conv2d_same_strided": ((2, 2, 7, 6), 3, (3, 4), (2, 2), "same", False),
    }
    for name, (shape, filters, kernel, strides, padding, relu) in cases.items():
        weight = values(generator, filters, shape[1], *kernel)
        bias = values(generator, filters)

        def conv(x, w, b):
            y = F.conv2d(pad(x, kernel, strides, padding), w, b, stride=strides)
            return y.relu() if relu else y

        write_op(name, "conv2d",
                 {"filters": filters, "kernel": kernel, "strides": strides, "padding": padding,
                  "relu": relu},
                 values(generator, *shape), (weight, bias), conv)


def write_dense(generator):
    for name, relu in (("dense", False), ("dense_relu", True)):
        write_op(name, "dense", {"units": 4, "relu": relu}, values(generator, 5, 7),
                 (values(generator, 4, 7), values(generator, 4)),
                 lambda x, w, b: F.linear(x, w, b).relu() if relu else F.linear(x, w, b))


def write_pools(generator):
    def max_pool(x, window, strides, padding):
        return F.max_pool2d(pad(x, window, strides, padding, -math.inf), window, strides)

    def average_pool(x, window, strides, padding):
        area = window[0] * window[1]
        def sums(t):
            return F.avg_pool2d(pad(t, window, strides, padding), window, strides) * area
        return sums(x) / sums(torch.ones_like(x))  # padding takes no part

    for kind, pool in (("max", max_pool), ("average", average_pool)):
        for padding, window, strides in (("valid", (2, 2), (2, 2)), ("same", (3, 2), (2, 1))):
            write_op(f"pool2d_{kind}_{padding}", "pool2d",
                     {"kind": kind, "window": window, "strides": strides, "padding": padding},
                     values(generator, 2, 3, 7, 6), (),
                     lambda x: pool(x, window, strides, padding))
    write_op("global_average_pool2d", "global_average_pool2d", {}, values(generator, 3, 4, 5, 3),
             (), lambda x: x.mean((2, 3)))


def write_elementwise(generator):
    write_op("relu", "relu", {}, values(generator, 3, 4, 3, 2), (), lambda x: x.relu())
    # From -8 to 8, where each of them has become flat or straight.
    for name, function in (("gelu", F.gelu), ("silu", F.silu), ("tanh", torch.tanh),
                           ("leaky_relu", lambda x: F.leaky_relu(x, 0.2))):
        own = torch.Generator().manual_seed(8)
        write_op(name, name, {}, values(own, 3, 4, 3, 2) * 8, (), function)
    for name, shape in (("batch_norm_image", (4, 3, 3, 2)), ("batch_norm_matrix", (6, 5))):
        channels, momentum, epsilon = shape[1], 0.9, 1e-3
        axes = (0,) + tuple(range(2, len(shape)))
        mean, variance = values(generator, channels), values(generator, channels).abs() + 0.5

        def batch_norm(x, gamma, beta):
            y = F.batch_norm(x, None, None, gamma, beta, training=True, eps=epsilon)
            # Keras' moving variance is that of the step, PyTorch's the unbiased estimate.
            return y, [momentum * mean + (1 - momentum) * x.mean(axes),
                       momentum * variance + (1 - momentum) * x.var(axes, correction=0)]

        write_op(name, "batch_norm", {"momentum": momentum, "epsilon": epsilon},
                 values(generator, *shape), (values(generator, channels), values(generator, channels)),
                 batch_norm, (mean, variance))


def write_losses_of_rows(generator):
    logits = (values(generator, 5, 4) * 8).requires_grad_()
    weights = torch.tensor([1.0, 0.5, 2.0, 0.0, 1.0])
    labels = torch.tensor([0, 3, 1, 2, 3])
    soft = torch.softmax(values(generator, 5, 4), 1).float().double()
    scale = 0.25
    cases = {}
    for name, target in (("with_labels", labels), ("with_soft", soft)):
        rows = F.cross_entropy(logits, target, reduction="none") * weights
        (gradient,) = torch.autograd.grad(rows.sum() * scale, logits)
        right = logits.argmax(1) == (labels if target is labels else soft.argmax(1))
        cases[name] = {"loss": rows.sum().item(), "correct": (right * weights).sum().item(),
                       "dlogits": tensor_json(gradient)}
    write("softmax_cross_entropy",
          {"logits": tensor_json(logits), "weights": weights.tolist(), "labels": labels.tolist(),
           "soft": tensor_json(soft), "scale": scale, **cases})


def write_losses_of_numbers(generator):
    """Each loss is the mean over a row's outputs; "correct" is what LossTotals counts besides."""
    outputs = (values(generator, 5, 3) * 4).requires_grad_()
    targets = (values(generator, 5, 3) > 0).double()
    weights = torch.tensor([1.0, 0.5, 2.0, 0.0, 1.0])
    scale, smoothing, delta = 0.25, 0.3, 1.5
    smoothed = targets * (1 - smoothing) + smoothing / 2
    right = ((outputs > 0) == (targets > 0.5)).double()
    error = (outputs - targets).abs()
    cases = {}
    for name, terms, correct in (
            ("binary", F.binary_cross_entropy_with_logits(outputs, targets, reduction="none"), right),
            ("smoothed", F.binary_cross_entropy_with_logits(outputs, smoothed, reduction="none"), right),
            ("squared", F.mse_loss(outputs, targets, reduction="none"), error),
            ("absolute", F.l1_loss(outputs, targets, reduction="none"), error),
            ("huber", F.huber_loss(outputs, targets, reduction="none", delta=delta), error)):
        rows = terms.mean(1) * weights
        (gradient,) = torch.autograd.grad(rows.sum() * scale, outputs)
        cases[name] = {"loss": rows.sum().item(), "correct": (correct.mean(1) * weights).sum().item(),
                       "dlogits": tensor_json(gradient)}
    write("losses_of_numbers",
          {"logits": tensor_json(outputs), "weights": weights.tolist(), "targets": tensor_json(targets),
           "scale": scale, "smoothing": smoothing, "delta": delta, **cases})


class KerasOptimizer:
    """One of Keras' own optimizers, in float64, over tensors of PyTorch's."""

    def __init__(self, parameters, optimizer):
        self.parameters = parameters
        self.variables = [keras.Variable(p.detach().clone(), dtype="float64") for p in parameters]
        self.optimizer = optimizer

    @torch.no_grad()
    def step(self):
        self.optimizer.apply([p.grad for p in self.parameters], self.variables)
        for p, variable in zip(self.parameters, self.variables):
            p.copy_(variable.value)


def sgd(rate, momentum=0.0, nesterov=False, weight_decay=None):
    return lambda p: KerasOptimizer(p, keras.optimizers.SGD(
        learning_rate=rate, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay))


def adam(rate, beta1, beta2, epsilon, weight_decay=None):
    return lambda p: KerasOptimizer(p, keras.optimizers.Adam(
        learning_rate=rate, beta_1=beta1, beta_2=beta2, epsilon=epsilon,
        weight_decay=weight_decay))


OPTIMIZERS = {
    "sgd": ({"name": "SGD", "learningRate": 0.05, "momentum": 0.0, "nesterov": False,
             "weightDecay": 0.0},
            sgd(0.05)),
    "momentum": ({"name": "SGD", "learningRate": 0.05, "momentum": 0.9, "nesterov": False,
                  "weightDecay": 0.0},
                 sgd(0.05, 0.9)),
    "nesterov": ({"name": "SGD", "learningRate": 0.05, "momentum": 0.8, "nesterov": True,
                  "weightDecay": 0.01},
                 sgd(0.05, 0.8, True, 0.01)),
    "adam": ({"name": "Adam", "learningRate": 0.01, "beta1": 0.9, "beta2": 0.999,
              "epsilon": 1e-7, "weightDecay": 0.0},
             adam(0.01, 0.9, 0.999, 1e-7)),
    "adamw": ({"name": "Adam", "learningRate": 0.01, "beta1": 0.8, "beta2": 0.99,
               "epsilon": 1e-5, "weightDecay": 0.1},
              adam(0.01, 0.8, 0.99, 1e-5, 0.1)),
}


def write_training(generator, name, layers, sample, batch, parameters, forward, steps=10):
    """The first losses (before each update) on one batch, for every optimizer."""
    classes = 4
    x = values(generator, batch, *sample)
    labels = torch.randint(classes, (batch,), generator=generator)
    runs = {}
    for key, (spec, make) in OPTIMIZERS.items():
        trained = {n: p.clone().requires_grad_() for n, p in parameters.items()}
        optimizer = make(list(trained.values()))
        losses = []
        for _ in range(steps):
            for p in trained.values():
                p.grad = None
            loss = F.cross_entropy(forward(x, trained), labels)
            loss.backward()
            losses.append(float(f"{loss.item():.12g}"))
            optimizer.step()
        runs[key] = {"optimizer": spec, "losses": losses}
    write(name, {"layers": layers, "x": tensor_json(x), "labels": labels.tolist(),
                 "classes": classes,
                 "parameters": {n: tensor_json(p) for n, p in parameters.items()}, "runs": runs})


def write_trainings(generator):
    def parameter(*shape):
        return values(generator, *shape) * (0.5 if len(shape) > 1 else 0.1)

    relu = {"activation": "relu"}
    write_training(
        generator, "training_mlp",
        [{"type": "Flatten"}, {"type": "Dense", "units": 16, **relu}, {"type": "Dense", "units": 4}],
        (1, 4, 4), 6,
        {"dense/weight": parameter(16, 16), "dense/bias": parameter(16),
         "dense_1/weight": parameter(4, 16), "dense_1/bias": parameter(4)},
        lambda x, p: F.linear(F.linear(x.flatten(1), p["dense/weight"], p["dense/bias"]).relu(),
                              p["dense_1/weight"], p["dense_1/bias"]))

    def cnn(x, p):
        for conv in ("conv2d", "conv2d_1"):
            x = F.conv2d(x, p[f"{conv}/weight"], p[f"{conv}/bias"], padding=2).relu()
            x = F.max_pool2d(x, 2)
        x = F.linear(x.flatten(1), p["dense/weight"], p["dense/bias"]).relu()
        return F.linear(x, p["dense_1/weight"], p["dense_1/bias"])

    conv = {"type": "Conv2D", "kernelSize": 5, "padding": "same", **relu}
    write_training(
        generator, "training_cnn",
        [{**conv, "filters": 3}, {"type": "MaxPooling2D"}, {**conv, "filters": 4},
         {"type": "MaxPooling2D"}, {"type": "Flatten"}, {"type": "Dense", "units": 8, **relu},
         {"type": "Dense", "units": 4}],
        (1, 8, 8), 4,
        {"conv2d/weight": parameter(3, 1, 5, 5), "conv2d/bias": parameter(3),
         "conv2d_1/weight": parameter(4, 3, 5, 5), "conv2d_1/bias": parameter(4),
         "dense/weight": parameter(8, 16), "dense/bias": parameter(8),
         "dense_1/weight": parameter(4, 8), "dense_1/bias": parameter(4)}, cnn)


def write_graph_trainings():
    """Residual and Inception-like blocks. Generators of their own keep the other files as they are."""
    def parameters_of(generator, shapes):
        parameters = {}
        for name, shape in shapes.items():
            parameters[f"{name}/weight"] = values(generator, *shape) * 0.5
            parameters[f"{name}/bias"] = values(generator, shape[0]) * 0.1
        return parameters

    def conv(p, name, x, padding=1):
        return F.conv2d(x, p[f"{name}/weight"], p[f"{name}/bias"], padding=padding)

    def dense(p, x):
        return F.linear(x, p["dense/weight"], p["dense/bias"])

    def residual(x, p):
        stem = conv(p, "stem", x).relu()
        block = (stem + conv(p, "b", conv(p, "a", stem).relu())).relu()
        down = (conv(p, "shortcut", block, 0) + conv(p, "c", block)).relu()
        return dense(p, F.max_pool2d(down, 2).flatten(1))

    def layer(name, filters, kernel, activation="linear", inputs=None):
        return {"type": "Conv2D", "name": name, "filters": filters, "kernelSize": kernel,
                "padding": "same", "activation": activation,
                **({"inputs": inputs} if inputs else {})}

    generator = torch.Generator().manual_seed(7)
    write_training(
        generator, "training_residual",
        [layer("stem", 3, 3, "relu"), layer("a", 3, 3, "relu"), layer("b", 3, 3),
         {"type": "Add", "inputs": ["stem", "b"]}, {"type": "ReLU", "name": "block"},
         layer("shortcut", 4, 1), layer("c", 4, 3, inputs=["block"]),
         {"type": "Add", "inputs": ["shortcut", "c"]}, {"type": "ReLU"}, {"type": "MaxPooling2D"},
         {"type": "Flatten"}, {"type": "Dense", "units": 4}],
        (2, 6, 6), 4,
        parameters_of(generator, {"stem": (3, 2, 3, 3), "a": (3, 3, 3, 3), "b": (3, 3, 3, 3),
                                  "shortcut": (4, 3, 1, 1), "c": (4, 3, 3, 3), "dense": (4, 36)}),
        residual, steps=20)

    def inception(x, p):
        stem = conv(p, "stem", x).relu()
        merged = torch.cat([conv(p, "one", stem, 0).relu(), F.gelu(conv(p, "three", stem)),
                            F.max_pool2d(stem, 3, 1, 1), x], 1)
        return dense(p, merged.mean((2, 3)))

    generator = torch.Generator().manual_seed(11)
    write_training(
        generator, "training_inception",
        [layer("stem", 3, 3, "relu"), layer("one", 2, 1, "relu"),
         layer("three", 4, 3, "gelu", ["stem"]),
         {"type": "MaxPooling2D", "name": "pool", "poolSize": 3, "strides": 1, "padding": "same",
          "inputs": ["stem"]},
         {"type": "Concatenate", "inputs": ["one", "three", "pool", "input"]},
         {"type": "GlobalAveragePooling2D"}, {"type": "Dense", "units": 4}],
        (2, 6, 6), 4,
        parameters_of(generator, {"stem": (3, 2, 3, 3), "one": (2, 3, 1, 1),
                                  "three": (4, 3, 3, 3), "dense": (4, 11)}),
        inception, steps=20)


def main():
    generator = torch.Generator().manual_seed(2026)
    write_convolutions(generator)
    write_dense(generator)
    write_pools(generator)
    write_elementwise(generator)
    write_losses_of_rows(generator)
    write_losses_of_numbers(torch.Generator().manual_seed(15))
    write_trainings(generator)
    write_graph_trainings()


if __name__ == "__main__":
    main()
