// cuBLASLt's functions on the simulated device: products of column-major matrices, with sums
// in double, and nothing else. Handles are addresses of the simulator's own objects.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "tests/support/cuda_sim/device_memory.h"
#include "tests/support/cuda_sim/export.h"
#include "tests/support/cuda_sim/numbers.h"
#include "tests/support/cuda_sim/products.h"
#include "tests/support/cuda_sim/sim_stream.h"

namespace {

using cuda_sim::NumberType;
using cuda_sim::SimStream;

enum Status {
  kSuccess = 0,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15,
};
constexpr int kCompute32F = 68, kCompute32FFastTF32 = 77;
constexpr int kFloat32 = 0, kFloat16 = 2, kBFloat16 = 14;
constexpr int kTransA = 3, kTransB = 4;
constexpr std::uint32_t kComputeTypeReduction = 2;

struct Desc {
  bool rounds_to_tf32 = false;
  std::int32_t trans_a = 0, trans_b = 0;
};
struct Layout {
  std::int64_t rows = 0, columns = 0, leading = 0;
  NumberType type = NumberType::kFloat32;
};
struct Preference {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reductions = 7;             // all
  std::map<int, std::uint32_t> alignments;  // by attribute
};
struct Algorithm {
  std::uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

int the_handle = 0;  // its address is the handle
// The simulator's one algorithm: a mark that a program must hand back, and a workspace.
constexpr std::uint64_t kAlgorithmMark = 0x10c857e9;
constexpr std::size_t kWorkspaceBytes = 512;

// The factor as the product reads it.
Layout Operand(const Layout& layout, bool transposed) {
  return transposed ? Layout{layout.columns, layout.rows, layout.leading, layout.type} : layout;
}

bool Fit(const Desc& desc, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const Layout left = Operand(a, desc.trans_a == 1), right = Operand(b, desc.trans_b == 1);
  return left.columns == right.rows && left.rows == d.rows && right.columns == d.columns &&
         c.rows == d.rows && c.columns == d.columns && c.leading == d.leading && c.type == d.type &&
         a.type == b.type && (c.type == a.type || c.type == NumberType::kFloat32);
}

struct Factor {
  const void* values;
  std::int64_t leading;
  NumberType type;
  bool transposed, rounds;
  double At(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = transposed ? row * leading + column : column * leading + row;
    const float value = cuda_sim::NumberAt(values, static_cast<std::size_t>(i), type);
    return rounds ? cuda_sim::RoundedToTf32(value) : value;
  }
};

void Multiply(const Factor& a, const Factor& b, std::int64_t inner, const Layout& layout, void* d) {
  const auto size = static_cast<std::size_t>(inner);
  std::vector<double> rows, column(size);  // the rows of a, one behind the other
  rows.reserve(static_cast<std::size_t>(layout.rows) * size);
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    for (std::int64_t i = 0; i < inner; ++i) rows.push_back(a.At(row, i));
  }
  for (std::int64_t c = 0; c < layout.columns; ++c) {
    for (std::int64_t i = 0; i < inner; ++i) column[static_cast<std::size_t>(i)] = b.At(i, c);
    for (std::int64_t row = 0; row < layout.rows; ++row) {
      const double sum =
          cuda_sim::InnerProduct(&rows[static_cast<std::size_t>(row) * size], column.data(), inner);
      cuda_sim::SetNumber(d, static_cast<std::size_t>(c * layout.leading + row), layout.type,
                          static_cast<float>(sum));
    }
  }
}

template <typename T>
int Set(T& member, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return kInvalidValue;
  std::memcpy(&member, value, bytes);
  return kSuccess;
}

}  // namespace

CUDA_SIM_EXPORT int cublasLtCreate(void** handle) {
  *handle = &the_handle;
  return kSuccess;
}
CUDA_SIM_EXPORT int cublasLtDestroy(void* handle) {
  return handle == &the_handle ? kSuccess : kInvalidValue;
}
CUDA_SIM_EXPORT std::size_t cublasLtGetVersion() {
  return 130500;
}
CUDA_SIM_EXPORT const char* cublasLtGetStatusString(int status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "unknown";
  }
}

CUDA_SIM_EXPORT int cublasLtMatmulDescCreate(Desc** desc, int compute_type, int scale_type) {
  if ((compute_type != kCompute32F && compute_type != kCompute32FFastTF32) ||
      scale_type != kFloat32) {
    return kNotSupported;
  }
  *desc = new Desc{.rounds_to_tf32 = compute_type == kCompute32FFastTF32};
  return kSuccess;
}
CUDA_SIM_EXPORT int cublasLtMatmulDescDestroy(Desc* desc) {
  delete desc;
  return kSuccess;
}
CUDA_SIM_EXPORT int cublasLtMatmulDescSetAttribute(Desc* desc, int attribute, const void* value,
                                                   std::size_t bytes) {
  if (attribute != kTransA && attribute != kTransB) return kNotSupported;
  std::int32_t operation = 0;
  if (Set(operation, value, bytes) != kSuccess) return kInvalidValue;
  if (operation != 0 && operation != 1) return kNotSupported;
  (attribute == kTransA ? desc->trans_a : desc->trans_b) = operation;
  return kSuccess;
}

CUDA_SIM_EXPORT int cublasLtMatrixLayoutCreate(Layout** layout, int type, std::uint64_t rows,
                                               std::uint64_t columns, std::int64_t leading) {
  if (type != kFloat32 && type != kFloat16 && type != kBFloat16) return kNotSupported;
  if (rows == 0 || columns == 0 || leading < static_cast<std::int64_t>(rows)) return kInvalidValue;
  *layout = new Layout{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading,
                       type == kFloat32   ? NumberType::kFloat32
                       : type == kFloat16 ? NumberType::kFloat16
                                          : NumberType::kBFloat16};
  return kSuccess;
}
CUDA_SIM_EXPORT int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return kSuccess;
}

CUDA_SIM_EXPORT int cublasLtMatmulPreferenceCreate(Preference** preference) {
  *preference = new Preference;
  return kSuccess;
}
CUDA_SIM_EXPORT int cublasLtMatmulPreferenceDestroy(Preference* preference) {
  delete preference;
  return kSuccess;
}
CUDA_SIM_EXPORT int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute,
                                                         const void* value, std::size_t bytes) {
  if (attribute == 1) return Set(preference->workspace_bytes, value, bytes);
  if (attribute == 3) return Set(preference->reductions, value, bytes);
  if (attribute >= 5 && attribute <= 8) {
    return Set(preference->alignments[attribute], value, bytes);
  }
  return kNotSupported;
}

CUDA_SIM_EXPORT int cublasLtMatmulAlgoGetHeuristic(void* handle, Desc* desc, Layout* a, Layout* b,
                                                   Layout* c, Layout* d, Preference* preference,
                                                   int requested, HeuristicResult* results,
                                                   int* found) {
  *found = 0;
  if (handle != &the_handle || requested < 1 || !Fit(*desc, *a, *b, *c, *d)) return kInvalidValue;
  if (preference->workspace_bytes < kWorkspaceBytes) return kNotSupported;
  // A program must not let parts of sums be kept in C's type.
  if ((preference->reductions & ~kComputeTypeReduction) != 0) return kNotSupported;
  for (const Layout* layout : {a, b, c}) {
    if (std::max(layout->rows, layout->columns) > std::numeric_limits<std::int32_t>::max()) {
      return kNotSupported;
    }
  }
  results[0] = {.algorithm = {.data = {kAlgorithmMark}},
                .workspace_bytes = kWorkspaceBytes,
                .state = kSuccess,
                .waves = 1,
                .reserved = {}};
  *found = 1;
  return kSuccess;
}

CUDA_SIM_EXPORT int cublasLtMatmul(void* handle, Desc* desc, const float* alpha, std::uint64_t a,
                                   Layout* a_layout, std::uint64_t b, Layout* b_layout,
                                   const float* beta, std::uint64_t c, Layout* c_layout,
                                   std::uint64_t d, Layout* d_layout, const Algorithm* algorithm,
                                   std::uint64_t workspace, std::size_t workspace_bytes,
                                   SimStream* stream) {
  if (handle != &the_handle || !Fit(*desc, *a_layout, *b_layout, *c_layout, *d_layout) ||
      algorithm->data[0] != kAlgorithmMark || workspace_bytes < kWorkspaceBytes ||
      workspace % 256 != 0) {
    return kInvalidValue;
  }
  if (*alpha != 1 || *beta != 0 || c != d) return kNotSupported;
  const std::int64_t inner = Operand(*a_layout, desc->trans_a == 1).columns;
  const auto multiply = [=, desc = *desc, of_a = *a_layout, of_b = *b_layout, layout = *d_layout] {
    // Whatever the workspace held is lost.
    std::memset(cuda_sim::RealAddress<void>(workspace), 0xff, kWorkspaceBytes);
    Multiply({cuda_sim::RealAddress<void>(a), of_a.leading, of_a.type, desc.trans_a == 1,
              desc.rounds_to_tf32},
             {cuda_sim::RealAddress<void>(b), of_b.leading, of_b.type, desc.trans_b == 1,
              desc.rounds_to_tf32},
             inner, layout, cuda_sim::RealAddress<void>(d));
  };
  return stream->Enqueue(multiply) == cuda_sim::kSuccess ? kSuccess : kExecutionFailed;
}
