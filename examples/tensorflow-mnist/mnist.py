"""MNIST's four IDX files as tf.data datasets. Whoever iterates over one reads its own volume."""
import tensorflow as tf

SIDE = 28


def _read(folder, part, batch):
    def decode(images, labels):
        pixels = tf.cast(tf.io.decode_raw(images, tf.uint8), tf.float32) / 255
        return (tf.reshape(pixels, [-1, SIDE, SIDE, 1]),
                tf.cast(tf.reshape(tf.io.decode_raw(labels, tf.uint8), [-1]), tf.int64))

    # An IDX file is a header of 4 bytes and 4 for each dimension, and then one record after the other.
    images = tf.data.FixedLengthRecordDataset(f"{folder}/{part}-images-idx3-ubyte", SIDE * SIDE, header_bytes=16)
    labels = tf.data.FixedLengthRecordDataset(f"{folder}/{part}-labels-idx1-ubyte", 1, header_bytes=8)
    records = tf.data.Dataset.zip((images, labels))
    if part == "train":
        records = records.shuffle(60_000, seed=1).repeat()
    return records.batch(batch, drop_remainder=part == "train").map(decode).prefetch(2)


def train_set(folder, batch):
    """Endless, shuffled."""
    return _read(folder, "train", batch)


def test_set(folder, batch=1000):
    return _read(folder, "t10k", batch)


def make_model():
    return tf.keras.Sequential([
        tf.keras.layers.InputLayer((SIDE, SIDE, 1)),
        tf.keras.layers.Conv2D(32, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10),
    ])


def accuracy(model, folder):
    right = count = 0
    for images, labels in test_set(folder):
        guesses = tf.argmax(model(images, training=False), axis=1)
        right += int(tf.reduce_sum(tf.cast(guesses == labels, tf.int64)))
        count += len(labels)
    return right / count
