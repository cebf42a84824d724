#!/usr/bin/env python3
"""Who may include whom, as a table: the layers of the tree and the one place of each library. Each room
(folder) opens with the same in words, and each rule of the operator has a test of its own."""
import collections
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = ("base", "api", "operator", "trainer")
SOURCES = (".h", ".cc", ".cu", ".cuh")

# Folder: what it may include besides itself: a folder alone, a folder with all below it ("api/*"), or a
# header. The longest match rules, so a room that has a line of its own is not part of its parent.
LAYERS = {
    "base": [],

    "api/v1": ["base"],
    "api/proto": ["base"],

    "operator/kube": ["base"],
    "operator/kube/cache": ["base", "operator/kube"],
    "operator/kube/rest": ["base", "operator/kube", "api/v1/yaml.h"],  # kubeconfigs are YAML
    "operator/kube/runtime": ["base", "operator/kube", "operator/kube/cache"],
    "operator/controller/state": ["base", "api/v1", "operator/kube", "operator/kube/cache"],
    "operator/controller/children": ["base", "api/v1", "operator/kube", "operator/controller/state"],
    "operator/controller/rules/parts": ["base", "api/v1", "operator/controller/state", "operator/controller/children"],
    "operator/controller/rules": ["base", "api/v1", "operator/kube", "operator/controller/state",
                                  "operator/controller/children", "operator/controller/rules/parts"],
    "operator/controller/memory": ["base", "api/v1", "operator/kube", "operator/kube/cache", "operator/controller/state",
                                   "operator/controller/children", "operator/controller/rules", "operator/controller/rules/parts"],
    "operator/controller": ["base", "api/v1", "operator/kube", "operator/kube/cache", "operator/kube/runtime",
                            "operator/controller/*"],
    "operator/local": ["base", "api/v1", "operator/kube", "operator/controller/state"],
    "operator/progress": ["base", "api/*", "operator/controller/state"],
    "operator/metrics": ["base", "api/v1", "operator/kube", "operator/kube/runtime"],
    "operator/health": ["base", "operator/kube"],
    "operator/cli/files": ["base", "api/*", "operator/kube"],
    "operator/cli/cluster": ["base", "api/*", "operator/kube", "operator/kube/rest", "operator/controller",
                             "operator/controller/state", "operator/controller/children"],
    "operator/cli/text": ["base", "api/*", "operator/kube", "operator/controller/state", "operator/cli/cluster"],
    "operator/cli/logs": ["base", "api/*", "operator/kube", "operator/kube/rest", "operator/controller",
                          "operator/controller/state", "operator/cli/cluster", "operator/cli/text"],
    "operator/cli/top": ["base", "api/*", "operator/kube", "operator/kube/rest", "operator/controller",
                         "operator/controller/state", "operator/controller/children", "operator/cli/cluster",
                         "operator/cli/local", "operator/cli/text"],
    "operator/cli/local": ["base", "api/*", "operator/kube", "operator/controller/*", "operator/local",
                           "operator/progress", "operator/cli/files", "operator/cli/text",
                           "operator/cli/exit_codes.h"],
    "operator/cli/ui": ["base", "api/*", "operator/kube", "operator/kube/rest", "operator/controller",
                        "operator/controller/state", "operator/cli/cluster", "operator/cli/local",
                        "operator/cli/logs", "operator/cli/text", "operator/cli/top"],
    "operator/cli": ["base", "api/*", "operator/kube/*", "operator/controller/*", "operator/local",
                     "operator/cli/*"],
    "operator/server": ["base", "api/v1", "operator/kube", "operator/kube/rest", "operator/kube/runtime",
                        "operator/controller", "operator/controller/children", "operator/controller/state",
                        "operator/health", "operator/metrics", "operator/progress"],
    "operator": ["base", "operator/server"],  # main.cc

    "trainer/core": ["base"],
    "trainer/backend": ["base", "trainer/core"],
    "trainer/nn": ["base", "trainer/core", "trainer/backend"],
    "trainer/optim": ["base", "api/v1", "trainer/core", "trainer/backend", "trainer/nn"],
    "trainer/models": ["base"],
    "trainer/data": ["base", "api/v1", "trainer/core"],
    "trainer/data/formats": ["base", "api/v1", "trainer/core", "trainer/data"],
    "trainer/comm": ["base", "api/v1", "trainer/core"],
    "trainer/checkpoint": ["base", "api/v1", "trainer/core"],
    "trainer/observe": ["base", "api/v1", "trainer/core", "trainer/data"],
    "trainer/identity": ["base", "api/v1"],
    "trainer/rendezvous": ["base", "api/*", "trainer/comm", "trainer/identity", "trainer/rendezvous/gate"],
    "trainer/rendezvous/gate": ["base", "api/*", "trainer/identity"],
    "trainer/supervisor": ["base", "api/v1", "trainer/observe", "trainer/identity", "trainer/rendezvous"],
    "trainer/strategy": ["base", "api/v1", "trainer/comm", "trainer/identity", "trainer/rendezvous"],
    "trainer/strategy/parameter_server": ["base", "api/*", "trainer/core", "trainer/backend", "trainer/optim",
                                          "trainer/comm", "trainer/identity", "trainer/rendezvous",
                                          "trainer/rendezvous/gate"],
    "trainer/train": ["base", "api/*", "trainer/core", "trainer/backend", "trainer/nn", "trainer/optim", "trainer/models",
                      "trainer/data", "trainer/data/formats", "trainer/comm", "trainer/checkpoint", "trainer/observe",
                      "trainer/identity", "trainer/rendezvous", "trainer/supervisor", "trainer/strategy",
                      "trainer/strategy/parameter_server", "trainer/export"],
    "trainer/train/bench": ["base", "api/v1", "trainer/backend", "trainer/data", "trainer/observe", "trainer/strategy",
                            "trainer/train"],
    "trainer/train/evaluator": ["base", "api/v1", "trainer/data", "trainer/checkpoint", "trainer/observe",
                                "trainer/identity", "trainer/rendezvous", "trainer/supervisor", "trainer/train"],
    "trainer/plan": ["base", "api/v1", "trainer/backend", "trainer/nn", "trainer/data", "trainer/data/formats",
                     "trainer/identity", "trainer/strategy", "trainer/strategy/parameter_server", "trainer/export", "trainer/train"],
    "trainer/check": ["base", "api/v1", "trainer/core", "trainer/backend", "trainer/train", "trainer/train/bench"],
    "trainer/export": ["base", "trainer/core", "trainer/backend", "trainer/nn", "trainer/checkpoint",
                       "trainer/identity"],
    "trainer": ["base", "api/*", "trainer/*"],  # main.cc
}

# Folders in a folder that know their parent but not each other, and who puts them together.
SIBLINGS = {
    "trainer/backend": ["trainer/backend/make_backend.cc"],
    "trainer/comm": ["trainer/comm/make_communicator.cc", "trainer/comm/gradient_buffer.cc",
                     "trainer/comm/make_stream_communicator.cc", "trainer/comm/root_memory.cc"],
}

# A library's headers, and the only paths that may include them.
LIBRARIES = [
    (r"(oneapi/)?dnnl", ["trainer/backend/cpu/"]),
    (r"cu(dnn|blas|rand|da)|cub/", ["trainer/backend/cuda/", "trainer/comm/nccl/"]),
    (r"gloo/", ["trainer/comm/gloo/"]),
    (r"nccl", ["trainer/comm/nccl/"]),
    (r"grpc(pp)?/|.*\.grpc\.pb\.h", ["trainer/rendezvous/", "trainer/strategy/parameter_server",
                                     "operator/progress/", "trainer/main.cc"]),
    (r"google/protobuf/stubs/logging", ["api/proto/protobuf_log.cc"]),
    (r"cpprest/|pplx/|boost/", ["operator/kube/rest/http_transport.cc", "operator/kube/rest/write_only_buffer.h"]),
    (r"prometheus/", ["trainer/observe/", "operator/metrics/"]),
    (r"simdjson", ["operator/kube/rest/object_json.cc"]),
    (r"yaml-cpp/", ["api/v1/"]),
    (r"jpeglib|jerror|turbojpeg", ["trainer/data/decode_jpeg.cc"]),
    (r"png\.h", ["trainer/data/decode_png.cc"]),
    (r"CLI/", ["operator/cli/", "operator/server/flags.cc", "trainer/main.cc"]),
]

# The first comment of a room's CMakeLists.txt: who lives there, what it may include, what must not be there.
ROOM = re.compile(r"(?P<who>[A-Z`].+?\.) Includes (?P<includes>.+?)\. Not here: (?P<not_here>.+\.)")

# A reader can take in a folder and a source of this size.
MOST_SOURCES, MOST_LINES = 30, 400
# A path of CONTRIBUTING.md that stands for a new source: those folders have a free place, so that whoever fills it
# divides the folder, and nobody finds out at the end that it was full.
NEW_SOURCE = re.compile(r"`([a-z_/]+)/(?:observed_)?your_\w+\.(?:cc|h)`")
# A word that a folder never says, comments included.
WORDS = [("operator/kube/", "TrainingJob")]

# What only these files may say, and what all others do instead.
ONLY_IN = [
    # A strategy's name: the enum and its names, the table of traits, which one a job without any has, and which
    # class combines its gradients.
    (re.compile(r"StrategyType::k|using enum [\w:]*StrategyType"), "ask TraitsOf (api/v1/strategy_traits.h)", [
        "api/v1/training_job.h", "api/v1/enum_names.h", "api/v1/strategy_traits.cc", "api/v1/defaults.cc",
        "trainer/strategy/make_strategy.cc"]),
    # A data format's: the enum and its names, the table of traits, what opens it, and what a new job of it starts from
    # (generated data, if it names none, as a timed training has).
    (re.compile(r"DatasetFormat::k|using enum [\w:]*DatasetFormat"), "ask TraitsOf (api/v1/format_traits.h)", [
        "api/v1/training_job.h", "api/v1/enum_names.h", "api/v1/format_traits.cc",
        "trainer/data/formats/open_datasets.cc", "operator/cli/init_command.cc",
        "trainer/train/bench/solo_training.cc"]),
]

# What a file opens in column 0: a namespace without a type is passed over, one with types is entered and left;
# a type in it is defined, by name. A definition outside of its class ("class Pool::Run {") is no new type.
DEFINITION = re.compile(
    r"^(?:namespace [\w:]+ \{[^{}]*\}(?!  // namespace)"
    r"|namespace ?(?P<entered>[\w:]*) \{|(?P<left>\}  // namespace)"
    r"|(?:template <[^{;]*?>\s*)?(?:class|struct|union|enum(?: class)?) (?P<type>\w+(?:<[^{;]*?>)?)"
    r"(?: final)?(?:\s*:(?!:)[^{;]*)?\s*\{"
    r"|using (?P<alias>\w+) =)", re.MULTILINE)

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def layer_of(path):
    """The longest entry of LAYERS that holds `path`, or None."""
    folders = [str(p) for p in pathlib.PurePosixPath(path).parents]
    return next((folder for folder in folders if folder in LAYERS), None)


def is_below(path, folder):
    return path == folder or path.startswith(folder + "/")


def may_include(layer, header):
    target = layer_of(header)
    return target == layer or any(
        is_below(target or header, entry.removesuffix("/*")) if entry.endswith("/*") else entry in (target, header)
        for entry in LAYERS[layer])


def sibling_of(path, parent):
    """The folder directly below `parent` that `path` lies in, or None."""
    rest = path.removeprefix(parent + "/")
    return rest.split("/")[0] if rest != path and "/" in rest else None


def faults_of_include(path, quote, header):
    layer = layer_of(path)
    if quote == '"' and header.startswith(tuple(top + "/" for top in CODE)):
        if not may_include(layer, header):
            yield f"{path}: includes {header}, but {layer} may include only {LAYERS[layer]}"
        for parent, joints in SIBLINGS.items():
            mine, theirs = sibling_of(path, parent), sibling_of(header, parent)
            if theirs and mine != theirs and path not in joints and is_below(path, parent):
                yield f"{path}: includes {header}; only {joints} join the folders of {parent}"
    for pattern, places in LIBRARIES:
        if re.match(pattern, header) and not path.startswith(tuple(places)):
            yield f"{path}: includes {header}, which only {places} may"


def faults_of_file(path, text):
    """Every breach of the tables in one file; `path` is relative to the root."""
    if layer_of(path) is None:
        yield f"{path}: its folder is in no layer; add it to LAYERS"
        return
    for quote, header in INCLUDE.findall(text):
        yield from faults_of_include(path, quote, header)
    for place, word in WORDS:
        if path.startswith(place) and word in text:
            yield f"{path}: says {word}, which {place} knows nothing of"
    for pattern, instead, places in ONLY_IN:
        if path not in places and (found := pattern.search(text)):
            yield f"{path}: says {found[0]}, which only {places} may; {instead}"


def rooms():
    """Each folder that has sources or is in LAYERS."""
    return sorted({pathlib.PurePosixPath(path).parent.as_posix() for path, _ in source_files()} | set(LAYERS))


def includes_in_words(room):
    if room in LAYERS:
        return ", ".join(LAYERS[room]) or "nothing of ours"
    parent = room.rpartition("/")[0]
    return f"what {parent} may" + (", but no folder beside it" if parent in SIBLINGS else "")


def first_comment(text):
    lines = []
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        lines.append(line.removeprefix("# "))
    return " ".join(lines)


def faults_of_room(room, text):
    """Every breach in the first comment of a room's CMakeLists.txt."""
    comment = ROOM.fullmatch(first_comment(text))
    if comment is None:
        yield (f"{room}/CMakeLists.txt: opens with '{first_comment(text)}', expected '# WHO. Includes WHAT. "
               f"Not here: WHAT.'")
    elif comment["includes"] != includes_in_words(room):
        yield f"{room}/CMakeLists.txt: 'Includes {comment['includes']}', expected 'Includes {includes_in_words(room)}'"


def types_of(text):
    """The full names of the types that a file defines outside of anonymous namespaces and of other types."""
    namespaces = []
    for found in DEFINITION.finditer(text):
        if found["entered"] is not None:
            namespaces.append(found["entered"])
        elif found["left"]:
            namespaces.pop()
        elif (found["type"] or found["alias"]) and "" not in namespaces:
            yield "::".join([*namespaces, found["type"] or found["alias"]])


def faults_of_types(files):
    """Each type that several files define. The linker keeps one of the functions that have the same name, so
    objects of the other type would be read by a function that has another layout in mind."""
    homes = {}
    for path, text in files:
        for name in types_of(text):
            homes.setdefault(name, []).append(path)
    return [f"{name} is defined in {' and in '.join(paths)}" for name, paths in homes.items() if len(paths) > 1]


def sources_in_folders():
    return collections.Counter(path.parent.relative_to(ROOT).as_posix() for top in (*CODE, "tests")
                               for path in (ROOT / top).rglob("*.cc"))


def source_files():
    for top in CODE:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in SOURCES:
                yield path.relative_to(ROOT).as_posix(), path.read_text()


class LayeringTest(unittest.TestCase):
    def test_the_tree_keeps_its_layers(self):
        files = list(source_files())
        self.assertGreater(len(files), 20)
        faults = [fault for path, text in files for fault in faults_of_file(path, text)]
        self.assertEqual([], faults, "\n" + "\n".join(faults))

    def test_what_only_some_files_may_say_is_said_there(self):
        for pattern, _, places in ONLY_IN:
            for place in places:
                self.assertRegex((ROOT / place).read_text(), pattern, place)

    def test_each_type_is_defined_once(self):
        files = list(source_files())
        self.assertGreater(sum(1 for _, text in files for _ in types_of(text)), 500)
        faults = faults_of_types(files)
        self.assertEqual([], faults, "\n" + "\n".join(faults))

    def test_a_type_that_is_defined_twice_is_found(self):
        inside = "namespace lockstep::train {{\n{}\n}}  // namespace lockstep::train\n".format
        for one, other in (
                ("struct A {\n};", "class A final : public B {\n};"),
                ("enum class A { kX };", "class A\n    : public B {\n};"),
                ("using A = int;", "struct A {};"),
                ("template <typename T>\nclass A {\n};", "struct A {};"),
                ("template <>\nstruct A<int> {\n};", "template <>\nstruct A<int> {\n};"),
                ("namespace cpu {\nclass B;\n}\nstruct A {};", "struct A {};")):
            with self.subTest(one=one, other=other):
                faults = faults_of_types([("a.h", inside(one)), ("b.h", inside(other))])
                self.assertEqual(1, len(faults))
                self.assertIn("defined in a.h and in b.h", faults[0])

    def test_types_that_differ_are_no_fault(self):
        inside = "namespace lockstep::train {{\n{}\n}}  // namespace lockstep::train\n".format
        for text in (inside("class A;"), inside("namespace cpu {\n\nstruct A {};\n\n}  // namespace cpu"),
                     inside("namespace {\n\nstruct A {};\n\n}  // namespace"), inside("class A::Inner {\n};"),
                     inside("struct B {\n  struct A {};\n};"), "namespace lockstep::api {\nstruct A {};\n}  // namespace\n"):
            with self.subTest(text=text):
                self.assertEqual([], faults_of_types([("a.h", inside("struct A {};")), ("b.cc", text)]))

    def test_each_header_is_included_by_another_source_of_the_product(self):
        """What only tests include belongs in tests/support."""
        users = {}
        for path, text in source_files():
            for _, header in INCLUDE.findall(text):
                users.setdefault(header, set()).add(path.rpartition(".")[0])
        # The build itself writes a header of Gloo that includes ours.
        made = "".join((ROOT / room / "CMakeLists.txt").read_text() for room in rooms()
                       if (ROOT / room / "CMakeLists.txt").is_file())
        self.assertEqual([], [path for path, _ in source_files() if path.endswith(".h") and path not in made
                              and not users.get(path, set()) - {path.removesuffix(".h")}])

    def test_the_table_has_no_cycles(self):
        def direct(layer):
            return {other for other in LAYERS if other != layer and any(
                is_below(other, entry.removesuffix("/*")) if entry.endswith("/*") else other == entry
                for entry in LAYERS[layer])}

        def reach(layer, seen):
            for other in direct(layer) - seen:
                seen.add(other)
                reach(other, seen)
            return seen
        for layer in LAYERS:
            self.assertNotIn(layer, reach(layer, set()))

    def test_the_table_allows_nothing_that_is_not_used(self):
        used = {}
        for path, text in source_files():
            for quote, header in INCLUDE.findall(text):
                if quote == '"':
                    used.setdefault(layer_of(path), set()).update((layer_of(header), header))
        for layer, entries in LAYERS.items():
            for entry in entries:
                with self.subTest(layer=layer, entry=entry):
                    # Who includes a folder below another may include that one, too.
                    self.assertTrue(any(other and other != layer and is_below(other, entry.removesuffix("/*"))
                                        for other in used.get(layer, ())))

    def test_each_room_opens_with_a_comment(self):
        faults = []
        for room in rooms():
            path = ROOT / room / "CMakeLists.txt"
            if room not in LAYERS and not path.is_file():
                continue  # its sources are listed by its parent, and so are part of that room
            faults += faults_of_room(room, path.read_text() if path.is_file() else "")
        self.assertEqual([], faults, "\n" + "\n".join(faults))

    def test_a_room_without_its_comment_is_found(self):
        self.assertEqual([], list(faults_of_room("trainer/core", "# Types. Includes base.\n# Not here: ops.\nx()\n")))
        self.assertEqual([], list(faults_of_room(
            "trainer/comm/shm", "# Memory. Includes what trainer/comm may, but no folder beside it. Not here: TCP.")))
        for text in ("", "x()", "# Types.\nx()", "# Types. Includes base.\n", "x()\n# Types. Includes base. Not here: ops.",
                     "# Types. Includes base, api/*. Not here: ops.", "# Types. Includes. Not here: ops.",
                     "# Includes base. Not here: ops."):
            with self.subTest(text=text):
                self.assertEqual(1, len(list(faults_of_room("trainer/core", text))))

    def test_each_rule_has_a_test_of_its_own(self):
        rules = sorted((ROOT / "operator/controller/rules").glob("*_rule.cc"))
        self.assertGreater(len(rules), 10)
        for rule in rules:
            test = ROOT / "tests" / rule.relative_to(ROOT).with_name(rule.stem + "_test.cc")
            self.assertTrue(test.is_file(), test)
            self.assertIn("TEST", test.read_text(), test)

    def test_a_rule_is_in_a_file_of_rules_and_in_the_table(self):
        folder = ROOT / "operator/controller/rules"
        self.assertGreater(len(list((folder / "parts").glob("*.h"))), 10)
        declared = {path.name: set(re.findall(r"^std::optional<Plan> (Plan\w+)\(", path.read_text(), re.MULTILINE))
                    for path in folder.rglob("*.h")}
        table = re.search(r"kRules\[\] = \{(.*?)^\};", (folder / "make_plan.cc").read_text(), re.MULTILINE | re.DOTALL)
        in_order = re.findall(r"^ +(\w+),$", table.group(1), re.MULTILINE)
        self.assertGreater(len(in_order), 10)
        self.assertEqual(sorted(in_order), sorted(set().union(*declared.values())))
        self.assertEqual([], sorted(name for name, rules in declared.items() if bool(rules) != name.endswith("_rule.h")))

    def test_no_folder_has_too_many_sources(self):
        faults = [f"{folder}: {count} sources, expected at most {MOST_SOURCES}: divide it by subject, in a commit of its own"
                  for folder, count in sorted(sources_in_folders().items()) if count > MOST_SOURCES]
        self.assertEqual([], faults, "\n" + "\n".join(faults))

    def test_a_folder_into_which_a_recipe_puts_a_source_has_room(self):
        sizes = sources_in_folders()
        folders = set(NEW_SOURCE.findall((ROOT / "CONTRIBUTING.md").read_text()))
        self.assertGreater(len(folders), 10)
        faults = [f"{folder}: {sizes[folder]} sources, expected fewer than {MOST_SOURCES}, because a section of CONTRIBUTING.md "
                  "puts another one there: divide it by subject, in a commit of its own"
                  for folder in sorted(folders) if sizes[folder] >= MOST_SOURCES]
        self.assertEqual([], faults, "\n" + "\n".join(faults))

    def test_no_source_is_too_long(self):
        lengths = {path: text.count("\n") for path, text in source_files() if path.endswith((".cc", ".cu"))}
        faults = [f"{path}: {count} lines, expected at most {MOST_LINES}: divide it by subject, in a commit of its own"
                  for path, count in lengths.items() if count > MOST_LINES]
        self.assertEqual([], faults, "\n" + "\n".join(faults))

    def test_breaches_are_found(self):
        cases = {
            "api/v1/a.cc": '#include "operator/kube/client.h"',
            "operator/kube/a.cc": '#include "operator/controller/rules/parts/plan.h"',
            "operator/kube/b.h": "// for TrainingJob",
            "operator/controller/a.cc": '#include "trainer/core/tensor.h"',
            "operator/main.cc": '#include "trainer/core/tensor.h"',
            "trainer/core/a.h": '#include "trainer/backend/backend.h"',
            "trainer/data/a.cc": '#include "trainer/nn/model.h"',
            "trainer/backend/cpu/a.cc": '#include "trainer/backend/reference/conv2d.h"',
            "trainer/backend/a.cc": '#include "trainer/backend/cpu/conv2d.h"',
            "trainer/backend/reference/a.cc": "#include <dnnl.hpp>",
            "trainer/comm/b.cc": "  #  include <gloo/context.h>",
            "trainer/train/a.cc": "#include <grpcpp/grpcpp.h>",
            "trainer/train/b.cc": '#include "api/proto/rendezvous.grpc.pb.h"',
            "operator/kube/c.cc": "#include <cpprest/http_client.h>",
            "operator/kube/d.cc": '#include "api/v1/training_job.h"',
            "trainer/train/c.cc": "if (spec.type == api::StrategyType::kMirrored) return;",
            "operator/controller/rules/b.cc": "using enum api::StrategyType;",
            "trainer/plan/a.cc": "if (spec.format == api::DatasetFormat::kCsv) return 1;",
            "api/v1/b.h": "case StrategyType::kIndependent:",
            "elsewhere/a.cc": "",
        }
        for path, text in cases.items():
            with self.subTest(path=path, text=text):
                self.assertEqual(1, len(list(faults_of_file(path, text))))

    def test_what_is_allowed_is_not_a_fault(self):
        cases = {
            "api/v1/a.cc": '#include "base/clock.h"\n#include <yaml-cpp/parser.h>',
            "operator/kube/rest/http_transport.cc": "#include <cpprest/http_client.h>",
            "operator/kube/rest/a.cc": '#include "api/v1/yaml.h"',
            "trainer/backend/make_backend.cc": '#include "trainer/backend/cpu/cpu_backend.h"',
            "trainer/backend/cpu/a.cc": '#include "trainer/backend/backend.h"\n#include <dnnl.hpp>',
            "trainer/main.cc": '#include "trainer/train/train_loop.h"\n#include "api/v1/names.h"',
            "operator/cli/run.cc": '#include "operator/local/process_kubelet.h"',
            "api/v1/strategy_traits.cc": "case StrategyType::kIndependent:",
            "trainer/train/d.cc": "api::NameOf(api::StrategyType(spec.type))",
        }
        for path, text in cases.items():
            with self.subTest(path=path):
                self.assertEqual([], list(faults_of_file(path, text)))


if __name__ == "__main__":
    sys.exit(unittest.main())
