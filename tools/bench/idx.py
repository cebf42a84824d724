"""MNIST from IDX files, for the rivals' scripts."""
import pathlib

import numpy as np


def read(folder, name):
    """The array of one IDX file of bytes."""
    data = pathlib.Path(folder, name).read_bytes()
    if data[:3] != b"\0\0\x08":
        raise ValueError(f"{folder}/{name}: found magic {data[:4].hex()}, expected an IDX file of bytes")
    shape = np.frombuffer(data, ">u4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def train_set(folder):
    """Images in [0, 1], N,H,W, and labels."""
    images = read(folder, "train-images-idx3-ubyte").astype(np.float32) / 255
    return images, read(folder, "train-labels-idx1-ubyte").astype(np.int64)
