#!/usr/bin/env python3
"""MultiWorkerMirroredStrategy on MNIST; nothing in here knows Lockstep.

What TensorFlow needs to know is in TF_CONFIG. With --fit Keras runs the loop: Keras 2, by
TF_USE_LEGACY_KERAS=1, since Keras 3 does not train under this strategy.
"""
import argparse
import json

import mnist
import tensorflow as tf


def say(resolver, **record):
    print(json.dumps({"task": f"{resolver.task_type}:{resolver.task_id}", **record}), flush=True)


def make_dataset(arguments):
    """Of the global batch; each worker takes its share of every one."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return mnist.train_set(arguments.data, arguments.batch).with_options(options)


def make_step(strategy, model, optimizer, batch):
    def replica_step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_sum(losses) / batch  # of the global batch: the replicas' sums add up
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # summed over the replicas
        return loss

    @tf.function
    def step(batches):
        losses = strategy.run(replica_step, args=next(batches))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return step


def train_by_loop(strategy, arguments):
    """(model, losses of the first and the last step)"""
    with strategy.scope():
        model = mnist.make_model()
        optimizer = tf.keras.optimizers.Adam(arguments.rate)
        optimizer.build(model.trainable_variables)
    step = make_step(strategy, model, optimizer, arguments.batch)
    batches = iter(strategy.experimental_distribute_dataset(make_dataset(arguments)))
    losses = [float(step(batches)) for _ in range(arguments.steps)]
    return model, losses[0], losses[-1]


def train_by_fit(strategy, arguments):
    """(model, mean losses of the first and the last tenth)"""
    with strategy.scope():
        model = mnist.make_model()
        model.compile(
            optimizer=tf.keras.optimizers.Adam(arguments.rate),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(make_dataset(arguments), epochs=10, steps_per_epoch=arguments.steps // 10, verbose=0)
    return model, history.history["loss"][0], history.history["loss"][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="a folder with MNIST's four files")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=128, help="of all workers together")
    parser.add_argument("--rate", type=float, default=0.003)
    parser.add_argument("--fit", action="store_true", help="model.fit instead of a loop")
    arguments = parser.parse_args()

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    communication = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=communication)
    say(resolver, cluster=resolver.cluster_spec().as_dict(), replicas=strategy.num_replicas_in_sync)
    tf.keras.utils.set_random_seed(1)
    train = train_by_fit if arguments.fit else train_by_loop
    model, first, last = train(strategy, arguments)
    say(resolver, keras=type(model).__module__.split(".")[0], first_loss=round(first, 4), loss=round(last, 4),
        accuracy=round(mnist.accuracy(model, arguments.data), 4))


if __name__ == "__main__":
    main()
