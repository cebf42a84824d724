"""The chart on a real API server: installed, upgraded, removed, and beside manifests/."""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import tempfile
import unittest

import yaml

from api_server import CRD, JOBS, ROOT, job, server
from helm import CHART, HELMS, NAMESPACE, monitoring_crds, objects, program, render, run, set_flags
from operator_test import eventually

MANIFESTS = ROOT / "manifests"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ALL_JOBS = "/apis/training.lockstep.dev/v1/trainingjobs"
CRD_NAME = "trainingjobs.training.lockstep.dev"
# Who installed it, and which release of it: says nothing of what it does.
PROVENANCE = {"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance",
              "app.kubernetes.io/version", "helm.sh/resource-policy", "argocd.argoproj.io/sync-options"}
BY_SERVER = {"uid", "creationTimestamp", "managedFields", "generation", "resourceVersion"}
SCALED_OUT = {"replicas": 2, "podDisruptionBudget.enabled": False}


def kustomized(path):
    return objects(server().kubectl("kustomize", path))


@contextlib.contextmanager
def overlay(fields):
    """A copy of manifests/ with one overlay more, as a user would write it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(MANIFESTS, pathlib.Path(folder) / "manifests")
        shutil.copytree(ROOT / "api" / "crd", pathlib.Path(folder) / "api" / "crd")
        mine = pathlib.Path(folder) / "manifests" / "overlays" / "mine"
        mine.mkdir()
        (mine / "kustomization.yaml").write_text(json.dumps({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **fields}))
        yield mine


def url(entry):
    """Where objects of its kind are."""
    group, kind = entry["apiVersion"], entry["kind"]
    plural = {"NetworkPolicy": "networkpolicies"}.get(kind, kind.lower() + "s")
    base = f"/apis/{group}" if "/" in group else f"/api/{group}"
    namespace = entry["metadata"].get("namespace")
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


def as_the_server_takes_it(entry):
    """With every default filled in, as nothing but a dry run tells."""
    code, answer = server().call("POST", url(entry) + "?dryRun=All&fieldValidation=Strict", entry)
    if code != 201:
        raise AssertionError(f"{entry['kind']} {entry['metadata']['name']}: {answer.get('message')}")
    return answer


def without_provenance(node):
    if isinstance(node, dict):
        kept = {key: without_provenance(value) for key, value in node.items()
                if key not in PROVENANCE | BY_SERVER}
        return {key: value for key, value in kept.items()
                if not (key in ("labels", "annotations") and value == {})}
    return [without_provenance(value) for value in node] if isinstance(node, list) else node


def differences(one, other, path=""):
    """Where two trees differ, as lines."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(one.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other)):
            yield from differences(*pair, f"{path}[{index}]")
    elif one != other:
        yield f"{path}: {one!r} and {other!r}"


def flags_of(container):
    """{flag: value}, with those that say no more than the default left out."""
    env = {entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"]
           for entry in container.pop("env", [])}
    flags = {}
    for arg in container.pop("args"):
        name, _, value = arg.partition("=")
        flags[name] = "the pod's" if env and value == "$(POD_NAMESPACE)" else value or "true"
    version = chart_version()
    for name, value in {"--controller-threads": "16", "--kube-api-qps": "0", "--kube-api-burst": "0",
                        "--log-level": "info", "--leader-elect": "true",
                        "--leader-election-name": "lockstep-operator",
                        "--watch-nodes": "false", "--poll-progress": "true",
                        "--job-tokens": "true", "--token-key-secret": "lockstep-operator-key",
                        "--network-policies": "true", "--scraper-namespace": "monitoring",
                        "--settling-seconds": "10", "--kubeflow-labels": "false",
                        "--trainer-image": f"lockstep-trainer:{version}",
                        "--trainer-gpu-image": f"lockstep-trainer:{version}-cuda"}.items():
        if flags.get(name) == value:
            del flags[name]
    return flags


def chart_version():
    return yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]


def in_effect(entries):
    """{(kind, namespace, name): what the server would store}"""
    made = {}
    for entry in entries:
        if entry["kind"] == "Namespace":  # `helm install --create-namespace`
            continue
        if entry["kind"] == "CustomResourceDefinition":
            stored = {"metadata": entry["metadata"], "spec": entry["spec"]}  # is there already
        else:
            stored = as_the_server_takes_it(entry)
        if entry["kind"] == "Deployment":
            container = stored["spec"]["template"]["spec"]["containers"][0]
            stored["flags"] = flags_of(container)
        labels = stored["metadata"].get("labels", {})
        for name in ("app.kubernetes.io/name", "app.kubernetes.io/component"):
            labels.pop(name, None)  # of the object itself nobody selects by them
        made[entry["kind"], entry["metadata"].get("namespace"), entry["metadata"]["name"]] = (
            without_provenance(stored))
    return made


class SameInEffectTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        server().kubectl("apply", "-f", MANIFESTS / "default" / "namespace.yaml")

    def compare(self, path, values, namespace=NAMESPACE):
        from_helm = in_effect(render(values, namespace=namespace))
        from_kustomize = in_effect(kustomized(path))
        self.assertEqual(sorted(from_kustomize, key=str), sorted(from_helm, key=str))
        for key, value in from_kustomize.items():
            other = from_helm[key]
            if "flags" in value and value["flags"].get("--namespace") == "the pod's":
                value["flags"]["--namespace"] = key[1]
            self.assertEqual([], list(differences(value, other)), key)

    def test_default(self):
        self.compare(MANIFESTS / "default", {})

    def test_each_component(self):
        for component, values in (("kueue", {"kueue.enabled": True}),
                                  ("volcano", {"gangScheduler": "volcano"}),
                                  ("scheduler-plugins", {"gangScheduler": "scheduler-plugins"})):
            with self.subTest(component), overlay({"resources": ["../../default"],
                                                   "components": [f"../../components/{component}"]}) as path:
                self.compare(path, values)

    def test_the_operators_own_network_policy(self):
        with overlay({"resources": ["../../default", "../../network-policy"]}) as path:
            self.compare(path, {"networkPolicy.enabled": True})

    def test_two_replicas(self):
        with overlay({"resources": ["../../default"],
                      "replicas": [{"name": "lockstep-operator", "count": 2}]}) as path:
            self.compare(path, SCALED_OUT)

    def test_one_namespace(self):
        self.compare(MANIFESTS / "overlays" / "namespaced",
                     {"watchNamespaces": ["default"], "crds.enabled": False}, namespace="default")

    def test_a_difference_is_found(self):
        with self.assertRaises(AssertionError):
            self.compare(MANIFESTS / "default", {"resources.limits": {"memory": "128Mi"}})
        with self.assertRaises(AssertionError):
            self.compare(MANIFESTS / "default", {"operator.controllerThreads": 8})


class SchemaTest(unittest.TestCase):
    def test_the_server_takes_every_object_and_knows_every_field(self):
        """By its own OpenAPI. It has no kinds of the Prometheus operator yet."""
        server().kubectl("apply", "-f", "-", stdin=json.dumps({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}))
        server().kubectl("apply", "-f", MANIFESTS / "default" / "namespace.yaml")
        kinds = set()
        for values in ({}, {"replicas": 2, "watchNamespaces": ["team-a"], "kueue.enabled": True,
                            "gangScheduler": "volcano", "networkPolicy.enabled": True,
                            "dashboards.enabled": True, "rbac.aggregateToEdit": True,
                            "priorityClassName": "system-cluster-critical",
                            "tolerations": [{"operator": "Exists"}]}):
            for entry in render(values, hooks=True):
                if entry["kind"] != "CustomResourceDefinition":  # kubectl apply has brought it
                    if entry["kind"] == "Pod":
                        entry["spec"].pop("serviceAccountName")  # comes with the other hooks
                    as_the_server_takes_it(entry)
                    kinds.add(entry["kind"])
        self.assertLessEqual({"Deployment", "NetworkPolicy", "PodDisruptionBudget", "ConfigMap",
                              "TrainingJob", "Role", "ClusterRole", "Pod"}, kinds)

    def test_so_do_the_crds_of_the_prometheus_operator(self):
        self.addCleanup(server().kubectl, "delete", "--ignore-not-found", "crds",
                        *(crd["metadata"]["name"] for crd in monitoring_crds()))
        for crd in monitoring_crds():
            code, answer = server().call("POST", CRDS, crd)
            self.assertEqual(201, code, answer.get("message"))
        for kind in ("podmonitors", "servicemonitors", "prometheusrules"):
            server().wait_until_served(f"/apis/monitoring.coreos.com/v1/{kind}")
        server().kubectl("apply", "-f", MANIFESTS / "default" / "namespace.yaml")
        on = {f"{kind}.{key}": value for kind in ("podMonitor", "prometheusRule")
              for key, value in (("enabled", True), ("renderMode", "alwaysRender"), ("labels", {"release": "stack"}))}
        kinds = []
        for values in (on, on | {"serviceMonitor.enabled": True, "serviceMonitor.renderMode": "alwaysRender",
                                 "watchNamespaces": ["team-a"], "podMonitor.trainerLimits": {
                                     "samples": 0, "labels": 0, "labelValueLength": 0, "bodySize": ""}}):
            for entry in render(values):
                if entry["apiVersion"] == "monitoring.coreos.com/v1":
                    as_the_server_takes_it(entry)
                    kinds.append(entry["kind"])
        self.assertEqual(["PodMonitor"] * 3 + ["PrometheusRule"] * 2 + ["ServiceMonitor"], sorted(kinds))


class Release:
    """A release in a namespace of its own, by one of the helms."""

    def __init__(self, helm, namespace):
        self.helm, self.namespace = helm, namespace
        home = server().folder / helm
        self.env = {**os.environ, "KUBECONFIG": str(server().kubeconfig), "HOME": str(home),
                    "HELM_CACHE_HOME": str(home), "HELM_CONFIG_HOME": str(home),
                    "HELM_DATA_HOME": str(home)}

    def call(self, *arguments, **options):
        return run(self.helm, *arguments, f"--namespace={self.namespace}", env=self.env, **options)

    def remove(self):
        """Whatever is left of it after a failure."""
        self.call("uninstall", "lockstep", check=False)

    def shell(self, script):
        """Runs commands of the documentation, as this helm's user."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "bin").mkdir()
            (path / "bin" / "helm").symlink_to(program(self.helm))
            (path / "charts").symlink_to(CHART.parent)
            server().shell(script.replace("lockstep-system", self.namespace), cwd=path,
                           env={**self.env, "PATH": f"{path / 'bin'}:{os.environ['PATH']}"})

    def deployment(self):
        return server().call("GET", f"/apis/apps/v1/namespaces/{self.namespace}/deployments/lockstep-operator")[1]

    def install(self, values=None, **options):
        return self.call("install", "lockstep", CHART, "--create-namespace", *set_flags(values or {}),
                         **options)

    def objects(self):
        """{(kind, namespace, name)} of all that the release could have made, wherever it is."""
        found = server().kubectl(
            "get", "-A", "-o", "json", "-l", "app.kubernetes.io/managed-by=Helm",
            "deployments,serviceaccounts,services,configmaps,networkpolicies,poddisruptionbudgets,"
            "roles,rolebindings,clusterroles,clusterrolebindings,customresourcedefinitions")
        return {(entry["kind"], entry["metadata"].get("namespace"), entry["metadata"]["name"])
                for entry in json.loads(found)["items"]}


def readme_block(part):
    """The shell commands of charts/lockstep/README.md with this text among them."""
    (block,) = (found for found in re.findall(r"^```sh\n([^`]*)```", (CHART / "README.md").read_text(), re.MULTILINE)
                if part in found)
    return block


def without_prefetch(text):
    """A CRD, or its template, as it was before a field was added."""
    text, count = re.subn(r"^( +)prefetch:\n(?:\1 .*\n)+", "", text, flags=re.MULTILINE)
    if count != 1:
        raise AssertionError(f"found `prefetch` {count} times, expected 1")
    return text


@contextlib.contextmanager
def copied_chart():
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(shutil.copytree(CHART, pathlib.Path(folder) / "lockstep"))


@contextlib.contextmanager
def older_chart():
    with copied_chart() as path:
        crd = path / "templates" / "crd.yaml"
        crd.write_text(without_prefetch(crd.read_text()))
        yield path


class ReleaseTest(unittest.TestCase):
    def setUp(self):
        self.remove_crd()
        self.addCleanup(self.restore_crd)

    def release(self, helm, name):
        made = Release(helm, f"{name}-{helm}")
        self.addCleanup(made.remove)
        return made

    def remove_crd(self):
        server().call("DELETE", f"{CRDS}/{CRD_NAME}")
        eventually(lambda: server().call("GET", f"{CRDS}/{CRD_NAME}")[0] == 404)

    def restore_crd(self):
        self.remove_crd()
        server().kubectl("apply", "-f", CRD)
        server().wait_until_served(ALL_JOBS)

    def test_install_use_upgrade_and_uninstall_leave_nothing(self):
        everything = {"replicas": 2, "networkPolicy.enabled": True, "dashboards.enabled": True,
                      "kueue.enabled": True, "serviceMonitor.enabled": True}
        for helm in HELMS:
            with self.subTest(helm):
                release = self.release(helm, "install")
                notes = release.install()
                self.assertIn(f"kubectl -n {release.namespace} rollout status", notes)
                self.assertIn(f"helm test lockstep -n {release.namespace}", notes)
                server().wait_until_served(ALL_JOBS)
                server().create(job(f"of-{helm}"))
                notes = release.call("upgrade", "lockstep", CHART, *set_flags(everything))
                self.assertIn("NOT installed, because the cluster has no", notes)
                self.assertIn("serviceMonitor", notes)
                self.assertIn(("PodDisruptionBudget", release.namespace, "lockstep-operator"),
                              release.objects())
                release.call("uninstall", "lockstep")
                self.assertEqual({("CustomResourceDefinition", None, CRD_NAME)}, release.objects())
                code, kept = server().call("GET", f"{JOBS}/of-{helm}")
                self.assertEqual(200, code, kept)  # crds.keep
                self.remove_crd()

    def test_without_keep_the_crd_goes_too(self):
        release = self.release("helm3", "no-keep")
        release.install({"crds.keep": False})
        release.call("uninstall", "lockstep")
        eventually(lambda: release.objects() == set())

    def prefetch(self):
        """The schema of a field that the older version does not have, or None."""
        node = server().call("GET", f"{CRDS}/{CRD_NAME}")[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for name in ("spec", "training", "dataset"):
            node = node["properties"][name]
        return node["properties"].get("prefetch")

    def test_an_upgrade_from_an_older_chart_brings_the_new_crd_and_keeps_the_jobs(self):
        for helm in HELMS:
            with self.subTest(helm), older_chart() as older:
                release = self.release(helm, "upgrade")
                release.call("install", "lockstep", older, "--create-namespace")
                server().wait_until_served(ALL_JOBS)
                self.assertIsNone(self.prefetch())
                server().create(job(f"survivor-{helm}"))
                release.call("upgrade", "lockstep", CHART)
                self.assertIsNotNone(self.prefetch())
                self.assertEqual(200, server().call("GET", f"{JOBS}/survivor-{helm}")[0])
                release.call("uninstall", "lockstep")
                self.remove_crd()

    def test_a_release_takes_over_a_crd_that_kubectl_brought_and_can_upgrade_it(self):
        older = json.dumps(objects(without_prefetch(CRD.read_text()))[0])
        for helm, *flags in (("helm3", "--server-side"), ("helm4", "--server-side"), ("helm4",)):
            with self.subTest(helm, flags=flags):
                server().kubectl("apply", *flags, "-f", "-", stdin=older)
                self.assertIsNone(self.prefetch())
                self.take_the_crd_over(self.release(helm, "adopt"))

    def test_a_release_takes_over_a_crd_that_another_release_has_left_and_can_upgrade_it(self):
        for earlier_helm, later_helm in (("helm4", "helm3"), ("helm3", "helm4")):
            with self.subTest(later_helm, left_by=earlier_helm), older_chart() as older:
                earlier = self.release(earlier_helm, "earlier")
                earlier.call("install", "lockstep", older, "--create-namespace")
                earlier.call("uninstall", "lockstep")
                self.take_the_crd_over(self.release(later_helm, "later"))

    def take_the_crd_over(self, release):
        """And upgrade it; then it is no more."""
        self.hand_the_crd_over(release.namespace)
        self.assertIsNotNone(self.prefetch())
        with older_chart() as older:
            release.call("install", "lockstep", older, "--create-namespace")
        self.assertIsNone(self.prefetch())
        release.call("upgrade", "lockstep", CHART)
        self.assertIsNotNone(self.prefetch())
        release.call("uninstall", "lockstep")
        self.remove_crd()

    def hand_the_crd_over(self, namespace):
        """By the commands of charts/lockstep/README.md."""
        server().shell(readme_block("--field-manager=helm").replace("lockstep-system", namespace)
                       .replace("api/crd", str(CRD.parent)))

    def test_values_can_be_kept_by_the_flag_of_the_notes_when_a_chart_has_a_new_section(self):
        notes = (CHART / "templates" / "NOTES.txt").read_text()
        (flag,) = re.findall(r"helm upgrade .* (--\S+)$", notes, re.MULTILINE)
        for helm in HELMS:
            with self.subTest(helm), copied_chart() as newer:
                with (newer / "values.yaml").open("a") as values:
                    values.write("added: {enabled: true}\n")
                with (newer / "templates" / "service-account.yaml").open("a") as template:
                    template.write("{{- if .Values.added.enabled }}{{ end }}\n")
                (newer / "values.schema.json").unlink()
                release = self.release(helm, "reuse")
                release.install({"replicas": 2})
                release.call("upgrade", "lockstep", newer, flag)
                self.assertEqual({"replicas": 2}, json.loads(release.call("get", "values", "lockstep", "-ojson")))
                release.call("uninstall", "lockstep")
                self.remove_crd()

    def test_helm_takes_over_from_kubectl_and_the_jobs_stay(self):
        """As docs/kubernetes.md says."""
        (removal,) = re.findall(r"^kubectl (delete -k .*)$", (ROOT / "docs" / "kubernetes.md").read_text(),
                                re.MULTILINE)
        for helm in HELMS:
            with self.subTest(helm):
                server().kubectl("apply", "-k", MANIFESTS / "default")
                server().wait_until_served(ALL_JOBS)
                server().create(job(f"moved-{helm}"))
                server().kubectl(*shlex.split(removal.replace("manifests", str(MANIFESTS))))
                release = Release(helm, NAMESPACE)
                self.addCleanup(release.remove)
                self.hand_the_crd_over(NAMESPACE)
                release.install()
                self.assertEqual(200, server().call("GET", f"{JOBS}/moved-{helm}")[0])
                release.call("uninstall", "lockstep")
                self.remove_crd()

    def test_leader_election_can_be_switched_off_and_on(self):
        """The server refuses `rollingUpdate` beside `Recreate`, even if it has filled it in itself."""
        for helm in HELMS:
            with self.subTest(helm):
                release = self.release(helm, "election")
                release.install()
                # The first one with a Lease must not meet one without.
                for on, strategy in ((False, "Recreate"), (True, "Recreate"), (True, "RollingUpdate")):
                    release.call("upgrade", "lockstep", CHART,
                                 *set_flags({"leaderElection.enabled": on}))
                    self.assertEqual(strategy, release.deployment()["spec"]["strategy"]["type"])
                release.call("uninstall", "lockstep")
                self.remove_crd()

    def test_an_operator_that_was_stopped_can_be_rolled_back_and_works_again(self):
        """Helm 4 refuses to change a field that somebody else has set, as `kubectl scale` does."""
        for helm in HELMS:
            with self.subTest(helm):
                release = self.release(helm, "stop")
                release.install()
                release.call("upgrade", "lockstep", CHART, *set_flags({"leaderElection.enabled": False}))
                release.shell(readme_block("--for=delete"))
                self.assertEqual(0, release.deployment()["spec"]["replicas"])
                release.call("rollback", "lockstep", "1")
                spec = release.deployment()["spec"]
                self.assertEqual((1, "RollingUpdate"), (spec["replicas"], spec["strategy"]["type"]))
                release.call("uninstall", "lockstep")
                self.remove_crd()

    def test_a_release_that_has_given_its_crd_up_can_go_back(self):
        for helm in HELMS:
            with self.subTest(helm):
                release = self.release(helm, "back")
                release.install()
                self.give_the_crd_up_and_go_back(release)
                # As an automatic rollback does, which leaves the release as a failed one.
                self.give_the_crd_up_and_go_back(release, rolled_back=True)
                release.call("uninstall", "lockstep")
                # After a failed rollback, Helm leaves behind what only the later revision had.
                server().kubectl("delete", "poddisruptionbudgets", "--all", f"--namespace={release.namespace}")
                self.remove_crd()

    def give_the_crd_up_and_go_back(self, release, rolled_back=False):
        release.call("upgrade", "lockstep", CHART, *set_flags({"crds.enabled": False, "replicas": 2}))
        if rolled_back:
            done = release.call("rollback", "lockstep", "1", check=False)
            self.assertRegex(done.stderr, f"no CustomResourceDefinition.*{CRD_NAME}.* found|{CRD_NAME}.* not found")
        self.assertEqual(2, release.deployment()["spec"]["replicas"])
        release.shell(readme_block("--reset-values"))
        self.assertIn("kind: CustomResourceDefinition", release.call("get", "manifest", "lockstep"))
        self.assertEqual(1, release.deployment()["spec"]["replicas"])

    def test_rights_can_pass_from_a_release_to_its_administrator_without_a_gap(self):
        account = "lockstep-operator"
        for helm in HELMS:
            with self.subTest(helm):
                release = self.release(helm, "rights")
                self.addCleanup(self.remove_rights, release.namespace)
                release.install()
                release.shell(readme_block("resource-policy=keep"))
                self.assertEqual({"rbac": {"create": False}},
                                 json.loads(release.call("get", "values", "lockstep", "-ojson")))
                for verb, what in (("list", "pods"), ("list", "nodes"), ("update", f"leases/{account}")):
                    done = server().kubectl(
                        "auth", "can-i", verb, what, "-n", release.namespace,
                        f"--as=system:serviceaccount:{release.namespace}:{account}", check=False)
                    self.assertEqual("yes", done.stdout.strip(), f"{verb} {what}: {done.stderr}")
                self.assertIn(("ClusterRole", None, "lockstep-trainingjob-edit"), release.objects())
                release.call("uninstall", "lockstep")
                self.remove_rights(release.namespace)
                self.remove_crd()

    def remove_rights(self, namespace):
        """Of a release of this namespace, which Helm has kept."""
        server().kubectl("delete", "clusterroles,clusterrolebindings,roles,rolebindings", "-n", namespace,
                         "-l", "app.kubernetes.io/managed-by=Helm")

    def test_operators_of_different_namespaces_can_share_a_namespace_and_a_name(self):
        """All with Kueue's rights, which are cluster-wide."""
        server().kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"side-{team}"}}
            for team in "abc"]}))
        releases = [Release(HELMS[0], "tools"), Release(HELMS[0], "tools"), Release(HELMS[0], "more-tools")]
        names = ("lockstep", "team-b", "lockstep")
        for release, name, team in zip(releases, names, "abc"):
            self.addCleanup(release.call, "uninstall", name, check=False)
            release.call("install", name, CHART, "--create-namespace", *set_flags({
                "watchNamespaces": [f"side-{team}"], "kueue.enabled": True, "crds.enabled": team == "a"}))
        deployments = json.loads(server().kubectl("get", "deployments", "-A", "-o", "json"))["items"]
        leases = {(entry["metadata"]["namespace"], arg.partition("=")[2]) for entry in deployments
                  for arg in entry["spec"]["template"]["spec"]["containers"][0]["args"]
                  if arg.startswith("--leader-election-name=")}
        self.assertLessEqual({("tools", "lockstep-operator"), ("tools", "team-b-lockstep-operator"),
                              ("more-tools", "lockstep-operator")}, leases)
        for account, lease, allowed in (("lockstep-operator", "lockstep-operator", "yes"),
                                        ("team-b-lockstep-operator", "team-b-lockstep-operator", "yes"),
                                        ("team-b-lockstep-operator", "lockstep-operator", "no")):
            done = server().kubectl("auth", "can-i", "update", f"leases.coordination.k8s.io/{lease}",
                                    f"--as=system:serviceaccount:tools:{account}", "-n", "tools", check=False)
            self.assertEqual(allowed, done.stdout.strip(), f"{account}: {lease}")

    def test_the_operators_pod_passes_the_restricted_profile(self):
        server().kubectl("apply", "-f", MANIFESTS / "default" / "namespace.yaml")
        for entry in render(hooks=True):
            template = {"Deployment": lambda e: e["spec"]["template"], "Pod": lambda e: e}.get(entry["kind"])
            if template is None:
                continue
            account = template(entry)["spec"].pop("serviceAccountName")
            self.assertTrue(account)
            pod = {"apiVersion": "v1", "kind": "Pod", "spec": template(entry)["spec"],
                   "metadata": {"name": "probe", "namespace": NAMESPACE}}
            as_the_server_takes_it(pod)


if __name__ == "__main__":
    unittest.main()
