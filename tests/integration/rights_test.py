"""The operator in its pod's place: what it asks of the API server is what manifests/ grant, all of it."""
import contextlib
import unittest

from account import AFTER_LOST_ANSWERS, MANIFESTS, audited, granted, install, start_operator
from api_server import JOBS, LOCAL_ACCOUNT, job, role, server, training_job
from operator_test import ALL_PODS, OUR_SERVICES, PODS, eventually

SERVICES = "/api/v1/namespaces/default/services"
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
KILLED = {"phase": "Failed", "containerStatuses": [
    {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0,
     "state": {"terminated": {"exitCode": 137}}}]}


class RightsTest(unittest.TestCase):
    def setUp(self):
        for path in (JOBS, ALL_PODS, OUR_SERVICES):
            server().call("DELETE", path)
        install(MANIFESTS / "default")

    def pod(self, name):
        code, pod = server().call("GET", f"{PODS}/{name}")
        return pod if code == 200 else None

    def set_pod(self, name, status):
        code, answer = server().call("PATCH", f"{PODS}/{name}/status", {"status": status})
        self.assertEqual(200, code, answer.get("message"))

    def state(self, name):
        return server().call("GET", f"{JOBS}/{name}")[1].get("status", {}).get("state")

    def change(self, name, **spec):
        self.assertIsNone(server().patch(name, {"spec": spec}))

    def delete_pods(self):
        """No kubelet ends them here."""
        server().call("DELETE", ALL_PODS)

    def test_the_operator_uses_what_it_is_granted_and_is_refused_nothing(self):
        self.take_a_name()
        self.addCleanup(start_operator("--watch-nodes").kill)
        self.run_a_job_that_restarts()
        self.start_a_training_job()
        self.suspend_a_job_twice()
        self.let_a_job_expire()
        needed = granted(MANIFESTS / "default") - AFTER_LOST_ANSWERS
        with contextlib.suppress(AssertionError):  # the log is a little behind
            eventually(lambda: needed <= audited()[0])
        used, forbidden = audited()
        self.assertEqual([], forbidden)
        self.assertEqual(set(), needed - used, "granted and not needed")

    def test_an_operator_of_one_namespace_asks_for_nothing_outside_it(self):
        install(MANIFESTS / "overlays" / "namespaced")
        self.addCleanup(start_operator("--namespace=default", namespace="default").kill)
        self.run_a_job_that_restarts()
        self.start_a_training_job()
        created = {("", resource, "create") for resource in ("pods", "secrets")}
        eventually(lambda: created <= audited(LOCAL_ACCOUNT)[0])  # the log is a little behind
        self.assertEqual([], audited(LOCAL_ACCOUNT)[1])

    def take_a_name(self):
        """Pods and services of others, which the operator looks at and leaves alone."""
        server().call("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": "taken-worker-0"}, "spec": role()["template"]["spec"]})
        server().call("POST", SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {
            "name": "hidden"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}})
        for name in ("taken", "hidden"):
            server().create(job(name))

    def run_a_job_that_restarts(self):
        server().create(job("restarts"))
        first = eventually(lambda: self.pod("restarts-worker-0"))
        self.set_pod("restarts-worker-0", RUNNING)
        eventually(lambda: self.state("restarts") == "Running")
        self.set_pod("restarts-worker-0", KILLED)
        eventually(lambda: (self.pod("restarts-worker-0") or first)["metadata"]["uid"] !=
                   first["metadata"]["uid"])

    def start_a_training_job(self):
        """With a Secret and a NetworkPolicy of its own."""
        server().create(training_job("trains"))
        eventually(lambda: self.pod("trains-worker-0"))

    def suspend_a_job_twice(self):
        """The same event again is an update of the first."""
        server().create(job("suspended"))
        for _ in range(2):
            eventually(lambda: self.pod("suspended-worker-0"))
            self.change("suspended", suspend=True)
            eventually(lambda: self.state("suspended") == "Suspended")
            self.delete_pods()
            self.change("suspended", suspend=False)
        eventually(lambda: self.pod("suspended-worker-0"))

    def let_a_job_expire(self):
        server().create(job("expires", runPolicy={"ttlSecondsAfterFinished": 0}))
        eventually(lambda: self.pod("expires-worker-0"))
        self.set_pod("expires-worker-0", {"phase": "Succeeded"})
        eventually(lambda: server().call("GET", f"{JOBS}/expires")[0] == 404)


if __name__ == "__main__":
    unittest.main()
