// What cudnn_api.h declares, against NVIDIA's cudnn_graph.h.
#include "trainer/backend/cuda/device/cudnn_api.h"

#include <cudnn_graph.h>

#include <algorithm>

#include "tests/trainer/backend/cuda/same_abi.h"

namespace lockstep::train::cuda {

template <>
inline constexpr bool kIsSameNamed<OpaqueStream, CUstream_st> = true;
template <>
inline constexpr bool kIsSameNamed<OpaqueDnnLibrary, cudnnContext> = true;
template <>
inline constexpr bool kIsSameNamed<DnnDescriptorType, cudnnBackendDescriptorType_t> = true;
template <>
inline constexpr bool kIsSameNamed<DnnType, cudnnBackendAttributeType_t> = true;
template <>
inline constexpr bool kIsSameNamed<DnnAttribute, cudnnBackendAttributeName_t> = true;

namespace {

static_assert(IsSameType<DnnDescriptorHandle, cudnnBackendDescriptor_t>());

LOCKSTEP_SAME_VALUE(DnnDescriptorType::kConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
LOCKSTEP_SAME_VALUE(DnnDescriptorType::kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
LOCKSTEP_SAME_VALUE(DnnDescriptorType::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
LOCKSTEP_SAME_VALUE(DnnDescriptorType::kEngineHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
LOCKSTEP_SAME_VALUE(DnnDescriptorType::kExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
LOCKSTEP_SAME_VALUE(DnnDescriptorType::kConvolutionForward,
                    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
LOCKSTEP_SAME_VALUE(DnnDescriptorType::kConvolutionBackwardFilter,
                    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
LOCKSTEP_SAME_VALUE(DnnDescriptorType::kConvolutionBackwardData,
                    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
LOCKSTEP_SAME_VALUE(DnnDescriptorType::kOperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
LOCKSTEP_SAME_VALUE(DnnDescriptorType::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
LOCKSTEP_SAME_VALUE(DnnDescriptorType::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

LOCKSTEP_SAME_VALUE(DnnType::kHandle, CUDNN_TYPE_HANDLE);
LOCKSTEP_SAME_VALUE(DnnType::kDataType, CUDNN_TYPE_DATA_TYPE);
LOCKSTEP_SAME_VALUE(DnnType::kBoolean, CUDNN_TYPE_BOOLEAN);
LOCKSTEP_SAME_VALUE(DnnType::kInt64, CUDNN_TYPE_INT64);
LOCKSTEP_SAME_VALUE(DnnType::kFloat, CUDNN_TYPE_FLOAT);
LOCKSTEP_SAME_VALUE(DnnType::kVoidPointer, CUDNN_TYPE_VOID_PTR);
LOCKSTEP_SAME_VALUE(DnnType::kConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE);
LOCKSTEP_SAME_VALUE(DnnType::kHeuristicMode, CUDNN_TYPE_HEUR_MODE);
LOCKSTEP_SAME_VALUE(DnnType::kNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE);
LOCKSTEP_SAME_VALUE(DnnType::kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);

LOCKSTEP_SAME_VALUE(DnnAttribute::kConvolutionComputeType, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
LOCKSTEP_SAME_VALUE(DnnAttribute::kConvolutionMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
LOCKSTEP_SAME_VALUE(DnnAttribute::kConvolutionDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
LOCKSTEP_SAME_VALUE(DnnAttribute::kConvolutionStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
LOCKSTEP_SAME_VALUE(DnnAttribute::kConvolutionPostPaddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
LOCKSTEP_SAME_VALUE(DnnAttribute::kConvolutionPrePaddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
LOCKSTEP_SAME_VALUE(DnnAttribute::kConvolutionSpatialDims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
LOCKSTEP_SAME_VALUE(DnnAttribute::kEngineHeuristicMode, CUDNN_ATTR_ENGINEHEUR_MODE);
LOCKSTEP_SAME_VALUE(DnnAttribute::kEngineHeuristicGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
LOCKSTEP_SAME_VALUE(DnnAttribute::kEngineHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
LOCKSTEP_SAME_VALUE(DnnAttribute::kEngineConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
LOCKSTEP_SAME_VALUE(DnnAttribute::kPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
LOCKSTEP_SAME_VALUE(DnnAttribute::kPlanEngineConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
LOCKSTEP_SAME_VALUE(DnnAttribute::kPlanWorkspaceSize, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
LOCKSTEP_SAME_VALUE(DnnAttribute::kForwardAlpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
LOCKSTEP_SAME_VALUE(DnnAttribute::kForwardBeta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
LOCKSTEP_SAME_VALUE(DnnAttribute::kForwardConvolution,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
LOCKSTEP_SAME_VALUE(DnnAttribute::kForwardW, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
LOCKSTEP_SAME_VALUE(DnnAttribute::kForwardX, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
LOCKSTEP_SAME_VALUE(DnnAttribute::kForwardY, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardDataAlpha,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardDataBeta,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardDataConvolution,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardDataW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardDataDx, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardDataDy, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardFilterAlpha,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardFilterBeta,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardFilterConvolution,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardFilterDw,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardFilterX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
LOCKSTEP_SAME_VALUE(DnnAttribute::kBackwardFilterDy,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
LOCKSTEP_SAME_VALUE(DnnAttribute::kGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
LOCKSTEP_SAME_VALUE(DnnAttribute::kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
LOCKSTEP_SAME_VALUE(DnnAttribute::kTensorByteAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
LOCKSTEP_SAME_VALUE(DnnAttribute::kTensorDataType, CUDNN_ATTR_TENSOR_DATA_TYPE);
LOCKSTEP_SAME_VALUE(DnnAttribute::kTensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
LOCKSTEP_SAME_VALUE(DnnAttribute::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
LOCKSTEP_SAME_VALUE(DnnAttribute::kTensorUniqueId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
LOCKSTEP_SAME_VALUE(DnnAttribute::kPackUniqueIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
LOCKSTEP_SAME_VALUE(DnnAttribute::kPackDataPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
LOCKSTEP_SAME_VALUE(DnnAttribute::kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
LOCKSTEP_SAME_VALUE(DnnAttribute::kEngineGlobalIndex, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
LOCKSTEP_SAME_VALUE(DnnAttribute::kEngineNumericalNote, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);

LOCKSTEP_SAME_VALUE(kDnnSuccess, CUDNN_STATUS_SUCCESS);
LOCKSTEP_SAME_VALUE(kDnnDataFloat, CUDNN_DATA_FLOAT);
LOCKSTEP_SAME_VALUE(kDnnDataHalf, CUDNN_DATA_HALF);
LOCKSTEP_SAME_VALUE(kDnnDataBfloat16, CUDNN_DATA_BFLOAT16);
LOCKSTEP_SAME_VALUE(kDnnCrossCorrelation, CUDNN_CROSS_CORRELATION);
LOCKSTEP_SAME_VALUE(kDnnHeuristicB, CUDNN_HEUR_MODE_B);
LOCKSTEP_SAME_VALUE(kDnnHeuristicFallback, CUDNN_HEUR_MODE_FALLBACK);
LOCKSTEP_SAME_VALUE(kDnnHeuristicA, CUDNN_HEUR_MODE_A);
LOCKSTEP_SAME_VALUE(kDnnNoteTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
LOCKSTEP_SAME_VALUE(kDnnNoteDownConvertInputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
LOCKSTEP_SAME_VALUE(kDnnNoteReducedPrecisionReduction,
                    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
LOCKSTEP_SAME_VALUE(kDnnNoteNondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
LOCKSTEP_SAME_VALUE(kDnnNoteCount, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);

// Every function of the table, in its order.
#define LOCKSTEP_CUDNN_FUNCTIONS_OF_NVIDIA(X)         \
  X(Create, cudnnCreate)                              \
  X(Destroy, cudnnDestroy)                            \
  X(GetVersion, cudnnGetVersion)                      \
  X(GetErrorString, cudnnGetErrorString)              \
  X(GetLastErrorString, cudnnGetLastErrorString)      \
  X(SetStream, cudnnSetStream)                        \
  X(CreateDescriptor, cudnnBackendCreateDescriptor)   \
  X(DestroyDescriptor, cudnnBackendDestroyDescriptor) \
  X(SetAttribute, cudnnBackendSetAttribute)           \
  X(GetAttribute, cudnnBackendGetAttribute)           \
  X(Finalize, cudnnBackendFinalize)                   \
  X(Execute, cudnnBackendExecute)

#define LOCKSTEP_SAME_CUDNN_FUNCTION(member, function) \
  LOCKSTEP_SAME_FUNCTION(CudnnApi, member, function)
LOCKSTEP_CUDNN_FUNCTIONS_OF_NVIDIA(LOCKSTEP_SAME_CUDNN_FUNCTION)

constexpr NamedFunction kTable[] = {LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_TABLE_ROW_OF_FOUR)};
constexpr NamedFunction kCompared[] = {LOCKSTEP_CUDNN_FUNCTIONS_OF_NVIDIA(LOCKSTEP_FUNCTION_ROW)};
static_assert(std::ranges::equal(kTable, kCompared), "a function is not compared with NVIDIA's");

}  // namespace
}  // namespace lockstep::train::cuda
