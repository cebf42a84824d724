"""TrainingJob builds what `kubectl apply` takes, reads YAML as kubectl does, and refuses faults by name."""
import datetime
import inspect
import json
import pathlib
import re
import tempfile
import types
import typing
import unittest
import unittest.mock

import yaml

from lockstep import InvalidJob, Training, TrainingJob
from lockstep.job import JobOptions
from lockstep.status import Condition, Failure, Progress, ReplicaStatus, Status, camel_case, read_status, why_failed

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMA = yaml.load((ROOT / "api/crd/trainingjobs.yaml").read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))[
    "spec"]["versions"][0]["schema"]["openAPIV3Schema"]

# One job that uses every argument of the builder, and one with every attribute of Training.
OWN = TrainingJob(
    "own", namespace="team", replicas={"chief": 1, "Worker": 3}, image="example.org/image", command=["python3"],
    args=["train.py"], framework="pytorch", strategy="MultiWorkerMirrored",
    resources={"cpu": "2", "nvidia.com/gpu": 1},
    env={"A": "1", "B": {"secretKeyRef": {"name": "secret", "key": "b"}}}, volumes={"/data": "mnist"},
    labels={"team": "vision"}, annotations={"note": "x"}, spec={"runPolicy": {"backoffLimit": 3}})
BUNDLED = TrainingJob("bundled", replicas=2, training=Training(
    model=[{"type": "Flatten"}, {"type": "Dense", "units": 10}], dataset="/data", batch_size=128, epochs=2,
    optimizer="SGD", seed=7, checkpoint="/checkpoints", more={"precision": "BFloat16"}))


def unknown_fields(value, schema, path=""):
    """Paths in a value that a structural schema does not have."""
    if isinstance(value, list):
        return [one for entry in value for one in unknown_fields(entry, schema.get("items", {}), path + "[]")]
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    faults = []
    for key, inner in value.items():
        known = properties.get(key, others)
        faults += [f"{path}.{key}"] if known is None else unknown_fields(inner, known, f"{path}.{key}")
    return faults


class BuilderTest(unittest.TestCase):
    def test_every_field_that_it_writes_is_in_the_crd(self):
        for job in (OWN, BUNDLED):
            self.assertEqual([], unknown_fields(job.to_dict()["spec"], SCHEMA["properties"]["spec"]))
        self.assertEqual([".nothing"], unknown_fields({"nothing": 1}, SCHEMA["properties"]["spec"]))

    def test_each_argument_has_its_place(self):
        found = OWN.to_dict()
        self.assertEqual({"name": "own", "namespace": "team", "labels": {"team": "vision"},
                          "annotations": {"note": "x"}}, found["metadata"])
        self.assertEqual({"type": "MultiWorkerMirrored"}, found["spec"]["strategy"])
        self.assertEqual({"backoffLimit": 3}, found["spec"]["runPolicy"])
        self.assertEqual({"Chief": 1, "Worker": 3},
                         {role: spec["replicas"] for role, spec in found["spec"]["replicaSpecs"].items()})
        pod = found["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
        self.assertEqual([{"name": "volume-0", "persistentVolumeClaim": {"claimName": "mnist"}}], pod["volumes"])
        self.assertEqual([{
            "name": "pytorch", "image": "example.org/image", "command": ["python3"], "args": ["train.py"],
            "env": [{"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "b"}}}],
            "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": 1}},
            "volumeMounts": [{"name": "volume-0", "mountPath": "/data"}]}], pod["containers"])

    def test_short_forms_of_training_become_objects(self):
        self.assertEqual(
            {"model": {"layers": [{"type": "Flatten"}, {"type": "Dense", "units": 10}]}, "dataset": {"path": "/data"},
             "batchSize": {"global": 128}, "epochs": 2, "optimizer": {"name": "SGD"}, "seed": 7,
             "checkpoint": {"directory": "/checkpoints"}, "precision": "BFloat16"}, BUNDLED.spec["training"])
        self.assertEqual({"Worker": {"replicas": 2}}, BUNDLED.spec["replicaSpecs"])

    def test_objects_of_training_and_spec_are_merged_and_lists_replaced(self):
        training = Training(model="mlp", dataset={"format": "synthetic"}, batch_size={"perReplica": 8}, steps=3,
                            optimizer="Adam", more={"optimizer": {"learningRate": 0.1}})
        job = TrainingJob("merged", training=training, env={"A": "1"},
                          spec={"replicaSpecs": {"Worker": {"restartPolicy": "Never"}}})
        self.assertEqual({"name": "Adam", "learningRate": 0.1}, job.spec["training"]["optimizer"])
        worker = job.spec["replicaSpecs"]["Worker"]
        self.assertEqual((1, "Never", "trainer"), (worker["replicas"], worker["restartPolicy"],
                                                   worker["template"]["spec"]["containers"][0]["name"]))

    def test_a_job_does_not_share_what_it_was_made_of(self):
        spec = {"runPolicy": {"backoffLimit": 3}}
        job = TrainingJob("own", image="x", spec=spec)
        job.spec["runPolicy"]["backoffLimit"] = 4
        job.to_dict()["spec"]["runPolicy"]["backoffLimit"] = 5
        self.assertEqual((3, 4), (spec["runPolicy"]["backoffLimit"], job.spec["runPolicy"]["backoffLimit"]))

    def test_roles_may_be_changed_apart(self):
        job = TrainingJob("own", image="x", replicas={"Chief": 1, "Worker": 1})
        job.spec["replicaSpecs"]["Chief"]["template"]["spec"]["containers"][0]["image"] = "y"
        self.assertEqual("x", job.spec["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["image"])

    def test_faults_are_named(self):
        for arguments, said in (
                ({}, "image: found none, expected the image of your program, or `training`"),
                ({"image": "x", "replicas": {"Master": 1}}, "found the role 'Master', expected some of Chief, Worker"),
                ({"image": "x", "replicas": "2"}, "replicas: found '2' for Worker, expected a whole number"),
                ({"image": "x", "replicas": {"chief": 1.0}}, "replicas: found 1.0 for chief, expected a whole number"),
                ({"image": "x", "command": "python3 a.py"}, "command: found 'python3 a.py', expected a list of texts"),
                ({"image": "x", "env": {"A": 1}}, "env: found 1 for A, expected a text")):
            with self.assertRaises(InvalidJob) as raised:
                TrainingJob("bad", **arguments)
            self.assertIn(said, str(raised.exception))

    def test_numbers_of_replicas_may_be_of_any_type_of_whole_numbers(self):
        class Whole:  # as NumPy's
            def __index__(self):
                return 2

        for replicas in (Whole(), {"worker": Whole()}):
            self.assertEqual({"Worker": {"replicas": 2}}, TrainingJob(
                "j", replicas=replicas, training=Training(model="mlp", dataset="/data", batch_size=8, epochs=1)).spec[
                    "replicaSpecs"])

    def test_the_options_of_a_function_are_those_of_a_job(self):
        parameters = inspect.signature(TrainingJob).parameters
        hints = typing.get_type_hints(TrainingJob.__init__)
        for name, hint in typing.get_type_hints(JobOptions).items():
            self.assertIn(name, parameters)
            self.assertEqual(hints[name], hint, name)
        self.assertEqual({"name", "image", "command", "args", "training"},
                         parameters.keys() - JobOptions.__annotations__.keys())


class YamlTest(unittest.TestCase):
    HEAD = "apiVersion: training.lockstep.dev/v1\nkind: TrainingJob\nmetadata: {name: j}\n"

    def test_every_example_is_the_same_after_a_round_trip(self):
        count = 0
        for path in (ROOT / "examples").rglob("*.yaml"):
            if "kind: TrainingJob\n" in path.read_text() and path.read_text().count("\nkind: ") == 1:
                job = TrainingJob.from_yaml(path)
                self.assertEqual(job.to_dict(), TrainingJob.from_yaml_text(job.to_yaml()).to_dict())
                self.assertEqual([], unknown_fields(job.spec, SCHEMA["properties"]["spec"]), path)
                count += 1
        self.assertGreater(count, 8)

    def test_it_is_read_as_kubectl_reads_it(self):
        job = TrainingJob.from_yaml_text(self.HEAD + "spec: {a: 1e-3, b: 2026-01-31, c: .5e+2, d: \"1e-3\"}\n")
        self.assertEqual({"a": 0.001, "b": "2026-01-31", "c": 50.0, "d": "1e-3"}, job.spec)

    def test_numbers_have_the_bases_that_kubectl_knows(self):
        for text, expected in (
                ("0400", 256), ("-0755", -493), ("08", 8), ("-018", -18), ("0_7", 7), ("0o17", 15), ("-0O17", -15),
                ("0x_f", 15), ("-0X10", -16), ("0b11", 3), ("1_000", 1000), ("+5", 5), ("0", 0), ("0400e1", 4000.0),
                ("07.5", 7.5), ("1_0.5", 10.5), ("5.", 5.0), (".5", 0.5), ("12:30:00", "12:30:00"), ("-1:2", "-1:2"),
                ("190:20:30.15", "190:20:30.15"), ("0x_", "0x_"), ("0o8", "0o8"), ("_1", "_1"), ("1.2.3", "1.2.3")):
            with self.subTest(text):
                found = TrainingJob.from_yaml_text(f"{self.HEAD}spec: {{a: {text}}}\n").spec["a"]
                self.assertEqual((type(expected), expected), (type(found), found))

    def test_booleans_are_the_words_that_kubectl_knows(self):
        for text, expected in (
                ("y", True), ("Yes", True), ("on", True), ("TRUE", True), ("N", False), ("no", False), ("Off", False),
                ("false", False), ('"yes"', "yes"), ("yEs", "yEs"), ("none", "none"), ("yy", "yy")):
            with self.subTest(text):
                found = TrainingJob.from_yaml_text(f"{self.HEAD}spec: {{a: {text}}}\n").spec["a"]
                self.assertEqual((type(expected), expected), (type(found), found))

    def test_merge_keys_fill_in_what_a_map_lacks(self):
        # Also what tests/api/v1/yaml_test.cc expects of the C++ programs.
        for text, expected in (
                ("{<<: {x: 1, q: 2}, x: 3}", {"x": 3, "q": 2}),
                ("{x: 3, <<: {q: 2}}", {"x": 3, "q": 2}),
                ("{<<: [{x: 1}, {x: 2, q: [3]}]}", {"x": 1, "q": [3]}),
                ("{<<: {}, x: 1}", {"x": 1}), ("{<<: [], x: 1}", {"x": 1}), ("{!!merge <<: {x: 1}}", {"x": 1}),
                ('{"<<": {x: 1}}', {"<<": {"x": 1}}), ("{!!str <<: 1}", {"<<": 1}),
                ("{a: &a {x: 1, q: 2}, b: {<<: *a, x: 3}, c: {<<: [{z: 5}, *a]}}",
                 {"a": {"x": 1, "q": 2}, "b": {"x": 3, "q": 2}, "c": {"x": 1, "q": 2, "z": 5}}),
                ("{a: {b: &b {<<: &c {x: 1, q: 2}, x: 3}}, d: {<<: *b, q: 4}, e: *b, f: *c}",
                 {"a": {"b": {"x": 3, "q": 2}}, "d": {"x": 3, "q": 4}, "e": {"x": 3, "q": 2}, "f": {"x": 1, "q": 2}})):
            with self.subTest(text):
                self.assertEqual(expected, TrainingJob.from_yaml_text(f"{self.HEAD}spec: {text}\n").spec)

    def test_texts_that_look_like_something_else_are_written_in_quotes(self):
        texts = ["1e-3", "y", "NO", "on", "null", "0x10", "0o17", "1_000", "2026-01-31", "~", "", " a", "a: b", "a #b",
                 "12:30:45", "-", "=", "<<", "a\nb\n", "ü", "a\\b", "python3", "/data/mnist", "example.org/image:1.2"]
        written = TrainingJob("j", image="x", args=texts).to_yaml()
        self.assertEqual(texts, TrainingJob.from_yaml_text(written).spec["replicaSpecs"]["Worker"]["template"]["spec"][
            "containers"][0]["args"])
        for text in texts[:12]:
            self.assertIn(json.dumps(text), written)
        self.assertIn("- python3\n", written)

    def test_what_is_too_large_or_too_deep_is_refused(self):
        def lists(levels, copies):
            return self.HEAD + "spec:\n  x0: &x0 [a, b]\n" + "".join(
                f"  x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * copies)}]\n" for i in range(1, levels))

        def merges(levels, copies):
            return self.HEAD + "spec:\n  x0: &x0 {a: b}\n" + "".join(
                f"  x{i}: &x{i} {{<<: [{', '.join([f'*x{i - 1}'] * copies)}]}}\n" for i in range(1, levels))

        def nested(levels):
            return self.HEAD + "spec: {a: " + "[" * levels + "]" * levels + "}\n"

        job = TrainingJob.from_yaml_text(lists(3, 10))
        self.assertEqual(["a", "b"], job.spec["x2"][9][9])
        self.assertEqual(job.to_dict(), TrainingJob.from_yaml_text(job.to_yaml()).to_dict())
        TrainingJob.from_yaml_text(nested(98))
        for text, said in (
                (lists(9, 10), r"found values of \d+ bytes, with a copy in place of each alias, expected at most 16777216"),
                (merges(9, 10), r"found values of \d+ bytes, with a copy in place of each alias, expected at most 16777216"),
                (lists(1_000, 1), r"found \d+ nested values, expected at most 100"),
                (nested(99), "found 101 nested values, expected at most 100"),
                (nested(100_000), "found more than 100 nested values, expected at most 100"),
                (self.HEAD + "spec: {a: &a " + "x" * 1_000_000 + ", b: [" + "*a, " * 100 + "]}\n",
                 "found values of 1000\\d+ bytes"),
                (self.HEAD + "spec: {a: &a [1, *a]}\n", "found an alias inside what it stands for, expected"),
                (self.HEAD + "spec: {a: &a [{x: 1}], b: {<<: *a}}\n", "found << with an alias of a list, expected a map")):
            with self.assertRaisesRegex(InvalidJob, said):
                TrainingJob.from_yaml_text(text)

    def test_faults_are_named_with_the_file(self):
        for text, said in (
                (self.HEAD + "spec: {}\n---\nkind: ConfigMap\n", "found 2 documents (TrainingJob, ConfigMap)"),
                ("", "found 0 documents (none), expected one TrainingJob"),
                ("- 1\n", "found 1 documents (list)"),
                ("kind: TFJob\napiVersion: kubeflow.org/v1\n", "found an object of kind kubeflow.org/v1 TFJob"),
                (self.HEAD + "spec: {a: 1, a: 2}\n", "found the key 'a' twice"),
                (self.HEAD + "spec: {a: 1, <<: {b: 2, a: 3}}\n", "found << behind 'a', which it has, too"),
                (self.HEAD + "spec: {<<: 3}\n", "expected a mapping or list of mappings for merging"),
                (self.HEAD.replace("name: j", "labels: {}"), "metadata.name: found none"),
                ("a: [", "found what is no YAML"), ("[a]: b", "found what is no YAML")):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "job.yaml")
                path.write_text(text)
                with self.assertRaises(InvalidJob) as raised:
                    TrainingJob.from_yaml(path)
            self.assertIn(said, str(raised.exception))
            self.assertIn("job.yaml: ", str(raised.exception))

    def test_what_the_server_has_added_is_left_out(self):
        stored = OWN.to_dict()
        stored["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 2, "creationTimestamp": "t",
                               "managedFields": []}
        stored["status"] = {"state": "Running"}
        job = TrainingJob.from_dict(stored)
        self.assertEqual(OWN.to_dict(), job.to_dict())
        self.assertEqual(("u", "Running"), (job.uid, job.status.state))


class StatusTest(unittest.TestCase):
    def fields(self, cls):
        return {camel_case(name) for name in cls.__dataclass_fields__}

    def test_the_attributes_are_the_crds_fields(self):
        status = SCHEMA["properties"]["status"]["properties"]
        for cls, schema in ((Progress, status["progress"]), (Failure, status["failure"]),
                            (Condition, status["conditions"]["items"]),
                            (ReplicaStatus, status["replicaStatuses"]["additionalProperties"])):
            self.assertEqual(set(schema["properties"]), self.fields(cls), cls)
        self.assertLess(self.fields(Status), set(status))

    def test_it_is_read(self):
        status = read_status({
            "state": "Failed", "startTime": "2026-01-31T12:00:00Z", "replicaStatuses": {"Worker": {"ready": 1}},
            "progress": {"step": 3, "loss": 0.5}, "failure": {"role": "worker", "index": 1, "exitCode": 3,
                                                              "reason": "Error", "node": "n1", "message": "no data"},
            "conditions": [{"type": "Failed", "status": "True", "reason": "R", "message": "M"}]})
        self.assertEqual((True, True, False), (status.failed, status.finished, status.succeeded))
        self.assertEqual((12, 1, 3, 0.5, None), (status.start_time.hour, status.replica_statuses["Worker"].ready,
                                                 status.progress.step, status.progress.loss, status.progress.epoch))
        self.assertEqual("worker-1 exited with 3 (Error) on node n1: no data", why_failed(status))

    def test_times_have_any_number_of_digits_in_each_python(self):
        class OfPython310(datetime.datetime):
            @classmethod
            def fromisoformat(cls, text):
                if not re.fullmatch(r"[-\d]{10}T[:\d]{8}(\.\d{3}|\.\d{6})?[-+]\d\d:\d\d", text):
                    raise ValueError(f"Invalid isoformat string: {text!r}")
                return super().fromisoformat(text)

        old = types.SimpleNamespace(datetime=OfPython310)
        for fraction, microseconds in (("", 0), (".5", 500000), (".07", 70000), (".123456789", 123456)):
            with self.subTest(fraction), unittest.mock.patch("lockstep.status.datetime", old):
                time = read_status({"progress": {"updateTime": f"2026-01-31T12:00:36{fraction}Z"}}).progress.update_time
                self.assertEqual((36, microseconds, datetime.timedelta()),
                                 (time.second, time.microsecond, time.utcoffset()))

    def test_a_job_that_the_operator_has_not_seen_is_pending(self):
        status = read_status({})
        self.assertEqual(("Pending", False, None, 0), (status.state, status.finished, status.progress,
                                                       status.restart_count))

    def test_without_a_replica_to_blame_the_condition_says_why(self):
        self.assertEqual("DeadlineExceeded: after 5 s", why_failed(read_status({"conditions": [
            {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "after 5 s"}]})))


if __name__ == "__main__":
    unittest.main()
