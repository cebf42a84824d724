#!/usr/bin/env python3
"""Synchronous training on several workers with plain TensorFlow 2; nothing here depends on Lockstep.

What TensorFlow needs to know is in TF_CONFIG: every worker's address, and which of them this is.
"""
import argparse
import json
import os
import sys

import numpy as np
import tensorflow as tf

CLASSES, FEATURES = 10, 64


def check_resolver():
    """Checks that TensorFlow's resolver reads TF_CONFIG as it was written. Returns (type, index)."""
    written = json.loads(os.environ["TF_CONFIG"])
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    found = {"cluster": resolver.cluster_spec().as_dict(),
             "task": {"type": resolver.task_type, "index": resolver.task_id}}
    for key, value in found.items():
        if value != written[key]:
            sys.exit(f"TF_CONFIG: TensorFlow reads {key} as {value}, but it says {written[key]}")
    return resolver.task_type, resolver.task_id


def make_data(examples):
    """Points around one centre for each class: the same on every worker."""
    random = np.random.default_rng(1)
    centres = random.normal(size=(CLASSES, FEATURES))
    labels = random.integers(CLASSES, size=examples)
    features = centres[labels] + random.normal(size=(examples, FEATURES))
    return features.astype(np.float32), labels.astype(np.int64)


def make_dataset(batch):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = tf.data.Dataset.from_tensor_slices(make_data(8192)).shuffle(8192, seed=1).repeat()
    return dataset.batch(batch, drop_remainder=True).with_options(options)


def make_step(strategy, model, optimizer, batch):
    def replica_step(features, labels):
        with tf.GradientTape() as tape:
            logits = model(features, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_sum(losses) / batch  # by the global batch: the replicas' losses add up
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)  # summed over the replicas by Keras
        return loss

    @tf.function
    def step(inputs):
        losses = strategy.run(replica_step, args=inputs)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return step


def variables_of_all(strategy, model):
    """Returns a matrix with one row for each replica: all its weights."""
    @tf.function
    def flat():
        weights = [tf.reshape(tf.convert_to_tensor(v), [-1]) for v in model.trainable_variables]
        return tf.concat(weights, axis=0)[tf.newaxis]

    return strategy.gather(strategy.run(flat), axis=0).numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=128, help="of all workers together")
    arguments = parser.parse_args()

    task_type, task_id = check_resolver()
    communication = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication)
    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        model = tf.keras.Sequential([
            tf.keras.layers.Input((FEATURES,)),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(CLASSES),
        ])
        optimizer = tf.keras.optimizers.Adam(1e-2)
        optimizer.build(model.trainable_variables)

    step = make_step(strategy, model, optimizer, arguments.batch)
    batches = iter(strategy.experimental_distribute_dataset(make_dataset(arguments.batch)))
    first = loss = float(step(next(batches)))
    for _ in range(arguments.steps - 1):
        loss = float(step(next(batches)))

    rows = variables_of_all(strategy, model)
    equal = bool((rows == rows[0]).all())
    print(json.dumps({"task": f"{task_type}:{task_id}", "replicas": len(rows),
                      "steps": arguments.steps, "first_loss": round(first, 4),
                      "loss": round(loss, 4), "variables_equal": equal}), flush=True)
    if not equal:
        sys.exit("the replicas' variables differ")


if __name__ == "__main__":
    main()
