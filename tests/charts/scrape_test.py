"""What a Prometheus with examples/prometheus.yaml takes of pods that tenants make."""
import http.server
import pathlib
import tempfile
import threading
import time
import unittest

import yaml

from helm import ROOT
from prometheus import OPERATOR_NAMESPACE, Prometheus
from slowness import SLOWNESS

FORGED = "".join(f"{series} 7\n" for series in (
    "lockstep_operator_build_info", "lockstep_trainer_step", 'lockstep_trainer_step{rank="3"}',
    # What an alert would say.
    'lockstep_trainer_step{rank="call 555"}', 'lockstep_trainer_step{server="1; call 555"}',
    'lockstep_trainer_step{rank="1",server="1234567"}'))
TOO_LONG = f'lockstep_trainer_step{{phase="{"x" * 2000}"}} 7\n'


class Pod(http.server.ThreadingHTTPServer):
    """Serves a text as the metrics of its container's `port`, or sends the reader to the address `elsewhere`."""

    def __init__(self, namespace, name, labels, text, elsewhere=None, port=8080):
        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(302 if elsewhere else 200)
                if elsewhere:
                    self.send_header("Location", elsewhere)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Answer)
        port = {"name": "metrics", "containerPort": port, "hostPort": self.server_port}
        self.object = {"metadata": {"namespace": namespace, "name": name, "labels": labels},
                       "spec": {"containers": [{"name": "main", "ports": [port]}]},
                       "status": {"phase": "Running", "podIP": "127.0.0.1"}}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class ScrapeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        operator = {"app.kubernetes.io/name": "lockstep", "app.kubernetes.io/component": "operator"}
        trainer = {"training.lockstep.dev/job-name": "j", "training.lockstep.dev/role": "worker"}
        # Whoever may make pods may give them any label, and serve anything.
        pods = [Pod(OPERATOR_NAMESPACE, "operator", operator, "lockstep_operator_build_info 1\n"),
                Pod("tenant", "impostor", operator, FORGED),
                Pod("tenant", "forger", trainer, FORGED),
                Pod("tenant", "waster", trainer, TOO_LONG),
                Pod("tenant", "own-image", trainer, "own_metric 1\n", port=9400)]
        # One that admits only Prometheus, which does not look for it.
        private = Pod("other", "private", {}, "lockstep_trainer_step 8\n")
        pods += [private, Pod("tenant", "redirector", trainer, "", f"http://127.0.0.1:{private.server_port}/metrics")]
        for pod in pods:
            cls.addClassCleanup(pod.server_close)
            cls.addClassCleanup(pod.shutdown)
        folder = tempfile.TemporaryDirectory(prefix="lockstep-scrape-")
        cls.addClassCleanup(folder.cleanup)
        cls.prometheus = Prometheus(pathlib.Path(folder.name), lambda: [pod.object for pod in pods])
        cls.addClassCleanup(cls.prometheus.stop)
        end = time.monotonic() + 60 * SLOWNESS
        # `up` is said of a target after its samples.
        while len(cls.prometheus.query("up")) < 4 and time.monotonic() < end:
            time.sleep(0.1)

    def pods_of(self, query):
        return {series["metric"]["pod"] for series in self.prometheus.query(query)}

    def assert_pods(self, expected, query):
        """Asks again while there are others: who does not answer a scrape within a second is down until the next."""
        end = time.monotonic() + 20 * SLOWNESS
        while self.pods_of(query) != expected and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(expected, self.pods_of(query))

    def test_the_operator_is_looked_for_in_its_namespace_alone(self):
        self.assert_pods({"operator"}, 'up{job!="lockstep-trainer"}')

    def test_trainers_have_no_series_of_the_operator(self):
        self.assert_pods({"operator"}, "lockstep_operator_build_info")
        self.assert_pods({"forger"}, "lockstep_trainer_step")

    def test_no_words_of_a_tenant_get_into_alerts(self):
        self.assert_pods({"forger"}, 'lockstep_trainer_step{rank="3"}')
        found = {tuple(series["metric"].get(label, "") for label in ("rank", "server"))
                 for series in self.prometheus.query("lockstep_trainer_step")}
        self.assertEqual({("", ""), ("3", "")}, found)

    def test_each_scrape_job_brings_its_interval_along(self):
        """To a configuration whose other jobs scrape less often: of two samples a minute panels show no rates."""
        example = yaml.safe_load((ROOT / "examples" / "prometheus.yaml").read_text())
        self.assertEqual({"lockstep-operator": "15s", "lockstep-trainer": "15s"},
                         {scrape["job_name"]: scrape.get("scrape_interval") for scrape in example["scrape_configs"]})

    def test_of_a_pod_that_serves_too_much_nothing_is_taken(self):
        self.assertIn("waster", self.pods_of("up == 0"))

    def test_metrics_of_a_users_own_image_are_left_to_the_user(self):
        """A job's NetworkPolicy admits scrapers to the bundled trainer's port alone: the target would be down for ever."""
        self.assert_pods({"forger", "waster", "redirector"}, 'up{job="lockstep-trainer"}')

    def test_a_redirect_is_not_followed(self):
        self.assert_pods({"waster", "redirector"}, "up == 0")
        self.assertEqual([], self.prometheus.query("lockstep_trainer_step == 8"))


if __name__ == "__main__":
    unittest.main()
