"""The chart with two replicas of the operator while a job trains: the leading one hangs, the release is upgraded,
narrowed to the job's namespace and rolled back, and not one pod of the job is touched."""
import time

from cluster import ROOT, SYSTEM
from job import Job, make_namespace, training_job
from scenarios import quickstart
from steps import expect

NAMESPACE = "e2e-helm"
FAILOVER_SECONDS = 25  # the Lease's 15, the next candidate's look, and a busy machine
UNTOUCHED_SECONDS = 12  # more than the operator takes to look at every job again
CHART = ROOT / "charts/lockstep"
RELEASE = ("lockstep", CHART, "--wait", "--timeout", "100s", "--set", "replicas=2")


def run(cluster):
    steps, job = cluster.steps, Job(cluster, NAMESPACE, "watched")
    with steps.step("helm install with two replicas, and a namespace for restricted pods", 150):
        cluster.uninstall()
        helm(cluster, "install", *RELEASE, "--create-namespace")
        make_namespace(cluster, NAMESPACE)
    with steps.step("a job trains", 120):
        job.apply(training_job(job.name))
        job.await_step_beyond(0)
    before = job.lives()
    lose_leader(cluster, job, before)
    change(cluster, job, before, "helm upgrade", "upgrade", *RELEASE, "--set", "operator.logLevel=debug")
    change(cluster, job, before, "helm upgrade to this namespace alone", "upgrade", *RELEASE,
           "--set", f"watchNamespaces={{{NAMESPACE}}}", "--set", "operator.watchNodes=false")
    change(cluster, job, before, "helm rollback", "rollback", "lockstep", "1", "--wait",
           "--timeout", "100s")
    with steps.step("nobody was restarted, and the job is deleted", 60):
        expect(job.restarts() == (0, 0), "no restart", job.status())
        job.delete()


def clean_up(cluster):
    try:
        cluster.remove(("namespace", NAMESPACE))
    finally:
        quickstart.clean_up(cluster)


def helm(cluster, *arguments):
    return quickstart.helm(cluster, *arguments)


def leading_pod(cluster):
    """Its name; "" while nobody leads."""
    return cluster.leader().rpartition("_")[0]


def await_leader(cluster, old):
    """The name of the pod that leads, once it is none of `old`: an operator that starts again in its pod is no other."""
    return cluster.steps.until(f"a leading pod that is none of {', '.join(sorted(old))}", lambda: leading_pod(cluster),
                               lambda found: found and found not in old)


def lose_leader(cluster, job, before):
    """It is stopped, as on a node that hangs: it neither gives its Lease up nor ends, and still believes to lead when it
    goes on. The kubelet's probe would end it 20 s after its stop at the earliest."""
    steps = cluster.steps
    with steps.step("the leading operator hangs: the other one leads", 60):
        lost = leading_pod(cluster)
        pod = cluster.find("pod", lost, "-n", SYSTEM)
        send(cluster, pod, "SIGSTOP")
        began = time.monotonic()
        new = await_leader(cluster, {lost})
        seconds = time.monotonic() - began
        send(cluster, pod, "SIGCONT")
        steps.within(FAILOVER_SECONDS, seconds, "from the leading operator's last sign to another one that leads")
    with steps.step("it goes on: the other one still leads, and not one pod is touched", 60):
        steps.stays(f"that {new} leads", lambda: leading_pod(cluster), lambda found: found == new, UNTOUCHED_SECONDS)
        expect(job.lives() == before, "the same pods, not restarted", job.lives())
        job.await_step_beyond(job.step())


def send(cluster, pod, name):
    """A signal to the operator of this pod, as it was found."""
    container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    cluster.call("docker", "exec", pod["spec"]["nodeName"], "ctr", "-n", "k8s.io", "tasks", "kill", "--signal", name,
                 container)


def change(cluster, job, before, name, *arguments):
    with cluster.steps.step(f"{name}: not one pod is touched", 180):
        old = {pod["metadata"]["name"] for pod in cluster.operator_pods()}
        helm(cluster, *arguments)
        await_leader(cluster, old)
        cluster.steps.stays("the same pods, not restarted", job.lives, lambda found: found == before,
                            UNTOUCHED_SECONDS)
        job.await_step_beyond(job.step())
