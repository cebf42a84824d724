#include "trainer/backend/cuda/device/matmul.h"

#include <fmt/format.h>

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device_facts.h"
#include "trainer/backend/cuda/device/device_library.h"
#include "trainer/backend/device_missing.h"
#include "trainer/core/arena.h"

namespace lockstep::train::cuda {
namespace {

constexpr std::uint64_t kMostWorkspaceBytes = 32 << 20;  // what NVIDIA advises for Hopper
constexpr std::uint32_t kAlignment = kArenaAlignment;
// cuBLASLt refuses a workspace that does not begin at a multiple of it.
constexpr std::size_t kWorkspaceAlignment = 256;

int CudaTypeOf(DType type) {
  switch (type) {
    case DType::kBFloat16:
      return kCudaR16BF;
    case DType::kFloat16:
      return kCudaR16F;
    default:
      return kCudaR32F;
  }
}

CublasLtApi LoadCublasLt(std::string& path) {
  const DeviceLibrary library({"libcublasLt.so.13", "libcublasLt.so.12"},
                              "NVIDIA's cuBLASLt (libcublasLt.so.13)");
  CublasLtApi api;
#define LOCKSTEP_LOAD(result, member, symbol, arguments) library.Load(api.member, symbol);
  LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_LOAD)
#undef LOCKSTEP_LOAD
  path = library.path();
  return api;
}

}  // namespace

// A library would only say of a driver that is too old that it is not initialized. The
// library's major version is that of its CUDA, and so of the other libraries and the kernels.
MatmulLibrary::MatmulLibrary(int driver_version) : api_(LoadCublasLt(path_)) {
  const std::size_t needed = api_.GetVersion() / 10000;
  if (static_cast<std::size_t>(driver_version / 1000) < needed) {
    throw DeviceMissing(fmt::format(
        "back end cuda: found a driver {}, expected one for CUDA {}{}, to which {} belongs",
        DescribeDriver(driver_version), needed, needed == 13 ? " (580 or later)" : "", path_));
  }
  Check(api_.Create(&handle_), "cublasLtCreate");
}

MatmulLibrary::~MatmulLibrary() {
  api_.Destroy(handle_);
}

void MatmulLibrary::Check(int status, const char* call) const {
  if (status == kCublasSuccess) return;
  throw DeviceError(fmt::format("back end cuda: {} failed with {}: {}", call, status,
                                api_.GetStatusString(status)));
}

std::string MatmulShape::ToString() const {
  return fmt::format("{}x{}{} times {}x{}{} in {}", rows, inner,
                     a_transposed ? " (transposed)" : "", inner, columns,
                     b_transposed ? " (transposed)" : "", DTypeName(type));
}

// cuBLASLt's matrices are column-major. Read so, a row-major matrix is its transposed one, and
//   C' = (A * B)' = B' * A'
// so B is the first factor there, and A the second; the shapes below are of the transposed
// matrices. A matrix that memory has transposed is thus one that cuBLASLt transposes.
Matmul::Matmul(const Device& device, const MatmulShape& shape)
    : device_(device),
      library_(device.matmul_library()),
      desc_(nullptr, library_.api().DescDestroy),
      a_(shape.b_transposed ? MakeLayout(shape.inner, shape.columns, shape.type)
                            : MakeLayout(shape.columns, shape.inner, shape.type)),
      b_(shape.a_transposed ? MakeLayout(shape.rows, shape.inner, shape.type)
                            : MakeLayout(shape.inner, shape.rows, shape.type)),
      c_(MakeLayout(shape.columns, shape.rows, shape.result)) {
  MatmulDescHandle desc = nullptr;
  const bool rounds = shape.type == DType::kFloat32 && device.rounds_to_tf32();
  library_.Check(library_.api().DescCreate(
                     &desc, rounds ? kCublasCompute32FFastTF32 : kCublasCompute32F, kCudaR32F),
                 "cublasLtMatmulDescCreate");
  desc_.reset(desc);
  SetTransposed(kMatmulDescTransA, shape.b_transposed);
  SetTransposed(kMatmulDescTransB, shape.a_transposed);
  ChooseAlgorithm(shape);
}

void Matmul::SetTransposed(int attribute, bool transposed) const {
  const std::int32_t operation = transposed ? kCublasOpT : kCublasOpN;
  library_.Check(
      library_.api().DescSetAttribute(desc_.get(), attribute, &operation, sizeof(operation)),
      "cublasLtMatmulDescSetAttribute");
}

Matmul::Owned<OpaqueMatrixLayout> Matmul::MakeLayout(std::int64_t rows, std::int64_t columns,
                                                     DType type) const {
  MatrixLayoutHandle layout = nullptr;
  library_.Check(
      library_.api().LayoutCreate(&layout, CudaTypeOf(type), static_cast<std::uint64_t>(rows),
                                  static_cast<std::uint64_t>(columns), rows),
      "cublasLtMatrixLayoutCreate");
  return {layout, library_.api().LayoutDestroy};
}

void Matmul::ChooseAlgorithm(const MatmulShape& shape) {
  const CublasLtApi& api = library_.api();
  MatmulPreferenceHandle handle = nullptr;
  library_.Check(api.PreferenceCreate(&handle), "cublasLtMatmulPreferenceCreate");
  const Owned<OpaqueMatmulPreference> preference(handle, api.PreferenceDestroy);
  const auto set = [&](int attribute, const auto& value) {
    library_.Check(api.PreferenceSetAttribute(handle, attribute, &value, sizeof(value)),
                   "cublasLtMatmulPreferenceSetAttribute");
  };
  set(kMatmulPrefMaxWorkspaceBytes, kMostWorkspaceBytes);
  // By default, parts of a sum may be kept in C's type, which can have 16 bits, and added in the
  // order in which they are done.
  set(kMatmulPrefReductionSchemeMask, kReductionSchemeComputeType);
  for (const int attribute : {kMatmulPrefMinAlignmentABytes, kMatmulPrefMinAlignmentBBytes,
                              kMatmulPrefMinAlignmentCBytes, kMatmulPrefMinAlignmentDBytes}) {
    set(attribute, kAlignment);
  }
  MatmulHeuristicResult result;
  int found = 0;
  const int status = api.GetHeuristic(library_.handle(), desc_.get(), a_.get(), b_.get(), c_.get(),
                                      c_.get(), handle, 1, &result, &found);
  if (status == kCublasNotSupported || (status == kCublasSuccess && found == 0) ||
      (status == kCublasSuccess && result.state != kCublasSuccess)) {
    throw DeviceError(fmt::format("back end cuda: cuBLASLt has no algorithm for {} on {}",
                                  shape.ToString(), device_.name()));
  }
  library_.Check(status, "cublasLtMatmulAlgoGetHeuristic");
  algorithm_ = result.algorithm;
  workspace_bytes_ = result.workspace_bytes;
}

std::size_t Matmul::WorkspaceBytes() const {
  return workspace_bytes_ == 0 ? 0 : workspace_bytes_ + kWorkspaceAlignment;
}

void Matmul::Run(const void* a, const void* b, void* c, void* workspace) const {
  device_.driver();  // makes the context current
  std::size_t space = WorkspaceBytes();
  if (space == 0) {
    workspace = nullptr;  // it would have to be aligned, too
  } else {
    std::align(kWorkspaceAlignment, workspace_bytes_, workspace, space);
  }
  const float one = 1, zero = 0;
  library_.Check(library_.api().Matmul(library_.handle(), desc_.get(), &one, b, a_.get(), a,
                                       b_.get(), &zero, c, c_.get(), c, c_.get(), &algorithm_,
                                       workspace, workspace_bytes_, device_.stream()),
                 "cublasLtMatmul");
}

}  // namespace lockstep::train::cuda
