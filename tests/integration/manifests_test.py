"""The manifests: kubectl renders them, the server takes them, and they grant no more than they should."""
import contextlib
import copy
import functools
import json
import pathlib
import re
import shutil
import tempfile
import unittest

import yaml

from api_server import ACCOUNT, ROOT, server

MANIFESTS = ROOT / "manifests"
JOBS = "trainingjobs.training.lockstep.dev"
COMPONENTS = ("kueue", "volcano", "scheduler-plugins")
FLAGS = ROOT / "operator" / "server" / "flags.cc"
# What nobody who runs pods for others needs.
FORBIDDEN = {"pods/exec", "pods/log", "pods/attach", "pods/portforward",
             "serviceaccounts/token", "*"}


@functools.cache
def render(path):
    return [entry for entry in yaml.safe_load_all(server().kubectl("kustomize", path)) if entry]


@contextlib.contextmanager
def overlay(base, components=(), **fields):
    """A copy of the manifests with one more overlay, as a user would write it."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        shutil.copytree(MANIFESTS, root / "manifests")
        shutil.copytree(ROOT / "api" / "crd", root / "api" / "crd")
        mine = root / "manifests" / "overlays" / "mine"
        mine.mkdir()
        (mine / "kustomization.yaml").write_text(json.dumps({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
            "resources": [f"../../{base}"],
            "components": [f"../../components/{name}" for name in components], **fields}))
        yield mine


def of_kind(objects, kind, name=None):
    found = [entry for entry in objects
             if entry["kind"] == kind and name in (None, entry["metadata"]["name"])]
    if len(found) != 1:
        raise AssertionError(f"found {len(found)} of kind {kind}, expected 1")
    return found[0]


def rights(role):
    """{(group, resource, verb)}"""
    return {(group, resource, verb) for rule in role["rules"] for group in rule["apiGroups"]
            for resource in rule["resources"] for verb in rule["verbs"]}


class ManifestsTest(unittest.TestCase):
    def dry_run(self, path):
        rendered = server().kubectl("kustomize", path)
        return server().kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-",
                                stdin=rendered)

    def setUp(self):
        server().kubectl("apply", "-f", MANIFESTS / "default" / "namespace.yaml")

    def test_the_server_takes_each_base_and_overlay(self):
        for name in ("default", "rbac", "manager", "network-policy",  # the first has the CRD
                     "overlays/namespaced"):
            with self.subTest(name):
                self.assertIn("(server dry run)", self.dry_run(MANIFESTS / name))

    def test_the_server_takes_each_component_on_each_base(self):
        for base, components in (("default", COMPONENTS[:2]), ("default", COMPONENTS[::2]),
                                 ("overlays/namespaced", COMPONENTS[:2]),
                                 ("overlays/namespaced", COMPONENTS[::2])):
            with self.subTest(f"{components} on {base}"), overlay(base, components) as path:
                self.dry_run(path)

    def test_without_its_crd_and_namespace_the_default_is_manifests_operator(self):
        """What is deleted to remove the operator and to keep the jobs, see docs/kubernetes.md."""
        kept = [entry for entry in render(MANIFESTS / "default")
                if entry["kind"] not in ("CustomResourceDefinition", "Namespace")]
        key = lambda entry: (entry["kind"], entry["metadata"]["name"])
        self.assertEqual(sorted(kept, key=key), sorted(render(MANIFESTS / "operator"), key=key))

    def test_the_namespaced_overlay_has_nothing_cluster_wide(self):
        kinds = {entry["kind"] for entry in render(MANIFESTS / "overlays" / "namespaced")}
        self.assertEqual({"ServiceAccount", "Role", "RoleBinding", "Deployment"}, kinds)
        deployment = of_kind(render(MANIFESTS / "overlays" / "namespaced"), "Deployment")
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        self.assertIn("--namespace=$(POD_NAMESPACE)", container["args"])

    def test_nodes_are_watched_where_they_may_be_and_nobody_gets_a_priority(self):
        rendered = render(MANIFESTS / "default")
        args = of_kind(rendered, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
        self.assertIn("--watch-nodes", args)
        self.assertEqual({("", "nodes", "list"), ("", "nodes", "watch")},
                         rights(of_kind(rendered, "ClusterRole", "lockstep-operator-nodes")))
        self.assertEqual([], [entry for entry in rendered if entry["kind"] == "PriorityClass"])
        local = of_kind(render(MANIFESTS / "overlays" / "namespaced"), "Deployment")
        self.assertNotIn("--watch-nodes", local["spec"]["template"]["spec"]["containers"][0]["args"])

    def test_the_pod_passes_the_restricted_profile_of_its_namespace(self):
        deployment = of_kind(render(MANIFESTS / "default"), "Deployment")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"},
               "spec": copy.deepcopy(deployment["spec"]["template"]["spec"])}  # render() keeps it
        pods = "/api/v1/namespaces/lockstep-system/pods?dryRun=All"
        code, answer = server().call("POST", pods, pod)
        self.assertEqual(201, code, answer.get("message"))
        pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
        code, answer = server().call("POST", pods, pod)
        self.assertEqual(403, code, "the profile is not enforced")

    def test_what_must_be_so_in_the_deployment(self):
        spec = of_kind(render(MANIFESTS / "default"), "Deployment")["spec"]["template"]["spec"]
        container = spec["containers"][0]
        self.assertEqual(65532, spec["securityContext"]["runAsUser"])
        self.assertIs(True, container["securityContext"]["readOnlyRootFilesystem"])
        self.assertTrue(container["image"].startswith("lockstep-operator:"), container["image"])
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        self.assertEqual({"metrics": 8080, "health": 8081}, ports)

    @unittest.skipUnless(FLAGS.exists(), "there is no operator yet")
    def test_the_operator_knows_the_flags(self):
        known = set(re.findall(r"--[a-z-]+", FLAGS.read_text()))
        with overlay("overlays/namespaced", COMPONENTS) as path:
            template = of_kind(render(path), "Deployment")["spec"]["template"]
        flags = {flag.split("=")[0] for flag in template["spec"]["containers"][0]["args"]}
        self.assertLessEqual(flags, known)
        self.assertLessEqual({"--namespace", "--kueue", "--gang-scheduler-name"}, flags)


class RightsTest(unittest.TestCase):
    def check_secrets(self, role):
        """They are created, and but one is never read."""
        for rule in role["rules"]:
            if "secrets" not in rule["resources"]:
                continue
            self.assertEqual(["secrets"], rule["resources"])
            if rule["verbs"] != ["create"]:
                self.assertEqual((["get"], ["lockstep-operator-key"], "Role"),
                                 (rule["verbs"], rule["resourceNames"], role["kind"]))

    def test_nothing_forbidden_with_all_components(self):
        for base in ("default", "overlays/namespaced"):
            with self.subTest(base), overlay(base, COMPONENTS) as path:
                for role in render(path):
                    operators = role["metadata"]["name"].startswith("lockstep-operator")
                    if role["kind"] in ("Role", "ClusterRole") and operators:
                        self.check_secrets(role)
                        for group, resource, verb in rights(role):
                            self.assertNotIn(resource, FORBIDDEN)
                            self.assertNotEqual("*", group)
                            self.assertNotIn(verb, ("*", "patch", "deletecollection", "impersonate",
                                                    "bind", "escalate"))

    def test_components_bring_the_rights_of_their_group_alone(self):
        plain = rights(of_kind(render(MANIFESTS / "default"), "ClusterRole", "lockstep-operator"))
        self.assertEqual({"", "training.lockstep.dev", "events.k8s.io", "networking.k8s.io"},
                         {group for group, _, _ in plain})
        for component, groups in (
                ("kueue", {"kueue.x-k8s.io", "training.lockstep.dev"}),  # it ends suspensions
                ("volcano", {"scheduling.volcano.sh"}), ("scheduler-plugins", {"scheduling.x-k8s.io"})):
            with self.subTest(component), overlay("default", [component]) as path:
                more = rights(of_kind(render(path), "ClusterRole", "lockstep-operator")) - plain
                self.assertEqual(groups, {group for group, _, _ in more})

    def test_kueue_may_read_the_jobs_whose_pods_its_webhook_admits(self):
        """By the server's answer, as the account of Kueue's own manifests; its cache is of all namespaces."""
        account = "system:serviceaccount:kueue-system:kueue-controller-manager"
        for base in ("default", "overlays/namespaced"):
            with self.subTest(base), overlay(base, ["kueue"]) as path:
                name = "lockstep-operator-kueue-manager"
                made = [of_kind(render(path), kind, name) for kind in ("ClusterRole", "ClusterRoleBinding")]
                stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
                server().kubectl("apply", "-f", "-", stdin=stdin)
                said = {(verb, resource): server().kubectl(
                    "auth", "can-i", verb, resource, f"--as={account}", "--all-namespaces", check=False).stdout.strip()
                    for verb, resource in (("get", JOBS), ("list", JOBS), ("watch", JOBS), ("update", JOBS), ("get", "pods"))}
                server().kubectl("delete", "-f", "-", stdin=stdin)
                self.assertEqual({("get", JOBS), ("list", JOBS), ("watch", JOBS)},
                                 {asked for asked, answer in said.items() if answer == "yes"})

    def test_bindings_name_the_account_where_it_is(self):
        for base, namespace, fields in (("default", "lockstep-system", {}),
                                        ("default", "elsewhere", {"namespace": "elsewhere"}),
                                        ("overlays/namespaced", "default", {}),
                                        ("overlays/namespaced", "elsewhere", {"namespace": "elsewhere"})):
            with self.subTest(base, namespace=namespace), overlay(base, ["kueue"], **fields) as path:
                deployment = of_kind(render(path), "Deployment")
                self.assertEqual(namespace, deployment["metadata"]["namespace"])
                subjects = [subject for entry in render(path) if entry["kind"].endswith("Binding")
                            for subject in entry["subjects"] if subject["namespace"] != "kueue-system"]
                self.assertEqual([{"kind": "ServiceAccount", "name": "lockstep-operator",
                                   "namespace": namespace}] * len(subjects), subjects)
                self.assertEqual(5 if base == "default" else 4, len(subjects))

    def test_operators_of_two_namespaces_share_nothing_that_is_cluster_wide(self):
        """With a suffix each, as manifests/components/kueue demands."""
        made = []
        for team in ("team-a", "team-b"):
            with overlay("overlays/namespaced", ["kueue"], namespace=team, nameSuffix=f"-{team}") as path:
                made.append({(entry["kind"], entry["metadata"]["name"]): entry for entry in render(path)
                             if "namespace" not in entry["metadata"]})
        one, other = made
        self.assertEqual({"ClusterRole", "ClusterRoleBinding"}, {kind for kind, _ in one})
        self.assertEqual(set(), one.keys() & other.keys())
        subjects = []
        for kind, name in one:
            if kind == "ClusterRoleBinding":
                self.assertIn(("ClusterRole", one[kind, name]["roleRef"]["name"]), one)
                subjects += one[kind, name]["subjects"]
        self.assertCountEqual(
            [{"kind": "ServiceAccount", "name": "lockstep-operator-team-a", "namespace": "team-a"},
             {"kind": "ServiceAccount", "name": "kueue-controller-manager", "namespace": "kueue-system"}], subjects)

    def test_the_server_grants_what_the_role_says(self):
        """By the server's own answer, as that account."""
        server().kubectl("apply", "-f", MANIFESTS / "default" / "namespace.yaml")
        server().kubectl("apply", "-f", "-", stdin=server().kubectl("kustomize", MANIFESTS / "rbac"))
        said = server().kubectl("auth", "can-i", "--list", f"--as={ACCOUNT}", "-n", "default")
        for line in ("trainingjobs.training.lockstep.dev", "pods", "services"):
            self.assertRegex(said, rf"(?m)^{re.escape(line)}\s")
        for verb, resource, subresource, allowed in (
                ("create", "pods", "", "yes"), ("patch", "pods", "", "no"),
                ("create", "pods", "exec", "no"), ("get", "pods", "log", "no"),
                ("create", "secrets", "", "yes"), ("get", "secrets", "", "no"),
                ("list", "secrets", "", "no"), ("watch", "secrets", "", "no"),
                ("create", "networkpolicies.networking.k8s.io", "", "yes"),
                ("get", "networkpolicies.networking.k8s.io", "", "no"),
                ("update", JOBS, "status", "yes"),
                ("update", JOBS, "", "no"), ("get", "leases.coordination.k8s.io", "", "no")):
            done = server().kubectl(
                "auth", "can-i", verb, resource, f"--subresource={subresource}",
                f"--as={ACCOUNT}", "-n", "default", check=False)
            self.assertEqual(allowed, done.stdout.strip(), f"{verb} {resource} {subresource}")
        for name, namespace, allowed in (("lockstep-operator-key", "lockstep-system", "yes"),
                                         ("other", "lockstep-system", "no"),
                                         ("lockstep-operator-key", "default", "no")):
            done = server().kubectl("auth", "can-i", "get", f"secrets/{name}", f"--as={ACCOUNT}",
                                    "-n", namespace, check=False)
            self.assertEqual(allowed, done.stdout.strip(), f"{namespace}/{name}")
        done = server().kubectl("auth", "can-i", "update", "leases.coordination.k8s.io/lockstep-operator",
                                f"--as={ACCOUNT}", "-n", "lockstep-system", check=False)
        self.assertEqual("yes", done.stdout.strip())


if __name__ == "__main__":
    unittest.main()
