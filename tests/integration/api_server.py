"""One real API server for all tests of a Python process, with the CRD applied by kubectl."""
import atexit
import contextlib
import copy
import functools
import http.client
import json
import os
import pathlib
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.parse

from slowness import SLOWNESS

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build" / "release" / "bin"))
CRD = ROOT / "api" / "crd" / "trainingjobs.yaml"
JOBS = "/apis/training.lockstep.dev/v1/namespaces/default/trainingjobs"

ACCOUNT = "system:serviceaccount:lockstep-system:lockstep-operator"  # of manifests/default
LOCAL_ACCOUNT = "system:serviceaccount:default:lockstep-operator"  # of overlays/namespaced
# What the operator asks for when it is in its pod's place.
AUDIT_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
    {"level": "Metadata", "users": [ACCOUNT, LOCAL_ACCOUNT], "omitStages": ["RequestReceived"]},
    {"level": "None"}]}


def program(name):
    folder = os.environ.get("KUBEBUILDER_ASSETS") or subprocess.run(
        [ROOT / "tools" / "kube" / "control-plane.sh", "where"], check=True,
        stdout=subprocess.PIPE, text=True).stdout.strip()
    path = pathlib.Path(folder) / name
    if not path.exists():
        raise FileNotFoundError(f"found no {path}; `tools/setup kube` sees to it")
    return path


class Connection:
    """HTTP to the server, for one thread at a time."""

    def __init__(self, folder, headers=None, timeout=60 * SLOWNESS):
        """As the administrator; with headers as whoever they impersonate."""
        config = json.loads((folder / "kubeconfig").read_text())
        url = urllib.parse.urlsplit(config["clusters"][0]["cluster"]["server"])
        self._headers = {"Authorization": "Bearer " + (folder / "token").read_text(), **(headers or {})}
        self._http = http.client.HTTPSConnection(
            url.hostname, url.port, context=ssl.create_default_context(cafile=folder / "ca.crt"),
            timeout=timeout)

    def send(self, method, path, body=None, headers=None):
        """The answer, unread. A body is an object, or its JSON as bytes."""
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self._http.request(method, path, body=body,
                           headers={**self._headers, "Content-Type": content_type, **(headers or {})})
        return self._http.getresponse()

    def call(self, method, path, body=None, headers=None):
        """(HTTP status, the JSON of the answer)"""
        answer = self.send(method, path, body, headers)
        text = answer.read()
        is_json = "json" in answer.headers.get("Content-Type", "")
        return answer.status, json.loads(text.decode(errors="replace")) if is_json else {"message": text.decode()}

    def shut_down(self):
        """Ends an answer that another thread reads."""
        with contextlib.suppress(OSError):
            self._http.sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._http.close()


class Server:
    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="lockstep-api-")
        self.folder = pathlib.Path(self._folder.name)
        self.kubeconfig = self.folder / "kubeconfig"
        self.audit_log = self.folder / "audit.log"
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(json.dumps(AUDIT_POLICY))
        self._process = subprocess.Popen(
            [ROOT / "tools" / "kube" / "api-server", self.folder, "--",
             f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError("the API server did not start (its reason is above)")
        self._connection = None
        self._last_call = 0.0
        self._kubectl = program("kubectl")

    def stop(self):
        self._process.communicate()
        self._folder.cleanup()

    def leave_to_parent(self):
        """In a forked process: the server ends with the process that started it, whose pipe this one holds too."""
        self._process.stdin.close()

    def kubectl(self, *arguments, stdin=None, check=True):
        """What it wrote to stdout; with check=False the finished process."""
        done = subprocess.run(
            [self._kubectl, "--kubeconfig", self.kubeconfig, *arguments], input=stdin, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
            env={**os.environ, "HOME": str(self.folder)})
        if not check:
            return done
        if done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def shell(self, script, cwd=None, env=None):
        """Runs commands of the documentation, with this server's kubectl."""
        env = env or os.environ
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            check=False, cwd=cwd, env={**env, "HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig),
                                       "PATH": f"{self._kubectl.parent}:{env['PATH']}"})
        if done.returncode != 0:
            raise AssertionError(f"{script}: {done.stderr}")

    def call(self, method, path, body=None, headers=None):
        """(HTTP status, the JSON of the answer), as the administrator."""
        # The server closes a connection that has been idle for 90 s.
        if self._connection is None or time.monotonic() > self._last_call + 60:
            self._connection = self.connect()
        answer = self._connection.call(method, path, body, headers)
        self._last_call = time.monotonic()
        return answer

    def connect(self, headers=None, timeout=60 * SLOWNESS):
        return Connection(self.folder, headers, timeout)

    def wait_until_served(self, path):
        end = time.monotonic() + 60 * SLOWNESS
        while self.call("GET", path)[0] != 200:
            if time.monotonic() > end:
                raise AssertionError(f"{path} is not served")
            time.sleep(0.05)

    def schema(self, *path):
        """The served schema of TrainingJob, or of the field at a path."""
        crd = self.call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
                               "trainingjobs.training.lockstep.dev")[1]
        node = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for name in path:
            node = node["properties"][name]
        return node

    def create(self, job):
        """The stored object."""
        code, answer = self.call("POST", JOBS + "?fieldValidation=Strict", job)
        if code != 201:
            raise AssertionError(f"{code}: {answer.get('message')}")
        return answer

    def dry_run(self, job):
        """None if the server would take the job, else what it says."""
        code, answer = self.call("POST", JOBS + "?dryRun=All&fieldValidation=Strict", job)
        return None if code == 201 else answer["message"]

    def patch(self, name, change, subresource=""):
        """None if the server took the change, else what it says."""
        code, answer = self.call("PATCH", f"{JOBS}/{name}{subresource}?fieldValidation=Strict", change)
        return None if code == 200 else answer["message"]


@functools.cache
def server():
    running = Server()
    atexit.register(running.stop)
    running.kubectl("apply", "-f", CRD)
    # Later than the CRD's condition are its resource, and its schema for `kubectl explain`.
    for path in (JOBS, "/openapi/v3/apis/training.lockstep.dev/v1"):
        running.wait_until_served(path)
    return running


def container(name="main", **fields):
    return {"name": name, "image": "example.org/image", **fields}


def role(replicas=1, containers=None, **fields):
    return {"replicas": replicas,
            "template": {"spec": {"containers": containers or [container()]}}, **fields}


def job(name="job", **spec):
    """A job that brings its own image; a field of None is left out."""
    fields = {"replicaSpecs": {"Worker": role()}, **spec}
    return {"apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {key: value for key, value in fields.items() if value is not None}}


TRAINING = {"model": {"name": "mlp"}, "dataset": {"format": "idx", "path": "/data"},
            "batchSize": {"global": 128}, "epochs": 1}


def training_job(name="job", replicas=None, **training):
    """A job of the bundled trainer; a field of `training` that is None is left out."""
    fields = {**copy.deepcopy(TRAINING), **training}
    return job(name, replicaSpecs=replicas or {"Worker": {"replicas": 2}},
               training={key: value for key, value in fields.items() if value is not None})
