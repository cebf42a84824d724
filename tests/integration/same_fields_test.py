"""Fields and enums are the same in api/v1 and in the CRD, each in its place. No server needed."""
import functools
import re
import unittest

import yaml

from api_server import CRD, ROOT

API = ROOT / "api" / "v1"
FIELDS = ("training_fields.h", "training_job_json.cc", "status_fields.h")
STRUCT = re.compile(r"void Fields\(auto& visit, Like<(\w+)> auto& \w+\) \{\n(.*?)^\}", re.M | re.S)
ENUM = re.compile(r"kEnumNames<(\w+)>\[\] = \{(.*?)\};", re.S)
METADATA = {"ObjectMeta", "OwnerReference"}  # the API server's own
TRAINING = "spec.training."
PLACES = {
    "TrainingJob": "", "TrainingJobSpec": "spec", "TrainingSpec": "spec.training",
    "StrategySpec": "spec.strategy", "ParameterServerSpec": "spec.strategy.parameterServer",
    "ModelSpec": TRAINING + "model", "DatasetSpec": TRAINING + "dataset",
    "SyntheticSpec": TRAINING + "dataset.synthetic", "NpySpec": TRAINING + "dataset.npy",
    "CsvSpec": TRAINING + "dataset.csv", "TfRecordSpec": TRAINING + "dataset.tfrecord", "BatchSizeSpec": TRAINING + "batchSize",
    "AugmentSpec": TRAINING + "dataset.augment",
    "RandomCropSpec": TRAINING + "dataset.augment.randomCrop",
    "CutoutSpec": TRAINING + "dataset.augment.cutout",
    "MixUpSpec": TRAINING + "dataset.augment.mixUp",
    "NormalizeSpec": TRAINING + "dataset.normalize",
    "LearningRateScheduleSpec": TRAINING + "learningRateSchedule",
    "LossSpec": TRAINING + "loss", "OptimizerSpec": TRAINING + "optimizer",
    "InitialWeightsSpec": TRAINING + "initialWeights", "CheckpointSpec": TRAINING + "checkpoint",
    "SummariesSpec": TRAINING + "summaries", "EvaluationSpec": TRAINING + "evaluation",
    "EarlyStoppingSpec": TRAINING + "earlyStopping", "EmaSpec": TRAINING + "ema",
    "ReplicaSpec": "spec.replicaSpecs.*", "DependencySpec": "spec.replicaSpecs.*.dependsOn[]",
    "DependencyStatus": "spec.replicaSpecs.*.dependsOn[].status", "ElasticSpec": "spec.elastic",
    "RunPolicySpec": "spec.runPolicy", "SchedulingPolicySpec": "spec.runPolicy.schedulingPolicy",
    "PodFailurePolicySpec": "spec.runPolicy.podFailurePolicy",
    "PodFailureRuleSpec": "spec.runPolicy.podFailurePolicy.rules[]",
    "ExitCodesSpec": "spec.runPolicy.podFailurePolicy.rules[].onExitCodes",
    "FailureAction": "spec.runPolicy.podFailurePolicy.rules[].action",
    "ExitCodeOperator": "spec.runPolicy.podFailurePolicy.rules[].onExitCodes.operator",
    "TrainingJobStatus": "status", "Condition": "status.conditions[]",
    "ReplicaStatus": "status.replicaStatuses.*", "RestartCounts": "status.restarts",
    "Progress": "status.progress", "VariantResult": "status.variants[]", "Failure": "status.failure",
    # Enums
    "StrategyType": "spec.strategy.type", "Sharding": "spec.strategy.sharding",
    "Communication": "spec.strategy.communication",
    "ParameterServerMode": "spec.strategy.parameterServer.mode",
    "ParameterPlacement": "spec.strategy.parameterServer.placement",
    "CentralStorageSpec": "spec.strategy.centralStorage",
    "ControllerDevice": "spec.strategy.centralStorage.controllerDevice",
    "DatasetFormat": TRAINING + "dataset.format",
    "AutoShard": TRAINING + "dataset.autoShard",
    "RandomFlip": TRAINING + "dataset.augment.randomFlip",
    "BestMetric": TRAINING + "checkpoint.keepBest", "TestMetric": TRAINING + "evaluation.metrics[]",
    "Interpolation": TRAINING + "dataset.interpolation",
    "ActivationCheckpointing": TRAINING + "activationCheckpointing", "LossType": TRAINING + "loss.type",
    "ScheduleType": TRAINING + "learningRateSchedule.type", "Precision": TRAINING + "precision",
    "RestartPolicy": "spec.replicaSpecs.*.restartPolicy", "RestartScope": "spec.restartScope",
    "SuccessPolicy": "spec.successPolicy", "CleanPodPolicy": "spec.runPolicy.cleanPodPolicy",
    "NetworkPolicy": "spec.networkPolicy", "TokenMount": "spec.jobToken",
    "ConditionStatus": "status.conditions[].status",
}


@functools.cache
def definition():
    return yaml.load(CRD.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def schema(path):
    node = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for step in re.findall(r"[^.\[]+|\[\]", path):
        node = (node["additionalProperties"] if step == "*" else node["items"] if step == "[]"
                else node["properties"][step])
    return node


class SameFieldsTest(unittest.TestCase):
    def test_each_struct_has_the_fields_of_its_place(self):
        structs = {name: set(re.findall(r'visit\.\w+\(\s*"(\w+)"', body))
                   for source in FIELDS for name, body in STRUCT.findall((API / source).read_text())}
        self.assertGreater(len(structs), 20)
        for name, fields in structs.items():
            if name not in METADATA:
                with self.subTest(name):
                    self.assertTrue(name in PLACES, f"{name} is not in PLACES: give its place in the CRD")
                    self.assertEqual(fields, set(schema(PLACES[name])["properties"]))

    def test_each_enum_has_the_names_of_its_place(self):
        enums = {name: re.findall(r'"(\w+)"', body)
                 for name, body in ENUM.findall((API / "enum_names.h").read_text())}
        self.assertGreater(len(enums), 10)
        roles = enums.pop("Role")
        self.assertEqual(set(), {role for role in roles if f"'{role}'" not in CRD.read_text()})
        for name, names in enums.items():
            with self.subTest(name):
                self.assertTrue(name in PLACES, f"{name} is not in PLACES: give its place in the CRD")
                self.assertEqual(set(names), set(schema(PLACES[name])["enum"]))


if __name__ == "__main__":
    unittest.main()
