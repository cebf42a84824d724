"""A job of the bundled trainer with its own volumes, for `lockstep run` and for an API server."""
import json


def text(name, training, folders, workers=2, cpu=None, communication="Auto", **spec):
    """Returns JSON, which is also YAML. Each folder is a volume with its own mount: "logs" at /logs."""
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
