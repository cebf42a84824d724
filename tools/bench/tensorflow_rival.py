#!/usr/bin/env python3
"""TensorFlow on Lockstep's models. With TF_CONFIG, MultiWorkerMirroredStrategy with RING; with TF_CONFIG that
has a chief, ParameterServerStrategy, of which the chief measures and the others serve until they are killed."""
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


def make_worker_dataset(folder, batch):
    """Likewise, read by the worker: what is in memory here would be sent to each with the graph."""
    def decode(images, labels):
        pixels = tf.cast(tf.io.decode_raw(images, tf.uint8), tf.float32) / 255
        return tf.reshape(pixels, [batch, 28, 28, 1]), tf.reshape(tf.io.decode_raw(labels, tf.uint8), [batch])

    # An IDX file is a header of 4 bytes and 4 for each dimension, and then one record after the other.
    images = tf.data.FixedLengthRecordDataset(f"{folder}/train-images-idx3-ubyte", 28 * 28, header_bytes=16)
    labels = tf.data.FixedLengthRecordDataset(f"{folder}/train-labels-idx1-ubyte", 1, header_bytes=8)
    records = tf.data.Dataset.zip((images, labels)).cache().shuffle(60000, seed=1).repeat()
    return records.batch(batch, drop_remainder=True).map(decode).prefetch(2)


def make_model(name):
    return tf.keras.Sequential([L.Input((28, 28, 1)), *MODELS[name]()])


def make_step(strategy, model, optimizer, batch):
    def replica_step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int64), logits)
            loss = tf.reduce_sum(losses) / batch
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)  # summed over the replicas by Keras
        return loss

    @tf.function
    def step(inputs):
        losses = strategy.run(replica_step, args=inputs)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return step


def train(strategy, arguments):
    """Images per second of a loop in which all replicas make each step together."""
    batch = arguments.batch * strategy.num_replicas_in_sync
    with strategy.scope():
        model = make_model(arguments.model)
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
    return arguments.steps * batch / (time.perf_counter() - start), last


def train_with_servers(cluster, arguments):
    """Images per second of workers that pull parameters and push gradients, each at its own speed."""
    # Variables of a megabyte and more are divided among the servers, as the guide to the strategy does it.
    partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
        min_shard_bytes=1 << 20, max_shards=cluster.cluster_spec().num_tasks("ps"))
    strategy = tf.distribute.ParameterServerStrategy(cluster, variable_partitioner=partitioner)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = make_model(arguments.model)
        optimizer = tf.keras.optimizers.SGD(1e-2)
        optimizer.build(model.trainable_variables)
    step = make_step(strategy, model, optimizer, arguments.batch)
    batches = iter(coordinator.create_per_worker_dataset(
        lambda: make_worker_dataset(arguments.data, arguments.batch)))

    @tf.function
    def next_step(iterator):
        return step(next(iterator))

    start, loss = 0.0, None
    for count in (arguments.warmup, arguments.steps):
        start = time.perf_counter()
        for _ in range(count):
            loss = coordinator.schedule(next_step, args=(batches,))
        coordinator.join()
    return arguments.steps * arguments.batch / (time.perf_counter() - start), float(loss.fetch())


def serve(cluster):
    """A worker or parameter server, until the process is killed."""
    tf.distribute.Server(cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id,
                         protocol="grpc").join()


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
    serves = "chief" in json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
    # A server with one such thread, which is its default on one core, deadlocks.
    tf.config.threading.set_inter_op_parallelism_threads(8 if serves else arguments.threads)

    task = json.loads(os.environ.get("TF_CONFIG", '{"task": {"type": "worker", "index": 0}}'))["task"]
    if task["type"] == "chief":
        speed, last = train_with_servers(tf.distribute.cluster_resolver.TFConfigClusterResolver(), arguments)
    elif serves:
        serve(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    else:
        speed, last = train(make_strategy(), arguments)
    print(json.dumps({"images_per_second": speed, "loss": last, "rank": task["index"], "version": tf.__version__}))


if __name__ == "__main__":
    main()
