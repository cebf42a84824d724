// The functions of NVIDIA's cuBLASLt that this back end calls. The declarations are our own, as in
// driver_api.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/backend/cuda/device/driver_api.h"

namespace lockstep::train::cuda {

using MatmulLibraryHandle = struct OpaqueMatmulLibrary*;
using MatmulDescHandle = struct OpaqueMatmulDesc*;
using MatrixLayoutHandle = struct OpaqueMatrixLayout*;
using MatmulPreferenceHandle = struct OpaqueMatmulPreference*;

struct MatmulAlgorithm {  // cublasLtMatmulAlgo_t
  std::uint64_t data[8] = {};
};
struct MatmulHeuristicResult {  // cublasLtMatmulHeuristicResult_t
  MatmulAlgorithm algorithm;
  std::size_t workspace_bytes = 0;
  int state = 0;  // another result than kCublasSuccess: the rest is not valid
  float waves = 0;
  int reserved[4] = {};
};

// cublasStatus_t
inline constexpr int kCublasSuccess = 0;
inline constexpr int kCublasNotSupported = 15;
// cublasComputeType_t: float32 as it is, and with factors rounded to TF32.
inline constexpr int kCublasCompute32F = 68;
inline constexpr int kCublasCompute32FFastTF32 = 77;
// cudaDataType
inline constexpr int kCudaR32F = 0;
inline constexpr int kCudaR16F = 2;
inline constexpr int kCudaR16BF = 14;
// cublasOperation_t
inline constexpr int kCublasOpN = 0;
inline constexpr int kCublasOpT = 1;
// cublasLtMatmulDescAttributes_t; int32_t
inline constexpr int kMatmulDescTransA = 3;
inline constexpr int kMatmulDescTransB = 4;
// cublasLtReductionScheme_t; one that adds parts in the type of their sums
inline constexpr std::uint32_t kReductionSchemeComputeType = 2;
// cublasLtMatmulPreferenceAttributes_t; uint64_t, and uint32_t for the mask and the alignments
inline constexpr int kMatmulPrefMaxWorkspaceBytes = 1;
inline constexpr int kMatmulPrefReductionSchemeMask = 3;
inline constexpr int kMatmulPrefMinAlignmentABytes = 5;
inline constexpr int kMatmulPrefMinAlignmentBBytes = 6;
inline constexpr int kMatmulPrefMinAlignmentCBytes = 7;
inline constexpr int kMatmulPrefMinAlignmentDBytes = 8;

// X(result, member, symbol, arguments); an int is a cublasStatus_t.
#define LOCKSTEP_CUBLASLT_FUNCTIONS(X)                                                          \
  X(int, Create, "cublasLtCreate", (MatmulLibraryHandle * handle))                              \
  X(int, Destroy, "cublasLtDestroy", (MatmulLibraryHandle handle))                              \
  X(std::size_t, GetVersion, "cublasLtGetVersion", ())                                          \
  X(const char*, GetStatusString, "cublasLtGetStatusString", (int status))                      \
  X(int, DescCreate, "cublasLtMatmulDescCreate",                                                \
    (MatmulDescHandle * desc, int compute_type, int scale_type))                                \
  X(int, DescDestroy, "cublasLtMatmulDescDestroy", (MatmulDescHandle desc))                     \
  X(int, DescSetAttribute, "cublasLtMatmulDescSetAttribute",                                    \
    (MatmulDescHandle desc, int attribute, const void* value, std::size_t bytes))               \
  X(int, LayoutCreate, "cublasLtMatrixLayoutCreate",                                            \
    (MatrixLayoutHandle * layout, int type, std::uint64_t rows, std::uint64_t columns,          \
     std::int64_t leading_dimension))                                                           \
  X(int, LayoutDestroy, "cublasLtMatrixLayoutDestroy", (MatrixLayoutHandle layout))             \
  X(int, PreferenceCreate, "cublasLtMatmulPreferenceCreate",                                    \
    (MatmulPreferenceHandle * preference))                                                      \
  X(int, PreferenceDestroy, "cublasLtMatmulPreferenceDestroy",                                  \
    (MatmulPreferenceHandle preference))                                                        \
  X(int, PreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute",                        \
    (MatmulPreferenceHandle preference, int attribute, const void* value, std::size_t bytes))   \
  X(int, GetHeuristic, "cublasLtMatmulAlgoGetHeuristic",                                        \
    (MatmulLibraryHandle handle, MatmulDescHandle desc, MatrixLayoutHandle a,                   \
     MatrixLayoutHandle b, MatrixLayoutHandle c, MatrixLayoutHandle d,                          \
     MatmulPreferenceHandle preference, int requested, MatmulHeuristicResult* results,          \
     int* found))                                                                               \
  X(int, Matmul, "cublasLtMatmul",                                                              \
    (MatmulLibraryHandle handle, MatmulDescHandle desc, const void* alpha, const void* a,       \
     MatrixLayoutHandle a_layout, const void* b, MatrixLayoutHandle b_layout, const void* beta, \
     const void* c, MatrixLayoutHandle c_layout, void* d, MatrixLayoutHandle d_layout,          \
     const MatmulAlgorithm* algorithm, void* workspace, std::size_t workspace_bytes,            \
     StreamHandle stream))

struct CublasLtApi {
#define LOCKSTEP_MEMBER(result, member, symbol, arguments) result(*member) arguments = nullptr;
  LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
};

}  // namespace lockstep::train::cuda
