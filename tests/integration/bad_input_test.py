"""Jobs that the API server takes and the operator cannot run: Failed, with the reason; others go on."""
import unittest

from api_server import JOBS, container, job, role, server
from corpus import BAD, PROGRAM
from operator_test import PODS, Operator, eventually


class BadInputTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for path in (JOBS, PODS + "?gracePeriodSeconds=0"):
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
            container(name="Not_A_Label")])}))
        self.assertIn("Not_A_Label", self.failed("refused")["message"])

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
