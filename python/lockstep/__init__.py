"""Runs Lockstep's TrainingJobs on Kubernetes.

    from lockstep import Client, TrainingJob, Training

    job = TrainingJob("mnist", replicas=2, volumes={"/data": "mnist"},
                      training=Training(model="core-cnn", dataset="/data", batch_size=128, epochs=2))
    client = Client()
    client.create(job)
    client.wait("mnist")

`TrainingJob` is plain data and needs no cluster. `Client` talks to the API server, with the same kubeconfig as
kubectl. Importing this package does not import the `kubernetes` package; creating a `Client` does.
"""
from importlib.metadata import PackageNotFoundError, version

from lockstep.client import Client, Event
from lockstep.errors import (ApiError, Conflict, InvalidJob, JobExists, JobFailed, NotFound, LockstepError,
                             WaitTimeout)
from lockstep.job import Training, TrainingJob
from lockstep.report import report_progress
from lockstep.status import Condition, Failure, Progress, ReplicaStatus, Status

try:
    __version__ = version("lockstep")
except PackageNotFoundError:  # imported from the source tree
    __version__ = "0"

__all__ = ["ApiError", "Client", "Condition", "Conflict", "Event", "Failure", "InvalidJob", "JobExists", "JobFailed",
           "NotFound", "LockstepError", "Progress", "ReplicaStatus", "Status", "Training", "TrainingJob",
           "WaitTimeout", "report_progress"]
