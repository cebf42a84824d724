"""Parameter servers: both modes to their end, and what the loss of each kind of pod costs the others."""
from job import Job, make_namespace, make_shared_claim, resources, training_job
from steps import expect

NAMESPACE = "e2e-parameter-servers"
CLAIM = "checkpoints"
STEPS = 300
LEADER = "hit-worker-0"
FIRST_BATCH, FIRST_STEP = "first batch of the generation", "first step of the generation"


def run(cluster):
    with cluster.steps.step("the operator, a claim, and a namespace for restricted pods", 120):
        cluster.install()
        make_namespace(cluster, NAMESPACE)
        make_shared_claim(cluster, NAMESPACE, CLAIM)
    for mode in ("Sync", "Async"):
        to_the_end(cluster, mode)
    job = Job(cluster, NAMESPACE, "hit")
    with cluster.steps.step("an Async job trains", 120):
        job.apply(server_job("hit", "Async", claim=CLAIM))
        job.await_step_beyond(0)
    lose(job, "hit-worker-1", "another worker", disruptions=1)
    lose(job, "hit-ps-1", "a server", disruptions=2)
    lose(job, LEADER, "the leading worker", disruptions=3)
    with cluster.steps.step("the job is deleted", 60):
        job.delete()


def clean_up(cluster):
    cluster.remove(("namespace", NAMESPACE), ("pv", f"{NAMESPACE}-{CLAIM}"))


def server_job(name, mode, **fields):
    """Two servers and two workers on any nodes."""
    job = training_job(name, strategy={"type": "ParameterServer", "parameterServer": {"mode": mode}}, **fields)
    replicas = job["spec"]["replicaSpecs"]
    del replicas["Worker"]["template"]["spec"]["affinity"]  # there are more pods than nodes
    server = {"name": "trainer", "resources": resources("500m", "256Mi")}
    replicas["PS"] = {"replicas": 2, "template": {"spec": {"containers": [server]}}}
    return job


def to_the_end(cluster, mode):
    name = mode.lower()
    job = Job(cluster, NAMESPACE, name)
    with cluster.steps.step(f"{mode}: two servers and two workers", 240):
        job.apply(server_job(name, mode, steps=STEPS))
        found = job.await_state("Succeeded")
        expect(found["progress"]["step"] == STEPS, f"{STEPS} steps", found["progress"])
        expect(job.restarts() == (0, 0), "no restart", job.restarts())
        epochs = job.said(f"{name}-worker-0", "epoch done")
        expect(epochs and all(epoch["samplesLost"] == epoch["samplesDuplicated"] == 0 for epoch in epochs),
               "epochs in which each sample counts once", epochs)
        job.delete()


def reached(job, *messages):
    """The step of the last of these that the leader has logged."""
    return next((record["step"] for record in reversed(job.records(LEADER)) if record["message"] in messages), 0)


def lose(job, pod, what, disruptions):
    """The pod is recreated, the others stay as they are, and training goes on: from where it was, since the servers
    have all values; from the last checkpoint if a server is lost."""
    message = FIRST_BATCH if pod == "hit-worker-1" else FIRST_STEP
    teller = pod if "worker" in pod else LEADER  # whose log shows that the successor takes part
    with job.steps.step(f"{what} is deleted: only its pod is recreated, and training goes on", 180):
        before, seen = job.lives(), 0 if teller == pod else len(job.said(teller, message))
        kept = ["saved a checkpoint", *([] if "ps" in pod else ["epoch done"])]
        least = job.steps.until(f"one of {kept}", lambda: reached(job, *kept))
        # Once it is further, the servers have heard of that step.
        job.steps.until(f"a later one than {least}", lambda: reached(job, *kept), lambda step: step > least)
        job.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
        job.steps.until("a new pod", job.lives, lambda lives: pod in lives and lives[pod][0] != before[pod][0])
        job.steps.until("one more disruption", job.restarts, lambda found: found == (0, disruptions))
        first = job.steps.until(f"{message} in the log of {teller}", lambda: job.said(teller, message)[seen:])[0]
        job.steps.note(f"{what} lost after step {least} or later: on with step {first['step']}")
        expect(first["step"] >= least, f"a first step of {least} or later", first)
        epochs = len(job.said(LEADER, "epoch done"))
        job.steps.until("one more epoch", lambda: job.said(LEADER, "epoch done"), lambda found: len(found) > epochs)
        after = job.lives()
        others = {name: life for name, life in before.items() if name != pod}
        expect({name: after.get(name) for name in others} == others, "the other pods as they were", after)
