"""Reads event files of ours with the real TensorBoard. Argument: the write_summaries program."""
import subprocess
import sys
import tempfile
import time

from tensorboard.backend.event_processing import event_accumulator


def read(directory):
    events = event_accumulator.EventAccumulator(directory)
    events.Reload()
    assert events.file_version == 2.0, events.file_version
    return events


with tempfile.TemporaryDirectory() as directory:
    subprocess.run([sys.argv[1], directory], check=True)
    events = read(directory + "/once")
    assert sorted(events.Tags()["scalars"]) == ["train/accuracy", "train/loss"], events.Tags()
    loss = events.Scalars("train/loss")
    assert [e.step for e in loss] == list(range(100))
    assert all(abs(e.value - 2 / (e.step + 1)) < 1e-6 for e in loss)
    assert all(abs(e.wall_time - time.time()) < 60 for e in loss)
    accuracy = events.Scalars("train/accuracy")
    assert accuracy[-1].step == 99_000_000_000 and abs(accuracy[-1].value - 0.99) < 1e-6
    # Steps that were repeated stand there once, as they were done last.
    again = [(e.step, e.value) for e in read(directory + "/again").Scalars("train/loss")]
    assert again == [(s, 1 if s <= 80 else 2 if s <= 110 else 3) for s in range(1, 131)], again
print("tensorboard: reads every scalar")
