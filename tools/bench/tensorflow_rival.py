#!/usr/bin/env python3
"""TensorFlow on Lockstep's models; with TF_CONFIG, MultiWorkerMirroredStrategy with RING."""
import argparse
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import idx  # noqa: E402
import tensorflow as tf  # noqa: E402

L = tf.keras.layers
MODELS = {
    "core-cnn": lambda: [
        L.Conv2D(32, 5, padding="same", activation="relu"), L.MaxPool2D(2),
        L.Conv2D(64, 5, padding="same", activation="relu"), L.MaxPool2D(2),
        L.Flatten(), L.Dense(1024, activation="relu"), L.Dense(10)],
    "simple-cnn": lambda: [
        L.Conv2D(32, 3, activation="relu"), L.MaxPool2D(2), L.Flatten(), L.Dense(10)],
    "mlp": lambda: [L.Flatten(), L.Dense(128, activation="relu"), L.Dense(10)],
}


def make_strategy():
    if "TF_CONFIG" not in os.environ:
        return tf.distribute.get_strategy()
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    return tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(implementation=ring))


def make_dataset(folder, batch):
    images, labels = idx.train_set(folder)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = tf.data.Dataset.from_tensor_slices((images[..., None], labels))
    return dataset.shuffle(60000, seed=1).repeat().batch(batch).prefetch(2).with_options(options)


def make_step(strategy, model, optimizer, batch):
    def replica_step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_sum(losses) / batch
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)  # summed over the replicas by Keras
        return loss

    @tf.function
    def step(inputs):
        losses = strategy.run(replica_step, args=inputs)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="a folder of IDX files")
    parser.add_argument("--model", choices=MODELS, default="core-cnn")
    parser.add_argument("--batch", type=int, default=128, help="of one process")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--warmup", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)

    strategy = make_strategy()
    batch = arguments.batch * strategy.num_replicas_in_sync
    with strategy.scope():
        model = tf.keras.Sequential([L.Input((28, 28, 1)), *MODELS[arguments.model]()])
        optimizer = tf.keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
    step = make_step(strategy, model, optimizer, batch)
    batches = iter(strategy.experimental_distribute_dataset(make_dataset(arguments.data, batch)))
    start, loss = 0.0, None
    for count in range(arguments.warmup + arguments.steps):
        if count == arguments.warmup:
            start = time.perf_counter()
        loss = step(next(batches))
    last = float(loss)
    seconds = time.perf_counter() - start
    rank = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))["task"]["index"]
    print(json.dumps({"images_per_second": arguments.steps * batch / seconds, "loss": last,
                      "rank": rank, "version": tf.__version__}))


if __name__ == "__main__":
    main()
