"""Every panel's and every rule's query, asked of a real Prometheus that has scraped the real programs."""
import re
import tempfile
import time
import unittest

import yaml

import dashboards
from helm import CHART
from live import NAME, RELEASE, Live
from monitoring_test import METRIC, made
from slowness import SLOWNESS

RULES = CHART / "rules" / "lockstep.yaml"
# Until there is a GPU, only the linter looks at the first; the job has no servers, no Evaluator, no regression and no
# variants, whose panels and rules monitoring_test.py asks.
NOT_THERE = ("DCGM_", "lockstep_trainer_server_", "lockstep_trainer_evaluator_", "mean_absolute_error",
             "lockstep_operator_job_diverged_variants", "lockstep_operator_job_samples_lost",
             "lockstep_operator_job_samples_duplicated")
WINDOW = "5m"
DIVERGED = "diverges"
# What may be about to fire, all with a `for` because of it: rates over five minutes of a job that has run for one,
# on a machine that others use, and increase() of a counter that was new.
UNSETTLED = {("TrainingJobGoodputLow", NAME), ("TrainingJobInputStall", NAME), ("TrainingJobStraggler", NAME),
             ("TrainingJobsFailing", None)}
# What alerts are about whose first query has no data here.
ALERTS_ON = {"LockstepOperatorDown": "lockstep_operator_build_info",
             "TrainingJobVariantDiverged": "lockstep_trainer_diverged",
             "TrainingJobSamplesLost": "lockstep_trainer_samples_lost",
             # Ten minutes ago there was nothing.
             "TrainingJobStraggler": "max by (namespace, trainingjob) (rank:lockstep_slowness:ratio_rate5m)"}
LIMIT = re.compile(r"\s(?:>=|==|!=|>|<)\s(?![^(]*\))")  # outside parentheses


def expand(text):
    """A query as Grafana sends it, for the one job and a quick scrape."""
    for name, value in (("$__rate_interval", WINDOW), ("$__range", "5m"), ("$job", "lockstep-.+"),
                        ("$instance", ".+"), ("$namespace", "default"), ("$trainingjob", ".+")):
        text = text.replace(name, value)
    return text


def selectors(expression):
    """The metrics that a query reads, with their matchers."""
    return [name + matchers for name, matchers in METRIC.findall(expression)]


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-live-")
        cls.addClassCleanup(folder.cleanup)
        cls.live = cls.enterClassContext(Live(folder.name))
        live = cls.live
        live.wait_for_data("lockstep_trainer_checkpoint_last_success_timestamp_seconds > 0")
        live.wait_for_data("lockstep_operator_build_info")
        live.leave_a_job_pending("waits")
        live.succeed_a_job("succeeds")
        live.restart_a_job("restarts")
        live.lose_a_replica("lacks")
        live.fail_a_job("fails")
        live.diverge_a_job(DIVERGED)
        live.local.kill_replica(1)
        live.proxy.cut()
        live.wait_for_data("lockstep_trainer_replica_restarts_total > 0")
        live.wait_for_data('increase(lockstep_operator_watch_restarts_total{reason!="Closed"}[5m]) > 0')
        live.wait_for_data("rate(lockstep_trainer_step_duration_seconds_count[5m]) > 0")

    def ask(self, query):
        return self.live.prometheus.query(query)

    def found(self, query):
        """Asks until there is a series: who does not answer a scrape within a second has none until the next."""
        end = time.monotonic() + 20 * SLOWNESS
        while not (found := self.ask(query)) and time.monotonic() < end:
            time.sleep(0.2)
        self.assertTrue(found, query)
        return found

    def test_every_panel_has_data_with_the_labels_that_it_shows(self):
        asked = 0
        for name, dashboard in made().items():
            for panel in dashboard["panels"]:
                for target in panel.get("targets", []):
                    if any(name in target["expr"] for name in NOT_THERE):
                        continue
                    with self.subTest(dashboard=name, panel=panel["title"], query=target["expr"]):
                        found = self.live.wait_for_data(expand(target["expr"]))
                        self.check_labels(found, self.labels_shown(name, panel, target))
                        asked += 1
        self.assertGreater(asked, 60)

    def labels_shown(self, name, panel, target):
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        described = next(entry for entry in dashboards.DASHBOARDS[name][2]
                         if getattr(entry, "title", "") == panel["title"] and hasattr(entry, "columns"))
        return shown | set(described.columns)

    def check_labels(self, found, labels):
        for series in found:
            self.assertLessEqual(labels, set(series["metric"]))
            self.assertEqual("default", series["metric"].get("namespace", "default"))

    def test_every_annotation_is_a_query(self):
        for dashboard in made().values():
            for mark in dashboard["annotations"]["list"]:
                for selector in selectors(expand(mark["expr"])):
                    self.found(selector)
                self.ask(expand(mark["expr"]))

    def test_every_recording_rule_has_recorded(self):
        for rule in self.rules():
            if "record" in rule:
                found = self.live.wait_for_data(rule["record"])
                wanted = {"namespace", "trainingjob"} | ({"rank"} if rule["record"].startswith("rank:") else set())
                self.check_labels(found, wanted)
                self.assertEqual({NAME}, {series["metric"]["trainingjob"] for series in found})

    def test_every_alert_reads_what_there_is_and_has_the_labels_of_its_texts(self):
        for rule in self.rules():
            if "alert" not in rule:
                continue
            with self.subTest(rule["alert"]):
                for selector in selectors(rule["expr"]):
                    if selector not in NOT_THERE:
                        self.found(selector)
                used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
                # What it alerts on, without the limit, has the labels that its texts name.
                plain = ALERTS_ON.get(rule["alert"], LIMIT.split(rule["expr"])[0])
                self.check_labels(self.found(plain), used)

    def test_no_alert_fires_or_is_about_to_but_of_the_job_that_has_diverged(self):
        """Most fire only after minutes, so that `pending` says more of a healthy system than `firing`."""
        self.live.wait_for_data('ALERTS{alertname="TrainingJobDiverged", alertstate="firing"}')
        expected = {("TrainingJobDiverged", DIVERGED)}, set()
        end = time.monotonic() + 20 * SLOWNESS
        # Who does not answer a scrape within a second is about to be down until the next.
        while self.alerts() != expected and time.monotonic() < end:
            time.sleep(0.2)
        self.assertEqual(expected, self.alerts())

    def alerts(self):
        """Those that fire and those that are about to, but for the unsettled."""
        found = {"firing": set(), "pending": set()}
        for alert in self.live.prometheus.call("alerts")["alerts"]:
            labels = alert["labels"]
            found[alert["state"]].add((labels["alertname"], labels.get("trainingjob")))
        return found["firing"], found["pending"] - UNSETTLED

    def test_operators_of_different_releases_are_different_jobs(self):
        """By which alerts tell them apart."""
        found = self.found("lockstep_operator_build_info")
        self.assertEqual({f"lockstep-operator-{RELEASE}"}, {series["metric"]["job"] for series in found})

    def test_samples_of_ranks_add_up_to_those_of_the_job(self):
        """Each of two ranks has half of a step of 64."""
        found = self.live.wait_for_data("lockstep_trainer_examples_total / lockstep_trainer_steps_total", count=2)
        self.assertEqual(2, len(found), found)
        for series in found:
            self.assertAlmostEqual(32, float(series["value"][1]), delta=0.5)

    def test_the_phases_add_up_to_the_time_there_was(self):
        """As soon as a window lies behind the start, and the restart, of all ranks."""
        sums = "sum by (rank) (rate(lockstep_trainer_time_seconds_total[10s]))"
        found = self.live.wait_for_data(f"min({sums}) > 0.8 and max({sums}) < 1.2")
        self.assertEqual(1, len(found))

    def rules(self):
        return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


if __name__ == "__main__":
    unittest.main()
