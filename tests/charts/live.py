"""A real Prometheus beside a real operator and a real training job.

The job runs twice under one name: its processes by `lockstep run`, and as a TrainingJob of a real API
server, whose pods the operator makes. There is no kubelet, so this file says of those pods that they run, at the
addresses of the processes.
"""
import contextlib
import json
import math
import os
import pathlib
import re
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import local_job
from api_server import BIN, JOBS, job, role, server, training_job
from operator_test import PODS, Operator, eventually
from slowness import SLOWNESS
from prometheus import Prometheus

RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
NAME = "live"
RELEASE = "live"  # of the chart, as the operator's pod says
WORKERS = 2
SCRAPES = "1s"
UNUSED = "127.77.255.254"  # nobody listens there


def job_text(steps, rate):
    return local_job.text(NAME, {
        "model": {"name": "simple-cnn"}, "dataset": {"format": "synthetic"}, "batchSize": {"global": 64},
        "steps": steps, "optimizer": {"name": "Adam", "learningRate": rate},
        "evaluation": {"metrics": ["TopKCategoricalAccuracy"], "topK": 3},
        "checkpoint": {"directory": "/checkpoints", "everySteps": 200}}, ("checkpoints",), WORKERS)


class Proxy:
    """Passes bytes to the API server; can cut all connections, so that watches end."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                pair = (client, socket.create_connection(("127.0.0.1", self.target)))
                self.connections.append(pair)
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, one, other):
        with contextlib.suppress(OSError), selectors.DefaultSelector() as selector:
            selector.register(one, selectors.EVENT_READ, other)
            selector.register(other, selectors.EVENT_READ, one)
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        raise OSError("closed")
                    key.data.sendall(data)
        one.close()
        other.close()

    def cut(self):
        connections, self.connections = self.connections, []
        for pair in connections:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()
        self.cut()


class LocalJob:
    """`lockstep run` of the job; its workers by index."""

    def __init__(self, folder, text):
        self.work_dir = folder / "run"
        path = folder / "job.yaml"
        path.write_text(text)
        self.process = subprocess.Popen(
            [BIN / "lockstep", "run", path, "--work-dir", self.work_dir],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def pid(self, index):
        """Of the replica's newest process, once there is one."""
        log = self.work_dir / "logs" / f"{NAME}-worker-{index}" / "0.log"
        found = re.findall(r'"replica started".*?"pid":(\d+)', log.read_text()) if log.exists() else []
        return int(found[-1]) if found else None

    def address(self, index):
        pid = eventually(lambda: self.pid(index))
        environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        config = json.loads(next(entry for entry in environ if entry.startswith("TF_CONFIG="))[10:])
        return config["cluster"]["worker"][index].rsplit(":", 1)[0]

    def kill_replica(self, index):
        os.kill(self.pid(index), signal.SIGKILL)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def pods():
    return server().call("GET", "/api/v1/pods")[1]["items"]


class Live:
    """All of it; `with Live(folder) as live`."""

    def __init__(self, folder, steps=10_000_000, rate=0.001):
        self.folder = pathlib.Path(folder)
        self.job = job_text(steps, rate)
        self.closing = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as closing:
            self.local = LocalJob(self.folder, self.job)
            closing.callback(self.local.stop)
            self._start_operator(closing)
            self._make_pods()
            # This operator's pod is where the job is.
            self.prometheus = Prometheus(self.folder, pods, operator_namespace="default", interval=SCRAPES)
            closing.callback(self.prometheus.stop)
            self.closing = closing.pop_all()
        return self

    def __exit__(self, *_):
        self.closing.close()

    def _start_operator(self, closing):
        config = json.loads(server().kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        url = urllib.parse.urlsplit(cluster["server"])
        self.proxy = Proxy(url.port)
        closing.callback(self.proxy.close)
        cluster["server"] = f"https://{url.hostname}:{self.proxy.port}"
        path = self.folder / "operator.kubeconfig"
        path.write_text(json.dumps(config))
        self.operator = Operator(kubeconfig=path)
        closing.callback(self._end_operator)
        self.operator.wait_for("leading")
        port = self.operator.wait_for("serving")["metricsPort"]
        labels = {"app.kubernetes.io/name": "lockstep", "app.kubernetes.io/component": "operator",
                  "app.kubernetes.io/instance": RELEASE}
        self._create_pod("lockstep-operator", labels, port)
        self._set_pod("lockstep-operator", {**RUNNING, "podIP": "127.0.0.1",
                                            "podIPs": [{"ip": "127.0.0.1"}]})

    def _end_operator(self):
        """An operator that ended by itself is why something did not happen."""
        if self.operator.process.poll() is not None:
            print("the operator ended:", *self.operator.log[-5:], sep="\n", file=sys.stderr)
        self.operator.kill()

    def _create_pod(self, name, labels, port):
        code, answer = server().call("POST", PODS, {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
            "spec": {"containers": [{"name": "operator", "image": "lockstep-operator",
                                     "ports": [{"name": "metrics", "containerPort": port}]}]}})
        if code != 201:
            raise AssertionError(answer["message"])

    def _set_pod(self, name, status):
        code, answer = server().call("PATCH", f"{PODS}/{name}/status", {"status": status})
        if code != 200:
            raise AssertionError(answer["message"])

    def _make_pods(self):
        server().create(json.loads(self.job) | {"metadata": {"name": NAME, "namespace": "default"}})
        for index in range(WORKERS):
            self.run_pod(f"{NAME}-worker-{index}", self.local.address(index))

    def run_pod(self, name, address="127.0.0.1"):
        eventually(lambda: server().call("GET", f"{PODS}/{name}")[0] == 200)
        self._set_pod(name, {**RUNNING, "podIP": address, "podIPs": [{"ip": address}]})

    def fail_a_job(self, name):
        """A job that ends as Failed: its only replica ends with a code that is not tried again."""
        server().create(job(name, replicaSpecs={"Worker": role(restartPolicy="Never")}))
        self.run_pod(f"{name}-worker-0")
        eventually(lambda: self.state(name) == "Running")
        self._end_pod(f"{name}-worker-0", 1)
        eventually(lambda: self.state(name) == "Failed")

    def diverge_a_job(self, name):
        """A job of the bundled trainer whose numbers are no longer finite, by what its only replica says."""
        server().create(training_job(name, replicas={"Worker": {"replicas": 1}}))
        self.run_pod(f"{name}-worker-0", UNUSED)
        eventually(lambda: self.state(name) == "Running")
        self._end_pod(f"{name}-worker-0", 20, container="trainer")
        eventually(lambda: self.state(name) == "Failed")

    def restart_a_job(self, name):
        """A job whose replica is killed, and runs again."""
        self.lose_a_replica(name)
        self.run_pod(f"{name}-worker-0")
        eventually(lambda: self.state(name) == "Running")

    def lose_a_replica(self, name):
        """A job whose replica is killed, and whose next pod no node takes."""
        server().create(job(name))
        self.run_pod(f"{name}-worker-0")
        eventually(lambda: self.state(name) == "Running")
        uid = server().call("GET", f"{PODS}/{name}-worker-0")[1]["metadata"]["uid"]
        self._end_pod(f"{name}-worker-0", 137)
        eventually(lambda: server().call("GET", f"{PODS}/{name}-worker-0")[1].get("metadata", {}).get(
            "uid", uid) != uid)

    def leave_a_job_pending(self, name):
        """A job whose pod no node takes."""
        server().create(job(name))
        eventually(lambda: server().call("GET", f"{PODS}/{name}-worker-0")[0] == 200)

    def succeed_a_job(self, name):
        server().create(job(name))
        self.run_pod(f"{name}-worker-0")
        eventually(lambda: self.state(name) == "Running")
        self._set_pod(f"{name}-worker-0", {"phase": "Succeeded"})
        eventually(lambda: self.state(name) == "Succeeded")

    def _end_pod(self, name, code, container="main"):
        self._set_pod(name, {"phase": "Failed", "containerStatuses": [
            {"name": container, "image": "", "imageID": "", "ready": False, "restartCount": 0,
             "state": {"terminated": {"exitCode": code}}}]})

    def state(self, name):
        return server().call("GET", f"{JOBS}/{name}")[1].get("status", {}).get("state")

    def wait_for_data(self, query, seconds=60, count=1):
        """Until so many series have a number: a quotient is NaN while nothing has happened in its window."""
        end = time.monotonic() + seconds * SLOWNESS
        found = []
        while time.monotonic() < end:
            found = self.prometheus.query(query)
            if sum(math.isfinite(float(series["value"][1])) for series in found) >= count:
                return found
            time.sleep(0.2)
        raise AssertionError(f"{query}: no number within {seconds} s, only {found}")
