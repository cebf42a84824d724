#!/usr/bin/env python3
"""Batches per second of tf.data or torchvision over the files that pipeline_data.py makes."""
import argparse
import json
import os
import pathlib
import time

SIDE = 224


def tensorflow_batches(arguments):
    """Endless, with all that tf.data's guide to performance advises."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    options = tf.data.Options()
    options.threading.private_threadpool_size = arguments.threads
    automatic = tf.data.AUTOTUNE
    features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def decode(image):
        return tf.image.resize(tf.io.decode_jpeg(image, channels=3), [SIDE, SIDE]) / 255

    def from_file(path, label):
        return decode(tf.io.read_file(path)), label

    def from_record(record):
        parsed = tf.io.parse_single_example(record, features)
        return decode(parsed["image"]), parsed["label"]

    def from_records(batch):
        parsed = tf.io.parse_example(batch, features)
        pixels = tf.cast(tf.io.decode_raw(parsed["image"], tf.uint8), tf.float32) / 255
        return tf.reshape(pixels, [-1, 28, 28, 1]), parsed["label"]

    if (arguments.data / "train").is_dir():
        files = sorted((arguments.data / "train").glob("*/*.jpg"))
        names = sorted({file.parent.name for file in files})
        dataset = tf.data.Dataset.from_tensor_slices(
            ([str(file) for file in files], [names.index(file.parent.name) for file in files]))
        dataset = dataset.shuffle(len(files), seed=1).repeat().map(from_file, num_parallel_calls=automatic)
        dataset = dataset.batch(arguments.batch)
    else:
        files = sorted(str(file) for file in arguments.data.glob("train-*"))
        dataset = tf.data.TFRecordDataset(files, num_parallel_reads=automatic).shuffle(10_000, seed=1).repeat()
        if arguments.data.name == "small-records":  # parsed by batches, which is several times faster
            dataset = dataset.batch(arguments.batch).map(from_records, num_parallel_calls=automatic)
        else:
            dataset = dataset.map(from_record, num_parallel_calls=automatic).batch(arguments.batch)
    return iter(dataset.prefetch(automatic).with_options(options)), tf.__version__


def torchvision_batches(arguments):
    """Endless, as torchvision's own reference script for classification reads."""
    import torch
    import torchvision
    transforms = torchvision.transforms.Compose(
        [torchvision.transforms.Resize((SIDE, SIDE)), torchvision.transforms.ToTensor()])
    dataset = torchvision.datasets.ImageFolder(arguments.data / "train", transforms)
    loader = torch.utils.data.DataLoader(dataset, arguments.batch, shuffle=True, num_workers=arguments.threads,
                                         persistent_workers=True)

    def endless():
        while True:
            yield from loader

    return endless(), torchvision.__version__


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=("tensorflow", "torchvision"))
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--samples", type=int, required=True, help="so many are timed, after a tenth of them")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    batches, version = {"tensorflow": tensorflow_batches,
                        "torchvision": torchvision_batches}[arguments.library](arguments)

    def read(samples):
        seen = 0
        while seen < samples:
            seen += len(next(batches)[1])
        return seen

    read(arguments.samples // 10)
    begin = time.perf_counter()
    seen = read(arguments.samples)
    print(json.dumps({"samples_per_second": seen / (time.perf_counter() - begin), "version": version}))


if __name__ == "__main__":
    main()
