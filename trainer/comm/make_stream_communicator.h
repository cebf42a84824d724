// Selects how gradients in device memory are summed: between the GPUs by NCCL, or through the
// hosts.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/gradient_reducer.h"
#include "trainer/comm/stream_communicator.h"

namespace lockstep::train {

enum class DeviceRoad { kHost, kNcclIfPossible, kNccl };

struct StreamCommunicatorOptions {
  DeviceRoad road = DeviceRoad::kNcclIfPossible;  // the same on all ranks
  Duration connect_timeout = std::chrono::seconds(30);
  Duration timeout = std::chrono::seconds(30);  // for each wait for a peer afterwards, of NCCL
  // A stop request acts as Abort() of the result, even while it is being created.
  std::stop_token cancel = {};
};

// Every member of `host` calls it, if there is more than one. Returns null if `sums` is absent:
// then this rank's gradients are in host memory, which no other road reaches. `ranges`: what a step
// will sum of the memory, whose content is lost. `staging`: see MakeStagedCommunicator. Requires:
// `host`, the memory and the streams outlive the result. FailedPrecondition: road is kNccl, and a
// member lacks what NCCL needs. Unavailable: road is kNccl, and NCCL does not connect all members.
// Other errors are those of `host`.
absl::StatusOr<std::unique_ptr<StreamCommunicator>> MakeStreamCommunicator(
    const StreamCommunicatorOptions& options, Communicator& host,
    const std::optional<DeviceSums>& sums, std::span<const GradientReducer::Bucket> ranges,
    std::span<float> staging);

}  // namespace lockstep::train
