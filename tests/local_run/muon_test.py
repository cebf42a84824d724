"""The optimizer Muon in real processes: a restart, and processors whose products round differently."""
import hashlib
import json
import pathlib
import unittest

import local_job
from local_run import RunTest


class MuonTest(RunTest):
    def train(self, name, folder, steps, expected_code=0, chief_env=(), workers=2, **optimizer):
        training = {"model": {"name": "simple-cnn"}, "steps": steps, "batchSize": {"global": 32},
                    "dataset": {"format": "synthetic", "synthetic": {"trainExamples": 512, "testExamples": 128}},
                    "optimizer": {"name": "Muon", "learningRate": 0.002, **optimizer},
                    "checkpoint": {"directory": "/saved"}}
        job = json.loads(local_job.text(name, training, folders=["saved"], workers=workers))
        if chief_env:
            roles = job["spec"]["replicaSpecs"]
            roles["Chief"] = json.loads(json.dumps({**roles["Worker"], "replicas": 1}))
            roles["Chief"]["template"]["spec"]["containers"][0]["env"] = list(chief_env)
            roles["Worker"]["replicas"] = workers - 1
        path = pathlib.Path(self.folder) / f"{name}.json"
        path.write_text(json.dumps(job))
        folder.mkdir(exist_ok=True)
        run = self.start(path, name, "--volume", f"saved={folder}")
        code, report, err = run.finish()
        self.assertEqual(expected_code, code, f"{err}\n{run.logs()[-6000:]}")
        return report, run.logs()

    def saved(self, folder):
        """What the newest checkpoint holds, by file."""
        newest = sorted(folder.glob("step-*/manifest.json"))[-1].parent
        return {path.name: path.read_bytes() for path in newest.glob("*.safetensors")}

    def test_a_run_that_goes_on_ends_with_the_bits_of_an_uninterrupted_one(self):
        folder = pathlib.Path(self.folder)
        report, logs = self.train("whole", folder / "whole", 40, weightDecay=0.01)
        self.assertGreater(report["test_accuracy"], 0.5)
        ends = [json.loads(line) for line in logs.splitlines() if '"message":"the run is done"' in line]
        self.assertEqual({0, 1}, {end["rank"] for end in ends})
        self.assertEqual(1, len({end["checksum"] for end in ends}), ends)
        self.train("first", folder / "parted", 25, weightDecay=0.01)
        self.train("second", folder / "parted", 40, weightDecay=0.01)
        whole, parted = self.saved(folder / "whole"), self.saved(folder / "parted")
        self.assertIn(b'"m/dense/weight"', whole["optimizer.safetensors"])
        self.assertEqual({name: hashlib.sha256(content).hexdigest() for name, content in whole.items()},
                         {name: hashlib.sha256(content).hexdigest() for name, content in parted.items()})

    # Adam's replicas may have different processors (processors_test.py).
    def test_processes_whose_products_round_differently_are_refused(self):
        if "avx2" not in pathlib.Path("/proc/cpuinfo").read_text().split():
            self.skipTest("this processor has no other instructions than SSE4.1")
        _, logs = self.train("mixed", pathlib.Path(self.folder) / "mixed", 5, expected_code=10,
                             chief_env=[{"name": "ONEDNN_MAX_CPU_ISA", "value": "SSE41"}])
        self.assertIn("digestOfTheFirstUpdate=", logs)

    def test_a_layer_that_the_model_lacks_is_refused_by_name(self):
        _, logs = self.train("lacks", pathlib.Path(self.folder) / "lacks", 5, expected_code=10, workers=1,
                             excludeLayers=["dens_1"])
        self.assertIn('optimizer.excludeLayers[0]: found \\"dens_1\\", expected a part of a matrix', logs)


if __name__ == "__main__":
    unittest.main()
