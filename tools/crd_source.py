"""Reads api/crd/trainingjobs.source.yaml, with the files that it includes."""
import json
import pathlib

import yaml

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "api" / "crd" / "trainingjobs.source.yaml"
INCLUDE_MARK = "x-include"  # {x-include: FILE}: a JSON file beside the source


def load():
    return included(yaml.safe_load(SOURCE.read_text(encoding="utf-8")))


def included(node):
    if isinstance(node, list):
        return [included(child) for child in node]
    if not isinstance(node, dict):
        return node
    if INCLUDE_MARK in node:
        return json.loads((SOURCE.parent / node[INCLUDE_MARK]).read_text(encoding="utf-8"))
    return {key: included(child) for key, child in node.items()}
