"""Replicas on processors of different kinds train one model together."""
import json
import pathlib
import tempfile
import unittest

from local_run import Run

# The instruction sets, from the least on.
DEVICES = {"SSE41": "cpu:baseline", "AVX2": "cpu:avx2", "DEFAULT": "cpu:avx512"}


def job(chief_isa):
    """A chief held to an instruction set, and a worker that uses all that this processor has."""
    def role(env):
        container = {"name": "trainer", "env": env,
                     "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}]}
        return {"replicas": 1, "template": {"spec": {
            "containers": [container], "volumes": [{"name": "checkpoints", "emptyDir": {}}]}}}

    layers = [{"type": "Conv2D", "filters": 16, "kernelSize": 5, "padding": "same"},
              {"type": "BatchNormalization"}, {"type": "ReLU"}, {"type": "MaxPooling2D"},
              {"type": "Flatten"}, {"type": "Dense", "units": 10}]
    return {
        "apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob",
        "metadata": {"name": "mixed"},
        "spec": {
            "strategy": {"type": "MultiWorkerMirrored"},
            "training": {
                "model": {"layers": layers},
                "dataset": {"format": "synthetic",
                            "synthetic": {"trainExamples": 2000, "testExamples": 200}},
                "batchSize": {"global": 64}, "steps": 60,
                "optimizer": {"name": "Adam", "learningRate": 0.001},
                "checkpoint": {"directory": "/checkpoints", "everySteps": 20}},
            "replicaSpecs": {
                "Chief": role([{"name": "ONEDNN_MAX_CPU_ISA", "value": chief_isa}]),
                "Worker": role([])}}}


class ProcessorsTest(unittest.TestCase):
    def run_with_chief_on(self, folder, isa):
        path = pathlib.Path(folder, f"{isa}.yaml")
        path.write_text(json.dumps(job(isa)))
        run = Run(path, f"{folder}/{isa}")
        self.addCleanup(run.kill)
        code, report, err = run.finish()
        self.assertEqual(0, code, f"{err}\n{run.logs()[-4000:]}")
        self.assertEqual(0, report["restarts"])
        return report, [json.loads(line) for line in run.logs().splitlines()
                        if line.startswith("{")]

    def devices(self, records):
        """By rank."""
        return {record["rank"]: record["device"] for record in records if "device" in record}

    def check_that_ranks_agree(self, records):
        """Bit for bit: a replica that rounds otherwise drifts away, and nobody brings it back."""
        ends = [record for record in records if record.get("message") == "the run is done"]
        self.assertEqual({0, 1}, {record["rank"] for record in ends})
        self.assertEqual(1, len({record["checksum"] for record in ends}), ends)

    def test_different_instruction_sets_train_together_with_the_same_result(self):
        with tempfile.TemporaryDirectory() as folder:
            alike, records = self.run_with_chief_on(folder, "DEFAULT")
            self.assertFalse([record for record in records if "MAX_CPU_ISA" in record.get("message", "")])
            best = self.devices(records)[0]
            below = list(DEVICES.items())[:list(DEVICES.values()).index(best)]
            if not below:
                self.skipTest(f"this processor has no other instructions than {best}")
            for isa, device in below:
                mixed, records = self.run_with_chief_on(folder, isa)
                self.check_that_ranks_agree(records)
                self.assertEqual({0: device, 1: best}, self.devices(records))
                self.assertEqual(alike["steps"], mixed["steps"])
                self.assertAlmostEqual(alike["loss"], mixed["loss"], delta=1e-3 * alike["loss"])


if __name__ == "__main__":
    unittest.main()
