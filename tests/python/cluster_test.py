"""The client on a real API server with a real operator; a fake kubelet says what becomes of the pods."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import urllib.parse

from kubernetes.config import incluster_config

import lockstep
from api_server import BIN, JOBS, server
from job_test import BUNDLED, OWN
from kubelet import Kubelet, ended, running
from node import Node
from operator_test import ALL_PODS, OUR_SERVICES, PODS, Operator, eventually
from slowness import SLOWNESS

from lockstep import Client, TrainingJob

SECONDS = 60 * SLOWNESS  # for what takes one or two


def never_ends(pod):
    yield 0, running(pod)


def succeeds(pod):
    yield 0, running(pod)
    yield 0.1, ended(pod)


def fails(pod):
    yield 0, running(pod)
    yield 0.1, ended(pod, 3, "no such file: /data")


# What becomes of a pod, by its job's name; `never_ends` otherwise.
LIVES = {"ends": succeeds, "fails": fails}


def own(name, **arguments):
    return TrainingJob(name, image="example.org/image", **arguments)


def token_of(account):
    """Of a service account, which is made if there is none."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    server().call("POST", accounts, {"metadata": {"name": account}})
    return server().call("POST", f"{accounts}/{account}/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})[1]["status"]["token"]


@contextlib.contextmanager
def in_pod(token):
    """As in a pod of the namespace `default`, without a kubeconfig."""
    url = urllib.parse.urlsplit(json.loads(server().kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "token").write_text(token)
        (folder / "namespace").write_text("default")
        (folder / "ca.crt").write_bytes((server().folder / "ca.crt").read_bytes())
        with unittest.mock.patch.dict(os.environ, HOME=name, KUBERNETES_SERVICE_HOST=url.hostname,
                                      KUBERNETES_SERVICE_PORT=str(url.port)), \
                unittest.mock.patch("lockstep._api.ACCOUNT", folder), \
                unittest.mock.patch.multiple(incluster_config, SERVICE_TOKEN_FILENAME=str(folder / "token"),
                                             SERVICE_CERT_FILENAME=str(folder / "ca.crt")):
            os.environ.pop("KUBECONFIG", None)
            yield


def log_threads():
    return [thread for thread in threading.enumerate() if thread.name == "lockstep-logs"]


def elastic(name, replicas):
    return own(name, replicas=replicas, framework="pytorch", spec={"elastic": {"minReplicas": 1, "maxReplicas": 5}})


class ClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = Client(kubeconfig=server().kubeconfig)
        cls.operator = Operator("--leader-elect=false")
        cls.operator.wait_for("leading")
        cls.kubelet = Kubelet("default", cls.life)

    @classmethod
    def life(cls, pod):
        return LIVES.get(pod["metadata"]["labels"]["training.lockstep.dev/job-name"], never_ends)(pod)

    @classmethod
    def tearDownClass(cls):
        cls.kubelet.stop()
        cls.operator.kill()

    def tearDown(self):
        for path in (JOBS, ALL_PODS, OUR_SERVICES):
            server().call("DELETE", path)

    def error(self, kind, call, *arguments, **named):
        with self.assertRaises(kind) as raised:
            call(*arguments, **named)
        return raised.exception

    def patch(self, name, change, subresource=""):
        self.assertIsNone(server().patch(name, change, subresource))

    def pods(self):
        return {pod["metadata"]["name"]: pod for pod in server().call("GET", PODS)[1]["items"]}


class LifecycleTest(ClusterTest):
    def test_a_job_is_created_and_waited_for(self):
        created = self.client.create(own("ends", replicas=2))
        self.assertEqual(("ends", "default", False), (created.name, created.namespace, created.status.finished))
        done = self.client.wait("ends", timeout=SECONDS)
        self.assertEqual(("Succeeded", created.uid), (done.status.state, done.uid))
        self.assertIsNotNone(done.status.completion_time.tzinfo)
        self.assertEqual(done.raw, self.client.get("ends").raw)
        self.assertEqual("Succeeded", self.client.wait("ends", until="Running", timeout=SECONDS).status.state)

    def test_a_failure_says_who_failed_how_and_why(self):
        self.client.create(own("fails", spec={"replicaSpecs": {"Worker": {"restartPolicy": "ExitCode"}}}))
        error = self.error(lockstep.JobFailed, self.client.wait, "fails", timeout=SECONDS)
        self.assertIn("job default/fails failed: worker-0 exited with 3", str(error))
        self.assertIn("no such file: /data", str(error))
        self.assertEqual(("worker", 0, 3), (error.failure.role, error.failure.index, error.failure.exit_code))
        self.assertTrue(error.job.status.failed)
        self.assertTrue(self.client.wait("fails", until="Failed", timeout=SECONDS).status.failed)
        self.error(lockstep.JobFailed, list, self.client.progress("fails"))

    def test_a_wait_that_takes_too_long_says_what_it_saw(self):
        self.client.create(own("long"))
        self.client.wait("long", until="Running", timeout=SECONDS)
        self.assertEqual("long", self.client.wait("long", until="Running", timeout=0).name)
        error = self.error(TimeoutError, self.client.wait, "long", timeout=3)
        self.assertEqual("job default/long: found state Running after 3 s, expected Succeeded", str(error))
        self.assertEqual("long", error.job.name)
        self.assertEqual("long", self.client.wait("long", until=lambda job: job.status.ready_replicas == "1/1",
                                                  timeout=SECONDS).name)
        self.assertIn("found 'running', expected one of", str(self.error(ValueError, self.client.wait, "long",
                                                                          until="running")))

    def test_a_job_that_is_deleted_during_a_wait_ends_it(self):
        self.client.create(own("gone"))

        def until(_job):
            self.client.delete("gone")
            self.client.create(own("gone"))  # another job of this name
            return False
        error = self.error(lockstep.NotFound, self.client.wait, "gone", until=until, timeout=SECONDS)
        self.assertEqual("job default/gone was deleted", str(error))

    def test_jobs_are_suspended_and_resumed(self):
        self.client.create(own("paused"))
        self.client.wait("paused", until="Running", timeout=SECONDS)
        self.assertTrue(self.client.suspend("paused").spec["suspend"])
        self.assertFalse(self.client.wait("paused", until="Suspended", timeout=SECONDS).status.holds("Running"))
        eventually(lambda: not self.pods())
        self.client.resume("paused")
        # What the operator had said before the job was resumed does not count.
        self.assertEqual("1/1", self.client.wait("paused", until="Running", timeout=SECONDS).status.ready_replicas)

    def test_an_elastic_job_is_scaled(self):
        self.client.create(elastic("scaled", 2))
        self.client.wait("scaled", until=lambda job: job.status.ready_replicas == "2/2", timeout=SECONDS)
        self.assertEqual(4, self.client.scale("scaled", worker=4).spec["replicaSpecs"]["Worker"]["replicas"])
        self.client.wait("scaled", until=lambda job: job.status.ready_replicas == "4/4", timeout=SECONDS)
        self.assertIn("from elastic.minReplicas to elastic.maxReplicas",
                      str(self.error(lockstep.InvalidJob, self.client.scale, "scaled", worker=6)))

    def test_a_delete_waits_for_the_object_to_be_gone(self):
        job = own("held")
        job.raw["metadata"]["finalizers"] = ["example.com/held"]
        self.client.create(job)
        error = self.error(lockstep.WaitTimeout, self.client.delete, "held", wait=True, timeout=3)
        self.assertIn("found it after 3 s, expected that it is deleted; finalizers: ['example.com/held']", str(error))
        waits = threading.Event()
        each = self.client._each

        def each_once_it_waits(*arguments):
            waits.set()
            return each(*arguments)

        def release():
            waits.wait(SECONDS)
            Client(kubeconfig=server().kubeconfig)._merge("held", {"metadata": {"finalizers": None}})

        self.client._each = each_once_it_waits
        released = threading.Thread(target=release)
        released.start()
        self.client.delete("held", wait=True, timeout=SECONDS)
        released.join()
        self.assertIn("job default/held: ", str(self.error(lockstep.NotFound, self.client.get, "held")))

    def test_events_of_the_job_and_its_pods(self):
        self.client.create(own("fails", spec={"replicaSpecs": {"Worker": {"restartPolicy": "ExitCode"}}}))
        job = self.client.wait("fails", until="Failed", timeout=SECONDS)
        pod = {"kind": "Pod", "namespace": "default", "name": "fails-worker-0"}
        for about, name in ((pod, "mine"), ({**pod, "name": "other-fails-worker-0"}, "not-mine")):
            server().call("POST", "/api/v1/namespaces/default/events", {
                "metadata": {"name": name}, "involvedObject": about, "reason": "BackOff", "message": "pulling",
                "type": "Warning", "count": 3, "lastTimestamp": "2100-01-01T00:00:00Z"})
            self.addCleanup(server().call, "DELETE", f"/api/v1/namespaces/default/events/{name}")
        eventually(lambda: "TrainingJob/fails" in [one.about for one in self.client.events("fails")])
        found = self.client.events("fails")
        self.assertEqual(("Pod/fails-worker-0", "BackOff", "pulling", 3, 2100),
                         (found[-1].about, found[-1].reason, found[-1].message, found[-1].count, found[-1].time.year))
        self.assertNotIn("Pod/other-fails-worker-0", [one.about for one in found])
        self.assertTrue(job.status.failed)


class StatusTest(ClusterTest):
    """On a job that the operator leaves alone, so that the test says what its status is."""

    def test_a_condition_of_an_earlier_spec_does_not_count(self):
        self.client.create(own("changed", spec={"managedBy": "example.com/test"}))
        stamp = "2026-01-31T12:00:00Z"
        condition = {"type": "Running", "status": "True", "reason": "R", "message": "M", "lastTransitionTime": stamp}
        self.patch("changed", {"status": {"observedGeneration": 1, "conditions": [condition]}}, "/status")
        self.client.wait("changed", until="Running", timeout=SECONDS)
        self.client.suspend("changed")
        self.error(TimeoutError, self.client.wait, "changed", until="Running", timeout=3)
        self.patch("changed", {"status": {"observedGeneration": 2}}, "/status")
        self.client.wait("changed", until="Running", timeout=SECONDS)

    def test_each_progress_is_yielded_until_the_job_succeeds(self):
        self.client.create(TrainingJob("reports", training=BUNDLED.spec["training"],
                                       spec={"managedBy": "example.com/test"}))
        states = [{"progress": {"step": 1, "loss": 2.5}}, {"state": "Running"},
                  {"progress": {"step": 2, "loss": 1.5, "totalSteps": 2, "updateTime": "2026-01-31T12:00:00Z"}},
                  {"conditions": [{"type": "Succeeded", "status": "True", "reason": "R", "message": "M",
                                   "lastTransitionTime": "2026-01-31T12:00:00Z"}]}]

        def say_next():
            self.patch("reports", {"status": states.pop(0)}, "/status")

        say_next()
        seen = []
        for progress in self.client.progress("reports", timeout=SECONDS):
            seen.append((progress.step, progress.loss, progress.total_steps))
            while states and "progress" not in states[0]:
                say_next()
            if states:
                say_next()
        self.assertEqual([(1, 2.5, None), (2, 1.5, 2)], seen)
        self.assertEqual(12, progress.update_time.hour)


class ApplyTest(ClusterTest):
    def test_a_job_is_applied_twice_and_what_is_no_longer_said_is_removed(self):
        first = self.client.apply(own("applied", labels={"team": "vision"}, spec={"runPolicy": {"backoffLimit": 3}}))
        second = self.client.apply(own("applied", spec={"runPolicy": {"backoffLimit": 4}}))
        self.assertEqual((first.uid, 3, 4), (second.uid, first.spec["runPolicy"]["backoffLimit"],
                                             second.spec["runPolicy"]["backoffLimit"]))
        self.assertNotIn("labels", second.raw["metadata"])
        same = self.client.apply(own("applied", spec={"runPolicy": {"backoffLimit": 4}}))
        self.assertEqual(second.raw["metadata"]["generation"], same.raw["metadata"]["generation"])

    def test_what_this_program_has_created_scaled_or_suspended_is_its_own(self):
        self.client.create(elastic("mine", 2))
        self.client.scale("mine", worker=3)
        self.client.suspend("mine")
        job = elastic("mine", 4)
        job.spec["suspend"] = False
        applied = self.client.apply(job)
        self.assertEqual((False, 4), (applied.spec["suspend"], applied.spec["replicaSpecs"]["Worker"]["replicas"]))

    def test_what_another_program_has_set_is_a_conflict(self):
        job = own("shared", spec={"runPolicy": {"backoffLimit": 3}})
        server().kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=job.to_yaml())
        job.spec["runPolicy"]["backoffLimit"] = 4
        error = self.error(lockstep.Conflict, self.client.apply, job)
        self.assertIn('job default/shared: ', str(error))
        self.assertIn('conflict with "other"', str(error))
        self.assertEqual(4, self.client.apply(job, force=True).spec["runPolicy"]["backoffLimit"])

    def test_a_second_create_and_a_bad_job_are_refused_by_name(self):
        self.client.create(own("once"))
        self.assertIn("job default/once: ", str(self.error(lockstep.JobExists, self.client.create, own("once"))))
        for call in (self.client.create, self.client.apply):
            error = self.error(lockstep.InvalidJob, call, own("wrong", spec={"restartScope": "Everything"}))
            self.assertIn("spec.restartScope", str(error))
            error = self.error(lockstep.InvalidJob, call, own("wrong", spec={"unknown": 1}))
            self.assertIn("spec.unknown", str(error).replace('"', ""))

    def test_a_job_of_another_namespace_is_refused(self):
        for call in (self.client.create, self.client.apply):
            error = self.error(lockstep.InvalidJob, call, own("other", namespace="elsewhere"))
            self.assertIn("job elsewhere/other: found the namespace elsewhere, expected none or the client's, default",
                          str(error))
        self.assertEqual("default", self.client.create(own("same", namespace="default")).namespace)

    def test_what_the_builder_makes_is_valid_on_the_server(self):
        here = TrainingJob.from_dict({**OWN.to_dict(), "metadata": {"name": "own"}})
        for job in (here, BUNDLED):
            self.assertEqual(job.spec["replicaSpecs"]["Worker"]["replicas"],
                             self.client.create(job, dry_run=True).spec["replicaSpecs"]["Worker"]["replicas"])
            self.client.apply(job, dry_run=True)
            self.error(lockstep.NotFound, self.client.get, job.name)

    def test_jobs_are_listed(self):
        for name in ("one", "two"):
            self.client.create(own(name, labels={"name": name}, spec={"suspend": True}))
        with unittest.mock.patch("lockstep._api.PAGE", 1):
            self.assertEqual(["one", "two"], sorted(job.name for job in self.client.list()))
        listed, = self.client.list(label_selector="name=two")
        self.assertEqual(self.client.get("two").to_dict(), listed.to_dict())
        self.assertEqual([], Client("elsewhere", kubeconfig=server().kubeconfig).list())


class LogsTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.node = Node()
        cls.addClassCleanup(cls.node.stop)
        super().setUpClass()

    @classmethod
    def life(cls, pod):
        cls.node.adopt(pod)
        yield from never_ends(pod)

    def started(self, name, **arguments):
        job = own(name, **arguments)
        for role in job.spec["replicaSpecs"].values():
            role["template"]["spec"]["terminationGracePeriodSeconds"] = 0  # nothing here would end it
        self.client.create(job)
        self.client.wait(name, until="Running", timeout=SECONDS)

    def test_the_lines_of_all_replicas_are_read_in_their_order(self):
        self.started("talks", replicas={"Chief": 1, "Worker": 2})
        for pod, text in (("worker-1", "b"), ("chief-0", "ü: 1"), ("worker-0", "a1"), ("worker-0", ""),
                          ("worker-0", "a2")):
            self.node.write(f"talks-{pod}", text)
        self.assertEqual(["chief-0: ü: 1", "worker-0: a1", "worker-0: ", "worker-0: a2", "worker-1: b"],
                         list(self.client.logs("talks")))
        self.assertEqual(["worker-1: b"], list(self.client.logs("talks", role="Worker", index=1)))
        self.assertEqual(["worker-0: a2", "worker-1: b"], list(self.client.logs("talks", role="worker", tail=1)))
        error = self.error(lockstep.NotFound, list, self.client.logs("talks", role="worker", index=2))
        self.assertEqual("job default/talks has no worker-2; it has: 1 chief, 2 worker", str(error))

    def test_a_log_is_followed_over_lost_connections_and_new_pods_until_the_job_ends(self):
        self.started("follows", replicas=2, spec={
            "restartScope": "Pod", "successPolicy": "AllWorkers",
            "replicaSpecs": {"Worker": {"restartPolicy": "ExitCode"}}})
        lines = self.client.logs("follows", follow=True)
        self.node.write("follows-worker-0", "first")
        self.assertEqual("worker-0: first", next(lines))
        self.node.cut("follows-worker-0")
        self.node.write("follows-worker-0", "second")
        self.assertEqual("worker-0: second", next(lines))
        self.end("follows-worker-1", 137)
        eventually(lambda: self.pods().get("follows-worker-1", {}).get("status", {}).get("phase") == "Running")
        self.node.write("follows-worker-1", "again")
        self.assertEqual("worker-1: again", next(lines))
        for pod in ("follows-worker-0", "follows-worker-1"):
            self.node.write(pod, "last")
            self.end(pod, 0)
        self.assertEqual(["worker-0: last", "worker-1: last"], sorted(lines))
        self.assertEqual([], log_threads())

    def test_a_pod_that_runs_on_after_the_end_is_not_followed(self):
        self.started("keeps", replicas=2, spec={"runPolicy": {"cleanPodPolicy": "None"}})
        lines = self.client.logs("keeps", follow=True)
        self.node.write("keeps-worker-1", "a")
        self.assertEqual("worker-1: a", next(lines))
        self.node.write("keeps-worker-0", "last")
        self.end("keeps-worker-0", 0)
        self.assertEqual(["worker-0: last"], list(lines))
        self.assertEqual("Running", self.pods()["keeps-worker-1"]["status"]["phase"])
        self.assertEqual([], log_threads())

    def test_a_reader_that_stops_leaves_no_thread(self):
        self.started("left", replicas=2)
        self.node.write("left-worker-1", "a")
        for line in self.client.logs("left", follow=True):
            self.assertEqual("worker-1: a", line)
            break
        eventually(lambda: not log_threads())

    def test_a_follower_ends_with_a_job_that_is_deleted(self):
        self.started("removed")
        self.node.write("removed-worker-0", "a")
        lines = self.client.logs("removed", follow=True)
        self.assertEqual("worker-0: a", next(lines))
        self.client.delete("removed")
        self.node.end("removed-worker-0")
        server().call("DELETE", ALL_PODS)  # as the garbage collector would
        self.assertEqual([], list(lines))

    def end(self, pod, code):
        """A pod's container ends."""
        self.node.end(pod)
        self.assertEqual(200, server().call("PATCH", f"{PODS}/{pod}/status",
                                            {"status": ended(self.pods()[pod], code)})[0])


def writes_its_cluster(path: str) -> None:
    """$(RANK) $$ $HOME"""
    import os

    rank = os.environ["RANK"]
    with open(f"{path}-{rank}", "w") as file:
        file.write(os.environ["TF_CONFIG"])


class TrainTest(ClusterTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.function = {"image": "example.org/image", "replicas": 2, "args": {"path": str(self.folder / "seen")},
                         "spec": {"successPolicy": "AllWorkers"}}

    def check(self, rank):
        config = json.loads((self.folder / f"seen-{rank}").read_text())
        self.assertEqual({"type": "worker", "index": rank}, config["task"])

    def test_a_function_runs_with_the_cluster_that_the_operator_tells_it(self):
        self.assertEqual("writes-its-cluster", self.client.train(writes_its_cluster, **self.function).name)
        pod = eventually(lambda: self.pods().get("writes-its-cluster-worker-1"))
        container = pod["spec"]["containers"][0]
        command = [sys.executable if word == "python3" else word.replace("$$", "$") for word in container["command"]]
        subprocess.run(command, check=True, env={**os.environ, **{
            one["name"]: one["value"] for one in container["env"] if "value" in one}})
        self.check(1)

    def test_the_same_job_runs_on_this_machine(self):
        job = TrainingJob.from_function(writes_its_cluster, **self.function)
        done = subprocess.run([BIN / "lockstep", "run", "-", "--work-dir", self.folder / "run", "--timeout", "60"],
                              input=job.to_yaml(), check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.assertEqual(0, done.returncode, done.stdout)
        for rank in (0, 1):
            self.check(rank)


class ConfigurationTest(unittest.TestCase):
    def test_the_namespace_is_the_contexts(self):
        config = json.loads(server().kubeconfig.read_text())
        config["contexts"].append({"name": "other", "context": {**config["contexts"][0]["context"],
                                                                "namespace": "kube-public"}})
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "kubeconfig")
            path.write_text(json.dumps(config))
            self.assertEqual("default", Client(kubeconfig=path).namespace)
            self.assertEqual("kube-public", Client(kubeconfig=path, context="other").namespace)
            self.assertEqual("mine", Client("mine", kubeconfig=path).namespace)
            with unittest.mock.patch.dict(os.environ, KUBECONFIG=str(path)):
                self.assertEqual("kube-public", Client(context="other").namespace)
            with self.assertRaisesRegex(lockstep.ApiError, "context: found 'nothing', expected one of test, other"):
                Client(kubeconfig=path, context="nothing")

    def test_a_context_needs_no_current_one(self):
        config = json.loads(server().kubeconfig.read_text())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "kubeconfig")
            for current, said in ((None, "Expected key current-context"),
                                  ("removed", "current-context: found 'removed', expected one of test")):
                path.write_text(json.dumps({**config, "current-context": current}))
                self.assertEqual("default", Client(kubeconfig=path, context="test").namespace)
                with self.assertRaisesRegex(lockstep.ApiError, said):
                    Client(kubeconfig=path)

    def test_what_is_no_kubeconfig_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "kubeconfig")
            for written in (b"a: [", b"\xff", b""):
                path.write_bytes(written)
                with self.assertRaisesRegex(lockstep.ApiError, f"found no configuration of a cluster in {path}: "):
                    Client(kubeconfig=path)
            for other, said in ((folder, "Is a directory"), (path.with_name("none"), "there is no such file")):
                with self.assertRaisesRegex(lockstep.ApiError, f"in {other}: .*{said}"):
                    Client(kubeconfig=other)

    def test_without_any_configuration_it_says_where_it_looked(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, HOME=folder):
            for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
                os.environ.pop(name, None)
            with self.assertRaisesRegex(lockstep.ApiError, "found no configuration of a cluster in ~/.kube/config"):
                Client()

    def test_an_account_without_rights_is_told_so(self):
        token = token_of("nobody")
        said = "job default/x: .*403: .*nobody.*cannot get"
        with in_pod(token), self.assertRaisesRegex(lockstep.ApiError, said) as raised:
            Client("default").get("x")
        self.assertEqual(403, raised.exception.status)
        self.assertNotIn(token, str(raised.exception))

    def test_in_a_pod_it_is_the_pods_account_with_no_more_rights_than_the_page_says(self):
        rules = [{"apiGroups": ["training.lockstep.dev"], "resources": ["trainingjobs"],
                  "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
                 {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
                 {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
                 {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}]
        token = token_of("notebook")
        about = {"metadata": {"name": "notebook"}}
        roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        for kind, body in (("roles", {**about, "rules": rules}), ("rolebindings", {
                **about, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "notebook"},
                "subjects": [{"kind": "ServiceAccount", "name": "notebook", "namespace": "default"}]})):
            self.assertEqual(201, server().call("POST", f"{roles}/{kind}", body)[0])
            self.addCleanup(server().call, "DELETE", f"{roles}/{kind}/notebook")
        self.addCleanup(server().call, "DELETE", JOBS)
        eventually(lambda: server().call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {
            "user": "system:serviceaccount:default:notebook", "resourceAttributes": {
                "namespace": "default", "verb": "list", "resource": "events"}}})[1]["status"]["allowed"])
        with in_pod(token):
            self.use(Client())

    def use(self, client):
        self.assertEqual("default", client.namespace)
        client.create(own("rights", spec={"suspend": True, "managedBy": "example.com/test"}))
        client.apply(own("rights", spec={"suspend": True, "managedBy": "example.com/test"}))
        client.scale("rights", worker=2)
        client.resume("rights")
        client.suspend("rights")
        self.assertEqual(["rights"], [job.name for job in client.list()])
        with self.assertRaises(TimeoutError):
            client.wait("rights", timeout=3)
        self.assertEqual(([], []), (list(client.logs("rights")), list(client.events("rights"))))
        said = []
        following = threading.Thread(target=lambda: said.append(list(client.logs("rights", follow=True))))
        following.start()
        eventually(log_threads)
        client.delete("rights", wait=True, timeout=SECONDS)
        following.join(SECONDS)
        self.assertEqual([[]], said)


if __name__ == "__main__":
    unittest.main()
