"""The README's MNIST job, as it stands: two pods on two nodes, to Succeeded."""
import json
import re
import time

from cluster import ROOT
from job import ENDED, Job, provide_mnist
from steps import Failure, expect

NAMESPACE, JOB = "training", "mnist"
MIN_ACCURACY = 0.98
PODS = [f"{JOB}-chief-0", f"{JOB}-worker-0"]
VOLUMES = ROOT / "tests/e2e/scenarios/mnist-volumes.yaml"


def run(cluster):
    steps, job = cluster.steps, Job(cluster, NAMESPACE, JOB)
    with steps.step("MNIST for the nodes", 180):
        provide_mnist(cluster)
    with steps.step("the operator: kubectl apply -k manifests/default", 120):
        cluster.install()
    with steps.step("the job: examples/mnist.yaml", 60):
        cluster.kubectl("apply", "-f", VOLUMES)
        job.kubectl("apply", "-f", ROOT / "examples/mnist.yaml")
    with steps.step("the job runs to its end", 900):
        seen = follow(job)
    with steps.step("what came of it", 60):
        check_end(job, seen)
        check_pods(job)
        check_program(job)
    with steps.step("the job is deleted, and takes its pods and Service along", 90):
        job.delete()
        steps.until("neither pods nor Services",
                    lambda: [item["metadata"]["name"] for item in
                             cluster.items(*job.where, "pods,services")], lambda left: not left)


def clean_up(cluster):
    cluster.remove(("-f", VOLUMES))


def row(job):
    """One line of `kubectl get tj`, by column; None before there is one."""
    lines = job.kubectl("get", "tj", JOB).splitlines()
    if len(lines) < 2:
        return None
    # Empty cells are only told by where columns begin.
    starts = [match.start() for match in re.finditer(r"\S+(?: \S+)*", lines[0])]
    ends = starts[1:] + [None]
    cells = {lines[0][a:b].strip(): lines[1][a:b].strip() for a, b in zip(starts, ends)}
    cells.pop("AGE")  # which is another at each look
    return cells


def follow(job):
    """Until the job has ended; the steps that were seen while it was running."""
    seen, last = [], None
    while True:
        now = row(job)
        if now is not None and now != last:
            last = now
            job.steps.say("  ".join(f"{key}={value}" for key, value in now.items()))
            if now["STATE"] in ENDED:
                return seen
            if now["STATE"] == "Running" and now["STEP"].isdigit():
                if not seen:
                    check_inside(job)
                seen.append(int(now["STEP"]))
        if time.monotonic() > job.steps.deadline:
            raise Failure(f"kubectl get tj says {now}, expected that the job has ended")
        time.sleep(0.5)


def check_inside(job):
    for pod in PODS:
        found = job.kubectl(
            "exec", pod, "--", "sh", "-c",
            "id -u; ls -d /var/run/secrets/kubernetes.io 2>/dev/null || echo none").split()
        expect(found == ["65532", "none"], f"{pod}: user 65532 and no API token", found)


def check_end(job, seen):
    status = job.status()
    expect(status["state"] == "Succeeded", "Succeeded", status)
    progress = status.get("progress", {})
    expect(seen, "its step in kubectl get tj while it was running", seen)
    expect(progress.get("step") == progress.get("totalSteps"), "all steps", progress)
    expect(progress.get("testAccuracy", 0) >= MIN_ACCURACY, f"an accuracy of {MIN_ACCURACY}", progress)
    job.steps.note(f"{progress['step']} steps, test accuracy {progress['testAccuracy']:.4f}, "
                   f"{status.get('restartCount', 0)} restarts")


def check_pods(job):
    # cleanPodPolicy Running leaves what has finished
    pods = job.steps.until("both pods to end", job.pods, lambda pods: all(
        pod["status"]["phase"] != "Running" for pod in pods.values()))
    expect(sorted(pods) == PODS, PODS, sorted(pods))
    nodes = {pod["spec"]["nodeName"] for pod in pods.values()}
    expect(len(nodes) == len(PODS), "a node for each pod", sorted(nodes))
    for name, pod in pods.items():
        expect(pod["status"]["phase"] == "Succeeded", f"{name} Succeeded", pod["status"])
        spec = pod["spec"]
        tokens = [volume for volume in spec["volumes"] if "serviceAccountToken" in json.dumps(volume)]
        expect(spec.get("automountServiceAccountToken") is False and not tokens,
               f"{name}: no API token mounted", tokens)
        expect(spec["securityContext"].get("runAsNonRoot"), f"{name}: not root",
               spec["securityContext"])


def check_program(job):
    """`lockstep status` and `lockstep logs` say of the job what the cluster has."""
    where = ["-n", NAMESPACE]
    status = job.cluster.lockstep("status", JOB, *where)
    expect("Succeeded" in status, "Succeeded in lockstep status", status)
    for role in ("chief", "worker"):
        said = job.cluster.lockstep("logs", JOB, "--role", role, *where)
        by_kubectl = job.kubectl("logs", f"{JOB}-{role}-0", "--tail=-1")
        if not said or said != by_kubectl:
            raise Failure(f"lockstep logs --role {role}: found {len(said)} characters, expected "
                          f"the {len(by_kubectl)} of kubectl logs")
    check_merged_logs(job, job.cluster.lockstep("logs", JOB, "--all", *where).splitlines())
    described = job.cluster.lockstep("describe", JOB, *where)
    for word in ("Succeeded", "chief-0", "worker-0", "Completed"):
        expect(word in described, f"{word} in lockstep describe", described)


def check_merged_logs(job, lines):
    """Every line of both replicas, in each replica's order."""
    for role in ("chief", "worker"):
        said = [line.partition(" | ")[2] for line in lines if line.split(" ", 1)[0] == f"{role}-0"]
        by_kubectl = job.kubectl("logs", f"{JOB}-{role}-0", "--tail=-1").splitlines()
        expect(said == by_kubectl, f"the {len(by_kubectl)} lines of {role}-0", len(said))
