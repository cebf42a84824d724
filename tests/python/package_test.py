"""The package's version is the tree's, and importing it does not take what only a cluster needs."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class PackageTest(unittest.TestCase):
    def test_the_version_is_that_of_the_tree(self):
        tree = re.search(r"^project\(lockstep VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
        package = re.search(r'^version = "([^"]+)"', (ROOT / "python/pyproject.toml").read_text(), re.MULTILINE)
        self.assertEqual(tree.group(1), package.group(1))

    def test_building_a_job_does_not_import_the_package_kubernetes(self):
        program = ("import sys; sys.modules['kubernetes'] = None; from lockstep import TrainingJob; "
                   "print(TrainingJob('j', image='x').to_yaml())")
        subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, cwd=ROOT / "python")


if __name__ == "__main__":
    unittest.main()
