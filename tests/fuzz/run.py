#!/usr/bin/env python3
"""Runs every fuzz target for a while, from seeds that it writes; ends with 1 if one found a fault."""
import argparse
import concurrent.futures
import json
import pathlib
import struct
import subprocess
import sys
import zlib

CONTAINER = {"name": "tensorflow", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "2"}},
             "ports": [{"name": "pytorchjob-port", "containerPort": 23456}], "env": [{"name": "A"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
ROLE = {"replicas": 2, "restartPolicy": "ExitCode", "template": TEMPLATE}
RUN_POLICY = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60, "activeDeadlineSeconds": 5, "pendingDeadlineSeconds": 5, "progressDeadlineSeconds": 600,
              "backoffLimit": 3, "schedulingPolicy": {
                  "minAvailable": 2, "queue": "q", "priorityClass": "p",
                  "minResources": {"cpu": "500m"}, "scheduleTimeoutSeconds": 9}}
PROGRESS = {"step": 7, "totalSteps": 10, "epoch": 1.5, "loss": 0.25, "accuracy": 0.5,
            "testAccuracy": 0.5, "testLoss": 0.1, "examplesPerSecond": 10.5, "goodput": 0.9,
            "estimatedRemainingSeconds": 3, "lastCheckpointStep": 5,
            "updateTime": "2026-01-01T00:00:00Z"}
JOB = {
    "apiVersion": "training.lockstep.dev/v1", "kind": "TrainingJob",
    "metadata": {"name": "mnist", "namespace": "default", "uid": "u", "generation": 2,
                 "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {
        "suspend": False, "managedBy": "", "strategy": {
            "type": "MultiWorkerMirrored", "processesPerPod": 1, "stages": 1, "communication": "Ring"},
        "training": {
            "model": {"layers": [{"type": "Dense", "units": 10}]},
            "dataset": {"format": "synthetic", "synthetic": {"shape": [1, 28, 28], "classes": 10}},
            "batchSize": {"global": 128}, "steps": 10, "seed": 1,
            "optimizer": {"name": "SGD", "learningRate": 0.1, "momentum": 0.9, "nesterov": True},
            "learningRateSchedule": {"type": "Cosine", "warmupSteps": 2, "finalFraction": 0.1},
            "checkpoint": {"directory": "/c", "everySteps": 2, "keep": 1}},
        "replicaSpecs": {"Worker": {"replicas": 2, "template": {}}},
        "elastic": {"minReplicas": 1, "maxReplicas": 4}, "restartScope": "InPlace",
        "successPolicy": "AllWorkers", "runPolicy": RUN_POLICY},
    "status": {"state": "Running", "attempt": 1, "completedIndexes": [0], "progress": PROGRESS,
               "conditions": [{"type": "Running", "status": "True", "reason": "R",
                               "lastTransitionTime": "2026-01-01T00:00:00Z"}],
               "replicaStatuses": {"Worker": {"desired": 2}}}}
TF_JOB = {"kind": "TFJob", "metadata": {"name": "a"}, "spec": {
    "tfReplicaSpecs": {"Chief": {**ROLE, "replicas": 1}, "PS": ROLE, "Worker": ROLE},
    "successPolicy": "AllWorkers", "enableDynamicWorker": True, "runPolicy": RUN_POLICY}}
PYTORCH_JOB = {"kind": "PyTorchJob", "metadata": {"name": "a"}, "spec": {
    "pytorchReplicaSpecs": {"Worker": ROLE}, "nprocPerNode": "2", "elasticPolicy": {
        "minReplicas": 1, "maxReplicas": 3, "rdzvBackend": "etcd", "maxRestarts": 3},
    "runPolicy": {"suspend": True, "managedBy": "x"}}}
POD = {
    "metadata": {
        "name": "j-worker-0", "namespace": "default", "uid": "u", "labels": {
            "training.lockstep.dev/role": "worker", "training.lockstep.dev/replica-index": "0",
            "training.lockstep.dev/attempt": "1"},
        "annotations": {"training.lockstep.dev/spec-hash": "0", "x": "y",
                        "training.lockstep.dev/cluster-shape": "worker=2"},
        "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30},
    "spec": {"restartPolicy": "OnFailure", "nodeName": "n",
             "containers": [{"name": "sidecar"}, CONTAINER]},
    "status": {
        "phase": "Running", "podIP": "10.0.0.1", "reason": "NodeLost", "conditions": [
            {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "none"}],
        "containerStatuses": [{"name": "tensorflow", "restartCount": 2, "state": {"terminated": {
            "exitCode": 137, "reason": "OOMKilled", "message": json.dumps(PROGRESS),
            "finishedAt": "2026-01-01T00:00:00Z"}}, "lastState": {"terminated": {"exitCode": 1}}}]}}
WATCH = [{"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "7"}}},
         {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}},
         {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}]
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: c, user: u, namespace: ns}}]
clusters:
- name: c
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: Zm9v, tls-server-name: x}
users:
- name: u
  user:
    token: t
    client-certificate: c.pem
    client-key-data: Zm9v
- name: e
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: get, args: [a], env: [{name: A, value: b}]}}
"""
CLUSTER = {"cluster": {"chief": ["c:1"], "ps": ["p:1"], "worker": ["a:1", "b:2"]},
           "task": {"type": "worker", "index": 1}, "environment": "cloud"}
SPARSE = {"cluster": {"ps": ["p:1"], "worker": {"1": "b:2"}}, "task": {"type": "worker", "index": 1}}
MANIFEST = {"format": 1, "step": 7, "state": {"epoch": 1}, "model": "m", "crc32c": 0,
            "files": [{"name": "model.safetensors", "bytes": 8, "crc32c": 1}]}
METRICS = {"rank": 0, "world": 2, "step": 7, "epoch": 1.5, "loss": None, "stepsTotal": 7}


def safetensors():
    header = json.dumps({"__metadata__": {"a": "b"}, "w": {
        "dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<ff", 1, 2)


def idx():
    images = struct.pack(">IIII", 0x803, 2, 1, 4) + bytes(8)
    labels = struct.pack(">II", 0x801, 2) + b"\1\2"
    return images.ljust(24, b"\0") + labels.ljust(24, b"\0")


def npy():
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + struct.pack("<ff", 1, 2)


def png():
    def chunk(name, content):
        return (struct.pack(">I", len(content)) + name + content
                + struct.pack(">I", zlib.crc32(name + content)))
    header = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    rows = b"\0\1\2\3\4\5\6" * 2
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def field(number, *parts):
    """A protobuf field that is a text or a message of fields."""
    value = b"".join(parts)
    return bytes([number << 3 | 2, len(value)]) + value


def pod_in_protobuf():
    ended = field(3, b"\x08\x01\x10\x09", field(3, b"Error"), field(6, b"\x08\x80\xe2\xcf\xaa\x06"))
    return (field(1, field(1, b"p"), field(6, b"7"), field(11, field(1, b"a"), field(2, b"b")))
            + field(2, field(2, field(1, b"c"), field(2, b"i")), field(10, b"n"))
            + field(3, field(1, b"Running"), field(8, field(1, b"c"), field(2, ended), b"\x28\x02")))


def watch_in_protobuf():
    pod = b"k8s\0" + field(1, field(1, b"v1"), field(2, b"Pod")) + field(2, pod_in_protobuf())
    event = field(1, b"ADDED") + field(2, field(1, pod))
    return struct.pack(">I", len(event)) + event


def as_json(*values):
    return [json.dumps(value).encode() for value in values]


SEEDS = {
    "training_job_json": as_json(JOB),
    "training_job_object": as_json(JOB, {**JOB, "spec": {**JOB["spec"], "replicaSpecs": 7},
                                         "status": "lost"}),
    "training_job_yaml": [json.dumps(JOB, indent=1).encode(), KUBECONFIG.encode(),
                          b"a: &x |\n  b\nc: >-\n  d\n---\n- 0x1F\n- '1'\n- ~\n- .inf\n"],
    "quantity": [b"500m", b"1.5Gi", b"1e3", b"0.1", b"12n"],
    "rfc3339": [b"2026-01-01T00:00:00Z", b"2024-02-29T23:59:60.5+01:00"],
    "progress_json": as_json(PROGRESS),
    "report_json": as_json({"trainerStatus": {
        "progressPercentage": 45, "estimatedRemainingSeconds": 60, "lastUpdatedTime": "2026-01-23T10:30:45Z",
        "metrics": [{"name": "loss", "value": "0.25"}, {"name": "current_step", "value": "7"},
                    {"name": "total_steps", "value": "500"}, {"name": "epoch", "value": "1.5"}]}}),
    "kubeconfig": [KUBECONFIG.encode()],
    "object_json": as_json(POD, [1, -2, 3.5e-7, 10**25, True, None, "\u00e9\n\"\\", {"": {}}]),
    "object_protobuf": [pod_in_protobuf()],
    "watch_decoder": [b"\n".join(as_json(*WATCH)) + b"\n", 2 * watch_in_protobuf()],
    "pod": as_json(POD),
    "kubeflow_job": as_json(TF_JOB, PYTORCH_JOB),
    "tf_config": as_json(CLUSTER, SPARSE),
    "safetensors": [safetensors()],
    "manifest": as_json(MANIFEST),
    "idx": [idx()],
    "npy": [npy()],
    "decode_image": [png(), b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xd9"],
    "tfrecord": [bytes.fromhex("0a190a170a056c6162656c120e1a0c0a0a010203ffffffffffff7f"),
                 bytes.fromhex("0a160a140a05696d616765120b12090a070000803f00")],
    "csv": [b"a,label,\"b\"\r\n1.5,0,-2\r\n3e2,2,.25\r\n"],
    "metrics_line": as_json(METRICS),
}


def write_seeds(target, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[target]):
        (folder / f"seed-{number}").write_bytes(seed)


def run(target, build, seconds):
    corpus, faults = build / "corpus" / target, build / "faults" / target
    write_seeds(target, corpus)
    faults.mkdir(parents=True, exist_ok=True)
    log = faults / "log"
    with log.open("wb") as out:
        code = subprocess.run(
            [build / "bin" / f"fuzz_{target}", f"-max_total_time={seconds}", "-timeout=10",
             "-rss_limit_mb=1024", "-max_len=16384", "-print_final_stats=1",
             f"-artifact_prefix={faults}/", corpus],
            stdout=out, stderr=out, stdin=subprocess.DEVNULL, timeout=seconds + 120,
            check=False).returncode
    runs = [line.split()[-1] for line in log.read_text(errors="replace").splitlines()
            if "number_of_executed_units" in line]
    return code, runs[-1] if runs else "?", log


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build/fuzz")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("targets", nargs="*", default=[], help="of: " + ", ".join(SEEDS))
    args = parser.parse_args()
    unknown = set(args.targets) - set(SEEDS)
    if unknown:
        parser.error(f"no such targets: {', '.join(sorted(unknown))}")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        work = {target: pool.submit(run, target, args.build.resolve(), args.seconds)
                for target in args.targets or SEEDS}
        for target, future in work.items():
            code, runs, log = future.result()
            print(f"{target}: {'ok' if code == 0 else 'FAULT'}, {runs} runs", flush=True)
            if code != 0:
                failed = True
                print(f"  see {log} and what lies beside it")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
