// Determines whether all members of a group compute on GPUs of their own and have NCCL; if so,
// connects them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/gradient_reducer.h"
#include "trainer/comm/stream_communicator.h"

namespace lockstep::train {

struct NcclOptions {
  Duration connect_timeout = std::chrono::seconds(30);  // for all that NCCL does to connect
  Duration timeout = std::chrono::seconds(30);          // for each wait for a peer afterwards
  std::stop_token cancel = {};  // a stop request acts as StreamCommunicator::Abort
};

struct NcclVerdict {
  std::unique_ptr<StreamCommunicator> communicator;  // null if any member cannot; same on all ranks
  std::string obstacle;                              // if null: the reason of the first such rank
  bool may_pass = false;  // if null: true if all could, but failed to connect
};

// Every member of `host` calls it, if there is more than one. `sums`: where this rank's gradients
// lie, which are overwritten; absent: in host memory. `ranges`: what a step will sum. On failure
// there is no verdict; returns the error of `host`.
absl::StatusOr<NcclVerdict> JoinNcclGroup(const NcclOptions& options, Communicator& host,
                                          const std::optional<DeviceSums>& sums,
                                          std::span<const GradientReducer::Bucket> ranges);

}  // namespace lockstep::train
