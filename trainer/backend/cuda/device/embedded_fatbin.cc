#include "trainer/backend/cuda/device/fatbin.h"

// The assembler reads the file that CMake has had nvcc make.
asm(".pushsection .rodata\n"
    ".balign 64\n"
    "lockstep_cuda_fatbin:\n"
    ".incbin \"" LOCKSTEP_FATBIN_FILE
    "\"\n"
    ".popsection\n");
extern "C" const unsigned char lockstep_cuda_fatbin[];

namespace lockstep::train::cuda {

const void* Fatbin() {
  return lockstep_cuda_fatbin;
}

bool HasKernels() {
  return true;
}

}  // namespace lockstep::train::cuda
