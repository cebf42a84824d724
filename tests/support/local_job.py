"""A job of the bundled trainer with its own volumes, as `lockstep run` and an API server take it."""
import json


def text(name, training, folders, workers=2, cpu=None, communication="Auto", **spec):
    """As JSON, which is YAML too. Each folder is a volume, mounted under its name: "logs" at /logs."""
    container = {"name": "trainer",
                 "volumeMounts": [{"name": folder, "mountPath": f"/{folder}"} for folder in folders]}
    if cpu is not None:
        container["resources"] = {"limits": {"cpu": cpu}}
    volumes = [{"name": folder, "persistentVolumeClaim": {"claimName": folder}} for folder in folders]
    template = {"spec": {"containers": [container], "volumes": volumes}}
    strategy = {"type": "MultiWorkerMirrored", "communication": communication}
    return json.dumps({
        "apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "metadata": {"name": name},
        "spec": {"strategy": strategy, "training": training,
                 "replicaSpecs": {"Worker": {"replicas": workers, "template": template}}, **spec}})
