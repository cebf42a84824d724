"""strategy ParameterServer: its example, its two modes, and processes of each kind that die."""
import json
import os
import pathlib
import re
import signal
import struct
import unittest

import yaml

from local_run import RunTest, environment, kill9

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "parameter-server.yaml"


def job(folder, name="ps", servers=1, workers=2, strategy=None, scope="InPlace", **training):
    """The example with other replicas and other fields in `strategy` and `training`."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    spec = manifest["spec"]
    spec["strategy"] = strategy or spec["strategy"]
    if "steps" in training:
        del spec["training"]["epochs"]
    spec["training"].update(training)
    spec["replicaSpecs"]["PS"]["replicas"] = servers
    spec["replicaSpecs"]["Worker"]["replicas"] = workers
    if servers == 0:
        del spec["replicaSpecs"]["PS"]
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


def sync(**fields):
    return {"type": "ParameterServer", "parameterServer": {"mode": "Sync", **fields}}


def tensors(run):
    """The floats of the newest checkpoint's model, by name."""
    newest = sorted(run.work_dir.glob("volumes/checkpoints/step-*/model.safetensors"))[-1]
    data = newest.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        found[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return found


class ParameterServerTest(RunTest):
    def victims(self, run, role):
        return [pid for pid in run.trainers(replica=True)
                if json.loads(environment(pid)["TF_CONFIG"])["task"]["type"] == role]

    def test_the_example_counts_every_sample_once(self):
        report, _ = self.expect_done(self.start(EXAMPLE), 192)
        self.assertGreater(report["test_accuracy"], 0.95)

    def test_several_servers_and_workers(self):
        for strategy in ({"type": "ParameterServer"}, sync(),
                         {"type": "ParameterServer", "parameterServer": {"maxStaleness": 0}},
                         {"type": "ParameterServer", "parameterServer": {"placement": "RoundRobin"}}):
            with self.subTest(strategy=strategy):
                name = re.sub(r"\W+", "-", json.dumps(strategy))
                # In Async, how stale gradients are depends on when processes run. Two epochs are too
                # few to recover from very stale gradients at the start.
                run = self.start(job(self.folder, servers=2, workers=3, strategy=strategy, epochs=6), name)
                self.assertGreater(self.expect_done(run, 384)[0]["test_accuracy"], 0.9)

    def test_sync_makes_the_updates_of_mirrored_workers(self):
        same = dict(steps=20, checkpoint={"directory": "/checkpoints", "everySteps": 20})
        runs = [self.start(job(self.folder, "sync", servers=2, strategy=sync(), **same), "sync"),
                self.start(job(self.folder, "mirrored", servers=0,
                               strategy={"type": "MultiWorkerMirrored"}, **same), "mirrored")]
        for run in runs:
            code, report, err = run.finish()
            self.assertEqual((code, report["steps"]), (0, 20), err + run.logs()[-4000:])
        found, expected = (tensors(run) for run in runs)
        self.assertEqual(found.keys(), expected.keys())
        for name, values in expected.items():
            for a, b in zip(found[name], values, strict=True):
                self.assertAlmostEqual(a, b, delta=1e-4, msg=name)

    # A process introduces its model in the 16 KiB that it may send before its proof.
    def test_a_model_of_hundreds_of_tensors_trains_in_several_pods(self):
        dense = {"type": "Dense", "units": 4, "activation": "tanh"}
        layers = [{"type": "Flatten"}, *[dense] * 400, {"type": "Dense", "units": 10}]
        for strategy in ({"type": "ParameterServer"}, {"type": "MultiWorkerMirrored"}):
            with self.subTest(strategy=strategy):
                servers = 2 if strategy["type"] == "ParameterServer" else 0
                path = job(self.folder, servers=servers, strategy=strategy, steps=10,
                           model={"layers": layers}, checkpoint={"directory": "/checkpoints", "everySteps": 10})
                run = self.start(path, strategy["type"])
                code, report, err = run.finish()
                self.assertEqual((code, report and report["steps"]), (0, 10), err + run.logs()[-4000:])
                self.assertGreater(len(tensors(run)), 800)

    def test_whoever_dies_the_run_ends_and_no_sample_is_lost(self):
        for mode, strategy in (("async", {"type": "ParameterServer"}), ("sync", sync())):
            for role, index in (("worker", 1), ("worker", 0), ("ps", 0), ("ps", 1)):
                with self.subTest(mode=mode, role=role, index=index):
                    path = job(self.folder, servers=2, strategy=strategy, epochs=40)
                    run = self.start(path, f"{mode}-{role}-{index}")
                    run.wait_for_checkpoint()
                    victim = next(pid for pid in self.victims(run, role)
                                  if environment(pid)["LOCKSTEP_INDEX"] == str(index))
                    kill9(victim)
                    _, logs = self.expect_done(run, 2560)
                    self.assertEqual(logs.count("replica failed: signal 9"), 1, logs[-4000:])

    def test_servers_that_are_asked_to_stop_lose_nothing_without_checkpoints(self):
        for index in (0, 1):
            with self.subTest(index=index):
                run = self.start(job(self.folder, servers=2, epochs=40, checkpoint={}), f"stop-ps-{index}")
                run.wait_for(lambda: '"message":"epoch done"' in run.logs(), "a first epoch")
                server = next(pid for pid in run.trainers(pod=index, replica=False)
                              if json.loads(environment(pid)["TF_CONFIG"])["task"]["type"] == "ps")
                os.kill(server, signal.SIGTERM)
                code, report, err = run.finish()
                logs = run.logs()
                self.assertEqual((code, report["steps"]), (0, 2560), f"{err}\n{logs[-4000:]}")
                self.assertIn("a parameter server may stop: its values are here", logs)
                starts = [json.loads(line)["step"] for line in logs.splitlines()
                          if '"message":"the generation has started"' in line]
                self.assertEqual(len(starts), 2, logs[-4000:])
                self.assertGreater(starts[1], 0)

    def test_a_worker_may_die_often_as_long_as_it_makes_progress(self):
        run = self.start(job(self.folder, epochs=1000))
        for death in range(1, 12):  # a budget is 10 restarts
            run.wait_for(lambda: self.batches_of(run, 1) == death, f"first batch of life {death}", 20)
            kill9(next(pid for pid in self.victims(run, "worker")
                       if environment(pid)["LOCKSTEP_INDEX"] == "1"))
        run.wait_for(lambda: self.batches_of(run, 1) == 12, "first batch of life 12", 20)

    @staticmethod
    def batches_of(run, worker):
        logs = "".join(path.read_text() for path in run.work_dir.glob(f"logs/*worker-{worker}/*.log"))
        return logs.count('"message":"first batch of the generation"')

    def test_a_worker_that_is_away_at_the_end_does_not_hold_up_the_run(self):
        run = self.start(job(self.folder, epochs=10))
        run.wait_for_checkpoint()
        away = next(pid for pid in self.victims(run, "worker")
                    if environment(pid)["LOCKSTEP_INDEX"] == "1")
        os.kill(away, signal.SIGSTOP)
        run.wait_for(lambda: "the run is over" in run.logs(), "the server's end")
        os.kill(away, signal.SIGCONT)
        self.expect_done(run, 640)

    def test_a_run_goes_on_with_another_number_of_servers(self):
        first = self.start(job(self.folder, servers=1, epochs=1))
        self.expect_done(first, 64)
        again = self.start(job(self.folder, servers=3, workers=1, epochs=3))
        _, logs = self.expect_done(again, 192)
        self.assertIn("restored", logs)


if __name__ == "__main__":
    unittest.main()
