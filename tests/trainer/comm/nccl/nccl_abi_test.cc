// What nccl_api.h declares, against NVIDIA's nccl.h.
#include "trainer/comm/nccl/nccl_api.h"

#include <nccl.h>

#include <algorithm>
#include <cstddef>

#include "tests/trainer/backend/cuda/same_abi.h"

namespace lockstep::train::cuda {

template <>
inline constexpr bool kIsSameNamed<nccl::OpaqueComm, ncclComm> = true;
template <>
inline constexpr bool kIsSameNamed<nccl::OpaqueStream, CUstream_st> = true;
template <>
inline constexpr bool kIsSameNamed<nccl::UniqueId, ncclUniqueId> = true;
template <>
inline constexpr bool kIsSameNamed<nccl::Config, ncclConfig_t> = true;

namespace {

using namespace nccl;  // NOLINT(google-build-using-namespace): what is compared

LOCKSTEP_SAME_VALUE(sizeof(UniqueId), sizeof(ncclUniqueId));
using Ours = Config;
using Theirs = ncclConfig_t;
static_assert(sizeof(Ours) <= sizeof(Theirs));
LOCKSTEP_SAME_VALUE(alignof(Ours), alignof(Theirs));
LOCKSTEP_SAME_VALUE(offsetof(Ours, size), offsetof(Theirs, size));
LOCKSTEP_SAME_VALUE(offsetof(Ours, magic), offsetof(Theirs, magic));
LOCKSTEP_SAME_VALUE(offsetof(Ours, version), offsetof(Theirs, version));
LOCKSTEP_SAME_VALUE(offsetof(Ours, blocking), offsetof(Theirs, blocking));
LOCKSTEP_SAME_VALUE(offsetof(Ours, cga_cluster_size), offsetof(Theirs, cgaClusterSize));
LOCKSTEP_SAME_VALUE(offsetof(Ours, min_ctas), offsetof(Theirs, minCTAs));
LOCKSTEP_SAME_VALUE(offsetof(Ours, max_ctas), offsetof(Theirs, maxCTAs));
LOCKSTEP_SAME_VALUE(offsetof(Ours, net_name), offsetof(Theirs, netName));
LOCKSTEP_SAME_VALUE(offsetof(Ours, split_share), offsetof(Theirs, splitShare));

LOCKSTEP_SAME_VALUE(kSuccess, ncclSuccess);
LOCKSTEP_SAME_VALUE(kInProgress, ncclInProgress);
LOCKSTEP_SAME_VALUE(kFloat32, ncclFloat32);
LOCKSTEP_SAME_VALUE(kSum, ncclSum);
LOCKSTEP_SAME_VALUE(kLeastVersion, NCCL_VERSION(2, 18, 0));
LOCKSTEP_SAME_VALUE(kUndefined, NCCL_CONFIG_UNDEF_INT);
constexpr ncclConfig_t kTheirDefault = NCCL_CONFIG_INITIALIZER;
LOCKSTEP_SAME_VALUE(kConfigMagic, kTheirDefault.magic);

// Every function of the table, in its order.
#define LOCKSTEP_NCCL_FUNCTIONS_OF_NVIDIA(X)    \
  X(GetVersion, ncclGetVersion)                 \
  X(GetUniqueId, ncclGetUniqueId)               \
  X(CommInitRankConfig, ncclCommInitRankConfig) \
  X(CommGetAsyncError, ncclCommGetAsyncError)   \
  X(CommAbort, ncclCommAbort)                   \
  X(AllReduce, ncclAllReduce)                   \
  X(Broadcast, ncclBroadcast)                   \
  X(GetErrorString, ncclGetErrorString)         \
  X(GetLastError, ncclGetLastError)

#define LOCKSTEP_SAME_NCCL_FUNCTION(member, function) LOCKSTEP_SAME_FUNCTION(Api, member, function)
LOCKSTEP_NCCL_FUNCTIONS_OF_NVIDIA(LOCKSTEP_SAME_NCCL_FUNCTION)

constexpr NamedFunction kTable[] = {LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_TABLE_ROW_OF_FOUR)};
constexpr NamedFunction kCompared[] = {LOCKSTEP_NCCL_FUNCTIONS_OF_NVIDIA(LOCKSTEP_FUNCTION_ROW)};
static_assert(std::ranges::equal(kTable, kCompared), "a function is not compared with NVIDIA's");

}  // namespace
}  // namespace lockstep::train::cuda
