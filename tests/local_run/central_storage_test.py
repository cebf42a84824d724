"""strategy CentralStorage: its example, the bits of Mirrored, processes that die, a stop, memory."""
import hashlib
import json
import pathlib
import re
import signal
import tempfile
import unittest

import yaml

from local_run import Run, descendants, environment, kill9, wait_until_gone

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


def tensors(run):
    """What the newest checkpoint holds of the model and of the optimizer."""
    newest = sorted(run.work_dir.glob("volumes/checkpoints/step-*/manifest.json"))[-1].parent
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in newest.glob("*.safetensors")}


def replica(run, local_rank):
    """The process id of a replica of the run's one pod."""
    return next(pid for pid in run.trainers(replica=True)
                if environment(pid).get("LOCKSTEP_LOCAL_RANK") == str(local_rank))


def own_bytes(pid):
    """Resident memory that the process shares with no other."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(re.search(r"^RssAnon:\s+(\d+) kB$", status, re.M).group(1))


class CentralStorageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, path, name="run"):
        run = Run(path, f"{self.folder}/{name}")
        self.addCleanup(run.kill)
        return run

    def expect_done(self, run, steps):
        """The run ends well in its first pod, every sample of every epoch counted once."""
        code, report, err = run.finish()
        logs = run.logs()
        self.assertEqual((code, report and report["state"]), (0, "Succeeded"), f"{err}\n{logs[-6000:]}")
        self.assertEqual((report["steps"], report["restarts"]), (steps, 0), logs[-4000:])
        epochs = [json.loads(line) for line in logs.splitlines() if '"message":"epoch done"' in line]
        self.assertTrue(epochs)
        for epoch in epochs:
            self.assertEqual((epoch["samplesLost"], epoch["samplesDuplicated"]), (0, 0), epoch)
        return report, logs

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
                    found.append(tensors(run))
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
                kill9(replica(run, local_rank))
                _, logs = self.expect_done(run, 2560)
                self.assertEqual(logs.count("replica failed: signal 9"), 1, logs[-4000:])
                # The controller's memory has all; without it, only the checkpoint has.
                self.assertEqual("restored a checkpoint" in logs, local_rank == 0)
                self.assertEqual(tensors(run), tensors(undisturbed))

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
                self.assertEqual(tensors(again), tensors(whole))

    def test_only_the_controller_holds_the_optimizers_state(self):
        """Adam has two numbers for each parameter; a replica of CentralStorage has none of them."""
        own = {}
        for strategy in (MIRRORED, CENTRAL):
            name = strategy["type"]
            run = self.start(job(self.folder, name, strategy, model=LARGE, epochs=200), name)
            run.wait_for_checkpoint()
            own[name] = [own_bytes(replica(run, local_rank)) for local_rank in (0, 1)]
            run.kill()
        saved = [m - c for m, c in zip(own["Mirrored"], own["CentralStorage"], strict=True)]
        print(f"{LARGE_BYTES / 1e6:.0f} MB of parameters; bytes of each process: {own}")
        self.assertGreater(saved[1], 1.5 * LARGE_BYTES, own)
        self.assertLess(abs(saved[0]), 0.5 * LARGE_BYTES, own)


if __name__ == "__main__":
    unittest.main()
