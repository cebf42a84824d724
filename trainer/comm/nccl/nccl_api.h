// The functions and constants of NVIDIA's NCCL, 2.18 or later, that this folder uses. The
// declarations are our own, so that building needs no NCCL; the preset `cuda` compares them with
// nccl.h.
#pragma once

#include <climits>
#include <cstddef>

#include "absl/status/statusor.h"

namespace lockstep::train::nccl {

using CommHandle = struct OpaqueComm*;
using StreamHandle = struct OpaqueStream*;

inline constexpr int kSuccess = 0;
inline constexpr int kInProgress = 7;
inline constexpr int kFloat32 = 7;  // ncclFloat32
inline constexpr int kSum = 0;      // ncclSum
inline constexpr int kLeastVersion = 21800;
inline constexpr int kUndefined = INT_MIN;  // NCCL_CONFIG_UNDEF_INT
inline constexpr unsigned kConfigMagic = 0xcafebeef;

struct UniqueId {
  char internal[128];
};

// ncclConfig_t as of kLeastVersion: later ones add members, and take this for one of that version.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = kConfigMagic;
  unsigned version = kLeastVersion;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

// X(result, member, symbol, arguments); ints are ncclResult_t.
#define LOCKSTEP_NCCL_FUNCTIONS(X)                                                            \
  X(int, GetVersion, "ncclGetVersion", (int* version))                                        \
  X(int, GetUniqueId, "ncclGetUniqueId", (UniqueId * id))                                     \
  X(int, CommInitRankConfig, "ncclCommInitRankConfig",                                        \
    (CommHandle * comm, int ranks, UniqueId id, int rank, Config* config))                    \
  X(int, CommGetAsyncError, "ncclCommGetAsyncError", (CommHandle comm, int* result))          \
  X(int, CommAbort, "ncclCommAbort", (CommHandle comm))                                       \
  X(int, AllReduce, "ncclAllReduce",                                                          \
    (const void* from, void* to, std::size_t count, int type, int operation, CommHandle comm, \
     StreamHandle stream))                                                                    \
  X(int, Broadcast, "ncclBroadcast",                                                          \
    (const void* from, void* to, std::size_t count, int type, int root, CommHandle comm,      \
     StreamHandle stream))                                                                    \
  X(const char*, GetErrorString, "ncclGetErrorString", (int result))                          \
  X(const char*, GetLastError, "ncclGetLastError", (CommHandle comm))

struct Api {
#define LOCKSTEP_MEMBER(result, member, symbol, arguments) result(*member) arguments = nullptr;
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_MEMBER)
#undef LOCKSTEP_MEMBER
  int version = 0;  // 22809 is 2.28.9
};

// Opens libnccl.so.2; it stays open. NotFound: it is not there, is too old or lacks a function.
// Thread-safe.
absl::StatusOr<const Api*> OpenNccl();

}  // namespace lockstep::train::nccl
