"""Gang scheduling and Kueue, with only the permissions that manifests/components grant.

No scheduler runs: the test writes what a scheduler would write.
"""
import contextlib
import time
import unittest

import foreign_resources
from account import AFTER_LOST_ANSWERS, audited, granted, install, start_operator
from api_server import JOBS, container, job, role, server
from manifests_test import overlay
from operator_test import ALL_PODS, OUR_SERVICES, PODS, eventually

DEFAULT = "/namespaces/default/"
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
TWO_HOURS_AGO = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 7200))
MORE = {"resources": {"requests": {"cpu": "500m"}}}


def condition(kind, status="True", reason="Tested"):
    return {"type": kind, "status": status, "reason": reason, "message": "by the test",
            "lastTransitionTime": TWO_HOURS_AGO}


class Case(unittest.TestCase):
    def setUp(self):
        for path in (JOBS, ALL_PODS, OUR_SERVICES):
            server().call("DELETE", path)

    def start(self, components, *flags, served=None):
        for name in components:
            foreign_resources.install(server(), name, served)
        with overlay("rbac", components) as path:  # the overlay has no Deployment to patch
            install(path)
            self.granted = granted(path)
        self.addCleanup(start_operator(*flags).kill)

    def get(self, path):
        code, found = server().call("GET", path)
        return found if code == 200 else None

    def patch(self, path, change):
        code, answer = server().call("PATCH", path, change)
        self.assertEqual(200, code, answer.get("message"))

    def finish(self, pod):
        self.patch(f"{PODS}/{pod}/status", {"status": {"phase": "Succeeded"}})

    def check_rights(self, group):
        """No request was forbidden, and every right granted on the group's resources was used."""
        needed = {entry for entry in self.granted if entry[0] == group} - AFTER_LOST_ANSWERS
        self.assertTrue(needed, f"nothing is granted on {group}")
        with contextlib.suppress(AssertionError):  # the audit log lags a little
            eventually(lambda: needed <= audited()[0])
        used, forbidden = audited()
        self.assertEqual([], forbidden)
        self.assertEqual(set(), needed - used, "granted but not used")


class GangTest(Case):
    def check_gang(self, component, group, version, mark):
        groups = f"/apis/{group}/{version}{DEFAULT}podgroups"
        eventually(lambda: self.get(groups))
        server().create(job("gang", replicaSpecs={"Worker": role(2, [container(**MORE)])}))
        made = eventually(lambda: self.get(f"{groups}/gang"))
        self.assertLessEqual({"minMember": 2, "minResources": {"cpu": "1"}}.items(),
                             made["spec"].items())
        pod = eventually(lambda: self.get(f"{PODS}/gang-worker-1"))
        self.assertEqual("gang", mark(pod["metadata"]))
        self.assertIn(component, pod["spec"]["schedulerName"])
        self.assertIsNone(server().patch("gang", {"spec": {"runPolicy": {"schedulingPolicy": {
            "minAvailable": 1}}}}))
        eventually(lambda: self.get(f"{groups}/gang")["spec"]["minMember"] == 1)
        for index in (1, 0):  # worker 0's success ends the job, and running pods with it
            self.finish(f"gang-worker-{index}")
        eventually(lambda: self.get(f"{groups}/gang") is None)
        self.check_rights(group)

    def test_a_gang_with_volcano(self):
        self.start(["volcano"], "--gang-scheduler-name=volcano")
        self.check_gang("volcano", "scheduling.volcano.sh", "v1beta1",
                        lambda metadata: metadata["annotations"]["scheduling.k8s.io/group-name"])

    def test_a_gang_with_scheduler_plugins(self):
        self.start(["scheduler-plugins"], "--gang-scheduler-name=scheduler-plugins")
        self.check_gang("scheduler-plugins", "scheduling.x-k8s.io", "v1alpha1",
                        lambda metadata: metadata["labels"]["scheduling.x-k8s.io/pod-group"])


class KueueCase(Case):
    """Kueue that serves one version of its API alone."""

    def setUp(self):
        super().setUp()
        self.use(self.version)
        self.addCleanup(lambda: server().call("DELETE", self.workloads))  # after the operator's end
        self.start(["kueue"], "--kueue", served=self.version)
        server().kubectl("apply", "-f", "-", stdin=FLAVOR_AND_PRIORITIES.format(version=self.version))

    def use(self, version):
        """Has the server serve this version alone."""
        foreign_resources.install(server(), "kueue", version)
        other = {"v1beta1": "v1beta2", "v1beta2": "v1beta1"}[version]
        for plural in ("workloads", "resourceflavors", "workloadpriorityclasses"):
            group = "/apis/kueue.x-k8s.io"
            eventually(lambda plural=plural: self.get(f"{group}/{version}/{plural}")
                       and not self.get(f"{group}/{other}/{plural}"))
        self.workloads = f"/apis/kueue.x-k8s.io/{version}{DEFAULT}workloads"

    def queued(self, name, labels=(), annotations=(), **spec):
        base = job(name, suspend=True, replicaSpecs={"Worker": role(2, [container(**MORE)])}, **spec)
        base["metadata"].update(labels={"kueue.x-k8s.io/queue-name": "research", **dict(labels)},
                                annotations=dict(annotations))
        server().create(base)
        return eventually(lambda: self.get(f"{self.workloads}/trainingjob-{name}"))

    def set_workload(self, name, *conditions, admission=True):
        self.patch(f"{self.workloads}/trainingjob-{name}/status", {"status": {
            "conditions": list(conditions), "admission": {
                "clusterQueue": "cluster", "podSetAssignments": [
                    {"name": "worker", "count": 2, "flavors": {"cpu": "fast"},
                     "resourceUsage": {"cpu": "1"}}]} if admission else None}})

    def job(self, name):
        return self.get(f"{JOBS}/{name}")

    def check_life(self, priority, past):
        """`priority`: what the Workload's spec says of the class; `past`: its total of times."""
        server().create(job("unqueued"))
        eventually(lambda: self.get(f"{PODS}/unqueued-worker-0"))
        labels = {"kueue.x-k8s.io/priority-class": "urgent", "kueue.x-k8s.io/max-exec-time-seconds": "3600"}
        workload = self.queued("queued", labels, annotations={"provreq.kueue.x-k8s.io/MaxRunSeconds": "600"})
        self.assertLessEqual({"queueName": "research", "priority": 7, "maximumExecutionTimeSeconds": 3600,
                              **priority}.items(), workload["spec"].items())
        self.assertEqual("600", workload["metadata"]["annotations"]["provreq.kueue.x-k8s.io/MaxRunSeconds"])
        self.assertTrue(self.job("queued")["spec"]["suspend"])
        self.set_workload("queued", condition("QuotaReserved"), condition("Admitted"))
        pod = eventually(lambda: self.get(f"{PODS}/queued-worker-1"))
        self.assertEqual({"speed": "high"}, pod["spec"]["nodeSelector"])
        self.assertFalse(self.job("queued")["spec"]["suspend"])
        self.run_pods("queued", "Started")

        self.set_workload("queued", condition("QuotaReserved"), condition("Admitted"),
                          condition("PodsReady", reason="Started"),
                          condition("Evicted", reason="Preempted"))
        eventually(lambda: self.job("queued")["spec"]["suspend"])
        server().call("DELETE", ALL_PODS)
        eventually(lambda: self.condition("queued", "QuotaReserved") == "False")
        # Kueue limits the time of the next start only if PodsReady has a reason that Kueue knows.
        self.assertEqual(("False", "WaitForStart"), self.readiness("queued"))
        self.assertGreater(self.get(f"{self.workloads}/trainingjob-queued")["status"][past], 3600)
        self.assertEqual(workload["metadata"]["uid"],
                         self.get(f"{self.workloads}/trainingjob-queued")["metadata"]["uid"])

        self.set_workload("queued", condition("QuotaReserved"), condition("Admitted"),
                          condition("PodsReady", "False", reason="WaitForStart"),
                          condition("Evicted", "False"))
        self.run_pods("queued", "Started")
        for index in (1, 0):  # worker 0's success ends the job, and running pods with it
            self.finish(f"queued-worker-{index}")
        eventually(lambda: self.condition("queued", "Finished") == "True")

        self.change_while_waiting()
        self.check_rights("kueue.x-k8s.io")
        self.assertIn(("training.lockstep.dev", "trainingjobs", "update"), audited()[0])
        self.assertIn(("scheduling.k8s.io", "priorityclasses", "get"), audited()[0])

    def change_while_waiting(self):
        """A job may change its requests before it is admitted: its Workload is recreated."""
        first = self.queued("changed", runPolicy={"schedulingPolicy": {
            "priorityClass": "system-cluster-critical"}})
        self.assertIsNone(server().patch("changed", {"spec": {"replicaSpecs": {"Worker": {
            "replicas": 3}}}}))
        path = f"{self.workloads}/trainingjob-changed"
        eventually(lambda: (self.get(path) or first)["metadata"]["uid"] != first["metadata"]["uid"])
        self.assertEqual(3, self.get(path)["spec"]["podSets"][0]["count"])

    def run_pods(self, name, reason):
        for index in range(2):
            pod = f"{PODS}/{name}-worker-{index}"
            eventually(lambda pod=pod: self.get(pod))
            self.patch(f"{pod}/status", {"status": RUNNING})
        eventually(lambda: self.readiness(name) == ("True", reason))

    def condition(self, name, kind):
        return self.find(name, kind).get("status")

    def readiness(self, name):
        found = self.find(name, "PodsReady")
        return found.get("status"), found.get("reason")

    def find(self, name, kind):
        workload = self.get(f"{self.workloads}/trainingjob-{name}") or {}
        return next((entry for entry in workload.get("status", {}).get("conditions", [])
                     if entry["type"] == kind), {})


class KueueTest(KueueCase):
    """As of Kueue 0.20."""
    version = "v1beta2"

    def test_a_job_waits_for_quota_is_evicted_and_finishes(self):
        self.check_life({"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass",
                                              "name": "urgent"}}, "accumulatedPastExecutionTimeSeconds")

    def test_kueue_chooses_nodes_and_takes_back_the_quota_of_finished_replicas(self):
        asked = {"kueue.x-k8s.io/podset-required-topology": "rack"}
        worker = role(2, [container(**MORE)])
        worker["template"]["metadata"] = {"annotations": asked}
        base = job("racks", suspend=True, strategy={"type": "Independent"}, replicaSpecs={"Worker": worker})
        base["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
        server().create(base)
        path = f"{self.workloads}/trainingjob-racks"
        workload = eventually(lambda: self.get(path))
        self.assertEqual({"required": "rack", "podIndexLabel": "training.lockstep.dev/replica-index"},
                         workload["spec"]["podSets"][0]["topologyRequest"])
        self.patch(f"{path}/status", {"status": {
            "conditions": [condition("QuotaReserved"), condition("Admitted")],
            "admission": {"clusterQueue": "cluster", "podSetAssignments": [
                {"name": "worker", "count": 2, "flavors": {"cpu": "fast"}, "topologyAssignment": {
                    "levels": ["rack"], "slices": [{"domainCount": 1, "podCounts": {"universal": 2},
                                                    "valuesPerLevel": [{"universal": "r1"}]}]}}]}}})
        pod = eventually(lambda: self.get(f"{PODS}/racks-worker-1"))
        self.assertEqual([{"name": "kueue.x-k8s.io/topology"}], pod["spec"]["schedulingGates"])
        self.assertEqual("worker", pod["metadata"]["labels"]["kueue.x-k8s.io/podset"])
        self.assertEqual("trainingjob-racks", pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"])
        for index in range(2):
            eventually(lambda index=index: self.get(f"{PODS}/racks-worker-{index}"))
        gate = {"reason": "SchedulingGated", "message": "racks-worker-0 waits until somebody removes its scheduling "
                                                        "gates: kueue.x-k8s.io/topology"}
        eventually(lambda: any(gate.items() <= entry.items() for entry in self.job("racks")["status"]["conditions"]))
        for index in range(2):  # as Kueue opens the gate
            self.patch(f"{PODS}/racks-worker-{index}", {"spec": {
                "schedulingGates": None, "nodeSelector": {"rack": "r1"}}})
        self.run_pods("racks", "Started")
        self.finish("racks-worker-1")
        eventually(lambda: self.get(path)["status"].get("reclaimablePods") == [{"name": "worker", "count": 1}])


class OldKueueTest(KueueCase):
    """As of Kueue before 0.15."""
    version = "v1beta1"

    def test_a_job_waits_for_quota_is_evicted_and_finishes(self):
        self.check_life({"priorityClassName": "urgent",
                         "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"},
                        "accumulatedPastExexcutionTimeSeconds")

    def test_kueue_is_upgraded_while_jobs_run_and_wait(self):
        self.queued("running")
        self.set_workload("running", condition("QuotaReserved"), condition("Admitted"))
        self.run_pods("running", "Started")
        waiting = self.queued("waiting")

        self.use("v1beta2")
        for index in (1, 0):
            self.finish(f"running-worker-{index}")
        eventually(lambda: self.condition("running", "Finished") == "True")
        self.set_workload("waiting", condition("QuotaReserved"), condition("Admitted"))
        self.run_pods("waiting", "Started")
        self.assertEqual(waiting["metadata"]["uid"],
                         self.get(f"{self.workloads}/trainingjob-waiting")["metadata"]["uid"])
        self.queued("later")
        self.assertEqual([], audited()[1])


FLAVOR_AND_PRIORITIES = """
apiVersion: kueue.x-k8s.io/{version}
kind: ResourceFlavor
metadata: {{name: fast}}
spec: {{nodeLabels: {{speed: high}}}}
---
apiVersion: kueue.x-k8s.io/{version}
kind: WorkloadPriorityClass
metadata: {{name: urgent}}
value: 7
"""

if __name__ == "__main__":
    unittest.main()
