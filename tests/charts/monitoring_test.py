"""Dashboards and rules, without data: Grafana's dashboard-linter in strict mode, and promtool."""
import functools
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

import dashboards
from helm import CHART, ROOT, program

RULES = CHART / "rules" / "lockstep.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"
METRIC = re.compile(r"(?<![:\w])((?:lockstep|process|DCGM)_\w+)(\{[^}]*\})?")
UNITS = {"none", "short", "string", "percentunit", "s", "bytes", "mbytes", "Bps", "ops", "reqps", "sci",
         "watt"}  # those of the linter's list that are in use
# What no panel asks for, and why nobody misses it there.
NOT_SHOWN = {
    "lockstep_operator_job_diverged_timestamp_seconds": "a job that has failed; TrainingJobDiverged tells when",
    "lockstep_trainer_evaluation_batches_total": "the phase evaluation says how long; TrainingJobStalled, that it goes on",
    "lockstep_trainer_checkpoint_interval_steps": "a setting of the job; TrainingJobCheckpointTooOld measures by it",
    "lockstep_trainer_epoch": "the step says it more finely",
    "lockstep_trainer_examples_per_second": "the rate of examples_total",
    "lockstep_trainer_goodput_ratio": "of one process; panels show the job's",
    "lockstep_trainer_generations_total": "each follows a restart or a resize, which are shown",
    "lockstep_trainer_server_pushed_bytes_total": "proportional to the updates",
    "lockstep_trainer_server_pulled_bytes_total": "likewise",
    "lockstep_trainer_evaluator_skipped_checkpoints": "the two lines of the panel Evaluator jump over them",
    "lockstep_trainer_evaluator_evaluations_total": "the panel Evaluator says which checkpoint was the last",
    "lockstep_trainer_evaluator_batches_total": "of one evaluation, for who looks at the page itself",
}
OF_JOB = 'namespace="n", trainingjob="j"'
OF_TRAINER = f'job="t", instance="i", {OF_JOB}'
# DCGM's exporter is another job: the linter's own documentation excludes such panels from the two rules.
OTHER_JOBS = "DCGM_"


def promtool(*arguments):
    return subprocess.run([program("promtool"), *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def made():
    return {path.stem: json.loads(path.read_text()) for path in sorted(CHART.glob("dashboards/*.json"))}


def queries(dashboard):
    """(panel's title, expression)"""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for mark in dashboard["annotations"]["list"]:
        yield mark["name"], mark["expr"]


def expand(text):
    """A query as Grafana sends it."""
    for name, value in (("$__rate_interval", "5m"), ("$__range", "1h"), ("$job", ".+"),
                        ("$instance", ".+"), ("$namespace", ".+"), ("$trainingjob", ".+")):
        text = text.replace(name, value)
    return text


def faults_of_promql(expressions):
    """What promtool says of the expressions, each as a rule of its own."""
    rules = [{"record": "check:it:now", "labels": {"number": str(index)}, "expr": text}
             for index, text in enumerate(expressions)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rules.yaml"
        path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
        done = promtool("check", "rules", path)
    return done.stdout if done.returncode != 0 else ""


def lint(dashboard):
    """The rules of dashboard-linter by their names there; each fault as a line."""
    variables = {entry["name"]: entry for entry in dashboard["templating"]["list"]}
    source = variables.get("datasource", {})
    if source.get("type") != "datasource" or source.get("label") != "Data source":
        yield "template-datasource-rule"
    for name in ("job", "instance"):
        entry = variables.get(name, {})
        if (entry.get("type"), entry.get("label"), entry.get("multi"), entry.get("allValue")) != (
                "query", name.title(), True, ".+"):
            yield f"template-{name}-rule"
    for name, entry in variables.items():
        if entry["type"] != "query":
            continue
        if entry["datasource"]["uid"] != "${datasource}":
            yield f"template-{name}-rule: data source {entry['datasource']}"
        if entry["refresh"] != 2:
            yield f"template-on-time-change-reload-rule: {name}"
        call = re.fullmatch(r"label_values\((.+), (\w+)\)", entry["query"])
        if not call or faults_of_promql([expand(call.group(1))]):
            yield f"template-label-promql-rule: {name}: {entry['query']}"
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            yield from (f"{rule}: {panel['title']}" for rule in lint_panel(panel))
    if dashboard.get("editable", True):
        yield "uneditable-dashboard"


def lint_panel(panel):
    uids = [panel["datasource"]["uid"], *(target["datasource"]["uid"] for target in panel["targets"])]
    if set(uids) != {"${datasource}"}:
        yield "panel-datasource-rule"
    if not panel["title"] or not panel["description"]:
        yield "panel-title-description-rule"
    if panel["fieldConfig"]["defaults"]["unit"] not in UNITS:
        yield "panel-units-rule"
    if not panel["targets"]:
        yield "panel-no-targets-rule"
    for target in panel["targets"]:
        yield from lint_query(target["expr"])


def lint_query(text):
    if faults_of_promql([expand(text)]):
        yield "target-promql-rule"
    if any(window != "$__rate_interval" for window in re.findall(r"\brate\([^[]*\[([^]]+)\]", text)):
        yield "target-rate-interval-rule"
    # What the counter has grown by since its least value.
    text = re.sub(r"\blast_over_time\((\w+\{[^}]*\}\[[^]]+\])\) - min_over_time\(\1\)", r"increase(\1)", text)
    for name, matchers in METRIC.findall(text):
        if name.startswith(OTHER_JOBS):
            continue
        for label in ("job", "instance"):
            if f'{label}=~"${label}"' not in matchers:
                yield f"target-{label}-rule"
        if name.endswith("_total") and not re.search(
                rf"\b(rate|irate|increase|changes)\({name}{re.escape(matchers)}\[", text):
            yield "target-counter-agg-rule"


class DashboardsTest(unittest.TestCase):
    def test_the_linter_finds_nothing(self):
        found = made()
        self.assertEqual({"fleet", "operator", "training-job"}, set(found))
        for name, dashboard in found.items():
            self.assertEqual([], list(lint(dashboard)), name)

    def test_each_rule_finds_its_fault(self):
        for change, rule in (
                (lambda d: d.update(editable=True), "uneditable-dashboard"),
                (lambda d: d["templating"]["list"].pop(0), "template-datasource-rule"),
                (lambda d: d["templating"]["list"][1].update(multi=False), "template-job-rule"),
                (lambda d: d["templating"]["list"][2].update(allValue=".*"), "template-instance-rule"),
                (lambda d: d["templating"]["list"][1].update(refresh=1), "template-on-time-change"),
                (lambda d: d["templating"]["list"][1].update(query="up"), "template-label-promql-rule"),
                (lambda d: d["panels"][0].update(description=""), "panel-title-description-rule"),
                (lambda d: d["panels"][0].update(targets=[]), "panel-no-targets-rule"),
                (lambda d: d["panels"][0]["datasource"].update(uid="prometheus"), "panel-datasource-rule"),
                (lambda d: d["panels"][0]["fieldConfig"]["defaults"].update(unit="furlong"),
                 "panel-units-rule"),
                (lambda d: d["panels"][0]["targets"][0].update(expr="sum("), "target-promql-rule"),
                (lambda d: d["panels"][0]["targets"][0].update(expr="lockstep_operator_jobs"),
                 "target-job-rule"),
                (lambda d: d["panels"][0]["targets"][0].update(
                    expr='rate(lockstep_x{job=~"$job", instance=~"$instance"}[5m])'),
                 "target-rate-interval-rule"),
                (lambda d: d["panels"][0]["targets"][0].update(
                    expr='lockstep_x_total{job=~"$job", instance=~"$instance"}'),
                 "target-counter-agg-rule"),
                (lambda d: d["panels"][0]["targets"][0].update(
                    expr='last_over_time(lockstep_x_total{job=~"$job", instance=~"$instance"}[5m])'),
                 "target-counter-agg-rule")):
            with self.subTest(rule):
                dashboard = made()["fleet"]
                change(dashboard)
                self.assertTrue(any(rule in fault for fault in lint(dashboard)), list(lint(dashboard)))

    def test_sidecars_can_provision_them(self):
        for path in CHART.glob("dashboards/*.json"):
            text = path.read_text()
            for word in ("__inputs", "__requires", "DS_PROMETHEUS"):
                self.assertNotIn(word, text)
            dashboard = json.loads(text)
            self.assertEqual(f"lockstep-{path.stem}", dashboard["uid"])
            self.assertLess(len(text), 1 << 20)
            ids = [panel["id"] for panel in dashboard["panels"]]
            self.assertEqual(len(ids), len(set(ids)))

    def test_a_status_history_is_drawn_for_any_range(self):
        """Grafana draws none of more points than half its width in pixels, and by default asks for a point per pixel."""
        found = {panel["title"]: panel.get("maxDataPoints") for dashboard in made().values()
                 for panel in dashboard["panels"] if panel["type"] == "status-history"}
        self.assertIn("Slowness of ranks", found)
        for title, points in found.items():
            self.assertTrue(points and points <= 100, f"{title}: {points}")

    def test_gpus_are_shown_with_and_without_honor_labels(self):
        """Without, the exporter's own pod is `pod`, and the one that uses the GPU `exported_pod`."""
        own = 'namespace="n", pod="{}", gpu="0"'
        renamed = 'namespace="gpus", pod="exporter-1", exported_namespace="{}", exported_pod="{}", gpu="0"'
        shown = [f"{name}-{role}-0" for name in ("honored", "renamed") for role in ("worker", "evaluator")]
        labels = [*map(own.format, shown[:2]), *(renamed.format("n", pod) for pod in shown[2:]),
                  renamed.format("other", "foreign-worker-0")]
        panels = {title: query for title, query in queries(made()["training-job"]) if OTHER_JOBS in query}
        self.assertEqual(6, len(panels))
        cases = []
        for query in panels.values():
            query = expand(query.replace("$namespace", "n"))
            metric = METRIC.search(query).group(1)
            cases.append({
                "interval": "1m",
                "input_series": [{"series": f"{metric}{{{of}}}", "values": "1x5"} for of in labels],
                "promql_expr_test": [{"expr": query, "eval_time": "3m", "exp_samples": [
                    {"labels": f'{{gpu="0", pod="{pod}"}}', "value": 1} for pod in shown]}]})
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "test.yaml"
            path.write_text(yaml.safe_dump({"tests": cases}))
            done = promtool("test", "rules", path)
        self.assertEqual(0, done.returncode, done.stdout)

    def test_the_page_names_what_the_exporter_must_be_told_to_count(self):
        """Its own lists of counters lack some or all of these."""
        asked = set(re.findall(r"DCGM_FI_PROF_\w+", " ".join(query for _, query in queries(made()["training-job"]))))
        self.assertEqual(3, len(asked))
        page = (ROOT / "docs" / "monitoring.md").read_text()
        self.assertEqual(asked, set(re.findall(r"DCGM_FI_PROF_\w+", page)))

    def test_jobs_of_operators_side_by_side_are_added_up(self):
        """Each has its own namespaces; but of one operator a former leader's series may linger."""
        shown = {"Jobs": ('lockstep_operator_jobs{{namespace="{}", job="{}", instance="{}", state="Running"}}',
                          '{state="Running"}', "fleet"),
                 "Jobs without series": (
                     'lockstep_operator_job_series_left_out{{namespace="{}", job="{}", instance="{}"}}', "{}",
                     "operator")}
        cases = []
        for title, (series, labels, dashboard) in shown.items():
            (query,) = [query for panel, query in queries(made()[dashboard]) if panel == title]
            of = [(series.format("tools", "a", 1), 10), (series.format("tools", "a", 2), 9),
                  (series.format("tools", "b", 1), 5)]
            cases.append({
                "interval": "1m", "input_series": [{"series": name, "values": f"{n}x5"} for name, n in of],
                "promql_expr_test": [{"expr": expand(query), "eval_time": "3m",
                                      "exp_samples": [{"labels": labels, "value": 15}]}]})
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "test.yaml"
            path.write_text(yaml.safe_dump({"tests": cases}))
            done = promtool("test", "rules", path)
        self.assertEqual(0, done.returncode, done.stdout)

    def test_what_is_documented_is_shown_or_nobody_misses_it(self):
        page = (ROOT / "docs" / "metrics.md").read_text()
        documented = set(re.findall(r"^\| `(lockstep_\w+)` \|", page, re.MULTILINE))
        self.assertGreater(len(documented), 60)
        asked = " ".join(query for dashboard in made().values() for _, query in queries(dashboard))
        asked = set(re.findall(r"\blockstep_\w+", asked))
        asked = {re.sub("_(bucket|sum|count)$", "", name) for name in asked}
        self.assertEqual(set(NOT_SHOWN), documented - asked)

    def test_one_training_job_is_shown_at_a_time(self):
        """Panels take the largest value, or the sum, of what they find."""
        for name, one in (("fleet", False), ("training-job", True)):
            dashboard = made()[name]
            for entry in dashboard["templating"]["list"]:
                if entry["name"] in ("namespace", "trainingjob"):
                    self.assertEqual((not one, not one), (entry["multi"], entry["includeAll"]), entry["name"])

    def test_links_to_the_other_dashboards_take_over_the_data_source_and_nothing_else(self):
        """The instance of an operator is none of a trainer, and all jobs are not one."""
        found = made()
        for name, dashboard in found.items():
            urls = {f"/d/{other['uid']}?${{datasource:queryparam}}" for key, other in found.items() if key != name}
            self.assertEqual(urls, {link["url"] for link in dashboard["links"]})
            for link in dashboard["links"]:
                self.assertEqual(("link", False, True), (link["type"], link["includeVars"], link["keepTime"]))

    def check_panels(self, dashboard, series, expected):
        """What the panels' first queries, or the ones after the colon, find: {"Loss:1": {labels: value}}"""
        cases = {"interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series],
                 "promql_expr_test": []}
        for title, found in expected.items():
            title, _, number = title.partition(":")
            asked = [query for panel, query in queries(made()[dashboard]) if panel == title]
            cases["promql_expr_test"].append({
                "expr": expand(asked[int(number or 0)]), "eval_time": "10m",
                "exp_samples": [{"labels": labels, "value": value} for labels, value in found.items()]})
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "test.yaml"
            path.write_text(yaml.safe_dump({"tests": [cases]}))
            done = promtool("test", "rules", path)
        self.assertEqual(0, done.returncode, done.stdout)

    @staticmethod
    def series_of_ranks(world, **values):
        """(series, values) of metrics of ranks 0, 1, …; a step takes rank N N + 1 times as long as rank 0."""
        size = len(values["step"])
        for metric, of_ranks in {"world_size": [world] * size, **values}.items():
            for rank, value in enumerate(of_ranks):
                yield f'lockstep_trainer_{metric}{{{OF_TRAINER}, rank="{rank}"}}', f"{value}x15"
        for rank in range(size):
            of = f'{OF_TRAINER}, rank="{rank}"'
            yield f'lockstep_trainer_time_seconds_total{{{of}, phase="compute"}}', f"0+{30 * (rank + 1)}x15"
            yield f"lockstep_trainer_steps_total{{{of}}}", "0+60x15"

    def test_of_ranks_that_train_together_the_leading_one_speaks(self):
        series = [*self.series_of_ranks(2, step=[9, 10], total_steps=[40, 40], loss=[2, 3], test_loss=[4, 4],
                                        remaining_seconds=[7, 8], skipped_steps=[1, 1], learning_rate=[0.1, 0.1]),
                  (f"lockstep_trainer_world_size{{{OF_TRAINER}, rank=\"7\"}}", "8x15"),  # it has yet to join
                  (f"lockstep_trainer_evaluator_test_loss{{{OF_TRAINER}}}", "5x15")]
        self.check_panels("training-job", series, {
            "Progress": {"{}": 0.25}, "Time left": {"{}": 7}, "Loss": {'{rank="0"}': 2},
            "Loss:1": {'{rank="0"}': 4}, "Loss:2": {"{}": 5}, "Skipped steps": {'{rank="0"}': 1}, "Ranks": {"{}": 2},
            "Slowness of ranks": {f"{{{OF_JOB}, rank=\"{rank}\"}}": rank + 1 for rank in range(2)}})

    def test_ranks_are_compared_with_those_of_their_stage(self):
        """Of a stage there are two ranks, of which the faster one is the measure."""
        series = [*self.series_of_ranks(4, step=[9] * 4, stage=[0, 1, 0, 1])]
        slowness = {0: 1, 1: 1, 2: 3, 3: 2}
        self.check_panels("training-job", series, {"Slowness of ranks": {
            f"{{{OF_JOB}, rank=\"{rank}\"}}": value for rank, value in slowness.items()}})

    def test_variants_that_train_alone_speak_for_themselves(self):
        series = self.series_of_ranks(1, step=[50, 10, 0], total_steps=[50, 50, 100], loss=[2, 3, 4],
                                      remaining_seconds=[0, 8, 20])
        self.check_panels("training-job", series, {
            "Progress": {"{}": 0.3}, "Time left": {"{}": 20},
            "Loss": {'{rank="0"}': 2, '{rank="1"}': 3, '{rank="2"}': 4}, "Slowness of ranks": {}})

    def test_a_variant_that_has_ended_is_none_of_the_replicas_in_training(self):
        """Its series stay as long as another process of its pod runs, and its time stands."""
        over = f'{OF_TRAINER}, rank="2"'
        series = [*self.series_of_ranks(1, step=[50, 10]), (f"lockstep_trainer_step{{{over}}}", "7x15"),
                  (f'lockstep_trainer_time_seconds_total{{{over}, phase="compute"}}', "30x15")]
        self.check_panels("fleet", series, {"Replicas in training": {"{}": 2}, "Replicas in training:1": {"{}": 1.5}})

    def test_servers_and_an_evaluator_are_shown(self):
        server = 'lockstep_trainer_server_{}{{' + OF_TRAINER + ', server="0"{}}}'
        series = [(server.format("updates_total", ""), "0+60x15"),
                  (server.format("dropped_gradients_total", ""), "0x15"),
                  (server.format("staleness_updates_bucket", ', le="1"'), "0+60x15"),
                  (server.format("staleness_updates_bucket", ', le="+Inf"'), "0+60x15"),
                  (f"lockstep_trainer_evaluator_step{{{OF_TRAINER}}}", "100x15"),
                  (f"lockstep_trainer_evaluator_leader_checkpoint_step{{{OF_TRAINER}}}", "300x15")]
        self.check_panels("training-job", series, {
            "Gradients at the servers": {'{server="0"}': 1}, "Gradients at the servers:1": {'{server="0"}': 0},
            "Staleness": {"{}": 0.5}, "Evaluator": {"{}": 100}, "Evaluator:1": {"{}": 300}})

    def test_an_operator_that_two_scrape_jobs_find_counts_a_restart_once(self):
        """A new operator's series starts at the restarts so far."""
        of = "lockstep_operator_job_status_restarts_total{{{}, cause=\"{}\", job=\"{}\", instance=\"{}\"}}"
        series = [(of.format(OF_JOB, "application", job, "o"), "2x7 3x7") for job in ("l", "annotated")]
        series += [(of.format(OF_JOB, "application", job, "p"), "_x8 3 4x6") for job in ("l", "annotated")]
        series += [(of.format(OF_JOB, "disruption", "l", "p"), "_x8 5x7")]
        self.check_panels("training-job", series, {
            "Restarts by the operator": {'{cause="application"}': 2, '{cause="disruption"}': 0}})

    def test_what_a_new_operators_series_starts_at_is_no_growth(self):
        """VictoriaMetrics' increase() counts a small first value as growth; Prometheus' cannot show that."""
        asked = [query for dashboard in made().values() for _, query in queries(dashboard)]
        asked += [rule["expr"] for rule in RulesTest.rules()]
        asked = [text for text in asked if "lockstep_operator_job_status_restarts_total" in text]
        self.assertEqual(2, len(asked))
        for text in asked:
            self.assertNotIn("increase(lockstep_operator_job_status_restarts_total", text)

    def test_a_healthy_operator_hides_no_other(self):
        of = '{{namespace="{}", job="o", instance="{}"{}}}'
        last = "lockstep_operator_watch_last_event_timestamp_seconds"
        watches = ', resource="pods"'
        series = [("lockstep_operator_leader" + of.format("a", 1, ""), "1x15"),
                  ("lockstep_operator_leader" + of.format("b", 2, ""), "1x15"),
                  ("lockstep_operator_leader" + of.format("b", 3, ""), "0x15"),  # it has led before
                  (last + of.format("a", 1, watches), "0+60x15"), (last + of.format("b", 2, watches), "120x15"),
                  (last + of.format("b", 3, watches), "60x15")]
        self.check_panels("operator", series, {
            "Leaders": {'{namespace="a", job="o"}': 1, '{namespace="b", job="o"}': 1},
            "Quiet watches": {'{namespace="a", job="o", resource="pods"}': 0,
                              '{namespace="b", job="o", resource="pods"}': 480}})

    def test_panels_do_not_overlap(self):
        for dashboard in made().values():
            taken = set()
            for panel in dashboard["panels"]:
                at = panel["gridPos"]
                cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                         for y in range(at["y"], at["y"] + at["h"])}
                self.assertLessEqual(at["x"] + at["w"], dashboards.ROW_WIDTH)
                self.assertFalse(cells & taken, panel["title"])
                taken |= cells


class RulesTest(unittest.TestCase):
    @staticmethod
    @functools.cache
    def rules():
        return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]

    def test_promtool_takes_them_and_their_tests_pass(self):
        done = promtool("check", "rules", RULES)
        self.assertEqual(0, done.returncode, done.stdout)
        done = promtool("test", "rules", ROOT / "tests" / "charts" / "rules_test.yaml")
        self.assertEqual(0, done.returncode, done.stdout)

    def test_each_rule_has_a_test_and_each_alert_one_that_fires_and_one_that_is_silent(self):
        tests = yaml.safe_load((ROOT / "tests" / "charts" / "rules_test.yaml").read_text())["tests"]
        alerts = [case for test in tests for case in test.get("alert_rule_test", [])]
        asked = " ".join(case["expr"] for test in tests for case in test.get("promql_expr_test", []))
        for rule in self.rules():
            if "record" in rule:
                self.assertIn(rule["record"], asked)
                continue
            cases = [case for case in alerts if case["alertname"] == rule["alert"]]
            self.assertTrue(any(case.get("exp_alerts") for case in cases), rule["alert"])
            self.assertTrue(any(self.silent_ones(rule, test) for test in tests), rule["alert"])

    def metrics_of(self, rule):
        """Those that it reads, also by recording rules."""
        read = {name for name, _ in METRIC.findall(rule["expr"])} | set(re.findall(r"\bup\b", rule["expr"]))
        for other in self.rules():
            if "record" in other and re.search(rf"\b{other['record']}\b", rule["expr"]):
                read |= self.metrics_of(other)
        return read

    def silent_ones(self, rule, test):
        """Whom the alert could name by what it reads in the test, and never does although it names others."""
        fired = [alert["exp_labels"] for case in test.get("alert_rule_test", [])
                 if case["alertname"] == rule["alert"] for alert in case.get("exp_alerts") or []]
        if not fired:
            return set()
        names = {name for labels in fired for name in labels} - {"severity"}
        read = self.metrics_of(rule)
        found = set()
        for entry in test["input_series"]:
            metric, _, matchers = entry["series"].partition("{")
            labels = dict(re.findall(r'(\w+)="([^"]*)"', matchers))
            if metric in read:
                found.add(tuple((name, labels[name]) for name in sorted(names) if name in labels))
        return found - {tuple((name, labels[name]) for name in sorted(names) if name in labels) for labels in fired}

    def test_each_alert_says_what_to_know_and_has_its_page(self):
        pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
        alerts = [rule for rule in self.rules() if "alert" in rule]
        self.assertEqual(pages, {rule["alert"] for rule in alerts})
        for rule in alerts:
            self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
            self.assertEqual({"summary", "description", "runbook_url"}, set(rule["annotations"]))
            self.assertEqual(f"docs/runbooks/{rule['alert']}.md", rule["annotations"]["runbook_url"])
            text = (RUNBOOKS / f"{rule['alert']}.md").read_text()
            for heading in ("## What it means", "## What to look at", "## What to do"):
                self.assertIn(heading, text, rule["alert"])
            # From several pods kubectl takes the one that has been ready longest: the one that has no fault.
            self.assertNotRegex(text, r"\blogs deploy", rule["alert"])

    def test_the_table_of_alerts_has_each_with_its_severity(self):
        rows = re.findall(r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| (\w+) \|", (ROOT / "docs" / "monitoring.md").read_text(),
                          re.MULTILINE)
        self.assertEqual(sorted((rule["alert"], rule["labels"]["severity"]) for rule in self.rules() if "alert" in rule),
                         sorted(rows))

    def test_recording_rules_are_named_level_metric_operation(self):
        for rule in self.rules():
            if "record" in rule:
                self.assertRegex(rule["record"], r"^[a-z]+:lockstep_[a-z_]+:[a-z_]+5m$")


if __name__ == "__main__":
    unittest.main()
