"""training.ema: the average of the parameters survives a restart to the bit, and is what is evaluated and exported."""
import json
import pathlib
import struct
import unittest

import local_job
from local_run import RunTest

SUFFIX = "/average"
STRATEGIES = {
    "multi": ({"type": "MultiWorkerMirrored"}, 2, {}),
    "central": ({"type": "CentralStorage", "processesPerPod": 2}, 1, {}),
    "staged": ({"type": "MultiWorkerMirrored", "stages": 2}, 2, {}),
    "servers": ({"type": "ParameterServer", "parameterServer": {"mode": "Sync"}}, 2, {"PS": {"replicas": 2}})}


def tensors(path):
    """The values of a safetensors file, by name."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    header.pop("__metadata__", None)
    return {name: struct.unpack(f"<{(end - first) // 4}f", content[begin + first:begin + end])
            for name, (first, end) in ((name, each["data_offsets"]) for name, each in header.items())}


class EmaTest(RunTest):
    def train(self, name, strategy, folder, steps, **training):
        placed, workers, roles = STRATEGIES[strategy]
        training = {"model": {"name": "simple-cnn"}, "steps": steps, "batchSize": {"global": 32},
                    "dataset": {"format": "synthetic", "synthetic": {"trainExamples": 512, "testExamples": 128}},
                    "optimizer": {"name": "Adam", "learningRate": 0.001},
                    "checkpoint": {"directory": "/saved", "exportTo": "/saved/model.safetensors"}, **training}
        job = json.loads(local_job.text(name, training, folders=["saved"], workers=workers))
        job["spec"]["strategy"] = placed
        job["spec"]["replicaSpecs"].update(roles)
        path = pathlib.Path(self.folder) / f"{name}.json"
        path.write_text(json.dumps(job))
        folder.mkdir(exist_ok=True)
        run = self.start(path, name, "--volume", f"saved={folder}")
        code, report, err = run.finish()
        self.assertEqual(0, code, f"{err}\n{run.logs()[-6000:]}")
        return report, run.logs()

    def expect_a_restart_changes_nothing(self, strategy):
        folder = pathlib.Path(self.folder)
        whole, parted = folder / "whole", folder / "parted"
        expected, _ = self.train(f"{strategy}-whole", strategy, whole, 12, ema={"decay": 0.75})
        self.train(f"{strategy}-first", strategy, parted, 7, ema={"decay": 0.75})
        found, logs = self.train(f"{strategy}-second", strategy, parted, 12, ema={"decay": 0.75})
        self.assertIn('"restored a checkpoint"', logs)
        saved = tensors(parted / "step-00000012/model.safetensors")
        self.assertEqual(tensors(whole / "step-00000012/model.safetensors"), saved)
        self.assertEqual(expected["test_loss"], found["test_loss"])

        exported = tensors(parted / "model.safetensors")
        averages = {name: values for name, values in saved.items() if name.endswith(SUFFIX)}
        self.assertEqual({name.removesuffix(SUFFIX): values for name, values in averages.items()}, exported)
        for name, values in exported.items():
            self.assertNotEqual(saved[name], values)
        return found

    def test_of_processes(self):
        found = self.expect_a_restart_changes_nothing("multi")
        # Training goes on with the parameters, whose evaluation is another one.
        plain = pathlib.Path(self.folder) / "plain"
        parameters, _ = self.train("plain", "multi", plain, 12)
        self.assertNotEqual(parameters["test_loss"], found["test_loss"])
        trained = tensors(plain / "step-00000012/model.safetensors")
        saved = tensors(pathlib.Path(self.folder) / "whole/step-00000012/model.safetensors")
        self.assertEqual(trained, {name: saved[name] for name in trained})
        # What had no average begins one, and says so.
        _, logs = self.train("later", "multi", plain, 13, ema={})
        self.assertIn("the checkpoint has no average of the parameters", logs)
        self.assertIn("dense/bias" + SUFFIX, tensors(plain / "step-00000013/model.safetensors"))

    def test_of_a_controller(self):
        self.expect_a_restart_changes_nothing("central")

    def test_of_stages(self):
        self.expect_a_restart_changes_nothing("staged")

    def test_of_parameter_servers(self):
        self.expect_a_restart_changes_nothing("servers")


if __name__ == "__main__":
    unittest.main()
