"""Programs of users' own images report how far they are: an operator, a real API server, and a real Python process in
the place of each pod's program, with what the pod would give it."""
import base64
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from api_server import JOBS, ROOT, job, server, training_job
from free_port import free_port
from kubelet import Kubelet, running
from operator_test import ALL_PODS, LEASE, OUR_SERVICES, PODS, Operator, eventually
from slowness import SLOWNESS

HELPER = ROOT / "python" / "lockstep"  # report.py, as a copy beside the program
STEPS = """
import time
from report import report_progress
for step in range(1, 8):
    report_progress(step=step, total=200, loss=1 / step, test_accuracy=0.5)
"""
# As a program that knows nothing of Lockstep does it; rounded numbers, and no steps.
PERCENT = """
import json, os, urllib.request
status = {"progressPercentage": 45, "estimatedRemainingSeconds": 795, "lastUpdatedTime": "2026-01-23T10:30:45Z",
          "metrics": [{"name": "eval_loss", "value": "0.2451"}, {"name": "currentEpoch", "value": "2"}]}
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
request = urllib.request.Request(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], json.dumps({"trainerStatus": status}).encode(),
                                 {"Authorization": "Bearer " + token})
print(urllib.request.urlopen(request).status)
"""


class ReportTest(unittest.TestCase):
    def setUp(self):
        for path in (JOBS, ALL_PODS, OUR_SERVICES, LEASE):
            server().call("DELETE", path)
        self.port = free_port()
        self.operator = Operator("--leader-elect=false", f"--progress-bind-address=127.0.0.1:{self.port}",
                                 f"--progress-url=http://127.0.0.1:{self.port}")
        self.addCleanup(self.operator.kill)
        self.operator.wait_for("leading")
        kubelet = Kubelet("default", lambda pod: [(0, running(pod, podIP="127.0.0.1"))])
        self.addCleanup(kubelet.stop)

    def start(self, name, **spec):
        """The environment of its worker's program, with the mounted Secret in a folder of this machine."""
        server().create(job(name, **{"jobToken": "Mounted", **spec}))
        pod = eventually(lambda: self.get(f"{PODS}/{name}-worker-0"))
        told = {entry["name"]: entry.get("value", "") for entry in pod["spec"]["containers"][0]["env"]}
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        if "KUBEFLOW_TRAINER_SERVER_TOKEN" in told:
            secret_name = pod["metadata"]["annotations"]["training.lockstep.dev/token-secret"]
            secret = self.get(f"/api/v1/namespaces/default/secrets/{secret_name}")
            file = pathlib.Path(told["KUBEFLOW_TRAINER_SERVER_TOKEN"]).name
            path = pathlib.Path(folder.name) / file
            path.write_bytes(base64.b64decode(secret["data"][file]))
            told["KUBEFLOW_TRAINER_SERVER_TOKEN"] = str(path)
        eventually(lambda: self.status(name).get("state") == "Running")
        return told

    def get(self, path):
        code, answer = server().call("GET", path)
        return answer if code == 200 else None

    def status(self, name):
        return (self.get(f"{JOBS}/{name}") or {}).get("status", {})

    def run_program(self, program, told):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=60 * SLOWNESS, check=False,
                              env={**os.environ, **told, "PYTHONPATH": str(HELPER)})
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout

    def post(self, told, body, token=None, url=None):
        token = token or pathlib.Path(told["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text()
        request = urllib.request.Request(url or told["KUBEFLOW_TRAINER_SERVER_URL"], body,
                                         {"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=20 * SLOWNESS) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def test_what_a_program_reports_is_in_the_status_and_in_kubectl_get(self):
        told = self.start("own")
        self.run_program(STEPS, told)
        progress = eventually(lambda: self.status("own").get("progress"))
        progress = eventually(lambda: (found := self.status("own")["progress"])["step"] == 7 and found)
        self.assertEqual((200, 1 / 7, 0.5), (progress["totalSteps"], progress["loss"], progress["testAccuracy"]))
        self.assertTrue(progress["updateTime"])
        columns = server().kubectl("get", "tj", "own")
        self.assertIn("7", columns.splitlines()[1].split())

    def test_a_program_of_kubeflows_without_steps_is_shown_in_hundredths(self):
        told = self.start("percent")
        self.assertEqual("200\n", self.run_program(PERCENT, told))
        progress = eventually(lambda: self.status("percent").get("progress"))
        self.assertEqual((45, 100, 795, 0.2451, 2),
                         tuple(progress[name] for name in ("step", "totalSteps", "estimatedRemainingSeconds",
                                                           "testLoss", "epoch")))

    def test_a_program_that_reports_nothing_more_is_restarted_and_one_that_never_did_is_not(self):
        self.start("silent", runPolicy={"progressDeadlineSeconds": 10})
        told = self.start("hangs", runPolicy={"progressDeadlineSeconds": 10})
        self.run_program(STEPS, told)
        failure = eventually(lambda: self.status("hangs").get("failure"))
        self.assertEqual("ProgressDeadlineExceeded", failure["reason"])
        self.assertIn("since step 7 of 200", failure["message"])
        self.assertEqual((1, 1), (self.status("hangs")["attempt"], self.status("hangs")["restarts"]["application"]))
        self.assertEqual(0, self.status("silent")["attempt"])
        step = '{"trainerStatus": {"metrics": [{"name": "step", "value": "%d"}]}}'
        next_url = told["KUBEFLOW_TRAINER_SERVER_URL"].replace("/attempts/0/", "/attempts/1/")
        self.assertEqual(200, self.post(told, (step % 8).encode(), url=next_url))
        self.assertEqual(200, self.post(told, (step % 9).encode()), "the attempt before may go on for a while")
        eventually(lambda: self.status("hangs")["progress"]["step"] == 8)

    def test_a_hostile_tenant_reports_for_no_other_job_and_slows_none(self):
        mine, theirs = self.start("mine"), self.start("theirs")
        report = json.dumps({"trainerStatus": {"progressPercentage": 1}}).encode()
        self.assertEqual(401, self.post(mine, report, url=theirs["KUBEFLOW_TRAINER_SERVER_URL"]))
        self.assertEqual(401, self.post(mine, report, token="0" * 64))
        self.assertEqual(401, self.post(mine, report, url=mine["KUBEFLOW_TRAINER_SERVER_URL"].replace("mine", "none")))
        codes = {self.post(mine, report) for _ in range(100)}
        self.assertEqual({200, 429}, codes)
        self.assertEqual(400, self.post(theirs, b"[" * 16_000))
        self.assertEqual(400, self.post(theirs, b'{"trainerStatus": {"progressPercentage": 1e9}}'))
        self.assertEqual(200, self.post(theirs, report))
        self.assertEqual([], [record for record in self.operator.log if "Bearer" in json.dumps(record)])

    def test_a_job_that_has_not_asked_for_its_token_is_told_nothing(self):
        told = self.start("plain", jobToken="None")
        self.assertNotIn("KUBEFLOW_TRAINER_SERVER_URL", told)


class PollTest(unittest.TestCase):
    """Whether the operator asks a pod, which runs what its tenant likes, for progress."""

    def setUp(self):
        for path in (JOBS, ALL_PODS, OUR_SERVICES, LEASE):
            server().call("DELETE", path)
        self.pod = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.pod.close)
        kubelet = Kubelet("default", lambda pod: [(0, running(pod, podIP="127.0.0.1"))])
        self.addCleanup(kubelet.stop)

    def asked_within(self, seconds, name, *flags):
        """In how many seconds after its start an operator connects to the pod of a job; None: not within these, which
        begin when the job is running."""
        main = {"name": "trainer", "image": "x",
                "ports": [{"name": "cluster", "containerPort": self.pod.getsockname()[1]}]}
        worker = {"replicas": 1, "template": {"spec": {"containers": [main]}}}
        server().create(training_job(name, replicas={"Worker": worker}))
        begin = time.monotonic()
        operator = Operator("--leader-elect=false", *flags)
        try:
            eventually(lambda: server().call("GET", f"{JOBS}/{name}")[1].get("status", {}).get("state") == "Running")
            self.pod.settimeout(seconds)
            with contextlib.closing(self.pod.accept()[0]):
                return time.monotonic() - begin
        except TimeoutError:
            return None
        finally:
            operator.kill()

    def test_no_pod_is_connected_to_if_polling_is_off(self):
        seconds = self.asked_within(60 * SLOWNESS, "polled")
        self.assertIsNotNone(seconds)
        server().call("DELETE", f"{JOBS}/polled")
        server().call("DELETE", ALL_PODS)
        self.pod.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.pod.accept()[0].close()
        self.assertIsNone(self.asked_within(3 * seconds, "unpolled", "--poll-progress=false"))


if __name__ == "__main__":
    unittest.main()
