"""Resources of Kueue and of gang schedulers: what the operator reads and writes of them, typed, as CRDs.

Written for these tests from the projects' API references. The server prunes every other field, so a
field that the operator spells otherwise never arrives.
"""
import copy
import json

TEXT, WHOLE = {"type": "string"}, {"type": "integer", "format": "int32"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
QUANTITY = {"x-kubernetes-int-or-string": True}


def record(required=(), **fields):
    return {"type": "object", "properties": fields,
            **({"required": list(required)} if required else {})}


def list_of(item, key=None):
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]} if key else {}
    return {"type": "array", "items": item, **keyed}


def map_of(value):
    return {"type": "object", "additionalProperties": value}


CONDITIONS = list_of(record(
    ("type", "status", "reason", "message", "lastTransitionTime"), type=TEXT,
    status={"type": "string", "enum": ["True", "False", "Unknown"]}, reason=TEXT, message=TEXT,
    lastTransitionTime={"type": "string", "format": "date-time"},
    observedGeneration={"type": "integer", "format": "int64"}), "type")

TOPOLOGY_REQUEST = record(preferred=TEXT, unconstrained={"type": "boolean"}, podIndexLabel=TEXT,
                          podSetGroupName=TEXT, podSetSliceRequiredTopology=TEXT, podSetSliceSize=WHOLE)
TOPOLOGY_REQUEST["properties"]["required"] = TEXT
POD_SET = record(("name", "count", "template"), name=TEXT, count=WHOLE, minCount=WHOLE, template=OPEN,
                 topologyRequest=TOPOLOGY_REQUEST)


def one_of(*names):
    return {"type": "string", "enum": names}


def workload(priority, assignment, past):
    """The fields of one version, of which these differ: of spec, of a topologyAssignment, of status."""
    limit = {**WHOLE, "minimum": 1}
    return {
        "spec": record(("podSets",), queueName=TEXT, podSets=list_of(POD_SET, "name"), priority=WHOLE,
                       maximumExecutionTimeSeconds=limit, **priority),
        "status": record(
            conditions=CONDITIONS,
            admission={**record(
                ("clusterQueue", "podSetAssignments"), clusterQueue=TEXT,
                podSetAssignments=list_of(record(
                    ("name",), name=TEXT, count=WHOLE, flavors=map_of(TEXT), resourceUsage=map_of(QUANTITY),
                    topologyAssignment=record(("levels", *assignment), levels=list_of(TEXT), **assignment)),
                    "name")), "nullable": True},
            reclaimablePods=list_of(record(("name", "count"), name=TEXT, count=WHOLE), "name"),
            admissionChecks=list_of(record(
                ("name",), name=TEXT, podSetUpdates=list_of(record(
                    ("name",), name=TEXT, nodeSelector=map_of(TEXT), labels=map_of(TEXT),
                    annotations=map_of(TEXT), tolerations=list_of(OPEN)))), "name"),
            **{past: WHOLE}),
    }


WORKLOADS = {
    "v1beta1": workload(
        {"priorityClassName": TEXT,
         "priorityClassSource": one_of("kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass")},
        {"domains": list_of(record(("values", "count"), values=list_of(TEXT), count=WHOLE))},
        "accumulatedPastExexcutionTimeSeconds"),
    "v1beta2": workload(
        {"priorityClassRef": record(
            ("group", "kind", "name"), group=one_of("kueue.x-k8s.io", "scheduling.k8s.io"),
            kind=one_of("WorkloadPriorityClass", "PriorityClass"), name=TEXT)},
        {"slices": list_of(record(("domainCount", "valuesPerLevel", "podCounts"), domainCount=WHOLE,
                                  valuesPerLevel=list_of(OPEN), podCounts=OPEN))},
        "accumulatedPastExecutionTimeSeconds"),
}


def definition(group, versions, kind, plural, cluster=False):
    """`versions`: the fields of each. `install` says which are served."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Cluster" if cluster else "Namespaced",
                 "names": {"kind": kind, "plural": plural},
                 "versions": [{"name": version,
                               "subresources": {"status": {}} if "status" in fields else {},
                               "schema": {"openAPIV3Schema": record(**fields)}}
                              for version, fields in versions.items()]}}


KUEUE = "kueue.x-k8s.io"
DEFINITIONS = {
    "volcano": [definition("scheduling.volcano.sh", {"v1beta1": {
        "spec": record(minMember=WHOLE, minResources=map_of(QUANTITY), queue=TEXT,
                       priorityClassName=TEXT), "status": OPEN}}, "PodGroup", "podgroups")],
    "scheduler-plugins": [definition("scheduling.x-k8s.io", {"v1alpha1": {
        "spec": record(minMember=WHOLE, minResources=map_of(QUANTITY), scheduleTimeoutSeconds=WHOLE),
        "status": OPEN}}, "PodGroup", "podgroups")],
    "kueue": [
        definition(KUEUE, WORKLOADS, "Workload", "workloads"),
        definition(KUEUE, dict.fromkeys(WORKLOADS, {
            "spec": record(nodeLabels=map_of(TEXT), tolerations=list_of(OPEN))}),
            "ResourceFlavor", "resourceflavors", cluster=True),
        definition(KUEUE, dict.fromkeys(WORKLOADS, {"value": WHOLE, "description": TEXT}),
                   "WorkloadPriorityClass", "workloadpriorityclasses", cluster=True)],
}


def install(server, name, served=None):
    """Applies a project's definitions to an API server. `served`: the version to serve, of several. It is
    stored, too: nothing converts fields here, so what is stored has only those of its version."""
    for entry in DEFINITIONS[name]:
        entry = copy.deepcopy(entry)
        for version in entry["spec"]["versions"]:
            version["served"] = version["storage"] = served in (None, version["name"])
        server.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(entry))
