"""Trains from files in a user's own formats, and runs the examples that need such files or define a model of layers."""
import os
import pathlib
import random
import struct
import tempfile
import unittest
import zlib

import local_job
from local_run import Run, RunTest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
FEATURES = 10


def write_table(path, rows, seed):
    """Rows of ten features, whose sum tells the class."""
    drawn = random.Random(seed)
    lines = [",".join([*(f"x{i}" for i in range(FEATURES)), "species"])]
    for _ in range(rows):
        values = [drawn.uniform(-1, 1) for _ in range(FEATURES)]
        lines.append(",".join([*(f"{value:.6f}" for value in values), str(int(sum(values) > 0))]))
    path.write_text("\n".join(lines) + "\n")


def write_png(path, side, color):
    """A square of one color."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + bytes(color) * side for _ in range(side))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class ExamplesTest(RunTest):
    """Examples that read a user's files, or define a model of layers."""

    def finish(self, example, folders, *changes):
        arguments = [f"--volume={name}={folder}" for name, folder in folders.items()]
        for change in changes:
            arguments += ["--set", f"spec.{change}"]
        run = Run(EXAMPLES / example, f"{self.folder}/run", *arguments)
        self.addCleanup(run.kill)
        code, report, err = run.finish()
        self.assertEqual(0, code, f"{err}\n{run.logs()[-4000:]}")
        return report

    def test_the_mnist_example_reads_mnists_files(self):
        for prefix, images in (("train", 256), ("t10k", 64)):
            labels = bytes(i % 10 for i in range(images))
            pixels = b"".join(bytes([25 * label]) * 28 * 28 for label in labels)
            for kind, header, content in (("images-idx3", (0x803, images, 28, 28), pixels),
                                          ("labels-idx1", (0x801, images), labels)):
                (pathlib.Path(self.folder) / f"{prefix}-{kind}-ubyte").write_bytes(
                    struct.pack(f">{len(header)}I", *header) + content)
        report = self.finish("mnist.yaml", {"data": self.folder})
        self.assertEqual(4, report["steps"])
        self.assertTrue(list(pathlib.Path(self.folder).glob("run/volumes/checkpoints/mnist.onnx")))

    def test_two_mirrored_processes_learn_a_table(self):
        write_table(pathlib.Path(self.folder) / "train.csv", 2000, seed=1)
        report = self.finish("mirrored.yaml", {"table": self.folder}, "training.model.layers[1].units=2")
        self.assertGreater(report["test_accuracy"], 0.9)

    def test_a_model_of_layers_predicts_what_it_has_learned(self):
        small = ("replicaSpecs.Worker.replicas=1", "training.batchSize.global=32",
                 "training.dataset.synthetic.trainExamples=1024")
        report = self.finish("mobilenet.yaml", {}, *small, "training.epochs=8")
        self.assertGreater(report["test_accuracy"], 0.7)
        report = self.finish("residual.yaml", {}, *small, "training.dataset.synthetic.shape=[1, 14, 14]")
        self.assertGreater(report["test_accuracy"], 0.85)

    def test_a_resnet_50_reads_a_folder_of_images(self):
        images = pathlib.Path(self.folder) / "images"
        for part, count in (("train", 8), ("val", 2)):
            for label, color in (("blue", (0, 0, 250)), ("red", (250, 0, 0))):
                (images / part / label).mkdir(parents=True)
                for i in range(count):
                    write_png(images / part / label / f"{i}.png", 40 + i, color)
        report = self.finish("image-folder.yaml", {"images": images}, "replicaSpecs.Worker.replicas=1",
                             "training.dataset.imageSize=[32, 32]", "training.batchSize.global=8",
                             "training.epochs=1", "training.learningRateSchedule.warmupSteps=0")
        self.assertEqual(2, report["steps"])


class FormatsTest(unittest.TestCase):
    def test_two_workers_learn_a_table_of_ten_features(self):
        training = {
            "model": {"layers": [{"type": "Dense", "units": 128, "activation": "relu"},
                                 {"type": "Dense", "units": 2}]},
            "dataset": {"format": "csv", "path": "/data", "csv": {"labelColumn": "species"},
                        "validationFraction": 0.2},
            "batchSize": {"global": 50}, "epochs": 8,
            "optimizer": {"name": "Adam", "learningRate": 0.005}}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "data").mkdir()
            write_table(folder / "data" / "train.csv", 2000, seed=1)
            job = folder / "table.yaml"
            job.write_text(local_job.text("table", training, folders=("data",), cpu="1"))
            run = Run(job, folder / "work", "--volume", f"data={folder / 'data'}")
            code, result, err = run.finish()
            self.assertEqual(0, code, err + run.logs())
            self.assertEqual(256, result["steps"])  # 1,600 samples an epoch, 50 a step
            self.assertGreater(result["test_accuracy"], 0.9)

    def test_two_workers_learn_from_mixed_images(self):
        training = {
            "model": {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 10}]},
            "dataset": {"format": "synthetic", "synthetic": {"trainExamples": 1001, "shape": [1, 8, 8]},
                        "augment": {"mixUp": {"alpha": 0.4}}},
            "batchSize": {"global": 50}, "epochs": 12, "optimizer": {"name": "Adam", "learningRate": 0.01}}
        with tempfile.TemporaryDirectory() as folder:
            job = pathlib.Path(folder) / "mixed.yaml"
            job.write_text(local_job.text("mixed", training, folders=(), cpu="1"))
            run = Run(job, f"{folder}/work")
            code, result, err = run.finish()
            self.assertEqual(0, code, err + run.logs())
            self.assertEqual(12 * 21, result["steps"])
            self.assertGreater(result["test_accuracy"], 0.9)
            # The labels' own entropy remains in the loss of training, and in that only.
            self.assertLess(result["test_loss"], 0.7 * result["loss"])

    def test_decoded_images_are_read_from_the_disk_by_the_next_run(self):
        training = {
            "model": {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 2}]},
            "dataset": {"format": "imageFolder", "path": "/images", "imageSize": [16, 16], "cacheDirectory": "/cache",
                        "normalize": {"mean": [0.5, 0.4, 0.3], "std": [0.25, 0.2, 0.3]}},
            "batchSize": {"global": 8}, "epochs": 2}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "cache").mkdir()
            for part, count in (("train", 16), ("val", 4)):
                for label, color in (("blue", (0, 0, 250)), ("red", (250, 0, 0))):
                    (folder / "images" / part / label).mkdir(parents=True)
                    for i in range(count):
                        write_png(folder / "images" / part / label / f"{i}.png", 20 + i, color)
            job = folder / "images.yaml"
            job.write_text(local_job.text("images", training, folders=("images", "cache"), workers=2, cpu="1"))
            results = []
            for name in ("first", "next"):
                run = Run(job, folder / name, "--volume", f"images={folder / 'images'}",
                          "--volume", f"cache={folder / 'cache'}")
                code, result, err = run.finish()
                self.assertEqual(0, code, err + run.logs())
                results.append(result)
                slot = 3 * 16 * 16 + 24
                self.assertEqual([8 * slot, 32 * slot],
                                 sorted(file.stat().st_size for file in (folder / "cache").iterdir()))
                # No decoder would take them; only their sizes and times are as before.
                for image in (folder / "images").glob("*/*/*.png"):
                    before = image.stat()
                    image.write_bytes(b"x" * before.st_size)
                    os.utime(image, ns=(before.st_atime_ns, before.st_mtime_ns))
            self.assertEqual(results[0]["test_loss"], results[1]["test_loss"])


if __name__ == "__main__":
    unittest.main()
