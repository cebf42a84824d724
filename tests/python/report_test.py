"""lockstep.report against an HTTP server that plays the operator."""
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

MODULE = pathlib.Path(__file__).resolve().parent.parent.parent / "python" / "lockstep" / "report.py"
sys.path.insert(0, str(MODULE.parent))  # as a copy beside a program: without the package
import report  # noqa: E402


class Operator:
    def __init__(self, codes=()):
        self.seen = []  # (path, authorization, report)
        self.came = threading.Semaphore(0)
        left = list(codes)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.seen.append((self.path, self.headers["Authorization"], json.loads(body)["trainerStatus"]))
                self.send_response(left.pop(0) if left else 200)
                self.end_headers()
                outer.came.release()

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/x/status"

    def stop(self):
        self._http.shutdown()
        self._http.server_close()


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.token = pathlib.Path(folder.name) / "report-bearer"
        self.token.write_text("s3cret\n")
        self.start()

    def start(self, codes=()):
        self.operator = Operator(codes)
        self.addCleanup(self.operator.stop)

    def environment(self, **others):
        return {"KUBEFLOW_TRAINER_SERVER_URL": self.operator.url,
                "KUBEFLOW_TRAINER_SERVER_TOKEN": str(self.token), **others}

    def reporter(self, interval=60.0):
        made = report.Reporter(self.operator.url, str(self.token), interval)
        self.addCleanup(made.flush)
        return made

    def test_a_program_reports_at_its_end_what_it_said_last(self):
        program = "import report\nfor step in range(1, 501): report.report_progress(step=step, total=500, loss=1 / step)\n"
        done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True,
                              env={**os.environ, **self.environment(PYTHONPATH=str(MODULE.parent))})
        self.assertEqual("", done.stderr)
        path, authorization, last = self.operator.seen[-1]
        self.assertEqual(("/x/status", "Bearer s3cret"), (path, authorization))
        self.assertEqual(100, last["progressPercentage"])
        self.assertEqual({"current_step": "500", "total_steps": "500", "loss": "0.002"},
                         {metric["name"]: metric["value"] for metric in last["metrics"]})
        self.assertLessEqual(len(self.operator.seen), 3, "the first one, perhaps another, and the last")

    def test_reports_between_two_that_are_sent_are_left_out(self):
        reporter = self.reporter()
        reporter.put({"progressPercentage": 1})
        self.operator.came.acquire()
        for percentage in range(2, 50):
            reporter.put({"progressPercentage": percentage})
        self.assertTrue(reporter.flush(20))
        self.assertEqual([1, 49], [seen["progressPercentage"] for _, _, seen in self.operator.seen])

    def test_an_operator_that_does_not_lead_is_asked_again_and_a_refusal_is_final(self):
        for codes, tries in (((503, 503), 3), ((503,), 2), ((401,), 1), ((429,), 1)):
            self.start(codes)
            reporter = self.reporter()
            reporter.put({})
            self.assertTrue(reporter.flush(20))
            self.assertEqual(tries, len(self.operator.seen), codes)

    def test_whoever_cannot_be_reached_harms_nothing(self):
        self.operator.stop()
        reporter = self.reporter()
        reporter.put({})
        self.assertTrue(reporter.flush(20))
        self.token.unlink()
        reporter.put({})
        self.assertTrue(reporter.flush(20))

    def test_only_rank_0_reports_and_only_where_reports_are_taken(self):
        for environment in ({}, self.environment(RANK="1"), self.environment(KUBEFLOW_TRAINER_SERVER_TOKEN="")):
            with mock.patch.dict(os.environ, environment, clear=True):
                self.assertFalse(report.report_progress(step=1))
        self.assertEqual([], self.operator.seen)


if __name__ == "__main__":
    unittest.main()
