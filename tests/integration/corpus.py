"""Good and bad specs. Each bad one has the field that a refusal must name."""
import dataclasses

from api_server import container, job, role, training_job

BOTH, SERVER, PROGRAM = "both", "server", "program"
MOST_WORKERS_NAME = "a" * (63 - len("-worker-999"))


@dataclasses.dataclass
class Bad:
    what: str
    job: dict
    field: str          # as the server spells it; the program may name the list's element too
    seen_by: str = BOTH  # who refuses; other than both is a listed exception


def changed(base, **fields):
    """A job with other top-level fields of its spec."""
    return {**base, "spec": {**base["spec"], **fields}}


def workers(**fields):
    return {"Worker": {**role(), **fields}}


def with_containers(*containers):
    return job(replicaSpecs={"Worker": role(containers=list(containers))})


def layers(*listed):
    return training_job(model={"layers": list(listed)})


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def elastic(replicas, name="job", **spec):
    return job(name, elastic={"minReplicas": 1, "maxReplicas": 4},
               replicaSpecs={"Worker": role(replicas)}, **spec)


def scheduling(**policy):
    return job(runPolicy={"schedulingPolicy": policy})


def failures(**rule):
    return job(runPolicy={"podFailurePolicy": {"rules": [{"action": "FailJob", **rule}]}})


def ordered(base=None, container_name="main", **depends_on):
    """A job whose roles wait: `Worker="PS:Ready"`, or a list of those; None: the role waits for none."""
    base = base or job()
    bring = {} if "training" in base["spec"] else role(containers=[container(container_name)])
    replicas = {}
    for name, waits in depends_on.items():
        replicas[name] = dict(bring)
        if waits is not None:
            listed = [waits] if isinstance(waits, (str, dict)) else waits
            replicas[name]["dependsOn"] = [
                each if isinstance(each, dict) else dict(zip(("role", "status"), each.split(":"), strict=True))
                for each in listed]
    return changed(base, replicaSpecs=replicas)


def independent(*variants):
    return changed(training_job(variants=list(variants)), strategy={"type": "Independent"})


GOOD = {
    "a job that brings its own image": job(),
    "a job of the bundled trainer": training_job(),
    "ParameterServer with training": changed(training_job(replicas={"Worker": {}, "PS": {}}),
                                             strategy={"type": "ParameterServer"}),
    "CentralStorage with training": changed(
        training_job(replicas={"Worker": {"replicas": 1}}),
        strategy={"type": "CentralStorage", "processesPerPod": 2, "centralStorage": {"controllerDevice": "CPU"}}),
    "two stages": changed(training_job(), strategy={"stages": 2}),
    "stages of the processes of a chief and a worker": changed(
        training_job(replicas={"Chief": {}, "Worker": {}}, batchSize={"global": 1}),
        strategy={"processesPerPod": 3, "stages": 6}),
    "a sample for each pipeline": changed(
        training_job(batchSize={"global": 4}), strategy={"processesPerPod": 4, "stages": 2}),
    "stages of one pod": changed(training_job(replicas={"Worker": {"replicas": 1}}),
                                 strategy={"type": "Mirrored", "processesPerPod": 4, "stages": 4}),
    "stages on GPUs": changed(training_job(replicas={
        "Worker": role(1, [container(resources={"limits": {"nvidia.com/gpu": 4}})])}), strategy={"stages": 4}),
    "one stage with any strategy and program": job(strategy={"type": "Independent", "stages": 1}),
    "a sharded optimizer's state": changed(training_job(), strategy={"sharding": "ZeRO1"}),
    "a sharded optimizer's state in one pod": changed(
        training_job(replicas={"Worker": {"replicas": 1}}),
        strategy={"type": "Mirrored", "processesPerPod": 2, "sharding": "ZeRO1"}),
    "no sharding with any strategy and program": job(strategy={"type": "Independent", "sharding": "None"}),
    "CentralStorage on a GPU with an image of its own": job(
        strategy={"type": "CentralStorage", "centralStorage": {"controllerDevice": "GPU"}}),
    "NCCL with training": changed(training_job(), strategy={"communication": "NCCL"}),
    "PS with training": training_job(replicas={"Worker": {}, "PS": {"replicas": 2}}),
    "synchronous parameter servers with training": changed(
        training_job(replicas={"Worker": {}, "PS": {}}),
        strategy={"type": "ParameterServer", "parameterServer": {"mode": "Sync", "placement": "RoundRobin"}}),
    "TF32": training_job(precision="TF32"),
    "BFloat16": training_job(precision="BFloat16"),
    "Float16": training_job(precision="Float16"),
    "activations that are computed again": training_job(activationCheckpointing="Full"),
    "BFloat16 with parameter servers": training_job(
        replicas={"Worker": {}, "PS": {}}, precision="BFloat16"),
    "every role": job(strategy={"type": "ParameterServer"}, replicaSpecs={
        "Chief": role(), "Worker": role(2), "PS": role(2), "Evaluator": role()}),
    "an evaluator with training": training_job(
        replicas={"Worker": {}, "Evaluator": {}}, checkpoint={"directory": "/checkpoints", "keepBest": "Accuracy"}),
    "the best checkpoint of a regression": training_job(
        replicas={"Worker": {}, "Evaluator": {}}, loss={"type": "Huber"}, dataset={"format": "synthetic"},
        checkpoint={"directory": "/checkpoints", "keepBest": "MeanAbsoluteError"}),
    "the best checkpoint by a metric that the job names": training_job(
        replicas={"Worker": {}, "Evaluator": {}}, evaluation={"metrics": ["TopKCategoricalAccuracy"], "topK": 3},
        checkpoint={"directory": "/checkpoints", "keepBest": "TopKCategoricalAccuracy"}),
    "the best five classes": training_job(evaluation={"metrics": ["TopKCategoricalAccuracy"], "topK": 3}),
    "metrics of a binary loss": training_job(
        loss={"type": "BinaryCrossentropy"}, evaluation={"metrics": ["AUC", "Precision", "Recall"]}),
    "metrics of a regression": training_job(
        loss={"type": "Huber"}, dataset={"format": "synthetic"},
        evaluation={"metrics": ["RootMeanSquaredError", "MeanSquaredError"]}),
    "replicas that deal samples": training_job(dataset={"path": "/data", "autoShard": "Data"}),
    "replicas that deal files": training_job(
        dataset={"format": "cifar", "path": "/data", "autoShard": "File"}),
    "a process that has its one file": training_job(
        replicas={"Worker": {"replicas": 1}}, dataset={"path": "/data", "autoShard": "File"}),
    "replicas that each read all": training_job(dataset={"path": "/data", "autoShard": "Off"}),
    "workers of parameter servers that deal samples": training_job(
        replicas={"Worker": {}, "PS": {}}, dataset={"path": "/data", "autoShard": "Data"}),
    "independent processes that each read all": changed(
        training_job(dataset={"path": "/data", "autoShard": "Off"}), strategy={"type": "Independent"}),
    "files dealt to workers that come and go": changed(
        training_job(checkpoint={"directory": "/checkpoints"},
                     dataset={"format": "cifar", "path": "/data", "autoShard": "File"}),
        elastic={"minReplicas": 1, "maxReplicas": 4}),
    "mixed images": training_job(dataset={"path": "/data", "augment": {"mixUp": {}}}),
    "images mixed more evenly": training_job(dataset={"path": "/data", "augment": {"mixUp": {"alpha": 1}}}),
    "an early stop": training_job(earlyStopping={}),
    "an early stop with the best model": training_job(earlyStopping={"restoreBest": True}),
    "an early stop with the best model beside servers": training_job(
        replicas={"Worker": {}, "PS": {}}, checkpoint={"directory": "/checkpoints"},
        earlyStopping={"restoreBest": True}),
    "an early stop of the last model beside servers": training_job(
        replicas={"Worker": {}, "PS": {}}, earlyStopping={"restoreBest": False}),
    "variants that stop early each in its way": independent(
        {"earlyStopping": {"metric": "Accuracy", "patience": 2}}, {"earlyStopping": {"restoreBest": True}}),
    "an early stop by accuracy": training_job(
        evaluation={"everyEpochs": 2},
        earlyStopping={"metric": "Accuracy", "patience": 3, "minDelta": 0.001, "startFromEpoch": 5}),
    "an early stop by the error of a regression": training_job(
        loss={"type": "Huber"}, dataset={"format": "synthetic"}, earlyStopping={"metric": "MeanAbsoluteError"}),
    "an early stop by a metric that the job names": training_job(
        loss={"type": "BinaryCrossentropy"}, evaluation={"metrics": ["Recall", "AUC"]}, earlyStopping={"metric": "AUC"}),
    "an average of the parameters": training_job(ema={}),
    "an average of the parameters on servers": training_job(
        replicas={"Worker": {}, "PS": {}}, ema={"decay": 0.9999}, earlyStopping={}),
    "one cycle of the learning rate": training_job(learningRateSchedule={"type": "OneCycle"}),
    "no evaluator, which needs no checkpoints": training_job(
        replicas={"Worker": {}, "Evaluator": {"replicas": 0}}, evaluation={"enabled": False}),
    "isolated, with an image of its own": job(networkPolicy="Isolated"),
    "a token for an image of its own": job(jobToken="Mounted"),
    "the bundled trainer without a token": changed(training_job(), jobToken="None"),
    "a chief alone": job(replicaSpecs={"Chief": role()}),
    "roles without a strategy": job(replicaSpecs={"Worker": role(2), "PS": role()}),
    "a worker role without workers beside a chief": job(
        replicaSpecs={"Chief": role(), "Worker": role(0)}),
    "1,000 workers": job("many", replicaSpecs={"Worker": role(1000)}),
    "the longest name of 1,000 workers": job(MOST_WORKERS_NAME,
                                             replicaSpecs={"Worker": role(1000)}),
    "the longest name of one worker": job("a" * (63 - len("-worker-0"))),
    "the longest name with an evaluator": job(
        "a" * (63 - len("-evaluator-0")), replicaSpecs={"Worker": role(), "Evaluator": role()}),
    "a name of one letter": job("a"),
    "synthetic data": training_job(dataset={"format": "synthetic"}),
    "synthetic data with its own shape": training_job(
        dataset={"format": "synthetic", "synthetic": {"shape": [3, 32, 32], "classes": 100}}),
    "CIFAR": training_job(dataset={"format": "cifar", "path": "/data"}),
    "NumPy arrays": training_job(
        dataset={"format": "npy", "path": "/data", "npy": {"channelsLast": True}}),
    "a table with its own label and validation samples": training_job(dataset={
        "format": "csv", "path": "/data", "csv": {"labelColumn": "species"}, "validationFraction": 0.2}),
    "a folder of images": training_job(dataset={
        "format": "imageFolder", "path": "/data", "imageSize": [224, 160], "imageChannels": 1,
        "interpolation": "Area"}),
    "a folder of images read by many threads": training_job(dataset={
        "format": "imageFolder", "path": "/data", "imageSize": [64, 64], "threads": 32}),
    "images changed in every way": training_job(dataset={
        "format": "cifar", "path": "/data", "augment": {
            "randomFlip": "Horizontal", "randomCrop": {"padding": 4}, "cutout": {"size": 8}}}),
    "images changed by the defaults": training_job(
        dataset={"path": "/data", "augment": {"randomCrop": {}, "cutout": {}}}),
    "images as large as what changes them": training_job(dataset={
        "format": "synthetic", "synthetic": {"shape": [1, 16, 17]},
        "augment": {"randomCrop": {"padding": 15}, "cutout": {}}}),
    "normalized images": training_job(dataset={
        "path": "/data", "normalize": {"mean": [0.1307], "std": [0.3081]}}),
    "normalized images of records": training_job(dataset={
        "format": "tfrecord", "path": "/data", "tfrecord": {"shape": [28, 28, 3]},
        "normalize": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}),
    "images of records that are kept on disk": training_job(dataset={
        "format": "tfrecord", "path": "/data", "imageSize": [32, 32], "cacheDirectory": "/cache"}),
    "images of records that are changed": training_job(dataset={
        "format": "tfrecord", "path": "/data", "tfrecord": {"shape": [28, 28, 1]},
        "augment": {"randomCrop": {"padding": 28}}}),
    "records of encoded images": training_job(
        dataset={"format": "tfrecord", "path": "/data", "imageSize": [32, 32]}),
    "records of raw pixels": training_job(dataset={
        "format": "tfrecord", "path": "/data",
        "tfrecord": {"shape": [28, 28, 1], "feature": "image/raw", "classes": 10}}),
    "steps and not epochs": training_job(epochs=None, steps=10),
    "a warmup as long as the run": training_job(
        epochs=None, steps=10, learningRateSchedule={"type": "Cosine", "warmupSteps": 10}),
    "smoothed labels": training_job(labelSmoothing=0.1),
    "a binary loss of probabilities": training_job(
        loss={"type": "BinaryCrossentropy", "fromLogits": False}, labelSmoothing=0.1),
    "one-hot labels": training_job(dataset={"format": "npy", "path": "/data"},
                                   loss={"type": "CategoricalCrossentropy"}),
    "regression": training_job(dataset={"format": "csv", "path": "/data"},
                               loss={"type": "MeanSquaredError"}),
    "a Huber loss": training_job(dataset={"format": "synthetic"},
                                 loss={"type": "Huber", "delta": 0.5}),
    "a step schedule": training_job(
        learningRateSchedule={"type": "Step", "factor": 0.5, "everySteps": 100}),
    "an exponential schedule with the default factor": training_job(
        learningRateSchedule={"type": "Exponential", "everySteps": 1, "warmupSteps": 5}),
    "a polynomial schedule": training_job(
        learningRateSchedule={"type": "Polynomial", "power": 2, "finalFraction": 0.1}),
    "SGD with momentum": training_job(
        optimizer={"name": "SGD", "momentum": 0.9, "nesterov": True}),
    "Adam with its own betas": training_job(
        optimizer={"name": "Adam", "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-8}),
    "Adam's defaults written out for SGD": training_job(
        optimizer={"name": "SGD", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}),
    "RMSprop": training_job(
        optimizer={"name": "RMSprop", "rho": 0.8, "momentum": 0.9, "epsilon": 1e-3}),
    "Adagrad": training_job(
        optimizer={"name": "Adagrad", "initialAccumulatorValue": 0, "epsilon": 1e-3}),
    "LARS": training_job(
        optimizer={"name": "LARS", "momentum": 0.9, "nesterov": True, "trustCoefficient": 0.02, "weightDecay": 1e-4,
                   "weightDecayExclude": ["bias"]}),
    "LAMB whose steps are not scaled for some parameters": training_job(
        optimizer={"name": "LAMB", "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-6, "weightDecayExclude": ["bias"]}),
    "LAMB on parameter servers that hold whole tensors": changed(
        training_job(replicas={"Worker": {}, "PS": {}}, optimizer={"name": "LAMB"}),
        strategy={"type": "ParameterServer", "parameterServer": {"placement": "RoundRobin"}}),
    "Muon": training_job(optimizer={"name": "Muon"}),
    "Muon with every setting": training_job(
        optimizer={"name": "Muon", "muonMomentum": 0, "muonNesterov": False, "beta1": 0.8, "beta2": 0.99, "epsilon": 1e-6,
                   "adamLrRatio": 0.5, "excludeLayers": ["dense_1"], "weightDecay": 0.01,
                   "weightDecayExclude": ["bias"], "globalClipNorm": 1}),
    "Muon of another momentum": training_job(optimizer={"name": "Muon", "muonMomentum": 0.9}),
    "no momentum, written out": training_job(optimizer={"momentum": 0, "nesterov": False}),
    "a whole number for a real one": training_job(optimizer={"learningRate": 1, "weightDecay": 0}),
    "weight decay of some parameters": training_job(
        optimizer={"weightDecay": 0.01, "weightDecayExclude": ["bias", "gamma"]}),
    "initial weights": training_job(initialWeights={"path": "/pretrained/model.safetensors", "exclude": ["dense"]}),
    "no initial weights": training_job(initialWeights={"path": "", "exclude": []}),
    "clipped gradients": training_job(optimizer={"globalClipNorm": 1}),
    "steps that may be skipped": training_job(maxSkippedSteps=3),
    "a batch of one sample for each process": training_job(
        batchSize={"global": 2}, replicas={"Worker": {"replicas": 2}}),
    "fewer samples than asynchronous workers": changed(
        training_job(batchSize={"global": 1}, replicas={"Worker": {"replicas": 2}, "PS": {}}),
        strategy={"type": "ParameterServer"}),
    "fewer samples than asynchronous workers of parameter servers with settings": changed(
        training_job(batchSize={"global": 1}, replicas={"Worker": {"replicas": 2}, "PS": {}}),
        strategy={"type": "ParameterServer", "parameterServer": {"placement": "RoundRobin"}}),
    "fewer samples than workers beside parameter servers and no strategy":
        training_job(batchSize={"global": 1}, replicas={"Worker": {"replicas": 2}, "PS": {}}),
    "a batch per replica": training_job(batchSize={"perReplica": 1}),
    "layers": layers({"type": "Conv2D", "filters": 8, "kernelSize": [3, 3], "strides": 1},
                     {"type": "LeakyReLU", "negativeSlope": 0.1},
                     {"type": "MaxPooling2D", "poolSize": 2}, {"type": "Flatten"},
                     {"type": "Dense", "units": 10, "name": "logits"}),
    "depthwise and separable convolutions": layers(
        {"type": "DepthwiseConv2D", "kernelSize": 3, "depthMultiplier": 2, "strides": [2, 2], "padding": "same"},
        {"type": "SeparableConv2D", "filters": 8, "kernelSize": [3, 3], "useBias": False, "activation": "relu"},
        {"type": "GlobalAveragePooling2D"}, {"type": "Dense", "units": 10}),
    "a residual block": layers(
        {"type": "Flatten"}, {"type": "Dense", "units": 8, "activation": "gelu", "name": "a"},
        {"type": "Dense", "units": 8}, {"type": "Add", "inputs": ["a", "dense"]},
        {"type": "Dense", "units": 10}),
    "a residual network": training_job(model={"name": "resnet-50", "zeroGamma": True}),
    "a norm that begins with zeros": layers(
        {"type": "Conv2D", "filters": 8, "kernelSize": 3},
        {"type": "BatchNormalization", "gammaInitializer": "zeros"},
        {"type": "LayerNormalization", "epsilon": 0.00001, "center": False, "scale": True},
        {"type": "Flatten"}, {"type": "Dense", "units": 10}),
    "zeros around an image": layers({"type": "ZeroPadding2D", "padding": 3},
                                    {"type": "Conv2D", "filters": 8, "kernelSize": 7},
                                    {"type": "Flatten"}, {"type": "Dense", "units": 10}),
    "a batch in parts": training_job(gradientAccumulation=4),
    "Mirrored with one worker": changed(training_job(replicas={"Worker": {"replicas": 1}}),
                                        strategy={"type": "Mirrored"}),
    "a variant with weights of its own": independent(
        {"initialWeights": {"path": "/pretrained/a.safetensors"}}, {}),
    "variants": independent({"name": "a", "optimizer": {"learningRate": 1}},
                            {"epochs": None, "steps": 3, "batchSize": {"global": 1}}),
    "Independent processes that differ in their seed": independent(),
    "Independent workers": job(strategy={"type": "Independent"},
                               replicaSpecs={"Worker": role(3)}),
    "a strategy without its type": job(strategy={}),
    "no checkpoints": training_job(checkpoint={"directory": ""}),
    "an export to ONNX": training_job(checkpoint={"exportTo": "/out/model.onnx"}),
    "an export to safetensors": training_job(checkpoint={"directory": "/c", "exportTo": "/m.safetensors"}),
    "no export": training_job(checkpoint={"exportTo": ""}),
    "a template with labels and a null time": job(replicaSpecs=workers(template={
        "metadata": {"labels": {"a": "b"}, "creationTimestamp": None},
        "spec": {"containers": [container()]}})),
    "a template of metadata alone, with training": training_job(
        replicas={"Worker": {"template": {"metadata": {"annotations": {"a": "b"}}}}}),
    "a container without an image, with training": training_job(
        replicas={"Worker": {"template": {"spec": {"containers": [{"name": "trainer"}]}}}}),
    "one port by two protocols": with_containers(container(
        ports=[{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}])),
    "numbers and texts as quantities": with_containers(container(
        resources={"limits": {"cpu": 2, "memory": "1Gi", "nvidia.com/gpu": 1}})),
    "the largest numbers": changed(training_job(seed=9007199254740991), runPolicy={
        "backoffLimit": 2147483647, "ttlSecondsAfterFinished": 2147483647}),
    "suspended and somebody else's": job(suspend=True, managedBy="kueue.x-k8s.io/multikueue"),
    "an elastic job": elastic(2),
    "an elastic job at its bounds": elastic(4),
    "an elastic job of the bundled trainer": changed(
        training_job(checkpoint={"directory": "/checkpoints"}),
        elastic={"minReplicas": 1, "maxReplicas": 4}),
    "the longest name of an elastic job": elastic(1, "a" * (63 - len("-worker-3"))),
    "a scheduling policy": job(runPolicy={"schedulingPolicy": {
        "minAvailable": 1, "queue": "default", "priorityClass": "high",
        "minResources": {"cpu": 2, "memory": "+1.5Gi"}, "scheduleTimeoutSeconds": 60}}),
    "a run policy": job(runPolicy={"cleanPodPolicy": "None", "activeDeadlineSeconds": 1, "pendingDeadlineSeconds": 1,
                                   "progressDeadlineSeconds": 10,
                                   "ttlSecondsAfterFinished": 0, "backoffLimit": 0}),
    "workers that wait for parameter servers": changed(
        ordered(training_job(), PS=None, Worker="PS:Ready"), strategy={"type": "ParameterServer"}),
    "workers that wait for the chief of the bundled trainer": ordered(training_job(), Chief=None, Worker="Chief:Ready"),
    "a chief that waits for workers, and an Evaluator for both": ordered(
        Worker=None, Chief="Worker:Ready", Evaluator=["Chief:Ready", "Worker:Ready"]),
    "roles that wait in a row": ordered(PS=None, Worker=["PS:Complete"], Chief=["PS:Complete", "Worker:Ready"]),
    "workers that wait for the end of helpers": ordered(PS=None, Worker="PS:Complete"),
    "workers that wait for the end of a chief that does not end the job": changed(
        ordered(Chief=None, Worker="Chief:Complete"), successPolicy="AllWorkers"),
    "a chief that waits for the end of the workers": ordered(Worker=None, Chief="Worker:Complete"),
    "parameter servers of a strategy without a type": changed(
        training_job(replicas={"Worker": {}, "PS": {}}), strategy={"parameterServer": {"mode": "Sync"}}),
    "own parameter servers of a strategy without a type": job(
        strategy={"processesPerPod": 2}, replicaSpecs={"Worker": role(), "PS": role()}),
    "a strategy without a type": changed(training_job(), strategy={"processesPerPod": 2, "communication": "Ring"}),
    "roles of a framework that are up together": ordered(
        container_name="pytorch", PS=None, Chief="PS:Complete", Worker=["PS:Complete", "Chief:Ready"],
        Evaluator="Worker:Complete"),
    "rules about failures": job(runPolicy={"podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 255]}},
        {"action": "Ignore", "roles": ["Worker", "PS"], "onReasons": ["Evicted", "NodeLost"]},
        {"action": "Count", "roles": ["Chief"], "onReasons": ["OOMKilled"],
         "onExitCodes": {"operator": "NotIn", "values": [42]}}]}}),
    "a rule with the usual operator": failures(onExitCodes={"values": [42]}),
    "a policy that fills its bounds": job(runPolicy={"podFailurePolicy": {"rules": 20 * [
        {"action": "Count", "roles": ["Chief", "Worker", "PS"], "onExitCodes": {"values": list(range(1, 256))},
         "onReasons": [str(i) for i in range(31)] + [128 * "ä"]}]}}),
}

NAMES = [
    Bad("a name that is one too long for 1,000 workers",
        job(MOST_WORKERS_NAME + "a", replicaSpecs={"Worker": role(1000)}), "metadata.name"),
    Bad("a name that is one too long for an evaluator",
        job("a" * (64 - len("-evaluator-0")),
            replicaSpecs={"Worker": role(), "Evaluator": role()}), "metadata.name"),
    Bad("a name that is one too long for what an elastic job may become",
        job("a" * (64 - len("-worker-99")), elastic={"maxReplicas": 100}), "metadata.name"),
    Bad("a name of 64 letters", job("a" * 64), "metadata.name"),
    Bad("a name of 1,000 letters", job("a" * 1000), "metadata.name"),
    Bad("a name with a digit first", job("1a"), "metadata.name"),
    Bad("a name with a dot", job("a.b"), "metadata.name"),
    Bad("a name with '-' last", job("a-"), "metadata.name"),
    Bad("a name in capitals", job("Job"), "metadata.name"),
]

ROLES = [
    Bad("no role", job(replicaSpecs={}), "spec.replicaSpecs"),
    Bad("replicaSpecs left out", job(replicaSpecs=None), "spec.replicaSpecs"),
    Bad("replicaSpecs as a list", job(replicaSpecs=[role()]), "spec.replicaSpecs"),
    Bad("an unknown role", job(replicaSpecs={"Worker": role(), "Master": role()}),
        "spec.replicaSpecs"),
    Bad("a role in lower case", job(replicaSpecs={"worker": role()}), "spec.replicaSpecs"),
    Bad("only parameter servers", job(replicaSpecs={"PS": role()}), "spec.replicaSpecs"),
    Bad("no replica at all", job(replicaSpecs={"Worker": role(0)}), "spec.replicaSpecs"),
    Bad("two chiefs", job(replicaSpecs={"Chief": role(2)}), "spec.replicaSpecs.Chief.replicas"),
    Bad("two evaluators", job(replicaSpecs={"Worker": role(), "Evaluator": role(2)}),
        "spec.replicaSpecs.Evaluator.replicas"),
    Bad("minus one replica", job(replicaSpecs={"Worker": role(-1)}),
        "spec.replicaSpecs.Worker.replicas"),
    Bad("10,001 replicas", job(replicaSpecs={"Worker": role(10_001)}),
        "spec.replicaSpecs.Worker.replicas"),
    Bad("replicas as text", job(replicaSpecs={"Worker": role("2")}),
        "spec.replicaSpecs.Worker.replicas"),
    Bad("an unknown restart policy", job(replicaSpecs=workers(restartPolicy="Sometimes")),
        "spec.replicaSpecs.Worker.restartPolicy"),
    Bad("an unknown field of a role", job(replicaSpecs=workers(count=2)),
        "spec.replicaSpecs.Worker.count"),
    Bad("ParameterServer without PS", job(strategy={"type": "ParameterServer"}),
        "spec.replicaSpecs"),
    Bad("ParameterServer with 0 PS", job(strategy={"type": "ParameterServer"},
                                         replicaSpecs={"Worker": role(), "PS": role(0)}),
        "spec.replicaSpecs"),
    Bad("PS with MultiWorkerMirrored",
        job(strategy={"type": "MultiWorkerMirrored"},
            replicaSpecs={"Worker": role(), "PS": role()}), "spec.replicaSpecs.PS"),
    Bad("a chief with Independent",
        job(strategy={"type": "Independent"}, replicaSpecs={"Chief": role(), "Worker": role()}),
        "spec.replicaSpecs.Chief"),
    Bad("an evaluator with Independent",
        job(strategy={"type": "Independent"}, replicaSpecs={"Worker": role(), "Evaluator": role()}),
        "spec.replicaSpecs.Evaluator"),
    Bad("Mirrored with two workers",
        job(strategy={"type": "Mirrored"}, replicaSpecs={"Worker": role(2)}), "spec.replicaSpecs"),
    Bad("CentralStorage with a chief and a worker",
        job(strategy={"type": "CentralStorage"}, replicaSpecs={"Chief": role(), "Worker": role()}),
        "spec.replicaSpecs"),
]

CONTAINERS = "spec.replicaSpecs.Worker.template.spec.containers"

TEMPLATES = [
    Bad("no template without training", job(replicaSpecs={"Worker": {"replicas": 1}}), CONTAINERS),
    Bad("a template without a spec", job(replicaSpecs=workers(template={})), CONTAINERS),
    Bad("a template without containers", job(replicaSpecs=workers(template={"spec": {}})),
        CONTAINERS),
    Bad("an empty list of containers",
        job(replicaSpecs=workers(template={"spec": {"containers": []}})),
        CONTAINERS),
    Bad("containers as an object",
        job(replicaSpecs=workers(template={"spec": {"containers": container()}})),
        CONTAINERS),
    Bad("a container without a name", with_containers({"image": "example.org/image"}),
        CONTAINERS + "[0].name"),
    Bad("two containers of one name", with_containers(container(), container()),
        CONTAINERS + "[1]"),
    Bad("a container's name that is a path", with_containers(container("../x")),
        CONTAINERS + "[0].name", PROGRAM),
    Bad("an init container of a container's name", job(replicaSpecs={"Worker": {
        "replicas": 1, "template": {"spec": {"containers": [container("one")],
                                             "initContainers": [container("one")]}}}}),
        "spec.replicaSpecs.Worker.template.spec.initContainers[0].name", PROGRAM),
    Bad("a template as text", job(replicaSpecs=workers(template="none")),
        "spec.replicaSpecs.Worker.template"),
    Bad("an unknown field of a container", with_containers(container(imagee="x")),
        CONTAINERS + "[0].imagee", SERVER),
    Bad("a port as text", with_containers(container(ports=[{"containerPort": "http"}])),
        CONTAINERS + "[0].ports[0].containerPort"),
    Bad("a variable's value as a number",
        with_containers(container(env=[{"name": "A", "value": 5}])),
        CONTAINERS + "[0].env[0].value"),
    Bad("variables as an object", with_containers(container(env={"A": "b"})),
        CONTAINERS + "[0].env"),
    Bad("a number in a command", with_containers(container(command=["sleep", 5])),
        CONTAINERS + "[0].command[1]"),
    Bad("a list that is too long", with_containers(container(
        volumeMounts=[{"name": "a", "mountPath": f"/{i}"} for i in range(257)])),
        CONTAINERS + "[0].volumeMounts", SERVER),
]

STRATEGIES = [
    Bad("an unknown strategy", job(strategy={"type": "MultiWorker"}), "spec.strategy.type"),
    Bad("an unknown field of strategy", job(strategy={"kind": "Mirrored"}), "spec.strategy.kind"),
    Bad("0 processes in a pod", job(strategy={"processesPerPod": 0}),
        "spec.strategy.processesPerPod"),
    Bad("257 processes in a pod", job(strategy={"processesPerPod": 257}),
        "spec.strategy.processesPerPod"),
    Bad("0 stages", changed(training_job(), strategy={"stages": 0}), "spec.strategy.stages"),
    Bad("65 stages", changed(training_job(replicas={"Worker": {"replicas": 65}}), strategy={"stages": 65}),
        "spec.strategy.stages"),
    Bad("stages with CentralStorage", changed(training_job(replicas={"Worker": {"replicas": 1}}),
        strategy={"type": "CentralStorage", "processesPerPod": 2, "stages": 2}), "spec.strategy.stages"),
    Bad("stages with ParameterServer", changed(training_job(replicas={"Worker": {"replicas": 2}, "PS": {}}),
        strategy={"type": "ParameterServer", "stages": 2}), "spec.strategy.stages"),
    Bad("stages with Independent", changed(training_job(), strategy={"type": "Independent", "stages": 2}),
        "spec.strategy.stages"),
    Bad("stages without training", job(replicaSpecs={"Worker": role(2)}, strategy={"stages": 2}),
        "spec.strategy.stages"),
    Bad("stages that do not divide the processes", changed(
        training_job(replicas={"Worker": {"replicas": 3}}), strategy={"processesPerPod": 3, "stages": 2}),
        "spec.strategy.stages"),
    Bad("more stages than processes", changed(training_job(), strategy={"processesPerPod": 1, "stages": 4}),
        "spec.strategy.stages"),
    Bad("stages that do not divide the GPUs", changed(training_job(replicas={
        "Worker": role(1, [container(resources={"limits": {"nvidia.com/gpu": 3}})])}), strategy={"stages": 2}),
        "spec.strategy.stages", PROGRAM),
    Bad("stages of an elastic job", changed(
        training_job(checkpoint={"directory": "/checkpoints"}), strategy={"stages": 2},
        elastic={"minReplicas": 1, "maxReplicas": 4}), "spec.elastic"),
    Bad("an unknown sharding", changed(training_job(), strategy={"sharding": "ZeRO2"}), "spec.strategy.sharding"),
    Bad("sharding with CentralStorage", changed(training_job(replicas={"Worker": {"replicas": 1}}),
        strategy={"type": "CentralStorage", "processesPerPod": 2, "sharding": "ZeRO1"}),
        "spec.strategy.sharding", PROGRAM),
    Bad("sharding with Independent", changed(training_job(), strategy={"type": "Independent", "sharding": "ZeRO1"}),
        "spec.strategy.sharding", PROGRAM),
    Bad("sharding with ParameterServer", changed(training_job(replicas={"Worker": {"replicas": 2}, "PS": {}}),
        strategy={"type": "ParameterServer", "sharding": "ZeRO1"}), "spec.strategy.sharding", PROGRAM),
    Bad("sharding with parameter servers of a strategy without a type", changed(
        training_job(replicas={"Worker": {}, "PS": {}}), strategy={"sharding": "ZeRO1"}),
        "spec.strategy.sharding", PROGRAM),
    Bad("sharding without training", job(replicaSpecs={"Worker": role(2)}, strategy={"sharding": "ZeRO1"}),
        "spec.strategy.sharding", PROGRAM),
    Bad("sharding with stages", changed(training_job(), strategy={"stages": 2, "sharding": "ZeRO1"}),
        "spec.strategy.sharding", PROGRAM),
    Bad("sharding of an elastic job", changed(
        training_job(checkpoint={"directory": "/checkpoints"}), strategy={"sharding": "ZeRO1"},
        elastic={"minReplicas": 1, "maxReplicas": 4}), "spec.elastic", PROGRAM),
    Bad("an unknown communication", job(strategy={"communication": "MPI"}),
        "spec.strategy.communication"),
    Bad("parameterServer with another strategy", job(strategy={"parameterServer": {}}),
        "spec.strategy.parameterServer"),
    Bad("a negative staleness",
        job(strategy={"type": "ParameterServer", "parameterServer": {"maxStaleness": -1}},
            replicaSpecs={"Worker": role(), "PS": role()}),
        "spec.strategy.parameterServer.maxStaleness"),
    Bad("stages with parameter servers", changed(
        training_job(replicas={"Worker": {}, "PS": {}}), strategy={"processesPerPod": 2, "stages": 2}),
        "spec.strategy.stages"),
    Bad("centralStorage with parameter servers", changed(
        training_job(replicas={"Worker": {}, "PS": {}}), strategy={"centralStorage": {}}),
        "spec.strategy.centralStorage"),
    Bad("NCCL with parameter servers of a strategy without a type", changed(
        training_job(replicas={"Worker": {}, "PS": {}}), strategy={"communication": "NCCL"}),
        "spec.strategy.communication"),
    Bad("elastic parameter servers of a strategy without a type", changed(
        training_job(replicas={"Worker": {}, "PS": {}}, checkpoint={"directory": "/checkpoints"}),
        strategy={"processesPerPod": 2}, elastic={"maxReplicas": 4}), "spec.elastic"),
    Bad("the end of parameter servers of a strategy without a type", changed(
        ordered(PS=None, Worker="PS:Complete"), strategy={"processesPerPod": 2}), "spec.replicaSpecs"),
    Bad("InPlace without training", job(restartScope="InPlace"), "spec.restartScope"),
    Bad("an unknown restart scope", job(restartScope="Node"), "spec.restartScope"),
    Bad("an unknown success policy", job(successPolicy="Any"), "spec.successPolicy"),
    Bad("an unknown network policy", job(networkPolicy="Open"), "spec.networkPolicy"),
    Bad("an unknown job token", job(jobToken="Shared"), "spec.jobToken"),
    Bad("backup workers with training",
        changed(training_job(replicas={"Worker": {}, "PS": {}}),
                strategy={"type": "ParameterServer", "parameterServer": {"mode": "Sync", "backupWorkers": 1}}),
        "spec.strategy.parameterServer"),
    Bad("elastic ParameterServer with training",
        changed(training_job(replicas={"Worker": {}, "PS": {}}), elastic={"maxReplicas": 4}), "spec.elastic"),
    Bad("Float16 with parameter servers",
        training_job(replicas={"Worker": {}, "PS": {}}, precision="Float16"), "spec.training.precision"),
    Bad("clipping with synchronous parameter servers",
        changed(training_job(replicas={"Worker": {}, "PS": {}}, optimizer={"name": "Adam", "globalClipNorm": 1}),
                strategy={"type": "ParameterServer", "parameterServer": {"mode": "Sync"}}),
        "spec.training.optimizer.globalClipNorm"),
    Bad("LARS on parameter servers that cut tensors",
        training_job(replicas={"Worker": {}, "PS": {}}, optimizer={"name": "LARS"}),
        "spec.training.optimizer.name"),
    Bad("an unknown placement of parameters",
        job(strategy={"type": "ParameterServer", "parameterServer": {"placement": "ByName"}},
            replicaSpecs={"Worker": role(), "PS": role()}),
        "spec.strategy.parameterServer.placement"),
    Bad("an unknown device of a controller",
        job(strategy={"type": "CentralStorage", "centralStorage": {"controllerDevice": "TPU"}}),
        "spec.strategy.centralStorage.controllerDevice"),
    Bad("centralStorage with another strategy",
        job(strategy={"type": "Mirrored", "centralStorage": {}}), "spec.strategy.centralStorage"),
    Bad("a controller on a GPU with training",
        changed(training_job(replicas={"Worker": {"replicas": 1}}),
                strategy={"type": "CentralStorage", "centralStorage": {"controllerDevice": "GPU"}}),
        "spec.strategy.centralStorage.controllerDevice"),
    Bad("variants of processes that train together", training_job(variants=[{}, {}]),
        "spec.training.variants"),
    Bad("a variant with another's name", independent({"name": "a"}, {"name": "a"}),
        "spec.training.variants[1].name", PROGRAM),
    Bad("a variant whose name is a path", independent({"name": "../up"}, {}),
        "spec.training.variants[0].name"),
    Bad("fewer variants than processes", independent({"name": "a"}), "spec.training.variants", PROGRAM),
    Bad("a variant with an unknown optimizer", independent({"optimizer": {"name": "Lion"}}, {}),
        "spec.training.variants[0].optimizer.name"),
    Bad("a variant with epochs and steps", independent({"steps": 3}, {}),
        "spec.training.variants[0]", PROGRAM),
    Bad("NCCL where no gradients are summed",
        changed(training_job(), strategy={"type": "Independent", "communication": "NCCL"}),
        "spec.strategy.communication"),
    Bad("an evaluator without checkpoints", training_job(replicas={"Worker": {}, "Evaluator": {}}),
        "spec.training.checkpoint.directory"),
    Bad("an evaluator that may not evaluate", training_job(
        replicas={"Worker": {}, "Evaluator": {}}, checkpoint={"directory": "/checkpoints"},
        evaluation={"enabled": False}), "spec.training.evaluation.enabled"),
    Bad("the best checkpoint without an evaluator", training_job(
        replicas={"Worker": {}, "Evaluator": {"replicas": 0}},
        checkpoint={"directory": "/checkpoints", "keepBest": "Loss"}), "spec.training.checkpoint.keepBest"),
    Bad("the best accuracy of a regression", training_job(
        replicas={"Worker": {}, "Evaluator": {}}, loss={"type": "MeanSquaredError"}, dataset={"format": "synthetic"},
        checkpoint={"directory": "/checkpoints", "keepBest": "Accuracy"}), "spec.training.checkpoint.keepBest"),
    Bad("the best error of a classification", training_job(
        replicas={"Worker": {}, "Evaluator": {}},
        checkpoint={"directory": "/checkpoints", "keepBest": "MeanAbsoluteError"}), "spec.training.checkpoint.keepBest"),
    Bad("the best checkpoint by a metric that the job does not name", training_job(
        replicas={"Worker": {}, "Evaluator": {}}, loss={"type": "BinaryCrossentropy"}, evaluation={"metrics": ["Recall"]},
        checkpoint={"directory": "/checkpoints", "keepBest": "AUC"}), "spec.training.checkpoint.keepBest"),
    Bad("the best checkpoint by an unknown number", training_job(
        replicas={"Worker": {}, "Evaluator": {}},
        checkpoint={"directory": "/checkpoints", "keepBest": "Speed"}), "spec.training.checkpoint.keepBest"),
]

TRAINING = [
    Bad("no model", training_job(model=None), "spec.training.model"),
    Bad("an empty model", training_job(model={}), "spec.training.model"),
    Bad("a name and layers", training_job(
        model={"name": "mlp", "layers": [{"type": "Dense", "units": 10}]}), "spec.training.model"),
    Bad("an empty list of layers", training_job(model={"layers": []}), "spec.training.model"),
    Bad("zero gammas without blocks", training_job(model={"name": "mlp", "zeroGamma": True}),
        "spec.training.model.zeroGamma"),
    Bad("an unknown model", training_job(model={"name": "resnet"}), "spec.training.model.name"),
    Bad("a layer without a type", layers({"units": 10}), "spec.training.model.layers[0].type"),
    Bad("an extent of three numbers", layers({"type": "Conv2D", "kernelSize": [3, 3, 3]}),
        "spec.training.model.layers[0].kernelSize"),
    Bad("an extent as text", layers({"type": "Conv2D", "strides": "2"}),
        "spec.training.model.layers[0].strides"),
    Bad("an extent of 0", layers({"type": "MaxPool2D", "poolSize": 0}),
        "spec.training.model.layers[0].poolSize"),
    Bad("an extent that is nested deep", layers({"type": "Conv2D", "kernelSize": nested(50)}),
        "spec.training.model.layers[0].kernelSize"),
    Bad("a layer that is a text", layers("Dense"), "spec.training.model.layers[0]"),
    Bad("an unknown layer", layers({"type": "LSTM"}), "spec.training.model.layers[0].type"),
    Bad("units as text", layers({"type": "Dense", "units": "ten"}),
        "spec.training.model.layers[0].units"),
    Bad("an unknown activation", layers({"type": "Dense", "units": 10, "activation": "mish"}),
        "spec.training.model.layers[0].activation"),
    Bad("inputs as text", layers({"type": "Flatten"}, {"type": "ReLU", "inputs": "flatten"}),
        "spec.training.model.layers[1].inputs"),
    Bad("a batch in no parts", training_job(gradientAccumulation=0),
        "spec.training.gradientAccumulation"),
    Bad("an unknown field of a layer", layers({"type": "Dense", "units": 10, "unit": 1}),
        "spec.training.model.layers[0].unit"),
    Bad("no dataset", training_job(dataset=None), "spec.training.dataset.path"),
    Bad("no path", training_job(dataset={"format": "idx"}), "spec.training.dataset.path"),
    Bad("a relative path", training_job(dataset={"path": "data"}), "spec.training.dataset.path"),
    Bad("an unknown format", training_job(dataset={"format": "mnist", "path": "/data"}),
        "spec.training.dataset.format"),
    Bad("synthetic with idx", training_job(dataset={"path": "/data", "synthetic": {}}),
        "spec.training.dataset.synthetic"),
    Bad("a path with synthetic", training_job(dataset={"format": "synthetic", "path": "/data"}),
        "spec.training.dataset.path"),
    Bad("csv with npy", training_job(dataset={"format": "npy", "path": "/data", "csv": {}}),
        "spec.training.dataset.csv"),
    Bad("npy with idx", training_job(dataset={"path": "/data", "npy": {}}),
        "spec.training.dataset.npy"),
    Bad("no label column", training_job(
        dataset={"format": "csv", "path": "/data", "csv": {"labelColumn": ""}}),
        "spec.training.dataset.csv.labelColumn"),
    Bad("all samples for validation", training_job(
        dataset={"path": "/data", "validationFraction": 1}),
        "spec.training.dataset.validationFraction"),
    Bad("validation samples of synthetic data", training_job(
        dataset={"format": "synthetic", "validationFraction": 0.5}),
        "spec.training.dataset.validationFraction"),
    Bad("images without a size", training_job(dataset={"format": "imageFolder", "path": "/data"}),
        "spec.training.dataset.imageSize"),
    Bad("a size of one number", training_job(
        dataset={"format": "imageFolder", "path": "/data", "imageSize": [224]}),
        "spec.training.dataset.imageSize"),
    Bad("images of two channels", training_job(dataset={
        "format": "imageFolder", "path": "/data", "imageSize": [8, 8], "imageChannels": 2}),
        "spec.training.dataset.imageChannels"),
    Bad("a size of MNIST", training_job(dataset={"path": "/data", "imageSize": [28, 28]}),
        "spec.training.dataset.imageSize"),
    Bad("channels of MNIST", training_job(dataset={"path": "/data", "imageChannels": 1}),
        "spec.training.dataset.imageChannels"),
    Bad("an interpolation of MNIST", training_job(
        dataset={"path": "/data", "interpolation": "Nearest"}),
        "spec.training.dataset.interpolation"),
    Bad("records without a size", training_job(dataset={"format": "tfrecord", "path": "/data"}),
        "spec.training.dataset.imageSize"),
    Bad("records of raw pixels with a size", training_job(dataset={
        "format": "tfrecord", "path": "/data", "imageSize": [8, 8], "tfrecord": {"shape": [4]}}),
        "spec.training.dataset.imageSize"),
    Bad("tfrecord with idx", training_job(dataset={"path": "/data", "tfrecord": {}}),
        "spec.training.dataset.tfrecord"),
    Bad("a shape of two dimensions", training_job(
        dataset={"format": "synthetic", "synthetic": {"shape": [28, 28]}}),
        "spec.training.dataset.synthetic.shape"),
    Bad("a dimension of 0", training_job(
        dataset={"format": "synthetic", "synthetic": {"shape": [1, 0, 28]}}),
        "spec.training.dataset.synthetic.shape[1]"),
    Bad("one class", training_job(dataset={"format": "synthetic", "synthetic": {"classes": 1}}),
        "spec.training.dataset.synthetic.classes"),
    Bad("a prefetch of 1,025", training_job(dataset={"path": "/data", "prefetch": 1025}),
        "spec.training.dataset.prefetch"),
    Bad("an unknown policy", training_job(dataset={"path": "/data", "autoShard": "Hint"}),
        "spec.training.dataset.autoShard"),
    Bad("files of generated samples", training_job(dataset={"format": "synthetic", "autoShard": "File"}),
        "spec.training.dataset.autoShard", PROGRAM),
    *[Bad(f"{policy} with parameter servers", training_job(
        replicas={"Worker": {}, "PS": {}}, dataset={"path": "/data", "autoShard": policy}),
        "spec.training.dataset.autoShard") for policy in ("File", "Off")],
    *[Bad(f"{policy} with Independent", changed(
        training_job(dataset={"path": "/data", "autoShard": policy}), strategy={"type": "Independent"}),
        "spec.training.dataset.autoShard", PROGRAM) for policy in ("Data", "File")],
    Bad("Off with elastic", changed(
        training_job(checkpoint={"directory": "/checkpoints"}, dataset={"path": "/data", "autoShard": "Off"}),
        elastic={"minReplicas": 1, "maxReplicas": 4}), "spec.training.dataset.autoShard", PROGRAM),
    Bad("one file dealt to workers", training_job(
        dataset={"path": "/data", "autoShard": "File"}),
        "spec.training.dataset.autoShard", PROGRAM),
    Bad("one file dealt to workers that may come", changed(
        training_job(checkpoint={"directory": "/checkpoints"}, dataset={"path": "/data", "autoShard": "File"}),
        elastic={"minReplicas": 1, "maxReplicas": 4}), "spec.training.dataset.autoShard", PROGRAM),
    Bad("an alpha of 0", training_job(dataset={"path": "/data", "augment": {"mixUp": {"alpha": 0}}}),
        "spec.training.dataset.augment.mixUp.alpha"),
    Bad("an alpha of 101", training_job(dataset={"path": "/data", "augment": {"mixUp": {"alpha": 101}}}),
        "spec.training.dataset.augment.mixUp.alpha"),
    Bad("mixed neighbours of a file", training_job(
        dataset={"path": "/data", "shuffle": False, "augment": {"mixUp": {}}}),
        "spec.training.dataset.augment.mixUp", PROGRAM),
    Bad("an unknown flip", training_job(
        dataset={"path": "/data", "augment": {"randomFlip": "Vertical"}}),
        "spec.training.dataset.augment.randomFlip"),
    Bad("a padding of 0", training_job(
        dataset={"path": "/data", "augment": {"randomCrop": {"padding": 0}}}),
        "spec.training.dataset.augment.randomCrop.padding"),
    Bad("a square of no size", training_job(
        dataset={"path": "/data", "augment": {"cutout": {"size": 0}}}),
        "spec.training.dataset.augment.cutout.size"),
    Bad("an augmented table", training_job(
        dataset={"format": "csv", "path": "/data", "augment": {"randomFlip": "Horizontal"}}),
        "spec.training.dataset.augment"),
    Bad("augmented lists of floats", training_job(dataset={
        "format": "tfrecord", "path": "/data", "tfrecord": {"shape": [784]}, "augment": {}}),
        "spec.training.dataset.augment"),
    Bad("a normalized table", training_job(dataset={
        "format": "csv", "path": "/data", "normalize": {"mean": [0.5], "std": [0.5]}}),
        "spec.training.dataset.normalize"),
    Bad("normalized lists of floats", training_job(dataset={
        "format": "tfrecord", "path": "/data", "tfrecord": {"shape": [784]},
        "normalize": {"mean": [0.5], "std": [0.5]}}),
        "spec.training.dataset.normalize"),
    Bad("more deviations than means", training_job(dataset={
        "path": "/data", "normalize": {"mean": [0.5], "std": [0.5, 0.5]}}),
        "spec.training.dataset.normalize.std"),
    Bad("four means", training_job(dataset={
        "format": "npy", "path": "/data", "normalize": {"mean": [0.5] * 4, "std": [0.5] * 4}}),
        "spec.training.dataset.normalize.mean"),
    Bad("no means", training_job(dataset={"path": "/data", "normalize": {"mean": [], "std": []}}),
        "spec.training.dataset.normalize.mean"),
    Bad("a deviation of 0", training_job(dataset={
        "path": "/data", "normalize": {"mean": [0.5], "std": [0]}}),
        "spec.training.dataset.normalize.std[0]"),
    Bad("a relative folder for decoded images", training_job(dataset={
        "format": "imageFolder", "path": "/data", "imageSize": [8, 8], "cacheDirectory": "cache"}),
        "spec.training.dataset.cacheDirectory"),
    Bad("a folder for decoded images of MNIST", training_job(dataset={
        "path": "/data", "cacheDirectory": "/cache"}),
        "spec.training.dataset.cacheDirectory"),
    Bad("a folder for decoded images of raw pixels", training_job(dataset={
        "format": "tfrecord", "path": "/data", "tfrecord": {"shape": [28, 28, 1]},
        "cacheDirectory": "/cache"}),
        "spec.training.dataset.cacheDirectory"),
    Bad("a padding as wide as the images", training_job(dataset={
        "format": "imageFolder", "path": "/data", "imageSize": [64, 32],
        "augment": {"randomCrop": {"padding": 32}}}),
        "spec.training.dataset.augment.randomCrop.padding"),
    Bad("a padding as wide as CIFAR's images", training_job(dataset={
        "format": "cifar", "path": "/data", "augment": {"randomCrop": {"padding": 32}}}),
        "spec.training.dataset.augment.randomCrop.padding"),
    Bad("a square larger than images of records", training_job(dataset={
        "format": "tfrecord", "path": "/data", "imageSize": [15, 64], "augment": {"cutout": {}}}),
        "spec.training.dataset.augment.cutout.size"),
    Bad("a square larger than synthetic images", training_job(dataset={
        "format": "synthetic", "augment": {"cutout": {"size": 29}}}),
        "spec.training.dataset.augment.cutout.size"),
    Bad("a square larger than synthetic images of its own shape", training_job(dataset={
        "format": "synthetic", "synthetic": {"shape": [64, 64, 15]}, "augment": {"cutout": {}}}),
        "spec.training.dataset.augment.cutout.size"),
    Bad("a negative number of threads", training_job(dataset={"path": "/data", "threads": -1}),
        "spec.training.dataset.threads"),
    Bad("no batch size", training_job(batchSize=None), "spec.training.batchSize"),
    Bad("an empty batch size", training_job(batchSize={}), "spec.training.batchSize"),
    Bad("both batch sizes", training_job(batchSize={"global": 8, "perReplica": 8}),
        "spec.training.batchSize"),
    Bad("a batch of 0", training_job(batchSize={"global": 0}), "spec.training.batchSize.global"),
    Bad("fewer samples than workers", training_job(batchSize={"global": 1}),
        "spec.training.batchSize.global"),
    Bad("fewer samples than synchronous workers of parameter servers", changed(
        training_job(batchSize={"global": 1}, replicas={"Worker": {"replicas": 2}, "PS": {}}),
        strategy={"type": "ParameterServer", "parameterServer": {"mode": "Sync"}}),
        "spec.training.batchSize.global"),
    Bad("fewer samples than processes", changed(
        training_job(batchSize={"global": 7}), strategy={"processesPerPod": 4}),
        "spec.training.batchSize.global"),
    Bad("fewer samples than pipelines", changed(
        training_job(batchSize={"global": 3}), strategy={"processesPerPod": 4, "stages": 2}),
        "spec.training.batchSize.global"),
    Bad("fewer samples than GPUs", training_job(batchSize={"global": 7}, replicas={
        "Worker": role(2, [container(resources={"limits": {"nvidia.com/gpu": 4}})])}),
        "spec.training.batchSize.global", PROGRAM),
    Bad("neither epochs nor steps", training_job(epochs=None), "spec.training"),
    Bad("epochs and steps", training_job(steps=5), "spec.training"),
    Bad("half an epoch", training_job(epochs=0.5), "spec.training.epochs"),
    Bad("0 epochs", training_job(epochs=0), "spec.training.epochs"),
    Bad("a negative seed", training_job(seed=-1), "spec.training.seed"),
    Bad("a seed beyond JSON", training_job(seed=9007199254740992), "spec.training.seed"),
    Bad("labels that are all smoothing", training_job(labelSmoothing=1),
        "spec.training.labelSmoothing"),
    Bad("a negative smoothing", training_job(labelSmoothing=-0.1), "spec.training.labelSmoothing"),
    Bad("an unknown loss", training_job(loss={"type": "Hinge"}), "spec.training.loss.type"),
    Bad("logits of a regression", training_job(
        dataset={"format": "csv", "path": "/data"},
        loss={"type": "MeanAbsoluteError", "fromLogits": True}), "spec.training.loss.fromLogits"),
    Bad("smoothed labels of a regression", training_job(
        dataset={"format": "csv", "path": "/data"}, loss={"type": "MeanSquaredError"},
        labelSmoothing=0.1), "spec.training.labelSmoothing"),
    Bad("a delta without Huber", training_job(loss={"delta": 2}), "spec.training.loss.delta"),
    Bad("a delta of 0", training_job(dataset={"format": "synthetic"},
                                     loss={"type": "Huber", "delta": 0}),
        "spec.training.loss.delta"),
    Bad("regression of classes", training_job(loss={"type": "MeanSquaredError"}),
        "spec.training.loss.type"),
    Bad("one-hot labels in a table", training_job(
        dataset={"format": "csv", "path": "/data"}, loss={"type": "CategoricalCrossentropy"}),
        "spec.training.loss.type"),
    Bad("an unknown optimizer", training_job(optimizer={"name": "AdamW"}),
        "spec.training.optimizer.name"),
    Bad("a learning rate of 0", training_job(optimizer={"learningRate": 0}),
        "spec.training.optimizer.learningRate"),
    Bad("a learning rate as text", training_job(optimizer={"learningRate": "0.001"}),
        "spec.training.optimizer.learningRate"),
    Bad("a momentum of 1", training_job(optimizer={"name": "SGD", "momentum": 1}),
        "spec.training.optimizer.momentum"),
    Bad("momentum with Adam", training_job(optimizer={"momentum": 0.9}),
        "spec.training.optimizer.momentum"),
    Bad("nesterov with Adam", training_job(optimizer={"nesterov": True}),
        "spec.training.optimizer.nesterov"),
    Bad("nesterov without momentum", training_job(optimizer={"name": "SGD", "nesterov": True}),
        "spec.training.optimizer.nesterov"),
    Bad("beta1 with SGD", training_job(optimizer={"name": "SGD", "beta1": 0.8}),
        "spec.training.optimizer"),  # the server's one rule for both names them in its message
    Bad("beta2 with SGD", training_job(optimizer={"name": "SGD", "beta2": 0.8}),
        "spec.training.optimizer"),
    Bad("epsilon with SGD", training_job(optimizer={"name": "SGD", "epsilon": 0.1}),
        "spec.training.optimizer.epsilon"),
    Bad("rho with Adam", training_job(optimizer={"rho": 0.8}), "spec.training.optimizer.rho"),
    Bad("a rho of 1", training_job(optimizer={"name": "RMSprop", "rho": 1}),
        "spec.training.optimizer.rho"),
    Bad("momentum with Adagrad", training_job(optimizer={"name": "Adagrad", "momentum": 0.9}),
        "spec.training.optimizer.momentum"),
    Bad("an initial accumulator with RMSprop",
        training_job(optimizer={"name": "RMSprop", "initialAccumulatorValue": 0.2}),
        "spec.training.optimizer.initialAccumulatorValue"),
    Bad("a negative initial accumulator",
        training_job(optimizer={"name": "Adagrad", "initialAccumulatorValue": -1}),
        "spec.training.optimizer.initialAccumulatorValue"),
    Bad("a trust coefficient with LAMB", training_job(optimizer={"name": "LAMB", "trustCoefficient": 0.1}),
        "spec.training.optimizer.trustCoefficient"),
    Bad("a trust coefficient of 0", training_job(optimizer={"name": "LARS", "trustCoefficient": 0}),
        "spec.training.optimizer.trustCoefficient"),
    Bad("beta1 with LARS", training_job(optimizer={"name": "LARS", "beta1": 0.8}), "spec.training.optimizer"),
    Bad("Muon on parameter servers", changed(
        training_job(replicas={"Worker": {}, "PS": {}}, optimizer={"name": "Muon"}),
        strategy={"type": "ParameterServer", "parameterServer": {"placement": "RoundRobin"}}),
        "spec.training.optimizer.name"),
    Bad("a momentum of 1 with Muon", training_job(optimizer={"name": "Muon", "muonMomentum": 1}),
        "spec.training.optimizer.muonMomentum"),
    Bad("SGD's momentum with Muon", training_job(optimizer={"name": "Muon", "momentum": 0.9}),
        "spec.training.optimizer.momentum"),
    Bad("SGD's look ahead with Muon", training_job(optimizer={"name": "Muon", "nesterov": True}),
        "spec.training.optimizer.nesterov"),
    Bad("an AdamW of Muon that does not learn", training_job(optimizer={"name": "Muon", "adamLrRatio": 0}),
        "spec.training.optimizer.adamLrRatio"),
    Bad("an empty excluded layer", training_job(optimizer={"name": "Muon", "excludeLayers": [""]}),
        "spec.training.optimizer.excludeLayers[0]"),
    # The CRD has no room for rules of these four.
    Bad("Muon's momentum with SGD", training_job(optimizer={"name": "SGD", "muonMomentum": 0.9}),
        "spec.training.optimizer.muonMomentum", PROGRAM),
    Bad("Muon's look ahead with SGD", training_job(optimizer={"name": "SGD", "muonNesterov": False}),
        "spec.training.optimizer.muonNesterov", PROGRAM),
    Bad("layers excluded from Adam", training_job(optimizer={"excludeLayers": ["dense"]}),
        "spec.training.optimizer.excludeLayers", PROGRAM),
    Bad("another rate of AdamW with Adam", training_job(optimizer={"adamLrRatio": 0.5}),
        "spec.training.optimizer.adamLrRatio", PROGRAM),
    Bad("epsilon with LARS", training_job(optimizer={"name": "LARS", "epsilon": 0.1}),
        "spec.training.optimizer.epsilon"),
    Bad("a negative weight decay", training_job(optimizer={"weightDecay": -0.1}),
        "spec.training.optimizer.weightDecay"),
    Bad("an exclusion without weight decay", training_job(optimizer={"weightDecayExclude": ["bias"]}),
        "spec.training.optimizer.weightDecayExclude"),
    Bad("an empty exclusion",
        training_job(optimizer={"weightDecay": 0.1, "weightDecayExclude": [""]}),
        "spec.training.optimizer.weightDecayExclude[0]"),
    Bad("an exclusion that is no list",
        training_job(optimizer={"weightDecay": 0.1, "weightDecayExclude": "bias"}),
        "spec.training.optimizer.weightDecayExclude"),
    Bad("relative initial weights", training_job(initialWeights={"path": "model.safetensors"}),
        "spec.training.initialWeights.path"),
    Bad("excluded initial weights without a file", training_job(initialWeights={"exclude": ["dense"]}),
        "spec.training.initialWeights.exclude"),
    Bad("an empty text that excludes all", training_job(initialWeights={"path": "/model.safetensors", "exclude": [""]}),
        "spec.training.initialWeights.exclude[0]"),
    Bad("a negative norm", training_job(optimizer={"globalClipNorm": -1}),
        "spec.training.optimizer.globalClipNorm"),
    Bad("a negative number of skipped steps", training_job(maxSkippedSteps=-1),
        "spec.training.maxSkippedSteps"),
    Bad("a final fraction with Constant", training_job(
        learningRateSchedule={"finalFraction": 0.1}),
        "spec.training.learningRateSchedule.finalFraction"),
    Bad("a final fraction above 1", training_job(
        learningRateSchedule={"type": "Cosine", "finalFraction": 1.1}),
        "spec.training.learningRateSchedule.finalFraction"),
    Bad("a step schedule without its steps", training_job(
        learningRateSchedule={"type": "Step", "factor": 0.5}),
        "spec.training.learningRateSchedule.everySteps"),
    Bad("an exponential schedule without its steps", training_job(
        learningRateSchedule={"type": "Exponential"}),
        "spec.training.learningRateSchedule.everySteps"),
    Bad("steps of a schedule with Cosine", training_job(
        learningRateSchedule={"type": "Cosine", "everySteps": 5}),
        "spec.training.learningRateSchedule.everySteps"),
    Bad("a factor with Polynomial", training_job(
        learningRateSchedule={"type": "Polynomial", "factor": 0.5}),
        "spec.training.learningRateSchedule.factor"),
    Bad("a factor of 0", training_job(
        learningRateSchedule={"type": "Step", "everySteps": 5, "factor": 0}),
        "spec.training.learningRateSchedule.factor"),
    Bad("a factor above 1", training_job(
        learningRateSchedule={"type": "Step", "everySteps": 5, "factor": 1.5}),
        "spec.training.learningRateSchedule.factor"),
    Bad("a power with Cosine", training_job(
        learningRateSchedule={"type": "Cosine", "power": 2}),
        "spec.training.learningRateSchedule.power"),
    Bad("a power of 0", training_job(
        learningRateSchedule={"type": "Polynomial", "power": 0}),
        "spec.training.learningRateSchedule.power"),
    Bad("a final fraction with Step", training_job(
        learningRateSchedule={"type": "Step", "everySteps": 5, "finalFraction": 0.1}),
        "spec.training.learningRateSchedule.finalFraction"),
    Bad("an unknown schedule", training_job(learningRateSchedule={"type": "Linear"}),
        "spec.training.learningRateSchedule.type"),
    Bad("a warmup longer than the run", training_job(
        epochs=None, steps=10, learningRateSchedule={"warmupSteps": 11}),
        "spec.training.learningRateSchedule.warmupSteps"),
    Bad("an unknown precision", training_job(precision="Float64"), "spec.training.precision"),
    Bad("an unknown activation checkpointing", training_job(activationCheckpointing="All"),
        "spec.training.activationCheckpointing"),
    Bad("a relative folder for checkpoints", training_job(checkpoint={"directory": "out"}),
        "spec.training.checkpoint.directory"),
    Bad("a relative file for the export", training_job(checkpoint={"exportTo": "model.onnx"}),
        "spec.training.checkpoint.exportTo"),
    Bad("an export in an unknown format", training_job(checkpoint={"exportTo": "/out/model.pt"}),
        "spec.training.checkpoint.exportTo"),
    Bad("an export to a file that is only an ending", training_job(checkpoint={"exportTo": "/out/.onnx"}),
        "spec.training.checkpoint.exportTo"),
    Bad("no checkpoint kept", training_job(checkpoint={"directory": "/c", "keep": 0}),
        "spec.training.checkpoint.keep"),
    Bad("a relative folder for summaries", training_job(summaries={"directory": "logs"}),
        "spec.training.summaries.directory"),
    Bad("summaries at every 0 steps", training_job(summaries={"everySteps": 0}),
        "spec.training.summaries.everySteps"),
    Bad("an average that keeps nothing", training_job(ema={"decay": 0}), "spec.training.ema.decay"),
    Bad("an average that never moves", training_job(ema={"decay": 1}), "spec.training.ema.decay"),
    Bad("a negative decay of an average", training_job(ema={"decay": -0.1}), "spec.training.ema.decay"),
    Bad("a metric that classes lack", training_job(evaluation={"metrics": ["TopKCategoricalAccuracy", "AUC"]}),
        "spec.training.evaluation.metrics[1]", PROGRAM),
    Bad("a metric that two classes lack", training_job(
        loss={"type": "BinaryCrossentropy"}, evaluation={"metrics": ["TopKCategoricalAccuracy"]}),
        "spec.training.evaluation.metrics[0]", PROGRAM),
    Bad("a metric that a regression lacks", training_job(
        loss={"type": "Huber"}, dataset={"format": "synthetic"}, evaluation={"metrics": ["Precision"]}),
        "spec.training.evaluation.metrics[0]", PROGRAM),
    Bad("metrics without evaluation", training_job(
        evaluation={"enabled": False, "metrics": ["TopKCategoricalAccuracy"]}),
        "spec.training.evaluation.metrics", PROGRAM),
    Bad("an unknown metric", training_job(evaluation={"metrics": ["F1Score"]}),
        "spec.training.evaluation.metrics[0]"),
    Bad("a metric that is named twice", training_job(
        evaluation={"metrics": ["TopKCategoricalAccuracy", "TopKCategoricalAccuracy"]}),
        "spec.training.evaluation.metrics[1]"),
    Bad("no classes to look at", training_job(evaluation={"topK": 0}), "spec.training.evaluation.topK"),
    Bad("an early stop without evaluation", training_job(evaluation={"enabled": False}, earlyStopping={}),
        "spec.training.earlyStopping"),
    Bad("an early stop with the best model beside servers, without checkpoints", training_job(
        replicas={"Worker": {}, "PS": {}}, earlyStopping={"restoreBest": True}),
        "spec.training.earlyStopping.restoreBest"),
    Bad("a variant without patience", independent({"earlyStopping": {"patience": 0}}, {}),
        "spec.training.variants[0].earlyStopping.patience"),
    Bad("a variant that stops early by the error of a classification",
        independent({"earlyStopping": {"metric": "MeanAbsoluteError"}}, {}),
        "spec.training.variants[0].earlyStopping.metric", PROGRAM),
    Bad("an early stop beside an evaluator", training_job(
        replicas={"Worker": {}, "Evaluator": {}}, checkpoint={"directory": "/checkpoints"}, earlyStopping={}),
        "spec.training.earlyStopping"),
    Bad("the best of several averages", training_job(ema={}, earlyStopping={"restoreBest": True}),
        "spec.training.earlyStopping.restoreBest"),
    Bad("an early stop by the accuracy of a regression", training_job(
        loss={"type": "Huber"}, dataset={"format": "synthetic"}, earlyStopping={"metric": "Accuracy"}),
        "spec.training.earlyStopping.metric"),
    Bad("an early stop by the error of a classification", training_job(
        earlyStopping={"metric": "MeanAbsoluteError"}), "spec.training.earlyStopping.metric"),
    Bad("an early stop by a metric that the job does not name", training_job(
        evaluation={"metrics": []}, earlyStopping={"metric": "TopKCategoricalAccuracy"}),
        "spec.training.earlyStopping.metric"),
    Bad("an early stop by an unknown number", training_job(earlyStopping={"metric": "Speed"}),
        "spec.training.earlyStopping.metric"),
    Bad("an early stop without patience", training_job(earlyStopping={"patience": 0}),
        "spec.training.earlyStopping.patience"),
    Bad("an early stop with a negative delta", training_job(earlyStopping={"minDelta": -0.1}),
        "spec.training.earlyStopping.minDelta"),
    Bad("an early stop from a negative epoch", training_job(earlyStopping={"startFromEpoch": -1}),
        "spec.training.earlyStopping.startFromEpoch"),
    Bad("one cycle with a warm-up", training_job(learningRateSchedule={"type": "OneCycle", "warmupSteps": 5}),
        "spec.training.learningRateSchedule.warmupSteps", PROGRAM),
    Bad("evaluation at every 0 epochs", training_job(evaluation={"everyEpochs": 0}),
        "spec.training.evaluation.everyEpochs"),
    Bad("a rendezvous of two years", training_job(rendezvousTimeoutSeconds=63_072_000),
        "spec.training.rendezvousTimeoutSeconds"),
    Bad("an unknown field of training", training_job(batchsize=3), "spec.training.batchsize"),
    Bad("a path of 5,000 letters", training_job(dataset={"path": "/" + "a" * 5000}),
        "spec.training.dataset.path", SERVER),
]

POLICIES = [
    Bad("an unknown field of spec", job(suspended=True), "spec.suspended"),
    Bad("suspend as text", job(suspend="yes"), "spec.suspend"),
    Bad("no spec", {**job(), "spec": None}, "spec"),
    Bad("a negative backoff limit", job(runPolicy={"backoffLimit": -1}),
        "spec.runPolicy.backoffLimit"),
    Bad("a backoff limit beyond 31 bits", job(runPolicy={"backoffLimit": 2147483648}),
        "spec.runPolicy.backoffLimit"),
    Bad("a deadline of 0", job(runPolicy={"activeDeadlineSeconds": 0}),
        "spec.runPolicy.activeDeadlineSeconds"),
    Bad("a TTL beyond 31 bits", job(runPolicy={"ttlSecondsAfterFinished": 2147483648}),
        "spec.runPolicy.ttlSecondsAfterFinished"),
    Bad("a deadline of 0 for a pending job", job(runPolicy={"pendingDeadlineSeconds": 0}),
        "spec.runPolicy.pendingDeadlineSeconds"),
    Bad("a deadline for progress that is shorter than two looks at it", job(runPolicy={"progressDeadlineSeconds": 9}),
        "spec.runPolicy.progressDeadlineSeconds"),
    Bad("a deadline beyond 31 bits", job(runPolicy={"activeDeadlineSeconds": 9999999999}),
        "spec.runPolicy.activeDeadlineSeconds"),
    Bad("a negative TTL", job(runPolicy={"ttlSecondsAfterFinished": -1}),
        "spec.runPolicy.ttlSecondsAfterFinished"),
    Bad("an unknown clean-up", job(runPolicy={"cleanPodPolicy": "Some"}),
        "spec.runPolicy.cleanPodPolicy"),
    Bad("an unknown field of runPolicy", job(runPolicy={"backOffLimit": 3}),
        "spec.runPolicy.backOffLimit"),
]

RULE = "spec.runPolicy.podFailurePolicy.rules[0]"
FAILURES = [
    Bad("a policy without rules", job(runPolicy={"podFailurePolicy": {"rules": []}}),
        "spec.runPolicy.podFailurePolicy.rules"),
    Bad("a rule without a condition", failures(), RULE),
    Bad("a rule without an action", failures(action=None, onReasons=["Evicted"]), RULE + ".action"),
    Bad("an unknown action", failures(action="Restart", onReasons=["Evicted"]), RULE + ".action"),
    Bad("a rule about an Evaluator", failures(roles=["Evaluator"], onReasons=["Evicted"]), RULE + ".roles"),
    Bad("exit code 0", failures(onExitCodes={"values": [0]}), RULE + ".onExitCodes.values[0]"),
    Bad("exit code 256", failures(onExitCodes={"values": [256]}), RULE + ".onExitCodes.values[0]"),
    Bad("no exit codes", failures(onExitCodes={"values": []}), RULE + ".onExitCodes.values"),
    Bad("an unknown operator", failures(onExitCodes={"operator": "Exists", "values": [1]}),
        RULE + ".onExitCodes.operator"),
    Bad("an unknown field of a rule", failures(onReasons=["Evicted"], onPodConditions=[]), RULE + ".onPodConditions"),
    Bad("21 rules", job(runPolicy={"podFailurePolicy": {
        "rules": 21 * [{"action": "FailJob", "onReasons": ["Evicted"]}]}}),
        "spec.runPolicy.podFailurePolicy.rules"),
    Bad("no roles", failures(roles=[], onReasons=["Evicted"]), RULE + ".roles"),
    Bad("a role twice", failures(roles=["Worker", "Worker"], onReasons=["Evicted"]), RULE + ".roles[1]"),
    Bad("an exit code twice", failures(onExitCodes={"values": [1, 2, 1]}), RULE + ".onExitCodes.values[2]"),
    Bad("no reasons beside exit codes", failures(onReasons=[], onExitCodes={"values": [1]}), RULE + ".onReasons"),
    Bad("a reason twice", failures(onReasons=["Evicted", "Evicted"]), RULE + ".onReasons[1]"),
    Bad("an empty reason", failures(onReasons=[""]), RULE + ".onReasons[0]"),
    Bad("a reason of 129 characters", failures(onReasons=[129 * "ä"]), RULE + ".onReasons[0]"),
    Bad("33 reasons", failures(onReasons=[f"Reason{i}" for i in range(33)]), RULE + ".onReasons"),
]

DEPENDENCY = "spec.replicaSpecs.Worker.dependsOn"
START_ORDER = [
    Bad("a dependency on a role that the job does not have", ordered(Worker="PS:Ready"), "spec.replicaSpecs"),
    Bad("a role that waits for itself", ordered(Worker="Worker:Ready"), "spec.replicaSpecs"),
    Bad("two roles that wait for each other", ordered(Chief="Worker:Ready", Worker="Chief:Ready"), "spec.replicaSpecs"),
    Bad("three roles that wait in a circle", ordered(Chief="Worker:Ready", Worker="PS:Ready", PS="Chief:Ready"),
        "spec.replicaSpecs"),
    Bad("a role that waits for two that wait for each other",
        ordered(Evaluator="Chief:Ready", Chief="Worker:Ready", Worker="Chief:Ready"), "spec.replicaSpecs"),
    Bad("a dependency on an Evaluator", ordered(Evaluator=None, Worker="Evaluator:Ready"), DEPENDENCY + "[0].role"),
    Bad("a dependency on an unknown role", ordered(Worker="Master:Ready"), DEPENDENCY + "[0].role"),
    Bad("a dependency without a role", ordered(Chief=None, Worker={"status": "Ready"}), DEPENDENCY + "[0].role"),
    Bad("a dependency without a status", ordered(Chief=None, Worker={"role": "Chief"}), DEPENDENCY + "[0].status"),
    Bad("an unknown status", ordered(Chief=None, Worker="Chief:Succeeded"), DEPENDENCY + "[0].status"),
    Bad("an unknown field of a dependency",
        ordered(Chief=None, Worker={"role": "Chief", "status": "Ready", "replicas": 1}), DEPENDENCY + "[0].replicas"),
    Bad("an empty list of dependencies", ordered(Worker=[]), DEPENDENCY),
    Bad("a role twice among dependencies", ordered(Chief=None, Worker=["Chief:Ready", "Chief:Ready"]),
        DEPENDENCY + "[1]"),
    Bad("four dependencies", ordered(Chief=None, Worker=4 * ["Chief:Ready"]), DEPENDENCY),
    Bad("the end of parameter servers of the bundled trainer", changed(
        ordered(training_job(), PS=None, Worker="PS:Complete"), strategy={"type": "ParameterServer"}),
        "spec.replicaSpecs"),
    Bad("the end of the bundled trainer's chief", ordered(training_job(), Chief=None, Worker="Chief:Complete"),
        "spec.replicaSpecs"),
    Bad("the end of parameter servers", changed(ordered(PS=None, Worker="PS:Complete"),
                                                strategy={"type": "ParameterServer"}), "spec.replicaSpecs"),
    Bad("the end of the chief, which is the job's", ordered(Chief=None, Worker="Chief:Complete"), "spec.replicaSpecs"),
    Bad("the end of the workers, which is the job's", ordered(Worker=None, Evaluator="Worker:Complete"),
        "spec.replicaSpecs"),
    Bad("the end of helpers that are always started again", changed(job(), replicaSpecs={
        "PS": {**role(), "restartPolicy": "Always"},
        "Worker": {**role(), "dependsOn": [{"role": "PS", "status": "Complete"}]}}), "spec.replicaSpecs"),
]

ELASTIC = [
    Bad("fewer workers than minReplicas", elastic(0), "spec.replicaSpecs.Worker.replicas"),
    Bad("more workers than maxReplicas", elastic(5), "spec.replicaSpecs.Worker.replicas"),
    Bad("bounds in the wrong order", job(elastic={"minReplicas": 3, "maxReplicas": 2}),
        "spec.elastic.minReplicas"),
    Bad("a minimum of 0", job(elastic={"minReplicas": 0, "maxReplicas": 2}),
        "spec.elastic.minReplicas"),
    Bad("elastic without workers", job(elastic={}, replicaSpecs={"Chief": role()}),
        "spec.replicaSpecs.Worker"),
    Bad("elastic with Independent", elastic(2, strategy={"type": "Independent"}), "spec.elastic"),
    Bad("elastic training without checkpoints", changed(
        training_job(), elastic={"minReplicas": 1, "maxReplicas": 4}),
        "spec.training.checkpoint.directory"),
    Bad("elastic training with a batch that changes with it", changed(
        training_job(checkpoint={"directory": "/checkpoints"}, batchSize={"perReplica": 32}),
        elastic={"minReplicas": 1, "maxReplicas": 4}), "spec.training.batchSize.perReplica"),
    Bad("elastic training whose pods come and go one by one", changed(
        training_job(checkpoint={"directory": "/checkpoints"}), restartScope="Pod",
        elastic={"minReplicas": 1, "maxReplicas": 4}), "spec.restartScope"),
]

SCHEDULING = [
    Bad("a negative number of pods", scheduling(minAvailable=-1),
        "spec.runPolicy.schedulingPolicy.minAvailable"),
    Bad("a schedule timeout of 0", scheduling(scheduleTimeoutSeconds=0),
        "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds"),
    Bad("a resource that is no quantity", scheduling(minResources={"cpu": "two"}),
        "spec.runPolicy.schedulingPolicy.minResources.cpu"),
    Bad("a negative resource", scheduling(minResources={"cpu": "-1"}),
        "spec.runPolicy.schedulingPolicy.minResources.cpu"),
    Bad("an unknown field of schedulingPolicy", scheduling(minMember=2),
        "spec.runPolicy.schedulingPolicy.minMember"),
]

BAD = NAMES + ROLES + TEMPLATES + STRATEGIES + TRAINING + POLICIES + FAILURES + START_ORDER + ELASTIC + SCHEDULING
