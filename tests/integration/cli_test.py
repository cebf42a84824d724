"""`lockstep status`, `describe` and `logs` against a real API server."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from api_server import BIN, job, server

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
