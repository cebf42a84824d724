"""YAML as kubectl reads it. PyYAML alone takes 1e-3 and y for texts, 12:30:00 for a number of base 60 and 2026-01-31 for
a date, keeps the last of two equal keys, and writes texts without quotes that other readers take for numbers or booleans."""
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

INT = re.compile(r"[-+]?(?:0[xX]_*[0-9a-fA-F][0-9a-fA-F_]*|0[oO]_*[0-7][0-7_]*|0[bB]_*[01][01_]*|[0-9][0-9_]*)$")
OCTAL = re.compile(r"0[0-7]+$")
FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?$|"
                   r"[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$")
# Texts that need no quotes in any version of YAML: words that are not one of its constants.
PLAIN = re.compile(r"[A-Za-z/][\w ./:@-]*$")
CONSTANTS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
# What `lockstep` reads, too: nested collections, and the size of a document with a copy in place of each alias.
DEEPEST = 100
LARGEST = 16 << 20
VALUE_SIZE = 64  # of each value or key, besides its text


def _fault(found: str, expected: str, mark: yaml.Mark) -> yaml.YAMLError:
    return yaml.composer.ComposerError(None, None, f"found {found}, expected {expected}", mark)


class _Loader(yaml.SafeLoader):
    # Without the resolvers of dates and numbers.
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers
                if tag.removeprefix("tag:yaml.org,2002:") not in ("timestamp", "int", "float")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.depth = 0  # of the node that is being composed
        self.measured: dict[yaml.Node, tuple[int, int]] = {}  # each complete node's size and height

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        is_alias = self.check_event(yaml.AliasEvent)
        if self.depth > DEEPEST:  # composing deeper ones would end in a RecursionError
            raise _fault(f"more than {DEEPEST} nested values", f"at most {DEEPEST}", mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        if node is None:
            return None
        if not is_alias:
            if isinstance(node, yaml.MappingNode):
                self.check_keys(node)
                self.flatten_mapping(node)  # once: others may merge the result
            self.measured[node] = self.measure(node)
        elif node not in self.measured:
            raise _fault("an alias inside what it stands for", "one of a value that is complete", mark)
        size, height = self.measured[node]
        if size > LARGEST:
            raise _fault(f"values of {size} bytes, with a copy in place of each alias", f"at most {LARGEST}", mark)
        if self.depth + height > DEEPEST:
            raise _fault(f"{self.depth + height} nested values", f"at most {DEEPEST}", mark)
        return node

    def measure(self, node: yaml.Node) -> tuple[int, int]:
        """The size, with a copy in place of each alias, and the height. The nodes in it have been measured."""
        if isinstance(node, yaml.ScalarNode):
            return VALUE_SIZE + len(node.value), 0
        inner = [one for pair in node.value for one in pair] if isinstance(node, yaml.MappingNode) else node.value
        sizes, heights = zip((VALUE_SIZE, 0), *(self.measured[one] for one in inner))
        return sum(sizes), 1 + max(heights)

    def check_keys(self, node: yaml.MappingNode) -> None:
        keys: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in keys:
                raise _fault(f"the key {key.value!r} twice", "it once", key.start_mark)
            if key.tag == "tag:yaml.org,2002:merge":
                # By YAML's definition a map's own keys win wherever they stand; kubectl lets << replace those before it.
                is_list = isinstance(value, yaml.SequenceNode)
                if is_list and value.start_mark.index < key.start_mark.index:
                    raise _fault("<< with an alias of a list", "a map, an alias of one, or a list of these", key.start_mark)
                merged = value.value if is_list else [value]
                for name in (name.value for one in merged if isinstance(one, yaml.MappingNode) for name, _ in one.value):
                    if name in keys:
                        raise _fault(f"<< behind {name!r}, which it has, too", "it first", key.start_mark)
            keys.add(key.value)


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node).replace("_", "")
    digits = text.lstrip("-+")
    if OCTAL.match(digits):
        return int(text, 8)
    return int(text, 10 if digits.isdigit() else 0)  # 08 is 8; 0 takes the base from a prefix


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", INT, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True  # kubectl reads anchors; people do not like to


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        style: str | None = "|"
    else:
        style = None if PLAIN.match(text) and text.lower() not in CONSTANTS else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def read_all(text: str) -> list[Any]:
    """The documents of a YAML text, without empty ones. Raises yaml.YAMLError."""
    return [document for document in yaml.load_all(text, _Loader) if document is not None]


def write(document: Mapping[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
