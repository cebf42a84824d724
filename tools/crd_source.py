"""Reads api/crd/trainingjobs.source.yaml, with the files that it includes."""
import json
import pathlib

import yaml

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "api" / "crd" / "trainingjobs.source.yaml"
INCLUDE_MARK = "x-include"  # {x-include: FILE}: a JSON file beside the source
# In the schema of a field of an object: {x-overrides: [NAME, …]}: those other fields of that object, in which
# everything may be absent.
OVERRIDES_MARK = "x-overrides"
NOT_OVERRIDDEN = ("default", "required", "x-kubernetes-validations")


def load():
    return with_overrides(included(yaml.safe_load(SOURCE.read_text(encoding="utf-8"))))


def with_overrides(node):
    if isinstance(node, list):
        return [with_overrides(child) for child in node]
    if not isinstance(node, dict):
        return node
    result = {key: with_overrides(child) for key, child in node.items()}
    for field in node.get("properties", {}).values():
        place = field.get("items", field) if isinstance(field, dict) else {}
        if OVERRIDES_MARK not in place:
            continue
        for name in place.pop(OVERRIDES_MARK):
            place["properties"][name] = optional(node["properties"][name])
        result["properties"] = {key: with_overrides(child) for key, child in node["properties"].items()}
    return result


def optional(schema):
    """A field's schema without defaults, required fields and rules. Lists keep theirs: they are replaced whole."""
    if schema.get("type") != "object":
        return {key: value for key, value in schema.items() if key not in NOT_OVERRIDDEN}
    kept = {key: value for key, value in schema.items() if key not in NOT_OVERRIDDEN}
    # A list of objects may be as long as the whole field that it replaces, for each of many.
    kept["properties"] = {name: optional(child) for name, child in schema.get("properties", {}).items()
                          if child.get("items", {}).get("type") != "object"}
    return kept


def included(node):
    if isinstance(node, list):
        return [included(child) for child in node]
    if not isinstance(node, dict):
        return node
    if INCLUDE_MARK in node:
        return json.loads((SOURCE.parent / node[INCLUDE_MARK]).read_text(encoding="utf-8"))
    return {key: included(child) for key, child in node.items()}
