// NVIDIA's real libraries, which load without a GPU: found where the trainer looks for them, of the
// versions of the headers that the other tests here compare, and with every function of our tables.
#include <cublasLt.h>
#include <cudnn_version.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>
#include <cstdlib>

#include "tests/trainer/backend/cuda/same_abi.h"
#include "trainer/backend/cuda/device/cublaslt_api.h"
#include "trainer/backend/cuda/device/cudnn_api.h"
#include "trainer/backend/cuda/device/device_library.h"
#include "trainer/comm/nccl/nccl_api.h"

namespace lockstep::train::cuda {
namespace {

constexpr NamedFunction kCudnnFunctions[] = {LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_TABLE_ROW_OF_FOUR)};
constexpr NamedFunction kCublasLtFunctions[] = {
    LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_TABLE_ROW_OF_FOUR)};
constexpr NamedFunction kNcclFunctions[] = {LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_TABLE_ROW_OF_FOUR)};

class LibrariesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("LOCKSTEP_CUDA_PATH", LOCKSTEP_CUDA_LIBRARIES, /*overwrite=*/1);
  }
};

// Symbol throws if there is none.
TEST_F(LibrariesTest, EveryFunctionIsThere) {
  const DeviceLibrary cudnn({"libcudnn.so.9"}, "cuDNN 9");
  for (const NamedFunction& function : kCudnnFunctions) {
    EXPECT_NO_THROW(cudnn.Symbol(function.symbol.data()));
  }
  const DeviceLibrary cublaslt({"libcublasLt.so.13"}, "cuBLAS 13");
  for (const NamedFunction& function : kCublasLtFunctions) {
    EXPECT_NO_THROW(cublaslt.Symbol(function.symbol.data()));
  }
  const DeviceLibrary nccl({"libnccl.so.2"}, "NCCL 2");
  for (const NamedFunction& function : kNcclFunctions) {
    EXPECT_NO_THROW(nccl.Symbol(function.symbol.data()));
  }
}

TEST_F(LibrariesTest, CudnnIsThatOfTheHeaders) {
  const DeviceLibrary library({"libcudnn.so.9"}, "cuDNN 9");
  std::size_t (*version)() = nullptr;
  library.Load(version, "cudnnGetVersion");
  EXPECT_EQ(version(), std::size_t{CUDNN_VERSION});
}

TEST_F(LibrariesTest, CudnnFindsItsParts) {
  const DeviceLibrary library({"libcudnn.so.9"}, "cuDNN 9");
  for (const char* check :
       {"cudnnGraphVersionCheck", "cudnnOpsVersionCheck", "cudnnCnnVersionCheck"}) {
    int (*opens_part)() = nullptr;
    library.Load(opens_part, check);
    EXPECT_EQ(opens_part(), 0) << check;
  }
}

TEST_F(LibrariesTest, CublasLtIsThatOfTheHeaders) {
  const DeviceLibrary library({"libcublasLt.so.13"}, "cuBLAS 13");
  std::size_t (*version)() = nullptr;
  library.Load(version, "cublasLtGetVersion");
  EXPECT_EQ(version(), std::size_t{CUBLAS_VERSION});
}

TEST_F(LibrariesTest, NcclIsThatOfTheHeaders) {
  const auto api = nccl::OpenNccl();
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ((*api)->version, NCCL_VERSION_CODE);
}

}  // namespace
}  // namespace lockstep::train::cuda
