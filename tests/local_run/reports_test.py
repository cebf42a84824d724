"""A program of the user's own that reports how far it is, as to an operator."""
import json
import pathlib
import signal
import time
import unittest

from local_run import SLOWNESS, RunTest

HELPER = pathlib.Path(__file__).resolve().parents[2] / "python" / "lockstep" / "report.py"
# The first attempt hangs behind its reports, and so does not reach its end.
PROGRAM = """
import os, sys, time
from report import report_progress
print(os.environ.get("KUBEFLOW_TRAINER_SERVER_URL", "nowhere"), flush=True)
for step in range(1, 4):
    report_progress(step=step, total=4, loss=1 / step)
    time.sleep(0.1)
if "/attempts/0/" in os.environ.get("KUBEFLOW_TRAINER_SERVER_URL", ""):
    time.sleep(600)
report_progress(step=4, total=4, loss=0.25)
"""
SAVING_PROGRAM = """
import signal, sys, time
from report import report_progress
def save(*_):
    report_progress(step=7, total=10, loss=0.5)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
report_progress(step=1, total=10)
print("begun", flush=True)
while True:
    time.sleep(1)
"""


class ReportsTest(RunTest):
    def job(self, program_text=PROGRAM, **spec):
        program = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program"},
                   "data": {"train.py": program_text, "report.py": HELPER.read_text()}}
        pod = {"volumes": [{"name": "program", "configMap": {"name": "program"}}],
               "containers": [{"name": "main", "image": "none", "command": ["python3", "/program/train.py"],
                               "volumeMounts": [{"name": "program", "mountPath": "/program"}]}]}
        job = {"apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob", "metadata": {"name": "own"},
               "spec": {"replicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": pod}}},
                        "successPolicy": "AllWorkers", **spec}}
        path = pathlib.Path(self.folder) / "job.yaml"
        path.write_text("---\n".join(json.dumps(one) + "\n" for one in (program, job)))
        return path

    def test_what_a_program_reports_is_shown_and_a_silent_one_is_started_again(self):
        run = self.start(self.job(jobToken="Mounted", runPolicy={"progressDeadlineSeconds": 10}), output="text")
        out, err = run.process.communicate(timeout=150)
        self.assertEqual((0, ""), (run.process.returncode, err), out + run.logs())
        lines = out.splitlines()
        self.assertTrue(any(line.startswith("step 3/4  loss 0.3333  0:0") for line in lines), out)
        self.assertTrue(any("ProgressDeadlineExceeded" in line for line in lines), out)
        self.assertIn("training       loss 0.2500 after 4 steps", lines)
        report = json.loads((run.work_dir / "report.json").read_text())
        self.assertEqual((4, 0.25, 1), (report["steps"], report["loss"], report["restarts"]))

    def test_what_a_program_reports_when_it_is_told_to_end_is_in_the_report(self):
        for attempt in range(3):  # a machine with other work slows down single runs
            run = self.start(self.job(SAVING_PROGRAM, jobToken="Mounted"), f"run{attempt}")
            run.wait_for(lambda: run.logs().count("begun") == 2, "both programs")
            run.process.send_signal(signal.SIGINT)
            began = time.monotonic()
            code, report, err = run.finish()
            seconds = time.monotonic() - began
            self.assertEqual((130, 7, 0.5), (code, report["steps"], report["loss"]), err + run.logs())
            if seconds < 2.5 * SLOWNESS:
                break
        self.assertLess(seconds, 2.5 * SLOWNESS)  # nothing has waited 3 s for an answer

    def test_a_job_that_has_not_asked_for_its_token_is_told_nothing(self):
        code, report, _ = self.start(self.job()).finish()
        self.assertEqual((0, None), (code, report["steps"]))


if __name__ == "__main__":
    unittest.main()
