"""The Evaluator: it follows the checkpoints of a run, dies, and ends with the run's last one."""
import json
import pathlib
import unittest

import yaml

from local_run import RunTest, environment, kill9

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "evaluator.yaml"


def job(folder, name="evaluator", evaluator=True, epochs=3, **checkpoint):
    """The example with or without its Evaluator, with other fields in `checkpoint`."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    spec = manifest["spec"]
    spec["training"]["epochs"] = epochs
    spec["training"]["checkpoint"].update(checkpoint)
    if not evaluator:
        del spec["replicaSpecs"]["Evaluator"]
        del spec["training"]["checkpoint"]["keepBest"]
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


def lines(run, role, message):
    """The log lines of a role's pods with this message, as objects."""
    found = []
    for path in sorted(run.work_dir.glob("logs/**/*.log")):
        if f"-{role}-" not in str(path):
            continue
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("{") and json.loads(line).get("message") == message:
                found.append(json.loads(line))
    return found


def by_step(run):
    """What the Evaluator has logged of its evaluations, by step: the last checkpoint may be the first."""
    return sorted(lines(run, "evaluator", "evaluated"), key=lambda each: each["step"])


class EvaluatorTest(RunTest):
    def expect_done(self, run, steps):
        code, report, err = run.finish()
        logs = run.logs()
        self.assertEqual((code, report and report["state"]), (0, "Succeeded"), f"{err}\n{logs[-6000:]}")
        self.assertEqual((report["steps"], report["restarts"]), (steps, 0), logs[-4000:])
        return report

    def test_the_example_finds_what_a_run_finds_that_evaluates_itself(self):
        run = self.start(EXAMPLE, "followed")
        report = self.expect_done(run, 192)
        evaluated = by_step(run)
        self.assertEqual([each["step"] for each in evaluated], [64, 128, 192], run.logs()[-6000:])
        self.assertEqual(lines(run, "worker", "evaluated"), [])
        self.assertEqual(report["test_accuracy"], evaluated[-1]["testAccuracy"])
        alone = self.start(job(self.folder, "alone", evaluator=False), "alone")
        expected = self.expect_done(alone, 192)
        own = {each["step"]: each for each in lines(alone, "worker", "evaluated")}
        for each in evaluated:
            self.assertEqual(each["testAccuracy"], own[each["step"]]["testAccuracy"], each["step"])
            self.assertAlmostEqual(each["testLoss"], own[each["step"]]["testLoss"], delta=1e-5)
        self.assertEqual(report["test_accuracy"], expected["test_accuracy"])

        files = run.work_dir / "volumes" / "evaluator-checkpoints"
        self.assertTrue(list(files.glob("logs/eval/events.out.tfevents.*")))
        best = [json.loads(path.read_text()) for path in files.glob("best/step-*/manifest.json")]
        highest = max(each["testAccuracy"] for each in evaluated)
        self.assertEqual([each["state"]["evaluation"]["testAccuracy"] for each in best], [highest])
        self.assertIn(best[0]["step"], [each["step"] for each in evaluated if each["testAccuracy"] == highest])

    def test_an_evaluator_that_dies_goes_on_and_training_does_not_notice(self):
        run = self.start(job(self.folder, epochs=20, keep=100), "killed")
        record = run.work_dir / "volumes" / "evaluator-checkpoints" / "evaluation.json"
        run.wait_for(record.exists, "a first evaluation")
        for pid in run.trainers(replica=True):
            if environment(pid).get("LOCKSTEP_ROLE") == "evaluator":
                kill9(pid)
        report = self.expect_done(run, 1280)
        self.assertEqual(len(lines(run, "evaluator", "replica failed: signal 9 (Killed)")), 1,
                         run.logs()[-6000:])
        self.assertEqual(len(lines(run, "worker", "the generation has started")), 2)
        steps = [each["step"] for each in lines(run, "evaluator", "evaluated")]
        saved = [json.loads(path.read_text())["step"] for path in
                 (run.work_dir / "volumes" / "evaluator-checkpoints").glob("step-*/manifest.json")]
        self.assertEqual(sorted(saved), list(range(64, 1281, 64)))
        # The one that it was noting when it died may be evaluated again.
        self.assertLessEqual(len(steps) - len(set(steps)), 1, steps)
        self.assertEqual(len(set(steps)) + json.loads(record.read_text())["skipped"], len(saved))
        last = by_step(run)[-1]
        self.assertEqual(last["step"], 1280)
        self.assertEqual(report["test_accuracy"], last["testAccuracy"])

    def servers_job(self, mode, **training):
        """The example with parameter servers, whose leading worker saves."""
        path = job(self.folder, f"ps-{mode.lower()}", **training)
        manifest = yaml.safe_load(path.read_text())
        spec = manifest["spec"]
        spec["strategy"] = {"type": "ParameterServer", "parameterServer": {"mode": mode}}
        spec["replicaSpecs"]["PS"] = {"replicas": 2}
        path.write_text(yaml.safe_dump(manifest))
        return path

    def test_it_follows_the_checkpoints_of_parameter_servers(self):
        for mode in ("Sync", "Async"):
            with self.subTest(mode):
                run = self.start(self.servers_job(mode), f"ps-{mode}")
                report = self.expect_done(run, 192)
                evaluated = by_step(run)
                self.assertEqual(evaluated[-1]["step"], 192, run.logs()[-6000:])
                self.assertEqual(lines(run, "worker", "evaluated"), [])
                self.assertEqual(report["test_accuracy"], evaluated[-1]["testAccuracy"])
                best = list(run.work_dir.glob("volumes/evaluator-checkpoints/best/step-*/manifest.json"))
                self.assertEqual(len(best), 1)

    def test_a_regression_is_judged_by_its_error(self):
        path = job(self.folder, "regression", keepBest="MeanAbsoluteError")
        manifest = yaml.safe_load(path.read_text())
        training = manifest["spec"]["training"]
        training["loss"] = {"type": "MeanSquaredError"}
        training["model"] = {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 1}]}
        training["dataset"] = {"format": "synthetic", "synthetic": {"trainExamples": 2048, "testExamples": 256}}
        path.write_text(yaml.safe_dump(manifest))
        run = self.start(path, "regression")
        code, report, err = run.finish()
        self.assertEqual(code, 0, f"{err}\n{run.logs()[-6000:]}")
        evaluated = by_step(run)
        last = evaluated[-1]["testMeanAbsoluteError"]
        self.assertEqual(report["test_mean_absolute_error"], last)
        self.assertIsNone(report["test_accuracy"])
        best = [json.loads(each.read_text()) for each in
                run.work_dir.glob("volumes/evaluator-checkpoints/best/step-*/manifest.json")]
        self.assertEqual([each["state"]["evaluation"]["testMeanAbsoluteError"] for each in best],
                         [min(each["testMeanAbsoluteError"] for each in evaluated)])

    def test_a_metric_that_the_job_names_chooses_the_best(self):
        path = job(self.folder, "auc", keepBest="AUC")
        manifest = yaml.safe_load(path.read_text())
        training = manifest["spec"]["training"]
        training["loss"] = {"type": "BinaryCrossentropy"}
        training["evaluation"] = {"metrics": ["AUC"]}
        training["model"] = {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 1}]}
        training["dataset"]["synthetic"] = {"trainExamples": 2048, "testExamples": 256, "classes": 2}
        path.write_text(yaml.safe_dump(manifest))
        run = self.start(path, "auc")
        code, _, err = run.finish()
        self.assertEqual(code, 0, f"{err}\n{run.logs()[-6000:]}")
        best = [json.loads(each.read_text()) for each in
                run.work_dir.glob("volumes/evaluator-checkpoints/best/step-*/manifest.json")]
        self.assertEqual([each["state"]["evaluation"]["testMetrics"]["AUC"] for each in best],
                         [max(each["testMetrics"]["AUC"] for each in by_step(run))])


if __name__ == "__main__":
    unittest.main()
