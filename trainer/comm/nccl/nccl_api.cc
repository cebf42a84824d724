#include "trainer/comm/nccl/nccl_api.h"

#include <fmt/format.h>

#include "base/status.h"
#include "trainer/core/shared_library.h"

namespace lockstep::train::nccl {
namespace {

absl::StatusOr<Api> LoadNccl() {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const SharedLibrary library,
      SharedLibrary::Open({"libnccl.so.2"}, "NVIDIA's NCCL 2 (libnccl.so.2)"));
  Api api;
#define LOCKSTEP_LOAD(result, member, symbol, arguments) \
  LOCKSTEP_RETURN_IF_ERROR(library.Load(api.member, symbol));
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_LOAD)
#undef LOCKSTEP_LOAD
  if (const int result = api.GetVersion(&api.version); result != kSuccess) {
    return absl::NotFoundError(
        fmt::format("{}: ncclGetVersion failed with {}", library.name(), result));
  }
  if (api.version < kLeastVersion) {
    return absl::NotFoundError(fmt::format("{}: found NCCL of version {}, expected {} or later",
                                           library.name(), api.version, kLeastVersion));
  }
  return api;
}

}  // namespace

absl::StatusOr<const Api*> OpenNccl() {
  static const absl::StatusOr<Api> api = LoadNccl();
  if (!api.ok()) return api.status();
  return &*api;
}

}  // namespace lockstep::train::nccl
