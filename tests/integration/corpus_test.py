"""The API server and `lockstep validate` agree on what is a TrainingJob, and name the same fields."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from api_server import BIN, JOBS, ROOT, server
from corpus import BAD, BOTH, GOOD, PROGRAM, SERVER

LOCKSTEP = BIN / "lockstep"
PARSER = ROOT / "trainer" / "nn" / "parse_layers.cc"


def validate(folder, number, job):
    """None, or what `lockstep validate` says."""
    path = pathlib.Path(folder, f"{number}.yaml")
    path.write_text(json.dumps(job))
    done = subprocess.run([LOCKSTEP, "validate", path], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return None if done.returncode == 0 else done.stdout


def validate_all(jobs):
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda numbered: validate(folder, *numbered), enumerate(jobs)))


def names(message, field):
    """Whether a message names a field, the whole of it."""
    # The server puts a map's keys in brackets; 1.29 may write the map's own name twice then.
    message = re.sub(r"(\w+)(?:\.\1)?\[([A-Z]\w*)\]", r"\1.\2", message)
    return re.search(rf"(?<![\w.]){re.escape(field)}(?![\w])", message) is not None


class CorpusTest(unittest.TestCase):
    def setUp(self):
        server().call("DELETE", JOBS)  # those of other tests, which share the server

    def test_both_take_what_is_good(self):
        for (what, job), said in zip(GOOD.items(), validate_all(GOOD.values())):
            with self.subTest(what):
                self.assertIsNone(said)
                self.assertIsNone(server().dry_run(job))

    def test_the_server_refuses_what_is_bad_and_names_the_field(self):
        for bad in BAD:
            with self.subTest(bad.what):
                said = server().dry_run(bad.job)
                if bad.seen_by == PROGRAM:
                    self.assertIsNone(said)
                else:
                    self.assertIsNotNone(said, "the server took it")
                    self.assertTrue(names(said, bad.field), f"{bad.field} is not in: {said}")

    def test_the_program_refuses_what_is_bad_and_names_the_field(self):
        for bad, said in zip(BAD, validate_all(bad.job for bad in BAD)):
            with self.subTest(bad.what):
                if bad.seen_by == SERVER:
                    self.assertIsNone(said)
                else:
                    self.assertIsNotNone(said, "the program took it")
                    self.assertTrue(names(said, bad.field), f"{bad.field} is not in: {said}")

    def test_few_are_seen_by_one_side_only(self):
        """A rule that is left out of the CRD is an exception, which somebody has to list."""
        self.assertGreater(sum(bad.seen_by == BOTH for bad in BAD), 0.85 * len(BAD))
        self.assertEqual(len(BAD), len({bad.what for bad in BAD}))

    def test_the_schema_knows_the_trainers_layers(self):
        table = PARSER.read_text().split("kLayerTypes[] = {")[1].split("\n};")[0]
        layers = server().schema("spec", "training", "model", "layers")["items"]
        self.assertEqual(sorted(re.findall(r'^    \{"(\w+)"', table, re.MULTILINE)),
                         sorted(layers["properties"]["type"]["enum"]))


if __name__ == "__main__":
    unittest.main()
