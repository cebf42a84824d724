"""strategy.sharding ZeRO1: the bits of a run without it, a process that dies, another number of processes."""
import pathlib
import signal
import unittest

import yaml

from local_run import Run, RunTest, checkpoint_of, descendants, kill9, wait_until_gone

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "central-storage.yaml"
STEPS = 640  # 10 epochs


def job(folder, name, processes=3, sharding="ZeRO1", **strategy):
    """The example of another strategy, with an average of the parameters."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    spec = manifest["spec"]
    spec["strategy"] = {"type": "Mirrored", "processesPerPod": processes, "sharding": sharding, **strategy}
    spec["training"].update(epochs=10, ema={"decay": 0.9})
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


class ShardingTest(RunTest):
    def test_its_bits_are_those_without_it_whoever_dies(self):
        whole = self.start(job(self.folder, "whole", sharding="None"), "whole")
        report, _ = self.expect_done(whole, STEPS)
        self.assertGreater(report["test_accuracy"], 0.95)
        path = job(self.folder, "sharded")
        undisturbed = self.start(path, "undisturbed")
        _, logs = self.expect_done(undisturbed, STEPS)
        self.assertEqual(logs.count('"sharding":"ZeRO1"'), 3, "each rank says so")
        self.assertEqual(checkpoint_of(undisturbed), checkpoint_of(whole))
        for local_rank in (0, 2):
            with self.subTest(local_rank=local_rank):
                run = self.start(path, f"killed-{local_rank}")
                run.wait_for_checkpoint()
                kill9(run.replica(local_rank))
                _, logs = self.expect_done(run, STEPS)
                self.assertEqual(logs.count("replica failed: signal 9"), 1, logs[-4000:])
                self.assertIn("a share of its newest step is lost", logs)
                self.assertIn("restored a checkpoint", logs)
                self.assertEqual(checkpoint_of(run), checkpoint_of(whole))

    def test_a_stop_saves_and_another_number_of_processes_goes_on(self):
        ring = {"communication": "Ring"}
        for sharding in ("None", "ZeRO1"):
            run = self.start(job(self.folder, "three", 3, sharding, **ring), f"three-{sharding}")
            run.wait_for_checkpoint()
            pids = descendants(run.process.pid)
            run.process.send_signal(signal.SIGINT)
            self.assertEqual(run.finish(timeout=30)[0], 130)
            wait_until_gone(pids)
            checkpoints = run.work_dir / "volumes" / "checkpoints"
            # To `lockstep run`, this is another job with the same checkpoints.
            again = Run(job(self.folder, "two", 2, "ZeRO1", **ring), f"{self.folder}/two-{sharding}",
                        "--volume", f"checkpoints={checkpoints}")
            self.addCleanup(again.kill)
            _, logs = self.expect_done(again, STEPS)
            self.assertIn("restored a checkpoint", logs)


if __name__ == "__main__":
    unittest.main()
