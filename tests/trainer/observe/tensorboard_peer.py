"""Reads an event file of ours with the real TensorBoard. Argument: the write_summaries program."""
import subprocess
import sys
import tempfile
import time

from tensorboard.backend.event_processing import event_accumulator

with tempfile.TemporaryDirectory() as directory:
    subprocess.run([sys.argv[1], directory], check=True)
    events = event_accumulator.EventAccumulator(directory)
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["train/accuracy", "train/loss"], events.Tags()
    loss = events.Scalars("train/loss")
    assert [e.step for e in loss] == list(range(100))
    assert all(abs(e.value - 2 / (e.step + 1)) < 1e-6 for e in loss)
    assert all(abs(e.wall_time - time.time()) < 60 for e in loss)
    accuracy = events.Scalars("train/accuracy")
    assert accuracy[-1].step == 99_000_000_000 and abs(accuracy[-1].value - 0.99) < 1e-6
    assert events.file_version == 2.0, events.file_version
print("tensorboard: reads every scalar")
