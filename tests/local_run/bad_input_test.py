"""Bad input and bad luck: each ends with an error that names what and where, and the right exit code."""
import json
import math
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

from local_run import LOCKSTEP, SLOWNESS, TRAINER, Run, write_job

TRAINING = {
    "model": {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 10}]},
    "dataset": {"format": "synthetic", "synthetic": {"trainExamples": 320, "testExamples": 32}},
    "batchSize": {"global": 32},
    "epochs": 1,
    "rendezvousTimeoutSeconds": math.ceil(2 * SLOWNESS),
}
# Other than those of the same tests in another build, which may run at the same time.
ADDRESSES = [f"127.77.{os.getpid() % 254 + 1}.{pod}:{19320 + pod}" for pod in (1, 2)]


def cluster(addresses=ADDRESSES[:1], index=0, **changes):
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index},
              "environment": "cloud"}
    config.update(changes)
    return config


def start_trainer(training=TRAINING, tf_config=None, addresses=ADDRESSES[:1], index=0, prefix=(), **env):
    """A trainer pod by hand, as the operator would start it."""
    variables = {
        **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")},
        "PATH": os.environ["PATH"],
        "LOCKSTEP_JOB": "bad", "LOCKSTEP_JOB_UID": "uid-1", "LOCKSTEP_NAMESPACE": "default",
        "LOCKSTEP_ROLE": "worker", "LOCKSTEP_INDEX": str(index), "LOCKSTEP_ATTEMPT": "0",
        "LOCKSTEP_POD_IP": addresses[index].rsplit(":", 1)[0],
        "LOCKSTEP_CONFIG": json.dumps(training),
        "LOCKSTEP_STRATEGY": json.dumps({"type": "MultiWorkerMirrored"}),
        "TF_CONFIG": json.dumps(cluster(addresses, index)) if tf_config is None else tf_config,
    }
    variables.update(env)
    variables = {key: value for key, value in variables.items() if value is not None}
    return subprocess.Popen([*prefix, str(TRAINER)], env=variables, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def run_trainer(**arguments):
    process = start_trainer(**arguments)
    try:
        out, _ = process.communicate(timeout=60 * SLOWNESS)
    finally:
        process.kill()  # one that has not ended would keep its port from the tests that follow
        process.wait()
    return process.returncode, out


def holds_back(pid, number):
    """Whether the process blocks the signal, to look for it by itself."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^SigBlk:\s+(\w+)$", status, re.M).group(1), 16) >> (number - 1) & 1 == 1


class ClusterTest(unittest.TestCase):
    def check(self, expected_code, *words, **arguments):
        code, out = run_trainer(**arguments)
        self.assertEqual(code, expected_code, out)
        for word in words:
            self.assertIn(word, out)

    def test_a_lone_worker_trains(self):
        self.check(0, "epoch done")

    def test_malformed_tf_config(self):
        self.check(10, "TF_CONFIG", tf_config='{"cluster": {')

    def test_tf_config_without_a_cluster(self):
        self.check(10, "TF_CONFIG", "cluster", tf_config='{"task": {"type": "worker", "index": 0}}')

    def test_task_out_of_range(self):
        self.check(10, "TF_CONFIG", "7", tf_config=json.dumps(cluster(index=7)))

    def test_two_equal_addresses(self):
        self.check(10, ADDRESSES[0], tf_config=json.dumps(cluster([ADDRESSES[0]] * 2)))

    def test_missing_config(self):
        self.check(10, "LOCKSTEP_CONFIG", LOCKSTEP_CONFIG=None)

    def test_port_taken(self):
        host, port = ADDRESSES[0].rsplit(":", 1)
        with socket.socket() as holder:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((host, int(port)))
            holder.listen()
            code, out = run_trainer()
        self.assertNotEqual(code, 0)
        self.assertIn(ADDRESSES[0], out)

    def test_a_peer_that_never_comes_is_named(self):
        self.check(211, "worker 1", addresses=ADDRESSES)

    def test_a_peer_of_another_job_is_refused(self):
        other = dict(TRAINING, batchSize={"global": 64})
        leader = start_trainer(addresses=ADDRESSES)
        self.addCleanup(leader.wait)
        self.addCleanup(leader.kill)
        code, out = run_trainer(training=other, addresses=ADDRESSES, index=1)
        leader_out, _ = leader.communicate(timeout=60 * SLOWNESS)
        self.assertEqual(code, 10, out)
        self.assertIn("hash", out)
        self.assertEqual(leader.returncode, 211, leader_out)


def write_idx(folder, images=64, labels=None, magic=0x803, cut=0, label=3):
    """A tiny data set in MNIST's files; the arguments make it wrong."""
    labels = images if labels is None else labels
    for prefix in ("train", "t10k"):
        pixels = struct.pack(">IIII", magic, images, 28, 28) + bytes(28 * 28 * images)
        folder.joinpath(f"{prefix}-images-idx3-ubyte").write_bytes(pixels[:len(pixels) - cut])
        folder.joinpath(f"{prefix}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, labels) + bytes([label] * labels))


class DataTest(unittest.TestCase):
    def check(self, *words, **idx):
        with tempfile.TemporaryDirectory() as folder:
            write_idx(pathlib.Path(folder), **idx)
            training = dict(TRAINING, dataset={"format": "idx", "path": folder})
            code, out = run_trainer(training=training)
        self.assertEqual(code, 11, out)
        for word in words:
            self.assertIn(word, out)

    def test_wrong_magic(self):
        self.check("train-images-idx3-ubyte", "magic", magic=0x123)

    def test_cut_short(self):
        self.check("train-images-idx3-ubyte", cut=100)

    def test_fewer_labels_than_images(self):
        self.check("train-labels-idx1-ubyte", labels=63)

    def test_missing_folder(self):
        training = dict(TRAINING, dataset={"format": "idx", "path": "/no/such/folder"})
        code, out = run_trainer(training=training)
        self.assertEqual(code, 11, out)
        self.assertIn("/no/such/folder", out)

    def test_a_label_that_the_model_has_no_class_for(self):
        with tempfile.TemporaryDirectory() as folder:
            write_idx(pathlib.Path(folder), label=12)
            training = dict(TRAINING, dataset={"format": "idx", "path": folder})
            code, out = run_trainer(training=training)
        self.assertEqual(code, 10, out)
        self.assertIn("expected [13]", out)

    def test_a_stop_is_heard_while_the_data_is_opened(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "train.csv"
            table.write_bytes(b"a,b,c,d,e,f,g,h,i,label\n" + b"1,2,3,4,5,6,7,8,9,1\n" * 4_000_000)
            training = dict(TRAINING, evaluation={"enabled": False},
                            dataset={"format": "csv", "path": folder, "csv": {"labelColumn": "label"}})
            process = start_trainer(training=training)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.kill)
            line = ""
            while "replica started" not in line:
                line = process.stdout.readline()
                self.assertTrue(line, "the pod has ended")
            while not holds_back(json.loads(line)["pid"], signal.SIGTERM):
                time.sleep(0.001)
            process.terminate()
            out, _ = process.communicate(timeout=60 * SLOWNESS)
        self.assertEqual(process.returncode, 200, out)
        self.assertIn("there is nothing to save yet", out)


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.directory = pathlib.Path(self.folder.name)
        self.training = dict(TRAINING, checkpoint={"directory": self.folder.name, "everySteps": 4})
        code, out = run_trainer(training=self.training)
        self.assertEqual(code, 0, out)
        self.steps = sorted(self.directory.glob("step-*"))
        self.longer = dict(self.training, epochs=2)

    def test_goes_on_where_it_stopped(self):
        code, out = run_trainer(training=self.longer)
        self.assertEqual(code, 0, out)
        self.assertIn('"message":"restored a checkpoint","step":10', out)

    def test_cut_short_falls_back_to_the_one_before(self):
        newest = self.steps[-1] / "model.safetensors"
        newest.write_bytes(newest.read_bytes()[:-10])
        code, out = run_trainer(training=self.longer)
        self.assertEqual(code, 0, out)
        self.assertIn(str(newest), out)
        self.assertIn('"message":"restored a checkpoint","step":8', out)

    def test_every_one_damaged_is_an_error_and_nothing_is_overwritten(self):
        before = {}
        for step in self.steps:
            file = step / "model.safetensors"
            file.write_bytes(file.read_bytes()[:-10])
            before[file] = file.read_bytes()
        code, out = run_trainer(training=self.longer)
        self.assertEqual(code, 11, out)
        self.assertEqual({file: file.read_bytes() for file in before}, before)

    def test_of_another_model_is_refused(self):
        other = dict(self.longer, model={"layers": [{"type": "Flatten"},
                                                    {"type": "Dense", "units": 16},
                                                    {"type": "Dense", "units": 10}]})
        code, out = run_trainer(training=other)
        self.assertEqual(code, 10, out)
        self.assertIn("model", out)

    def test_of_a_newer_format_is_refused(self):
        for step in self.steps:
            manifest = step / "manifest.json"
            content = json.loads(manifest.read_text())
            content["formatVersion"] = 99
            manifest.write_text(json.dumps(content))
        code, out = run_trainer(training=self.longer)
        self.assertEqual(code, 10, out)
        self.assertIn("99", out)


class FullDiskTest(unittest.TestCase):
    """On a small file system in a user namespace of its own, which needs no rights; skipped where the kernel does not
    allow one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = folder.name
        mount = 'mount -t tmpfs -o size=250k tmpfs "$0" && echo mounted && exec cat'
        holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, self.directory],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(holder.communicate)
        if holder.stdout.readline() != "mounted\n":
            self.skipTest(f"no file system can be mounted here: {holder.stderr.read().strip()}")
        self.inside = ["nsenter", f"--target={holder.pid}", "--user", "--mount", "--preserve-credentials"]
        self.small = pathlib.Path(f"/proc/{holder.pid}/root{self.directory}")

    def test_a_full_disk_keeps_what_was_saved(self):
        training = dict(TRAINING, checkpoint={"directory": self.directory, "everySteps": 4, "keep": 9})
        code, out = run_trainer(training=training, prefix=self.inside)
        self.assertEqual(code, 12, out)
        self.assertIn(self.directory, out)
        self.assertIn("space", out)
        kept = list(self.small.glob("step-*/manifest.json"))
        self.assertTrue(kept, "the checkpoints from before the disk was full are gone")
        last = max(int(path.parent.name[5:13]) for path in kept)
        again = dict(training, epochs=2, checkpoint={"directory": self.directory, "everySteps": 4, "keep": 1})
        code, out = run_trainer(training=again, prefix=self.inside)  # on the full disk: the folder cannot be claimed
        self.assertIn(f'"message":"restored a checkpoint","step":{last}', out)
        self.assertEqual(code, 12, out)
        subprocess.run([*self.inside, "mount", "-o", "remount,size=2m", self.directory], check=True)
        code, out = run_trainer(training=again, prefix=self.inside)
        self.assertEqual(code, 0, out)
        self.assertIn(f'"message":"restored a checkpoint","step":{last}', out)
        self.assertEqual([path.name for path in self.small.glob("step-*")], ["step-00000020"])


class CommandLineTest(unittest.TestCase):
    def run_lockstep(self, *args):
        done = subprocess.run([str(LOCKSTEP), *args], capture_output=True, text=True,
                              timeout=60 * SLOWNESS)
        return done.returncode, done.stdout + done.stderr

    def test_a_number_out_of_range_is_reported_with_its_range(self):
        for program, arguments, number, least, most in (
                (TRAINER, ("bench", "--threads"), "100000", "0", "1024"),
                (TRAINER, ("bench", "--threads"), "-1", "0", "1024"),
                (TRAINER, ("bench", "--steps"), "0", "1", "1000000000"),
                (LOCKSTEP, ("logs", "job", "--tail"), "-1", "0", "1000000000")):
            with self.subTest(arguments, number=number):
                done = subprocess.run([program, *arguments, number], capture_output=True, text=True,
                                      timeout=60 * SLOWNESS, check=False)
                self.assertEqual(2, done.returncode, done.stderr)
                # CLI11 of Debian 12 says "0 to 1024", of Debian 13 "[0 - 1024]", for the same range.
                self.assertRegex(done.stdout + done.stderr, rf"{arguments[-1]}: Value {number} not in range "
                                                            rf"(\[{least} - {most}\]|{least} to {most})\n")

    def test_yaml_that_is_no_training_job(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "pod.yaml")
            path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")
            for command in ("run", "validate", "render"):
                code, out = self.run_lockstep(command, str(path))
                self.assertNotEqual(code, 0)
                self.assertIn("Pod", out)
                self.assertIn("TrainingJob", out)

    def test_a_file_that_is_not_there(self):
        code, out = self.run_lockstep("run", "/no/such.yaml")
        self.assertNotEqual(code, 0)
        self.assertIn("/no/such.yaml", out)

    def test_an_unknown_field_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            job = write_job(folder)
            job.write_text(job.read_text().replace('"epochs"', '"epoch"'))
            code, out = self.run_lockstep("validate", str(job))
            self.assertNotEqual(code, 0)
            self.assertIn("spec.training.epoch", out)

    def test_two_runs_at_a_time_do_not_meet(self):
        with tempfile.TemporaryDirectory() as folder:
            job = write_job(folder, epochs=1)
            runs = [Run(job, f"{folder}/{name}") for name in ("a", "b")]
            reports = [run.finish() for run in runs]
            for code, report, err in reports:
                self.assertEqual(code, 0, err)
            self.assertEqual(reports[0][1]["loss"], reports[1][1]["loss"])


if __name__ == "__main__":
    unittest.main()
