"""Reads the logs of a job's replicas, one thread for each that is followed, as one stream of lines."""
from __future__ import annotations

import queue
import re
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import urllib3

from lockstep import _watch
from lockstep._api import Api, Collection, Object, Stream, path_of
from lockstep.errors import ApiError
from lockstep.job import ROLES, TrainingJob

PREFIX = "training.lockstep.dev/"
MAIN_CONTAINER = PREFIX + "main-container"  # an annotation by the operator
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")  # that a line begins with
MOST_LINES = 10_000  # that wait for a slow reader
LONGEST_LINE = 1 << 16  # bytes; a program may never end one
LABELS_OF_ROLES = [role.lower() for role in ROLES]


class _Log(NamedTuple):
    """What one container of a pod has written, or is about to write."""
    role: str  # worker
    number: int
    pod: str
    uid: str
    container: str
    restart: int

    @property
    def replica(self) -> str:
        return f"{self.role}-{self.number}"


class _Place(NamedTuple):
    """Of what has come of a log."""
    time: str  # that the kubelet wrote in front of a line
    redraw: int  # of the line, from 0 on

    @property
    def order(self) -> tuple[tuple[str, str], int]:
        return _order_of_time(self.time), self.redraw


def pods_of(api: Api, job: TrainingJob, namespace: str, role: str | None, index: int | None) -> Collection:
    """The pods with a job's name, of one role or replica."""
    labels = {"job-name": job.name, "job-uid": job.uid, "role": role, "replica-index": index}
    selector = ",".join(f"{PREFIX}{label}" if value is None else f"{PREFIX}{label}={value}"
                        for label, value in labels.items())
    return Collection(api, path_of("api", "v1", "namespaces", namespace, "pods"), {"labelSelector": selector})


def read(api: Api, namespace: str, pods: Collection, container: str | None, tail: int | None) -> Iterator[str]:
    """The lines that there are by now, replica by replica. A log that cannot be read, of a node that is away say, does
    not hide the others: the first such error is raised after the last line."""
    logs = [log for pod in pods.objects() if (log := _log_of(pod, container)) is not None]
    first: ApiError | None = None
    silent = 0  # logs in a row to which nobody answered: of one, its node may be away, of two, the server
    for log in sorted(logs, key=_order):
        try:
            stream = api.stream(_path(namespace, log), silence_seconds=60,
                                query={"container": log.container, "tailLines": tail})
        except ApiError as error:
            silent = silent + 1 if error.status is None else 0
            if silent == 2 or error.status in (401, 403):
                raise  # the others' would not come either
            if error.status != 404:  # else the pod was deleted meanwhile, and its log with it
                first = first or error
            continue
        silent = 0
        try:
            yield from _lines_of(stream, log)
        except ApiError as error:
            first = first or error
    if first is not None:
        raise first


def _lines_of(stream: Stream, log: _Log) -> Iterator[str]:
    try:
        for line, _ in stream.drawn_lines(LONGEST_LINE):
            yield f"{log.replica}: {line.decode(errors='replace')}"
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ApiError(f"the log of pod {log.pod} was cut off: {error}") from error
    finally:
        stream.close()


class Follower:
    """Follows the logs of a job until it has ended. Its threads end with `stop`, and with the last line."""

    def __init__(self, api: Api, namespace: str, pods: Collection, job: Collection, container: str | None,
                 tail: int | None) -> None:
        self._api = api
        self._namespace = namespace
        self._pods, self._job = pods, job
        self._container, self._tail = container, tail
        self._lines: queue.Queue[str | Exception | None] = queue.Queue(MOST_LINES)  # None: a reader has ended
        self._stopped = threading.Event()
        self._abandons = threading.Event()  # pods that run on after the job's end
        self._deadline = _watch.Deadline(None)
        self._lock = threading.Lock()  # of what is below
        self._begun: set[_Log] = set()
        self._streams: dict[_Log, Stream] = {}
        self._running = 0

    def lines(self, job: TrainingJob) -> Iterator[str]:
        """The lines as they come, by one thread."""
        self._start(self._watch_pods)
        self._start(self._watch_job, job)
        while True:
            found = self._lines.get()
            if isinstance(found, Exception):
                raise found
            if found is not None:
                yield found
                continue
            with self._lock:
                self._running -= 1
                if self._running == 0:
                    return

    def stop(self) -> None:
        """Ends every thread."""
        self._stopped.set()
        self._end_watches()
        with self._lock:
            streams = list(self._streams.values())
        for stream in streams:
            stream.interrupt()

    def _end_watches(self) -> None:
        self._deadline.pass_now()
        self._pods.interrupt()
        self._job.interrupt()

    def _start(self, task: Any, *arguments: Any) -> None:
        def run() -> None:
            try:
                task(*arguments)
            except Exception as error:  # the reader of the lines gets it
                self._put(error)
            self._put(None)

        with self._lock:
            self._running += 1
        threading.Thread(target=run, name="lockstep-logs", daemon=True).start()

    def _put(self, line: str | Exception | None) -> None:
        while not self._stopped.is_set():
            try:
                return self._lines.put(line, timeout=1.0)
            except queue.Full:
                continue

    def _watch_pods(self) -> None:
        for change in _watch.follow(self._pods, [], self._deadline, self._sleep):
            if not change.deleted:
                self._meet(change.object)

    def _watch_job(self, job: TrainingJob) -> None:
        """Reads what is left once the job has ended: containers that this has not seen yet. Those that run are
        about to be deleted, or run on for as long as they like."""
        for change in _watch.follow(self._job, [job.raw], self._deadline, self._sleep):
            now = TrainingJob.from_dict(change.object)
            if now.uid == job.uid and (change.deleted or now.status.finished):
                self._end_watches()
                pods = self._pods.objects()
                if now.spec.get("runPolicy", {}).get("cleanPodPolicy") == "None":
                    self._abandons.set()
                    pods = [pod for pod in pods if not self._abandon(pod)]
                for pod in pods:
                    self._meet(pod)
                return

    def _meet(self, pod: Object) -> None:
        log = _log_of(pod, self._container)
        with self._lock:
            if log is None or log in self._begun:
                return
            self._begun.add(log)
        self._start(self._read, log)

    def _abandon(self, pod: Object) -> bool:
        """Ends the reader of a container that runs, if it does."""
        log = _log_of(pod, self._container)
        if log is None or not _is_running(pod, log):
            return False
        with self._lock:
            if log in self._streams:
                self._streams[log].interrupt()
        return True

    def _read(self, log: _Log) -> None:
        """Goes on after the last line if the log ends while the container runs: the API server ends a log that it
        has lost the kubelet of like any other."""
        after = _Place("", 0)
        pause = _watch.FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                for place, text in self._placed(log, after):
                    after = place or after
                    pause = _watch.FIRST_PAUSE
                    self._put(f"{log.replica}: {text}")
                if self._abandons.is_set() or not self._runs(log):
                    return
            except ApiError as error:
                if error.status in (400, 404):  # the pod is gone, or its container has been replaced
                    return
                if (error.status is not None and error.status < 500) or self._gives_up(pause):
                    raise
            except (urllib3.exceptions.HTTPError, OSError) as error:
                if self._abandons.is_set():
                    return
                if self._gives_up(pause):
                    raise ApiError(f"the log of pod {log.pod} was cut off: {error}") from error
            self._sleep(pause)
            pause = min(pause * 2, _watch.LONGEST_PAUSE)

    def _gives_up(self, pause: float) -> bool:
        """A node that was lost with the last lines of a job is not waited for without end."""
        return pause >= _watch.LONGEST_PAUSE and self._deadline.has_passed()

    def _pod(self, log: _Log) -> Object | None:
        """The pod that has the name of a log's now."""
        try:
            return self._api.call("GET", path_of("api", "v1", "namespaces", self._namespace, "pods", log.pod))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def _runs(self, log: _Log) -> bool:
        pod = self._pod(log)
        return pod is not None and _log_of(pod, log.container) == log and _is_running(pod, log)

    def _placed(self, log: _Log, after: _Place) -> Iterator[tuple[_Place | None, str]]:
        """(its place, a line) of those that are later. The kubelet's own words have no place."""
        query = {"container": log.container, "follow": True, "timestamps": True,
                 "tailLines": None if after.time else self._tail,
                 "sinceTime": _whole_seconds(after.time) if after.time else None}
        stream = self._api.stream(_path(self._namespace, log), query=query, silence_seconds=None)
        with self._lock:
            self._streams[log] = stream
        try:
            if self._abandons.is_set() and self._runs(log):
                return
            # A log is asked for by the pod's name, which by now may be that of a new pod, with a reader of its own.
            pod = self._pod(log)
            if self._stopped.is_set() or (pod is not None and _log_of(pod, log.container) != log):
                return
            place: _Place | None = None
            for line, is_first in stream.drawn_lines(LONGEST_LINE):
                text = line.decode(errors="replace")
                if not is_first:
                    place = place and _Place(place.time, place.redraw + 1)
                elif TIME.match(text):
                    time, _, text = text.partition(" ")
                    place = _Place(time, 0)
                else:
                    place = None
                if place is None or place.order > after.order:
                    yield place, text
        finally:
            with self._lock:
                del self._streams[log]
            stream.close()

    def _sleep(self, seconds: float) -> None:
        self._stopped.wait(seconds)


def _log_of(pod: Object, container: str | None) -> _Log | None:
    """None while the container has not started, and for a pod that the operator has not created: whoever may create
    pods may give them any label."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    role, number = labels.get(PREFIX + "role"), labels.get(PREFIX + "replica-index", "")
    is_owned = any(owner.get("controller") and owner["uid"] == labels.get(PREFIX + "job-uid")
                   for owner in metadata.get("ownerReferences") or ())
    if not is_owned or role not in LABELS_OF_ROLES or not re.fullmatch("[0-9]{1,9}", number):
        return None
    name = container or (metadata.get("annotations") or {}).get(MAIN_CONTAINER) or pod["spec"]["containers"][0]["name"]
    for status in _statuses(pod):
        # A container that is about to be restarted has the log of its latest life.
        has_begun = (status.get("state") or {}).keys() & {"running", "terminated"} or \
            (status.get("lastState") or {}).get("terminated")
        if status["name"] == name and has_begun:
            return _Log(role, int(number), metadata["name"], metadata["uid"], name, status.get("restartCount") or 0)
    return None


def _is_running(pod: Object, log: _Log) -> bool:
    return any(status["name"] == log.container and "running" in (status.get("state") or {})
               for status in _statuses(pod))


def _statuses(pod: Object) -> Iterator[Object]:
    """Of each container of a pod, also those that run before the others or were added for debugging."""
    found = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        yield from found.get(kind) or ()


def _order(log: _Log) -> tuple[int, int]:
    return LABELS_OF_ROLES.index(log.role), log.number


def _path(namespace: str, log: _Log) -> str:
    return path_of("api", "v1", "namespaces", namespace, "pods", log.pod, "log")


def _whole_seconds(stamp: str) -> str:
    """sinceTime has no fractions, and the kubelet gives the lines of that second again. A node's own offset stays."""
    offset = re.search(r"[+-]\d\d:\d\d$", stamp)
    return stamp[:19] + (offset.group() if offset else "Z")


def _order_of_time(stamp: str) -> tuple[str, str]:
    """2026-01-31T12:00:00.5Z comes after 2026-01-31T12:00:00.25Z, and nothing before everything."""
    fraction = re.match(r"\d*", stamp[20:])
    return stamp[:19], (fraction.group() if fraction else "").ljust(9, "0")
