"""Trains from files of a user's own, of a format other than MNIST's."""
import pathlib
import random
import tempfile
import unittest

import local_job
from local_run import Run

FEATURES = 10


def write_table(path, rows, seed):
    """Rows of ten features, whose sum tells the class."""
    drawn = random.Random(seed)
    lines = [",".join([*(f"x{i}" for i in range(FEATURES)), "species"])]
    for _ in range(rows):
        values = [drawn.uniform(-1, 1) for _ in range(FEATURES)]
        lines.append(",".join([*(f"{value:.6f}" for value in values), str(int(sum(values) > 0))]))
    path.write_text("\n".join(lines) + "\n")


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


if __name__ == "__main__":
    unittest.main()
