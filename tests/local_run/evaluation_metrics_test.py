"""training.evaluation.metrics: each process layout measures what one process does, and every place shows it."""
import json
import pathlib
import re
import unittest

import yaml

from local_run import RunTest

DENSE = {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 8, "activation": "relu"}, {"type": "Dense", "units": 1}]}
# By loss: model, classes of the data, and how it is evaluated.
KINDS = {
    "SparseCategoricalCrossentropy": ({"name": "mlp"}, 10, {"metrics": ["TopKCategoricalAccuracy"], "topK": 3}),
    "BinaryCrossentropy": (DENSE, 2, {"metrics": ["AUC", "Precision", "Recall"]}),
    "MeanSquaredError": (DENSE, 10, {"metrics": ["MeanSquaredError", "RootMeanSquaredError"]}),
}
VOLUMES = {"spec": {
    "containers": [{"name": "trainer", "volumeMounts": [{"name": "results", "mountPath": "/results"}]}],
    "volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": "results"}}]}}


class EvaluationMetricsTest(RunTest):
    def run_job(self, name, loss, strategy, replicas, **training):
        """Returns the report of a run of one epoch, and its work directory. The parameters keep their bits, so each run
        evaluates the same model."""
        model, classes, evaluation = KINDS[loss]
        manifest = {
            "apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {
                "strategy": strategy,
                "replicaSpecs": {role: {"replicas": count, "template": VOLUMES} for role, count in replicas.items()},
                "training": {
                    "model": model, "batchSize": {"global": 32}, "epochs": 1, "loss": {"type": loss},
                    "optimizer": {"name": "SGD", "learningRate": 1e-20}, "evaluation": evaluation,
                    "dataset": {"format": "synthetic", "synthetic": {
                        "trainExamples": 128, "testExamples": 250, "classes": classes, "shape": [1, 8, 8]}},
                    "checkpoint": {"directory": "/results/checkpoints"},
                    "summaries": {"directory": "/results/summaries"}, **training}}}
        path = pathlib.Path(self.folder) / f"{name}.yaml"
        path.write_text(yaml.safe_dump(manifest))
        run = self.start(path, name)
        code, report, err = run.finish()
        self.assertEqual(code, 0, f"{err}\n{run.logs()[-6000:]}")
        return report, run

    def expect_near(self, found, expected):
        self.assertEqual(set(found), set(expected))
        for metric, value in expected.items():
            self.assertAlmostEqual(found[metric], value, delta=1e-5 * abs(value), msg=metric)

    def expect_summaries(self, name, evaluation):
        """The files that the run has written for TensorBoard have a tag, in Keras' spelling, for each metric."""
        written = b"".join(file.read_bytes() for file in pathlib.Path(self.folder, name).rglob("*tfevents*"))
        for metric in evaluation["metrics"]:
            tag = "auc" if metric == "AUC" else re.sub("(?<=.)(?=[A-Z])", "_", metric).lower()
            self.assertIn(f"test/{tag}".encode(), written)

    def test_workers_stages_and_servers_find_what_one_process_finds(self):
        workers = {"type": "MultiWorkerMirrored"}
        two = {"two": (workers, {"Worker": 2})}
        layouts = {
            "stages": ({**workers, "stages": 2, "processesPerPod": 2}, {"Worker": 1}),
            "central": ({"type": "CentralStorage", "processesPerPod": 2}, {"Worker": 1}),
            "servers": ({"type": "ParameterServer", "parameterServer": {"mode": "Sync"}}, {"Worker": 2, "PS": 1}),
            "evaluator": (workers, {"Worker": 1, "Evaluator": 1}),
        }
        for loss, (_, _, evaluation) in KINDS.items():
            kind = loss.lower()[:6]
            alone, run = self.run_job(f"{kind}-one", loss, {"type": "Mirrored"}, {"Worker": 1})
            expected = alone["test_metrics"]
            self.assertEqual(set(expected), set(evaluation["metrics"]))
            lines = [json.loads(line) for line in run.logs().splitlines() if line.startswith("{")]
            self.assertEqual([line["testMetrics"] for line in lines if line.get("message") == "evaluated"], [expected])
            self.expect_summaries(f"{kind}-one", evaluation)
            others = layouts if loss == "BinaryCrossentropy" else {}
            for name, (strategy, replicas) in {**two, **others}.items():
                with self.subTest(loss=loss, layout=name):
                    report, _ = self.run_job(f"{kind}-{name}", loss, strategy, replicas)
                    self.expect_near(report["test_metrics"], expected)
                    self.expect_summaries(f"{kind}-{name}", evaluation)

    def test_top_k_is_below_the_number_of_classes(self):
        loss = "SparseCategoricalCrossentropy"
        with self.assertRaisesRegex(AssertionError, "evaluation.topK: found 10 with 10 classes, expected fewer"):
            self.run_job("all", loss, {"type": "Mirrored"}, {"Worker": 1}, evaluation={**KINDS[loss][2], "topK": 10})

    def test_each_variant_has_its_own(self):
        loss = "BinaryCrossentropy"
        report, _ = self.run_job("variants", loss, {"type": "Independent"}, {"Worker": 2},
                                 variants=[{"seed": 1}, {"seed": 2}])
        found = [variant["test_metrics"]["AUC"] for variant in report["variants"]]
        self.assertNotEqual(found[0], found[1])


if __name__ == "__main__":
    unittest.main()
