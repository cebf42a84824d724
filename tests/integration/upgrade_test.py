"""Running jobs are not affected by another version of the CRD or of the operator, newer or older."""
import copy
import json
import os
import pathlib
import time
import unittest

import yaml

from api_server import CRD, JOBS, job, role, server, training_job
from corpus import nested
from operator_test import ALL_PODS, LEASE, OPERATOR, OUR_SERVICES, PODS, Operator, eventually
from slowness import SLOWNESS

OTHER = os.environ.get("LOCKSTEP_OTHER_OPERATOR")
OTHER_CRD = os.environ.get("LOCKSTEP_OTHER_CRD")
NEWEST = ("networkPolicy", "jobToken")  # fields of spec that are read when pods are created
# Annotations of pods that older operators did not set.
NOTES = ("cluster-shape", "elastic-bounds", "elastic-peers", "main-container", "network-policy", "restart-policy",
         "report-channel", "token-secret", "trainer-image", "trainer-gpu-image")
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def definition():
    return yaml.safe_load(CRD.read_text())


def spec_of(crd):
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def newer():
    """A CRD with fields that this operator does not know; the server adds their defaults to stored objects, too."""
    crd = definition()
    spec = spec_of(crd)["properties"]
    spec["placement"] = {"type": "object", "default": {}, "properties": {
        "mode": {"type": "string", "default": "Packed"}}}
    spec["training"]["properties"]["shuffleWindow"] = {"type": "integer", "default": 7}
    spec["runPolicy"]["properties"]["gracePolicy"] = {"type": "string", "default": "Wait"}
    return crd


def older():
    """A CRD from before restartPolicy lost its default and times got their bounds. It lacks the newest fields,
    so the server drops them from stored objects."""
    crd = definition()
    spec = spec_of(crd)["properties"]
    del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]  # the rules name all fields
    for name in NEWEST:
        del spec[name]
    roles = spec["replicaSpecs"]["additionalProperties"]["properties"]
    roles["restartPolicy"]["default"] = "ExitCode"
    layer = spec["training"]["properties"]["model"]["properties"]["layers"]["items"]["properties"]
    layer["kernelSize"] = {"x-kubernetes-preserve-unknown-fields": True}
    for name in ("ttlSecondsAfterFinished", "activeDeadlineSeconds"):
        spec["runPolicy"]["properties"][name]["maximum"] = 9007199254740991
    return crd


def without_rules():
    """A CRD without rules. An extra field shows when the server has started to use it."""
    crd = definition()
    del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    spec_of(crd)["properties"]["ruleless"] = {"type": "boolean"}
    return crd


class UpgradeTest(unittest.TestCase):
    def setUp(self):
        server().call("DELETE", LEASE)
        self.install(definition())
        for path in (JOBS, ALL_PODS, OUR_SERVICES):
            server().call("DELETE", path)
        self.addCleanup(server().call, "DELETE", ALL_PODS)
        self.addCleanup(self.install, definition())

    def install(self, crd):
        """Applies the CRD and waits until the server serves it."""
        crd = copy.deepcopy(crd)
        server().kubectl("apply", "-f", "-", stdin=yaml.safe_dump(crd))
        known = sorted(spec_of(crd)["properties"])
        eventually(lambda: sorted(self.served()) == known)

    def served(self):
        openapi = server().call("GET", "/openapi/v3/apis/training.lockstep.dev/v1")[1]
        schemas = openapi.get("components", {}).get("schemas", {})
        found = schemas.get("dev.lockstep.training.v1.TrainingJob", {"properties": {}})
        return found["properties"].get("spec", {"properties": {}})["properties"]

    def start(self, *flags, **options):
        started = Operator(*flags, **options)
        self.addCleanup(started.kill)
        started.wait_for("leading")
        self.running = started
        return started

    def pods(self):
        return {pod["metadata"]["name"]: pod["metadata"]["uid"]
                for pod in server().call("GET", PODS)[1]["items"]}

    def status(self, name):
        return server().call("GET", f"{JOBS}/{name}")[1].get("status", {})

    def run_jobs(self):
        newest = {"networkPolicy": "Isolated", "jobToken": "Mounted"}
        known = {name: newest[name] for name in NEWEST if name in self.served()}
        server().create(job("own", replicaSpecs={"Worker": role(2)}, **known))
        server().create(training_job("bundled"))
        eventually(lambda: len(self.pods()) == 4)
        for name in self.pods():
            self.set_pod(name, RUNNING)
        for name in ("own", "bundled"):
            eventually(lambda name=name: self.status(name).get("state") == "Running")

    def set_pod(self, name, status):
        code, answer = server().call("PATCH", f"{PODS}/{name}/status", {"status": status})
        self.assertEqual(200, code, answer.get("message"))

    def touch(self, value):
        """Changes a label of each job, so that it is stored under the current schema and observed again."""
        for name in ("own", "bundled"):
            self.assertIsNone(server().patch(name, {"metadata": {"labels": {"touched": value}}}))

    def check_untouched(self, pods):
        """Checks that the pods are the same once the operator has handled a job that was created later."""
        name = f"after-{len(self.pods())}"
        server().create(job(name))
        try:
            eventually(lambda: f"{name}-worker-0" in self.pods())
        except AssertionError as error:
            raise AssertionError(f"{name}: {self.status(name)}: {self.running.log[-5:]}") from error
        self.assertEqual(pods, {name: uid for name, uid in self.pods().items() if name in pods})
        for name in ("own", "bundled"):
            self.assertEqual("Running", self.status(name)["state"])
            self.assertEqual({}, {kind: count for kind, count in
                                  self.status(name).get("restarts", {}).items() if count})

    def test_the_crd_is_upgraded_and_downgraded_under_running_jobs(self):
        operator = self.start()
        self.run_jobs()
        pods = self.pods()
        for step, crd in enumerate((newer(), definition(), older(), definition())):
            with self.subTest(step):
                self.install(crd)
                self.touch(f"crd-{step}")
                self.check_untouched(pods)
        self.assertIsNone(operator.process.poll())

    def test_a_job_that_violates_a_newer_rule_can_still_be_changed_elsewhere(self):
        """The rule is newer than the job."""
        broken = training_job("broken", optimizer={"name": "Adam", "momentum": 0.5})
        broken["spec"]["suspend"] = True
        self.install(without_rules())
        eventually(lambda: server().dry_run(broken) is None)
        server().create(broken)
        self.assertIsNone(server().patch("broken", {"status": {"state": "Suspended"}}, "/status"))
        self.install(definition())
        eventually(lambda: server().dry_run({**broken, "metadata": {"name": "new"}}) is not None)
        for change in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"suspend": False}},
                       {"spec": {"training": {"seed": 1}, "runPolicy": {"backoffLimit": 1}}}):
            self.assertIsNone(server().patch("broken", change))
        self.assertIsNone(server().patch("broken", {"status": {"state": "Running"}}, "/status"))
        self.assertIsNone(server().patch("broken", {"status": {"attempt": 1}}, "/status"))
        self.assertIn("spec.training.optimizer.momentum: expected only with SGD", server().patch(
            "broken", {"spec": {"training": {"optimizer": {"momentum": 0.25}}}}))

    def test_a_job_that_violates_a_newer_rule_of_several_fields_can_be_stopped_and_changed(self):
        broken = training_job("broken", checkpoint={"directory": "/checkpoints"})
        broken["spec"].update(restartScope="Pod", elastic={"minReplicas": 1, "maxReplicas": 4})
        self.install(without_rules())
        eventually(lambda: server().dry_run(broken) is None)
        server().create(broken)
        self.assertIsNone(server().patch("broken", {"status": {"state": "Running"}}, "/status"))
        self.install(definition())
        eventually(lambda: server().dry_run({**broken, "metadata": {"name": "new"}}) is not None)
        scaled = {"spec": {"replicaSpecs": {"Worker": {"replicas": 3}}}}
        self.assertIn("spec.restartScope: found Pod with training and elastic", server().patch("broken", scaled))
        for change in ({"status": {"attempt": 1}}, "/status"), ({"spec": {"runPolicy": {"backoffLimit": 1}}},), (
                {"spec": {"suspend": True}},), ({"spec": {"restartScope": "InPlace"}},), (
                {"spec": {"suspend": False}},), (scaled,):
            self.assertIsNone(server().patch("broken", *change))

    def test_a_type_that_an_older_crd_filled_in_may_be_left_out(self):
        """As by who sends the whole file again."""
        started = training_job("started")
        started["spec"]["strategy"] = {"type": "MultiWorkerMirrored", "processesPerPod": 2}
        server().create(started)
        self.assertIsNone(server().patch("started", {"spec": {"strategy": {"type": None}}}))
        self.assertIn("cannot be changed", server().patch("started", {"spec": {"strategy": {"type": "Independent"}}}))
        self.assertIn("cannot be changed", server().patch("started", {"spec": {"strategy": {"stages": 2}}}))
        self.assertIn("cannot be changed", server().patch("started", {"spec": {"strategy": {"processesPerPod": 4}}}))

    def test_a_running_job_can_be_replaced_by_a_file_without_what_the_crd_fills_in(self):
        server().create(training_job("started", optimizer={"name": "SGD", "momentum": 0, "nesterov": False}))
        self.assertIsNone(server().patch("started", {"spec": {
            "training": {"optimizer": {"momentum": None, "nesterov": None}},
            "runPolicy": {"activeDeadlineSeconds": 1000}}}))

    def test_jobs_of_an_older_operator_keep_running_unchanged(self):
        """The older operator knows no tokens and no NetworkPolicies, and sets fewer annotations on its pods."""
        first = self.start("--job-tokens=false", "--network-policies=false")
        self.install(older())
        self.run_jobs()
        first.kill()
        server().call("DELETE", LEASE)
        notes = {f"training.lockstep.dev/{name}": None for name in NOTES}
        for name in self.pods():
            code, answer = server().call("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": notes}})
            self.assertEqual(200, code, answer.get("message"))
        pods = self.pods()
        self.start()
        self.touch("newer")
        self.check_untouched(pods)
        self.install(definition())
        self.touch("newer-crd")
        self.check_untouched(pods)
        server().call("DELETE", f"{PODS}/bundled-worker-1?gracePeriodSeconds=0")
        eventually(lambda: self.pods().get("bundled-worker-1", pods["bundled-worker-1"])
                   != pods["bundled-worker-1"])
        replaced = server().call("GET", f"{PODS}/bundled-worker-1")[1]
        self.assertNotIn("lockstep-token", json.dumps(replaced), "its peers have none")

    def test_a_deeply_nested_job_stops_no_list_and_no_watch(self):
        """An older version of the CRD may have accepted such a job."""
        self.install(older())

        def deep(name):
            wanted = training_job(name, model={"layers": [
                {"type": "Conv2D", "filters": 1, "kernelSize": nested(250)}]})
            end = time.monotonic() + 20 * SLOWNESS  # the server's old schema may still answer
            while True:
                code, answer = server().call("POST", JOBS, wanted)
                if code == 201:
                    return
                self.assertLess(time.monotonic(), end, answer.get("message"))

        deep("listed")
        self.start()
        server().create(job("first"))
        eventually(lambda: "first-worker-0" in self.pods())
        deep("watched")
        server().create(job("second"))
        eventually(lambda: "second-worker-0" in self.pods())
        for name in ("listed", "watched"):
            eventually(lambda name=name: self.status(name).get("state") == "Failed")
            self.assertIn("kernelSize", str(self.status(name)["conditions"]))

    def test_a_pod_with_invalid_utf8_stops_no_list_and_no_watch(self):
        """The server returns the names in managedFields as a client sent them."""
        fields = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                  "fieldsV1": {"f:BYTE": {}}}
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "x"}]},
               "metadata": {"name": "garbled", "labels": {"training.lockstep.dev/job-uid": "x"},
                            "managedFields": [fields]}}
        watching = self.start()
        server().create(job("first"))
        eventually(lambda: "first-worker-0" in self.pods())
        connection = server().connect()
        self.addCleanup(connection.close)
        answer = connection.send("POST", PODS, json.dumps(pod).encode().replace(b"BYTE", b"\xff"))
        self.assertIn(b'"f:\xff"', answer.read())
        server().create(job("second"))
        eventually(lambda: "second-worker-0" in self.pods())
        self.assertIsNone(watching.said("informer failed; retrying"))
        watching.kill()
        server().call("DELETE", LEASE)
        listing = self.start()
        server().create(job("third"))
        eventually(lambda: "third-worker-0" in self.pods())
        self.assertIsNone(listing.said("informer failed; retrying"))

    def test_a_job_with_too_many_labels_stops_no_watch(self):
        running = self.start()
        server().create(job("labelled", suspend=True))
        # Without this, managedFields would name each label, and the object would be too large for the server.
        self.assertIsNone(server().patch("labelled", {"metadata": {"managedFields": [{}]}}))
        labels = dict.fromkeys(map(str, range(100_001)), "")
        self.assertIsNone(server().patch("labelled", {"metadata": {"labels": labels}}))
        eventually(lambda: self.status("labelled").get("state") == "Failed")
        server().create(job("second"))
        eventually(lambda: "second-worker-0" in self.pods())
        self.assertIsNone(running.said("informer failed; retrying"))

    def test_an_operator_starts_with_another_versions_crd(self):
        self.start().kill()
        for make in (newer, older):
            with self.subTest(make.__name__):
                self.setUp()
                first = self.start()
                self.run_jobs()
                pods = self.pods()
                first.kill()
                server().call("DELETE", LEASE)
                self.install(make())
                second = self.start()
                self.touch("start")
                self.check_untouched(pods)
                second.kill()

    @unittest.skipUnless(OTHER, "LOCKSTEP_OTHER_OPERATOR names no other version's operator")
    def test_another_versions_operator_takes_over_and_hands_back(self):
        """With its own CRD (LOCKSTEP_OTHER_CRD) or this one, in either order."""
        other_crd = yaml.safe_load(pathlib.Path(OTHER_CRD).read_text()) if OTHER_CRD else definition()
        first = self.start(program=OTHER)
        self.run_jobs()
        pods = self.pods()
        first.kill()
        for step, (program, crd) in enumerate((
                (OPERATOR, other_crd), (OPERATOR, definition()), (OTHER, definition()),
                (OTHER, other_crd), (OPERATOR, definition()))):
            with self.subTest(f"{program} {step}"):
                server().call("DELETE", LEASE)
                self.install(crd)
                running = self.start(program=program)
                self.touch(f"other-{step}")
                self.check_untouched(pods)
                running.kill()


if __name__ == "__main__":
    unittest.main()
