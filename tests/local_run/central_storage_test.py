"""strategy CentralStorage: its example, the bits of Mirrored, processes that die, a stop, memory."""
import pathlib
import random
import signal
import time
import unittest

import yaml

from local_run import SLOWNESS, Run, RunTest, checkpoint_of, descendants, kill9, proportional_bytes, wait_until_gone

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "central-storage.yaml"
MIRRORED = {"type": "Mirrored", "processesPerPod": 2}
CENTRAL = {"type": "CentralStorage", "processesPerPod": 2}
# 6.5 million parameters, 26 MB.
LARGE = {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 8192, "activation": "relu"},
                    {"type": "Dense", "units": 10}]}
LARGE_BYTES = 4 * (784 * 8192 + 8192 + 8192 * 10 + 10)


def job(folder, name="central", strategy=None, **training):
    """The example with another strategy and other fields in `training`."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    spec = manifest["spec"]
    spec["strategy"] = strategy or spec["strategy"]
    if "steps" in training:
        del spec["training"]["epochs"]
    spec["training"].update(training)
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


class CentralStorageTest(RunTest):
    def test_the_example_learns(self):
        report, logs = self.expect_done(self.start(EXAMPLE), 192)
        self.assertGreater(report["test_accuracy"], 0.95)
        self.assertRegex(logs, '"communicator":"shm"')

    def test_its_bits_are_those_of_mirrored(self):
        for communication in ("Auto", "Ring"):
            with self.subTest(communication=communication):
                found = []
                for strategy in (MIRRORED, CENTRAL):
                    name = f"{strategy['type']}-{communication}"
                    path = job(self.folder, name, {**strategy, "communication": communication})
                    run = self.start(path, name)
                    self.expect_done(run, 192)
                    found.append(checkpoint_of(run))
                self.assertEqual(found[0], found[1])
                self.assertEqual(len(found[0]), 2, found[0])

    def test_whoever_dies_the_run_ends_with_the_bits_of_an_undisturbed_one(self):
        path = job(self.folder, epochs=40)
        undisturbed = self.start(path, "undisturbed")
        self.expect_done(undisturbed, 2560)
        for local_rank in (1, 0):
            with self.subTest(local_rank=local_rank):
                run = self.start(path, f"killed-{local_rank}")
                run.wait_for_checkpoint()
                kill9(run.replica(local_rank))
                _, logs = self.expect_done(run, 2560)
                self.assertEqual(logs.count("replica failed: signal 9"), 1, logs[-4000:])
                # The controller's memory has all; without it, only the checkpoint has.
                self.assertEqual("restored a checkpoint" in logs, local_rank == 0)
                self.assertEqual(checkpoint_of(run), checkpoint_of(undisturbed))

    def test_kills_at_any_time(self):
        """Of any process, the supervisor included, at moments that nobody chose."""
        path = job(self.folder, strategy={**CENTRAL, "processesPerPod": 3}, epochs=20,
                   checkpoint={"directory": "/checkpoints", "everySteps": 20})
        undisturbed = self.start(path, "undisturbed")
        self.expect_done(undisturbed, 1280)
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        with self.subTest(seed=seed):
            run = self.start(path, "disturbed")
            run.wait_for(lambda: run.trainers(replica=True), "a replica")
            for _ in range(4):
                time.sleep(chance.uniform(0, 0.6) * SLOWNESS)
                victims = run.trainers()
                if run.process.poll() is not None or not victims:
                    break
                kill9(chance.choice(victims))
            self.expect_done(run, 1280, restarts=None)
            self.assertEqual(checkpoint_of(run), checkpoint_of(undisturbed))

    def test_a_stop_saves_and_either_strategy_goes_on_from_the_checkpoint(self):
        whole = self.start(job(self.folder, epochs=40), "whole")
        self.expect_done(whole, 2560)
        for first, second in ((CENTRAL, CENTRAL), (CENTRAL, MIRRORED), (MIRRORED, CENTRAL)):
            with self.subTest(first=first["type"], second=second["type"]):
                name = f"{first['type']}-{second['type']}"
                run = self.start(job(self.folder, "first", first, epochs=40), name)
                run.wait_for_checkpoint()
                pids = descendants(run.process.pid)
                run.process.send_signal(signal.SIGINT)
                self.assertEqual(run.finish(timeout=30)[0], 130)
                wait_until_gone(pids)
                # Another strategy is another job to `lockstep run`, with the same checkpoints.
                checkpoints = run.work_dir / "volumes" / "checkpoints"
                again = Run(job(self.folder, "second", second, epochs=40), f"{self.folder}/{name}-again",
                            "--volume", f"checkpoints={checkpoints}")
                self.addCleanup(again.kill)
                _, logs = self.expect_done(again, 2560)
                self.assertIn("restored a checkpoint", logs)
                again.work_dir = run.work_dir
                self.assertEqual(checkpoint_of(again), checkpoint_of(whole))

    def test_parameters_and_the_optimizers_state_are_there_once(self):
        """With Adam, three numbers for each parameter that the second process does not have."""
        total = {}
        for strategy in (MIRRORED, CENTRAL):
            name = strategy["type"]
            # No checkpoint, which takes memory while it is written.
            run = self.start(job(self.folder, name, strategy, model=LARGE, epochs=200,
                                 checkpoint={"directory": "/checkpoints", "everySteps": 1000000}), name)
            run.wait_for(lambda: "epoch done" in run.logs(), "an epoch")
            total[name] = sum(proportional_bytes(run.replica(local_rank)) for local_rank in (0, 1))
            run.kill()
        print(f"{LARGE_BYTES / 1e6:.0f} MB of parameters; bytes of both processes: {total}")
        self.assertGreater(total["Mirrored"] - total["CentralStorage"], 2.5 * LARGE_BYTES, total)


if __name__ == "__main__":
    unittest.main()
