"""A job's NetworkPolicy, by whatever enforces it: strangers reach no port of a replica, peers and the
operator do."""
import os
import subprocess

from job import Job, make_namespace, program_job, training_job
from steps import Skipped, expect

OWN, OTHER = "e2e-policy", "e2e-strangers"
PORTS = {"2222": "rendezvous", "8080": "metrics"}
DEBIAN = os.environ.get("BASE_IMAGE", "debian:bookworm-slim")
PROBES = 5  # each takes up to three seconds
ENGINE = os.environ.get("E2E_POLICY_ENGINE")  # what to apply to a cluster whose network enforces none


def run(cluster):
    steps = cluster.steps
    with steps.step("the operator, two namespaces, a stranger in each", 150):
        cluster.install()
        cluster.load_images(DEBIAN)
        for namespace in (OWN, OTHER):
            make_namespace(cluster, namespace)
            cluster.apply(stranger(namespace))
        if ENGINE:
            cluster.kubectl("apply", "-f", ENGINE)
        for namespace in (OWN, OTHER):
            cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/stranger",
                            "--timeout=90s")
    open_job, job = Job(cluster, OWN, "open"), Job(cluster, OWN, "shut")
    with steps.step("a job without a policy: everybody reaches its metrics", 120):
        open_job.apply(training_job("open", networkPolicy="None"))
        open_job.await_training("open-worker-0")
        for namespace in (OWN, OTHER):
            found = reaches(cluster, namespace, address(open_job, "open-worker-0"), "8080")
            expect(found, f"that the stranger of {namespace} reaches it", found)
        open_job.delete()
    with steps.step("whether this cluster's network enforces policies at all", 90):
        if not is_enforced(cluster):
            raise Skipped("the network of this cluster does not enforce NetworkPolicies; "
                          "E2E_POLICY_ENGINE names a manifest of something that does")
    with steps.step("a job with one trains, and tells the operator its progress", 180):
        job.apply(training_job("shut"))
        for index in (0, 1):
            job.await_training(f"shut-worker-{index}")
        job.await_step_beyond(0)
    with steps.step("no stranger reaches any port of any replica", 120):
        for index in (0, 1):
            for namespace in (OWN, OTHER):
                for port in PORTS:
                    found = reaches(cluster, namespace, address(job, f"shut-worker-{index}"), port)
                    expect(not found, f"that the stranger of {namespace} does not reach the "
                           f"{PORTS[port]} port of worker {index}", found)
    with steps.step("its peers do: a deleted pod joins again", 120):
        count = len(job.first_steps("shut-worker-0"))
        job.kubectl("delete", "pod", "shut-worker-1", "--wait=false")
        job.await_training("shut-worker-0", generations=count + 1)
        job.await_step_beyond(job.step())
        job.delete()


def clean_up(cluster):
    for namespace in (OWN, OTHER):
        cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found", "--timeout=80s")
    if ENGINE:
        cluster.kubectl("delete", "--ignore-not-found", "-f", ENGINE)


def stranger(namespace):
    """A pod that does nothing, with a shell that opens connections, which the trainer's image has not."""
    spec = program_job("stranger", "sleep 3600")["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
    spec["containers"][0]["image"] = DEBIAN
    spec["securityContext"]["runAsUser"] = 65532
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "stranger", "namespace": namespace, "labels": {"app": "stranger"}},
            "spec": spec}


def address(job, pod):
    return job.pod(pod)["status"]["podIP"]


def reaches(cluster, namespace, ip, port):
    """True if a connection opens within 3 s."""
    try:
        cluster.kubectl("-n", namespace, "exec", "stranger", "--", "timeout", "3", "bash", "-c",
                        f"exec 3<>/dev/tcp/{ip}/{port}")
        return True
    except subprocess.CalledProcessError as error:
        # The shell's word for refused and filtered, and timeout's for no answer.
        expect(error.returncode in (1, 124), "exit code 1 or 124", error.stderr)
        return False


def is_enforced(cluster):
    """Whether a policy that lets nobody in keeps a stranger from a job without one of its own."""
    listener = Job(cluster, OTHER, "listener")
    listener.apply(training_job("listener", workers=1, networkPolicy="None"))
    listener.await_training("listener-worker-0")
    ip = address(listener, "listener-worker-0")
    cluster.apply({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "nobody", "namespace": OTHER},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}})
    try:  # a policy takes a moment to reach the nodes; one connection may fail for another reason
        found = [reaches(cluster, OWN, ip, "8080") for _ in range(PROBES)]
        return not any(found[-2:])
    finally:
        cluster.kubectl("-n", OTHER, "delete", "networkpolicy", "nobody")
        listener.delete()
