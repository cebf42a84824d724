"""Client: creates, reads, changes and follows TrainingJobs on a cluster."""
from __future__ import annotations

import dataclasses
import datetime
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockstep import _watch
from lockstep.errors import ApiError, Conflict, InvalidJob, JobExists, JobFailed, NotFound, WaitTimeout
from lockstep.function import PYTHON
from lockstep.job import API_VERSION, ROLES, JobOptions, TrainingJob
from lockstep.status import Progress, read_time, why_failed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from lockstep._api import Collection

MANAGER = "lockstep-python"  # how the API server calls this program
# Conditions that a wait may ask for.
CONDITIONS = ("Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed")


@dataclasses.dataclass(frozen=True)
class Event:
    """A Kubernetes event about a job or one of its pods."""
    time: datetime.datetime | None  # when it was last seen
    type: str  # Normal or Warning
    reason: str
    message: str
    about: str  # "TrainingJob/mnist", "Pod/mnist-worker-0"
    count: int


class Client:
    """TrainingJobs of one namespace. Threads may share a client; an iterator that it returns is one thread's.

    Every method raises ApiError if the API server cannot be reached or refuses, or one of its subclasses: NotFound,
    JobExists, Conflict; and InvalidJob if the API server finds a fault in the job.

    Args:
        namespace: None: the namespace of the kubeconfig's context or, in a pod, the pod's own; else `default`.
        kubeconfig: A file. None: $KUBECONFIG, else ~/.kube/config, else, in a pod, its service account.
        context: The kubeconfig's context; None: the current one.
        api_client: An ApiClient of the package `kubernetes` that has been set up otherwise.
    """

    def __init__(self, namespace: str | None = None, *, kubeconfig: str | os.PathLike[str] | None = None,
                 context: str | None = None, api_client: Any = None) -> None:
        from lockstep import _api  # this imports the package kubernetes, which takes long

        default = "default"
        if api_client is None:
            api_client, default = _api.connect(os.fspath(kubeconfig) if kubeconfig else None, context)
        self._api = _api.Api(api_client)
        self._collection = _api.Collection
        self.namespace = namespace or default

    def create(self, job: TrainingJob, *, dry_run: bool = False) -> TrainingJob:
        """Creates a job, and returns it as stored. With `dry_run` the API server checks it and stores nothing."""
        return self._call("POST", job.name, collection=True, body=self._body(job), query=_dry(dry_run))

    def apply(self, job: TrainingJob, *, force: bool = False, dry_run: bool = False) -> TrainingJob:
        """Creates a job, or makes its fields what `job` says (server-side apply), and returns it as stored.

        Fields that an earlier `apply` has set and that are no longer in `job` are removed. Conflict: another program
        has set a field to something else; `force` overwrites that.
        """
        request = {"body": self._body(job), "content_type": "application/apply-patch+yaml"}
        query = {**_dry(dry_run), "force": force or None}
        try:
            return self._call("PATCH", job.name, query=query, **request)
        except Conflict as conflict:
            # What this program's create, suspend, resume and scale have set is its own.
            owners = set(re.findall(r'conflicts? with "([^"]+)"', str(conflict)))
            if owners != {MANAGER}:
                raise
        return self._call("PATCH", job.name, query={**query, "force": True}, **request)

    def train(self, function: Callable[..., object], *, image: str, name: str | None = None,
              args: Mapping[str, object] | None = None, launcher: Sequence[str] = PYTHON,
              **options: Unpack[JobOptions]) -> TrainingJob:
        """Creates a job whose replicas each call a Python function. TrainingJob.from_function explains the
        arguments, and what the function may use."""
        return self.create(TrainingJob.from_function(function, image=image, name=name, args=args, launcher=launcher,
                                                     **options))

    def get(self, name: str) -> TrainingJob:
        """The job as it is now."""
        return self._call("GET", name)

    def list(self, *, label_selector: str | None = None) -> list[TrainingJob]:
        """The jobs of the namespace."""
        try:
            found, _ = self._api.pages(self._path(), {"labelSelector": label_selector})
        except ApiError as error:
            raise _named(f"jobs of {self.namespace}", error) from error
        # The entries of a list do not repeat what they are.
        return [TrainingJob.from_dict({"apiVersion": API_VERSION, "kind": "TrainingJob", **one}) for one in found]

    def delete(self, name: str, *, wait: bool = False, timeout: float | None = None) -> None:
        """Deletes a job; Kubernetes then deletes its pods. With `wait`, returns when the job is gone (its pods may
        still be stopping); WaitTimeout if it is not after so many seconds."""
        job, deadline = self._begin(name, timeout)
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
                "preconditions": {"uid": job.uid}}
        try:
            self._request("DELETE", name, body=body)
        except NotFound:  # it was there a moment ago: somebody else has deleted it
            return
        if not wait:
            return
        try:
            for job in self._each(job, deadline):
                pass
        except NotFound:
            return
        raise WaitTimeout(f"{self._say(name)}: found it after {timeout} s, expected that it is deleted; finalizers: "
                          f"{job.raw['metadata'].get('finalizers') or 'none'}", job)

    def suspend(self, name: str) -> TrainingJob:
        """Deletes the job's pods; restart counts and completed workers are kept. Does not wait for that."""
        return self._merge(name, {"spec": {"suspend": True}})

    def resume(self, name: str) -> TrainingJob:
        """Starts a suspended job again; the bundled trainer goes on from its newest checkpoint.

        Call `wait(name, until="Suspended")` between `suspend` and this: the operator may miss a suspension that is
        over before it looks, and the pods go on as they are.
        """
        return self._merge(name, {"spec": {"suspend": False}})

    def scale(self, name: str, *, worker: int) -> TrainingJob:
        """Changes the number of workers, of an `elastic` job or a suspended one."""
        return self._merge(name, {"spec": {"replicaSpecs": {"Worker": {"replicas": worker}}}})

    def wait(self, name: str, *, timeout: float | None = None,
             until: str | Callable[[TrainingJob], bool] = "Succeeded") -> TrainingJob:
        """Waits by a watch, without polling, and returns the job as it is then.

        Args:
            timeout: Seconds; None: no limit. The job is read once, for at most a second longer than that.
            until: A condition that must be True of the job as it is now specified ("Running", "Suspended"), or a
                function of the job. If the job succeeds first, it is returned too: nothing changes after that.

        Raises:
            JobFailed: The job failed, unless `until` asks for that. The message says which replica failed, its exit
                code and its last lines.
            WaitTimeout: The time has passed; it is a TimeoutError.
            ApiError: The API server has not answered once in that time.
            NotFound: There is no such job, or it was deleted.
        """
        if isinstance(until, str) and until not in CONDITIONS:
            raise ValueError(f"until: found {until!r}, expected one of {', '.join(CONDITIONS)}, or a function")
        job, deadline = self._begin(name, timeout)
        for job in self._each(job, deadline):
            if (_holds(job, until) if isinstance(until, str) else until(job)) or job.status.succeeded:
                return job
            self._raise_if_failed(job)
        wanted = until if isinstance(until, str) else "what `until` asks for"
        raise WaitTimeout(f"{self._say(name)}: found state {job.status.state} after {timeout} s, expected {wanted}",
                          job)

    def progress(self, name: str, *, timeout: float | None = None) -> Iterator[Progress]:
        """Each state of the training as the operator reports it, at most every ten seconds, until the job has
        succeeded. Raises as `wait`. In a job without `training`, the program has to report it
        (`lockstep.report_progress`)."""
        last = None
        job, deadline = self._begin(name, timeout)
        for job in self._each(job, deadline):
            now = job.status.progress
            if now is not None and now != last:
                last = now
                yield now
            if job.status.succeeded:
                return
            self._raise_if_failed(job)
        raise WaitTimeout(f"{self._say(name)}: found state {job.status.state} after {timeout} s, expected Succeeded",
                          job)

    def logs(self, name: str, *, role: str | None = None, index: int | None = None, follow: bool = False,
             container: str | None = None, tail: int | None = None) -> Iterator[str]:
        """The lines of the replicas' logs, each with its replica: "worker-0: step 10".

        Args:
            role, index: Only these replicas.
            follow: Go on with new lines, also of pods that are started later, until the job has ended. Lines of
                different replicas come in the order of arrival. Without it, replica by replica.
            container: None: the main one, whose exit is the pod's outcome. Init containers have names, too.
            tail: Only so many of the last lines of each replica.

        The logs of pods that have been deleted are gone: see `runPolicy.cleanPodPolicy`. Without `follow`, the logs of
        all replicas are read even if one cannot be; the first error is raised after the last line.
        """
        from lockstep import _logs

        job = self.get(name)
        _check_replica(self._say(name), job, role, index)
        pods = _logs.pods_of(self._api, job, self.namespace, role.lower() if role else None, index)
        if not follow:
            yield from _logs.read(self._api, self.namespace, pods, container, tail)
            return
        follower = _logs.Follower(self._api, self.namespace, pods, self._only(name), container, tail)
        try:
            yield from follower.lines(job)
        finally:
            follower.stop()

    def events(self, name: str) -> Sequence[Event]:
        """The events about the job and its pods, the oldest first. Kubernetes keeps them for an hour."""
        from lockstep import _api

        job = self.get(name)
        pods = re.compile(re.escape(name) + rf"-(?:{'|'.join(role.lower() for role in ROLES)})-\d+")
        since = job.raw["metadata"]["creationTimestamp"]
        found, _ = self._api.pages(_api.path_of("api", "v1", "namespaces", self.namespace, "events"), {})
        events = []
        for one in found:
            about = one["involvedObject"]
            of_pod = (about.get("kind") == "Pod" and pods.fullmatch(about.get("name", "")) is not None and
                      one["metadata"]["creationTimestamp"] >= since)  # not of an earlier job of this name
            if about.get("uid") == job.uid or of_pod:
                events.append(_event(one))
        return sorted(events, key=lambda event: event.time.timestamp() if event.time else 0.0)

    def _each(self, job: TrainingJob, deadline: _watch.Deadline) -> Iterator[TrainingJob]:
        """The job as it was read, as it is now, and after each change; ends at the deadline. NotFound: it was
        deleted."""
        yield job
        for change in _watch.follow(self._only(job.name, deadline), [job.raw], deadline):
            now = TrainingJob.from_dict(change.object)
            if now.uid == job.uid:
                if change.deleted:
                    raise NotFound(f"{self._say(job.name)} was deleted", 404)
                yield now

    def _begin(self, name: str, timeout: float | None) -> tuple[TrainingJob, _watch.Deadline]:
        """The job as it is now, and when to wait for it no longer."""
        deadline = _watch.Deadline(timeout)
        first = _watch.Deadline(None if timeout is None else max(timeout, 1.0))
        return self._call("GET", name, deadline=first), deadline

    def _only(self, name: str, deadline: _watch.Deadline | None = None) -> Collection:
        """The job as a collection of one."""
        return self._collection(self._api, self._path(), {"fieldSelector": f"metadata.name={name}"}, deadline)

    def _raise_if_failed(self, job: TrainingJob) -> None:
        if job.status.failed:
            raise JobFailed(f"{self._say(job.name)} failed: {why_failed(job.status)}", job)

    def _merge(self, name: str, change: dict[str, Any]) -> TrainingJob:
        return self._call("PATCH", name, body=change, content_type="application/merge-patch+json", query=_dry(False))

    def _body(self, job: TrainingJob) -> dict[str, Any]:
        """The object that is sent."""
        if job.namespace not in (None, self.namespace):
            raise InvalidJob(f"job {job.namespace}/{job.name}: found the namespace {job.namespace}, expected none or "
                             f"the client's, {self.namespace}; Client({job.namespace!r}) is a client of the other")
        return job.to_dict()

    def _say(self, name: str) -> str:
        return f"job {self.namespace}/{name}"

    def _path(self, *name: str) -> str:
        from lockstep import _api

        return _api.path_of("apis", *API_VERSION.split("/"), "namespaces", self.namespace, "trainingjobs", *name)

    def _call(self, method: str, name: str, **request: Any) -> TrainingJob:
        """The job that the API server answers with."""
        return TrainingJob.from_dict(self._request(method, name, **request))

    def _request(self, method: str, name: str, *, collection: bool = False, **request: Any) -> dict[str, Any]:
        """Errors name the job."""
        try:
            return self._api.call(method, self._path() if collection else self._path(name), **request)
        except ApiError as error:
            raise _named(self._say(name), error) from error


def _named(who: str, error: ApiError) -> Exception:
    text = f"{who}: {error}"
    if error.status == 404 and ("page not found" in text or "could not find the requested resource" in text):
        return ApiError(f"{who}: found a cluster that knows no {API_VERSION} TrainingJob, expected one where Lockstep "
                        f"is installed: {error}", 404)
    if error.status == 404:
        return NotFound(text, 404)
    if error.status == 409:
        exists = "already exists" in str(error)
        return JobExists(text, 409) if exists else Conflict(text, 409)
    # The API server calls a field that is not in the schema an internal error if it comes by apply.
    if error.status in (400, 422) or "failed to create typed patch object" in text:
        return InvalidJob(text)
    return ApiError(text, error.status)


def _dry(dry_run: bool) -> dict[str, str | None]:
    return {"fieldManager": MANAGER, "fieldValidation": "Strict", "dryRun": "All" if dry_run else None}


def _holds(job: TrainingJob, condition: str) -> bool:
    """What the operator says of an earlier `spec` does not count, but an end is for good."""
    known = job.raw.get("status", {}).get("observedGeneration", 0)
    is_now = known >= job.raw["metadata"].get("generation", 0)
    return job.status.holds(condition) and (is_now or job.status.finished)


def _check_replica(who: str, job: TrainingJob, role: str | None, index: int | None) -> None:
    counts = {key.lower(): spec.get("replicas", 1) for key, spec in job.spec.get("replicaSpecs", {}).items()}
    wanted = {name: count for name, count in counts.items() if role is None or name == role.lower()}
    if not wanted or (index is not None and not any(0 <= index < count for count in wanted.values())):
        found = f"{role or 'replica'}{'' if index is None else f'-{index}'}"
        has = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise NotFound(f"{who} has no {found}; it has: {has}")


def _event(found: Mapping[str, Any]) -> Event:
    series = found.get("series") or {}
    stamp = (series.get("lastObservedTime") or found.get("lastTimestamp") or found.get("eventTime") or
             found["metadata"].get("creationTimestamp"))
    about = found["involvedObject"]
    return Event(
        time=read_time(stamp) if stamp else None,
        type=found.get("type") or "Normal", reason=found.get("reason") or "", message=found.get("message") or "",
        about=f"{about.get('kind')}/{about.get('name')}", count=series.get("count") or found.get("count") or 1)
