"""The golden files are what today's PyTorch and Keras compute, not what this project believes."""
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import peer

peer.run_in_peers()

GOLDEN = peer.ROOT / "tests" / "golden"
# generate_keras.py says the names of the files that it writes; the other scripts write the rest.
OF_KERAS = {path.name for path in GOLDEN.glob("*.json")
            if f'"{path.stem}"' in (GOLDEN / "generate_keras.py").read_text()}


class GoldenTest(unittest.TestCase):
    def assert_close(self, ours, theirs, where):
        self.assertEqual(type(ours), type(theirs), where)
        if isinstance(ours, dict):
            self.assertEqual(ours.keys(), theirs.keys(), where)
            for key in ours:
                self.assert_close(ours[key], theirs[key], f"{where}.{key}")
        elif isinstance(ours, list):
            self.assertEqual(len(ours), len(theirs), where)
            for index, pair in enumerate(zip(ours, theirs)):
                self.assert_close(*pair, f"{where}[{index}]")
        elif isinstance(ours, float):
            self.assertAlmostEqual(ours, theirs, delta=1e-8 + 1e-8 * abs(theirs), msg=where)
        else:
            self.assertEqual(ours, theirs, where)

    def made_by(self, script):
        """The contents of the files that a script writes beside itself, by name."""
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(GOLDEN / script, folder)
            subprocess.run([sys.executable, copy], check=True, stdin=subprocess.DEVNULL)
            return {path.name: json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")}

    def assert_made_again(self, scripts, names):
        made = {}
        for script in scripts:
            made |= self.made_by(script)
        self.assertEqual(sorted(made), sorted(names))
        for name, content in made.items():
            self.assert_close(json.loads((GOLDEN / name).read_text()), content, name)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch: run `tools/setup bench`")
    def test_pytorch_gives_the_same_numbers_again(self):
        all_names = {path.name for path in GOLDEN.glob("*.json")}
        self.assert_made_again(["generate.py", "generate_resnet.py"], all_names - OF_KERAS)

    @unittest.skipUnless(importlib.util.find_spec("jax"), "Keras computes its golden files on JAX")
    def test_keras_gives_the_same_numbers_again(self):
        self.assert_made_again(["generate_keras.py"], OF_KERAS)


if __name__ == "__main__":
    peer.main()
