#!/usr/bin/env python3
"""What the pages name is there: what their shell blocks call (targets, programs, options, files), and the
paths by which architecture.md and CONTRIBUTING.md explain the tree."""
import collections
import os
import pathlib
import re
import shlex
import sys
import unittest

import yaml

from layering_test import LAYERS

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", "charts/lockstep/README.md", *sorted(
    path.relative_to(ROOT).as_posix() for folder in ("docs", "examples")
    for path in (ROOT / folder).rglob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
# Programs of the system, whose arguments are their own business.
SYSTEM = {"cat", "cd", "ctest", "curl", "cut", "docker", "echo", "export", "git", "grep", "helm", "kill", "kind", "kubectl", "pip", "python3", "rm", "ss", "tail", "tensorboard"}
# Where each of our programs declares its subcommands and options, as a glob.
PROGRAMS = {"lockstep": "operator/cli/*.cc", "lockstep-trainer": "trainer/main.cc",
            "lockstep-operator": "operator/server/flags.cc"}
SUBCOMMAND = re.compile(r'add_subcommand\(\s*"([a-z-]+)"')
OPTION = re.compile(r'["!,](--[a-z-]+)(?=[",])')
# Pages that explain the tree, by paths in backticks.
TREE_PAGES = ["docs/architecture.md", "CONTRIBUTING.md"]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:cc|h|py|md|yaml|json)")
# The reasons of events and conditions that the operator writes are among the texts of these sources that look like
# one. So do some words of Kubernetes and Kueue, which it reads or writes elsewhere.
REASON_SOURCES = ["api/v1/conditions.h", "operator/controller/*.cc", "operator/controller/memory/*.cc",
                  "operator/controller/rules/**/*.cc", "operator/controller/rules/**/*.h", "operator/controller/state/observed.h"]
REASON = re.compile(r'"([A-Z][a-z]+(?:[A-Z][a-z]+)*)"')
NO_REASONS = {"ContainerStatusUnknown", "Created", "Completed", "ErrImageNeverPull", "ErrImagePull", "Error", "Failed", "Finished",
              "ImagePullBackOff", "InvalidImageName", "InvalidNodeInfo", "NodeAffinity", "NodeLost", "NodePorts",
              "NodeShutdown", "Opaque", "OutOf", "Pending", "PodLost", "PodVanished", "Preempted", "Preempting",
              "Reconcile", "Shutdown", "TaintToleration", "Terminated", "TopologyAffinityError",
              "UnexpectedAdmissionError", "Unknown"}
REASON_ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
# Made by a build, and the last part of a path that stands for yours.
MADE = ("build/",)
# A pip that is not a virtual environment's, which Debian's Python refuses; in a Dockerfile it is another Python's.
BARE_PIP = re.compile(r"(?<![\w/.-])pip3? install\b")
DOCKERFILE = re.compile(r"^```Dockerfile\n.*?^```", re.MULTILINE | re.DOTALL)
YOURS = re.compile(r"^((observed_)?your_|YOUR|SCENARIO|DIR)")
TARGET = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)
VARIABLE = re.compile(r"^([A-Z0-9_]+) [?:]=", re.MULTILINE)


def blocks(text):
    return BLOCK.findall(text)


def commands(block):
    """Each simple command of a block, as words; those in $(…) are commands of their own."""
    block = re.sub(r"\\\n\s*", " ", block)
    for inner in re.findall(r"\$\(([^()]*)\)", block):
        yield from commands(inner)
    block = re.sub(r"\$\([^()]*\)", "SUBSTITUTED", block)
    for line in block.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&")
        lexer.whitespace_split = True  # also drops comments
        words = []
        for word in [*lexer, ";"]:
            if set(word) <= set("|;&"):
                while words and re.match(r"[A-Z_]+=", words[0]):
                    words.pop(0)
                if words:
                    yield words
                words = []
            else:
                words.append(word)


def anchors(text):
    """As GitHub makes them of the headings."""
    found = []
    for heading in HEADING.findall(FENCED.sub("", text)):
        said = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", said).replace(" ", "-")
        earlier = found.count(anchor)
        found.append(f"{anchor}-{earlier}" if earlier else anchor)
    return found


def faults_of_links(page, text):
    faults = []
    for target, anchor in LINK.findall(text):
        path = (ROOT / page).parent / target if target else ROOT / page
        if target and not path.exists():
            faults.append(f"{page}: {target}")
        elif anchor and anchor not in anchors(path.read_text() if target else text):
            faults.append(f"{page}: {target}#{anchor}")
    return faults


def declared(pattern, glob):
    return {name for path in ROOT.glob(glob) for name in pattern.findall(path.read_text())}


def faults_of_program(name, words):
    source = PROGRAMS[name]
    if not list(ROOT.glob(source)):
        yield f"{name} has no {source}"
        return
    if words[1:] and words[1] not in declared(SUBCOMMAND, source):
        if words[1] not in declared(OPTION, source):
            yield f"{name} has no subcommand {words[1]}"
    for word in words[2:]:
        if word.startswith("--") and word.split("=")[0] not in declared(OPTION, source):
            yield f"{name} {words[1]} has no option {word}"


def spec_of_example(job):
    """That of the example of this name; None of any other name, which is the reader's own job."""
    for path in (ROOT / "examples").rglob("*.yaml"):
        for entry in yaml.safe_load_all(path.read_text()):
            if entry.get("kind") == "TrainingJob" and entry["metadata"]["name"] == job:
                return entry["spec"]
    return None


def is_elastic(job):
    spec = spec_of_example(job)
    return spec is None or "elastic" in spec


def faults_of_logs(words):
    """`lockstep logs NAME --role ROLE --index INDEX` of a replica that the example of this name lacks."""
    spec = spec_of_example(words[2]) if len(words) > 2 else None
    given = dict(zip(words[3:], words[4:]))
    if spec is None or "--role" not in given:
        return
    roles = {role.lower(): replicas for role, replicas in spec["replicaSpecs"].items()}
    role, index = given["--role"], int(given.get("--index", 0))
    if index >= (roles[role].get("replicas", 1) if role in roles else 0):
        yield f"the example {words[2]} has no {role}-{index}"


def faults_of_kubectl(words):
    jobs = [word.partition("/")[2] for word in words if re.match(r"(tj|trainingjobs?)/", word)]
    if words[1:2] == ["scale"]:
        for job in jobs:
            if not is_elastic(job):
                yield f"the API server does not let the example {job}, which has no `elastic`, be scaled"
    if words[1:2] == ["wait"] and jobs and not any(word.startswith("--timeout") for word in words):
        yield "kubectl waits only 30 s for a job without --timeout"


def faults_of_command(words, folder, made):
    """`made` are the files that the commands before it have written."""
    program = words[0]
    name = program.rsplit("/", 1)[-1]
    if name in PROGRAMS and ("/" not in program or "build/release/bin/" in program):
        yield from faults_of_program(name, words)
        if words[1:2] == ["logs"]:
            yield from faults_of_logs(words)
    elif program.startswith("build/release/tests/"):
        if not any(f"lockstep_test({name}\n" in path.read_text() for path in (ROOT / "tests").rglob("CMakeLists.txt")):
            yield f"there is no test program {name}"
    elif program == "make":
        for word in words[1:]:
            name, is_variable, _ = word.partition("=")
            if name not in declared(VARIABLE if is_variable else TARGET, "Makefile"):
                yield f"make has no {'variable' if is_variable else 'target'} {name}"
    elif program.startswith("tools/"):
        if not (ROOT / program).is_file():
            yield f"{program} does not exist"
        elif program == "tools/setup":
            for word in words[1:]:
                if f"setup_{word}()" not in (ROOT / program).read_text():
                    yield f"tools/setup has no part {word}"
        else:
            text = (ROOT / program).read_text()
            for word in words[1:]:
                if word.startswith("--") and f'"{word}"' not in text:
                    yield f"{program} has no option {word}"
    elif program == "kubectl":
        yield from faults_of_kubectl(words)
    elif name not in SYSTEM:
        yield f"{program} is neither ours nor one of {sorted(SYSTEM)}"
    for word in words[1:]:
        if word.startswith(("examples/", "tests/", "docs/", "tools/", "manifests/", "charts/")) or word.endswith(".yaml"):
            if word not in made and not word.startswith("-") and not (folder / word).exists():
                yield f"{word} does not exist in {folder}"


def faults_of_block(block):
    folder, made = ROOT, set()
    for words in commands(block):
        made |= {name for sign, name in zip(words, words[1:]) if sign == ">"}
        yield from faults_of_command(words, folder, made)
        if words[0] == "cd":
            folder = folder / words[1]


def tree():
    """Each file of the repository and each folder, with a slash at its end."""
    entries = set()
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in (".git", "build", "__pycache__")]
        here = pathlib.Path(folder).relative_to(ROOT)
        entries |= {(here / name).as_posix() for name in files} | {(here / name).as_posix() + "/" for name in folders}
    return entries


def paths_named(text):
    return [word for quoted in QUOTED.findall(FENCED.sub("", text)) for word in quoted.split()
            if PATH.fullmatch(word)]


def files_named(text):
    """The files in backticks; a name without a folder is in the folder of the path before it."""
    folder = ""
    for word in re.findall(r"`([\w./-]+\.\w+)`", text):
        if "/" in word:
            folder = word.rpartition("/")[0]
        yield word if "/" in word else f"{folder}/{word}"


def is_there(path, entries):
    """Whether a path exists. It may leave out its first folders, as the text around it says which they are."""
    if path.startswith(MADE):
        return True
    folder, _, name = path.rpartition("/")
    if YOURS.match(name):
        path = folder + "/"
    return any(entry.rstrip("/") == path.rstrip("/") or entry.rstrip("/").endswith("/" + path.rstrip("/"))
               for entry in entries if entry.endswith("/") or not path.endswith("/"))


def drawn_folders(text):
    """The folders in architecture.md's drawing of the tree: two columns, where what is indented is inside."""
    drawing = text.split("```")[1]
    folders = set()
    sides = {}  # column of a side's first folder: the folders around the present line, with their columns
    for line in drawing.splitlines():
        found = [(match.start(), match.group()) for match in re.finditer(r"(?:[a-z0-9_]+/)+[a-z0-9]*", line)]
        if not sides and [name for _, name in found] == ["operator/", "trainer/"]:
            sides = {column: [(column, name)] for column, name in found}
            folders |= {name.rstrip("/") for _, name in found}
            continue
        if not sides:
            folders |= {name.rstrip("/") for _, name in found}
            continue
        for side, around in sides.items():
            end = min((other for other in sides if other > side), default=len(line) + 1)
            here = [(column, name) for column, name in found if side <= column < end]
            if not here:
                continue
            while len(around) > 1 and around[-1][0] >= here[0][0]:
                around.pop()
            parent = "".join(name for _, name in around)
            folders |= {(parent + name).rstrip("/") for _, name in here}
            around.append(here[0])
    return folders


def fields_without_row(source, page):
    """The names of fields of which the source has more than the page's tables have rows, in all sections together."""
    rows = set()
    for section in re.split(r"^#+ ", page, flags=re.MULTILINE):
        for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
            for path in re.findall(r"`([\w.]+)`", cell):
                parts = path.split(".")
                rows |= {(section.partition("\n")[0], *parts[:end]) for end in range(1, len(parts) + 1)}
    documented = collections.Counter(row[-1] for row in rows)
    declared_fields = collections.Counter(re.findall(r'\.Field\(\s*"(\w+)"', source))
    return set(declared_fields - documented)


def checkpoint_folders(job):
    """The checkpoint folder of a job of the bundled trainer, as (claim, path in it), if it is in a claim."""
    spec = job.get("spec", {})
    directory = spec.get("training", {}).get("checkpoint", {}).get("directory")
    folders = set()
    for replica in spec.get("replicaSpecs", {}).values() if directory else []:
        pod = replica.get("template", {}).get("spec", {})
        claims = {volume["name"]: volume["persistentVolumeClaim"]["claimName"]
                  for volume in pod.get("volumes", []) if "persistentVolumeClaim" in volume}
        for container in pod.get("containers", []):
            for mount in container.get("volumeMounts", []):
                inside = pathlib.PurePath(directory)
                if mount["name"] in claims and inside.is_relative_to(mount["mountPath"]):
                    folders.add((claims[mount["name"]], inside.relative_to(mount["mountPath"])))
    return folders


class DocsTest(unittest.TestCase):
    def test_shell_blocks_call_what_is_there(self):
        count = 0
        for page in PAGES:
            for block in blocks((ROOT / page).read_text()):
                count += 1
                faults = [f"{page}: {fault}" for fault in faults_of_block(block)]
                self.assertEqual([], faults, block)
        self.assertGreater(count, 5)

    def test_pip_installs_into_a_virtual_environment(self):
        for page in PAGES:
            text = DOCKERFILE.sub("", (ROOT / page).read_text())
            self.assertEqual([], [line for line in text.splitlines() if BARE_PIP.search(line)], page)
        self.assertRegex("by `pip install jax`", BARE_PIP)

    def test_the_readme_opens_with_run_and_test(self):
        first = blocks((ROOT / "README.md").read_text())[0]
        self.assertEqual([["make", "run"], ["make", "test"]], list(commands(first)))

    def test_links_lead_somewhere(self):
        for page in PAGES:
            self.assertEqual([], faults_of_links(page, (ROOT / page).read_text()))

    def test_links_that_lead_nowhere_are_found(self):
        text = "# A `b`, [c](x.md): d\n## Twice\n## Twice\n```\n# no heading\n```\n"
        self.assertEqual(["a-b-c-d", "twice", "twice-1"], anchors(text))
        links = "[a](#a) [b](#b) [c](no.md) [d](faq.md#no) [e](https://example.org/#x) [f](faq.md)\n# A\n"
        self.assertEqual(["docs/p.md: #b", "docs/p.md: no.md", "docs/p.md: faq.md#no"], faults_of_links("docs/p.md", links))

    def test_pages_name_paths_that_exist(self):
        entries = tree()
        for page in TREE_PAGES:
            paths = paths_named((ROOT / page).read_text())
            self.assertGreater(len(paths), 20, page)
            self.assertEqual([], [path for path in paths if not is_there(path, entries)], page)

    def test_paths_that_do_not_exist_are_found(self):
        entries = tree()
        for path in ("trainer/backend/backend.h", "backend.h", "cpu/portable/", "operator/controller/rules/your_rule.h",
                     "build/lint/compile_commands.json"):
            self.assertTrue(is_there(path, entries), path)
        for path in ("trainer/backend/no_such.h", "no_such.h", "cpu/no_such/", "trainer/no_such/your_op.cc", "end.h",
                     "operator/controller/rules/plan.h/"):
            self.assertFalse(is_there(path, entries), path)
        self.assertEqual(["a/b.cc", "c/", "d.h"], paths_named("`a/b.cc`, `run c/ DIR`\n```\n`e/f.h`\n```\n`d.h`, `TEST(A)`"))

    def test_the_drawing_of_the_tree_has_every_room(self):
        drawn = drawn_folders((ROOT / "docs/architecture.md").read_text())
        self.assertEqual([], sorted(folder for folder in drawn if not (ROOT / folder).is_dir()))
        self.assertEqual([], sorted(set(LAYERS) - drawn))

    def test_the_recipe_for_an_activation_names_what_one_without_a_parameter_touches(self):
        section = re.search(r"^## Add an activation\n(.*?)^## ", (ROOT / "CONTRIBUTING.md").read_text(),
                            re.MULTILINE | re.DOTALL).group(1)
        section = section.partition("If the formula has a parameter")[0]
        named = {path.replace("your_activation", "tanh") for path in re.findall(r"`([a-z_/-]+/[\w./-]+)`", section)
                 if "." in path}
        mentions = re.compile(r"\btanh\b|kTanh")
        touched = {path.relative_to(ROOT).as_posix()
                   for folder in ("api", "charts", "docs", "tests/golden", "tests/integration", "tests/peer", "trainer")
                   for path in (ROOT / folder).rglob("*")
                   if path.is_file() and mentions.search(path.read_text(errors="replace"))}
        self.assertEqual(touched, named)

    def test_the_recipe_for_an_activation_names_what_one_with_a_parameter_touches(self):
        section = re.search(r"^## Add an activation\n(.*?)^## ", (ROOT / "CONTRIBUTING.md").read_text(),
                            re.MULTILINE | re.DOTALL).group(1)
        mentions = re.compile(r"leaky_?relu|\bfloat slope\b|\bslope_", re.IGNORECASE)
        touched = {path.relative_to(ROOT).as_posix() for path in (ROOT / "trainer").rglob("*")
                   if path.is_file() and mentions.search(path.read_text(errors="replace"))}
        self.assertGreater(len(touched), 10)
        self.assertEqual([], sorted(touched - set(files_named(section))))

    def test_the_recipe_for_an_op_names_what_the_last_one_touched(self):
        section = re.search(r"^## Add an op\n(.*?)^## ", (ROOT / "CONTRIBUTING.md").read_text(),
                            re.MULTILINE | re.DOTALL).group(1).replace("your_op", "layer_norm")
        named = set(files_named(section))
        mentions = re.compile(r"LayerNorm|layer_norm")
        touched = {path.relative_to(ROOT).as_posix()
                   for folder in ("api", "charts", "docs", "tests", "trainer")
                   for path in (ROOT / folder).rglob("*")
                   if path.is_file() and (path.suffix != ".json" or folder == "api") and path != pathlib.Path(__file__)
                   and "__pycache__" not in path.parts and mentions.search(path.read_text(errors="replace"))}
        self.assertGreater(len(touched), 20)
        self.assertEqual([], sorted(touched - named))

    def test_the_recipe_for_a_kind_names_what_reads_the_last_one(self):
        section = re.search(r"^## Read a new kind of object\n(.*?)^## ", (ROOT / "CONTRIBUTING.md").read_text(),
                            re.MULTILINE | re.DOTALL).group(1).replace("your_kind", "pod_group")
        named = set(files_named(section))
        mentions = re.compile(r"(Store|FollowedKind|optional)<ObservedPodGroup>[*{ ]+\w+;?|"
                              r"\bPodGroupFields\b|\bstores_?\.pod_groups\b")
        touched = {path.relative_to(ROOT).as_posix()
                   for folder in ("operator", "tests/operator")
                   for path in (ROOT / folder).rglob("*")
                   if path.suffix in (".h", ".cc") and mentions.search(path.read_text())}
        self.assertGreater(len(touched), 6)
        # The executor also writes PodGroups.
        self.assertEqual([], sorted(touched - named - {"operator/controller/plan_executor.cc"}))
        self.assertEqual([], [path for path in named if not (ROOT / path).is_file()])
        # A kind that is not optional and whose objects belong to jobs takes these, and the rule's header, source and table.
        other = {"job_controller.h", "job_controller.cc", "settings.h", "flags.h", "flags.cc", "process_options.cc"}
        code = {path for path in named if path.startswith("operator/") and path.endswith((".h", ".cc"))
                and path.rpartition("/")[2] not in other}
        self.assertLessEqual(len(code) + 3, 10, sorted(code))

    def test_the_recipe_for_a_format_names_what_one_with_settings_touched(self):
        section = re.search(r"^## Add a data format\n(.*?)^## ", (ROOT / "CONTRIBUTING.md").read_text(),
                            re.MULTILINE | re.DOTALL).group(1).replace("your_format", "tfrecord")
        named = set(files_named(section))
        mentions = re.compile(r"tfrecord|TfRecord")
        touched = {path.relative_to(ROOT).as_posix()
                   for folder in ("api", "charts", "docs", "operator", "tests", "trainer")
                   for path in (ROOT / folder).rglob("*")
                   if path.suffix in (".cc", ".h", ".md", ".py", ".txt", ".yaml") and path != pathlib.Path(__file__)
                   and mentions.search(path.read_text())}
        self.assertGreater(len(touched), 25)
        # One tests what is done with files, by those of this format.
        self.assertEqual([], sorted(touched - named - {"tests/local_run/auto_shard_test.py"}))

    def test_the_recipe_for_a_strategy_names_what_the_last_one_touched(self):
        section = re.search(r"^## Add a strategy\n(.*)", (ROOT / "CONTRIBUTING.md").read_text(),
                            re.MULTILINE | re.DOTALL).group(1)
        named = set(files_named(section))
        mentions = re.compile(r"\bk?CentralStorage(Spec)?\b|central_storage|centralStorage|first_process_updates")
        touched = {path.relative_to(ROOT).as_posix()
                   for folder in ("api", "operator", "trainer", "tests/integration")
                   for path in (ROOT / folder).rglob("*")
                   if path.is_file() and path.suffix != ".pyc"
                   and mentions.search(re.sub("//.*", "", path.read_text(errors="replace")))}
        self.assertGreater(len(touched), 9)
        self.assertEqual([], sorted(touched - named - {"api/crd/trainingjobs.yaml"}))

    def test_every_field_of_a_job_has_its_place_in_the_reference(self):
        page = (ROOT / "docs" / "training-job.md").read_text()
        for source in ("training_fields.h", "training_job_json.cc"):
            text = (ROOT / "api" / "v1" / source).read_text()
            self.assertEqual(set(), fields_without_row(text, page) - {
                "apiVersion", "kind", "metadata", "namespace", "uid", "resourceVersion", "generation",
                "labels", "annotations", "ownerReferences", "creationTimestamp", "deletionTimestamp", "controller",
                "spec", "status", "rules",  # headings
                "role", "operator", "values"}, source)  # in the row of what they belong to
            # A row of another section has the name already.
            self.assertIn("path", fields_without_row(text + 5 * '.Field("path", x)', page))

    def test_the_manifests_name_the_image_of_this_version(self):
        version = re.search(r"^project\(lockstep VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(),
                            re.MULTILINE).group(1)
        self.assertIn(f"newTag: {version}\n",
                      (ROOT / "manifests/manager/kustomization.yaml").read_text())

    def test_no_two_examples_are_of_one_name(self):
        """Whoever tries both would have the second refused, as an edit of the first."""
        of_name = {}
        for path in sorted((ROOT / "examples").rglob("*.yaml")):
            for name in re.findall(r"^kind: TrainingJob\nmetadata:\n  name: (\S+)", path.read_text(), re.MULTILINE):
                of_name.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
        self.assertGreater(len(of_name), 10)
        self.assertEqual([paths for paths in of_name.values() if len(paths) > 1], [])

    def test_no_two_examples_have_one_checkpoint_folder(self):
        """Whoever tries both would see the second go on from the first's parameters, or fail."""
        of_folder = {}
        for path in sorted((ROOT / "examples").rglob("*.yaml")):
            for job in yaml.safe_load_all(path.read_text()):
                for folder in checkpoint_folders(job):
                    of_folder.setdefault(folder, []).append(path.relative_to(ROOT).as_posix())
        self.assertGreater(sum(map(len, of_folder.values())), 5)
        self.assertEqual([paths for paths in of_folder.values() if len(paths) > 1], [])

    def test_the_claims_of_the_first_example_can_be_created(self):
        named = re.findall(r"claimName: (\S+)", (ROOT / "examples/mnist.yaml").read_text())
        made = [entry["metadata"]["name"] for entry in yaml.safe_load_all(
            (ROOT / "examples/mnist-claims.yaml").read_text()) if entry["kind"] == "PersistentVolumeClaim"]
        self.assertEqual(set(named), set(made))

    def test_every_reason_of_an_event_or_a_condition_is_explained(self):
        code = "\n".join(re.sub("//.*", "", line) for pattern in REASON_SOURCES for path in sorted(ROOT.glob(pattern))
                         for line in path.read_text().splitlines())
        used = set(REASON.findall(code)) - NO_REASONS
        rows = REASON_ROW.findall((ROOT / "docs/reasons.md").read_text())
        self.assertEqual(rows, sorted(used), "rows of docs/reasons.md, in the order of the alphabet")

    def test_log_records_have_the_level_that_a_runbook_names(self):
        code = "".join(path.read_text() for path in sorted((ROOT / "operator").rglob("*.cc")))
        named = []
        for page in sorted((ROOT / "docs" / "runbooks").glob("*.md")):
            text = page.read_text()
            named += re.findall(r"the records `([^`]+)`, at level `(\w+)`", text)
            self.assertEqual(text.count("at level `"), text.count("`, at level `"), f"{page}: which records?")
        self.assertTrue(named)
        for message, level in named:
            with self.subTest(message):  # assertRegex would print all of the code
                self.assertTrue(re.search(rf'Log{level.capitalize()}\(\s*"{re.escape(message)}"', code), level)

    def test_wrong_commands_are_found(self):
        for line in ("make no-such-target", "make images NO_SUCH=1", "lockstep fly examples/mnist.yaml",
                     "lockstep run examples/mnist.yaml --no-such-option", "tools/no-such-tool",
                     "lockstep run examples/no-such.yaml", "tools/setup nothing", "frobnicate",
                     "cat $(tools/no-such-tool)", "make build && make nothing",
                     "tools/fetch-mnist --no-such-option", "build/release/tests/no_such_test", "kubectl scale tj/mnist --replicas=4",
                     "kubectl wait --for=condition=Succeeded tj/mnist", "lockstep logs mnist --role worker --index 1"):
            with self.subTest(line=line):
                self.assertTrue(list(faults_of_block(line)))


if __name__ == "__main__":
    sys.exit(unittest.main())
