"""What the tests of `lockstep run` share: start it, watch its processes, end it."""
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

import local_job
from slowness import SLOWNESS

BIN = pathlib.Path(os.environ["LOCKSTEP_BIN"])
LOCKSTEP = BIN / "lockstep"
TRAINER = BIN / "lockstep-trainer"
# A run leaves SIGINT ignored, as it is in what a shell without job control starts in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)

LAYERS = [{"type": "Conv2D", "filters": 16, "kernelSize": 5, "padding": "same", "activation": "relu"},
          {"type": "MaxPooling2D"}, {"type": "Flatten"},
          {"type": "Dense", "units": 64, "activation": "relu"}, {"type": "Dropout", "rate": 0.2},
          {"type": "Dense", "units": 10}]


def write_job(folder, name="small", workers=2, epochs=4, scope="InPlace", communication="Auto"):
    training = {
        "model": {"layers": LAYERS},
        "dataset": {"format": "synthetic", "synthetic": {"trainExamples": 4000, "testExamples": 500}},
        "batchSize": {"global": 64}, "epochs": epochs,
        "optimizer": {"name": "Adam", "learningRate": 0.001},
        "checkpoint": {"directory": "/checkpoints", "everySteps": 20, "keep": 3},
        "summaries": {"directory": "/logs", "everySteps": 10}}
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(local_job.text(name, training, folders=("checkpoints", "logs"), workers=workers,
                                   cpu="1", communication=communication, restartScope=scope))
    return path


class Run:
    """A `lockstep run` in the background, with its own work directory."""

    def __init__(self, job, work_dir, *args, output="json", prefix=()):
        self.work_dir = pathlib.Path(work_dir)
        command = [*prefix, str(LOCKSTEP), "run", str(job), "--work-dir", str(work_dir),
                   "--output", output, *args]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)

    def finish(self, timeout=90):
        """(exit code, the JSON object or None, stderr)"""
        try:
            out, err = self.process.communicate(timeout=timeout * SLOWNESS)
        except subprocess.TimeoutExpired:
            logs = self.logs()
            self.kill()
            raise AssertionError(f"lockstep run did not end within {timeout} s\n{logs[-4000:]}")
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return self.process.returncode, json.loads(lines[-1]) if lines else None, err

    def kill(self):
        """Returns when all processes of the run have ended, so that none writes into its folder any more."""
        if self.process.poll() is None:
            started = descendants(self.process.pid)  # with the guardian, which ends those that start later
            self.process.kill()
            self.process.communicate()
            wait_until_gone(started)

    def logs(self):
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')}"
                         for path in sorted(self.work_dir.glob("logs/**/*.log")))

    def ledgers(self):
        """The ledger's records in the logs, by pod."""
        return [json.loads(line) for line in self.logs().splitlines()
                if line.startswith("{") and '"samplesLost"' in line]

    def trainers(self, pod=None, replica=None):
        """Process ids of the run's trainer processes: of one pod, replicas or supervisors only."""
        found = []
        for pid in descendants(self.process.pid):
            args = cmdline(pid)
            if not args or not args[0].endswith("lockstep-trainer"):
                continue
            if replica is not None and (("replica" in args) != replica):
                continue
            if pod is not None and environment(pid).get("LOCKSTEP_INDEX") != str(pod):
                continue
            found.append(pid)
        return found

    def replica(self, local_rank):
        """The process id of a replica of the run's one pod."""
        return next(pid for pid in self.trainers(replica=True)
                    if environment(pid).get("LOCKSTEP_LOCAL_RANK") == str(local_rank))

    def wait_for_checkpoint(self, timeout=60):
        """The training is under way: at least one checkpoint is on the disk."""
        self.wait_for(lambda: list(self.work_dir.glob("volumes/checkpoints/*/manifest.json")),
                      "a first checkpoint", timeout)

    def wait_for(self, condition, what, timeout=60):
        deadline = time.monotonic() + timeout * SLOWNESS
        while time.monotonic() < deadline:
            if condition():
                return
            if self.process.poll() is not None:
                raise AssertionError(f"lockstep run ended before {what}\n{self.logs()[-4000:]}")
            time.sleep(0.01)
        raise AssertionError(f"no {what} within {timeout} s\n{self.logs()[-4000:]}")


class RunTest(unittest.TestCase):
    """A test with a folder of its own and runs that end with it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, path, name="run", *args, **options):
        run = Run(path, f"{self.folder}/{name}", *args, **options)
        self.addCleanup(run.kill)
        return run

    def expect_done(self, run, steps, restarts=0, timeout=90):
        """The run ends well, every sample of every epoch counted once. `restarts` are of its pods; None: any number."""
        code, report, err = run.finish(timeout=timeout)
        logs = run.logs()
        self.assertEqual((code, report and report["state"]), (0, "Succeeded"), f"{err}\n{logs[-6000:]}")
        self.assertEqual(report["steps"], steps, logs[-4000:])
        if restarts is not None:
            self.assertEqual(report["restarts"], restarts, logs[-4000:])
        epochs = run.ledgers()
        self.assertTrue(epochs)
        for epoch in epochs:
            self.assertEqual((epoch["samplesLost"], epoch["samplesDuplicated"]), (0, 0), epoch)
        return report, logs


def newest_checkpoint(folder):
    """The digests of what the newest checkpoint in a folder holds of the model and of the optimizer, by file."""
    newest = sorted(pathlib.Path(folder).glob("step-*/manifest.json"))[-1].parent
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in newest.glob("*.safetensors")}


def checkpoint_of(run):
    """The newest one in a volume of the run's own."""
    return newest_checkpoint(run.work_dir / "volumes" / "checkpoints")


def descendants(pid):
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        children.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def cmdline(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    except OSError:
        return []


def environment(pid):
    try:
        pairs = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def proportional_bytes(pid):
    """Resident memory; what processes share counts in parts, so that the sum is that of all. 0: it has ended."""
    try:
        rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return 1024 * int(re.search(r"^Pss:\s+(\d+) kB$", rollup, re.M).group(1))


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids, timeout=15):
    deadline = time.monotonic() + timeout * SLOWNESS
    while time.monotonic() < deadline:
        left = [pid for pid in pids if alive(pid)]
        if not left:
            return
        time.sleep(0.02)
    raise AssertionError(f"processes left behind: {[(pid, cmdline(pid)) for pid in left]}")


def kill9(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended by itself
