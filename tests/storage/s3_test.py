"""Data and checkpoints in a bucket of an S3-compatible server on loopback, mounted with s3fs, as docs/storage.md says."""
import json
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/local_run"))

import local_job  # noqa: E402
from local_run import LOCKSTEP, Run, RunTest, kill9  # noqa: E402
from free_port import free_port  # noqa: E402
from slowness import SLOWNESS  # noqa: E402

SERVER = pathlib.Path(subprocess.run(
    [ROOT / "tools/storage/programs.sh", "where"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip(),
    "versitygw")
ACCESS, SECRET = "trainer", "not-a-secret"
FEATURES, EXAMPLES, STEPS = 64, 2048, 200


def what_is_missing():
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "to mount a bucket needs root and /dev/fuse"
    if not SERVER.exists() or shutil.which("s3fs") is None:
        return "no versitygw or s3fs: run `tools/setup storage`"
    return None


def write_array(path, kind, shape, content):
    """As numpy.save does."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content)


def write_data(folder):
    folder.mkdir()
    chance = random.Random(5)
    for part, count in (("train", EXAMPLES), ("test", 128)):
        labels = [chance.randrange(4) for _ in range(count)]
        samples = b"".join(struct.pack(f"<{FEATURES}f", *(
            chance.gauss(3.0 if at == label else 0.0, 1) for at in range(FEATURES))) for label in labels)
        write_array(folder / f"x_{part}.npy", "<f4", (count, FEATURES), samples)
        write_array(folder / f"y_{part}.npy", "<i8", (count,), struct.pack(f"<{count}q", *labels))


@unittest.skipIf(what_is_missing(), what_is_missing())
class BucketTest(RunTest):
    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.folder)
        self.address = f"127.0.0.1:{free_port()}"
        self.objects = folder / "server"
        (self.objects / "bucket").mkdir(parents=True)
        (folder / "sidecar").mkdir()
        self.keys = folder / "keys"
        self.keys.write_text(f"{ACCESS}:{SECRET}\n")
        self.keys.chmod(0o600)
        self.server = self.begin_server()
        self.bucket = self.mount("bucket")

    def begin_server(self):
        server = self.begin(SERVER, "--port", self.address, "--access", ACCESS, "--secret", SECRET,
                            "posix", "--sidecar", pathlib.Path(self.folder) / "sidecar", self.objects)
        self.wait_for(self.answers, "server")
        return server

    def begin(self, *command):
        out = open(pathlib.Path(self.folder) / f"{pathlib.Path(command[0]).name}.log", "ab")
        self.addCleanup(out.close)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def answers(self):
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def mount(self, name):
        path = pathlib.Path(self.folder) / name
        path.mkdir()
        self.begin("s3fs", "bucket", path, "-f", "-o",
                   f"url=http://{self.address},use_path_request_style,passwd_file={self.keys},umask=0022,retries=2")
        # One that a process of a failed test still uses must not stay.
        self.addCleanup(subprocess.run, ["umount", "-l", path], check=False, stderr=subprocess.DEVNULL)
        self.wait_for(lambda: os.path.ismount(path), f"mount of {name}")
        return path

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 30 * SLOWNESS
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"no {what}\n{self.told()}")
            time.sleep(0.05)

    def told(self):
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-2000:]}"
                         for path in pathlib.Path(self.folder).glob("*.log"))

    def job(self, steps=STEPS, **checkpoint):
        training = {
            "model": {"layers": [{"type": "Dense", "units": 512, "activation": "relu"}, {"type": "Dense", "units": 4}]},
            "dataset": {"format": "npy", "path": "/data"}, "batchSize": {"global": 32}, "steps": steps,
            "optimizer": {"name": "Adam", "learningRate": 0.001},
            "checkpoint": {"directory": "/checkpoints/job", "everySteps": 10, "keep": 2, **checkpoint}}
        path = pathlib.Path(self.folder) / "job.yaml"
        path.write_text(local_job.text("bucket", training, folders=["data", "checkpoints"], workers=2, cpu="1"))
        return path

    def begin_run(self, name, job, bucket):
        run = Run(job, f"{self.folder}/{name}", "--volume", f"data={bucket}/data",
                  "--volume", f"checkpoints={bucket}/checkpoints")
        self.addCleanup(run.kill)
        return run

    def succeed(self, run):
        code, report, err = run.finish(180)
        self.assertEqual(0, code, f"{err}\n{run.logs()[-6000:]}\n{self.told()}")
        return report

    def unfinished(self):
        """Folders of saves that the server has no manifest of."""
        return [folder for folder in self.objects.glob("bucket/checkpoints/job/step-*")
                if not (folder / "manifest.json").exists() and (folder / "model.safetensors").exists()]

    def kill_in_a_save(self, job):
        """Starts runs until one was killed in the middle of a save that was not its first."""
        for number in range(10):
            run = self.begin_run(f"killed-{number}", job, self.bucket)
            run.wait_for(lambda: list(self.objects.glob("bucket/checkpoints/job/step-*/manifest.json")), "a checkpoint")
            run.wait_for(self.unfinished, "a save")
            trainers = run.trainers()
            run.process.kill()
            for pid in trainers:
                kill9(pid)
            run.kill()
            if self.unfinished():
                return
        self.fail("no run was killed in the middle of a save")

    def test_a_run_killed_in_a_save_goes_on_from_another_mount(self):
        write_data(self.bucket / "data")
        (self.bucket / "checkpoints").mkdir()
        self.kill_in_a_save(self.job(steps=100_000))
        complete = [folder.name for folder in self.objects.glob("bucket/checkpoints/job/step-*")
                    if (folder / "manifest.json").exists()]
        self.assertLessEqual(1, len(complete))
        newest = max(int(name[5:].split(".")[0]) for name in complete)

        elsewhere = self.mount("elsewhere")  # as on another node
        run = self.begin_run("again", self.job(steps=newest + 50), elsewhere)
        report = self.succeed(run)
        self.assertEqual(newest + 50, report["steps"])
        logs = run.logs()
        self.assertIn(f'"step":{newest}', logs.replace(" ", ""), logs[-3000:])

        self.assertEqual([], self.unfinished())
        kept = sorted(folder.name for folder in self.objects.glob("bucket/checkpoints/job/step-*"))
        self.assertEqual([f"step-{newest + 40:08}", f"step-{newest + 50:08}"], kept)
        exported = pathlib.Path(self.folder) / "model.safetensors"
        subprocess.run([LOCKSTEP, "export", elsewhere / "checkpoints/job", exported], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60 * SLOWNESS)
        saved = self.objects / "bucket/checkpoints/job" / kept[-1] / "model.safetensors"
        self.assertEqual(saved.read_bytes(), exported.read_bytes())

    def test_an_evaluator_reads_the_checkpoints_of_the_workers(self):
        write_data(self.bucket / "data")
        (self.bucket / "checkpoints").mkdir()
        path = self.job(keepBest="Accuracy")
        job = json.loads(path.read_text())
        specs = job["spec"]["replicaSpecs"]
        specs["Evaluator"] = {"template": specs["Worker"]["template"]}
        path.write_text(json.dumps(job))
        self.assertEqual(STEPS, self.succeed(self.begin_run("run", path, self.bucket))["steps"])
        best = list(self.objects.glob("bucket/checkpoints/job/best/step-*/manifest.json"))
        self.assertEqual(1, len(best), self.told())

    def test_what_is_synced_is_in_the_store(self):
        file = os.open(self.bucket / "file", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self.addCleanup(os.close, file)
        os.write(file, b"content")
        os.fsync(file)
        self.assertEqual(b"content", (self.objects / "bucket/file").read_bytes())

    def test_of_two_jobs_on_two_mounts_the_later_keeps_the_folder(self):
        write_data(self.bucket / "data")
        (self.bucket / "checkpoints").mkdir()
        first = self.begin_run("first", self.job(steps=100_000), self.bucket)
        first.wait_for(lambda: list(self.objects.glob("bucket/checkpoints/job/step-*/manifest.json")), "a checkpoint")
        second = self.begin_run("second", self.job(steps=100_000), self.mount("elsewhere"))
        code, _, err = first.finish(120)
        self.assertEqual(10, code, err)
        self.assertIn("another job has taken the folder", first.logs())
        self.assertIsNone(second.process.poll(), second.logs()[-3000:])

    def test_a_store_that_is_away_for_a_while_costs_saves_and_no_run(self):
        write_data(self.bucket / "data")
        (self.bucket / "checkpoints").mkdir()
        run = self.begin_run("run", self.job(steps=3_000), self.bucket)
        run.wait_for(lambda: list(self.objects.glob("bucket/checkpoints/job/step-*/manifest.json")), "a checkpoint")
        self.server.kill()
        self.server.wait()
        run.wait_for(lambda: "a checkpoint could not be saved" in run.logs(), "a failed save")
        self.begin_server()
        self.assertEqual(3_000, self.succeed(run)["steps"])
        self.assertTrue((self.objects / "bucket/checkpoints/job/step-00003000/manifest.json").exists())


if __name__ == "__main__":
    unittest.main()
