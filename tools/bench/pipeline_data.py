#!/usr/bin/env python3
"""pipeline_data.py FOLDER: makes what tools/bench/pipelines reads: folders/, photo-records/ and small-records/."""
import io
import pathlib
import sys

import numpy as np
import tensorflow as tf
from PIL import Image

PHOTOS, FILES, SMALL, CLASSES = 600, 4, 120_000, 10
WIDTH, HEIGHT = 500, 375


def photograph(drawn):
    """A JPEG of shapes and noise: some 80 KB, as photographs of this size have."""
    coarse = Image.fromarray(drawn.integers(0, 256, (12, 16, 3), np.uint8)).resize((WIDTH, HEIGHT), Image.BICUBIC)
    noise = drawn.normal(0, 14, (HEIGHT, WIDTH, 3))
    pixels = np.clip(np.asarray(coarse, np.float32) + noise, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def example(image, label):
    features = {"image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write_records(folder, samples):
    """As many files as FILES, in turn; one more sample is the test set."""
    folder.mkdir()
    writers = [tf.io.TFRecordWriter(str(folder / f"train-{i}.tfrecord")) for i in range(FILES)]
    for index, (image, label) in enumerate(samples):
        writers[index % FILES].write(example(image, label))
    for writer in writers:
        writer.close()
    with tf.io.TFRecordWriter(str(folder / "test.tfrecord")) as writer:
        writer.write(example(image, label))


def main():
    root, drawn = pathlib.Path(sys.argv[1]), np.random.default_rng(1)
    photos = [(photograph(drawn), index % CLASSES) for index in range(PHOTOS)]
    for index, (image, label) in enumerate(photos):
        for part in ("train", "val") if index < CLASSES else ("train",):
            folder = root / "folders" / part / f"class-{label}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{index}.jpg").write_bytes(image)
    write_records(root / "photo-records", photos)
    write_records(root / "small-records", ((drawn.bytes(28 * 28), index % CLASSES) for index in range(SMALL)))


if __name__ == "__main__":
    main()
