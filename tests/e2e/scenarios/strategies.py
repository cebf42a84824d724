"""The bundled trainer's strategies without parameter servers, and an Evaluator, to their end; those that it lacks are
refused by name."""
import json

from job import Job, SAVED_EVERY, make_namespace, make_shared_claim, training_job
from steps import expect

NAMESPACE = "e2e-strategies"
CLAIM = "checkpoints"
STEPS = 200
# name -> (workers, strategy, ranks, what each of them says when the group has formed)
RUN = {
    "mirrored": (1, {"type": "Mirrored", "processesPerPod": 2}, 2, {"communicator": "shm"}),
    "central": (1, {"type": "CentralStorage", "processesPerPod": 2}, 2,
                {"communicator": "shm", "updatedBy": "rank 0"}),
    "multi": (2, {"type": "MultiWorkerMirrored", "communication": "Ring"}, 2, {"communicator": "gloo"}),
    "both": (2, {"type": "MultiWorkerMirrored", "processesPerPod": 2}, 4, {"communicator": "gloo"}),
    "stages": (2, {"type": "MultiWorkerMirrored", "processesPerPod": 2, "stages": 2}, 4,
               {"communicator": "gloo", "stages": 2}),
}
REFUSED = ({"type": "CentralStorage", "centralStorage": {"controllerDevice": "GPU"}},)


def run(cluster):
    with cluster.steps.step("the operator, and a namespace for restricted pods", 120):
        cluster.install()
        make_namespace(cluster, NAMESPACE)
    for name, expected in RUN.items():
        train(cluster, name, *expected)
    train_independent(cluster)
    evaluate(cluster)
    for strategy in REFUSED:
        refuse(cluster, strategy)


def clean_up(cluster):
    cluster.remove(("namespace", NAMESPACE), ("pv", f"{NAMESPACE}-{CLAIM}"))


def check_group(started, ranks, said):
    """Whether the records are those of `ranks` processes that form one group, which says what tells its strategy."""
    expect(sorted(record["rank"] for record in started) == list(range(ranks)),
           f"ranks 0 to {ranks - 1}, each once", started)
    for record in started:
        found = {key: record.get(key) for key in ("communicator", "updatedBy", "stages") if key in record}
        expect(record["world"] == ranks and found == said, f"a world of {ranks}, and {said}", record)
    stages = said.get("stages", 1)
    found = sorted(record.get("stage", 0) for record in started)
    expect(found == sorted(list(range(stages)) * (ranks // stages)),
           f"{stages} stages, each as often as the others", started)


def train(cluster, name, workers, strategy, ranks, said):
    job = Job(cluster, NAMESPACE, name)
    with cluster.steps.step(f"{strategy['type']}: {ranks} ranks in {workers} pods", 180):
        manifest = training_job(name, workers=workers, steps=STEPS, strategy=strategy)
        job.apply(manifest)
        job.await_state("Succeeded")
        job.steps.until(f"step {STEPS}", job.step, lambda found: found == STEPS)
        pods = [f"{name}-worker-{index}" for index in range(workers)]
        started = [record for pod in pods for record in job.said(pod, "the generation has started")]
        check_group(started, ranks, said)
        expect(job.restarts() == (0, 0), "no restart", job.restarts())
        job.delete()


def train_independent(cluster):
    job = Job(cluster, NAMESPACE, "sweep")
    with cluster.steps.step("Independent: four variants in two pods, one of which diverges", 180):
        variants = [{"name": "a"}, {"name": "wild", "optimizer": {"name": "SGD", "learningRate": 1e30}},
                    {"name": "b", "seed": 7}, {}]
        manifest = training_job("sweep", workers=2, steps=STEPS,
                                strategy={"type": "Independent", "processesPerPod": 2})
        manifest["spec"]["training"]["variants"] = variants
        job.apply(manifest)
        job.await_state("Succeeded")
        found = job.status()["variants"]
        expect([(result["index"], result["name"], result["diverged"]) for result in found] ==
               [(0, "a", False), (1, "wild", True), (2, "b", False), (3, "variant-3", False)],
               "a result for each variant, and that the second has diverged", found)
        expect([result["step"] for result in found if not result["diverged"]] == [STEPS] * 3,
               f"{STEPS} steps of each of the others", found)
        expect(job.restarts() == (0, 0), "no restart", job.restarts())
        job.delete()


def evaluate(cluster):
    """An Evaluator on a node of its own follows the checkpoints of the leading worker."""
    job = Job(cluster, NAMESPACE, "evaluated")
    with cluster.steps.step("an Evaluator evaluates the last checkpoint, and keeps the best", 180):
        folder, steps = make_shared_claim(cluster, NAMESPACE, CLAIM), 4 * SAVED_EVERY
        manifest = training_job("evaluated", steps=steps, claim=CLAIM)
        spec = manifest["spec"]
        spec["training"]["evaluation"]["enabled"] = True
        spec["training"]["checkpoint"]["keepBest"] = "Loss"
        spec["replicaSpecs"]["Evaluator"] = {"template": spec["replicaSpecs"]["Worker"]["template"]}
        job.apply(manifest)
        found = job.await_state("Succeeded")
        records = job.said("evaluated-evaluator-0", "evaluated")
        # It evaluates the last one first if it is behind when training ends.
        last = [record for record in records if record["step"] == steps]
        expect(len(last) == 1, f"one evaluation of step {steps}", records)
        expect(found["progress"].get("testLoss") == last[0]["testLoss"], "its loss in the status", found)
        best = min(records, key=lambda record: record["testLoss"])["step"]
        kept = [json.loads(path.read_text())["step"] for path in folder.glob("best/step-*/manifest.json")]
        expect(kept == [best], f"a copy of the checkpoint of step {best}", kept)
        expect(job.restarts() == (0, 0), "no restart", job.restarts())
        job.delete()


def refuse(cluster, strategy):
    what = strategy["type"]
    with cluster.steps.step(f"{what} is refused by name", 30):
        manifest = training_job("refused", workers=1, strategy=strategy)
        manifest["metadata"]["namespace"] = NAMESPACE
        said = cluster.refused("apply", "-f", "-", stdin=json.dumps(manifest))
        expect("not supported yet by the bundled trainer" in said and "spec.strategy" in said,
               f"that {what} is not supported yet", said)
