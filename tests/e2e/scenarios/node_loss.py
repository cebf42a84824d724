"""A node falls silent: training goes on from memory, elsewhere, at nobody's expense.

What is stopped is the node's container, with all that runs in it: as when a machine hangs, no
connection is closed. Later it goes on, and the old process finds that it has been replaced."""
import time

from cluster import SHARED
from job import (SAVED_EVERY, Job, make_namespace, make_shared_claim, seconds_of,
                 training_job)
from steps import expect

NAMESPACE = "e2e-node-loss"
GOAL_SECONDS = 90  # of them Kubernetes takes about 50 to notice
PAUSED = []  # nodes


def run(cluster):
    steps = cluster.steps
    with steps.step("the operator, on a node that is not stopped", 120):
        cluster.install()
        cluster.put_operator_on_the_control_plane()
    with steps.step("a namespace, a volume that every node can write to", 30):
        make_namespace(cluster, NAMESPACE)
        for name in ("leader", "member"):
            make_shared_claim(cluster, NAMESPACE, name)
    lose(cluster, "leader", lost=0)
    lose(cluster, "member", lost=1)


def clean_up(cluster):
    for node in PAUSED:
        cluster.call("docker", "unpause", node, check=False)
    PAUSED.clear()
    cluster.remove(("namespace", NAMESPACE), *(("pv", f"{NAMESPACE}-{name}") for name in ("leader", "member")))


def lose(cluster, name, lost):
    """The node of worker `lost` of a job of two is stopped."""
    steps, job = cluster.steps, Job(cluster, NAMESPACE, name)
    gone, survivor = f"{name}-worker-{lost}", f"{name}-worker-{1 - lost}"
    with steps.step(f"{name}: a job of two trains, each on a node of its own", 180):
        job.apply(training_job(name, claim=name))
        job.await_training(gone)
        job.await_training(survivor)
        job.await_step_beyond(0)
        before, node = job.lives(), job.node_of(gone)
        pids = trainers_on(cluster, node)
        expect(len(pids) == 2, f"a supervisor and a rank on {node}", pids)
    with steps.step(f"{name}: its node is stopped, and training goes on elsewhere", 240):
        PAUSED.append(node)
        cluster.call("docker", "pause", node)
        paused = time.time()
        record = job.await_training(survivor, generations=2)
        noticed = seconds_of(cluster.readiness(node)["lastTransitionTime"])
    with steps.step(f"{name}: what it cost, and whom", 60):
        steps.note(f"{noticed - paused:.0f} s from the end of the {name}'s node until it was not ready")
        measure(job, survivor, record, paused)
        check_innocent(job, gone, survivor, before, node)
    bring_back(cluster, job, survivor, node)
    with steps.step(f"{name}: the job is deleted", 60):
        job.delete()


def bring_back(cluster, job, survivor, node):
    """The old process goes on for a moment. It must neither join nor save."""
    steps, folder = cluster.steps, SHARED / f"{NAMESPACE}-{job.name}"
    owner = (folder / "owner.json").read_text()
    with steps.step(f"{job.name}: the node comes back, and the old process ends", 180):
        cluster.call("docker", "unpause", node)
        PAUSED.remove(node)
        steps.until(f"{node} ready", lambda: cluster.is_ready(node))
        steps.until(f"no trainer on {node}", lambda: trainers_on(cluster, node), lambda pids: not pids)
    with steps.step(f"{job.name}: which changes nothing", 90):
        lives, step = job.lives(), job.step()
        steps.stays("the pods as they were", job.lives, lambda found: found == lives, 15)
        job.await_step_beyond(step)
        expect(job.restarts() == (0, 1), "one restart, by a disruption", job.restarts())
        generations = job.first_steps(survivor)
        expect(len(generations) == 2, "two generations", generations)
        now = (folder / "owner.json").read_text()
        expect(now == owner, f"the checkpoints' owner as it was, {owner}", now)
        saved = sorted(path.name for path in folder.glob("step-*"))
        regular = [f"step-{int(name[5:13]) // SAVED_EVERY * SAVED_EVERY:08}" for name in saved]
        expect(saved == regular, f"a checkpoint for every {SAVED_EVERY} steps, and no other", saved)


def trainers_on(cluster, node):
    return cluster.call("docker", "exec", node, "pgrep", "-x", "lockstep-traine", check=False).split()


def measure(job, survivor, record, paused):
    seconds = seconds_of(record["time"]) - paused
    ended = job.ended(survivor)
    job.steps.within(GOAL_SECONDS, seconds, f"from the end of the {job.name}'s node to step "
                     f"{record['step']}, after step {ended}")
    expect(record["step"] == ended + 1, f"the step after {ended}, which is in memory", record)


def check_innocent(job, gone, survivor, before, node):
    after = job.lives()
    expect(after[survivor] == before[survivor], f"{survivor} as it was", after)
    expect(after[gone][0] != before[gone][0], f"a successor of {gone}", after)
    expect(job.node_of(gone) != node, f"{gone} not on {node}", job.node_of(gone))
    expect(len(job.said(survivor, "replica started")) == 1, "the survivor's process as it was",
           job.said(survivor, "replica started"))
    job.steps.until("no application restart, one disruption", job.restarts,
                    lambda restarts: restarts == (0, 1))

