#!/usr/bin/env python3
"""docs/cli.md has the verbs, options and exit codes that `lockstep --help` prints."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"
HELP = {"-h", "--help"}  # every verb has it; the page says so once


def help_of(*verb):
    return subprocess.run([pathlib.Path(os.environ["LOCKSTEP_BIN"]) / "lockstep", *verb, "--help"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True,
                          timeout=30).stdout


def help_section(text, title):
    """The first words of the entries below `title`, without the continuations of their descriptions."""
    block = re.search(rf"^{title}:\n((?:  .*\n)+)", text, re.MULTILINE)
    return re.findall(r"^  (\S+)", block.group(1), re.MULTILINE) if block else []


def helped_verbs(text):
    return help_section(text, "Subcommands")


def helped_options(text):
    """Options and positional arguments; "--no-watch{false}" is --no-watch."""
    options = (re.sub(r"\{.*?\}", "", entry).split(",") for entry in help_section(text, "Options"))
    return {*help_section(text, "Positionals"), *(name for names in options for name in names)}


def undescribed(text):
    """The entries without a description, which is set off by spaces or stands on the next line."""
    for title in ("Subcommands", "Positionals", "Options"):
        for name in help_section(text, title):
            entry = re.search(rf"^  {re.escape(name)}(?!\S)(.*(?:\n {{4,}}.*)*)", text, re.MULTILINE)
            if not re.search(r"(?:\s{2,}|\n {4,})\w", entry.group(1)):
                yield name


def page_section(page, title):
    """The text below a heading up to the next one; that before all of them if `title` is None."""
    start = r"\A" if title is None else rf"^## {re.escape(title)}\n"
    found = re.search(rf"{start}(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return found.group(1) if found else ""


def rows(text, first_column):
    """The table whose first column has this header, as lists of cells."""
    table = re.search(rf"^\| {first_column} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    lines = table.group(1).splitlines() if table else []
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def documented_verbs(page):
    return [re.match(r"\[`(\w+)`\]", row[0]).group(1) for row in rows(page_section(page, None), "verb")]


def documented_options(text):
    return {name.split()[0] for row in rows(text, "option") for name in re.findall(r"`([^`]+)`", row[0])}


def documented_codes(page):
    return [tuple(row) for row in rows(page_section(page, "Exit codes"), "code")]


def helped_codes(text):
    """(code, meaning) of each exit code of a verb; a long meaning has several lines."""
    block = re.search(r"^Exit codes:\n((?:  .*\n)+)", text, re.MULTILINE)
    entries = re.findall(r"^  (\S+) +(.*(?:\n {4,}.*)*)", block.group(1), re.MULTILINE) if block else []
    return [(code, " ".join(meaning.split())) for code, meaning in entries]


def rows_of_codes(verbs, help_of_verb):
    """A row for each exit code of the verbs: code, who ends with it, meaning; in the order of the codes."""
    enders = {}
    for verb in verbs:
        for entry in helped_codes(help_of_verb(verb)):
            enders.setdefault(entry, []).append(verb)
    return [(code, "every verb" if who == verbs else ", ".join(f"`{verb}`" for verb in who), meaning)
            for (code, meaning), who in sorted(enders.items(), key=lambda item: [
                int(number) for number in item[0][0].split("-")])]


def faults_of_page(page, help_of_program, help_of_verb):
    """What `page` lacks or has in excess of the help texts."""
    verbs = helped_verbs(help_of_program)
    if verbs != documented_verbs(page):
        yield f"verbs: the help has {verbs}, the page {documented_verbs(page)}"
    places = [(None, help_of_program, set()), *((verb, help_of_verb(verb), HELP) for verb in verbs)]
    for verb, text, elsewhere in places:
        helped, documented = helped_options(text) - elsewhere, documented_options(page_section(page, verb))
        for name in sorted(helped - documented):
            yield f"{verb or 'lockstep'}: the page lacks {name}"
        for name in sorted(documented - helped):
            yield f"{verb or 'lockstep'}: the page has {name}, which the help lacks"


class CliDocsTest(unittest.TestCase):
    def test_the_page_has_the_verbs_and_options_of_the_help(self):
        self.assertEqual([], list(faults_of_page(PAGE.read_text(), help_of(), help_of)))

    def test_the_help_describes_every_verb_and_option(self):
        program = help_of()
        for text in (program, *map(help_of, helped_verbs(program))):
            self.assertEqual([], list(undescribed(text)), text)

    def test_the_page_has_the_exit_codes_of_the_help(self):
        verbs = helped_verbs(help_of())
        codes = rows_of_codes(verbs, help_of)
        self.assertGreater(len(codes), 8)
        self.assertEqual(codes, documented_codes(PAGE.read_text()))
        for verb in verbs:  # CLI11 drops a part of the help that it takes for something else
            self.assertLessEqual({"0", "1", "2"}, {code for code, _ in helped_codes(help_of(verb))}, verb)

    def test_the_program_has_no_other_exit_codes(self):
        """Those of exit_codes.h; the program itself refuses one that its verb does not declare."""
        for path in sorted((ROOT / "operator" / "cli").rglob("*.cc")):
            self.assertNotRegex(path.read_text(), r"api::kExit|_?exit\(\d|constexpr (int|ExitCode) kExit", path.name)

    def test_differences_are_found(self):
        program = "Usage: x\n\nOptions:\n  -h,--help   Help\n\nSubcommands:\n  run         Run\n              it\n"
        verb = ("Usage: x\n\nPositionals:\n  FILE TEXT REQUIRED\n              A file\n\n"
                "Options:\n  -h,--help   Help\n  -w,--watch,--no-watch{false}\n              Watch\n")
        page = ("| verb | what |\n|---|---|\n| [`run`](#run) | Run |\n\n| option | meaning |\n|---|---|\n"
                "| `-h`, `--help` | Help |\n\n## run\n\n| option | meaning |\n|---|---|\n| `FILE` | A file |\n"
                "| `-w`, `--watch`, `--no-watch` | Watch |\n\n| member | meaning |\n|---|---|\n| `state` | S |\n")
        self.assertEqual([], list(faults_of_page(page, program, lambda _: verb)))
        for old, new in (("`--no-watch`", ""), ("| `FILE` | A file |\n", ""), ("`--watch`", "`--wait`"),
                         ("[`run`]", "[`fly`]"), ("## run", "## fly"), ("| `-h`, `--help` | Help |", "")):
            with self.subTest(old):
                self.assertTrue(list(faults_of_page(page.replace(old, new), program, lambda _: verb)))
        self.assertEqual([], [*undescribed(program), *undescribed(verb)])
        self.assertEqual(["-h,--help"], list(undescribed(verb.replace("  Help", ""))))
        self.assertEqual(["-w,--watch,--no-watch{false}"], list(undescribed(verb.replace("Watch", ""))))
        texts = {"run": "Run\n\nExit codes:\n  0      Success\n  1-255  It\n         failed\n  1      Lost\n",
                 "stop": "Stop\n\nExit codes:\n  0      Success\n"}
        self.assertEqual([("0", "every verb", "Success"), ("1", "`run`", "Lost"), ("1-255", "`run`", "It failed")],
                         rows_of_codes(["run", "stop"], texts.get))


if __name__ == "__main__":
    sys.exit(unittest.main())
