"""Plays the kubelets of a namespace's pods: what they say of them, and when."""
import heapq
import http.client
import itertools
import json
import threading
import time

from api_server import server


def container_status(pod, state, ready=False):
    return {"name": pod["spec"]["containers"][0]["name"], "image": "x", "imageID": "x", "ready": ready,
            "restartCount": 0, "state": state}


def running(pod, **fields):
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [container_status(pod, {"running": {}}, ready=True)], **fields}


def ended(pod, code=0, message="", **fields):
    end = {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}
    return {"phase": "Failed" if code else "Succeeded",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [container_status(pod, {"terminated": end})], **fields}


class Kubelet:
    """`life` makes of a new pod what is said of it: (seconds after the last was said, a status), …"""

    THREADS = 4

    def __init__(self, namespace, life, headers=None):
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._life = life
        self._headers = headers
        self._due = []  # a heap of (when, a number, the pod, its status, what is said after)
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._watching = server().connect(headers, timeout=3600)
        self._seen = set()  # uids of pods
        version = self._list()
        self._threads = [threading.Thread(target=self._watch, args=(version,), daemon=True)]
        self._threads += [threading.Thread(target=self._speak, daemon=True) for _ in range(self.THREADS)]
        for thread in self._threads:
            thread.start()

    def stop(self):
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._watching.shut_down()
        for thread in self._threads:
            thread.join()
        self._watching.close()

    def _list(self):
        """Plans the lives of pods that are new, and returns the version to watch from."""
        listed = self._watching.call("GET", self._pods)[1]
        for pod in listed["items"]:
            self._meet(pod)
        return listed["metadata"]["resourceVersion"]

    def _meet(self, pod):
        if pod["metadata"]["uid"] not in self._seen:
            self._seen.add(pod["metadata"]["uid"])
            self._plan(pod, iter(self._life(pod)))

    def _watch(self, version):
        """The server ends a watch whose reader is slow; what was missed is listed."""
        while not self._stopped:
            try:
                for line in self._watching.send("GET", f"{self._pods}?watch=1&resourceVersion={version}"):
                    event = json.loads(line)
                    if event["type"] == "ADDED":
                        self._meet(event["object"])
                version = self._list()
            except (OSError, ValueError, KeyError, http.client.HTTPException):
                if not self._stopped:
                    raise

    def _plan(self, pod, said):
        step = next(said, None)
        if step is None:
            return
        seconds, status = step
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), pod, status, said))
            self._changed.notify()

    def _take(self):
        """What is due, once something is; None after the end."""
        with self._changed:
            while not self._stopped:
                left = self._due[0][0] - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._due)
                self._changed.wait(left)
        return None

    def _speak(self):
        connection = server().connect(self._headers)
        while (taken := self._take()) is not None:
            _, _, pod, status, said = taken
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            code, _ = connection.call("PATCH", f"{self._pods}/{name}/status",
                                      {"metadata": {"uid": uid}, "status": status})
            if code == 200:  # else the pod is gone, or another
                self._plan(pod, said)
        connection.close()
