"""`kubectl scale` changes the size of a job that trains; the pods that stay are not started again, no step is done
twice, and each sample of an epoch counts once."""
from job import SAVED_EVERY, Job, make_namespace, make_shared_claim, training_job
from steps import expect

NAMESPACE = "e2e-elastic"
CLAIM = "checkpoints"
LEADER = "grows-worker-0"
SIZES = (2, 4, 1)
EPOCH = 4096  # samples of the generated data


def run(cluster):
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "grows")
    with steps.step("the operator, and a namespace for restricted pods", 120):
        cluster.install()
        make_namespace(cluster, NAMESPACE)
        make_shared_claim(cluster, NAMESPACE, CLAIM)
    with steps.step(f"a job of {SIZES[0]} workers trains", 120):
        job.apply(elastic_job())
        job.await_training(LEADER)
        job.await_step_beyond(SAVED_EVERY)  # a checkpoint that a resize must not go back to
    for size in SIZES[1:]:
        with steps.step(f"kubectl scale --replicas={size}: {size} train", 180):
            scale(job, size)
    with steps.step("each sample of an epoch counts once", 60):
        ended = len(epochs(job))
        steps.until("one more epoch", lambda: epochs(job), lambda found: len(found) > ended)
        check_epochs(epochs(job))
    with steps.step("a scale beyond maxReplicas is rejected", 30):
        error = cluster.refused(*job.where, "scale", "tj/grows", f"--replicas={max(SIZES) + 1}")
        expect("spec.elastic" in error or "maxReplicas" in error,
               "an error that names spec.elastic or maxReplicas", error)
    with steps.step("the job is deleted", 60):
        job.delete()


def clean_up(cluster):
    cluster.remove(("namespace", NAMESPACE), ("pv", f"{NAMESPACE}-{CLAIM}"))


def elastic_job():
    job = training_job("grows", workers=SIZES[0], claim=CLAIM,
                       elastic={"minReplicas": min(SIZES), "maxReplicas": max(SIZES)})
    del job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["affinity"]  # there are more pods than nodes
    return job


def of(records, message):
    return [record for record in records if record["message"] == message]


def scale(job, size):
    old = job.lives()
    seen = len(job.steps.until("the leader's log", lambda: job.records(LEADER)))
    job.kubectl("scale", "tj/grows", f"--replicas={size}")
    names = [f"grows-worker-{index}" for index in range(size)]
    job.steps.until(f"{size} pods", job.uids, lambda uids: sorted(uids) == names)
    check_resize(job.steps.until(f"the first step of {size}", lambda: job.records(LEADER)[seen:],
                                 lambda records: trains(records, size)))
    now = job.lives()
    for name in set(old) & set(names):
        expect(now[name] == old[name], f"{name} as it was, {old[name]}", now[name])
    expect(job.restarts() == (0, 0), "no restart charged", job.restarts())
    scaled = job.cluster.find("tj", "grows", *job.where, "--subresource=scale")
    expect(scaled["spec"]["replicas"] == size, f"a scale of {size}", scaled)


def trains(records, size):
    started = of(records, "the generation has started")
    return started and started[-1]["world"] == size and of(records, "first step of the generation")


def check_resize(records):
    """The leader's since the scale: its group stops once, and goes on from there, not from an earlier checkpoint."""
    stopped = of(records, "the generation has stopped")
    expect(len(stopped) == 1, "a generation that has stopped once", stopped)
    last = stopped[0]["step"]
    restored = of(records, "restored a checkpoint")
    expect({record["step"] for record in restored} == {last}, f"a restore of step {last}, the last one done", restored)
    first = of(records, "first step of the generation")
    expect(first[0]["step"] == last + 1, f"the step after {last}", first)


def epochs(job):
    return job.said(LEADER, "epoch done")


def check_epochs(found):
    expect([one["epoch"] for one in found] == list(range(found[0]["epoch"], found[0]["epoch"] + len(found))),
           "each epoch once, in order", found)
    for one in found:
        expect((one["samples"], one["samplesLost"], one["samplesDuplicated"]) == (EPOCH, 0, 0),
               f"{EPOCH} samples, none lost, none counted twice", one)
