#!/usr/bin/env python3
"""ParameterServerStrategy on MNIST; nothing in here knows Lockstep.

The chief coordinates: it hands steps to the workers, which read and update variables on the parameter
servers, each at its own pace. Workers and parameter servers serve until they are stopped.
"""
import argparse
import json
import os

import mnist
import tensorflow as tf


def say(resolver, **record):
    print(json.dumps({"task": f"{resolver.task_type}:{resolver.task_id}", **record}), flush=True)


def serve(resolver):
    """Never returns."""
    tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id,
                         protocol="grpc").join()


def make_step(strategy, model, optimizer):
    def replica_step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def step(batches):
        return strategy.run(replica_step, args=next(batches))

    return step


def train_by_loop(strategy, arguments):
    """(model, mean losses of the first and the last tenth)"""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = mnist.make_model()
        optimizer = tf.keras.optimizers.SGD(arguments.rate)
        optimizer.build(model.trainable_variables)
    step = make_step(strategy, model, optimizer)
    dataset = coordinator.create_per_worker_dataset(lambda: mnist.train_set(arguments.data, arguments.batch))
    batches = iter(dataset)
    means = []
    for _ in range(10):
        losses = [coordinator.schedule(step, args=(batches,)) for _ in range(arguments.steps // 10)]
        coordinator.join()
        means.append(sum(float(loss.fetch()) for loss in losses) / len(losses))
    return model, means[0], means[-1]


def train_by_fit(strategy, arguments):
    """(model, mean losses of the first and the last tenth)"""
    with strategy.scope():
        model = mnist.make_model()
        model.compile(
            optimizer=tf.keras.optimizers.SGD(arguments.rate),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    creator = tf.keras.utils.experimental.DatasetCreator(
        lambda _context: mnist.train_set(arguments.data, arguments.batch))
    history = model.fit(creator, epochs=10, steps_per_epoch=arguments.steps // 10, verbose=0)
    return model, history.history["loss"][0], history.history["loss"][-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="a folder with MNIST's four files")
    parser.add_argument("--steps", type=int, default=600, help="of all workers together")
    parser.add_argument("--batch", type=int, default=64, help="of one worker")
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--fit", action="store_true", help="model.fit instead of a loop")
    arguments = parser.parse_args()

    os.environ["GRPC_FAIL_FAST"] = "use_caller"  # the coordinator, not gRPC, decides about lost workers
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    say(resolver, cluster=resolver.cluster_spec().as_dict())
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
    tf.keras.utils.set_random_seed(1)
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    train = train_by_fit if arguments.fit else train_by_loop
    model, first, last = train(strategy, arguments)
    placed = sorted({weight.handle.device for weight in model.trainable_variables})
    say(resolver, keras=type(model).__module__.split(".")[0], variables_on=placed, first_loss=round(first, 4),
        loss=round(last, 4), accuracy=round(mnist.accuracy(model, arguments.data), 4))


if __name__ == "__main__":
    main()
