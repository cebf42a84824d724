"""`helm test` on a real API server with a real operator. There is no kubelet: this file ends the trainers'
pods, and runs the command of the pod that waits, with the rights of that pod."""
import json
import os
import subprocess
import threading
import unittest

from api_server import BIN, job, server
from helm import HELMS, of_kind, render
from install_test import Release
from operator_test import Operator, eventually
from slowness import SLOWNESS

CRD = "trainingjobs.training.lockstep.dev"
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


class Node:
    """What a kubelet would do to the pods of a namespace, until it is stopped."""

    def __init__(self, namespace, trainers_end_with):
        self.namespace, self.code = namespace, trainers_end_with
        self.name = of_kind(render(namespace=namespace, hooks=True), "TrainingJob")["metadata"]["name"]
        self.waited = None  # exit code, stdout and stderr of the pod that waits
        self.left = None    # objects of the test that are there after it

    def pod(self, name):
        return eventually(lambda: next(
            (entry for entry in json.loads(server().kubectl("get", "pods", "-n", self.namespace, "-o",
                                                            "json"))["items"]
             if entry["metadata"]["name"] == name), None))

    def set_status(self, name, status):
        server().kubectl("patch", "pod", name, "-n", self.namespace, "--subresource=status",
                         "--type=merge", "-p", json.dumps({"status": status}))

    def run(self):
        for index in range(2):
            name = f"{self.name}-worker-{index}"
            self.pod(name)
            self.set_status(name, RUNNING)
        waiting = self.pod(self.name)
        self.set_status(self.name, RUNNING)
        started = subprocess.Popen(self.command_of(waiting), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment_of(waiting))
        for index in range(2 if self.code == 0 else 1):  # the other is deleted with a job that fails
            self.set_status(f"{self.name}-worker-{index}", self.end())
        out, err = started.communicate(timeout=60 * SLOWNESS)
        self.waited = (started.returncode, out, err)
        self.set_status(self.name, {"phase": "Succeeded" if started.returncode == 0 else "Failed"})

    def end(self):
        return {"phase": "Succeeded" if self.code == 0 else "Failed", "containerStatuses": [
            {"name": "trainer", "image": "", "imageID": "", "ready": False, "restartCount": 0,
             "state": {"terminated": {"exitCode": self.code}}}]}

    def command_of(self, pod):
        command = pod["spec"]["containers"][0]["command"]
        return [BIN / command[0], *command[1:]]

    def environment_of(self, pod):
        """A kubeconfig in place of the mounted token of the pod's service account."""
        account = pod["spec"]["serviceAccountName"]
        token = server().kubectl("create", "token", account, "-n", self.namespace).strip()
        config = json.loads(server().kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        path = server().folder / "waiting.kubeconfig"
        path.write_text(json.dumps(config))
        return {**os.environ, "KUBECONFIG": str(path)}


class HookTest(unittest.TestCase):
    def setUp(self):
        server().kubectl("delete", "crd", CRD, "--ignore-not-found")

    def test_a_job_that_succeeds_is_a_test_that_succeeds_and_leaves_no_rights(self):
        for helm in HELMS:
            with self.subTest(helm):
                node, done = self.run_helm_test(helm, trainers_end_with=0)
                self.assertEqual(0, done.returncode, done.stderr + done.stdout)
                self.assertRegex(done.stdout, r"Phase:\s+Succeeded")
                self.assertEqual(0, node.waited[0], node.waited)
                self.assertIn("Succeeded", node.waited[1])
                self.assertEqual({f"trainingjob.training.lockstep.dev/{node.name}", f"pod/{node.name}"}, node.left)

    def test_a_job_that_fails_is_a_test_that_fails_and_stays_with_its_pods_which_say_why(self):
        for helm in HELMS:
            with self.subTest(helm):
                node, done = self.run_helm_test(helm, trainers_end_with=10)
                self.assertNotEqual(0, done.returncode, done.stdout)
                self.assertEqual(3, node.waited[0], node.waited)
                self.assertIn(f"job {node.name} failed", node.waited[2])
                self.assertIn("ReplicaFailed", node.waited[1] + node.waited[2])
                self.assertLessEqual({f"trainingjob.training.lockstep.dev/{node.name}", f"pod/{node.name}"},
                                     node.left)

    def run_helm_test(self, helm, trainers_end_with):
        release = Release(helm, f"hook-{helm}-{trainers_end_with}")
        self.addCleanup(release.remove)
        release.install({"crds.keep": False})
        server().kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=60s")
        operator = Operator()
        try:
            operator.wait_for("leading")
            jobs = f"/apis/training.lockstep.dev/v1/namespaces/{release.namespace}/trainingjobs"
            code, somebodys = server().call("POST", jobs, job("lockstep-test", suspend=True) | {
                "metadata": {"name": "lockstep-test"}})
            self.assertEqual(201, code, somebodys)
            node = Node(release.namespace, trainers_end_with)
            kubelet = threading.Thread(target=node.run)
            kubelet.start()
            # Helm 4.0 takes note of a pod that failed when the time is up.
            limit = "100s" if trainers_end_with == 0 else "30s"
            done = release.call("test", "lockstep", f"--timeout={limit}", check=False)
            kubelet.join()
            node.left = set(server().kubectl(
                "get", "trainingjobs,rolebindings,roles,serviceaccounts,pods", "-n", release.namespace,
                "-o", "name", f"--field-selector=metadata.name={node.name}").splitlines())
            code, kept = server().call("GET", f"{jobs}/lockstep-test")
            self.assertEqual((200, somebodys["metadata"]["uid"]), (code, kept["metadata"].get("uid")),
                             "helm test has deleted somebody's job")
            return node, done
        finally:
            operator.kill()
            release.remove()
            server().kubectl("wait", "--for=delete", f"crd/{CRD}", "--timeout=60s")


if __name__ == "__main__":
    unittest.main()
