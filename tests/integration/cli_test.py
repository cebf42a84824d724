"""The verbs of `lockstep` that use a cluster, against a real API server."""
import http.server
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from api_server import BIN, job, program, server, training_job
from slowness import SLOWNESS

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/training.lockstep.dev/v1/namespaces/default/trainingjobs"


def lockstep(*arguments, kubeconfig=None):
    return subprocess.run(
        [BIN / "lockstep", *arguments, "--kubeconfig", kubeconfig or server().kubeconfig],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * SLOWNESS,
        check=False, env={**os.environ, "HOME": str(server().folder)})


def make(test, path, thing):
    """Creates an object, which goes with the test."""
    made = server().call("POST", path, thing)
    test.assertEqual(201, made[0], made[1].get("message"))
    test.addCleanup(server().call, "DELETE", f"{path}/{thing['metadata']['name']}?gracePeriodSeconds=0")
    return made[1]


def kubeconfig_of(test, name, verbs, roles=()):
    """The path of a kubeconfig of a new account, which has these verbs on TrainingJobs and these ClusterRoles."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    make(test, accounts, {"metadata": {"name": name}})
    make(test, f"{rbac}/clusterroles", {
        "metadata": {"name": f"{name}-jobs"},
        "rules": [{"apiGroups": ["training.lockstep.dev"], "resources": ["trainingjobs"], "verbs": verbs}]})
    for role in (f"{name}-jobs", *roles):
        make(test, f"{rbac}/namespaces/default/rolebindings", {
            "metadata": {"name": role.replace(":", ".")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]})
    status, token = server().call("POST", f"{accounts}/{name}/token",
                                  {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    test.assertEqual(201, status, token)
    config = json.loads(pathlib.Path(server().kubeconfig).read_text())
    config["users"][0]["user"] = {"token": token["status"]["token"]}
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    path = pathlib.Path(folder.name) / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


class PluginTest(unittest.TestCase):
    def test_kubectl_runs_it_and_passes_its_options_on(self):
        make(self, "/api/v1/namespaces", {"metadata": {"name": "plugin"}})
        make(self, JOBS.replace("default", "plugin"), job("plugged") | {"metadata": {"name": "plugged"}})
        done = subprocess.run(
            [program("kubectl"), "lockstep", "status", "plugged", "--namespace", "plugin", "--context", "test"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * SLOWNESS,
            check=False, env={**os.environ, "HOME": str(server().folder), "KUBECONFIG": str(server().kubeconfig),
                              "PATH": f"{BIN}:{os.environ['PATH']}"})
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("plugged", done.stdout)


class StatusTest(unittest.TestCase):
    def setUp(self):
        server().call("DELETE", JOBS)
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
        server().call("DELETE", JOBS)
        server().create(job("explained"))
        self.job = server().call("GET", f"{JOBS}/explained")[1]

    def test_pods_and_events_of_the_job(self):
        owner = {"apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "name": "explained",
                 "uid": self.job["metadata"]["uid"], "controller": True}
        labels = {f"training.lockstep.dev/{key}": value for key, value in (
            ("job-name", "explained"), ("role", "worker"), ("replica-index", "0"), ("attempt", "0"))}
        pod = make(self, PODS, {
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
            make(self, f"{api}/namespaces/default/events", event)
        done = lockstep("describe", "explained")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, r"(?m)^explained in namespace default: ")
        self.assertRegex(done.stdout, r"(?m)^worker-0 .* Pending$")
        self.assertRegex(done.stdout, r"(?ms)^\S+ +Normal +explained +Older +by a recorder of the older API "
                                      r"\(3 times\)\n\S+ +Warning +explained-worker-0 +Newer +by today's recorder$")

    def test_whoever_may_view_a_namespace_sees_the_events(self):
        """Kubernetes' role `view` permits events of the core API alone."""
        # Nothing here puts system:aggregate-to-view and Lockstep's role together to `view`.
        kubeconfig = kubeconfig_of(self, "viewer", ["get", "list", "watch"], ["system:aggregate-to-view"])
        make(self, "/api/v1/namespaces/default/events", {
            "metadata": {"name": "seen"}, "lastTimestamp": "2099-01-01T00:00:00Z", "type": "Normal",
            "reason": "Seen", "message": "by whoever may view",
            "involvedObject": {"kind": "TrainingJob", "namespace": "default", "name": "explained",
                               "uid": self.job["metadata"]["uid"]}})
        done = lockstep("describe", "explained", kubeconfig=kubeconfig)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("by whoever may view", done.stdout)
        self.assertNotIn("cannot be read", done.stdout)

    def test_no_such_job(self):
        done = lockstep("describe", "absent")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("absent", done.stderr)


class UiTest(unittest.TestCase):
    def setUp(self):
        server().call("DELETE", JOBS)
        server().create(job("shown"))
        self.assertIsNone(server().patch(
            "shown", {"status": {"state": "Running", "readyReplicas": "1/2", "restartCount": 3}}, "/status"))

    def start(self, kubeconfig):
        ui = subprocess.Popen([BIN / "lockstep", "ui", "--output", "json", "--kubeconfig", str(kubeconfig)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(ui.communicate)
        self.addCleanup(ui.kill)
        self.base, self.token = json.loads(ui.stdout.readline())["url"].split("/#")

    def wait_for(self, path, condition):
        """What the page's server answers, once it is so."""
        deadline = time.monotonic() + 60
        while True:
            request = urllib.request.Request(f"{self.base}/api/{path}", headers={"Authorization": f"Bearer {self.token}"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                found = json.loads(answer.read())
            if condition(found):
                return found
            self.assertLess(time.monotonic(), deadline, found)
            time.sleep(0.1)

    def test_a_job_until_it_is_gone(self):
        self.start(server().kubeconfig)
        listed = self.wait_for("jobs", lambda found: found["jobs"])
        self.assertEqual([("default", "shown", "Running", "1/2", 3)],
                         [(one["namespace"], one["name"], one["state"], one["ready"], one["restarts"])
                          for one in listed["jobs"]])
        shown = "job?namespace=default&name=shown"
        found = self.wait_for(shown, lambda found: found["job"])
        self.assertEqual((None, "Running"), (found["error"], found["job"]["state"]))
        self.assertGreater(len(found["job"]["replicas"]["rows"]), 0)
        server().call("DELETE", JOBS)
        self.wait_for("jobs", lambda found: found["jobs"] == [])
        gone = self.wait_for(shown, lambda found: found["error"])
        self.assertIn("not found", gone["error"])
        self.assertEqual("Running", gone["job"]["state"])

    def test_an_api_server_that_does_not_answer(self):
        config = json.loads(pathlib.Path(server().kubeconfig).read_text())
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and does not listen
            config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{taken.getsockname()[1]}"
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "kubeconfig"
                path.write_text(json.dumps(config))
                self.start(path)
                self.assertIsNone(self.wait_for("jobs", lambda found: found["error"])["jobs"])


class SuspendTest(unittest.TestCase):
    def setUp(self):
        server().call("DELETE", JOBS)

    def spec(self, name):
        return server().call("GET", f"{JOBS}/{name}")[1]["spec"]

    def test_a_job_is_suspended_and_resumed(self):
        server().create(job("paused"))
        before = self.spec("paused")
        for verb, value, was in (("suspend", True, "false"), ("resume", False, "true")):
            done = lockstep(verb, "paused")
            self.assertEqual((0, f"job paused: suspend is now {json.dumps(value)}; it was {was}\n", ""),
                             (done.returncode, done.stdout, done.stderr))
            self.assertEqual({**before, "suspend": value}, self.spec("paused"))

    def test_a_job_that_is_so_stays_as_it_is(self):
        server().create(job("still", suspend=True))
        version = server().call("GET", f"{JOBS}/still")[1]["metadata"]["resourceVersion"]
        done = lockstep("suspend", "still")
        self.assertEqual((0, "job still: suspend is already true\n", ""), (done.returncode, done.stdout, done.stderr))
        self.assertEqual(version, server().call("GET", f"{JOBS}/still")[1]["metadata"]["resourceVersion"])

    def test_a_queue_has_the_last_word(self):
        queued = job("queued", suspend=True)
        queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-queue"}
        server().create(queued)
        done = lockstep("resume", "queued")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("in the queue team-queue", done.stderr)
        self.assertFalse(self.spec("queued")["suspend"])

    def test_no_such_job(self):
        for verb in ("suspend", "resume"):
            done = lockstep(verb, "absent")
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertIn("absent", done.stderr)

    def test_the_rights_that_it_takes(self):
        server().create(job("paused"))
        may_read = kubeconfig_of(self, "reader", ["get", "list", "watch", "patch"])
        done = lockstep("suspend", "paused", kubeconfig=may_read)
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn('cannot update resource "trainingjobs"', done.stderr)
        may_write = kubeconfig_of(self, "writer", ["get", "update"])
        self.assertEqual(0, lockstep("suspend", "paused", kubeconfig=may_write).returncode)
        self.assertTrue(self.spec("paused")["suspend"])


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
        server().call("DELETE", JOBS)
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
        server().call("DELETE", JOBS)
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
