#!/usr/bin/env python3
"""Writes the golden files of this folder that need Keras alone: its own optimizers and the formulas
of those that it lacks, on gradients that do not depend on the values, its loss of smoothed labels,
layers, its mix-up, and metrics of evaluations.

    python3 -m venv /tmp/golden && /tmp/golden/bin/pip install keras jax
    /tmp/golden/bin/python tests/golden/generate_keras.py

Inputs are float32 numbers, and Keras computes in float64, on JAX.
"""
import json
import os
import pathlib
import random

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_X64"] = "1"
import jax  # noqa: E402
import keras  # noqa: E402
import numpy  # noqa: E402

FOLDER = pathlib.Path(__file__).parent
keras.config.set_floatx("float64")


def values(generator, *shape):
    """float32 numbers in [-1, 1), as float64."""
    count = int(numpy.prod(shape))
    flat = [generator.random() * 2 - 1 for _ in range(count)]
    return numpy.array(flat, "float32").astype("float64").reshape(shape)


def numbers(array):
    return [float(f"{v:.9g}") for v in numpy.asarray(array).flatten().tolist()]


def tensor_json(array):
    return {"shape": list(array.shape), "data": numbers(array)}


def write(name, content):
    text = json.dumps(content, separators=(",", ":"))
    (FOLDER / f"{name}.json").write_text(text + "\n")


def optimizer_runs():
    """The settings in a job's words, and the optimizer of Keras that they mean."""
    rmsprop, adagrad = keras.optimizers.RMSprop, keras.optimizers.Adagrad
    return {
        "rmsprop": ({"name": "RMSprop", "learningRate": 0.01}, rmsprop(0.01)),
        "rmsprop_momentum": (
            {"name": "RMSprop", "learningRate": 0.02, "rho": 0.8, "momentum": 0.9, "epsilon": 1e-3,
             "weightDecay": 0.1},
            rmsprop(0.02, rho=0.8, momentum=0.9, epsilon=1e-3, weight_decay=0.1)),
        "adagrad": ({"name": "Adagrad", "learningRate": 0.05}, adagrad(0.05)),
        "adagrad_decay": (
            {"name": "Adagrad", "learningRate": 0.1, "initialAccumulatorValue": 0.5,
             "epsilon": 1e-2, "weightDecay": 0.2},
            adagrad(0.1, initial_accumulator_value=0.5, epsilon=1e-2, weight_decay=0.2)),
        "lars": ({"name": "LARS", "learningRate": 2, "trustCoefficient": 0.01},
                 Lars(2, coefficient=0.01)),
        "lars_momentum": ({"name": "LARS", "learningRate": 10, "momentum": 0.9, "weightDecay": 0.1},
                          Lars(10, momentum=0.9, decay=0.1)),
        "lars_nesterov": ({"name": "LARS", "learningRate": 10, "momentum": 0.9, "nesterov": True},
                          Lars(10, momentum=0.9, nesterov=True)),
        "lamb": ({"name": "LAMB", "learningRate": 0.02}, keras.optimizers.Lamb(0.02)),
        "lamb_decay": (
            {"name": "LAMB", "learningRate": 0.02, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-6,
             "weightDecay": 0.2},
            LambWithDecay(0.02, 0.8, 0.99, 1e-6, 0.2)),
    }


class Lars:
    """You, Gitman and Ginsburg, 2017, algorithm 1, in float64; Nesterov's momentum as Keras' SGD has it."""

    def __init__(self, rate, momentum=0.0, nesterov=False, coefficient=0.001, decay=0.0):
        self.rate, self.momentum, self.nesterov = rate, momentum, nesterov
        self.coefficient, self.decay, self.velocity = coefficient, decay, 0.0

    def apply(self, gradients, variables):
        g, w = numpy.asarray(gradients[0]), numpy.asarray(variables[0].value)
        norm = numpy.linalg.norm(w)
        trust = self.coefficient * norm / (numpy.linalg.norm(g) + self.decay * norm)
        move = self.rate * trust * (g + self.decay * w)
        self.velocity = self.momentum * self.velocity + move
        variables[0].assign(w - (self.momentum * self.velocity + move if self.nesterov else self.velocity))


class LambWithDecay:
    """You et al., 2020, algorithm 2, in float64. Keras' weight decay is not part of the update whose
    norm it takes, so its own Lamb serves without decay alone."""

    def __init__(self, rate, beta_1, beta_2, epsilon, decay):
        self.rate, self.beta_1, self.beta_2 = rate, beta_1, beta_2
        self.epsilon, self.decay = epsilon, decay
        self.m, self.v, self.step = 0.0, 0.0, 0

    def apply(self, gradients, variables):
        g, w = numpy.asarray(gradients[0]), numpy.asarray(variables[0].value)
        self.step += 1
        self.m = self.beta_1 * self.m + (1 - self.beta_1) * g
        self.v = self.beta_2 * self.v + (1 - self.beta_2) * g * g
        u = (self.m / (1 - self.beta_1 ** self.step)
             / (numpy.sqrt(self.v / (1 - self.beta_2 ** self.step)) + self.epsilon) + self.decay * w)
        variables[0].assign(w - self.rate * numpy.linalg.norm(w) / numpy.linalg.norm(u) * u)


def write_optimizers(generator, size=8, steps=10):
    """The values after each update. The gradients' sizes differ by three orders of magnitude."""
    start = values(generator, size)
    scales = numpy.float32(10.0) ** numpy.linspace(-3, 0, size).astype("float32")
    gradients = [(values(generator, size).astype("float32") * scales).astype("float64")
                 for _ in range(steps)]
    runs = {}
    for name, (spec, optimizer) in optimizer_runs().items():
        variable = keras.Variable(start, dtype="float64")
        after = []
        for gradient in gradients:
            optimizer.apply([keras.ops.convert_to_tensor(gradient, "float64")], [variable])
            after.append(numbers(variable.value))
        runs[name] = {"optimizer": spec, "values": after}
    write("optimizers", {"start": numbers(start), "gradients": [numbers(g) for g in gradients],
                         "runs": runs})


def muon_runs():
    """As optimizer_runs. Keras has no embeddings here, so its exclude_embeddings changes nothing."""
    muon = keras.optimizers.Muon
    return {
        "keras_defaults": ({"name": "Muon", "learningRate": 0.02},
                           muon(0.02, weight_decay=None, adam_weight_decay=None)),
        "every_setting": (
            {"name": "Muon", "learningRate": 0.05, "muonMomentum": 0.8, "muonNesterov": False, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-5,
             "adamLrRatio": 0.5, "weightDecay": 0.1, "excludeLayers": ["dense_1"]},
            muon(0.05, momentum=0.8, nesterov=False, adam_beta_1=0.8, adam_beta_2=0.99, epsilon=1e-5,
                 adam_lr_ratio=0.5, weight_decay=0.1, adam_weight_decay=0.1, exclude_layers=["dense_1"])),
    }


def write_muon(generator, steps=8):
    """The parameters of a Conv2D and three Dense after each update: kernels of four axes, and matrices that are wide,
    tall and of one row. In the file, a kernel is K,C,R,S and a matrix out,in, as a job has them; Keras has R,S,C,K and
    in,out."""
    shapes = {"conv2d/weight": (2, 1, 2, 2), "conv2d/bias": (2,), "dense/weight": (4, 8), "dense/bias": (4,),
              "dense_1/weight": (6, 4), "dense_1/bias": (6,), "dense_2/weight": (1, 6), "dense_2/bias": (1,)}

    def to_keras(array):
        return numpy.moveaxis(array, (0, 1), (3, 2)) if array.ndim == 4 else array.T

    def to_file(array):
        array = numpy.asarray(array)
        return numpy.moveaxis(array, (3, 2), (0, 1)) if array.ndim == 4 else array.T

    start = {name: values(generator, *shape) for name, shape in shapes.items()}
    # The second update's gradient is much smaller than the first one's.
    gradients = [{name: (values(generator, *shape) * 10.0 ** -(step % 3)).astype("float32").astype("float64")
                  for name, shape in shapes.items()} for step in range(steps)]
    runs = {}
    for name, (spec, optimizer) in muon_runs().items():
        variables = []
        for path, array in start.items():
            layer, weight = path.split("/")
            with keras.name_scope(layer):
                variables.append(keras.Variable(to_keras(array), dtype="float64", name=weight))
            assert variables[-1].path == path
        after = []
        for gradient in gradients:
            optimizer.apply([keras.ops.convert_to_tensor(to_keras(g), "float64") for g in gradient.values()],
                            variables)
            after.append({v.path: numbers(to_file(v.value)) for v in variables})
        runs[name] = {"optimizer": spec, "values": after}
    write("muon", {"start": {name: numbers(array) for name, array in start.items()},
                   "gradients": [{name: numbers(g) for name, g in gradient.items()} for gradient in gradients],
                   "runs": runs})


def write_label_smoothing(generator, rows=5, classes=4, smoothing=0.3, scale=0.25):
    loss = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=smoothing, reduction=None)
    logits = values(generator, rows, classes) * 8
    weights = numpy.array([1.0, 0.5, 2.0, 0.0, 1.0])
    labels = [generator.randrange(classes) for _ in range(rows)]
    soft = numpy.exp(values(generator, rows, classes))
    soft = (soft / soft.sum(1, keepdims=True)).astype("float32").astype("float64")
    cases = {}
    for name, target in (("with_labels", numpy.eye(classes)[labels]), ("with_soft", soft)):
        def total(x):
            return (loss(target, x) * weights).sum()
        right = logits.argmax(1) == target.argmax(1)
        cases[name] = {"loss": float(total(logits)), "correct": float((right * weights).sum()),
                       "dlogits": tensor_json(scale * jax.grad(total)(logits))}
    write("label_smoothing",
          {"logits": tensor_json(logits), "weights": weights.tolist(), "labels": labels,
           "soft": tensor_json(soft), "scale": scale, "smoothing": smoothing, **cases})


def run_layer(layer, x, generator):
    """What a layer without states computes, its weights and their gradients. Images are N,C,H,W in the file and N,H,W,C in Keras."""
    def channels_last(array):
        return numpy.moveaxis(array, 1, -1)

    layer.build(channels_last(x).shape)
    weights = [values(generator, *w.shape) for w in layer.trainable_variables]

    def forward(inputs, weights):
        y, _ = layer.stateless_call(weights, [], jax.numpy.moveaxis(inputs, 1, -1))
        return jax.numpy.moveaxis(y, -1, 1)

    y, pull = jax.vjp(forward, x, weights)
    dy = values(generator, *y.shape)
    dx, gradients = pull(dy)
    return {"x": tensor_json(x), "dy": tensor_json(dy), "y": tensor_json(y), "dx": tensor_json(dx),
            "states": [], "states_after": []}, weights, gradients


def write_layer_norms(generator):
    for name, shape in (("layer_norm_image", (3, 5, 3, 2)), ("layer_norm_matrix", (4, 7))):
        content, weights, gradients = run_layer(
            keras.layers.LayerNormalization(epsilon=1e-3), values(generator, *shape), generator)
        write(name, {"op": "layer_norm", "spec": {"epsilon": 1e-3}, **content,
                     "parameters": [tensor_json(w) for w in weights],
                     "gradients": [tensor_json(g) for g in gradients]})


def write_depthwise(generator):
    """Kernels are C*M,1,R,S in the file and R,S,C,M in Keras."""
    def of_file(kernel):
        return numpy.moveaxis(numpy.asarray(kernel), (2, 3), (0, 1)).reshape(-1, 1, *kernel.shape[:2])

    for name, shape, multiplier, kernel, strides, padding in (
            ("depthwise_conv2d_valid", (2, 4, 6, 5), 1, (3, 2), 1, "valid"),
            ("depthwise_conv2d_same_strided", (2, 8, 7, 6), 1, (3, 3), 2, "same"),
            ("depthwise_conv2d_multiplied", (2, 3, 6, 6), 2, (3, 3), 1, "same")):
        layer = keras.layers.DepthwiseConv2D(
            kernel, strides=strides, padding=padding, depth_multiplier=multiplier)
        content, weights, gradients = run_layer(layer, values(generator, *shape), generator)
        write(name, {"op": "depthwise_conv2d",
                     "spec": {"multiplier": multiplier, "kernel": kernel, "strides": [strides, strides],
                              "padding": padding},
                     **content,
                     "parameters": [tensor_json(of_file(weights[0])), tensor_json(weights[1])],
                     "gradients": [tensor_json(of_file(gradients[0])), tensor_json(gradients[1])]})


def results(metrics, label, given, weights):
    """Of the metrics, by the names that a job gives them; they see the rows in two batches."""
    half = len(given) // 2
    for metric in metrics.values():
        for rows in (slice(0, half), slice(half, None)):
            metric.update_state(label[rows], given[rows], sample_weight=weights[rows])
    return {name: float(metric.result()) for name, metric in metrics.items()}


def write_metrics(generator, top_k=2):
    kinds = keras.metrics

    def case(rows, outputs, scale):
        weights = numpy.array([float(generator.random() < 0.9) for _ in range(rows)])
        return values(generator, rows, outputs) * scale, weights

    logits, weights = case(30, 6, 3)
    logits[3] = logits[4] = 0.25  # of equal ones, none is before another
    labels = [generator.randrange(6) for _ in range(30)]
    one_hot = numpy.eye(6)[labels]
    soft = numpy.asarray(jax.nn.softmax(logits))
    classes = {"logits": tensor_json(logits), "weights": weights.tolist(), "labels": labels, "topK": top_k,
               "results": results({"TopKCategoricalAccuracy": kinds.SparseTopKCategoricalAccuracy(top_k)},
                                  numpy.array(labels), soft, weights),
               "oneHot": results({"TopKCategoricalAccuracy": kinds.TopKCategoricalAccuracy(top_k)},
                                 one_hot, soft, weights)}
    assert classes["results"] == classes["oneHot"]

    def decisions(rows, outputs):
        logits, weights = case(rows, outputs, 4)
        chance = numpy.asarray(jax.nn.sigmoid(logits))
        targets = numpy.array([[float(generator.random() < (1 + 2 * p) / 4) for p in row] for row in chance])
        found = results({"AUC": kinds.AUC(), "Precision": kinds.Precision(), "Recall": kinds.Recall()},
                        targets, chance, numpy.repeat(weights[:, None], outputs, 1))
        return {"logits": tensor_json(logits), "weights": weights.tolist(), "targets": tensor_json(targets), "results": found}

    given, weights = case(20, 3, 2)
    targets = values(generator, 20, 3)
    errors = {"logits": tensor_json(given), "weights": weights.tolist(), "targets": tensor_json(targets),
              "results": results({"MeanSquaredError": kinds.MeanSquaredError(),
                                  "RootMeanSquaredError": kinds.RootMeanSquaredError()}, targets, given, weights)}
    write("evaluation_metrics", {"classes": classes, "binary": decisions(120, 1),
                                 "severalLabels": decisions(30, 3), "numbers": errors})


def write_mix_up(generator, rows=6, classes=4, shape=(3, 2, 2), unit=65536):
    """Images of bytes; weights in units of 1 / 65536."""
    images = numpy.array([generator.randrange(256) for _ in range(rows * int(numpy.prod(shape)))]).reshape(rows, *shape)
    labels = numpy.eye(classes)[[generator.randrange(classes) for _ in range(rows)]]
    weights = [0, unit, unit // 2, *(generator.randrange(unit) for _ in range(rows - 3))]
    partners = [row ^ 1 for row in range(rows)]
    drawn = {"mix_weight": numpy.array(weights) / unit, "permutation_order": numpy.array(partners)}
    layer = keras.layers.MixUp(alpha=0.2, data_format="channels_last")
    mixed = numpy.asarray(layer.transform_images(images, drawn))
    write("mix_up", {"images": images.reshape(rows, -1).tolist(), "labels": labels.tolist(),
                     "weights": weights, "partners": partners,
                     "mixedImages": [numbers(image) for image in mixed],
                     "mixedLabels": [numbers(label) for label in layer.transform_labels(labels, drawn)]})


def main():
    write_optimizers(random.Random(2026))
    write_muon(random.Random(2027))
    write_label_smoothing(random.Random(2))
    write_layer_norms(random.Random(31))
    write_depthwise(random.Random(32))
    write_metrics(random.Random(33))
    write_mix_up(random.Random(34))


if __name__ == "__main__":
    main()
