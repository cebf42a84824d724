"""`lockstep plan` beside what the same job really does: its memory, its messages, its checkpoints."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.request

import local_job
from local_run import LOCKSTEP, SLOWNESS, TRAINER, Run, environment, proportional_bytes

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "cli.md"
# What the kernel counts is within this of a replica's planned memory, and so many bytes.
TOLERANCE, ALLOWANCE = 0.05, 8 << 20
ENDLESS = 1_000_000


def training(batch, steps, **more):
    return {"model": {"name": "core-cnn"},
            "dataset": {"format": "synthetic", "synthetic": {"trainExamples": 1000, "testExamples": 100}},
            "batchSize": {"global": batch}, "steps": steps, **more}


def plan_of(job, *args):
    """(exit code, the plan or None, stderr)"""
    ended = subprocess.run([str(LOCKSTEP), "plan", str(job), "--output", "json", *args],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * SLOWNESS)
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else None, ended.stderr


def high_water_bytes(pid):
    """The most memory that was ever resident, the files of its program included. 0: it has ended."""
    with contextlib.suppress(OSError):
        found = re.search(r"^VmHWM:\s+(\d+) kB$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
        return 1024 * int(found.group(1)) if found else 0
    return 0


def pods_of(plan):
    return {pods["role"]: pods for pods in plan["memory"]["pods"]}


def series(text):
    """{name and labels: value} of a page of metrics."""
    return {name: float(value) for name, value in re.findall(r"^(lockstep_\S+) (\S+)$", text, re.MULTILINE)}


def pages_of(run):
    """The metrics of the run's supervisors, as far as they answer."""
    pages = {}
    for pid in run.trainers(replica=False):
        address = environment(pid).get("LOCKSTEP_POD_IP")
        with contextlib.suppress(OSError):
            page = urllib.request.urlopen(f"http://{address}:8080/metrics", timeout=5)
            pages.update(series(page.read().decode()))
    return pages


def keys_of(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys_of(inner)
    elif isinstance(value, list) and value:
        yield from keys_of(value[0])


class PlanTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, spec, folders=(), **more):
        job = self.folder / "job.yaml"
        job.write_text(local_job.text("planned", spec, folders=folders, **more))
        return job

    def planned(self, job, *args):
        code, plan, err = plan_of(job, *args)
        self.assertEqual(0, code, err)
        return plan

    def scraped(self, job, *names):
        """The pages of the job's supervisors, once they have more than zero of each name."""
        run = Run(job, self.folder / "work")
        self.addCleanup(run.kill)
        pages = {}

        def is_there():
            pages.update(pages_of(run))
            return all(any(key.startswith(name) and value > 0 for key, value in pages.items()) for name in names)
        run.wait_for(is_there, " and ".join(names))
        return pages

    def test_a_replica_uses_the_memory_that_the_plan_says(self):
        for spec in (training(512, 4), training(256, 4, precision="BFloat16", gradientAccumulation=2),
                     training(64, 4, checkpoint={"directory": "/checkpoints"})):
            with self.subTest(json.dumps(spec)):
                job = self.write(spec, folders=("checkpoints",), workers=1, cpu="1")
                planned = self.planned(job)["memory"]["replica"]["total"]
                _, peak = self.finished(job, tempfile.mkdtemp(dir=self.folder))
                self.assertLess(abs(peak - planned), TOLERANCE * planned + ALLOWANCE, (peak, planned))

    def test_a_replica_that_reads_a_checkpoint_uses_the_memory_that_the_plan_says(self):
        layers = [{"type": "Flatten"}, {"type": "Dense", "units": 8192, "activation": "relu"},
                  {"type": "Dense", "units": 1024, "activation": "relu"}, {"type": "Dense", "units": 10}]
        for steps in (2, 4):  # the second run goes on from what the first has saved
            spec = training(8, steps, model={"layers": layers}, evaluation={"enabled": False},
                            checkpoint={"directory": "/checkpoints"})
            job = self.write(spec, folders=("checkpoints",), workers=1, cpu="1")
            planned = self.planned(job)["memory"]["replica"]["total"]
            run, peak = self.finished(job, self.folder / "work")
            self.assertLess(peak, (1 + TOLERANCE) * planned + ALLOWANCE, steps)
        self.assertIn("restored a checkpoint", run.logs())
        self.assertGreater(peak, (1 - TOLERANCE) * planned - ALLOWANCE)

    def finished(self, job, folder):
        """A run that has succeeded, and the peak of its largest process."""
        run = Run(job, folder)
        self.addCleanup(run.process.stdout.close)
        self.addCleanup(run.process.stderr.close)
        _, status, used = os.wait4(run.process.pid, 0)
        run.process.returncode = status
        self.assertEqual(0, status, run.logs())
        return run, used.ru_maxrss * 1024

    def test_a_pod_of_central_storage_uses_the_memory_that_the_plan_says(self):
        layers = [{"type": "Flatten"}, {"type": "Dense", "units": 8192, "activation": "relu"},
                  {"type": "Dense", "units": 10}]
        spec = training(32, ENDLESS, model={"layers": layers}, evaluation={"enabled": False})
        document = json.loads(local_job.text("planned", spec, folders=(), workers=1))
        processes = 4
        document["spec"]["strategy"] = {"type": "CentralStorage", "processesPerPod": processes}
        job = self.folder / "job.yaml"
        job.write_text(json.dumps(document))
        plan = self.planned(job)
        planned = pods_of(plan)["Worker"]["bytes"]
        self.assertEqual((True, 0), (plan["communication"]["shared_memory"],
                                     plan["communication"]["broadcast_bytes_per_step"]))
        run = Run(job, self.folder / "work")
        self.addCleanup(run.kill)
        peaks = [0]

        def has_stepped():
            peaks.append(sum(map(proportional_bytes, run.trainers())))
            return any(key.startswith("lockstep_trainer_steps_total") and value > 20
                       for key, value in pages_of(run).items())
        run.wait_for(has_stepped, "a few steps")
        peak, allowance = max(peaks), ALLOWANCE * (processes + 1)
        self.assertLess(peak, (1 + TOLERANCE) * planned + allowance)
        # Rank 0 stages a parameter for a moment, which a look may miss.
        seen = peak + plan["memory"]["replica"]["staging"]
        self.assertLess(planned, (1 + TOLERANCE) * seen + allowance, (peak, planned))

    def test_servers_and_an_evaluator_stay_within_the_memory_that_the_plan_says(self):
        spec = training(32, 60, checkpoint={"directory": "/checkpoints", "everySteps": 20, "keepBest": "Loss"})
        document = json.loads(local_job.text("planned", spec, folders=("checkpoints",), workers=1))
        document["spec"]["strategy"] = {"type": "ParameterServer"}
        worker = document["spec"]["replicaSpecs"]["Worker"]
        document["spec"]["replicaSpecs"].update(
            PS={"replicas": 1}, Evaluator={"replicas": 1, "template": worker["template"]})
        job = self.folder / "job.yaml"
        job.write_text(json.dumps(document))
        planned = pods_of(self.planned(job))
        run = Run(job, self.folder / "work")
        self.addCleanup(run.kill)
        peaks, marks = {}, {}

        def has_ended():
            for pid in run.trainers():
                role = environment(pid).get("LOCKSTEP_ROLE")
                peaks.setdefault(role, {})
                peaks[role][pid] = max(peaks[role].get(pid, 0), proportional_bytes(pid))
                marks.setdefault(role, {})[pid] = max(marks.get(role, {}).get(pid, 0), high_water_bytes(pid))
            return run.process.poll() is not None
        while not has_ended():
            time.sleep(0.01)
        self.assertEqual(0, run.process.returncode, run.logs())
        for key, role in (("PS", "ps"), ("Evaluator", "evaluator"), ("Worker", "worker")):
            with self.subTest(key):
                used = sum(peaks[role].values())
                self.assertLess(used, planned[key]["bytes"] * (1 + TOLERANCE) + ALLOWANCE)
                # What a look misses, the kernel has kept.
                self.assertGreater(sum(marks[role].values()), planned[key]["bytes"] / 3)

    def test_messages_steps_and_checkpoints_are_those_that_the_trainer_counts(self):
        spec = training(33, ENDLESS, checkpoint={"directory": "/checkpoints", "everySteps": 20})
        job = self.write(spec, folders=("checkpoints",))
        plan = self.planned(job)
        # Each supervisor learns of its replica's steps in its own time.
        pages = self.scraped(job, "lockstep_trainer_checkpoint_size_bytes",
                             *(f'lockstep_trainer_steps_total{{rank="{rank}"}}' for rank in (0, 1)))
        for rank in (0, 1):
            summed = pages[f'lockstep_trainer_allreduce_bytes_total{{rank="{rank}"}}']
            steps = pages[f'lockstep_trainer_steps_total{{rank="{rank}"}}']
            self.assertEqual(plan["communication"]["all_reduced_bytes_per_step"], summed / steps)
        self.assertEqual(plan["checkpoint_bytes"], pages['lockstep_trainer_checkpoint_size_bytes{rank="0"}'])
        self.assertEqual(plan["steps"]["total"], pages['lockstep_trainer_total_steps{rank="0"}'])
        buckets = plan["communication"]["buckets"]
        self.assertEqual(sum(buckets), plan["communication"]["all_reduced_bytes_per_step"])
        self.assertEqual(len(buckets), plan["communication"]["bucket_count"])
        self.assertGreater(len(buckets), 1)

    def test_servers_move_what_the_plan_says(self):
        document = json.loads(local_job.text("planned", training(32, ENDLESS), folders=(), workers=1))
        document["spec"]["strategy"] = {"type": "ParameterServer"}
        document["spec"]["training"]["evaluation"] = {"enabled": False}
        document["spec"]["replicaSpecs"]["PS"] = {"replicas": 1}
        job = self.folder / "job.yaml"
        job.write_text(json.dumps(document))
        communication = self.planned(job)["communication"]
        pages = self.scraped(job, "lockstep_trainer_server_updates_total")
        count = {name: pages[f'lockstep_trainer_server_{name}_total{{server="0"}}']
                 for name in ("updates", "pushed_bytes", "pulled_bytes")}
        self.assertEqual(communication["pushed_bytes_per_step"] * count["updates"], count["pushed_bytes"])
        pulls = count["pulled_bytes"] / communication["pulled_bytes_per_step"]
        self.assertIn(pulls, (count["updates"], count["updates"] + 1))

    def test_a_batch_that_does_not_fit_is_refused_with_the_largest_that_does(self):
        document = json.loads(local_job.text("planned", training(20000, 1), folders=()))
        container = document["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        container["resources"] = {"limits": {"memory": "1Gi", "cpu": "1"}}
        job = self.folder / "job.yaml"
        job.write_text(json.dumps(document))
        code, plan, err = plan_of(job)
        self.assertEqual(4, code, err)
        self.assertFalse(plan["memory"]["fits"])
        largest = plan["memory"]["largest_batch"]
        for part in ("spec.training.batchSize: with 10000 samples per replica, a pod of Worker needs ", "activations",
                     "its resources.limits.memory is 1024 MiB", f"is {largest['per_replica']} per replica, "
                     f"{largest['global']} globally"):
            self.assertIn(part, err)
        self.assertGreater(largest["per_replica"], 100)
        # A process's own memory is measured, and not to the byte.
        for factor, expected in ((0.98, 0), (1.02, 4)):
            size = int(largest["global"] * factor)
            self.assertEqual(expected, plan_of(job, "--set", f"spec.training.batchSize.global={size}")[0])

    def test_a_data_set_that_is_not_here_can_be_described(self):
        spec = training(128, ENDLESS)
        del spec["steps"]
        spec.update(dataset={"format": "idx", "path": "/data"}, epochs=2)
        job = self.write(spec, folders=("data",))
        code, _, err = plan_of(job)
        self.assertEqual(2, code)
        self.assertIn("job.yaml: ", err)
        self.assertIn("the data set has to be opened, or --sample-shape given", err)
        described = ("--sample-shape", "1,28,28", "--classes", "10")
        self.assertIsNone(self.planned(job, *described)["steps"]["total"])
        plan = self.planned(job, *described, "--samples", "60000")
        self.assertEqual({"per_epoch": 469, "total": 938, "padded_per_epoch": 32, "dropped_per_epoch": 0},
                         {key: plan["steps"][key] for key in ("per_epoch", "total", "padded_per_epoch",
                                                              "dropped_per_epoch")})
        self.assertFalse(plan["data"]["opened"])

    def with_trainer(self, script):
        """`lockstep plan` of a valid job, beside this trainer: (exit code, stdout, stderr)."""
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        lockstep = bin_folder / "lockstep"
        shutil.copy(LOCKSTEP, lockstep)
        if script is not None:
            trainer = bin_folder / TRAINER.name
            trainer.write_text("#!/bin/sh\n" + script)
            trainer.chmod(0o755)
        ended = subprocess.run([str(lockstep), "plan", str(self.write(training(32, 1))), "--output", "json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * SLOWNESS,
                               env={**os.environ, "PATH": "/usr/bin:/bin"})
        return ended.returncode, ended.stdout, ended.stderr

    def test_a_trainer_that_fails_is_no_fault_of_the_job(self):
        for script, expected in (
                (None, "lockstep-trainer: found none beside this program or on the PATH, expected the program"),
                ("kill -9 $$", "lockstep-trainer plan: found signal 9 (Killed), expected a plan"),
                ("echo a failed check >&2; exit 134",
                 "lockstep-trainer plan: found exit code 134, expected a plan: a failed check"),
                ("echo libx.so: cannot open >&2; exit 127",
                 "lockstep-trainer plan: found exit code 127, expected a plan: libx.so: cannot open"),
                ("echo nonsense", "lockstep-trainer plan: found 9 bytes on its stdout, expected a JSON object")):
            with self.subTest(script):
                code, out, err = self.with_trainer(script)
                self.assertEqual((1, ""), (code, out), err)
                self.assertIn("job.yaml: " + expected, err)
                shutil.rmtree(self.folder / "bin")
        code, out, err = self.with_trainer("echo spec.training: found a fault >&2; exit 10")
        self.assertEqual((2, "", f"{self.folder}/job.yaml: spec.training: found a fault\n"), (code, out, err))

    def test_the_page_describes_every_field(self):
        section = re.search(r"^## plan\n(.*?)^## ", PAGE.read_text(), re.MULTILINE | re.DOTALL).group(1)
        documented = set(re.findall(r"`(\w+)`", section))
        document = json.loads(self.write(training(32, 1)).read_text())
        document["spec"]["strategy"] = {"type": "ParameterServer"}
        document["spec"]["replicaSpecs"]["PS"] = {"replicas": 1}
        job = self.folder / "servers.yaml"
        job.write_text(json.dumps(document))
        self.assertEqual(set(), set(keys_of(self.planned(job))) - documented)


if __name__ == "__main__":
    unittest.main()
