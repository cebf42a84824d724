"""`lockstep status`, `describe`, `top` and `logs` against a real API server."""
import http.server
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import unittest

from api_server import BIN, job, server, training_job

PODS = "/api/v1/namespaces/default/pods"


def lockstep(*arguments, kubeconfig=None):
    return subprocess.run(
        [BIN / "lockstep", *arguments, "--kubeconfig", kubeconfig or server().kubeconfig],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
        check=False, env={**os.environ, "HOME": str(server().folder)})


class StatusTest(unittest.TestCase):
    def setUp(self):
        server().call("DELETE", "/apis/training.lockstep.dev/v1/namespaces/default/trainingjobs")
        server().create(job("shown"))
        server().create(job("other"))
        self.assertIsNone(server().patch(
            "shown", {"status": {"state": "Running", "readyReplicas": "1/2", "restartCount": 3}},
            "/status"))

    def test_all_jobs_have_a_line(self):
        done = lockstep("status")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
        self.assertIn("other", lines)
        for word in ("Running", "1/2", "3"):
            self.assertIn(word, lines["shown"].split())

    def test_one_job_by_name(self):
        done = lockstep("status", "shown")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("1/2", done.stdout)
        self.assertNotIn("other", done.stdout)

    def test_no_such_job(self):
        done = lockstep("status", "absent")
        self.assertEqual(1, done.returncode)
        self.assertIn("absent", done.stderr)

    def test_another_namespace_is_empty(self):
        done = lockstep("status", "-n", "kube-system")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotIn("shown", done.stdout)
        self.assertIn("shown", lockstep("status", "-A").stdout)


class DescribeTest(unittest.TestCase):
    def setUp(self):
        server().call("DELETE", "/apis/training.lockstep.dev/v1/namespaces/default/trainingjobs")
        server().create(job("explained"))
        self.job = server().call("GET", "/apis/training.lockstep.dev/v1/namespaces/default/trainingjobs/explained")[1]

    def make(self, path, thing):
        made = server().call("POST", path, thing)
        self.assertEqual(201, made[0], made[1].get("message"))
        self.addCleanup(server().call, "DELETE", f"{path}/{thing['metadata']['name']}?gracePeriodSeconds=0")
        return made[1]

    def test_pods_and_events_of_the_job(self):
        owner = {"apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "name": "explained",
                 "uid": self.job["metadata"]["uid"], "controller": True}
        labels = {f"training.lockstep.dev/{key}": value for key, value in (
            ("job-name", "explained"), ("role", "worker"), ("replica-index", "0"), ("attempt", "0"))}
        pod = self.make(PODS, {
            "metadata": {"name": "explained-worker-0", "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "trainer", "image": "x"}]}})
        for api, event in (
                ("/apis/events.k8s.io/v1", {
                    "metadata": {"name": "newer"}, "eventTime": "2100-01-01T00:00:00.000000Z", "action": "Try",
                    "type": "Warning", "reason": "Newer", "note": "by today's recorder",
                    "reportingController": "test", "reportingInstance": "test",
                    "regarding": {"kind": "Pod", "namespace": "default", "name": pod["metadata"]["name"]}}),
                ("/api/v1", {
                    "metadata": {"name": "older"}, "lastTimestamp": "2099-01-01T00:00:00Z", "count": 3,
                    "type": "Normal", "reason": "Older", "message": "by a recorder of the older API",
                    "involvedObject": {"kind": "TrainingJob", "namespace": "default", "name": "explained",
                                       "uid": self.job["metadata"]["uid"]}})):
            self.make(f"{api}/namespaces/default/events", event)
        done = lockstep("describe", "explained")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, r"(?m)^explained in namespace default: ")
        self.assertRegex(done.stdout, r"(?m)^worker-0 .* Pending$")
        self.assertRegex(done.stdout, r"(?ms)^\S+ +Normal +explained +Older +by a recorder of the older API "
                                      r"\(3 times\)\n\S+ +Warning +explained-worker-0 +Newer +by today's recorder$")

    def test_whoever_may_view_a_namespace_sees_the_events(self):
        """Kubernetes' role `view` permits events of the core API alone."""
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        self.make(accounts, {"metadata": {"name": "viewer"}})
        # Nothing here puts system:aggregate-to-view and Lockstep's role together to `view`.
        self.make(f"{rbac}/clusterroles", {
            "metadata": {"name": "view-jobs"},
            "rules": [{"apiGroups": ["training.lockstep.dev"], "resources": ["trainingjobs"],
                       "verbs": ["get", "list", "watch"]}]})
        for role in ("system:aggregate-to-view", "view-jobs"):
            self.make(f"{rbac}/namespaces/default/rolebindings", {
                "metadata": {"name": role.replace(":", ".")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}]})
        self.make("/api/v1/namespaces/default/events", {
            "metadata": {"name": "seen"}, "lastTimestamp": "2099-01-01T00:00:00Z", "type": "Normal",
            "reason": "Seen", "message": "by whoever may view",
            "involvedObject": {"kind": "TrainingJob", "namespace": "default", "name": "explained",
                               "uid": self.job["metadata"]["uid"]}})
        status, token = server().call("POST", f"{accounts}/viewer/token",
                                      {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        self.assertEqual(201, status, token)
        config = json.loads(pathlib.Path(server().kubeconfig).read_text())
        config["users"][0]["user"] = {"token": token["status"]["token"]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(config, file)
            file.flush()
            done = lockstep("describe", "explained", kubeconfig=file.name)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("by whoever may view", done.stdout)
        self.assertNotIn("cannot be read", done.stdout)

    def test_no_such_job(self):
        done = lockstep("describe", "absent")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("absent", done.stderr)


class Metrics(http.server.BaseHTTPRequestHandler):
    """A pod of the bundled trainer: each time it is asked, its rank has done ten steps more."""
    steps = 0

    def do_GET(self):
        Metrics.steps += 10
        text = "".join(f"lockstep_trainer_{name} {value}\n" for name, value in (
            ('step{rank="0"}', Metrics.steps), ('total_steps{rank="0"}', 1000), ('world_size{rank="0"}', 1),
            ('steps_total{rank="0"}', Metrics.steps), ('loss{rank="0"}', 0.25),
            ('time_seconds_total{rank="0",phase="compute"}', Metrics.steps * 0.03),
            ('time_seconds_total{rank="0",phase="input"}', Metrics.steps * 0.01))).encode()
        self.send_response(200 if self.path == "/metrics" else 404)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class TopTest(unittest.TestCase):
    """The API server's proxy refuses loopback addresses, so the pod has this machine's address."""

    def setUp(self):
        server().call("DELETE", "/apis/training.lockstep.dev/v1/namespaces/default/trainingjobs")
        created = server().call("POST", "/apis/training.lockstep.dev/v1/namespaces/default/trainingjobs",
                                training_job("timed", {"Worker": {"replicas": 1}}))
        self.assertEqual(201, created[0], created[1])
        owner = {"apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "name": "timed",
                 "uid": created[1]["metadata"]["uid"], "controller": True}
        labels = {f"training.lockstep.dev/{key}": value for key, value in (
            ("job-name", "timed"), ("role", "worker"), ("replica-index", "0"), ("attempt", "0"))}
        made = server().call("POST", PODS, {
            "metadata": {"name": "timed-worker-0", "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "trainer", "image": "x"}]}})
        self.assertEqual(201, made[0], made[1])
        self.addCleanup(server().call, "DELETE", PODS + "/timed-worker-0?gracePeriodSeconds=0")

    def place(self, address):
        """The kubelet reports where the pod runs."""
        state = {"name": "trainer", "image": "x", "imageID": "x", "ready": True, "restartCount": 0,
                 "state": {"running": {}}}
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "containerStatuses": [state]}
        self.assertEqual(200, server().call("PATCH", PODS + "/timed-worker-0/status", {"status": status})[0])

    def test_the_times_of_a_step_come_through_the_api_server(self):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
                way.connect(("198.51.100.1", 9))  # nothing is sent
                address = way.getsockname()[0]
        except OSError as error:
            self.skipTest(f"this machine has no address but loopback: {error}")
        try:
            pod = http.server.ThreadingHTTPServer((address, 8080), Metrics)
        except OSError as error:
            self.skipTest(f"port 8080 of {address}: {error}")
        thread = threading.Thread(target=pod.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(pod.server_close)
        self.addCleanup(pod.shutdown)
        self.place(address)
        done = lockstep("top", "timed", "--once", "--interval", "1", "--output", "json")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        shown = json.loads(done.stdout)
        self.assertEqual([], shown["unread"])
        self.assertAlmostEqual(0.04, shown["step_seconds"])
        self.assertAlmostEqual(0.75, shown["ranks"][0]["phases"]["compute"])
        self.assertEqual((1000, 0.25), (shown["total_steps"], shown["loss"]))
        self.assertAlmostEqual(1, shown["goodput"])
        self.assertRegex(lockstep("top", "--once", "--interval", "1").stdout, r"(?m)^timed .* 40 ms +25% +75%")

    def test_a_pod_that_cannot_be_read_is_named(self):
        self.place("127.0.0.1")  # where the API server does not go
        done = lockstep("top", "timed", "--once", "--interval", "1")
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stdout, r"(?m)^no metrics of worker-0: get /metrics from pods default/timed-worker-0")
        self.assertIn("no replica's metrics could be read", done.stderr)


class LogsTest(unittest.TestCase):
    """There is no kubelet here; tests/e2e reads a real log."""

    def test_no_such_job(self):
        done = lockstep("logs", "absent")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("absent", done.stderr)

    def test_a_pod_without_a_node_has_no_log(self):
        server().call("DELETE", "/apis/training.lockstep.dev/v1/namespaces/default/trainingjobs")
        server().create(job("silent"))
        made = server().call("POST", PODS, {
            "metadata": {"name": "silent-worker-0"},
            "spec": {"containers": [{"name": "trainer", "image": "x"}]}})
        self.assertEqual(201, made[0], made[1].get("message"))
        self.addCleanup(server().call, "DELETE", PODS + "/silent-worker-0?gracePeriodSeconds=0")
        done = lockstep("logs", "silent", "--role", "worker", "--index", "0")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("silent-worker-0", done.stderr)


if __name__ == "__main__":
    unittest.main()
