"""A job's NetworkPolicy, by policyd or whatever else enforces it: strangers reach neither the cluster port nor the
metrics ports of its replicas, scrapers reach the latter, peers and the operator what they need."""
import os
import subprocess
import time

from cluster import BASE_IMAGE, ROOT
from job import Job, make_namespace, program_job, training_job
from steps import PATIENCE, Skipped, expect

OWN, OTHER = "e2e-policy", "e2e-strangers"
STRANGER = "lockstep-stranger:e2e"
SCRAPERS = "monitoring"  # the namespace whose pods may ask for metrics, by default
# (worker, port, what it is for): what the replicas listen on at ports that are known; the leader alone has the first.
CLUSTER_PORTS = ((0, "2222", "cluster"),)
METRICS_PORTS = ((0, "8080", "metrics"), (1, "8080", "metrics"))
CPU = "200m"  # of a replica: two jobs train at once, and shall leave two cores some time for all the rest
ENFORCED_IN = 30  # seconds, before it is said that nothing enforces policies
# What enforces policies: the manifest that the user names; else policyd, if the nodes' network is tools/kube's own.
POLICYD, POLICYD_IMAGE = ROOT / "tools/kube/policyd/daemonset.yaml", ROOT / "tools/kube/policyd-image.sh"
FOREIGN = os.environ.get("E2E_POLICY_ENGINE")
ENGINE = FOREIGN or (None if os.environ.get("KIND_NODE_IMAGE") else POLICYD)
CANNOT = 3  # policyd-image.sh's word for: not on this machine
RULES = "KUBE-ROUTER"  # is in the names of policyd's chains on a node


def run(cluster):
    steps = cluster.steps
    if ENGINE == POLICYD:
        with steps.step("policyd on all nodes (its image is made where there is none)", 1800):
            start_policyd(cluster)
    with steps.step("the operator, three namespaces, a stranger in each", 150):
        cluster.install()
        load_stranger(cluster)
        for namespace in (OWN, OTHER, SCRAPERS):
            make_namespace(cluster, namespace)
            cluster.apply(stranger(namespace))
        if FOREIGN:
            cluster.kubectl("apply", "-f", FOREIGN)
        for namespace in (OWN, OTHER, SCRAPERS):
            cluster.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/stranger",
                            "--timeout=90s")
    open_job, job = Job(cluster, OWN, "open"), Job(cluster, OWN, "shut")
    with steps.step("a job without a policy: strangers reach its ports", 150):
        open_job.apply(training_job("open", cpu=CPU, networkPolicy="None"))
        for index in (0, 1):
            open_job.await_training(f"open-worker-{index}")
        expect_reached(cluster, open_job, True)
    with steps.step("whether policies are enforced on this cluster at all", 150):
        if not is_enforced(cluster):
            expect(not ENGINE, f"that {ENGINE} enforces NetworkPolicies",
                   f"that a policy which admits nobody keeps no stranger out for {ENFORCED_IN} s")
            raise Skipped("the network of KIND_NODE_IMAGE does not enforce NetworkPolicies; "
                          "E2E_POLICY_ENGINE names a manifest of something that does")
    with steps.step("a job with one trains, and tells the operator its progress", 180):
        job.apply(training_job("shut", cpu=CPU))
        for index in (0, 1):
            job.await_training(f"shut-worker-{index}")
        job.await_step_beyond(0)
    with steps.step("no stranger reaches its cluster port or metrics ports, while they reach the other job's", 150):
        expect_reached(cluster, job, False)
        expect_reached(cluster, open_job, True)
    with steps.step(f"a pod of the namespace {SCRAPERS} reaches its metrics ports alone", 60):
        expect_scraped(cluster, job)
    with steps.step("its peers do: a deleted pod joins again", 120):
        count = len(job.first_steps("shut-worker-0"))
        job.kubectl("delete", "pod", "shut-worker-1", "--wait=false")
        job.await_training("shut-worker-0", generations=count + 1)
        job.await_step_beyond(job.step())
        job.delete()
        open_job.delete()


def clean_up(cluster):
    engine = [("-f", ENGINE, "--cascade=foreground")] if ENGINE else []  # until its pods are gone, too
    cluster.remove(*(("namespace", name) for name in (OWN, OTHER, SCRAPERS)), *engine)
    if ENGINE == POLICYD:
        left = [name for name in nodes(cluster) if RULES in cluster.call("docker", "exec", name, "iptables-save")]
        expect(not left, "no node with rules of policyd, which has ended", left)


def start_policyd(cluster):
    try:
        image = cluster.call(POLICYD_IMAGE).splitlines()[-1]
    except subprocess.CalledProcessError as error:
        if error.returncode != CANNOT:
            raise
        raise Skipped(f"policyd cannot run on this machine: {error.stderr.strip()}") from None
    cluster.load_images(image)
    cluster.kubectl("apply", "-f", "-", stdin=POLICYD.read_text().replace("image: IMAGE", f"image: {image}"))
    cluster.kubectl("-n", "kube-system", "rollout", "status", "daemonset/policyd",
                    f"--timeout={cluster.steps.left():.0f}s")


def nodes(cluster):
    return [node["metadata"]["name"] for node in cluster.items("nodes")]


def load_stranger(cluster):
    """The base, which has the shell that the trainer's image lacks, as an image that was made here: kind cannot load one of
    several platforms, of which an engine that has pulled it holds only this machine's."""
    cluster.call("env", "DOCKER_BUILDKIT=0", "docker", "build", "--quiet", "--network", "none", "--tag", STRANGER, "-",
                 stdin=f"FROM {BASE_IMAGE}\nUSER 65532:65532\n")
    cluster.load_images(STRANGER)


def stranger(namespace):
    """A pod that does nothing, with a shell that opens connections."""
    spec = program_job("stranger", "sleep 3600")["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
    spec["containers"][0]["image"] = STRANGER
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "stranger", "namespace": namespace, "labels": {"app": "stranger"}},
            "spec": spec}


def address(job, pod):
    return job.pod(pod)["status"]["podIP"]


def reaches(cluster, namespace, ip, port):
    """True if a connection opens within 3 s. The pod says so: kubectl's own failures look like a refused one."""
    said = cluster.kubectl("-n", namespace, "exec", "stranger", "--", "sh", "-c",
                           f"timeout 3 bash -c 'exec 3<>/dev/tcp/{ip}/{port}' 2>/dev/null && echo open || echo shut")
    expect(said in ("open", "shut"), "that the stranger says open or shut", said)
    return said == "open"


def expect_reached(cluster, job, wanted, namespaces=(OWN, OTHER), ports=CLUSTER_PORTS + METRICS_PORTS):
    """Whether each stranger reaches each port."""
    for index, port, purpose in ports:
        pod = f"{job.name}-worker-{index}"
        for namespace in namespaces:
            found = reaches(cluster, namespace, address(job, pod), port)
            expect(found == wanted, f"that the stranger of {namespace} {'reaches' if wanted else 'does not reach'} "
                   f"the {purpose} port of {pod}", found)


def expect_scraped(cluster, job):
    expect_reached(cluster, job, True, (SCRAPERS,), METRICS_PORTS)
    expect_reached(cluster, job, False, (SCRAPERS,), CLUSTER_PORTS)


def is_enforced(cluster):
    """Whether a policy that lets nobody in keeps a stranger from a job without one of its own."""
    listener = Job(cluster, OTHER, "listener")
    listener.apply(training_job("listener", workers=1, cpu=CPU, networkPolicy="None"))
    listener.await_training("listener-worker-0")
    ip = address(listener, "listener-worker-0")
    cluster.apply({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "nobody", "namespace": OTHER},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}})
    end = time.monotonic() + ENFORCED_IN * PATIENCE
    try:  # a policy takes a moment to reach the nodes; one connection may fail for another reason
        while time.monotonic() < end:
            if not any(reaches(cluster, OWN, ip, "8080") for _ in range(2)):
                return True
        return False
    finally:
        cluster.kubectl("-n", OTHER, "delete", "networkpolicy", "nobody")
        listener.delete()
