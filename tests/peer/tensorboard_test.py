"""TensorBoard's own reader finds the curves of a run, each point with its step."""
import math
import subprocess
import time

import peer

peer.run_in_peers()

from tensorboard.backend.event_processing import event_accumulator  # noqa: E402


def losses(folder):
    events = event_accumulator.EventAccumulator(
        str(folder), size_guidance={event_accumulator.SCALARS: 0})
    events.Reload()
    return events.Scalars("train/loss") if "train/loss" in events.Tags()["scalars"] else []


class TensorBoardTest(peer.LocalRunTest):
    def test_reads_the_curves_of_a_run_that_goes_on(self):
        """And still has them when everything was killed."""
        process = subprocess.Popen(
            [peer.options.lockstep, "run", "examples/mnist.yaml", "--work-dir", str(self.work_dir),
             *peer.SMALL_JOB, "--set", "spec.training.epochs=1000"],
            cwd=peer.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        folder = self.work_dir / "volumes" / "logs"
        deadline = time.monotonic() + 60
        while not folder.exists() or not losses(folder):
            self.assertLess(time.monotonic(), deadline, self.logs())
            self.assertIsNone(process.poll(), self.logs())
            time.sleep(0.5)
        process.kill()
        process.wait()
        self.assertTrue(losses(folder))

    def test_reads_the_curves_of_a_run(self):
        report = self.lockstep_run("examples/mnist.yaml", *peer.SMALL_JOB)
        events = event_accumulator.EventAccumulator(
            str(peer.ROOT / report["summaries"]), size_guidance={event_accumulator.SCALARS: 0})
        events.Reload()
        tags = set(events.Tags()["scalars"])
        self.assertLessEqual({"train/loss", "train/accuracy", "train/learning_rate",
                              "test/loss", "test/accuracy"}, tags)
        losses = events.Scalars("train/loss")
        self.assertEqual(sorted({event.step for event in losses}), [event.step for event in losses])
        self.assertEqual(report["steps"], losses[-1].step)
        self.assertTrue(all(math.isfinite(event.value) for event in losses))
        self.assertLess(losses[-1].value, losses[0].value)
        self.assertAlmostEqual(report["test_accuracy"], events.Scalars("test/accuracy")[-1].value,
                               places=5)


if __name__ == "__main__":
    peer.main()
