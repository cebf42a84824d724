"""lockstep.report against an HTTP server that plays the operator."""
import contextlib
import http.server
import io
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
from slowness import SLOWNESS  # noqa: E402


class Operator:
    """`codes` are its first answers: a status, None for what is no HTTP, or a URL to go to."""

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
                code = left.pop(0) if left else 200
                if code is None:
                    self.wfile.write(b"nonsense\r\n\r\n")
                elif isinstance(code, str):
                    self.send_response(302)
                    self.send_header("Location", code)
                    self.end_headers()
                else:
                    self.send_response(code)
                    self.end_headers()
                    self.wfile.write(b"its answer\n")
                outer.came.release()

            def do_GET(self):
                outer.seen.append((self.path, self.headers["Authorization"], None))
                self.send_response(200)
                self.end_headers()

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

    def metrics(self):
        """Of each report that has come."""
        return [{metric["name"]: metric["value"] for metric in seen["metrics"]} for _, _, seen in self.operator.seen]

    def environment(self, **others):
        return {"KUBEFLOW_TRAINER_SERVER_URL": self.operator.url,
                "KUBEFLOW_TRAINER_SERVER_TOKEN": str(self.token), **others}

    def reporter(self, interval=60.0):
        made = report.Reporter(self.operator.url, str(self.token), interval)
        self.addCleanup(made.flush)
        return made

    def test_a_program_reports_at_its_end_what_it_said_last(self):
        program = "for step in range(1, 501): report.report_progress(step=step, total=500, loss=1 / step)\n"
        self.assertEqual("", self.run_program(program))
        path, authorization, last = self.operator.seen[-1]
        self.assertEqual(("/x/status", "Bearer s3cret"), (path, authorization))
        self.assertEqual(100, last["progressPercentage"])
        self.assertEqual({"current_step": "500", "total_steps": "500", "loss": "0.002"},
                         self.metrics()[-1])
        self.assertLessEqual(len(self.operator.seen), 3, "the first one, perhaps another, and the last")

    def test_the_time_left_is_that_at_the_pace_since_the_first_step(self):
        reporter = self.reporter()
        with mock.patch.object(report.time, "monotonic", side_effect=(10.0, 30.0, 40.0, 50.0, 60.0)):
            found = [reporter.seconds_left(step, 200) for step in (100, 110, 205, 1, 2)]
        self.assertEqual([None, 180, 0, None, 1980], found)

    def test_a_program_that_says_its_time_left_is_believed(self):
        self.run_program("report.report_progress(step=1, total=9)\nreport.report_progress(step=2, total=9)\n"
                         "report._reporter.flush()")
        self.assertEqual(0, self.operator.seen[-1][2]["estimatedRemainingSeconds"])
        self.run_program("report.report_progress(step=1, total=9)\n"
                         "report.report_progress(step=2, total=9, remaining_seconds=77)")
        self.assertEqual(77, self.operator.seen[-1][2]["estimatedRemainingSeconds"])

    def run_program(self, program, **environment):
        done = subprocess.run([sys.executable, "-c", "import report\n" + program], check=True, timeout=60 * SLOWNESS,
                              capture_output=True, text=True,
                              env={**os.environ, **self.environment(PYTHONPATH=str(MODULE.parent)), **environment})
        return done.stderr

    def test_numbers_may_be_of_any_type_and_what_is_none_is_left_out(self):
        program = """
class Scalar:  # as NumPy's: json does not know it
    def __init__(self, value): self.value = value
    def __int__(self): return int(self.value)
    def __float__(self): return float(self.value)
class Vector:
    def __float__(self): raise RuntimeError("several numbers")
print(report.report_progress(step=Scalar(7), total=14.0, loss=Scalar(0.5), accuracy="?", epoch=float("nan"),
                             remaining_seconds=float("inf"), test_loss=Vector(), test_accuracy=1))
"""
        self.assertEqual("", self.run_program(program))
        [(_, _, seen)] = self.operator.seen
        self.assertEqual({"progressPercentage": 50, "metrics": [
            {"name": "current_step", "value": "7"}, {"name": "total_steps", "value": "14"},
            {"name": "loss", "value": "0.5"}, {"name": "test_accuracy", "value": "1.0"}]}, seen)
        self.run_program("report.report_progress(step=1, remaining_seconds=1e300)")
        self.assertEqual(2**53 - 1, self.operator.seen[-1][2]["estimatedRemainingSeconds"])

    def test_an_answer_that_is_none_does_not_end_the_reports(self):
        self.start((None, None, None))
        reporter = self.reporter()
        for step in (1, 2):
            reporter.put({"current_step": step})
            self.assertTrue(reporter.flush(20))
        self.assertEqual([{"current_step": step} for step in "11112"], self.metrics())

    def test_nothing_is_imported_while_it_reports(self):
        program = """
import sys
before = set(sys.modules)
report.report_progress(step=1)
report._reporter.flush()
print(*set(sys.modules) - before, file=sys.stderr)
"""
        self.assertEqual("\n", self.run_program(program))

    def test_a_process_that_was_forked_reports_too(self):
        program = """
import multiprocessing, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, from Python 3.12 on
report.report_progress(step=1)
child = multiprocessing.get_context("fork").Process(target=report.report_progress, kwargs={"step": 2})
child.start()
child.join()
pid = os.fork()
if not pid:
    report.report_progress(step=3)
    raise SystemExit
os.waitpid(pid, 0)
"""
        self.assertEqual("", self.run_program(program))
        self.assertEqual(["1", "2", "3"],
                         sorted(seen["metrics"][0]["value"] for _, _, seen in self.operator.seen))

    def test_whatever_cannot_be_done_stays_inside(self):
        program = """
import threading
class Strange:
    def __float__(self): raise KeyError("of the program's own")
sent = []
def send(self, body):
    sent.append(body)
    if len(sent) == 1: raise KeyError("unforeseen")
    return True
report.Reporter._send = send
real, threading.Thread.start = threading.Thread.start, lambda self: (_ for _ in ()).throw(RuntimeError("no thread"))
assert not report.report_progress(step=1, loss=Strange())
threading.Thread.start = real
assert report.report_progress(step=1, loss=Strange())
assert report._reporter.flush(20) and len(sent) == 2
"""
        self.assertEqual("", self.run_program(program))

    def test_a_refusal_is_told_once(self):
        for codes, told in (((401, 400), 1), ((400,), 1), ((429, 503), 0)):
            self.start(codes)
            reporter = self.reporter()
            with contextlib.redirect_stderr(io.StringIO()) as errors:
                for _ in codes:
                    reporter.put({})
                    self.assertTrue(reporter.flush(20))
            self.assertEqual(told, len(errors.getvalue().splitlines()), codes)
            if told:
                self.assertIn(f"found the answer {codes[0]} (its answer)", errors.getvalue())

    def test_neither_a_proxy_nor_another_server_gets_the_bearer(self):
        other = Operator()
        self.addCleanup(other.stop)
        self.run_program("report.report_progress(step=1)", HTTP_PROXY=other.url, http_proxy=other.url, no_proxy="",
                         NO_PROXY="")
        self.assertEqual((1, []), (len(self.operator.seen), other.seen))
        self.start((other.url,))
        self.assertIn("302", self.run_program("report.report_progress(step=1)"))
        self.assertEqual((1, []), (len(self.operator.seen), other.seen))

    def test_reports_between_two_that_are_sent_are_left_out(self):
        reporter = self.reporter()
        reporter.put({"current_step": 1})
        self.operator.came.acquire()
        for step in range(2, 50):
            reporter.put({"current_step": step})
        self.assertTrue(reporter.flush(20))
        self.assertEqual([{"current_step": "1"}, {"current_step": "49"}], self.metrics())

    def test_what_was_said_between_two_reports_is_in_the_second(self):
        reporter = self.reporter()
        reporter.put({"current_step": 1})
        self.operator.came.acquire()
        reporter.put({"current_step": 60, "total_steps": 60, "loss": 0.25}, 0)
        reporter.put({"test_loss": 0.5})
        reporter.put({"test_loss": 0.75, "test_accuracy": 0.97})
        self.assertTrue(reporter.flush(20))
        self.assertEqual({"current_step": "60", "total_steps": "60", "loss": "0.25", "test_loss": "0.75",
                          "test_accuracy": "0.97"}, self.metrics()[-1])
        last = self.operator.seen[-1][2]
        self.assertEqual((100, 0), (last["progressPercentage"], last["estimatedRemainingSeconds"]))

    def test_what_is_said_during_a_try_that_fails_is_added_to_it(self):
        reporter = self.reporter()
        bodies, under_way, fails = [], threading.Event(), threading.Event()

        def send(body):
            bodies.append(json.loads(body))
            under_way.set()
            fails.wait()
            return len(bodies) > 1

        reporter._send = send
        reporter.put({"current_step": 1, "loss": 0.5})
        under_way.wait()
        reporter.put({"current_step": 2})
        fails.set()
        self.assertTrue(reporter.flush(20))
        self.assertEqual([{"name": "current_step", "value": "2"}, {"name": "loss", "value": "0.5"}],
                         bodies[1]["trainerStatus"]["metrics"])

    def test_an_evaluation_after_the_last_step_hides_neither_it_nor_its_loss(self):
        self.run_program("for step in range(1, 61): report.report_progress(step=step, total=60, loss=1 / step)\n"
                         "report.report_progress(step=60, total=60, loss=None)\n"  # as a Trainer's last log
                         "report.report_progress(test_accuracy=0.97)")
        self.assertEqual({"current_step": "60", "total_steps": "60", "loss": str(1 / 60), "test_accuracy": "0.97"},
                         self.metrics()[-1])
        self.assertEqual(100, self.operator.seen[-1][2]["progressPercentage"])

    def test_a_total_that_the_step_exceeds_was_of_other_work(self):
        reporter = self.reporter()
        reporter.put({})
        self.operator.came.acquire()
        reporter.put({"current_step": 100, "total_steps": 100})
        reporter.put({"current_step": 150})
        self.assertTrue(reporter.flush(20))
        self.assertEqual({"metrics": [{"name": "current_step", "value": "150"}]}, self.operator.seen[-1][2])

    def test_an_operator_that_does_not_lead_is_asked_again_and_a_refusal_is_final(self):
        for codes, tries in (((503,) * 6, 7), ((503,), 2), ((401,), 1), ((429,), 2)):
            self.start(codes)
            reporter = self.reporter()
            reporter.put({})
            self.assertTrue(reporter.flush(20))
            self.assertEqual(tries, len(self.operator.seen), codes)

    def test_what_could_not_be_sent_is_kept_until_it_can(self):
        self.token.unlink()
        reporter = self.reporter()
        for step in (1, 2):
            reporter.put({"current_step": step, f"number{step}": step})
            self.assertFalse(reporter.flush(0.3))
        self.token.write_text("s3cret")
        self.assertTrue(reporter.flush(20))
        self.assertEqual([{"current_step": "2", "number1": "1", "number2": "2"}], self.metrics())
        self.operator.stop()
        reporter.put({})
        self.assertFalse(reporter.flush(0.3))
        self.start()
        reporter._url = self.operator.url  # as a Service that has endpoints again
        self.assertTrue(reporter.flush(20))

    def test_only_rank_0_reports_and_only_where_reports_are_taken(self):
        for environment in ({}, self.environment(RANK="1"), self.environment(KUBEFLOW_TRAINER_SERVER_TOKEN="")):
            with mock.patch.dict(os.environ, environment, clear=True):
                self.assertFalse(report.report_progress(step=1))
        self.assertEqual([], self.operator.seen)


if __name__ == "__main__":
    unittest.main()
