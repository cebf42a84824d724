"""Failures of a job and of its surroundings, and what each is charged."""
import json
import subprocess
import time

from cluster import SYSTEM
from job import NAP, Job, make_namespace, program_job, seconds_of, training_job
from steps import expect

NAMESPACE = "e2e-failure"
QUOTA = "few-pods"
RETRY_SECONDS = 40  # a refused create is tried again after 36 s at the latest
WEBHOOK = "nobody.e2e.lockstep.dev"
CORDONED = []


def run(cluster):
    steps = cluster.steps
    with steps.step("the operator, and a namespace for restricted pods", 120):
        cluster.install()
        cluster.put_operator_on_the_control_plane()
        make_namespace(cluster, NAMESPACE)
    job = Job(cluster, NAMESPACE, "hit")
    with steps.step("a job trains", 120):
        job.apply(training_job("hit"))
        job.await_training("hit-worker-0")
        job.await_training("hit-worker-1")
        job.await_step_beyond(0)
    kill_a_rank(job)
    delete_a_pod(job)
    kill_the_operator(cluster, job)
    drain_a_node(cluster, job)
    with steps.step("the job is deleted", 60):
        job.delete()
    out_of_memory(cluster)
    bad_image(cluster)
    quota(cluster)
    webhook_down(cluster)
    bad_spec(cluster)


def clean_up(cluster):
    for node in CORDONED:
        cluster.kubectl("uncordon", node, check=False)
    CORDONED.clear()
    cluster.remove(("validatingwebhookconfiguration", WEBHOOK), ("namespace", NAMESPACE))


def next_generation(job, pod, happened, lost):
    """Causes a failure with `happened`, waits for the next generation and prints how long that took. `pod` must
    survive. The job saves no checkpoints, so its steps can only come from the memory of that pod."""
    count = len(job.first_steps(pod))
    began = time.time()
    happened()
    record = job.await_training(pod, generations=count + 1)
    job.steps.note(f"{lost}: {seconds_of(record['time']) - began:.1f} s to the next step, "
                   f"{record['step']}")
    last = job.ended(pod)
    expect(record["step"] == last + 1, f"the step after {last}, the last one done", record)


def kill_a_rank(job):
    with job.steps.step("a rank is killed: its supervisor starts it again", 90):
        before = job.lives()
        pid = job.said("hit-worker-1", "replica started")[-1]["pid"]
        next_generation(job, "hit-worker-0", lambda: job.kubectl(
            "exec", "hit-worker-1", "--", "sh", "-c", f"kill -9 {pid}"), "a killed rank")
        expect(job.lives() == before, "the same pods, not restarted", job.lives())
        expect(len(job.said("hit-worker-0", "replica started")) == 1, "the peer's process as it was",
               job.said("hit-worker-0", "replica started"))


def delete_a_pod(job):
    with job.steps.step("a pod is deleted: only that pod is recreated", 120):
        before = job.lives()
        next_generation(job, "hit-worker-1", lambda: job.kubectl(
            "delete", "pod", "hit-worker-0", "--wait=false"), "a deleted pod, the leader's")
        after = job.lives()
        expect(after["hit-worker-1"] == before["hit-worker-1"], "hit-worker-1 as it was", after)
        job.steps.until("one disruption", job.restarts, lambda restarts: restarts == (0, 1))


def kill_the_operator(cluster, job):
    def restarts():
        return cluster.operator_pod()["status"]["containerStatuses"][0]["restartCount"]
    with job.steps.step("the operator is killed: it resumes, and the job is not affected", 120):
        before, count = job.lives(), restarts()
        node = cluster.operator_pod()["spec"]["nodeName"]
        # The kernel cuts process names to 15 characters.
        cluster.call("docker", "exec", node, "pkill", "-KILL", "-x", "lockstep-operat")
        job.steps.until("a restart of the operator", restarts, lambda found: found == count + 1)
        cluster.kubectl("-n", SYSTEM, "wait", "--for=condition=Ready", "pod",
                        cluster.operator_pod()["metadata"]["name"], "--timeout=60s")
        job.await_step_beyond(job.step())
        expect(job.lives() == before, "the same pods, not restarted", job.lives())


def drain_a_node(cluster, job):
    with job.steps.step("a node is drained: its pod is recreated elsewhere", 180):
        before, node = job.lives(), job.node_of("hit-worker-1")
        CORDONED.append(node)
        next_generation(job, "hit-worker-0", lambda: cluster.kubectl(
            "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s"),
            "a drained node")
        expect(job.node_of("hit-worker-1") != node, f"another node than {node}", node)
        expect(job.lives()["hit-worker-0"] == before["hit-worker-0"], "hit-worker-0 as it was",
               job.lives())
        job.steps.until("two disruptions", job.restarts, lambda restarts: restarts == (0, 2))
        cluster.kubectl("uncordon", CORDONED.pop())


def out_of_memory(cluster):
    job = Job(cluster, NAMESPACE, "hungry")
    with cluster.steps.step("out of memory: the job is retried, then fails with that reason", 120):
        job.apply(program_job("hungry", "exec tail /dev/zero", memory="16Mi",
                              runPolicy={"backoffLimit": 1}))
        job.await_condition("Failed", "True", "BackoffLimitExceeded")
        failure = job.status()["failure"]
        expect((failure["reason"], failure["exitCode"]) == ("OOMKilled", 137), "OOMKilled, 137", failure)
        expect(job.restarts() == (2, 0), "two application failures", job.restarts())
        job.delete()


def bad_image(cluster):
    job = Job(cluster, NAMESPACE, "pulled")
    spec = program_job("pulled", "exit 0")
    container = spec["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    good, container["image"] = container["image"], "nowhere.invalid/none:1"
    with cluster.steps.step("an image that does not exist is reported", 90):
        job.apply(spec)
        one = job.await_condition("Running", "False", "PodWaiting")
        expect("ImagePullBackOff" in one["message"], "ImagePullBackOff", one)
    with cluster.steps.step("the job succeeds after it is suspended, gets another image and is resumed", 90):
        container["image"] = good
        job.patch({"suspend": True})
        job.await_condition("Suspended", "True", "Suspended")
        job.patch({"suspend": False, "replicaSpecs": spec["spec"]["replicaSpecs"]})
        job.await_state("Succeeded")
        job.delete()


def quota(cluster):
    """The job does not end by itself: only the operator's next try brings the pods that were refused."""
    job = Job(cluster, NAMESPACE, "many")
    with cluster.steps.step("an exhausted quota is reported", 60):
        cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota",
                       "metadata": {"name": QUOTA, "namespace": NAMESPACE},
                       "spec": {"hard": {"pods": "1"}}})
        job.steps.until("a quota in force", lambda: cluster.find(
            "resourcequota", QUOTA, *job.where).get("status", {}), lambda status: "used" in status)
        job.apply(program_job("many", NAP, workers=3))
        one = job.await_condition("Running", "False", "CreateFailed")
        expect(QUOTA in one["message"], f"the quota's name, {QUOTA}", one)
        job.steps.stays("one pod", job.uids, lambda uids: len(uids) == 1, 5)
    with cluster.steps.step("the quota is lifted: the pods that were refused are created, and the job runs", 90):
        job.kubectl("delete", "resourcequota", QUOTA)
        began = time.monotonic()
        job.steps.until("three pods", job.uids, lambda uids: len(uids) == 3)
        job.steps.within(RETRY_SECONDS, time.monotonic() - began, "from the quota's end to all pods")
        job.await_state("Running")
        expect(job.restarts() == (0, 0), "no restart charged", job.restarts())
        job.delete()


def webhook_down(cluster):
    """All pods of the namespace must be approved by a webhook whose Service does not exist."""
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "unheard")
    spec = program_job("unheard", "exit 0", workers=2)
    with steps.step("a webhook that does not answer is reported", 90):
        cluster.apply({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": WEBHOOK},
            "webhooks": [{
                "name": WEBHOOK, "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 2,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": NAMESPACE, "name": "nobody"}},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                           "operations": ["CREATE"]}]}]})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"},
               "spec": spec["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]}
        steps.until("a webhook that is called", lambda: is_admitted(job, pod), lambda found: not found)
        job.apply(spec)
        one = job.await_condition("Running", "False", "CreateFailed")
        expect(WEBHOOK in one["message"], f"the webhook's name, {WEBHOOK}", one)
        events = steps.until("an event", lambda: cluster.items(
            *job.where, "events", "--field-selector=involvedObject.name=unheard,reason=CreateFailed"))
        expect(WEBHOOK in events[0]["message"], f"the webhook's name, {WEBHOOK}", events)
        steps.stays("no pod", job.uids, lambda uids: not uids, 5)
    with steps.step("the webhook is removed, and the job succeeds", 90):
        cluster.kubectl("delete", "validatingwebhookconfiguration", WEBHOOK)
        job.await_state("Succeeded")
        expect(job.restarts() == (0, 0), "no restart charged", job.restarts())
        job.delete()


def is_admitted(job, pod):
    try:
        job.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
        return True
    except subprocess.CalledProcessError as error:
        expect(WEBHOOK in error.stderr, f"a refusal by {WEBHOOK}", error.stderr)
        return False


def bad_spec(cluster):
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "wrong")
    good = training_job("wrong", steps=20)
    good["metadata"]["namespace"] = NAMESPACE
    with steps.step("an invalid spec is rejected with the field's name", 30):
        wrong = json.loads(json.dumps(good))
        wrong["spec"]["training"]["epochs"] = 2
        error = cluster.refused("apply", "-f", "-", stdin=json.dumps(wrong))
        expect("exactly one of epochs and steps" in error, "an error about epochs and steps", error)
    with steps.step("an error that only the operator finds fails the job with the field's name", 60):
        wrong = json.loads(json.dumps(good))
        wrong["spec"]["training"]["batchSize"]["global"] = 7
        pod = wrong["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
        pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 4}}
        job.apply(wrong)
        message = job.await_condition("Failed", "True", "InvalidSpec")["message"]
        expect("spec.training.batchSize.global" in message, "the field's name", message)
    with steps.step("the corrected job succeeds", 120):
        job.delete()
        job.apply(good)
        job.await_state("Succeeded")
        job.delete()

