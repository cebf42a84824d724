#!/usr/bin/env python3
"""What the README's and the examples' shell blocks call is there: targets, programs, options, files."""
import pathlib
import re
import shlex
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", "charts/lockstep/README.md", *sorted(
    path.relative_to(ROOT).as_posix() for folder in ("docs", "examples")
    for path in (ROOT / folder).rglob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# Programs of the system, whose arguments are their own business.
SYSTEM = {"cat", "cd", "curl", "cut", "export", "grep", "helm", "kill", "kind", "kubectl", "rm", "ss", "tail", "tensorboard"}
# Where each of our programs declares its subcommands and options.
PROGRAMS = {"lockstep": "operator/cli/main.cc", "lockstep-trainer": "trainer/main.cc",
            "lockstep-operator": "operator/server/flags.cc"}
SUBCOMMAND = re.compile(r'add_subcommand\(\s*"([a-z]+)"')
OPTION = re.compile(r'["!,](--[a-z-]+)(?=[",])')
TARGET = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)


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


def declared(pattern, path):
    return set(pattern.findall((ROOT / path).read_text()))


def faults_of_program(name, words):
    source = PROGRAMS[name]
    if not (ROOT / source).is_file():
        yield f"{name} has no {source}"
        return
    if words[1:] and words[1] not in declared(SUBCOMMAND, source):
        if words[1] not in declared(OPTION, source):
            yield f"{name} has no subcommand {words[1]}"
    for word in words[2:]:
        if word.startswith("--") and word.split("=")[0] not in declared(OPTION, source):
            yield f"{name} {words[1]} has no option {word}"


def faults_of_command(words, folder):
    program = words[0]
    name = program.rsplit("/", 1)[-1]
    if name in PROGRAMS and ("/" not in program or "build/release/bin/" in program):
        yield from faults_of_program(name, words)
    elif program == "make":
        for target in words[1:]:
            if "=" not in target and target not in declared(TARGET, "Makefile"):
                yield f"make has no target {target}"
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
    elif name not in SYSTEM:
        yield f"{program} is neither ours nor one of {sorted(SYSTEM)}"
    for word in words[1:]:
        if word.startswith(("examples/", "tests/", "docs/", "tools/", "manifests/", "charts/")) or word.endswith(".yaml"):
            if not (folder / word).exists():
                yield f"{word} does not exist in {folder}"


def faults_of_block(block):
    folder = ROOT
    for words in commands(block):
        yield from faults_of_command(words, folder)
        if words[0] == "cd":
            folder = folder / words[1]


class DocsTest(unittest.TestCase):
    def test_shell_blocks_call_what_is_there(self):
        count = 0
        for page in PAGES:
            for block in blocks((ROOT / page).read_text()):
                count += 1
                faults = [f"{page}: {fault}" for fault in faults_of_block(block)]
                self.assertEqual([], faults, block)
        self.assertGreater(count, 5)

    def test_the_readme_opens_with_run_and_test(self):
        first = blocks((ROOT / "README.md").read_text())[0]
        self.assertEqual([["make", "run"], ["make", "test"]], list(commands(first)))

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for target in LINK.findall((ROOT / page).read_text()):
                self.assertTrue((ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}")

    def test_the_recipe_for_an_activation_names_what_the_last_one_touched(self):
        section = re.search(r"^## Add an activation\n(.*?)^## ", (ROOT / "CONTRIBUTING.md").read_text(),
                            re.MULTILINE | re.DOTALL).group(1)
        named = {path.replace("NAME", "tanh") for path in re.findall(r"`([a-z_/-]+/[\w./-]+)`", section)
                 if "." in path}
        mentions = re.compile(r"\btanh\b|kTanh")
        touched = {path.relative_to(ROOT).as_posix()
                   for folder in ("api", "charts", "docs", "tests/golden", "trainer")
                   for path in (ROOT / folder).rglob("*")
                   if path.is_file() and mentions.search(path.read_text(errors="replace"))}
        self.assertEqual(touched, named)

    def test_every_field_of_a_job_has_its_place_in_the_reference(self):
        text = (ROOT / "docs" / "training-job.md").read_text()
        known = set(re.findall(r"\w+", text))
        for source in ("training_fields.h", "training_job_json.cc"):
            fields = re.findall(r'\.Field\(\s*"(\w+)"', (ROOT / "api" / "v1" / source).read_text())
            self.assertTrue(fields, source)
            self.assertEqual([], sorted(set(fields) - known - {
                "apiVersion", "kind", "metadata", "namespace", "uid", "resourceVersion", "generation",
                "labels", "annotations", "ownerReferences", "creationTimestamp",
                "deletionTimestamp", "controller"}), source)

    def test_the_manifests_name_the_image_of_this_version(self):
        version = re.search(r"^project\(lockstep VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(),
                            re.MULTILINE).group(1)
        self.assertIn(f"newTag: {version}\n",
                      (ROOT / "manifests/manager/kustomization.yaml").read_text())

    def test_wrong_commands_are_found(self):
        for line in ("make no-such-target", "lockstep fly examples/mnist.yaml",
                     "lockstep run examples/mnist.yaml --no-such-option", "tools/no-such-tool",
                     "lockstep run examples/no-such.yaml", "tools/setup nothing", "frobnicate",
                     "cat $(tools/no-such-tool)", "make build && make nothing",
                     "tools/fetch-mnist --no-such-option"):
            with self.subTest(line=line):
                self.assertTrue(list(faults_of_block(line)))


if __name__ == "__main__":
    sys.exit(unittest.main())
