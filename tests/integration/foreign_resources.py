"""Resources of Kueue and of gang schedulers: what the operator reads and writes of them, typed, as CRDs.

Written for these tests from the projects' API references. The server prunes every other field, so a
field that the operator spells otherwise never arrives.
"""
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
WORKLOAD = {
    "spec": record(("podSets",), queueName=TEXT, podSets=list_of(POD_SET, "name"), priority=WHOLE,
                   priorityClassName=TEXT,
                   priorityClassSource={"type": "string", "enum": [
                       "kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass"]}),
    "status": record(
        conditions=CONDITIONS,
        admission={**record(
            ("clusterQueue", "podSetAssignments"), clusterQueue=TEXT,
            podSetAssignments=list_of(record(
                ("name",), name=TEXT, count=WHOLE, flavors=map_of(TEXT),
                resourceUsage=map_of(QUANTITY), topologyAssignment=record(
                    ("levels", "domains"), levels=list_of(TEXT), domains=list_of(record(
                        ("values", "count"), values=list_of(TEXT), count=WHOLE)))), "name")), "nullable": True},
        reclaimablePods=list_of(record(("name", "count"), name=TEXT, count=WHOLE), "name"),
        admissionChecks=list_of(record(
            ("name",), name=TEXT, podSetUpdates=list_of(record(
                ("name",), name=TEXT, nodeSelector=map_of(TEXT), labels=map_of(TEXT),
                annotations=map_of(TEXT), tolerations=list_of(OPEN)))), "name")),
}


def definition(group, version, kind, plural, fields, cluster=False):
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Cluster" if cluster else "Namespaced",
                 "names": {"kind": kind, "plural": plural},
                 "versions": [{"name": version, "served": True, "storage": True,
                               "subresources": {"status": {}} if "status" in fields else {},
                               "schema": {"openAPIV3Schema": record(**fields)}}]}}


KUEUE = "kueue.x-k8s.io"
DEFINITIONS = {
    "volcano": [definition("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", {
        "spec": record(minMember=WHOLE, minResources=map_of(QUANTITY), queue=TEXT,
                       priorityClassName=TEXT), "status": OPEN})],
    "scheduler-plugins": [definition("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", {
        "spec": record(minMember=WHOLE, minResources=map_of(QUANTITY), scheduleTimeoutSeconds=WHOLE),
        "status": OPEN})],
    "kueue": [
        definition(KUEUE, "v1beta1", "Workload", "workloads", WORKLOAD),
        definition(KUEUE, "v1beta1", "ResourceFlavor", "resourceflavors", {
            "spec": record(nodeLabels=map_of(TEXT), tolerations=list_of(OPEN))}, cluster=True),
        definition(KUEUE, "v1beta1", "WorkloadPriorityClass", "workloadpriorityclasses", {
            "value": WHOLE, "description": TEXT}, cluster=True)],
}


def install(server, name):
    """Applies a project's definitions to an API server."""
    for entry in DEFINITIONS[name]:
        server.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(entry))
