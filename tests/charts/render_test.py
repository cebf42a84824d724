"""What Helm makes of the chart, without a cluster."""
import contextlib
import functools
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

from helm import CHART, HELMS, ROOT, of_kind, render, run, template

EVERYTHING = {
    "replicas": 2, "watchNamespaces": ["team-a", "team-b"], "kueue.enabled": True, "gangScheduler": "volcano",
    "networkPolicy.enabled": True, "podMonitor.enabled": True, "podMonitor.renderMode": "alwaysRender",
    "serviceMonitor.enabled": True, "serviceMonitor.renderMode": "alwaysRender",
    "prometheusRule.enabled": True, "prometheusRule.renderMode": "alwaysRender",
    "dashboards.enabled": True, "rbac.aggregateToEdit": True,
    "trainer.image.digest": "sha256:" + 64 * "1", "operator.clusterDomain": "k8s.example",
    "progressReports.enabled": True}
# Flags that no value of their own sets; `operator.extraArgs` may. In a pod nobody needs them.
NO_VALUE = {"--kubeconfig", "--leader-election-namespace"}


def known_flags():
    return set(re.findall(r'add(?:_option|_flag)?\(\s*"(--[a-z-]+)"',
                          (ROOT / "operator" / "server" / "flags.cc").read_text()))


def leaves(values, path=()):
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, path + (key,))
        else:
            yield path + (key,), value


def texts(schema, sample, path=()):
    """{path: value} of each value that may be the text `sample`, or a list of it or a map to it."""
    kind, items = schema.get("type"), schema.get("items", schema.get("additionalProperties"))
    found = {}
    if kind == "string":
        if re.search(schema.get("pattern", ""), sample):
            found[".".join(path)] = sample
    elif kind == "array" and items.get("type") == "string":
        found |= {key: [value] for key, value in texts(items, sample, path).items()}
    elif kind == "object" and isinstance(items, dict):
        found |= {key: {"key": value} for key, value in texts(items, sample, path).items()}
    for key, child in schema.get("properties", {}).items():
        found |= texts(child, sample, path + (key,))
    return found


@contextlib.contextmanager
def umbrella(*dependencies, values):
    """A chart that has this one as its dependency, once with each of these fields."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "all"
        shutil.copytree(CHART, path / "charts" / "lockstep")
        version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
        (path / "Chart.yaml").write_text(json.dumps({
            "apiVersion": "v2", "name": "all", "version": "1.0.0", "dependencies": [
                {"name": "lockstep", "version": version, **fields} for fields in dependencies]}))
        (path / "values.yaml").write_text(json.dumps(values))
        yield path


def other_types(one, other, path=""):
    """Where a key or value of the second tree has another type than in the first, as lines."""
    if type(one) is not type(other):
        yield f"{path}: found {other!r}, expected a {type(one).__name__}"
    elif isinstance(one, dict):
        for (key, value), (other_key, other_value) in zip(one.items(), other.items(), strict=True):
            yield from other_types(key, other_key, f"{path}, a key")
            yield from other_types(value, other_value, f"{path}.{key}")
    elif isinstance(one, list):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from other_types(*pair, f"{path}[{index}]")


class MadeFilesTest(unittest.TestCase):
    def test_no_made_file_has_drifted(self):
        done = subprocess.run([ROOT / "tools" / "gen-chart", "--check"], stderr=subprocess.PIPE,
                              text=True, check=False)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_versions_are_those_of_the_build(self):
        version = re.search(r"^project\(lockstep VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(),
                            re.MULTILINE).group(1)
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual(version, chart["appVersion"])
        for image in yaml.safe_load(chart["annotations"]["artifacthub.io/images"]):
            self.assertTrue(image["image"].endswith(f":{version}"), image)


class RenderTest(unittest.TestCase):
    def test_lint_finds_nothing(self):
        for helm in HELMS:
            for values in ({}, EVERYTHING):
                with self.subTest(helm=helm, values=values):
                    flags = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
                    run(helm, "lint", "--strict", CHART, *flags)

    def test_two_renders_are_equal_byte_by_byte_with_either_helm(self):
        for helm in HELMS:
            for values in ({}, EVERYTHING):
                with self.subTest(helm=helm, values=values):
                    self.assertEqual(template(values, helm=helm, hooks=True),
                                     template(values, helm=helm, hooks=True))

    def test_both_helms_render_the_same(self):
        self.assertEqual(render(EVERYTHING, helm="helm3", hooks=True),
                         render(EVERYTHING, helm="helm4", hooks=True))

    def test_unit_tests(self):
        run("helm-unittest", "--strict", CHART)

    def test_names_of_objects_and_labels_fit(self):
        values = {"fullnameOverride": "", "dashboards.enabled": True}
        text = run("helm3", "template", "r" * 53, CHART, *[
            f"--set-json={key}={json.dumps(value)}" for key, value in values.items()])
        for entry in yaml.safe_load_all(text):
            if entry and entry["kind"] != "CustomResourceDefinition":
                if "Role" not in entry["kind"]:  # theirs may have 253 characters
                    self.assertLessEqual(len(entry["metadata"]["name"]), 63, entry["metadata"]["name"])
                for value in entry["metadata"]["labels"].values():
                    self.assertLessEqual(len(value), 63, value)

    def test_a_name_that_is_cut_at_a_dot_is_still_a_name(self):
        for release in ("r" * 30 + ".b.c", "lockstep." + "r" * 30 + ".b.c"):
            for entry in render({"crds.enabled": False}, name=release, hooks=True):
                self.assertRegex(entry["metadata"]["name"], r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
                self.assertNotRegex(entry["metadata"]["name"], r"[.-][.]|[.][.-]")

    def test_the_job_of_helm_test_is_named_like_a_job(self):
        text = run("helm3", "template", "r" * 53, CHART)
        job = of_kind([entry for entry in yaml.safe_load_all(text) if entry], "TrainingJob")
        self.assertLessEqual(len(job["metadata"]["name"] + "-worker-0"), 63)

    def test_what_helm_test_runs_passes_a_quota_of_each_kind(self):
        made = render(hooks=True)
        trainers = of_kind(made, "TrainingJob")["spec"]["replicaSpecs"].values()
        for spec in (of_kind(made, "Pod")["spec"], *(role["template"]["spec"] for role in trainers)):
            for container in spec["containers"]:
                for part in ("requests", "limits"):
                    self.assertEqual({"cpu", "memory"}, container["resources"][part].keys(), container["name"])


class TextTest(unittest.TestCase):
    """Without quotes YAML takes some texts for numbers, booleans or null."""
    SCHEMA = json.loads((CHART / "values.schema.json").read_text())

    def render_with(self, sample):
        values = EVERYTHING | {"crds.enabled": False, "fullnameOverride": "lockstep"}
        return {f"{index} ({entry['kind']})": entry for index, entry in enumerate(
            render(values | texts(self.SCHEMA, sample), name=sample, namespace=sample, hooks=True))}

    def test_every_text_is_one_in_the_objects_whatever_it_looks_like(self):
        for sample in ("0", "123", "1e3", "on", "null", "true"):
            with self.subTest(sample):
                plain, found = self.render_with(f"{sample}a"), self.render_with(sample)
                self.assertEqual([], list(other_types(plain, found)))

    def test_a_text_with_what_yaml_reads_as_a_mapping_or_a_comment_is_one_in_the_objects(self):
        fixed = EVERYTHING | {"crds.enabled": False}
        for sample in ("a: b", "a #b"):
            with self.subTest(sample):
                taken = texts(self.SCHEMA, sample)
                self.assertLess({"trainer.image.tag", "prometheusRule.runbookUrl"}, taken.keys())
                plain = json.loads(json.dumps(taken).replace(sample, "plain-text"))
                found = json.dumps(render(fixed | taken, hooks=True)).replace(sample, "plain-text")
                self.assertEqual(render(fixed | plain, hooks=True), json.loads(found))

    def test_the_texts_are_found_in_the_schema(self):
        self.assertLess({"watchNamespaces", "operator.tokenKeySecret", "podMonitor.trainerLimits.bodySize",
                         "podLabels"}, texts(self.SCHEMA, "0").keys())


class KeysTest(unittest.TestCase):
    """Values may name labels and annotations that the chart sets as well. The loader refuses a key that is twice
    in a mapping."""
    LABELS = {"app.kubernetes.io/name": "mine", "app.kubernetes.io/instance": "kube-prometheus-stack"}
    MORE = EVERYTHING | {
        "podLabels": LABELS, "podMonitor.labels": LABELS, "serviceMonitor.labels": LABELS,
        "prometheusRule.labels": LABELS, "dashboards.label": "app.kubernetes.io/name",
        "podAnnotations": {"prometheus.io/port": "9090", "kubectl.kubernetes.io/default-container": "mine"},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "labelSelector": {}}]}

    def test_labels_of_the_users_replace_those_of_monitors_and_rules(self):
        made = render(self.MORE) + render(self.MORE | {"serviceMonitor.enabled": False})
        found = [entry["metadata"]["labels"] for entry in made
                 if entry["kind"] in ("PodMonitor", "ServiceMonitor", "PrometheusRule")]
        self.assertEqual(6, len(found))
        for labels in found:
            self.assertLessEqual(self.LABELS.items(), labels.items())

    def test_a_pod_keeps_the_labels_that_it_is_found_by_and_takes_each_annotation(self):
        annotated = self.MORE | {"podMonitor.enabled": False, "serviceMonitor.enabled": False}
        spec = of_kind(render(annotated), "Deployment")["spec"]
        pod, selector = spec["template"], spec["selector"]["matchLabels"]
        self.assertLessEqual(selector.items(), pod["metadata"]["labels"].items())
        self.assertEqual({"prometheus.io/scrape": "true", **self.MORE["podAnnotations"]},
                         pod["metadata"]["annotations"])
        self.assertEqual([{"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": selector}}],
                         pod["spec"]["topologySpreadConstraints"])


class FlagsTest(unittest.TestCase):
    def args(self, values):
        spec = of_kind(render(values), "Deployment")["spec"]["template"]["spec"]
        return [arg.split("=")[0] for arg in spec["containers"][0]["args"]]

    def test_the_operator_knows_each_flag_and_each_flag_has_a_value(self):
        self.assertEqual(known_flags() - NO_VALUE, set(self.args(EVERYTHING)))

    def test_a_flag_that_has_a_value_is_refused_among_the_others_and_the_value_is_named(self):
        known = yaml.safe_load((CHART / "values.yaml").read_text())
        values = dict(re.findall(r"^(--[a-z-]+): (.+)$", (CHART / "templates" / "_helpers.tpl").read_text(),
                                 re.MULTILINE))
        self.assertEqual(known_flags() - NO_VALUE, values.keys())
        for flag, named in values.items():
            for path in named.split(" and "):
                self.assertIsNotNone(functools.reduce(dict.get, path.split("."), known), f"{flag}: {path}")
        for flag in ("--leader-elect=false", "--kueue", "--log-level"):
            done = template({"operator.extraArgs": [*(f"{name}=x" for name in NO_VALUE), flag]}, check=False)
            self.assertIn(f"operator.extraArgs: found {json.dumps(flag)}, expected {values[flag.split('=')[0]]} "
                          "instead", done.stderr)

    def test_flags_of_features_that_are_off_are_left_out(self):
        self.assertEqual(set(), set(self.args({})) & {"--kueue", "--gang-scheduler-name", "--namespace",
                                                        "--cluster-domain"})


class SchemaTest(unittest.TestCase):
    def refusal(self, values, **options):
        done = template(values, check=False, **options)
        self.assertNotEqual(0, done.returncode, f"{values} was taken")
        return done.stderr

    def test_every_value_is_in_the_schema_and_the_other_way_round(self):
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        schema = json.loads((CHART / "values.schema.json").read_text())

        def walk(node, path=()):
            properties = node.get("properties")
            if not properties:
                yield path
            for key, child in (properties or {}).items():
                yield from walk(child, path + (key,))

        def in_values(path):
            node = values
            for key in path:
                if not isinstance(node, dict) or key not in node:
                    return False
                node = node[key]
            return True

        described = {path for path in walk(schema) if path[0] not in ("global", "enabled", "tags")}
        optional = {("resources", "claims")}
        self.assertEqual([], sorted(path for path in described - optional if not in_values(path)))
        for path, _ in leaves(values):
            self.assertTrue(any(path[:n] in described for n in range(1, len(path) + 1)), path)

    def test_a_misspelt_section_is_refused_by_name(self):
        """`watchNamespace`, if it were taken without effect, would leave the operator the whole cluster."""
        for helm in HELMS:
            for key, value in (("watchNamespace", ["team-a"]), ("replicaCount", 2),
                               ("leaderelection", {"enabled": False}), ("networkPolicies", {"enabled": True})):
                with self.subTest(helm=helm, key=key):
                    self.assertIn(f"'{key}'", self.refusal({key: value}, helm=helm))

    def test_a_misspelt_nested_value_is_refused_by_name(self):
        for key in ("image.repositry", "operator.threads", "kueue.enable", "podMonitor.intervall"):
            self.assertIn(key.split(".")[1], self.refusal({key: 1}))

    def test_values_out_of_range_are_refused(self):
        for key, value in (("replicas", -1), ("operator.controllerThreads", 65), ("metrics.port", 0),
                           ("watchNamespaces", ["a", "a"]), ("watchNamespaces", ["A"]),
                           ("image.digest", "sha256:0"), ("podMonitor.renderMode", "sometimes")):
            with self.subTest(key):
                self.refusal({key: value})

    def test_contradictions_are_refused_with_a_reason(self):
        self.assertIn("two operators that both lead",
                      self.refusal({"replicas": 2, "leaderElection.enabled": False}))
        for name in ("podMonitor", "serviceMonitor", "prometheusRule"):
            said = self.refusal({"metrics.enabled": False, f"{name}.enabled": True})
            self.assertRegex(said, f"found false with {name}.enabled: true.*nothing to scrape")
        self.assertIn("expected another one", self.refusal({"health.port": 8080}))

    def test_what_an_umbrella_chart_adds_at_the_root_is_taken(self):
        self.assertTrue(render({"global": {"a": 1}, "enabled": True, "tags": {"training": True}}))
        with umbrella({"condition": "lockstep.enabled", "tags": ["training"]}, values={
                "global": {"a": 1}, "tags": {"training": True}, "lockstep": {"enabled": True}}) as path:
            for helm in HELMS:
                with self.subTest(helm):
                    self.assertIn("kind: Deployment", run(helm, "template", "all", path))

    def test_operators_that_would_select_each_others_pods_are_refused(self):
        teams = {name: {"fullnameOverride": name, "watchNamespaces": [name]} for name in ("teama", "teamb")}
        with umbrella(*({"alias": name} for name in teams), values=teams) as path:
            for helm in HELMS:
                with self.subTest(helm):
                    self.assertRegex(run(helm, "template", "all", path, check=False).stderr,
                                     'alias: found "team[ab]", expected none')

    def test_a_key_whose_content_is_commented_out_is_an_empty_one(self):
        """Helm deletes a key that is null, with its default."""
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        empty = {".".join(path): None for path, value in leaves(values) if isinstance(value, (dict, list))}
        empty |= dict.fromkeys(("resources", "podSecurityContext", "securityContext"))
        self.assertLess({"affinity", "watchNamespaces"}, empty.keys())
        for helm in HELMS:
            self.assertTrue(render(empty, helm=helm, hooks=True))
        # A rule without ports would open all of them.
        self.assertIn("networkPolicy.apiServerPorts: found none",
                      self.refusal({"networkPolicy.enabled": True, "networkPolicy.apiServerPorts": None}))

    def test_a_single_value_that_is_null_is_refused_by_name_or_counts_as_the_default(self):
        """Else a flag and the right that it needs would say different things: `--leader-elect=` is true for the
        operator, and no value is false for the template that renders the Role."""
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        single = {path: value for path, value in leaves(values) if not isinstance(value, (dict, list)) and
                  path[0] not in ("resources", "podSecurityContext", "securityContext")}
        may_be_null = {".".join(path) for path, value in single.items() if value == ""}
        self.assertLess({"image.tag", "gangScheduler"}, may_be_null)
        must_not = {path for path in single if ".".join(path) not in may_be_null}
        for helm in HELMS:
            with self.subTest(helm):
                self.assertEqual(render({**EVERYTHING, **dict.fromkeys(may_be_null, "")}, helm=helm, hooks=True),
                                 render({**EVERYTHING, **dict.fromkeys(may_be_null)}, helm=helm, hooks=True))
                said = self.refusal(dict.fromkeys(".".join(path) for path in must_not), helm=helm)
                named = {(*filter(None, place.split("/")), name)
                         for place, names in re.findall(r"at '([^']*)': missing propert(?:y|ies) (.*)", said)
                         for name in re.findall(r"'(\w+)'", names)}
                self.assertEqual(must_not, named)

    def test_a_section_that_is_empty_is_refused_by_name_or_counts_as_one(self):
        """Else Helm names a place in a template."""
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        sections = {key.rpartition(".")[0] for key in (".".join(path) for path, _ in leaves(values))} - {""}
        # Nothing stands for none: no requests, no limits.
        may_be_empty = {key for key in sections if key.partition(".")[0] in (
            "resources", "podSecurityContext", "securityContext")} | {"trainer.gpuImage"}
        for section in sorted(sections - may_be_empty):
            for helm in HELMS:
                with self.subTest(section, helm=helm):
                    name = section.rpartition(".")[2]
                    self.assertRegex(self.refusal({**EVERYTHING, section: None}, helm=helm),
                                     rf": {name} is required|missing property '{name}'")
        for section in sorted(may_be_empty):
            with self.subTest(section):
                self.assertTrue(render({**EVERYTHING, section: None}))

    def test_a_values_file_may_have_anchors_of_its_own(self):
        self.assertTrue(render({"x-labels": {"team": "infra"}, "_labels": {"team": "infra"}}))


class MonitoringObjectsTest(unittest.TestCase):
    KINDS = {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
    ON = {"podMonitor.enabled": True, "serviceMonitor.enabled": True, "prometheusRule.enabled": True}
    APIS = [f"--api-versions=monitoring.coreos.com/v1/{kind}" for kind in sorted(KINDS)]

    def kinds(self, values, *flags):
        text = run("helm3", "template", "lockstep", CHART, "--no-hooks", *flags, *[
            f"--set-json={key}={json.dumps(value)}" for key, value in values.items()])
        return {entry["kind"] for entry in yaml.safe_load_all(text) if entry} & self.KINDS

    def test_they_are_there_only_where_the_cluster_has_their_kinds(self):
        self.assertEqual(set(), self.kinds(self.ON))
        self.assertEqual(self.KINDS, self.kinds(self.ON, *self.APIS))
        self.assertEqual(set(), self.kinds({}, *self.APIS))

    def test_of_a_trainers_pod_a_prometheus_takes_its_own_series_and_so_much(self):
        spec = of_kind(render(EVERYTHING), "PodMonitor", "lockstep-trainer")["spec"]
        self.assertEqual((50000, 32, 1024, "16MB"), (spec["sampleLimit"], spec["labelLimit"],
                                                     spec["labelValueLengthLimit"], spec["bodySizeLimit"]))
        endpoint = spec["podMetricsEndpoints"][0]
        self.assertEqual([{"sourceLabels": ["__name__"], "regex": "lockstep_trainer_.*", "action": "keep"},
                          {"sourceLabels": ["rank", "server"], "regex": "[0-9]{0,6};[0-9]{0,6}", "action": "keep"}],
                         endpoint["metricRelabelings"])
        self.assertIn({"sourceLabels": ["__meta_kubernetes_pod_container_port_number"], "regex": "8080",
                       "action": "keep"}, endpoint["relabelings"])

    def test_an_older_prometheus_operator_is_not_given_the_field_that_it_lacks(self):
        values = EVERYTHING | {"podMonitor.trainerLimits.bodySize": ""}
        spec = of_kind(render(values), "PodMonitor", "lockstep-trainer")["spec"]
        self.assertNotIn("bodySizeLimit", spec)
        self.assertEqual(50000, spec["sampleLimit"])

    def test_the_operators_service_is_found_though_argo_cd_writes_its_label(self):
        made = render({"serviceMonitor.enabled": True, "serviceMonitor.renderMode": "alwaysRender"})
        labels = of_kind(made, "Service", "lockstep-operator-metrics")["metadata"]["labels"]
        labels["app.kubernetes.io/instance"] = "the-application"
        selector = of_kind(made, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
        self.assertLessEqual(selector.items(), labels.items())
        others = [entry for entry in made if entry["kind"] == "Service" and entry["metadata"]["labels"] is not labels]
        for other in others:
            self.assertFalse(selector.items() <= other["metadata"]["labels"].items(), other["metadata"]["name"])

    def test_a_missing_kind_can_be_an_error(self):
        for name in ("podMonitor", "serviceMonitor", "prometheusRule"):
            done = template({f"{name}.enabled": True, f"{name}.renderMode": "failIfMissing"}, check=False)
            self.assertIn(f"{name}.enabled: found true, but the cluster has no", done.stderr)


if __name__ == "__main__":
    unittest.main()
