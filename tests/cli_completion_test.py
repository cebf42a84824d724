#!/usr/bin/env python3
"""The scripts of `lockstep completion`, in the shells that are installed."""
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(os.environ["LOCKSTEP_BIN"])
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: c, user: u}}
- {name: there, context: {cluster: c, user: u}}
- {name: "team:admin@kubernetes", context: {cluster: c, user: u}}
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""
BASH = """
source <(lockstep completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_lockstep "$1" "${@: -1}"; printf '%s\\n' "${COMPREPLY[@]}"
"""
# compadd works within a completion alone; what it is given is what counts.
PROMPT = "what next? "
COMPLETED = "(completed)"
ZSH = """
compset() { : }; compdef() { : }; compadd() { print -l -- "${(@P)2}" }; _files() { print -l -- * }
source <(lockstep completion zsh)
words=("$@"); CURRENT=$#; _lockstep
"""
FISH = """lockstep completion fish | source
complete -C (string join -- ' ' $argv)"""


class CompletionTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name in ("job.yaml", "kubeconfig"):
            (pathlib.Path(self.folder.name) / name).write_text(KUBECONFIG)

    def environment(self):
        return {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": self.folder.name,
                "KUBECONFIG": f"{self.folder.name}/kubeconfig"}

    def run_in(self, command, *words):
        """What may follow, in the order of the shell."""
        if shutil.which(command[0]) is None:
            self.skipTest(f"{command[0]} is not installed")
        done = subprocess.run(
            [*command, "lockstep", *words], cwd=self.folder.name, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
            env=self.environment())
        self.assertEqual("", done.stderr)
        return [line.split("\t")[0] for line in done.stdout.splitlines() if line]

    def check(self, *command):
        self.assertEqual(["validate"], self.run_in(command, "val"))
        self.assertIn("run", self.run_in(command, ""))
        self.assertEqual(["--work-dir"], self.run_in(command, "run", "--work"))
        self.assertEqual({"json", "text"}, set(self.run_in(command, "run", "--output", "")))
        self.assertIn("job.yaml", self.run_in(command, "validate", ""))
        self.assertEqual(["there"], self.run_in(command, "status", "--context", "th"))

    def press_tab_in_bash(self, typed, setting=""):
        """The words of the line after a press of Tab behind `typed`, as readline has it."""
        start = pathlib.Path(self.folder.name) / "bashrc"
        start.write_text(f"source <(lockstep completion bash)\n{setting}\nPS1='{PROMPT}'\n"
                         f"marked() {{ _lockstep \"$@\"; printf '{COMPLETED}' >&2; }}\n"
                         "complete -F marked lockstep\n")
        terminal, end = pty.openpty()
        with os.fdopen(terminal, "r+b", buffering=0) as typist, subprocess.Popen(
                ["bash", "--noprofile", "--rcfile", start, "-i"], cwd=self.folder.name, stdin=end,
                stdout=end, stderr=end, start_new_session=True,
                env={**self.environment(), "TERM": "dumb", "INPUTRC": "/dev/null"}) as bash:
            os.close(end)
            shown = b""
            while PROMPT.encode() not in shown:
                shown += typist.read(4096)
            typist.write(typed.encode() + b"\t")
            # Bash changes the terminal's mode while programs run, and a kernel may then lose what is typed.
            while COMPLETED.encode() not in shown:
                shown += typist.read(4096)
            # Behind Ctrl-A, which goes to the line's beginning, and Ctrl-E, which goes to its end: a command that
            # prints the words.
            typist.write(b"\x01printf '<%s>\\n' \x05; exit\n")
            try:
                while more := typist.read(4096):
                    shown += more
            except OSError:  # the terminal's other end is closed
                pass
            bash.wait(60)
        return re.findall(r"^<(.*)>\r?$", shown.decode(), re.MULTILINE)

    def test_bash(self):
        self.check("bash", "--norc", "-c", BASH, "bash")

    def test_bash_where_readline_splits_words(self):
        for typed, last in (("validate jo", "job.yaml"), ("run --output=j", "--output=json"),
                            ("status --context team:", "team:admin@kubernetes"),
                            ("status --context team:admin@k", "team:admin@kubernetes"),
                            ("status --context=team:admin@", "--context=team:admin@kubernetes"),
                            ("status --kubeconfig=kubec", "--kubeconfig=kubeconfig"),
                            ("status --context team:admin@kubernetes --out", "--output")):
            with self.subTest(typed):
                words = self.press_tab_in_bash(f"lockstep {typed}")
                self.assertEqual(last, words[-1] if words else None)

    def test_bash_where_readline_does_not_split_words(self):
        """Other programs' scripts take these characters from the variable: npm's "=" and "@", many ":"."""
        (pathlib.Path(self.folder.name) / "folder" / "below").mkdir(parents=True)
        for typed, last in (("status --kubeconfig=kubec", "--kubeconfig=kubeconfig"),
                            ("status --kubeconfig=", "--kubeconfig="),
                            ("run --work-dir=folder/be", "--work-dir=folder/below/"),
                            ("run --output=j", "--output=json"),
                            ("status --context=team:admin@", "--context=team:admin@kubernetes")):
            for characters in ("=@", ":", "=:@"):
                with self.subTest(typed, characters=characters):
                    words = self.press_tab_in_bash(
                        f"lockstep {typed}", f"COMP_WORDBREAKS=${{COMP_WORDBREAKS//[{characters}]}}")
                    self.assertEqual(last, words[-1] if words else None)

    def test_zsh(self):
        self.check("zsh", "-f", "-c", ZSH, "zsh")

    def test_fish(self):
        self.check("fish", "--no-config", "-c", FISH)

    def test_another_shell_is_refused(self):
        done = subprocess.run([BIN / "lockstep", "completion", "csh"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual((2, ""), (done.returncode, done.stdout))


if __name__ == "__main__":
    sys.exit(unittest.main())
