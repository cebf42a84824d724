"""The examples that bring their own image, PyTorch's and TensorFlow's, on MNIST from a volume: what each replica
is told of the others, that they train and report how far they are, and what a lost rank costs."""
import json
import platform

from cluster import OPERATOR, ROOT, SYSTEM
from job import Job, apart, make_claim, make_namespace, make_shared_claim, provide_mnist
from steps import Skipped, expect

NAMESPACE = "e2e-frameworks"
PYTORCH, TENSORFLOW = ROOT / "examples/pytorch-ddp", ROOT / "examples/tensorflow-mnist"
NODES = 2  # that get the images, which are large
MIN_ACCURACY = 0.9
REPORTS, REPORTS_PORT = "lockstep-operator-progress", 8082  # the Service to which programs report, and its port
CORDONED = []


def run(cluster):
    steps = cluster.steps
    if platform.machine() != "x86_64":
        raise Skipped(f"the frameworks' wheels are for x86_64, this is {platform.machine()}")
    with steps.step("images of PyTorch and TensorFlow (made where there are none)", 2400):
        images = {name: cluster.call(ROOT / "tools/peers/image", name).splitlines()[-1]
                  for name in ("torch", "tensorflow")}
    with steps.step(f"onto {NODES} nodes", 900):
        load(cluster, images.values())
    with steps.step("the operator, a namespace for restricted pods, programs and data", 180):
        cluster.install()
        take_reports(cluster)
        make_namespace(cluster, NAMESPACE)
        provide_mnist(cluster)
        make_claim(cluster, NAMESPACE, "mnist", "mnist", "ReadOnlyMany")
        make_shared_claim(cluster, NAMESPACE, "checkpoints")
        for name, *sources in (("pytorch-ddp", PYTORCH / "train.py", ROOT / "python" / "lockstep" / "report.py"),
                               ("tensorflow-mnist", TENSORFLOW)):
            cluster.kubectl("-n", NAMESPACE, "create", "configmap", name, *(f"--from-file={source}" for source in sources))
    distributed_data_parallel(cluster, images["torch"])
    lost_rank(cluster, images["torch"])
    for fit in (False, True):
        multi_worker(cluster, images["tensorflow"], fit)
        parameter_server(cluster, images["tensorflow"], fit)


def clean_up(cluster):
    for node in CORDONED:
        cluster.kubectl("uncordon", node, check=False)
    CORDONED.clear()
    # The operator keeps its two flags until it is installed again, as each scenario does.
    cluster.remove(("service", REPORTS, "-n", SYSTEM), ("namespace", NAMESPACE), *(("pv", f"{NAMESPACE}-{name}") for name in ("mnist", "checkpoints")))


def load(cluster, images):
    """Onto the first nodes; no pods go to the others."""
    nodes = sorted(cluster.workers())
    for node in nodes[NODES:]:
        CORDONED.append(node)
        cluster.kubectl("cordon", node)
    for image in images:
        lacking = [node for node in nodes[:NODES] if not cluster.has_image(node, image)]
        if lacking:
            cluster.load_images(image, nodes=lacking)


def take_reports(cluster):
    """What manifests/default lacks for the reports of programs: a Service, and the operator's flags."""
    labels = cluster.find(*OPERATOR.split("/"), "-n", SYSTEM)["spec"]["selector"]["matchLabels"]
    cluster.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": REPORTS, "namespace": SYSTEM},
                   "spec": {"selector": labels, "ports": [{"port": REPORTS_PORT}]}})
    flags = (f"--progress-bind-address=:{REPORTS_PORT}", f"--progress-url=http://{REPORTS}.{SYSTEM}.svc:{REPORTS_PORT}")
    cluster.kubectl("-n", SYSTEM, "patch", OPERATOR, "--type=json", "-p", json.dumps(
        [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": flag} for flag in flags]))
    cluster.wait_for_operator()


def example(cluster, path, image, name, *arguments, **environment):
    """(job, manifest) of an example, which is run by the image that there is here."""
    manifest = cluster.manifest(path)
    manifest["metadata"]["name"] = name
    roles = manifest["spec"]["replicaSpecs"].values()
    fit_apart = sum(role.get("replicas", 1) for role in roles) <= NODES
    for role in roles:
        pod = role["template"]["spec"]
        container = pod["containers"][0]
        container["image"] = image
        container["args"] += arguments
        container["env"] += [{"name": key, "value": value} for key, value in environment.items()]
        if fit_apart:
            pod["affinity"] = apart(name)
    return Job(cluster, NAMESPACE, name), manifest


def keep_pods(manifest):
    """The first worker's end is the job's: the others then stay, to say their last words too."""
    manifest["spec"].setdefault("runPolicy", {})["cleanPodPolicy"] = "None"


def await_record(job, pod, key):
    """The first line of the pod's log that has `key`."""
    return job.steps.until(
        f"{key} in the log of {pod}",
        lambda: next((record for record in job.records(pod) if key in record), None))


def expect_trained(job, pod, record, first, last):
    job.steps.note(f"{pod}: loss {first} to {last}, test accuracy {record['accuracy']}")
    expect(last < first / 3, f"{pod}: a third of the first loss, {first}", last)
    expect(record["accuracy"] >= MIN_ACCURACY, f"{pod}: an accuracy of {MIN_ACCURACY}", record)


def expect_reported(job):
    """That the program has told the operator, to its last step."""
    job.steps.until(f"a report of {job.name}'s last step and its loss", lambda: job.status().get("progress", {}),
                    lambda told: "loss" in told and 0 < told.get("totalSteps", 0) == told.get("step"))


def expect_undisturbed(job):
    expect(job.restarts() == (0, 0), "no restart", job.restarts())
    for name, pod in job.pods().items():
        for container in pod["status"]["containerStatuses"]:
            expect(container["restartCount"] == 0, f"{name}: its container started once", container)


# PyTorch


def distributed_data_parallel(cluster, image):
    job, manifest = example(cluster, PYTORCH / "job.yaml", image, "ddp")
    keep_pods(manifest)
    pods = ["ddp-worker-0", "ddp-worker-1"]
    with cluster.steps.step("PyTorch: DistributedDataParallel by torchrun, two ranks", 300):
        job.apply(manifest)
        job.await_state("Succeeded")
    with cluster.steps.step("PyTorch: what the ranks saw, and what came of it", 60):
        for rank, pod in enumerate(pods):
            told = await_record(job, pod, "world")
            expect((told["rank"], told["world"]) == (rank, 2), f"{pod}: rank {rank} of 2", told)
            losses = [record["loss"] for record in job.records(pod) if "loss" in record]
            expect_trained(job, pod, await_record(job, pod, "accuracy"), losses[0], losses[-1])
        expect_reported(job)
        expect_undisturbed(job)
        nodes = {job.node_of(pod) for pod in pods}
        expect(len(nodes) == 2, "two nodes", sorted(nodes))
        job.delete()


def lost_rank(cluster, image):
    job, manifest = example(cluster, PYTORCH / "job.yaml", image, "killed", "--epochs=3")
    pods = ["killed-worker-0", "killed-worker-1"]
    with cluster.steps.step("PyTorch: a rank is killed, and the gang starts again, once", 300):
        make_shared_claim(cluster, NAMESPACE, "checkpoints")
        job.apply(manifest)
        saved = await_record(job, pods[0], "saved")["step"]
        before = job.uids()
        pid = await_record(job, pods[1], "pid")["pid"]
        job.kubectl("exec", pods[1], "--", "sh", "-c", f"kill -9 {pid}")
        job.steps.until("two new pods", job.uids, lambda uids: len(uids) == 2 and not
                        set(uids.values()) & set(before.values()))
        expect(job.restarts() == (1, 0), "one application failure", job.restarts())
    with cluster.steps.step("PyTorch: it goes on from its checkpoint, to its end", 300):
        for pod in pods:
            told = await_record(job, pod, "restored_step")
            expect(told["restored_step"] >= saved, f"{pod}: from step {saved} at least", told)
        status = job.await_state("Succeeded")
        expect(status["attempt"] == 1, "the second attempt", status)
        expect(job.restarts() == (1, 0), "one application failure", job.restarts())
        found = await_record(job, pods[0], "accuracy")
        expect(found["accuracy"] >= MIN_ACCURACY, f"an accuracy of {MIN_ACCURACY}", found)
        job.delete()


# TensorFlow


def tensorflow(cluster, path, image, name, fit):
    """As `example`; with `fit`, by Keras 2."""
    if fit:
        return example(cluster, path, image, f"{name}-fit", "--fit", TF_USE_LEGACY_KERAS="1")
    return example(cluster, path, image, name)


def expect_cluster(job, pod, task, roles):
    """That TensorFlow read from TF_CONFIG who is where. `roles`: role -> how many."""
    told = await_record(job, pod, "cluster")
    addresses = {role: [f"{job.name}-{role}-{index}.{job.name}.{NAMESPACE}.svc:2222" for index in range(count)]
                 for role, count in roles.items()}
    expect((told["task"], told["cluster"]) == (task, addresses), f"{pod}: {task} of {addresses}", told)
    return told


def expect_keras(record, fit):
    package = "tf_keras" if fit else "keras"
    expect(record["keras"] == package, f"a model of {package}", record)


def multi_worker(cluster, image, fit):
    steps, way = cluster.steps, "fit" if fit else "a loop"
    job, manifest = tensorflow(cluster, TENSORFLOW / "multi-worker.yaml", image, "mwms", fit)
    keep_pods(manifest)
    with steps.step(f"TensorFlow: MultiWorkerMirrored by {way}, two workers", 300):
        job.apply(manifest)
        job.await_state("Succeeded")
    with steps.step(f"TensorFlow: MultiWorkerMirrored by {way}, what came of it", 60):
        results = []
        for index in (0, 1):
            pod = f"{job.name}-worker-{index}"
            told = expect_cluster(job, pod, f"worker:{index}", {"worker": 2})
            expect(told["replicas"] == 2, f"{pod}: two replicas", told)
            results.append(await_record(job, pod, "accuracy"))
            expect_keras(results[-1], fit)
            expect_trained(job, pod, results[-1], results[-1]["first_loss"], results[-1]["loss"])
        for key in ("loss", "accuracy"):
            expect(results[0][key] == results[1][key], f"one {key}, since there is one model", results)
        expect_undisturbed(job)
        job.delete()


def parameter_server(cluster, image, fit):
    steps, way = cluster.steps, "fit" if fit else "a loop"
    job, manifest = tensorflow(cluster, TENSORFLOW / "parameter-server.yaml", image, "ps", fit)
    roles = {"chief": 1, "worker": 2, "ps": 1}
    with steps.step(f"TensorFlow: ParameterServer by {way}, a chief, two workers, a parameter server", 300):
        job.apply(manifest)
        for role, count in roles.items():  # while they run: what still does in the end is deleted
            for index in range(count):
                expect_cluster(job, f"{job.name}-{role}-{index}", f"{role}:{index}", roles)
        before = job.lives()
        expect(len(before) == 4, "four pods", before)
        job.await_state("Succeeded")
        expect(job.restarts() == (0, 0), "no restart", job.restarts())
    with steps.step(f"TensorFlow: ParameterServer by {way}, what came of it", 60):
        chief = f"{job.name}-chief-0"
        found = await_record(job, chief, "accuracy")
        expect_keras(found, fit)
        expect_trained(job, chief, found, found["first_loss"], found["loss"])
        expect(all("/job:ps/" in device for device in found["variables_on"]),
               "variables on the parameter server", found)
        steps.until("the chief alone: what served is deleted", lambda: list(job.uids()),
                    lambda left: left == [chief])
        expect_undisturbed(job)
        job.delete()
