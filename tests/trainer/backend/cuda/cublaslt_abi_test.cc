// What cublaslt_api.h declares, against NVIDIA's cublasLt.h.
#include "trainer/backend/cuda/device/cublaslt_api.h"

#include <cublasLt.h>

#include <algorithm>
#include <cstddef>

#include "tests/trainer/backend/cuda/same_abi.h"

namespace lockstep::train::cuda {

template <>
inline constexpr bool kIsSameNamed<OpaqueStream, CUstream_st> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueMatmulLibrary, cublasLtContext> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueMatmulDesc, cublasLtMatmulDescOpaque_t> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueMatrixLayout, cublasLtMatrixLayoutOpaque_t> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueMatmulPreference, cublasLtMatmulPreferenceOpaque_t> = true;
template <>
inline constexpr bool kIsSameNamed<MatmulAlgorithm, cublasLtMatmulAlgo_t> = true;
template <>
inline constexpr bool kIsSameNamed<MatmulHeuristicResult, cublasLtMatmulHeuristicResult_t> = true;

namespace {

LOCKSTEP_SAME_VALUE(sizeof(MatmulAlgorithm), sizeof(cublasLtMatmulAlgo_t));
LOCKSTEP_SAME_VALUE(alignof(MatmulAlgorithm), alignof(cublasLtMatmulAlgo_t));
using Ours = MatmulHeuristicResult;
using Theirs = cublasLtMatmulHeuristicResult_t;
LOCKSTEP_SAME_VALUE(sizeof(Ours), sizeof(Theirs));
LOCKSTEP_SAME_VALUE(alignof(Ours), alignof(Theirs));
LOCKSTEP_SAME_VALUE(offsetof(Ours, algorithm), offsetof(Theirs, algo));
LOCKSTEP_SAME_VALUE(offsetof(Ours, workspace_bytes), offsetof(Theirs, workspaceSize));
LOCKSTEP_SAME_VALUE(offsetof(Ours, state), offsetof(Theirs, state));
LOCKSTEP_SAME_VALUE(offsetof(Ours, waves), offsetof(Theirs, wavesCount));

LOCKSTEP_SAME_VALUE(kCublasSuccess, CUBLAS_STATUS_SUCCESS);
LOCKSTEP_SAME_VALUE(kCublasNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
LOCKSTEP_SAME_VALUE(kCublasCompute32F, CUBLAS_COMPUTE_32F);
LOCKSTEP_SAME_VALUE(kCublasCompute32FFastTF32, CUBLAS_COMPUTE_32F_FAST_TF32);
LOCKSTEP_SAME_VALUE(kCudaR32F, CUDA_R_32F);
LOCKSTEP_SAME_VALUE(kCudaR16F, CUDA_R_16F);
LOCKSTEP_SAME_VALUE(kCudaR16BF, CUDA_R_16BF);
LOCKSTEP_SAME_VALUE(kCublasOpN, CUBLAS_OP_N);
LOCKSTEP_SAME_VALUE(kCublasOpT, CUBLAS_OP_T);
LOCKSTEP_SAME_VALUE(kMatmulDescTransA, CUBLASLT_MATMUL_DESC_TRANSA);
LOCKSTEP_SAME_VALUE(kMatmulDescTransB, CUBLASLT_MATMUL_DESC_TRANSB);
LOCKSTEP_SAME_VALUE(kMatmulPrefMaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
LOCKSTEP_SAME_VALUE(kMatmulPrefReductionSchemeMask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
LOCKSTEP_SAME_VALUE(kReductionSchemeComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
LOCKSTEP_SAME_VALUE(kMatmulPrefMinAlignmentABytes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
LOCKSTEP_SAME_VALUE(kMatmulPrefMinAlignmentBBytes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
LOCKSTEP_SAME_VALUE(kMatmulPrefMinAlignmentCBytes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
LOCKSTEP_SAME_VALUE(kMatmulPrefMinAlignmentDBytes, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

// Every function of the table, in its order.
#define LOCKSTEP_CUBLASLT_FUNCTIONS_OF_NVIDIA(X)                  \
  X(Create, cublasLtCreate)                                       \
  X(Destroy, cublasLtDestroy)                                     \
  X(GetVersion, cublasLtGetVersion)                               \
  X(GetStatusString, cublasLtGetStatusString)                     \
  X(DescCreate, cublasLtMatmulDescCreate)                         \
  X(DescDestroy, cublasLtMatmulDescDestroy)                       \
  X(DescSetAttribute, cublasLtMatmulDescSetAttribute)             \
  X(LayoutCreate, cublasLtMatrixLayoutCreate)                     \
  X(LayoutDestroy, cublasLtMatrixLayoutDestroy)                   \
  X(PreferenceCreate, cublasLtMatmulPreferenceCreate)             \
  X(PreferenceDestroy, cublasLtMatmulPreferenceDestroy)           \
  X(PreferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute) \
  X(GetHeuristic, cublasLtMatmulAlgoGetHeuristic)                 \
  X(Matmul, cublasLtMatmul)

#define LOCKSTEP_SAME_CUBLASLT_FUNCTION(member, function) \
  LOCKSTEP_SAME_FUNCTION(CublasLtApi, member, function)
LOCKSTEP_CUBLASLT_FUNCTIONS_OF_NVIDIA(LOCKSTEP_SAME_CUBLASLT_FUNCTION)

constexpr NamedFunction kTable[] = {LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_TABLE_ROW_OF_FOUR)};
constexpr NamedFunction kCompared[] = {
    LOCKSTEP_CUBLASLT_FUNCTIONS_OF_NVIDIA(LOCKSTEP_FUNCTION_ROW)};
static_assert(std::ranges::equal(kTable, kCompared), "a function is not compared with NVIDIA's");

}  // namespace
}  // namespace lockstep::train::cuda
