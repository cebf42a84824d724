"""The pages of probes, for which anybody may ask at any time, beside thousands of jobs."""
import contextlib
import http.server
import json
import os
import pathlib
import socket
import tempfile
import threading
import unittest
import urllib.parse

from operator_test import Operator, eventually

JOBS = 4000
REQUESTS = 500
NOW = "2026-01-01T00:00:00Z"


def ended_job(i):
    return {"metadata": {"name": f"job-{i}", "namespace": "team", "uid": f"uid-{i}", "resourceVersion": str(i + 1),
                         "generation": 1, "creationTimestamp": NOW},
            "spec": {"replicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": {"containers": [
                {"name": "main", "image": "x"}]}}}}},
            "status": {"state": "Succeeded", "observedGeneration": 1, "startTime": NOW, "completionTime": NOW,
                       "conditions": [{"type": kind, "status": "True", "lastTransitionTime": NOW, "reason": "x",
                                       "message": "x"} for kind in ("Created", "Succeeded")]}}


class Jobs(http.server.BaseHTTPRequestHandler):
    """An API server that has these jobs and nothing else, and takes every write."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece
    ends = threading.Event()  # of all watches

    def log_message(self, *_):
        pass

    def say(self, answer, code=200):
        body = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if "watch" in query:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            self.ends.wait()
            return
        first = int(query.get("continue", 0))
        end = min(JOBS, first + int(query.get("limit", JOBS)))
        if not url.path.endswith("/trainingjobs"):
            first = end = JOBS
        self.say({"kind": "List", "apiVersion": "v1", "items": [ended_job(i) for i in range(first, end)],
                  "metadata": {"resourceVersion": str(JOBS + 1), "continue": str(end) if end < JOBS else ""}})

    def do_PUT(self):
        self.say(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    do_POST = do_PUT


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def cpu_seconds(pid):
    """That all threads of the process have used."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def ask(port, path):
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=10)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        while connection.recv(65536):
            pass


class ProbesTest(unittest.TestCase):
    def setUp(self):
        server = Server(("127.0.0.1", 0), Jobs)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        kubeconfig = os.path.join(folder.name, "kubeconfig")
        pathlib.Path(kubeconfig).write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a"}}]}))
        self.operator = Operator("--leader-elect=false", "--job-tokens=false", "--watch-nodes=false",
                                 "--poll-progress=false", kubeconfig=kubeconfig)
        self.addCleanup(self.operator.kill)
        self.addCleanup(Jobs.ends.set)

    def cost_of(self, path):
        """Seconds of the operator's CPU for an answer."""
        port = self.operator.said("serving")["probePort"]
        before = cpu_seconds(self.operator.process.pid)
        for _ in range(REQUESTS):
            ask(port, path)
        return (cpu_seconds(self.operator.process.pid) - before) / REQUESTS

    def test_an_answer_costs_no_more_than_that_of_a_page_that_is_none(self):
        """Else whoever floods the port with requests makes the kubelet's probe wait for too long."""
        eventually(lambda: f'lockstep_operator_jobs{{state="Succeeded"}} {JOBS}\n' in
                   self.operator.page("/metrics")[1])
        eventually(lambda: "lockstep_operator_workqueue_depth 0\n" in self.operator.page("/metrics")[1])
        eventually(lambda: self.operator.page("/readyz")[0] == 200)
        for path in ("/healthz", "/readyz"):
            cost, least = self.cost_of(path), self.cost_of("/none")
            self.assertLess(cost, 3 * least, path)


if __name__ == "__main__":
    unittest.main()
