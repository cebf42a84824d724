"""training.earlyStopping: a model that does not learn ends its run early, for all processes, once and for all."""
import json
import pathlib
import unittest

import yaml

from local_run import RunTest

STEPS_PER_EPOCH = 16
STUCK = {"name": "SGD", "learningRate": 1e-20}  # the parameters keep their bits, and so do evaluations
ADAM = {"name": "Adam", "learningRate": 0.001}
TWO_CLASSES = {
    "model": {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 1}]}, "loss": {"type": "BinaryCrossentropy"},
    "dataset": {"format": "synthetic", "synthetic": {"trainExamples": 1024, "testExamples": 256, "classes": 2}},
    "evaluation": {"metrics": ["Recall", "AUC"]}, "optimizer": ADAM}


def lines(run, message):
    found = [json.loads(line) for line in run.logs().splitlines() if line.startswith("{")]
    return [line for line in found if line.get("message", "").startswith(message)]


def end_of(values, patience):
    """The step of the evaluation that ends a run, and that of the best one, by the greatest of `values`, by step."""
    best = None
    for step, value in sorted(values.items()):
        if best is None or value > values[best]:
            best, without = step, 0
        else:
            without += 1
        if without == patience:
            return step, best
    return None, best


class EarlyStoppingTest(RunTest):
    def job(self, name, strategy, roles, **training):
        pod = {"spec": {
            "containers": [{"name": "trainer", "volumeMounts": [{"name": "results", "mountPath": "/results"}]}],
            "volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": "results"}}]}}
        manifest = {
            "apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {
                "strategy": strategy,
                "replicaSpecs": {role: {"replicas": replicas, "template": pod} for role, replicas in roles.items()},
                "training": {
                    "model": {"name": "mlp"}, "batchSize": {"global": 64}, "epochs": 12, "optimizer": STUCK,
                    "dataset": {"format": "synthetic", "synthetic": {"trainExamples": 1024, "testExamples": 256}},
                    "checkpoint": {"directory": "/results/checkpoints", "exportTo": "/results/model.onnx"},
                    "earlyStopping": {"patience": 2}, **training}}}
        path = pathlib.Path(self.folder) / f"{name}.yaml"
        path.write_text(yaml.safe_dump(manifest))
        results = pathlib.Path(self.folder) / f"{name}.results"
        results.mkdir(exist_ok=True)
        return path, results

    def expect_done(self, run, steps):
        code, report, err = run.finish()
        self.assertEqual((code, report and report["state"]), (0, "Succeeded"), f"{err}\n{run.logs()[-6000:]}")
        self.assertEqual(report["steps"], steps)
        return report

    def expect_an_early_end(self, name, strategy, roles, processes):
        path, results = self.job(name, strategy, roles)
        steps = 3 * STEPS_PER_EPOCH  # the first evaluation is the best, and two follow
        first = self.start(path, f"{name}-first", "--volume", f"results={results}")
        self.expect_done(first, steps)
        done = lines(first, "the run is done")
        self.assertEqual({(line["step"], line["checksum"]) for line in done}, {(steps, done[0]["checksum"])})
        self.assertEqual(len(done), processes)
        self.assertEqual([line["step"] for line in lines(first, "the run has stopped early")], [steps])
        (results / "model.onnx").unlink()

        again = self.start(path, f"{name}-again", "--volume", f"results={results}")
        self.expect_done(again, steps)
        self.assertEqual([line["step"] for line in lines(again, "the run has stopped early")], [steps])
        self.assertEqual(lines(again, "evaluated") + lines(again, "saved a checkpoint"), [])
        self.assertTrue((results / "model.onnx").exists())

        manifest = yaml.safe_load(path.read_text())
        manifest["spec"]["training"]["earlyStopping"]["patience"] = 3
        path.write_text(yaml.safe_dump(manifest))
        on = self.start(path, f"{name}-on", "--volume", f"results={results}")
        self.expect_done(on, steps + STEPS_PER_EPOCH)

    def test_all_processes_end_at_the_same_step_and_train_no_more(self):
        self.expect_an_early_end("mirrored", {"type": "MultiWorkerMirrored", "processesPerPod": 2}, {"Worker": 2}, 4)

    def test_parameter_servers_end_too(self):
        self.expect_an_early_end("servers", {"type": "ParameterServer", "parameterServer": {"mode": "Async"}},
                                 {"Worker": 2, "PS": 1}, 1)

    def expect_the_best_model(self, name, strategy, roles):
        """The model learns, but no evaluation is so much better that it counts: the first one is the best."""
        path, results = self.job(
            name, strategy, roles, optimizer=ADAM,
            earlyStopping={"patience": 2, "minDelta": 1000, "restoreBest": True},
            checkpoint={"directory": "/results/checkpoints", "everySteps": STEPS_PER_EPOCH, "keep": 10,
                        "exportTo": "/results/model.safetensors"})

        def saved(epoch, file):
            return (results / f"checkpoints/step-{epoch * STEPS_PER_EPOCH:08}" / file).read_bytes()

        for epochs in (3, 4):  # the job is started again with more patience
            run = self.start(path, f"{name}-{epochs}", "--volume", f"results={results}")
            report = self.expect_done(run, epochs * STEPS_PER_EPOCH)
            best = saved(1, "model.safetensors")
            self.assertEqual(best, (results / "model.safetensors").read_bytes())
            self.assertEqual(best, saved(epochs, "model.safetensors"))
            self.assertNotEqual(best, saved(epochs, "training.safetensors"))
            [end] = lines(run, "the run ends with the model of its best evaluation")
            self.assertEqual(end["step"], STEPS_PER_EPOCH)
            self.assertEqual(report["test_loss"], end["testLoss"])
            if epochs == 3:
                evaluated = {line["step"]: line["testLoss"] for line in lines(run, "evaluated")}
                self.assertEqual(evaluated[STEPS_PER_EPOCH], end["testLoss"])
                self.assertNotEqual(evaluated[3 * STEPS_PER_EPOCH], end["testLoss"])
            (results / "model.safetensors").unlink()
            manifest = yaml.safe_load(path.read_text())
            manifest["spec"]["training"]["earlyStopping"]["patience"] = 3
            path.write_text(yaml.safe_dump(manifest))

    def test_the_best_model_is_that_of_the_run(self):
        self.expect_the_best_model("best", {"type": "MultiWorkerMirrored", "processesPerPod": 2}, {"Worker": 2})

    def test_the_best_model_is_that_of_a_run_with_servers(self):
        self.expect_the_best_model("best-servers", {"type": "ParameterServer", "parameterServer": {"mode": "Async"}},
                                   {"Worker": 2, "PS": 1})

    def test_the_best_model_is_that_of_all_stages(self):
        self.expect_the_best_model("best-stages", {"type": "MultiWorkerMirrored", "stages": 2}, {"Worker": 2})

    def expect_an_end_by_a_named_metric(self, name, strategy, roles):
        path, results = self.job(name, strategy, roles, **TWO_CLASSES,
                                 earlyStopping={"metric": "AUC", "patience": 2, "restoreBest": True})
        run = self.start(path, name, "--volume", f"results={results}")
        code, report, err = run.finish()
        self.assertEqual(code, 0, f"{err}\n{run.logs()[-6000:]}")
        evaluated = {line["step"]: line for line in lines(run, "evaluated")}
        step, best = end_of({step: line["testMetrics"]["AUC"] for step, line in evaluated.items()}, patience=2)
        self.assertLess(step, 12 * STEPS_PER_EPOCH)
        self.assertEqual(report["steps"], step)
        losses = [line["testLoss"] for line in evaluated.values()]
        self.assertEqual(losses, sorted(losses, reverse=True), "the loss would not have ended it")
        [stopped] = lines(run, "the run has stopped early")
        self.assertEqual((stopped["metric"], stopped["bestStep"]), ("AUC", best))
        self.assertEqual(report["test_metrics"], evaluated[best]["testMetrics"])

        again = self.start(path, f"{name}-again", "--volume", f"results={results}")
        self.expect_done(again, step)
        self.assertEqual(lines(again, "evaluated"), [])
        self.assertEqual([line["bestStep"] for line in lines(again, "the run has stopped early")], [best])

    def test_a_metric_that_the_job_names_ends_it(self):
        self.expect_an_end_by_a_named_metric("auc", {"type": "MultiWorkerMirrored", "processesPerPod": 2}, {"Worker": 2})

    def test_a_metric_that_the_job_names_ends_a_run_with_servers(self):
        self.expect_an_end_by_a_named_metric("auc-servers", {"type": "ParameterServer"}, {"Worker": 2, "PS": 1})

    def test_a_metric_that_the_job_does_not_name_is_refused(self):
        path, _ = self.job("unnamed", {"type": "Mirrored"}, {"Worker": 1}, **TWO_CLASSES,
                           earlyStopping={"metric": "Precision"})
        code, report, err = self.start(path, "unnamed").finish()
        self.assertNotEqual(code, 0)
        self.assertIsNone(report)
        self.assertIn("spec.training.earlyStopping.metric: found Precision with loss BinaryCrossentropy, expected "
                      "Accuracy or Loss or Recall or AUC; evaluation.metrics says what else is measured", err)

    def test_each_variant_ends_by_itself(self):
        path, results = self.job("variants", {"type": "Independent", "processesPerPod": 3}, {"Worker": 1}, epochs=5,
                                 variants=[{"name": "stuck"}, {"name": "patient", "earlyStopping": {"patience": 3}},
                                           {"name": "learns", "optimizer": ADAM}])
        run = self.start(path, "variants", "--volume", f"results={results}")
        code, report, err = run.finish()
        self.assertEqual((code, report["state"]), (0, "Succeeded"), err)
        self.assertEqual({each["name"]: each["steps"] for each in report["variants"]},
                         {"stuck": 3 * STEPS_PER_EPOCH, "patient": 4 * STEPS_PER_EPOCH,
                          "learns": 5 * STEPS_PER_EPOCH})


if __name__ == "__main__":
    unittest.main()
