"""Jobs that the API server takes and the operator cannot run: Failed, with the reason; others go on."""
import unittest

from api_server import JOBS, container, job, role, server
from corpus import BAD, PROGRAM
from kubelet import running
from operator_test import ALL_PODS, OUR_SERVICES, PODS, Operator, eventually

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


class BadInputTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for path in (JOBS, ALL_PODS, OUR_SERVICES):
            server().call("DELETE", path)
        cls.operator = Operator("--leader-elect=false")
        cls.operator.wait_for("leading")

    @classmethod
    def tearDownClass(cls):
        cls.operator.kill()

    def failed(self, name):
        """The Failed condition, once it holds."""
        def find():
            status = server().call("GET", f"{JOBS}/{name}")[1].get("status", {})
            return next((entry for entry in status.get("conditions", [])
                         if (entry["type"], entry["status"]) == ("Failed", "True")), None)
        return eventually(find)

    def test_what_only_the_program_sees_fails_the_job_with_the_field(self):
        exceptions = [bad for bad in BAD if bad.seen_by == PROGRAM]
        self.assertTrue(exceptions)
        for number, bad in enumerate(exceptions):
            with self.subTest(bad.what):
                name = f"bad-{number}"
                server().create({**bad.job, "metadata": {"name": name}})
                condition = self.failed(name)
                self.assertEqual("InvalidSpec", condition["reason"])
                self.assertIn(bad.field, condition["message"])

    def test_a_pod_that_the_server_refuses_fails_the_job_with_its_words(self):
        server().create(job("refused", replicaSpecs={"Worker": role(containers=[
            container(volumeMounts=[{"name": "no-volume", "mountPath": "/data"}])])}))
        self.assertIn("no-volume", self.failed("refused")["message"])

    def test_a_running_job_outlives_a_policy_that_denies_a_replacement(self):
        """Its answer has the code and the reason of an invalid pod (422 Invalid)."""
        if server().call("GET", POLICIES)[0] != 200:
            self.skipTest("a ValidatingAdmissionPolicy is v1 since Kubernetes 1.30")
        server().create(job("guarded", restartScope="Pod", replicaSpecs={"Worker": role(2)}))
        pods = [eventually(lambda name=name: self.found(f"{PODS}/{name}"))
                for name in ("guarded-worker-0", "guarded-worker-1")]
        for pod in pods:
            server().call("PATCH", f"{PODS}/{pod['metadata']['name']}/status", {"status": running(pod)})
        eventually(lambda: self.found(f"{JOBS}/guarded").get("status", {}).get("state") == "Running")
        self.deny("guarded")
        server().call("DELETE", f"{PODS}/guarded-worker-1?gracePeriodSeconds=0")
        said = eventually(lambda: self.running_condition("guarded", "CreateFailed"))
        self.assertIn("ValidatingAdmissionPolicy 'maintenance'", said["message"])
        self.assertIn("422 Invalid", said["message"])
        status = self.found(f"{JOBS}/guarded")["status"]
        self.assertEqual([], [entry for entry in status["conditions"] if entry["type"] == "Failed"])
        self.assertEqual(pods[0]["metadata"]["uid"],
                         self.found(f"{PODS}/guarded-worker-0")["metadata"]["uid"])
        server().call("DELETE", BINDINGS + "/maintenance")
        eventually(lambda: self.found(f"{PODS}/guarded-worker-1"))

    def found(self, path):
        """The object; {} if there is none."""
        code, answer = server().call("GET", path)
        return answer if code == 200 else {}

    def running_condition(self, name, reason):
        status = self.found(f"{JOBS}/{name}").get("status", {})
        return next((entry for entry in status.get("conditions", [])
                     if (entry["type"], entry["reason"]) == ("Running", reason)), None)

    def deny(self, name):
        """A policy against the job's pods, in force."""
        for path, spec in (
                (POLICIES, {"matchConstraints": {"resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                     "resources": ["pods"]}]}, "validations": [
                         {"expression": f"!object.metadata.name.startsWith('{name}-')"}]}),
                (BINDINGS, {"policyName": "maintenance", "validationActions": ["Deny"]})):
            code, answer = server().call("POST", path, {"metadata": {"name": "maintenance"}, "spec": spec})
            self.assertEqual(201, code, answer.get("message"))
            self.addCleanup(server().call, "DELETE", path + "/maintenance")
        probe = {"metadata": {"name": name + "-probe"}, "spec": role()["template"]["spec"]}
        eventually(lambda: server().call("POST", PODS + "?dryRun=All", probe)[0] == 422)

    def test_a_refusal_longer_than_a_condition_may_be_is_cut(self):
        wrong = [{"name": f"wrong={i}", "value": "ä"} for i in range(4000)]
        server().create(job("verbose", replicaSpecs={"Worker": role(containers=[
            container(env=wrong)])}))
        message = self.failed("verbose")["message"]
        self.assertIn("wrong=0", message)
        self.assertLessEqual(len(message.encode()), 32768)

    def test_other_jobs_run_beside_many_bad_ones(self):
        for i in range(20):
            server().create(job(f"wrong-{i}", replicaSpecs={"Worker": role(
                containers=[container(name="Not_A_Label")])}))
        server().create(job("good"))
        eventually(lambda: server().call("GET", f"{PODS}/good-worker-0")[0] == 200)
        for i in range(20):
            self.failed(f"wrong-{i}")


if __name__ == "__main__":
    unittest.main()
