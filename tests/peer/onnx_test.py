"""What ONNX Runtime computes with an exported model is what our evaluation has computed."""
import json
import subprocess

import peer

peer.run_in_peers()

import numpy  # noqa: E402
import onnxruntime  # noqa: E402

# Every type of layer but ReLU and Softmax (see test_probabilities), odd windows, all hidden layers' activations.
LAYERS = [
    {"type": "ZeroPadding2D", "padding": 1},
    {"type": "Conv2D", "filters": 6, "kernelSize": [3, 4], "strides": 2, "padding": "same", "activation": "relu"},
    {"type": "BatchNormalization", "momentum": 0.5, "name": "norm"},
    {"type": "Conv2D", "filters": 6, "kernelSize": 3, "padding": "same", "useBias": False, "activation": "gelu"},
    {"type": "Add", "inputs": ["norm", "conv2d_1"], "name": "sum"},
    {"type": "DepthwiseConv2D", "kernelSize": 3, "padding": "same", "depthMultiplier": 2, "activation": "relu"},
    {"type": "SeparableConv2D", "filters": 6, "kernelSize": [2, 3], "padding": "same", "activation": "gelu",
     "name": "separable"},
    {"type": "Add", "inputs": ["sum", "separable"], "name": "sums"},
    {"type": "MaxPooling2D", "poolSize": 3, "strides": 2, "padding": "same", "name": "max"},
    {"type": "AveragePooling2D", "inputs": ["sums"], "poolSize": [3, 2], "strides": 2, "padding": "same",
     "name": "mean"},
    {"type": "Concatenate", "inputs": ["max", "mean"]},
    {"type": "LayerNormalization"},
    {"type": "LeakyReLU", "name": "leaky"},
    {"type": "GlobalAveragePooling2D", "name": "global"},
    {"type": "Flatten", "inputs": ["leaky"], "name": "flat"},
    {"type": "Concatenate", "inputs": ["global", "flat"]},
    {"type": "Dense", "units": 12, "activation": "silu"},
    {"type": "Dropout", "rate": 0.3},
    {"type": "BatchNormalization", "momentum": 0.5},
    {"type": "LayerNormalization", "epsilon": 0.01, "center": False},
    {"type": "Dense", "units": 9, "activation": "tanh", "useBias": False},
    {"type": "Activation", "activation": "leaky_relu"},
    {"type": "Dense", "units": 4},
]


class OnnxTest(peer.LocalRunTest):
    def write_data(self):
        random = numpy.random.default_rng(3)
        folder = self.work_dir / "data"
        folder.mkdir()
        samples, labels = {}, {}
        for part, count in (("train", 1024), ("test", 96)):
            labels[part] = random.integers(0, 4, count)
            samples[part] = random.normal(size=(count, 2, 9, 11)).astype("float32")
            samples[part][numpy.arange(count), 0, labels[part], labels[part]] += 3
            numpy.save(folder / f"x_{part}.npy", samples[part])
            numpy.save(folder / f"y_{part}.npy", labels[part])
        return folder, samples["test"], labels["test"]

    def train(self, data, layers):
        volumes = [{"name": name, "emptyDir": {}} for name in ("data", "saved")]
        container = {"name": "trainer", "volumeMounts": [
            {"name": name, "mountPath": f"/{name}"} for name in ("data", "saved")]}
        training = {
            "model": {"layers": layers}, "dataset": {"format": "npy", "path": "/data"}, "epochs": 6,
            "batchSize": {"global": 32}, "optimizer": {"name": "Adam", "learningRate": 0.01},
            "checkpoint": {"directory": "/saved"}}
        job = self.work_dir / "job.yaml"
        job.write_text(json.dumps({
            "apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "metadata": {"name": "onnx"},
            "spec": {"training": training, "replicaSpecs": {"Worker": {
                "template": {"spec": {"containers": [container], "volumes": volumes}}}}}}))
        return self.lockstep_run(job, "--volume", f"data={data}")

    def outputs_of(self, checkpoint, samples):
        graph = self.work_dir / "model.onnx"
        subprocess.run([peer.options.lockstep, "export", checkpoint, graph], check=True, cwd=peer.ROOT,
                       stdin=subprocess.DEVNULL)
        session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
        return session.run(None, {"input": samples})[0]

    def check(self, layers, to_probabilities):
        data, samples, labels = self.write_data()
        report = self.train(data, layers)
        found = to_probabilities(self.outputs_of(report["checkpoint"], samples))
        self.assertEqual((len(labels), 4), found.shape)
        loss = -numpy.log(found[numpy.arange(len(labels)), labels]).mean()
        self.assertAlmostEqual(report["test_loss"], loss, delta=1e-5 * abs(loss))
        self.assertEqual(report["test_accuracy"], (found.argmax(axis=1) == labels).mean())
        self.assertGreater(report["test_accuracy"], 0.5)  # it has learned: the tensors matter

    def test_logits(self):
        def softmax(logits):
            powers = numpy.exp(logits.astype("float64") - logits.max(axis=1, keepdims=True))
            return powers / powers.sum(axis=1, keepdims=True)
        self.check(LAYERS, softmax)

    def test_probabilities(self):
        self.check([*LAYERS, {"type": "Softmax"}], lambda found: found.astype("float64"))


if __name__ == "__main__":
    peer.main()
