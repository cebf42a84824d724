// The functions and constants of NVIDIA's cuDNN 9 (its graph API) that this back end uses. The
// declarations are our own, as in driver_api.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/backend/cuda/device/driver_api.h"

namespace lockstep::train::cuda {

using DnnLibraryHandle = struct OpaqueDnnLibrary*;
using DnnDescriptorHandle = void*;  // cudnnBackendDescriptor_t

inline constexpr int kDnnSuccess = 0;  // CUDNN_STATUS_SUCCESS

// cudnnBackendDescriptorType_t
enum class DnnDescriptorType : int {
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristic = 4,
  kExecutionPlan = 5,
  kConvolutionForward = 10,
  kConvolutionBackwardFilter = 11,
  kConvolutionBackwardData = 12,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
};

// cudnnBackendAttributeType_t
enum class DnnType : int {
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kFloat = 4,
  kVoidPointer = 6,
  kConvolutionMode = 7,
  kHeuristicMode = 8,
  kNumericalNote = 11,
  kDescriptor = 15,
};

// cudnnBackendAttributeName_t
enum class DnnAttribute : int {
  kConvolutionComputeType = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPostPaddings = 104,
  kConvolutionPrePaddings = 105,
  kConvolutionSpatialDims = 106,
  kEngineHeuristicMode = 200,
  kEngineHeuristicGraph = 201,
  kEngineHeuristicResults = 202,
  kEngineConfigEngine = 300,
  kPlanHandle = 400,
  kPlanEngineConfig = 401,
  kPlanWorkspaceSize = 402,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kBackwardDataAlpha = 706,
  kBackwardDataBeta = 707,
  kBackwardDataConvolution = 708,
  kBackwardDataW = 709,
  kBackwardDataDx = 710,
  kBackwardDataDy = 711,
  kBackwardFilterAlpha = 712,
  kBackwardFilterBeta = 713,
  kBackwardFilterConvolution = 714,
  kBackwardFilterDw = 715,
  kBackwardFilterX = 716,
  kBackwardFilterDy = 717,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorByteAlignment = 900,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorUniqueId = 906,
  kPackUniqueIds = 1000,
  kPackDataPointers = 1001,
  kPackWorkspace = 1003,
  kEngineGlobalIndex = 1301,
  kEngineNumericalNote = 1303,
};

// cudnnDataType_t, cudnnConvolutionMode_t
inline constexpr int kDnnDataFloat = 0;
inline constexpr int kDnnDataHalf = 2;
inline constexpr int kDnnDataBfloat16 = 9;
inline constexpr int kDnnCrossCorrelation = 1;

// cudnnBackendHeurMode_t
inline constexpr int kDnnHeuristicB = 1;
inline constexpr int kDnnHeuristicFallback = 2;
inline constexpr int kDnnHeuristicA = 3;

// cudnnBackendNumericalNote_t
inline constexpr int kDnnNoteTensorCore = 0;
inline constexpr int kDnnNoteDownConvertInputs = 1;
inline constexpr int kDnnNoteReducedPrecisionReduction = 2;
inline constexpr int kDnnNoteNondeterministic = 4;
inline constexpr int kDnnNoteCount = 10;

// X(result, member, symbol, arguments); an int is a cudnnStatus_t.
#define LOCKSTEP_CUDNN_FUNCTIONS(X)                                                                \
  X(int, Create, "cudnnCreate", (DnnLibraryHandle * handle))                                       \
  X(int, Destroy, "cudnnDestroy", (DnnLibraryHandle handle))                                       \
  X(std::size_t, GetVersion, "cudnnGetVersion", ())                                                \
  X(const char*, GetErrorString, "cudnnGetErrorString", (int status))                              \
  X(void, GetLastErrorString, "cudnnGetLastErrorString", (char* message, std::size_t bytes))       \
  X(int, SetStream, "cudnnSetStream", (DnnLibraryHandle handle, StreamHandle stream))              \
  X(int, CreateDescriptor, "cudnnBackendCreateDescriptor",                                         \
    (DnnDescriptorType type, DnnDescriptorHandle * descriptor))                                    \
  X(int, DestroyDescriptor, "cudnnBackendDestroyDescriptor", (DnnDescriptorHandle descriptor))     \
  X(int, SetAttribute, "cudnnBackendSetAttribute",                                                 \
    (DnnDescriptorHandle descriptor, DnnAttribute attribute, DnnType type, std::int64_t count,     \
     const void* values))                                                                          \
  X(int, GetAttribute, "cudnnBackendGetAttribute",                                                 \
    (DnnDescriptorHandle descriptor, DnnAttribute attribute, DnnType type, std::int64_t requested, \
     std::int64_t* count, void* values))                                                           \
  X(int, Finalize, "cudnnBackendFinalize", (DnnDescriptorHandle descriptor))                       \
  X(int, Execute, "cudnnBackendExecute",                                                           \
    (DnnLibraryHandle handle, DnnDescriptorHandle plan, DnnDescriptorHandle pack))

struct CudnnApi {
#define LOCKSTEP_MEMBER(result, member, symbol, arguments) result(*member) arguments = nullptr;
  LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
};

}  // namespace lockstep::train::cuda
