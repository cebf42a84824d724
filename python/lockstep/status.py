"""A job's `status`, typed. The attributes have the names of the CRD's fields, in snake case."""
from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def camel_case(name: str) -> str:
    """exit_code -> exitCode"""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def read_time(text: str) -> datetime.datetime:
    """A time of an API object, to the microsecond: Python before 3.11 takes fractions of three or six digits alone,
    the operator writes up to nine."""
    six_digits = re.sub(r"\.(\d+)", lambda found: f".{found[1][:6]:0<6}", text)
    return datetime.datetime.fromisoformat(six_digits.replace("Z", "+00:00"))


def _read(cls: type[T], found: Mapping[str, Any]) -> T:
    """The dataclass, from an object whose fields have the same names in camel case. Absent fields are None."""
    values = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        value = found.get(camel_case(field.name))
        values[field.name] = read_time(value) if value is not None and field.name.endswith("_time") else value
    return cls(**values)


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far the bundled trainer is. A number that is not known yet, or that JSON cannot hold (NaN), is None."""
    step: int | None  # updates of the model so far
    total_steps: int | None
    epoch: float | None  # 1.5 is the middle of the second
    loss: float | None  # means since the epoch's start
    accuracy: float | None
    mean_absolute_error: float | None  # instead of accuracy, with a loss of regression
    test_loss: float | None  # of the last evaluation
    test_accuracy: float | None
    test_mean_absolute_error: float | None
    test_metrics: dict[str, float] | None  # those that evaluation.metrics names
    examples_per_second: float | None  # of all replicas
    goodput: float | None  # the share of the time that went into steps which counted, from 0 to 1
    estimated_remaining_seconds: float | None
    last_checkpoint_step: int | None  # -1 for none
    samples_lost: int | None  # by epochs so far, or used more than once; None for none, anything else is a bug
    samples_duplicated: int | None
    update_time: datetime.datetime | None


@dataclasses.dataclass(frozen=True)
class Failure:
    """The replica that failed."""
    role: str | None  # chief, worker, ps or evaluator
    index: int | None
    node: str | None
    exit_code: int | None  # of its main container
    reason: str | None  # Kubernetes' word for it
    message: str | None  # the last lines of its log, or what the kubelet said

    def __str__(self) -> str:
        text = f"{self.role or 'replica'}-{self.index or 0}"
        if self.exit_code is not None:
            text += f" exited with {self.exit_code}"
        if self.reason:
            text += f" ({self.reason})"
        if self.node:
            text += f" on node {self.node}"
        return f"{text}: {self.message}" if self.message else text


@dataclasses.dataclass(frozen=True)
class Condition:
    """One aspect of the job's state."""
    type: str  # Created, Running, Restarting, Suspended, Succeeded or Failed
    status: str  # True, False or Unknown
    reason: str
    message: str
    observed_generation: int | None
    last_transition_time: datetime.datetime | None


@dataclasses.dataclass(frozen=True)
class ReplicaStatus:
    """The numbers of a role's pods."""
    desired: int | None
    active: int | None
    ready: int | None
    succeeded: int | None
    failed: int | None


@dataclasses.dataclass(frozen=True)
class Status:
    """What the operator has seen and done. Fields that are not here are in `TrainingJob.raw["status"]`."""
    state: str  # the condition that holds, for people; Pending before the operator has seen the job
    conditions: tuple[Condition, ...]
    start_time: datetime.datetime | None
    completion_time: datetime.datetime | None
    next_retry_time: datetime.datetime | None
    attempt: int  # how often the gang was restarted
    ready_replicas: str  # "3/4"
    restart_count: int
    replica_statuses: Mapping[str, ReplicaStatus]  # by role
    progress: Progress | None  # only with `training`
    failure: Failure | None

    def holds(self, condition: str) -> bool:
        """Whether a condition of this type is True."""
        return any(found.type == condition and found.status == "True" for found in self.conditions)

    @property
    def succeeded(self) -> bool:
        return self.holds("Succeeded")

    @property
    def failed(self) -> bool:
        return self.holds("Failed")

    @property
    def finished(self) -> bool:
        """Whether the job has succeeded or failed. A finished job never starts again."""
        return self.succeeded or self.failed


def read_status(found: Mapping[str, Any]) -> Status:
    """The typed form of an object's `status`, which may be empty."""
    plain = _read(Status, found)
    progress, failure = found.get("progress"), found.get("failure")
    return dataclasses.replace(
        plain,
        state=plain.state or "Pending",
        conditions=tuple(_read(Condition, one) for one in found.get("conditions") or ()),
        attempt=plain.attempt or 0,
        ready_replicas=plain.ready_replicas or "",
        restart_count=plain.restart_count or 0,
        replica_statuses={role: _read(ReplicaStatus, one)
                          for role, one in (found.get("replicaStatuses") or {}).items()},
        progress=None if progress is None else _read(Progress, progress),
        failure=None if failure is None else _read(Failure, failure))


def why_failed(status: Status) -> str:
    """For people: the failure that counted last, else the reason of the condition Failed."""
    if status.failure is not None:
        return str(status.failure)
    for condition in status.conditions:
        if condition.type == "Failed":
            return f"{condition.reason}: {condition.message}"
    return "no reason is known"
