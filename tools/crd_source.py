"""Reads api/crd/trainingjobs.source.yaml, with the files that it includes."""
import json
import pathlib

import yaml

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "api" / "crd" / "trainingjobs.source.yaml"
INCLUDE_MARK = "x-include"  # {x-include: FILE}: a JSON file beside the source
# {x-overrides: [NAME, …]} in the schema of an object's field: the field has those other fields of the object.
OVERRIDES_MARK = "x-overrides"
NOT_OVERRIDDEN = ("default", "required", "x-kubernetes-validations")


def load():
    return with_overrides(included(yaml.safe_load(SOURCE.read_text(encoding="utf-8"))))


def with_overrides(node):
    """The same node, with each x-overrides replaced by the fields that it names."""
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        with_overrides(child)
    properties = node.get("properties", {}) if isinstance(node, dict) else {}
    for field in properties.values():
        place = field.get("items", field)
        for name in place.pop(OVERRIDES_MARK, ()):
            place["properties"][name] = optional(properties[name])
    return node


def optional(schema):
    """A field's schema without defaults, required fields and rules, in which everything may be absent. Lists of
    objects are left out: each of many variants could have one as long as the whole field."""
    kept = {key: value for key, value in schema.items() if key not in NOT_OVERRIDDEN}
    if "properties" in schema:
        kept["properties"] = {name: optional(child) for name, child in schema["properties"].items()
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
