"""Replicas that read files of their own: training.dataset.autoShard."""
import json
import pathlib
import random
import struct
import unittest

import local_job
from local_run import Run, RunTest

FILES, RECORDS = 4, 100


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def message(*fields):
    """A protocol buffer of fields that are bytes, at most 127 each."""
    return b"".join(bytes([number << 3 | 2, len(content)]) + content for number, content in fields)


def record(pixels, label):
    """A tf.train.Example in the frame of a TFRecord file."""
    image = message((1, message((1, pixels))))
    classes = message((3, message((1, bytes([label])))))
    example = message((1, message((1, message((1, b"image"), (2, image))),
                                  (1, message((1, b"label"), (2, classes))))))
    length = struct.pack("<Q", len(example))
    return length + masked(length) + example + masked(example)


class AutoShardTest(RunTest):
    def setUp(self):
        super().setUp()
        self.data = pathlib.Path(self.folder) / "data"
        self.data.mkdir()
        drawn = random.Random(1)
        for file in range(FILES):
            records = [record(bytes([60 * label + drawn.randrange(60) for _ in range(16)]), label)
                       for label in (drawn.randrange(4) for _ in range(RECORDS))]
            self.length = len(records[0])
            (self.data / f"train-{file}").write_bytes(b"".join(records))

    def run_job(self, name, policy, workers=2, checkpoints=None, length=None):
        training = {
            "model": {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 4}]},
            "dataset": {"format": "tfrecord", "path": "/data", "autoShard": policy,
                        "tfrecord": {"shape": [4, 4, 1], "classes": 4}},
            "evaluation": {"enabled": False}, "batchSize": {"global": 16}, **(length or {"epochs": 2})}
        folders, volumes = ["data"], ["--volume", f"data={self.data}"]
        if checkpoints:
            training["checkpoint"] = {"directory": "/checkpoints"}
            folders.append("checkpoints")
            volumes += ["--volume", f"checkpoints={checkpoints}"]
        job = pathlib.Path(self.folder) / f"{name}.yaml"
        job.write_text(local_job.text(name, training, folders=folders, workers=workers, cpu="1"))
        run = Run(job, f"{self.folder}/{name}", *volumes)
        self.addCleanup(run.kill)
        code, result, err = run.finish()
        return run, code, result, err

    def damage(self, file):
        """Of one record whose digest nobody asks for, as that of up to 256 samples is asked for."""
        digested = {i * (FILES * RECORDS - 1) // 255 for i in range(256)}
        place = next(i for i in range(RECORDS // 2, RECORDS) if file * RECORDS + i not in digested)
        path = self.data / f"train-{file}"
        content = bytearray(path.read_bytes())
        content[place * self.length + 40] ^= 1
        path.write_bytes(content)

    def test_a_process_reads_its_files_and_no_others(self):
        """Who reads a record finds that it is damaged."""
        for file in range(FILES):
            with self.subTest(file=file):
                path = self.data / f"train-{file}"
                sound = path.read_bytes()
                self.damage(file)
                run, code, _, _ = self.run_job(f"damaged-{file}", "File")
                path.write_bytes(sound)
                self.assertEqual(11, code, run.logs()[-4000:])
                finders = {str(log) for log in run.work_dir.glob("logs/**/*.log")
                           if f"train-{file}: record at offset" in log.read_text(errors="replace")}
                self.assertEqual(1, len(finders), finders)
                self.assertIn(f"worker-{file % 2}", finders.pop())

    def test_each_policy_uses_every_sample_as_often_as_it_says(self):
        for policy, steps in (("File", 50), ("Off", 100), ("Auto", 50)):
            with self.subTest(policy):
                run, code, result, err = self.run_job(policy.lower(), policy)
                self.assertEqual(0, code, err + run.logs()[-4000:])
                self.assertEqual(steps, result["steps"])
                ledgers = run.ledgers()
                self.assertTrue(ledgers)
                for ledger in ledgers:
                    self.assertEqual((0, 0), (ledger["samplesLost"], ledger["samplesDuplicated"]))

    def test_more_processes_than_files_are_refused(self):
        run, code, _, err = self.run_job("five", "File", workers=5)
        self.assertEqual(10, code, err)
        self.assertIn("found File with 4 training files for 5 replicas", run.logs())

    def test_a_run_that_has_begun_goes_on_with_more_processes_than_files(self):
        checkpoints = pathlib.Path(self.folder) / "checkpoints"
        checkpoints.mkdir()
        _, code, result, err = self.run_job("begins", "File", 2, checkpoints, {"steps": 20})
        self.assertEqual((0, 20), (code, result and result["steps"]), err)
        run, code, result, err = self.run_job("grows", "File", 6, checkpoints)
        self.assertEqual((0, 50), (code, result and result["steps"]), err + run.logs()[-4000:])
        warnings = [json.loads(line) for line in run.logs().splitlines()
                    if "fewer training files than replicas" in line]
        self.assertEqual([(4, 6)], [(line["files"], line["replicas"]) for line in warnings])
        self.assertTrue(run.ledgers())
        for ledger in run.ledgers():
            self.assertEqual((0, 0), (ledger["samplesLost"], ledger["samplesDuplicated"]))


if __name__ == "__main__":
    unittest.main()
