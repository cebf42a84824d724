"""The CRD at a real API server, as kubectl's users meet it."""
import importlib.machinery
import importlib.util
import json
import re
import sys
import unittest

from api_server import CRD, JOBS, ROOT, container, job, role, server, training_job

sys.dont_write_bytecode = True
EXAMPLE = ROOT / "examples" / "mnist.yaml"
CONDITION = {"type": "Running", "status": "True", "reason": "AllReady", "message": "",
             "observedGeneration": 1, "lastTransitionTime": "2026-01-02T03:04:05Z"}


def gen_crd():
    loader = importlib.machinery.SourceFileLoader("gen_crd", str(ROOT / "tools" / "gen-crd"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        server().call("DELETE", JOBS)  # a test begins without jobs

    def set_status(self, name, **status):
        self.assertIsNone(server().patch(name, {"status": status}, "/status"))


class SchemaTest(Case):
    def test_what_is_committed_is_what_the_tool_makes(self):
        tool, committed = gen_crd(), CRD.read_text()
        version = server().call("GET", "/version")[1]["gitVersion"]
        if version != tool.made_from(committed):
            self.skipTest(f"the server is {version}, whose pod template is another")
        openapi = server().call("GET", "/openapi/v3/api/v1")[1]
        self.assertTrue(tool.generate(openapi, version) == committed,
                        "api/crd/trainingjobs.yaml is not what tools/gen-crd makes; run it")

    def test_a_plain_apply_carries_it(self):
        crd = server().call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
                                   "trainingjobs.training.lockstep.dev")[1]
        kept = crd["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
        self.assertLess(len(kept), 254_500)  # of 262,144
        self.assertRegex(server().kubectl("apply", "-f", CRD), "(configured|unchanged)$")
        conditions = {entry["type"]: entry["status"] for entry in crd["status"]["conditions"]}
        self.assertEqual("True", conditions["Established"])
        self.assertNotIn("NonStructuralSchema", conditions)

    def test_every_field_of_ours_is_described_and_bounded(self):
        for path, node in own_fields(server().schema(), "TrainingJob"):
            with self.subTest(path):
                self.assertTrue(node.get("description") or path.endswith(("[]", ".*", "metadata")))
                if path not in ("TrainingJob.apiVersion", "TrainingJob.kind"):
                    self.check_bounds(node)

    def check_bounds(self, node):
        kind = node.get("type")
        if kind == "string":
            self.assertTrue({"enum", "maxLength", "format"} & node.keys())
        elif kind == "integer":
            self.assertTrue("minimum" in node or node.get("format") == "int32")
        elif kind == "array":
            self.assertIn("maxItems", node)
            self.assertIn("x-kubernetes-list-type", node)

    def test_explain_describes_the_way_to_a_container(self):
        for path in ("", ".spec", ".spec.training.model.layers", ".spec.replicaSpecs",
                     ".spec.replicaSpecs.template.spec.containers.resources", ".status.progress"):
            said = server().kubectl("explain", "trainingjobs" + path)
            self.assertRegex(said, r"DESCRIPTION:\n    \S", path)
            self.assertNotIn("<empty>", said, path)
        self.assertNotIn("<no description>", server().kubectl(
            "explain", "trainingjobs.spec", "--recursive"))

    def test_defaults(self):
        stored = server().create(training_job(dataset={"format": "synthetic", "synthetic": {}}))
        spec = stored["spec"]
        self.assertIs(False, spec["suspend"])
        self.assertEqual({"cleanPodPolicy": "Running", "backoffLimit": 6}, spec["runPolicy"])
        self.assertNotIn("restartPolicy", spec["replicaSpecs"]["Worker"])  # depends on `training`
        training = spec["training"]
        self.assertEqual([1, 28, 28], training["dataset"]["synthetic"]["shape"])
        self.assertEqual({"name": "Adam", "learningRate": 0.001, "beta1": 0.9, "beta2": 0.999, "rho": 0.9,
                          "epsilon": 1e-7, "initialAccumulatorValue": 0.1, "trustCoefficient": 0.001,
                          "momentum": 0, "nesterov": False, "muonMomentum": 0.95, "muonNesterov": True,
                          "adamLrRatio": 1, "weightDecay": 0, "globalClipNorm": 0},
                         training["optimizer"])
        self.assertNotIn("strategy", spec)
        self.assertNotIn("restartScope", spec)

    def test_a_template_keeps_all_of_its_fields(self):
        pod = {"containers": [container(
            env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            resources={"limits": {"cpu": "500m", "nvidia.com/gpu": 8}},
            readinessProbe={"httpGet": {"port": "metrics", "path": "/"}},
            securityContext={"capabilities": {"drop": ["ALL"]}})],
            "nodeSelector": {"a": "b"}, "priorityClassName": "high",
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname"}]}},
            "volumes": [{"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}]}
        stored = server().create(job(replicaSpecs={"Worker": {"template": {
            "metadata": {"labels": {"a": "b"}}, "spec": pod}}}))
        self.assertEqual({"metadata": {"labels": {"a": "b"}}, "spec": pod},
                         stored["spec"]["replicaSpecs"]["Worker"]["template"])


def own_fields(node, path):
    yield path, node
    for name, child in node.get("properties", {}).items():
        if name != "template" and path != "TrainingJob.metadata":
            yield from own_fields(child, f"{path}.{name}")
    if "items" in node:
        yield from own_fields(node["items"], path + "[]")
    if "additionalProperties" in node:
        yield from own_fields(node["additionalProperties"], path + ".*")


class ChangeTest(Case):
    """What may be changed in a job that is there."""

    def check_refused(self, base, change, field, words="cannot be", **beside):
        server().create({**base, "metadata": {**base["metadata"], "name": "change"}})
        if "status" in base:
            self.set_status("change", **base["status"])
        said = server().patch("change", {"spec": change, **beside})
        self.assertIsNotNone(said, "the server took it")
        self.assertIn(field, said)
        self.assertIn(words, said)

    def check_taken(self, base, change):
        server().create({**base, "metadata": {**base["metadata"], "name": "change"}})
        self.assertIsNone(server().patch("change", {"spec": change}))

    def test_a_running_jobs_program_is_fixed(self):
        self.check_refused(job(), {"replicaSpecs": {"Worker": {"template": {"spec": {
            "nodeSelector": {"a": "b"}}}}}}, "spec.replicaSpecs")

    def test_a_running_jobs_restart_policy_is_fixed(self):
        self.check_refused(job(), {"replicaSpecs": {"Worker": {"restartPolicy": "Never"}}},
                           "spec.replicaSpecs")

    def test_a_running_jobs_training_is_fixed(self):
        self.check_refused(training_job(), {"training": {"seed": 2}}, "spec.training")

    def test_a_running_jobs_strategy_is_fixed(self):
        self.check_refused(job(), {"strategy": {"communication": "Ring"}}, "spec.strategy")

    def test_a_running_jobs_restart_scope_is_fixed(self):
        self.check_refused(job(), {"restartScope": "Pod"}, "spec.restartScope")

    def test_a_running_jobs_success_policy_is_fixed(self):
        self.check_refused(job(), {"successPolicy": "AllWorkers"}, "spec.successPolicy")

    def test_a_running_jobs_network_policy_is_fixed(self):
        self.check_refused(job(), {"networkPolicy": "Isolated"}, "spec.networkPolicy")

    def test_a_running_jobs_token_is_fixed(self):
        self.check_refused(job(), {"jobToken": "Mounted"}, "spec.jobToken")

    def test_a_running_jobs_replicas_are_fixed(self):
        self.check_refused(job(), {"replicaSpecs": {"Worker": {"replicas": 2}}},
                           "spec.replicaSpecs")

    def test_a_running_jobs_roles_are_fixed(self):
        self.check_refused(job(), {"replicaSpecs": {"Chief": role()}}, "spec.replicaSpecs")

    def test_another_role_of_an_elastic_job_is_fixed(self):
        self.check_refused(elastic(replicaSpecs={"Chief": role(), "Worker": role()}),
                           {"replicaSpecs": {"Chief": {"replicas": 0}}}, "spec.replicaSpecs")

    def test_the_program_of_an_elastic_jobs_workers_is_fixed(self):
        self.check_refused(elastic(), {"replicaSpecs": {"Worker": {"replicas": 2, "template": {
            "metadata": {"labels": {"a": "b"}}}}}}, "spec.replicaSpecs")

    def test_what_an_elastic_jobs_workers_wait_for_is_fixed(self):
        self.check_refused(elastic(replicaSpecs={"Chief": role(), "Worker": role()}),
                           {"replicaSpecs": {"Worker": {"dependsOn": [{"role": "Chief", "status": "Ready"}]}}},
                           "spec.replicaSpecs")

    def test_workers_that_wait_for_others_can_be_scaled(self):
        waiting = {**role(), "dependsOn": [{"role": "Chief", "status": "Ready"}]}
        self.check_taken(elastic(replicaSpecs={"Chief": role(), "Worker": waiting}),
                         {"replicaSpecs": {"Worker": {"replicas": 4}}})

    def test_an_elastic_jobs_roles_are_fixed(self):
        self.check_refused(elastic(), {"replicaSpecs": {"Chief": role()}}, "spec.replicaSpecs")

    def test_the_manager_never_changes(self):
        self.check_refused(job(suspend=True), {"managedBy": "somebody"}, "spec.managedBy")

    def test_the_manager_is_never_taken_away(self):
        self.check_refused(job(suspend=True, managedBy="somebody"), {"managedBy": None},
                           "spec.managedBy")

    def test_a_job_can_be_suspended(self):
        self.check_taken(job(), {"suspend": True})

    def test_the_run_policy_can_be_changed(self):
        self.check_taken(job(), {"runPolicy": {"backoffLimit": 9, "activeDeadlineSeconds": 60}})

    def test_workers_of_an_elastic_job_can_be_scaled(self):
        self.check_taken(elastic(), {"replicaSpecs": {"Worker": {"replicas": 4}}})

    def test_the_bounds_of_an_elastic_job_can_be_changed(self):
        self.check_taken(elastic(), {"elastic": {"minReplicas": 1, "maxReplicas": 8}})

    def test_a_running_job_does_not_become_elastic(self):
        self.check_refused(job(), {"elastic": {"maxReplicas": 4}}, "spec.elastic", "can be neither")

    def test_a_running_elastic_job_stays_elastic(self):
        self.check_refused(elastic(), {"elastic": None}, "spec.elastic", "can be neither")

    def test_a_suspended_job_can_be_changed(self):
        self.check_taken(training_job_suspended(), {
            "training": {"seed": 2}, "replicaSpecs": {"Worker": {"replicas": 3, "template": {
                "spec": {"nodeSelector": {"a": "b"}}}}}})

    def test_node_selectors_come_with_the_start_of_a_suspended_job(self):
        self.check_taken(job(suspend=True), {"suspend": False, "replicaSpecs": {"Worker": {
            "template": {"spec": {"nodeSelector": {"a": "b"}}}}}})

    def test_node_selectors_go_with_the_suspension(self):
        self.check_taken(job(), {"suspend": True, "replicaSpecs": {"Worker": {
            "template": {"spec": {"nodeSelector": {"a": "b"}}}}}})

    def test_a_status_does_not_ask_what_of_the_spec_may_change(self):
        server().create(job())
        self.set_status("job", state="Running")

    def test_a_refusal_names_all_that_is_wrong(self):
        said = server().dry_run(job(elastic={"minReplicas": 3, "maxReplicas": 2},
                                    replicaSpecs={"Chief": role(2)}))
        for wrong in ("spec.elastic.minReplicas: expected at most maxReplicas",
                      "spec.replicaSpecs.Chief.replicas: expected at most 1",
                      "spec.replicaSpecs.Worker: found none, expected one with elastic"):
            self.assertIn(wrong, said)

    def test_an_edit_is_asked_what_a_new_job_is(self):
        for state in (None, "Suspended"):
            with self.subTest(state):
                status = {} if state is None else {"status": {"state": state}}
                self.check_refused({**job(suspend=True), **status},
                                   {"replicaSpecs": {"Chief": role(2)}},
                                   "spec.replicaSpecs.Chief.replicas", "expected at most 1")
                server().call("DELETE", JOBS)

    # No rule is asked as a status is written; nobody else can make it look so.
    def test_a_first_status_beside_it_lets_no_change_through(self):
        self.check_refused(job(), {"successPolicy": "AllWorkers"}, "spec.successPolicy",
                           status={"state": "Failed", "readyReplicas": "9/9"})

    def test_another_status_beside_it_lets_no_change_through(self):
        self.check_refused({**job(), "status": {"state": "Running"}},
                           {"successPolicy": "AllWorkers"}, "spec.successPolicy",
                           status={"state": "Failed", "readyReplicas": "9/9"})


def elastic(**spec):
    return job(elastic={"minReplicas": 1, "maxReplicas": 4}, **spec)


def training_job_suspended():
    base = training_job()
    return {**base, "spec": {**base["spec"], "suspend": True}}


class ElasticTest(Case):
    def test_workers_stay_between_the_bounds(self):
        for replicas, taken in ((0, False), (1, True), (4, True), (5, False)):
            with self.subTest(replicas):
                said = server().dry_run(elastic(replicaSpecs={"Chief": role(),
                                                              "Worker": role(replicas)}))
                if taken:
                    self.assertIsNone(said)
                else:
                    self.assertIn("spec.replicaSpecs.Worker.replicas", said)

    def test_bounds_in_the_wrong_order_are_refused(self):
        self.assertIn("spec.elastic.minReplicas", server().dry_run(
            job(elastic={"minReplicas": 3, "maxReplicas": 2})))

    def test_scale_changes_the_workers(self):
        server().create(elastic())
        self.set_status("job", selector="a=b", replicaStatuses={"Worker": {"active": 1}})
        code, scale = server().call("GET", f"{JOBS}/job/scale")
        self.assertEqual(200, code)
        self.assertEqual(1, scale["spec"]["replicas"])
        self.assertEqual({"replicas": 1, "selector": "a=b"}, scale["status"])
        server().kubectl("scale", "tj/job", "--replicas=3")
        self.assertEqual("3", server().kubectl(
            "get", "tj/job", "-o", "jsonpath={.spec.replicaSpecs.Worker.replicas}"))

    def test_scale_beyond_the_bounds_is_refused(self):
        server().create(elastic())
        done = server().kubectl("scale", "tj/job", "--replicas=5", check=False)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("maxReplicas", done.stderr)


class KubectlTest(Case):
    def test_the_example_is_applied_and_changed_by_apply(self):
        self.assertIn("created", server().kubectl("apply", "-f", EXAMPLE))
        self.assertIn("unchanged", server().kubectl("apply", "-f", EXAMPLE))
        longer = EXAMPLE.read_text().replace("restartPolicy: ExitCode", "restartPolicy: Never")
        done = server().kubectl("apply", "-f", "-", stdin=longer, check=False)
        self.assertIn("cannot be changed", done.stderr)

    def test_unknown_fields_are_refused(self):
        misspelt = EXAMPLE.read_text().replace("batchSize:", "batchSiz:")
        done = server().kubectl("apply", "-f", "-", stdin=misspelt, check=False)
        self.assertIn('unknown field "spec.training.batchSiz"', done.stderr)

    def test_columns_of_a_new_job(self):
        server().create(training_job())
        self.assertEqual([["NAME", "STATE", "READY", "STEP", "RESTARTS", "AGE"], ["job", "AGE"]],
                         self.table())

    def test_columns_of_a_running_job(self):
        server().create(training_job())
        self.set_status("job", state="Running", readyReplicas="2/2", restartCount=1,
                        progress={"step": 120, "loss": 0.25, "goodput": 0.5, "estimatedRemainingSeconds": 77})
        self.assertEqual(["job", "Running", "2/2", "120", "1", "AGE"], self.table()[1])
        self.assertEqual([["NAME", "STATE", "READY", "STEP", "RESTARTS", "AGE", "LOSS", "GOODPUT", "LEFT"],
                          ["job", "Running", "2/2", "120", "1", "AGE", "0.25", "0.5", "77"]],
                         self.table("-o", "wide"))

    def test_columns_of_a_failed_job_without_training(self):
        server().create(job())
        self.set_status("job", state="Failed", readyReplicas="0/1", restartCount=6)
        self.assertEqual(["job", "Failed", "0/1", "6", "AGE"], self.table()[1])

    def table(self, *arguments):
        """Its cells, but empty ones; a job's age, which is some seconds, is AGE."""
        lines = server().kubectl("get", "tj", *arguments).splitlines()
        return [[re.sub(r"^\d+s$", "AGE", cell) for cell in line.split()] for line in lines]

    def test_wait_sees_conditions(self):
        server().create(job())
        done = server().kubectl("wait", "--for=condition=Running", "--timeout=1s", "tj/job",
                                check=False)
        self.assertIn("timed out", done.stderr)
        self.set_status("job", state="Running", conditions=[CONDITION])
        self.assertIn("condition met", server().kubectl(
            "wait", "--for=condition=Running", "--timeout=10s", "tj/job"))
        self.assertIn("condition met", server().kubectl(
            "wait", "--for=jsonpath={.status.state}=Running", "--timeout=10s", "tj/job"))

    def test_who_wrote_a_part_of_a_status_is_not_kept(self):
        server().create(job())
        self.set_status("job", state="Running", conditions=[CONDITION])
        fields = server().call("GET", f"{JOBS}/job")[1]["metadata"]["managedFields"]
        self.assertEqual([{"f:status": {}}], [entry["fieldsV1"] for entry in fields
                                              if entry.get("subresource") == "status"])

    def test_a_condition_is_there_once(self):
        server().create(job())
        said = server().patch("job", {"status": {"conditions": [CONDITION, CONDITION]}}, "/status")
        self.assertIn("status.conditions[1]", said)


    def test_a_name_may_be_the_servers_to_choose(self):
        unnamed = {**job(), "metadata": {"generateName": "mnist-"}}
        self.assertRegex(server().create(unnamed)["metadata"]["name"], "^mnist-[a-z0-9]{5}$")


class SizeTest(Case):
    def test_an_object_of_nearly_a_megabyte(self):
        big = job(replicaSpecs={"Worker": role(containers=[container(
            env=[{"name": f"V{i}", "value": "x" * 1000} for i in range(900)])])})
        self.assertGreater(len(json.dumps(big)), 900_000)
        self.assertEqual(big["spec"]["replicaSpecs"]["Worker"]["template"],
                         server().create(big)["spec"]["replicaSpecs"]["Worker"]["template"])
        self.set_status("job", state="Running")
        self.assertIsNone(server().patch("job", {"spec": {"suspend": True}}))

    def test_the_largest_object_is_not_too_dear_to_check(self):
        """CEL has a budget at run time too: four templates, each of many containers."""
        many = [container(f"c{i}", env=[{"name": f"V{j}", "value": "x"} for j in range(40)])
                for i in range(60)]
        big = job(strategy={"type": "ParameterServer"}, replicaSpecs={
            name: role(containers=many) for name in ("Chief", "Worker", "PS", "Evaluator")})
        server().create(big)
        self.assertIsNone(server().patch("job", {"spec": {"runPolicy": {"backoffLimit": 1}}}))

    def test_a_status_of_ten_thousand_workers(self):
        server().create(job(replicaSpecs={"Worker": role(10_000)}, strategy={"type": "Independent"}))
        self.set_status("job", completedIndexes=list(range(10_000)),
                        countedPods=[f"{i:036}" for i in range(10_000)])


if __name__ == "__main__":
    unittest.main()
