"""The safetensors package reads a checkpoint's parameters."""
import peer

peer.run_in_peers()

import numpy  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402


class SafetensorsTest(peer.LocalRunTest):
    def test_reads_a_checkpoint(self):
        report = self.lockstep_run("examples/mnist.yaml", *peer.SMALL_JOB)
        files = sorted((peer.ROOT / report["checkpoint"]).glob("*.safetensors"))
        self.assertTrue(files, report["checkpoint"])
        tensors = {}
        for file in files:
            tensors.update(load_file(file))
        self.assertTrue(tensors)
        parameters = sum(tensor.size for tensor in tensors.values())
        self.assertGreaterEqual(parameters, 784 * 128 + 128 + 128 * 10 + 10)  # of `mlp`
        for name, tensor in tensors.items():
            if tensor.dtype == numpy.float32:
                self.assertTrue(numpy.isfinite(tensor).all(), name)


if __name__ == "__main__":
    peer.main()
