"""The golden files are what today's PyTorch and Keras compute, not what this project believes."""
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

    def test_generating_them_again_gives_the_same_numbers(self):
        with tempfile.TemporaryDirectory() as folder:
            script = shutil.copy(GOLDEN / "generate.py", folder)
            subprocess.run([sys.executable, script], check=True, stdin=subprocess.DEVNULL)
            made = sorted(path.name for path in pathlib.Path(folder).glob("*.json"))
            self.assertEqual(made, sorted(path.name for path in GOLDEN.glob("*.json")))
            for name in made:
                self.assert_close(json.loads((GOLDEN / name).read_text()),
                                  json.loads(pathlib.Path(folder, name).read_text()), name)


if __name__ == "__main__":
    peer.main()
