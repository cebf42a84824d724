"""The operator's process against a real API server: leading, waiting, stopping, losing the lease."""
import atexit
import json
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

from api_server import BIN, JOBS, ROOT, job, server, training_job
from kubelet import Kubelet, ended, running
from slowness import SLOWNESS

OPERATOR = BIN / "lockstep-operator"
SECONDS = 40 * SLOWNESS  # for what takes one or two
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/lockstep-operator"
PODS = "/api/v1/namespaces/default/pods"
ALL_PODS = PODS + "?gracePeriodSeconds=0"
# No garbage collector runs here. A Service of a deleted job would keep its namesake's pods from starting.
OUR_SERVICES = "/api/v1/namespaces/default/services?labelSelector=training.lockstep.dev/job-uid"


def eventually(holds):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {SECONDS} s")


class Operator:
    """One process, its log as a list of records."""

    def __init__(self, *flags, kubeconfig=None, program=OPERATOR):
        self.process = subprocess.Popen(
            [program, "--kubeconfig", kubeconfig or server().kubeconfig, "--metrics-bind-address",
             "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0", *flags],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="backslashreplace")
        atexit.register(self.kill)  # an interrupted test does not clean up
        self.log = []
        self.strange = []  # lines that are no records, of a library or a sanitizer
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            try:
                record = json.loads(line)
                self.log.append({**record, "message": record["message"]})
            except (ValueError, TypeError, KeyError):
                self.strange.append(line)

    def said(self, message):
        return next((record for record in list(self.log) if record["message"] == message), None)

    def wait_for(self, message):
        return eventually(lambda: self.said(message))

    def page(self, path):
        """(status, body)"""
        serving = self.wait_for("serving")
        port = serving["metricsPort" if path == "/metrics" else "probePort"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def end(self):
        """The exit code, after a log of nothing but records."""
        code = self.process.wait(SECONDS)
        self.reader.join()
        self.process.stderr.close()
        if code == -signal.SIGKILL and self.strange and not self.strange[-1].endswith("\n"):
            self.strange.pop()  # it was being written
        if self.strange:
            raise AssertionError("the operator's log has other lines than records:\n" + "".join(self.strange))
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        if not self.process.stderr.closed:
            self.end()


class OperatorLogTest(unittest.TestCase):
    def test_what_is_no_record_hides_none_that_follows_and_fails_the_test(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "operator"
            program.write_text("#!/bin/sh\n(echo [libprotobuf ERROR]; echo 7; echo '{\"message\":\"leading\"}') >&2\n")
            program.chmod(0o755)
            started = Operator(kubeconfig="none", program=program)
            started.wait_for("leading")
            with self.assertRaisesRegex(AssertionError, "libprotobuf ERROR.\n7"):
                started.kill()


class OperatorTest(unittest.TestCase):
    def start(self, *flags, **options):
        started = Operator(*flags, **options)
        self.addCleanup(started.kill)
        return started

    def setUp(self):
        server().call("DELETE", LEASE)

    def ready(self, operator):
        return eventually(lambda: operator.page("/readyz")[0] == 200)

    def test_the_leader_serves_jobs_and_gives_the_lease_up_when_it_is_told_to_stop(self):
        leader = self.start()
        leader.wait_for("leading")
        self.ready(leader)
        server().create(job("led"))
        self.addCleanup(server().call, "DELETE", ALL_PODS)
        eventually(lambda: server().call("GET", PODS + "/led-worker-0")[0] == 200)
        self.assertEqual((200, True), (leader.page("/healthz")[0], "ok" in leader.page("/healthz")[1]))
        metrics = leader.page("/metrics")[1]
        self.assertIn("lockstep_operator_leader 1\n", metrics)
        self.assertIn('lockstep_operator_cache_synced{resource="pods"} 1\n', metrics)
        self.assertTrue(re.search(
            r'^lockstep_operator_kube_client_requests_total\{(?=.*"create")(?=.*"pods")(?=.*"OK")',
            metrics, re.MULTILINE), metrics)
        leader.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        self.assertEqual(0, leader.end())
        self.assertLess(time.monotonic() - began, 8 * SLOWNESS)
        self.assertEqual("", server().call("GET", LEASE)[1]["spec"].get("holderIdentity", ""))

    def test_jobs_that_another_controller_runs_are_no_training_and_no_failure_of_its_own(self):
        operator = self.start()
        operator.wait_for("leading")
        failed = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
                  "reason": "ReplicaFailed", "message": "elsewhere"}
        for name, status in {"mirrored": {"state": "Running"},
                             "lost": {"state": "Failed", "conditions": [failed]}}.items():
            foreign = training_job(name)
            foreign["spec"]["managedBy"] = "example.org/dispatcher"
            server().create(foreign)
            self.addCleanup(server().call, "DELETE", f"{JOBS}/{name}")
            server().call("PATCH", f"{JOBS}/{name}/status", {"status": status})

        def metrics():
            text = operator.page("/metrics")[1]
            seen = all(f'state="{state}"' in text for state in ("Running", "Failed"))
            return text if seen else None

        text = eventually(metrics)
        self.assertIn("lockstep_operator_jobs_training 0\n", text)
        self.assertIn('lockstep_operator_jobs_failed_total{reason="ReplicaFailed"} 0\n', text)
        self.assertIn("lockstep_operator_jobs_created_total 0\n", text)

    def test_a_second_one_is_ready_acts_not_and_leads_when_the_first_leaves(self):
        first = self.start()
        first.wait_for("leading")
        second = self.start()
        self.ready(second)
        self.assertIsNone(second.said("leading"))
        self.assertIn("lockstep_operator_leader 0\n", second.page("/metrics")[1])
        calls = re.findall(r"^lockstep_operator_kube_client_requests_total\{.*",
                           second.page("/metrics")[1], re.MULTILINE)
        self.assertEqual([], [call for call in calls if '"leases"' not in call and 'verb="list"' not in call])
        first.process.send_signal(signal.SIGTERM)
        self.assertEqual(0, first.end())
        began = time.monotonic()
        second.wait_for("leading")
        self.assertLess(time.monotonic() - began, 10 * SLOWNESS)  # a released lease is not waited out
        self.ready(second)

    def test_one_that_could_not_serve_jobs_is_not_ready_and_so_replaces_none_that_can(self):
        """In a rolling upgrade, say, to a gang scheduler whose CRD the cluster lacks."""
        first = self.start()
        first.wait_for("leading")
        self.ready(first)
        second = self.start("--gang-scheduler-name=volcano")
        second.wait_for("standing for election")
        eventually(lambda: "[-]access: podgroups: " in second.page("/readyz")[1])
        self.assertIn("[+]leader-election: ok", second.page("/readyz")[1])
        self.assertEqual(503, second.page("/readyz")[0])
        self.assertEqual((200, None), (first.page("/readyz")[0], second.said("leading")))

    def test_operators_with_leases_of_different_names_both_lead(self):
        self.addCleanup(server().call, "DELETE", LEASE.replace("lockstep-operator", "other"))
        first = self.start()
        first.wait_for("leading")
        other = self.start("--leader-election-name=other", "--namespace=kube-public")
        other.wait_for("leading")
        holder = server().call("GET", LEASE.replace("lockstep-operator", "other"))[1]["spec"]["holderIdentity"]
        self.assertEqual(other.said("standing for election")["identity"], holder)
        self.assertIsNone(first.process.poll())

    def test_whoever_loses_the_lease_exits_with_1(self):
        leader = self.start()
        leader.wait_for("leading")
        server().call("PATCH", LEASE, {"spec": {"holderIdentity": "another"}})
        self.assertEqual(1, leader.end())
        self.assertIn("another", leader.said("lost the lease: exiting")["reason"])

    def test_without_election_it_works_at_once_and_makes_no_lease(self):
        alone = self.start("--leader-elect=false")
        alone.wait_for("leading")
        self.ready(alone)
        self.assertEqual(404, server().call("GET", LEASE)[0])

    def test_what_is_written_of_a_job_is_its_status_alone(self):
        self.start("--leader-elect=false")
        mine = job("kept", restartScope="Pod")
        mine["metadata"].update(finalizers=["example.com/mine"], labels={"team": "vision"},
                                annotations={"example.com/note": "x"})
        created = server().create(mine)
        self.addCleanup(server().call, "DELETE", ALL_PODS)
        self.addCleanup(server().call, "DELETE", JOBS + "/kept")
        self.addCleanup(server().patch, "kept", {"metadata": {"finalizers": None}})

        def seen():
            found = server().call("GET", JOBS + "/kept")[1]
            return found if found.get("status", {}).get("conditions") else None
        written = eventually(seen)
        self.assertEqual(created["spec"], written["spec"])
        managed = []
        for found in (created, written):
            del found["metadata"]["resourceVersion"]
            managed.append([entry["fieldsV1"] for entry in found["metadata"].pop("managedFields")
                            if entry.get("subresource") != "status"])
        self.assertEqual(created["metadata"], written["metadata"])
        self.assertEqual(*managed, "who wrote a label or the spec goes on owning it")

    def test_the_server_takes_pods_with_what_kubeflows_users_expect(self):
        self.start("--cluster-domain=k8s.example", "--kubeflow-labels").wait_for("leading")
        server().create(job("flow"))
        self.addCleanup(server().call, "DELETE", ALL_PODS)
        path = f"{PODS}/flow-worker-0"
        eventually(lambda: server().call("GET", path)[0] == 200)
        pod = server().call("GET", path)[1]
        self.assertEqual(["flow.default.svc.k8s.example"], pod["spec"]["dnsConfig"]["searches"])
        prefix = "training.kubeflow.org/"
        labels = pod["metadata"]["labels"].items()
        self.assertEqual({"job-name": "flow", "replica-type": "worker", "replica-index": "0"},
                         {name[len(prefix):]: value for name, value in labels if name.startswith(prefix)})
        self.assertIn({"name": "PYTHONUNBUFFERED", "value": "1"}, pod["spec"]["containers"][0]["env"])

    def test_a_job_that_was_applied_can_be_applied_by_the_server_from_then_on(self):
        """kubectl takes its own fields over, and so removes what is no longer said, if it is still seen
        to have applied the job."""
        self.start("--leader-elect=false")
        applied = job("applied", runPolicy={"backoffLimit": 3})
        applied["metadata"]["labels"] = {"team": "vision"}
        server().kubectl("apply", "-f", "-", stdin=json.dumps(applied))
        self.addCleanup(server().call, "DELETE", ALL_PODS)
        self.addCleanup(server().call, "DELETE", JOBS + "/applied")
        eventually(lambda: server().call("GET", JOBS + "/applied")[1].get("status", {}).get("conditions"))
        del applied["metadata"]["labels"]
        server().kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(applied))
        self.assertNotIn("labels", server().call("GET", JOBS + "/applied")[1]["metadata"])

    def test_the_commands_for_the_use_of_a_job_do_what_the_page_says(self):
        """On pods that run until the job is suspended, and then to their end."""
        page = (ROOT / "docs" / "kubernetes.md").read_text()
        commands = re.search(r"^## Use\n\n```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL).group(1)
        server().call("DELETE", JOBS)
        server().call("DELETE", ALL_PODS)
        lives = iter(2 * [[(0, running)]] + 2 * [[(0, running), (0, ended)]])
        kubelet = Kubelet("default", lambda pod: [(seconds, say(pod)) for seconds, say in next(lives)])
        self.addCleanup(kubelet.stop)
        self.addCleanup(server().call, "DELETE", ALL_PODS)
        self.start("--leader-elect=false").wait_for("leading")
        server().shell(f"cd {ROOT}\n{commands}")
        self.assertEqual("Succeeded", server().call("GET", JOBS + "/quickstart")[1]["status"]["state"])

    def test_a_server_that_cannot_be_reached_is_named_and_no_reason_to_restart(self):
        config = json.loads(server().kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
        path = server().folder / "unreachable"
        path.write_text(json.dumps(config))
        waiting = self.start(kubeconfig=path)
        eventually(lambda: "127.0.0.1" in waiting.page("/readyz")[1])
        self.assertEqual(503, waiting.page("/readyz")[0])
        self.assertIn("default/lockstep-operator", waiting.page("/readyz")[1])
        self.assertEqual(200, waiting.page("/healthz")[0])
        waiting.process.send_signal(signal.SIGTERM)
        self.assertEqual(0, waiting.end())

    def test_a_taken_address_is_named(self):
        first = self.start("--leader-elect=false")
        port = first.wait_for("serving")["probePort"]
        second = self.start("--health-probe-bind-address", f"127.0.0.1:{port}")
        self.assertEqual(1, second.end())
        self.assertIn(f"127.0.0.1:{port}", second.said("cannot start")["error"])


if __name__ == "__main__":
    unittest.main()
