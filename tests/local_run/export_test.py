"""`lockstep export` and checkpoint.exportTo: what a run has learned, as one file for other programs."""
import json
import pathlib
import subprocess
import unittest

import local_job
from local_run import LOCKSTEP, SLOWNESS, RunTest


class ExportTest(RunTest):
    def export(self, checkpoint, file, code=0):
        ended = subprocess.run([LOCKSTEP, "export", checkpoint, file], stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                               timeout=60 * SLOWNESS)
        self.assertEqual(code, ended.returncode, ended.stderr)
        return ended

    def test_the_last_checkpoint_of_a_run(self):
        training = {"model": {"name": "core-cnn"}, "dataset": {"format": "synthetic"}, "steps": 2,
                    "batchSize": {"global": 16}, "checkpoint": {"directory": "/saved"}}
        folder = pathlib.Path(self.folder)
        job = folder / "job.yaml"
        job.write_text(local_job.text("job", training, folders=["saved"], workers=1))
        run = self.start(job)
        code, report, err = run.finish()
        self.assertEqual(0, code, f"{err}\n{run.logs()}")
        saved = folder / "run/volumes/saved"
        weights = (saved / "step-00000002/model.safetensors").read_bytes()

        tensors = folder / "model.safetensors"
        ended = self.export(report["checkpoint"], tensors)
        self.assertIn("8 tensors", ended.stdout)
        self.assertEqual(weights, tensors.read_bytes())

        # A bundled model has no layers in the job; the checkpoint knows them.
        graph = folder / "model.onnx"
        self.export(saved, graph)
        exported = graph.read_bytes()
        header = 8 + int.from_bytes(weights[:8], "little")
        names = [name for name in json.loads(weights[8:header]) if name != "__metadata__"]
        for text in ("Lockstep", "Conv", "Gemm", *names):
            self.assertIn(text.encode(), exported)
        self.assertGreater(len(exported), len(weights) - header)

        ended = self.export(saved, folder / "model.h5", code=2)
        self.assertIn("expected .onnx or .safetensors", ended.stderr)

    def test_a_training_exports_at_its_end_with_every_strategy(self):
        servers = {"type": "ParameterServer", "parameterServer": {"mode": "Sync"}}
        for strategy, workers in (({"type": "Mirrored", "processesPerPod": 2}, 1),
                                  ({"type": "CentralStorage", "processesPerPod": 2}, 1),
                                  ({"type": "MultiWorkerMirrored"}, 2), (servers, 2)):
            name = strategy["type"].lower()
            with self.subTest(strategy["type"]):
                training = {"model": {"name": "simple-cnn"}, "dataset": {"format": "synthetic"}, "steps": 2,
                            "batchSize": {"global": 16},
                            "checkpoint": {"directory": "/saved", "exportTo": "/out/new/model.safetensors"}}
                job = json.loads(local_job.text(name, training, folders=["saved", "out"], workers=workers))
                job["spec"]["strategy"] = strategy
                if strategy is servers:
                    job["spec"]["replicaSpecs"]["PS"] = {"replicas": 1}
                path = pathlib.Path(self.folder, f"{name}.yaml")
                path.write_text(json.dumps(job))
                run = self.start(path, name)
                code, _, err = run.finish()
                self.assertEqual(0, code, f"{err}\n{run.logs()}")
                volumes = run.work_dir / "volumes"
                self.assertEqual((volumes / "saved/step-00000002/model.safetensors").read_bytes(),
                                 (volumes / "out/new/model.safetensors").read_bytes())

    def test_a_file_that_cannot_be_written_fails_the_job_before_its_first_step(self):
        training = {"model": {"name": "mlp"}, "dataset": {"format": "synthetic"}, "steps": 2,
                    "batchSize": {"global": 16}, "checkpoint": {"exportTo": "/out/model.onnx"}}
        path = pathlib.Path(self.folder, "job.yaml")
        path.write_text(local_job.text("job", training, folders=["out"], workers=1))
        (pathlib.Path(self.folder) / "run/volumes/out/model.onnx").mkdir(parents=True)
        run = self.start(path)
        code, report, err = run.finish()
        self.assertEqual((10, "Failed"), (code, report["state"]), err)
        self.assertRegex(run.logs(), r"exportTo: the trained model cannot be exported: .*/out/model\.onnx: found a")


if __name__ == "__main__":
    unittest.main()
