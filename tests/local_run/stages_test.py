"""strategy.stages: a model in a pipeline of processes computes what a whole one does, whoever dies."""
import pathlib
import signal
import unittest

import yaml

from local_run import RunTest, descendants, kill9, newest_checkpoint, proportional_bytes, wait_until_gone

STEPS = 960  # 20 epochs of 48
CONV = {"type": "Conv2D", "filters": 8, "kernelSize": 3, "padding": "same"}
# With a residual block, which stays in one stage.
RESIDUAL = {"layers": [
    {**CONV, "activation": "relu", "name": "entry"}, CONV, {"type": "BatchNormalization", "name": "inner"},
    {"type": "Add", "inputs": ["inner", "entry"]}, {"type": "ReLU"}, {"type": "MaxPooling2D"},
    {"type": "Flatten"}, {"type": "Dense", "units": 32, "activation": "relu"}, {"type": "Dense", "units": 10}]}
# Two layers of 4.2 million parameters each: 17 MB for each of a stage's copies.
LARGE = {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 2048, "activation": "relu"},
                    {"type": "Dense", "units": 2048, "activation": "relu"}, {"type": "Dense", "units": 10}]}
LARGE_BYTES = 4 * 2048 * 2048
LARGE_DATA = {"format": "synthetic", "synthetic": {
    "trainExamples": 320, "testExamples": 32, "shape": [2048, 1, 1], "classes": 10}}


def job(folder, name, stages, processes=2, workers=1, communication="Auto", **training):
    """A job of `workers` pods that trains on synthetic images."""
    manifest = {
        "apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "metadata": {"name": name},
        "spec": {
            "strategy": {"type": "MultiWorkerMirrored", "stages": stages, "processesPerPod": processes,
                         "communication": communication},
            "replicaSpecs": {"Worker": {"replicas": workers, "template": {"spec": {
                "containers": [{"name": "trainer", "image": "lockstep-trainer", "volumeMounts": [
                    {"name": "checkpoints", "mountPath": "/checkpoints"}]}],
                "volumes": [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": "checkpoints"}}]}}}},
            "training": {
                "model": RESIDUAL,
                "dataset": {"format": "synthetic", "synthetic": {
                    "trainExamples": 1536, "testExamples": 256, "shape": [1, 16, 16], "classes": 10}},
                "batchSize": {"global": 32}, "gradientAccumulation": 4, "steps": STEPS,
                "checkpoint": {"directory": "/checkpoints", "everySteps": 100}, **training}}}
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


class StagesTest(RunTest):
    def start_with(self, path, folder=None):
        """Returns a run of the job, and where its checkpoints are."""
        folder = folder or path.with_suffix(".checkpoints")
        folder.mkdir(exist_ok=True)
        return self.start(path, path.stem, "--volume", f"checkpoints={folder}"), folder

    def expect_all_steps(self, run):
        return self.expect_done(run, STEPS, restarts=None, timeout=150)

    def test_it_learns_what_a_whole_model_does(self):
        """In one pod and in two, by shared memory and by sockets."""
        whole, _ = self.start_with(job(self.folder, "whole", stages=1, processes=1))
        expected, _ = self.expect_all_steps(whole)
        found = []
        for name, processes, workers, communication in (
                ("shm", 3, 1, "Auto"), ("ring", 3, 1, "Ring"), ("pods", 1, 3, "Ring")):
            with self.subTest(name):
                path = job(self.folder, name, 3, processes, workers, communication)
                run, folder = self.start_with(path)
                report, _ = self.expect_all_steps(run)
                self.assertAlmostEqual(report["loss"], expected["loss"], delta=1e-4)
                self.assertEqual(report["test_accuracy"], expected["test_accuracy"])
                found.append(newest_checkpoint(folder))
        self.assertEqual(found[1:], found[:-1])

    def test_whoever_dies_the_run_ends_with_the_bits_of_an_undisturbed_one(self):
        """With one pipeline, what a stage had is in the newest checkpoint alone."""
        undisturbed, expected = self.start_with(job(self.folder, "undisturbed", 2))
        self.expect_all_steps(undisturbed)
        for stage in (0, 1):
            with self.subTest(stage=stage):
                run, folder = self.start_with(job(self.folder, f"killed-{stage}", 2))
                run.wait_for(lambda folder=folder: list(folder.glob("step-*/manifest.json")), "a checkpoint")
                kill9(run.replica(stage))
                _, logs = self.expect_all_steps(run)
                self.assertEqual(logs.count("replica failed: signal 9"), 1, logs[-4000:])
                self.assertIn("restored a checkpoint", logs)
                self.assertEqual(newest_checkpoint(folder), newest_checkpoint(expected))

    def test_a_lost_stage_takes_its_state_from_another_pipeline(self):
        run, _ = self.start_with(job(self.folder, "pipelines", 2, processes=4, checkpoint={
            "directory": "/checkpoints", "everySteps": 100000}))
        run.wait_for(lambda: "epoch done" in run.logs(), "an epoch")
        kill9(run.replica(3))
        _, logs = self.expect_all_steps(run)
        self.assertEqual(logs.count("replica failed: signal 9"), 1, logs[-4000:])
        self.assertNotIn("restored a checkpoint", logs)

    def test_a_stop_saves_and_any_number_of_stages_goes_on(self):
        whole, expected = self.start_with(job(self.folder, "whole", 2))
        self.expect_all_steps(whole)
        run, folder = self.start_with(job(self.folder, "stopped", 2))
        run.wait_for(lambda: list(folder.glob("step-*/manifest.json")), "a checkpoint")
        pids = descendants(run.process.pid)
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.finish(timeout=30)[0], 130)
        wait_until_gone(pids)
        # Another number of stages is another job to `lockstep run`, with the same checkpoints.
        run, _ = self.start_with(job(self.folder, "other", 3, processes=3), folder)
        _, logs = self.expect_all_steps(run)
        self.assertIn("restored a checkpoint", logs)
        self.assertEqual(newest_checkpoint(folder), newest_checkpoint(expected))

    def test_a_stop_saves_large_states_of_several_pipelines(self):
        """Those that have nothing to give, or have given it, wait until the leading process has all."""
        for stages, processes in ((2, 4), (3, 3)):
            with self.subTest(stages=stages):
                path = job(self.folder, f"large-{stages}", stages, processes=processes, model=LARGE, steps=100000,
                           checkpoint={"directory": "/checkpoints", "everySteps": 1000000}, dataset=LARGE_DATA)
                run, folder = self.start_with(path)
                run.wait_for(lambda run=run: "epoch done" in run.logs(), "an epoch")
                run.process.send_signal(signal.SIGINT)
                self.assertEqual(run.finish(timeout=60)[0], 130)
                self.assertTrue(list(folder.glob("step-*/manifest.json")), run.logs()[-4000:])

    def test_each_process_holds_its_own_layers_only(self):
        total = {}
        for stages in (1, 2):
            path = job(self.folder, f"large-{stages}", stages, model=LARGE, steps=100000,
                       checkpoint={"directory": "/checkpoints", "everySteps": 1000000},
                       dataset=LARGE_DATA)
            run, _ = self.start_with(path)
            run.wait_for(lambda run=run: "epoch done" in run.logs(), "an epoch")
            total[stages] = sum(proportional_bytes(run.replica(local)) for local in (0, 1))
            run.kill()
        print(f"{2 * LARGE_BYTES / 1e6:.0f} MB of parameters; bytes of both processes: {total}")
        # Value, gradient, the sum of the parts before, and Adam's two slots, of one layer in each.
        self.assertGreater(total[1] - total[2], 2 * 4 * LARGE_BYTES, total)


if __name__ == "__main__":
    unittest.main()
