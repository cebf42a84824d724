"""What the peer tests share: running `lockstep run` and starting again inside the peers' Python."""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Small and quick: what is tested is what it leaves behind.
SMALL_JOB = ["--set", "spec.training.dataset={format: synthetic}", "--set",
             "spec.training.model={name: mlp}", "--set", "spec.training.summaries.everySteps=10"]

_parser = argparse.ArgumentParser()
_parser.add_argument("--lockstep", required=True, help="the program")
_parser.add_argument("--peers", required=True, help="the environment of tools/setup frameworks")
options = _parser.parse_args()


def run_in_peers():
    """Goes on in the peers' Python, for tests that import their packages."""
    python = os.path.join(options.peers, "bin", "python")
    if not os.path.exists(python):
        sys.exit(f"{python} does not exist: run `tools/setup frameworks`")
    if pathlib.Path(sys.prefix).resolve() != pathlib.Path(options.peers).resolve():
        os.execv(python, [python, *sys.argv])


class LocalRunTest(unittest.TestCase):
    """Gives each test a work directory of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-peer-")
        self.addCleanup(folder.cleanup)
        self.work_dir = pathlib.Path(folder.name)

    def lockstep_run(self, job, *arguments, cwd=ROOT):
        """The report of a run that has succeeded."""
        environment = {**os.environ, "PATH": f"{options.peers}/bin:{os.environ['PATH']}"}
        result = subprocess.run(
            [options.lockstep, "run", str(job), "--work-dir", str(self.work_dir), "--output",
             "json", "--timeout", "240", *arguments],
            cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(0, result.returncode, f"{result.stdout}\n{result.stderr}\n{self.logs()}")
        return json.loads(result.stdout)

    def logs(self):
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in sorted(self.work_dir.glob("logs/*/*")))


class ReportingExampleTest(LocalRunTest):
    """An example whose program reports how far it is, and saves what it has learned."""
    patience = 250  # seconds; a little less than tests/peer/CMakeLists.txt allows

    def setUp(self):
        super().setUp()
        self.deadline = time.monotonic() + self.patience

    def check_reports_and_restart(self, name, steps, arguments, volumes=()):
        """Starts it, sees its reports, kills worker 1 once something was saved, and sees both workers go on from there
        to the end. Returns what the programs have said, as (pod, attempt, record)."""
        shown = self.work_dir / "shown.txt"
        arguments = ["--checkpoints", "/checkpoints", *arguments]
        folder = ROOT / "examples" / name
        with open(shown, "w", encoding="utf-8") as out:
            process = subprocess.Popen(
                [options.lockstep, "run", str(folder / "job.yaml"), "--work-dir", str(self.work_dir / "run"),
                 "--volume", f"program={folder}", *volumes,
                 "--set", f"spec.replicaSpecs.Worker.template.spec.containers[0].args={json.dumps(arguments)}"],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env={**os.environ, "PATH": f"{options.peers}/bin:{os.environ['PATH']}",
                     "PYTHONPATH": str(ROOT / "python" / "lockstep"), "CUDA_VISIBLE_DEVICES": ""})
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)  # the run ends its pods

        reported = re.compile(rf"step \d+/{steps}  loss \d+\.\d+  \d+:\d+ left$", re.MULTILINE)
        self.wait_for(process, lambda: reported.search(shown.read_text()), "report of step, loss and time left",
                      shown)
        self.wait_for(process, lambda: any("saved" in record for *_, record in self.records()), "checkpoint", shown)
        [pid] = [record["pid"] for pod, _, record in self.records() if pod.endswith("worker-1") and "pid" in record]
        os.kill(pid, signal.SIGKILL)
        try:
            self.assertEqual(0, process.wait(self.deadline - time.monotonic()), self.told(shown))
        except subprocess.TimeoutExpired:
            self.fail(f"no end\n{self.told(shown)}")
        report = json.loads((self.work_dir / "run" / "report.json").read_text())
        self.assertEqual(("Succeeded", 1, steps), (report["state"], report["restarts"], report["steps"]),
                         self.told(shown))
        self.assertGreater(report["loss"], 0)
        starts = [(pod[-8:], attempt, record["restored_step"] > 0)
                  for pod, attempt, record in self.records() if "restored_step" in record]
        self.assertEqual([("worker-0", 0, False), ("worker-0", 1, True), ("worker-1", 0, False), ("worker-1", 1, True)],
                         starts, self.told(shown))
        return self.records()

    def wait_for(self, process, condition, what, shown):
        while not condition():
            if process.poll() is not None or time.monotonic() > self.deadline:
                self.fail(f"no {what}\n{self.told(shown)}")
            time.sleep(0.2)

    def records(self):
        """What the programs have said: (pod, attempt, record), in the order of pods and attempts."""
        found = []
        for path in sorted(self.work_dir.glob("run/logs/*/*.log")):
            for line in path.read_text(errors="replace").splitlines():
                if line.startswith('{"'):
                    found.append((path.parent.name, int(path.stem), json.loads(line)))
        return found

    def told(self, shown):
        logs = "\n".join(f"== {path}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in sorted(self.work_dir.glob("run/logs/*/*")))
        return f"{shown.read_text()}\n{logs}"


def main():
    unittest.main(argv=sys.argv[:1])
