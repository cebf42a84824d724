"""A tenant who attacks the operator with all that he may write, while another one's jobs run."""
import collections
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import threading
import time
import typing
import unittest

from account import MANIFESTS, install, start_operator
from api_server import job, role, server, training_job
from corpus import nested
from hostile_trainers import Trainers
from kubelet import Kubelet, ended, running
from upgrade_test import older

JOBS = int(os.environ.get("LOCKSTEP_HONEST_JOBS", "100"))
WORKERS = 2
TRAINING_SECONDS = 3
LIMIT = 600  # seconds, of a wave of honest jobs; it takes some ten
MEMORY = 100e6
HOARDED = 120  # jobs
HOARDED_PODS = 50
SWOLLEN_JOBS = 4  # as many as are looked at at a time
SWOLLEN_PODS = 8  # of each; as many as are deleted at a time
TRIES = 20  # of a call that the API server has no time for
HONEST, HOSTILE, FULL = "honest", "hostile", "hostile-full"  # the last has a quota that is used up
MALLORY = {"Impersonate-User": "mallory", "Impersonate-Group": "system:authenticated"}
LABEL = "training.lockstep.dev/"
GROUP = "/apis/training.lockstep.dev/v1/namespaces/"
LIES = itertools.cycle(({"step": -1}, {"step": 2**63}, {"step": 1, "updateTime": "9999-12-31T23:59:59Z"},
                        {"step": 1e300}, {"epoch": "x" * 4000}, [[]]))


def is_terminal(found):
    return any(condition["status"] == "True" and condition["type"] in ("Succeeded", "Failed")
               for condition in found.get("status", {}).get("conditions", []))


def peak_memory(process):
    """Bytes that were resident at most."""
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    return 1024 * int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[1])


def check_alive(operator):
    if operator.process.poll() is not None:
        raise AssertionError(f"the operator ended with {operator.process.returncode}: {operator.log[-3:]}")


def jobs(namespace):
    return GROUP + namespace + "/trainingjobs"


def core(namespace, plural):
    return f"/api/v1/namespaces/{namespace}/{plural}"


class Round:
    """What a tenant makes, by a connection of his thread's, until he undoes it."""

    def __init__(self, connection, name, stop):
        self.name = name
        self._connection = connection
        self._stop = stop
        self._made = []

    def call(self, method, path, body=None, expected=(200, 201)):
        """The answer. What the server has no time for now is asked again, which by then may be done."""
        tries = 0
        while True:
            try:
                code, answer = self._connection.call(method, path, body)
            except (OSError, http.client.HTTPException):
                self._connection.close()
                code, answer = 503, {}
            if code in expected or (tries and code == 409):
                return answer
            if code not in (429, 500, 503, 504) or tries == TRIES:
                raise AssertionError(f"{method} {path}: {code} {answer.get('message')}")
            tries += 1
            time.sleep(0.05 * tries)

    def create(self, collection, made, suffix=""):
        metadata = {**made.get("metadata", {}), "name": self.name + suffix}
        metadata.pop("namespace", None)
        self._made.append(f"{collection}/{self.name}{suffix}")
        return self.call("POST", collection, {**made, "metadata": metadata})

    def wait_for(self, holds):
        """Or for the end of the test."""
        end = time.monotonic() + LIMIT
        while not self._stop.is_set() and not holds():
            if time.monotonic() > end:
                raise AssertionError(f"{self.name}: not within {LIMIT} s")
            time.sleep(0.1)

    def wait_for_status(self, path, holds):
        self.wait_for(lambda: holds(self.call("GET", path).get("status", {})))

    def touch(self, path):
        self.call("PATCH", path, {"metadata": {"labels": {"touched": "x"}}})

    def undo(self):
        """As the garbage collector does it, which does not run here, with the pods of a job."""
        for path in self._made:
            self.call("PATCH", path, {"metadata": {"finalizers": None}}, expected=(200, 404))
            self.call("DELETE", path + "?gracePeriodSeconds=0", expected=(200, 202, 404))
            namespace, _, name = path.rpartition("/trainingjobs/")
            if namespace:
                pods = core(namespace.rpartition("/")[2], "pods")
                self.call("DELETE", f"{pods}?gracePeriodSeconds=0&labelSelector={LABEL}job-name={name}")


def nest(attack):
    """An object that no parser should follow."""
    layer = {"type": "Conv2D", "filters": 1, "kernelSize": nested(250)}
    attack.create(jobs(HOSTILE), training_job(model={"layers": [layer]}))
    attack.touch(f"{jobs(HOSTILE)}/{attack.name}")


def swell_a_pod(attack):
    """A pod with a job's label, each byte of which takes six in JSON."""
    attack.create(core(HOSTILE, "pods"), {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {LABEL + "job-uid": "x"}},
        "spec": {"containers": [{"name": "main", "image": "x", "args": ["<" * 1_300_000]}]}})
    attack.touch(core(HOSTILE, f"pods/{attack.name}"))


def large_owner(member, suffix=""):
    """A pod with a job's label whose owner reference is as large as an object may be. Pods with different
    suffixes share no text of it."""
    owner = {"apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "name": "x", "uid": "x",
             "controller": True}
    owner[member] = "x" * 1_300_000 + suffix
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"labels": {LABEL + "job-uid": "x"}, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": "x"}]}}


def swell_an_owner(attack):
    """The API server limits no text of an owner reference."""
    for member in ("kind", "name", "uid"):
        attack.create(core(HOSTILE, "pods"), large_owner(member), f"-{member}")
        attack.touch(core(HOSTILE, f"pods/{attack.name}-{member}"))


def swell_deletes(attack):
    """The server answers a delete with the object, each byte of which takes six here."""
    pods = core(HOSTILE, "pods")
    names = [f"-{i}" for i in range(SWOLLEN_JOBS)]
    for name in names:
        attack.create(jobs(HOSTILE), job(replicaSpecs={"Worker": role(SWOLLEN_PODS)}), name)
    for pod in (f"{pods}/{attack.name}{name}-worker-{i}" for name in names for i in range(SWOLLEN_PODS)):
        attack.wait_for(lambda pod=pod: attack.call("GET", pod, expected=(200, 404)).get("spec"))
        owners = attack.call("GET", pod)["metadata"]["ownerReferences"]
        owners.append({"apiVersion": "v1", "kind": "Pod", "name": "<" * 1_300_000, "uid": "x"})
        attack.call("PATCH", pod, {"metadata": {"ownerReferences": owners}})
    paths = [f"{jobs(HOSTILE)}/{attack.name}{name}" for name in names]
    for path in paths:
        attack.call("PATCH", path, {"spec": {"suspend": True}})
    for path in paths:
        attack.wait_for_status(path, lambda status: status["state"] == "Suspended")


def swell_a_job(attack):
    """As many small values as the server takes; and as many as the operator does."""
    for name, count, text in (("-most", 110, ""), ("-valid", 15, "x" * 190_000)):
        containers = [{"name": f"c{i}", "image": "x", "args": ["x"] * 1024} for i in range(count)]
        containers[0]["command"] = [text]
        attack.create(jobs(HOSTILE), job(replicaSpecs={"Worker": role(containers=containers)},
                                         suspend=True), name)


def swell_an_environment(attack):
    """Names of layers, which stand in a variable, beside as many containers as there may be: more than the
    operator takes; and as many as it does, of which it makes pods."""
    containers = [{"name": f"c{i}", "image": "x"} for i in range(256)]
    workers = {"Worker": {"replicas": 2, "template": {"spec": {"containers": containers}}}}
    for name, count in (("-most", 1024), ("-valid", 450)):
        layers = [{"type": "ReLU", "name": f"{i:04}" + "x" * 249} for i in range(count)]
        attack.create(jobs(HOSTILE), training_job(replicas=workers, model={"layers": layers}), name)
    path = f"{jobs(HOSTILE)}/{attack.name}"
    attack.wait_for_status(path + "-most", lambda status: status.get("state") == "Failed")
    attack.wait_for_status(path + "-valid", lambda status: status.get("state") == "Running")


def forge(attack, victim):
    """A replica and a Service of another tenant's job, in a namespace of his own."""
    metadata = {"labels": {LABEL + "job-uid": victim["uid"], LABEL + "job-name": victim["name"],
                           LABEL + "role": "worker", LABEL + "replica-index": "0",
                           LABEL + "attempt": "0"},
                "finalizers": ["example.com/stay"],
                "ownerReferences": [{"apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob",
                                     "name": victim["name"], "uid": victim["uid"], "controller": True}]}
    pod = attack.create(core(HOSTILE, "pods"), {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "x"}]}})
    path = core(HOSTILE, f"pods/{attack.name}")
    attack.call("PATCH", path + "/status", {"status": ended(pod, code=1)})
    attack.call("DELETE", path)  # it stays: see its finalizer
    attack.create(core(HOSTILE, "services"), {
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {"clusterIP": "None", "selector": {"x": "y"}}})


def storm(attack):
    """Many jobs that want more pods than a quota has room for."""
    names = [f"-{i}" for i in range(16)]
    for name in names:
        attack.create(jobs(FULL), job(replicaSpecs={"Worker": role(10_000)}), name)
    for name in names:
        attack.touch(f"{jobs(FULL)}/{attack.name}{name}")


def churn(attack):
    """Jobs that come and go."""
    for i in range(20):
        attack.create(jobs(HOSTILE), job(), f"-{i}")


def lie(attack):
    """Of a program that says what no status holds: it shall be suspended all the same."""
    attack.create(jobs(HOSTILE), training_job(replicas={"Worker": {"replicas": 1}}))
    path = f"{jobs(HOSTILE)}/{attack.name}"
    attack.wait_for_status(path, lambda status: status.get("restartCount"))
    attack.call("PATCH", path, {"spec": {"suspend": True}})
    attack.wait_for_status(path, lambda status: status["state"] == "Suspended")


def outlast(attack):
    """Times that overflow when they are added to now."""
    policy = {"ttlSecondsAfterFinished": 9999999999, "activeDeadlineSeconds": 9999999999}
    attack.create(jobs(HOSTILE), job(runPolicy=policy))
    path = f"{jobs(HOSTILE)}/{attack.name}"
    attack.wait_for_status(path, lambda status: status.get("state") == "Succeeded")
    attack.touch(path)


def mislead(attack, trainers):
    """Programs of his own where the operator asks for progress."""
    before = dict(trainers.asked)
    for i, port in enumerate(trainers.ports):
        main = {"name": "trainer", "image": "x", "ports": [{"name": "cluster", "containerPort": port}]}
        attack.create(jobs(HOSTILE), training_job(replicas={"Worker": {
            "replicas": 1, "template": {"spec": {"containers": [main]}}}}), f"-{i}")
    attack.wait_for(lambda: all(count > before[name] for name, count in trainers.asked.items()))


def hostile_life(pod):
    """What is said of pods in the hostile namespace, whoever made them."""
    attack = pod["metadata"]["name"].partition("-")[0]
    if attack == "forge":
        return
    yield 0, running(pod, podIP="127.0.0.1", podIPs=[{"ip": "127.0.0.1"}])
    if attack == "lie":
        yield 0.2, ended(pod, code=137, message=json.dumps(next(LIES)))
    if attack in ("outlast", "churn"):
        yield 0.2, ended(pod)


def honest_life(pod):
    yield 0, running(pod)
    yield TRAINING_SECONDS, ended(pod)


class Tenant:
    """Repeats each attack in a thread of its own until he is stopped."""

    KEPT = 3  # rounds of an attack that stand before the first of them is undone
    # Between rounds. A tenant who keeps the API server busy by himself slows everybody down, whatever
    # the operator does: what is asked here is what he makes the operator do.
    PAUSE = 0.5

    def __init__(self, attacks):
        self.rounds = dict.fromkeys(attacks, 0)
        self.faults = []
        self._stop = threading.Event()
        # Daemons: a test that is interrupted is not cleaned up after.
        self._threads = [threading.Thread(target=self._repeat, args=item, daemon=True)
                         for item in attacks.items()]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, name, attack):
        connection = server().connect(MALLORY)
        kept = collections.deque()
        try:
            while not self._stop.is_set():
                kept.append(Round(connection, f"{name.replace('_', '')}-{self.rounds[name]}", self._stop))
                attack(kept[-1])
                self.rounds[name] += 1
                if len(kept) > self.KEPT:
                    kept.popleft().undo()
                self._stop.wait(self.PAUSE)
            for made in kept:
                made.undo()
        except (AssertionError, OSError, KeyError) as fault:
            self.faults.append(f"{name}: {fault!r}")
        connection.close()


def choose_victims(waves):
    """Each job in turn, with those that run among them."""
    connection = server().connect()
    with contextlib.closing(connection):
        for i, wave in itertools.cycle(itertools.product(range(JOBS), waves)):
            code, found = connection.call("GET", f"{jobs(HONEST)}/{wave}-{i}")
            if code == 200:
                yield found["metadata"]


def live_as_tenant(pipe, other_end):
    """Begins when told to; then says at each question how often each attack was made, and what went wrong. Ends
    with the process that asks."""
    other_end.close()
    server().leave_to_parent()
    with contextlib.suppress(EOFError):
        if pipe.recv() == "begin":
            attack_until_told(pipe)


def attack_until_told(pipe):
    attacks = {attack.__name__: attack for attack in (
        nest, swell_a_pod, swell_an_owner, swell_a_job, swell_an_environment, storm, churn, lie, outlast)}
    trainers = Trainers()
    victims = choose_victims(("before", "beside"))
    attacks["forge"] = lambda attack: forge(attack, next(victims))
    attacks["mislead"] = lambda attack: mislead(attack, trainers)
    kubelet = Kubelet(HOSTILE, hostile_life)
    tenant = Tenant(attacks)
    try:
        while pipe.recv() != "stop":
            pipe.send((tenant.rounds, tenant.faults))
    finally:
        tenant.stop()
        kubelet.stop()
        trainers.stop()
        victims.close()
    pipe.send((tenant.rounds, tenant.faults))


class TenantProcess:
    """The tenant in a process of his own: his threads do not hold up those that play the other one's nodes."""

    def __init__(self):
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(target=live_as_tenant,
                                                                   args=(theirs, self._pipe))
        self._process.start()
        theirs.close()

    def begin(self):
        self._pipe.send("begin")

    def wait_for_rounds(self, operator):
        """Until each attack has gone through one more, or failed."""
        before = self._ask("how far")[0]
        end = time.monotonic() + LIMIT
        while True:
            rounds, faults = self._ask("how far")
            if faults or all(rounds[name] > count for name, count in before.items()):
                return
            check_alive(operator)
            if time.monotonic() > end:
                raise AssertionError(f"not all attacks went on within {LIMIT} s: {before} {rounds}")
            time.sleep(0.1)

    def finish(self):
        """(how often each attack was made, what went wrong)"""
        answer = self._ask("stop")
        self._process.join()
        return answer

    def stop(self):
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _ask(self, question):
        self._pipe.send(question)
        if not self._pipe.poll(LIMIT):
            raise AssertionError(f"the tenant's process has not answered {question!r} within {LIMIT} s")
        return self._pipe.recv()


class Wave(typing.NamedTuple):
    """Seconds: from the first job's submission to the last one's end; from when a job was there to its end."""

    whole: float
    median: float
    slowest: float

    def __str__(self):
        return f"{self.whole:.1f} s (a job: {self.median:.1f} s, the slowest {self.slowest:.1f} s)"


class HostileTenantTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        install(MANIFESTS / "rbac")
        # As earlier versions of the CRD were, so that what they took reaches the operator.
        server().kubectl("apply", "-f", "-", stdin=json.dumps(older()))
        for namespace in (HONEST, HOSTILE, FULL):
            cls.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace",
                                              "metadata": {"name": namespace}})
        for namespace in (HOSTILE, FULL):
            server().kubectl("create", "role", "all", "--verb=*", "--resource=*.*", "-n", namespace)
            server().kubectl("create", "rolebinding", "all", "--role=all", "--user=mallory", "-n", namespace)
        quota = core(FULL, "resourcequotas")
        cls.create(quota, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"},
                           "spec": {"hard": {"pods": "10"}}})
        # As the quota's controller says it, which does not run here.
        server().call("PATCH", quota + "/full/status",
                      {"status": {"hard": {"pods": "10"}, "used": {"pods": "10"}}})

    @staticmethod
    def create(collection, made):
        code, answer = server().call("POST", collection, made)
        if code != 201:
            raise AssertionError(answer["message"])
        return answer

    def start(self, started):
        self.addCleanup(started.stop)
        return started

    def run_wave(self, name, operator):
        """Honest jobs, submitted one after the other. How long they took, as a Wave."""
        connection = server().connect()
        self.addCleanup(connection.close)
        begin, created, ended = time.monotonic(), {}, {}
        for i in range(JOBS):
            if i % 4:
                made = job(f"{name}-{i}", replicaSpecs={"Worker": role(WORKERS)})
            else:
                made = training_job(f"{name}-{i}", {"Worker": {"replicas": WORKERS}})
            made["metadata"].pop("namespace")
            code, answer = connection.call("POST", jobs(HONEST), made)
            self.assertEqual(201, code, answer.get("message"))
            created[f"{name}-{i}"] = time.monotonic()
            self.note_ended(connection, created, ended)
        while len(ended) < JOBS:
            check_alive(operator)
            self.assertLess(time.monotonic() - begin, LIMIT, f"{len(ended)} of {JOBS} jobs have ended")
            time.sleep(0.1)
            self.note_ended(connection, created, ended)
        seconds = sorted(when - created[job_name] for job_name, when in ended.items())
        return Wave(whole=time.monotonic() - begin, median=seconds[JOBS // 2], slowest=seconds[-1])

    def note_ended(self, connection, created, ended):
        """When each job was first seen to have ended."""
        for entry in connection.call("GET", jobs(HONEST))[1]["items"]:
            job_name = entry["metadata"]["name"]
            if job_name not in created or job_name in ended or not is_terminal(entry):
                continue
            ended[job_name] = time.monotonic()
            status = entry["status"]
            self.assertEqual("Succeeded", status["state"], status)
            self.assertEqual({}, {key: count for key, count in status.get("restarts", {}).items() if count})
            self.assertNotIn("failure", status)

    def test_what_suspended_jobs_take_is_about_their_text(self):
        """As many small values as a job may have: each takes four bytes of text, and some 64 when parsed."""
        connection = server().connect(MALLORY)
        self.addCleanup(connection.close)
        containers = [{"name": f"c{i}", "image": "x", "args": ["x"] * 1024} for i in range(15)]
        made = job(replicaSpecs={"Worker": role(containers=containers)}, suspend=True)
        hoard = Round(connection, "hoard", threading.Event())
        self.addCleanup(hoard.undo)
        for i in range(HOARDED):
            hoard.create(jobs(HOSTILE), made, f"-{i}")
        operator = start_operator("--leader-elect=false")
        self.addCleanup(operator.kill)
        for i in range(HOARDED):
            hoard.wait_for_status(f"{jobs(HOSTILE)}/hoard-{i}", lambda status: status.get("state") == "Suspended")
        memory = peak_memory(operator.process.pid)
        print(f"{HOARDED} jobs of {len(json.dumps(made, separators=(',', ':'))) / 1e3:.0f} KB: "
              f"the operator: {memory / 1e6:.1f} MB at most")
        self.assertLess(memory, MEMORY)

    def test_what_pods_of_a_tenant_take_does_not_depend_on_their_owners(self):
        connection = server().connect(MALLORY)
        self.addCleanup(connection.close)
        hoard = Round(connection, "hoard", threading.Event())
        self.addCleanup(hoard.undo)
        for i in range(HOARDED_PODS):
            hoard.create(core(HOSTILE, "pods"), large_owner("kind", f"-{i}"), f"-{i}")
        operator = start_operator("--leader-elect=false")
        self.addCleanup(operator.kill)
        hoard.create(jobs(HOSTILE), job(suspend=True), "-last")  # looked at once all pods are listed
        hoard.wait_for_status(f"{jobs(HOSTILE)}/hoard-last", lambda status: status.get("state") == "Suspended")
        memory = peak_memory(operator.process.pid)
        print(f"{HOARDED_PODS} pods with an owner of 1.3 MB: the operator: {memory / 1e6:.1f} MB at most")
        self.assertLess(memory, MEMORY)

    def test_what_deletes_take_does_not_depend_on_the_pods(self):
        """It fills the API server's time, so that no one else's jobs are looked at beside it."""
        connection = server().connect(MALLORY)
        self.addCleanup(connection.close)
        attack = Round(connection, "swell", threading.Event())
        self.addCleanup(attack.undo)
        operator = start_operator("--leader-elect=false")
        self.addCleanup(operator.kill)
        swell_deletes(attack)
        memory = peak_memory(operator.process.pid)
        print(f"{SWOLLEN_JOBS * SWOLLEN_PODS} deletes of pods of 8 MB as JSON: "
              f"the operator: {memory / 1e6:.1f} MB at most")
        self.assertLess(memory, MEMORY)

    def test_the_jobs_of_others_run_at_half_the_speed_at_least_and_are_charged_nothing(self):
        tenant = self.start(TenantProcess())  # before there are threads
        # Without a Lease: on a busy machine an API server that is slow for everybody would end it.
        operator = start_operator("--leader-elect=false")
        self.addCleanup(operator.kill)
        self.start(Kubelet(HONEST, honest_life))
        before = self.run_wave("before", operator)
        tenant.begin()
        tenant.wait_for_rounds(operator)
        beside = self.run_wave("beside", operator)
        tenant.wait_for_rounds(operator)
        rounds, faults = tenant.finish()
        memory = peak_memory(operator.process.pid)
        self.assertEqual([], faults, f"{rounds}, {memory / 1e6:.1f} MB")
        after = self.run_wave("after", operator)
        print(f"{JOBS} jobs: {before} before, {beside} beside {rounds}, {after} after; "
              f"the operator: {memory / 1e6:.1f} MB at most")
        self.assertLess(memory, MEMORY)
        # The whole wave is not compared: he fills the API server's time, and it takes new jobs slowly then.
        self.assertLess(beside.median, 2 * max(before.median, after.median))
        self.assertLess(beside.slowest, 2 * max(before.slowest, after.slowest))


if __name__ == "__main__":
    unittest.main()
