"""TrainingJob: builds, reads and writes the Kubernetes object. Plain data; no cluster, no threads."""
from __future__ import annotations

import copy
import dataclasses
import operator
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

import yaml

from lockstep import _yaml
from lockstep.errors import InvalidJob
from lockstep.function import PYTHON, command_of
from lockstep.status import Status, read_status

API_VERSION = "training.lockstep.dev/v1"
KIND = "TrainingJob"
ROLES = ("Chief", "Worker", "PS", "Evaluator")
TRAINER = "trainer"  # the name of the main container of a job with `training`
OTHER = "main"  # a name that gets the variables of every framework
# What the API server adds to an object's metadata.
SERVER_METADATA = ("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
                   "managedFields", "resourceVersion", "selfLink", "uid")

Framework = Literal["tensorflow", "pytorch", "jax"]


@dataclasses.dataclass
class Training:
    """The section `training`: what the bundled trainer trains. A text or number is the short form of an object.

    Fields that have no attribute here (`precision`, `learningRateSchedule`, …) go into `more`, under the names of
    docs/api-reference.md; what is in `more` is merged last.
    """
    model: str | Sequence[Mapping[str, Any]] | Mapping[str, Any]  # a name, layers, or the object itself
    dataset: str | Mapping[str, Any]  # the folder of IDX files, or the object
    batch_size: int | Mapping[str, Any]  # of all replicas together, or the object
    epochs: int | None = None  # exactly one of epochs and steps
    steps: int | None = None
    optimizer: str | Mapping[str, Any] | None = None  # a name, or the object
    seed: int | None = None
    checkpoint: str | Mapping[str, Any] | None = None  # a folder in the container, or the object
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        if isinstance(self.model, str):
            model: Any = {"name": self.model}
        elif isinstance(self.model, Mapping):
            model = self.model
        else:
            model = {"layers": list(self.model)}
        section = {
            "model": model,
            "dataset": {"path": self.dataset} if isinstance(self.dataset, str) else self.dataset,
            "batchSize": {"global": self.batch_size} if isinstance(self.batch_size, int) else self.batch_size,
            "epochs": self.epochs,
            "steps": self.steps,
            "optimizer": {"name": self.optimizer} if isinstance(self.optimizer, str) else self.optimizer,
            "seed": self.seed,
            "checkpoint": {"directory": self.checkpoint} if isinstance(self.checkpoint, str) else self.checkpoint,
        }
        return _merged({name: value for name, value in section.items() if value is not None}, self.more)


class JobOptions(TypedDict, total=False):
    """The arguments that TrainingJob and TrainingJob.from_function share; TrainingJob explains them."""
    namespace: str | None
    replicas: int | Mapping[str, int]
    framework: Framework | None
    strategy: str | Mapping[str, Any] | None
    resources: Mapping[str, Any] | None
    env: Mapping[str, str | Mapping[str, Any]] | None
    volumes: Mapping[str, str] | None
    labels: Mapping[str, str] | None
    annotations: Mapping[str, str] | None
    spec: Mapping[str, Any] | None


class TrainingJob:
    """A TrainingJob. Not synchronized: one thread at a time.

    Args:
        name: Its name in the namespace, as of a Kubernetes Service.
        namespace: None: that of the client that creates it. Another one than the client's is refused.
        replicas: How many pods each role has: {"Chief": 1, "Worker": 3}; a number is that of Worker.
        image: The image of your program, or of the bundled trainer if that is not the operator's default.
        command, args: What the container runs, if not what its image says.
        framework: Names the container, so that it gets the variables of this framework alone. None: those of all.
        training: What the bundled trainer trains; None for a program of your own.
        strategy: A name, such as "ParameterServer", or the object.
        resources: {"cpu": "2", "nvidia.com/gpu": 1} are limits; or an object with `limits` and `requests`.
        env: Variables. A value that is a mapping is written as `valueFrom`.
        volumes: Claims by the path in the container where they are mounted: {"/data": "mnist"}.
        labels, annotations: Of the job; those of its pods are in the template.
        spec: Everything else, merged into the object's `spec` last: {"runPolicy": {"backoffLimit": 3}}. Objects are
            merged; lists are replaced.

    Raises:
        InvalidJob: An argument has a fault. The API server checks the rest when the job is created.
    """

    raw: dict[str, Any]  # the whole object, which may be changed

    def __init__(self, name: str, *, namespace: str | None = None, replicas: int | Mapping[str, int] = 1,
                 image: str | None = None, command: Sequence[str] | None = None, args: Sequence[str] | None = None,
                 framework: Framework | None = None, training: Training | Mapping[str, Any] | None = None,
                 strategy: str | Mapping[str, Any] | None = None, resources: Mapping[str, Any] | None = None,
                 env: Mapping[str, str | Mapping[str, Any]] | None = None,
                 volumes: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None,
                 annotations: Mapping[str, str] | None = None, spec: Mapping[str, Any] | None = None) -> None:
        if training is None and not image and not (spec or {}).get("replicaSpecs"):
            raise InvalidJob("image: found none, expected the image of your program, or `training` for the bundled "
                             "trainer")
        template = _template(image=image, command=_words("command", command), args=_words("args", args), env=env,
                             resources=resources, volumes=volumes)
        if template:
            template["containers"][0]["name"] = framework or (OTHER if training is None else TRAINER)
        section: dict[str, Any] = {}
        if strategy is not None:
            section["strategy"] = {"type": strategy} if isinstance(strategy, str) else strategy
        if training is not None:
            section["training"] = training.to_dict() if isinstance(training, Training) else training
        section["replicaSpecs"] = {
            role: {"replicas": count, **({"template": {"spec": copy.deepcopy(template)}} if template else {})}
            for role, count in _counts(replicas).items()}
        metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
        self.raw = copy.deepcopy({
            "apiVersion": API_VERSION, "kind": KIND,
            "metadata": {field: value for field, value in metadata.items() if value is not None},
            "spec": _merged(section, spec or {})})

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> TrainingJob:
        """The job of a Kubernetes object. InvalidJob: it is something else, or has no name."""
        kind = f"{found.get('apiVersion')} {found.get('kind')}"
        if kind != f"{API_VERSION} {KIND}":
            raise InvalidJob(f"found an object of kind {kind}, expected {API_VERSION} {KIND}")
        if not (found.get("metadata") or {}).get("name"):
            raise InvalidJob("metadata.name: found none, expected the job's name")
        job = cls.__new__(cls)
        job.raw = copy.deepcopy(dict(found))
        return job

    @classmethod
    def from_yaml(cls, path: str | pathlib.Path) -> TrainingJob:
        """The job of a YAML or JSON file, which has exactly one document. OSError: it cannot be read."""
        text = pathlib.Path(path).read_text(encoding="utf-8")
        try:
            return cls.from_yaml_text(text)
        except InvalidJob as error:
            raise InvalidJob(f"{path}: {error}") from error

    @classmethod
    def from_yaml_text(cls, text: str) -> TrainingJob:
        try:
            documents = _yaml.read_all(text)
        except yaml.YAMLError as error:
            raise InvalidJob(f"found what is no YAML: {error}") from error
        if len(documents) != 1 or not isinstance(documents[0], dict):
            kinds = ", ".join(str(one.get("kind")) if isinstance(one, dict) else type(one).__name__
                              for one in documents)
            raise InvalidJob(f"found {len(documents)} documents ({kinds or 'none'}), expected one {KIND}; apply other "
                             "objects with kubectl")
        return cls.from_dict(documents[0])

    @classmethod
    def from_function(cls, function: Callable[..., object], *, image: str, name: str | None = None,
                      args: Mapping[str, object] | None = None, launcher: Sequence[str] = PYTHON,
                      **options: Any) -> TrainingJob:
        """A job whose replicas each call a Python function.

        The function's source is written into the container's command, so it must not depend on anything around
        it: it imports what it needs, and gets the rest as arguments.

        Args:
            function: Defined by `def`, in a file or a notebook; no lambda, method or closure.
            image: Has python3 and what the function imports.
            name: None: the function's name with hyphens.
            args: The function's arguments by name, of what JSON can hold.
            launcher: What runs the file with the function, ["torchrun"] say; it must be in the image.
            options: As of TrainingJob, see JobOptions.

        Raises:
            InvalidJob: The function or an argument cannot be sent; the message says why.
        """
        if unknown := sorted(options.keys() - JobOptions.__annotations__.keys()):
            raise InvalidJob(f"found the arguments {', '.join(unknown)}, expected some of "
                             f"{', '.join(JobOptions.__annotations__)}")
        command = command_of(function, args or {}, _words("launcher", launcher) or list(PYTHON))
        return cls(name or function.__name__.replace("_", "-").lower().strip("-"), image=image, command=command,
                   **options)

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """None in a job that names none and did not come from a cluster."""
        return self.raw["metadata"].get("namespace")  # type: ignore[no-any-return]

    @property
    def uid(self) -> str | None:
        """None in a job that did not come from a cluster."""
        return self.raw["metadata"].get("uid")  # type: ignore[no-any-return]

    @property
    def spec(self) -> dict[str, Any]:
        """The object's `spec`, which may be changed."""
        return self.raw.setdefault("spec", {})  # type: ignore[no-any-return]

    @property
    def status(self) -> Status:
        """What the operator had said when the job was read from a cluster."""
        return read_status(self.raw.get("status") or {})

    def to_dict(self) -> dict[str, Any]:
        """A copy of the object as `kubectl apply` takes it: without status and what the API server has added."""
        copied = copy.deepcopy(self.raw)
        copied.pop("status", None)
        for field in SERVER_METADATA:
            copied["metadata"].pop(field, None)
        return copied

    def to_yaml(self) -> str:
        """to_dict as YAML, for `kubectl apply -f` and `lockstep run`."""
        return _yaml.write(self.to_dict())

    def __repr__(self) -> str:
        state = f", {self.status.state}" if "status" in self.raw else ""
        return f"<TrainingJob {self.namespace + '/' if self.namespace else ''}{self.name}{state}>"


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Objects are merged; everything else of `above` replaces what is below."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        result[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return result


def _counts(replicas: int | Mapping[str, int]) -> dict[str, int]:
    if not isinstance(replicas, Mapping):
        replicas = {"Worker": replicas}
    roles = {role.lower(): role for role in ROLES}
    counts = {}
    for name, count in replicas.items():
        if name.lower() not in roles:
            raise InvalidJob(f"replicas: found the role {name!r}, expected some of {', '.join(ROLES)}")
        try:
            counts[roles[name.lower()]] = operator.index(count)  # it may be NumPy's
        except TypeError as error:
            raise InvalidJob(f"replicas: found {count!r} for {name}, expected a whole number") from error
    return counts


def _words(argument: str, words: Sequence[str] | None) -> list[str] | None:
    if words is None:
        return None
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise InvalidJob(f"{argument}: found {words!r}, expected a list of texts, such as ['python3', 'train.py']")
    return list(words)


def _env(env: Mapping[str, str | Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    entries = []
    for name, value in (env or {}).items():
        if not isinstance(value, (str, Mapping)):
            raise InvalidJob(f"env: found {value!r} for {name}, expected a text, or a mapping that is its valueFrom")
        entries.append({"name": name, "value" if isinstance(value, str) else "valueFrom": value})
    return entries


def _template(*, resources: Mapping[str, Any] | None, env: Mapping[str, str | Mapping[str, Any]] | None,
              volumes: Mapping[str, str] | None, **given: Any) -> dict[str, Any]:
    """A pod's spec with one container that has no name yet; empty if nothing of it is given."""
    container = {**given, "env": _env(env)}
    if resources:
        container["resources"] = resources if resources.keys() <= {"limits", "requests"} else {"limits": resources}
    container["volumeMounts"] = [{"name": f"volume-{index}", "mountPath": path}
                                 for index, path in enumerate(volumes or {})]
    container = {field: value for field, value in container.items() if value}
    if not container:
        return {}
    template: dict[str, Any] = {"containers": [{"name": "", **container}]}
    if volumes:
        template["volumes"] = [{"name": f"volume-{index}", "persistentVolumeClaim": {"claimName": claim}}
                               for index, claim in enumerate(volumes.values())]
    return template
