#!/usr/bin/env python3
"""nvcc compiles the kernels without a warning, and what it makes has every kernel that the host may launch, for every
kind of GPU. Those that update parameters round after each operation, as the CPU does. A build with LOCKSTEP_CUDA has
compiled them already; in another, exits with 77, which CTest reports as skipped, where there is no nvcc."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[4]
KERNELS = ROOT / "trainer/backend/cuda/kernels"
DECLARED = re.compile(r"^LOCKSTEP_DECLARE_KERNEL\s+(\w+)\(", re.MULTILINE)
DEFINED = re.compile(r"^LOCKSTEP_(?:BLOCK_)?KERNEL\((\w+),", re.MULTILINE)
FLAGS = [*os.environ["LOCKSTEP_NVCC_FLAGS"].split(), f"-I{ROOT}"]
ARCHITECTURES = [int(number) for number in re.findall(r"\bsm_(\d+)", " ".join(FLAGS))]


def find_nvcc():
    found = subprocess.run([ROOT / "tools/cuda-from-wheels", "--find"], stdout=subprocess.PIPE, text=True, check=False)
    return pathlib.Path(found.stdout.strip(), "bin/nvcc") if found.returncode == 0 else None


def compiled(nvcc):
    """The image of the kernels, and what nvcc said."""
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder, "kernels.fatbin")
        done = subprocess.run(
            [nvcc, "-fatbin", *FLAGS, "-ccbin", os.environ["CXX"], "-o", made, KERNELS / "kernels.cu"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"nvcc refuses the kernels:\n{done.stdout}")
        return made.read_bytes(), done.stdout


class KernelsTest(unittest.TestCase):
    image, said = b"", ""

    def test_they_compile_without_a_warning(self):
        self.assertEqual("", self.said)

    def test_every_declared_kernel_is_there_for_every_kind_of_gpu(self):
        declared = set(DECLARED.findall((KERNELS / "kernels.h").read_text()))
        self.assertTrue(declared)
        programs = self.image.split(b"\x7fELF")[1:]
        self.assertEqual(len(ARCHITECTURES), len(programs))
        for architecture, program in zip(ARCHITECTURES, programs):
            # Each kernel has a section of its own.
            defined = {name.decode() for name in re.findall(rb"(?<=\0\.text\.)\w+(?=\0)", program)}
            self.assertEqual(set(), declared - defined, f"not there for sm_{architecture}")

    # A fused multiplication and addition rounds once: replicas on GPUs would leave those on CPUs. The image has the
    # intermediate code (PTX) as a text; in machine code, a division has fused operations of its own.
    def test_those_that_update_parameters_fuse_no_operations(self):
        bodies = dict(re.findall(rb"\.entry (\w+)\((.*?)\n\}\n", self.image, re.DOTALL))
        for file in ("muon.cu", "optimizers.cu", "trust_optimizers.cu", "step.cu"):
            kernels = DEFINED.findall((KERNELS / file).read_text())
            self.assertTrue(kernels, file)
            for kernel in kernels:
                self.assertEqual([], re.findall(rb"\bfma\.\S+", bodies[kernel.encode()]), kernel)


if __name__ == "__main__":
    if "LOCKSTEP_FATBIN" in os.environ:
        KernelsTest.image = pathlib.Path(os.environ["LOCKSTEP_FATBIN"]).read_bytes()
    elif compiler := find_nvcc():
        KernelsTest.image, KernelsTest.said = compiled(compiler)
    else:
        print("found no nvcc of CUDA 12.8 or later; `tools/setup nvcc` provides one, on x86-64")
        sys.exit(77)
    unittest.main()
