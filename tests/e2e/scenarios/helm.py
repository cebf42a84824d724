"""The chart with two replicas of the operator while a job trains: the leading one is lost, the release is
upgraded, narrowed to the job's namespace and rolled back, and not one pod of the job is touched."""
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
    lose_leader(cluster, job)
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


def lose_leader(cluster, job):
    """It is killed, so it does not give its Lease up."""
    with cluster.steps.step("the leading operator is killed: another one leads", 60):
        lost = cluster.leader()
        pod = cluster.find("pod", lost.rpartition("_")[0], "-n", SYSTEM)
        container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        cluster.call("docker", "exec", pod["spec"]["nodeName"], "ctr", "-n", "k8s.io", "tasks", "kill",
                     "--signal", "SIGKILL", container)
        began = time.monotonic()
        cluster.steps.until(f"another leader than {lost}", cluster.leader,
                            lambda found: found not in ("", lost))
        cluster.steps.within(FAILOVER_SECONDS, time.monotonic() - began,
                             "from the leading operator's end to another one that leads")
        job.await_step_beyond(job.step())


def change(cluster, job, before, name, *arguments):
    with cluster.steps.step(f"{name}: not one pod is touched", 180):
        old = cluster.leader()
        helm(cluster, *arguments)
        cluster.steps.until(f"a leader of the new pods, not {old}", cluster.leader,
                            lambda found: found not in ("", old))
        cluster.steps.stays("the same pods, not restarted", job.lives, lambda found: found == before,
                            UNTOUCHED_SECONDS)
        job.await_step_beyond(job.step())
