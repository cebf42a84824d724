"""training.initialWeights: a job starts from what another one has learned, under every strategy."""
import json
import pathlib
import tempfile
import unittest

import local_job
from local_run import Run

MULTI = {"type": "MultiWorkerMirrored"}
SERVERS = {"type": "ParameterServer", "parameterServer": {"mode": "Sync"}}
CENTRAL = {"type": "CentralStorage", "processesPerPod": 2}
NOT_AT_ALL = {"name": "SGD", "learningRate": 1e-30}


class InitialWeightsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run = Run(cls.job("first", MULTI, steps=64, checkpoint={"directory": "/saved"}), cls.folder / "first")
        code, cls.first, err = run.finish()
        assert code == 0, f"{err}\n{run.logs()[-4000:]}"
        cls.weights = next((cls.folder / "first/volumes/saved").glob("step-*/model.safetensors"))

    @classmethod
    def job(cls, name, strategy, workers=2, **training):
        whole = {"model": {"name": "simple-cnn"}, "dataset": {"format": "synthetic"}, "batchSize": {"global": 64},
                 "optimizer": {"name": "Adam", "learningRate": 0.001}, **training}
        job = json.loads(local_job.text(name, whole, folders=["saved", "pretrained"], workers=workers))
        job["spec"]["strategy"] = strategy
        if strategy is SERVERS:
            job["spec"]["replicaSpecs"]["PS"] = {"replicas": 1}
        path = cls.folder / f"{name}.yaml"
        path.write_text(json.dumps(job))
        return path

    def from_the_first(self, name, strategy, exclude=(), **fields):
        job = self.job(name, strategy, steps=1, optimizer=NOT_AT_ALL, initialWeights={
            "path": "/pretrained/model.safetensors", "exclude": list(exclude)}, **fields)
        run = Run(job, self.folder / name, "--volume", f"pretrained={self.weights.parent}")
        self.addCleanup(run.kill)
        return run, run.finish()

    def test_every_strategy_starts_from_the_file(self):
        for name, strategy, workers in (("multi", MULTI, 2), ("servers", SERVERS, 2), ("central", CENTRAL, 1)):
            with self.subTest(strategy=strategy["type"]):
                run, (code, report, err) = self.from_the_first(name, strategy, workers=workers)
                self.assertEqual(0, code, f"{err}\n{run.logs()[-4000:]}")
                self.assertEqual(self.first["test_accuracy"], report["test_accuracy"])
                self.assertAlmostEqual(self.first["test_loss"], report["test_loss"], places=4)

    def test_what_is_excluded_is_random_again(self):
        run, (code, report, err) = self.from_the_first("excluded", MULTI, exclude=["dense"])
        self.assertEqual(0, code, f"{err}\n{run.logs()[-4000:]}")
        self.assertLess(report["test_accuracy"], self.first["test_accuracy"] - 0.3)

    def test_weights_of_another_model_are_refused_by_name(self):
        run, (code, report, _) = self.from_the_first("other", MULTI, model={"name": "mlp"})
        self.assertEqual((10, "Failed"), (code, report["state"]))
        self.assertRegex(run.logs(), r"initialWeights: .*model\.safetensors: found (no tensor|tensor) 'dense/weight'")


if __name__ == "__main__":
    unittest.main()
