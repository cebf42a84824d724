"""docs/quick-start.md with Helm, from nothing to a job that has succeeded, and back to nothing."""
import os
import shutil
import time

from cluster import BIN, OUT, ROOT, SYSTEM
from job import Job, seconds_of
from steps import Failure, expect

NAMESPACE = "default"
GOAL_SECONDS = 120  # from the first of the documented commands to Succeeded; the images are there
FIRST_STEP_SECONDS = 2  # of the last pod to start, from its container's start
GROUP = "training.lockstep.dev"
MANIFEST = ROOT / "examples/quickstart.yaml"
# What helm uninstall leaves, as docs/faq.md says: jobs would go with the CRD, tokens of running jobs with
# the key; and the Lease, which is the operator's own.
KEPT = [f"customresourcedefinition.apiextensions.k8s.io/trainingjobs.{GROUP}",
        "lease.coordination.k8s.io/lockstep-operator", "secret/lockstep-operator-key"]
KINDS = ("clusterroles,clusterrolebindings,customresourcedefinitions,"
         "validatingadmissionpolicies,mutatingwebhookconfigurations,validatingwebhookconfigurations,"
         "priorityclasses")
NAMESPACED = ("trainingjobs,pods,services,secrets,configmaps,networkpolicies,deployments,"
              "serviceaccounts,roles,rolebindings,leases,poddisruptionbudgets")


def run(cluster):
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "quickstart")
    with steps.step("nothing of Lockstep is there", 90):
        cluster.uninstall()
        expect_left(cluster, [], namespaced=False)
    began = time.monotonic()
    with steps.step("helm install", 90):
        helm(cluster, "install", "lockstep", ROOT / "charts/lockstep", "--create-namespace",
             "--wait", "--timeout", "80s")
    with steps.step("kubectl apply -f examples/quickstart.yaml, to Succeeded", GOAL_SECONDS):
        cluster.kubectl("apply", "-f", MANIFEST)
        job.await_state("Succeeded")
        seconds = time.monotonic() - began
    with steps.step("how long that took", 30):
        measure_start(job)
        steps.within(GOAL_SECONDS, seconds, "from helm install to a job that has succeeded")
    lose_a_pod(cluster, job)
    with steps.step("helm test", 300):
        helm(cluster, "test", "lockstep", "--timeout", "280s")
    with steps.step("the documented way back, and what it leaves", 120):
        cluster.kubectl("delete", "-f", MANIFEST)
        helm(cluster, "uninstall", "lockstep", "--wait", "--timeout", "60s")
        cluster.kubectl("delete", "trainingjobs,pods", "-n", SYSTEM, "-l", "app.kubernetes.io/instance=lockstep",
                        "--timeout=60s")  # of helm test, which leaves them
        expect_left(cluster, KEPT)
        steps.until("nothing of the job", lambda: [
            name for name in names(cluster, "-n", NAMESPACE, NAMESPACED) if job.name in name],
            lambda left: not left)
        cluster.kubectl("delete", "crd", f"trainingjobs.{GROUP}")
        cluster.kubectl("delete", "namespace", SYSTEM, "--timeout=60s")
        expect_left(cluster, [], namespaced=False)


def lose_a_pod(cluster, job):
    """While the job runs, once more: what a lost pod costs, and the log of both workers."""
    steps, survivor, lost = cluster.steps, "quickstart-worker-0", "quickstart-worker-1"
    with steps.step("the job once more", 90):
        cluster.kubectl("delete", "-f", MANIFEST)
        steps.until("no pods, the job being deleted", job.uids, lambda uids: not uids)
        cluster.kubectl("apply", "-f", MANIFEST)
        for pod in (survivor, lost):
            job.await_training(pod)
    with steps.step(f"kubectl delete pod {lost}: training goes on from the same step", 90):
        cluster.kubectl("delete", "pod", lost)
        first, last = job.await_training(survivor, generations=2), job.ended(survivor)
        expect(first["step"] == last + 1, f"the step after {last}, which is in memory", first)
    with steps.step("kubectl lockstep logs quickstart --all --follow, to the job's end", GOAL_SECONDS):
        said = cluster.call("env", f"PATH={BIN}:{os.environ['PATH']}", cluster.program("kubectl"),
                            "lockstep", "logs", "quickstart", "--all", "--follow").splitlines()
        expect({line.partition(" ")[0] for line in said} >= {"worker-0", "worker-1"}, "lines of both workers", said[-5:])
        job.await_state("Succeeded")


def clean_up(cluster):
    try:
        helm(cluster, "uninstall", "lockstep", "--ignore-not-found", "--wait", "--timeout", "60s")
    finally:
        cluster.remove(("crd", f"trainingjobs.{GROUP}"), ("namespace", SYSTEM))


def helm(cluster, *arguments):
    folder = cluster.call(ROOT / "tools/chart/programs.sh", "where")
    found = shutil.which("helm4", path=folder) or shutil.which("helm")
    if found is None:
        raise Failure("found no helm: tools/setup chart builds it")
    return cluster.call(found, *arguments, "--namespace", SYSTEM, "--kubeconfig", OUT / "kubeconfig")


def expect_left(cluster, expected, namespaced=True):
    """What is named after Lockstep, of the cluster's and of its own namespace."""
    def look():
        found = names(cluster, KINDS) + (names(cluster, "-n", SYSTEM, NAMESPACED) if namespaced else [])
        return sorted(name for name in found if "lockstep" in name)
    cluster.steps.until(f"{expected} of Lockstep", look, lambda found: found == sorted(expected))


def names(cluster, *arguments):
    return cluster.kubectl("get", *arguments, "-o", "name").split()


def measure_start(job):
    """The API server says when a pod was created in whole seconds; the trainer's log is exact."""
    first = min(seconds_of(job.first_steps(name)[0]["time"]) for name in job.pods())
    created, started = [], []
    for pod in job.pods().values():
        created.append(seconds_of(pod["metadata"]["creationTimestamp"]))
        started.append(seconds_of(job.records(pod["metadata"]["name"])[0]["time"]))
    job.steps.note(f"{first - min(created):.0f} s from the first pod's creation to the first step")
    job.steps.within(FIRST_STEP_SECONDS, first - max(started),
                     "from the last trainer's start to the first step")
