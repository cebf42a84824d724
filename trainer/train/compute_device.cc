#include "trainer/train/compute_device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "base/log.h"
#include "trainer/backend/device_missing.h"
#include "trainer/backend/out_of_memory.h"

namespace lockstep::train {
namespace {

constexpr char kGone[] = "lockstep.dev/device-gone";  // the payload of a status

absl::Status GoneError(const DeviceGone& error) {
  absl::Status status = absl::UnavailableError(error.what());
  status.SetPayload(kGone, absl::Cord());
  return status;
}

}  // namespace

bool ComputesOnGpu(const Identity& identity) {
  const bool is_worker_of_servers =
      identity.Traits().has_parameter_servers && identity.role != api::Role::kEvaluator;
  return identity.gpus > 0 && !is_worker_of_servers;
}

BackendOptions DeviceOf(const Identity& identity, int threads) {
  if (!ComputesOnGpu(identity)) {
    if (identity.gpus > 0) {
      LogWarning("workers of parameter servers compute on the CPU yet: the pod's GPUs are idle",
                 {{"gpus", identity.gpus}});
    }
    return BackendOptions{.threads = threads};
  }
  return BackendOptions{.name = "cuda",
                        .threads = threads,
                        .rounds_to_tf32 = identity.training.precision == api::Precision::kTF32,
                        .device = identity.local_rank % identity.gpus,
                        // Those that nobody computes on may be missing: where GPUs are shared, a
                        // pod's shares may be of the same one.
                        .devices = std::min(identity.gpus, identity.Processes())};
}

absl::StatusOr<std::unique_ptr<Backend>> OpenDevice(const BackendOptions& options,
                                                    bool falls_back_to_cpu,
                                                    const BackendMaker& make) {
  try {
    return make(options);
  } catch (const NotBuiltForDevice& error) {
    if (!falls_back_to_cpu) return absl::InvalidArgumentError(error.what());
    LogWarning("computing on the CPU: the pod's GPUs are idle", {{"reason", error.what()}});
    return make({.threads = options.threads});
  } catch (const DeviceMissing& error) {
    return absl::InvalidArgumentError(error.what());
  } catch (const DeviceGone& error) {
    return GoneError(error);
  } catch (const OutOfMemory& error) {
    return absl::ResourceExhaustedError(error.what());
  } catch (const DeviceError& error) {
    return absl::UnavailableError(error.what());
  }
}

bool IsDeviceGone(const absl::Status& status) {
  return status.GetPayload(kGone).has_value();
}

}  // namespace lockstep::train
