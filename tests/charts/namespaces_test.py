"""The operator of a list of namespaces, with the rights that the chart gives it, on a real API server."""
import json
import unittest

from account import start_operator
from api_server import ACCOUNT, job, server
from helm import NAMESPACE, render
from operator_test import eventually

RIGHTS = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount"}
TEAMS = ("team-a", "team-b", "team-c")


def jobs_of(namespace):
    return f"/apis/training.lockstep.dev/v1/namespaces/{namespace}/trainingjobs"


def pods_of(namespace):
    return f"/api/v1/namespaces/{namespace}/pods"


class NamespacesTest(unittest.TestCase):
    def setUp(self):
        for namespace in (NAMESPACE, *TEAMS):
            server().kubectl("apply", "-f", "-", stdin=json.dumps(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            self.addCleanup(server().call, "DELETE", jobs_of(namespace))
            self.addCleanup(server().call, "DELETE", pods_of(namespace) + "?gracePeriodSeconds=0")
            # A Service of a deleted job would keep its namesake's pods from starting.
            self.addCleanup(server().call, "DELETE", f"/api/v1/namespaces/{namespace}/services?labelSelector="
                                                     "training.lockstep.dev/job-uid")
        self.seen = len(server().audit_log.read_text().splitlines())

    def grant(self, namespaces):
        """What the chart installs for these namespaces, without the operator; its flags."""
        made = render({"watchNamespaces": namespaces})
        rights = [entry for entry in made if entry["kind"] in RIGHTS
                  and not entry["metadata"]["name"].startswith("lockstep-trainingjob-")]
        self.assertEqual({"Role", "RoleBinding", "ServiceAccount"}, {entry["kind"] for entry in rights})
        for entry in rights:
            server().kubectl("apply", "-f", "-", stdin=json.dumps(entry))
        container = next(entry for entry in made if entry["kind"] == "Deployment")["spec"]["template"][
            "spec"]["containers"][0]
        return [flag for flag in container["args"] if flag.startswith(("--namespace", "--watch-nodes"))]

    def take_away(self, namespace):
        for kind in ("rolebindings", "roles"):
            server().call("DELETE", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{kind}/"
                                    "lockstep-operator")

    def start(self, *flags):
        started = start_operator(*flags, namespace=NAMESPACE)
        self.addCleanup(started.kill)
        return started

    def submit(self, namespace):
        made = job("mine")
        made["metadata"]["namespace"] = namespace
        code, answer = server().call("POST", jobs_of(namespace), made)
        self.assertEqual(201, code, answer.get("message"))

    def has_pod(self, namespace):
        return server().call("GET", pods_of(namespace) + "/mine-worker-0")[0] == 200

    def asked_for(self):
        """(namespace, resource, name, HTTP status) of all calls since the test began."""
        lines = server().audit_log.read_text().splitlines()[self.seen:]
        entries = [json.loads(line) for line in lines]
        return {(entry["objectRef"].get("namespace"), entry["objectRef"]["resource"],
                 entry["objectRef"].get("name"), entry.get("responseStatus", {}).get("code"))
                for entry in entries if entry["user"]["username"] == ACCOUNT and entry.get("objectRef")}

    def test_those_of_the_list_are_served_and_no_other_is_asked_for(self):
        flags = self.grant(["team-a", "team-b"])
        self.assertIn("--namespace=team-a,team-b", flags)
        for team in TEAMS:
            self.submit(team)
        running = self.start(*flags)
        for team in ("team-a", "team-b"):
            eventually(lambda: self.has_pod(team))
        eventually(lambda: running.page("/readyz")[0] == 200)
        # Deleted and made again at once: the watch of each namespace goes on.
        for team in ("team-b", "team-a"):
            server().call("DELETE", pods_of(team) + "/mine-worker-0?gracePeriodSeconds=0")
            eventually(lambda: self.has_pod(team))
        self.assertFalse(self.has_pod("team-c"))
        asked = self.asked_for()
        self.assertEqual({"team-a", "team-b", NAMESPACE}, {namespace for namespace, _, _, _ in asked})
        self.assertEqual({("leases", "lockstep-operator"), ("secrets", "lockstep-operator-key")},
                         {(kind, name) for namespace, kind, name, _ in asked if namespace == NAMESPACE})
        self.assertNotIn(403, {code for _, _, _, code in asked})

    def test_one_that_is_forbidden_is_named_and_the_others_are_served(self):
        self.grant(["team-a", "team-b"])
        self.take_away("team-c")
        for team in TEAMS:
            self.submit(team)
        running = self.start("--namespace=team-a,team-c", "--namespace=team-b")
        for team in ("team-a", "team-b"):
            eventually(lambda: self.has_pod(team))
        code, said = running.page("/readyz")
        self.assertEqual(503, code)
        self.assertRegex(said, "pods in team-c: .*forbidden")
        self.assertNotRegex(said, "in team-[ab]")
        self.assertEqual(200, running.page("/healthz")[0])
        warning = running.said("informer failed; retrying")
        self.assertEqual("team-c", warning["namespace"])
        self.assertFalse(self.has_pod("team-c"))
        self.grant(list(TEAMS))
        eventually(lambda: self.has_pod("team-c"))
        eventually(lambda: running.page("/readyz")[0] == 200)


if __name__ == "__main__":
    unittest.main()
