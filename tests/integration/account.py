"""The operator in its pod's place: with the token and the rights of its service account."""
import functools
import json

import yaml

from api_server import ACCOUNT, ROOT, server
from operator_test import Operator

MANIFESTS = ROOT / "manifests"
# Asked for when the answer to a write was lost only, which does not happen here.
AFTER_LOST_ANSWERS = {(group, resource, "get") for group, resource in (
    ("training.lockstep.dev", "trainingjobs"), ("kueue.x-k8s.io", "workloads"),
    ("scheduling.volcano.sh", "podgroups"), ("scheduling.x-k8s.io", "podgroups"))}


def install(rbac):
    """Applies the namespace, and a folder of manifests; nothing runs a Deployment's pods here."""
    server().kubectl("apply", "-f", MANIFESTS / "default" / "namespace.yaml")
    server().kubectl("apply", "-f", "-", stdin=server().kubectl("kustomize", rbac))


def start_operator(*flags, namespace="lockstep-system"):
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/lockstep-operator"
    code, answer = server().call("POST", account + "/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    if code != 201:
        raise AssertionError(answer["message"])
    config = json.loads(server().kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    config["contexts"][0]["context"]["namespace"] = namespace
    path = server().folder / "operator.kubeconfig"
    path.write_text(json.dumps(config))
    running = Operator(*flags, kubeconfig=path)
    running.wait_for("leading")
    return running


@functools.cache
def granted(rbac):
    """{(group, resource, verb)} of the operator's roles."""
    rendered = yaml.safe_load_all(server().kubectl("kustomize", rbac))
    return {(group, resource, verb) for entry in rendered if entry["kind"] in ("Role", "ClusterRole")
            and entry["metadata"]["name"].startswith("lockstep-operator")
            for rule in entry["rules"] for group in rule["apiGroups"]
            for resource in rule["resources"] for verb in rule["verbs"]}


def audited(account=ACCOUNT):
    """(what the operator has asked for since the server's start, what of that was forbidden)"""
    used, forbidden = set(), []
    for line in server().audit_log.read_text().splitlines():
        entry = json.loads(line)
        about = entry.get("objectRef")
        if entry["user"]["username"] != account or not about:
            continue
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        used.add((about.get("apiGroup", ""), resource, entry["verb"]))
        if entry.get("responseStatus", {}).get("code") == 403:
            forbidden.append(entry)
    return used, forbidden
