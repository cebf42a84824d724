"""The examples of docs/python.md run as they are written, in their order, on a real API server with a real operator."""
import contextlib
import io
import linecache
import os
import re
import unittest
import unittest.mock

from api_server import JOBS, ROOT, server
from kubelet import Kubelet, ended, running
from node import Node
from operator_test import ALL_PODS, OUR_SERVICES, Operator

PAGE = ROOT / "docs" / "python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


class ExamplesTest(unittest.TestCase):
    def life(self, pod):
        """Of the pods of the page's jobs: mnist succeeds, broken fails, the others run."""
        name = pod["metadata"]["name"]
        if name.startswith("mnist-"):
            self.node.adopt(pod)
            self.node.write(name, "step 100")
        yield 0, running(pod)
        if name.startswith("mnist-"):
            yield 0.1, ended(pod)
        if name.startswith("broken-"):
            yield 0.1, ended(pod, 3, "no such file: /data")

    def start(self):
        operator = Operator("--leader-elect=false")
        self.addCleanup(operator.kill)
        operator.wait_for("leading")
        self.node = Node()
        self.addCleanup(self.node.stop)
        kubelet = Kubelet("default", self.life)
        self.addCleanup(kubelet.stop)
        for path in (ALL_PODS, OUR_SERVICES, JOBS):
            self.addCleanup(server().call, "DELETE", path)

    def test_every_example_runs(self):
        self.start()
        names = {"__name__": "docs"}
        output = io.StringIO()
        blocks = BLOCK.findall(PAGE.read_text())
        self.assertEqual(8, len(blocks))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(ROOT)
        with unittest.mock.patch.dict(os.environ, KUBECONFIG=str(server().kubeconfig)), \
                contextlib.redirect_stdout(output):
            for number, block in enumerate(blocks):
                # As a notebook does, so that the source of a function is found.
                name = f"<python.md {number}>"
                linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)
                exec(compile(block, name, "exec"), names)
        said = output.getvalue()
        for text in ("Succeeded 20", "kind: TrainingJob\n", "['mnist', 'tuned']\n", "chief-0: step 100\n",
                     "worker-0: step 100\n",
                     "job default/broken failed: worker-0 exited with 3 (Error): no such file: /data\nworker 0 3\n"):
            self.assertIn(text, said)
        self.assertRegex(said, r"TrainingJob/mnist")


if __name__ == "__main__":
    unittest.main()
