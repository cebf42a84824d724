"""TrainingJobs of the scenarios: what they look like, and what is seen of one."""
import datetime
import json
import shutil

from cluster import ROOT, SHARED, SHARED_ON_NODE, TRAINER_IMAGE
from steps import Failure, expect

JOB_LABEL = "training.lockstep.dev/job-name"
ENDED = ("Succeeded", "Failed")
ENDLESS = 10_000_000  # steps, for jobs that a scenario deletes
SAVED_EVERY = 50  # steps, with a claim
NAP = "trap 'exit 0' TERM; sleep 600 & wait"  # a script that ends when it is asked to


def seconds_of(text):
    """Of a time in RFC 3339."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def make_namespace(cluster, name):
    """Admits restricted pods only."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})


def make_shared_claim(cluster, namespace, name):
    """A claim that pods of every node can write to, empty."""
    volume = f"{namespace}-{name}"
    folder = SHARED / volume
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
    folder.mkdir()
    folder.chmod(0o777)
    make_claim(cluster, namespace, name, volume, "ReadWriteMany")
    return folder


def make_claim(cluster, namespace, name, folder, mode):
    """A claim of what is in this folder of SHARED, and its volume NAMESPACE-NAME."""
    volume, size = f"{namespace}-{name}", {"storage": "1Gi"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
         "spec": {"capacity": size, "accessModes": [mode], "storageClassName": "",
                  "persistentVolumeReclaimPolicy": "Retain",
                  "claimRef": {"namespace": namespace, "name": name},
                  "hostPath": {"path": f"{SHARED_ON_NODE}/{folder}", "type": "Directory"}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
         "metadata": {"name": name, "namespace": namespace},
         "spec": {"accessModes": [mode], "storageClassName": "", "volumeName": volume,
                  "resources": {"requests": size}}})


def provide_mnist(cluster):
    """The four IDX files, in /shared/mnist of every node."""
    source = cluster.call(ROOT / "tools/fetch-mnist").splitlines()[-1]
    cluster.call("cp", "-rLT", source, SHARED / "mnist")
    cluster.call("chmod", "-R", "a+rX", SHARED / "mnist")


def resources(cpu, memory):
    return {"requests": {"cpu": "50m", "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


def apart(job):
    """No two pods of the job on a node."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname",
         "labelSelector": {"matchLabels": {JOB_LABEL: job}}}]}}


def training_job(name, workers=2, steps=ENDLESS, claim=None, cpu="500m", **spec):
    """A small network on generated data. With `claim` it saves there. `spec` replaces
    fields of the job's own."""
    training = {
        "model": {"name": "simple-cnn"}, "dataset": {"format": "synthetic"},
        "batchSize": {"global": 128}, "steps": steps, "evaluation": {"enabled": False}}
    container = {"name": "trainer", "resources": resources(cpu, "256Mi")}
    pod = {"affinity": apart(name), "containers": [container]}
    if claim:
        training["checkpoint"] = {"directory": "/checkpoints", "everySteps": SAVED_EVERY}
        container["volumeMounts"] = [{"name": "checkpoints", "mountPath": "/checkpoints"}]
        pod["volumes"] = [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": claim}}]
    whole = {"strategy": {"type": "MultiWorkerMirrored"}, "training": training,
             "replicaSpecs": {"Worker": {"replicas": workers, "template": {"spec": pod}}}}
    return manifest(name, {**whole, **spec})


def program_job(name, script, workers=1, memory="64Mi", restart="ExitCode", **spec):
    """A shell script instead of the bundled trainer."""
    container = {
        "name": "main", "image": TRAINER_IMAGE, "command": ["sh", "-c", script],
        "resources": resources("200m", memory),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 2,
           "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}
    whole = {"replicaSpecs": {"Worker": {"replicas": workers, "restartPolicy": restart,
                                         "template": {"spec": pod}}}}
    return manifest(name, {**whole, **spec})


def manifest(name, spec):
    return {"apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob",
            "metadata": {"name": name}, "spec": spec}


class Job:
    """One that is on the cluster, or was or will be."""

    def __init__(self, cluster, namespace, name):
        self.cluster, self.steps = cluster, cluster.steps
        self.namespace, self.name = namespace, name
        self.where = ["-n", namespace]
        self.selector = [*self.where, "-l", f"{JOB_LABEL}={name}"]

    def apply(self, job):
        job["metadata"]["namespace"] = self.namespace
        self.cluster.apply(job)

    def kubectl(self, *arguments, **options):
        return self.cluster.kubectl(*self.where, *arguments, **options)

    def patch(self, spec):
        self.kubectl("patch", "tj", self.name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def delete(self, wait=True):
        """With `wait`, until its pods are gone too."""
        self.kubectl("delete", "tj", self.name, "--ignore-not-found", f"--wait={str(wait).lower()}")
        if wait:
            self.steps.until("no pods, the job being deleted", self.uids, lambda uids: not uids)

    def found(self):
        return self.cluster.find("tj", self.name, *self.where)

    def status(self):
        return (self.found() or {}).get("status", {})

    def condition(self, kind):
        """{} if the status has none of this type."""
        conditions = self.status().get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), {})

    def await_condition(self, kind, status, reason):
        return self.steps.until(
            f"{self.name}'s condition {kind}={status}, {reason}", lambda: self.condition(kind),
            lambda one: one.get("status") == status and one.get("reason") == reason)

    def await_state(self, state):
        found = self.steps.until(f"{self.name} {state}", self.status, lambda status: status.get(
            "state") == state or status.get("state") in ENDED)
        expect(found["state"] == state, f"{self.name} {state}", found)
        return found

    def restarts(self):
        """(application, disruption)"""
        counted = self.status().get("restarts", {})
        return counted.get("application", 0), counted.get("disruption", 0)

    def pods(self):
        """By name, without those that are being deleted."""
        return {pod["metadata"]["name"]: pod for pod in self.cluster.items("pods", *self.selector)
                if "deletionTimestamp" not in pod["metadata"]}

    def uids(self):
        """Of all pods, by name; those that are being deleted too."""
        return {pod["metadata"]["name"]: pod["metadata"]["uid"]
                for pod in self.cluster.items("pods", *self.selector)}

    def lives(self):
        """What shows that nobody touched a pod: uid and restarts of each."""
        return {name: (pod["metadata"]["uid"], [one["restartCount"] for one in
                                                pod["status"].get("containerStatuses", [])])
                for name, pod in self.pods().items()}

    def pod(self, name):
        found = self.pods().get(name)
        expect(found is not None, f"a pod {name}", sorted(self.pods()))
        return found

    def node_of(self, name):
        return self.pod(name)["spec"].get("nodeName")

    def records(self, pod):
        """What the bundled trainer has logged there so far; nothing if no kubelet tells."""
        text = self.kubectl("logs", pod, "--tail=-1", check=False)
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def said(self, pod, message):
        return [record for record in self.records(pod) if record["message"] == message]

    def first_steps(self, pod):
        """The first step of each generation that the pod has been part of: its record, in order."""
        return self.said(pod, "first step of the generation")

    def await_training(self, pod, generations=1):
        """The record of the first step of the pod's `generations`th generation."""
        found = self.steps.until(f"{pod} in its generation {generations}",
                                 lambda: self.first_steps(pod),
                                 lambda records: len(records) >= generations)
        return found[generations - 1]

    def step(self):
        """As far as the operator knows."""
        return self.status().get("progress", {}).get("step", 0)

    def await_step_beyond(self, step):
        return self.steps.until(f"{self.name} beyond step {step}", self.step,
                                lambda found: found > step)

    def ended(self, pod):
        """The step that the latest generation to end in the pod had done: by a failure, or because a pod was asked to
        stop."""
        records = [record for record in self.records(pod) if record["message"] in (
            "the generation has ended; joining the next one", "the generation has stopped")]
        if not records:
            raise Failure(f"found no generation that ended in the log of {pod}, expected one")
        return records[-1]["step"]
