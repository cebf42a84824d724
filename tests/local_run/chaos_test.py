"""A hundred kills in one run of each strategy, on real MNIST. Takes half an hour: `make test-all`."""
import collections
import json
import os
import pathlib
import random
import subprocess
import time

from local_run import LAYERS, SLOWNESS, RunTest, descendants, environment, kill9, wait_until_gone
import local_job

KILLS = int(os.environ.get("LOCKSTEP_KILLS", "100"))
POINTS = 0.003  # of accuracy
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
PROBED = 6000  # steps
KILLING = 150  # seconds that an undisturbed run takes, or more: fewer are not enough for the kills


def job(folder, name, strategy, roles, steps):
    """A job of these roles, which names them by their numbers of replicas."""
    training = {
        "model": {"layers": LAYERS},
        "dataset": {"format": "idx", "path": "/data"}, "batchSize": {"global": 128}, "steps": steps,
        "optimizer": {"name": "SGD", "learningRate": 0.1, "momentum": 0.5},
        "learningRateSchedule": {"type": "Cosine"},
        "checkpoint": {"directory": "/checkpoints", "everySteps": 200, "keep": 3}}
    manifest = json.loads(local_job.text(name, training, folders=("data", "checkpoints"),
                                         runPolicy={"backoffLimit": 10000}))
    spec = manifest["spec"]
    template = spec["replicaSpecs"].pop("Worker")["template"]
    spec["strategy"] = strategy
    spec["replicaSpecs"] = {role: {"replicas": replicas, "template": template} for role, replicas in roles.items()}
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(json.dumps(manifest))
    return path


def role_of(pid):
    """Of a trainer process: "worker", "ps", ...; None: it has ended."""
    config = environment(pid).get("TF_CONFIG")
    return config and json.loads(config)["task"]["type"]


class ChaosTest(RunTest):
    @classmethod
    def setUpClass(cls):
        cls.mnist = subprocess.check_output([TOOLS / "fetch-mnist"], text=True).strip()

    def finish(self, run, steps):
        code, report, err = run.finish(timeout=900)
        self.assertEqual((code, report and report["state"]), (0, "Succeeded"), f"{err}\n{run.logs()[-6000:]}")
        self.assertEqual(report["steps"], steps)
        records = run.ledgers()
        self.assertTrue(records)
        for record in records:
            self.assertEqual((record["samplesLost"], record["samplesDuplicated"]), (0, 0), record)
        return report

    def await_step(self, run, beyond):
        """Until the operator has seen a later step: without one, it makes each next pod wait longer. Returns the step."""
        deadline = time.monotonic() + 120 * SLOWNESS
        while time.monotonic() < deadline and run.process.poll() is None:
            view = json.loads((run.work_dir / "view.json").read_text())
            step = view["job"].get("status", {}).get("progress", {}).get("step", 0)
            if step > beyond:
                return step
            time.sleep(0.05)
        self.assertIsNotNone(run.process.poll(), f"no step beyond {beyond} in 120 s\n{run.logs()[-4000:]}")
        return beyond

    def kill_some(self, run, chance):
        """Kills trainer processes at moments that nobody chose. Returns how many of each role and kind."""
        killed = collections.Counter()
        step = 0
        while sum(killed.values()) < KILLS and run.process.poll() is None:
            if chance.random() < 0.8:  # else in the middle of the recovery
                step = self.await_step(run, step)
            time.sleep(chance.uniform(0, 1) * SLOWNESS)
            # A pod starts at most every 10 s, so most of the kills are of replicas.
            is_replica = chance.random() < 0.9
            victims = run.trainers(replica=is_replica)
            if victims:
                victim = chance.choice(victims)
                killed[f"{role_of(victim)} {'replica' if is_replica else 'supervisor'}"] += 1
                kill9(victim)
        return killed

    def check(self, name, strategy, roles):
        volumes = ("--volume", f"data={self.mnist}")

        def start(kind, steps):
            return self.start(job(self.folder, name, strategy, roles, steps), f"{name}-{kind}", *volumes)

        began = time.monotonic()
        self.finish(start("probed", PROBED), PROBED)
        steps = max(5 * PROBED, int(KILLING / (time.monotonic() - began) * PROBED))
        began = time.monotonic()
        undisturbed = self.finish(start("undisturbed", steps), steps)
        took = time.monotonic() - began
        seed = random.randrange(1 << 32)
        began = time.monotonic()
        run = start(seed, steps)
        run.wait_for(lambda: run.trainers(replica=True), "a replica")
        killed = self.kill_some(run, random.Random(seed))
        processes = descendants(run.process.pid)
        report = self.finish(run, steps)
        print(f"{name}: {steps} steps; {dict(sorted(killed.items()))}, restarts {report['restarts']}; {took:.0f} s "
              f"undisturbed, {time.monotonic() - began:.0f} s with kills; test accuracy "
              f"{undisturbed['test_accuracy']:.4f} and {report['test_accuracy']:.4f}", flush=True)
        wait_until_gone(processes)
        with self.subTest(seed=seed):
            self.assertEqual(sum(killed.values()), KILLS, "it ended before it was killed so often: raise KILLING")
            self.assertAlmostEqual(report["test_accuracy"], undisturbed["test_accuracy"], delta=POINTS)

    def test_mirrored(self):
        self.check("mirrored", {"type": "Mirrored", "processesPerPod": 2}, {"Worker": 1})

    def test_multi_worker_mirrored(self):
        self.check("multi-worker-mirrored", {"type": "MultiWorkerMirrored"}, {"Chief": 1, "Worker": 1, "Evaluator": 1})

    def test_parameter_server_async(self):
        self.check("parameter-server-async", {"type": "ParameterServer", "parameterServer": {"mode": "Async"}},
                   {"Chief": 1, "Worker": 1, "PS": 2, "Evaluator": 1})

    def test_parameter_server_sync(self):
        self.check("parameter-server-sync", {"type": "ParameterServer", "parameterServer": {"mode": "Sync"}},
                   {"Chief": 1, "Worker": 1, "PS": 2})

    def test_stages(self):
        self.check("stages", {"type": "MultiWorkerMirrored", "stages": 2}, {"Chief": 1, "Worker": 1})

    def test_central_storage(self):
        self.check("central-storage", {"type": "CentralStorage", "processesPerPod": 2}, {"Worker": 1})
