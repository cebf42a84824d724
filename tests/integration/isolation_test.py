"""A job's token and NetworkPolicy on a real API server, by an operator with the rights of manifests/.
Nothing here enforces a NetworkPolicy: what is checked is the objects, and that the server takes them."""
import base64
import hashlib
import hmac
import json
import unittest

from account import ACCOUNT, MANIFESTS, install, start_operator
from api_server import JOBS, job, server, training_job
from operator_test import ALL_PODS, OUR_SERVICES, PODS, eventually

LEASE = "/apis/coordination.k8s.io/v1/namespaces/lockstep-system/leases/lockstep-operator"
SECRETS = "/api/v1/namespaces/default/secrets"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
KEY = "/api/v1/namespaces/lockstep-system/secrets/lockstep-operator-key"
CLUSTER_ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/lockstep-operator"
KEY_ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/lockstep-system/roles/lockstep-operator-token-key"
TOKEN_FOLDER = "/var/run/secrets/training.lockstep.dev"


def get(path):
    code, answer = server().call("GET", path)
    return answer if code == 200 else None


def change_rules(path, change):
    """Replaces the role's rules with what `change` makes of them."""
    found = get(path)
    found["rules"] = change(found["rules"])
    code, answer = server().call("PUT", path, found)
    if code != 200:
        raise AssertionError(answer["message"])


def without_secrets(rules):
    return [rule for rule in rules if "secrets" not in rule["resources"]]


class IsolationTest(unittest.TestCase):
    def setUp(self):
        for path in (JOBS, ALL_PODS, OUR_SERVICES):
            server().call("DELETE", path)
        server().call("DELETE", LEASE)
        install(MANIFESTS / "rbac")

    def start(self, *flags):
        started = start_operator(*flags)
        self.addCleanup(started.kill)
        return started

    def run_job(self, made):
        """The stored job and its first pod."""
        stored = server().create(made)
        pod = eventually(lambda: get(f"{PODS}/{made['metadata']['name']}-worker-0"))
        return stored, pod

    def secret_of(self, stored):
        return get(f"{SECRETS}/{stored['metadata']['name']}-token-{stored['metadata']['uid']}")

    def policy_of(self, stored):
        return get(f"{POLICIES}/{stored['metadata']['name']}-{stored['metadata']['uid']}")

    def check_token(self, stored, secret):
        """It is what the operator's key makes of the job's uid."""
        key = base64.b64decode(get(KEY)["data"]["key"])
        self.assertEqual(32, len(key))
        token = hmac.new(key, stored["metadata"]["uid"].encode(), hashlib.sha256).hexdigest()
        self.assertEqual(token, base64.b64decode(secret["data"]["token"]).decode())

    def running(self, name):
        """The condition, or None."""
        conditions = (get(f"{JOBS}/{name}") or {}).get("status", {}).get("conditions", [])
        return next((entry for entry in conditions if entry["type"] == "Running"), None)

    def test_pods_of_a_job_with_training_get_its_token(self):
        self.start()
        stored, pod = self.run_job(training_job("trains"))
        secret = self.secret_of(stored)
        self.assertIs(True, secret["immutable"])
        owner = secret["metadata"]["ownerReferences"][0]
        self.assertEqual((stored["metadata"]["uid"], True), (owner["uid"], owner["controller"]))
        self.check_token(stored, secret)
        volume = next(entry for entry in pod["spec"]["volumes"] if entry["name"] == "lockstep-token")
        self.assertEqual({"secretName": secret["metadata"]["name"], "defaultMode": 0o440},
                         volume["secret"])
        trainer = pod["spec"]["containers"][0]
        self.assertIn({"name": "lockstep-token", "mountPath": TOKEN_FOLDER, "readOnly": True},
                      trainer["volumeMounts"])
        self.assertIn({"name": "LOCKSTEP_TOKEN_FILE", "value": TOKEN_FOLDER + "/token"}, trainer["env"])

    def test_a_template_may_use_the_name_and_the_place_of_the_tokens_volume(self):
        self.start()
        for name, path in (("name", "/elsewhere"), ("place", TOKEN_FOLDER)):
            template = {"spec": {
                "containers": [{"name": "trainer", "image": "trainer:1",
                                "volumeMounts": [{"name": "lockstep-token", "mountPath": path}]}],
                "volumes": [{"name": "lockstep-token", "emptyDir": {}}]}}
            _, pod = self.run_job(training_job(name, {"Worker": {"replicas": 1, "template": template}}))
            mounts = {entry["mountPath"]: entry["name"]
                      for entry in pod["spec"]["containers"][0]["volumeMounts"]}
            self.assertEqual("lockstep-token", mounts[path])
            self.assertEqual("lockstep-token-1" if name == "name" else "lockstep-token", mounts[TOKEN_FOLDER])

    def test_the_next_operator_and_the_next_job_of_the_name(self):
        first = self.start()
        stored, _ = self.run_job(training_job("again"))
        first.kill()
        server().call("DELETE", LEASE)
        self.start()
        server().call("DELETE", f"{JOBS}/again")
        for path in (ALL_PODS, OUR_SERVICES):
            server().call("DELETE", path)
        renewed, _ = self.run_job(training_job("again"))
        self.assertNotEqual(stored["metadata"]["uid"], renewed["metadata"]["uid"])
        for one in (stored, renewed):  # no garbage collector runs here
            self.check_token(one, self.secret_of(one))

    def test_a_policy_lets_in_peers_and_scrapers_and_no_namespace_for_an_operator_outside_the_cluster(self):
        """This operator runs outside a pod: its kubeconfig's namespace is not its own, and is not let in."""
        operator = self.start("--scraper-namespace=prometheus")
        said = operator.said("jobs' tokens are made of a key")
        self.assertEqual("lockstep-system/lockstep-operator-key", said["secret"])
        stored, pod = self.run_job(training_job("isolated"))
        spec = self.policy_of(stored)["spec"]
        selector = spec["podSelector"]["matchLabels"]
        self.assertLessEqual(selector.items(), pod["metadata"]["labels"].items())
        self.assertEqual(["Ingress"], spec["policyTypes"])
        peers, scrapers = spec["ingress"]
        self.assertEqual({"from": [{"podSelector": {"matchLabels": selector}}]}, peers)
        self.assertEqual([{"port": 8080, "protocol": "TCP"}], scrapers["ports"])
        labels = scrapers["from"][0]["namespaceSelector"]["matchLabels"]
        self.assertEqual({"kubernetes.io/metadata.name": "prometheus"}, labels)
        labels = get("/api/v1/namespaces/lockstep-system")["metadata"]["labels"]
        self.assertEqual("lockstep-system", labels["kubernetes.io/metadata.name"])

    def test_which_jobs_get_a_token_and_which_a_policy(self):
        operator = self.start()
        own, pod = self.run_job(job("own-image"))
        self.assertIsNone(self.secret_of(own))
        self.assertIsNone(self.policy_of(own))
        self.assertNotIn("lockstep-token", json.dumps(pod))
        asks, _ = self.run_job(job("asks", networkPolicy="Isolated"))
        self.assertIsNotNone(self.policy_of(asks))
        given = job("given", jobToken="Mounted")
        given, pod = self.run_job(given)
        self.check_token(given, self.secret_of(given))
        self.assertIn({"name": "LOCKSTEP_TOKEN_FILE", "value": TOKEN_FOLDER + "/token"},
                      pod["spec"]["containers"][0]["env"])
        self.assertIsNone(self.policy_of(given))
        refuses = training_job("refuses")
        refuses["spec"]["networkPolicy"] = "None"
        refuses, _ = self.run_job(refuses)
        self.assertIsNone(self.policy_of(refuses))
        self.assertIsNotNone(self.secret_of(refuses))
        operator.kill()
        server().call("DELETE", LEASE)
        self.start("--job-tokens=false", "--network-policies=false")
        off, pod = self.run_job(training_job("off"))
        self.assertIsNone(self.secret_of(off))
        self.assertIsNone(self.policy_of(off))
        self.assertNotIn("lockstep-token", json.dumps(pod))

    def test_the_operators_account_reads_no_secret_but_its_key(self):
        self.start()
        stored, _ = self.run_job(training_job("private"))
        secret = self.secret_of(stored)["metadata"]["name"]
        for namespace, name, code in (("default", secret, 403), ("default", "", 403),
                                      ("lockstep-system", "", 403), ("kube-system", "any", 403),
                                      ("lockstep-system", "lockstep-operator-key", 200)):
            path = f"/api/v1/namespaces/{namespace}/secrets" + (name and f"/{name}")
            answer = server().call("GET", path, headers={"Impersonate-User": ACCOUNT})
            self.assertEqual(code, answer[0], path)
        for verb in ("PUT", "PATCH", "DELETE"):
            answer = server().call(verb, f"{SECRETS}/{secret}", {}, {"Impersonate-User": ACCOUNT})
            self.assertEqual(403, answer[0], verb)

    def test_without_the_rights_jobs_with_training_wait_and_say_why_and_others_run(self):
        server().call("DELETE", KEY)
        for path in (CLUSTER_ROLE, KEY_ROLE):
            change_rules(path, without_secrets)
        operator = self.start()
        told = operator.wait_for("jobs with a `training` section wait")
        self.assertIn("lockstep-operator-key", told["error"])
        self.assertIn("forbidden", told["error"])
        server().create(training_job("waits"))
        condition = eventually(lambda: self.running("waits"))
        self.assertEqual("CreateFailed", condition["reason"])
        self.assertIn("lockstep-operator-key", condition["message"])
        self.run_job(job("does-not-wait"))
        self.assertIsNone(get(f"{PODS}/waits-worker-0"))
        install(MANIFESTS / "rbac")
        eventually(lambda: get(f"{PODS}/waits-worker-0"))
        stored = get(f"{JOBS}/waits")
        self.check_token(stored, self.secret_of(stored))


if __name__ == "__main__":
    unittest.main()
