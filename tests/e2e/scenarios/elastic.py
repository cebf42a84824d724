"""`kubectl scale` changes the size of a job that trains; the pods that stay are not started again."""
from job import Job, make_namespace, make_shared_claim, training_job
from steps import expect

NAMESPACE = "e2e-elastic"
CLAIM = "checkpoints"


def run(cluster):
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "grows")
    with steps.step("the operator, and a namespace for restricted pods", 120):
        cluster.install()
        make_namespace(cluster, NAMESPACE)
        make_shared_claim(cluster, NAMESPACE, CLAIM)
    with steps.step("a job of one worker trains", 120):
        job.apply(training_job("grows", workers=1, claim=CLAIM,
                               elastic={"minReplicas": 1, "maxReplicas": 3}))
        job.await_training("grows-worker-0")
        step = job.await_step_beyond(50)
    for size in (3, 1):
        with steps.step(f"kubectl scale --replicas={size}: {size} train", 180):
            step = scale(job, size, step)
    with steps.step("a scale beyond maxReplicas is rejected", 30):
        error = cluster.refused(*job.where, "scale", "tj/grows", "--replicas=4")
        expect("spec.elastic" in error or "maxReplicas" in error,
               "an error that names spec.elastic or maxReplicas", error)
    with steps.step("the job is deleted", 60):
        job.delete()


def clean_up(cluster):
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")
    cluster.kubectl("delete", "pv", f"{NAMESPACE}-{CLAIM}", "--ignore-not-found", "--timeout=30s")


def scale(job, size, step):
    """Scales the job, which has reached `step`, and returns a step that it has reached after that."""
    old = job.lives()
    job.kubectl("scale", "tj/grows", f"--replicas={size}")
    names = [f"grows-worker-{index}" for index in range(size)]
    job.steps.until(f"{size} pods", job.uids, lambda uids: sorted(uids) == names)
    job.steps.until(f"a generation of {size}",
                    lambda: job.said("grows-worker-0", "the generation has started"),
                    lambda records: records and records[-1]["world"] == size)
    restored = job.said("grows-worker-0", "restored a checkpoint")
    expect(restored and restored[-1]["step"] >= step, f"no step before {step} repeated", restored)
    now = job.lives()
    for name in set(old) & set(names):
        expect(now[name] == old[name], f"{name} as it was, {old[name]}", now[name])
    expect(job.restarts() == (0, 0), "no restart charged", job.restarts())
    scaled = job.cluster.find("tj", "grows", *job.where, "--subresource=scale")
    expect(scaled["spec"]["replicas"] == size, f"a scale of {size}", scaled)
    return job.await_step_beyond(step)
