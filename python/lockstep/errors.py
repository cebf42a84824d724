"""What this package raises. Every message names the object, what was found and what is expected."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.job import TrainingJob
    from lockstep.status import Failure


class LockstepError(Exception):
    """The base of all errors below."""


class InvalidJob(LockstepError, ValueError):
    """The job, or the function to train with, has a fault: found here, or by the API server."""


class ApiError(LockstepError):
    """The API server could not be reached, or refused a request for a reason that has no class of its own.

    `status` is the HTTP status, None if there was no answer.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class NotFound(ApiError, LookupError):
    """The job or the replica does not exist, or the job was deleted during the call."""


class JobExists(ApiError):
    """A job of this name exists."""


class Conflict(ApiError):
    """Another program owns a field that `apply` would change, or changed the job meanwhile."""


class JobFailed(LockstepError):
    """The job has failed. The message says which replica failed first, its exit code and its last lines."""

    def __init__(self, message: str, job: TrainingJob) -> None:
        super().__init__(message)
        self.job = job

    @property
    def failure(self) -> Failure | None:
        """The replica that failed; None if no replica is to blame, as with a deadline or an invalid job."""
        return self.job.status.failure


class WaitTimeout(LockstepError, TimeoutError):
    """The time limit of a wait passed first. `job` is the job as last seen."""

    def __init__(self, message: str, job: TrainingJob) -> None:
        super().__init__(message)
        self.job = job
