#!/usr/bin/env python3
"""Data-parallel training on several processes with plain JAX; nothing in here needs Lockstep.

JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID say where the first process listens, how many there are and
which one this is. If report.py is there, process 0 tells the operator how far it is.
"""
import argparse
import hashlib
import json
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

try:
    from report import report_progress
except ImportError:  # it runs without
    def report_progress(**_):
        return False

CLASSES, FEATURES, HIDDEN, EXAMPLES = 10, 64, 256, 8192


def say(**record):
    print(json.dumps({"process": jax.process_index(), **record}), flush=True)


def make_data():
    """Points around one centre for each class: the same in every process."""
    random = np.random.default_rng(1)
    centres = random.normal(size=(CLASSES, FEATURES))
    labels = random.integers(CLASSES, size=EXAMPLES)
    points = centres[labels] + 2 * random.normal(size=(EXAMPLES, FEATURES))
    return points.astype(np.float32), labels.astype(np.int32)


def make_state():
    random = np.random.default_rng(2)
    values = {"w1": random.normal(size=(FEATURES, HIDDEN)) / FEATURES**0.5, "b1": np.zeros(HIDDEN),
              "w2": random.normal(size=(HIDDEN, CLASSES)) / HIDDEN**0.5, "b2": np.zeros(CLASSES)}
    values.update({f"{name}.momentum": np.zeros_like(value) for name, value in values.items()})
    return {name: value.astype(np.float32) for name, value in values.items()}


def loss_of(parameters, points, labels):
    hidden = jax.nn.relu(points @ parameters["w1"] + parameters["b1"])
    logits = jax.nn.log_softmax(hidden @ parameters["w2"] + parameters["b2"])
    return -jnp.take_along_axis(logits, labels[:, None], axis=1).mean()


@jax.jit
def train_step(state, points, labels):
    """The batch is spread over all devices and the state is on each, so that JAX averages the gradients of all."""
    parameters = {name: value for name, value in state.items() if "." not in name}
    loss, gradients = jax.value_and_grad(loss_of)(parameters, points, labels)
    after = {}
    for name, gradient in gradients.items():
        momentum = after[f"{name}.momentum"] = 0.9 * state[f"{name}.momentum"] + gradient
        after[name] = parameters[name] - 0.01 * momentum
    return after, loss


def restore(checkpoint):
    """What process 0 has saved, if it has, in every process: the state and how many steps it has."""
    if not checkpoint.exists():
        return make_state(), 0
    with np.load(checkpoint) as saved:
        return {name: saved[name] for name in saved.files if name != "step"}, int(saved["step"])


def save(checkpoint, state, step):
    """Process 0 only. Whoever reads sees the old file or the new one."""
    new = checkpoint.with_name("new.npz")
    np.savez(new, step=step, **{name: np.asarray(value) for name, value in state.items()})
    os.replace(new, checkpoint)


def run(arguments, checkpoint):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    on_each, spread = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))
    to_devices = jax.make_array_from_process_local_data
    state, first = restore(checkpoint)
    say(processes=jax.process_count(), pid=os.getpid(), restored_step=first)
    state = {name: to_devices(on_each, value) for name, value in state.items()}
    points, labels = make_data()
    mine = slice(jax.process_index() * arguments.batch, (jax.process_index() + 1) * arguments.batch)
    for step in range(first + 1, arguments.steps + 1):
        chosen = np.random.default_rng(step).integers(EXAMPLES, size=arguments.batch * jax.process_count())[mine]
        state, loss = train_step(state, to_devices(spread, points[chosen]), to_devices(spread, labels[chosen]))
        loss = float(loss)
        report_progress(step=step, total=arguments.steps, loss=loss)
        if step % arguments.save_every == 0 and jax.process_index() == 0:
            save(checkpoint, state, step)
            say(step=step, loss=round(loss, 4), saved=True)
    digest = hashlib.sha256(b"".join(np.asarray(state[name]).tobytes() for name in sorted(state)))
    say(steps=arguments.steps, state=digest.hexdigest()[:16])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoints", type=pathlib.Path, required=True, help="a folder that all processes see")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64, help="of one process; its devices share it")
    parser.add_argument("--save-every", type=int, default=100, help="steps")
    arguments = parser.parse_args()
    # JAX itself reads only the address. It need not ask Kubernetes for the rest, which its detection of clusters would.
    jax.distributed.initialize(
        os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["JAX_NUM_PROCESSES"]), int(os.environ["JAX_PROCESS_ID"]),
        cluster_detection_method="deactivate")
    run(arguments, arguments.checkpoints / "latest.npz")
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
