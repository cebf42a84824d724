"""Runs a real Prometheus with examples/prometheus.yaml, which turns pods into targets and labels."""
import contextlib
import http.client
import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

from free_port import free_port
from helm import CHART, ROOT, program
from slowness import SLOWNESS

OPERATOR_NAMESPACE = "lockstep-system"  # in the example


def meta(name):
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def discovered(pods, namespaces):
    """Returns what Prometheus would discover in these namespaces, or in all: one target for each port of a pod."""
    targets = []
    for pod in pods:
        address = pod.get("status", {}).get("podIP")
        if namespaces and pod["metadata"]["namespace"] not in namespaces:
            continue
        labels = {"__meta_kubernetes_namespace": pod["metadata"]["namespace"],
                  "__meta_kubernetes_pod_name": pod["metadata"]["name"],
                  "__meta_kubernetes_pod_phase": pod.get("status", {}).get("phase", "")}
        for name, value in pod["metadata"].get("labels", {}).items():
            labels[f"__meta_kubernetes_pod_label_{meta(name)}"] = value
            labels[f"__meta_kubernetes_pod_labelpresent_{meta(name)}"] = "true"
        for container in pod["spec"]["containers"]:
            for port in container.get("ports", []):
                if address:  # a test's pods share one, and listen at their host's ports
                    targets.append({"targets": [f"{address}:{port.get('hostPort', port['containerPort'])}"], "labels": {
                        **labels, "__meta_kubernetes_pod_container_port_name": port.get("name", ""),
                        "__meta_kubernetes_pod_container_port_number": str(port["containerPort"])}})
    return targets


class Prometheus:
    """Debian's Prometheus with the repository's configuration and rules, but shorter intervals. There is no API
    server to discover pods from, so it reads files with what it would have discovered of the pods of `pods()`."""

    def __init__(self, folder, pods, operator_namespace=OPERATOR_NAMESPACE, interval="1s"):
        config = yaml.safe_load((ROOT / "examples" / "prometheus.yaml").read_text())
        config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
        config["rule_files"] = [str(CHART / "rules" / name) for name in config["rule_files"]]
        self._list_pods = pods
        self._files = []  # (path, the namespaces whose pods are targets)
        for scrape in config["scrape_configs"]:
            namespaces = self._namespaces(scrape.pop("kubernetes_sd_configs"), operator_namespace)
            path = folder / f"pods-of-{scrape['job_name']}.json"
            scrape["scrape_interval"] = interval
            scrape["file_sd_configs"] = [{"files": [str(path)], "refresh_interval": "1s"}]
            self._files.append((path, namespaces))
        self.discover()
        path = folder / "prometheus.json"
        path.write_text(json.dumps(config))
        self.port = free_port()
        self.log = (folder / "prometheus.log").open("w+")
        self.process = subprocess.Popen(
            [program("prometheus"), f"--config.file={path}", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()  # nobody else can
            raise

    def _wait_until_ready(self):
        end = time.monotonic() + 60 * SLOWNESS
        while not self.is_ready():
            if time.monotonic() > end:
                raise AssertionError(f"Prometheus was not ready within {60 * SLOWNESS:.0f} s")
            time.sleep(0.1)

    @staticmethod
    def _namespaces(discovery, operator_namespace):
        """Returns the namespaces to discover, with the operator's own in place of the example's."""
        if len(discovery) != 1 or discovery[0].pop("role") != "pod" or set(discovery[0]) - {"namespaces"}:
            raise AssertionError(f"found {discovery}, expected to discover pods")
        names = discovery[0].get("namespaces", {}).get("names", [])
        return [operator_namespace if name == OPERATOR_NAMESPACE else name for name in names]

    def is_ready(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise AssertionError(f"Prometheus ended: {self.log.read()[-2000:]}")
        with contextlib.suppress(OSError, http.client.HTTPException):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=10).status == 200
        return False

    def discover(self):
        pods = self._list_pods()
        for path, namespaces in self._files:
            new = path.with_suffix(".new")
            new.write_text(json.dumps(discovered(pods, namespaces)))
            new.rename(path)

    def call(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, text):
        """[{"metric": labels, "value": [time, text]}]"""
        return self.call("query", query=text)["result"]

    def query_range(self, text, start, end, step):
        return self.call("query_range", query=text, start=start, end=end, step=step)["result"]

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()
