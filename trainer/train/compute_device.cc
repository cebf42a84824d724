#include "trainer/train/compute_device.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/cord.h"
#include "base/folder_entries.h"
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

// Returns true for "nvidia0", and false for "nvidiactl", "nvidia-uvm" and the like.
bool IsGpuFile(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  if (!name.starts_with(kPrefix) || name == kPrefix) return false;
  name.remove_prefix(kPrefix.size());
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

// Returns how many GPUs a process of this container could ever see.
int GpusGiven(const std::filesystem::path& files) {
  int count = 0;
  for (const std::filesystem::path& file : PathsIn(files)) {
    if (IsGpuFile(file.filename().string())) ++count;
  }
  // The device plugin's list of what the container gets.
  const char* visible = std::getenv("NVIDIA_VISIBLE_DEVICES");
  const bool is_sliced = visible != nullptr && std::string_view(visible).starts_with("MIG-");
  return is_sliced ? std::min(count, 1) : count;
}

}  // namespace

bool ComputesOnGpu(const Identity& identity) {
  const bool is_worker_of_servers =
      identity.Traits().has_parameter_servers && identity.role != api::Role::kEvaluator;
  return identity.gpus > 0 && !is_worker_of_servers;
}

BackendOptions DeviceOf(const Identity& identity, int threads, const std::filesystem::path& files) {
  if (!ComputesOnGpu(identity)) {
    if (identity.gpus > 0) {
      LogWarning("workers of parameter servers compute on the CPU yet: the pod's GPUs are idle",
                 {{"gpus", identity.gpus}});
    }
    return BackendOptions{.threads = threads};
  }
  return BackendOptions{
      .name = "cuda",
      .threads = threads,
      .rounds_to_tf32 = identity.training.precision == api::Precision::kTF32,
      .device = identity.local_rank % identity.gpus,
      // Those that nobody computes on may be missing: where GPUs are shared, a
      // pod's shares may be of the same one.
      .devices = std::min({identity.gpus, identity.Processes(), GpusGiven(files)})};
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
