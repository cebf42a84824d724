#include "trainer/comm/make_stream_communicator.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "trainer/comm/nccl/join_nccl_group.h"

namespace lockstep::train {

absl::StatusOr<std::unique_ptr<StreamCommunicator>> MakeStreamCommunicator(
    const StreamCommunicatorOptions& options, Communicator& host,
    const std::optional<DeviceSums>& sums, std::span<const GradientReducer::Bucket> ranges,
    std::span<float> staging) {
  if (options.road != DeviceRoad::kHost && host.size() > 1) {
    LOCKSTEP_ASSIGN_OR_RETURN(NcclVerdict verdict,
                              JoinNcclGroup({.connect_timeout = options.connect_timeout,
                                             .timeout = options.timeout,
                                             .cancel = options.cancel},
                                            host, sums, ranges));
    if (verdict.communicator) return std::move(verdict.communicator);
    if (options.road == DeviceRoad::kNccl) {
      const std::string message = fmt::format(
          "spec.strategy.communication: found NCCL, but {}; Auto sums through the hosts then",
          verdict.obstacle);
      return verdict.may_pass ? absl::UnavailableError(message)
                              : absl::FailedPreconditionError(message);
    }
    if (sums && sums->transfer->Native().handle != nullptr) {
      LogWarning("the GPUs' gradients are summed through the hosts, not by NCCL",
                 {{"reason", verdict.obstacle}});
    }
  }
  if (!sums) return nullptr;
  return MakeStagedCommunicator(host, sums->memory, staging);
}

}  // namespace lockstep::train
