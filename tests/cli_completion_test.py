#!/usr/bin/env python3
"""The scripts of `lockstep completion`, in the shells that are installed."""
import os
import pathlib
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
contexts: [{name: here, context: {cluster: c, user: u}}, {name: there, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""
BASH = """
source <(lockstep completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockstep; printf '%s\\n' "${COMPREPLY[@]}"
"""
# compadd works within a completion alone; what it is given is what counts.
ZSH = """
compdef() { : }; compadd() { print -l -- "${(@P)2}" }; _files() { print -l -- * }
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

    def run_in(self, command, *words):
        """What may follow, in the order of the shell."""
        if shutil.which(command[0]) is None:
            self.skipTest(f"{command[0]} is not installed")
        done = subprocess.run(
            [*command, "lockstep", *words], cwd=self.folder.name, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
            env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": self.folder.name,
                 "KUBECONFIG": f"{self.folder.name}/kubeconfig"})
        self.assertEqual("", done.stderr)
        return [line.split("\t")[0] for line in done.stdout.splitlines() if line]

    def check(self, *command):
        self.assertEqual(["validate"], self.run_in(command, "val"))
        self.assertIn("run", self.run_in(command, ""))
        self.assertEqual(["--work-dir"], self.run_in(command, "run", "--work"))
        self.assertEqual({"json", "text"}, set(self.run_in(command, "run", "--output", "")))
        self.assertIn("job.yaml", self.run_in(command, "validate", ""))
        self.assertEqual(["there"], self.run_in(command, "status", "--context", "t"))

    def test_bash(self):
        self.check("bash", "--norc", "-c", BASH, "bash")
        self.assertEqual(["json"], self.run_in(("bash", "--norc", "-c", BASH, "bash"),
                                               "run", "--output", "=", "j"))

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
