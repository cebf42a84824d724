"""Reads our file with Python's safetensors package, and checks that its file is the one we read.

With --write the second file is made anew.
"""
import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file, save

TESTDATA = pathlib.Path(__file__).parent / "testdata"
EXPECTED = {
    "conv2d/weight": np.array([1, -2.5, 3e-8, np.inf], np.float32).reshape(2, 1, 1, 2),
    "step": np.array(7, np.float32),
    "none": np.zeros((0, 3), np.float32),
    "bias": np.array([-0.0, 1, 2], np.float32),
}

ours = load_file(TESTDATA / "ours.safetensors")
assert ours.keys() == EXPECTED.keys(), ours.keys()
for name, expected in EXPECTED.items():
    assert ours[name].dtype == np.float32 and ours[name].shape == expected.shape, name
    assert ours[name].tobytes() == expected.tobytes(), name

theirs = save(EXPECTED, metadata={"format": "np"})
if "--write" in sys.argv:
    (TESTDATA / "theirs.safetensors").write_bytes(theirs)
assert (TESTDATA / "theirs.safetensors").read_bytes() == theirs, "run with --write"
print("safetensors: both directions agree")
