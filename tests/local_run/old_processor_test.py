"""What the trainer needs of an x86-64 processor at least, with QEMU for the old ones."""
import platform
import shutil
import subprocess
import unittest

from local_run import SLOWNESS, TRAINER


@unittest.skipUnless(platform.machine() == "x86_64" and shutil.which("qemu-x86_64"), "needs QEMU's user mode")
class OldProcessorTest(unittest.TestCase):
    def bench_on(self, cpu):
        return subprocess.run(
            ["qemu-x86_64", "-cpu", cpu, TRAINER, "bench", "--model", "mlp", "--batch", "2", "--threads", "1",
             "--steps", "1", "--warmup", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60 * SLOWNESS, check=False)

    def test_sse_4_1_is_enough(self):
        done = self.bench_on("Penryn")
        self.assertEqual(0, done.returncode, done.stdout)

    def test_less_is_an_error_that_names_it(self):
        for cpu in ("qemu64", "kvm64"):
            done = self.bench_on(cpu)
            self.assertEqual(10, done.returncode, done.stdout)
            self.assertIn("this processor has no SSE4.1", done.stdout)


if __name__ == "__main__":
    unittest.main()
