"""What the peer tests share: running `lockstep run` and starting again inside the peers' Python."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Small and quick: what is tested is what it leaves behind.
SMALL_JOB = ["--set", "spec.training.dataset={format: synthetic}", "--set",
             "spec.training.model={name: mlp}", "--set", "spec.training.summaries.everySteps=10"]

_parser = argparse.ArgumentParser()
_parser.add_argument("--lockstep", required=True, help="the program")
_parser.add_argument("--peers", required=True, help="the environment of tools/setup peers")
options = _parser.parse_args()


def run_in_peers():
    """Goes on in the peers' Python, for tests that import their packages."""
    python = os.path.join(options.peers, "bin", "python")
    if not os.path.exists(python):
        sys.exit(f"{python} does not exist: run `tools/setup peers`")
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


def main():
    unittest.main(argv=sys.argv[:1])
