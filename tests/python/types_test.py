"""The package's types hold, are there for those who install it, and pip installs it from the tree."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PYTHON = pathlib.Path(__file__).resolve().parent.parent.parent / "python"

PROGRAM = """
from lockstep import Client, Progress, Training, TrainingJob, __version__

client = Client("team")
job: TrainingJob = client.create(TrainingJob("j", replicas={"Chief": 1}, training=Training(
    model="mlp", dataset="/data", batch_size=8, epochs=1)))
steps: list[int | None] = [progress.step for progress in client.progress("j")]
client.train(print, image="x", args={"a": 1}, replicas=2, framework="jax")
"""
FAULTS = """
from lockstep import Client

client = Client()
client.scale("j", worker="4")
client.train(print, image="x", framework="mxnet")
client.wait("j").status.stat
"""


def run(*command, folder=PYTHON):
    return subprocess.run([str(word) for word in command], cwd=folder, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class TypesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cache = tempfile.TemporaryDirectory()  # of what mypy knows of the package kubernetes, which is large
        cls.addClassCleanup(cache.cleanup)
        cls.mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache.name]

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_the_package_is_clean_under_strict(self):
        done = run(*self.mypy, "lockstep")
        self.assertEqual(0, done.returncode, done.stdout)

    def test_pip_installs_it_with_its_types(self):
        shutil.copytree(PYTHON, self.folder / "python")  # pip writes into the folder that it builds
        installed = self.folder / "installed"
        done = run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target",
                   installed, self.folder / "python")
        self.assertEqual(0, done.returncode, done.stdout)
        done = run(sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(installed)!r}); import lockstep; "
                   "print(lockstep.__version__, lockstep.__file__)", folder=self.folder)
        self.assertRegex(done.stdout, rf"^\d+\.\d+\.\d+ {installed}/")
        (self.folder / "program.py").write_text(PROGRAM)
        (self.folder / "faults.py").write_text(FAULTS)
        check = ["env", f"MYPYPATH={installed}", *self.mypy, "--follow-imports=silent"]
        done = run(*check, "program.py", folder=self.folder)
        self.assertEqual(0, done.returncode, done.stdout)
        done = run(*check, "faults.py", folder=self.folder)
        for line, fault in ((5, "worker"), (6, "framework"), (7, '"stat"')):
            self.assertRegex(done.stdout, rf"faults.py:{line}: error: .*{fault}")


if __name__ == "__main__":
    unittest.main()
