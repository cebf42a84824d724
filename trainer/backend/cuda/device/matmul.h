// Matrix products by cuBLASLt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trainer/backend/cuda/device/cublaslt_api.h"
#include "trainer/backend/cuda/device/device.h"
#include "trainer/core/dtype.h"

namespace lockstep::train::cuda {

// cuBLASLt with a handle for the current context. Not thread-safe.
class MatmulLibrary {
 public:
  // Throws DeviceMissing if the library is not there or is for a later CUDA than the driver, whose
  // cuDriverGetVersion is `driver_version`; DeviceError if it refuses the GPU.
  explicit MatmulLibrary(int driver_version);
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  const CublasLtApi& api() const { return api_; }
  const std::string& path() const { return path_; }  // of the library's file
  MatmulLibraryHandle handle() const { return handle_; }
  // Throws DeviceError if `status` is an error of `call`.
  void Check(int status, const char* call) const;

 private:
  std::string path_;  // before api_, which sets it
  CublasLtApi api_;
  MatmulLibraryHandle handle_ = nullptr;
};

// C = A * B, of dense row-major matrices: A is rows x inner, B is inner x columns.
struct MatmulShape {
  std::int64_t rows = 0, columns = 0, inner = 0;
  // Memory has inner x rows for A, or columns x inner for B.
  bool a_transposed = false, b_transposed = false;
  // `type` is that of A and B, and `result` that of C: float32 or the same. Sums are in float32.
  DType type = DType::kFloat32, result = DType::kFloat32;
  std::string ToString() const;
};

// A product of fixed shape. Requires: the device outlives it.
class Matmul {
 public:
  // Asks cuBLASLt for its fastest algorithm, which rounds float32 factors to TF32 if the device
  // says so. Throws DeviceError if it has none.
  Matmul(const Device& device, const MatmulShape& shape);

  std::size_t WorkspaceBytes() const;
  // workspace: WorkspaceBytes().
  void Run(const void* a, const void* b, void* c, void* workspace) const;

 private:
  template <typename T>
  using Owned = std::unique_ptr<T, int (*)(T*)>;

  void SetTransposed(int attribute, bool transposed) const;
  Owned<OpaqueMatrixLayout> MakeLayout(std::int64_t rows, std::int64_t columns, DType type) const;
  void ChooseAlgorithm(const MatmulShape& shape);

  const Device& device_;
  const MatmulLibrary& library_;
  Owned<OpaqueMatmulDesc> desc_;
  Owned<OpaqueMatrixLayout> a_, b_, c_;
  MatmulAlgorithm algorithm_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace lockstep::train::cuda
