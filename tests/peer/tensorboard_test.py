"""TensorBoard's own reader finds the curves of a run, each point with its step."""
import math

import peer

peer.run_in_peers()

from tensorboard.backend.event_processing import event_accumulator  # noqa: E402


class TensorBoardTest(peer.LocalRunTest):
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
